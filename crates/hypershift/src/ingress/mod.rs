//! The shared ingress: one balancer and one router for all public clusters of the managed flavour.
//!
//! ```text
//! clients, by the name in their TLS greeting ──> 443  ─┐
//!                                                      ├─ router ──> Services in the namespaces of control planes
//! nodes, by their cluster's id (PROXY protocol 2, ────> 6443 ─┘
//! TLV 0x20), whatever name they ask for
//! ```
//!
//! Nodes say whose they are because what runs on them calls the API `kubernetes.default`, or by an address, and so by a
//! name that every cluster has. TLS is never opened. Who may call an API (`allowedCIDRBlocks`) is decided by where a
//! connection comes from; the PROXY header is written by the caller and proves nothing.
//!
//! A [`Front`] is what one cluster puts into it. Every text that ends up in the router's configuration is checked here, and
//! a cluster with one that is not what it should be is left out: no cluster may be the end of all others. If two clusters
//! claim a name, the older one has it.
//!
//! Rejected: names of Services in the configuration (a router that starts while one cannot be resolved does not start),
//! and all ranges of a cluster in one line (a line has at most 64 words, and a cluster may have 500 ranges).

mod exposed;
mod render;
#[cfg(test)]
mod tests;

pub use exposed::{Exposed, Rolled, led_to, swift};
pub use render::{HASH, configuration, hash, objects};

use crate::validate::network;
use apis::hypershift::HostedCluster;
use apis::hypershift::platform::Topology;
use jiff::Timestamp;
use kube::core::DynamicObject;
use std::collections::{HashMap, HashSet};
use std::net::IpAddr;

/// Where it lives.
pub const NAMESPACE: &str = "hypershift-sharedingress";
/// What everything of it is called.
pub const ROUTER: &str = "router";
/// The Service of every control plane that nodes reach.
const API: &str = "kube-apiserver";

/// What the ingress has to know of a HostedCluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Front {
    /// Namespace of its control plane.
    pub plane: String,
    pub made: Timestamp,
    pub cluster_id: String,
    /// Who may call its API; everybody if empty.
    pub allowed: Vec<String>,
    /// A further name of its API.
    pub name: Option<String>,
}

/// A Route of a control plane.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Published {
    pub plane: String,
    pub route: String,
    pub host: String,
    pub service: String,
}

/// A Service of a control plane.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    pub plane: String,
    pub service: String,
    pub address: IpAddr,
    /// Its first port. A port that a Route names would be one of the pods', and it is the Service that is dialled.
    pub port: u16,
}

/// Whether a cluster is reached through the shared ingress.
pub fn shared(hc: &HostedCluster) -> bool {
    hc.spec
        .shared
        .platform
        .azure
        .as_ref()
        .is_some_and(|a| a.azure_authentication_config.is_managed() && a.topology() != Topology::Private)
}

fn host(text: &str) -> bool {
    let part = |p: &str| {
        (1..=63).contains(&p.len())
            && !p.starts_with('-')
            && !p.ends_with('-')
            && p.chars().all(|c| c.is_ascii_alphanumeric() || c == '-')
    };
    text.len() <= 253 && text.split('.').all(part)
}

fn word(text: &str) -> bool {
    (1..=63).contains(&text.len()) && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '-')
}

impl Front {
    /// Nothing for clusters that are not behind it, that go, or that say something that cannot be used.
    pub fn of(o: &DynamicObject) -> Option<Front> {
        // Asked of every change of every cluster: what can be told without reading all of it is told first.
        let identities = &o.data["spec"]["platform"]["azure"]["azureAuthenticationConfig"];
        if o.metadata.deletion_timestamp.is_some()
            || identities["azureAuthenticationConfigType"] != "ManagedIdentities"
        {
            return None;
        }
        let hc: HostedCluster = serde_json::from_value(serde_json::to_value(o).ok()?).ok()?;
        if !shared(&hc) {
            return None;
        }
        let api = hc.spec.networking.api_server.as_ref();
        let blocks = api.and_then(|a| a.allowed_cidr_blocks.as_ref()).into_iter().flatten();
        let allowed: Vec<String> = blocks.map(|c| c.0.clone()).filter(|c| !c.is_empty()).collect();
        // One that cannot be read must not become "everybody".
        let ranges = allowed.iter().all(|c| network::is_range(c));
        let name = hc.spec.shared.kube_api_server_dns_name.clone().filter(|n| !n.is_empty());
        let front = Front {
            plane: crate::naming::namespace(&hc),
            made: o.metadata.creation_timestamp.as_ref()?.0,
            cluster_id: hc.spec.cluster_id.clone()?,
            allowed,
            name,
        };
        let good = ranges && word(&front.cluster_id) && front.name.as_deref().is_none_or(host);
        good.then_some(front)
    }
}

