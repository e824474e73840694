//! Our payload: everything that makes a machine a node of one hosted cluster.
//!
//! | what | where |
//! |---|---|
//! | who may ask for a certificate, and where | `/etc/kubernetes/kubeconfig` |
//! | kubelet | unit `kubelet.service`, `/etc/kubernetes/kubelet.conf`, the pool's KubeletConfigs over it |
//! | whom to trust | `/etc/kubernetes/ca.crt`, `/etc/kubernetes/kubelet-ca.crt`, the user's bundle |
//! | the way to the API | a static pod at the advertised address: HAProxy, or what the pool's manifest brings in its place |
//! | Azure | `/etc/kubernetes/cloud.conf` |
//! | registries | `/var/lib/kubelet/config.json`, mirrors in `/etc/containers/registries.conf.d` |
//! | people | SSH keys of `core` |
//! | which configuration this is | `/etc/machine-config-daemon/node-annotations.json` |
//! | which release this is | `/etc/kubernetes/node-release.json` (ours) |
//!
//! The pool's MachineConfigs are laid over it, in order of name, as the machine-config operator does: a later file takes
//! the place of an earlier one, units and users are merged.
//!
//! What this cannot do: the operating system's own files (CRI-O, networking, the templates of `machine-config-operator`)
//! come from binaries in the release image. On real RHCOS use a [command](crate::command).

mod cluster;
mod kubelet;
mod merge;
mod pool;
mod registries;

pub use merge::Document;

use crate::provider::{Ask, PayloadProvider, RELEASE_UNREADABLE, Refused, Releases};
use bytes::Bytes;
use futures::future::BoxFuture;
use pool::Pool;
use std::sync::Arc;

/// Makes payloads in this process.
pub struct Rendered {
    pub releases: Arc<dyn Releases>,
    /// Feature gates that kubelets are told of, by name.
    pub gates: Vec<(String, bool)>,
}

/// The one place that knows where things are on a node.
pub mod path {
    pub const KUBECONFIG: &str = "/etc/kubernetes/kubeconfig";
    pub const KUBELET: &str = "/etc/kubernetes/kubelet.conf";
    pub const CA: &str = "/etc/kubernetes/ca.crt";
    pub const KUBELET_CA: &str = "/etc/kubernetes/kubelet-ca.crt";
    pub const CLOUD: &str = "/etc/kubernetes/cloud.conf";
    pub const PULL_SECRET: &str = "/var/lib/kubelet/config.json";
    pub const TRUST: &str = "/etc/pki/ca-trust/source/anchors/openshift-config-user-ca-bundle.crt";
    pub const PROXY_POD: &str = "/etc/kubernetes/manifests/kube-apiserver-proxy.yaml";
    pub const PROXY_CONFIG: &str = "/etc/kubernetes/apiserver-proxy-config/haproxy.cfg";
    pub const ANNOTATIONS: &str = "/etc/machine-config-daemon/node-annotations.json";
    pub const RELEASE: &str = "/etc/kubernetes/node-release.json";
    pub const MIRRORS: &str = "/etc/containers/registries.conf.d/99-openshift-mirrors.conf";
}

/// Why a FeatureGate is of no use.
#[derive(Debug, thiserror::Error)]
#[error("it is no FeatureGate of config.openshift.io in YAML")]
pub struct NoFeatureGate;

/// Gates that are on or off, as the status of a FeatureGate lists them; for kubelets, which are given all.
pub fn feature_gates(manifest: &str) -> Result<Vec<(String, bool)>, NoFeatureGate> {
    let value: serde_json::Value = serde_saphyr::from_str(manifest).map_err(|_| NoFeatureGate)?;
    if value["kind"] != "FeatureGate" {
        return Err(NoFeatureGate);
    }
    let versions = value["status"]["featureGates"].as_array().into_iter().flatten();
    let list = |v: &serde_json::Value, on: bool| -> Vec<(String, bool)> {
        let all = v.as_array().into_iter().flatten().filter_map(|g| g["name"].as_str());
        all.map(|g| (g.to_owned(), on)).collect()
    };
    Ok(versions.flat_map(|v| [list(&v["enabled"], true), list(&v["disabled"], false)].concat()).collect())
}

impl PayloadProvider for Rendered {
    fn payload<'a>(&'a self, ask: Ask<'a>) -> BoxFuture<'a, Result<Bytes, Refused>> {
        Box::pin(async move {
            let pull = cluster::pull_secret(ask.inputs)?;
            let unreadable = |message| Refused { reason: RELEASE_UNREADABLE, message, again: true };
            let release = self.releases.release(&ask.token.release, pull).await.map_err(unreadable)?;
            let pool = Pool::read(ask.config)?;
            let mut document = Document::default();
            cluster::files(&mut document, &ask, &release)?;
            kubelet::files(&mut document, &ask, &pool, &self.gates)?;
            registries::files(&mut document, &pool)?;
            for config in &pool.machine_configs {
                document.lay(&config.name, &config.ignition).map_err(Refused::invalid)?;
            }
            cluster::proxy(&mut document, &ask, &release)?;
            let value = document.into_value();
            Ok(serde_json::to_vec(&value).map_err(|e| Refused::invalid(e.to_string()))?.into())
        })
    }
}
