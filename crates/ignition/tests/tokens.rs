//! Tokens: who is given a payload, when they change, and what is said of it.

use crate::stage::{MACHINE_CONFIG, Stage, at, file, marked, rendered, text};
use ignition::names::annotation;
use ignition::{data, metrics};
use jiff::SignedDuration;
use serde_json::json;

#[tokio::test]
async fn a_machine_is_given_its_payload_and_that_is_written_down() {
    let stage = Stage::start(rendered()).await;
    stage.furnish().await;
    assert_eq!(stage.get("/healthz", None).await.0, 200);
    for (path, auth, code) in [
        ("/ignition", None, 401),
        ("/ignition", Some("Bearer ???"), 401),
        ("/ignition", Some("Basic dDE="), 401),
        ("/ignition", Some("Bearer dDE="), 511),
        ("/ignition/x", Some("Bearer dDE="), 404),
        ("/", None, 404),
    ] {
        assert_eq!(stage.get(path, auth).await.0, code, "{path} {auth:?}");
    }
    stage.token("token-workers-1a2b3c4d", "t1", json!({})).await;
    let made = stage.until("token-workers-1a2b3c4d", |s| text(s, "reason") == "AsExpected").await;
    assert_eq!(text(made.as_ref(), "message"), "Payload generated successfully");
    assert_eq!(
        (text(made.as_ref(), "payload").as_str(), marked(made.as_ref(), annotation::REACHED)),
        ("", None)
    );

    let (code, payload) = stage.fetch("t1").await;
    assert_eq!((code, payload["ignition"]["version"].as_str()), (200, Some("3.2.0")));
    assert_eq!(file(&payload, "/etc/mine").as_deref(), Some("hello"), "the user's own file");
    assert_eq!(file(&payload, "/etc/kubernetes/kubeconfig").as_deref(), Some("apiVersion: v1"));
    assert_eq!(file(&payload, "/var/lib/kubelet/config.json").as_deref(), Some("{}"));
    assert_eq!(file(&payload, "/etc/kubernetes/cloud.conf").as_deref(), Some("{\"cloud\": \"x\"}"));
    let kubelet = file(&payload, "/etc/kubernetes/kubelet.conf").unwrap();
    assert!(kubelet.contains("172.31.0.10") && kubelet.contains("\"Quick\":true"), "{kubelet}");
    assert!(file(&payload, "/etc/kubernetes/node-release.json").unwrap().contains("1.32.5"));
    let about = file(&payload, "/etc/machine-config-daemon/node-annotations.json").unwrap();
    assert!(about.contains("\"machineconfiguration.openshift.io/currentConfig\":\"1a2b3c4d\""), "{about}");
    let proxy = file(&payload, "/etc/kubernetes/apiserver-proxy-config/haproxy.cfg").unwrap();
    assert!(proxy.contains("bind 172.20.0.1:6443") && proxy.contains("api.example:7443"), "{proxy}");
    let units: Vec<_> =
        payload["systemd"]["units"].as_array().unwrap().iter().map(|u| u["name"].clone()).collect();
    assert_eq!(units, ["apiserver-ip.service", "kubelet.service", "mine.service"]);
    assert_eq!(payload["passwd"]["users"][0]["sshAuthorizedKeys"][0], "ssh-ed25519 AAAA me");

    stage
        .until("token-workers-1a2b3c4d", |s| marked(s, annotation::REACHED).as_deref() == Some("True"))
        .await;
    assert_eq!(stage.metrics.value(&metrics::REQUESTS, &["clusters/workers", "200"]), 1);
    assert_eq!(stage.metrics.value(&metrics::REQUESTS, &["", "511"]), 1);
    assert_eq!(stage.metrics.value(&metrics::MISSES, &[]), 1);
    // By the name that dashboards look for.
    let page = stage.metrics.text();
    let lines: Vec<&str> = page.lines().filter(|l| l.contains("ign_server_get_request")).collect();
    let line = "ign_server_get_request{nodePool=\"clusters/workers\",code=\"200\"} 1";
    assert!(lines.contains(&"# TYPE ign_server_get_request counter") && lines.contains(&line), "{lines:?}");
}

