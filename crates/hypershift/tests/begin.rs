//! From an object to a control plane and back to its status.

use crate::samples;
use crate::world::{World, condition};
use hypershift::kinds;
use kube::core::DynamicObject;
use serde_json::json;

fn there(o: Option<&DynamicObject>) -> bool {
    o.is_some()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hosted_cluster_becomes_a_control_plane() {
    let w = World::start().await.with_inputs().await;
    let _running = w.operate();
    let mut hc = samples::self_managed();
    hc["spec"].as_object_mut().unwrap().remove("infraID");
    hc["spec"].as_object_mut().unwrap().remove("clusterID");
    w.create(&kinds::CLUSTER, hc).await;

    let plane = w.until(&kinds::PLANE, "clusters-demo", "demo", "being", there).await.unwrap();
    let infra = plane.data["spec"]["infraID"].as_str().unwrap().to_owned();
    assert!(infra.starts_with("demo-"), "{infra}");
    assert_eq!(plane.data["spec"]["pullSecret"]["name"], "pull-secret");
    let space = w.api(&kinds::NAMESPACE, "").get("clusters-demo").await.unwrap();
    let uid: i64 =
        space.metadata.annotations.unwrap()["hypershift.openshift.io/default-security-context-uid"]
            .parse()
            .unwrap();
    assert!((1001..=11000).contains(&uid));
    for name in [
        "pull-secret",
        "ssh-key",
        "sa-signing-key",
        "cloud-network-config-controller-creds",
        "capi-webhooks-tls",
    ] {
        w.until(&kinds::SECRET, "clusters-demo", name, "being", there).await;
    }
    w.until(&kinds::DEPLOYMENT, "clusters-demo", "control-plane-operator", "being", there).await;
    assert!(w.api(&kinds::DEPLOYMENT, "clusters-demo").get_opt("capi-provider").await.unwrap().is_none());
    w.until(&kinds::CAPI_CLUSTER, "clusters-demo", &infra, "being", there).await;

    let before = w.condition("Available", "False").await;
    assert_eq!(before["reason"], "WaitingForAvailable");
    w.report_available().await;
    w.condition("Available", "True").await;
    w.until(&kinds::DEPLOYMENT, "clusters-demo", "capi-provider", "being", there).await;
    let config = w.until(&kinds::SECRET, "clusters", "demo-admin-kubeconfig", "being", there).await.unwrap();
    assert_eq!(config.metadata.owner_references.unwrap()[0].kind, "HostedCluster");
    let o = w
        .until(&kinds::CLUSTER, "clusters", "demo", "its secrets", |o| {
            o.is_some_and(|o| o.data["status"]["kubeadminPassword"]["name"] == "demo-kubeadmin-password")
        })
        .await
        .unwrap();
    assert_eq!(o.data["status"]["kubeconfig"]["name"], "demo-admin-kubeconfig");
    assert_eq!(o.data["status"]["controlPlaneEndpoint"], json!({"host": "20.1.2.3", "port": 7443}));
    assert_eq!(o.data["status"]["payloadArch"], "Multi");
    assert_eq!(o.data["status"]["version"]["history"][0]["state"], "Partial");
    assert_eq!(o.data["status"]["controlPlaneVersion"]["history"][0]["state"], "Completed");
    assert_eq!(condition(&o, "Progressing")["reason"], "AsExpected");
    assert_eq!(
        condition(&o, "ReconciliationSucceeded")["reason"],
        "ReconciliatonSucceeded",
        "spelled as upstream does"
    );
    assert_eq!(condition(&o, "ClusterVersionSucceeding")["status"], "True");
    let marked = |o: Option<&DynamicObject>| {
        o.and_then(|o| o.metadata.annotations.as_ref())
            .is_some_and(|a| a.contains_key("hypershift.openshift.io/HasBeenAvailable"))
    };
    w.until(&kinds::CLUSTER, "clusters", "demo", "its mark", marked).await;
}

/// Two operators share a management cluster: each keeps its own clusters, and none looks at those of the other.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn operators_share_clusters_by_their_scope() {
    let w = World::start().await.with_inputs().await;
    *w.told.shard.lock() = hypershift::operate::Shard::Scope("blue".into());
    let blue = w.operate();
    w.create(&kinds::CLUSTER, samples::self_managed()).await;
    let mut other = samples::self_managed();
    other["metadata"]["name"] = json!("other");
    other["metadata"]["annotations"]["hypershift.openshift.io/scope"] = json!("blue");
    for (service, host) in [(1, "oauth"), (2, "konnectivity"), (3, "ignition")] {
        let hostname =
            &mut other["spec"]["services"][service]["servicePublishingStrategy"]["route"]["hostname"];
        *hostname = json!(format!("{host}-other.example.com"));
    }
    w.create(&kinds::CLUSTER, other).await;
    w.until(&kinds::PLANE, "clusters-other", "other", "being", there).await;
    let demo = w.api(&kinds::CLUSTER, "clusters").get("demo").await.unwrap();
    assert!(demo.metadata.finalizers.is_none() && demo.data.get("status").is_none(), "{demo:?}");
    let page = hypershift::metrics::text(&blue.operator, clock::Clock::now(&*w.clock));
    assert!(page.contains("name=\"other\"") && !page.contains("name=\"demo\""), "{page}");

    *w.told.shard.lock() = hypershift::operate::Shard::Scope(String::new());
    let _rest = w.operate();
    w.until(&kinds::PLANE, "clusters-demo", "demo", "being", there).await;
}

