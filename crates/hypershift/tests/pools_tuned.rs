//! Tuning of pools, what tokens say of Azure's configuration, and what an empty pool's machines would have.

use crate::pools::{NS, decoded, pool};
use crate::world::{World, condition};
use hypershift::kinds;
use hypershift::nodepool::text::simple_bytes;
use kube::api::DynamicObject;
use serde_json::{Value, json};
use std::sync::atomic::Ordering;

const TUNED: &str = "apiVersion: tuned.openshift.io/v1\nkind: Tuned\nmetadata: {name: hugepages}\nspec:\n  profile:\n  - {name: hugepages, data: \"[bootloader]\\ncmdline=hugepagesz=2M\"}\n  recommend:\n  - {profile: hugepages, priority: 20}\n";
const PROFILE: &str = "apiVersion: performance.openshift.io/v2\nkind: PerformanceProfile\nmetadata: {name: fast}\nspec: {cpu: {isolated: 2-3, reserved: 0-1}}\n";

fn map(name: &str, text: &str) -> Value {
    json!({"metadata": {"name": name, "namespace": "clusters"}, "data": {"tuning": text}})
}

/// A ConfigMap as the node tuning operator writes it.
fn made(name: &str, sort: &str, key: &str, text: &str) -> Value {
    json!({"metadata": {"name": name, "namespace": NS, "labels": {
        "hypershift.openshift.io/nodePool": "np", sort: "true"}}, "data": {key: text}})
}

fn secret(md: &DynamicObject) -> String {
    md.data["spec"]["template"]["spec"]["bootstrap"]["dataSecretName"].as_str().unwrap().to_owned()
}

