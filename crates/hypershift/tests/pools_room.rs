//! What Azure would not give is not asked for: pools are held, say why, and go on when there is room.

use crate::pools::{NS, pool};
use crate::world::{World, condition};
use hypershift::kinds;
use hypershift::nodepool::capacity::{List, Sold};
use jiff::SignedDuration;
use serde_json::{Value, json};

/// What is sold: one size, in two zones.
pub fn d4() -> List {
    let yes = ["PremiumIO", "EncryptionAtHostSupported"].map(|n| json!({"name": n, "value": "True"}));
    let mut all = vec![json!({"name": "vCPUs", "value": "4"}), json!({"name": "MemoryGB", "value": "16"})];
    all.extend(yes);
    let sku = json!({"name": "Standard_D4s_v5", "resourceType": "virtualMachines", "family": "standardDSv5Family",
        "locationInfo": [{"location": "westus2", "zones": ["1", "2"]}, {"location": "eastus", "zones": ["1", "2"]}],
        "capabilities": all});
    let location = crate::pools::cluster()["spec"]["platform"]["azure"]["location"].clone();
    [Sold::of(&serde_json::from_value(sku).unwrap(), location.as_str().unwrap()).unwrap()].into()
}

impl World {
    fn quota(&self, used: i64, limit: i64) {
        let all = json!([{"name": {"value": "cores"}, "currentValue": used, "limit": limit}]);
        *self.told.usages.lock() = Some(serde_json::from_value(all).unwrap());
    }

    /// Later: what was read is old.
    async fn later(&self, pool: &str) {
        self.clock.advance(SignedDuration::from_secs(31));
        let now = clock::Clock::now(&*self.clock).as_second().to_string();
        let touched = json!({"metadata": {"annotations": {"example.test/touched": now}}});
        self.patch(&kinds::POOL, "clusters", pool, touched).await;
    }

    /// Waits for a condition to be False for a reason, with these words.
    async fn short(&self, pool: &str, kind: &str, reason: &str, words: &[&str]) {
        let what = format!("{kind} to say {reason} and {words:?}");
        self.until(&kinds::POOL, "clusters", pool, &what, |o| {
            let Some(c) = o.map(|o| condition(o, kind).clone()) else { return false };
            let message = c["message"].as_str().unwrap_or_default();
            c["status"] == "False" && c["reason"] == reason && words.iter().all(|w| message.contains(w))
        })
        .await;
    }

    async fn size_of(&self, pool: &str, n: u32) {
        self.md(pool, &format!("{n} replicas"), |md| md.data["spec"]["replicas"] == n).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_quota_holds_growth_and_rolls_until_it_is_raised() {
    let w = World::start().await.with_inputs().await;
    *w.told.sizes.lock() = Some(d4());
    w.quota(0, 0);
    let _running = w.operate();
    let w = w.with_cluster().await;
    w.create(&kinds::POOL, pool("np", |_| {})).await;
    let words = ["0 of 2 machines", "limit is 0", "What to do"];
    for kind in ["Ready", "AllMachinesReady", "ValidPlatformConfig"] {
        w.short("np", kind, "QuotaExceeded", &words).await;
    }
    // Nothing is there that anybody could make a machine of.
    assert!(w.api(&kinds::MACHINE_DEPLOYMENT, NS).get_opt("np").await.unwrap().is_none());
    w.quota(0, 7);
    w.later("np").await;
    w.size_of("np", 1).await;
    w.short("np", "Ready", "QuotaExceeded", &["1 of 2 machines"]).await;
    w.quota(4, 8);
    w.later("np").await;
    w.size_of("np", 2).await;
    w.settle("np").await;
    w.pool_condition("np", "ValidPlatformConfig", "True").await;
    w.pool_condition("np", "Ready", "True").await;
    // All is used: a roll would need one more.
    w.quota(8, 8);
    let before = w.md("np", "being", |_| true).await.data["spec"]["template"].clone();
    w.clock.advance(SignedDuration::from_secs(31));
    let larger = json!({"spec": {"platform": {"azure": {"osDisk": {"sizeGiB": 256}}}}});
    w.patch(&kinds::POOL, "clusters", "np", larger).await;
    w.short("np", "ValidPlatformConfig", "QuotaExceeded", &["not replaced", "maxSurge 0"]).await;
    assert_eq!(w.md("np", "being", |_| true).await.data["spec"]["template"], before);
    // What runs is well; it is the change that waits.
    w.pool_condition("np", "Ready", "True").await;
    // Fewer, and what goes needs no room.
    w.patch(&kinds::POOL, "clusters", "np", json!({"spec": {"replicas": 1}})).await;
    w.size_of("np", 1).await;
    w.quota(4, 8);
    w.later("np").await;
    w.md("np", "the roll", |md| md.data["spec"]["template"] != before).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sizes_and_zones_are_named_and_who_may_not_look_holds_nobody() {
    let w = World::start().await.with_inputs().await;
    *w.told.sizes.lock() = Some(d4());
    let _running = w.operate();
    let w = w.with_cluster().await;
    let with = |name: &str, field: &'static str, value: Value| {
        pool(name, |o| o["spec"]["platform"]["azure"][field] = value)
    };
    w.create(&kinds::POOL, with("unknown", "vmSize", json!("Standard_Z9"))).await;
    w.create(&kinds::POOL, with("zoned", "availabilityZone", json!("3"))).await;
    for kind in ["Ready", "ValidPlatformConfig"] {
        let words = ["spec.platform.azure.vmSize", "no size Standard_Z9", "az vm list-skus"];
        w.short("unknown", kind, "SizeNotAvailable", &words).await;
        w.short("zoned", kind, "SizeNotInZone", &["availabilityZone", "zones 1, 2"]).await;
    }
    assert!(w.api(&kinds::MACHINE_DEPLOYMENT, NS).get_opt("zoned").await.unwrap().is_none());
    let other = json!({"spec": {"platform": {"azure": {"availabilityZone": "2"}}}});
    w.patch(&kinds::POOL, "clusters", "zoned", other).await;
    // Usages are not told: Azure will judge.
    w.size_of("zoned", 2).await;
    w.pool_condition("zoned", "ValidPlatformConfig", "True").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_autoscaler_is_told_how_far_it_may_go() {
    let w = World::start().await.with_inputs().await;
    *w.told.sizes.lock() = Some(d4());
    w.quota(0, 12);
    let _running = w.operate();
    let w = w.with_cluster().await;
    let auto = |o: &mut Value| {
        o["spec"].as_object_mut().unwrap().remove("replicas");
        o["spec"]["autoScaling"] = json!({"min": 1, "max": 9});
    };
    w.create(&kinds::POOL, pool("np", auto)).await;
    let most = async |n: &str| {
        let key = "cluster.x-k8s.io/cluster-api-autoscaler-node-group-max-size";
        let so = |md: &kube::api::DynamicObject| {
            md.metadata.annotations.as_ref().and_then(|a| a.get(key)).is_some_and(|v| v == n)
        };
        w.md("np", &format!("at most {n}"), so).await;
    };
    most("3").await;
    w.quota(4, 100);
    w.later("np").await;
    most("9").await;
}