/// Authorities that the management cluster trusts reach control planes, follow their original, and go with it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn trusted_authorities_are_copied_from_home() {
    let w = World::start().await.with_inputs().await;
    let _running = w.operate();
    w.create(&kinds::CLUSTER, samples::self_managed()).await;
    w.until(&kinds::PLANE, "clusters-demo", "demo", "being", there).await;
    let name = "openshift-config-managed-trusted-ca-bundle";
    let map = |text: &str| json!({"metadata": {"name": name, "namespace": "hypershift"}, "data": {"ca-bundle.crt": text}});
    w.create(&kinds::CONFIG_MAP, map("one")).await;
    for text in ["one", "two"] {
        w.patch(&kinds::CONFIG_MAP, "hypershift", name, map(text)).await;
        let copied = |o: Option<&DynamicObject>| o.is_some_and(|o| o.data["data"]["ca-bundle.crt"] == text);
        w.until(&kinds::CONFIG_MAP, "clusters-demo", name, text, copied).await;
    }
    w.api(&kinds::CONFIG_MAP, "hypershift").delete(name, &Default::default()).await.unwrap();
    w.until(&kinds::CONFIG_MAP, "clusters-demo", name, "gone", |o| o.is_none()).await;
}

/// The set of metrics that people wrote is copied where a cluster is to follow it, and what is wrong with it is said.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_set_of_metrics_is_copied_from_home() {
    let w = World::start().await.with_inputs().await;
    let _running = w.operate();
    let mut hc = samples::self_managed();
    hc["spec"]["monitoring"] = json!({"metricsSet": "SRE"});
    w.create(&kinds::CLUSTER, hc).await;
    let missing = w.condition("ReconciliationSucceeded", "False").await;
    let text = missing["message"].as_str().unwrap();
    assert!(text.contains("ConfigMap sre-metric-set beside the operator: it is not there"), "{text}");
    let map = |text: &str| json!({"metadata": {"name": "sre-metric-set", "namespace": "hypershift"}, "data": {"config": text}});
    w.create(&kinds::CONFIG_MAP, map("etcd: some")).await;
    let wrong = |o: Option<&DynamicObject>| {
        o.is_some_and(|o| {
            let said = condition(o, "ReconciliationSucceeded")["message"].to_string();
            said.contains("no map of lists of relabelings")
        })
    };
    w.until(&kinds::CLUSTER, "clusters", "demo", "what is wrong with it", wrong).await;
    w.patch(&kinds::CONFIG_MAP, "hypershift", "sre-metric-set", map("etcd: []")).await;
    w.condition("ReconciliationSucceeded", "True").await;
    let copied = |o: Option<&DynamicObject>| o.is_some_and(|o| o.data["data"]["config"] == "etcd: []");
    w.until(&kinds::CONFIG_MAP, "clusters-demo", "sre-metric-set", "the copy", copied).await;
    // Who wants another set has no copy.
    let all = json!({"spec": {"monitoring": {"metricsSet": "All"}}});
    w.patch(&kinds::CLUSTER, "clusters", "demo", all).await;
    w.until(&kinds::CONFIG_MAP, "clusters-demo", "sre-metric-set", "its end", |o| o.is_none()).await;
}

