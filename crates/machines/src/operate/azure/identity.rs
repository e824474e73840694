//! As whom Azure is asked.

use super::AzureMachines;
use crate::operate::views::{Seen, namespace};
use crate::vm::{Kind, Trouble};
use apis::capz::AzureClusterIdentity;
use apis::capz::identity::AllowedNamespaces;
use serde_json::json;

/// Whether clusters of a namespace may use an identity. Its own always may.
fn allowed(identity: &AzureClusterIdentity, namespace: &str) -> bool {
    if identity.metadata.namespace.as_deref() == Some(namespace) {
        return true;
    }
    match &identity.spec.allowed_namespaces {
        None => false,
        Some(AllowedNamespaces { list: None, selector: None }) => true,
        Some(a) => a.list.iter().flatten().any(|n| n == namespace),
    }
}

impl AzureMachines {
    /// The client of the identity that an AzureCluster names.
    pub(super) async fn client(&self, azure: &Seen) -> Result<azure::Client, Trouble> {
        let shared = &self.0;
        let wrong = |m: String| Trouble::new(Kind::Credential, m);
        let reference = &azure.data["spec"]["identityRef"];
        let Some(name) = reference["name"].as_str() else {
            return Err(wrong(format!(
                "AzureCluster {} has no identityRef",
                crate::operate::views::name(azure)
            )));
        };
        let home = reference["namespace"].as_str().unwrap_or_else(|| namespace(azure)).to_owned();
        let Some(seen) = shared.views.identities.get(&home, name) else {
            return Err(wrong(format!("there is no AzureClusterIdentity {home}/{name}")));
        };
        let version = seen.metadata.resource_version.clone().unwrap_or_default();
        let key = (home.clone(), name.to_owned());
        let known = shared.clients.lock().get(&key).filter(|(v, _)| *v == version).map(|(_, c)| c.clone());
        let identity: AzureClusterIdentity = serde_json::from_value(
            json!({"apiVersion": "infrastructure.cluster.x-k8s.io/v1beta1", "kind": "AzureClusterIdentity",
                "metadata": seen.metadata, "spec": seen.data["spec"]}),
        )
        .map_err(|e| wrong(format!("AzureClusterIdentity {home}/{name} cannot be read: {e}")))?;
        if !allowed(&identity, namespace(azure)) {
            let message = format!(
                "AzureClusterIdentity {home}/{name} is not for namespace {}: add it to spec.allowedNamespaces.list",
                namespace(azure)
            );
            return Err(wrong(message));
        }
        if let Some(client) = known {
            return Ok(client);
        }
        let client = shared.clouds.client(&identity).await.map_err(|e| wrong(e.0))?;
        shared.clients.lock().insert(key, (version, client.clone()));
        Ok(client)
    }
}
