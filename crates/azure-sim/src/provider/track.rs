//! What Resource Manager knows of resources that providers elsewhere hold.

use crate::entra::Caller;
use crate::kinds;
use crate::provider::{Forward, headers};
use crate::state::{Key, Phase, Record, State};
use crate::wire::{Call, Reply};
use crate::world::World;
use arm::{ErrorDetail, ResourceId};
use bytes::Bytes;
use http::{HeaderMap, Method, Response, StatusCode};
use jiff::Timestamp;
use serde_json::{Map, Value};
use std::sync::{Arc, Weak};
use std::time::Duration;

/// What of a resource is kept: what `resources` lists.
const KEPT: [&str; 7] = ["location", "tags", "sku", "kind", "identity", "zones", "managedBy"];

/// Notes what an answer means for what exists.
pub fn answered(world: &Arc<World>, f: &Forward, call: &Call, answer: &Response<Bytes>, now: Timestamp) {
    let Some(id) = &f.id else { return };
    let (status, key) = (answer.status(), id.key().clone());
    let known = world.look(|s| s.get(&key).is_some());
    let done = match call.method {
        Method::PUT | Method::PATCH if status.is_success() => {
            let body: Option<Value> = serde_json::from_slice(answer.body()).ok();
            let body = body.filter(Value::is_object).or_else(|| serde_json::from_slice(&call.body).ok());
            match body {
                // Without a location it is a proxy resource, of which Resource Manager knows nothing.
                Some(b) if known || b.get("location").is_some() => {
                    world.change(|s| keep(s, id, &b, &f.caller, &f.version, now))
                }
                _ => return,
            }
        }
        Method::DELETE if known && status == StatusCode::ACCEPTED => {
            let marked = world.change(|s| mark(s, &key, Phase::Deleting));
            watch(world, id.clone());
            marked
        }
        Method::DELETE if known && status.is_success() => world.change(|s| s.remove(&key, now)),
        Method::GET if known && status == StatusCode::NOT_FOUND => world.change(|s| s.remove(&key, now)),
        _ => return,
    };
    if let Err(error) = done {
        tracing::error!(%error, %id, "what a provider did cannot be remembered");
    }
}

fn keep(state: &mut State, id: &ResourceId, body: &Value, caller: &Caller, version: &str, now: Timestamp) {
    let old = state.get(id.key()).cloned();
    let mut doc = Map::new();
    for field in KEPT {
        let value = body.get(field).or_else(|| old.as_ref()?.doc.get(field));
        if let Some(v) = value.filter(|v| !v.is_null()) {
            doc.insert(field.to_owned(), v.clone());
        }
    }
    let made_by = old.as_ref().and_then(|o| o.doc.get("createdBy").cloned());
    doc.insert("createdBy".into(), made_by.unwrap_or_else(|| caller.client_id.as_str().into()));
    doc.insert("apiVersion".into(), version.into());
    let by: Arc<str> = caller.object_id.as_str().into();
    let old = old.as_deref();
    let id = old.map_or_else(|| id.clone(), |o| o.id.clone());
    state.put(Record::new(id, kinds::proxied_kind(), doc, by, now).since(old), Vec::new());
}

fn mark(state: &mut State, key: &str, phase: Phase) {
    if let Some(r) = state.get(key).cloned() {
        let mut r = (*r).clone();
        r.phase = phase;
        state.replace(r);
    }
}

/// How long between two looks at a provider; the first ones come sooner.
fn pause(tries: u32) -> Duration {
    Duration::from_millis((20_u64 << tries.min(7)).min(2000))
}

/// Asks about a resource until it is gone, then forgets it.
fn watch(world: &Arc<World>, id: ResourceId) {
    let (weak, stop) = (Arc::downgrade(world), world.stop.clone());
    tokio::spawn(async move {
        let gone = tokio::select! {
            () = stop.cancelled() => return,
            gone = until_gone(&weak, &id) => gone,
        };
        let Some(world) = weak.upgrade() else { return };
        let done = match gone {
            true => {
                let at = world.now();
                world.change(|s| s.remove(id.key(), at))
            }
            false => world.change(|s| mark(s, id.key(), Phase::Succeeded)),
        };
        if let Err(error) = done {
            tracing::error!(%error, %id, "what a provider did cannot be remembered");
        }
    });
}

