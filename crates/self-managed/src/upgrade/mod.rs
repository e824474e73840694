//! Upgrades: whether one may begin, and what it will do.
//!
//! ```text
//! facts (read by the caller) ─> plan() ─> checks: passed, unknown, risky, refused (each with the way out)
//!                                     └─> what rolls: workloads of the control plane, nodes of a pool
//! ```
//!
//! An upgrade is one field, `spec.release.image`; everything that can be known to go wrong is known before it is
//! changed. What is refused here either would be refused by the operators later (skew, a cluster that objects, minors that go
//! back), or would hang (a drain that a PodDisruptionBudget never allows, no quota for the extra node). `--force` takes the
//! second kind of refusal, and says the word (annotation `force-upgrade-to`) that operators want for the first; what can
//! never work ([`Verdict::Impossible`]) cannot be forced.
//!
//! Rejected: upgrading node pools with their cluster. Control plane and nodes are two decisions with two risks, and nodes
//! may stay three minors behind.

mod cluster;
mod facts;
mod pool;
mod tags;
mod text;

pub use facts::{Budget, Demand, Facts, Guest, Known, Quota, Release, Room, Target, Workload};
pub use tags::candidates;
pub use text::text;

use apis::names::annotation;
use apis::version::Version;
use serde::Serialize;
use serde_json::{Value, json};

/// What a check found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Verdict {
    Passed,
    /// Nobody could say.
    Unknown,
    /// It may go on, and somebody should look.
    Risky,
    /// It must not begin, unless somebody insists.
    Refused,
    /// Nobody can insist on this.
    Impossible,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Check {
    pub check: &'static str,
    pub verdict: Verdict,
    pub found: String,
    /// What to do about it; empty when there is nothing to do.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub fix: String,
}

impl Check {
    fn new(check: &'static str, verdict: Verdict, found: impl Into<String>, fix: impl Into<String>) -> Check {
        Check { check, verdict, found: found.into(), fix: fix.into() }
    }

    fn passed(check: &'static str, found: impl Into<String>) -> Check {
        Check::new(check, Verdict::Passed, found, "")
    }
}

/// What is replaced, in the order in which it is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase", tag = "what")]
pub enum Roll {
    /// Pods of a control plane.
    Workload { name: String, pods: i64 },
    /// Nodes of a pool.
    #[serde(rename_all = "camelCase")]
    Nodes {
        pool: String,
        nodes: i64,
        how: &'static str,
        /// More nodes than there are now, while it lasts.
        surge: i64,
        /// Fewer nodes than there are now, while it lasts.
        unavailable: i64,
    },
    /// Nodes that stay as they are until their pool is upgraded.
    Stays { pool: String, nodes: i64, version: String },
}

/// What would happen.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Plan {
    pub kind: &'static str,
    pub namespace: String,
    pub name: String,
    pub from: String,
    pub to: String,
    pub image: String,
    /// Nothing is to be changed: this is what is wanted already.
    pub nothing: bool,
    pub checks: Vec<Check>,
    pub rolls: Vec<Roll>,
    /// The cluster objects, and only this annotation makes it go on.
    #[serde(skip)]
    objects: bool,
}

impl Plan {
    /// What stands in the way, given whether somebody insists.
    pub fn blockers(&self, force: bool) -> Vec<&Check> {
        let stops =
            |c: &&Check| c.verdict == Verdict::Impossible || (c.verdict == Verdict::Refused && !force);
        self.checks.iter().filter(stops).collect()
    }

    /// The one change. `version` is that of the object that was judged: another one has to be judged again.
    pub fn patch(&self, version: &str, force: bool) -> Value {
        let mut patch =
            json!({"metadata": {"resourceVersion": version}, "spec": {"release": {"image": self.image}}});
        if self.objects && force {
            patch["metadata"]["annotations"] = json!({annotation::FORCE_UPGRADE_TO: self.image});
        }
        patch
    }
}

/// Judges.
pub fn plan(facts: &Facts) -> Plan {
    match &facts.target {
        Target::Cluster => cluster::plan(facts),
        Target::NodePool(name) => pool::plan(facts, name),
    }
}

