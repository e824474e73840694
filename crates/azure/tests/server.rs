//! A small server that answers as told, rightly or wrongly: HTTP/1.1, one request per connection, TLS or not.

use parking_lot::Mutex;
use std::sync::Arc;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls;

#[derive(Clone, Debug)]
pub struct Seen {
    /// With its query.
    pub path: String,
    headers: Vec<(String, String)>,
    pub body: String,
}

impl Seen {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(k, _)| k.eq_ignore_ascii_case(name)).map(|(_, v)| v.as_str())
    }
}

#[derive(Clone, Debug)]
pub enum Reply {
    Say {
        status: u16,
        headers: Vec<(&'static str, String)>,
        body: String,
    },
    /// The request is read and never answered.
    Drop,
    /// A whole head, half a body.
    Half,
}

pub fn say(status: u16, body: impl ToString) -> Reply {
    Reply::Say { status, headers: vec![("content-type", "application/json".into())], body: body.to_string() }
}

impl Reply {
    pub fn with(mut self, name: &'static str, value: impl Into<String>) -> Reply {
        if let Reply::Say { headers, .. } = &mut self {
            headers.push((name, value.into()));
        }
        self
    }
}

pub struct Server {
    pub url: String,
    /// Empty without TLS.
    pub ca_pem: String,
    pub seen: Arc<Mutex<Vec<Seen>>>,
    task: tokio::task::JoinHandle<()>,
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn read(stream: &mut (impl AsyncRead + Unpin)) -> Option<Seen> {
    let mut bytes = Vec::new();
    let end = loop {
        if let Some(i) = bytes.windows(4).position(|w| w == b"\r\n\r\n") {
            break i;
        }
        let mut chunk = [0; 4096];
        let n = stream.read(&mut chunk).await.ok().filter(|n| *n > 0)?;
        bytes.extend_from_slice(&chunk[..n]);
    };
    let head = String::from_utf8(bytes[..end].to_vec()).ok()?;
    let mut lines = head.split("\r\n");
    let mut first = lines.next()?.split(' ');
    let path = first.nth(1)?.to_owned();
    let headers: Vec<(String, String)> =
        lines.filter_map(|l| l.split_once(": ")).map(|(k, v)| (k.to_owned(), v.to_owned())).collect();
    let mut body = bytes[end + 4..].to_vec();
    let length = headers
        .iter()
        .find(|(k, _)| k.eq_ignore_ascii_case("content-length"))
        .and_then(|(_, v)| v.parse().ok());
    while body.len() < length.unwrap_or(0) {
        let mut chunk = [0; 4096];
        let n = stream.read(&mut chunk).await.ok().filter(|n| *n > 0)?;
        body.extend_from_slice(&chunk[..n]);
    }
    Some(Seen { path, headers, body: String::from_utf8(body).ok()? })
}

async fn serve(mut stream: impl AsyncRead + AsyncWrite + Unpin, log: &Mutex<Vec<Seen>>, answer: &Answers) {
    let Some(seen) = read(&mut stream).await else { return };
    log.lock().push(seen.clone());
    let text = match answer(&seen) {
        Reply::Drop => return,
        Reply::Half => "HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\n{\"half\":".to_owned(),
        Reply::Say { status, headers, body } => {
            let headers: String = headers.iter().map(|(k, v)| format!("{k}: {v}\r\n")).collect();
            format!(
                "HTTP/1.1 {status} X\r\n{headers}content-length: {}\r\nconnection: close\r\n\r\n{body}",
                body.len()
            )
        }
    };
    let _ = stream.write_all(text.as_bytes()).await;
    let _ = stream.shutdown().await;
}

type Answers = dyn Fn(&Seen) -> Reply + Send + Sync;

pub async fn start(tls: bool, answer: impl Fn(&Seen) -> Reply + Send + Sync + 'static) -> Server {
    let key = rcgen::KeyPair::generate().unwrap();
    let cert = rcgen::CertificateParams::new(vec!["localhost".into()]).unwrap().self_signed(&key).unwrap();
    let config = rustls::ServerConfig::builder()
        .with_no_client_auth()
        .with_single_cert(
            vec![cert.der().clone()],
            rustls::pki_types::PrivateKeyDer::Pkcs8(key.serialize_der().into()),
        )
        .unwrap();
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let seen: Arc<Mutex<Vec<Seen>>> = Arc::default();
    let (log, answer) = (seen.clone(), Arc::new(answer));
    let task = tokio::spawn(async move {
        while let Ok((tcp, _)) = listener.accept().await {
            let (log, answer, acceptor) = (log.clone(), answer.clone(), acceptor.clone());
            tokio::spawn(async move {
                if !tls {
                    return serve(tcp, &log, &*answer).await;
                }
                if let Ok(stream) = acceptor.accept(tcp).await {
                    serve(stream, &log, &*answer).await;
                }
            });
        }
    });
    let url = format!("{}://localhost:{port}", if tls { "https" } else { "http" });
    Server { url, ca_pem: if tls { cert.pem() } else { String::new() }, seen, task }
}
