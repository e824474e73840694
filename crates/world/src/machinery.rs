//! `zaffre serve machines` as a program: the pod in a control plane's namespace that keeps its machines.
//!
//! In production each such pod has controllers and watches of its own. Here one set of controllers keeps the machines of all
//! namespaces whose pod runs, as with the operators of control planes ([`crate::gate`]). It speaks to Azure with what
//! the pod has mounted, a minted token or a credential of a vault, and to the guest as the pod would: by its kubeconfig and
//! the names of its Services. Both are looked up anew each time, because pods are replaced and controllers stay.

use crate::dial;
use apis::capz::AzureClusterIdentity;
use apis::capz::identity::IdentityType;
use azure::credential::{AccessToken, CredentialError, TokenRequest, TokenSource};
use azure::{Client as Azure, Credential};
use ek_node::{Program, ProgramContext};
use futures::future::BoxFuture;
use kube::Client;
use machines::connect::BySecret;
use machines::operate::Tenants;
use machines::{Clouds, Reach, Unreachable};
use operands::Identity;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;

/// Where the token is that the minter beside it writes.
const TOKEN: &str = control_plane::inject::token::CLOUD_TOKEN;

/// The pods that keep machines, by namespace, the newest last.
pub(crate) struct Machinery {
    pub(crate) tenants: Arc<Tenants>,
    pods: Mutex<HashMap<String, Vec<ProgramContext>>>,
    azure: operands::Azure,
}

impl Machinery {
    pub(crate) fn new(azure: operands::Azure) -> Arc<Machinery> {
        Arc::new(Machinery { tenants: Tenants::admitted(), pods: Mutex::default(), azure })
    }

    fn enter(self: &Arc<Machinery>, ctx: &ProgramContext) -> Inside {
        let namespace = ctx.namespace().to_owned();
        self.pods.lock().entry(namespace.clone()).or_default().push(ctx.clone());
        self.tenants.admit(&namespace);
        Inside { machinery: self.clone(), namespace, pod: ctx.pod().to_owned() }
    }

    fn pod(&self, namespace: &str) -> Option<ProgramContext> {
        self.pods.lock().get(namespace).and_then(|p| p.last().cloned())
    }
}

/// A pod that runs. However it ends, the controllers hear of it.
struct Inside {
    machinery: Arc<Machinery>,
    namespace: String,
    pod: String,
}

impl Drop for Inside {
    fn drop(&mut self) {
        let mut pods = self.machinery.pods.lock();
        if let Some(list) = pods.get_mut(&self.namespace) {
            list.retain(|p| p.pod() != self.pod);
            if list.is_empty() {
                pods.remove(&self.namespace);
                self.machinery.tenants.dismiss(&self.namespace);
            }
        }
    }
}

/// The pod's program.
pub(crate) struct Machines(pub(crate) Arc<Machinery>);

impl Program for Machines {
    fn run(&self, ctx: ProgramContext) -> BoxFuture<'static, i32> {
        let machinery = self.0.clone();
        Box::pin(async move {
            let _inside = machinery.enter(&ctx);
            ctx.log("machines of this namespace are kept by the controllers of this process");
            match ctx.listener(crate::gate::health_port(&ctx)).await {
                Ok(listener) => ek_guest::stand_ins::healthy(&ctx, listener).await,
                Err(e) => {
                    ctx.log(format!("cannot listen for health checks: {e}"));
                    1
                }
            }
        })
    }
}

/// The ways out, by whichever pod keeps the machines of a namespace now.
struct Ways(Arc<Machinery>);

/// For the operators.
pub(crate) fn keeping(machinery: &Arc<Machinery>) -> crate::Keeping {
    let ways = Arc::new(Ways(machinery.clone()));
    crate::Keeping { tenants: machinery.tenants.clone(), reach: ways.clone(), clouds: ways }
}

fn no_pod(namespace: &str) -> Unreachable {
    Unreachable(format!("no pod capi-provider runs in {namespace}"))
}

impl Reach for Ways {
    fn guest<'a>(
        &'a self,
        namespace: &'a str,
        cluster: &'a str,
    ) -> BoxFuture<'a, Result<Client, Unreachable>> {
        Box::pin(async move {
            let ctx = self.0.pod(namespace).ok_or_else(|| no_pod(namespace))?;
            let file = BySecret::kubeconfig(&ctx.client(), namespace, cluster).await?;
            let (machinery, home) = (self.0.clone(), namespace.to_owned());
            let names = dial::Names::by(move |host, port| machinery.pod(&home)?.resolve(host, port));
            let made = dial::by_names(names, file, &format!("Secret {namespace}/{cluster}-kubeconfig")).await;
            made.map_err(|e| Unreachable(reconcile::chain(&e).to_string()))
        })
    }
}

impl Clouds for Ways {
    fn client<'a>(&'a self, identity: &'a AzureClusterIdentity) -> BoxFuture<'a, Result<Azure, Unreachable>> {
        Box::pin(async move {
            let spec = &identity.spec;
            let path = match spec.type_ {
                IdentityType::WorkloadIdentity => TOKEN.to_owned(),
                IdentityType::UserAssignedIdentityCredential => {
                    spec.user_assigned_identity_credentials_path.clone().unwrap_or_default()
                }
                _ => {
                    return Err(Unreachable(
                        "clusters of this world sign in by a minted token or a vault's credential".into(),
                    ));
                }
            };
            let who = Who {
                machinery: self.0.clone(),
                namespace: identity.metadata.namespace.clone().unwrap_or_default(),
                path,
                federated: (spec.type_ == IdentityType::WorkloadIdentity)
                    .then(|| (spec.tenant_id.clone(), spec.client_id.clone())),
            };
            let azure = &self.0.azure;
            Ok(azure.client_with(Credential::new(who, azure.options.timing.clone())))
        })
    }
}

/// Whoever the pod of a namespace is to Azure.
struct Who {
    machinery: Arc<Machinery>,
    namespace: String,
    path: String,
    federated: Option<(String, String)>,
}

impl Who {
    fn file(&self) -> PathBuf {
        let pod = self.machinery.pod(&self.namespace);
        // Nobody's file is not there, and says so by its name.
        pod.and_then(|p| p.path(&self.path)).unwrap_or_else(|| PathBuf::from(&self.path))
    }
}

impl TokenSource for Who {
    fn token<'a>(&'a self, ask: &'a TokenRequest) -> BoxFuture<'a, Result<AccessToken, CredentialError>> {
        Box::pin(async move {
            let file = self.file();
            let identity = match &self.federated {
                Some((tenant, client)) => {
                    Identity::Federated { tenant: tenant.clone(), client: client.clone(), file }
                }
                None => Identity::Mounted { file },
            };
            self.machinery.azure.source(&identity).token(ask).await
        })
    }

    fn describe(&self) -> String {
        format!("the pod that keeps machines of {}", self.namespace)
    }
}
