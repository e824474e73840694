//! The status of a HostedCluster: one pure function, one write.
//!
//! Most conditions are the control plane's, under their own names; the rest are what this operator found. Nothing here
//! waits or asks: whoever calls has looked already.

mod links;
mod sizes;
mod versions;

pub use versions::{running, running_guest};

use crate::around::{NoRelease, Payload};
use crate::ingress::Exposed;
use crate::preflight::Verdict;
use crate::validate::release::Gate;
use crate::validate::{Problem, finding};
use apis::conditions::hosted_cluster::{self as c, MIRRORED, MIRRORED_IF_PRESENT};
use apis::conditions::reason;
use apis::hypershift::HostedCluster;
use apis::hypershift::services::ServiceType;
use control_plane::operate::Rollout;
use jiff::Timestamp;
use kube::core::DynamicObject;
use reconcile::Pause;
use reconcile::conditions::{Conditions, Finding, Status};
use serde_json::{Value, json};

/// What a pass has found.
pub struct Seen<'a> {
    pub hc: &'a HostedCluster,
    pub plane: Option<&'a DynamicObject>,
    pub links: &'a [std::sync::Arc<DynamicObject>],
    /// Where the newest snapshot of etcd is.
    pub snapshot: Option<String>,
    pub problems: &'a [Problem],
    /// Nothing: it was not looked up, for want of a pull secret.
    pub release: Option<&'a Result<Payload, NoRelease>>,
    pub gate: &'a Gate,
    pub pause: &'a Result<Pause, String>,
    /// Nothing: Azure was not asked.
    pub verdict: Option<&'a Verdict>,
    /// Whether there is somebody to ask Azure.
    pub asks: bool,
    pub ignition: Rollout,
    /// What its Route is called, if the management cluster's router named it.
    pub ignition_host: Option<String>,
    /// Why the pass failed.
    pub error: Option<&'a str>,
    /// Secrets that were copied back: kubeconfig, kubeconfig of the further name, password.
    pub back: [bool; 3],
    /// Nothing: clusters have no sizes here.
    pub size: Option<&'a crate::sizing::Decision>,
    /// Whether the public endpoint comes and goes; of others nothing is said of it.
    pub swift: bool,
    /// Nothing: that is not known yet.
    pub exposed: Option<Exposed>,
}

/// The whole status.
pub fn status(before: &DynamicObject, seen: &Seen<'_>, now: Timestamp) -> Value {
    let mut status = before.data.get("status").cloned().filter(Value::is_object).unwrap_or_else(|| json!({}));
    let generation = before.metadata.generation;
    let plane = seen.plane.map_or(&Value::Null, |p| &p.data["status"]);
    references(&mut status, seen, plane);
    versions::write(&mut status, seen, plane, generation, now);
    let mut all = Conditions::of(&status);
    mirrored(&mut all, plane, generation, now);
    for finding in own(seen, plane, &status) {
        all.set(finding, generation, now);
    }
    if !seen.swift {
        all.remove(c::PUBLIC_ENDPOINT_EXPOSED);
    }
    links::write(&mut all, seen, generation, now);
    if let Some(decision) = seen.size {
        sizes::write(&mut all, decision, generation, now);
    }
    status["conditions"] = all.to_value();
    status
}

/// Names and places.
fn references(status: &mut Value, seen: &Seen<'_>, plane: &Value) {
    let name = crate::naming::name(seen.hc);
    for (field, there, secret) in [
        ("kubeconfig", seen.back[0], apis::naming::admin_kubeconfig_secret(name)),
        ("customKubeconfig", seen.back[1], apis::naming::custom_kubeconfig_secret(name)),
        ("kubeadminPassword", seen.back[2], apis::naming::kubeadmin_password_secret(name)),
    ] {
        status[field] = if there { json!({"name": secret}) } else { Value::Null };
    }
    // It is there when the object that asked for it is long gone.
    if let Some(url) = &seen.snapshot {
        status["lastSuccessfulEtcdBackupURL"] = json!(url);
    }
    for field in
        ["controlPlaneEndpoint", "oauthCallbackURLTemplate", "platform", "configuration", "secretEncryption"]
    {
        if !plane[field].is_null() {
            status[field] = plane[field].clone();
        }
    }
    let ignition = seen.hc.spec.shared.services.iter().find(|s| s.service == ServiceType::Ignition);
    let host =
        ignition.and_then(|s| s.service_publishing_strategy.route.as_ref()).and_then(|r| r.hostname.as_ref());
    let host = host.or(seen.ignition_host.as_ref());
    if let Some(host) = host.filter(|_| seen.plane.is_some()) {
        status["ignitionEndpoint"] = json!(host);
    }
    if let Some(Ok(payload)) = seen.release
        && let Some(arch) = payload.arch
    {
        status["payloadArch"] = json!(arch);
    }
}

