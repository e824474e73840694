//! Every number that dashboards know upstream's names of, over the life of a cluster and its pool.

use crate::invalid::certificate;
use crate::pools::{ignition_ca, pool};
use crate::samples;
use crate::world::{Running, World, available, condition};
use hypershift::kinds;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::time::Duration;

/// Families by name: their type, and what their series are labelled with.
type Families = BTreeMap<String, String>;

/// Adds the families of a page that are ours.
fn read(page: &str, all: &mut Families) {
    for line in page.lines().filter_map(|l| l.strip_prefix("# TYPE ")) {
        let (name, sort) = line.split_once(' ').unwrap();
        if !name.starts_with("hypershift_") && !name.starts_with("hosted_") {
            continue;
        }
        let series = if sort == "histogram" { format!("{name}_bucket{{") } else { format!("{name}{{") };
        let labels = page.lines().find_map(|l| l.strip_prefix(&series)).unwrap_or_default();
        let labels = labels.split('}').next().unwrap_or_default();
        let keys: Vec<&str> = labels.split("\",").filter_map(|l| Some(l.split_once('=')?.0)).collect();
        all.insert(name.to_owned(), format!("{sort} {}", keys.join(",")));
    }
}

/// Reads both pages until they have what this moment brings.
async fn until(w: &World, running: &Running, all: &mut Families, wanted: &[&str]) {
    let seen = async {
        loop {
            read(&hypershift::metrics::text(&running.operator, clock::Clock::now(&*w.clock)), all);
            read(&running.metrics.text(), all);
            if wanted.iter().all(|f| all.contains_key(*f)) {
                return;
            }
            tokio::task::yield_now().await;
        }
    };
    if tokio::time::timeout(Duration::from_secs(30), seen).await.is_err() {
        panic!("{wanted:?} are not all among {all:#?}");
    }
}

fn demo() -> Value {
    let mut hc = samples::self_managed();
    hc["metadata"]["annotations"] = json!({
        "hypershift.openshift.io/cleanup-cloud-resources": "true",
        "hypershift.openshift.io/cluster-size-override": "small"});
    hc["spec"]["configuration"] =
        json!({"proxy": {"httpsProxy": "http://proxy:3128", "trustedCA": {"name": "proxy-ca"}}});
    hc
}

/// Never begun: what it names is not there.
fn managed() -> Value {
    let mut hc = samples::managed();
    hc["metadata"]["name"] = json!("aro");
    hc["spec"]["configuration"] = json!({"oauth": {"identityProviders": [{"name": "a", "mappingMethod": "claim",
        "type": "HTPasswd", "htpasswd": {"fileData": {"name": "absent"}}}]}});
    hc
}

