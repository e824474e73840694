//! Labels and taints of a NodePool on its nodes, for as long as they are nodes.
//!
//! What was written is noted on the node, so that what a pool no longer says can be told from what others wrote: ours
//! goes, theirs stays. A taint is known by key and effect; there is never a second one.

use super::facts::{MachineFact, NodeFact};
use serde_json::{Map, Value, json};
use std::collections::BTreeSet;

/// On nodes: what of them is the pool's.
pub const WRITTEN: &str = "hypershift.openshift.io/nodePoolManaged";
/// On nodes: the pool they belong to.
pub const NODE_POOL: &str = "hypershift.openshift.io/nodePool";

fn id(taint: &Value) -> (String, String) {
    let text = |k: &str| taint[k].as_str().unwrap_or_default().to_owned();
    (text("key"), text("effect"))
}

/// What to change, if anything.
pub fn plan(machine: &MachineFact, node: &NodeFact) -> Option<Value> {
    let before: Value = serde_json::from_str(node.mark(WRITTEN)).unwrap_or_default();
    let mut labels = machine.labels.clone();
    labels.extend(machine.pool.clone().map(|p| (NODE_POOL.to_owned(), p)));
    let mut changes = Map::new();
    for gone in before["labels"].as_array().into_iter().flatten().filter_map(Value::as_str) {
        if !labels.contains_key(gone) && node.labels.contains_key(gone) {
            changes.insert(gone.to_owned(), Value::Null);
        }
    }
    for (key, value) in labels.iter().filter(|(k, v)| node.labels.get(*k) != Some(*v)) {
        changes.insert(key.clone(), json!(value));
    }
    let (taints, ours) = match &machine.taints {
        Some(wanted) => {
            let was: BTreeSet<_> = before["taints"].as_array().into_iter().flatten().map(id).collect();
            (tainted(node, wanted, &was), wanted.iter().map(id).collect::<BTreeSet<_>>())
        }
        None => (None, before["taints"].as_array().into_iter().flatten().map(id).collect()),
    };
    let ours: Vec<Value> = ours.into_iter().map(|(k, e)| json!({"key": k, "effect": e})).collect();
    let written = json!({"labels": labels.keys().collect::<Vec<_>>(), "taints": ours});
    let nothing = before.is_null() && labels.is_empty() && written["taints"] == json!([]);
    let mut patch = json!({});
    if !changes.is_empty() {
        patch["metadata"]["labels"] = changes.into();
    }
    if let Some(taints) = taints {
        // A list is replaced as a whole: only as it was seen.
        patch["spec"]["taints"] = json!(taints);
        patch["metadata"]["resourceVersion"] = json!(node.resource_version);
    }
    if before != written && !nothing {
        patch["metadata"]["annotations"] = json!({WRITTEN: written.to_string()});
    }
    patch.as_object().is_some_and(|p| !p.is_empty()).then_some(patch)
}

/// The node's taints as they should be; `None` if they are.
fn tainted(node: &NodeFact, wanted: &[Value], was: &BTreeSet<(String, String)>) -> Option<Vec<Value>> {
    let mut out: Vec<Value> = Vec::new();
    for taint in &node.taints {
        let mut keep = taint.clone();
        match wanted.iter().find(|w| id(w) == id(taint)) {
            Some(w) => match w.get("value") {
                Some(v) => keep["value"] = v.clone(),
                None => _ = keep.as_object_mut().map(|k| k.remove("value")),
            },
            None if was.contains(&id(taint)) => continue,
            None => {}
        }
        if !out.iter().any(|o| id(o) == id(&keep)) {
            out.push(keep);
        }
    }
    for w in wanted.iter().filter(|w| !id(w).0.is_empty()) {
        if !out.iter().any(|o| id(o) == id(w)) {
            out.push(w.clone());
        }
    }
    (out != node.taints).then_some(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use kube::core::DynamicObject;

    fn machine(labels: Value, taints: Option<&str>) -> MachineFact {
        let mut marks = json!({"hypershift.openshift.io/nodePool": "clusters/workers"});
        if let Some(t) = taints {
            marks["hypershift.openshift.io/nodePoolTaints"] = json!(t);
        }
        let o: DynamicObject =
            serde_json::from_value(json!({"metadata": {"name": "m", "labels": labels, "annotations": marks},
            "status": {"nodeRef": {"name": "n"}}}))
            .unwrap();
        MachineFact::read(&o).unwrap()
    }

    /// The node after a patch.
    fn after(node: &NodeFact, patch: &Value) -> NodeFact {
        let mut n = node.clone();
        for (k, v) in patch["metadata"]["labels"].as_object().into_iter().flatten() {
            match v.as_str() {
                Some(v) => _ = n.labels.insert(k.clone(), v.to_owned()),
                None => _ = n.labels.remove(k),
            }
        }
        if let Some(t) = patch["spec"]["taints"].as_array() {
            n.taints.clone_from(t);
        }
        for (k, v) in patch["metadata"]["annotations"].as_object().into_iter().flatten() {
            n.annotations.insert(k.clone(), v.as_str().unwrap().to_owned());
        }
        n
    }

    #[test]
    fn what_a_pool_says_comes_changes_and_goes_and_what_others_wrote_stays() {
        let theirs = json!({"key": "theirs", "effect": "NoSchedule"});
        let mut node = NodeFact { name: "n".into(), taints: vec![theirs.clone()], ..NodeFact::default() };
        node.labels.insert("kubernetes.io/os".into(), "linux".into());
        let one = machine(
            json!({"managed.hypershift.openshift.io.example.com/team": "a", "cluster.x-k8s.io/set-name": "s"}),
            Some(
                r#"[{"key":"gpu","value":"yes","effect":"NoSchedule"},{"key":"gpu","value":"no","effect":"NoSchedule"}]"#,
            ),
        );
        let patch = plan(&one, &node).unwrap();
        node = after(&node, &patch);
        assert_eq!(node.labels["example.com/team"], "a");
        assert_eq!(node.labels["hypershift.openshift.io/nodePool"], "workers");
        assert!(!node.labels.contains_key("cluster.x-k8s.io/set-name"));
        assert_eq!(
            node.taints,
            [theirs.clone(), json!({"key": "gpu", "value": "yes", "effect": "NoSchedule"})],
            "no second one"
        );
        assert_eq!(plan(&one, &node), None, "settled");
        // Changed, and one label fewer.
        let two = machine(
            json!({"managed.hypershift.openshift.io.tier": "gold"}),
            Some(r#"[{"key":"gpu","effect":"NoSchedule"}]"#),
        );
        node = after(&node, &plan(&two, &node).unwrap());
        assert!(!node.labels.contains_key("example.com/team") && node.labels["tier"] == "gold");
        assert_eq!(node.taints, [theirs.clone(), json!({"key": "gpu", "effect": "NoSchedule"})]);
        // Nonsense touches nothing.
        assert_eq!(plan(&MachineFact { taints: None, ..two }, &node), None);
        let none = machine(json!({}), None);
        node = after(&node, &plan(&none, &node).unwrap());
        assert_eq!(node.taints, [theirs]);
        assert!(!node.labels.contains_key("tier") && node.labels.contains_key("kubernetes.io/os"));
        assert_eq!(plan(&none, &node), None);
    }
}
