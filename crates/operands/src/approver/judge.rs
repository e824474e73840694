//! Whether a request is approved; pure.

use super::Request;
use jiff::{SignedDuration, Timestamp};
use kube::core::DynamicObject;
use serde_json::Value;
use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;

const CLIENT: &str = "kubernetes.io/kube-apiserver-client-kubelet";
const SERVING: &str = "kubernetes.io/kubelet-serving";
/// Whom all machines are before they are somebody.
const BOOTSTRAPPER: &str = "system:serviceaccount:openshift-machine-config-operator:node-bootstrapper";
const BOOTSTRAPPERS: &str = "system:serviceaccounts:openshift-machine-config-operator";
/// A request that waits for longer is not looked at: whoever still wants it asks again.
const OLD: SignedDuration = SignedDuration::from_hours(1);
/// A machine becomes a node within this time after it stands, or not at all.
const BIRTH: SignedDuration = SignedDuration::from_hours(2);
/// Clocks differ.
const SKEW: SignedDuration = SignedDuration::from_secs(10);
/// So many requests may wait, besides one per machine and node.
const SPARE: usize = 100;

/// A Machine, as far as it matters here.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MachineFact {
    pub name: String,
    pub made: Timestamp,
    /// Since when it stands: Azure may have kept it waiting for long (quota, allocation).
    pub stands: Option<Timestamp>,
    /// Names in lower case.
    pub names: BTreeSet<String>,
    pub addresses: BTreeSet<IpAddr>,
    pub node: Option<String>,
    pub deleting: bool,
}

impl MachineFact {
    pub fn read(o: &DynamicObject) -> MachineFact {
        let status = &o.data["status"];
        let mut fact = MachineFact {
            name: o.metadata.name.clone().unwrap_or_default(),
            made: o.metadata.creation_timestamp.as_ref().map(|t| t.0).unwrap_or_default(),
            stands: stands(status),
            node: status["nodeRef"]["name"].as_str().map(str::to_owned),
            deleting: o.metadata.deletion_timestamp.is_some(),
            ..MachineFact::default()
        };
        for a in status["addresses"].as_array().into_iter().flatten() {
            let text = a["address"].as_str().unwrap_or_default();
            match a["type"].as_str().unwrap_or_default() {
                "InternalDNS" | "ExternalDNS" | "Hostname" => {
                    _ = fact.names.insert(text.to_ascii_lowercase())
                }
                "InternalIP" | "ExternalIP" => fact.addresses.extend(text.parse::<IpAddr>()),
                _ => {}
            }
        }
        fact
    }

    /// Whether a request for this node depends on it.
    pub fn is_or_will_be(&self, node: &str) -> bool {
        self.names.contains(node) || self.node.as_deref() == Some(node)
    }
}

/// Since when a Machine's infrastructure is ready, if it says so.
fn stands(status: &Value) -> Option<Timestamp> {
    let lists = [&status["conditions"], &status["v1beta2"]["conditions"]];
    let all = lists.into_iter().filter_map(|l| l.as_array()).flatten();
    let ready = all.filter(|c| c["type"] == "InfrastructureReady" && c["status"] == "True");
    ready.filter_map(|c| c["lastTransitionTime"].as_str()?.parse().ok()).max()
}

/// An identity that was given to a machine: for which node, to whose key, and when that asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Given {
    pub node: String,
    pub key: Vec<u8>,
    pub made: Timestamp,
}

impl Given {
    /// Of a request that is or will be approved; nothing if it is none of a machine that wants to be a node.
    pub fn of(request: &Request) -> Option<Given> {
        let first = request.signer == CLIENT && request.username == BOOTSTRAPPER;
        let node = request.node().filter(|_| first)?.to_owned();
        Some(Given { node, key: request.key.clone(), made: request.made })
    }
}

/// Everything that counts.
pub struct Case<'a> {
    pub request: &'a Request,
    /// Identities that were given, to whomever.
    pub given: &'a [Given],
    pub machines: &'a [Arc<MachineFact>],
    /// How many nodes there are.
    pub nodes: usize,
    /// Whether the node that is asked for exists.
    pub is_node: bool,
    /// Requests that wait, this one included.
    pub pending: usize,
    pub now: Timestamp,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// For this Machine.
    Approve(String),
    /// Left undecided, and why.
    Refuse(String),
    /// Too many wait: something is wrong, and none is approved until there are fewer.
    Crowded(String),
    /// Others decide about such requests.
    NotOurs,
}