/// An upgrade on its way, and data that could not be moved to another key.
fn upgrading() -> Value {
    let mut status = available("4.19.3");
    let entry = |state: &str, version: &str, end: Value| {
        json!({"state": state, "version": version, "image": format!("quay.example/ocp-release:{version}"), "verified": false,
            "startedTime": "2026-03-01T00:00:00Z", "completionTime": end})
    };
    status["versionStatus"] = json!({"desired": {"image": "quay.example/ocp-release:4.19.9", "version": "4.19.9"},
        "observedGeneration": 1, "availableUpdates": [],
        "history": [entry("Partial", "4.19.9", Value::Null), entry("Completed", "4.19.3", json!("2026-03-01T00:01:00Z"))]});
    let key = |print: &str| json!({"provider": "Azure", "fingerprint": print});
    status["secretEncryption"] = json!({"history": [{"from": key("a"), "to": key("b"), "state": "Migrating",
        "startedTime": "2026-03-01T00:00:00Z"}]});
    let failed = json!({"type": "EtcdDataEncryptionUpToDate", "status": "False", "reason": "ReEncryptionFailed",
        "message": "", "lastTransitionTime": "2026-03-01T00:00:00Z"});
    status["conditions"].as_array_mut().unwrap().push(failed);
    status
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_family_that_dashboards_know() {
    let w = World::start().await.with_inputs().await;
    let bundle = json!({"metadata": {"name": "proxy-ca", "namespace": "clusters"}, "data": {"ca-bundle.crt": certificate(&["ca"]).0}});
    w.create(&kinds::CONFIG_MAP, bundle).await;
    let running = w.operate();
    let mut all = Families::new();

    // Begun.
    w.create(&kinds::CLUSTER, managed()).await;
    w.create(&kinds::CLUSTER, demo()).await;
    let new = [
        "hypershift_cluster_waiting_initial_availability_duration_seconds",
        "hypershift_cluster_initial_rolling_out_duration_seconds",
        "hypershift_cluster_proxy_ca_expiry_timestamp",
        "hypershift_hostedclusters_failure_conditions",
        "hypershift_cluster_identity_providers",
        "hosted_cluster_managed_azure_info",
    ];
    until(&w, &running, &mut all, &new).await;
    w.report_available().await;
    w.condition("Available", "True").await;
    w.create(&kinds::SECRET, ignition_ca()).await;
    let np = pool("np", |o| {
        o["metadata"]["finalizers"] = json!(["test/held"]);
        o["spec"]["release"]["image"] = json!("quay.example/ocp-release:4.19.3");
        o["spec"]["platform"]["azure"]["image"] = json!({"type": "ImageID", "imageID": "/subscriptions/22222222-2222-2222-2222-222222222222/resourceGroups/r/providers/Microsoft.Compute/images/i"});
    });
    w.create(&kinds::POOL, np).await;
    let first = [
        "hypershift_nodepools_initial_rolling_out_duration_seconds",
        "hypershift_hosted_cluster_transition_seconds",
    ];
    until(&w, &running, &mut all, &first).await;

    // It runs, and is upgraded.
    w.md("np", "being", |_| true).await;
    w.settle("np").await;
    w.pool_condition("np", "Ready", "True").await;
    w.report(upgrading()).await;
    let runs = [
        "hypershift_nodepools_transition_seconds",
        "hypershift_cluster_vcpus_computation_error",
        "hypershift_cluster_upgrading_duration_seconds",
        "hypershift_encryption_migration_state",
        "hypershift_encryption_migration_duration_seconds",
        "hypershift_encryption_migration_failures_total",
    ];
    until(&w, &running, &mut all, &runs).await;
    // It goes on and fails again: what is counted is each time, not each pass.
    let failures = || {
        let text = running.metrics.text();
        let line = text.lines().find(|l| l.starts_with("hypershift_encryption_migration_failures_total{"));
        line.and_then(|l| l.rsplit(' ').next()?.parse::<u32>().ok())
    };
    assert_eq!(failures(), Some(1));
    w.report(available("4.19.3")).await;
    w.until(&kinds::CLUSTER, "clusters", "demo", "no failure", |o| {
        o.is_some_and(|o| condition(o, "EtcdDataEncryptionUpToDate").is_null())
    })
    .await;
    w.report(upgrading()).await;
    w.condition("EtcdDataEncryptionUpToDate", "False").await;
    let counted = async {
        while failures() == Some(1) {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(30), counted).await.unwrap();
    assert_eq!(failures(), Some(2));

    // It goes.
    w.api(&kinds::CLUSTER, "clusters").delete("demo", &Default::default()).await.unwrap();
    let going = [
        "hypershift_cluster_deleting_duration_seconds",
        "hypershift_cluster_guest_cloud_resources_deleting_duration_seconds",
        "hypershift_nodepools_deleting_duration_seconds",
    ];
    until(&w, &running, &mut all, &going).await;
    let text: String = all.iter().map(|(name, rest)| format!("{name} {rest}\n")).collect();
    testkit::golden!("metrics.txt", &text);
}
