//! A region that is kept in a directory: stopped in order, killed, and started again, with a cluster that runs in it.

use crate::zaffre;
use azure::{ClientOptions, Connected, Env};
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Secret};
use kube::api::{Api, DynamicObject};
use kube::config::{KubeConfigOptions, Kubeconfig};
use serde_json::json;
use std::path::Path;
use std::time::Duration;
use world::sample::{NAMESPACE, Sample};
use world::{Flavour, Landing};

/// Long enough for a loaded machine; nothing waits for it to pass.
const DEADLINE: Duration = Duration::from_secs(300);

fn up(dir: &Path) -> testkit::Server {
    let mut c = zaffre();
    c.current_dir(dir).args(["up", "--quiet", "--listen", "127.0.0.1:0", "--data-dir", "data"]);
    c.args(["--kubeconfig-out", "kc", "--env-out", "env"]);
    testkit::Server::spawn_within(c, DEADLINE).unwrap()
}

async fn client(config: &str) -> kube::Client {
    let config = Kubeconfig::from_yaml(config).unwrap();
    let config = kube::Config::from_custom_kubeconfig(config, &KubeConfigOptions::default()).await.unwrap();
    kube::Client::try_from(config).unwrap()
}

async fn management(dir: &Path) -> kube::Client {
    client(&std::fs::read_to_string(dir.join("kc")).unwrap()).await
}

async fn available(client: &kube::Client) {
    let so = |o: Option<&DynamicObject>| {
        let all = o.into_iter().flat_map(|o| o.data["status"]["conditions"].as_array().into_iter().flatten());
        all.into_iter().any(|c| c["type"] == "Available" && c["status"] == "True")
    };
    let api = hypershift::kinds::CLUSTER.api(client, NAMESPACE);
    let wait = kube::runtime::wait::await_condition(api.clone(), "demo", so);
    if tokio::time::timeout(DEADLINE, wait).await.is_err() {
        panic!("never Available: {:#}", api.get("demo").await.unwrap().data["status"]);
    }
}

/// What a user of the guest wrote, read with the kubeconfig of then.
async fn intact(guest: &str, what: &str) {
    let maps: Api<ConfigMap> = Api::namespaced(client(guest).await, "shop");
    let read = async {
        loop {
            // Its API server is started again with the region.
            match maps.get("till").await {
                Ok(map) => break map,
                Err(_) => tokio::time::sleep(Duration::from_millis(200)).await,
            }
        }
    };
    let map = tokio::time::timeout(DEADLINE, read).await.unwrap_or_else(|_| panic!("{what}: no answer"));
    assert_eq!(map.data.unwrap()["sum"], "7", "{what}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_region_and_its_clusters_go_on_where_they_were() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let server = up(dir);
    let env = std::fs::read_to_string(dir.join("env")).unwrap();
    let env = Env::parse(&env);
    let Connected { client: azure, subscription, .. } =
        azure::connect(&env, ClientOptions::default()).await.unwrap();
    let tenant = env.get("AZURE_TENANT_ID").unwrap();
    let subscription = subscription.unwrap();
    let landing = Landing::make_in(&azure, &subscription, tenant, dir, "land", Flavour::Workload);
    let landing = landing.await.unwrap();
    let demo = Sample::of(&landing, "demo", env.get("ZAFFRE_RELEASE").unwrap());
    let kube = management(dir).await;
    demo.create_in(&kube).await.unwrap();
    available(&kube).await;

    let secrets: Api<Secret> = Api::namespaced(kube.clone(), NAMESPACE);
    let secret = secrets.get("demo-admin-kubeconfig").await.unwrap();
    let guest = String::from_utf8(secret.data.unwrap()["kubeconfig"].0.clone()).unwrap();
    let admin = client(&guest).await;
    let shop = serde_json::from_value(json!({"metadata": {"name": "shop"}})).unwrap();
    Api::<Namespace>::all(admin.clone()).create(&Default::default(), &shop).await.unwrap();
    let map = serde_json::from_value(json!({"metadata": {"name": "till"}, "data": {"sum": "7"}})).unwrap();
    Api::<ConfigMap>::namespaced(admin, "shop").create(&Default::default(), &map).await.unwrap();

    assert!(server.interrupt(Duration::from_secs(60)).unwrap().success());
    let server = up(dir);
    let kube = management(dir).await;
    intact(&guest, "after Ctrl-C").await;
    available(&kube).await;

    server.kill().unwrap();
    let server = up(dir);
    let kube = management(dir).await;
    intact(&guest, "after kill -9").await;
    available(&kube).await;
    // The operators work, too, and do not only remember: what is taken away comes back.
    let secrets: Api<Secret> = Api::namespaced(kube.clone(), NAMESPACE);
    secrets.delete("demo-admin-kubeconfig", &Default::default()).await.unwrap();
    let there = |o: Option<&Secret>| o.is_some();
    let wait = kube::runtime::wait::await_condition(secrets, "demo-admin-kubeconfig", there);
    let back = tokio::time::timeout(DEADLINE, wait).await.expect("it comes back").unwrap().unwrap();
    let back = back.data.unwrap()["kubeconfig"].0.clone();
    assert_eq!(String::from_utf8(back).unwrap(), guest, "and is the same");
    assert!(server.interrupt(Duration::from_secs(60)).unwrap().success());
}
