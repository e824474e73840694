//! The part of the admin API that makes trouble and moves the clock.

use crate::edge::admin::chain;
use crate::trouble::{PRESETS, preset, read, top};
use crate::wire::{Call, Reply};
use crate::world::World;
use http::StatusCode;
use jiff::SignedDuration;
use serde_json::{Value, json};

fn bad(why: impl Into<String>) -> Reply {
    Reply::json(StatusCode::BAD_REQUEST, json!({"error": why.into()}))
}

/// `None`: it is about something else.
pub fn serve(world: &World, call: &Call, path: &str) -> Option<Reply> {
    let reply = match (call.method.as_str(), path) {
        ("GET", "faults") => Reply::ok(json!({"value": world.faults()})),
        ("POST", "faults") => add(world, call),
        ("DELETE", "faults") => Reply::ok(json!({"removed": world.clear_faults()})),
        ("GET", "faults/presets") => {
            let rules = |name| preset(name).unwrap_or_default();
            let all =
                PRESETS.iter().map(|(n, about, _)| json!({"name": n, "about": about, "rules": rules(n)}));
            Reply::ok(json!({"value": all.collect::<Vec<_>>()}))
        }
        ("GET", "clock") => Reply::ok(world.clock_shown()),
        ("POST", "clock") => set(world, call),
        ("POST", "clock/advance") => advance(world, call),
        ("POST", "clock/next") => match world.advance_to_next() {
            Some(_) => Reply::ok(world.clock_shown()),
            None => {
                Reply::json(StatusCode::CONFLICT, json!({"error": "nothing is going to happen by itself"}))
            }
        },
        ("GET", "top") => Reply::ok(top(world)),
        ("DELETE", _) => {
            let name = path.strip_prefix("faults/")?;
            match world.remove_fault(name) {
                true => Reply::ok(json!({"removed": 1})),
                false => {
                    let why = format!("there is no rule '{name}'");
                    Reply::json(StatusCode::NOT_FOUND, json!({"error": why}))
                }
            }
        }
        _ => return None,
    };
    Some(reply)
}

/// Rules in the body, or `?preset=` by name.
fn add(world: &World, call: &Call) -> Reply {
    let rules = match call.query("preset") {
        Some(name) => match preset(name) {
            Some(rules) => rules,
            None => return bad(format!("there is no preset '{name}': GET /faults/presets lists them")),
        },
        None => match read(&call.body) {
            Ok(rules) => rules,
            Err(e) => return bad(chain(&e)),
        },
    };
    match world.add_faults(rules) {
        Ok(names) => Reply::json(StatusCode::CREATED, json!({"added": names})),
        Err(e) => bad(chain(&e)),
    }
}

/// `?scale=` or `?mode=` (virtual, wall), and `?advance=` seconds; the same as fields of a JSON body.
fn set(world: &World, call: &Call) -> Reply {
    let body: Value = match call.body.is_empty() {
        true => json!({}),
        false => match serde_json::from_slice(&call.body) {
            Ok(v @ Value::Object(_)) => v,
            _ => return bad("the body is not a JSON object"),
        },
    };
    let text = |name: &str| match call.query(name) {
        Some(v) => Some(v.to_owned()),
        None => match &body[name] {
            Value::Null => None,
            Value::String(s) => Some(s.clone()),
            other => Some(other.to_string()),
        },
    };
    let scale = match (text("mode").as_deref(), text("scale")) {
        (Some("virtual"), None) => Some(0.0),
        (Some("wall"), None) => Some(1.0),
        (Some("scaled") | None, Some(s)) => match s.parse::<f64>() {
            Ok(n) => Some(n),
            Err(_) => return bad(format!("scale= takes a number, not '{s}'")),
        },
        (None, None) => None,
        (Some(mode), _) => {
            return bad(format!("mode= is virtual, wall, or scaled with a scale, not '{mode}'"));
        }
    };
    let ahead = match text("advance").map(|s| (s.parse::<u32>(), s)) {
        Some((Ok(s), _)) => Some(s),
        Some((Err(_), s)) => return bad(format!("advance= takes whole seconds, not '{s}'")),
        None => None,
    };
    if scale.is_none() && ahead.is_none() {
        return bad("say what to do: mode=, scale= or advance=");
    }
    if let Some(scale) = scale
        && let Err(e) = world.run_clock_at(scale)
    {
        return bad(e.to_string());
    }
    if let Some(s) = ahead {
        world.advance(SignedDuration::from_secs(i64::from(s)));
    }
    Reply::ok(world.clock_shown())
}

fn advance(world: &World, call: &Call) -> Reply {
    match call.query("seconds").and_then(|s| s.parse::<u32>().ok()) {
        Some(s) => {
            world.advance(SignedDuration::from_secs(i64::from(s)));
            Reply::ok(world.clock_shown())
        }
        None => bad("seconds= takes a whole number"),
    }
}
