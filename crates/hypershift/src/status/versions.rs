//! Versions: what the guest reports, or what is known before it does.

use super::Seen;
use apis::version::Version;
use jiff::Timestamp;
use serde_json::{Value, json};

/// How many entries are kept before the guest reports.
const KEPT: usize = 100;

/// Writes `version` and `controlPlaneVersion`.
pub fn write(status: &mut Value, seen: &Seen<'_>, plane: &Value, generation: Option<i64>, now: Timestamp) {
    if !plane["controlPlaneVersion"].is_null() {
        status["controlPlaneVersion"] = plane["controlPlaneVersion"].clone();
    }
    if plane["versionStatus"].is_object() {
        let mut version = plane["versionStatus"].clone();
        // A merge patch cannot say null; nothing available is an empty list.
        if !version["availableUpdates"].is_array() {
            version["availableUpdates"] = json!([]);
        }
        status["version"] = version;
        return;
    }
    let Some(Ok(payload)) = seen.release else { return };
    let image = &seen.hc.spec.release.image;
    let mut history = status["version"]["history"].as_array().cloned().unwrap_or_default();
    if history.first().is_none_or(|e| e["image"] != image.as_str()) {
        let started = Timestamp::from_second(now.as_second()).unwrap_or(now);
        history.insert(
            0,
            json!({"state": "Partial", "startedTime": started.to_string(), "completionTime": null,
                "version": payload.release.version, "image": image, "verified": false}),
        );
        history.truncate(KEPT);
    }
    status["version"] = json!({
        "desired": {"image": image, "version": payload.release.version},
        "history": history, "observedGeneration": generation.unwrap_or(0), "availableUpdates": [],
    });
}

/// The newest version that was ever complete, of the whole cluster or of its control plane.
pub fn running(status: &Value) -> Option<Version> {
    running_guest(status).max(complete(status, "controlPlaneVersion"))
}

/// The same of the whole cluster alone.
pub fn running_guest(status: &Value) -> Option<Version> {
    complete(status, "version")
}

fn complete(status: &Value, list: &str) -> Option<Version> {
    let entries = status[list]["history"].as_array().into_iter().flatten();
    let done = entries.filter(|e| e["state"] == "Completed");
    done.filter_map(|e| e["version"].as_str()?.parse::<Version>().ok()).next()
}
