//! What the guest says of itself arrives in the management cluster, beside what others say there.

use crate::world::{World, plane};
use guest_config::operate::report::{OURS, report};
use guest_config::operate::{CONNECTION, REPORT};
use k8s_openapi::api::core::v1::Node;
use kube::api::{Patch, PatchParams};
use reconcile::Kind;
use reconcile::conditions::Finding;
use serde_json::{Value, json};

fn version(progressing: bool) -> Value {
    let c = |kind: &str, status: bool, reason: &str| json!({"type": kind, "status": if status { "True" } else { "False" }, "reason": reason, "message": "m", "lastTransitionTime": "2026-03-01T11:00:00Z"});
    let state = if progressing { "Partial" } else { "Completed" };
    let completion = if progressing { Value::Null } else { json!("2026-03-01T11:30:00Z") };
    json!({
        "desired": {"version": "4.19.3", "image": "quay.example/ocp-release:4.19.3"}, "observedGeneration": 1, "versionHash": "h",
        "availableUpdates": [],
        "history": [{"state": state, "startedTime": "2026-03-01T10:00:00Z", "completionTime": completion,
            "version": "4.19.3", "image": "quay.example/ocp-release:4.19.3", "verified": false}],
        "conditions": [c("Available", !progressing, ""), c("Progressing", progressing, ""), c("Failing", false, "AsExpected"),
            c("ReleaseAccepted", true, "PayloadLoaded")],
    })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_version_of_the_guest_is_reported_beside_others_conditions() {
    let w = World::start(plane()).await;
    let running = w.operator();
    w.condition("ConfigOperatorReconciliationSucceeded", "True").await;
    // Another operator writes the same list, as a whole, as the control-plane operator does.
    let other = json!({"type": "EtcdAvailable", "status": "True", "reason": "QuorumAvailable", "message": "", "lastTransitionTime": "2026-03-01T11:00:00Z"});
    add_condition(&w, &other).await;
    let versions = w.api(&w.guest.client(), "config.openshift.io/v1", "ClusterVersion", "");
    let write = |v: Value| json!({"status": v});
    versions
        .patch_status("version", &PatchParams::default(), &Patch::Merge(&write(version(true))))
        .await
        .unwrap();
    let c = w.condition("ClusterVersionProgressing", "True").await;
    assert_eq!(
        (&c["reason"], &c["lastTransitionTime"]),
        (&json!("FromClusterVersion"), &json!("2026-03-01T11:00:00Z"))
    );
    assert_eq!(w.condition("ClusterVersionSucceeding", "True").await["reason"], "AsExpected");
    assert_eq!(w.condition("ClusterVersionFailing", "False").await["reason"], "AsExpected");
    w.condition("ClusterVersionUpgradeable", "True").await;
    versions
        .patch_status("version", &PatchParams::default(), &Patch::Merge(&write(version(false))))
        .await
        .unwrap();
    w.condition("ClusterVersionAvailable", "True").await;
    let o = w.planes().get("demo").await.unwrap();
    let status = &o.data["status"];
    assert_eq!(status["versionStatus"]["history"][0]["state"], "Completed");
    let has = |kind: &str| status["conditions"].as_array().unwrap().iter().any(|c| c["type"] == kind);
    assert!(has("EtcdAvailable"), "others' conditions are theirs");
    assert!(!has("ClusterVersionRetrievedUpdates"), "what is not known is not said");
    // Whose is whose.
    let ours = o
        .metadata
        .managed_fields
        .unwrap()
        .into_iter()
        .find(|f| f.manager.as_deref() == Some("hosted-cluster-config-operator"))
        .unwrap();
    let fields = serde_json::to_string(&ours.fields_v1).unwrap();
    assert!(fields.contains("ClusterVersionAvailable") && !fields.contains("EtcdAvailable"), "{fields}");
    // The other one writes again, from what it sees; ours stay.
    add_condition(&w, &json!({"type": "Degraded", "status": "False", "reason": "AsExpected", "message": "", "lastTransitionTime": "2026-03-01T11:00:00Z"})).await;
    w.condition("ClusterVersionAvailable", "True").await;
    w.settled(&running).await;
    let settled = w.planes().get("demo").await.unwrap().metadata.resource_version;
    w.again(&running, REPORT).await;
    assert_eq!(w.planes().get("demo").await.unwrap().metadata.resource_version, settled);
    running.stop().await;
}

async fn add_condition(w: &World, c: &Value) {
    let o = w.planes().get("demo").await.unwrap();
    let mut all = o.data["status"]["conditions"].as_array().cloned().unwrap_or_default();
    all.push(c.clone());
    let patch =
        json!({"metadata": {"resourceVersion": o.metadata.resource_version}, "status": {"conditions": all}});
    let params =
        PatchParams { field_manager: Some("control-plane-operator".into()), ..PatchParams::default() };
    w.planes().patch_status("demo", &params, &Patch::Merge(&patch)).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connections_are_unknown_without_nodes_and_judged_with_them() {
    let w = World::start(plane()).await;
    let running = w.operator();
    for kind in ["DataPlaneConnectionAvailable", "ControlPlaneConnectionAvailable"] {
        assert_eq!(w.condition(kind, "Unknown").await["reason"], "NoWorkerNodesAvailable");
    }
    let guest = w.guest.client();
    let nodes = w.of(&guest, &Kind::of_cluster::<Node>(), "");
    nodes
        .create(&Default::default(), &serde_json::from_value(json!({"metadata": {"name": "n1"}})).unwrap())
        .await
        .unwrap();
    let ready = json!({"status": {"conditions": [{"type": "Ready", "status": "True"}]}});
    nodes.patch_status("n1", &PatchParams::default(), &Patch::Merge(&ready)).await.unwrap();
    assert_eq!(
        w.condition("DataPlaneConnectionAvailable", "False").await["reason"],
        "KonnectivityAgentPodsNotFound"
    );
    assert_eq!(w.condition("ControlPlaneConnectionAvailable", "False").await["reason"], "ConfigMapNotFound");
    // The checker of the guest notes a success; then it falls silent.
    let args = guest_config::checker::Args {
        namespace: "kube-system".into(),
        config_map: "kas-connection-checker".into(),
    };
    let stop = tokio_util::sync::CancellationToken::new();
    let (clock, client): (clock::SharedClock, _) = (w.clock.clone(), w.guest.client());
    let checking = tokio::spawn({
        let stop = stop.clone();
        async move { guest_config::checker::run(&args, &client, &clock, &stop).await }
    });
    let maps = w.api(&guest, "v1", "ConfigMap", "kube-system");
    w.until("a note", maps, "kas-connection-checker", |o| o.is_some()).await;
    stop.cancel();
    checking.await.unwrap();
    w.again(&running, CONNECTION).await;
    w.condition("ControlPlaneConnectionAvailable", "True").await;
    w.clock.advance(jiff::SignedDuration::from_mins(6));
    w.again(&running, CONNECTION).await;
    assert_eq!(
        w.condition("ControlPlaneConnectionAvailable", "False").await["reason"],
        "ConnectionCheckStale"
    );
    let o = w.planes().get("demo").await.unwrap();
    assert_eq!(o.data["status"]["nodeCount"], 1);
    running.stop().await;
}

#[test]
fn a_report_is_silent_when_there_is_no_news_and_repeats_what_it_does_not_know() {
    let now = "2026-03-01T12:00:00Z".parse().unwrap();
    let later = "2026-03-01T13:00:00Z".parse().unwrap();
    let finding =
        || vec![Finding::new("ConfigOperatorReconciliationSucceeded", true, "AsExpected", "all is well")];
    let version = json!({"status": version(false)});
    let first = report(&json!({"ready": true}), Some(3), finding(), Some(&version), 2, now).unwrap();
    assert!(
        first["conditions"].as_array().unwrap().iter().all(|c| OURS.contains(&c["type"].as_str().unwrap()))
    );
    assert_eq!(report(&first, Some(3), finding(), Some(&version), 2, later), None);
    // A new process has found nothing yet, and the guest does not answer: nothing is taken back.
    assert_eq!(report(&first, Some(3), vec![], None, 2, later), None);
    let fewer = report(&first, Some(3), vec![], None, 1, later).unwrap();
    assert_eq!(
        (&fewer["conditions"], &fewer["versionStatus"]),
        (&first["conditions"], &first["versionStatus"])
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn from_an_empty_guest_to_a_complete_version() {
    let w = World::start(plane()).await;
    let running = w.operator();
    let components =
        ["hyperkube", "cluster-dns-operator", "cluster-storage-operator"].map(str::to_owned).into();
    let payload = cluster_version::Payload {
        version: "4.19.3".into(),
        image: "quay.example/ocp-release:4.19.3".into(),
        components,
    };
    let around = cluster_version::Around {
        guest: w.guest.client(),
        payload,
        clock: w.clock.clone(),
        random: clock::Random::seeded(3),
        metrics: reconcile::Metrics::default(),
    };
    let stop = tokio_util::sync::CancellationToken::new();
    let versions = tokio::spawn(cluster_version::run(around, stop.clone()));
    w.condition("ClusterVersionProgressing", "True").await;
    let o = w.planes().get("demo").await.unwrap();
    assert_eq!(o.data["status"]["versionStatus"]["history"][0]["state"], "Partial");
    let updates = o.data["status"]["versionStatus"].as_object().unwrap().get("availableUpdates");
    assert_eq!(updates, Some(&Value::Null), "not known, and said so");
    let nodes = w.of(&w.guest.client(), &Kind::of_cluster::<Node>(), "");
    nodes
        .create(&Default::default(), &serde_json::from_value(json!({"metadata": {"name": "n1"}})).unwrap())
        .await
        .unwrap();
    let ready = json!({"status": {"conditions": [{"type": "Ready", "status": "True"}]}});
    nodes.patch_status("n1", &PatchParams::default(), &Patch::Merge(&ready)).await.unwrap();
    w.condition("ClusterVersionAvailable", "True").await;
    let done = |o: Option<&kube::core::DynamicObject>| {
        o.is_some_and(|o| o.data["status"]["versionStatus"]["history"][0]["state"] == "Completed")
    };
    w.until("a complete version", w.planes(), "demo", done).await;
    stop.cancel();
    versions.await.unwrap();
    running.stop().await;
}
