//! What a component is.

use crate::Error;
use crate::config::catalogs;
use crate::pod::Pod;
use crate::scope::{Scope, Who};
use serde_json::Value;

/// The topology in which what serves requests runs on nodes of its own.
const DEDICATED: &str = "dedicated-request-serving-components";

/// One component of a control plane: a row of [`crate::table`].
pub struct Component {
    pub name: &'static str,
    /// Its workload, and the other objects it brings.
    pub workload: &'static str,
    pub objects: Option<&'static str>,
    pub when: fn(&Scope) -> bool,
    /// Components that must be rolled out first, besides the API server.
    pub after: &'static [&'static str],
    /// What else it waits for: facts that the management cluster has not given yet.
    pub awaits: fn(&Scope) -> Vec<&'static str>,
    /// Whether it waits for the API server.
    pub needs_api: bool,
    pub replicas: Replicas,
    pub tier: Tier,
    /// It talks to the management cluster's API as a service account.
    pub management: bool,
    /// Users and nodes talk to it.
    pub serves_requests: bool,
    pub tunnels: &'static [Tunnel],
    pub prober: Option<Prober>,
    pub identity: Option<Credential>,
    pub tls: Tls,
    /// Its audit log is read by a sidecar: the volume and the file.
    pub audit: Option<(&'static str, &'static str)>,
    /// Its readiness includes that of the API server.
    pub ready_with_api: bool,
    /// Objects with configuration, made in code.
    pub config: fn(&Scope) -> Result<Vec<Value>, Error>,
    pub adapt: fn(&Scope, &mut Pod<'_>) -> Result<(), Error>,
    /// Changes of the workload outside of its pod.
    pub shape: fn(&Scope, &mut Value),
    /// Deployments that others make for it and that must be there too.
    pub operands: fn(&Scope) -> Vec<&'static str>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Replicas {
    /// Whatever the availability.
    One,
    /// Two when highly available.
    Two,
    /// Three when highly available.
    Three,
}

impl Replicas {
    pub fn of(self, scope: &Scope) -> u32 {
        match self {
            _ if !scope.ha() => 1,
            Replicas::One => 1,
            Replicas::Two => 2,
            Replicas::Three => 3,
        }
    }
}

/// How dear it is to the cluster; names the priority class.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tier {
    Etcd,
    Api,
    ControlPlane,
}

impl Tier {
    pub fn priority_class(self, scope: &Scope) -> String {
        let (annotation, class) = match self {
            Tier::Etcd => ("etcd-priority-class", "hypershift-etcd"),
            Tier::Api => ("api-critical-priority-class", "hypershift-api-critical"),
            Tier::ControlPlane => ("control-plane-priority-class", "hypershift-control-plane"),
        };
        scope.annotation(annotation).unwrap_or(class).to_owned()
    }
}

/// How it reaches the guest's network: a sidecar that speaks konnectivity, and the variables that lead there.
#[derive(Clone, Copy, Debug)]
pub enum Tunnel {
    Socks5 { args: &'static [&'static str], vars: Vars },
    Https { args: &'static [&'static str], port: u16, vars: Vars },
}

/// Which variables of the main container lead into the tunnel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Vars {
    None,
    /// `HTTP_PROXY` and `HTTPS_PROXY`.
    Web(&'static str),
    /// `GRPC_PROXY`.
    Grpc(&'static str),
    /// `ALL_PROXY`.
    All,
}

/// Waits until the guest API serves what the component needs.
#[derive(Clone, Copy, Debug)]
pub struct Prober {
    pub apis: &'static [&'static str],
    pub more: &'static [&'static str],
    /// The Secret with the kubeconfig to look with; none: only that the API answers.
    pub kubeconfig: Option<&'static str>,
}

/// Which Azure identity it acts as.
#[derive(Clone, Copy, Debug)]
pub struct Credential {
    pub who: Who,
    /// Service account of the guest whose token is exchanged.
    pub account: (&'static str, &'static str),
    /// SecretProviderClass and volume, where certificates come from a vault.
    pub class: &'static str,
    pub volume: &'static str,
    /// A variable with the path of the mounted credential.
    pub path_variable: Option<&'static str>,
    /// A token for the guest's API as well.
    pub api_token: bool,
}

/// How it is told which TLS versions and ciphers to offer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tls {
    None,
    /// `--tls-min-version`, `--tls-cipher-suites` of the main container.
    Flags,
}

impl Component {
    /// It has nodes to itself, with the others that users and nodes talk to.
    pub fn isolated(&self, scope: &Scope) -> bool {
        self.serves_requests && scope.annotation("topology") == Some(DEDICATED)
    }

    pub fn replicas(&self, scope: &Scope) -> u32 {
        let all = self.replicas.of(scope);
        // Nodes are dedicated in pairs.
        if self.isolated(scope) { all.min(2) } else { all }
    }

    /// Deployments and such that must be rolled out before this one.
    pub fn dependencies(&self) -> impl Iterator<Item = &'static str> {
        self.needs_api.then_some("kube-apiserver").into_iter().chain(self.after.iter().copied())
    }
}

/// Programs that come in another image than the one of their name.
const ALIASES: [(&str, &str); 4] = [
    ("controlplane-operator", "hypershift"),
    ("controlplane-pki-operator", "hypershift"),
    ("socks5-proxy", "hypershift"),
    ("catalogs", "operator-registry"),
];

/// An image by its key: ours, the cluster's own choice, or the release's.
pub fn image(scope: &Scope, key: &str) -> Option<String> {
    if key == "zaffre" {
        return Some(scope.release.ours.clone());
    }
    if let Some(catalog) = key.strip_prefix("catalogs:") {
        return Some(catalogs::image(scope, catalog));
    }
    if key == "cluster-autoscaler"
        && let Some(chosen) = scope.annotation("cluster-autoscaler-image").filter(|i| !i.is_empty())
    {
        return Some(chosen.to_owned());
    }
    let over = scope.annotation("image-overrides").unwrap_or_default();
    let over = over.split(',').filter_map(|o| o.split_once('=')).find(|(k, _)| *k == key).map(|(_, v)| v);
    let alias = ALIASES.iter().find(|(from, _)| *from == key).map_or(key, |(_, to)| *to);
    over.map(str::to_owned).or_else(|| scope.release.images.get(alias).cloned())
}
