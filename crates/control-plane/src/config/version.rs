//! What the cluster-version operator starts from.

use crate::scope::Scope;
use apis::openshift::cluster_version::CAPABILITIES;
use serde_json::{Value, json};

/// The ClusterVersion object that is created once.
pub fn document(scope: &Scope) -> String {
    let mut spec = json!({"clusterID": scope.cluster_id});
    if !scope.disabled.is_empty() {
        let enabled: Vec<&str> = CAPABILITIES.into_iter().filter(|c| scope.capable(c)).collect();
        spec["capabilities"] =
            json!({"baselineCapabilitySet": "None", "additionalEnabledCapabilities": enabled});
    }
    let document: Value = json!({
        "apiVersion": "config.openshift.io/v1", "kind": "ClusterVersion", "metadata": {"name": "version"},
        "spec": spec,
    });
    document.to_string()
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
