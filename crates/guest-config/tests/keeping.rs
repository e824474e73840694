//! Resources of the guest come to be, stay as they should be, and cost nothing when they are.

use crate::world::{NS, World, is_ours, managed_plane, openshift_apiserver, plane};
use ek_auth::User;
use guest_config::operate::{RESOURCES, WEBHOOKS};
use guest_config::probe::Answer;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams};
use serde_json::{Value, json};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_new_guest_gets_everything_and_settles() {
    let w = World::start(plane()).await;
    let running = w.operator();
    let c = w.condition("ConfigOperatorReconciliationSucceeded", "True").await;
    assert_eq!(c["reason"], "AsExpected", "{c}");
    let guest = w.guest.client();
    let infra = w.api(&guest, "config.openshift.io/v1", "Infrastructure", "").get("cluster").await.unwrap();
    assert_eq!(infra.data["status"]["apiServerURL"], "https://apiserver-demo.hc.example.com:443");
    assert_eq!(infra.data["status"]["platformStatus"]["azure"]["resourceGroupName"], "demo-demo-x7k2p");
    let slice =
        w.api(&guest, "discovery.k8s.io/v1", "EndpointSlice", "default").get("kubernetes").await.unwrap();
    assert_eq!(slice.data["endpoints"][0]["addresses"], json!(["172.20.0.1"]));
    let version = w.api(&guest, "config.openshift.io/v1", "ClusterVersion", "").get("version").await.unwrap();
    assert_eq!(version.data["spec"]["clusterID"], "5d9b2b0e-5a3c-4b0e-9a34-6d3b3f3f2a11");
    let daemons =
        w.api(&guest, "apps/v1", "DaemonSet", "kube-system").get("konnectivity-agent").await.unwrap();
    let container = &daemons.data["spec"]["template"]["spec"]["containers"][0];
    assert_eq!(container["image"], "quay.example/apiserver-network-proxy:4.19.3");
    assert!(
        container["args"]
            .as_array()
            .unwrap()
            .contains(&json!("--proxy-server-host=konnectivity-demo.hc.example.com"))
    );
    // The password's hash is one, and the password is nowhere.
    let kubeadmin = w.api(&guest, "v1", "Secret", "kube-system").get("kubeadmin").await.unwrap();
    use base64::Engine;
    let hash = base64::engine::general_purpose::STANDARD
        .decode(kubeadmin.data["data"]["kubeadmin"].as_str().unwrap())
        .unwrap();
    let hash = String::from_utf8(hash).unwrap();
    assert!(hash.starts_with("$2a$10$"), "{hash}");
    assert!(bcrypt::verify("aaaaa-bbbbb-ccccc-ddddd", &hash).unwrap());

    w.settled(&running).await;
    let sent = w.sent();
    for _ in 0..100 {
        w.again(&running, RESOURCES).await;
    }
    assert_eq!(w.sent(), sent, "a settled guest is asked for nothing");

    // Another process begins with nothing in memory, and changes nothing.
    running.stop().await;
    let before = versions(&w).await;
    let running = w.operator();
    w.settled(&running).await;
    let after = versions(&w).await;
    let changed: Vec<_> = after.iter().filter(|v| !before.contains(v)).collect();
    assert!(
        changed.is_empty() && after.len() == before.len(),
        "the same hash, the same clients, the same everything: {changed:?}"
    );
    running.stop().await;
}

