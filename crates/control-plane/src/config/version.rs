//! What the cluster-version operator starts from.

use crate::scope::Scope;
use apis::openshift::cluster_version::known_capabilities;
use serde_json::{Value, json};

/// The ClusterVersion object that is created once.
pub fn document(scope: &Scope) -> String {
    let document: Value = json!({
        "apiVersion": "config.openshift.io/v1", "kind": "ClusterVersion", "metadata": {"name": "version"},
        "spec": {"clusterID": scope.cluster_id, "capabilities": capabilities(scope)},
    });
    document.to_string()
}

/// The capabilities of a ClusterVersion: by name, whatever the release would turn on by itself, which is more (`baremetal`).
pub fn capabilities(scope: &Scope) -> Value {
    let known = known_capabilities(&scope.release.version);
    let on: Vec<&str> = known.filter(|c| scope.capable(c)).collect();
    json!({"baselineCapabilitySet": "None", "additionalEnabledCapabilities": on})
}

/// Manifests of the payload that this control plane runs itself, as file name patterns.
pub fn dropped(scope: &Scope) -> String {
    let mut patterns = vec![
        "0000_50_cluster-authentication-operator_*",
        "0000_50_cluster-ingress-operator_02-deployment-ibm-cloud-managed.yaml",
        "0000_50_cluster-node-tuning-operator_50-operator-ibm-cloud-managed.yaml",
        "0000_50_cluster-node-tuning-operator_40-rbac.yaml",
        "0000_50_cluster-image-registry-operator_07-operator-ibm-cloud-managed.yaml",
        "0000_50_cluster-image-registry-operator_07-operator-service.yaml",
        "0000_50_cluster-csi-snapshot-controller-operator_07_deployment-ibm-cloud-managed.yaml",
        "0000_50_cluster-storage-operator_10_deployment-ibm-cloud-managed.yaml",
        "0000_50_operator-lifecycle-manager_*-deployment.ibm-cloud-managed.yaml",
        "0000_50_olm_*-deployment.ibm-cloud-managed.yaml",
        "0000_50_olm_06-psm-operator.*.yaml",
        "0000_50_olm_07-collect-profiles.cronjob*.yaml",
        "0000_70_dns-operator_02-deployment-ibm-cloud-managed.yaml",
        "0000_70_cluster-network-operator_03_deployment-ibm-cloud-managed.yaml",
        "0000_80_machine-config_01_deployment.yaml",
        "0000_90_*servicemonitor*.yaml",
    ];
    if !scope.capable("Console") {
        patterns.push("0000_50_console-operator_*");
    }
    patterns.join(" ")
}
