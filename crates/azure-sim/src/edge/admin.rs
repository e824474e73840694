//! The admin API: what happened, what is left over, the clock, forks. Plain HTTP on a port of its own.

use crate::edge::forks::{ForkError, Forks};
use crate::edge::trouble;
use crate::machines::{Boot, BootError};
use crate::wire::{Call, Reply};
use crate::world::World;
use http::StatusCode;
use serde_json::json;
use std::sync::Arc;
use std::time::Duration;

/// How long a reader of the journal may wait for news, in seconds.
const MAX_WAIT: u64 = 60;

pub async fn serve(world: &World, forks: &Arc<Forks>, call: &Call) -> Reply {
    let failed = |why: String| Reply::json(StatusCode::INTERNAL_SERVER_ERROR, json!({"error": why}));
    let path = call.path.trim_matches('/');
    if let ("DELETE", Some(id)) = (call.method.as_str(), path.strip_prefix("forks/")) {
        return match forks.delete(id) {
            true => Reply::empty(StatusCode::NO_CONTENT),
            false => Reply::json(StatusCode::NOT_FOUND, json!({"error": format!("there is no fork '{id}'")})),
        };
    }
    if let Some(host) = path.strip_prefix("front-doors/") {
        return front_door(world, call, host);
    }
    if let Some(reply) = trouble::serve(world, call, path) {
        return reply;
    }
    match (call.method.as_str(), path) {
        ("GET", "front-doors") => {
            let all: serde_json::Map<String, serde_json::Value> =
                world.front_doors().into_iter().map(|(h, c)| (h, json!(c))).collect();
            Reply::ok(json!({"value": all}))
        }
        ("GET", "forks") => Reply::ok(forks.list()),
        ("POST", "forks") => match forks.clone().make().await {
            Ok(body) => Reply::json(StatusCode::CREATED, body),
            Err(e @ ForkError::TooMany) => {
                Reply::json(StatusCode::TOO_MANY_REQUESTS, json!({"error": e.to_string()}))
            }
            Err(e) => failed(chain(&e)),
        },
        ("GET", "journal") => match journal(world, call).await {
            Ok(reply) => reply,
            Err(why) => Reply::json(StatusCode::BAD_REQUEST, json!({"error": why})),
        },
        ("GET", "machines") => Reply::ok(json!({"value": world.machines()})),
        ("GET", "machines/events") => match machine_events(world, call).await {
            Ok(reply) => reply,
            Err(why) => Reply::json(StatusCode::BAD_REQUEST, json!({"error": why})),
        },
        ("POST", "machines/boot") => boot(world, call),
        ("POST", "machines/runtime") => awaited(world, call),
        ("POST", "machines/quota") => quota(world, call),
        ("GET", "leaks") => Reply::ok(world.leaks()),
        ("GET", "least-privilege") => Reply::ok(world.least_privilege()),
        ("POST", "operations/finish") => Reply::ok(json!({"finished": world.finish_operations()})),
        ("POST", "keys/rotate") => match world.rotate_keys() {
            Ok(()) => Reply::ok(json!({})),
            Err(e) => failed(chain(&e)),
        },
        _ => Reply::json(StatusCode::NOT_FOUND, json!({"error": "unknown"})),
    }
}

/// `PUT` and `DELETE` of a front door by its host.
fn front_door(world: &World, call: &Call, host: &str) -> Reply {
    let refuse = |status, why: String| Reply::json(status, json!({"error": why}));
    match call.method.as_str() {
        "PUT" => match serde_json::from_slice(&call.body) {
            Ok(config) => match world.set_front_door(host, config) {
                Ok(()) => Reply::ok(json!({"host": host})),
                Err(e) => refuse(StatusCode::BAD_REQUEST, chain(&e)),
            },
            Err(e) => refuse(StatusCode::BAD_REQUEST, format!("the body is not a front door: {e}")),
        },
        "DELETE" => match world.remove_front_door(host) {
            Ok(true) => Reply::empty(StatusCode::NO_CONTENT),
            Ok(false) => refuse(StatusCode::NOT_FOUND, format!("there is no front door '{host}'")),
            Err(e) => refuse(StatusCode::INTERNAL_SERVER_ERROR, chain(&e)),
        },
        _ => refuse(StatusCode::METHOD_NOT_ALLOWED, "a front door is PUT or DELETEd".to_owned()),
    }
}

