//! What each endpoint takes of the object it is sent.

use super::Call;
use crate::cluster::tables;
use serde_json::{Map, Value, json};

/// What of the new state the endpoint takes; the rest stays as it was.
pub(super) fn graft(call: &Call, new: Value, old: &Value) -> Value {
    let res = &call.res;
    let take = |new: &Value, path: &str, into: &mut Value| {
        let v = new.pointer(path).cloned();
        set_pointer(into, path, v);
    };
    match call.info.subresource.as_str() {
        "" => {
            let mut new = new;
            if res.has_status() {
                take(old, "/status", &mut new);
            }
            if res.table == *tables::NAMESPACES {
                take(old, "/spec/finalizers", &mut new);
            }
            new
        }
        // Most who write a status send back the rest as it was: then nothing has to be copied.
        "status" if !res.is_custom() && same_apart(&new, old) => new,
        "status" => {
            let mut out = old.clone();
            take(&new, "/status", &mut out);
            if res.is_custom() {
                let fields = new.pointer("/metadata/managedFields").cloned();
                set_pointer(&mut out, "/metadata/managedFields", fields);
                let rv = new.pointer("/metadata/resourceVersion").cloned();
                set_pointer(&mut out, "/metadata/resourceVersion", rv);
            } else {
                take(&new, "/metadata", &mut out);
            }
            out
        }
        sub => {
            let mut out = old.clone();
            take(&new, "/metadata", &mut out);
            match sub {
                // The parent as changed by its Scale.
                "scale" | "binding" => return new,
                "approval" => take(&new, "/status/conditions", &mut out),
                "finalize" => take(&new, "/spec/finalizers", &mut out),
                "ephemeralcontainers" => take(&new, "/spec/ephemeralContainers", &mut out),
                "resize" => {
                    resized(&new, &mut out, "containers");
                    resized(&new, &mut out, "initContainers");
                }
                _ => {}
            }
            out
        }
    }
}

/// Whether two objects, fields in the same order, differ in metadata and status at most.
fn same_apart(new: &Value, old: &Value) -> bool {
    let (Some(new), Some(old)) = (new.as_object(), old.as_object()) else { return false };
    fn rest<'a>(m: &'a Map<String, Value>, other: &Map<String, Value>) -> impl Iterator<Item = &'a String> {
        m.keys().filter(|k| *k != "status" || other.contains_key(*k))
    }
    // A status that is new comes last, as it would be put there.
    let last = |m: &Map<String, Value>| m.keys().next_back().is_none_or(|k| k == "status");
    new.contains_key("metadata")
        && new.contains_key("status")
        && rest(new, old).eq(rest(old, new))
        && (old.contains_key("status") || last(new))
        && old.iter().filter(|(k, _)| *k != "metadata" && *k != "status").all(|(k, v)| new.get(k) == Some(v))
}

/// Takes the resources of containers; other containers than before are taken as they are, to be refused.
fn resized(new: &Value, into: &mut Value, list: &str) {
    let names = |v: &Value| -> Vec<Value> {
        v["spec"][list].as_array().into_iter().flatten().map(|c| c["name"].clone()).collect()
    };
    if names(new) != names(into) {
        into["spec"][list] = new["spec"][list].clone();
        return;
    }
    let Some(Value::Array(containers)) = into.pointer_mut(&format!("/spec/{list}")) else { return };
    for (i, c) in containers.iter_mut().enumerate() {
        for f in ["resources", "resizePolicy"] {
            set_pointer(c, &format!("/{f}"), new["spec"][list][i].get(f).cloned());
        }
    }
}

/// Conditions of certificate requests are dated by the server when the client leaves that out.
pub(super) fn date_conditions(new: &mut Value, old: &Value, now: &str) {
    let Some(Value::Array(conditions)) = new.pointer_mut("/status/conditions") else { return };
    for c in conditions {
        let before = (old["status"]["conditions"].as_array().into_iter().flatten())
            .find(|o| o["type"] == c["type"] && o["status"] == c["status"]);
        if c["lastUpdateTime"].is_null() {
            c["lastUpdateTime"] = json!(now);
        }
        if c["lastTransitionTime"].is_null() {
            let since = before.and_then(|b| b["lastTransitionTime"].as_str());
            c["lastTransitionTime"] = json!(since.unwrap_or(now));
        }
    }
}

fn set_pointer(into: &mut Value, path: &str, v: Option<Value>) {
    let (parent, leaf) = path.rsplit_once('/').unwrap_or(("", path));
    if v.is_some() && !parent.is_empty() && into.pointer(parent).is_none_or(Value::is_null) {
        set_pointer(into, parent, Some(json!({})));
    }
    if let Some(Value::Object(m)) = into.pointer_mut(parent) {
        match v {
            Some(v) => {
                m.insert(leaf.to_owned(), v);
            }
            None => {
                m.remove(leaf);
            }
        }
    }
}
