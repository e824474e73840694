//! Objects become as desired, and nothing is said when they are.

use crate::world::*;
use kube::core::Expression;
use reconcile::{Applied, Desired, Immutable, Kind, Watch};
use serde_json::{Value, json};
use std::collections::BTreeSet;

fn deployment(name: &str, image: &str) -> Value {
    json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name, "namespace": "default"},
        "spec": {"replicas": 2, "selector": {"matchLabels": {"app": name}},
            "template": {"metadata": {"labels": {"app": name}}, "spec": {"containers": [{"name": "main", "image": image}]}}}})
}

fn secret(name: &str, value: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name, "namespace": "default"}, "stringData": {"k": value}})
}

fn some_of_everything(w: &World) -> Vec<Desired> {
    let a = w.applier("us");
    let mut all = vec![json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "default"}})];
    for i in 0..5 {
        all.push(map(&format!("m{i}"), json!({"k": "v"})));
        all.push(secret(&format!("s{i}"), "v"));
        all.push(deployment(&format!("d{i}"), "image:1"));
        all.push(json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": format!("a{i}"), "namespace": "default"}}));
        all.push(json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": format!("svc{i}"), "namespace": "default"},
            "spec": {"selector": {"app": "x"}, "ports": [{"port": 80}]}}));
    }
    all.into_iter().map(|m| a.desired(m).unwrap()).collect()
}

fn watches(w: &World, whole: bool) -> Vec<Watch> {
    let of = |k: &Kind| if whole { Watch::whole(&w.client, k) } else { Watch::metadata(&w.client, k) };
    [NAMESPACES, MAPS, SECRETS, DEPLOYMENTS, ACCOUNTS, SERVICES, JOBS].iter().map(of).collect()
}

async fn versions(w: &World, all: &[Desired]) -> BTreeSet<String> {
    let mut out = BTreeSet::new();
    for d in all {
        let o = w.get(d.at()).await.unwrap();
        out.insert(format!("{} {}", d.at(), o.metadata.resource_version.unwrap()));
    }
    out
}

#[tokio::test]
async fn a_settled_cluster_costs_no_request() {
    for whole in [true, false] {
        let w = World::new().await;
        let _following = w.follow(watches(&w, whole)).await;
        let (a, all) = (w.applier("us"), some_of_everything(&w));
        let report = a.apply_all(&all).await;
        assert!(report.is_good(), "{report:?}");
        assert_eq!(w.road.take().len(), all.len(), "one request each");
        let before = versions(&w, &all).await;
        let started = std::time::Instant::now();
        for _ in 0..100 {
            let report = a.apply_all(&all).await;
            assert!(report.is_quiet(), "{report:?}");
        }
        println!("settled: {:?} per object", started.elapsed() / (100 * all.len() as u32));
        assert_eq!(w.road.take(), [""; 0], "whole objects: {whole}");
        assert_eq!(versions(&w, &all).await, before);
        assert_eq!(w.metrics.value(&reconcile::metrics::APPLIES, &["us", "skipped"]), 100 * all.len() as i64);
    }
}

#[tokio::test]
async fn after_a_restart_each_is_applied_once_and_nothing_is_written() {
    let mut w = World::new().await;
    let all = some_of_everything(&w);
    assert!(w.applier("us").apply_all(&all).await.is_good());
    let before = versions(&w, &all).await;
    w.ledger = reconcile::Ledger::new("us", &clock::Random::seeded(2));
    let _following = w.follow(watches(&w, true)).await;
    let a = w.applier("us");
    assert!(a.apply_all(&all).await.is_good());
    assert_eq!(w.road.take().len(), all.len());
    assert!(a.apply_all(&all).await.is_quiet());
    assert_eq!(versions(&w, &all).await, before);
}

/// Applies until the ledger has heard of a change; says what it took in the end.
async fn until_heard(a: &reconcile::Applier, d: &Desired) -> Applied {
    let mut last = Applied::Skipped;
    eventually("a change is heard of", async || {
        last = a.apply(d).await.unwrap();
        last != Applied::Skipped
    })
    .await;
    last
}

#[tokio::test]
async fn what_others_change_is_put_back_and_what_they_add_stays() {
    for whole in [true, false] {
        let w = World::new().await;
        let _following = w.follow(watches(&w, whole)).await;
        let a = w.applier("us");
        for (d, edit) in [
            (map("m", json!({"ours": "1"})), json!({"data": {"ours": "2", "theirs": "3"}})),
            (
                deployment("d", "image:1"),
                json!({"metadata": {"annotations": {"theirs": "3"}}, "spec": {"replicas": 9}}),
            ),
        ] {
            let d = a.desired(d).unwrap();
            a.apply(&d).await.unwrap();
            w.edit(d.at(), edit).await;
            assert_eq!(until_heard(&a, &d).await, Applied::Corrected { times: 1 });
            let live = w.get(d.at()).await.unwrap();
            let text = serde_json::to_string(&live.data).unwrap();
            assert!(text.contains("\"ours\":\"1\"") || text.contains("\"replicas\":2"), "{text}");
            let theirs = live.metadata.annotations.is_some_and(|a| a["theirs"] == "3")
                || text.contains("\"theirs\":\"3\"");
            assert!(theirs, "what others add is theirs");
            w.edit(d.at(), json!({"metadata": {"labels": {"also": "theirs"}}})).await;
            until_heard(&a, &d).await;
            assert_eq!(w.get(d.at()).await.unwrap().metadata.labels.unwrap()["also"], "theirs");
            assert_eq!(a.apply(&d).await.unwrap(), Applied::Skipped);
        }
    }
}

