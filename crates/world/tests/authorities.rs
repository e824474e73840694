//! All authorities of a cluster are replaced while somebody watches with the kubeconfig of before.

use crate::kit::{DEADLINE, Kit};
use crate::tools::{Kubectl, condition};
use hypershift::kinds;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, PostParams};
use serde_json::json;
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use world::Flavour;

/// Words of somebody whose certificates are not believed, or who does not believe.
const DISTRUST: [&str; 4] =
    ["x509", "certificate signed by unknown", "Unauthorized", "You must be logged in"];

/// `kubectl get -w`, begun again whenever the server ends it: API servers are replaced while authorities are, and every
/// replacement ends the watches on it, whoever signed its certificate.
fn watch(
    kubectl: Arc<Kubectl>,
    out: PathBuf,
    err: PathBuf,
    stop: Arc<AtomicBool>,
) -> std::thread::JoinHandle<usize> {
    std::thread::spawn(move || {
        let mut begun = 0;
        while !stop.load(Ordering::Relaxed) {
            begun += 1;
            let mut child =
                kubectl.start(&["get", "configmap", "-n", "default", "-w", "--no-headers"], &out, &err);
            while child.try_wait().unwrap().is_none() {
                if stop.load(Ordering::Relaxed) {
                    child.kill().unwrap();
                }
                std::thread::sleep(Duration::from_millis(50));
            }
        }
        begun
    })
}

/// The certificates of a bundle.
fn bundle(pem: &str) -> BTreeSet<String> {
    let all = pem.split("-----END CERTIFICATE-----").map(|c| c.split_whitespace().collect::<String>());
    all.filter(|c| !c.is_empty()).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn authorities_are_replaced_under_a_running_watch() {
    let kit = Kit::start(Flavour::Workload).await;
    let demo = kit.sample("demo").highly_available();
    demo.create(&kit.world).await.unwrap();
    kit.available("demo").await;
    let plane = demo.plane();
    let before = kit.kubeconfig("demo").await;
    let old_root = root(&kit, &plane).await;
    assert_eq!(old_root.len(), 1);
    let Some(kubectl) = Kubectl::new(&kit, "before", &before) else { return kit.world.stop().await };
    let kubectl = Arc::new(kubectl);
    let (out, err) = (kit.world.dir().join("watch.out"), kit.world.dir().join("watch.err"));
    let stop = Arc::new(AtomicBool::new(false));
    let watching = watch(kubectl.clone(), out.clone(), err.clone(), stop.clone());

    // Long enough that all of the overlap can be looked at.
    let ask = json!({"metadata": {"annotations": {
        "hypershift.openshift.io/rotate-authorities": "all@november",
        "hypershift.openshift.io/rotate-authorities-overlap": "PT20S"}}});
    kit.patch("demo", ask).await;
    let planes = kit.api(&kinds::PLANE, &plane);
    let rotating = async |wanted: &str| {
        let o = planes.get("demo").await.unwrap();
        let c = condition(&o.data["status"], "CertificateAuthoritiesRotating");
        c["status"] == wanted
            && c["message"].as_str().is_some_and(|m| wanted == "True" || m.contains("november"))
    };
    wait("a rotation", || rotating("True")).await;

    // As long as both are trusted, who holds the old kubeconfig works on.
    let (mut made, mut refused, mut both) = (Vec::new(), Vec::new(), false);
    let begun = std::time::Instant::now();
    while !rotating("False").await {
        assert!(begun.elapsed() < DEADLINE, "the rotation never ends\n{}", kit.story("demo").await);
        let now = root(&kit, &plane).await;
        both |= now.len() == 2 && now.is_superset(&old_root);
        if now.is_superset(&old_root) {
            let name = format!("note-{}", made.len());
            let (done, text) = kubectl.run(&["create", "configmap", &name, "-n", "default"]).await;
            if done {
                made.push(name);
            } else if root(&kit, &plane).await.is_superset(&old_root) {
                refused.push(text);
            }
        }
        tokio::time::sleep(Duration::from_millis(300)).await;
    }
    assert!(both, "old and new were trusted together");
    assert!(!made.is_empty(), "{refused:?}");
    let distrusted: Vec<&String> =
        refused.iter().filter(|t| DISTRUST.iter().any(|w| t.contains(w))).collect();
    assert!(distrusted.is_empty(), "{distrusted:?}");

    // What was made was seen by the watch; it may come a moment later.
    let seen = || std::fs::read_to_string(&out).unwrap();
    let last = made.last().unwrap().clone();
    let late = async || seen().contains(last.as_str());
    if tokio::time::timeout(Duration::from_secs(30), poll(late)).await.is_err() {
        // Its last connection may have ended with the old authority; what was said before that counts.
        let text = seen();
        assert!(made.iter().filter(|n| text.contains(n.as_str())).count() + 1 >= made.len(), "{text}");
    }
    stop.store(true, Ordering::Relaxed);
    let begun = tokio::task::spawn_blocking(|| watching.join().unwrap()).await.unwrap();
    eprintln!("{} objects made, the watch was begun {begun} times", made.len());

    // At the end the old authority is nowhere, and the new kubeconfig works.
    kit.available("demo").await;
    let new_root = root(&kit, &plane).await;
    assert!(new_root.len() == 1 && new_root.is_disjoint(&old_root));
    let after = kit.kubeconfig("demo").await;
    assert_ne!(after, before);
    let fresh = Kubectl::new(&kit, "after", &after).unwrap();
    let (done, text) = fresh.run(&["get", "configmap", "-n", "default", "--no-headers"]).await;
    assert!(done && made.iter().all(|n| text.contains(n.as_str())), "{text}");
    let (done, text) = kubectl.run(&["get", "configmap", "-n", "default"]).await;
    assert!(!done && DISTRUST.iter().any(|w| text.contains(w)), "the old one is over: {text}");
    let maps: Api<ConfigMap> = Api::namespaced(kit.admin("demo").await, "default");
    let map = json!({"metadata": {"name": "last"}});
    maps.create(&PostParams::default(), &serde_json::from_value(map).unwrap()).await.unwrap();
    kit.world.stop().await;
}

/// What clients are told to trust.
async fn root(kit: &Kit, plane: &str) -> BTreeSet<String> {
    let map = kit.api(&kinds::CONFIG_MAP, plane).get("root-ca").await.unwrap();
    bundle(map.data["data"]["ca.crt"].as_str().unwrap())
}

async fn poll<F: Future<Output = bool>>(so: impl Fn() -> F) {
    while !so().await {
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

async fn wait<F: Future<Output = bool>>(what: &str, so: impl Fn() -> F) {
    assert!(tokio::time::timeout(DEADLINE, poll(so)).await.is_ok(), "never: {what}");
}
