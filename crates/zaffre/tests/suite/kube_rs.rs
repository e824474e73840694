//! kube-rs against the in-process server: controller, reflector, leader election, idempotent apply.

use ek_server::{ApiServer, Config};
use futures::{StreamExt, TryStreamExt};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::api::{Api, DeleteParams, Patch, PatchParams, PostParams, WatchEvent, WatchParams};
use kube::runtime::controller::{Action, Controller};
use kube::runtime::{WatchStreamExt, reflector, watcher};
use serde_json::json;
use std::sync::Arc;
use std::time::Duration;

const DEADLINE: Duration = Duration::from_secs(30);

async fn server() -> ApiServer {
    ApiServer::start(Config::memory()).await.unwrap()
}

fn config_map(name: &str, value: &str) -> ConfigMap {
    serde_json::from_value(json!({"metadata": {"name": name}, "data": {"v": value}})).unwrap()
}

async fn within<T>(f: impl Future<Output = T>) -> T {
    tokio::time::timeout(DEADLINE, f).await.expect("not within 30 s")
}

/// A controller that mirrors ConfigMaps into Secrets it owns.
#[tokio::test]
async fn a_controller_reconciles() {
    let server = server().await;
    let client = server.client();
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), "default");
    let secrets: Api<Secret> = Api::namespaced(client.clone(), "default");
    let reconcile = |cm: Arc<ConfigMap>, client: Arc<kube::Client>| async move {
        let name = cm.metadata.name.clone().unwrap_or_default();
        let owner = json!({"apiVersion": "v1", "kind": "ConfigMap", "name": name, "uid": cm.metadata.uid, "controller": true});
        let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name, "ownerReferences": [owner]},
            "stringData": {"mirror": cm.data.as_ref().and_then(|d| d.get("v"))}});
        let api: Api<Secret> = Api::namespaced((*client).clone(), "default");
        api.patch(&name, &PatchParams::apply("mirror").force(), &Patch::Apply(secret)).await?;
        Ok::<_, kube::Error>(Action::await_change())
    };
    let run = Controller::new(maps.clone(), watcher::Config::default())
        .owns(secrets.clone(), watcher::Config::default())
        .run(reconcile, |_, e, _| panic!("{e}"), Arc::new(client.clone()))
        .for_each(|_| async {});
    let drive = async {
        let mut seen = secrets.watch(&WatchParams::default(), "0").await.unwrap().boxed();
        for i in 0..10 {
            maps.create(&PostParams::default(), &config_map(&format!("m{i}"), "1")).await.unwrap();
        }
        let mut names = std::collections::BTreeSet::new();
        while names.len() < 10 {
            if let WatchEvent::Added(s) | WatchEvent::Modified(s) = seen.try_next().await.unwrap().unwrap() {
                names.insert(s.metadata.name.unwrap());
            }
        }
        // What it owns comes back when somebody removes it.
        secrets.delete("m3", &DeleteParams::default()).await.unwrap();
        loop {
            if let WatchEvent::Added(s) = seen.try_next().await.unwrap().unwrap()
                && s.metadata.name.as_deref() == Some("m3")
            {
                break;
            }
        }
        let s = secrets.get("m3").await.unwrap();
        assert_eq!(s.data.unwrap()["mirror"].0, b"1");
    };
    within(async {
        tokio::select! {
            () = run => panic!("the controller ended"),
            () = drive => {}
        }
    })
    .await;
}

#[tokio::test]
async fn a_reflector_mirrors_with_and_without_streaming_lists() {
    let server = server().await;
    let maps: Api<ConfigMap> = Api::namespaced(server.client(), "default");
    for i in 0..20 {
        maps.create(&PostParams::default(), &config_map(&format!("m{i:02}"), "1")).await.unwrap();
    }
    for config in [watcher::Config::default(), watcher::Config::default().streaming_lists()] {
        let (reader, writer) = reflector::store();
        let stream = reflector(writer, watcher(maps.clone(), config)).touched_objects();
        let drain = stream.for_each(|o| async { drop(o.unwrap()) });
        let drive = async {
            reader.wait_until_ready().await.unwrap();
            assert_eq!(reader.len(), 20);
            let key = reflector::ObjectRef::new("m05").within("default");
            maps.patch("m05", &PatchParams::default(), &Patch::Merge(json!({"data": {"v": "2"}})))
                .await
                .unwrap();
            while reader.get(&key).is_none_or(|m| m.data.as_ref().is_none_or(|d| d["v"] != "2")) {
                tokio::task::yield_now().await;
            }
        };
        within(async {
            tokio::select! {
                () = drain => panic!("the reflector ended"),
                () = drive => {}
            }
        })
        .await;
        maps.patch("m05", &PatchParams::default(), &Patch::Merge(json!({"data": {"v": "1"}}))).await.unwrap();
    }
}

/// Two candidates, one lease: optimistic concurrency lets exactly one win each turn.
#[tokio::test]
async fn leader_election_has_one_winner() {
    let server = server().await;
    let leases: Api<Lease> = Api::namespaced(server.client(), "default");
    let lease: Lease =
        serde_json::from_value(json!({"metadata": {"name": "leader"}, "spec": {"leaseDurationSeconds": 15}}))
            .unwrap();
    leases.create(&PostParams::default(), &lease).await.unwrap();
    for round in 0..5 {
        let current = leases.get("leader").await.unwrap();
        let claims = (0..4).map(|i| {
            let (leases, mut mine) = (leases.clone(), current.clone());
            mine.spec.as_mut().unwrap().holder_identity = Some(format!("candidate-{round}-{i}"));
            async move { leases.replace("leader", &PostParams::default(), &mine).await }
        });
        let results = futures::future::join_all(claims).await;
        assert_eq!(results.iter().filter(|r| r.is_ok()).count(), 1);
        for e in results.into_iter().filter_map(Result::err) {
            assert!(matches!(e, kube::Error::Api(ref s) if s.code == 409), "{e}");
        }
    }
}

#[tokio::test]
async fn applying_twice_gives_no_event() {
    let server = server().await;
    let client = server.client();
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), "default");
    let apply = PatchParams::apply("me");
    let config = |v: &str| {
        Patch::Apply(
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"v": v}}),
        )
    };
    let first = maps.patch("a", &apply, &config("1")).await.unwrap();
    let rv = first.metadata.resource_version.clone().unwrap();
    let mut events = maps.watch(&WatchParams::default(), &rv).await.unwrap().boxed();
    let again = maps.patch("a", &apply, &config("1")).await.unwrap();
    assert_eq!(again.metadata.resource_version, Some(rv));
    assert_eq!(again.metadata.managed_fields, first.metadata.managed_fields);
    maps.patch("a", &apply, &config("2")).await.unwrap();
    // The only event is the change: nothing came before it.
    match within(events.try_next()).await.unwrap().unwrap() {
        WatchEvent::Modified(m) => assert_eq!(m.data.unwrap()["v"], "2"),
        other => panic!("{other:?}"),
    }
}
