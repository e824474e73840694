//! What a pool must be before it is rolled. Pure.
//!
//! The definition refuses what one object shows; here is what takes its cluster, its release, or more than a pattern can
//! say. What is wrong is said in the condition that upstream says it in, with the field and the way out.

use super::machines::managed_label;
use super::name;
use crate::around::Payload;
use crate::validate::{Problem, release as of_cluster};
use apis::conditions::{node_pool as c, reason};
use apis::duration::go_duration;
use apis::hypershift::node_pool::{Arch, ReplaceStrategy};
use apis::hypershift::platform::PlatformType;
use apis::hypershift::status::PayloadArch;
use apis::hypershift::{HostedCluster, NodePool};
use apis::version::{SkewError, Version, check_skew};
use serde_json::Value;

fn problem(condition: &'static str, message: impl Into<String>) -> Problem {
    Problem { condition, reason: reason::VALIDATION_FAILED, message: message.into() }
}

/// Everything that one pool alone, and its cluster, show.
pub fn problems(np: &NodePool, hc: &HostedCluster) -> Vec<Problem> {
    let mut out = scaling(np);
    out.extend(management(np));
    out.extend(machine_template(np));
    out.extend(platform(np, hc));
    out
}

fn scaling(np: &NodePool) -> Vec<Problem> {
    let mut out = Vec::new();
    let spec = &np.spec;
    if spec.replicas.is_some() && spec.auto_scaling.is_some() {
        out.push(problem(
            c::AUTOSCALING_ENABLED,
            "spec.replicas and spec.autoScaling exclude each other: remove one",
        ));
    }
    if let Some(b) = &spec.auto_scaling
        && (b.min < 0 || b.max < b.min || b.max < 1)
    {
        let text = format!(
            "spec.autoScaling has min {} and max {}: min must be 0 or more, max 1 or more and at least min",
            b.min, b.max
        );
        out.push(problem(c::AUTOSCALING_ENABLED, text));
    }
    if spec.replicas.is_some_and(|n| n < 0) {
        out.push(problem(c::AUTOSCALING_ENABLED, "spec.replicas is negative: set it to 0 or more"));
    }
    out
}

fn management(np: &NodePool) -> Vec<Problem> {
    let mut out = Vec::new();
    let spec = &np.spec.management;
    let bad = |v: &apis::common::IntOrString| v.of(100, true).is_none();
    let steps = spec.replace.as_ref().and_then(|r| r.rolling_update.as_ref());
    let fields = [
        ("spec.management.replace.rollingUpdate.maxSurge", steps.and_then(|s| s.max_surge.as_ref())),
        (
            "spec.management.replace.rollingUpdate.maxUnavailable",
            steps.and_then(|s| s.max_unavailable.as_ref()),
        ),
        (
            "spec.management.inPlace.maxUnavailable",
            spec.in_place.as_ref().and_then(|i| i.max_unavailable.as_ref()),
        ),
    ];
    for (field, value) in fields {
        if let Some(value) = value.filter(|v| bad(v)) {
            let text = format!("{field} {value:?} is neither a count nor a percentage: write 1 or \"10%\"");
            out.push(problem(c::UPDATE_MANAGEMENT_ENABLED, text));
        }
    }
    let rolling = spec
        .replace
        .as_ref()
        .is_none_or(|r| r.strategy.unwrap_or_default() == ReplaceStrategy::RollingUpdate);
    let zero = |v: Option<&apis::common::IntOrString>| v.is_some_and(|v| v.of(100, true) == Some(0));
    if let Some(s) = steps.filter(|_| rolling && !super::machines::is_in_place(np))
        && zero(s.max_surge.as_ref())
        && zero(s.max_unavailable.as_ref())
    {
        out.push(problem(
            c::UPDATE_MANAGEMENT_ENABLED,
            "spec.management.replace.rollingUpdate.maxSurge and maxUnavailable are both 0: no machine could be replaced; raise one of them",
        ));
    }
    out
}

/// The name part of a label's key, and a label's value.
fn is_word(text: &str) -> bool {
    let ok = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    let ends = |c: Option<char>| c.is_some_and(|c| c.is_ascii_alphanumeric());
    text.len() <= 63 && text.chars().all(ok) && ends(text.chars().next()) && ends(text.chars().last())
}

fn is_domain(text: &str) -> bool {
    let part = |p: &str| {
        !p.is_empty()
            && p.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-')
            && !p.starts_with('-')
            && !p.ends_with('-')
    };
    text.len() <= 253 && text.split('.').all(part)
}

fn is_key(text: &str) -> bool {
    match text.split_once('/') {
        Some((domain, word)) => is_domain(domain) && is_word(word),
        None => is_word(text),
    }
}

