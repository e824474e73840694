//! A cluster that lasts: looking at it costs no write, and nothing of it is lost when the API, a node or a certificate
//! goes.

use crate::kit::{DEADLINE, Kit, POD, STATEFUL_SET, is_true};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hypershift::kinds;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kube::api::{Api, DeleteParams, DynamicObject, Patch, PatchParams};
use kube::client::Body;
use kube::config::{KubeConfigOptions, Kubeconfig};
use parking_lot::Mutex;
use pki::{Authority, Facts, Leaf, Pair};
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::sync::Arc;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use world::Flavour;
use world::sample::Sample;

/// Writes down what is not a question.
pub fn listening(client: kube::Client, writes: Arc<Mutex<Vec<String>>>) -> kube::Client {
    let service = tower::service_fn(move |request: http::Request<Body>| {
        if request.method() != http::Method::GET {
            writes.lock().push(format!("{} {}", request.method(), request.uri().path()));
        }
        let client = client.clone();
        async move { client.send(request).await.map_err(tower::BoxError::from) }
    });
    kube::Client::new(service, "default")
}

/// A settled cluster is looked at a hundred times by both operators, and nothing is written.
async fn settled(kit: &Kit, cluster: &Sample) {
    let writes: Arc<Mutex<Vec<String>>> = Arc::default();
    kit.world.replace_operators(&listening(kit.world.client(), writes.clone()));
    let (clusters, planes, metrics) = (kit.world.clusters(), kit.world.planes(), kit.world.metrics());
    let runs = |controller: &str| -> i64 {
        let text = metrics.text();
        let ours = format!("controller=\"{controller}\"");
        let lines = text
            .lines()
            .filter(|l| l.starts_with("controller_runtime_reconcile_total{") && l.contains(&ours));
        lines.filter_map(|l| l.rsplit(' ').next()?.parse::<i64>().ok()).sum()
    };
    let run = async || {
        let names = ["hosted-cluster", "hosted-control-plane"];
        let before = names.map(runs);
        clusters.poke(&format!("clusters/{}", cluster.name));
        planes.poke(&format!("{}/{}", cluster.plane(), cluster.name));
        let ran = async {
            while names.iter().zip(before).any(|(n, b)| runs(n) == b) {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(DEADLINE, ran).await.expect("both look");
    };
    // Settled is when a look writes nothing, several times in a row.
    let mut quiet = 0;
    for _ in 0..300 {
        let before = writes.lock().len();
        run().await;
        quiet = if writes.lock().len() == before { quiet + 1 } else { 0 };
        if quiet == 10 {
            break;
        }
    }
    assert_eq!(quiet, 10, "it never settles: {:#?}", writes.lock());
    writes.lock().clear();
    for _ in 0..100 {
        run().await;
    }
    assert!(writes.lock().is_empty(), "settled, and still written: {:#?}", writes.lock());
}

/// A wire that can be cut: connections end, and new ones are not taken.
struct Wire {
    address: SocketAddr,
    cut: watch::Sender<bool>,
}

impl Wire {
    async fn to(server: SocketAddr) -> Wire {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let (cut, is_cut) = watch::channel(false);
        tokio::spawn(async move {
            while let Ok((mut near, _)) = listener.accept().await {
                let mut is_cut = is_cut.clone();
                tokio::spawn(async move {
                    if *is_cut.borrow() {
                        return;
                    }
                    let mut far = TcpStream::connect(server).await.unwrap();
                    tokio::select! {
                        _ = tokio::io::copy_bidirectional(&mut near, &mut far) => {}
                        _ = is_cut.wait_for(|c| *c) => {}
                    }
                });
            }
        });
        Wire { address, cut }
    }
}

/// The management API is away for a while, and something is broken meanwhile.
async fn api_away(kit: &Kit, cluster: &Sample) {
    let server = kit.world.management();
    let listening = server.listen(([127, 0, 0, 1], 0).into()).await.unwrap();
    let wire = Wire::to(listening.address).await;
    let config = server.kubeconfig(&format!("https://{}", wire.address)).unwrap();
    let config: Kubeconfig = serde_json::from_value(config).unwrap();
    let config = kube::Config::from_custom_kubeconfig(config, &KubeConfigOptions::default()).await.unwrap();
    kit.world.replace_operators(&kube::Client::try_from(config).unwrap());
    let deployments = kit.api(&kinds::DEPLOYMENT, &cluster.plane());
    let uid = async |name: &str| deployments.get_opt(name).await.unwrap().and_then(|o| o.metadata.uid);
    // They work through it: what is taken away comes back.
    let take = async |name: &'static str| {
        let before = uid(name).await.expect("it is there");
        deployments.delete(name, &DeleteParams::background()).await.unwrap();
        before
    };
    let back = async |name: &'static str, before: String| {
        let other = |o: &DynamicObject| o.metadata.uid.as_ref() != Some(&before);
        kit.until_object(&kinds::DEPLOYMENT, cluster, name, other).await;
    };
    back("kube-scheduler", take("kube-scheduler").await).await;
    wire.cut.send_replace(true);
    let scheduler = take("kube-scheduler").await;
    let gone = |o: Option<&DynamicObject>| o.is_none();
    let wait = kube::runtime::wait::await_condition(deployments.clone(), "kube-scheduler", gone);
    tokio::time::timeout(DEADLINE, wait).await.expect("nobody can put it back").unwrap();
    // Nobody was told: whoever runs has to find out once there is an answer.
    wire.cut.send_replace(false);
    back("kube-scheduler", scheduler).await;
    kit.available(&cluster.name).await;
    kit.world.replace_operators(&kit.world.client());
}