pub fn judge(case: &Case<'_>) -> Verdict {
    let r = case.request;
    if r.signer != CLIENT && r.signer != SERVING {
        return Verdict::NotOurs;
    }
    let most = case.machines.len().max(case.nodes) + SPARE;
    if case.pending > most {
        return Verdict::Crowded(format!(
            "{} requests wait, and with {} machines at most {most} should; none is approved until there are fewer",
            case.pending,
            case.machines.len()
        ));
    }
    if r.made.checked_add(OLD).is_ok_and(|end| end < case.now) {
        return Verdict::Refuse(
            "the request is older than an hour; the machine asks again if it still wants it".into(),
        );
    }
    let Some(node) = r.node().filter(|_| r.organizations == ["system:nodes"]) else {
        return Verdict::Refuse("the subject is not CN=system:node:<name>, O=system:nodes".into());
    };
    let outcome = match r.signer.as_str() {
        CLIENT if r.username == format!("system:node:{node}") => return Verdict::NotOurs,
        CLIENT => client(case, node),
        _ => serving(case, node),
    };
    outcome.map_or_else(Verdict::Refuse, Verdict::Approve)
}

fn usages(r: &Request, own: &str) -> Result<(), String> {
    let fits = |u: &String| u == own || u == "digital signature" || u == "key encipherment";
    match r.usages.contains(own) && r.usages.iter().all(fits) {
        true => Ok(()),
        false => Err(format!("usages {:?} are not those of a node's certificate ({own})", r.usages)),
    }
}

/// A machine asks to become a node.
fn client(case: &Case<'_>, node: &str) -> Result<String, String> {
    let r = case.request;
    if r.username != BOOTSTRAPPER || !r.groups.contains(BOOTSTRAPPERS) {
        return Err(format!(
            "{:?} may not ask for a node's identity; machines ask as {BOOTSTRAPPER}",
            r.username
        ));
    }
    usages(r, "client auth")?;
    if !r.dns.is_empty() || !r.addresses.is_empty() || r.other_names {
        return Err("a client's certificate has no alternative names".into());
    }
    let machine = expected(case, node)?;
    if let Some(there) = &machine.node {
        return Err(format!("Machine {} already is node {there}; an identity is given once", machine.name));
    }
    if case.is_node {
        return Err(format!("node {node} exists already; an identity is given once"));
    }
    if machine.deleting {
        return Err(format!("Machine {} is being deleted", machine.name));
    }
    let from = machine.made.checked_sub(SKEW).unwrap_or(Timestamp::MIN);
    let stands = machine.stands.map_or(machine.made, |s| s.max(machine.made));
    let to = stands.checked_add(BIRTH).unwrap_or(Timestamp::MAX);
    if r.made < from || r.made > to {
        return Err(format!(
            "the request of {} was not made within two hours of Machine {} (made {}, stands since {stands})",
            r.made, machine.name, machine.made
        ));
    }
    // One that is older was for another machine of that name.
    let other = |g: &&Given| g.node == node && g.made >= from && g.key != r.key;
    if let Some(given) = case.given.iter().find(other) {
        return Err(format!(
            "the identity of {node} was given to another key, asked for at {}; an identity is given once. A machine that starts again asks with the key on its disk: one whose disk was replaced before it joined is to be deleted (Machine {}), and another takes its place",
            given.made, machine.name
        ));
    }
    Ok(machine.name.clone())
}

/// A node asks to be believed by the API server.
fn serving(case: &Case<'_>, node: &str) -> Result<String, String> {
    let r = case.request;
    if r.username != format!("system:node:{node}") || !r.groups.contains("system:nodes") {
        return Err(format!("{:?} is not node {node}, whose certificate it asks for", r.username));
    }
    usages(r, "server auth")?;
    if r.other_names || (r.dns.is_empty() && r.addresses.is_empty()) {
        return Err("a server's certificate has names or addresses, and nothing else".into());
    }
    let machine = match case.machines.iter().find(|m| m.node.as_deref() == Some(node)) {
        Some(m) => m,
        None => expected(case, node)?,
    };
    let known = |d: &&String| !(machine.names.contains(*d) || d.as_str() == node);
    if let Some(name) = r.dns.iter().find(known) {
        return Err(format!("{name:?} is no name of Machine {} ({:?})", machine.name, machine.names));
    }
    if let Some(ip) = r.addresses.iter().find(|ip| !machine.addresses.contains(*ip)) {
        return Err(format!("{ip} is no address of Machine {} ({:?})", machine.name, machine.addresses));
    }
    Ok(machine.name.clone())
}

fn expected<'a>(case: &'a Case<'_>, node: &str) -> Result<&'a Arc<MachineFact>, String> {
    let mut fits = case.machines.iter().filter(|m| m.names.contains(node));
    let first = fits.next();
    match (first, fits.next()) {
        (Some(machine), None) => Ok(machine),
        (Some(a), Some(b)) => Err(format!("Machines {} and {} are both expected as {node}", a.name, b.name)),
        (None, _) => Err(format!("no Machine is expected as {node}: none has that name among its addresses")),
    }
}

#[cfg(test)]
#[path = "judge_tests.rs"]
mod tests;
