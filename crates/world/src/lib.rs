//! A world in which hosted clusters really run, on one machine.
//!
//! ```text
//!  Azure (azure-sim): registry with releases, identities, vaults …
//!        ▲ HTTPS
//!  ┌─────┴──────────────── management cluster (embedded-kube) ─────────────────────────┐
//!  │ operators ─apply─> objects ─> controllers ─> pods on nodes: programs, or simulated │
//!  └───────▲───────────────────────────────────────────────────────────┬───────────────┘
//!          └── /healthz ── published address <── balancer, ingress <────┘  guest API
//! ```
//!
//! Everything is joined by protocols: the operators know a Kubernetes client and Azure's endpoints, releases are read
//! from a registry, and a guest's API is asked where it is published. What is made here and nowhere else is the
//! composition, and the two things a cloud would give: addresses for Services of type LoadBalancer ([`balancers`],
//! and [`intranet`] for those that Azure should know) and names that lead to Routes ([`ingress`]).
//!
//! What is simulated: containers without a program walk through stages (their pods carry `zaffre.io/simulated`), and
//! images of releases are names that nobody pulls.
//!
//! Only the binary, benchmarks and tests may link this crate; nothing in production code knows it.
//!
//! Rejected: giving guests an address by a port of 127.0.0.1. Kubeconfigs, certificates and Services name the port that
//! clusters publish (7443), so every balancer has an address of its own below 127.0.0.0/8, as in a cloud.

#![forbid(unsafe_code)]

pub mod around;
mod backup;
pub mod balancers;
mod boot;
mod break_glass;
mod cloud;
mod cluster;
mod dial;
mod external;
pub mod files;
mod gate;
pub mod health;
mod ignition;
pub mod ingress;
pub mod install;
pub mod intranet;
pub mod kubeconfig;
pub mod landing;
pub mod links;
mod machinery;
pub mod operators;
mod payload;
mod programs;
pub mod releases;
pub mod sample;
mod verdicts;
mod webhooks;

pub use around::{Around, boot_images, mirrors, payload_arch};
pub use balancers::Balancers;
pub use cloud::Cloud;
pub use external::External;
pub use ingress::Ingress;
pub use intranet::Intranet;
pub use landing::{Flavour, Landing};
pub use links::Linking;
pub use operators::{Ground, Keeping, Operators};

use clock::{Random, SharedClock};
use cluster::Management;
use ek_node::StageSet;
use ek_server::ApiServer;
use hypershift::Machinery;
use parking_lot::Mutex;
use reconcile::{Handle, Metrics, Runtime};
use release::Releases;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// How fast things happen that take time in a real cluster.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Pace {
    /// Nothing takes longer than it has to.
    #[default]
    Instant,
    /// Pods start about as fast as real ones.
    Realistic,
}

impl Pace {
    /// The longest pause of a machine between attempts to become a node.
    fn patience(self) -> std::time::Duration {
        std::time::Duration::from_secs(match self {
            Pace::Instant => 2,
            Pace::Realistic => 30,
        })
    }
}

