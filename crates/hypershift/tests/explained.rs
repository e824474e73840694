//! Explanations: the tree that people and programs read.

use crate::samples;
use crate::world::World;
use hypershift::explain::{self, Facts, State};
use hypershift::kinds;
use jiff::Timestamp;
use serde_json::{Value, json};
use std::collections::BTreeMap;

fn condition(kind: &str, status: &str, reason: &str, message: &str) -> Value {
    json!({"type": kind, "status": status, "reason": reason, "message": message, "lastTransitionTime": "2026-03-01T00:00:00Z"})
}

fn cluster(conditions: Vec<Value>) -> Value {
    json!({"metadata": {"namespace": "clusters", "name": "demo"}, "status": {"conditions": conditions}})
}

fn now() -> Timestamp {
    "2026-03-01T00:07:30Z".parse().unwrap()
}

fn on_its_way() -> Facts {
    let component = |name: &str, conditions: Value| json!({"metadata": {"name": name, "namespace": "clusters-demo"}, "status": {"conditions": conditions, "version": "4.19.3"}});
    Facts {
        cluster: cluster(vec![
            condition("ValidConfiguration", "True", "AsExpected", "the configuration makes sense"),
            condition("ValidReleaseImage", "True", "AsExpected", ""),
            condition("PlatformCredentialsFound", "True", "AsExpected", ""),
            condition("ReconciliationActive", "True", "AsExpected", ""),
            condition("Available", "False", "ComponentsNotAvailable", "waiting for openshift-apiserver"),
            condition("Progressing", "True", "Progressing", "the control plane is on its way to 4.19.3"),
            condition(
                "ClusterVersionAvailable",
                "Unknown",
                "StatusUnknown",
                "the control plane does not report it yet",
            ),
        ]),
        plane: Some(
            json!({"metadata": {"namespace": "clusters-demo", "name": "demo"}, "status": {"conditions": [
                condition("InfrastructureReady", "True", "AsExpected", ""),
                condition("EtcdAvailable", "True", "QuorumAvailable", "3 of 3 members are ready"),
                condition("KubeAPIServerAvailable", "False", "WaitingForAvailable", "1 of 3 replicas are ready"),
            ]}}),
        ),
        components: vec![
            component(
                "etcd",
                json!([
                    condition("Available", "True", "AsExpected", ""),
                    condition("RolloutComplete", "True", "AsExpected", "")
                ]),
            ),
            component(
                "kube-apiserver",
                json!([
                    condition("Available", "False", "WaitingForAvailable", "1 of 3 replicas are ready"),
                    condition(
                        "RolloutComplete",
                        "False",
                        "WaitingForRolloutComplete",
                        "1 of 3 replicas are ready"
                    )
                ]),
            ),
            component(
                "openshift-apiserver",
                json!([
                    condition("Available", "False", "NotFound", "it is not deployed yet"),
                    condition("RolloutComplete", "False", "WaitingForDependencies", "others come first")
                ]),
            ),
        ],
        ..Facts::default()
    }
}

#[test]
fn what_waits_for_what() {
    let tree = explain::explain(&on_its_way());
    assert_eq!(tree.state, State::Waiting);
    testkit::golden!("explain-on-its-way.txt", &explain::text(&tree, now(), false));
    testkit::golden!("explain-on-its-way-all.txt", &explain::text(&tree, now(), true));
    testkit::golden_json!("explain-on-its-way.json", &serde_json::to_value(&tree).unwrap());
}

