//! Asking the admin API: plain HTTP, one request per connection, no proxy whatever the environment says.

use anyhow::{Context, bail};
use bytes::Bytes;
use http::Method;
use http_body_util::{BodyExt, Full, Limited};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use std::time::Duration;
use tokio::net::TcpStream;
use url::Url;

/// A journal is kept to a hundred thousand entries; this is ample for them.
const MAX_ANSWER: usize = 256 << 20;
/// Longer than the server lets anyone wait for news.
const PATIENCE: Duration = Duration::from_secs(90);

pub struct Admin {
    host: String,
    port: u16,
}

impl Admin {
    pub fn new(url: &Url) -> anyhow::Result<Admin> {
        let host = url.host_str().filter(|_| url.scheme() == "http");
        let Some(host) = host else {
            bail!("{url} is not an admin API: --admin takes http://HOST:PORT");
        };
        let host = host.trim_matches(['[', ']']).to_owned();
        Ok(Admin { host, port: url.port_or_known_default().unwrap_or(80) })
    }

    /// Asks for a list.
    pub async fn get(&self, what: &str, query: &[(&str, String)]) -> anyhow::Result<Value> {
        let value = self.send(Method::GET, what, query, None).await?;
        if !value["value"].is_array() {
            bail!("{} does not answer as the admin API of a simulator does", self.authority());
        }
        Ok(value)
    }

    pub async fn send(
        &self,
        method: Method,
        what: &str,
        query: &[(&str, String)],
        body: Option<Bytes>,
    ) -> anyhow::Result<Value> {
        let asked = tokio::time::timeout(PATIENCE, self.ask(method, what, query, body)).await;
        asked.with_context(|| format!("the simulator at {} did not answer in time", self.authority()))?
    }

    fn authority(&self) -> String {
        match self.host.contains(':') {
            true => format!("[{}]:{}", self.host, self.port),
            false => format!("{}:{}", self.host, self.port),
        }
    }

    async fn ask(
        &self,
        method: Method,
        what: &str,
        query: &[(&str, String)],
        body: Option<Bytes>,
    ) -> anyhow::Result<Value> {
        let authority = self.authority();
        let tcp = TcpStream::connect((self.host.as_str(), self.port)).await.with_context(|| {
            format!(
                "no simulator answers at {authority}: start one with `zaffre serve azure --env-out FILE`, \
                 and source FILE again, its ports may be new"
            )
        })?;
        let wrong = || format!("{authority} does not answer as the admin API of a simulator does");
        let (mut send, connection) =
            hyper::client::conn::http1::handshake(TokioIo::new(tcp)).await.with_context(wrong)?;
        let driver = tokio::spawn(connection);
        let query = url::form_urlencoded::Serializer::new(String::new()).extend_pairs(query).finish();
        let request = http::Request::builder()
            .method(method)
            .uri(format!("/{what}?{query}"))
            .header("host", &authority);
        let request = request.body(Full::new(body.unwrap_or_default()))?;
        let response = send.send_request(request).await.with_context(wrong)?;
        let status = response.status();
        let body = Limited::new(response.into_body(), MAX_ANSWER).collect().await;
        let body = body.map_err(|e| anyhow::anyhow!("{e}")).with_context(wrong)?.to_bytes();
        driver.abort();
        let value: Value = serde_json::from_slice(&body).with_context(wrong)?;
        if !status.is_success() {
            let why = value["error"].as_str().unwrap_or("it does not say why");
            bail!("{authority} refused /{what} ({status}): {why}");
        }
        Ok(value)
    }
}
