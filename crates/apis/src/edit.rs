//! Changing an object that has fields we do not know.
//!
//! The object stays JSON; the change is made on its typed view; what comes out is a merge patch (RFC 7386) with
//! exactly the fields that changed. Lists are atomic in merge patches, so a changed list is sent whole, made of the
//! stored elements: those that did not change keep all they had, those that did keep what the type does not name.
//!
//! ```
//! use apis::hypershift::HostedCluster;
//! use serde_json::json;
//!
//! let stored = json!({
//!     "apiVersion": "hypershift.openshift.io/v1beta1", "kind": "HostedCluster", "metadata": {"name": "a"},
//!     "spec": {
//!         "release": {"image": "r:1", "fromTheFuture": true}, "pullSecret": {"name": "p"}, "services": [],
//!         "platform": {"type": "None"}, "networking": {},
//!         "etcd": {"managementType": "Managed", "managed": {"storage": {"type": "PersistentVolume"}}},
//!     },
//! });
//! let patch = apis::edit::edit(&stored, |hc: &mut HostedCluster| hc.spec.release.image = "r:2".into())?;
//! assert_eq!(patch, Some(json!({"spec": {"release": {"image": "r:2"}}})));
//! # Ok::<(), apis::edit::Error>(())
//! ```

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

/// Why an object could not be edited.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("the stored object is not a {kind}: correct it, or install the definitions of this release")]
    Read { kind: &'static str, source: serde_json::Error },
    #[error("the changed {kind} cannot be written as JSON")]
    Write { kind: &'static str, source: serde_json::Error },
}

/// The merge patch that makes `change`, or nothing if it changes nothing.
pub fn edit<T: DeserializeOwned + Serialize>(
    stored: &Value,
    change: impl FnOnce(&mut T),
) -> Result<Option<Value>, Error> {
    let kind = std::any::type_name::<T>().rsplit("::").next().unwrap_or_default();
    let mut typed: T = T::deserialize(stored).map_err(|source| Error::Read { kind, source })?;
    let write = |t: &T| serde_json::to_value(t).map_err(|source| Error::Write { kind, source });
    let before = write(&typed)?;
    change(&mut typed);
    let after = write(&typed)?;
    Ok(difference(&before, &after, Some(stored)))
}

/// The merge patch from one typed state to another, or nothing if they are equal.
pub fn patch<T: Serialize>(before: &T, after: &T) -> Result<Option<Value>, Error> {
    let kind = std::any::type_name::<T>().rsplit("::").next().unwrap_or_default();
    let write = |t: &T| serde_json::to_value(t).map_err(|source| Error::Write { kind, source });
    Ok(difference(&write(before)?, &write(after)?, None))
}

/// Applies a merge patch.
pub fn apply(object: &mut Value, patch: &Value) {
    let Value::Object(patch) = patch else {
        *object = patch.clone();
        return;
    };
    if !object.is_object() {
        *object = Value::Object(Map::new());
    }
    if let Value::Object(object) = object {
        for (key, change) in patch {
            if change.is_null() {
                object.remove(key);
            } else {
                apply(object.entry(key.as_str()).or_insert(Value::Null), change);
            }
        }
    }
}

fn difference(before: &Value, after: &Value, stored: Option<&Value>) -> Option<Value> {
    if before == after {
        return None;
    }
    match (before, after) {
        (Value::Object(before), Value::Object(after)) => {
            let mut patch = Map::new();
            for key in before.keys().filter(|k| !after.contains_key(*k)) {
                patch.insert(key.clone(), Value::Null);
            }
            for (key, value) in after {
                let below = stored.and_then(|s| s.get(key));
                match before.get(key) {
                    Some(old) => patch.extend(difference(old, value, below).map(|d| (key.clone(), d))),
                    None => drop(patch.insert(key.clone(), value.clone())),
                }
            }
            Some(Value::Object(patch))
        }
        (Value::Array(before), Value::Array(after)) => {
            let stored = stored.and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
            Some(after.iter().enumerate().map(|(i, item)| element(before, stored, i, item)).collect())
        }
        _ => Some(after.clone()),
    }
}

/// The element to send: the stored one where there is one, changed as the typed one was.
fn element(before: &[Value], stored: &[Value], index: usize, item: &Value) -> Value {
    let unchanged = before.iter().position(|b| b == item).and_then(|i| stored.get(i));
    if let Some(whole) = unchanged {
        return whole.clone();
    }
    // Lists keyed by type or name: the element that has the same key, else the one at the same place.
    let key = ["type", "name", "key"].into_iter().find(|k| item.get(k).is_some());
    let same_key = |b: &Value| key.is_some_and(|k| b.get(k) == item.get(k));
    let place =
        before.iter().position(same_key).or_else(|| (key.is_none() && index < before.len()).then_some(index));
    match place.and_then(|i| Some((before.get(i)?, stored.get(i)?))) {
        Some((old, stored)) => {
            let mut changed = stored.clone();
            if let Some(patch) = difference(old, item, Some(stored)) {
                apply(&mut changed, &patch);
            }
            changed
        }
        None => item.clone(),
    }
}
