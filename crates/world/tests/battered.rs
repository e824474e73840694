//! The whole life of a cluster with nodes under operators that die all the time.
//!
//! `testkit::adversarial` attacks one point per scenario, and each scenario would be a whole cluster: an hour. This is the
//! same question in one life: created to nodes that are Ready, upgraded, and removed, while every sort of request meets
//! both [blows](crate::attacks) in each of the three parts, or everybody dies after each single write. What is there when the cluster is complete
//! must be what a life without trouble has, in Azure there is never more than its machines are made of once all is
//! settled, and nothing may be left at the end.

use crate::attacks::{Attacks, Grain};
use crate::kit::{DEADLINE, Kit, is_true, says};
use crate::kms::{KEY, Vault};
use crate::remains::Remains;
use hypershift::kinds;
use kube::api::ListParams;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};
use world::Flavour;
use world::sample::Sample;

/// The landing is made for a cluster of this name.
const NAME: &str = "land";
const PLANE: &str = "clusters-land";
const NODES: usize = 2;

/// What a complete cluster is made of; what chance names goes by its kind and number.
fn shape(of: &Remains) -> BTreeMap<String, usize> {
    let ours = of.objects.iter().filter(|o| o.contains(PLANE) || o.contains(&format!("clusters/{NAME}")));
    let passing = ["Pod ", "ReplicaSet ", "ControllerRevision ", "Endpoint", "Job "];
    let mut all = BTreeMap::new();
    for o in ours.filter(|o| !passing.iter().any(|k| o.starts_with(k))) {
        // Hashes of what nodes boot with follow the address of the API, which is drawn.
        let drawn = [
            "Machine ",
            "MachineSet ",
            "AzureMachine ",
            "Secret clusters-land/token-np-",
            "Secret clusters-land/user-data-np-",
        ];
        let name = drawn.iter().find(|k| o.starts_with(*k)).map_or(o.as_str(), |k| k.trim());
        *all.entry(name.to_owned()).or_default() += 1;
    }
    all
}

/// Machines, interfaces and disks that stand in Azure, by sort.
fn standing(kit: &Kit) -> BTreeMap<String, usize> {
    let left = kit.world.cloud().sim.world().leaks();
    let mut all = BTreeMap::new();
    for id in left["value"].as_array().unwrap().iter().filter_map(|l| l["id"].as_str()) {
        let sort = id.rsplit('/').nth(1).unwrap_or_default();
        if ["virtualMachines", "networkInterfaces", "disks"].contains(&sort) {
            *all.entry(sort.to_owned()).or_default() += 1;
        }
    }
    all
}

