//! Whether OpenShift's own API servers answer.
//!
//! Their Deployments being available is not enough: what stands in for them may answer health checks and nothing else.
//! So a group of theirs is asked for. Who is refused (401, 403) has found a server; who is told 404, or nothing, has not.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use futures::future::BoxFuture;
use kube::config::{Config, KubeConfigOptions, Kubeconfig};
use serde_json::json;
use std::time::Duration;

/// Somebody who can reach Services of the control plane's namespace.
pub trait Backends: Send + Sync + 'static {
    /// Whether a Service serves a group of the API. `roots` is what it must be signed by.
    fn serves<'a>(&'a self, service: &'a str, group: &'a str, roots: &'a str) -> BoxFuture<'a, bool>;
}

/// There are none: kinds of OpenShift's API servers are served by definitions.
pub struct Nobody;

impl Backends for Nobody {
    fn serves<'a>(&'a self, _: &'a str, _: &'a str, _: &'a str) -> BoxFuture<'a, bool> {
        Box::pin(async { false })
    }
}

/// By the names that pods of the management cluster use.
pub struct ByName {
    pub namespace: String,
}

impl Backends for ByName {
    fn serves<'a>(&'a self, service: &'a str, group: &'a str, roots: &'a str) -> BoxFuture<'a, bool> {
        Box::pin(async move {
            let url = format!("https://{service}.{}.svc:443", self.namespace);
            let asked = tokio::time::timeout(Duration::from_secs(5), ask(&url, group, roots)).await;
            asked.unwrap_or(false)
        })
    }
}

async fn ask(url: &str, group: &str, roots: &str) -> bool {
    let config: Result<Kubeconfig, _> = serde_json::from_value(json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "c",
        "clusters": [{"name": "c", "cluster": {"server": url, "certificate-authority-data": STANDARD.encode(roots)}}],
        "users": [{"name": "c", "user": {}}], "contexts": [{"name": "c", "context": {"cluster": "c", "user": "c"}}],
    }));
    let Ok(config) = config else { return false };
    let Ok(config) = Config::from_custom_kubeconfig(config, &KubeConfigOptions::default()).await else {
        return false;
    };
    let Ok(client) = kube::Client::try_from(config) else { return false };
    let Ok(request) = http::Request::get(format!("/apis/{group}/v1")).body(Vec::new()) else { return false };
    match client.request_text(request).await {
        Ok(_) => true,
        Err(kube::Error::Api(s)) => matches!(s.code, 401 | 403),
        Err(_) => false,
    }
}
