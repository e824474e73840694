//! Which Secrets and ConfigMaps a pod reads, by its spec alone: known before the first look, so that nothing that
//! comes between a look and its noting is missed.

use serde_json::Value;
use std::collections::BTreeSet;

fn list(v: &Value) -> impl Iterator<Item = &Value> {
    v.as_array().into_iter().flatten()
}

/// `(whether it is a Secret, its name)` of all that files and variables come from.
pub(super) fn of(pod: &Value) -> BTreeSet<(bool, String)> {
    let mut all = BTreeSet::new();
    let mut add = |secret: bool, name: &Value| {
        if let Some(name) = name.as_str() {
            all.insert((secret, name.to_owned()));
        }
    };
    let spec = &pod["spec"];
    for v in list(&spec["volumes"]) {
        add(true, &v["secret"]["secretName"]);
        add(false, &v["configMap"]["name"]);
        for s in list(&v["projected"]["sources"]) {
            add(true, &s["secret"]["name"]);
            add(false, &s["configMap"]["name"]);
        }
    }
    if spec["automountServiceAccountToken"] != false {
        add(false, &Value::from("kube-root-ca.crt"));
    }
    for c in list(&spec["initContainers"]).chain(list(&spec["containers"])) {
        for e in list(&c["envFrom"]) {
            add(true, &e["secretRef"]["name"]);
            add(false, &e["configMapRef"]["name"]);
        }
        for e in list(&c["env"]) {
            add(true, &e["valueFrom"]["secretKeyRef"]["name"]);
            add(false, &e["valueFrom"]["configMapKeyRef"]["name"]);
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn files_and_variables_of_all_containers() {
        let pod = json!({"spec": {
            "automountServiceAccountToken": false,
            "volumes": [{"name": "a", "secret": {"secretName": "s1"}}, {"name": "b", "configMap": {"name": "c1"}},
                {"name": "c", "projected": {"sources": [{"secret": {"name": "s2"}}, {"configMap": {"name": "c2"}}]}},
                {"name": "d", "emptyDir": {}}],
            "initContainers": [{"name": "i", "envFrom": [{"secretRef": {"name": "s3"}}, {"configMapRef": {"name": "c3"}}]}],
            "containers": [{"name": "m", "env": [{"name": "X", "value": "y"},
                {"name": "A", "valueFrom": {"secretKeyRef": {"name": "s4", "key": "k"}}},
                {"name": "B", "valueFrom": {"configMapKeyRef": {"name": "c4", "key": "k"}}}]}],
        }});
        let names: Vec<String> = of(&pod).into_iter().map(|(_, n)| n).collect();
        assert_eq!(names, ["c1", "c2", "c3", "c4", "s1", "s2", "s3", "s4"]);
        assert!(of(&json!({"spec": {}})).contains(&(false, "kube-root-ca.crt".to_owned())));
    }
}