/// Whether a deletion under way ended well.
async fn until_gone(world: &Weak<World>, id: &ResourceId) -> bool {
    for tries in 0.. {
        tokio::time::sleep(pause(tries)).await;
        let Some(world) = world.upgrade() else { return false };
        match ask(&world, id, &Method::GET).await {
            Some((StatusCode::NOT_FOUND | StatusCode::NO_CONTENT, _)) => return true,
            Some((status, body)) if status.is_success() => {
                let state = body["properties"]["provisioningState"].as_str().unwrap_or_default();
                if state.eq_ignore_ascii_case("Failed") || state.eq_ignore_ascii_case("Canceled") {
                    return false;
                }
            }
            // Down or refusing: it may come back.
            _ => {}
        }
    }
    false
}

/// Asks a provider as Resource Manager itself.
async fn ask(world: &Arc<World>, id: &ResourceId, method: &Method) -> Option<(StatusCode, Value)> {
    let provider = world.providers.find(id.namespace()?)?;
    let version = world.look(|s| {
        s.get(id.key()).and_then(|r| r.doc.get("apiVersion")?.as_str().map(str::to_owned)).unwrap_or_default()
    });
    let caller = world.own_caller();
    let path = format!("{id}?api-version={version}");
    let call = Call {
        method: method.clone(),
        path: id.as_str().to_owned(),
        query: Vec::new(),
        headers: HeaderMap::new(),
        body: Bytes::new(),
        base: String::new(),
    };
    let correlation = world.uuid();
    let headers =
        headers::request(&call, &caller, &format!("https://management.azure.com{path}"), &correlation);
    let answer = world.providers.send(provider, method, &path, &headers, Bytes::new()).await.ok()?;
    Some((answer.status(), serde_json::from_slice(answer.body()).unwrap_or_default()))
}

/// A group that is being deleted, with the operation that waits for it.
#[derive(Clone, Debug)]
pub struct Drain {
    pub group: Key,
    pub operation: Arc<str>,
}

/// Deletes what providers hold in a group, then lets the group's own deletion end.
pub fn drain(world: &Arc<World>, drain: Drain) {
    let (weak, stop) = (Arc::downgrade(world), world.stop.clone());
    tokio::spawn(async move {
        let result = tokio::select! {
            () = stop.cancelled() => return,
            result = empty(&weak, &drain.group) => result,
        };
        let Some(world) = weak.upgrade() else { return };
        let now = world.now();
        let done = world.change(|s| match result {
            Ok(()) => s.end_at(&drain.operation, now),
            Err(why) => s.fail(&drain.operation, &drain.group, why, now),
        });
        if let Err(error) = done {
            tracing::error!(%error, "the end of a deletion cannot be remembered");
        }
    });
}

/// How often a provider may refuse before the group's deletion fails.
const REFUSALS: u32 = 20;

