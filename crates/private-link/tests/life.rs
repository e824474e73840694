//! What is wrong is told with its cause and its way out, and what was put right goes on.

use crate::world::{World, says};
use apis::conditions::private_link as is;
use azure::ops::{PrivateEndpointConnections, PrivateLinkServices};
use private_link::kinds;
use serde_json::json;
use std::collections::BTreeSet;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn troubles_are_named_and_overcome() {
    let w = World::start().await;
    let running = w.operate();
    w.cluster("demo", None).await;
    let until = async |what: &str, kind: &str, status: &str, words: &str| {
        w.until("demo", what, |o| o.is_some_and(|o| says(o, kind, status, words))).await;
    };
    let ilb = is::INTERNAL_LOAD_BALANCER_AVAILABLE;
    until("no address", ilb, "False", "Service demo/private-router has no address yet").await;
    w.patch("demo", json!({"spec": {"loadBalancerIP": "10.1.0.99"}})).await;
    until("no balancer", ilb, "False", "has the frontend address 10.1.0.99").await;
    until("summed up", is::AVAILABLE, "False", "AzureError").await;
    w.balancer("lb", "10.1.0.77").await;
    w.patch("demo", json!({"spec": {"loadBalancerIP": "10.1.0.77"}})).await;
    w.open("demo").await;

    // The owner of the service ends the connection: another endpoint is made.
    let service = w.group("mgmt").provider("Microsoft.Network", "privateLinkServices", "pls-demo").unwrap();
    let service = w.azure.arm::<PrivateLinkServices>().get(&service).await.unwrap().properties.unwrap();
    let connection = service.private_endpoint_connections.unwrap().remove(0).id.unwrap();
    w.azure.arm::<PrivateEndpointConnections>().delete(&connection).await.unwrap();
    let more = "33333333-3333-4333-8333-333333333333";
    w.patch("demo", json!({"spec": {"additionalAllowedSubscriptions": [more]}})).await;
    until("noticed", is::PRIVATE_ENDPOINT_AVAILABLE, "False", "another is made").await;
    w.open("demo").await;
    assert_eq!(w.made("demo").await.iter().filter(|id| id.contains("privateEndpoints")).count(), 1);

    // Azure refuses to let the endpoint go: the control plane waits, and it is said why.
    let rule = json!([{"name": "no", "match": {"method": "DELETE", "type": "Microsoft.Network/privateEndpoints"},
        "then": {"answer": {"status": 403, "code": "AuthorizationFailed", "message": "not you"}}}]);
    let faults = azure_sim::read_faults(rule.to_string().as_bytes()).unwrap();
    w.sim.world().add_faults(faults).unwrap();
    w.api(&kinds::PLANE, "demo").delete("demo", &Default::default()).await.unwrap();
    until(
        "refused",
        is::PRIVATE_ENDPOINT_AVAILABLE,
        "False",
        "AuthorizationFailed: not you; give the identity",
    )
    .await;
    assert!(w.api(&kinds::PLANE, "demo").get_opt("demo").await.unwrap().is_some(), "it is held");
    w.sim.world().clear_faults();
    running.endpoints.poke("demo/private-router");
    w.end("demo").await;
    let balancer = |id: &String| !id.contains("loadBalancers");
    let left: BTreeSet<String> = w.made("demo").await.into_iter().filter(balancer).collect();
    assert_eq!(left, BTreeSet::new());
}
