//! What must not be passed around.

use serde_json::{Value, json};

/// Copies of a Secret's data live here, too.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// Kinds that are credentials by themselves.
const NEVER: [&str; 2] = ["oauthaccesstokens", "oauthauthorizetokens"];

pub fn is_credential(plural: &str) -> bool {
    NEVER.contains(&plural)
}

/// Takes values of Secrets and what nobody reads out of an object.
pub fn redact(object: &mut Value) {
    if let Some(metadata) = object["metadata"].as_object_mut() {
        metadata.remove("managedFields");
    }
    if object["kind"] != "Secret" {
        return;
    }
    if let Some(annotations) = object["metadata"]["annotations"].as_object_mut() {
        annotations.remove(LAST_APPLIED);
    }
    for part in ["data", "stringData"] {
        for value in object[part].as_object_mut().into_iter().flat_map(|m| m.values_mut()) {
            let length = value.as_str().map_or(0, str::len);
            *value = json!(format!("(redacted, {length} characters)"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_value_of_a_secret_is_left_anywhere() {
        let mut secret = json!({"kind": "Secret", "metadata": {"name": "s", "managedFields": [{"x": 1}],
            "annotations": {LAST_APPLIED: "{\"data\":{\"k\":\"aHVudGVyMg==\"}}", "a": "b"}},
            "data": {"k": "aHVudGVyMg=="}, "stringData": {"t": "hunter2"}});
        redact(&mut secret);
        let text = secret.to_string();
        assert!(
            !text.contains("hunter2") && !text.contains("aHVudGVyMg") && !text.contains("managedFields"),
            "{text}"
        );
        assert_eq!(secret["data"]["k"], "(redacted, 12 characters)");
        assert_eq!(secret["metadata"]["annotations"], json!({"a": "b"}));
        let mut map = json!({"kind": "ConfigMap", "metadata": {}, "data": {"k": "v"}});
        redact(&mut map);
        assert_eq!(map["data"]["k"], "v");
        assert!(is_credential("oauthaccesstokens") && !is_credential("secrets"));
    }
}
