//! Whether OpenShift's own API servers answer.
//!
//! Their Deployments being available is not enough: what stands in for them may answer health checks and nothing else.
//! So a group of theirs is asked for. Who is refused (401, 403) has found a server; who is told 404 has found that there is
//! none. Whoever is told nothing has found nothing: what follows from the answer lasts, so it is asked for again.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use futures::future::BoxFuture;
use kube::config::{Config, KubeConfigOptions, Kubeconfig};
use reconcile::chain;
use serde_json::json;
use std::time::Duration;

/// What came of asking.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    Serves,
    /// Something answers, and has no such group.
    Lacks,
    /// Nobody could say, and why.
    Silent(String),
}

/// Somebody who can reach Services of the control plane's namespace.
pub trait Backends: Send + Sync + 'static {
    /// Whether a Service serves a group of the API. `roots` is what it must be signed by.
    fn serves<'a>(&'a self, service: &'a str, group: &'a str, roots: &'a str) -> BoxFuture<'a, Answer>;
}

/// There are none: kinds of OpenShift's API servers are served by definitions.
pub struct Nobody;

impl Backends for Nobody {
    fn serves<'a>(&'a self, _: &'a str, _: &'a str, _: &'a str) -> BoxFuture<'a, Answer> {
        Box::pin(async { Answer::Lacks })
    }
}

/// By the names that pods of the management cluster use.
pub struct ByName {
    pub namespace: String,
}

impl Backends for ByName {
    fn serves<'a>(&'a self, service: &'a str, group: &'a str, roots: &'a str) -> BoxFuture<'a, Answer> {
        Box::pin(async move {
            let url = format!("https://{service}.{}.svc:443", self.namespace);
            match tokio::time::timeout(PATIENCE, ask(&url, group, roots)).await {
                Ok(asked) => answer(asked),
                Err(_) => Answer::Silent(format!("{url} did not answer within {} s", PATIENCE.as_secs())),
            }
        })
    }
}

const PATIENCE: Duration = Duration::from_secs(5);

/// Why nobody was asked, or what they said.
#[derive(Debug, thiserror::Error)]
enum Refused {
    #[error("no client can be made")]
    Config(#[source] kube::config::KubeconfigError),
    #[error("no client can be made")]
    Words(#[source] serde_json::Error),
    #[error("no request can be made")]
    Request(#[source] http::Error),
    #[error("it cannot be asked")]
    Asked(#[source] kube::Error),
}

async fn ask(url: &str, group: &str, roots: &str) -> Result<(), Refused> {
    let config: Kubeconfig = serde_json::from_value(json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "c",
        "clusters": [{"name": "c", "cluster": {"server": url, "certificate-authority-data": STANDARD.encode(roots)}}],
        "users": [{"name": "c", "user": {}}], "contexts": [{"name": "c", "context": {"cluster": "c", "user": "c"}}],
    }))
    .map_err(Refused::Words)?;
    let config = Config::from_custom_kubeconfig(config, &KubeConfigOptions::default()).await;
    let client = kube::Client::try_from(config.map_err(Refused::Config)?).map_err(Refused::Asked)?;
    let request = http::Request::get(format!("/apis/{group}/v1")).body(Vec::new());
    client.request_text(request.map_err(Refused::Request)?).await.map(drop).map_err(Refused::Asked)
}

fn answer(asked: Result<(), Refused>) -> Answer {
    match asked {
        Ok(()) => Answer::Serves,
        Err(Refused::Asked(kube::Error::Api(s))) if matches!(s.code, 401 | 403) => Answer::Serves,
        Err(Refused::Asked(kube::Error::Api(s))) if s.code == 404 => Answer::Lacks,
        Err(e) => Answer::Silent(chain(&e).to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kube::core::Status;

    #[test]
    fn only_a_server_that_answers_can_lack_a_group() {
        let said = |code: u16| {
            let status = Status { code, ..Status::default() };
            answer(Err(Refused::Asked(kube::Error::Api(Box::new(status)))))
        };
        assert_eq!([answer(Ok(())), said(401), said(403)], [Answer::Serves, Answer::Serves, Answer::Serves]);
        assert_eq!(said(404), Answer::Lacks);
        for code in [408, 429, 500, 502, 503, 504] {
            assert!(matches!(said(code), Answer::Silent(_)), "{code} tells nothing about the group");
        }
    }

    #[tokio::test]
    async fn nobody_there_is_no_answer() {
        let free = std::net::TcpListener::bind("127.0.0.1:0").and_then(|l| l.local_addr());
        let url = format!("https://{}", free.unwrap_or_else(|e| panic!("{e}")));
        let asked = ask(&url, "route.openshift.io", "no certificate").await;
        assert!(matches!(answer(asked), Answer::Silent(_)));
    }
}
