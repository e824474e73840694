//! What Cluster API is told: who makes machines, where, and for which control plane.

use super::belong;
use crate::naming;
use apis::hypershift::HostedCluster;
use apis::names::annotation;
use control_plane::scope::{Identity, Scope, Who};
use serde_json::{Value, json};

const AZURE: &str = "infrastructure.cluster.x-k8s.io/v1beta1";

/// The words of Azure's machine provider; it knows no other clouds.
fn cloud(name: &str) -> &'static str {
    match name {
        "AzureUSGovernmentCloud" => "usgovernment",
        "AzureChinaCloud" => "china",
        _ => "public",
    }
}

fn identity(hc: &HostedCluster, scope: &Scope) -> Value {
    let tenant = &scope.azure.tenant;
    let client = scope.identity.client_id(Who::NodePoolManagement).unwrap_or_default();
    let mut spec = json!({
        "tenantID": tenant, "clientID": client, "allowedNamespaces": {"list": [scope.namespace]},
    });
    match &scope.identity {
        Identity::Workload(_) => spec["type"] = json!("WorkloadIdentity"),
        Identity::Managed { .. } => {
            let secret = scope.identity.secret(Who::NodePoolManagement).map(|s| s.name.as_str());
            spec["type"] = json!("UserAssignedIdentityCredential");
            spec["userAssignedIdentityCredentialsPath"] =
                json!(format!("/mnt/certs/{}", secret.unwrap_or_default()));
            spec["userAssignedIdentityCredentialsCloudType"] = json!(cloud(&scope.azure.cloud));
        }
    }
    belong(
        hc,
        json!({"apiVersion": AZURE, "kind": "AzureClusterIdentity", "metadata": {"name": scope.name}, "spec": spec}),
    )
}

fn azure_cluster(hc: &HostedCluster, scope: &Scope, endpoint: &Value) -> Value {
    let azure = &scope.azure;
    let platform = hc.spec.shared.platform.azure.as_ref();
    let mut spec = json!({
        "location": azure.location,
        "resourceGroup": azure.resource_group,
        "subscriptionID": azure.subscription,
        "azureEnvironment": azure.cloud,
        "networkSpec": {
            "vnet": {"id": platform.map(|p| p.vnet_id.as_str()), "name": azure.vnet.name, "resourceGroup": azure.vnet.group},
            "nodeOutboundLB": {"name": scope.infra_id, "backendPool": {"name": scope.infra_id}},
        },
        "identityRef": {"apiVersion": AZURE, "kind": "AzureClusterIdentity", "name": scope.name, "namespace": scope.namespace},
    });
    if endpoint["host"].as_str().is_some_and(|h| !h.is_empty()) {
        spec["controlPlaneEndpoint"] = json!({"host": endpoint["host"], "port": endpoint["port"]});
    }
    let metadata = json!({"name": scope.name, "annotations": {annotation::CAPI_MANAGED_BY: "external"}});
    belong(hc, json!({"apiVersion": AZURE, "kind": "AzureCluster", "metadata": metadata, "spec": spec}))
}

fn cluster(hc: &HostedCluster, scope: &Scope, paused: bool) -> Value {
    let reference = |api: &str, kind: &str| json!({"apiVersion": api, "kind": kind, "name": scope.name, "namespace": scope.namespace});
    belong(
        hc,
        json!({
            "apiVersion": "cluster.x-k8s.io/v1beta1", "kind": "Cluster",
            "metadata": {"name": scope.infra_id},
            "spec": {
                "paused": paused,
                "controlPlaneRef": reference("hypershift.openshift.io/v1beta1", "HostedControlPlane"),
                "infrastructureRef": reference(AZURE, "AzureCluster"),
            },
        }),
    )
}

/// All three. `endpoint` is where the API answers, as the control plane says.
pub fn objects(hc: &HostedCluster, scope: &Scope, endpoint: &Value) -> Vec<Value> {
    debug_assert_eq!(naming::namespace(hc), scope.namespace);
    vec![identity(hc, scope), azure_cluster(hc, scope, endpoint), cluster(hc, scope, false)]
}
