//! Numbers that need more than the object itself: certificates, keys, pools; and how long it took to get where it is.

use super::{Page, labels, seconds, time};
use crate::inputs::{self, Purpose};
use crate::naming;
use crate::nodepool::capacity::Known;
use crate::operate::Operator;
use apis::conditions::{hosted_cluster as c, reason};
use apis::hypershift::HostedCluster;
use apis::names::annotation;
use jiff::Timestamp;
use kube::core::DynamicObject;
use reconcile::conditions::Conditions;
use reconcile::metrics::{Family, Sort};
use serde_json::Value;
use std::collections::BTreeMap;

/// Conditions whose first True is a milestone.
pub const MILESTONES: [&str; 6] = [
    c::INFRASTRUCTURE_READY,
    c::ETCD_AVAILABLE,
    c::KUBE_API_SERVER_AVAILABLE,
    c::IGNITION_ENDPOINT_AVAILABLE,
    c::EXTERNAL_DNS_REACHABLE,
    c::AVAILABLE,
];

pub static TRANSITIONS: Family = Family {
    name: "hypershift_hosted_cluster_transition_seconds",
    help: "Seconds from a cluster's creation to the first time that a condition was True.",
    labels: &["condition"],
    sort: Sort::Histogram,
};

/// A counter has its place where something happens, and nothing to say before it did.
pub static MIGRATION_FAILURES: Family = Family {
    name: "hypershift_encryption_migration_failures_total",
    help: "How often the data of a cluster could not be moved to another key.",
    labels: &["namespace", "name", "_id"],
    sort: Sort::Counter,
};

/// Whether moving data to another key has failed, as a status says.
pub fn migration_failed(status: &Value) -> bool {
    let all = Conditions::of(status);
    all.get(c::ETCD_DATA_ENCRYPTION_UP_TO_DATE).is_some_and(|f| f.reason == reason::RE_ENCRYPTION_FAILED)
}

/// Milestones that a status has reached and the one before had not.
pub fn reached(before: &Value, after: &Value) -> Vec<&'static str> {
    let (before, after) = (Conditions::of(before), Conditions::of(after));
    MILESTONES.into_iter().filter(|k| after.is_true(k) && !before.is_true(k)).collect()
}

/// The first end among the certificates of a bundle.
fn ends(bundle: &[u8]) -> Option<Timestamp> {
    let begin = "-----BEGIN CERTIFICATE-----";
    let text = std::str::from_utf8(bundle).ok()?;
    let blocks = text.split(begin).skip(1);
    blocks.filter_map(|b| pki::Facts::of(&format!("{begin}{b}")).ok()).map(|f| f.not_after).min()
}

pub fn one(
    page: &mut Page,
    operator: &Operator,
    hc: &HostedCluster,
    o: &DynamicObject,
    l: &str,
    now: Timestamp,
) {
    let (home, name) = (naming::home(hc), naming::name(hc));
    let trust = inputs::of(hc).into_iter().find(|i| i.purpose == Purpose::ProxyTrust);
    let bundle = trust.and_then(|i| {
        let given = operator.known(i.sort, home, &i.name)?;
        ends(given.data.get(*i.keys.first()?)?)
    });
    if let Some(end) = bundle {
        let help = "When the first certificate of the proxy's CA bundle ends.";
        #[allow(clippy::cast_precision_loss, reason = "seconds of this century are exact")]
        page.add("hypershift_cluster_proxy_ca_expiry_timestamp", help, l.to_owned(), end.as_second() as f64);
    }
    let pools = u32::try_from(operator.views.pools_of(home, name).len()).unwrap_or(u32::MAX);
    page.add("hypershift_hostedcluster_nodepools", "NodePools of a cluster.", l.to_owned(), f64::from(pools));
    migration(page, &o.data["status"]["secretEncryption"], l, now);
    if let Some(size) = naming::annotation(hc, annotation::CLUSTER_SIZE_OVERRIDE).filter(|s| !s.is_empty()) {
        let help = "Clusters whose size somebody chose, and which.";
        let with = format!("{l},{}", labels(&[("size", size)]));
        page.add("hypershift_cluster_size_override_instances", help, with, 1.0);
    }
    processors(page, operator, hc, l);
}

/// Processors of that many nodes of each size, or why that cannot be said.
fn sum<'a>(
    pools: impl Iterator<Item = (&'a str, u64)>,
    known: impl Fn(&str) -> Option<Known>,
) -> Result<u64, &'static str> {
    let counts = pools.filter(|(_, nodes)| *nodes > 0).map(|(size, nodes)| match known(size) {
        Some(Known::Has(sold)) => Ok(u64::from(sold.size.cpus).saturating_mul(nodes)),
        Some(_) => Err("unknown instance type"),
        None => Err("Azure was not asked"),
    });
    counts.sum()
}