impl Published {
    /// Nothing for Routes of the private router, and for those that have no name yet.
    pub fn of(o: &DynamicObject) -> Option<Published> {
        let labels = o.metadata.labels.as_ref();
        let private = labels.and_then(|l| l.get(apis::names::label::ROUTE_VISIBILITY));
        if private.is_some_and(|v| v == "private") {
            return None;
        }
        let spec = &o.data["spec"];
        let found = Published {
            plane: o.metadata.namespace.clone()?,
            route: o.metadata.name.clone()?,
            host: spec["host"].as_str()?.to_ascii_lowercase(),
            service: spec["to"]["name"].as_str()?.to_owned(),
        };
        (host(&found.host) && word(&found.route) && word(&found.service)).then_some(found)
    }
}

impl Target {
    /// Nothing while a Service has no address.
    pub fn of(o: &DynamicObject) -> Option<Target> {
        let spec = &o.data["spec"];
        Some(Target {
            plane: o.metadata.namespace.clone()?,
            service: o.metadata.name.clone()?,
            address: spec["clusterIP"].as_str()?.parse().ok()?,
            port: spec["ports"][0]["port"].as_u64().and_then(|p| u16::try_from(p).ok())?,
        })
    }
}

/// One way through the router.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Way {
    /// Of its backend.
    pub name: String,
    /// The id of a cluster, or the name of a host.
    pub by: String,
    pub to: (IpAddr, u16),
    pub allowed: Vec<String>,
}

/// All ways.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ways {
    /// By the cluster's id.
    pub nodes: Vec<Way>,
    /// By name.
    pub names: Vec<Way>,
}

impl Ways {
    /// From what there is. What has no address yet is left out until it has.
    pub fn of(fronts: &[Front], published: &[Published], targets: &[Target]) -> Ways {
        let targets: HashMap<(&str, &str), &Target> =
            targets.iter().map(|t| ((t.plane.as_str(), t.service.as_str()), t)).collect();
        let at = |plane, service| targets.get(&(plane, service)).copied();
        let mut by_plane: HashMap<&str, Vec<&Published>> = HashMap::new();
        for p in published {
            by_plane.entry(&p.plane).or_default().push(p);
        }
        let mut sorted: Vec<&Front> = fronts.iter().collect();
        sorted.sort_by(|a, b| (a.made, &a.plane).cmp(&(b.made, &b.plane)));
        let mut ways = Ways::default();
        // Who had a name, or an id, first.
        let (mut names, mut ids) = (HashSet::new(), HashSet::new());
        for front in sorted {
            let api = at(front.plane.as_str(), API);
            if let Some(api) = api
                && ids.insert(front.cluster_id.as_str())
            {
                ways.nodes.push(Way {
                    name: format!("{}_nodes", front.plane),
                    by: front.cluster_id.clone(),
                    to: (api.address, api.port),
                    allowed: front.allowed.clone(),
                });
            }
            let mut own = by_plane.remove(front.plane.as_str()).unwrap_or_default();
            own.sort_by(|a, b| a.route.cmp(&b.route));
            for p in own {
                let Some(target) = at(p.plane.as_str(), p.service.as_str()) else { continue };
                if names.insert(p.host.as_str()) {
                    ways.names.push(Way {
                        name: format!("{}_name_{}", front.plane, p.route),
                        by: p.host.clone(),
                        to: (target.address, target.port),
                        allowed: if p.service == API { front.allowed.clone() } else { Vec::new() },
                    });
                }
            }
            if let (Some(name), Some(api)) = (&front.name, api)
                && names.insert(name.as_str())
            {
                ways.names.push(Way {
                    name: format!("{}_custom", front.plane),
                    by: name.clone(),
                    to: (api.address, api.port),
                    allowed: front.allowed.clone(),
                });
            }
        }
        ways
    }
}
