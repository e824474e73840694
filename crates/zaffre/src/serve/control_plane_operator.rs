//! `zaffre serve control-plane-operator`: one control plane, from inside its namespace.

use super::ground::{self, Ground, Post, Registry};
use crate::cli::operators::ControlPlaneOperatorArgs;
use crate::reach::{self, Otherwise};
use apis::hypershift::HostedControlPlane;
use azure::Env;
use azure::oci::Logins;
use control_plane::azure_checks;
use control_plane::facts;
use control_plane::operate::{self, Setup, Surroundings, Tenants, Verdict};
use control_plane::scope::{Encryption, Management, Reach, Release, Scope};
use futures::future::BoxFuture;
use k8s_openapi::api::core::v1::Secret;
use kube::config::Kubeconfig;
use kube::{Api, Client};
use reconcile::{Failure, Metrics, Runtime, chain};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::OnceCell;

/// Without these there is nothing to do.
const NEEDED: [&str; 1] = ["hypershift.openshift.io/HostedControlPlane"];
/// A question about the health of an API.
const PATIENCE: Duration = Duration::from_secs(10);

pub async fn run(args: ControlPlaneOperatorArgs) -> anyhow::Result<()> {
    let client = reach::cluster(args.operator.kubeconfig.as_deref(), "--kubeconfig", Otherwise::Pod).await?;
    let (metrics, random) = (Metrics::default(), clock::Random::from_os());
    let ground = Ground::look(&client, &NEEDED).await?;
    let around = Arc::new(Outside::look(&args, client.clone(), &ground).await?);
    let post = Post {
        client: &client,
        namespace: &args.namespace,
        lease: "control-plane-operator",
        args: &args.operator,
        metrics_address: args.metrics_address,
        metrics: &metrics,
        page: Box::new(String::new),
        ready: Box::new(|| true),
    };
    // One of a Deployment's pods works; another of them may be ending, or starting.
    post.hold(|stop| {
        let mut runtime = Runtime::new(clock::system(), &metrics);
        let setup = Setup {
            served: ground.served.clone(),
            clock: clock::system(),
            random: &random,
            around: around.clone(),
            metrics: &metrics,
            tenants: Tenants::all(),
            namespace: Some(args.namespace.clone()),
            only: operate::Only { name: args.name.clone(), release_image: args.release_image.clone() },
        };
        operate::start(&mut runtime, &client, setup);
        if ground.served.contains("hypershift.openshift.io/AzurePrivateLinkService") {
            let endpoints = private_link::operate::Endpoints {
                clock: clock::system(),
                random: &random,
                metrics: &metrics,
                clouds: Arc::new(Identity::default()),
                tenants: Tenants::all(),
                namespace: Some(args.namespace.clone()),
                options: private_link::operate::options(),
            };
            private_link::operate::start_endpoints(&mut runtime, &client, endpoints);
        }
        runtime.run(stop)
    })
    .await
}

/// The workload identity of this pod, which makes the guest's side of private links.
#[derive(Default)]
struct Identity(OnceCell<azure::Client>);

impl private_link::Clouds for Identity {
    fn client<'a>(&'a self, _: &'a str) -> BoxFuture<'a, Result<azure::Client, private_link::Unreachable>> {
        Box::pin(async move {
            let env = Env::of_process();
            if env.get("AZURE_FEDERATED_TOKEN_FILE").is_none() {
                return Err(private_link::Unreachable(
                    "the control plane operator has no identity: set platform.azure.azureAuthenticationConfig.workloadIdentities.controlPlaneOperator".into(),
                ));
            }
            let connect = async || {
                let connected = azure::connect(&env, azure::ClientOptions::default()).await;
                connected.map(|c| c.client).map_err(|e| private_link::Unreachable(chain(&e).to_string()))
            };
            self.0.get_or_try_init(connect).await.cloned()
        })
    }
}

/// The world outside, asked by its own protocols.
struct Outside {
    client: Client,
    registry: Registry,
    management: Management,
    vault_reader: String,
    credential: Option<PathBuf>,
    kms_credential: Option<PathBuf>,
}

impl Outside {
    async fn look(
        args: &ControlPlaneOperatorArgs,
        client: Client,
        ground: &Ground,
    ) -> anyhow::Result<Outside> {
        let (ours, uid) = ground::own(&client, &args.namespace, &args.operator).await?;
        let blocked = args.operator.blocked();
        Ok(Outside {
            client,
            registry: Registry::new(&args.operator, ours, None)?,
            management: Management {
                openshift: ground.openshift,
                uid,
                minor: ground.minor,
                blocked,
                settings: args.operator.settings(),
                ..Management::default()
            },
            vault_reader: args.operator.vault_reader.clone(),
            credential: args.azure_credential.clone(),
            kms_credential: args.kms_credential.clone(),
        })
    }