/// Processors of a cluster's nodes, where Azure was asked what machines have; otherwise why not.
fn processors(page: &mut Page, operator: &Operator, hc: &HostedCluster, l: &str) {
    let azure = hc.spec.shared.platform.azure.as_ref();
    let (subscription, location) =
        azure.map_or(("", ""), |a| (a.subscription_id.as_str(), a.location.as_str()));
    let (home, name) = (naming::home(hc), naming::name(hc));
    let views = &operator.views.np;
    let places = views.of_cluster(home, name);
    let pools: Vec<_> = places.iter().filter_map(|(home, name)| views.pools.get(home, name)).collect();
    let own = pools.iter().map(|p| {
        let size = p.data["spec"]["platform"]["azure"]["vmSize"].as_str().unwrap_or_default();
        (size, p.data["status"]["replicas"].as_u64().unwrap_or(0))
    });
    let found = sum(own, |size| operator.sizes.known(subscription, location, size));
    #[allow(clippy::cast_precision_loss, reason = "no cluster has that many processors")]
    let value = found.map_or(-1.0, |n| n as f64);
    let l = format!("{l},{}", labels(&[("platform", "Azure")]));
    let help = "Virtual processors of a cluster's nodes; -1 if that is not known.";
    page.add("hypershift_cluster_vcpus", help, l.clone(), value);
    if let Err(why) = found {
        let help = "Why hypershift_cluster_vcpus is -1.";
        let with = format!("{l},{}", labels(&[("reason", why)]));
        page.add("hypershift_cluster_vcpus_computation_error", help, with, 1.0);
    }
}

/// Data that moves from one key to another.
fn migration(page: &mut Page, status: &Value, l: &str, now: Timestamp) {
    let Some(newest) = status["history"].get(0) else { return };
    let state = newest["state"].as_str().unwrap_or_default();
    let with = format!("{l},{}", labels(&[("state", state)]));
    let help = "The state of the newest change of the key that encrypts data.";
    page.add("hypershift_encryption_migration_state", help, with, 1.0);
    if let Some(began) = time(&newest["startedTime"]) {
        let until = time(&newest["completionTime"]).unwrap_or(now);
        let help = "Seconds that the newest change of the key took, or has taken so far.";
        page.add(
            "hypershift_encryption_migration_duration_seconds",
            help,
            l.to_owned(),
            seconds(began, until),
        );
    }
}

/// Identity providers of all clusters, by type.
pub fn providers(all: &[HostedCluster], page: &mut Page) {
    let mut by_type: BTreeMap<String, u32> = BTreeMap::new();
    for hc in all {
        let configuration = serde_json::to_value(&hc.spec.shared.configuration).unwrap_or_default();
        for provider in configuration["oauth"]["identityProviders"].as_array().into_iter().flatten() {
            *by_type.entry(provider["type"].as_str().unwrap_or_default().to_owned()).or_default() += 1;
        }
        let external = configuration["authentication"]["oidcProviders"].as_array().map_or(0, Vec::len);
        if external > 0 {
            *by_type.entry("OIDC".to_owned()).or_default() += u32::try_from(external).unwrap_or(u32::MAX);
        }
    }
    for (kind, n) in by_type {
        let l = labels(&[("identity_provider", &kind)]);
        page.add("hypershift_cluster_identity_providers", "Identity providers by type.", l, f64::from(n));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_milestone_is_reached_once() {
        let with = |status: &str| {
            json!({"conditions": [{"type": "Available", "status": status, "reason": "x",
            "message": "", "lastTransitionTime": "2026-03-01T00:00:00Z"}]})
        };
        assert_eq!(reached(&Value::Null, &with("True")), ["Available"]);
        assert!(reached(&with("True"), &with("True")).is_empty());
        assert!(reached(&with("True"), &with("False")).is_empty());
    }

    #[test]
    fn processors_are_counted_or_it_is_said_why_not() {
        use crate::nodepool::capacity::Sold;
        let four = json!({"name": "d4", "resourceType": "virtualMachines",
            "capabilities": [{"name": "vCPUs", "value": "4"}]});
        let (_, four) = Sold::of(&serde_json::from_value(four).unwrap(), "westus2").unwrap();
        let known = |size: &str| match size {
            "d4" => Some(Known::Has(four.clone())),
            "odd" => Some(Known::Nothing),
            _ => None,
        };
        assert_eq!(sum([("d4", 3), ("odd", 0), ("away", 0)].into_iter(), known), Ok(12));
        assert_eq!(sum([].into_iter(), known), Ok(0));
        assert_eq!(sum([("d4", 3), ("odd", 1)].into_iter(), known), Err("unknown instance type"));
        assert_eq!(sum([("away", 1)].into_iter(), known), Err("Azure was not asked"));
    }

    #[test]
    fn the_state_of_a_change_of_keys() {
        let mut page = Page::default();
        let now = "2026-03-01T00:01:00Z".parse().unwrap();
        let status = json!({"history": [{"state": "InProgress", "startedTime": "2026-03-01T00:00:00Z"}]});
        migration(&mut page, &status, "name=\"demo\"", now);
        let text = page.text();
        assert!(
            text.contains("hypershift_encryption_migration_state{name=\"demo\",state=\"InProgress\"} 1"),
            "{text}"
        );
        assert!(
            text.contains("hypershift_encryption_migration_duration_seconds{name=\"demo\"} 60"),
            "{text}"
        );
    }
}
