//! The operators' parts in private links: the management side with this Azure's own account, the guests' sides as the pods
//! of their control plane operators.
//!
//! In production each of those pods has the token that is minted beside it. Here one set of controllers stands for all
//! ([`crate::gate`]); it reads each pod's own token, anew each time, because pods are replaced and controllers stay.

use crate::gate::Gate;
use crate::intranet::Intranet;
use azure::credential::{AccessToken, CredentialError, TokenRequest, TokenSource};
use azure::{Client, Credential};
use futures::future::BoxFuture;
use operands::Identity;
use private_link::{Clouds, Management, Unreachable};
use reconcile::Tenants;
use std::path::PathBuf;
use std::sync::Arc;

/// Where the token is that the minter beside it writes.
const TOKEN: &str = control_plane::inject::token::CLOUD_TOKEN;

/// How private links are kept.
#[derive(Clone)]
pub struct Linking {
    pub management: Management,
    pub clouds: Arc<dyn Clouds>,
    pub tenants: Arc<Tenants>,
}

/// For the operators.
pub(crate) fn linking(
    gate: &Arc<Gate>,
    intranet: &Intranet,
    client: &Client,
    azure: operands::Azure,
) -> Linking {
    Linking {
        management: Management { client: client.clone(), group: intranet.group.clone() },
        clouds: Arc::new(Pods { gate: gate.clone(), azure }),
        tenants: gate.links.clone(),
    }
}

/// The ways out, by whichever pod serves a namespace now.
struct Pods {
    gate: Arc<Gate>,
    azure: operands::Azure,
}

impl Clouds for Pods {
    fn client<'a>(&'a self, namespace: &'a str) -> BoxFuture<'a, Result<Client, Unreachable>> {
        Box::pin(async move {
            let no = |why: &str| Unreachable(format!("pod control-plane-operator in {namespace} {why}"));
            let pod = self.gate.pod(namespace).ok_or_else(|| no("does not run"))?;
            let of = |name: &str| pod.env().get(name).cloned().filter(|v| !v.is_empty());
            let (tenant, client) = of("AZURE_TENANT_ID").zip(of("AZURE_CLIENT_ID")).ok_or_else(|| {
                no("has no identity: set platform.azure.azureAuthenticationConfig.workloadIdentities.controlPlaneOperator")
            })?;
            let who = Who {
                gate: self.gate.clone(),
                azure: self.azure.clone(),
                namespace: namespace.to_owned(),
                tenant,
                client,
            };
            Ok(self.azure.client_with(Credential::new(who, self.azure.options.timing.clone())))
        })
    }
}

/// Whoever the pod of a namespace is to Azure.
struct Who {
    gate: Arc<Gate>,
    azure: operands::Azure,
    namespace: String,
    tenant: String,
    client: String,
}

impl TokenSource for Who {
    fn token<'a>(&'a self, ask: &'a TokenRequest) -> BoxFuture<'a, Result<AccessToken, CredentialError>> {
        Box::pin(async move {
            // Nobody's file is not there, and says so by its name.
            let file = self.gate.pod(&self.namespace).and_then(|p| p.path(TOKEN));
            let file = file.unwrap_or_else(|| PathBuf::from(TOKEN));
            let who = Identity::Federated { tenant: self.tenant.clone(), client: self.client.clone(), file };
            self.azure.source(&who).token(ask).await
        })
    }

    fn describe(&self) -> String {
        format!("the control plane operator of {}", self.namespace)
    }
}
