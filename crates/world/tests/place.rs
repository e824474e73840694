//! Where a scenario runs: in a world of ours, or in a management cluster that a kubeconfig leads to.
//!
//! Scenarios are written once, against [`Place`]. What only a world can be asked for (files of etcd, its own handles) is
//! behind [`Kit::inside`], and a scenario says what it did not look at. A given cluster's nodes may not be able to run a
//! control plane: [`Kit::stuck`] finds out why, says so, and ends with a deletion that leaves nothing.
//!
//! Rejected: a trait object, which every embedded test would have to see through, although none of them can run
//! elsewhere. As it is, `Kit` alone is a kit in a world, and the compiler keeps what needs one out of the suite.

use crate::kit::{Kit, POD, STATEFUL_SET, condition};
use hypershift::kinds;
use k8s_openapi::api::core::v1::Node;
use kube::api::{Api, DynamicObject, ListParams};
use std::path::Path;
use std::time::{Duration, Instant};
use world::sample::{NAMESPACE, Sample};
use world::{Cloud, World};

/// How long somebody else's cluster may take for an address, a volume or a node.
const PATIENCE: Duration = Duration::from_secs(120);

pub trait Place {
    /// Of the management cluster.
    fn client(&self) -> kube::Client;

    /// The simulated Azure, which is always in this process.
    fn cloud(&self) -> &Cloud;

    /// For files of tests.
    fn dir(&self) -> &Path;

    /// What is in every name that is given here, so that scenarios do not meet each other or what is there already.
    fn mark(&self) -> &str;

    fn world(&self) -> Option<&World>;

    /// Whether pods and machines reach the Azure of this process.
    fn reaches_azure(&self) -> bool;

    /// A guest's kubeconfig as this machine can use it.
    fn reachable(&self, kubeconfig: &str) -> String;

    /// What the operators have to say of a cluster.
    fn explain(&self, cluster: &str) -> String;
}

impl Place for World {
    fn client(&self) -> kube::Client {
        World::client(self)
    }

    fn cloud(&self) -> &Cloud {
        World::cloud(self)
    }

    fn dir(&self) -> &Path {
        World::dir(self)
    }

    fn mark(&self) -> &str {
        ""
    }

    fn world(&self) -> Option<&World> {
        Some(self)
    }

    fn reaches_azure(&self) -> bool {
        true
    }

    fn reachable(&self, kubeconfig: &str) -> String {
        World::reachable(self, kubeconfig).unwrap()
    }

    fn explain(&self, cluster: &str) -> String {
        explain(&self.clusters(), &self.planes(), cluster)
    }
}

pub fn explain(clusters: &reconcile::Handle, planes: &reconcile::Handle, cluster: &str) -> String {
    let of_cluster = clusters.explain(&format!("{NAMESPACE}/{cluster}"));
    let of_plane = planes.explain(&format!("{NAMESPACE}-{cluster}/{cluster}"));
    format!("{of_cluster:#?}{of_plane:#?}")
}

/// What a landing is called where this is the mark.
pub fn landing(mark: &str) -> String {
    format!("land{mark}")
}

/// How far a scenario went.
#[derive(Debug, PartialEq, Eq)]
pub enum Reached {
    /// Everything was applied, and the nodes cannot run it.
    Made {
        why: String,
    },
    /// The guest's API answers, a pool has machines, and nobody is at home in them.
    Machines,
    End,
}

impl<P: Place> Kit<P> {
    /// The world, if this is one. If not, what would have been looked at is said.
    pub fn inside(&self, what: &str) -> Option<&World> {
        let world = self.world.world();
        if world.is_none() {
            eprintln!("not looked at: {what}");
        }
        world
    }

    /// A cluster that was created cannot run here: that is said, and it is deleted.
    pub async fn stuck(&self, cluster: &Sample) -> Option<Reached> {
        let why = self.hopeless(cluster).await?;
        Some(self.give_up(cluster, why).await)
    }

    /// Ends a scenario before its time.
    pub async fn give_up(&self, cluster: &Sample, why: String) -> Reached {
        eprintln!("{} goes no further: {why}", cluster.name);
        self.delete(&cluster.name).await;
        self.gone(&cluster.name).await;
        Reached::Made { why }
    }

