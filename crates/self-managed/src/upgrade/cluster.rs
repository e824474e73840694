//! Upgrades of a control plane.

use super::facts::{Facts, Known, Workload};
use super::{Check, Plan, Roll, Verdict, at, common, condition, direction, history, is};
use apis::conditions::hosted_cluster as on;
use apis::version::{Version, check_skew};
use serde_json::Value;

/// More minors than this at once lose migrations in between.
const MINORS: u32 = 1;

pub(super) fn plan(facts: &Facts) -> Plan {
    let cluster = &facts.cluster;
    let (done, going) = history(cluster);
    let to = &facts.release.version;
    let mut checks = common(facts, cluster, "hostedcluster");
    checks.push(direction(done.as_ref(), to));
    checks.extend(done.as_ref().and_then(|from| jump(from, to)));
    let objects = objects(cluster, done.as_ref(), to);
    checks.push(
        objects
            .clone()
            .unwrap_or_else(|| Check::passed("upgradeable", upgradeable(cluster, done.as_ref(), to))),
    );
    checks.push(progress(cluster, going.as_deref(), to));
    checks.push(health(cluster));
    checks.extend(facts.pools.iter().filter_map(|p| skew(p, to)));
    checks.push(room(facts));
    let nothing = at(cluster, "/spec/release/image") == facts.release.image;
    Plan {
        kind: "HostedCluster",
        namespace: at(cluster, "/metadata/namespace").to_owned(),
        name: at(cluster, "/metadata/name").to_owned(),
        from: done.map(|v| v.to_string()).unwrap_or_default(),
        to: to.to_string(),
        image: facts.release.image.clone(),
        nothing,
        checks,
        rolls: rolls(facts),
        objects: objects.is_some(),
    }
}

fn jump(from: &Version, to: &Version) -> Option<Check> {
    let ahead = to.ordinal().saturating_sub(from.ordinal());
    if ahead <= MINORS {
        return None;
    }
    let next = match from.ordinal() + 1 {
        n if n >= 23 => format!("5.{}", n - 23),
        n => format!("4.{n}"),
    };
    let found = format!("{from} to {to} skips {} minors, and what they would have migrated", ahead - MINORS);
    Some(Check::new("steps", Verdict::Refused, found, format!("go to a {next} first")))
}

fn upgradeable(cluster: &Value, from: Option<&Version>, to: &Version) -> &'static str {
    match (from.is_some_and(|f| f.same_minor(to)), is(cluster, on::CLUSTER_VERSION_UPGRADEABLE, "False")) {
        (true, true) => "the cluster objects to new minors, and this is none",
        (true, false) => "within one minor",
        _ => "the cluster does not object",
    }
}

/// The cluster says that it must not change its minor.
fn objects(cluster: &Value, from: Option<&Version>, to: &Version) -> Option<Check> {
    let said = condition(cluster, on::CLUSTER_VERSION_UPGRADEABLE).filter(|c| c["status"] == "False")?;
    if from.is_some_and(|f| f.same_minor(to)) || cluster["spec"]["controlPlaneRelease"].is_object() {
        return None;
    }
    let found = format!("the cluster is not upgradeable: {} ({})", at(said, "/message"), at(said, "/reason"));
    Some(Check::new("upgradeable", Verdict::Refused, found, "resolve that, or insist with --force"))
}

fn progress(cluster: &Value, going: Option<&str>, to: &Version) -> Check {
    const NAME: &str = "progress";
    match going {
        Some(v) if v == to.to_string() => Check::passed(NAME, format!("on its way to {v} already")),
        Some(v) if !v.is_empty() => {
            let name = at(cluster, "/metadata/name");
            let fix = format!("wait: `zaffre status {name}`; --force changes course midway");
            Check::new(NAME, Verdict::Refused, format!("an upgrade to {v} is under way"), fix)
        }
        _ => Check::passed(NAME, "no other upgrade is under way"),
    }
}

fn health(cluster: &Value) -> Check {
    const NAME: &str = "health";
    let (name, namespace) = (at(cluster, "/metadata/name"), at(cluster, "/metadata/namespace"));
    let fix = format!("`zaffre explain hostedcluster {name} -n {namespace}` says why");
    let message = |kind| condition(cluster, kind).map_or("", |c| at(c, "/message"));
    if !is(cluster, on::AVAILABLE, "True") {
        let found = format!("the control plane is not available: {}", message(on::AVAILABLE));
        return Check::new(NAME, Verdict::Refused, found, fix);
    }
    if is(cluster, on::DEGRADED, "True") {
        let found = format!("the control plane is degraded: {}", message(on::DEGRADED));
        return Check::new(NAME, Verdict::Risky, found, fix);
    }
    Check::passed(NAME, "available, not degraded")
}

/// Nodes that would be left too far behind.
fn skew(pool: &Value, to: &Version) -> Option<Check> {
    let nodes: Version = at(pool, "/status/version").parse().ok()?;
    let (name, namespace) = (at(pool, "/metadata/name"), at(pool, "/metadata/namespace"));
    match check_skew(&nodes, to) {
        Err(apis::version::SkewError::TooOld { behind, .. }) => Some(Check::new(
            "skew",
            Verdict::Refused,
            format!("nodes of pool {name} are {nodes}: {behind} minors behind {to}, and 3 are supported"),
            format!("`zaffre upgrade nodepool {name} -n {namespace} --to VERSION` first"),
        )),
        Err(apis::version::SkewError::Newer { .. }) | Ok(()) => None,
    }
}

fn gib(bytes: i64) -> f64 {
    bytes as f64 / f64::from(1 << 30)
}

/// Whether the largest pod that comes before its predecessor goes has a place.
fn room(facts: &Facts) -> Check {
    const NAME: &str = "capacity";
    let (workloads, room) = match (&facts.workloads, &facts.room) {
        (Known::Yes(w), Known::Yes(r)) => (w, r),
        (Known::No(why), _) | (_, Known::No(why)) => {
            return Check::new(NAME, Verdict::Unknown, why.clone(), "");
        }
    };
    let comes = |w: &&Workload| w.surges && w.changes && w.pods > 0;
    let homeless = workloads.iter().filter(comes).filter(|w| !room.free.iter().any(|f| w.demand.fits(*f)));
    match homeless.max_by_key(|w| (w.demand.memory, w.demand.cpu)) {
        Some(w) => Check::new(
            NAME,
            Verdict::Refused,
            format!(
                "no node of the management cluster has room for one more pod of {} ({} m CPU, {:.1} GiB)",
                w.name,
                w.demand.cpu,
                gib(w.demand.memory)
            ),
            "add a node to the management cluster, or take something away from it",
        ),
        None => Check::passed(NAME, format!("{} nodes have room for pods while they roll", room.free.len())),
    }
}

fn rolls(facts: &Facts) -> Vec<Roll> {
    let mut out = Vec::new();
    if let Known::Yes(workloads) = &facts.workloads {
        let changing = workloads.iter().filter(|w| w.changes && w.pods > 0);
        out.extend(changing.map(|w| Roll::Workload { name: w.name.clone(), pods: w.pods }));
    }
    out.extend(facts.pools.iter().map(|p| Roll::Stays {
        pool: at(p, "/metadata/name").to_owned(),
        nodes: p["status"]["replicas"].as_i64().unwrap_or(0),
        version: at(p, "/status/version").to_owned(),
    }));
    out
}
