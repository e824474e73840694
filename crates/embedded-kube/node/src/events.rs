//! Events about pods, counted instead of repeated.

use crate::pod::Note;
use crate::stage::mix;
use crate::tables;
use ek_meta::{Status, object};
use ek_server::Access;
use serde_json::{Value, json};

/// Which events a node writes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Events {
    #[default]
    All,
    /// Only what went wrong.
    Warnings,
    None,
}

/// The event as an object; the same note about the same pod has the same name.
pub(crate) fn event(pod: &Value, note: &Note, node: &str, now: &str) -> Value {
    let field = note.field_path.as_deref().unwrap_or_default();
    // Events of the same second are shown in the order of their names: the story of a container stays one.
    let rank = match note.reason {
        "Pulling" => 1,
        "Pulled" => 2,
        "Created" => 3,
        "Started" => 4,
        "Killing" => 9,
        _ => 5,
    };
    let id = mix(1, &[object::uid(pod), note.reason, field, &note.message], 0) >> 4;
    let mut involved = json!({"kind": "Pod", "apiVersion": "v1", "namespace": object::namespace(pod),
        "name": object::name(pod), "uid": object::uid(pod), "resourceVersion": object::resource_version(pod)});
    if !field.is_empty() {
        involved["fieldPath"] = json!(field);
    }
    json!({
        "apiVersion": "v1", "kind": "Event",
        "metadata": {"name": format!("{}.{rank}{id:015x}", object::name(pod)), "namespace": object::namespace(pod)},
        "involvedObject": involved, "reason": note.reason, "message": note.message,
        "type": if note.warning { "Warning" } else { "Normal" },
        "source": {"component": "kubelet", "host": node},
        "firstTimestamp": now, "lastTimestamp": now, "count": 1,
        "reportingComponent": "kubelet", "reportingInstance": node,
    })
}

/// Writes them one after the other: their order is the story. What cannot be written is not worth a failure.
pub(crate) async fn record(access: &Access, kept: Events, pod: &Value, node: &str, notes: &[Note]) {
    for note in notes {
        if kept == Events::None || (kept == Events::Warnings && !note.warning) {
            continue;
        }
        if let Err(e) = one(access, pod, node, note).await {
            tracing::debug!(error = %e, reason = note.reason, "an event was not recorded");
        }
    }
}

async fn one(access: &Access, pod: &Value, node: &str, note: &Note) -> Result<(), Status> {
    let now = access.timestamp();
    let event = event(pod, note, node, &now);
    let (ns, name) = (object::namespace(&event).to_owned(), object::name(&event).to_owned());
    if access.entry(&tables::EVENTS, &ns, &name).is_some() {
        let again = |e: &mut Value| {
            e["count"] = json!(e["count"].as_i64().unwrap_or(1) + 1);
            e["lastTimestamp"] = json!(now);
            true
        };
        return access.update(&tables::EVENTS, &ns, &name, "", again).await.map(|_| ());
    }
    access.add(&tables::EVENTS, event).await.map(|_| ())
}