/// Waits until Azure has what the pool's machines are made of and nothing else.
async fn nothing_more(kit: &Kit, when: &str) {
    let wanted: BTreeMap<String, usize> =
        ["virtualMachines", "networkInterfaces", "disks"].map(|s| (s.to_owned(), NODES)).into();
    let wait = async {
        loop {
            let machines = kit.api(&kinds::MACHINE, PLANE).list_metadata(&ListParams::default()).await;
            if standing(kit) == wanted && machines.unwrap().items.len() == NODES {
                return;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    if tokio::time::timeout(DEADLINE, wait).await.is_err() {
        kit.tell().await;
        panic!("{when}: {:?} stand in Azure", standing(kit));
    }
}

async fn at(kit: &Kit, version: &str) {
    let so = |s: &Value| {
        is_true(s, "Available")
            && says(s, "Degraded", "False", &[])
            && is_true(s, "ReconciliationSucceeded")
            && s["kubeadminPassword"]["name"].is_string()
            && s["controlPlaneVersion"]["history"][0]["state"] == "Completed"
            && s["controlPlaneVersion"]["history"][0]["version"] == version
    };
    kit.until(NAME, &format!("complete at {version}"), so).await;
}

async fn nodes_at(kit: &Kit, version: &str) {
    kit.until_pool("np", &format!("nodes at {version}"), |s| {
        is_true(s, "Ready")
            && is_true(s, "AllNodesHealthy")
            && s["version"] == version
            && says(s, "UpdatingVersion", "False", &[])
            && s["nodesInfo"]["nodeVersions"][0]["readyNodeCount"] == NODES
    })
    .await;
}

/// A cluster, and how its nodes are upgraded.
struct Life {
    sample: Sample,
    in_place: bool,
}

impl Life {
    async fn create(&self, kit: &Kit) -> BTreeMap<String, usize> {
        self.sample.create(&kit.world).await.unwrap();
        let mut pool = kit.pool("np", "4.20.1", NODES as u32);
        if self.in_place {
            pool["spec"]["management"] = json!({"upgradeType": "InPlace", "autoRepair": true});
        }
        kit.put(&kinds::POOL, pool).await;
        at(kit, "4.20.1").await;
        nodes_at(kit, "4.20.1").await;
        nothing_more(kit, "created").await;
        shape(&Remains::of(kit).await)
    }

    async fn upgrade(&self, kit: &Kit) {
        let old = kit.machines();
        let image = kit.world.cloud().release("4.21.0").unwrap();
        let wish = json!({"spec": {"release": {"image": image}}});
        kit.patch(NAME, wish.clone()).await;
        at(kit, "4.21.0").await;
        kit.change_pool("np", wish).await;
        nodes_at(kit, "4.21.0").await;
        nothing_more(kit, "upgraded").await;
        if self.in_place {
            assert_eq!(kit.machines(), old, "no machine was replaced");
        } else {
            assert!(kit.machines().is_disjoint(&old), "every machine was replaced");
        }
    }

    /// Calm once, to see what there is; then every part of it under attack. `before` is what nobody may add to.
    async fn suffer(&self, kit: &Kit, grain: Grain) -> Arc<Attacks> {
        let before = Remains::of(kit).await;
        let begun = Instant::now();
        let expected = self.create(kit).await;
        end(kit).await;
        eprintln!("without trouble: {:?}", begun.elapsed());

        let (attacks, died) = Attacks::new(grain);
        let life = async {
            for part in ["create", "upgrade", "end"] {
                attacks.enter(kit, part);
                match part {
                    "create" => {
                        self.create(kit).await;
                        comes_to(kit, &expected).await;
                    }
                    "upgrade" => self.upgrade(kit).await,
                    _ => end(kit).await,
                }
                eprintln!("{part}: {:?}, {} deaths", begun.elapsed(), attacks.killed().len());
            }
        };
        attacks.while_(kit, died, Box::pin(life)).await;
        attacks.cease(kit);
        let (lost, killed) = (attacks.lost(), attacks.killed());
        eprintln!("{} answers lost: {lost:#?}\n{} deaths: {killed:#?}", lost.len(), killed.len());
        Remains::of(kit).await.assert_clean_since(&before, &[]);
        attacks
    }
}

/// Waits until there is what a life without trouble has, and nothing else: who works is complete before all is told of it.
async fn comes_to(kit: &Kit, expected: &BTreeMap<String, usize>) {
    let mut found = shape(&Remains::of(kit).await);
    let wait = async {
        while found != *expected {
            tokio::time::sleep(Duration::from_millis(200)).await;
            found = shape(&Remains::of(kit).await);
        }
    };
    if tokio::time::timeout(DEADLINE, wait).await.is_err() {
        let differ = |a: &BTreeMap<String, usize>, b: &BTreeMap<String, usize>| -> Vec<String> {
            a.iter().filter(|(k, n)| b.get(*k) != Some(*n)).map(|(k, _)| k.clone()).collect()
        };
        panic!("more: {:#?}\nless: {:#?}", differ(&found, expected), differ(expected, &found));
    }
}

async fn end(kit: &Kit) {
    kit.delete(NAME).await;
    kit.gone(NAME).await;
    assert_eq!(standing(kit), BTreeMap::new());
    kit.take_back(NAME).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_life_with_nodes_under_operators_that_die_after_every_sort_of_request() {
    let kit = Kit::start(Flavour::Workload).await;
    let sample = Sample::new(&kit.world, &kit.landing, NAME, "4.20.1").unwrap();
    let attacks = Life { sample, in_place: false }.suffer(&kit, Grain::Sorts).await;
    let (lost, killed) = (attacks.lost(), attacks.killed());
    // Every operator, in every part.
    for point in [
        "create: PATCH deployments",
        "create: PATCH statefulsets",
        "create: PATCH hostedclusters/status",
        "create: PATCH hostedcontrolplanes",
        "create: PATCH hostedcontrolplanes/status",
        "create: PATCH nodepools/status",
        "create: POST machines",
        "create: POST azuremachines",
        "create: azure PUT networkInterfaces",
        "create: azure PUT virtualMachines",
        "create: guest PATCH nodes",
        "upgrade: PATCH deployments",
        "upgrade: PATCH nodepools/status",
        "upgrade: POST machines",
        "upgrade: azure PUT virtualMachines",
        "upgrade: azure DELETE virtualMachines",
        "upgrade: azure DELETE networkInterfaces",
        "upgrade: guest PATCH nodes",
        "upgrade: guest DELETE nodes",
        "end: azure DELETE virtualMachines",
        "end: azure DELETE disks",
    ] {
        // Its answer was lost, or somebody died at it: a call whose answer was lost is not always made again, since what it
        // was for may have come about without it.
        let attacked = lost.iter().chain(&killed).any(|k| k == point);
        assert!(attacked, "nobody was attacked at {point}: {killed:#?}");
    }
    assert!(killed.len() >= 60, "{killed:#?}");
    let of = |list: &[String], words: &str| {
        list.iter().filter(|l| l.contains(words)).collect::<BTreeSet<_>>().len()
    };
    assert!(of(&lost, "azure PUT") >= 2 && of(&lost, "azure DELETE") >= 3, "{lost:#?}");
    assert!(of(&lost, "DELETE") > of(&lost, "azure DELETE"), "{lost:#?}");
    kit.world.stop().await;
}

/// The same with everything that the first has not: managed identities, three of everything, encrypted data, and nodes
/// that are upgraded where they are.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_managed_encrypted_life_in_place_under_operators_that_die() {
    let kit = Kit::start(Flavour::Managed).await;
    let vault = Vault::make(&kit, "batteredkms").await;
    let key = vault.version().await;
    let sample = Sample::new(&kit.world, &kit.landing, NAME, "4.20.1").unwrap();
    let sample = sample.highly_available().encrypted_by(&kit.landing, &vault.name, KEY, &key);
    let attacks = Life { sample, in_place: true }.suffer(&kit, Grain::Sorts).await;
    let killed = attacks.killed();
    for point in [
        "create: PATCH secretproviderclasses",
        "create: POST machines",
        "create: azure PUT virtualMachines",
        "upgrade: PATCH deployments",
        "upgrade: PATCH nodepools/status",
        "upgrade: PATCH machinesets",
        "end: azure DELETE virtualMachines",
    ] {
        assert!(
            killed.iter().chain(&attacks.lost()).any(|k| k == point),
            "nobody died at {point}: {killed:#?}"
        );
    }
    let guests = attacks.config_operators();
    assert!(guests.iter().filter(|part| **part == "upgrade").count() >= 2, "{guests:?}");
    kit.world.stop().await;
}

/// And each single write: every object that is made, changed or deleted, and every resource in Azure.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_life_with_nodes_under_operators_that_die_after_every_single_write() {
    let kit = Kit::start(Flavour::Workload).await;
    let sample = Sample::new(&kit.world, &kit.landing, NAME, "4.20.1").unwrap();
    let attacks = Life { sample, in_place: false }.suffer(&kit, Grain::Writes).await;
    let killed = attacks.killed();
    let in_part = |part: &str, words: &str| {
        let of = killed.iter().filter(|k| k.starts_with(part) && k.contains(words));
        of.collect::<BTreeSet<_>>().len()
    };
    assert!(killed.len() >= 300, "{}", killed.len());
    assert!(in_part("create", "/deployments/") >= 25, "{}", in_part("create", "/deployments/"));
    // One more where two were asked for at once and the second was made after its maker had died.
    assert!(in_part("create", "azure PUT virtualMachines") >= NODES);
    assert!(in_part("upgrade", "azure PUT virtualMachines") >= NODES);
    assert!(in_part("upgrade", "azure DELETE virtualMachines") >= NODES);
    assert!(in_part("end", "azure DELETE") >= NODES);
    kit.world.stop().await;
}
