//! What happens around a request's own work: latency, delays, answers in its place, connections that break.

use crate::entra::peek;
use crate::profile::Latency;
use crate::state::hash;
use crate::trouble::meet::{About, Due, Instead, Met, half_done};
use crate::wire::{Call, Reply};
use crate::world::World;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

/// Serves a request with everything that goes wrong with it. `None`: the connection breaks.
pub async fn around<F>(
    world: &Arc<World>,
    service: &str,
    call: Call,
    inner: impl FnOnce(Call, Due) -> F,
) -> Option<Reply>
where
    F: Future<Output = Reply>,
{
    let mut call = call;
    let met = meet(world, service, &call);
    if met.spoilt {
        let none = http::HeaderValue::from_static("Bearer expired");
        call.headers.insert(http::header::AUTHORIZATION, none);
    }
    pause(world, service, &call, &met).await;
    if let Some(forget) = met.rotate
        && let Err(error) = world.rotate_keys_and(forget)
    {
        tracing::error!(%error, "the keys were not rotated");
    }
    match met.instead {
        Some(Instead::Drop) => {
            world.note_trouble(&call, &Reply::empty(http::StatusCode::BAD_GATEWAY), &met.due);
            return None;
        }
        Some(Instead::Say(reply)) => {
            world.note_trouble(&call, &reply, &met.due);
            return Some(world.dressed(&call, *reply));
        }
        None => {}
    }
    // These write into the journal themselves.
    let writes = !matches!(service, "access" | "imds" | "msi");
    if !met.due.names.is_empty() && !writes {
        world.note_trouble(&call, &Reply::empty(http::StatusCode::OK), &met.due);
    }
    let (asked, due) = (met.due.partial.is_some().then(|| call.clone()), met.due.clone());
    let reply = inner(call, met.due).await;
    let reply = match asked {
        Some(call) => half_done(service, &due, &call, reply),
        None => reply,
    };
    (!met.drop_after).then_some(reply)
}

fn meet(world: &World, service: &str, call: &Call) -> Met {
    if world.trouble.is_quiet() {
        return Met::default();
    }
    let host = call.base.split("://").last().unwrap_or_default();
    let host = host.rsplit_once(':').map_or(host, |(h, _)| h);
    let principal = if world.trouble.asks_who() { bearer(world, call) } else { Vec::new() };
    world.trouble.meet(&About { service, host, call, principal }, world.seed(), world.pace())
}

/// Whom the token names, or the form that asks for one.
fn bearer(world: &World, call: &Call) -> Vec<String> {
    let token = call.header("authorization").and_then(|h| h.split_once(' ')).map(|(_, t)| t);
    let mut known: Vec<String> = Vec::new();
    if let Some((_, claims)) = token.and_then(peek) {
        known.extend(["oid", "appid"].iter().filter_map(|c| claims[*c].as_str().map(str::to_owned)));
    } else if let Some((_, id)) = url::form_urlencoded::parse(&call.body).find(|(k, _)| k == "client_id") {
        known.push(id.into_owned());
    }
    let names: Vec<String> = world.look(|s| {
        let of = |id: &String| s.directory.principal(id).or_else(|| s.directory.by_client(id));
        known.iter().filter_map(of).map(|p| p.name.clone()).collect()
    });
    known.extend(names);
    // A machine asks without a token: it is known by its number.
    known.extend(crate::edge::machine_of(call));
    known
}

async fn pause(world: &World, service: &str, call: &Call, met: &Met) {
    let pace = world.pace();
    if met.delay == 0 && !pace.has_latency() {
        return;
    }
    let (kind, _) = match service {
        "arm" => crate::gateway::about(&call.method, &call.path),
        _ => (String::new(), None),
    };
    let n = world.next_request();
    let bits = hash(world.seed(), &["latency", call.method.as_str(), &call.path, &n.to_string()]);
    let own = pace.latency(Latency::of(service, &call.method, &kind), bits);
    // A delay is of the world's time, not of the profile's: who asks for a second gets one.
    let wait = own + pace.for_client(met.delay as f64 / 1_000.0);
    if wait > Duration::ZERO {
        tokio::time::sleep(wait).await;
    }
}