async fn empty(world: &Weak<World>, group: &Key) -> Result<(), ErrorDetail> {
    let mut refused = 0;
    let mut tries = 0;
    loop {
        let Some(now) = world.upgrade() else { return Ok(()) };
        // Children go with their parents.
        let next = now.look(|s| s.below(group).find(|r| kinds::is_proxied(r.kind)).map(|r| r.id.clone()));
        let Some(id) = next else { return Ok(()) };
        let answer = ask(&now, &id, &Method::DELETE).await;
        drop(now);
        let gone = match &answer {
            Some((StatusCode::ACCEPTED | StatusCode::CONFLICT, _)) => until_gone(world, &id).await,
            Some((status, _)) => status.is_success() || *status == StatusCode::NOT_FOUND,
            None => false,
        };
        if gone {
            let Some(now) = world.upgrade() else { return Ok(()) };
            if let Err(error) = now.change(|s| s.remove(id.key(), now.now())) {
                return Err(ErrorDetail::new("InternalServerError", error.to_string()));
            }
            (refused, tries) = (0, 0);
            continue;
        }
        // A provider that is down is waited for; one that refuses is not asked for ever.
        if answer.is_some() {
            refused += 1;
        }
        if refused >= REFUSALS {
            let name = group.rsplit('/').next().unwrap_or_default();
            return Err(ErrorDetail::new(
                "ResourceGroupDeletionBlocked",
                format!(
                    "Deletion of resource group '{name}' failed as resources with identifiers '{id}' could not be deleted."
                ),
            ));
        }
        tokio::time::sleep(pause(tries)).await;
        tries += 1;
    }
}

/// Goes on with what was under way when the process ended.
pub fn resume(world: &Arc<World>) {
    let (deleting, drains) = world.look(|s| {
        let deleting: Vec<ResourceId> = s
            .records
            .values()
            .filter(|r| kinds::is_proxied(r.kind) && r.phase == Phase::Deleting)
            .map(|r| r.id.clone())
            .collect();
        let drains: Vec<Drain> = s
            .running()
            .filter(|o| o.drains && o.due.is_none())
            .filter_map(|o| match &o.effect {
                crate::state::Effect::RemoveGroup(g) => {
                    Some(Drain { group: g.clone(), operation: o.id.clone() })
                }
                _ => None,
            })
            .collect();
        (deleting, drains)
    });
    deleting.into_iter().for_each(|id| watch(world, id));
    drains.into_iter().for_each(|d| drain(world, d));
    let registered = world.look(|s| {
        s.registrations
            .iter()
            .filter(|(_, word)| **word == "Registered")
            .map(|((s, ns), _)| (s.clone(), ns.clone()))
            .collect::<Vec<_>>()
    });
    for (subscription, ns) in registered {
        if world.providers.find(&ns).is_some() {
            announce(world, ns, subscription);
        }
    }
}

/// What registering and unregistering mean for a provider elsewhere.
pub fn registration(world: &Arc<World>, call: &Call, reply: &Reply) {
    if call.method != Method::POST || !reply.status.is_success() {
        return;
    }
    let words: Vec<&str> = call.path.trim_matches('/').split('/').collect();
    let ["subscriptions", s, "providers", ns, verb] = words.as_slice() else { return };
    if world.providers.find(ns).is_none() {
        return;
    }
    if verb.eq_ignore_ascii_case("register") {
        announce(world, (*ns).to_owned(), (*s).to_owned());
    } else if verb.eq_ignore_ascii_case("unregister") {
        world.providers.announced.lock().remove(&(ns.to_lowercase(), s.to_lowercase()));
        let (world, ns, s) = (world.clone(), (*ns).to_owned(), (*s).to_owned());
        tokio::spawn(async move {
            if let Some(p) = world.providers.find(&ns) {
                world.providers.lifecycle(p, &s, world.tenant(), "Unregistered", world.now()).await;
            }
        });
    }
}

/// Tells a provider of a registration, until it listens.
fn announce(world: &Arc<World>, namespace: String, subscription: String) {
    let (weak, stop) = (Arc::downgrade(world), world.stop.clone());
    tokio::spawn(async move {
        for tries in 0..10 {
            let Some(world) = weak.upgrade() else { return };
            let Some(provider) = world.providers.find(&namespace) else { return };
            let key = (namespace.to_lowercase(), subscription.to_lowercase());
            world.providers.announce(provider, &subscription, world.tenant(), world.now()).await;
            if world.providers.announced.lock().contains(&key) {
                return;
            }
            drop(world);
            tokio::select! {
                () = stop.cancelled() => return,
                () = tokio::time::sleep(pause(tries)) => {}
            }
        }
    });
}
