//! `zaffre serve hypershift-operator`: the HostedClusters of a management cluster.

use super::ground::{self, Ground, Post, Registry};
use super::webhooks;
use crate::cli::operators::{self, HypershiftOperatorArgs};
use crate::reach::{self, Otherwise};
use anyhow::Context;
use apis::hypershift::HostedCluster;
use arm::ResourceId;
use azure::oci::Logins;
use control_plane::scope::Settings;
use futures::future::BoxFuture;
use hypershift::operate::{self, Setup, Shard};
use hypershift::preflight::Preflight;
use hypershift::preflight::azure::Arm;
use hypershift::{Machinery, Management, NoRelease, Payload, Surroundings};
use k8s_openapi::api::core::v1::Endpoints;
use kube::{Api, Client};
use reconcile::{Metrics, Options, Runtime, chain};
use self_managed::install::PrivatePlatform;
use std::net::IpAddr;
use std::sync::{Arc, OnceLock};

/// Without these there is nothing to do.
const NEEDED: [&str; 2] =
    ["hypershift.openshift.io/HostedCluster", "hypershift.openshift.io/HostedControlPlane"];

/// Without this there are no sizes.
const SIZES: &str = "scheduling.hypershift.openshift.io/ClusterSizingConfiguration";

pub async fn run(args: HypershiftOperatorArgs) -> anyhow::Result<()> {
    let client = reach::cluster(args.operator.kubeconfig.as_deref(), "--kubeconfig", Otherwise::Pod).await?;
    let (metrics, random) = (Metrics::default(), clock::Random::from_os());
    let mut needed = NEEDED.to_vec();
    needed.extend(args.enable_size_tagging.then_some(SIZES));
    let ground = Ground::look(&client, &needed).await?;
    let account = ground::azure_account_as(args.azure_pls_managed_identity_client_id.as_deref()).await?;
    let links = links(&args, account.as_ref())?;
    let around = Arc::new(Outside::look(&args, &client, &ground, account.map(|a| a.client)).await?);
    let desk = webhooks::open(&args, &client, &metrics, around.management).await?;
    // Numbers come from what a leading process has read; one that stands by has none.
    let leading: Arc<OnceLock<Arc<operate::Operator>>> = Arc::default();
    let shown = leading.clone();
    let post = Post {
        client: &client,
        namespace: &args.namespace,
        lease: "hypershift-operator",
        args: &args.operator,
        metrics_address: args.metrics_address,
        metrics: &metrics,
        page: Box::new(move || {
            let operator = shown.get();
            operator.map(|o| hypershift::metrics::text(o, clock::system().now())).unwrap_or_default()
        }),
        ready: Box::new(move || desk.as_ref().is_none_or(|d| d.is_open())),
    };
    let shard = if args.enable_scoping { Shard::Scope(args.scope.clone()) } else { Shard::Everything };
    post.hold(|stop| {
        let mut runtime = Runtime::new(clock::system(), &metrics);
        let setup = Setup {
            served: ground.served.clone(),
            clock: clock::system(),
            random: &random,
            around: around.clone(),
            metrics: &metrics,
            options: Options::default(),
            shard,
        };
        let (_, operator) = operate::start_with(&mut runtime, &client, setup);
        let _ = leading.set(operator);
        if let Some(management) = links {
            let services = private_link::operate::Services {
                clock: clock::system(),
                random: &random,
                metrics: &metrics,
                management,
                options: private_link::operate::options(),
            };
            private_link::operate::start_services(&mut runtime, &client, services);
        }
        runtime.run(stop)
    })
    .await
}

/// The management side of private links, if there are to be any.
fn links(
    args: &HypershiftOperatorArgs,
    account: Option<&azure::Connected>,
) -> anyhow::Result<Option<private_link::Management>> {
    if args.private_platform != PrivatePlatform::Azure {
        return Ok(None);
    }
    let account = account.context(
        "--private-platform Azure needs an Azure account: set AZURE_CREDENTIALS_FILE, or give the pod a workload identity",
    )?;
    let group = args.azure_pls_resource_group.as_deref();
    let group = group.context("--private-platform Azure needs --azure-pls-resource-group (AZURE_RESOURCE_GROUP): the group of the management cluster's load balancers")?;
    let subscription = args.azure_pls_subscription_id.as_deref().or(account.subscription.as_deref());
    let subscription = subscription.context("--private-platform Azure needs --azure-pls-subscription-id (AZURE_SUBSCRIPTION_ID): the account does not say in which subscription it works")?;
    let group =
        ResourceId::group_scope(subscription, group).context("--azure-pls-resource-group cannot be used")?;
    Ok(Some(private_link::Management { client: account.client.clone(), group }))
}

/// The world outside, asked by its own protocols.
struct Outside {
    registry: Registry,
    management: Management,
    vault_reader: String,
    home: String,
    blocked: Vec<String>,
    settings: Settings,
    preflight: Option<Arc<dyn Preflight>>,
    catalogue: Option<Arc<dyn Preflight>>,
    machinery: Machinery,
    sizing: bool,
    monitored: bool,
    shared_ingress: Option<String>,
}

