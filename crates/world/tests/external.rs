//! The same scenarios in any management cluster that a kubeconfig names.
//!
//! `ZAFFRE_KUBECONFIG=<file> cargo test -p world --test main external -- --nocapture` applies our kinds there, runs the
//! operators here, and plays every scenario of the [suite](SUITE) one after the other: the bodies are those that run in an
//! embedded world. Each goes as far as that cluster's nodes do: with nodes that cannot pull the images, or that only
//! simulate pods, a guest's API cannot answer, and the scenario says so and ends with the deletion. The Azure is a
//! simulated one, in this process: what pods would have to ask of it ends a scenario as well, and machines of a node pool
//! become nodes only where a world boots them. What can only be seen from inside a world is said not to have been
//! looked at.
//!
//! All names carry a mark that is drawn for each scenario, by which it is known what is ours: nothing with it may be
//! found afterwards. The definitions, and the namespaces `clusters` and `hypershift`, stay. A scenario that fails is
//! cleared away like the others, and those after it are played all the same.

use crate::kit::Kit;
use crate::place::{Place, Reached, explain, landing};
use crate::{authorities, backups, deletion, kms, life, road, upgrades};
use apis::capz::AzureClusterIdentity;
use control_plane::operate::Tenants;
use futures::FutureExt;
use futures::future::BoxFuture;
use k8s_openapi::api::core::v1::Secret;
use kube::api::Api;
use kube::config::{KubeConfigOptions, Kubeconfig};
use machines::{Clouds, Reach, Unreachable};
use std::collections::BTreeSet;
use std::panic::AssertUnwindSafe;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;
use world::sample::NAMESPACE;
use world::{Around, Cloud, Flavour, Ground, Keeping, Landing, Operators, Options, World};

#[derive(Clone, Copy, Debug)]
enum Scenario {
    Life(Flavour),
    Upgrades,
    Rotation,
    VaultAway,
    Restore,
    MembersLost,
    Authorities,
    Deletion,
    Pools(Flavour),
}

const SUITE: [Scenario; 11] = [
    Scenario::Life(Flavour::Workload),
    Scenario::Life(Flavour::Managed),
    Scenario::Upgrades,
    Scenario::Rotation,
    Scenario::VaultAway,
    Scenario::Restore,
    Scenario::MembersLost,
    Scenario::Authorities,
    Scenario::Deletion,
    Scenario::Pools(Flavour::Workload),
    Scenario::Pools(Flavour::Managed),
];

impl Scenario {
    fn flavour(self) -> Flavour {
        match self {
            Scenario::Life(flavour) | Scenario::Pools(flavour) => flavour,
            Scenario::VaultAway => Flavour::Managed,
            _ => Flavour::Workload,
        }
    }

    async fn play<P: Place>(self, kit: &Kit<P>) -> Reached {
        match self {
            Scenario::Life(flavour) => Box::pin(life::whole(kit, flavour)).await,
            Scenario::Upgrades => Box::pin(upgrades::refused_blocked_forced(kit)).await,
            Scenario::Rotation => Box::pin(kms::moves_to_another_key(kit)).await,
            Scenario::VaultAway => Box::pin(kms::survives_its_vault(kit)).await,
            Scenario::Restore => Box::pin(backups::comes_back(kit)).await,
            Scenario::MembersLost => Box::pin(backups::members_lost(kit)).await,
            Scenario::Authorities => Box::pin(authorities::replaced(kit)).await,
            Scenario::Deletion => Box::pin(deletion::from_everywhere(kit)).await,
            Scenario::Pools(_) => Box::pin(road::walk(kit)).await,
        }
    }
}

/// Releases of all scenarios.
fn options() -> Options {
    let ours = Options::default();
    let versions: BTreeSet<String> =
        ours.versions.iter().cloned().chain(upgrades::VERSIONS.map(str::to_owned)).collect();
    Options { versions: versions.into_iter().collect(), ..ours }
}

