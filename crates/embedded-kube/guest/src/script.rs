//! Shell scripts of control plane pods. There is no shell here; what others wait for is done, the rest is said not to
//! have been done.
//!
//! * a script that waits for etcd (`wait-for-etcd`, or one that names `etcd-client`) waits until its Service has a
//!   ready endpoint;
//! * a script that follows files or sleeps for ever (`audit-logs`) runs until it is stopped;
//! * `curl` of a Service (`kas-readiness-check`), as a probe executes it, really asks, over TLS and without looking at
//!   certificates as with `-k`; a good answer counts for a minute, as long as the Service has a ready endpoint;
//! * every other script (rendering bootstrap manifests, pulling an image ahead, resolving names) ends well at once,
//!   and its log says that it was not run.

use bytes::Bytes;
use ek_node::{ExecOutput, Program, ProgramContext};
use futures::future::BoxFuture;
use http_body_util::{BodyExt, Empty, Limited};
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// How long a good answer of a Service counts: hundreds of pods that shake hands every few seconds would say no more.
const PROVEN: Duration = Duration::from_secs(60);
const PATIENCE: Duration = Duration::from_secs(5);

#[derive(Default)]
pub(crate) struct Script(Arc<Mutex<HashMap<SocketAddr, Instant>>>);

impl Program for Script {
    fn run(&self, ctx: ProgramContext) -> BoxFuture<'static, i32> {
        Box::pin(async move {
            let script = ctx.command().iter().chain(ctx.args()).cloned().collect::<Vec<_>>().join(" ");
            if ctx.container() == "wait-for-etcd" || script.contains("etcd-client") {
                return wait_for_etcd(&ctx).await;
            }
            let endless = ["tail -F", "tail -f", "tail -c+1 -F", "sleep infinity", "while true"];
            if ctx.container() == "audit-logs" || endless.iter().any(|e| script.contains(e)) {
                ctx.log("this world has no shell: the script is not run, and its container stays until it is stopped");
                ctx.stopping().cancelled().await;
                return 0;
            }
            ctx.log("this world has no shell: the script was not run, and is taken to have succeeded");
            0
        })
    }

    fn exec(
        &self,
        ctx: ProgramContext,
        words: Vec<String>,
        _: Vec<u8>,
    ) -> BoxFuture<'static, Option<ExecOutput>> {
        let Some(url) = curled(&words) else { return Box::pin(std::future::ready(None)) };
        let failed = |code, text: String| ExecOutput {
            code,
            stderr: format!("curl: {text}\n").into(),
            ..ExecOutput::default()
        };
        let Some(address) = ctx.resolve(url.host().unwrap_or_default(), url.port_u16().unwrap_or(443)) else {
            let text = format!("(7) Failed to connect to {url}: no ready endpoint");
            return Box::pin(std::future::ready(Some(failed(7, text))));
        };
        let proven = self.0.clone();
        if proven.lock().get(&address).is_some_and(|at| at.elapsed() < PROVEN) {
            return Box::pin(std::future::ready(Some(ExecOutput::default())));
        }
        Box::pin(async move {
            let asked = tokio::time::timeout(PATIENCE, ask(address, &url)).await;
            match asked.unwrap_or_else(|_| Err("no answer in time".into())) {
                Ok(200..=299) => {
                    let mut proven = proven.lock();
                    proven.retain(|_, at| at.elapsed() < PROVEN);
                    proven.insert(address, Instant::now());
                    Some(ExecOutput::default())
                }
                Ok(code) => Some(failed(22, format!("(22) The requested URL returned error: {code}"))),
                Err(why) => Some(failed(7, format!("(7) {url}: {why}"))),
            }
        })
    }
}

/// The URL that a command asks with curl, itself or in a shell.
fn curled(words: &[String]) -> Option<http::Uri> {
    let text = words.join(" ");
    let mut words = text.split_whitespace().skip_while(|w| w.rsplit('/').next() != Some("curl"));
    words.next()?;
    words.find(|w| w.starts_with("https://"))?.parse().ok()
}

async fn ask(address: SocketAddr, url: &http::Uri) -> Result<u16, String> {
    let said = |e: &dyn std::error::Error| crate::tls::chain(e);
    let stream = ek_server::connect_loopback(address, true).await.map_err(|e| said(&e))?;
    let made = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await;
    let (mut sender, connection) = made.map_err(|e| said(&e))?;
    let driver = tokio::spawn(connection);
    let path = url.path_and_query().map_or("/", |p| p.as_str());
    let host = url.authority().map_or("", |a| a.as_str());
    let request = http::Request::get(path).header(http::header::HOST, host).body(Empty::<Bytes>::new());
    let code = async {
        let answer = sender.send_request(request.map_err(|e| said(&e))?).await.map_err(|e| said(&e))?;
        let code = answer.status().as_u16();
        let _ = Limited::new(answer.into_body(), 64 << 10).collect().await;
        Ok(code)
    }
    .await;
    driver.abort();
    code
}

async fn wait_for_etcd(ctx: &ProgramContext) -> i32 {
    let host = format!("etcd-client.{}.svc", ctx.namespace());
    let mut waited = false;
    let mut endpoints = ctx.endpoints();
    loop {
        if ctx.resolve(&host, crate::etcd::PORT).is_some() {
            ctx.log(format!("{host} is there"));
            return 0;
        }
        if !std::mem::replace(&mut waited, true) {
            ctx.log(format!("waiting for {host} to resolve"));
        }
        // Who is ready may listen a moment later.
        tokio::select! {
            () = ctx.stopping().cancelled() => return 143,
            Ok(()) = endpoints.changed() => {}
            () = tokio::time::sleep(Duration::from_secs(1)) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::curled;

    #[test]
    fn what_curl_asks_is_found_in_a_script() {
        let words = |w: &[&str]| w.iter().map(|w| (*w).to_owned()).collect::<Vec<_>>();
        let url =
            curled(&words(&["/bin/bash", "-c", "curl -kfs https://kube-apiserver:6443/livez > /dev/null"]));
        assert_eq!(url.unwrap().to_string(), "https://kube-apiserver:6443/livez");
        assert!(curled(&words(&["/usr/bin/curl", "-k", "https://a/b"])).is_some());
        assert!(curled(&words(&["cat", "https://a/b"])).is_none() && curled(&words(&["curl"])).is_none());
    }
}
