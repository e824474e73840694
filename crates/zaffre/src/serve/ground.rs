//! What operators of a management cluster have in common: what they ask it once, where releases come from, and how one
//! of several works while the others stand by.

use super::observe::{self, Seen};
use crate::cli::operators::Operator;
use crate::output;
use anyhow::{Context, bail};
use apis::hypershift::shared::SharedSpec;
use azure::oci::{Images, Logins, Mirrors};
use azure::{Env, Http, HttpOptions, Timing};
use control_plane::scope::Release;
use k8s_openapi::api::core::v1::Pod;
use kube::{Api, Client};
use parking_lot::Mutex;
use reconcile::{Elector, Led, Metrics};
use release::{Payload, Releases};
use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio_util::sync::CancellationToken;

/// Kinds that not every management cluster serves.
const MAYBE: [(&str, &str); 8] = [
    ("hypershift.openshift.io", "v1beta1"),
    ("scheduling.hypershift.openshift.io", "v1alpha1"),
    ("route.openshift.io", "v1"),
    ("secrets-store.csi.x-k8s.io", "v1"),
    ("monitoring.coreos.com", "v1"),
    ("image.openshift.io", "v1"),
    ("cluster.x-k8s.io", "v1beta1"),
    ("infrastructure.cluster.x-k8s.io", "v1beta1"),
];
/// More releases than are installed at a time.
const KEPT: usize = 64;

/// What a management cluster is.
#[derive(Clone, Debug)]
pub struct Ground {
    /// `group/Kind` of what is served beyond the built-in kinds.
    pub served: BTreeSet<String>,
    pub openshift: bool,
    /// Minor version of its Kubernetes.
    pub minor: u32,
}

async fn kinds(client: &Client, at: &str) -> anyhow::Result<Option<Vec<String>>> {
    match client.list_api_group_resources(at).await {
        Ok(list) => Ok(Some(list.resources.into_iter().map(|r| r.kind).collect())),
        Err(kube::Error::Api(s)) if s.code == 404 => Ok(None),
        Err(e) => Err(e).with_context(|| format!("cannot ask the management cluster whether it serves {at}")),
    }
}

impl Ground {
    /// Asks. `needed` are kinds without which there is nothing to do.
    pub async fn look(client: &Client, needed: &[&str]) -> anyhow::Result<Ground> {
        let mut served = BTreeSet::new();
        for (group, version) in MAYBE {
            let found = kinds(client, &format!("{group}/{version}")).await?.unwrap_or_default();
            served.extend(found.iter().map(|kind| format!("{group}/{kind}")));
        }
        if let Some(missing) = needed.iter().find(|k| !served.contains(**k)) {
            bail!("the management cluster does not serve {missing}: install the CRDs first");
        }
        let version = client.apiserver_version().await.context("cannot reach the management cluster")?;
        Ok(Ground {
            served,
            openshift: kinds(client, "security.openshift.io/v1").await?.is_some(),
            minor: version.minor.trim_end_matches('+').parse().unwrap_or(0),
        })
    }
}

/// The image with our programs, and the user that this pod runs as.
pub async fn own(client: &Client, namespace: &str, args: &Operator) -> anyhow::Result<(String, Option<i64>)> {
    let pod = match &args.pod {
        Some(name) => {
            let pods: Api<Pod> = Api::namespaced(client.clone(), namespace);
            pods.get_opt(name).await.with_context(|| format!("cannot read pod {name} (--pod)"))?
        }
        None => None,
    };
    let spec = pod.and_then(|p| p.spec);
    let image = spec.as_ref().and_then(|s| s.containers.first()).and_then(|c| c.image.clone());
    let image =
        args.image.clone().or(image).context("which image are our programs in? give --image, or --pod")?;
    Ok((image, spec.and_then(|s| s.security_context).and_then(|c| c.run_as_user)))
}

/// What `--registry-overrides` says: where images are read in place of where they are said to be.
pub fn mirrors(overrides: &str) -> anyhow::Result<Mirrors> {
    let mut mirrors = Mirrors::default();
    for pair in overrides.split(',').filter(|p| !p.is_empty()) {
        let (from, to) = pair
            .split_once('=')
            .with_context(|| format!("--registry-overrides {pair:?} is not SOURCE=MIRROR"))?;
        mirrors = mirrors.replace(from, to);
    }
    Ok(mirrors)
}

/// Where releases come from.
pub struct Registry {
    images: Images,
    releases: Releases,
    /// Images by payload: one copy, however many clusters run it.
    shared: Mutex<Vec<(Arc<Payload>, Arc<BTreeMap<String, String>>)>>,
    ours: String,
    overrides: String,
}

impl Registry {
    /// `azure` is who we are to registries of Azure, where no pull secret says otherwise.
    pub fn new(args: &Operator, ours: String, azure: Option<&azure::Client>) -> anyhow::Result<Registry> {
        let http = Http::new(&HttpOptions::from_env(&Env::of_process()))?;
        let mut images = Images::new(http, Timing::system()).mirrors(mirrors(&args.registry_overrides)?);
        if let Some(client) = azure {
            images = images.azure(client.credential().clone(), client.cloud());
        }
        Ok(Registry {
            images,
            releases: Releases::new(),
            shared: Mutex::default(),
            ours,
            overrides: args.registry_overrides.clone(),
        })
    }

    /// The release that an image is.
    pub async fn release(
        &self,
        image: &str,
        logins: Option<Logins>,
        shared: &SharedSpec,
    ) -> Result<Release, release::Error> {
        Ok(self.look_up(image, logins, shared).await?.release)
    }

