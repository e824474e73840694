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

/// Manifests of the payload that this control plane runs itself, or that the config operator keeps, as file name patterns.
pub fn dropped(scope: &Scope) -> String {
    let mut patterns = vec![
        // The OperatorHub begins as the HostedCluster says.
        "0000_03_marketplace-operator_02_operatorhub.cr.yaml",
        "0000_50_cloud-credential-operator_01-operator-config.yaml",
        "0000_50_cluster-authentication-operator_02_config.cr.yaml",
        "0000_50_cluster-csi-snapshot-controller-operator_07_deployment-ibm-cloud-managed.yaml",
        "0000_50_cluster-image-registry-operator_07-operator-ibm-cloud-managed.yaml",
        "0000_50_cluster-image-registry-operator_07-operator-service.yaml",
        "0000_50_cluster-ingress-operator_02-deployment-ibm-cloud-managed.yaml",
        "0000_50_cluster-node-tuning-operator_20-performance-profile.crd.yaml",
        "0000_50_cluster-node-tuning-operator_50-operator-ibm-cloud-managed.yaml",
        "0000_50_cluster-storage-operator_10_deployment-ibm-cloud-managed.yaml",
        "0000_50_olm_00-packageserver.pdb.yaml",
        "0000_50_olm_00-pprof-*.yaml",
        "0000_50_olm_01-olm-operator.serviceaccount.yaml",
        "0000_50_olm_02-services.yaml",
        "0000_50_olm_06-psm-operator.*",
        "0000_50_olm_07-collect-profiles.cronjob*",
        "0000_50_olm_07-olm-operator.deployment*",
        "0000_50_olm_08-catalog-operator.deployment*",
        "0000_50_olm_15-packageserver.clusterserviceversion.yaml",
        "0000_50_olm_99-operatorstatus.yaml",
        "0000_50_operator-marketplace_0[4-9]_*",
        "0000_50_operator-marketplace_1[01]_*",
        "0000_70_cluster-network-operator_03_deployment-ibm-cloud-managed.yaml",
        "0000_70_dns-operator_02-deployment-ibm-cloud-managed.yaml",
        // Machines are configured from here.
        "0000_80_machine-config_01_containerruntimeconfigs.crd.yaml",
        "0000_80_machine-config_01_kubeletconfigs.crd.yaml",
        "0000_80_machine-config_01_machineconfigpools-Default.crd.yaml",
        "0000_80_machine-config_01_machineconfigs.crd.yaml",
        "0000_90_cluster-image-registry-operator_02_operator-servicemonitor.yaml",
        "0000_90_etcd-operator_03_prometheusrule.yaml",
        "0000_90_olm_00-service-monitor.yaml",
    ];
    if !scope.capable("Console") {
        patterns.push("0000_50_console-operator_*");
    }
    if !scope.oauth() {
        patterns.push("0000_50_console-operator_01-oauth.yaml");
    }
    patterns.join(" ")
}
