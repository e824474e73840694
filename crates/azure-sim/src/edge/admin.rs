//! The admin API: what happened, what is left over, the clock. Plain HTTP on a port of its own.

use crate::wire::Call;
use crate::wire::Reply;
use crate::world::World;
use http::StatusCode;
use jiff::SignedDuration;
use serde_json::json;

pub fn serve(world: &World, call: &Call) -> Reply {
    match (call.method.as_str(), call.path.trim_matches('/')) {
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
        ("POST", "keys/rotate") => match world.keys.rotate() {
            Ok(()) => Reply::ok(json!({})),
            Err(e) => Reply::json(StatusCode::INTERNAL_SERVER_ERROR, json!({"error": e.to_string()})),
        },
        _ => Reply::json(StatusCode::NOT_FOUND, json!({"error": "unknown"})),
    }
}