#[test]
fn what_is_wrong_and_what_to_do() {
    let message = "spec.networking.machineNetwork[0].cidr 10.133.0.0/16 overlaps spec.networking.clusterNetwork[0].cidr 10.132.0.0/14: choose ranges that do not";
    let facts = Facts {
        cluster: cluster(vec![
            condition("ValidConfiguration", "False", "InvalidConfiguration", message),
            condition("Available", "False", "WaitingForAvailable", "the control plane is not made yet"),
        ]),
        ..Facts::default()
    };
    let tree = explain::explain(&facts);
    assert_eq!(tree.state, State::Blocked);
    testkit::golden!("explain-invalid.txt", &explain::text(&tree, now(), false));
    let mut deleting = cluster(vec![condition(
        "DeletionBlocked",
        "True",
        "MachinesDeadlineExceeded",
        "deletion is at machines: waiting for AzureMachine clusters-demo/m (being deleted since 2026-03-01T00:00:00Z, held by azuremachine.infrastructure.cluster.x-k8s.io)",
    )]);
    deleting["metadata"]["deletionTimestamp"] = json!("2026-02-28T23:00:00Z");
    let tree = explain::explain(&Facts { cluster: deleting, ..Facts::default() });
    assert_eq!(tree.state, State::Blocked);
    testkit::golden!("explain-deleting.txt", &explain::text(&tree, now(), false));
}

