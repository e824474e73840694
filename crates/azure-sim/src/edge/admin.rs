//! The admin API: what happened, what is left over, the clock, forks. Plain HTTP on a port of its own.

use crate::edge::forks::{ForkError, Forks};
use crate::edge::trouble;
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
    if let Some(reply) = trouble::serve(world, call, path) {
        return reply;
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
        ("GET", "journal") => match journal(world, call).await {
            Ok(reply) => reply,
            Err(why) => Reply::json(StatusCode::BAD_REQUEST, json!({"error": why})),
        },
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