#[tokio::test]
async fn status_of_others_is_no_reason_to_ask() {
    let w = World::new().await;
    let _following = w.follow(watches(&w, true)).await;
    let a = w.applier("us");
    let d = a.desired(deployment("d", "image:1")).unwrap();
    a.apply(&d).await.unwrap();
    let api = DEPLOYMENTS.api(&w.others, "default");
    let status = kube::api::Patch::Merge(json!({"status": {"replicas": 2, "observedGeneration": 1}}));
    api.patch_status("d", &Default::default(), &status).await.unwrap();
    // A later change of a later object has been heard of: so has the status.
    let m = a.desired(map("m", json!({}))).unwrap();
    a.apply(&m).await.unwrap();
    w.edit(m.at(), json!({"data": {"x": "y"}})).await;
    until_heard(&a, &m).await;
    w.road.take();
    assert_eq!(a.apply(&d).await.unwrap(), Applied::Skipped);
    assert_eq!(w.road.take(), [""; 0]);
}

#[tokio::test]
async fn what_is_no_longer_desired_of_an_object_is_removed() {
    let w = World::new().await;
    let a = w.applier("us");
    a.apply(&a.desired(map("m", json!({"a": "1", "b": "2"}))).unwrap()).await.unwrap();
    w.edit(&MAPS.at("default", "m"), json!({"data": {"theirs": "3"}})).await;
    a.apply(&a.desired(map("m", json!({"a": "1"}))).unwrap()).await.unwrap();
    assert_eq!(w.get(&MAPS.at("default", "m")).await.unwrap().data["data"], json!({"a": "1", "theirs": "3"}));
}

#[tokio::test]
async fn what_is_deleted_is_made_again() {
    let w = World::new().await;
    let _following = w.follow(watches(&w, false)).await;
    let a = w.applier("us");
    let d = a.desired(map("m", json!({"a": "1"}))).unwrap();
    a.apply(&d).await.unwrap();
    w.delete(d.at()).await;
    until_heard(&a, &d).await;
    assert!(w.get(d.at()).await.is_some());
}

#[tokio::test]
async fn what_nobody_watches_is_applied_each_time() {
    let w = World::new().await;
    let labelled = Watch::whole(&w.client, &MAPS).labels(Expression::Exists("ours".into()));
    let elsewhere = Watch::whole(&w.client, &SECRETS).namespace("kube-system");
    let _following = w.follow(vec![labelled, elsewhere]).await;
    let a = w.applier("us");
    for (manifest, expected) in [
        (map("m", json!({})), Applied::Sent),
        (
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "l", "namespace": "default", "labels": {"ours": ""}}}),
            Applied::Skipped,
        ),
        (secret("s", "v"), Applied::Sent),
        (deployment("d", "i"), Applied::Sent),
    ] {
        let d = a.desired(manifest).unwrap();
        a.apply(&d).await.unwrap();
        assert_eq!(a.apply(&d).await.unwrap(), expected, "{d:?}");
    }
}

#[tokio::test]
async fn two_managers_of_one_field() {
    let w = World::new().await;
    let (us, them) = (w.applier("us"), w.applier("them"));
    us.apply(&us.desired(map("m", json!({"k": "ours"}))).unwrap()).await.unwrap();
    let other = them.desired(map("m", json!({"k": "theirs"}))).unwrap();
    let e = them.clone().polite().apply(&other).await.unwrap_err();
    assert_eq!((e.reason(), e.code()), (Some("Conflict"), Some(409)));
    let text = reconcile::chain(&e).to_string();
    assert!(
        text.starts_with("cannot apply ConfigMap default/m: Conflict (409): ") && text.contains("\"us\""),
        "{text}"
    );
    them.apply(&other).await.unwrap();
    assert_eq!(
        w.get(&MAPS.at("default", "m")).await.unwrap().data["data"]["k"],
        "theirs",
        "who insists, gets it"
    );
}

fn job(image: &str) -> Value {
    json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j", "namespace": "default"},
        "spec": {"template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": image,
            "args": [LONG]}]}}}})
}

/// The API repeats the template before it says what is wrong with it.
const LONG: &str = match std::str::from_utf8(&[b'x'; 5000]) {
    Ok(text) => text,
    Err(_) => "",
};