    /// The same, with what its machines are and boot from.
    pub async fn look_up(
        &self,
        image: &str,
        logins: Option<Logins>,
        shared: &SharedSpec,
    ) -> Result<hypershift::Payload, release::Error> {
        let mut images = self.images.clone().mirrored(world::mirrors(shared));
        if let Some(logins) = logins {
            images = images.logins(logins);
        }
        let payload = self.releases.payload(&images, image).await?;
        let release = Release {
            image: image.to_owned(),
            version: payload.version.clone(),
            kubernetes: payload.kubernetes.clone(),
            images: self.list(&payload),
            ours: self.ours.clone(),
            registry_overrides: self.overrides.clone(),
        };
        let (arch, boot) = (world::payload_arch(&payload), world::boot_images(&payload.boot));
        Ok(hypershift::Payload { release, arch, boot })
    }

    fn list(&self, payload: &Arc<Payload>) -> Arc<BTreeMap<String, String>> {
        let mut shared = self.shared.lock();
        if let Some((_, list)) = shared.iter().find(|(p, _)| Arc::ptr_eq(p, payload)) {
            return list.clone();
        }
        if shared.len() >= KEPT {
            shared.remove(0);
        }
        let list = Arc::new(payload.images.clone());
        shared.push((payload.clone(), list.clone()));
        list
    }
}

/// What makes a process environment name somebody to Azure.
const CREDENTIALS: [&str; 7] = [
    "AZURE_AUTH_LOCATION",
    "ZAFFRE_AZURE_MSI_FILE",
    "AZURE_FEDERATED_TOKEN_FILE",
    "AZURE_CLIENT_CERTIFICATE_PATH",
    "AZURE_CLIENT_SECRET",
    "AZURE_CLIENT_ID",
    "IDENTITY_ENDPOINT",
];

/// Who this process is to Azure, if its environment says so; nobody is guessed.
pub async fn azure_account() -> anyhow::Result<Option<azure::Client>> {
    Ok(azure_account_as(None).await?.map(|c| c.client))
}

/// The same, with its subscription. `client_id` is an identity that goes before the environment's.
pub async fn azure_account_as(client_id: Option<&str>) -> anyhow::Result<Option<azure::Connected>> {
    let mut env = Env::of_process();
    if let Some(id) = client_id {
        env = env.with("AZURE_CLIENT_ID", id);
    }
    // The name that the operator's own credentials have in its Deployment.
    if let Some(file) = env.get("AZURE_CREDENTIALS_FILE").map(str::to_owned) {
        env = env.with("AZURE_AUTH_LOCATION", file);
    }
    if !CREDENTIALS.iter().any(|name| env.get(name).is_some()) {
        return Ok(None);
    }
    let connected = azure::connect(&env, azure::ClientOptions::default()).await;
    Ok(Some(connected.context("the environment names an Azure account that cannot be used")?))
}

/// A place that one of several processes holds.
pub struct Post<'a> {
    pub client: &'a Client,
    pub namespace: &'a str,
    pub lease: &'static str,
    pub args: &'a Operator,
    pub metrics_address: SocketAddr,
    pub metrics: &'a Metrics,
    /// What else is served at `/metrics`.
    pub page: Box<dyn Fn() -> String + Send + Sync>,
    /// What else there must be before it can be of use.
    pub ready: Box<dyn Fn() -> bool + Send + Sync>,
}

impl Post<'_> {
    /// Says `ready`, waits for the Lease, works until told to stop, and gives the Lease back.
    pub async fn hold<T, F: Future<Output = T>>(
        self,
        work: impl FnOnce(CancellationToken) -> F,
    ) -> anyhow::Result<()> {
        let mut interrupt = signal(SignalKind::interrupt())?;
        let mut terminate = signal(SignalKind::terminate())?;
        let (stop, working) = (CancellationToken::new(), Arc::new(AtomicBool::new(false)));
        let ready = working.clone();
        let seen = Arc::new(Seen {
            metrics: self.metrics.clone(),
            page: self.page,
            ready: Box::new(move || ready.load(Ordering::Relaxed) && (self.ready)()),
        });
        let at = observe::serve(self.metrics_address, seen.clone(), stop.clone()).await?;
        if self.args.health_address != self.metrics_address {
            observe::serve(self.args.health_address, seen, stop.clone()).await?;
        }
        let name = self.args.pod.as_deref().unwrap_or("outside");
        let holder = format!("{name}_{:016x}", u64::from_le_bytes(clock::Random::from_os().bytes()));
        let elector = Elector::new(self.client, self.namespace, self.lease, &holder, clock::system());
        let elector = elector.timing(self.args.timing()).with_metrics(self.metrics);
        output::line(&format!("ready http://{at}"));
        // Whoever stands by is as ready as can be.
        working.store(true, Ordering::Relaxed);
        let led = tokio::select! {
            led = elector.lead(&stop, work) => led,
            () = told(&mut interrupt, &mut terminate, &stop) => return Ok(()),
        };
        match led {
            Led::Lost(_) => bail!("the Lease {} was lost; starting again is safe", self.lease),
            Led::Finished(_) | Led::Never => Ok(()),
        }
    }
}

/// Passes a signal on, and ends everything at the second one.
async fn told(interrupt: &mut Signal, terminate: &mut Signal, stop: &CancellationToken) {
    tokio::select! {
        _ = interrupt.recv() => {}
        _ = terminate.recv() => {}
    }
    tracing::info!("ending; a second Ctrl-C ends it at once");
    stop.cancel();
    interrupt.recv().await;
}