/// What the control plane says, under the names it has here.
fn mirrored(all: &mut Conditions, plane: &Value, generation: Option<i64>, now: Timestamp) {
    let theirs = Conditions::of(plane);
    let unknown = |kind: &str| {
        Finding::new(
            kind,
            Status::Unknown,
            reason::STATUS_UNKNOWN,
            "the control plane does not report it yet",
        )
    };
    let versions = [
        c::CLUSTER_VERSION_PROGRESSING,
        c::CLUSTER_VERSION_RELEASE_ACCEPTED,
        c::CLUSTER_VERSION_UPGRADEABLE,
        c::CLUSTER_VERSION_AVAILABLE,
    ];
    for kind in MIRRORED.iter().chain(&versions) {
        match theirs.get(kind) {
            Some(found) => _ = all.mirror(kind, Some(found), generation, now),
            None => _ = all.set(unknown(kind), generation, now),
        }
    }
    let present =
        [c::CLUSTER_VERSION_RETRIEVED_UPDATES, c::ETCD_RECOVERY_ACTIVE, c::CLOUD_RESOURCES_DESTROYED];
    for kind in MIRRORED_IF_PRESENT.iter().chain(&present) {
        match theirs.get(kind) {
            Some(found) => _ = all.mirror(kind, Some(found), generation, now),
            None => _ = all.remove(kind),
        }
    }
    match theirs.get(c::control_plane::CLUSTER_VERSION_FAILING) {
        // The same news from the other side.
        Some(failing) => {
            let mut succeeding = failing.clone();
            succeeding.status = match failing.status {
                Status::True => Status::False,
                Status::False => Status::True,
                Status::Unknown => Status::Unknown,
            };
            all.mirror(c::CLUSTER_VERSION_SUCCEEDING, Some(&succeeding), generation, now);
        }
        None => _ = all.set(unknown(c::CLUSTER_VERSION_SUCCEEDING), generation, now),
    }
}

/// What this operator found itself.
fn own(seen: &Seen<'_>, plane: &Value, status: &Value) -> Vec<Finding> {
    let mut out = vec![
        finding(c::SUPPORTED_HOSTED_CLUSTER, seen.problems, "it can be run here"),
        finding(c::VALID_CONFIGURATION, seen.problems, &configured(seen)),
        finding(c::VALID_PROXY_CONFIGURATION, seen.problems, "the proxy can be used"),
        release(seen),
        credentials(seen),
        active(seen.pause),
        ignition(seen),
        available(seen, plane),
        Finding::new(
            c::AUTO_NODE_ENABLED,
            Status::False,
            reason::AUTO_NODE_NOT_CONFIGURED,
            "nodes come from NodePools",
        ),
    ];
    if seen.hc.spec.etcd.unmanaged.is_some() {
        let mut etcd =
            finding(c::UNMANAGED_ETCD_AVAILABLE, seen.problems, "etcd that somebody else runs is configured");
        if etcd.status == Status::True {
            etcd.reason = reason::UNMANAGED_ETCD_AS_EXPECTED.to_owned();
        }
        out.push(etcd);
    }
    out.extend(seen.exposed.filter(|_| seen.swift).map(exposed));
    out.push(match seen.error {
        None => Finding::new(
            c::RECONCILIATION_SUCCEEDED,
            Status::True,
            reason::RECONCILIATION_SUCCEEDED,
            "all objects are as they should be",
        ),
        Some(why) => {
            Finding::new(c::RECONCILIATION_SUCCEEDED, Status::False, reason::RECONCILIATION_ERROR, why)
        }
    });
    let progress = progressing(seen, status, &out);
    out.push(progress);
    out
}