/// What goes onto machines: names, labels, taints, timeouts.
fn machine_template(np: &NodePool) -> Vec<Problem> {
    let mut out = Vec::new();
    let mut bad = |text: String| out.push(problem(c::VALID_MACHINE_TEMPLATE, text));
    let pool = name(np);
    if pool.len() > 63 || !is_domain(pool) || pool.contains('.') {
        bad(format!(
            "the NodePool's name {pool:?} is also that of its machines and labels: it must be a DNS label of at most 63 characters; create another with a shorter name"
        ));
    }
    for (k, v) in np.spec.node_labels.iter().flatten() {
        if !is_key(k) {
            bad(format!(
                "spec.nodeLabels: {k:?} is not a label's key: write name or domain/name, the name of at most 63 letters, digits, -, _ and ."
            ));
        } else if !is_key(&managed_label(k)) {
            // It travels to the node behind a prefix.
            bad(format!(
                "spec.nodeLabels: {k:?} is too long for a key without a domain: at most 31 characters, or write domain/name"
            ));
        }
        if !v.is_empty() && !is_word(v) {
            bad(format!(
                "spec.nodeLabels: {v:?}, the value of {k}, is not a label's value: at most 63 letters, digits, -, _ and ."
            ));
        }
    }
    let mut seen = Vec::new();
    for (i, t) in np.spec.taints.iter().flatten().enumerate() {
        let value = t.value.as_deref().unwrap_or_default();
        if !is_key(&t.key) || !(value.is_empty() || is_word(value)) {
            bad(format!(
                "spec.taints[{i}] ({}={value}) is not a taint: key and value are those of labels",
                t.key
            ));
        }
        if seen.contains(&(&t.key, t.effect)) {
            bad(format!(
                "spec.taints[{i}] has the key and effect of another, {}:{}: keep one of them",
                t.key, t.effect
            ));
        }
        seen.push((&t.key, t.effect));
    }
    for (field, text) in [
        ("nodeDrainTimeout", &np.spec.node_drain_timeout),
        ("nodeVolumeDetachTimeout", &np.spec.node_volume_detach_timeout),
    ] {
        if let Some(text) = text.as_deref().filter(|t| go_duration(t).is_none()) {
            bad(format!("spec.{field} {text:?} is no duration: write one such as 10m or 1h30m"));
        }
    }
    out
}

fn platform(np: &NodePool, hc: &HostedCluster) -> Vec<Problem> {
    let mut out = Vec::new();
    let azure = np.spec.platform.azure.as_ref().filter(|_| np.spec.platform.type_ == PlatformType::Azure);
    let Some(azure) = azure else {
        let text = format!("spec.platform.type is {}: only Azure is supported here", np.spec.platform.type_);
        return vec![problem(c::VALID_PLATFORM_CONFIG, text)];
    };
    let vnet = hc.spec.shared.platform.azure.as_ref().map(|a| a.vnet_id.as_str()).unwrap_or_default();
    let own = azure.subnet_id.rsplit_once("/subnets/").map_or("", |(v, _)| v);
    if !own.eq_ignore_ascii_case(vnet) {
        let text = format!(
            "spec.platform.azure.subnetID is in the network {own}, and the HostedCluster is in {vnet}: create another NodePool with a subnet of that"
        );
        out.push(problem(c::VALID_PLATFORM_CONFIG, text));
    }
    if !matches!(np.spec.arch, Arch::Amd64 | Arch::Arm64) {
        out.push(Problem {
            condition: c::VALID_ARCH_PLATFORM,
            reason: reason::INVALID_ARCH_PLATFORM,
            message: format!("Azure has no machines of spec.arch {}: use amd64 or arm64", np.spec.arch),
        });
    }
    out
}

/// Whether the release has nodes of this architecture.
pub fn arch(np: &NodePool, hc: &HostedCluster, payload: &Payload) -> Option<Problem> {
    let cluster = hc.status.as_ref().and_then(|s| s.payload_arch);
    let of = payload.arch.or(cluster).unwrap_or(PayloadArch::Multi);
    let fits = match of {
        PayloadArch::Multi => true,
        other => other.as_str().eq_ignore_ascii_case(np.spec.arch.as_str()),
    };
    (!fits).then(|| Problem {
        condition: c::VALID_ARCH_PLATFORM,
        reason: reason::INVALID_ARCH_PLATFORM,
        message: format!(
            "the release is for {of}, and spec.arch is {}: use a multi-architecture release, or a NodePool of the release's architecture",
            np.spec.arch
        ),
    })
}

/// Whether the pool may come to this release: what holds for clusters, and no minor that its cluster has not reached.
/// `running` is what its nodes completed last.
pub fn release(
    np: &NodePool,
    hc: &HostedCluster,
    version: &str,
    running: Option<&Version>,
    cluster: Option<&Version>,
) -> Vec<Problem> {
    let image = &np.spec.release.image;
    let wanted: Version = match version.parse() {
        Ok(version) => version,
        Err(e) => return vec![problem(c::VALID_RELEASE_IMAGE, format!("spec.release.image {image}: {e}"))],
    };
    if of_cluster::unchecked(hc) {
        return Vec::new();
    }
    let mut out = of_cluster::reach(&format!("spec.release.image {image}"), &wanted, running);
    if let Some(most) = cluster.filter(|most| wanted.ordinal() > most.ordinal()) {
        out.push(format!(
            "spec.release.image {image} is {wanted}, newer than the cluster, {most}: upgrade the HostedCluster first, or use {}",
            most.stream()
        ));
    }
    out.into_iter().map(|message| problem(c::VALID_RELEASE_IMAGE, message)).collect()
}

/// The version that nodes may not be newer than: the newest that the cluster has completed, else the one it begins with.
pub fn cluster_version(status: &Value) -> Option<Version> {
    let read = |v: &Value| v.as_str().and_then(|t| t.parse::<Version>().ok());
    for field in ["version", "controlPlaneVersion"] {
        let history = status[field]["history"].as_array();
        let done = history.into_iter().flatten().filter(|h| h["state"] == "Completed");
        if let Some(newest) = done.filter_map(|h| read(&h["version"])).max() {
            return Some(newest);
        }
    }
    read(&status["version"]["desired"]["version"])
        .or_else(|| status["version"]["history"].as_array()?.iter().find_map(|h| read(&h["version"])))
}

/// Whether nodes of this version may belong to the cluster. Unknown versions are not judged.
pub fn skew(version: &str, cluster: Option<&Version>) -> Result<(), SkewError> {
    match (version.parse::<Version>(), cluster) {
        (Ok(nodes), Some(cluster)) => check_skew(&nodes, cluster),
        _ => Ok(()),
    }
}
