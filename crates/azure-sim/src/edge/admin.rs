//! The admin API: what happened, what is left over, the clock, forks. Plain HTTP on a port of its own.

use crate::edge::forks::{ForkError, Forks};
use crate::wire::{Call, Reply};
use crate::world::World;
use http::StatusCode;
use jiff::SignedDuration;
use serde_json::json;
use std::sync::Arc;

pub async fn serve(world: &World, forks: &Arc<Forks>, call: &Call) -> Reply {
    let failed = |why: String| Reply::json(StatusCode::INTERNAL_SERVER_ERROR, json!({"error": why}));
    let path = call.path.trim_matches('/');
    if let ("DELETE", Some(id)) = (call.method.as_str(), path.strip_prefix("forks/")) {
        return match forks.delete(id) {
            true => Reply::empty(StatusCode::NO_CONTENT),
            false => Reply::json(StatusCode::NOT_FOUND, json!({"error": format!("there is no fork '{id}'")})),
        };
    }
    match (call.method.as_str(), path) {
        ("GET", "forks") => Reply::ok(forks.list()),
        ("POST", "forks") => match forks.clone().make().await {
            Ok(body) => Reply::json(StatusCode::CREATED, body),
            Err(e @ ForkError::TooMany) => {
                Reply::json(StatusCode::TOO_MANY_REQUESTS, json!({"error": e.to_string()}))
            }
            Err(e) => failed(chain(&e)),
        },
        ("GET", "journal") => Reply::ok(json!({"value": world.journal()})),
        ("GET", "leaks") => Reply::ok(world.leaks()),
        ("GET", "least-privilege") => Reply::ok(world.least_privilege()),
        ("GET", "clock") => Reply::ok(json!({"now": world.now().to_string()})),
        ("POST", "clock/advance") => match call.query("seconds").and_then(|s| s.parse::<u32>().ok()) {
            Some(s) => {
                world.advance(SignedDuration::from_secs(i64::from(s)));
                Reply::ok(json!({"now": world.now().to_string()}))
            }
            None => Reply::json(StatusCode::BAD_REQUEST, json!({"error": "seconds= takes a whole number"})),
        },
        ("POST", "operations/finish") => Reply::ok(json!({"finished": world.finish_operations()})),
        ("POST", "keys/rotate") => match world.rotate_keys() {
            Ok(()) => Reply::ok(json!({})),
            Err(e) => failed(chain(&e)),
        },
        _ => Reply::json(StatusCode::NOT_FOUND, json!({"error": "unknown"})),
    }
}

/// An error with its causes.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(e) = next {
        text = format!("{text}: {e}");
        next = e.source();
    }
    text
}