/// The guest by its administrator's kubeconfig: Services of the cluster have no names out here.
struct ByAdmin(kube::Client);

impl Reach for ByAdmin {
    fn guest<'a>(&'a self, plane: &'a str, _: &'a str) -> BoxFuture<'a, Result<kube::Client, Unreachable>> {
        Box::pin(async move {
            let no = |what: &str| Unreachable(format!("{plane} has no {what}"));
            let name = plane.strip_prefix(&format!("{NAMESPACE}-")).ok_or_else(|| no("cluster"))?;
            let secrets: Api<Secret> = Api::namespaced(self.0.clone(), NAMESPACE);
            let secret = secrets.get_opt(&format!("{name}-admin-kubeconfig")).await;
            let secret = secret.map_err(|e| Unreachable(e.to_string()))?;
            let secret = secret.and_then(|s| s.data).ok_or_else(|| no("kubeconfig"))?;
            Ok(client(&String::from_utf8(secret["kubeconfig"].0.clone()).unwrap()).await)
        })
    }
}

/// Who may do everything in the simulated Azure.
struct Owner(azure::Client);

impl Clouds for Owner {
    fn client<'a>(
        &'a self,
        _: &'a AzureClusterIdentity,
    ) -> BoxFuture<'a, Result<azure::Client, Unreachable>> {
        Box::pin(async move { Ok(self.0.clone()) })
    }
}

async fn client(config: &str) -> kube::Client {
    let config = Kubeconfig::from_yaml(config).unwrap();
    let config = kube::Config::from_custom_kubeconfig(config, &KubeConfigOptions::default()).await.unwrap();
    kube::Client::try_from(config).unwrap()
}

/// A management cluster that is known by its kubeconfig alone, and operators for it.
struct Outside<'a> {
    client: kube::Client,
    cloud: &'a Cloud,
    dir: &'a Path,
    operators: Operators,
    reaches_azure: bool,
}

impl<'a> Outside<'a> {
    async fn enter(config: &str, cloud: &'a Cloud, dir: &'a Path, reaches_azure: bool) -> Outside<'a> {
        let client = client(config).await;
        let served = world::install::install(&client, None).await.unwrap();
        let (clock, random) = (clock::system(), clock::Random::from_os());
        let around = Around::new(
            client.clone(),
            cloud.images.clone(),
            world::health::Direct,
            clock.clone(),
            cloud.image("zaffre"),
        );
        let around = around.with_vault_reader(&cloud.vault_reader).with_preflight(cloud.client.clone());
        let around = Arc::new(around.with_identities_of(cloud, dir));
        let keeping = Keeping {
            tenants: Tenants::all(),
            reach: Arc::new(ByAdmin(client.clone())),
            clouds: Arc::new(Owner(cloud.client.clone())),
        };
        let ground = Ground {
            served,
            around,
            tenants: Tenants::all(),
            machines: Some(keeping),
            links: None,
            clock,
            random,
        };
        let operators = Operators::start(&ground, &client);
        Outside { client, cloud, dir, operators, reaches_azure }
    }

    /// Plays scenarios, and says how far each went. Whatever happens in one, it is cleared away.
    async fn play(&self, scenarios: &[Scenario]) -> Vec<Reached> {
        let (mut reached, mut failed) = (Vec::new(), Vec::new());
        for scenario in scenarios {
            let begun = Instant::now();
            let uuid = self.cloud.client.timing().random.uuid();
            // No hash has this letter.
            let visit = Visit { at: self, mark: format!("x{}", &uuid[..5]) };
            let name = landing(&visit.mark);
            let landing = Landing::make(self.cloud, self.dir, &name, scenario.flavour()).await.unwrap();
            let kit = Kit { world: visit, landing };
            let played = AssertUnwindSafe(scenario.play(&kit)).catch_unwind().await;
            let cleared = AssertUnwindSafe(kit.clear()).catch_unwind().await;
            let took = begun.elapsed();
            match (played, cleared) {
                (Ok(how), Ok(())) => {
                    eprintln!("{scenario:?} with {}: {how:?} after {took:?}", kit.world.mark);
                    reached.push(how);
                }
                // What went wrong was said when it did.
                (played, cleared) => failed.push((scenario, played.is_ok(), cleared.is_ok())),
            }
        }
        assert!(failed.is_empty(), "failed (played, cleared away): {failed:#?}");
        reached
    }
}