    async fn secret(&self, namespace: &str, name: &str, key: &str) -> Result<Option<String>, kube::Error> {
        let secrets: Api<Secret> = Api::namespaced(self.client.clone(), namespace);
        let data = secrets.get_opt(name).await?.and_then(|s| s.data);
        Ok(data.and_then(|mut d| d.remove(key)).map(|t| String::from_utf8_lossy(&t.0).into_owned()))
    }

    async fn payload(&self, hcp: &HostedControlPlane) -> Result<Release, Failure> {
        let namespace = hcp.metadata.namespace.as_deref().unwrap_or_default();
        let text = self.secret(namespace, "pull-secret", ".dockerconfigjson").await?;
        let logins = text.map(|t| Logins::parse(&t)).transpose()?;
        Ok(self.registry.release(facts::image(hcp), logins, &hcp.spec.shared).await?)
    }

    /// A client with the identity whose credentials a CSI driver mounts; read each time, since they are renewed.
    async fn azure_client(&self, file: &Option<PathBuf>) -> Result<azure::Client, String> {
        let file = file
            .as_ref()
            .ok_or("no identity is mounted to ask Azure with (--azure-credential, --kms-credential)")?;
        let env = Env::of_process().with("ZAFFRE_AZURE_MSI_FILE", file.to_string_lossy());
        let retry = azure::RetryPolicy::brief();
        let options = azure::ClientOptions { retry, ..azure::ClientOptions::default() };
        let connected = azure::connect(&env, options).await;
        connected.map(|c| c.client).map_err(|e| chain(&e).to_string())
    }

    /// Asks `/healthz` where the API is published, as its administrator would. What only the guest's network reaches is asked
    /// from beside it.
    async fn ask(&self, scope: &Scope) -> Result<(), String> {
        let said = |e: &(dyn std::error::Error + 'static)| chain(e).to_string();
        let config = match scope.reach {
            Reach::Private => "service-network-admin-kubeconfig",
            _ => "admin-kubeconfig",
        };
        let text = self.secret(&scope.namespace, config, "kubeconfig").await.map_err(|e| said(&e))?;
        let text = text.ok_or("the administrator's kubeconfig is not there yet")?;
        let guest = reach::by(Kubeconfig::from_yaml(&text).map_err(|e| said(&e))?).await;
        let guest = guest.map_err(|e| format!("{e:#}"))?;
        let request = http::Request::get("/healthz?verbose").body(Vec::new()).map_err(|e| said(&e))?;
        match tokio::time::timeout(PATIENCE, guest.request_text(request)).await {
            Ok(Ok(_)) => Ok(()),
            Ok(Err(e)) => Err(said(&e)),
            Err(_) => Err(format!("{} did not answer within {PATIENCE:?}", scope.endpoints.api.host)),
        }
    }
}

impl Surroundings for Outside {
    fn release<'a>(&'a self, hcp: &'a HostedControlPlane) -> BoxFuture<'a, Result<Release, Failure>> {
        Box::pin(self.payload(hcp))
    }

    fn healthy<'a>(&'a self, scope: &'a Scope) -> BoxFuture<'a, Result<(), String>> {
        Box::pin(self.ask(scope))
    }

    fn management(&self, _: &str) -> Management {
        self.management.clone()
    }

    fn vault_reader(&self) -> String {
        self.vault_reader.clone()
    }

    fn azure<'a>(&'a self, scope: &'a Scope) -> BoxFuture<'a, Verdict> {
        Box::pin(async move {
            match self.azure_client(&self.credential).await {
                Ok(client) => azure_checks::locations(&client, scope).await,
                Err(why) => Verdict::Unknown(why),
            }
        })
    }

    fn openid<'a>(
        &'a self,
        issuer: &'a str,
        ca: Option<&'a str>,
    ) -> BoxFuture<'a, Result<serde_json::Value, String>> {
        Box::pin(async move { azure::openid::discover(&azure::Env::of_process(), issuer, ca).await })
    }

    fn kms<'a>(&'a self, scope: &'a Scope) -> BoxFuture<'a, Verdict> {
        Box::pin(async move {
            let Some(Encryption::Kms { active, .. }) = &scope.encryption else { return Verdict::Good };
            match self.azure_client(&self.kms_credential).await {
                Ok(client) => azure_checks::key(&client, active).await,
                Err(why) => Verdict::Unknown(why),
            }
        })
    }

    fn resolves<'a>(&'a self, host: &'a str) -> BoxFuture<'a, Result<(), String>> {
        Box::pin(async move {
            let found = tokio::time::timeout(PATIENCE, tokio::net::lookup_host((host, 443))).await;
            match found {
                Ok(Ok(addresses)) => match addresses.count() {
                    0 => Err(format!("{host} has no address")),
                    _ => Ok(()),
                },
                Ok(Err(e)) => {
                    Err(format!("{host} does not resolve: {e}; is there a record of it in its zone?"))
                }
                Err(_) => Err(format!("{host} did not resolve within {PATIENCE:?}")),
            }
        })
    }
}
