//! Numbers about clusters, for dashboards that know upstream's names.
//!
//! Durations grow while nobody reconciles, so everything is computed when it is asked for, from what views hold: there
//! is nothing to keep up to date and nothing to forget.

mod further;
mod pools;

pub use further::{MIGRATION_FAILURES, TRANSITIONS, migration_failed, reached};
pub use pools::TRANSITIONS as POOL_TRANSITIONS;

use crate::naming;
use crate::operate::{Operator, Views};
use apis::conditions::{hosted_cluster as c, reason};
use apis::hypershift::HostedCluster;
use apis::names::annotation;
use jiff::Timestamp;
use kube::core::DynamicObject;
use reconcile::conditions::{Conditions, Status};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fmt::Write;

/// Sets limited support, as the managed service does.
const LIMITED_SUPPORT: &str = "api.openshift.com/limited-support";
const SILENCED: &str = "hypershift.openshift.io/silence-cluster-alerts";

/// A family and its series: labels and value.
struct Family {
    help: &'static str,
    series: Vec<(String, f64)>,
}

#[derive(Default)]
struct Page(BTreeMap<&'static str, Family>);

impl Page {
    fn add(&mut self, name: &'static str, help: &'static str, labels: String, value: f64) {
        let family = self.0.entry(name).or_insert(Family { help, series: Vec::new() });
        family.series.push((labels, value));
    }

    fn text(self) -> String {
        let mut out = String::new();
        for (name, family) in self.0 {
            let _ = writeln!(out, "# HELP {name} {}\n# TYPE {name} gauge", family.help);
            for (labels, value) in family.series {
                let _ = writeln!(out, "{name}{{{labels}}} {value}");
            }
        }
        out
    }
}

fn quoted(v: &str) -> String {
    v.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

fn labels(list: &[(&str, &str)]) -> String {
    list.iter().map(|(k, v)| format!("{k}=\"{}\"", quoted(v))).collect::<Vec<_>>().join(",")
}

fn seconds(from: Timestamp, to: Timestamp) -> f64 {
    to.duration_since(from).as_secs_f64().max(0.0)
}

fn time(v: &Value) -> Option<Timestamp> {
    v.as_str()?.parse().ok()
}

/// The page, in the text format.
pub fn text(operator: &Operator, now: Timestamp) -> String {
    let views = &operator.views;
    let mut page = Page::default();
    let mut by_identity: BTreeMap<&str, u32> = BTreeMap::new();
    let mut failures: BTreeMap<String, u32> = BTreeMap::new();
    let mut all: Vec<HostedCluster> = Vec::new();
    for o in views.clusters.all().into_iter().filter(|o| operator.covers(o)) {
        let Ok(value) = serde_json::to_value(&*o) else { continue };
        let Ok(hc) = serde_json::from_value::<HostedCluster>(value) else { continue };
        one(&mut page, views, &o, &hc, now);
        further::one(&mut page, operator, &hc, &o, &whose(&hc), now);
        let managed = hc
            .spec
            .shared
            .platform
            .azure
            .as_ref()
            .is_some_and(|a| a.azure_authentication_config.is_managed());
        *by_identity.entry(if managed { "ManagedIdentities" } else { "WorkloadIdentities" }).or_default() +=
            1;
        for found in Conditions::of(&o.data["status"]).iter() {
            if found.status == Status::False && counts(&found.kind) {
                *failures.entry(found.kind.clone()).or_default() += 1;
            }
        }
        all.push(hc);
    }
    further::providers(&all, &mut page);
    pools::all(&mut page, operator, now);
    let l = labels(&[("version", env!("CARGO_PKG_VERSION"))]);
    page.add("hypershift_operator_info", "Which operator this is.", l, 1.0);
    for (identity, n) in by_identity {
        let l = labels(&[("platform", "Azure"), ("identity", identity)]);
        page.add("hypershift_hostedclusters", "Hosted clusters by platform.", l, f64::from(n));
    }
    for (kind, n) in failures {
        let l = labels(&[("condition", &kind)]);
        let help = "Hosted clusters by condition that is False and should be True.";
        page.add("hypershift_hostedclusters_failure_conditions", help, l, f64::from(n));
    }
    page.text()
}

/// Whether a condition that is False is a failure.
fn counts(kind: &str) -> bool {
    let good_when_false = [
        c::PROGRESSING,
        c::DEGRADED,
        c::CLUSTER_VERSION_PROGRESSING,
        c::AUTO_NODE_ENABLED,
        c::ETCD_RECOVERY_ACTIVE,
        c::CLUSTER_SIZE_TRANSITION_PENDING,
        c::CLUSTER_SIZE_TRANSITION_REQUIRED,
        // Whether it is to be open is the cluster's own word.
        c::PUBLIC_ENDPOINT_EXPOSED,
    ];
    !good_when_false.contains(&kind) && kind != crate::delete::DELETION_BLOCKED
}

/// The labels that every number of a cluster has.
fn whose(hc: &HostedCluster) -> String {
    let id = hc.spec.cluster_id.as_deref().unwrap_or_default();
    labels(&[("namespace", naming::home(hc)), ("name", naming::name(hc)), ("_id", id)])
}

fn one(page: &mut Page, views: &Views, o: &DynamicObject, hc: &HostedCluster, now: Timestamp) {
    let id = hc.spec.cluster_id.as_deref().unwrap_or_default();
    let who = [("namespace", naming::home(hc)), ("name", naming::name(hc)), ("_id", id)];
    let l = || whose(hc);
    let (status, all) = (&o.data["status"], Conditions::of(&o.data["status"]));
    let made = o.metadata.creation_timestamp.as_ref().map(|t| t.0);
    let deleting = o.metadata.deletion_timestamp.as_ref().map(|t| t.0);
    let been = naming::annotation(hc, annotation::HAS_BEEN_AVAILABLE).is_some();
    if let Some(made) = made.filter(|_| !been && deleting.is_none()) {
        let help = "Seconds since creation of a cluster that was never available.";
        page.add(
            "hypershift_cluster_waiting_initial_availability_duration_seconds",
            help,
            l(),
            seconds(made, now),
        );
    }
    let history = status["version"]["history"].as_array().cloned().unwrap_or_default();
    let complete = history.iter().any(|e| e["state"] == "Completed");
    if let Some(made) = made.filter(|_| !complete && deleting.is_none()) {
        let help = "Seconds since creation of a cluster whose first version is not complete.";
        page.add("hypershift_cluster_initial_rolling_out_duration_seconds", help, l(), seconds(made, now));
    }
    if complete
        && let Some(first) = history.first().filter(|e| e["state"] == "Partial")
        && let Some(started) = time(&first["startedTime"])
    {
        let to = first["version"].as_str().unwrap_or_default();
        let labels = labels(&[who[0], who[1], who[2], ("new_version", to)]);
        let help = "Seconds since an upgrade began that is not complete.";
        page.add("hypershift_cluster_upgrading_duration_seconds", help, labels, seconds(started, now));
    }
    if let Some(since) = deleting {
        let help = "Seconds since a deletion began that is not over.";
        page.add("hypershift_cluster_deleting_duration_seconds", help, l(), seconds(since, now));
        if views.planes.get(&naming::namespace(hc), naming::name(hc)).is_some()
            && all.get(c::CLOUD_RESOURCES_DESTROYED).is_none_or(|d| {
                d.status != Status::True && d.reason != reason::CLOUD_RESOURCES_CLEANUP_SKIPPED
            })
        {
            let help = "Seconds since the guest was asked to remove what it made in the cloud.";
            page.add(
                "hypershift_cluster_guest_cloud_resources_deleting_duration_seconds",
                help,
                l(),
                seconds(since, now),
            );
        }
    }
    let flag = |yes: bool| if yes { 1.0 } else { 0.0 };
    let labelled =
        |key: &str| hc.metadata.labels.as_ref().is_some_and(|l| l.get(key).is_some_and(|v| v == "true"));
    page.add(
        "hypershift_cluster_limited_support_enabled",
        "Whether support is limited.",
        l(),
        flag(labelled(LIMITED_SUPPORT)),
    );
    page.add(
        "hypershift_cluster_silence_alerts",
        "Whether alerts are silenced.",
        l(),
        flag(labelled(SILENCED)),
    );
    proxy(page, hc, &all, &l);
    if let Some(azure) = &hc.spec.shared.platform.azure {
        let pull = azure.container_registry.is_some();
        page.add(
            "hypershift_cluster_acr_pull_identity_configured",
            "Whether nodes pull with an identity.",
            l(),
            flag(pull),
        );
        let place = [
            ("location", azure.location.as_str()),
            ("resource_group", azure.resource_group.as_str()),
            ("subscription", azure.subscription_id.as_str()),
        ];
        let all: Vec<(&str, &str)> = who.iter().chain(&place).copied().collect();
        page.add("hosted_cluster_azure_info", "Where in Azure a cluster is.", labels(&all), 1.0);
        if azure.azure_authentication_config.is_managed() {
            let id = naming::annotation(hc, annotation::AZURE_RESOURCE_ID).unwrap_or_default();
            let all: Vec<(&str, &str)> = who.iter().copied().chain([("resource_id", id)]).collect();
            page.add(
                "hosted_cluster_managed_azure_info",
                "The id of a managed cluster in Azure.",
                labels(&all),
                1.0,
            );
        }
    }
    let stuck = all.get(c::ETCD_RECOVERY_ACTIVE).is_some_and(|x| x.reason == "EtcdRecoveryJobFailed");
    let help = "Whether somebody has to look at etcd.";
    page.add("hypershift_etcd_manual_intervention_required", help, l(), flag(stuck));
}

fn proxy(page: &mut Page, hc: &HostedCluster, all: &Conditions, l: &dyn Fn() -> String) {
    let proxy = hc.spec.shared.configuration.as_ref().and_then(|c| c.proxy.as_ref());
    let Some(proxy) = proxy.filter(|p| p.http_proxy.is_some() || p.https_proxy.is_some()) else { return };
    page.add("hypershift_cluster_proxy", "Clusters behind a proxy.", l(), 1.0);
    if proxy.trusted_ca.is_some() {
        let valid = all.is_true(c::VALID_PROXY_CONFIGURATION);
        let help = "Whether the proxy's CA bundle can be used.";
        page.add("hypershift_cluster_proxy_ca_valid", help, l(), if valid { 1.0 } else { 0.0 });
    }
}
