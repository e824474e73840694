//! The usual ways: to a guest by its kubeconfig, to Azure by an AzureClusterIdentity.

use crate::world::{NS, World};
use apis::capz::AzureClusterIdentity;
use azure::ops::ResourceGroups;
use azure::{ClientOptions, Cloud, Env, Http, HttpOptions};
use k8s_openapi::api::core::v1::Node;
use kube::Api;
use machines::connect::{ByIdentity, BySecret};
use machines::{Clouds, Reach, kinds};
use serde_json::{Value, json};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn guests_are_reached_by_the_secret_that_their_control_plane_makes() {
    let w = World::start().await;
    let reach = BySecret(w.server.client());
    let why = reach.guest(NS, "demo-x").await.err().unwrap().0;
    assert!(
        why.contains(&format!("Secret {NS}/demo-x-kubeconfig")) && why.contains("the control plane makes it"),
        "{why}"
    );
    let listening = w.guest.listen("127.0.0.1:0".parse().unwrap()).await.unwrap();
    let config = w.guest.kubeconfig(&format!("https://{}", listening.address)).unwrap();
    let secret = json!({"metadata": {"name": "demo-x-kubeconfig", "namespace": NS}, "stringData": {"value": config.to_string()}});
    w.create(&kinds::SECRET, secret).await;
    let guest = reach.guest(NS, "demo-x").await.unwrap();
    assert!(Api::<Node>::all(guest).list(&Default::default()).await.unwrap().items.is_empty());
    w.patch(&kinds::SECRET, NS, "demo-x-kubeconfig", json!({"stringData": {"value": "{"}})).await;
    let why = reach.guest(NS, "demo-x").await.err().unwrap().0;
    assert!(why.contains("no kubeconfig"), "{why}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn azure_is_asked_as_the_identity_says() {
    let w = World::start().await;
    let env = Env::parse(&w.sim.env());
    let http = Http::new(&HttpOptions::from_env(&env)).unwrap();
    let cloud = Cloud::from_env(&http, &env).await.unwrap();
    let options = ClientOptions { retry: ByIdentity::patience(), ..ClientOptions::default() };
    let clouds = ByIdentity { management: w.server.client(), http, cloud, options, token_file: None };
    let identity = |spec: Value| -> AzureClusterIdentity {
        let mut all = json!({"clientID": env.get("AZURE_CLIENT_ID"), "tenantID": env.get("AZURE_TENANT_ID")});
        for (k, v) in spec.as_object().unwrap() {
            all[k] = v.clone();
        }
        serde_json::from_value(
            json!({"apiVersion": "infrastructure.cluster.x-k8s.io/v1beta1", "kind": "AzureClusterIdentity",
            "metadata": {"name": "i", "namespace": NS}, "spec": all}),
        )
        .unwrap()
    };
    let principal = identity(json!({"type": "ServicePrincipal", "clientSecret": {"name": "sp"}}));
    let why = clouds.client(&principal).await.err().unwrap().0;
    assert!(why.contains(&format!("the client secret {NS}/sp is not there")), "{why}");
    let secret = json!({"metadata": {"name": "sp", "namespace": NS}, "stringData": {"clientSecret": env.get("AZURE_CLIENT_SECRET")}});
    w.create(&kinds::SECRET, secret).await;
    let client = clouds.client(&principal).await.unwrap();
    assert!(client.arm::<ResourceGroups>().find(&w.group()).await.unwrap().is_some());
    let why = clouds.client(&identity(json!({"type": "WorkloadIdentity"}))).await.err().unwrap().0;
    assert!(why.contains("AZURE_FEDERATED_TOKEN_FILE"), "{why}");
    // A file that is not there is said when it is needed, because somebody may still mount it.
    let mounted = json!({"type": "UserAssignedIdentityCredential", "userAssignedIdentityCredentialsPath": "/nowhere/creds"});
    let client = clouds.client(&identity(mounted)).await.unwrap();
    let why = client.arm::<ResourceGroups>().find(&w.group()).await.unwrap_err();
    assert!(reconcile::chain(&why).to_string().contains("/nowhere/creds"), "{}", reconcile::chain(&why));
}
