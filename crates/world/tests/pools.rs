//! From a NodePool to virtual machines in Azure that are nodes of a guest, and back to nothing.

use crate::kit::{DEADLINE, Kit, condition, is_true};
use crate::remains::Remains;
use azure::ops::VirtualMachines;
use hypershift::kinds;
use kube::api::{DynamicObject, ListParams, Patch, PatchParams};
use reconcile::Kind;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use world::Flavour;
use world::sample::{NAMESPACE, Sample};

const NODE: Kind = Kind::new("", "v1", "Node", "nodes").cluster_wide();
/// The landing is made for a cluster of this name: its load balancer is named so.
const CLUSTER: &str = "land";
const PLANE: &str = "clusters-land";

impl Kit {
    /// A cluster that nodes can join.
    pub async fn with_cluster(&self, version: &str) -> Sample {
        let sample = Sample::new(&self.world, &self.landing, CLUSTER, version).unwrap();
        sample.create(&self.world).await.unwrap();
        self.available(CLUSTER).await;
        sample
    }

    pub fn pool(&self, name: &str, version: &str, replicas: u32) -> Value {
        json!({"apiVersion": "hypershift.openshift.io/v1beta1", "kind": "NodePool",
            "metadata": {"name": name, "namespace": NAMESPACE}, "spec": {
                "clusterName": CLUSTER, "replicas": replicas, "release": {"image": self.world.cloud().release(version).unwrap()},
                "management": {"upgradeType": "Replace", "autoRepair": true},
                "platform": {"type": "Azure", "azure": {"vmSize": "Standard_D4s_v5", "availabilityZone": "1",
                    "image": {"type": "AzureMarketplace"}, "osDisk": {"sizeGiB": 120, "diskStorageAccountType": "Premium_LRS"},
                    "subnetID": self.landing.layout.subnet}}}})
    }

    pub async fn put(&self, kind: &Kind, o: Value) {
        let namespace = o["metadata"]["namespace"].as_str().unwrap_or_default().to_owned();
        self.api(kind, &namespace)
            .create(&Default::default(), &serde_json::from_value(o).unwrap())
            .await
            .unwrap();
    }

    pub async fn change_pool(&self, name: &str, patch: Value) {
        let api = self.api(&kinds::POOL, NAMESPACE);
        api.patch(name, &PatchParams::default(), &Patch::Merge(&patch)).await.unwrap();
    }

    /// Waits until a pool is so, and tells everything if it never is.
    pub async fn until_pool(&self, name: &str, what: &str, so: impl Fn(&Value) -> bool) -> Value {
        let seen = |o: Option<&DynamicObject>| o.is_some_and(|o| so(&o.data["status"]));
        let wait = kube::runtime::wait::await_condition(self.api(&kinds::POOL, NAMESPACE), name, seen);
        match tokio::time::timeout(DEADLINE, wait).await {
            Ok(o) => o.unwrap().unwrap().data["status"].clone(),
            Err(_) => {
                self.tell().await;
                panic!("the pool never was so: {what}");
            }
        }
    }

    pub async fn pool_gone(&self, name: &str) {
        let gone = |o: Option<&DynamicObject>| o.is_none();
        let wait = kube::runtime::wait::await_condition(self.api(&kinds::POOL, NAMESPACE), name, gone);
        if tokio::time::timeout(DEADLINE, wait).await.is_err() {
            self.tell().await;
            panic!("the pool is never gone");
        }
    }

    /// What there is, for somebody who wonders.
    pub async fn tell(&self) {
        for (kind, ns) in [
            (kinds::POOL, NAMESPACE),
            (kinds::MACHINE_DEPLOYMENT, PLANE),
            (kinds::MACHINE_SET, PLANE),
            (kinds::MACHINE, PLANE),
            (kinds::AZURE_MACHINE, PLANE),
        ] {
            for o in self.api(&kind, ns).list(&ListParams::default()).await.unwrap().items {
                eprintln!(
                    "{} {:?} {:?} {:#}",
                    kind.kind, o.metadata.name, o.metadata.deletion_timestamp, o.data["status"]
                );
            }
        }
        eprintln!("{}", self.story(CLUSTER).await);
    }

    /// Virtual machines in Azure, by name.
    pub fn machines(&self) -> BTreeSet<String> {
        let left = self.world.cloud().sim.world().leaks();
        let ids =
            left["value"].as_array().unwrap().iter().filter_map(|l| l["id"].as_str().map(str::to_owned));
        ids.filter(|id| id.contains("/virtualMachines/"))
            .map(|id| id.rsplit('/').next().unwrap().to_owned())
            .collect()
    }

    async fn machine_names(&self) -> BTreeSet<String> {
        let all = self.api(&kinds::MACHINE, PLANE).list(&ListParams::default()).await.unwrap().items;
        all.into_iter()
            .filter(|m| m.metadata.deletion_timestamp.is_none())
            .filter_map(|m| m.metadata.name)
            .collect()
    }
}

fn provisioned(status: &Value) -> bool {
    !condition(status, "AllMachinesReady").is_null()
}

