//! The whole life of a cluster under operators that die all the time.
//!
//! `testkit::adversarial` attacks one point per scenario, and each scenario would be a whole cluster: an hour. This is the
//! same question in one life: the first time that either operator makes a sort of write it never hears the answer, and the
//! second time both die on the spot and others begin who know only what is stored. Sorts are not listed: whatever they
//! write is attacked. What is there when the cluster is complete must be what a life without trouble has, and
//! nothing may be left at the end.

use crate::kit::{Kit, is_true, says};
use crate::remains::Remains;
use kube::client::Body;
use parking_lot::Mutex;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use tokio::sync::mpsc;
use world::Flavour;

type Failed = tower::BoxError;

/// What is attacked, and what came of it.
#[derive(Default)]
struct Attacks {
    /// How often a sort of write was met.
    met: Mutex<BTreeMap<String, usize>>,
    lost: Mutex<Vec<String>>,
    killed: Mutex<Vec<String>>,
}

/// `PATCH deployments`, `PATCH hostedclusters/status`; nothing for questions.
fn sort(request: &http::Request<Body>) -> Option<String> {
    if request.method() == http::Method::GET {
        return None;
    }
    let path = request.uri().path();
    let parts: Vec<&str> = path.trim_start_matches('/').split('/').collect();
    // After `api/v1` or `apis/group/version`.
    let mut rest = parts.get(if parts.first() == Some(&"api") { 2 } else { 3 }..)?;
    if rest.first() == Some(&"namespaces") && rest.len() > 2 {
        rest = &rest[2..];
    }
    let sub = rest.get(2).map(|s| format!("/{s}")).unwrap_or_default();
    Some(format!("{} {}{sub}", request.method(), rest.first()?))
}

/// A client through which the operators' writes are attacked. Who dies says so on `deaths`.
fn under_attack(client: kube::Client, attacks: Arc<Attacks>, deaths: mpsc::Sender<()>) -> kube::Client {
    let service = tower::service_fn(move |request: http::Request<Body>| {
        let (client, attacks, deaths) = (client.clone(), attacks.clone(), deaths.clone());
        async move {
            let Some(sort) = sort(&request) else { return client.send(request).await.map_err(Failed::from) };
            // Leases and events are nobody's state.
            let answer = client.send(request).await.map_err(Failed::from)?;
            let met = {
                let mut all = attacks.met.lock();
                let met = all.entry(sort.clone()).or_default();
                *met += 1;
                *met
            };
            match met {
                1 => {
                    attacks.lost.lock().push(sort.clone());
                    Err(Failed::from(format!("the answer to {sort} is lost")))
                }
                2 => {
                    attacks.killed.lock().push(sort);
                    let _ = deaths.send(()).await;
                    // Nobody is there any more to hear it.
                    std::future::pending().await
                }
                _ => Ok(answer),
            }
        }
    });
    kube::Client::new(service, "default")
}

/// What a complete cluster is made of; what chance names goes by its kind.
fn shape(of: &Remains, name: &str) -> BTreeSet<String> {
    let plane = format!("clusters-{name}");
    let ours = of.objects.iter().filter(|o| o.contains(&plane) || o.contains(&format!("clusters/{name}")));
    let ours = ours.filter(|o| {
        !["Pod ", "ReplicaSet ", "ControllerRevision ", "Endpoint", "Job "].iter().any(|k| o.starts_with(k))
    });
    ours.map(|o| o.replace(name, "<name>")).collect()
}

async fn complete(kit: &Kit, name: &str) -> BTreeSet<String> {
    let so = |s: &Value| {
        is_true(s, "Available")
            && says(s, "Degraded", "False", &[])
            && is_true(s, "ReconciliationSucceeded")
            && s["kubeadminPassword"]["name"].is_string()
            && s["controlPlaneVersion"]["history"][0]["state"] == "Completed"
    };
    kit.until(name, "complete", so).await;
    shape(&Remains::of(kit).await, name)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_life_under_operators_that_die_after_every_sort_of_write() {
    let kit = Kit::start(Flavour::Workload).await;
    let before = Remains::of(&kit).await;
    kit.sample("calm").create(&kit.world).await.unwrap();
    let expected = complete(&kit, "calm").await;
    kit.delete("calm").await;
    kit.gone("calm").await;

    let attacks = Arc::new(Attacks::default());
    let (deaths, mut died) = mpsc::channel(64);
    let client = under_attack(kit.world.client(), attacks.clone(), deaths);
    kit.world.replace_operators(&client);
    let life = async {
        kit.sample("hard").create(&kit.world).await.unwrap();
        let found = complete(&kit, "hard").await;
        let kills = attacks.killed.lock().len();
        kit.delete("hard").await;
        kit.gone("hard").await;
        (found, kills)
    };
    let resurrection = async {
        while died.recv().await.is_some() {
            kit.world.replace_operators(&client);
        }
    };
    let (found, kills) = tokio::select! {
        life = Box::pin(life) => life,
        () = resurrection => unreachable!("the client holds the sender"),
    };
    let more: Vec<&String> = found.difference(&expected).collect();
    let less: Vec<&String> = expected.difference(&found).collect();
    assert!(more.is_empty() && less.is_empty(), "more: {more:#?}\nless: {less:#?}");
    let (lost, killed) = (attacks.lost.lock().clone(), attacks.killed.lock().clone());
    eprintln!("answers lost: {lost:?}\nkilled at: {killed:?}");
    // Both operators, at the beginning and at the end.
    for sort in [
        "deployments",
        "statefulsets",
        "secrets",
        "hostedcontrolplanes",
        "hostedcontrolplanes/status",
        "hostedclusters/status",
    ] {
        assert!(
            killed.iter().any(|k| k.ends_with(&format!(" {sort}"))),
            "{sort} was never attacked: {killed:?}"
        );
    }
    assert!(kills >= 12, "{killed:?}");
    assert!(lost.iter().any(|l| l.starts_with("DELETE")), "{lost:?}");
    Remains::of(&kit).await.assert_clean_since(&before, &["calm", "hard"]);
    kit.world.stop().await;
}