fn number(call: &Call, name: &str, absent: u64) -> Result<u64, String> {
    match call.query(name) {
        None => Ok(absent),
        Some(text) => text.parse().map_err(|_| format!("{name}= takes a whole number, not '{text}'")),
    }
}

/// `?after=N` the entries after that one, `?limit=N` the newest of them, `?principal=` those of one, by name or
/// id, `?wait=SECONDS` until there is one.
async fn journal(world: &World, call: &Call) -> Result<Reply, String> {
    let after = number(call, "after", 0)?;
    let limit = usize::try_from(number(call, "limit", u64::MAX)?).unwrap_or(usize::MAX);
    let wait = Duration::from_secs(number(call, "wait", 0)?.min(MAX_WAIT));
    let principal = call.query("principal");
    let deadline = tokio::time::Instant::now() + wait;
    let mut news = world.journal_news();
    loop {
        news.borrow_and_update();
        let page = world.journal_page(after, limit, principal);
        let empty = page["value"].as_array().is_none_or(Vec::is_empty);
        if !empty || !matches!(tokio::time::timeout_at(deadline, news.changed()).await, Ok(Ok(()))) {
            return Ok(Reply::ok(page));
        }
    }
}

/// `?after=N` what happened after that, `?wait=SECONDS` until something did.
async fn machine_events(world: &World, call: &Call) -> Result<Reply, String> {
    let after = number(call, "after", 0)?;
    let wait = Duration::from_secs(number(call, "wait", 0)?.min(MAX_WAIT));
    let page = world.next_machine_events(after, wait).await;
    serde_json::to_value(page).map(Reply::ok).map_err(|e| e.to_string())
}

fn object(call: &Call) -> Result<serde_json::Value, Reply> {
    match call.json() {
        Ok(Some(v)) if v.is_object() => Ok(v),
        _ => Err(Reply::json(StatusCode::BAD_REQUEST, json!({"error": "the body is a JSON object"}))),
    }
}

fn done(result: Result<(), impl std::error::Error>) -> Reply {
    match result {
        Ok(()) => Reply::ok(json!({})),
        Err(e) => Reply::json(StatusCode::INTERNAL_SERVER_ERROR, json!({"error": chain(&e)})),
    }
}

/// `{"machine": id or vmId, "outcome": "ready"|"failed"|"running", "code"?, "message"?, "log"?}`.
fn boot(world: &World, call: &Call) -> Reply {
    let body = match object(call) {
        Ok(b) => b,
        Err(reply) => return reply,
    };
    let text = |f: &str| body[f].as_str();
    let outcome = match text("outcome") {
        Some("ready") => Boot::Ready,
        Some("running") => Boot::Running,
        Some("failed") => Boot::Failed {
            code: text("code").unwrap_or("OSProvisioningClientError").to_owned(),
            message: text("message").unwrap_or("OS provisioning failed.").to_owned(),
        },
        _ => {
            let why = "outcome is 'ready', 'failed' or 'running'";
            return Reply::json(StatusCode::BAD_REQUEST, json!({"error": why}));
        }
    };
    match world.report_boot(text("machine").unwrap_or_default(), &outcome, text("log")) {
        Err(e @ BootError::Unknown(_)) => Reply::json(StatusCode::NOT_FOUND, json!({"error": e.to_string()})),
        other => done(other),
    }
}

/// `{"waits": true}`: machines are ready when a runtime says so.
fn awaited(world: &World, call: &Call) -> Reply {
    match object(call).map(|b| b["waits"].as_bool()) {
        Ok(Some(waits)) => done(world.await_boots(waits)),
        Ok(None) => Reply::json(StatusCode::BAD_REQUEST, json!({"error": "waits is true or false"})),
        Err(reply) => reply,
    }
}

/// `{"location", "name", "limit", "subscription"?}`.
fn quota(world: &World, call: &Call) -> Reply {
    let body = match object(call) {
        Ok(b) => b,
        Err(reply) => return reply,
    };
    let subscription = body["subscription"].as_str().unwrap_or_else(|| world.subscription());
    match (body["location"].as_str(), body["name"].as_str(), body["limit"].as_u64()) {
        (Some(l), Some(n), Some(limit)) => done(world.set_quota(subscription, l, n, limit)),
        _ => Reply::json(StatusCode::BAD_REQUEST, json!({"error": "location, name and limit are needed"})),
    }
}

/// An error with its causes.
pub fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(e) = next {
        text = format!("{text}: {e}");
        next = e.source();
    }
    text
}
