//! `zaffre serve control-plane-operator`: one control plane, from inside its namespace.

use super::observe::{self, Seen};
use crate::cli::operators::ControlPlaneOperatorArgs;
use crate::output;
use anyhow::{Context, bail};
use apis::hypershift::HostedControlPlane;
use azure::oci::{Images, Logins, Mirrors};
use azure::{Env, Http, HttpOptions, Timing};
use control_plane::azure_checks;
use control_plane::operate::{self, Setup, Surroundings, Tenants, Verdict};
use control_plane::scope::{Encryption, Management, Release, Scope};
use futures::future::BoxFuture;
use k8s_openapi::api::core::v1::{Pod, Secret};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client};
use parking_lot::Mutex;
use reconcile::{Elector, Failure, Led, Metrics, Runtime, chain};
use release::{Payload, Releases};
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

/// Kinds that not every management cluster serves.
const MAYBE: [(&str, &str); 4] = [
    ("hypershift.openshift.io", "v1beta1"),
    ("route.openshift.io", "v1"),
    ("secrets-store.csi.x-k8s.io", "v1"),
    ("monitoring.coreos.com", "v1"),
];
/// A question about the health of an API.
const PATIENCE: Duration = Duration::from_secs(10);

pub async fn run(args: ControlPlaneOperatorArgs) -> anyhow::Result<()> {
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    let client = client(&args).await?;
    let (metrics, random) = (Metrics::default(), clock::Random::from_os());
    let around = Arc::new(Outside::look(&args, client.clone()).await?);
    let served = served(&client).await?;
    let (stop, working) = (CancellationToken::new(), Arc::new(AtomicBool::new(false)));
    let ready = working.clone();
    let seen =
        Arc::new(Seen { metrics: metrics.clone(), ready: Box::new(move || ready.load(Ordering::Relaxed)) });
    let at = observe::serve(args.metrics_address, seen.clone(), stop.clone()).await?;
    if args.health_address != args.metrics_address {
        observe::serve(args.health_address, seen, stop.clone()).await?;
    }
    // One of a Deployment's pods works; another of them may be ending, or starting.
    let holder =
        format!("{}_{:016x}", args.pod.as_deref().unwrap_or("outside"), u64::from_le_bytes(random.bytes()));
    let elector = Elector::new(&client, &args.namespace, "control-plane-operator", &holder, clock::system());
    let elector = elector.with_metrics(&metrics);
    output::line(&format!("ready http://{at}"));
    // Whoever stands by is as ready as can be.
    working.store(true, Ordering::Relaxed);
    let setup = || Setup {
        served: served.clone(),
        clock: clock::system(),
        random: &random,
        around: around.clone(),
        metrics: &metrics,
        tenants: Tenants::all(),
        namespace: Some(args.namespace.clone()),
        only: operate::Only { name: args.name.clone(), release_image: args.release_image.clone() },
    };
    let lead = elector.lead(&stop, |stop| {
        let mut runtime = Runtime::new(clock::system(), &metrics);
        operate::start(&mut runtime, &client, setup());
        runtime.run(stop)
    });
    let led = tokio::select! {
        led = lead => led,
        () = told(&mut interrupt, &mut terminate, &stop) => return Ok(()),
    };
    match led {
        Led::Lost(_) => bail!("the Lease control-plane-operator was lost; starting again is safe"),
        Led::Finished(_) | Led::Never => Ok(()),
    }
}

/// Passes a signal on, and ends everything at the second one.
async fn told(
    interrupt: &mut tokio::signal::unix::Signal,
    terminate: &mut tokio::signal::unix::Signal,
    stop: &CancellationToken,
) {
    tokio::select! {
        _ = interrupt.recv() => {}
        _ = terminate.recv() => {}
    }
    tracing::info!("ending; a second Ctrl-C ends it at once");
    stop.cancel();
    interrupt.recv().await;
}

async fn client(args: &ControlPlaneOperatorArgs) -> anyhow::Result<Client> {
    let config = match &args.kubeconfig {
        Some(path) => {
            let file = Kubeconfig::read_from(path)
                .with_context(|| format!("cannot read {} (--kubeconfig)", path.display()))?;
            kube::Config::from_custom_kubeconfig(file, &KubeConfigOptions::default()).await?
        }
        None => kube::Config::incluster()
            .context("not in a cluster: give --kubeconfig FILE, or run as a pod with a service account")?,
    };
    Ok(Client::try_from(config)?)
}

/// `group/Kind` of what is served beyond the built-in kinds.
async fn served(client: &Client) -> anyhow::Result<BTreeSet<String>> {
    let mut all = BTreeSet::new();
    for (group, version) in MAYBE {
        match client.list_api_group_resources(&format!("{group}/{version}")).await {
            Ok(list) => all.extend(list.resources.iter().map(|r| format!("{group}/{}", r.kind))),
            Err(kube::Error::Api(s)) if s.code == 404 => {}
            Err(e) => return Err(e).context("cannot ask the management cluster what it serves"),
        }
    }
    if !all.contains("hypershift.openshift.io/HostedControlPlane") {
        bail!("the management cluster does not serve HostedControlPlanes: install the CRDs first");
    }
    Ok(all)
}

