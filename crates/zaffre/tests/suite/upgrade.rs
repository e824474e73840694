//! Two management clusters of one Azure, each with a cluster that has nodes; what `zaffre upgrade` refuses, and where it
//! looks for releases; and regions that take as long as real ones, or have a bad day.

use crate::zaffre;
use azure::oci::{Platform, Reference};
use hypershift::kinds;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{Node, Secret};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube::api::{Api, DynamicObject, ListParams, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use serde_json::{Value, json};
use std::io::{Read, Write};
use std::net::TcpListener;
use std::path::Path;
use std::time::Duration;
use world::sample::{NAMESPACE, Sample};
use world::{Flavour, Landing, Options, World};

/// Long enough for a loaded machine; nothing waits for it to pass.
const DEADLINE: Duration = Duration::from_secs(300);
const FAMILY: &str = "standardDSv5Family";

/// A pool that is older than its cluster.
fn pool(cluster: &str, release: &str, landing: &Landing) -> Value {
    json!({"apiVersion": "hypershift.openshift.io/v1beta1", "kind": "NodePool",
        "metadata": {"name": cluster, "namespace": NAMESPACE}, "spec": {
            "clusterName": cluster, "replicas": 1, "release": {"image": release},
            "management": {"upgradeType": "Replace", "autoRepair": false},
            "platform": {"type": "Azure", "azure": {"vmSize": "Standard_D4s_v5", "availabilityZone": "1",
                "image": {"type": "AzureMarketplace", "azureMarketplace": {
                    "publisher": "azureopenshift", "offer": "aro4", "sku": "419-v2", "version": "419.6.20250523"}},
                "osDisk": {"sizeGiB": 120, "diskStorageAccountType": "Premium_LRS"},
                "subnetID": landing.layout.subnet}}}})
}

async fn until<K>(api: Api<K>, name: &str, what: &str, so: impl Fn(&K) -> bool) -> K
where
    K: Clone + std::fmt::Debug + Send + serde::de::DeserializeOwned + 'static,
    K: kube::Resource,
{
    let seen = |o: Option<&K>| o.is_some_and(&so);
    let wait = kube::runtime::wait::await_condition(api.clone(), name, seen);
    match tokio::time::timeout(DEADLINE, wait).await {
        Ok(found) => found.unwrap().unwrap(),
        Err(_) => panic!("{name}: never {what}: {:#?}", api.get_opt(name).await.unwrap()),
    }
}

/// A cluster with a node, in one of the management clusters; its administrator.
async fn with_nodes(world: &World, landing: &Landing, name: &str) -> kube::Client {
    let cloud = world.cloud();
    let sample = Sample::new(world, landing, name, "4.20.1").unwrap();
    sample.create(world).await.unwrap();
    let pool = serde_json::from_value(pool(name, cloud.release("4.19.4").unwrap(), landing)).unwrap();
    kinds::POOL.api(&world.client(), NAMESPACE).create(&Default::default(), &pool).await.unwrap();
    let healthy = |o: &DynamicObject| {
        let all = o.data["status"]["conditions"].as_array().into_iter().flatten();
        let good = all.into_iter().filter(|c| c["status"] == "True");
        good.filter(|c| c["type"] == "Ready" || c["type"] == "AllNodesHealthy").count() == 2
    };
    until(kinds::POOL.api(&world.client(), NAMESPACE), name, "nodes", healthy).await;
    // Nodes may be there before the last component has reported; upgrades are judged by those, too.
    let complete = |o: &DynamicObject| {
        let all = o.data["status"]["conditions"].as_array().into_iter().flatten();
        let available = all.into_iter().any(|c| c["type"] == "Available" && c["status"] == "True");
        available && o.data["status"]["controlPlaneVersion"]["history"][0]["state"] == "Completed"
    };
    until(kinds::CLUSTER.api(&world.client(), NAMESPACE), name, "complete", complete).await;
    let secrets: Api<Secret> = Api::namespaced(world.client(), NAMESPACE);
    let secret = secrets.get(&format!("{name}-admin-kubeconfig")).await.unwrap();
    let text = String::from_utf8(secret.data.unwrap()["kubeconfig"].0.clone()).unwrap();
    let config = Kubeconfig::from_yaml(&world.reachable(&text).unwrap()).unwrap();
    let config = kube::Config::from_custom_kubeconfig(config, &KubeConfigOptions::default()).await.unwrap();
    kube::Client::try_from(config).unwrap()
}

/// Who stands at a terminal of the first management cluster.
struct Desk<'a> {
    dir: &'a Path,
    env: Vec<(String, String)>,
}

