//! The availability prober.

use crate::support::{DEADLINE, World, words};
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, ObjectMeta, PostParams};
use serde_json::json;
use sidecars::prober::{self, Args};

fn start(w: &World, more: &[&str]) -> tokio::task::JoinHandle<i32> {
    let mut all = words(&["--target", "https://kube-apiserver:6443/readyz"]);
    all.extend(words(more));
    let args: Args = sidecars::parse("availability-prober", &all).unwrap();
    let (place, stop) = (w.place.clone(), w.stop.clone());
    tokio::spawn(async move { prober::run(&args, &*place, &stop).await })
}

async fn post(w: &World, path: &str, body: serde_json::Value) {
    let request = http::Request::post(path).header("content-type", "application/json");
    let request = request.body(body.to_string().into_bytes()).unwrap();
    w.server.client().request::<serde_json::Value>(request).await.unwrap();
}

async fn ended(task: tokio::task::JoinHandle<i32>) -> i32 {
    tokio::time::timeout(DEADLINE, task).await.expect("it ends").unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn it_waits_for_an_answer() {
    let w = World::start().await;
    let address = w.place.at.lock().take();
    let task = start(&w, &[]);
    w.until("it is said", || w.said("no ready endpoint")).await;
    assert!(!task.is_finished());
    *w.place.at.lock() = address;
    assert_eq!(ended(task).await, 0);
    // Told to stop before it is done, it did not end well.
    w.place.at.lock().take();
    let task = start(&w, &[]);
    w.stop.cancel();
    assert_eq!(ended(task).await, 143);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_foreign_certificate_is_no_answer_where_the_authority_is_known() {
    let (w, other) = (World::start().await, World::start().await);
    *w.place.at.lock() = *other.place.at.lock();
    let known = start(&w, &["--kubeconfig=/etc/kubernetes/kubeconfig"]);
    w.until("it is said", || w.said("did not answer")).await;
    assert!(!known.is_finished());
    assert_eq!(ended(start(&w, &[])).await, 0, "without an authority nothing is checked");
    w.stop.cancel();
    assert_eq!(ended(known).await, 143);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn it_waits_for_kinds_objects_and_the_end_of_pods() {
    let w = World::start().await;
    let pods: Api<Pod> = Api::namespaced(w.server.client(), "default");
    let pod = json!({"metadata": {"name": "old", "labels": {"name": "dns-operator"}},
        "spec": {"containers": [{"name": "c", "image": "i"}]}});
    pods.create(&PostParams::default(), &serde_json::from_value(pod).unwrap()).await.unwrap();
    let task = start(
        &w,
        &[
            "--kubeconfig=/etc/kubernetes/kubeconfig",
            "--required-api=,v1,Secret",
            "--required-api=config.openshift.io,v1,Infrastructure",
            "--wait-for-infrastructure-resource",
            "--wait-for-cluster-rolebinding=cluster-network-operator",
            "--wait-for-labeled-pods-gone=default/name=dns-operator",
        ],
    );
    w.until("the kind", || w.said("the API does not serve config.openshift.io,v1,Infrastructure yet")).await;
    let crd = json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "infrastructures.config.openshift.io"},
        "spec": {"group": "config.openshift.io", "scope": "Cluster",
            "names": {"plural": "infrastructures", "singular": "infrastructure", "kind": "Infrastructure", "listKind": "InfrastructureList"},
            "versions": [{"name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}]}});
    post(&w, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", crd).await;
    w.until("the object", || w.said("infrastructures.config.openshift.io/cluster is not there yet")).await;
    let object = json!({"apiVersion": "config.openshift.io/v1", "kind": "Infrastructure", "metadata": {"name": "cluster"}});
    post(&w, "/apis/config.openshift.io/v1/infrastructures", object).await;
    w.until("the binding", || w.said("clusterrolebindings/cluster-network-operator is not there yet")).await;
    let binding = k8s_openapi::api::rbac::v1::ClusterRoleBinding {
        metadata: ObjectMeta { name: Some("cluster-network-operator".into()), ..ObjectMeta::default() },
        role_ref: k8s_openapi::api::rbac::v1::RoleRef {
            api_group: "rbac.authorization.k8s.io".into(),
            kind: "ClusterRole".into(),
            name: "view".into(),
        },
        ..Default::default()
    };
    Api::all(w.server.client()).create(&PostParams::default(), &binding).await.unwrap();
    w.until("the pods", || w.said("1 pods of default/name=dns-operator are still there")).await;
    let now = kube::api::DeleteParams { grace_period_seconds: Some(0), ..Default::default() };
    pods.delete("old", &now).await.unwrap();
    assert_eq!(ended(task).await, 0);
}