/// A control plane may go ahead of its cluster, as far as it likes; what the cluster is stays valid.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_control_plane_goes_ahead_by_a_release_of_its_own() {
    let w = World::start().await.with_inputs().await;
    let _running = w.operate();
    w.create(&kinds::CLUSTER, samples::self_managed()).await;
    w.report_available().await;
    w.condition("Available", "True").await;
    let image = |v: &str| format!("quay.example/ocp-release:{v}");
    let own = json!({"spec": {"controlPlaneRelease": {"image": image("4.20.1")}}});
    w.patch(&kinds::CLUSTER, "clusters", "demo", own).await;
    let ahead = |o: Option<&DynamicObject>| {
        o.is_some_and(|o| o.data["spec"]["controlPlaneReleaseImage"] == image("4.20.1"))
    };
    let plane = w.until(&kinds::PLANE, "clusters-demo", "demo", "its release", ahead).await.unwrap();
    assert_eq!(plane.data["spec"]["releaseImage"], image("4.19.3"));
    w.condition("Progressing", "True").await;
    let mut status = crate::world::available("4.20.1");
    status["versionStatus"] = json!({"desired": {"image": image("4.19.3"), "version": "4.19.3"},
        "observedGeneration": 1, "availableUpdates": [], "history": [{"state": "Completed", "verified": false,
            "startedTime": "2026-03-01T00:00:00Z", "completionTime": "2026-03-01T00:01:00Z",
            "version": "4.19.3", "image": image("4.19.3")}]});
    w.report(status).await;
    w.condition("Progressing", "False").await;
    let o = w.api(&kinds::CLUSTER, "clusters").get("demo").await.unwrap();
    assert_eq!(
        condition(&o, "ValidReleaseImage")["status"],
        "True",
        "{}",
        condition(&o, "ValidReleaseImage")
    );
    // What went ahead does not go back.
    let back = json!({"spec": {"controlPlaneRelease": {"image": image("4.18.9")}}});
    w.patch(&kinds::CLUSTER, "clusters", "demo", back).await;
    let c = w.condition("ValidReleaseImage", "False").await;
    assert!(c["message"].as_str().unwrap().starts_with("spec.controlPlaneRelease.image"), "{c}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_further_name_of_the_api_has_a_kubeconfig_as_long_as_it_is_wanted() {
    let w = World::start().await.with_inputs().await;
    let _running = w.operate();
    w.create(&kinds::CLUSTER, samples::self_managed()).await;
    w.report_available().await;
    let secret = json!({"metadata": {"name": "custom-admin-kubeconfig", "namespace": "clusters-demo",
        "labels": {"hypershift.openshift.io/hosted-control-plane": "clusters-demo"}},
        "stringData": {"kubeconfig": "custom"}});
    w.create(&kinds::SECRET, secret).await;
    for wanted in [true, false] {
        let named = json!({"name": "custom-admin-kubeconfig", "key": "kubeconfig"});
        w.report(json!({"customKubeconfig": if wanted { named } else { serde_json::Value::Null }})).await;
        let copy = "demo-custom-admin-kubeconfig";
        w.until(&kinds::SECRET, "clusters", copy, "its turn", |o| o.is_some() == wanted).await;
        let said = |o: Option<&DynamicObject>| {
            o.is_some_and(|o| o.data["status"]["customKubeconfig"]["name"].is_string() == wanted)
        };
        w.until(&kinds::CLUSTER, "clusters", "demo", "the name", said).await;
    }
}
