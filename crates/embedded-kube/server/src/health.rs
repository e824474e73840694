//! `/livez`, `/readyz`, `/healthz`, and the list of paths.

use crate::cluster::Cluster;
use crate::registry::Registry;
use crate::wire::params::Params;
use crate::wire::respond::{self, Reply};
use serde_json::{Value, json};

/// Each check and whether it holds.
fn checks(cluster: &Cluster, ready: bool) -> Vec<(&'static str, bool)> {
    let mut all = vec![("ping", true), ("log", true), ("etcd", cluster.store.is_healthy())];
    if ready {
        all.push(("shutdown", !cluster.shutdown.is_cancelled()));
    }
    all
}

pub fn answer(cluster: &Cluster, path: &str, params: &Params) -> Option<Reply> {
    let mut parts = path.trim_matches('/').splitn(2, '/');
    let which = parts.next()?;
    if !matches!(which, "livez" | "readyz" | "healthz") {
        return None;
    }
    let all = checks(cluster, which == "readyz");
    if let Some(one) = parts.next() {
        return Some(match all.iter().find(|(n, _)| *n == one) {
            Some((_, true)) => respond::text(200, "ok"),
            Some((n, false)) => respond::text(500, format!("internal server error: {n} failed\n")),
            None => respond::text(404, "404 page not found\n"),
        });
    }
    let excluded: Vec<&str> = params.all("exclude").collect();
    let used: Vec<_> = all.into_iter().filter(|(n, _)| !excluded.contains(n)).collect();
    let fine = used.iter().all(|(_, ok)| *ok);
    if fine && !params.has("verbose") {
        return Some(respond::text(200, "ok"));
    }
    let mut text = String::new();
    for (n, ok) in &used {
        let (sign, word) = if *ok { ('+', "ok") } else { ('-', "failed: reason withheld") };
        text.push_str(&format!("[{sign}]{n} {word}\n"));
    }
    text.push_str(&format!("{which} check {}\n", if fine { "passed" } else { "failed" }));
    Some(respond::text(if fine { 200 } else { 500 }, text))
}

pub fn paths(registry: &Registry) -> Value {
    let mut all: Vec<String> = [
        "/.well-known/openid-configuration",
        "/api",
        "/api/v1",
        "/apis",
        "/apis/",
        "/healthz",
        "/livez",
        "/metrics",
        "/openapi/v2",
        "/openapi/v3",
        "/openid/v1/jwks",
        "/readyz",
        "/version",
    ]
    .map(str::to_owned)
    .to_vec();
    for g in registry.groups.iter().filter(|g| !g.name.is_empty()) {
        all.push(format!("/apis/{}", g.name));
        all.extend(g.versions.iter().map(|v| format!("/apis/{}/{}", g.name, v.name)));
    }
    all.sort();
    json!({"paths": all})
}
