//! The management cluster: an API server, controllers, nodes, and programs for what runs on them.

use crate::balancers::Balancers;
use crate::gate::{self, ControlPlaneOperator, Gate};
use crate::machinery::{Machinery, Machines};
use crate::programs::Means;
use crate::{Cloud, Options, Pace, backup, releases};
use ek_engine::Engine;
use ek_guest::Guests;
use ek_node::{Events, NodeSpec, Nodes, StageSet};
use ek_server::{ApiServer, Config};
use k8s_openapi::api::storage::v1::StorageClass;
use kube::api::{Api, Patch, PatchParams};
use operands::Operands;
use serde_json::json;
use std::path::Path;
use std::sync::Arc;
use tokio::task::JoinHandle;

/// What the cluster is called among those of this process.
pub const NAME: &str = ek_server::MAIN;
pub const ZONES: usize = 3;
/// What volumes are made of if nobody says otherwise.
const DISKS: &str = "managed-csi";
/// Who makes volumes in every embedded cluster.
const PROVISIONER: &str = "zaffre.io/local";
/// The image with our own programs.
const OURS: &str = "*/zaffre:*";

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Server(#[from] ek_server::Error),
    #[error(transparent)]
    Nodes(#[from] ek_node::Error),
    #[error("cannot say what disks there are")]
    Disks(#[from] Box<kube::Error>),
}

/// What it is made of.
pub(crate) struct Make<'a> {
    pub options: &'a Options,
    pub cloud: &'a Cloud,
    pub means: Means,
    pub dir: &'a Path,
    pub stages: StageSet,
}

pub(crate) struct Management {
    pub server: ApiServer,
    pub nodes: Nodes,
    pub guests: Guests,
    pub gate: Arc<Gate>,
    pub machinery: Arc<Machinery>,
    balancers: Arc<Balancers>,
    engine: JoinHandle<()>,
}

impl Management {
    pub(crate) async fn start(make: Make<'_>, forget: bool) -> Result<Management, Error> {
        let Make { options, cloud, means, dir, stages } = make;
        let config = if forget { Config::memory() } else { Config::directory(dir.join("management")) };
        let server = ApiServer::start(Config { clock: options.clock.clone(), ..config }).await?;
        let timing = sidecars::Timing { clock: options.clock.clone(), ..sidecars::Timing::system() };
        let operands = Operands::new(cloud.azure(), timing);
        let guests = Guests::with_kms(server.host(), operands.kms());
        guests.fetch_with(backup::Fetch::new(cloud));
        let mut with =
            ek_node::Options { stages, seed: options.seed, ..ek_node::Options::new(dir.join("nodes")) };
        if options.pace == Pace::Instant {
            with.events = Events::Brief;
        }
        guests.register(&mut with.programs, releases::pattern);
        operands.register(&mut with.programs, releases::pattern, OURS);
        let store = operands.secrets_store(cloud.node_identity());
        with.csi.insert(operands::SECRETS_STORE.to_owned(), store);
        means.register(&mut with.programs, releases::pattern, OURS);
        let gate = Gate::new();
        let operator = Arc::new(ControlPlaneOperator(gate.clone()));
        with.programs.register_where(OURS, gate::serves("control-plane-operator"), operator);
        let machinery = Machinery::new(cloud.azure());
        let machines = Arc::new(Machines(machinery.clone()));
        with.programs.register_where(OURS, gate::serves("machines"), machines);
        let uploads = Arc::new(backup::EtcdBackup::new(cloud));
        with.programs.register_where(OURS, gate::serves("etcd-backup"), uploads);
        if let Some(external) = &options.external {
            external.register(&mut with.programs, releases::pattern);
        }
        let nodes = Nodes::new(server.host(), with);
        let balancers = Balancers::new(nodes.clone(), server.host().random().clone());
        let balancers = Arc::new(balancers.with_intranet(cloud.intranet.clone()));
        let mut controllers = nodes.controllers();
        controllers.extend(ek_controllers::all(ek_controllers::Options {
            load_balancers: Some(balancers.clone()),
            ..ek_controllers::Options::default()
        }));
        disks(&server.client()).await?;
        let engine = Engine::new(server.host(), controllers);
        nodes.attach(&engine);
        let engine = tokio::spawn(engine.run());
        for n in 1..=options.nodes_per_zone * ZONES {
            nodes.add_node(NAME, &format!("node-{n}"), node(n)).await?;
        }
        Ok(Management { server, nodes, guests, gate, machinery, balancers, engine })
    }

    pub(crate) async fn stop(self) {
        self.balancers.close();
        self.nodes.stop();
        self.server.host().stop().await;
        let _ = self.engine.await;
    }
}

/// Disks of this cloud outlive nodes: made at once, they are bound to none, as zone-redundant ones are in Azure.
async fn disks(client: &kube::Client) -> Result<(), Error> {
    let class = json!({"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass",
        "metadata": {"name": DISKS, "annotations": {"storageclass.kubernetes.io/is-default-class": "true"}},
        "provisioner": PROVISIONER, "reclaimPolicy": "Delete", "volumeBindingMode": "Immediate"});
    let classes: Api<StorageClass> = Api::all(client.clone());
    let params = PatchParams::apply("zaffre-install").force();
    classes.patch(DISKS, &params, &Patch::Apply(&class)).await.map_err(Box::new)?;
    Ok(())
}

/// A machine that is large enough for as many pods as it may have; zones take turns.
fn node(n: usize) -> NodeSpec {
    let zone = (n - 1) % ZONES + 1;
    let labels = [
        ("topology.kubernetes.io/region", "westus2".to_owned()),
        ("topology.kubernetes.io/zone", format!("westus2-{zone}")),
        ("node.kubernetes.io/instance-type", "Standard_D64s_v5".to_owned()),
    ];
    NodeSpec {
        cpus: 64,
        memory: "512Gi".into(),
        storage: "2Ti".into(),
        pods: 250,
        labels: labels.map(|(k, v)| (k.to_owned(), v)).into(),
        ..NodeSpec::default()
    }
}
