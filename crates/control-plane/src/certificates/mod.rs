//! Which authorities, certificates, bundles and kubeconfigs a control plane has.
//!
//! The lists are here; [`plan`] compares them with what is stored. Whether one is to be issued is decided by [`pki`], and
//! written by whoever keeps them.

mod kubeconfigs;
mod leaves;
pub mod plan;

pub use kubeconfigs::{CUSTOM, Kubeconfig, kubeconfigs};
pub use leaves::{Entry, leaves};

use crate::scope::Scope;

/// An authority: the Secret it lies in and the name it signs with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ca {
    pub secret: &'static str,
    pub common_name: &'static str,
}

const fn ca(secret: &'static str, common_name: &'static str) -> Ca {
    Ca { secret, common_name }
}

/// Whom machines trust before they are nodes. Its `tls.crt` is what they are told to trust: during a rotation more than it.
pub const IGNITION: &str = "ignition-server-ca-cert";

/// All authorities but those of break-glass credentials, which the PKI operator keeps short-lived.
pub const AUTHORITIES: [Ca; 12] = [
    ca("root-ca", "root-ca"),
    ca("cluster-signer-ca", "kube-csr-signer"),
    ca("kas-aggregator-client-signer", "kas-aggregator-client-signer"),
    ca("kube-control-plane-signer", "kube-control-plane-signer"),
    ca("kube-apiserver-to-kubelet-signer", "kube-apiserver-to-kubelet-signer"),
    ca("system-admin-signer", "system-admin-signer"),
    ca("hcco-signer", "hcco-signer"),
    ca("kas-bootstrap-container-signer", "kas-bootstrap-container-signer"),
    ca("etcd-signer", "etcd-signer"),
    ca("etcd-metrics-signer", "etcd-metrics-signer"),
    ca("konnectivity-signer", "konnectivity-signer"),
    ca(IGNITION, "ignition-root-ca"),
];

/// Authorities of who hands out metrics to the guest, where they do. Their `tls.crt` is what is to be trusted.
pub const FORWARDING: [Ca; 2] =
    [ca("endpoint-resolver-ca", "endpoint-resolver-ca"), ca("metrics-proxy-ca-cert", "metrics-proxy-ca")];

/// The authorities of one control plane.
pub fn authorities(scope: &Scope) -> impl Iterator<Item = Ca> {
    let forwarding = FORWARDING.into_iter().filter(|_| scope.forwarded.is_some());
    AUTHORITIES.into_iter().chain(forwarding)
}

/// What is trusted together: a ConfigMap with `ca.crt`, made of authorities (each with its successor and predecessor).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Trust {
    pub config_map: &'static str,
    pub key: &'static str,
    pub authorities: &'static [&'static str],
    /// And of whom the user trusts besides.
    pub users: Option<Users>,
    /// And of a bundle that somebody else keeps: the ConfigMap and its key.
    pub others: Option<(&'static str, &'static str)>,
}

const fn trust(config_map: &'static str, authorities: &'static [&'static str]) -> Trust {
    Trust { config_map, key: "ca.crt", authorities, users: None, others: None }
}

/// A ConfigMap of the user's, with authorities.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Users {
    /// `additionalTrustBundle`: whom programs trust.
    Servers,
    /// `configuration.apiServer.clientCA`: whose client certificates the API server takes.
    Clients,
}

impl Users {
    pub fn config_map(self, scope: &Scope) -> Option<&str> {
        let name = match self {
            Users::Servers => scope.trust_bundle.as_deref(),
            Users::Clients => scope.configuration["apiServer"]["clientCA"]["name"].as_str(),
        };
        name.filter(|n| !n.is_empty())
    }
}

/// Everybody whose client certificates the API server takes.
const CLIENTS: &[&str] = &[
    "cluster-signer-ca",
    "kube-control-plane-signer",
    "kube-apiserver-to-kubelet-signer",
    "system-admin-signer",
    "hcco-signer",
    "kas-bootstrap-container-signer",
];

/// Authorities of break-glass certificates, kept by the PKI operator.
pub const BREAK_GLASS: (&str, &str) = ("total-client-ca", "ca-bundle.crt");

pub const BUNDLES: [Trust; 9] = [
    trust("root-ca", &["root-ca"]),
    Trust { users: Some(Users::Clients), others: Some(BREAK_GLASS), ..trust("client-ca", CLIENTS) },
    trust("kubelet-client-ca", &["cluster-signer-ca", "kube-apiserver-to-kubelet-signer"]),
    trust("aggregator-client-ca", &["kas-aggregator-client-signer"]),
    trust("etcd-ca", &["etcd-signer"]),
    trust("etcd-metrics-ca", &["etcd-metrics-signer"]),
    trust("konnectivity-ca-bundle", &["konnectivity-signer"]),
    trust("oauth-master-ca-bundle", &["root-ca"]),
    Trust {
        key: "ca-bundle.crt",
        users: Some(Users::Servers),
        ..trust("trusted-ca-bundle-managed", &["root-ca"])
    },
];

/// The Secret with the password of the first administrator.
pub const KUBEADMIN: &str = "kubeadmin-password";

/// Secrets of random text that are made once and kept: name, key, and how many bytes.
pub fn generated(scope: &Scope) -> Vec<(&'static str, &'static str, usize)> {
    let mut list = Vec::new();
    if scope.kubeadmin() {
        list.push((KUBEADMIN, "password", 23));
    }
    if scope.oauth() {
        list.push(("oauth-openshift-session", "v4-0-config-system-session", 32));
    }
    list
}