/// What a world is made with.
#[derive(Clone)]
pub struct Options {
    /// Where it is kept; `None`: in a directory that is removed when it stops.
    pub dir: Option<PathBuf>,
    pub pace: Pace,
    /// How long Azure takes for things.
    pub profile: azure_sim::Profile,
    /// How many times as fast as the machine's clock Azure's runs.
    pub azure_pace: f64,
    /// The same seed gives the same Azure.
    pub seed: u64,
    /// Nodes of the management cluster in each of its three zones. A control plane has some forty pods, a node takes
    /// 250.
    pub nodes_per_zone: usize,
    /// Versions of OpenShift whose release images are in the registry.
    pub versions: Vec<String>,
    pub clock: SharedClock,
    /// Whether the operators run in this process. If not, their pods answer health checks and do nothing: somebody else
    /// does their work, as processes.
    pub operators: bool,
    /// Whether clusters are sorted by their number of nodes.
    pub sizing: bool,
    /// Whether public clusters with managed identities share a router.
    pub shared_ingress: bool,
    /// Who keeps machines, if our controllers do not.
    pub external: Option<External>,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            dir: None,
            pace: Pace::Instant,
            profile: azure_sim::Profile::Instant,
            azure_pace: 1.0,
            seed: 7,
            nodes_per_zone: 1,
            versions: releases::VERSIONS.map(str::to_owned).into(),
            clock: clock::system(),
            operators: true,
            sizing: false,
            shared_ingress: false,
            external: None,
        }
    }
}

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("cannot make the directory {path}")]
    Directory { path: PathBuf, source: std::io::Error },
    #[error("cannot start Azure")]
    Azure(#[from] cloud::Error),
    #[error("cannot start the management cluster")]
    Cluster(#[from] cluster::Error),
    #[error("cannot install what control planes need")]
    Install(#[from] install::Error),
    #[error("cannot listen for Routes")]
    Ingress(#[from] ek_guest::RouterError),
}

/// A running world.
pub struct World {
    cloud: Arc<Cloud>,
    /// Names of all worlds of one Azure.
    names: ingress::Ingresses,
    management: Management,
    ingress: Ingress,
    ground: Ground,
    operators: Mutex<Operators>,
    stop: CancellationToken,
    watches: JoinHandle<reconcile::Drained>,
    /// Machines boot once, however many worlds share their Azure. Whose Azure is another world's has none, and leaves
    /// it running.
    boots: Option<JoinHandle<()>>,
    dir: PathBuf,
    /// Removed at the end.
    scratch: Option<tempfile::TempDir>,
}

impl World {
    pub async fn start(options: Options) -> Result<World, Error> {
        files::raise_limit();
        let (dir, scratch) = place(&options)?;
        let cloud = Arc::new(Cloud::start(&options, &dir).await?);
        World::stand(options, cloud, None, dir, scratch).await
    }

    /// Another management cluster, with its own operators, that shares this one's Azure. It is kept in the directory of
    /// its options, and must be stopped before this one.
    pub async fn beside(&self, options: Options) -> Result<World, Error> {
        let (dir, scratch) = place(&options)?;
        World::stand(options, self.cloud.clone(), Some(self.names.clone()), dir, scratch).await
    }

    async fn stand(
        options: Options,
        cloud: Arc<Cloud>,
        others: Option<ingress::Ingresses>,
        dir: PathBuf,
        scratch: Option<tempfile::TempDir>,
    ) -> Result<World, Error> {
        let stages = match options.pace {
            Pace::Instant => StageSet::instant(),
            Pace::Realistic => StageSet::realistic(),
        };
        let random = Random::from_os();
        let releases = Releases::new();
        let means = programs::Means {
            images: cloud.images.clone(),
            releases: releases.clone(),
            clock: options.clock.clone(),
            random: random.clone(),
            operators: options.operators,
            newest: newest(&options.versions).and_then(|v| cloud.release(v)).map(str::to_owned),
        };
        let make =
            cluster::Make { options: &options, cloud: &cloud, means, dir: &dir, stages: stages.clone() };
        let management = Management::start(make, scratch.is_some()).await?;
        let client = management.server.client();
        let served = install::install(&client, options.external.as_ref()).await?;
        let mut runtime = Runtime::new(options.clock.clone(), &Metrics::default());
        let ingress = Ingress::start(&mut runtime, &client, management.nodes.clone()).await?;
        let around = Around::new(
            client.clone(),
            cloud.images.clone(),
            ingress.clone(),
            options.clock.clone(),
            cloud.image("zaffre"),
        );
        let around = around.with_vault_reader(&cloud.vault_reader).with_preflight(cloud.client.clone());
        let around = around.with_identities_of(&cloud, &dir).with_sizing(options.sizing);
        // Any release's will do; a newer one would roll it for nothing.
        let router = options.versions.first().and_then(|version| {
            releases::payload(&cloud.registry, version).images.get("haproxy-router").cloned()
        });
        let around = around.with_shared_ingress(router.filter(|_| options.shared_ingress));
        let machinery = if options.external.is_some() { Machinery::External } else { Machinery::Builtin };
        let around = around.with_machinery(machinery);
        let around = Arc::new(around.with_releases(releases));
        let ground = Ground {
            served,
            around,
            tenants: management.gate.tenants.clone(),
            machines: options.external.is_none().then(|| machinery::keeping(&management.machinery)),
            links: Some(links::linking(&management.gate, &cloud.intranet, &cloud.client, cloud.azure())),
            clock: options.clock.clone(),
            random,
        };
        let operators = match options.operators {
            true => Operators::start(&ground, &client),
            false => Operators::resting(&ground, &client),
        };
        let operators = Mutex::new(operators);
        let stop = CancellationToken::new();
        let watches = tokio::spawn(runtime.run(stop.clone()));
        tokio::spawn(ingress::name_routes(client, stop.clone()));
        let alone = others.is_none();
        let names = others.unwrap_or_default();
        names.add(ingress.clone());
        let machines = boot::Surroundings {
            azure: cloud.sim.world().clone(),
            dial: Arc::new(names.clone()),
            clock: options.clock.clone(),
            stages,
            seed: options.seed,
            dir: dir.clone(),
            patience: options.pace.patience(),
        };
        let boots = alone.then(|| tokio::spawn(boot::Boots::run(machines, stop.clone())));
        Ok(World { cloud, names, management, ingress, ground, operators, stop, watches, boots, dir, scratch })
    }

    /// The management cluster.
    pub fn management(&self) -> &ApiServer {
        &self.management.server
    }

    pub fn client(&self) -> kube::Client {
        self.management.server.client()
    }

    pub fn cloud(&self) -> &Cloud {
        &self.cloud
    }

    pub fn nodes(&self) -> &ek_node::Nodes {
        &self.management.nodes
    }

    pub fn guests(&self) -> &ek_guest::Guests {
        &self.management.guests
    }

    pub fn ingress(&self) -> &Ingress {
        &self.ingress
    }

    /// A guest's kubeconfig as this machine can use it.
    pub fn reachable(&self, kubeconfig: &str) -> Result<String, kubeconfig::Error> {
        kubeconfig::reachable(kubeconfig, self.ingress.address())
    }

    /// The operator of HostedClusters.
    pub fn clusters(&self) -> Handle {
        self.operators.lock().clusters.clone()
    }

    /// The operator of control planes: what it waits for, and a way to have it look again.
    pub fn planes(&self) -> Handle {
        self.operators.lock().planes.clone()
    }

    pub fn metrics(&self) -> Metrics {
        self.operators.lock().metrics.clone()
    }

    /// What the operators stand on, for whoever runs some of their own.
    pub fn ground(&self) -> &Ground {
        &self.ground
    }

    /// The operators die where they stand.
    pub fn kill_operators(&self) {
        self.operators.lock().kill();
    }

    /// The operators die where they stand, and others begin, which speak to the API through this client.
    pub fn replace_operators(&self, client: &kube::Client) {
        let mut operators = self.operators.lock();
        operators.kill();
        *operators = Operators::start(&self.ground, client);
    }

    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Stops everything: operators first, so that nothing is written about pods that only end because we do. What is left
    /// is the directory, if it was a passing one, and goes when it is dropped.
    pub async fn stop(self) -> Option<tempfile::TempDir> {
        self.operators.into_inner().stop().await;
        self.stop.cancel();
        let _ = self.watches.await;
        self.names.remove(&self.ingress);
        let owner = self.boots.is_some();
        if let Some(boots) = self.boots {
            let _ = boots.await;
        }
        self.ingress.close();
        self.management.stop().await;
        if owner {
            self.cloud.stop();
        }
        self.scratch
    }
}

/// The newest of these versions.
fn newest(versions: &[String]) -> Option<&str> {
    let read = |v: &String| v.parse::<apis::version::Version>().ok();
    versions.iter().max_by(|a, b| read(a).cmp(&read(b))).map(String::as_str)
}

fn place(options: &Options) -> Result<(PathBuf, Option<tempfile::TempDir>), Error> {
    match &options.dir {
        Some(dir) => {
            let failed = |source| Error::Directory { path: dir.clone(), source };
            std::fs::create_dir_all(dir).map_err(failed)?;
            Ok((dir.clone(), None))
        }
        None => {
            let failed = |source| Error::Directory { path: "(temporary)".into(), source };
            let scratch = tempfile::Builder::new().prefix("zaffre-world-").tempdir().map_err(failed)?;
            Ok((scratch.path().to_owned(), Some(scratch)))
        }
    }
}
