//! Events: what `kubectl describe` shows of a controller's doings.
//!
//! The same thing said again of the same object is one event with a count, so an event's name follows from what
//! it says. Telling is a courtesy: when an event cannot be written, the work it tells of goes on.

use crate::objects::text;
use crate::tables;
use ek_meta::object;
use ek_server::Access;
use serde_json::{Value, json};

pub const NORMAL: &str = "Normal";
pub const WARNING: &str = "Warning";

/// Something to tell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    pub kind: &'static str,
    pub reason: &'static str,
    pub message: String,
}

impl Note {
    pub fn normal(reason: &'static str, message: impl Into<String>) -> Note {
        Note { kind: NORMAL, reason, message: message.into() }
    }

    pub fn warning(reason: &'static str, message: impl Into<String>) -> Note {
        Note { kind: WARNING, reason, message: message.into() }
    }
}

/// Where an event of an object lives.
fn home(about: &Value) -> &str {
    match object::namespace(about) {
        "" => "default",
        ns => ns,
    }
}

/// What an event is called follows from what it says.
fn name(component: &str, about: &Value, note: &Note) -> String {
    let said = format!("{}|{}|{}|{}|{component}", object::uid(about), note.kind, note.reason, note.message);
    let hash = xxhash_rust::xxh3::xxh3_64(said.as_bytes());
    // Room for the rest of the name.
    const LONGEST: usize = 230;
    let of = object::name(about);
    format!("{}.{hash:016x}", of.get(..LONGEST).unwrap_or(of).trim_end_matches(['-', '.']))
}

/// Tells of a state that lasts: said once, not at every look at it.
pub async fn tell_once(access: &Access, component: &'static str, about: &Value, note: &Note) {
    if access.entry(&tables::EVENTS, home(about), &name(component, about, note)).is_none() {
        tell(access, component, about, note).await;
    }
}

/// Tells of `about` in the name of `component`.
pub async fn tell(access: &Access, component: &'static str, about: &Value, note: &Note) {
    let now = access.timestamp();
    let namespace = home(about);
    let name = name(component, about, note);
    if access.entry(&tables::EVENTS, namespace, &name).is_some() {
        let again = |e: &mut Value| {
            e["count"] = json!(e["count"].as_i64().unwrap_or(1) + 1);
            e["lastTimestamp"] = json!(now);
            true
        };
        if access.update(&tables::EVENTS, namespace, &name, "", again).await.is_ok() {
            return;
        }
    }
    let mut involved = json!({
        "kind": about["kind"], "apiVersion": about["apiVersion"], "name": object::name(about),
        "uid": object::uid(about), "resourceVersion": object::resource_version(about),
    });
    if !text(about, "/metadata/namespace").is_empty() {
        involved["namespace"] = json!(namespace);
    }
    let event = json!({
        "apiVersion": "v1", "kind": "Event", "metadata": {"name": name, "namespace": namespace},
        "involvedObject": involved, "reason": note.reason, "message": note.message, "type": note.kind,
        "source": {"component": component}, "firstTimestamp": now, "lastTimestamp": now, "count": 1,
        "eventTime": null, "reportingComponent": component, "reportingInstance": "",
    });
    if let Err(e) = access.add(&tables::EVENTS, event).await {
        tracing::debug!(error = %e, reason = note.reason, "an event could not be written");
    }
}

/// Tells many things at once. Beyond the first few of a reason the rest become one, as a flood helps nobody.
pub async fn tell_all(access: &Access, component: &'static str, about: &Value, notes: &[Note]) {
    const FEW: usize = 10;
    let mut told: Vec<(&str, usize)> = Vec::new();
    for note in notes {
        let seen = match told.iter_mut().find(|(r, _)| *r == note.reason) {
            Some((_, n)) => {
                *n += 1;
                *n
            }
            None => {
                told.push((note.reason, 1));
                1
            }
        };
        if seen < FEW {
            tell(access, component, about, note).await;
        } else if seen == FEW {
            let message = format!("(combined from similar events): {}", note.message);
            tell(access, component, about, &Note { message, ..note.clone() }).await;
        }
    }
}