    /// Why a cluster cannot run here; nothing once it does. A world's can always, and need not be waited for.
    pub async fn hopeless(&self, cluster: &Sample) -> Option<String> {
        if self.world.world().is_some() {
            return None;
        }
        // Whatever nodes can do, the operators have done their part.
        let there = |_: &DynamicObject| true;
        self.until_object(&kinds::PLANE, cluster, &cluster.name, there).await;
        let sets = STATEFUL_SET;
        tokio::select! {
            _ = self.until_object(&sets, cluster, "etcd", there) => {}
            why = self.unpublished(cluster) => return Some(why),
        }
        if needs_azure(cluster) && !self.world.reaches_azure() {
            return Some("its pods would have to reach the Azure of this process".to_owned());
        }
        let never = async {
            loop {
                if let Some(why) = unfit(self, &cluster.plane()).await {
                    return why;
                }
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
        };
        tokio::select! {
            _ = self.available(&cluster.name) => None,
            why = never => Some(why),
        }
    }

    /// Waits until it is clear that nobody gives its API an address: then nothing else is made.
    async fn unpublished(&self, cluster: &Sample) -> String {
        let begun = Instant::now();
        loop {
            tokio::time::sleep(Duration::from_secs(1)).await;
            let plane = self.api(&kinds::PLANE, &cluster.plane()).get(&cluster.name).await.unwrap();
            let available = condition(&plane.data["status"], "Available");
            if available["reason"] == "WaitingOnInfrastructureReady" && begun.elapsed() > PATIENCE {
                return format!("nobody gives it an address: {}", available["message"]);
            }
        }
    }

    /// Deletes what a scenario left, with what people gave for it. Nothing may be found then that carries our mark.
    pub async fn clear(&self) {
        let mark = self.world.mark();
        let named = async |kind: &reconcile::Kind| -> Vec<String> {
            let all = self.api(kind, NAMESPACE).list_metadata(&ListParams::default()).await.unwrap().items;
            all.into_iter().filter_map(|o| o.metadata.name).filter(|n| n.contains(mark)).collect()
        };
        assert!(!mark.is_empty(), "everything would be ours");
        let clusters = named(&kinds::CLUSTER).await;
        for name in &clusters {
            self.delete(name).await;
        }
        for name in &clusters {
            self.gone(name).await;
        }
        for name in named(&kinds::SECRET).await {
            let done = self.api(&kinds::SECRET, NAMESPACE).delete(&name, &Default::default()).await;
            done.unwrap();
        }
        let left = crate::remains::Remains::of(self).await.objects;
        assert!(left.is_empty(), "left in the cluster: {left:#?}");
        assert!(self.parts().is_empty(), "left in Azure: {:?}", self.parts());
    }

    /// What machines are made of in Azure.
    pub fn parts(&self) -> Vec<String> {
        let left = self.cloud().sim.world().leaks();
        let all =
            left["value"].as_array().unwrap().iter().filter_map(|l| l["id"].as_str().map(str::to_owned));
        let parts = ["/virtualMachines/", "/networkInterfaces/", "/disks/"];
        let all = all.filter(|id| parts.iter().any(|p| id.contains(p)));
        all.filter(|id| id.contains(self.world.mark())).collect()
    }
}

/// Whether pods of its control plane could not even start without Azure.
fn needs_azure(cluster: &Sample) -> bool {
    let spec = &cluster.cluster["spec"];
    let identities = &spec["platform"]["azure"]["azureAuthenticationConfig"]["azureAuthenticationConfigType"];
    !spec["secretEncryption"].is_null() || identities == "ManagedIdentities"
}

/// Why the nodes cannot run the cluster's etcd; nothing while they may.
async fn unfit<P: Place>(kit: &Kit<P>, plane: &str) -> Option<String> {
    if Api::<Node>::all(kit.client()).list(&ListParams::default()).await.unwrap().items.is_empty() {
        return Some("there are no nodes".to_owned());
    }
    let pod = kit.api(&POD, plane).get_opt("etcd-0").await.unwrap()?;
    let simulated = pod.metadata.annotations.is_some_and(|a| a.contains_key("zaffre.io/simulated"));
    // Of some pods only a part is: who is, says so.
    if simulated && kit.log(plane, "etcd-0", "etcd").await.contains("is simulated") {
        return Some("the nodes only simulate pods".to_owned());
    }
    let status = &pod.data["status"];
    let list = |key: &str| status[key].as_array().cloned().unwrap_or_default();
    let placed =
        list("conditions").into_iter().find(|c| c["type"] == "PodScheduled" && c["status"] == "False");
    if let Some(c) = placed {
        // A volume may be on its way, or a node.
        let since = c["lastTransitionTime"].as_str().and_then(|t| t.parse::<jiff::Timestamp>().ok())?;
        let long = clock::system().now().duration_since(since).unsigned_abs() > PATIENCE;
        return long.then(|| format!("no node takes etcd: {}", c["message"]));
    }
    let waits = [list("initContainerStatuses"), list("containerStatuses")].concat();
    let waits = waits.into_iter().map(|c| c["state"]["waiting"].clone());
    let stuck = ["ErrImagePull", "ImagePullBackOff", "InvalidImageName"];
    let stuck = waits.into_iter().find(|w| stuck.iter().any(|s| w["reason"] == *s))?;
    Some(format!("the nodes cannot pull the images: {}", stuck["message"]))
}