/// resourceVersions of everything we keep in the guest.
async fn versions(w: &World) -> Vec<(String, Option<String>)> {
    let mut out = Vec::new();
    for (version, kind) in [
        ("v1", "Secret"),
        ("v1", "ConfigMap"),
        ("v1", "Namespace"),
        ("v1", "Endpoints"),
        ("rbac.authorization.k8s.io/v1", "ClusterRole"),
        ("admissionregistration.k8s.io/v1", "ValidatingAdmissionPolicy"),
        ("config.openshift.io/v1", "Infrastructure"),
        ("config.openshift.io/v1", "Network"),
        ("config.openshift.io/v1", "Proxy"),
        ("operator.openshift.io/v1", "IngressController"),
        ("oauth.openshift.io/v1", "OAuthClient"),
    ] {
        let all = w.api(&w.guest.client(), version, kind, "").list(&ListParams::default()).await.unwrap();
        let ours = all.items.into_iter().filter(is_ours);
        out.extend(ours.map(|o| {
            (format!("{kind} {}", o.metadata.name.unwrap_or_default()), o.metadata.resource_version)
        }));
    }
    assert!(out.len() > 50, "{out:?}");
    out
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_somebody_breaks_is_mended() {
    let w = World::start(plane()).await;
    let running = w.operator();
    w.condition("ConfigOperatorReconciliationSucceeded", "True").await;
    w.settled(&running).await;
    let guest = w.guest.client();
    let secrets = w.api(&guest, "v1", "Secret", "openshift-config");
    let clear = json!({"data": {".dockerconfigjson": "e30="}});
    secrets.patch("pull-secret", &PatchParams::default(), &Patch::Merge(&clear)).await.unwrap();
    let is_whole = |o: Option<&kube::core::DynamicObject>| {
        o.is_some_and(|o| o.data["data"][".dockerconfigjson"] != "e30=")
    };
    w.until("the pull secret", secrets, "pull-secret", is_whole).await;
    let roles = w.api(&guest, "rbac.authorization.k8s.io/v1", "ClusterRole", "");
    roles.delete("cluster-status", &DeleteParams::default()).await.unwrap();
    w.until("the role", roles, "cluster-status", |o| o.is_some()).await;

    // What policies protect is changed by nobody else, status excepted.
    let admin = w.guest.client_as(User::new("admin", &["system:masters", "system:authenticated"]));
    let networks = w.api(&admin, "config.openshift.io/v1", "Network", "");
    let change = json!({"spec": {"networkType": "Calico"}});
    let refused = networks
        .patch("cluster", &PatchParams::default(), &Patch::Merge(&change))
        .await
        .unwrap_err()
        .to_string();
    assert!(refused.contains("modify the resource in the HostedCluster object"), "{refused}");
    let refused = w
        .api(&admin, "config.openshift.io/v1", "Infrastructure", "")
        .delete("cluster", &DeleteParams::default())
        .await;
    assert!(refused.unwrap_err().to_string().contains("cannot be created, updated, or deleted"));
    let status = json!({"status": {"clusterNetworkMTU": 1400}});
    networks.patch_status("cluster", &PatchParams::default(), &Patch::Merge(&status)).await.unwrap();

    // Unless a policy is put out of the way; then both are mended.
    let bindings = w.api(&admin, "admissionregistration.k8s.io/v1", "ValidatingAdmissionPolicyBinding", "");
    let audit = json!({"spec": {"validationActions": ["Audit"]}});
    // The operator is quick: it is asked to rest, as an administrator of the management cluster can.
    let pause = |until: Value| json!({"spec": {"pausedUntil": until}});
    w.planes().patch("demo", &PatchParams::default(), &Patch::Merge(&pause(json!("true")))).await.unwrap();
    w.again(&running, RESOURCES).await;
    bindings.patch("config-binding", &PatchParams::default(), &Patch::Merge(&audit)).await.unwrap();
    networks.patch("cluster", &PatchParams::default(), &Patch::Merge(&change)).await.unwrap();
    w.planes().patch("demo", &PatchParams::default(), &Patch::Merge(&pause(Value::Null))).await.unwrap();
    let denies = |o: Option<&kube::core::DynamicObject>| {
        o.is_some_and(|o| o.data["spec"]["validationActions"].as_array().unwrap().contains(&json!("Deny")))
    };
    w.until("the binding", bindings, "config-binding", denies).await;
    let is_ovn = |o: Option<&kube::core::DynamicObject>| {
        o.is_some_and(|o| o.data["spec"]["networkType"] == "OVNKubernetes")
    };
    let network = w.until("the network", networks, "cluster", is_ovn).await.unwrap();
    assert_eq!(network.data["status"]["clusterNetworkMTU"], 1400, "what others say stays");
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn changes_outside_reach_the_guest_and_what_is_no_longer_wanted_goes() {
    let mut o = managed_plane();
    o["spec"]["configuration"]["proxy"] = Value::Null;
    o["spec"]["configuration"]["image"]["additionalTrustedCA"] = json!({"name": "image-ca"});
    let w = World::start(o).await;
    let given = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "image-ca", "namespace": NS}, "data": {"a": "OLD"}});
    w.put(&w.management.client(), given).await;
    let running = w.operator();
    w.condition("ConfigOperatorReconciliationSucceeded", "True").await;
    let guest = w.guest.client();
    assert!(
        w.api(&guest, "v1", "Secret", "kube-system").get_opt("kubeadmin").await.unwrap().is_none(),
        "logins are elsewhere"
    );
    let mirrors = w.api(&guest, "config.openshift.io/v1", "ImageDigestMirrorSet", "");
    assert!(mirrors.get_opt("cluster").await.unwrap().is_some());

    let rotated = json!({"data": {"ca.crt": "ROOT\nNEXT"}});
    let maps = w.api(&w.management.client(), "v1", "ConfigMap", NS);
    maps.patch("root-ca", &PatchParams::default(), &Patch::Merge(&rotated)).await.unwrap();
    let hooks = w.api(&guest, "admissionregistration.k8s.io/v1", "MutatingWebhookConfiguration", "");
    use base64::Engine;
    let bundle = base64::engine::general_purpose::STANDARD.encode("ROOT\nNEXT");
    let has_both = |o: Option<&kube::core::DynamicObject>| {
        o.is_some_and(|o| o.data["webhooks"][0]["clientConfig"]["caBundle"] == bundle.as_str())
    };
    w.until("both authorities", hooks, "azure-workload-identity-webhook", has_both).await;

    // One that only the configuration names.
    let renewed = json!({"data": {"a": "NEW"}});
    maps.patch("image-ca", &PatchParams::default(), &Patch::Merge(&renewed)).await.unwrap();
    let copies = w.api(&guest, "v1", "ConfigMap", "openshift-config");
    w.until("the new authority", copies, "image-ca", |o| o.is_some_and(|o| o.data["data"]["a"] == "NEW"))
        .await;

    let fewer = json!({"spec": {"imageContentSources": null, "channel": "stable-4.20"}});
    w.planes().patch("demo", &PatchParams::default(), &Patch::Merge(&fewer)).await.unwrap();
    w.until("no mirrors", mirrors, "cluster", |o| o.is_none()).await;
    let version = w.api(&guest, "config.openshift.io/v1", "ClusterVersion", "");
    w.until("the channel", version, "version", |o| {
        o.is_some_and(|o| o.data["spec"]["channel"] == "stable-4.20")
    })
    .await;
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn aggregated_apis_wait_for_a_server_that_really_serves() {
    let w = World::start(plane()).await;
    let management = w.management.client();
    let deployments = w.api(&management, "apps/v1", "Deployment", NS);
    let not_yet = json!({"status": openshift_apiserver(false)["status"]});
    deployments
        .patch_status("openshift-apiserver", &PatchParams::default(), &Patch::Merge(&not_yet))
        .await
        .unwrap();
    for service in ["openshift-apiserver", "openshift-oauth-apiserver"] {
        let spec = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": service, "namespace": NS}, "spec": {"ports": [{"port": 443}]}});
        w.put(&management, spec).await;
    }
    let running = w.operator();
    w.condition("ConfigOperatorReconciliationSucceeded", "True").await;
    let guest = w.guest.client();
    let services = w.api(&guest, "apiregistration.k8s.io/v1", "APIService", "");
    let definitions = w.of(&guest, &guest_config::kinds::DEFINITION, "");
    assert!(services.get_opt("v1.route.openshift.io").await.unwrap().is_none());
    assert!(
        definitions.get_opt("routes.route.openshift.io").await.unwrap().is_none(),
        "neither, until it is known which"
    );

    // It runs, and cannot be asked: still neither.
    *w.behind.0.lock() = Answer::Silent("timeout".into());
    let up = json!({"status": openshift_apiserver(true)["status"]});
    deployments
        .patch_status("openshift-apiserver", &PatchParams::default(), &Patch::Merge(&up))
        .await
        .unwrap();
    w.again(&running, RESOURCES).await;
    w.again(&running, RESOURCES).await;
    assert!(definitions.get_opt("routes.route.openshift.io").await.unwrap().is_none());
    *w.behind.0.lock() = Answer::Serves;
    w.again(&running, RESOURCES).await;
    w.until("the API", services, "v1.route.openshift.io", |o| o.is_some()).await;
    let at = w.api(&management, "v1", "Service", NS).get("openshift-apiserver").await.unwrap().data["spec"]["clusterIP"].clone();
    let ends = w.api(&guest, "v1", "Endpoints", "default").get("openshift-apiserver").await.unwrap();
    assert_eq!(ends.data["subsets"][0]["addresses"][0]["ip"], at);
    assert!(definitions.get_opt("routes.route.openshift.io").await.unwrap().is_none());
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn webhooks_aimed_at_the_control_plane_are_removed() {
    let w = World::start(plane()).await;
    let service = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "etcd-client", "namespace": NS}, "spec": {"ports": [{"port": 2379}]}});
    w.put(&w.management.client(), service).await;
    let running = w.operator();
    let guest = w.guest.client();
    let hook = |name: &str, kind: &str, url: &str| {
        json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": kind, "metadata": {"name": name}, "webhooks": [{
            "name": "a.example.com", "admissionReviewVersions": ["v1"], "sideEffects": "None", "clientConfig": {"url": url},
            "failurePolicy": "Ignore", "objectSelector": {"matchLabels": {"nobody": "has-this"}},
            "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}]}]})
    };
    w.put(&guest, hook("good", "ValidatingWebhookConfiguration", "https://hooks.example.com/x")).await;
    w.put(&guest, hook("bad", "ValidatingWebhookConfiguration", "https://etcd-client:2379/x")).await;
    w.put(
        &guest,
        hook("worse", "MutatingWebhookConfiguration", &format!("https://kube-apiserver.{NS}.svc:6443/x")),
    )
    .await;
    let validating = w.api(&guest, "admissionregistration.k8s.io/v1", "ValidatingWebhookConfiguration", "");
    let mutating = w.api(&guest, "admissionregistration.k8s.io/v1", "MutatingWebhookConfiguration", "");
    w.until("no such webhook", validating.clone(), "bad", |o| o.is_none()).await;
    w.until("no such webhook", mutating.clone(), "worse", |o| o.is_none()).await;
    w.again(&running, WEBHOOKS).await;
    assert!(validating.get_opt("good").await.unwrap().is_some());
    w.condition("ConfigOperatorReconciliationSucceeded", "True").await;
    assert!(mutating.get_opt("azure-workload-identity-webhook").await.unwrap().is_some(), "our own stays");
    running.stop().await;
}
