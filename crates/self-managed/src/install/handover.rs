//! Definitions of the Cluster API on an OpenShift that manages some of its own.
//!
//! Its operator puts definitions back as its release has them, unless they are listed as somebody else's.

use serde_json::{Value, json};

const SUFFIX: &str = ".cluster.x-k8s.io";

/// The object that says which definitions are ours to change.
pub fn handover(definitions: &[Value]) -> Value {
    let names = definitions.iter().filter_map(|d| d["metadata"]["name"].as_str());
    let mut ours: Vec<&str> = names.filter(|n| n.ends_with(SUFFIX)).collect();
    ours.sort_unstable();
    json!({"apiVersion": "operator.openshift.io/v1alpha1", "kind": "ClusterAPI", "metadata": {"name": "cluster"},
        "spec": {"unmanagedCustomResourceDefinitions": ours}})
}

/// Whether its operator acts by what the object says, or by something later.
pub fn is_handed_over(status: &Value, generation: i64) -> bool {
    let revision = |field: &str| status[field].as_str().filter(|r| !r.is_empty());
    status["observedRevisionGeneration"].as_i64().is_some_and(|seen| seen >= generation)
        && revision("currentRevision").is_some()
        && revision("currentRevision") == revision("desiredRevision")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_of_the_cluster_api_is_ours_and_nothing_else() {
        let names = [
            "machines.cluster.x-k8s.io",
            "hostedclusters.hypershift.openshift.io",
            "clusters.cluster.x-k8s.io",
            "azuremachines.infrastructure.cluster.x-k8s.io",
        ];
        let all: Vec<Value> = names.iter().map(|n| json!({"metadata": {"name": n}})).collect();
        let ours = &handover(&all)["spec"]["unmanagedCustomResourceDefinitions"];
        assert_eq!(
            *ours,
            json!([
                "azuremachines.infrastructure.cluster.x-k8s.io",
                "clusters.cluster.x-k8s.io",
                "machines.cluster.x-k8s.io"
            ])
        );
    }

    #[test]
    fn it_counts_once_the_operator_has_it_and_is_done() {
        let status = |seen: i64, current: &str, desired: &str| json!({"observedRevisionGeneration": seen, "currentRevision": current, "desiredRevision": desired});
        assert!(is_handed_over(&status(2, "r2", "r2"), 2));
        assert!(is_handed_over(&status(3, "r3", "r3"), 2));
        assert!(!is_handed_over(&status(2, "r2", "r2"), 3), "it has not seen it");
        assert!(!is_handed_over(&status(2, "r1", "r2"), 2), "it is at it");
        assert!(!is_handed_over(&status(1, "", ""), 1) && !is_handed_over(&Value::Null, 0), "it never began");
    }
}
