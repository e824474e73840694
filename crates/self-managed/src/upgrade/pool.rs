//! Upgrades of a node pool.

use super::facts::{Budget, Demand, Facts, Guest, Known, Quota};
use super::{Check, Plan, Roll, Verdict, at, common, direction, history, is};
use apis::conditions::node_pool as on;
use apis::version::{SkewError, Version, check_skew};
use serde_json::Value;

/// Budgets that are named; the rest are counted.
const NAMED: usize = 3;

/// How nodes are replaced.
pub(super) struct Manner {
    how: &'static str,
    surge: i64,
    unavailable: i64,
}

/// A number, or a share of the nodes.
fn share(value: &Value, nodes: i64, up: bool, default: i64) -> i64 {
    if let Some(n) = value.as_i64() {
        return n;
    }
    let percent = value.as_str().and_then(|s| s.strip_suffix('%')).and_then(|p| p.parse::<i64>().ok());
    match percent {
        Some(p) if up => (nodes * p + 99) / 100,
        Some(p) => nodes * p / 100,
        None => default,
    }
}

pub(super) fn manner(pool: &Value, nodes: i64) -> Manner {
    let management = &pool["spec"]["management"];
    if management["upgradeType"] == "InPlace" {
        let unavailable = share(&management["inPlace"]["maxUnavailable"], nodes, false, 1).max(1);
        return Manner { how: "each in place, after a drain", surge: 0, unavailable };
    }
    let replace = &management["replace"];
    if replace["strategy"] == "OnDelete" {
        return Manner { how: "by new ones, as you delete their Machines", surge: 0, unavailable: 1 };
    }
    let rolling = &replace["rollingUpdate"];
    let surge = share(&rolling["maxSurge"], nodes, true, 1);
    let mut unavailable = share(&rolling["maxUnavailable"], nodes, false, 0);
    if surge == 0 && unavailable == 0 {
        // Nothing could ever move: as whoever rolls the machines has it, one goes first.
        unavailable = 1;
    }
    Manner { how: "by new ones", surge, unavailable }
}

pub(super) fn plan(facts: &Facts, name: &str) -> Plan {
    let nowhere = Value::Null;
    let pool = facts.pools.iter().find(|p| at(p, "/metadata/name") == name).unwrap_or(&nowhere);
    let nodes =
        pool["status"]["replicas"].as_i64().or_else(|| pool["spec"]["replicas"].as_i64()).unwrap_or(0);
    let manner = manner(pool, nodes);
    let from: Option<Version> = at(pool, "/status/version").parse().ok();
    let to = &facts.release.version;
    let mut checks = common(facts, pool, "nodepool");
    checks.push(direction(from.as_ref(), to));
    checks.push(skew(&facts.cluster, to));
    checks.push(progress(pool));
    if nodes > 0 {
        checks.push(budgets(pool, &facts.guest));
        checks.push(room(&facts.guest, &manner));
        checks.extend(quota(&facts.quota, &manner));
    }
    Plan {
        kind: "NodePool",
        namespace: at(pool, "/metadata/namespace").to_owned(),
        name: name.to_owned(),
        from: from.map(|v| v.to_string()).unwrap_or_default(),
        to: to.to_string(),
        image: facts.release.image.clone(),
        nothing: at(pool, "/spec/release/image") == facts.release.image,
        checks,
        rolls: vec![Roll::Nodes {
            pool: name.to_owned(),
            nodes,
            how: manner.how,
            surge: manner.surge,
            unavailable: manner.unavailable,
        }],
        objects: false,
    }
}

/// Nodes are never newer than what their cluster has reached.
fn skew(cluster: &Value, to: &Version) -> Check {
    const NAME: &str = "skew";
    let (name, namespace) = (at(cluster, "/metadata/name"), at(cluster, "/metadata/namespace"));
    let Some(reached) = history(cluster).0 else {
        let fix = format!("wait until the cluster is rolled out: `zaffre status {name}`");
        return Check::new(NAME, Verdict::Refused, "the cluster has not completed any version yet", fix);
    };
    match check_skew(to, &reached) {
        Ok(()) => Check::passed(NAME, format!("nodes of {to} fit the cluster, {reached}")),
        Err(SkewError::Newer { .. }) => Check::new(
            NAME,
            Verdict::Refused,
            format!("{to} is newer than the cluster, which has completed {reached}"),
            format!("`zaffre upgrade cluster {name} -n {namespace} --to {to} --wait` first"),
        ),
        Err(SkewError::TooOld { behind, .. }) => Check::new(
            NAME,
            Verdict::Refused,
            format!("{to} is {behind} minors behind the cluster, {reached}, and 3 are supported"),
            format!("use {} or another within three minors", reached.stream()),
        ),
    }
}

