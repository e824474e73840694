//! The private ways of a control plane follow what its Services are.

use crate::running::World;
use kube::api::{DynamicObject, Patch, PatchParams};
use serde_json::{Value, json};
use std::time::Duration;

fn oauth(strategy: Value) -> impl FnOnce(&mut Value) {
    move |o| {
        let azure = &mut o["spec"]["platform"]["azure"];
        azure["topology"] = json!("PublicAndPrivate");
        azure["private"] = json!({"type": "PrivateLink", "privateLink": {"additionalAllowedSubscriptions":
            ["22222222-2222-2222-2222-222222222222"]}});
        for s in o["spec"]["services"].as_array_mut().unwrap() {
            if s["service"] == "OAuthServer" {
                s["servicePublishingStrategy"] = strategy.clone();
            }
        }
    }
}

/// An OAuth server that stops being published by a load balancer loses its private way; the router keeps its own.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_way_to_what_has_no_load_balancer_any_more_goes() {
    let w = World::start().await;
    w.create_alone(oauth(json!({"type": "LoadBalancer"}))).await;
    let links =
        w.api("hypershift.openshift.io", "v1beta1", "AzurePrivateLinkService", "azureprivatelinkservices");
    let until = async |name: &str, there: bool| {
        let so = |o: Option<&DynamicObject>| o.is_some() == there;
        let wait = kube::runtime::wait::await_condition(links.clone(), name, so);
        let waited = tokio::time::timeout(Duration::from_secs(120), wait).await;
        assert!(waited.is_ok(), "{name} is there: {there} never was so");
    };
    until("private-router", true).await;
    until("oauth-openshift", true).await;
    let router = links.get("private-router").await.unwrap().metadata.uid;
    let mut wanted = crate::facts::object();
    oauth(json!({"type": "Route", "route": {"hostname": "oauth-demo.hc.example.com"}}))(&mut wanted);
    let patch = Patch::Merge(json!({"spec": {"services": wanted["spec"]["services"]}}));
    w.planes().patch("demo", &PatchParams::default(), &patch).await.unwrap();
    until("oauth-openshift", false).await;
    assert_eq!(links.get("private-router").await.unwrap().metadata.uid, router);
    w.stop.cancel();
}
