//! The annotation client-side apply leaves behind.
//!
//! While an object carries it, kubectl may go back and forth between client-side and server-side apply. So
//! an apply by `kubectl` keeps it up to date, and the fields it proves to be kubectl's are not fought over.

use crate::fieldset::Set;
use crate::typed;
use ek_meta::{Node, object};
use serde_json::{Map, Value};

pub const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// The manager name that opts in; any other name leaves the annotation alone.
pub(super) const KUBECTL: &str = "kubectl";

/// More than this and the API server would refuse the object for its annotations.
const MAX_ANNOTATIONS: usize = 256 * 1024;

/// Fields of the last client-side configuration that still hold their value.
pub(super) fn own_fields(live: &Value, node: Option<Node<'_>>) -> Option<Set> {
    let text = object::str_at(live, &["metadata", "annotations", LAST_APPLIED])?;
    let config: Value = serde_json::from_str(text).ok()?;
    let diff = typed::compare(&config, live, node);
    let set = typed::to_fieldset(&config, node);
    Some(set.difference(&diff.modified).difference(&diff.added).difference(&diff.removed))
}

/// Whether an apply by this manager would look at the annotation of this object.
pub(super) fn refresh_due(live: &Value, manager: &str) -> bool {
    manager == KUBECTL && object::str_at(live, &["metadata", "annotations", LAST_APPLIED]).is_some()
}

/// Rewrites the annotation, if the object has it, to say what was just applied. Returns whether it changed.
pub(super) fn refresh(merged: &mut Value, config: &Value, manager: &str) -> bool {
    if manager != KUBECTL {
        return false;
    }
    let annotations = merged.get_mut("metadata").and_then(|m| m.get_mut("annotations"));
    let Some(annotations) = annotations.and_then(Value::as_object_mut) else { return false };
    match annotations.get(LAST_APPLIED) {
        Some(Value::String(s)) if !s.is_empty() => {}
        _ => return false,
    }
    let text = describe(config);
    let others: usize = annotations
        .iter()
        .filter(|(k, _)| *k != LAST_APPLIED)
        .map(|(k, v)| k.len() + v.as_str().map_or(0, str::len))
        .sum();
    if others + LAST_APPLIED.len() + text.len() > MAX_ANNOTATIONS {
        annotations.shift_remove(LAST_APPLIED);
        return true;
    }
    let text = Value::String(text);
    match annotations.get_mut(LAST_APPLIED) {
        Some(old) if *old == text => false,
        Some(old) => {
            *old = text;
            true
        }
        None => false,
    }
}

/// The configuration as kubectl writes it: keys sorted, no spaces, one line end, markup escaped.
fn describe(config: &Value) -> String {
    let mut copy = sorted(config);
    if let Some(Value::Object(a)) = copy.get_mut("metadata").and_then(|m| m.get_mut("annotations")) {
        a.shift_remove(LAST_APPLIED);
    }
    let mut text = copy.to_string();
    if text.contains(['<', '>', '&']) {
        text = text.replace('<', "\\u003c").replace('>', "\\u003e").replace('&', "\\u0026");
    }
    text.push('\n');
    text
}

fn sorted(v: &Value) -> Value {
    match v {
        Value::Object(m) => {
            let mut keys: Vec<&String> = m.keys().collect();
            keys.sort_unstable();
            Value::Object(keys.into_iter().map(|k| (k.clone(), sorted(&m[k]))).collect::<Map<_, _>>())
        }
        Value::Array(a) => Value::Array(a.iter().map(sorted).collect()),
        other => other.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_text_is_what_kubectl_writes() {
        let config = json!({"kind": "D", "apiVersion": "v1", "metadata": {"annotations": {LAST_APPLIED: "x", "b": "<&>"}}});
        assert_eq!(
            describe(&config),
            "{\"apiVersion\":\"v1\",\"kind\":\"D\",\"metadata\":{\"annotations\":{\"b\":\"\\u003c\\u0026\\u003e\"}}}\\n".replace("\\n", "\n")
        );
    }

    #[test]
    fn only_kubectl_and_only_where_it_is() {
        let config = json!({"a": 1});
        let with = json!({"metadata": {"annotations": {LAST_APPLIED: "old"}}});
        for (object, manager, want) in [
            (with.clone(), "kubectl", true),
            (with, "other", false),
            (json!({"metadata": {"annotations": {}}}), "kubectl", false),
            (json!({"metadata": {}}), "kubectl", false),
        ] {
            assert_eq!(refresh(&mut object.clone(), &config, manager), want, "{object} {manager}");
        }
    }
}