fn progress(pool: &Value) -> Check {
    const NAME: &str = "progress";
    let rolls = [on::UPDATING_VERSION, on::UPDATING_CONFIG].into_iter().find(|c| is(pool, c, "True"));
    match rolls {
        Some(c) => Check::new(
            NAME,
            Verdict::Risky,
            format!("nodes are being replaced already ({c}); those that are new are replaced again"),
            "wait, unless the release that they roll to is the trouble",
        ),
        None => Check::passed(NAME, "no nodes are being replaced"),
    }
}

/// Budgets that let no pod go keep a drain from ending.
fn budgets(pool: &Value, guest: &Known<Guest>) -> Check {
    const NAME: &str = "budgets";
    let guest = match guest {
        Known::Yes(guest) => guest,
        Known::No(why) => return Check::new(NAME, Verdict::Unknown, why.clone(), ""),
    };
    let tight: Vec<&Budget> = guest.budgets.iter().filter(|b| b.pods > 0 && b.allowed <= 0).collect();
    if tight.is_empty() {
        return Check::passed(NAME, format!("{} budgets, all of which let pods go", guest.budgets.len()));
    }
    let mut names: Vec<String> =
        tight.iter().take(NAMED).map(|b| format!("{}/{}", b.namespace, b.name)).collect();
    if tight.len() > NAMED {
        names.push(format!("{} more", tight.len() - NAMED));
    }
    let found = format!("no pod may be evicted by PodDisruptionBudget {}", names.join(", "));
    let limit = at(pool, "/spec/nodeDrainTimeout");
    let ends = apis::duration::go_duration(limit).is_some_and(|d| !d.is_zero());
    if ends {
        let found = format!("{found}; after {limit} (spec.nodeDrainTimeout) they are ended anyway");
        return Check::new(NAME, Verdict::Risky, found, "add replicas, or relax the budgets");
    }
    let fix =
        "add replicas, relax the budgets, or set spec.nodeDrainTimeout: without it a drain waits for ever";
    Check::new(NAME, Verdict::Refused, found, fix)
}

/// Whether pods fit on the nodes that are left meanwhile.
fn room(guest: &Known<Guest>, manner: &Manner) -> Check {
    const NAME: &str = "capacity";
    let guest = match guest {
        Known::Yes(guest) => guest,
        Known::No(why) => return Check::new(NAME, Verdict::Unknown, why.clone(), ""),
    };
    if manner.unavailable == 0 {
        return Check::passed(NAME, "a new node comes before an old one goes");
    }
    let mut largest = guest.pool.clone();
    largest.sort_by_key(|d| std::cmp::Reverse((d.memory, d.cpu)));
    let gone = largest.iter().take(usize::try_from(manner.unavailable).unwrap_or(0));
    let gone = gone.fold(Demand::default(), |all, d| all.plus(*d));
    if guest.asked.fits(guest.all.minus(gone)) {
        return Check::passed(NAME, format!("pods fit without {} of the nodes", manner.unavailable));
    }
    Check::new(
        NAME,
        Verdict::Refused,
        format!("pods ask for more than the other nodes have while {} are away", manner.unavailable),
        "add nodes to the pool first, or lower maxUnavailable",
    )
}

fn quota(quota: &Known<Quota>, manner: &Manner) -> Option<Check> {
    const NAME: &str = "quota";
    if manner.surge == 0 {
        return None;
    }
    let Quota { size, location, cpus, left } = match quota {
        Known::Yes(quota) => quota,
        Known::No(why) => return Some(Check::new(NAME, Verdict::Unknown, why.clone(), "")),
    };
    let needed = cpus.saturating_mul(manner.surge);
    Some(match *left {
        left if needed <= left => {
            Check::passed(NAME, format!("{needed} of {left} free processors for {size}"))
        }
        left if *cpus <= left => Check::new(
            NAME,
            Verdict::Risky,
            format!(
                "{needed} more processors are wanted for {} new nodes at once ({size}), {left} are left",
                manner.surge
            ),
            "it goes on with fewer at a time; lower maxSurge, or ask Azure for more",
        ),
        left => Check::new(
            NAME,
            Verdict::Refused,
            format!(
                "a new node ({size} in {location}) needs {cpus} processors, and {left} of the quota are left"
            ),
            "ask Azure for more, or set maxSurge 0 and maxUnavailable 1: then an old node goes first",
        ),
    })
}
