//! Exactly ours is removed, and only when meant.

use crate::world::*;
use reconcile::{Owner, Prune, Watch};
use serde_json::{Value, json};

fn owner(of: &str) -> Owner {
    Owner::label("example.com/owned", "yes").annotation("example.com/owner", of)
}

fn ours(name: &str, of: &str) -> Value {
    let mut m = map(name, json!({}));
    owner(of).stamp(&mut m);
    m
}

#[tokio::test]
async fn exactly_ours_is_removed() {
    let w = World::new().await;
    let _following = w.follow(vec![Watch::whole(&w.client, &MAPS), Watch::whole(&w.client, &SECRETS)]).await;
    let a = w.applier("us");
    for m in [ours("kept", "ns/a"), ours("old", "ns/a"), ours("other", "ns/b"), map("foreign", json!({}))] {
        w.create(&MAPS, m).await;
    }
    let mut elsewhere = ours("old", "ns/a");
    elsewhere["metadata"]["namespace"] = json!("kube-system");
    w.create(&MAPS, elsewhere).await;
    let keep = [MAPS.at("default", "kept")];
    let prune = Prune::new(owner("ns/a"), "default", [MAPS, SECRETS]);
    let report = a.prune(&prune, &keep).await.unwrap();
    assert_eq!(
        report.results.iter().map(|(at, _)| at.to_string()).collect::<Vec<_>>(),
        ["ConfigMap default/old"]
    );
    for (ns, name, there) in [
        ("default", "kept", true),
        ("default", "old", false),
        ("default", "other", true),
        ("default", "foreign", true),
        ("kube-system", "old", true),
    ] {
        assert_eq!(w.get(&MAPS.at(ns, name)).await.is_some(), there, "{ns}/{name}");
    }
    // The same again asks nothing; something else desired asks again.
    w.road.take();
    assert!(a.prune(&prune, &keep).await.unwrap().results.is_empty());
    assert_eq!(w.road.take(), [""; 0]);
    let more = [MAPS.at("default", "kept"), MAPS.at("default", "another")];
    a.prune(&prune, &more).await.unwrap();
    assert_eq!(w.road.take().len(), 2, "one list per kind");
}

#[tokio::test]
async fn much_has_to_be_meant() {
    let w = World::new().await;
    let a = w.applier("us");
    for i in 0..5 {
        w.create(&MAPS, ours(&format!("m{i}"), "ns/a")).await;
    }
    let prune = Prune::new(owner("ns/a"), "default", [MAPS]);
    let say = |e: reconcile::ApplyError| e.to_string();
    assert!(say(a.prune(&prune, []).await.unwrap_err()).contains("say Prune::all"));
    let keep = [MAPS.at("default", "x")];
    let few = prune.clone().at_most(4);
    assert!(
        say(a.prune(&few, &keep).await.unwrap_err())
            .contains("5 objects of example.com/owned=yes, more than 4")
    );
    let unmarked = Prune::new(Owner::label("", ""), "default", [MAPS]);
    assert!(say(a.prune(&unmarked, &keep).await.unwrap_err()).contains("a label and a value are needed"));
    assert!(w.get(&MAPS.at("default", "m0")).await.is_some(), "nothing was touched");
    assert_eq!(a.prune(&prune.all(), []).await.unwrap().results.len(), 5);
}
