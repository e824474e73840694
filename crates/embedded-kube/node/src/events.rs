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
    /// What went wrong, and of what went well one for each time that a pod has got further: all that began together is
    /// in its text. Three for each container are more than half of what is written about a pod that starts at once.
    Brief,
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
    let together = (kept == Events::Brief).then(|| together(notes)).flatten();
    for note in notes.iter().filter(|n| kept != Events::Brief || n.warning).chain(&together) {
        if kept == Events::None || (kept == Events::Warnings && !note.warning) {
            continue;
        }
        if let Err(e) = one(access, pod, node, note).await {
            tracing::debug!(error = %e, reason = note.reason, "an event was not recorded");
        }
    }
}

/// What began, as one; what prepared it is not told.
fn together(notes: &[Note]) -> Option<Note> {
    let mut told: Vec<&Note> = notes.iter().filter(|n| !n.warning && n.reason != "Pulled").collect();
    told.retain(|n| !matches!(n.reason, "Pulling" | "Created"));
    let (first, rest) = told.split_first()?;
    if rest.is_empty() {
        return Some((*first).clone());
    }
    const LONGEST: usize = 1000;
    let mut message = told.iter().map(|n| n.message.as_str()).collect::<Vec<_>>().join("; ");
    if message.len() > LONGEST {
        message.truncate(message.floor_char_boundary(LONGEST));
        message.push('…');
    }
    Some(Note { message, field_path: None, ..(*first).clone() })
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_begins_together_is_told_together() {
        let note = |reason, message: &str| Note {
            warning: false,
            reason,
            message: message.to_owned(),
            field_path: Some("spec.containers{a}".into()),
        };
        let notes = [note("Pulled", "p"), note("Created", "c"), note("Started", "Started container a")];
        assert_eq!(together(&notes), Some(notes[2].clone()));
        assert_eq!(together(&notes[..2]), None);
        let two = [&notes[..], &[note("Started", "Started container b")]].concat();
        let one = together(&two).unwrap();
        assert_eq!(
            (one.message.as_str(), one.field_path),
            ("Started container a; Started container b", None)
        );
    }
}
