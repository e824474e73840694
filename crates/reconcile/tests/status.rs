//! One status write, only for news, and never over somebody else's.

use crate::world::*;
use kube::core::DynamicObject;
use reconcile::StatusWrite;
use serde_json::{Value, json};
use std::sync::atomic::Ordering;

async fn widget(w: &World) -> DynamicObject {
    w.serve_widgets().await;
    let o = json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w", "namespace": "default"}, "spec": {"n": 1}});
    w.create(&widgets(), o).await
}

fn phase(o: &DynamicObject) -> Value {
    let mut status = o.data.get("status").cloned().unwrap_or_else(|| json!({}));
    status["phase"] = json!("Ready");
    status["was"] = o.data["spec"]["n"].clone();
    status
}

#[tokio::test]
async fn news_is_written_once() {
    let w = World::new().await;
    let (a, at) = (w.applier("us"), widgets().at("default", "w"));
    let seen = widget(&w).await;
    w.road.take();
    let StatusWrite::Written(now) = a.status(&at, &seen, phase).await.unwrap() else { panic!("news") };
    assert_eq!(now.data["status"], json!({"phase": "Ready", "was": 1}));
    assert_eq!(w.road.take().len(), 1);
    assert_eq!(a.status(&at, &now, phase).await.unwrap(), StatusWrite::Same);
    assert_eq!(w.road.take(), [""; 0]);
}

#[tokio::test]
async fn whoever_was_quicker_is_read_first() {
    let w = World::new().await;
    let (a, at) = (w.applier("us"), widgets().at("default", "w"));
    let stale = widget(&w).await;
    w.edit(&at, json!({"spec": {"n": 2}})).await;
    let theirs = kube::api::Patch::Merge(json!({"status": {"theirs": "kept"}}));
    widgets().api(&w.others, "default").patch_status("w", &Default::default(), &theirs).await.unwrap();
    w.road.take();
    let StatusWrite::Written(now) = a.status(&at, &stale, phase).await.unwrap() else { panic!("news") };
    assert_eq!(now.data["status"], json!({"theirs": "kept", "phase": "Ready", "was": 2}));
    assert_eq!(w.road.take().len(), 3, "refused, read, written");
    // Removing works, too.
    let StatusWrite::Written(now) = a.status(&at, &now, |_| json!({"phase": "Done"})).await.unwrap() else {
        panic!("news")
    };
    assert_eq!(now.data["status"], json!({"phase": "Done"}));
}

#[tokio::test]
async fn patience_ends_and_what_is_gone_is_gone() {
    let w = World::new().await;
    let (a, at) = (w.applier("us"), widgets().at("default", "w"));
    let seen = widget(&w).await;
    w.road.conflicts.store(100, Ordering::SeqCst);
    let e = a.status(&at, &seen, phase).await.unwrap_err();
    assert_eq!((e.reason(), e.is_transient()), (Some("Conflict"), true));
    assert!(e.to_string().contains("Widget default/w changed under each of 5 tries"), "{e}");
    w.road.conflicts.store(2, Ordering::SeqCst);
    assert!(matches!(a.status(&at, &seen, phase).await.unwrap(), StatusWrite::Written(_)));
    w.delete(&at).await;
    assert_eq!(a.status(&at, &seen, phase).await.unwrap(), StatusWrite::Gone);
    // Another of the same name is not told what the first was meant to hear.
    let o = json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w", "namespace": "default"}, "spec": {"n": 5}});
    w.create(&widgets(), o).await;
    assert_eq!(a.status(&at, &seen, phase).await.unwrap(), StatusWrite::Gone);
    assert!(w.get(&at).await.unwrap().data.get("status").is_none());
}

#[tokio::test]
async fn finalizers_come_and_go() {
    let w = World::new().await;
    let (a, at) = (w.applier("us"), widgets().at("default", "w"));
    let stale = widget(&w).await;
    w.edit(&at, json!({"metadata": {"finalizers": ["theirs/f"]}})).await;
    w.road.take();
    let now = a.add_finalizer(&at, &stale, "ours/f").await.unwrap().unwrap();
    assert_eq!(now.metadata.finalizers.as_deref().unwrap(), ["theirs/f", "ours/f"]);
    w.road.take();
    assert_eq!(a.add_finalizer(&at, &now, "ours/f").await.unwrap(), None);
    assert_eq!(w.road.take(), [""; 0]);
    w.delete(&at).await;
    let deleting = w.get(&at).await.unwrap();
    let now = a.remove_finalizer(&at, &deleting, "ours/f").await.unwrap().unwrap();
    assert_eq!(now.metadata.finalizers.as_deref().unwrap(), ["theirs/f"]);
    a.remove_finalizer(&at, &now, "theirs/f").await.unwrap();
    assert!(w.get(&at).await.is_none());
    assert_eq!(a.remove_finalizer(&at, &now, "theirs/f").await.unwrap(), None, "gone is gone");
}