impl Desk<'_> {
    async fn exits(&self, code: i32, line: &str) -> String {
        let mut c = zaffre();
        c.current_dir(self.dir).args(line.split_whitespace()).envs(self.env.iter().cloned());
        let out = tokio::task::spawn_blocking(move || c.output().unwrap()).await.unwrap();
        let said = String::from_utf8_lossy(&out.stdout).into_owned() + &String::from_utf8_lossy(&out.stderr);
        assert_eq!(out.status.code(), Some(code), "{line}: {said}");
        said
    }
}

/// A release controller that knows one stream; where it is.
fn controller(tags: Value) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let at = format!("http://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { return };
            let mut head = [0; 4096];
            let read = stream.read(&mut head).unwrap_or(0);
            let head = String::from_utf8_lossy(&head[..read]).into_owned();
            let (status, body) = match head.starts_with("GET /api/v1/releasestream/4-stable-multi/tags ") {
                true => ("200 OK", tags.to_string()),
                false => ("404 Not Found", "{}".to_owned()),
            };
            let answer = format!(
                "HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
                body.len()
            );
            let _ = stream.write_all(answer.as_bytes());
        }
    });
    at
}

/// A stream is asked for over HTTP; the newest that is accepted and supported is taken.
async fn streams(desk: &Desk<'_>, world: &World) {
    let cloud = world.cloud();
    let tag = |name: &str, phase: &str, image: &str| json!({"name": name, "phase": phase, "pullSpec": image});
    let next = cloud.release("4.21.0").unwrap();
    let at = controller(json!({"name": "4-stable-multi", "tags": [
        tag("4.21.9", "Rejected", "quay.example/bad"), tag("4.22.0-rc.1", "Accepted", "quay.example/candidate"),
        tag("4.21.0", "Accepted", next), tag("4.20.1", "Accepted", cloud.release("4.20.1").unwrap())]}));
    let up = format!("upgrade cluster land --dry-run --release-source {at}");
    let said = desk.exits(2, &format!("{up} --release-stream 4-stable-multi")).await;
    assert!(said.contains("4.21.0"), "{said}");
    let said = desk.exits(1, &format!("{up} --release-stream 4-nightly-multi")).await;
    assert!(said.contains("404") && said.contains("is there such a stream?"), "{said}");
    let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let line = format!(
        "upgrade cluster land --dry-run --release-source http://{closed} --release-stream 4-stable-multi"
    );
    let said = desk.exits(1, &line).await;
    assert!(
        said.contains("cannot look for the newest release") && said.contains("--release-image"),
        "{said}"
    );
}

/// Releases that do not fit: one architecture for a cluster of another, nodes that are newer than their cluster.
async fn misfits(desk: &Desk<'_>, world: &World) {
    let release = |version: &str| world.cloud().release(version).unwrap().to_owned();
    crate::road::inputs(desk.dir);
    let line = "create cluster azure --name arm --infra-json infra.json --pull-secret pull.json --azure-creds creds.json --arch arm64";
    // Releases of this world are for several; one of the images behind it is not.
    let all: Reference = release("4.20.1").parse().unwrap();
    let (one, _) = world.cloud().images.image(&all, &Platform::linux("amd64")).await.unwrap();
    let said = desk.exits(2, &format!("{line} --release-image {}", all.with_digest(&one))).await;
    for words in ["--arch \"arm64\"", "nodes are amd64", "for one architecture only: use --arch amd64"] {
        assert!(said.contains(words), "{words}: {said}");
    }
    let line = "create nodepool azure --cluster-name land --name odd --render --release-image";
    let said = desk.exits(2, &format!("{line} {}", release("4.21.0"))).await;
    assert!(
        said.contains("--release-image \"4.21.0\"")
            && said.contains("newer than land, which has completed 4.20.1"),
        "{said}"
    );
    let said = desk.exits(0, &format!("{line} {}", release("4.19.4"))).await;
    assert!(said.contains("kind: NodePool"), "{said}");
}

