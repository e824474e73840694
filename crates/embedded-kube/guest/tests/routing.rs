//! Many guests behind one socket.

use crate::data::{read, write};
use crate::kit::{Hosted, Kit};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ek_guest::Router;
use ek_guest::router::server_name;
use kube::config::{KubeConfigOptions, Kubeconfig};
use serde_json::json;
use std::net::SocketAddr;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

fn any() -> SocketAddr {
    "127.0.0.1:0".parse().unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn guests_are_told_apart_by_name_on_one_socket() {
    let dir = tempfile::tempdir().unwrap();
    let kit = Kit::start(dir.path()).await;
    let hosted = [Hosted::new("clusters-x"), Hosted::new("clusters-y")];
    for h in &hosted {
        h.deploy(&kit).await;
    }
    for h in &hosted {
        h.up(&kit).await;
    }
    let nodes = kit.nodes.clone();
    let find = move |name: &str| {
        use ek_server::ServiceResolver;
        let ns = name.strip_prefix("api.")?.strip_suffix(".example.com")?;
        nodes.resolve(&Kit::id(), ns, "kube-apiserver", 6443)
    };
    let router = Router::listen(any(), find).await.unwrap();
    let mut clients = Vec::new();
    for h in &hosted {
        let (ns, admin) = (&h.pki.ns, h.pki.admin());
        let kubeconfig: Kubeconfig = serde_json::from_value(json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "c",
            "clusters": [{"name": "c", "cluster": {"server": format!("https://{}", router.address), "tls-server-name": format!("api.{ns}.example.com"),
                "certificate-authority-data": STANDARD.encode(h.pki.root.cert_pem())}}],
            "users": [{"name": "u", "user": {"client-certificate-data": STANDARD.encode(&admin.cert_pem), "client-key-data": STANDARD.encode(admin.key_pem.expose())}}],
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}]}))
        .unwrap();
        let config =
            kube::Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await.unwrap();
        clients.push(kube::Client::try_from(config).unwrap());
    }
    for (i, c) in clients.iter().enumerate() {
        write(c, "who", &i.to_string()).await;
    }
    for (i, c) in clients.iter().enumerate() {
        assert_eq!(read(c, "who").await, Some(i.to_string()));
    }
    // A name that nobody has is refused in TLS' own words.
    let mut tcp = TcpStream::connect(router.address).await.unwrap();
    tcp.write_all(&hello("nobody.example.com")).await.unwrap();
    let mut answer = Vec::new();
    tcp.read_to_end(&mut answer).await.unwrap();
    assert_eq!(answer, [21, 3, 3, 0, 2, 2, 112]);
    drop(clients);
    router.drain(Duration::from_millis(200)).await;
    kit.stop().await;
}

/// The greeting of a client that asks for a name.
fn hello(name: &str) -> Vec<u8> {
    let config = rustls::ClientConfig::builder()
        .with_root_certificates(rustls::RootCertStore::empty())
        .with_no_client_auth();
    let server = rustls::pki_types::ServerName::try_from(name.to_owned()).unwrap();
    let mut c = rustls::ClientConnection::new(std::sync::Arc::new(config), server).unwrap();
    let mut out = Vec::new();
    c.write_tls(&mut out).unwrap();
    out
}

#[test]
fn greetings_are_read_whole_in_parts_and_when_hostile() {
    let whole = hello("api.Example.com");
    assert_eq!(server_name(&whole), Ok(Some("api.example.com".into())));
    // Every beginning of it asks for more, and nothing panics whatever byte is wrong.
    for n in 0..whole.len() {
        assert!(server_name(&whole[..n]).is_err(), "{n} bytes");
        let mut bad = whole.clone();
        bad[n] = !bad[n];
        let _ = server_name(&bad);
    }
    assert_eq!(server_name(b"GET / HTTP/1.1\r\n"), Ok(None));
    // In two records.
    let body = &whole[5..];
    let (a, b) = body.split_at(7);
    let mut split = Vec::new();
    for part in [a, b] {
        split.extend([22, 3, 1]);
        split.extend(u16::try_from(part.len()).unwrap().to_be_bytes());
        split.extend(part);
    }
    assert_eq!(server_name(&split), Ok(Some("api.example.com".into())));
    assert_eq!(server_name(&hello("127.0.0.1")), Ok(None), "addresses are no names");
}