fn at<'a>(object: &'a Value, path: &str) -> &'a str {
    object.pointer(path).and_then(Value::as_str).unwrap_or_default()
}

fn condition<'a>(object: &'a Value, kind: &str) -> Option<&'a Value> {
    object["status"]["conditions"].as_array().into_iter().flatten().find(|c| c["type"] == kind)
}

fn is(object: &Value, kind: &str, status: &str) -> bool {
    condition(object, kind).is_some_and(|c| c["status"] == status)
}

/// Whether reconciliation rests, by `true` or by a time that is yet to come.
fn paused(object: &Value) -> Option<&str> {
    Some(at(object, "/spec/pausedUntil")).filter(|v| !v.is_empty() && !v.eq_ignore_ascii_case("false"))
}

/// Versions of a cluster, newest first: which it reached, and which it is on its way to.
fn history(cluster: &Value) -> (Option<Version>, Option<String>) {
    let read = |path: &str| cluster.pointer(path).and_then(Value::as_array).cloned().unwrap_or_default();
    // The control plane's own history, where there is one: nodes may take longer.
    let mut entries = read("/status/controlPlaneVersion/history");
    if entries.is_empty() {
        entries = read("/status/version/history");
    }
    let done =
        entries.iter().filter(|h| h["state"] == "Completed").filter_map(|h| at(h, "/version").parse().ok());
    let going = entries.first().filter(|h| h["state"] == "Partial").map(|h| at(h, "/version").to_owned());
    (done.max(), going)
}

/// The newest version that a cluster has completed; its nodes are never newer.
pub fn completed(cluster: &Value) -> Option<Version> {
    history(cluster).0
}

/// Checks that hold for clusters and pools alike.
fn common(facts: &Facts, object: &Value, kind: &str) -> Vec<Check> {
    let mut out = Vec::new();
    let name = at(object, "/metadata/name");
    if object["metadata"]["deletionTimestamp"].is_string() {
        let fix = "upgrade another, or make a new one";
        out.push(Check::new("state", Verdict::Impossible, format!("{name} is being deleted"), fix));
    }
    if let Some(until) = paused(object) {
        let found = format!("{name} is paused (spec.pausedUntil: {until}), so nothing would happen");
        let namespace = at(object, "/metadata/namespace");
        let fix = format!(
            "`kubectl patch {kind} {name} -n {namespace} --type merge -p '{{\"spec\":{{\"pausedUntil\":null}}}}'`"
        );
        out.push(Check::new("paused", Verdict::Refused, found, fix));
    }
    let Release { image, version, .. } = &facts.release;
    match &facts.asked {
        Some(asked) if asked != version => out.push(Check::new(
            "release",
            Verdict::Impossible,
            format!("{image} is {version}, and {asked} was asked for (--to)"),
            "name the image of that version with --release-image, or the version that it is with --to",
        )),
        _ => out.push(Check::passed("release", format!("{image} is readable, and is {version}"))),
    }
    let skips = object["metadata"]["annotations"][annotation::SKIP_RELEASE_IMAGE_VALIDATION].is_string();
    if !version.supported() && !skips {
        let all = apis::version::supported();
        let found = format!(
            "{version} is not supported: {} to {} are",
            all.last().map_or("", String::as_str),
            all.first().map_or("", String::as_str)
        );
        out.push(Check::new(
            "supported",
            Verdict::Impossible,
            found,
            "use a version in between, or a newer operator",
        ));
    }
    out
}

/// Whether the way from one version to another leads forward.
fn direction(from: Option<&Version>, to: &Version) -> Check {
    const NAME: &str = "direction";
    match from {
        Some(from) if to.ordinal() < from.ordinal() => Check::new(
            NAME,
            Verdict::Impossible,
            format!("{to} is older than {from}, and minors cannot go back"),
            format!("use {} or newer", from.stream()),
        ),
        Some(from) if to < from => Check::new(
            NAME,
            Verdict::Refused,
            format!("{to} is older than {from}"),
            "patches are not meant to go back; --force if you know why they should",
        ),
        Some(from) => Check::passed(NAME, format!("{from} to {to}")),
        None => Check::new(NAME, Verdict::Unknown, "no version was ever complete", ""),
    }
}