/// A budget that lets no pod go, and a quota without room for one more node: nothing is changed, and the way out is said.
async fn refusals(desk: &Desk<'_>, world: &World, guest: &kube::Client) {
    let up = "upgrade nodepool land --to 4.20.1";
    let web = json!({"metadata": {"name": "web"}, "spec": {"replicas": 1, "selector": {"matchLabels": {"app": "web"}},
        "template": {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "c", "image": "web"}]}}}});
    let web = serde_json::from_value::<Deployment>(web).unwrap();
    let deployments: Api<Deployment> = Api::namespaced(guest.clone(), "default");
    deployments.create(&PostParams::default(), &web).await.unwrap();
    let budget = json!({"metadata": {"name": "web"}, "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "web"}}}});
    let budgets: Api<PodDisruptionBudget> = Api::namespaced(guest.clone(), "default");
    budgets.create(&PostParams::default(), &serde_json::from_value(budget).unwrap()).await.unwrap();
    let counted = |b: &PodDisruptionBudget| {
        b.status.as_ref().is_some_and(|s| s.expected_pods == 1 && s.current_healthy == 1)
    };
    until(budgets.clone(), "web", "counted", counted).await;
    let said = desk.exits(1, up).await;
    for words in ["PodDisruptionBudget default/web", "nothing was changed", "nodeDrainTimeout"] {
        assert!(said.contains(words), "{words}: {said}");
    }
    budgets.delete("web", &Default::default()).await.unwrap();

    let sim = world.cloud().sim.world();
    let used = 4 * u64::try_from(sim.machines().len()).unwrap();
    sim.set_quota(sim.subscription(), "westus2", FAMILY, used).unwrap();
    let said = desk.exits(1, up).await;
    for words in ["needs 4 processors, and 0 of the quota are left", "nothing was changed", "maxSurge 0"] {
        assert!(said.contains(words), "{words}: {said}");
    }
    let pools = kinds::POOL.api(&world.client(), NAMESPACE);
    let release = pools.get("land").await.unwrap().data["spec"]["release"]["image"].clone();
    assert_eq!(release, world.cloud().release("4.19.4").unwrap(), "nothing was changed");
    sim.set_quota(sim.subscription(), "westus2", FAMILY, used + 4).unwrap();
    desk.exits(2, &format!("{up} --dry-run")).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_management_clusters_with_nodes_and_what_upgrades_refuse() {
    let dir = tempfile::tempdir().unwrap();
    let first = World::start(Options::default()).await.unwrap();
    let second = first.beside(Options::default()).await.unwrap();
    let made =
        async |name: &str| Landing::make(first.cloud(), dir.path(), name, Flavour::Workload).await.unwrap();
    let (land, next) = (made("land").await, made("next").await);
    let (here, there) = tokio::join!(
        Box::pin(with_nodes(&first, &land, "land")),
        Box::pin(with_nodes(&second, &next, "next"))
    );
    for (guest, name) in [(&here, "land"), (&there, "next")] {
        let nodes = Api::<Node>::all(guest.clone()).list(&ListParams::default()).await.unwrap().items;
        let names: Vec<_> = nodes.iter().filter_map(|n| n.metadata.name.clone()).collect();
        assert!(names.len() == 1 && names[0].starts_with(name), "nodes of {name}: {names:?}");
    }
    let listening = first.management().listen("127.0.0.1:0".parse().unwrap()).await.unwrap();
    let config = first.management().kubeconfig(&format!("https://{}", listening.address)).unwrap();
    std::fs::write(dir.path().join("kc"), config.to_string()).unwrap();
    let pair = |l: &str| {
        let (name, value) = l.strip_prefix("export ")?.split_once('=')?;
        Some((name.to_owned(), value.trim_matches('\'').to_owned()))
    };
    let mut env: Vec<_> = first.cloud().sim.env().lines().filter_map(pair).collect();
    env.push(("KUBECONFIG".into(), dir.path().join("kc").display().to_string()));
    let desk = Desk { dir: dir.path(), env };
    Box::pin(streams(&desk, &first)).await;
    Box::pin(misfits(&desk, &first)).await;
    Box::pin(refusals(&desk, &first, &here)).await;
    listening.drain().await;
    second.stop().await;
    first.stop().await;
}

#[test]
fn regions_that_take_their_time_or_have_a_bad_day_start_and_serve() {
    for profile in ["real", "bad-day"] {
        let dir = tempfile::tempdir().unwrap();
        let mut c = zaffre();
        c.current_dir(dir.path()).args(["up", "--quiet", "--listen", "127.0.0.1:0", "--profile", profile]);
        c.args(["--kubeconfig-out", "kc", "--env-out", "env"]);
        let begun = std::time::Instant::now();
        let server = testkit::Server::spawn_within(c, DEADLINE).unwrap();
        eprintln!("{profile}: {:?}", begun.elapsed());
        let out = zaffre()
            .current_dir(dir.path())
            .env("KUBECONFIG", dir.path().join("kc"))
            .args(["status"])
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&out.stdout).into_owned() + &String::from_utf8_lossy(&out.stderr);
        assert!(out.status.success(), "{profile}: {said}");
        assert!(std::fs::read_to_string(dir.path().join("env")).unwrap().contains("ZAFFRE_RELEASE="));
        assert!(server.interrupt(Duration::from_secs(60)).unwrap().success(), "{profile}");
    }
}