#[tokio::test]
async fn draining_lets_connections_finish_and_cuts_those_that_do_not() {
    let target = TcpListener::bind(any()).await.unwrap();
    let to = target.local_addr().unwrap();
    tokio::spawn(async move {
        // Says back what it hears.
        while let Ok((mut s, _)) = target.accept().await {
            tokio::spawn(async move {
                let (mut r, mut w) = s.split();
                let _ = tokio::io::copy(&mut r, &mut w).await;
            });
        }
    });
    let router = Router::listen(any(), move |_: &str| Some(to)).await.unwrap();
    let address = router.address;
    let greeting = hello("x.example.com");
    let mut c = TcpStream::connect(address).await.unwrap();
    c.write_all(&greeting).await.unwrap();
    let mut back = vec![0; greeting.len()];
    c.read_exact(&mut back).await.unwrap();
    assert_eq!(back, greeting, "byte for byte");
    let draining = tokio::spawn(router.drain(Duration::from_secs(20)));
    // Nobody new is let in, but this one goes on.
    let refused = async {
        while TcpStream::connect(address).await.is_ok() {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(10), refused).await.unwrap();
    c.write_all(b"more").await.unwrap();
    let mut more = [0; 4];
    c.read_exact(&mut more).await.unwrap();
    drop(c);
    tokio::time::timeout(Duration::from_secs(10), draining).await.unwrap().unwrap();

    let router = Router::listen(any(), move |_: &str| Some(to)).await.unwrap();
    let mut c = TcpStream::connect(router.address).await.unwrap();
    c.write_all(&greeting).await.unwrap();
    c.read_exact(&mut back).await.unwrap();
    router.drain(Duration::ZERO).await;
    assert_eq!(c.read(&mut back).await.unwrap_or(0), 0, "cut");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_router_pod_leads_to_the_api_by_its_configuration() {
    let dir = tempfile::tempdir().unwrap();
    let kit = Kit::start(dir.path()).await;
    let hosted = Hosted::new("clusters-h");
    hosted.deploy(&kit).await;
    hosted.up(&kit).await;
    let service = kit.get("services", "clusters-h", "kube-apiserver");
    let address = service["spec"]["clusterIP"].as_str().unwrap();
    // As a control plane has it, and as the shared ingress does: nodes say whose they are.
    let config = format!(
        "frontend main\n  bind :::8443\n  use_backend api if {{ req_ssl_sni -i api.clusters-h.example.com }}\n\
         frontend dataplane-kas-svc\n  bind :::6443 v4v6 accept-proxy\n\
         \x20 acl is_h var(sess.cluster_id) -m str {CLUSTER_ID}\n  acl may_h fc_src 127.0.0.0/8 ::1/128\n\
         \x20 acl is_other var(sess.cluster_id) -m str other\n  acl may_other fc_src 192.0.2.0/24\n\
         \x20 use_backend api if is_h may_h\n  use_backend api if is_other may_other\n  default_backend no-match\n\
         backend api\n  server api {address}:6443\nbackend no-match\n  tcp-request content reject\n"
    );
    kit.put("configmaps", json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "router", "namespace": "clusters-h"}, "data": {"haproxy.cfg": config}})).await;
    kit.put("pods", json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "router", "namespace": "clusters-h", "labels": {"app": "router"}}, "spec": {
        "containers": [{"name": "router", "image": crate::kit::image("haproxy-router"), "command": ["haproxy"], "args": ["-f", "/usr/local/etc/haproxy"],
            "ports": [{"name": "https", "containerPort": 8443}, {"name": "kas-svc", "containerPort": 6443}], "volumeMounts": [{"name": "config", "mountPath": "/usr/local/etc/haproxy/haproxy.cfg", "subPath": "haproxy.cfg"}],
            "readinessProbe": {"httpGet": {"port": 9444, "path": "/haproxy_ready"}, "periodSeconds": 1}}],
        "volumes": [{"name": "config", "configMap": {"name": "router"}}]}})).await;
    kit.until("the router is ready", |k| k.ready("clusters-h", "router") == 1).await;
    let at = kit.nodes.resolve_pod("main", "clusters-h", "router", 8443).unwrap();
    let admin = hosted.pki.admin();
    let through = |at: SocketAddr, sni: &str| {
        let kubeconfig: Kubeconfig = serde_json::from_value(json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "c",
            "clusters": [{"name": "c", "cluster": {"server": format!("https://{at}"), "tls-server-name": sni, "certificate-authority-data": STANDARD.encode(hosted.pki.root.cert_pem())}}],
            "users": [{"name": "u", "user": {"client-certificate-data": STANDARD.encode(&admin.cert_pem), "client-key-data": STANDARD.encode(admin.key_pem.expose())}}],
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}]}))
        .unwrap();
        async move {
            kube::Client::try_from(
                kube::Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default())
                    .await
                    .unwrap(),
            )
            .unwrap()
        }
    };
    let client = through(at, "api.clusters-h.example.com").await;
    write(&client, "through", "the router").await;
    assert_eq!(read(&client, "through").await.as_deref(), Some("the router"));
    let nobody = through(at, "kubernetes").await;
    assert!(nobody.apiserver_version().await.is_err(), "a name that is not in the file leads nowhere");
    // From a node: by whose it is, whatever it calls the API.
    let shared = kit.nodes.resolve_pod("main", "clusters-h", "router", 6443).unwrap();
    let from_node = through(node(shared, CLUSTER_ID).await, "api.clusters-h.example.com").await;
    assert_eq!(read(&from_node, "through").await.as_deref(), Some("the router"));
    for id in ["other", "5d9b2b0e"] {
        let stranger = through(node(shared, id).await, "api.clusters-h.example.com").await;
        assert!(stranger.apiserver_version().await.is_err(), "{id} is not let in");
    }
    let bare = through(shared, "api.clusters-h.example.com").await;
    assert!(bare.apiserver_version().await.is_err(), "without a header nobody is led anywhere");
    kit.stop().await;
}

const CLUSTER_ID: &str = "5d9b2b0e-5a3c-4b0e-9a34-6d3b3f3f2a11";

/// The proxy on a node: says whose it is before it hands a connection on.
async fn node(to: SocketAddr, id: &str) -> SocketAddr {
    let mut header = ek_guest::proxy::SIGNATURE.to_vec();
    header.extend([0x21, 0x11]);
    header.extend(u16::try_from(12 + 3 + id.len()).unwrap().to_be_bytes());
    header.extend([169, 254, 169, 1, 172, 20, 0, 1, 0x12, 0x34, 0x19, 0x2b, 0x20]);
    header.extend(u16::try_from(id.len()).unwrap().to_be_bytes());
    header.extend(id.as_bytes());
    let listener = TcpListener::bind(any()).await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((mut pod, _)) = listener.accept().await {
            let header = header.clone();
            tokio::spawn(async move {
                let mut server = TcpStream::connect(to).await?;
                // In two parts, as a network may deliver it.
                let (first, rest) = header.split_at(20);
                server.write_all(first).await?;
                server.flush().await?;
                server.write_all(rest).await?;
                tokio::io::copy_bidirectional(&mut pod, &mut server).await
            });
        }
    });
    address
}