async fn member(kit: &Kit, cluster: &Sample) -> DynamicObject {
    kit.api(&POD, &cluster.plane()).get("etcd-0").await.unwrap()
}

/// The node with the cluster's data goes, and with it everything that ran there.
async fn node_lost(kit: &Kit, cluster: &Sample) {
    let before = member(kit, cluster).await;
    let node = before.data["spec"]["nodeName"].as_str().unwrap().to_owned();
    kit.world.nodes().remove_node(ek_server::MAIN, &node).await.unwrap();
    let again = kit
        .until_object(&POD, cluster, "etcd-0", |o| {
            o.metadata.uid != before.metadata.uid && crate::kit::is_true(&o.data["status"], "Ready")
        })
        .await;
    assert_ne!(again.data["spec"]["nodeName"], node.as_str());
    kit.until_object(&STATEFUL_SET, cluster, "etcd", |o| o.data["status"]["readyReplicas"] == 1).await;
    kit.until(&cluster.name, "well again", |s| {
        crate::kit::is_true(s, "Available") && crate::kit::says(s, "Degraded", "False", &[])
    })
    .await;
}

fn text(secret: &DynamicObject, key: &str) -> String {
    let data = STANDARD.decode(secret.data["data"][key].as_str().unwrap()).unwrap();
    String::from_utf8(data).unwrap()
}

