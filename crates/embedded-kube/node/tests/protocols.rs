//! The streams as other clients than kubectl speak them.

use crate::kit::{DEADLINE, Kit, condition};
use base64::Engine;
use futures::{SinkExt, StreamExt};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use serde_json::{Value, json};
use std::sync::Arc;
use tokio::net::TcpStream;
use tokio_rustls::client::TlsStream;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::{Error, Message};

type Socket = WebSocketStream<TlsStream<TcpStream>>;

struct Remote {
    kit: Kit,
    listening: ek_server::Listening,
}

impl Remote {
    async fn new() -> Remote {
        let kit = Kit::live(|_| {}).await;
        let listening = kit.server.listen("127.0.0.1:0".parse().unwrap()).await.unwrap();
        kit.pod("web", |p| {
            p["spec"]["containers"] =
                json!([{"name": "main", "image": "zaffre.io/echo", "ports": [{"containerPort": 8080}]}]);
        })
        .await;
        kit.until("ready", |k| condition(&k.get("web"), "Ready") == "True").await;
        Remote { kit, listening }
    }

    async fn open(&self, path: &str, protocol: &str) -> Result<Socket, Error> {
        let config = self.kit.server.kubeconfig("https://localhost").unwrap();
        let pem = |v: &Value| base64::engine::general_purpose::STANDARD.decode(v.as_str().unwrap()).unwrap();
        let user = &config["users"][0]["user"];
        let mut roots = rustls::RootCertStore::empty();
        roots
            .add(
                CertificateDer::from_pem_slice(&pem(
                    &config["clusters"][0]["cluster"]["certificate-authority-data"],
                ))
                .unwrap(),
            )
            .unwrap();
        let certs = vec![CertificateDer::from_pem_slice(&pem(&user["client-certificate-data"])).unwrap()];
        let key = PrivateKeyDer::from_pem_slice(&pem(&user["client-key-data"])).unwrap();
        let tls = rustls::ClientConfig::builder()
            .with_root_certificates(roots)
            .with_client_auth_cert(certs, key)
            .unwrap();
        let tcp = TcpStream::connect(self.listening.address).await.unwrap();
        let name = ServerName::try_from("localhost").unwrap();
        let tls = tokio_rustls::TlsConnector::from(Arc::new(tls)).connect(name, tcp).await.unwrap();
        let mut request = format!("wss://localhost/api/v1/namespaces/default/pods/web/{path}")
            .into_client_request()
            .unwrap();
        request.headers_mut().insert("sec-websocket-protocol", protocol.parse().unwrap());
        Ok(tokio_tungstenite::client_async(request, tls).await?.0)
    }
}

async fn all(mut socket: Socket) -> Vec<(u8, Vec<u8>)> {
    let mut messages = Vec::new();
    let read = async {
        while let Some(Ok(m)) = socket.next().await {
            match m {
                Message::Binary(b) => messages.push((b[0], b[1..].to_vec())),
                Message::Close(_) => break,
                _ => {}
            }
        }
    };
    tokio::time::timeout(DEADLINE, read).await.unwrap();
    messages
}

#[tokio::test]
async fn exec_in_channels() {
    let remote = Remote::new().await;
    let socket = remote
        .open("exec?command=echo&command=hi&stdout=true&stderr=true", "v4.channel.k8s.io")
        .await
        .unwrap();
    let messages = all(socket).await;
    assert_eq!(messages[0], (1, b"hi\n".to_vec()));
    let verdict: Value = serde_json::from_slice(&messages[1].1).unwrap();
    assert_eq!((messages[1].0, &verdict["status"]), (3, &json!("Success")));
    // The fifth version can say that there is no more input.
    let mut socket =
        remote.open("exec?command=cat&stdin=true&stdout=true", "v5.channel.k8s.io").await.unwrap();
    for part in [&b"\0one "[..], b"\0two", b"\xff\0"] {
        socket.send(Message::binary(part.to_vec())).await.unwrap();
    }
    assert_eq!(all(socket).await[0], (1, b"one two".to_vec()));
    let socket =
        remote.open("exec?command=nothing&stdout=true&stderr=true", "v4.channel.k8s.io").await.unwrap();
    let messages = all(socket).await;
    let verdict: Value = serde_json::from_slice(&messages.last().unwrap().1).unwrap();
    assert_eq!(verdict["details"]["causes"][0]["message"], "127");
}

