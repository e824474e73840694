//! Made, scaled, rolled, changed in place, deleted; nothing is left.

use crate::world::{NS, World, condition};
use kube::core::DynamicObject;
use machines::kinds;
use parking_lot::Mutex;
use serde_json::json;
use std::collections::BTreeSet;
use std::sync::Arc;

fn names(all: &[DynamicObject]) -> BTreeSet<String> {
    all.iter().map(|o| o.metadata.name.clone().unwrap()).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pool_lives_and_leaves_nothing() {
    let w = World::start().await;
    let _running = w.operate();
    w.create(&kinds::DEPLOYMENT, World::pool(NS, 2)).await;
    let d = w.settled(NS, 2).await;
    assert_eq!(d.data["status"]["phase"], "Running");
    assert_eq!(d.data["status"]["v1beta2"]["upToDateReplicas"], 2);
    assert_eq!(condition(&d, "Available")["status"], "True");
    let machines = w.all(&kinds::MACHINE, NS).await;
    for m in &machines {
        let (status, name) = (&m.data["status"], m.metadata.name.as_deref().unwrap());
        assert_eq!(status["phase"], "Running", "{status}");
        assert_eq!(status["nodeRef"]["name"], name);
        assert!(m.data["spec"]["providerID"].as_str().unwrap().starts_with("azure:///subscriptions/"));
        assert_eq!(condition(m, "Ready")["status"], "True");
        let addresses = status["addresses"].as_array().unwrap();
        assert!(
            addresses
                .iter()
                .any(|a| a["type"] == "InternalIP" && a["address"].as_str().unwrap().starts_with("10.0."))
        );
        let vm = w
            .sim
            .world()
            .machine(&m.data["spec"]["providerID"].as_str().unwrap()["azure://".len()..])
            .unwrap();
        assert_eq!((vm.zone.as_deref(), vm.size.as_str()), (Some("1"), "Standard_D4s_v5"));
        assert!(vm.custom_data.is_some());
        let node = w.guest_api(&kinds::NODE, "").get(name).await.unwrap();
        assert_eq!(node.metadata.annotations.unwrap()["cluster.x-k8s.io/machine"], name);
    }
    // Scale up keeps what there is; scale down takes the one that is asked for.
    w.patch(&kinds::DEPLOYMENT, NS, "pool", json!({"spec": {"replicas": 4}})).await;
    w.settled(NS, 4).await;
    let four = names(&w.all(&kinds::MACHINE, NS).await);
    assert!(names(&machines).is_subset(&four));
    let asked = machines[0].metadata.name.clone().unwrap();
    w.patch(
        &kinds::MACHINE,
        NS,
        &asked,
        json!({"metadata": {"annotations": {"cluster.x-k8s.io/delete-machine": ""}}}),
    )
    .await;
    w.patch(&kinds::DEPLOYMENT, NS, "pool", json!({"spec": {"replicas": 3}})).await;
    w.settled(NS, 3).await;
    let three = names(&w.all(&kinds::MACHINE, NS).await);
    assert!(three.is_subset(&four) && !three.contains(&asked));
    assert!(w.guest_api(&kinds::NODE, "").get_opt(&asked).await.unwrap().is_none(), "its node went with it");

    // Labels and timeouts reach machines in place; what is taken away goes.
    let change = |v: serde_json::Value| json!({"spec": {"template": {"metadata": {"labels": v}, "spec": {"nodeDrainTimeout": "7m"}}}});
    w.patch(&kinds::DEPLOYMENT, NS, "pool", change(json!({"a": "1", "b": "2"}))).await;
    w.until(&kinds::MACHINE, NS, "the labels", |all| {
        all.iter().all(|m| {
            m.metadata.labels.as_ref().unwrap().get("b").is_some_and(|v| v == "2")
                && m.data["spec"]["nodeDrainTimeout"] == "7m"
        })
    })
    .await;
    w.patch(&kinds::DEPLOYMENT, NS, "pool", change(json!({"b": null}))).await;
    w.until(&kinds::MACHINE, NS, "one label less", |all| {
        all.iter().all(|m| {
            !m.metadata.labels.as_ref().unwrap().contains_key("b")
                && m.metadata.labels.as_ref().unwrap()["a"] == "1"
        })
    })
    .await;
    assert_eq!(names(&w.all(&kinds::MACHINE, NS).await), three, "nothing was replaced for it");

    // The whole cluster goes.
    w.api(&kinds::CLUSTER, NS).delete("demo-x", &Default::default()).await.unwrap();
    w.until(&kinds::CLUSTER, NS, "its end", |all| all.is_empty()).await;
    for kind in [kinds::DEPLOYMENT, kinds::SET, kinds::MACHINE, kinds::AZURE_MACHINE] {
        assert!(w.all(&kind, NS).await.is_empty(), "{}", kind.kind);
    }
    assert_eq!(w.leaks(), BTreeSet::new());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_roll_replaces_every_machine_within_its_bounds() {
    let w = World::start().await;
    let _running = w.operate();
    w.create(&kinds::DEPLOYMENT, World::pool(NS, 3)).await;
    w.settled(NS, 3).await;
    let before = names(&w.all(&kinds::MACHINE, NS).await);
    let journal = w.sim.world().journal().last().map_or(0, |e| e.number);
    // Somebody counts all the while, from the watch: how many machines are wanted, how many nodes are there.
    let seen: Arc<Mutex<(usize, usize)>> = Arc::new(Mutex::new((0, usize::MAX)));
    let (counts, api) = (seen.clone(), w.api(&kinds::MACHINE, NS));
    let counting = tokio::spawn(async move {
        use futures::StreamExt;
        let mut live: std::collections::BTreeMap<String, bool> = Default::default();
        let mut events = std::pin::pin!(kube::runtime::watcher(api, Default::default()));
        let mut listed = false;
        while let Some(Ok(e)) = events.next().await {
            use kube::runtime::watcher::Event;
            match e {
                Event::Apply(o) | Event::InitApply(o) => {
                    let name = o.metadata.name.clone().unwrap();
                    match o.metadata.deletion_timestamp {
                        Some(_) => live.remove(&name),
                        None => live.insert(name, condition(&o, "Ready")["status"] == "True"),
                    };
                }
                Event::Delete(o) => {
                    live.remove(o.metadata.name.as_deref().unwrap());
                }
                Event::InitDone => listed = true,
                Event::Init => {}
            }
            if listed {
                let mut c = counts.lock();
                c.0 = c.0.max(live.len());
                c.1 = c.1.min(live.values().filter(|r| **r).count());
            }
        }
    });
    w.template(NS, "t2", json!({"vmSize": "Standard_D8s_v5"})).await;
    let next = json!({"spec": {"template": {"spec": {"infrastructureRef": {"name": "t2"}}}}});
    w.patch(&kinds::DEPLOYMENT, NS, "pool", next).await;
    w.settled(NS, 3).await;
    counting.abort();
    let after = w.all(&kinds::MACHINE, NS).await;
    assert!(before.is_disjoint(&names(&after)));
    let sizes: BTreeSet<String> = w.sim.world().machines().into_iter().map(|m| m.size).collect();
    assert_eq!(sizes, BTreeSet::from(["Standard_D8s_v5".to_owned()]));
    let (most, least) = *seen.lock();
    assert!(most <= 4, "{most} machines with a surge of one");
    assert!(least >= 3, "{least} machines worked where three must");
    // O(machines): two writes to make one, three to remove one.
    let writes = w.writes(journal);
    assert!(writes.len() <= 3 * 5 + 1, "{writes:#?}");
    let sets = w.all(&kinds::SET, NS).await;
    assert_eq!(sets.len(), 2, "one to go back to");
    // And back: the old set is used again.
    let back = json!({"spec": {"template": {"spec": {"infrastructureRef": {"name": "t1"}}}}});
    w.patch(&kinds::DEPLOYMENT, NS, "pool", back).await;
    w.settled(NS, 3).await;
    assert_eq!(names(&w.all(&kinds::SET, NS).await), names(&sets));
}