fn node_versions(status: &Value) -> Vec<(String, i64, i64)> {
    let list = status["nodesInfo"]["nodeVersions"].as_array().cloned().unwrap_or_default();
    let number = |v: &Value| v.as_i64().unwrap_or(0);
    list.iter()
        .map(|n| {
            (
                n["ocpVersion"].as_str().unwrap().to_owned(),
                number(&n["readyNodeCount"]),
                number(&n["unreadyNodeCount"]),
            )
        })
        .collect()
}

/// Machines become nodes; a broken one is replaced; another version replaces all, one more at a time than there are.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn machines_become_nodes_are_repaired_and_replaced() {
    let kit = Kit::start(Flavour::Workload).await;
    kit.with_cluster("4.20.1").await;
    let mut pool = kit.pool("np", "4.19.4", 2);
    pool["spec"]["platform"]["azure"]["image"] = json!({"type": "AzureMarketplace", "azureMarketplace": {
        "publisher": "azureopenshift", "offer": "aro4", "sku": "419-v2", "version": "419.6.20250523"}});
    pool["metadata"]["annotations"] = json!({"hypershift.openshift.io/machine-health-check-timeout": "1s",
        "hypershift.openshift.io/machine-health-check-max-unhealthy": "2"});
    kit.put(&kinds::POOL, pool).await;
    let status = kit.until_pool("np", "Ready", |s| is_true(s, "Ready") && s["version"] == "4.19.4").await;
    assert_eq!(status["replicas"], 2);
    for kind in [
        "AllMachinesReady",
        "AllNodesHealthy",
        "ValidGeneratedPayload",
        "ReachedIgnitionEndpoint",
        "AutorepairEnabled",
    ] {
        kit.until_pool("np", kind, |s| is_true(s, kind)).await;
    }
    kit.until_pool("np", "two nodes", |s| node_versions(s) == [("4.19.4".to_owned(), 2, 0)]).await;
    let guest = kit.admin(CLUSTER).await;
    let nodes = NODE.api(&guest, "").list(&ListParams::default()).await.unwrap().items;
    assert_eq!(nodes.len(), 2);
    assert!(nodes.iter().all(|n| is_true(&n.data["status"], "Ready")), "{nodes:?}");

    // A machine is lost in Azure, behind everybody's back.
    let lost = kit.machines().into_iter().next().unwrap();
    let id = kit.landing.layout.main.provider("Microsoft.Compute", "virtualMachines", &lost).unwrap();
    kit.world.cloud().client.arm::<VirtualMachines>().delete(&id).await.unwrap();
    kit.until_pool("np", "another machine", |s| {
        let now = kit.machines();
        is_true(s, "AllNodesHealthy") && now.len() == 2 && !now.contains(&lost)
    })
    .await;

    // Another version: new machines before old ones go.
    let before = kit.machines();
    let image = kit.world.cloud().release("4.20.1").unwrap();
    kit.change_pool("np", json!({"spec": {"release": {"image": image}}})).await;
    kit.until_pool("np", "a roll", |s| is_true(s, "UpdatingVersion")).await;
    let status =
        kit.until_pool("np", "its end", |s| s["version"] == "4.20.1" && !is_true(s, "UpdatingVersion")).await;
    assert!(is_true(&status, "Ready"), "{status}");
    assert!(kit.machines().is_disjoint(&before));
    kit.until_pool("np", "new nodes", |s| node_versions(s) == [("4.20.1".to_owned(), 2, 0)]).await;
    kit.world.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pool_becomes_machines_in_azure_and_leaves_nothing() {
    let kit = Kit::start(Flavour::Managed).await;
    let before = Remains::of(&kit).await;
    kit.with_cluster("4.20.1").await;
    kit.put(&kinds::POOL, kit.pool("np", "4.20.1", 2)).await;
    kit.until_pool("np", "two machines", |s| provisioned(s) && kit.machines().len() == 2).await;
    let names = kit.machine_names().await;
    assert_eq!(names, kit.machines(), "machines are named as Machines are");
    // What was asked for arrived, and the pod's own identity asked for it.
    let world = kit.world.cloud().sim.world().clone();
    let made: Vec<_> = world
        .journal()
        .into_iter()
        .filter(|e| e.method == "PUT" && e.path.contains("/virtualMachines/"))
        .collect();
    assert!(made.len() >= 2, "{made:?}");
    let admin =
        world.journal().into_iter().find(|e| e.method == "PUT" && e.path.contains("/registries/")).unwrap();
    assert!(
        made.iter().all(|e| e.principal != admin.principal),
        "machines are made by node pool management: {made:?}"
    );

    kit.change_pool("np", json!({"spec": {"replicas": 3}})).await;
    kit.until_pool("np", "three machines", |_| kit.machines().len() == 3).await;
    kit.change_pool("np", json!({"spec": {"replicas": 1}})).await;
    kit.until_pool("np", "one machine", |_| kit.machines().len() == 1).await;
    kit.api(&kinds::POOL, NAMESPACE).delete("np", &Default::default()).await.unwrap();
    kit.pool_gone("np").await;
    assert!(kit.machines().is_empty());
    kit.delete(CLUSTER).await;
    kit.gone(CLUSTER).await;
    Remains::of(&kit).await.assert_clean_since(&before, &[CLUSTER]);
    kit.world.stop().await;
}