/// One scenario in such a cluster.
struct Visit<'a> {
    at: &'a Outside<'a>,
    mark: String,
}

impl Place for Visit<'_> {
    fn client(&self) -> kube::Client {
        self.at.client.clone()
    }

    fn cloud(&self) -> &Cloud {
        self.at.cloud
    }

    fn dir(&self) -> &Path {
        self.at.dir
    }

    fn mark(&self) -> &str {
        &self.mark
    }

    fn world(&self) -> Option<&World> {
        None
    }

    fn reaches_azure(&self) -> bool {
        self.at.reaches_azure
    }

    fn reachable(&self, kubeconfig: &str) -> String {
        kubeconfig.to_owned()
    }

    fn explain(&self, cluster: &str) -> String {
        explain(&self.at.operators.clusters, &self.at.operators.planes, cluster)
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_suite_in_the_cluster_of_zaffre_kubeconfig() {
    let Some(path) = std::env::var_os("ZAFFRE_KUBECONFIG") else {
        eprintln!("skipped: ZAFFRE_KUBECONFIG names no kubeconfig of a cluster to play the suite in");
        return;
    };
    let dir = tempfile::tempdir().unwrap();
    let cloud = Cloud::start(&options(), dir.path()).await.unwrap();
    let config = std::fs::read_to_string(&path).unwrap();
    let outside = Outside::enter(&config, &cloud, dir.path(), false).await;
    outside.play(&SUITE).await;
    outside.operators.stop().await;
    cloud.stop();
}

/// Plays scenarios in a world that is reached by its kubeconfig alone.
async fn from_outside(world: &World, scenarios: &[Scenario]) -> Vec<Reached> {
    // It has operators of its own, which would do the work.
    world.kill_operators();
    let listening = world.management().listen(([127, 0, 0, 1], 0).into()).await.unwrap();
    let config = world.management().kubeconfig(&format!("https://{}", listening.address)).unwrap();
    let outside = Outside::enter(&config.to_string(), world.cloud(), world.dir(), true).await;
    let reached = outside.play(scenarios).await;
    outside.operators.stop().await;
    reached
}

/// What the whole suite takes is minutes, and its bodies are tested in a world of ours. These show that they do as well
/// from outside: control planes of both flavours, and machines.
const SOME: [Scenario; 2] = [Scenario::Life(Flavour::Managed), Scenario::Pools(Flavour::Workload)];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_kubeconfig_is_enough_where_nodes_can() {
    let world = World::start(options()).await.unwrap();
    let reached = from_outside(&world, &SOME).await;
    assert!(reached.iter().all(|r| *r == Reached::End), "{reached:?}");
    world.stop().await;
}

/// The same with all of it, for whoever has the time: `cargo test -p world --test main -- --ignored from_outside`.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "takes many minutes"]
async fn all_of_it_from_outside() {
    let world = World::start(options()).await.unwrap();
    let reached = from_outside(&world, &SUITE).await;
    assert!(reached.iter().all(|r| *r == Reached::End), "{reached:?}");
    world.stop().await;
}

/// Every scenario has an end where there are no nodes at all.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn all_of_it_ends_where_nodes_cannot_go_on() {
    let world = World::start(options()).await.unwrap();
    for name in world.nodes().names(ek_server::MAIN) {
        world.nodes().remove_node(ek_server::MAIN, &name).await.unwrap();
    }
    let reached = from_outside(&world, &SUITE).await;
    let none = |r: &Reached| matches!(r, Reached::Made { why } if why == "there are no nodes");
    assert!(reached.len() == SUITE.len() && reached.iter().all(none), "{reached:?}");
    world.stop().await;
}
