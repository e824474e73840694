//! Explanations: the tree that people and programs read.

use crate::samples;
use crate::world::World;
use hypershift::explain::{self, Facts, State};
use hypershift::kinds;
use jiff::Timestamp;
use serde_json::{Value, json};

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
    let inside = running.operator.facts(&running.handle, "clusters", "demo").unwrap();
    assert_eq!(explain::explain(&inside).state, State::Ready);
}
