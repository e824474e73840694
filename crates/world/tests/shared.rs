//! What the managed service has in common for all clusters of a management cluster: one router, and sizes.

use crate::kit::{DEADLINE, Kit, POD};
use hypershift::{ingress, kinds};
use kube::api::ListParams;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::core::DynamicObject;
use std::net::SocketAddr;
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpStream};
use world::{Flavour, Options};

/// Waits until every replica of the router has a configuration with this cluster in it; says where they listen.
async fn routers(kit: &Kit, id: &str) -> Vec<[SocketAddr; 2]> {
    let rolled = |o: Option<&DynamicObject>| o.and_then(ingress::Rolled::of).is_some_and(|r| r.complete);
    let map = kit.api(&kinds::CONFIG_MAP, ingress::NAMESPACE);
    let all = async {
        loop {
            let api = kit.api(&kinds::DEPLOYMENT, ingress::NAMESPACE);
            kube::runtime::wait::await_condition(api.clone(), ingress::ROUTER, rolled).await.unwrap();
            let text = map.get(ingress::ROUTER).await.unwrap().data["data"]["haproxy.cfg"]
                .as_str()
                .unwrap()
                .to_owned();
            let now = ingress::Rolled::of(&api.get(ingress::ROUTER).await.unwrap()).unwrap();
            // Every Route has its name in it by the time the cluster is available.
            if text.contains(id) && now.complete && now.hash == ingress::hash(&text) {
                break;
            }
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(DEADLINE, all).await.expect("the router has the cluster");
    let pods =
        kit.api(&POD, ingress::NAMESPACE).list(&ListParams::default().labels("app=router")).await.unwrap();
    let at = |pod: &str, port| kit.world.nodes().resolve_pod("main", ingress::NAMESPACE, pod, port);
    let name = |p: &DynamicObject| p.metadata.name.clone().unwrap();
    pods.items.iter().filter_map(|p| Some([at(&name(p), 8443)?, at(&name(p), 6443)?])).collect()
}

async fn through(kit: &Kit, at: SocketAddr) -> kube::Client {
    let text = kit.kubeconfig("aro").await;
    let ingress = kit.world.ingress().address().to_string();
    assert!(text.contains(&ingress), "{text}");
    let config = Kubeconfig::from_yaml(&text.replace(&ingress, &at.to_string())).unwrap();
    let config = kube::Config::from_custom_kubeconfig(config, &KubeConfigOptions::default()).await.unwrap();
    kube::Client::try_from(config).unwrap()
}

/// The proxy on a node: says whose it is, and hands connections on.
async fn node(to: SocketAddr, id: &str) -> SocketAddr {
    let mut header = ek_guest::proxy::SIGNATURE.to_vec();
    header.extend([0x21, 0x11]);
    header.extend(u16::try_from(12 + 3 + id.len()).unwrap().to_be_bytes());
    header.extend([169, 254, 169, 1, 172, 20, 0, 1, 0x12, 0x34, 0x19, 0x2b, 0x20]);
    header.extend(u16::try_from(id.len()).unwrap().to_be_bytes());
    header.extend(id.as_bytes());
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((mut pod, _)) = listener.accept().await {
            let header = header.clone();
            tokio::spawn(async move {
                let mut server = TcpStream::connect(to).await?;
                server.write_all(&header).await?;
                tokio::io::copy_bidirectional(&mut pod, &mut server).await
            });
        }
    });
    address
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_managed_cluster_is_reached_through_the_shared_ingress_and_has_a_size() {
    let options = Options { sizing: true, shared_ingress: true, ..Options::default() };
    let kit = Kit::start_with(Flavour::Managed, options).await;
    let sample = kit.sample("aro").published_by_route();
    sample.create(&kit.world).await.unwrap();
    let cluster = kit.available("aro").await;
    assert_eq!(
        cluster.metadata.labels.as_ref().unwrap()["hypershift.openshift.io/hosted-cluster-size"],
        "small"
    );
    let id = cluster.data["spec"]["clusterID"].as_str().unwrap();
    let routers = routers(&kit, id).await;
    assert_eq!(routers.len(), 2);
    for [by_name, by_cluster] in routers {
        through(&kit, by_name).await.apiserver_version().await.unwrap();
        through(&kit, node(by_cluster, id).await).await.apiserver_version().await.unwrap();
        let stranger = through(&kit, node(by_cluster, "5d9b2b0e-5a3c-4b0e-9a34-6d3b3f3f2a11").await).await;
        assert!(stranger.apiserver_version().await.is_err());
    }
    kit.world.stop().await;
}
