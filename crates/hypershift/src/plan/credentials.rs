//! What operators of the control plane are told about Azure, as Secrets.

use super::belong;
use apis::hypershift::HostedCluster;
use control_plane::inject::token::CLOUD_TOKEN;
use control_plane::scope::{Scope, Who};
use serde_json::{Value, json};

fn secret(hc: &HostedCluster, scope: &Scope, name: &str, who: Who) -> Value {
    let azure = &scope.azure;
    let mut text = json!({
        "azure_region": azure.location,
        "azure_resource_prefix": format!("{}-{}", scope.name, scope.infra_id),
        "azure_resourcegroup": azure.resource_group,
        "azure_subscription_id": azure.subscription,
        "azure_tenant_id": azure.tenant,
    });
    if !scope.identity.managed()
        && let Some(client) = scope.identity.client_id(who)
    {
        text["azure_client_id"] = json!(client);
        text["azure_federated_token_file"] = json!(CLOUD_TOKEN);
    }
    belong(
        hc,
        json!({"apiVersion": "v1", "kind": "Secret", "type": "Opaque", "metadata": {"name": name}, "stringData": text}),
    )
}

/// The Secrets of a cluster: all of them where tokens are minted, one where a vault holds credentials.
pub fn objects(hc: &HostedCluster, scope: &Scope) -> Vec<Value> {
    let mut all = vec![secret(hc, scope, "cloud-network-config-controller-creds", Who::Network)];
    if scope.identity.managed() {
        return all;
    }
    if scope.capable("Ingress") {
        all.push(secret(hc, scope, "azure-ingress-credentials", Who::Ingress));
    }
    if scope.capable("ImageRegistry") {
        all.push(secret(hc, scope, "azure-image-registry-credentials", Who::ImageRegistry));
    }
    all
}
