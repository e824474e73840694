//! The usual ways: to guests by the kubeconfig that Cluster API keeps in `<cluster>-kubeconfig`, to Azure as the
//! AzureClusterIdentity says.

use crate::around::{Clouds, Reach, Unreachable};
use apis::capz::AzureClusterIdentity;
use apis::capz::identity::IdentityType;
use azure::credential::{Confidential, Entra, IdentityId, ManagedIdentity, Proof, TokenSource};
use azure::{Client as Azure, ClientOptions, Cloud, Credential, Http, RetryPolicy, Secret as Hidden};
use futures::future::BoxFuture;
use k8s_openapi::api::core::v1::Secret;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client, Config};
use std::path::PathBuf;
use std::time::Duration;

/// Guests by their kubeconfig Secrets.
pub struct BySecret(pub Client);

impl BySecret {
    /// What the Secret holds.
    pub async fn kubeconfig(
        client: &Client,
        namespace: &str,
        cluster: &str,
    ) -> Result<Kubeconfig, Unreachable> {
        let name = format!("{cluster}-kubeconfig");
        let secrets: Api<Secret> = Api::namespaced(client.clone(), namespace);
        let no = |why: String| Unreachable(format!("Secret {namespace}/{name}: {why}"));
        let secret = secrets.get_opt(&name).await.map_err(|e| no(e.to_string()))?;
        let secret = secret.ok_or_else(|| no("it is not there yet; the control plane makes it".into()))?;
        let text = secret
            .data
            .and_then(|mut d| d.remove("value"))
            .ok_or_else(|| no("it has no key value".into()))?;
        let text = String::from_utf8(text.0).map_err(|_| no("its value is no text".into()))?;
        Kubeconfig::from_yaml(&text).map_err(|e| no(format!("its value is no kubeconfig: {e}")))
    }
}

impl Reach for BySecret {
    fn guest<'a>(
        &'a self,
        namespace: &'a str,
        cluster: &'a str,
    ) -> BoxFuture<'a, Result<Client, Unreachable>> {
        Box::pin(async move {
            let file = BySecret::kubeconfig(&self.0, namespace, cluster).await?;
            let no = |e: &dyn std::fmt::Display| {
                Unreachable(format!("the kubeconfig of cluster {namespace}/{cluster} cannot be used: {e}"))
            };
            let config = Config::from_custom_kubeconfig(file, &KubeConfigOptions::default())
                .await
                .map_err(|e| no(&e))?;
            Client::try_from(config).map_err(|e| no(&e))
        })
    }
}

/// Azure by identities. Files are where the pod has them.
pub struct ByIdentity {
    pub management: Client,
    pub http: Http,
    pub cloud: Cloud,
    pub options: ClientOptions,
    /// Where the token of workload identities is.
    pub token_file: Option<PathBuf>,
}

impl ByIdentity {
    /// A worker that meets a throttle says so and comes back, in place of sleeping on it.
    pub fn patience() -> RetryPolicy {
        RetryPolicy { attempts: 3, patience: Duration::from_secs(15), ..RetryPolicy::default() }
    }

    async fn secret(&self, identity: &AzureClusterIdentity) -> Result<Hidden, Unreachable> {
        let reference = identity.spec.client_secret.clone().unwrap_or_default();
        let home = identity.metadata.namespace.clone().unwrap_or_default();
        let namespace = reference.namespace.filter(|n| !n.is_empty()).unwrap_or(home);
        let name = reference.name.unwrap_or_default();
        let no = |why: &str| Unreachable(format!("the client secret {namespace}/{name} {why}"));
        let secrets: Api<Secret> = Api::namespaced(self.management.clone(), &namespace);
        let found = secrets.get_opt(&name).await.map_err(|e| no(&format!("cannot be read: {e}")))?;
        let data = found.ok_or_else(|| no("is not there"))?.data.unwrap_or_default();
        let value =
            data.get("clientSecret").or_else(|| data.values().next()).ok_or_else(|| no("is empty"))?;
        String::from_utf8(value.0.clone()).map(|t| Hidden::new(t.trim())).map_err(|_| no("is no text"))
    }

    async fn source(&self, identity: &AzureClusterIdentity) -> Result<Box<dyn TokenSource>, Unreachable> {
        let timing = self.options.timing.clone();
        let entra =
            Entra { http: self.http.clone(), login: self.cloud.login.clone(), timing: timing.clone() };
        let spec = &identity.spec;
        let known = |proof| -> Box<dyn TokenSource> {
            Box::new(Confidential::new(entra.clone(), &spec.tenant_id, &spec.client_id, proof))
        };
        Ok(match spec.type_ {
            IdentityType::WorkloadIdentity => {
                let file = self.token_file.clone().ok_or_else(|| {
                    Unreachable("the identity is a WorkloadIdentity and no token is mounted: set AZURE_FEDERATED_TOKEN_FILE".into())
                })?;
                known(Proof::FederatedFile(file))
            }
            IdentityType::UserAssignedIdentityCredential => {
                let path = spec.user_assigned_identity_credentials_path.clone().unwrap_or_default();
                Box::new(Confidential::msi_file(entra, path))
            }
            IdentityType::ServicePrincipal | IdentityType::ManualServicePrincipal => {
                known(Proof::Secret(self.secret(identity).await?))
            }
            IdentityType::ServicePrincipalCertificate => {
                let path = spec.cert_path.clone().unwrap_or_default();
                known(Proof::CertificateFile { path: path.into(), password: None })
            }
            IdentityType::UserAssignedMsi => {
                let id = IdentityId::Client(spec.client_id.clone());
                Box::new(ManagedIdentity::imds(&self.http, timing, id))
            }
        })
    }
}

impl Clouds for ByIdentity {
    fn client<'a>(&'a self, identity: &'a AzureClusterIdentity) -> BoxFuture<'a, Result<Azure, Unreachable>> {
        Box::pin(async move {
            let credential = Credential::new(self.source(identity).await?, self.options.timing.clone());
            Ok(Azure::new(self.cloud.clone(), self.http.clone(), credential, self.options.clone()))
        })
    }
}