/// The certificate of the guest's API has expired while nobody looked.
async fn certificate_expired(kit: &Kit, cluster: &Sample) {
    let secrets = kit.api(&kinds::SECRET, &cluster.plane());
    let signer = secrets.get("root-ca").await.unwrap();
    let signer = Authority::from_pair(Pair::new(text(&signer, "ca.crt"), text(&signer, "ca.key"))).unwrap();
    let serving = secrets.get("kas-server-crt").await.unwrap();
    let good = Facts::of(&text(&serving, "tls.crt")).unwrap();
    let mut leaf = Leaf::server(good.common_name.clone(), good.dns.clone()).at(good.ips.clone());
    leaf.organization = good.organizations.first().cloned();
    let now = clock::system().now();
    let old = signer.issue(&leaf, now - jiff::SignedDuration::from_hours(24 * 500)).unwrap();
    assert!(old.facts().unwrap().not_after < now);
    let data = json!({"data": {"tls.crt": STANDARD.encode(&old.cert), "tls.key": STANDARD.encode(old.key.expose())}});
    secrets.patch("kas-server-crt", &PatchParams::default(), &Patch::Merge(&data)).await.unwrap();
    let fresh = kit
        .until_object(&kinds::SECRET, cluster, "kas-server-crt", |o| {
            Facts::of(&text(o, "tls.crt")).unwrap().not_after > now
        })
        .await;
    let fresh = Facts::of(&text(&fresh, "tls.crt")).unwrap();
    assert_eq!((&fresh.dns, &fresh.ips), (&good.dns, &good.ips));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_settled_lasts_and_outages_lose_nothing() {
    let kit = Kit::start(Flavour::Workload).await;
    let demo = kit.sample("demo");
    demo.create(&kit.world).await.unwrap();
    kit.available("demo").await;
    let admin = kit.admin("demo").await;
    let shop = serde_json::from_value(json!({"metadata": {"name": "shop"}})).unwrap();
    Api::<Namespace>::all(admin.clone()).create(&Default::default(), &shop).await.unwrap();
    let map: ConfigMap =
        serde_json::from_value(json!({"metadata": {"name": "till"}, "data": {"sum": "7"}})).unwrap();
    Api::<ConfigMap>::namespaced(admin, "shop").create(&Default::default(), &map).await.unwrap();
    // A connection may end with the server it led to, which is being replaced; what was written may not.
    let intact = async || {
        let maps: Api<ConfigMap> = Api::namespaced(kit.admin("demo").await, "shop");
        let read = async {
            loop {
                match maps.get("till").await {
                    Ok(map) => return map,
                    Err(kube::Error::Api(status)) if status.code < 500 => panic!("{status}"),
                    Err(_) => tokio::time::sleep(std::time::Duration::from_millis(20)).await,
                }
            }
        };
        let map = tokio::time::timeout(std::time::Duration::from_secs(30), read).await;
        assert_eq!(map.expect("the API is back").data.unwrap()["sum"], "7");
    };
    let well = |s: &Value| crate::kit::says(s, "Degraded", "False", &[]);
    kit.until("demo", "all of it", well).await;

    let begun = std::time::Instant::now();
    let done = |what: &str| eprintln!("{what}: {:?}", begun.elapsed());
    Box::pin(settled(&kit, &demo)).await;
    done("settled");
    Box::pin(api_away(&kit, &demo)).await;
    intact().await;
    done("API away");
    Box::pin(certificate_expired(&kit, &demo)).await;
    kit.until("demo", "well", |s| crate::kit::is_true(s, "Available") && well(s)).await;
    intact().await;
    done("certificate expired");
    Box::pin(node_lost(&kit, &demo)).await;
    intact().await;
    kit.world.stop().await;
}

/// A release is named where nobody answers, and the cluster says where else it is.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_release_is_read_from_the_mirrors_of_its_cluster() {
    let kit = Kit::start(Flavour::Workload).await;
    let mut sample = kit.sample("mirrored");
    let there = sample.cluster["spec"]["release"]["image"].as_str().unwrap().to_owned();
    let (mirror, digest) = there.split_once('@').unwrap();
    let named = "registry.nowhere.test/ocp/release";
    sample.cluster["spec"]["release"]["image"] = json!(format!("{named}@{digest}"));
    kit.create(&sample).await;
    kit.until("mirrored", "nobody to answer", |s| {
        !is_true(s, "ValidReleaseImage") && s["conditions"].is_array()
    })
    .await;
    let sources = json!([{"source": named, "mirrors": [mirror]}]);
    kit.patch("mirrored", json!({"spec": {"imageContentSources": sources}})).await;
    kit.available("mirrored").await;
    kit.world.stop().await;
}