/// The world outside, asked by its own protocols.
struct Outside {
    client: Client,
    images: Images,
    releases: Releases,
    /// Images by payload: one copy, whoever asks.
    shared: Mutex<Option<(Arc<Payload>, Arc<BTreeMap<String, String>>)>>,
    ours: String,
    overrides: String,
    management: Management,
    vault_reader: String,
    credential: Option<PathBuf>,
    kms_credential: Option<PathBuf>,
}

impl Outside {
    async fn look(args: &ControlPlaneOperatorArgs, client: Client) -> anyhow::Result<Outside> {
        let pod = match &args.pod {
            Some(name) => {
                let pods: Api<Pod> = Api::namespaced(client.clone(), &args.namespace);
                pods.get_opt(name).await.with_context(|| format!("cannot read pod {name} (--pod)"))?
            }
            None => None,
        };
        let spec = pod.and_then(|p| p.spec);
        let own = spec.as_ref().and_then(|s| s.containers.first()).and_then(|c| c.image.clone());
        let ours =
            args.image.clone().or(own).context("which image are our programs in? give --image, or --pod")?;
        let uid = spec.and_then(|s| s.security_context).and_then(|c| c.run_as_user);
        let version = client.apiserver_version().await.context("cannot reach the management cluster")?;
        let minor = version.minor.trim_end_matches('+').parse().unwrap_or(0);
        let openshift = match client.list_api_group_resources("security.openshift.io/v1").await {
            Ok(_) => true,
            Err(kube::Error::Api(s)) if s.code == 404 => false,
            Err(e) => return Err(e).context("cannot ask the management cluster what it serves"),
        };
        let http = Http::new(&HttpOptions::from_env(&Env::of_process()))?;
        let mut mirrors = Mirrors::default();
        for pair in args.registry_overrides.split(',').filter(|p| !p.is_empty()) {
            let (from, to) = pair
                .split_once('=')
                .with_context(|| format!("--registry-overrides {pair:?} is not SOURCE=MIRROR"))?;
            mirrors = mirrors.replace(from, to);
        }
        Ok(Outside {
            client,
            images: Images::new(http, Timing::system()).mirrors(mirrors),
            releases: Releases::new(),
            shared: Mutex::default(),
            ours,
            overrides: args.registry_overrides.clone(),
            management: Management { openshift, uid, minor },
            vault_reader: args.vault_reader.clone(),
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
        let image = &hcp.spec.release_image;
        let mut images = self.images.clone();
        if let Some(text) = self.secret(namespace, "pull-secret", ".dockerconfigjson").await? {
            images = images.logins(Logins::parse(&text)?);
        }
        let payload = self.releases.payload(&images, image).await?;
        let mut shared = self.shared.lock();
        let list = match &*shared {
            Some((p, list)) if Arc::ptr_eq(p, &payload) => list.clone(),
            _ => {
                let list = Arc::new(payload.images.clone());
                *shared = Some((payload.clone(), list.clone()));
                list
            }
        };
        Ok(Release {
            image: image.clone(),
            version: payload.version.clone(),
            kubernetes: payload.kubernetes.clone(),
            images: list,
            ours: self.ours.clone(),
            registry_overrides: self.overrides.clone(),
        })
    }

    /// A client with the identity whose credentials a CSI driver mounts; read each time, since they are renewed.
    async fn azure_client(&self, file: &Option<PathBuf>) -> Result<azure::Client, String> {
        let file = file
            .as_ref()
            .ok_or("no identity is mounted to ask Azure with (--azure-credential, --kms-credential)")?;
        let env = Env::of_process().with("ZAFFRE_AZURE_MSI_FILE", file.to_string_lossy());
        let connected = azure::connect(&env, azure::ClientOptions::default()).await;
        connected.map(|c| c.client).map_err(|e| chain(&e).to_string())
    }

    /// Asks `/healthz` where the API is published, as its administrator would.
    async fn ask(&self, scope: &Scope) -> Result<(), String> {
        let said = |e: &(dyn std::error::Error + 'static)| chain(e).to_string();
        let text =
            self.secret(&scope.namespace, "admin-kubeconfig", "kubeconfig").await.map_err(|e| said(&e))?;
        let text = text.ok_or("the administrator's kubeconfig is not there yet")?;
        let config = Kubeconfig::from_yaml(&text).map_err(|e| said(&e))?;
        let options = KubeConfigOptions::default();
        let config = kube::Config::from_custom_kubeconfig(config, &options).await.map_err(|e| said(&e))?;
        let guest = Client::try_from(config).map_err(|e| said(&e))?;
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
