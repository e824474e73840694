//! Whether a key encrypts, asked where the key is: in a vault, or in a managed HSM, which is another host and another
//! audience.

use azure::credential::{AccessToken, TokenRequest, TokenSource};
use azure::{
    Client, ClientOptions, Cloud, Credential, CredentialError, Http, HttpOptions, RetryPolicy, Secret, Timing,
};
use control_plane::azure_checks;
use control_plane::operate::Verdict;
use control_plane::scope::KmsKey;
use futures::future::BoxFuture;
use std::sync::{Arc, Mutex};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::{ServerConfig, pki_types::PrivateKeyDer};

/// What was heard, in order: for whom tokens were asked, to which host somebody went, what was asked there.
type Heard = Arc<Mutex<Vec<String>>>;

struct Tokens(Heard);

impl TokenSource for Tokens {
    fn token<'a>(&'a self, ask: &'a TokenRequest) -> BoxFuture<'a, Result<AccessToken, CredentialError>> {
        self.0.lock().unwrap().push(format!("token {}", ask.scope));
        let expires = jiff::Timestamp::MAX;
        Box::pin(async move { Ok(AccessToken { secret: Secret::new("token"), expires, refresh: None }) })
    }

    fn describe(&self) -> String {
        "a test".into()
    }
}

/// Head and body of a request.
async fn read(stream: &mut (impl AsyncRead + Unpin)) -> String {
    let mut bytes = Vec::new();
    loop {
        let text = String::from_utf8_lossy(&bytes).into_owned();
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length =
                head.lines().find_map(|l| l.to_lowercase().strip_prefix("content-length: ")?.parse().ok());
            if body.len() >= length.unwrap_or(0) {
                return text;
            }
        }
        let mut chunk = [0; 4096];
        let n = stream.read(&mut chunk).await.unwrap();
        assert!(n > 0, "it ended early: {text}");
        bytes.extend_from_slice(&chunk[..n]);
    }
}

/// Everything behind one proxy: whoever asks for a host is connected to one that answers so.
async fn client(hosts: &[&str], status: u16, body: &'static str) -> (Client, Heard) {
    let heard = Heard::default();
    let key = rcgen::KeyPair::generate().unwrap();
    let names: Vec<String> = hosts.iter().map(|h| (*h).to_owned()).collect();
    let cert = rcgen::CertificateParams::new(names).unwrap().self_signed(&key).unwrap();
    let tls = ServerConfig::builder()
        .with_no_client_auth()
        .with_single_cert(vec![cert.der().clone()], PrivateKeyDer::Pkcs8(key.serialize_der().into()))
        .unwrap();
    let (acceptor, log) = (TlsAcceptor::from(Arc::new(tls)), heard.clone());
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let proxy = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move {
        while let Ok((mut tcp, _)) = listener.accept().await {
            let asked = read(&mut tcp).await;
            log.lock().unwrap().push(asked.lines().next().unwrap().to_owned());
            tcp.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await.unwrap();
            let mut stream = acceptor.accept(tcp).await.unwrap();
            let asked = read(&mut stream).await;
            log.lock().unwrap().push(asked.lines().next().unwrap().to_owned());
            let head =
                format!("HTTP/1.1 {status} X\r\ncontent-type: application/json\r\nconnection: close\r\n");
            let answer = format!("{head}content-length: {}\r\n\r\n{body}", body.len());
            stream.write_all(answer.as_bytes()).await.unwrap();
            stream.shutdown().await.unwrap();
        }
    });
    let options = HttpOptions {
        extra_roots: vec![cert.pem()],
        https_proxy: Some(Secret::new(proxy)),
        ..HttpOptions::default()
    };
    let credential = Credential::new(Tokens(heard.clone()), Timing::system());
    let http = Http::new(&options).unwrap();
    let options = ClientOptions { retry: RetryPolicy::brief(), ..ClientOptions::default() };
    (Client::new(Cloud::public(), http, credential, options), heard)
}

fn key(managed_hsm: bool) -> KmsKey {
    KmsKey { vault: "demo-keys".into(), name: "etcd".into(), version: "7".into(), managed_hsm }
}

#[tokio::test]
async fn a_key_is_asked_where_it_is() {
    for (hsm, domain) in [(true, "managedhsm.azure.net"), (false, "vault.azure.net")] {
        let host = format!("demo-keys.{domain}");
        let (client, heard) = client(&[&host], 200, r#"{"kid": "k", "value": "AA"}"#).await;
        assert_eq!(azure_checks::key(&client, &key(hsm)).await, Verdict::Good);
        let heard = heard.lock().unwrap().clone();
        let wanted = [
            format!("token https://{domain}/.default"),
            format!("CONNECT {host}:443 HTTP/1.1"),
            "POST /keys/etcd/7/encrypt?api-version=7.5 HTTP/1.1".to_owned(),
        ];
        assert_eq!(heard, wanted);
    }
}

#[tokio::test]
async fn whoever_may_not_is_told_which_role_is_wanted() {
    for (hsm, domain, role) in [
        (true, "managedhsm.azure.net", "Managed HSM Crypto User"),
        (false, "vault.azure.net", "Key Vault Crypto User"),
    ] {
        let refusal = r#"{"error": {"code": "Forbidden", "message": "caller is not authorized"}}"#;
        let (client, _) = client(&[&format!("demo-keys.{domain}")], 403, refusal).await;
        let Verdict::Bad { message, .. } = azure_checks::key(&client, &key(hsm)).await else {
            panic!("it may not")
        };
        assert!(message.contains("caller is not authorized") && message.contains(role), "{message}");
        assert_eq!(message.contains("managed HSM demo-keys"), hsm, "{message}");
    }
}

#[tokio::test]
async fn a_vault_that_is_away_is_not_a_wrong_key() {
    let away = r#"{"error": {"code": "ServiceUnavailable", "message": "come back later"}}"#;
    let (client, heard) = client(&["demo-keys.vault.azure.net"], 503, away).await;
    let Verdict::Unknown(why) = azure_checks::key(&client, &key(false)).await else { panic!("nobody knows") };
    assert!(why.contains("come back later") && why.contains("vault demo-keys"), "{why}");
    let asked = heard.lock().unwrap().iter().filter(|l| l.starts_with("POST")).count();
    assert_eq!(asked, 2, "a second chance, and no more");
}