#[tokio::test]
async fn a_job_that_cannot_be_changed_is_made_anew() {
    let w = World::new().await;
    let _following = w.follow(watches(&w, true)).await;
    let a = w.applier("us");
    a.apply(&a.desired(job("image:1")).unwrap()).await.unwrap();
    let first = w.get(&JOBS.at("default", "j")).await.unwrap();
    let new = a.desired(job("image:2")).unwrap();
    let e = a.apply(&new.clone().when_immutable(Immutable::Fail)).await.unwrap_err();
    assert_eq!(e.reason(), Some("Invalid"));
    assert_eq!(a.apply(&new).await.unwrap(), Applied::Replaced);
    let second = w.get(&JOBS.at("default", "j")).await.unwrap();
    assert_ne!(first.metadata.uid, second.metadata.uid);
    assert_eq!(second.data["spec"]["template"]["spec"]["containers"][0]["image"], "image:2");
    assert_eq!(a.apply(&new).await.unwrap(), Applied::Skipped);
    // With a finalizer, its end is waited for, not forced.
    w.edit(new.at(), json!({"metadata": {"finalizers": ["example.com/held"]}})).await;
    let newer = a.desired(job("image:3")).unwrap();
    assert_eq!(a.apply(&newer).await.unwrap(), Applied::Replacing);
    assert_eq!(a.apply(&newer).await.unwrap(), Applied::Replacing);
    w.edit(new.at(), json!({"metadata": {"finalizers": null}})).await;
    eventually("it is made anew", async || a.apply(&newer).await.is_ok_and(|x| x != Applied::Replacing))
        .await;
    let third = w.get(&JOBS.at("default", "j")).await.unwrap();
    assert_eq!(third.data["spec"]["template"]["spec"]["containers"][0]["image"], "image:3");
}

#[tokio::test]
async fn secrets_are_drawn_once() {
    let w = World::new().await;
    let following = w.follow(watches(&w, false)).await;
    let a = w.applier("us");
    let at = SECRETS.at("default", "password");
    let draws = std::sync::atomic::AtomicU32::new(0);
    let draw = || {
        let n = draws.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
        a.desired(secret("password", &format!("drawn {n}")))
    };
    assert_eq!(a.create_once(&at, draw).await.unwrap(), Applied::Created);
    w.road.take();
    assert_eq!(a.create_once(&at, draw).await.unwrap(), Applied::Skipped);
    w.edit(&at, json!({"stringData": {"k": "changed by hand"}})).await;
    assert_eq!(a.create_once(&at, draw).await.unwrap(), Applied::Skipped);
    assert_eq!(w.road.take(), [""; 0]);
    w.delete(&at).await;
    eventually("made again", async || a.create_once(&at, draw).await.unwrap() == Applied::Created).await;
    // After a restart it is found, not drawn.
    following.stop().await;
    let w = World { ledger: reconcile::Ledger::new("us", &clock::Random::seeded(3)), ..w };
    let _following = w.follow(watches(&w, false)).await;
    let b = w.applier("us");
    assert_eq!(b.create_once(&at, draw).await.unwrap(), Applied::Kept);
    assert_eq!(b.create_once(&at, draw).await.unwrap(), Applied::Skipped);
    assert_eq!(w.road.take().len(), 1, "one look");
    assert_eq!(draws.load(std::sync::atomic::Ordering::SeqCst), 2);
}

#[tokio::test]
async fn every_object_is_attempted_and_each_failure_is_named() {
    let w = World::new().await;
    let a = w.applier("us");
    let all: Vec<Desired> = [
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "namespace": "new"}}),
        map("Not_A_Name", json!({})),
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "b", "namespace": "nowhere"}}),
        secret("s", "v"),
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "new"}}),
    ]
    .into_iter()
    .map(|m| a.desired(m).unwrap())
    .collect();
    let report = a.apply_all(&all).await;
    let failures: Vec<_> =
        report.failures().map(|(at, e)| format!("{at}: {}", e.reason().unwrap())).collect();
    assert_eq!(failures, ["ConfigMap default/Not_A_Name: Invalid", "ConfigMap nowhere/b: NotFound"]);
    assert_eq!(report.results.len(), 5);
    assert!(w.get(&MAPS.at("new", "a")).await.is_some(), "its namespace was made first");
    let e = report.into_result().unwrap_err();
    assert!(
        reconcile::chain(&e)
            .to_string()
            .starts_with("cannot apply ConfigMap default/Not_A_Name: Invalid (422): ")
    );
    assert!(!e.is_transient());
    w.road.closed.store(true, std::sync::atomic::Ordering::SeqCst);
    let e = a.apply(&all[3]).await.unwrap_err();
    assert!(e.is_transient() && e.reason().is_none(), "{e:?}");
    let text = format!("{:?} {e:?} {e}", all[3]);
    assert!(!text.contains("dg=="), "secrets stay out of it: {text}");
}
