//! After a change of key, everything is written once more, and it is said that it was.

use crate::world::{World, plane};
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};

fn rotation(state: &str, to: &str) -> Value {
    json!({"status": {"secretEncryption": {"history": [{"from": {"provider": "Azure", "fingerprint": "old"},
        "to": {"provider": "Azure", "fingerprint": to}, "state": state, "startedTime": "2026-03-01T12:00:00Z"}]}}})
}

async fn lead(w: &World, state: &str, to: &str) {
    w.planes()
        .patch_status("demo", &PatchParams::default(), &Patch::Merge(&rotation(state, to)))
        .await
        .unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn phases_are_told_and_a_migration_is_done_and_noted() {
    let w = World::start(plane()).await;
    let running = w.operator();
    w.condition("ConfigOperatorReconciliationSucceeded", "True").await;
    for i in 0..30 {
        let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": format!("s{i}"), "namespace": "default"}});
        w.put(&w.guest.client(), secret).await;
    }
    lead(&w, "ReadOnlyDeploy", "new").await;
    assert_eq!(
        w.condition("EtcdDataEncryptionUpToDate", "False").await["reason"],
        "ReadOnlyRolloutInProgress"
    );
    lead(&w, "WritePromote", "new").await;
    w.until_reason("EtcdDataEncryptionUpToDate", "WritePromotionInProgress").await;
    assert!(w.noted().await.is_none());
    lead(&w, "Migrating", "new").await;
    let c = w.until_reason("EtcdDataEncryptionUpToDate", "ReEncryptionCompleted").await;
    assert_eq!(c["status"], "True");
    assert_eq!(w.noted().await.as_deref(), Some("new"));
    lead(&w, "Completed", "new").await;
    w.again(&running, guest_config::operate::REENCRYPTION).await;
    w.until_reason("EtcdDataEncryptionUpToDate", "ReEncryptionCompleted").await;

    // Another rotation is another matter, and a new process goes on with it.
    lead(&w, "ReadOnlyDeploy", "newer").await;
    w.until_reason("EtcdDataEncryptionUpToDate", "ReadOnlyRolloutInProgress").await;
    running.stop().await;
    lead(&w, "Migrating", "newer").await;
    let running = w.operator();
    w.until_reason("EtcdDataEncryptionUpToDate", "ReEncryptionCompleted").await;
    assert_eq!(w.noted().await.as_deref(), Some("newer"));
    running.stop().await;
}