/// What is said of a configuration that can be used.
fn configured(seen: &Seen<'_>) -> String {
    let mut text = "the configuration makes sense".to_owned();
    for note in seen.verdict.iter().flat_map(|v| v.notes.iter().chain(&v.unread)) {
        text.push_str("; ");
        text.push_str(note);
    }
    text
}

fn exposed(exposed: Exposed) -> Finding {
    let kind = c::PUBLIC_ENDPOINT_EXPOSED;
    match exposed {
        Exposed::Open => Finding::new(
            kind,
            Status::True,
            reason::SHARED_INGRESS_CONFIGURED,
            "the shared ingress leads to the API",
        ),
        Exposed::Shut => Finding::new(
            kind,
            Status::False,
            reason::TOPOLOGY_PRIVATE,
            "the cluster is private: the shared ingress does not lead to it",
        ),
        Exposed::Converging => Finding::new(
            kind,
            Status::Unknown,
            reason::CONVERGENCE_IN_PROGRESS,
            "the shared ingress is not rolled out with what the topology asks for yet",
        ),
    }
}

fn release(seen: &Seen<'_>) -> Finding {
    let kind = c::VALID_RELEASE_IMAGE;
    match seen.release {
        Some(Err(NoRelease::Unreachable(why))) => Finding::new(
            kind,
            Status::Unknown,
            reason::STATUS_UNKNOWN,
            format!("the release cannot be looked up: {why}; it is tried again"),
        ),
        _ => finding(kind, seen.problems, "the release can be used"),
    }
}

fn credentials(seen: &Seen<'_>) -> Finding {
    let kind = c::PLATFORM_CREDENTIALS_FOUND;
    match seen.verdict {
        Some(v) if !v.identities.is_empty() => {
            Finding::new(kind, Status::False, reason::PLATFORM_CREDENTIALS_NOT_FOUND, v.identities.join("; "))
        }
        Some(v) if !v.unknown.is_empty() => Finding::new(
            kind,
            Status::Unknown,
            reason::AZURE_ERROR,
            format!("Azure cannot be asked: {}; it is tried again", v.unknown.join("; ")),
        ),
        Some(_) => Finding::new(
            kind,
            Status::True,
            reason::AS_EXPECTED,
            "all identities exist and may do their work",
        ),
        None if seen.asks && seen.problems.iter().any(|p| p.condition != kind) => Finding::new(
            kind,
            Status::Unknown,
            reason::STATUS_UNKNOWN,
            "Azure is asked about identities when the rest of what was asked for is right",
        ),
        None => {
            finding(kind, seen.problems, "all identities are named; nobody here can ask Azure about them")
        }
    }
}

fn active(pause: &Result<Pause, String>) -> Finding {
    let kind = c::RECONCILIATION_ACTIVE;
    match pause {
        Ok(Pause::No) => Finding::new(kind, Status::True, reason::AS_EXPECTED, "the cluster is looked after"),
        Ok(Pause::Until(t)) => Finding::new(
            kind,
            Status::False,
            reason::RECONCILIATION_PAUSED,
            format!("paused until {t}: nothing is changed; remove spec.pausedUntil to go on"),
        ),
        Ok(Pause::Forever) => Finding::new(
            kind,
            Status::False,
            reason::RECONCILIATION_PAUSED,
            "paused: nothing is changed; remove spec.pausedUntil to go on",
        ),
        // As upstream has it: what cannot be read pauses nothing.
        Err(why) => Finding::new(kind, Status::True, reason::INVALID_PAUSED_UNTIL_VALUE, why.clone()),
    }
}