impl Outside {
    async fn look(
        args: &HypershiftOperatorArgs,
        client: &Client,
        ground: &Ground,
        account: Option<azure::Client>,
    ) -> anyhow::Result<Outside> {
        let (ours, _) = ground::own(client, &args.namespace, &args.operator).await?;
        if account.is_none() {
            tracing::warn!(
                "the environment names no Azure account: networks and identities of clusters are not checked before they are used"
            );
        }
        let routes = ground.served.contains("route.openshift.io/Route");
        Ok(Outside {
            registry: Registry::new(&args.operator, ours, account.as_ref())?,
            management: Management { openshift: ground.openshift, minor: ground.minor, routes },
            vault_reader: args.operator.vault_reader.clone(),
            home: args.namespace.clone(),
            blocked: match args.operator.blocked() {
                list if list.is_empty() => own_api(client).await?,
                list => list,
            },
            settings: args.operator.settings(),
            catalogue: catalogue(args).await?,
            preflight: account.map(|a| {
                Arc::new(Arm::new(a).reading_issuers(&azure::Env::of_process())) as Arc<dyn Preflight>
            }),
            machinery: match args.machines {
                operators::Machinery::Builtin => Machinery::Builtin,
                operators::Machinery::External => Machinery::External,
            },
            sizing: args.enable_size_tagging,
            monitored: args.enable_ocp_cluster_monitoring,
            shared_ingress: args.shared_ingress_image.clone().filter(|i| !i.is_empty()),
        })
    }
}

/// An account for the sizes of machines alone, if one is given.
async fn catalogue(args: &HypershiftOperatorArgs) -> anyhow::Result<Option<Arc<dyn Preflight>>> {
    let Some(file) = args.scale_from_zero_creds.as_ref().filter(|_| args.scale_from_zero_provider.is_some())
    else {
        return Ok(None);
    };
    let env = azure::Env::of_process().with("AZURE_AUTH_LOCATION", file.to_string_lossy());
    let connected = azure::connect(&env, azure::ClientOptions::default()).await;
    let connected = connected
        .with_context(|| format!("--scale-from-zero-creds {}: the account cannot be used", file.display()))?;
    Ok(Some(Arc::new(Arm::new(connected.client))))
}

/// Where the management cluster's own API is.
async fn own_api(client: &Client) -> anyhow::Result<Vec<String>> {
    let endpoints: Api<Endpoints> = Api::namespaced(client.clone(), "default");
    let found = endpoints.get_opt("kubernetes").await;
    let found = found.context("cannot read where the management cluster's own API is")?;
    let subsets = found.and_then(|e| e.subsets).unwrap_or_default();
    let mut all: Vec<IpAddr> =
        subsets.iter().flat_map(|s| s.addresses.iter().flatten()).filter_map(|a| a.ip.parse().ok()).collect();
    all.sort_unstable();
    all.dedup();
    Ok(all.iter().map(|ip| format!("{ip}/{}", if ip.is_ipv4() { 32 } else { 128 })).collect())
}

impl Surroundings for Outside {
    fn release<'a>(
        &'a self,
        cluster: &'a HostedCluster,
        image: &'a str,
        pull_secret: &'a [u8],
    ) -> BoxFuture<'a, Result<Payload, NoRelease>> {
        Box::pin(async move {
            let logins = Logins::parse(&String::from_utf8_lossy(pull_secret));
            let logins = logins.map_err(|e| NoRelease::Invalid(chain(&e).to_string()))?;
            match self.registry.look_up(image, Some(logins), &cluster.spec.shared).await {
                Ok(payload) => Ok(payload),
                Err(e) if e.is_final() => Err(NoRelease::Invalid(chain(&e).to_string())),
                Err(e) => Err(NoRelease::Unreachable(chain(&e).to_string())),
            }
        })
    }

    fn management(&self) -> Management {
        self.management
    }

    fn vault_reader(&self) -> String {
        self.vault_reader.clone()
    }

    fn home(&self) -> String {
        self.home.clone()
    }

    fn machinery(&self) -> Machinery {
        self.machinery
    }

    fn shared_ingress(&self) -> Option<String> {
        self.shared_ingress.clone()
    }

    fn sizing(&self) -> bool {
        self.sizing
    }

    fn monitored(&self) -> bool {
        self.monitored
    }

    fn settings(&self) -> Settings {
        self.settings.clone()
    }

    fn blocked(&self) -> Vec<String> {
        self.blocked.clone()
    }

    fn resolves<'a>(&'a self, host: &'a str) -> BoxFuture<'a, bool> {
        Box::pin(async move {
            tokio::net::lookup_host((host, 443)).await.is_ok_and(|mut all| all.next().is_some())
        })
    }

    fn catalogue(&self) -> Option<Arc<dyn Preflight>> {
        self.catalogue.clone().or_else(|| self.preflight())
    }

    fn preflight(&self) -> Option<Arc<dyn Preflight>> {
        self.preflight.clone()
    }
}
