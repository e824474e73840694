//! What is going on: requests, refusals, operations under way, faults that fired.

use crate::world::World;
use jiff::SignedDuration;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// Requests of the last so many seconds make the rate.
const WINDOW: i64 = 10;
const MAX_OPERATIONS: usize = 100;

pub fn top(world: &World) -> Value {
    let now = world.now();
    let since = now.checked_sub(SignedDuration::from_secs(WINDOW)).unwrap_or(now);
    let (mut codes, mut errors): (BTreeMap<String, u64>, BTreeMap<String, u64>) = Default::default();
    let (mut recent, mut throttles, mut faulty) = (0_u64, 0_u64, 0_u64);
    let total = world.each_entry(|at, status, error, fault| {
        *codes.entry(status.to_string()).or_default() += 1;
        if let Some(e) = error {
            *errors.entry(e.to_owned()).or_default() += 1;
        }
        recent += u64::from(at >= since);
        throttles += u64::from(status == 429);
        faulty += u64::from(fault);
    });
    let (count, operations, next) = world.look(|s| {
        let mut running: Vec<_> = s.running().cloned().collect();
        running.sort_by_key(|o| (o.due.is_none(), o.due, o.serial));
        let shown: Vec<Value> = running
            .iter()
            .take(MAX_OPERATIONS)
            .map(|o| {
                let due_in = o.due.map(|d| d.duration_since(now).as_secs_f64());
                json!({
                    "id": &*o.id, "name": &*o.name, "about": o.effect.about(), "due": o.due.map(|d| d.to_string()),
                    "dueInSeconds": due_in,
                })
            })
            .collect();
        (running.len(), shown, s.next_event(now))
    });
    let faults: Vec<Value> = world
        .trouble
        .report()
        .into_iter()
        .map(|r| json!({"name": r["name"], "met": r["met"], "fired": r["fired"]}))
        .collect();
    json!({
        "now": now.to_string(), "clock": world.clock_shown(), "profile": world.pace().profile.name(),
        "requests": total, "requestsPerSecond": recent as f64 / WINDOW as f64, "windowSeconds": WINDOW,
        "byStatus": codes, "byError": errors, "throttled": throttles, "faulty": faulty,
        "operationsInFlight": count, "operations": operations, "nextEvent": next.map(|t| t.to_string()),
        "faults": faults, "value": [],
    })
}
