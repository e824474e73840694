//! What rolls nodes, as a hash, and what does not, as another.
//!
//! ```text
//! user's manifests, FIPS, keys, mirrors, way to the API ─┐
//! proxy, image and TLS settings of the cluster ──────────┼─> config hash ─┐
//! names of pull secret and trust bundle ─────────────────┘                ├─> Hash: names Secrets, rolls nodes
//! version of the release ─────────────────────────────────────────────────┘
//! the same manifests, with the images that we choose ───────> payload: what new nodes get, rolls nothing
//! ```
//!
//! Upstream hashes the payload itself, so that a newer proxy image rolls every node of every cluster, and leaves the
//! cluster's proxy settings out of the configuration's hash, so that nodes roll while `UpdatingConfig` says that nothing
//! happens. Here the payload has a fingerprint of its own and both hashes are of the same things but the version.

use super::config::{self, Way};
use super::text::{canonical, simple};
use apis::hypershift::HostedCluster;
use apis::version::Version;
use serde_json::{Value, json};

/// From this minor on, nodes follow the cluster's TLS profile.
const TLS_SINCE: u32 = 23;

/// What nodes are to be, before it is hashed.
pub struct Wish<'a> {
    pub hc: &'a HostedCluster,
    pub way: &'a Way,
    /// What users wrote, checked.
    pub manifests: &'a [Value],
    /// What the node tuning operator made of the pool's tuning.
    pub tuned: &'a [Value],
    pub ssh_key: Option<&'a str>,
    pub version: &'a str,
    /// The image of the proxy on each node: ours to choose.
    pub proxy_image: &'a str,
}

/// What nodes are to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rollout {
    /// In names of Secrets; another rolls nodes.
    pub hash: String,
    /// The same but for the version.
    pub config: String,
    /// Manifests that nodes boot with.
    pub payload: String,
}

/// Settings of the cluster that reach nodes.
fn global(hc: &HostedCluster, version: &str) -> Value {
    let all = serde_json::to_value(&hc.spec.shared.configuration).unwrap_or_default();
    let mut out = json!({"proxy": all["proxy"], "image": all["image"]});
    let tls = &all["apiServer"]["tlsSecurityProfile"];
    if !tls.is_null() && version.parse::<Version>().is_ok_and(|v| v.ordinal() >= TLS_SINCE) {
        out["tls"] = tls.clone();
    }
    out
}

impl Rollout {
    pub fn of(wish: &Wish<'_>) -> Rollout {
        let hc = wish.hc;
        let mut documents = wish.manifests.to_vec();
        documents.extend_from_slice(wish.tuned);
        documents.extend(config::of_cluster(hc, wish.ssh_key));
        let mut booted = documents.clone();
        documents.push(config::proxy(wish.way, ""));
        booted.push(config::proxy(wish.way, wish.proxy_image));
        // Names, not contents: a pull secret that is rotated reaches nodes without a roll.
        let names = json!({
            "pullSecret": hc.spec.shared.pull_secret.name,
            "trustBundle": hc.spec.shared.additional_trust_bundle.as_ref().map(|b| b.name.as_str()),
        });
        let parts = [config::text(&documents), canonical(&names), canonical(&global(hc, wish.version))]
            .join("\n===\n");
        Rollout {
            hash: simple(&format!("{parts}\n===\n{}", wish.version)),
            config: simple(&parts),
            payload: config::text(&booted),
        }
    }
}
