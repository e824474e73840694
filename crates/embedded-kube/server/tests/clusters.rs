//! Many clusters in one host.

use crate::api::*;
use ek_server::{ClusterConfig, Host, HostConfig, Storage};
use futures::StreamExt;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kube::api::{Api as Kube, ListParams, PostParams, WatchParams};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use std::sync::Arc;

fn map(name: &str) -> ConfigMap {
    let mut m = ConfigMap::default();
    m.metadata.name = Some(name.into());
    m
}

#[tokio::test]
async fn clusters_are_apart_and_go_without_a_trace() {
    let host = Host::start(HostConfig::memory()).await.unwrap();
    let (a, b) = (
        host.ensure("a", ClusterConfig::default()).await.unwrap(),
        host.ensure("b", ClusterConfig::default()).await.unwrap(),
    );
    assert_ne!(a.ca_pem(), b.ca_pem());
    let uid = async |server: &ek_server::ApiServer| {
        let all: Kube<Namespace> = Kube::all(server.client());
        all.get("kube-system").await.unwrap().metadata.uid.unwrap()
    };
    assert_ne!(uid(&a).await, uid(&b).await, "tools take this for the identity of a cluster");
    let maps: Kube<ConfigMap> = Kube::namespaced(a.client(), "default");
    maps.create(&PostParams::default(), &map("x")).await.unwrap();
    let others: Kube<ConfigMap> = Kube::namespaced(b.client(), "default");
    assert!(
        others
            .list(&ListParams::default())
            .await
            .unwrap()
            .items
            .iter()
            .all(|m| m.metadata.name.as_deref() != Some("x"))
    );
    let mut watch = maps.watch(&WatchParams::default(), "0").await.unwrap().boxed();
    assert!(host.delete("a").await.unwrap());
    let ended = tokio::time::timeout(DEADLINE, async { while watch.next().await.is_some() {} }).await;
    assert!(ended.is_ok(), "its watches end");
    assert!(!host.delete("a").await.unwrap());
    assert_eq!(host.names(), ["b"]);
    assert!(maps.create(&PostParams::default(), &map("y")).await.is_err(), "a handle cannot bring it back");
    let again = host.ensure("a", ClusterConfig::default()).await.unwrap();
    let maps: Kube<ConfigMap> = Kube::namespaced(again.client(), "default");
    assert!(maps.get_opt("x").await.unwrap().is_none());
    assert!(host.ensure("No Name", ClusterConfig::default()).await.is_err());
}

#[tokio::test]
async fn clusters_and_their_keys_survive_a_restart() {
    let dir = tempfile::tempdir().unwrap();
    let config = || HostConfig { storage: Storage::Directory(dir.path().into()), ..HostConfig::memory() };
    let host = Host::start(config()).await.unwrap();
    let a = host.ensure("a", ClusterConfig::default()).await.unwrap();
    let maps: Kube<ConfigMap> = Kube::namespaced(a.client(), "default");
    maps.create(&PostParams::default(), &map("x")).await.unwrap();
    let ca = a.ca_pem().to_owned();
    host.stop().await;
    drop((a, maps, host));
    let host = Host::start(config()).await.unwrap();
    let a = host.cluster("a").expect("it is opened with the host");
    assert_eq!(a.ca_pem(), ca);
    let maps: Kube<ConfigMap> = Kube::namespaced(a.client(), "default");
    assert!(maps.get_opt("x").await.unwrap().is_some());
    assert!(host.delete("a").await.unwrap());
    host.stop().await;
    drop((a, maps, host));
    let host = Host::start(config()).await.unwrap();
    assert!(host.cluster("a").is_none());
    assert!(!dir.path().join("clusters/a").exists());
}

/// Who asks for a cluster by its name sees that cluster's certificate; who asks for none, the socket's.
#[tokio::test]
async fn names_choose_certificates() {
    let api = start().await;
    let host = api.server.host();
    let named = ClusterConfig { names: vec!["api.blue.example".into()], ..ClusterConfig::default() };
    let blue = host.ensure("blue", named).await.unwrap();
    let at = api.server.listen("127.0.0.1:0".parse().unwrap()).await.unwrap();
    let port = blue.listen("127.0.0.1:0".parse().unwrap()).await.unwrap();
    let trusts = async |ca: &str, name: &str, to: std::net::SocketAddr| {
        let mut roots = rustls::RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(ca.as_bytes()).unwrap()).unwrap();
        let config = rustls::ClientConfig::builder().with_root_certificates(roots).with_no_client_auth();
        let tcp = tokio::net::TcpStream::connect(to).await.unwrap();
        let name = ServerName::try_from(name.to_owned()).unwrap();
        tokio_rustls::TlsConnector::from(Arc::new(config)).connect(name, tcp).await.is_ok()
    };
    for name in ["blue.clusters.zaffre.internal", "api.blue.example"] {
        assert!(trusts(blue.ca_pem(), name, at.address).await, "{name}");
        assert!(!trusts(api.server.ca_pem(), name, at.address).await, "{name}");
    }
    assert!(trusts(api.server.ca_pem(), "localhost", at.address).await);
    assert!(trusts(blue.ca_pem(), "localhost", port.address).await, "a port of its own");
    port.drain().await;
    assert!(trusts(api.server.ca_pem(), "localhost", at.address).await, "one port closes, the others go on");
    at.drain().await;
}

/// Whoever follows all clusters finds every one whose changes it hears of, from its very first.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cluster_is_there_before_its_first_change() {
    const CLUSTERS: usize = 200;
    let host = Host::start(HostConfig::memory()).await.unwrap();
    let (feed, following) = (host.feed(), host.clone());
    let follower = tokio::spawn(async move {
        let (mut heard, mut strangers) = (std::collections::HashSet::new(), Vec::new());
        while heard.len() < CLUSTERS {
            feed.changed().await;
            for delta in feed.take().deltas {
                if following.access(&delta.cluster, "test").is_none() {
                    strangers.push(delta.cluster.clone());
                }
                heard.insert(delta.cluster);
            }
        }
        strangers
    });
    for i in 0..CLUSTERS {
        host.ensure(&format!("c{i}"), ClusterConfig::default()).await.unwrap();
    }
    let strangers = tokio::time::timeout(DEADLINE, follower).await.expect("all are heard of").unwrap();
    assert!(strangers.is_empty(), "{} changes of clusters nobody knew", strangers.len());
}