fn ignition(seen: &Seen<'_>) -> Finding {
    let kind = c::IGNITION_ENDPOINT_AVAILABLE;
    let r = &seen.ignition;
    match (r.there, r.available) {
        (true, true) => {
            Finding::new(kind, Status::True, reason::AS_EXPECTED, "nodes can fetch their configuration")
        }
        (true, false) => Finding::new(
            kind,
            Status::False,
            reason::WAITING_FOR_AVAILABLE,
            format!("Deployment ignition-server has {} of {} replicas", r.ready, r.wanted),
        ),
        (false, _) => Finding::new(
            kind,
            Status::False,
            reason::NOT_FOUND,
            "Deployment ignition-server is not there yet",
        ),
    }
}

fn available(seen: &Seen<'_>, plane: &Value) -> Finding {
    let theirs = Conditions::of(plane);
    match theirs.get(c::AVAILABLE) {
        Some(x) if x.status == Status::True => Finding::new(
            c::AVAILABLE,
            Status::True,
            reason::AS_EXPECTED,
            "the hosted control plane is available",
        ),
        Some(x) => Finding::new(c::AVAILABLE, Status::False, &x.reason, x.message.clone()),
        None => {
            let what = match seen.plane {
                Some(_) => "the control plane has not reported yet",
                None => "the control plane is not made yet",
            };
            let held = seen.problems.first().map(|p| format!("{what}: {}", p.message));
            Finding::new(
                c::AVAILABLE,
                Status::False,
                reason::WAITING_FOR_AVAILABLE,
                held.unwrap_or_else(|| what.to_owned()),
            )
        }
    }
}

/// What Progressing says of a cluster that is held by another condition.
fn blocked_by(bad: &Finding) -> Finding {
    Finding::new(
        c::PROGRESSING,
        Status::False,
        reason::BLOCKED,
        format!("{} is False: {}", bad.kind, bad.message),
    )
}

/// True while the control plane is not what the spec asks for.
fn progressing(seen: &Seen<'_>, status: &Value, own: &[Finding]) -> Finding {
    let kind = c::PROGRESSING;
    // A pause is above all; the rest as it is looked at.
    let mut blocking = vec![
        c::RECONCILIATION_ACTIVE,
        c::SUPPORTED_HOSTED_CLUSTER,
        c::VALID_CONFIGURATION,
        c::VALID_RELEASE_IMAGE,
        c::VALID_PROXY_CONFIGURATION,
        c::UNMANAGED_ETCD_AVAILABLE,
    ];
    // What Azure says keeps a cluster from being begun, and never stops one that runs.
    if seen.plane.is_none() {
        blocking.push(c::PLATFORM_CREDENTIALS_FOUND);
    }
    // What a cluster that runs bears does not block it, nor does what Azure says of its places.
    let places = seen.verdict.map(|v| v.places.as_slice()).unwrap_or_default();
    let borne = |kind: &str| {
        let mut why = seen.problems.iter().filter(|p| p.condition == kind).peekable();
        let bears = |p: &Problem| !p.stops() || places.contains(&p.message);
        seen.plane.is_some() && why.peek().is_some() && why.all(bears)
    };
    let bad =
        |kind: &&str| own.iter().find(|f| f.status == Status::False && f.kind == **kind && !borne(kind));
    if let Some(bad) = blocking.iter().find_map(bad) {
        return blocked_by(bad);
    }
    if let Gate::Closed(why) = seen.gate {
        return Finding::new(kind, Status::False, reason::BLOCKED, why.clone());
    }
    let wanted = seen.hc.spec.control_plane_release.as_ref().unwrap_or(&seen.hc.spec.release);
    let newest = &status["controlPlaneVersion"]["history"][0];
    let there = newest["image"] == wanted.image.as_str()
        || seen
            .release
            .filter(|_| seen.hc.spec.control_plane_release.is_none())
            .is_some_and(|r| r.as_ref().is_ok_and(|p| newest["image"] == p.release.image.as_str()));
    match there && newest["state"] == "Completed" {
        true => Finding::new(
            kind,
            Status::False,
            reason::AS_EXPECTED,
            "the control plane runs the wanted release",
        ),
        false => Finding::new(
            kind,
            Status::True,
            reason::PROGRESSING,
            format!("the control plane is on its way to {}", wanted.image),
        ),
    }
}

#[cfg(test)]
mod tests;
