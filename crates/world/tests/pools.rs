//! A cluster with node pools, and what there is of them in Azure.

use crate::kit::{DEADLINE, Kit};
use crate::place::{Place, landing};
use hypershift::kinds;
use kube::api::{DynamicObject, ListParams, Patch, PatchParams};
use reconcile::Kind;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use world::sample::{NAMESPACE, Sample};

impl<P: Place> Kit<P> {
    /// The landing is made for a cluster of this name: its load balancer is named so.
    pub fn home(&self) -> String {
        landing(self.world.mark())
    }

    fn home_plane(&self) -> String {
        format!("{NAMESPACE}-{}", self.home())
    }

    /// A cluster that nodes can join, once it is up.
    pub fn joinable(&self, version: &str) -> Sample {
        Sample::of(&self.landing, &self.home(), self.cloud().release(version).unwrap())
    }

    /// A cluster that nodes can join.
    pub async fn with_cluster(&self, version: &str) -> Sample {
        let sample = self.joinable(version);
        self.create(&sample).await;
        self.available(&sample.name).await;
        sample
    }

    pub fn pool(&self, name: &str, version: &str, replicas: u32) -> Value {
        json!({"apiVersion": "hypershift.openshift.io/v1beta1", "kind": "NodePool",
            "metadata": {"name": name, "namespace": NAMESPACE}, "spec": {
                "clusterName": self.home(), "replicas": replicas, "release": {"image": self.cloud().release(version).unwrap()},
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
        let plane = self.home_plane();
        for (kind, ns) in [
            (kinds::POOL, NAMESPACE),
            (kinds::MACHINE_DEPLOYMENT, &plane),
            (kinds::MACHINE_SET, &plane),
            (kinds::MACHINE, &plane),
            (kinds::AZURE_MACHINE, &plane),
        ] {
            for o in self.api(&kind, ns).list(&ListParams::default()).await.unwrap().items {
                eprintln!(
                    "{} {:?} {:?} {:#}",
                    kind.kind, o.metadata.name, o.metadata.deletion_timestamp, o.data["status"]
                );
            }
        }
        eprintln!("{}", self.story(&self.home()).await);
    }

    /// Virtual machines in Azure, by name.
    pub fn machines(&self) -> BTreeSet<String> {
        let left = self.cloud().sim.world().leaks();
        let ids =
            left["value"].as_array().unwrap().iter().filter_map(|l| l["id"].as_str().map(str::to_owned));
        ids.filter(|id| id.contains("/virtualMachines/") && id.contains(self.world.mark()))
            .map(|id| id.rsplit('/').next().unwrap().to_owned())
            .collect()
    }

    pub async fn machine_names(&self) -> BTreeSet<String> {
        let all =
            self.api(&kinds::MACHINE, &self.home_plane()).list(&ListParams::default()).await.unwrap().items;
        all.into_iter()
            .filter(|m| m.metadata.deletion_timestamp.is_none())
            .filter_map(|m| m.metadata.name)
            .collect()
    }
}

/// Nodes of a pool: their version, how many are ready and how many are not.
pub fn node_versions(status: &Value) -> Vec<(String, i64, i64)> {
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
