//! The root authority of a cluster is replaced while somebody watches with the kubeconfig of before.

use crate::kit::{DEADLINE, Kit};
use crate::place::{Place, Reached};
use crate::tools::{Kubectl, says};
use hypershift::kinds;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, PostParams};
use kube::config::Kubeconfig;
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
) -> tokio::task::JoinHandle<usize> {
    tokio::spawn(async move {
        let mut begun = 0;
        while !stop.load(Ordering::Relaxed) {
            begun += 1;
            let mut child =
                kubectl.start(&["get", "configmap", "-n", "default", "-w", "--no-headers"], &out, &err);
            while child.try_wait().unwrap().is_none() {
                if stop.load(Ordering::Relaxed) {
                    child.kill().unwrap();
                }
                tokio::time::sleep(Duration::from_millis(50)).await;
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
    assert_eq!(replaced(&kit).await, Reached::End);
    kit.world.stop().await;
}

pub async fn replaced<P: Place>(kit: &Kit<P>) -> Reached {
    let demo = kit.sample("demo");
    let name = demo.name.as_str();
    kit.create(&demo).await;
    if let Some(stuck) = kit.stuck(&demo).await {
        return stuck;
    }
    kit.available(name).await;
    let plane = demo.plane();
    let before = kit.kubeconfig(name).await;
    let old_root = root(kit, &plane).await;
    assert_eq!(old_root.len(), 1);
    let Some(kubectl) = Kubectl::new(kit, "before", &before) else {
        return Reached::End;
    };
    let kubectl = Arc::new(kubectl);
    let (out, err) = (kit.file("watch.out"), kit.file("watch.err"));
    let stop = Arc::new(AtomicBool::new(false));
    let watching = watch(kubectl.clone(), out.clone(), err, stop.clone());

    // Long enough that the overlap can be looked at.
    let ask = json!({"metadata": {"annotations": {
        "hypershift.openshift.io/rotate-authorities": "root-ca@november",
        "hypershift.openshift.io/rotate-authorities-overlap": "PT10S"}}});
    kit.patch(name, ask).await;

    // The overlap: both are trusted and the old one signs. Who holds the old kubeconfig works on.
    wait("a successor", async || phase(kit, &plane).await == Phase::Announced).await;
    wait("both in the bundle", async || {
        let now = root(kit, &plane).await;
        now.len() == 2 && now.is_superset(&old_root)
    })
    .await;
    // The kubeconfig that is given out from now on knows both, and is good for all that follows.
    let ca = |config: &str| {
        let config = Kubeconfig::from_yaml(config).unwrap();
        config.clusters[0].cluster.as_ref().unwrap().certificate_authority_data.as_ref().unwrap().len()
    };
    wait("a kubeconfig with both", async || ca(&kit.kubeconfig(name).await) > ca(&before) * 3 / 2).await;
    let middle = Kubectl::new(kit, "middle", &kit.kubeconfig(name).await).unwrap();
    let mut made = Vec::new();
    let mut make = async |kubectl: &Kubectl, during: Phase| {
        let name = format!("note-{}", made.len());
        let (done, text) = kubectl.run(&["create", "configmap", &name, "-n", "default"]).await;
        if done {
            made.push(name);
        } else if phase(kit, &plane).await == during {
            let distrusted = DISTRUST.iter().any(|w| text.contains(w));
            assert!(!distrusted, "{during:?}: {text}");
        }
        made.len()
    };
    let mut first = 0;
    let began = std::time::Instant::now();
    while phase(kit, &plane).await == Phase::Announced {
        assert!(began.elapsed() < DEADLINE, "the overlap never ends\n{}", kit.story(name).await);
        first = make(&kubectl, Phase::Announced).await;
    }
    assert!(first > 0, "nothing could be written with the old kubeconfig");
    let mut second = first;
    while phase(kit, &plane).await == Phase::Promoted {
        assert!(began.elapsed() < DEADLINE * 2, "the rotation never ends\n{}", kit.story(name).await);
        second = make(&middle, Phase::Promoted).await;
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    assert!(second > first, "nothing could be written with the kubeconfig of the overlap");

    // What was made in the overlap was seen by the watch; the last may have come as it ended.
    stop.store(true, Ordering::Relaxed);
    let begun = watching.await.unwrap();
    let seen = std::fs::read_to_string(&out).unwrap();
    let missed: Vec<&String> = made[..first].iter().filter(|n| !seen.contains(n.as_str())).collect();
    assert!(missed.len() <= 1, "{missed:?}");
    eprintln!("{first} and {second} objects were made, the watch was begun {begun} times");
    wait("the end", async || {
        let o = kit.api(&kinds::PLANE, &plane).get(name).await.unwrap();
        says(&o.data["status"], "CertificateAuthoritiesRotating", "False", "november")
    })
    .await;

    // At the end the old authority is nowhere, and the new kubeconfig works.
    kit.available(name).await;
    let new_root = root(kit, &plane).await;
    assert!(new_root.len() == 1 && new_root.is_disjoint(&old_root));
    let after = kit.kubeconfig(name).await;
    assert_ne!(after, before);
    // The one API server may just be replaced by one that has forgotten the old authority: that is no answer.
    let fresh = Kubectl::new(kit, "after", &after).unwrap();
    wait("an answer to the new kubeconfig", async || {
        let (done, text) = fresh.run(&["get", "configmap", "-n", "default", "--no-headers"]).await;
        done && made.iter().all(|n| text.contains(n.as_str()))
    })
    .await;
    wait("the end of the old one", async || {
        let (done, text) = kubectl.run(&["get", "configmap", "-n", "default"]).await;
        assert!(!done, "the old one is over: {text}");
        DISTRUST.iter().any(|w| text.contains(w))
    })
    .await;
    let maps: Api<ConfigMap> = Api::namespaced(kit.admin(name).await, "default");
    let map: ConfigMap = serde_json::from_value(json!({"metadata": {"name": "last"}})).unwrap();
    wait("a write", async || maps.create(&PostParams::default(), &map).await.is_ok()).await;
    Reached::End
}

/// Where the rotation of the root authority stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Steady,
    Announced,
    Promoted,
}

async fn phase<P: Place>(kit: &Kit<P>, plane: &str) -> Phase {
    let secret = kit.api(&kinds::SECRET, plane).get("root-ca").await.unwrap();
    let has = |key: &str| secret.data["data"][key].as_str().is_some_and(|v| !v.is_empty());
    match (has("next.crt"), has("previous.crt")) {
        (true, _) => Phase::Announced,
        (false, true) => Phase::Promoted,
        (false, false) => Phase::Steady,
    }
}

/// What clients are told to trust.
async fn root<P: Place>(kit: &Kit<P>, plane: &str) -> BTreeSet<String> {
    let map = kit.api(&kinds::CONFIG_MAP, plane).get("root-ca").await.unwrap();
    bundle(map.data["data"]["ca.crt"].as_str().unwrap())
}

async fn wait(what: &str, so: impl AsyncFn() -> bool) {
    let poll = async {
        while !so().await {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    assert!(tokio::time::timeout(DEADLINE, poll).await.is_ok(), "never: {what}");
}