/// Nothing that `kubectl describe` shows to be wrong or under way is left out of the tree.
#[test]
fn every_condition_that_is_not_as_it_should_be_is_told() {
    use apis::conditions::hosted_cluster as c;
    let mut bad: Vec<(&str, &str, &str)> =
        c::MIRRORED.iter().chain(c::MIRRORED_IF_PRESENT).map(|k| (*k, "False", "Bad")).collect();
    bad.retain(|(k, _, _)| *k != c::DEGRADED);
    bad.extend(apis::conditions::private_link::ALL.iter().map(|k| (*k, "False", "Bad")));
    bad.extend(
        [
            c::SUPPORTED_HOSTED_CLUSTER,
            c::VALID_CONFIGURATION,
            c::VALID_RELEASE_IMAGE,
            c::VALID_PROXY_CONFIGURATION,
            c::RECONCILIATION_ACTIVE,
            c::RECONCILIATION_SUCCEEDED,
            c::PLATFORM_CREDENTIALS_FOUND,
            c::IGNITION_ENDPOINT_AVAILABLE,
            c::UNMANAGED_ETCD_AVAILABLE,
            c::CLUSTER_VERSION_SUCCEEDING,
            c::CLUSTER_VERSION_RELEASE_ACCEPTED,
            c::CLUSTER_VERSION_UPGRADEABLE,
            c::CLUSTER_VERSION_AVAILABLE,
            c::CLUSTER_VERSION_RETRIEVED_UPDATES,
            c::CLUSTER_SIZE_COMPUTED,
            "WhateverElseSomebodySays",
        ]
        .map(|k| (k, "False", "Bad")),
    );
    bad.extend(
        [
            c::DEGRADED,
            c::PROGRESSING,
            c::CLUSTER_VERSION_PROGRESSING,
            c::ETCD_RECOVERY_ACTIVE,
            c::CLUSTER_SIZE_TRANSITION_PENDING,
            c::CLUSTER_SIZE_TRANSITION_REQUIRED,
            "CertificateAuthoritiesRotating",
        ]
        .map(|k| (k, "True", "Bad")),
    );
    bad.push((c::ETCD_RECOVERY_ACTIVE, "False", "EtcdRecoveryJobFailed"));
    bad.push((c::PUBLIC_ENDPOINT_EXPOSED, "Unknown", "ConvergenceInProgress"));
    for (kind, status, reason) in bad {
        let message = format!("what {kind} says");
        let said = condition(kind, status, reason, &message);
        let status = json!({"conditions": [said]});
        let plane = json!({"metadata": {"name": "demo", "namespace": "clusters-demo"},
            "spec": {"secretEncryption": {"kms": {}}}, "status": status});
        let facts = Facts { cluster: cluster(vec![said.clone()]), plane: Some(plane), ..Facts::default() };
        let tree = explain::explain(&facts);
        let mut all = Vec::new();
        nodes(&tree, &mut all);
        let found: Vec<_> = all.iter().filter(|n| n.message == message).collect();
        assert_eq!(found.len(), 1, "{kind} is told once: {tree:#?}");
        assert!(found[0].state > State::Unknown, "{kind}: {tree:#?}");
    }
    // What is well is not gone on about.
    for (kind, status, reason) in [
        (c::PUBLIC_ENDPOINT_EXPOSED, "False", "TopologyPrivate"),
        (c::ETCD_RECOVERY_ACTIVE, "False", "AsExpected"),
        (c::AUTO_NODE_ENABLED, "False", "AutoNodeNotConfigured"),
        (c::ETCD_BACKUP_SUCCEEDED, "True", "BackupSucceeded"),
    ] {
        let facts =
            Facts { cluster: cluster(vec![condition(kind, status, reason, "well")]), ..Facts::default() };
        assert!(!format!("{:?}", explain::explain(&facts)).contains("well"), "{kind}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_same_is_read_from_any_cluster() {
    let w = World::start().await.with_inputs().await;
    let running = w.operate();
    let client = w.server.client();
    let error = explain::read::facts(&client, "clusters", "demo").await.unwrap_err();
    assert!(error.to_string().contains("there is no HostedCluster clusters/demo"), "{error}");
    w.create(&kinds::CLUSTER, samples::self_managed()).await;
    w.report_available().await;
    w.condition("Available", "True").await;
    let tree = explain::explain(&explain::read::facts(&client, "clusters", "demo").await.unwrap());
    assert_eq!(tree.state, State::Ready);
    assert!(tree.parts.iter().any(|p| p.name == "control plane clusters-demo/demo"));
    // From inside, the same, and what the operator waits for.
    let inside = async {
        // Its views may be a moment behind the API.
        while explain::explain(&running.operator.facts(&running.handle, "clusters", "demo").unwrap()).state
            != State::Ready
        {
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(std::time::Duration::from_secs(60), inside).await.expect("the same from inside");
}

/// What `kubectl get hostedcluster` prints, by column: the table that the API makes for it.
async fn row(w: &World) -> BTreeMap<String, String> {
    let request =
        http::Request::get("/apis/hypershift.openshift.io/v1beta1/namespaces/clusters/hostedclusters/demo")
            .header("accept", "application/json;as=Table;v=v1;g=meta.k8s.io")
            .body(Vec::new())
            .unwrap();
    let table: Value = w.server.client().request(request).await.unwrap();
    let names = table["columnDefinitions"].as_array().unwrap().iter().map(|c| c["name"].as_str().unwrap());
    let cells = table["rows"][0]["cells"].as_array().unwrap().iter();
    names.map(str::to_owned).zip(cells.map(|c| c.as_str().unwrap_or_default().to_owned())).collect()
}

/// Every node below, itself included.
fn nodes<'a>(node: &'a explain::Node, out: &mut Vec<&'a explain::Node>) {
    out.push(node);
    node.parts.iter().for_each(|p| nodes(p, out));
}

/// `kubectl get`, `kubectl describe` and `zaffre explain` say the same of the cluster as it is now.
async fn one_story(w: &World, stage: &str, state: State) -> explain::Node {
    let client = w.server.client();
    // All three look at one moment: nothing is written between the looks.
    let (facts, row) = loop {
        let before = explain::read::facts(&client, "clusters", "demo").await.unwrap();
        let row = row(w).await;
        let after = w.api(&kinds::CLUSTER, "clusters").get("demo").await.unwrap();
        let version = after.metadata.resource_version.as_deref();
        if before.cluster["metadata"]["resourceVersion"].as_str() == version {
            break (before, row);
        }
    };
    let tree = explain::explain(&facts);
    let drawn = explain::text(&tree, clock::system().now(), true);
    assert_eq!(tree.state, state, "{stage}\n{drawn}");
    let said = &facts.cluster["status"]["conditions"];
    let found = |kind: &str| {
        let mut all = said.as_array().into_iter().flatten();
        all.find(|c| c["type"] == kind).cloned().unwrap_or_default()
    };
    let mut all = Vec::new();
    nodes(&tree, &mut all);
    let deleting = !facts.cluster["metadata"]["deletionTimestamp"].is_null();
    match deleting {
        true => {
            let text = &all.iter().find(|n| n.name == "deletion").unwrap().message;
            assert_eq!(row["Message"], format!("being deleted: {text}"), "{stage}\n{drawn}");
            assert_eq!(found("DeletionBlocked")["message"], text.as_str());
        }
        false => {
            assert_eq!(row["Message"], tree.message, "{stage}\n{drawn}");
            assert_eq!(row["Available"] == "True", state == State::Ready, "{stage}: {row:?}");
        }
    }
    assert_eq!(row["Available"], found("Available")["status"].as_str().unwrap());
    let shown = |kind: &str| all.iter().find(|n| n.name == kind && !n.reason.is_empty());
    for condition in said.as_array().unwrap() {
        let kind = condition["type"].as_str().unwrap();
        if let Some(node) = shown(kind).filter(|_| kind != "Available" && kind != "Degraded") {
            let told = json!([node.reason, node.message]);
            assert_eq!(told, json!([condition["reason"], condition["message"]]), "{stage}: {kind}\n{drawn}");
        }
        // Whatever somebody must mend is in the tree.
        let wrong = condition["status"] == "False" && kind.starts_with("Valid");
        assert!(!wrong || shown(kind).is_some(), "{stage}: {kind} is not told\n{drawn}");
    }
    tree
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn three_ways_to_look_tell_one_story() {
    let w = World::start().await;
    let running = w.operate();
    w.create(&kinds::CLUSTER, samples::self_managed()).await;
    let unknown = w.condition("PlatformCredentialsFound", "Unknown").await;
    assert!(unknown["message"].as_str().unwrap().contains("when the rest"), "{unknown}");
    let tree = one_story(&w, "invalid input", State::Blocked).await;
    let guest = tree.parts.iter().find(|p| p.name == "guest").unwrap();
    assert!(guest.parts.is_empty() && guest.hint.is_empty(), "one line: {guest:?}");

    for input in samples::inputs() {
        w.create(&kinds::SECRET, input).await;
    }
    w.condition("ValidConfiguration", "True").await;
    let made = |o: Option<&kube::core::DynamicObject>| o.is_some();
    w.until(&kinds::PLANE, "clusters-demo", "demo", "being", made).await;
    w.condition("PlatformCredentialsFound", "True").await;
    one_story(&w, "waiting", State::Waiting).await;
    w.report_available().await;
    w.condition("Available", "True").await;
    one_story(&w, "available", State::Ready).await;

    // Somebody holds the control plane: its deletion takes as long as that, and after a while that is said.
    let plane = w.api(&kinds::PLANE, "clusters-demo").get("demo").await.unwrap();
    let mut held = plane.metadata.finalizers.unwrap_or_default();
    held.push("test/held".into());
    w.patch(&kinds::PLANE, "clusters-demo", "demo", json!({"metadata": {"finalizers": held}})).await;
    w.api(&kinds::CLUSTER, "clusters").delete("demo", &Default::default()).await.unwrap();
    w.clock.advance(clock::system().now().duration_since(clock::Clock::now(&*w.clock)));
    for (stage, reason, state) in [
        ("deleting", "ControlPlaneDeleting", State::Waiting),
        ("blocked", "ControlPlaneDeadlineExceeded", State::Blocked),
    ] {
        running.handle.poke("clusters/demo");
        let so = |o: Option<&kube::core::DynamicObject>| {
            o.is_some_and(|o| crate::world::condition(o, "DeletionBlocked")["reason"] == reason)
        };
        w.until(&kinds::CLUSTER, "clusters", "demo", reason, so).await;
        one_story(&w, stage, state).await;
        w.clock.advance(jiff::SignedDuration::from_mins(31));
    }
}
