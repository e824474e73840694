//! What is left out and can be known: operations of a JSON patch. Pure.

use serde_json::{Map, Value, json};

fn text<'a>(object: &'a Value, pointer: &str) -> &'a str {
    object.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

/// Whether an object names no release.
pub fn lacks_release(object: &Value) -> bool {
    text(object, "/spec/release/image").is_empty()
}

/// Sets a value, and whatever is missing above it.
fn set(object: &Value, path: &[&str], value: &str) -> Value {
    let mut depth = 0;
    let mut here = object;
    while depth + 1 < path.len()
        && let Some(next) = here.get(path[depth]).filter(|n| n.is_object())
    {
        here = next;
        depth += 1;
    }
    let within = |inner: Value, name: &&str| Value::Object(Map::from_iter([((*name).to_owned(), inner)]));
    let value = path[depth + 1..].iter().rev().fold(json!(value), within);
    json!({"op": "add", "path": format!("/{}", path[..=depth].join("/")), "value": value})
}

/// A HostedCluster. `newest` is the newest release, wanted only where [`lacks_release`].
pub fn cluster(object: &Value, newest: Option<&str>) -> Vec<Value> {
    let mut out: Vec<Value> = pool(object, newest);
    if text(object, "/spec/networking/allocateNodeCIDRs").is_empty() {
        out.push(set(object, &["spec", "networking", "allocateNodeCIDRs"], "Disabled"));
    }
    out
}

/// A NodePool. `release` is its cluster's.
pub fn pool(object: &Value, release: Option<&str>) -> Vec<Value> {
    let wanted = release.filter(|_| lacks_release(object));
    wanted.map(|image| set(object, &["spec", "release", "image"], image)).into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_said_is_left_alone() {
        let said =
            json!({"spec": {"release": {"image": "r:1"}, "networking": {"allocateNodeCIDRs": "Enabled"}}});
        assert!(cluster(&said, Some("r:2")).is_empty() && pool(&said, Some("r:2")).is_empty());
    }

    #[test]
    fn what_is_missing_is_added_where_it_is_missing() {
        let add = |path: &str, value: Value| json!({"op": "add", "path": path, "value": value});
        let image = json!({"image": "r:2"});
        assert_eq!(
            cluster(&json!({"spec": {"networking": {"networkType": "Other"}}}), Some("r:2")),
            [
                add("/spec/release", image.clone()),
                add("/spec/networking/allocateNodeCIDRs", json!("Disabled"))
            ]
        );
        assert_eq!(
            cluster(&json!({"spec": {"release": {"image": ""}}}), Some("r:2")),
            [
                add("/spec/release/image", json!("r:2")),
                add("/spec/networking", json!({"allocateNodeCIDRs": "Disabled"}))
            ]
        );
        assert_eq!(pool(&json!({"spec": {}}), Some("r:2")), [add("/spec/release", image.clone())]);
        assert_eq!(pool(&json!({}), Some("r:2")), [add("/spec", json!({"release": image}))]);
        assert_eq!(pool(&json!({"spec": {}}), None), [] as [Value; 0]);
    }
}