#[tokio::test]
async fn tokens_are_rotated_and_the_old_one_is_good_for_as_long_again() {
    let stage = Stage::start(rendered()).await;
    stage.furnish().await;
    let name = "token-workers-1a2b3c4d";
    stage.token(name, "t1", json!({})).await;
    stage.until(name, |s| text(s, "reason") == "AsExpected").await;
    stage.clock.advance(SignedDuration::from_mins(331));
    // Time alone does not wake a manual clock's sleepers: somebody touches the Secret.
    stage.patch("secret", name, json!({"metadata": {"labels": {"touched": "1"}}})).await;
    let rotated = stage.until(name, |s| text(s, "old_token") == "t1").await;
    let second = text(rotated.as_ref(), "token");
    assert_eq!(second.len(), 36, "a UUID");
    assert_eq!(
        marked(rotated.as_ref(), annotation::GENERATED).map(|t| at(&t)),
        Some(at("2026-01-01T05:31:00Z"))
    );
    for token in ["t1", &second] {
        eventually(&stage, token, 200).await;
    }
    assert_eq!(stage.metrics.value(&metrics::ROTATIONS, &[]), 1);
    assert_eq!(stage.metrics.value(&metrics::MISSES, &[]), 1, "a rotation makes no payload anew");

    stage.clock.advance(SignedDuration::from_mins(331));
    assert_eq!(stage.fetch("t1").await.0, 511, "its time is over, whoever has noticed");
    stage.patch("secret", name, json!({"metadata": {"labels": {"touched": "2"}}})).await;
    stage.until(name, |s| text(s, "old_token") == second).await;
    eventually(&stage, &second, 200).await;

    // The NodePool moved on.
    let soon = json!({"metadata": {"annotations": {annotation::EXPIRES: "2026-01-01T13:00:00Z"}}});
    stage.patch("secret", name, soon).await;
    eventually(&stage, &second, 200).await;
    stage.clock.advance(SignedDuration::from_hours(2));
    assert_eq!(stage.fetch(&second).await.0, 511);
    stage.patch("secret", name, json!({"metadata": {"labels": {"touched": "3"}}})).await;
    stage.until(name, |s| s.is_none()).await;
    assert_eq!(stage.metrics.value(&metrics::EXPIRED, &[]), 1);
}

/// The index follows the Secret a moment later.
async fn eventually(stage: &Stage, token: &str, code: u16) {
    let asking = async {
        while stage.fetch(token).await.0 != code {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(std::time::Duration::from_secs(30), asking).await.unwrap();
}

#[tokio::test]
async fn what_does_not_fit_together_is_said_and_waits_for_what_changes() {
    let stage = Stage::start(rendered()).await;
    let name = "token-workers-00000001";
    stage.furnish().await;
    let of = |hash: &str| json!({"stringData": {"cloud-config-hash": hash}});
    stage.token(name, "t1", of(&data::hash("new"))).await;
    let said = stage.until(name, |s| text(s, "reason") == "CloudConfigPending").await;
    assert!(text(said.as_ref(), "message").contains("azure-cloud-config"));
    assert_eq!(stage.fetch("t1").await.0, 511);
    stage.patch("map", "azure-cloud-config", json!({"data": {"cloud.conf": "new"}})).await;
    stage.until(name, |s| text(s, "reason") == "AsExpected").await;
    let (_, payload) = stage.fetch("t1").await;
    assert_eq!(file(&payload, "/etc/kubernetes/cloud.conf").as_deref(), Some("new"));

    for (config, word) in [
        ("kind: Deployment\nmetadata: {name: x}", "Deployment"),
        ("kind: MachineConfig\nmetadata: {name: old}\nspec: {config: {ignition: {version: 2.2.0}}}", "2.2.0"),
    ] {
        let patch = json!({"stringData": {"config": data::pack(config.as_bytes())}});
        stage.patch("secret", name, patch).await;
        let said = stage.until(name, |s| text(s, "message").contains(word)).await;
        assert_eq!(text(said.as_ref(), "reason"), "InvalidConfig");
        assert_eq!(stage.fetch("t1").await.0, 511, "no payload is better than an old one");
    }
    stage.patch("secret", name, json!({"stringData": {"release": "registry.example/none"}})).await;
    stage
        .patch("secret", name, json!({"stringData": {"config": data::pack(MACHINE_CONFIG.as_bytes())}}))
        .await;
    let said = stage.until(name, |s| text(s, "reason") == "ReleaseUnreadable").await;
    assert!(text(said.as_ref(), "message").contains("registry.example/none"));
}

#[tokio::test]
async fn nodes_that_stay_get_their_payload_through_the_secret() {
    let stage = Stage::start(rendered()).await;
    stage.furnish().await;
    let name = "token-workers-00000002";
    stage
        .token(name, "t1", json!({"metadata": {"annotations": {annotation::UPGRADE_TYPE: "InPlace"}}}))
        .await;
    let made = stage.until(name, |s| !text(s, "payload").is_empty()).await;
    let payload = data::unpack(text(made.as_ref(), "payload").as_bytes()).unwrap();
    let payload: serde_json::Value = serde_json::from_str(&payload).unwrap();
    assert_eq!(file(&payload, "/etc/mine").as_deref(), Some("hello"));
    // A new authority reaches them without anybody asking.
    stage.patch("map", "root-ca", json!({"data": {"ca.crt": "OTHER"}})).await;
    let had = text(made.as_ref(), "payload");
    let again = stage.until(name, |s| !text(s, "payload").is_empty() && text(s, "payload") != had).await;
    let payload = data::unpack(text(again.as_ref(), "payload").as_bytes()).unwrap();
    assert_eq!(
        file(&serde_json::from_str(&payload).unwrap(), "/etc/kubernetes/ca.crt").as_deref(),
        Some("OTHER")
    );
}