#[tokio::test]
async fn a_shell_to_type_into() {
    let remote = Remote::new().await;
    let mut socket =
        remote.open("exec?command=sh&stdin=true&stdout=true&tty=true", "v4.channel.k8s.io").await.unwrap();
    for part in [&b"\0echo hx\x7fi\r"[..], b"\0nonsense\x03", b"\0exit 4\r"] {
        socket.send(Message::binary(part.to_vec())).await.unwrap();
    }
    let messages = all(socket).await;
    let shown: Vec<u8> = messages.iter().filter(|(c, _)| *c == 1).flat_map(|(_, b)| b.clone()).collect();
    let shown = String::from_utf8(shown).unwrap();
    assert_eq!(shown, "/ $ echo hx\x08 \x08i\r\nhi\r\n/ $ nonsense^C\r\n/ $ exit 4\r\n");
    let verdict: Value = serde_json::from_slice(&messages.last().unwrap().1).unwrap();
    assert_eq!(verdict["details"]["causes"][0]["message"], "4");
    // A script through a pipe.
    let mut socket =
        remote.open("exec?command=sh&stdin=true&stdout=true", "v5.channel.k8s.io").await.unwrap();
    for part in [&b"\0echo one\nec"[..], b"\0ho two", b"\xff\0"] {
        socket.send(Message::binary(part.to_vec())).await.unwrap();
    }
    let messages = all(socket).await;
    let shown: Vec<u8> = messages.iter().filter(|(c, _)| *c == 1).flat_map(|(_, b)| b.clone()).collect();
    assert_eq!(shown, b"one\ntwo\n");
}

#[tokio::test]
async fn ports_in_channels() {
    let remote = Remote::new().await;
    let mut socket = remote.open("portforward?ports=8080", "v4.channel.k8s.io").await.unwrap();
    socket
        .send(Message::binary(b"\0GET /py HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n".to_vec()))
        .await
        .unwrap();
    let messages = all(socket).await;
    assert_eq!(messages[0], (0, 8080u16.to_le_bytes().to_vec()));
    assert_eq!(messages[1], (1, 8080u16.to_le_bytes().to_vec()));
    let text: Vec<u8> = messages[2..].iter().filter(|(c, _)| *c == 0).flat_map(|(_, b)| b.clone()).collect();
    assert!(String::from_utf8_lossy(&text).contains("GET /py"));
    // A port nobody listens on is an error on its own channel.
    let socket = remote.open("portforward?ports=9", "v4.channel.k8s.io").await.unwrap();
    let messages = all(socket).await;
    assert!(String::from_utf8_lossy(&messages.last().unwrap().1).contains("nothing listens on port 9"));
}

#[tokio::test]
async fn refusals_come_before_the_handshake() {
    let remote = Remote::new().await;
    let code = |e: Error| match e {
        Error::Http(r) => r.status().as_u16(),
        other => panic!("{other}"),
    };
    let open = async |path: &str, protocol: &str| code(remote.open(path, protocol).await.unwrap_err());
    assert_eq!(open("exec?command=ls&stdout=true", "base64.channel.k8s.io").await, 400);
    assert_eq!(open("exec?stdout=true", "v4.channel.k8s.io").await, 400);
    assert_eq!(open("exec?command=ls", "v4.channel.k8s.io").await, 400);
    assert_eq!(open("portforward?ports=x", "v4.channel.k8s.io").await, 400);
    assert_eq!(open("../missing/exec?command=ls&stdout=true", "v4.channel.k8s.io").await, 404);
}