async fn shared(w: &World, name: &str) -> DynamicObject {
    w.until(&kinds::CONFIG_MAP, NS, name, "being", |o| o.is_some()).await.unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tuning_reaches_its_operator_and_what_that_makes_rolls_nodes() {
    let w = World::start().await.with_inputs().await;
    let _running = w.operate();
    let w = w.with_cluster().await;
    w.create(&kinds::CONFIG_MAP, map("tuning", &format!("{TUNED}---\n{PROFILE}"))).await;
    let tuned = |o: &mut Value| o["spec"]["tuningConfig"] = json!([{"name": "tuning"}]);
    w.create(&kinds::POOL, pool("np", tuned)).await;
    let tuned = shared(&w, "tuned-np").await;
    let profile = shared(&w, "pp-np").await;
    let label = |o: &DynamicObject, key: &str| {
        o.metadata.labels.as_ref().unwrap().get(&format!("hypershift.openshift.io/{key}")).cloned()
    };
    assert_eq!(label(&tuned, "tuned-config").as_deref(), Some("true"));
    assert_eq!(label(&profile, "performanceprofile-config").as_deref(), Some("true"));
    for o in [&tuned, &profile] {
        assert_eq!(label(o, "nodePool").as_deref(), Some("np"));
        assert_eq!(
            o.metadata.annotations.as_ref().unwrap()["hypershift.openshift.io/nodePool"],
            "clusters/np"
        );
    }
    let text = |o: &DynamicObject| o.data["data"]["tuning"].as_str().unwrap().to_owned();
    assert!(text(&tuned).contains("hugepagesz=2M") && !text(&tuned).contains("PerformanceProfile"));
    assert!(text(&profile).contains("2-3"));
    w.pool_condition("np", "ValidTuningConfig", "True").await;
    let before = secret(&w.md("np", "being", |_| true).await);

    // What comes of it rolls nodes; how the profile fares is told.
    let machine_config = "apiVersion: machineconfiguration.openshift.io/v1\nkind: MachineConfig\nmetadata: {name: 50-nto-np}\nspec: {kernelArguments: [hugepagesz=2M]}\n";
    let of_operator = "hypershift.openshift.io/nto-generated-machine-config";
    w.create(&kinds::CONFIG_MAP, made("nto-mc-np", of_operator, "config", machine_config)).await;
    let md = w.md("np", "a roll", |o| secret(o) != before).await;
    let token = secret(&md).replace("user-data-", "token-");
    let token = w.until(&kinds::SECRET, NS, &token, "being", |o| o.is_some()).await.unwrap();
    assert!(!decoded(&token, "config").is_empty());
    let status = "conditions:\n- {type: Degraded, status: \"True\", reason: BadCPUs, message: they overlap}\n- {type: Available, status: \"False\", reason: BadCPUs, message: \"\"}\n";
    let said = "hypershift.openshift.io/nto-generated-performance-profile-status";
    w.create(&kinds::CONFIG_MAP, made("perfprofile-status-np", said, "status", status)).await;
    let told = w.pool_condition("np", "performance.operator.openshift.io/Degraded", "True").await;
    assert_eq!((told["reason"].as_str(), told["message"].as_str()), (Some("BadCPUs"), Some("they overlap")));
    w.pool_condition("np", "performance.operator.openshift.io/Available", "False").await;

    // What cannot be used is named, and what the operator has stays.
    for (bad, words) in [
        (
            "kind: Tuned\napiVersion: tuned.openshift.io/v1\nmetadata: {name: x}\nspec: {}\n",
            "Tuned x has no spec.profile",
        ),
        (
            "kind: PerformanceProfile\napiVersion: performance.openshift.io/v2\nmetadata: {name: x}\nspec: {cpu: {isolated: 2-3}}\n",
            "has no spec.cpu.reserved",
        ),
        (
            "kind: Tuned\napiVersion: tuned.openshift.io/v2\nmetadata: {name: x}\n",
            "Tuned of \"tuned.openshift.io/v2\" is not supported",
        ),
        (&format!("{PROFILE}---\n{}", PROFILE.replace("fast", "faster")), "one too many beside fast"),
    ] {
        w.patch(&kinds::CONFIG_MAP, "clusters", "tuning", json!({"data": {"tuning": bad}})).await;
        w.until(&kinds::POOL, "clusters", "np", words, |o| {
            let c = o.map(|o| condition(o, "ValidTuningConfig").clone()).unwrap_or_default();
            c["status"] == "False"
                && c["reason"] == "ValidationFailed"
                && c["message"].as_str().is_some_and(|m| m.contains("ConfigMap tuning") && m.contains(words))
        })
        .await;
    }
    assert_eq!(text(&shared(&w, "tuned-np").await), text(&tuned));
    // Without a profile there is none, and without tuning nothing.
    w.patch(&kinds::CONFIG_MAP, "clusters", "tuning", json!({"data": {"tuning": TUNED}})).await;
    w.pool_condition("np", "ValidTuningConfig", "True").await;
    w.until(&kinds::CONFIG_MAP, NS, "pp-np", "its end", |o| o.is_none()).await;
    w.patch(&kinds::POOL, "clusters", "np", json!({"spec": {"tuningConfig": null}})).await;
    w.until(&kinds::CONFIG_MAP, NS, "tuned-np", "its end", |o| o.is_none()).await;
    // With the pool goes what was made for it.
    w.api(&kinds::POOL, "clusters").delete("np", &Default::default()).await.unwrap();
    w.until(&kinds::POOL, "clusters", "np", "its end", |o| o.is_none()).await;
    for name in ["nto-mc-np", "perfprofile-status-np"] {
        w.until(&kinds::CONFIG_MAP, NS, name, "its end", |o| o.is_none()).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tokens_know_azures_configuration_and_empty_pools_what_machines_would_have() {
    let w = World::start().await.with_inputs().await;
    *w.told.sizes.lock() = Some(crate::pools_room::d4());
    let _running = w.operate();
    let w = w.with_cluster().await;
    let conf = |text: &str| {
        json!({"metadata": {"name": "azure-cloud-config", "namespace": NS,
            "labels": {"hypershift.openshift.io/hosted-control-plane": NS}}, "data": {"cloud.conf": text}})
    };
    let auto = |o: &mut Value| {
        o["spec"].as_object_mut().unwrap().remove("replicas");
        o["spec"]["autoScaling"] = json!({"min": 0, "max": 3});
        o["spec"]["nodeLabels"] = json!({"a": "b"});
    };
    w.create(&kinds::POOL, pool("np", auto)).await;
    let md = w.md("np", "being", |_| true).await;
    let before = secret(&md);
    let notes = md.metadata.annotations.unwrap();
    assert_eq!(notes["machine.openshift.io/vCPU"], "4");
    assert_eq!(notes["machine.openshift.io/memoryMb"], "16384");
    assert_eq!(notes["machine.openshift.io/GPU"], "0");
    assert_eq!(notes["capacity.cluster-autoscaler.kubernetes.io/labels"], "a=b,kubernetes.io/arch=amd64");
    // A control plane that has not written it yet is no reason to wait; when it does, tokens say so and nothing rolls.
    let token = before.replace("user-data-", "token-");
    let has = async |text: &str| {
        let wanted = if text.is_empty() { String::new() } else { simple_bytes(text.as_bytes()) };
        w.until(&kinds::SECRET, NS, &token, "the hash", |o| {
            o.is_some_and(|o| decoded(o, "cloud-config-hash") == wanted)
        })
        .await;
    };
    has("").await;
    w.create(&kinds::CONFIG_MAP, conf("{\"cloud\": \"x\"}")).await;
    has("{\"cloud\": \"x\"}").await;
    w.patch(&kinds::CONFIG_MAP, NS, "azure-cloud-config", json!({"data": {"cloud.conf": "{}"}})).await;
    has("{}").await;
    assert_eq!(secret(&w.md("np", "being", |_| true).await), before);

    // A size that is not sold: it is said what that means. Azure was asked once for all of this.
    w.create(
        &kinds::POOL,
        pool("odd", |o| {
            auto(o);
            o["spec"]["platform"]["azure"]["vmSize"] = json!("Standard_Z9");
        }),
    )
    .await;
    let said = w.pool_condition("odd", "AutoscalingEnabled", "True").await;
    let text = said["message"].as_str().unwrap();
    assert!(text.contains("between 0 and 3") && text.contains("Standard_Z9 is not sold there"), "{text}");
    assert!(
        !w.md("odd", "being", |_| true)
            .await
            .metadata
            .annotations
            .unwrap()
            .contains_key("machine.openshift.io/vCPU")
    );
    assert_eq!(w.told.listed.load(Ordering::SeqCst), 1);
}

/// An account for sizes is enough to know what machines would have, where nobody checks anything else.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sizes_may_have_an_account_of_their_own() {
    let w = World::start().await.with_inputs().await;
    *w.told.sizes.lock() = Some(crate::pools_room::d4());
    *w.told.verdict.lock() = None;
    w.told.catalogue.store(true, Ordering::SeqCst);
    let _running = w.operate();
    let w = w.with_cluster().await;
    let auto = |o: &mut Value| {
        o["spec"].as_object_mut().unwrap().remove("replicas");
        o["spec"]["autoScaling"] = json!({"min": 0, "max": 3});
    };
    w.create(&kinds::POOL, pool("np", auto)).await;
    let notes = w.md("np", "being", |_| true).await.metadata.annotations.unwrap();
    assert_eq!(notes["machine.openshift.io/vCPU"], "4");
}
