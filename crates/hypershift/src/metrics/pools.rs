//! Numbers about node pools.

use super::{Page, labels, seconds};
use crate::operate::Operator;
use apis::conditions::node_pool as c;
use jiff::Timestamp;
use kube::core::DynamicObject;
use reconcile::conditions::{Conditions, Status};
use reconcile::metrics::{Family, Sort};
use std::collections::BTreeMap;

pub static TRANSITIONS: Family = Family {
    name: "hypershift_nodepools_transition_seconds",
    help: "Seconds from a pool's creation to the first time that a condition was True.",
    labels: &["condition"],
    sort: Sort::Histogram,
};

/// Whether a condition that is False is a failure.
fn counts(kind: &str) -> bool {
    let good_when_false = [
        c::AUTOSCALING_ENABLED,
        c::AUTOREPAIR_ENABLED,
        c::UPDATING_VERSION,
        c::UPDATING_CONFIG,
        c::UPDATING_PLATFORM_MACHINE_TEMPLATE,
        c::CLUSTER_NETWORK_CIDR_CONFLICT,
    ];
    !good_when_false.contains(&kind)
}

pub(super) fn all(page: &mut Page, operator: &Operator, now: Timestamp) {
    let views = &operator.views;
    let mut failures: BTreeMap<String, u32> = BTreeMap::new();
    let mut count = 0;
    for o in views.np.pools.all() {
        let namespace = o.metadata.namespace.clone().unwrap_or_default();
        let cluster = o.data["spec"]["clusterName"].as_str().unwrap_or_default().to_owned();
        let hc = views.clusters.get(&namespace, &cluster);
        if hc.as_ref().is_some_and(|hc| !operator.covers(hc)) {
            continue;
        }
        let id = hc.as_ref().and_then(|hc| hc.data["spec"]["clusterID"].as_str()).unwrap_or_default();
        count += 1;
        let conditions = Conditions::of(&o.data["status"]);
        for found in conditions.iter().filter(|f| f.status == Status::False && counts(&f.kind)) {
            *failures.entry(found.kind.clone()).or_default() += 1;
        }
        let name = o.metadata.name.as_deref().unwrap_or_default();
        let whose =
            labels(&[("namespace", &namespace), ("name", name), ("_id", id), ("cluster_name", &cluster)]);
        one(page, &o, &conditions, &whose, now);
    }
    page.add(
        "hypershift_nodepools",
        "Node pools by platform.",
        labels(&[("platform", "Azure")]),
        f64::from(count),
    );
    for (kind, n) in failures {
        let help = "Node pools by condition that is False and should be True.";
        page.add(
            "hypershift_nodepools_failure_conditions",
            help,
            labels(&[("condition", &kind)]),
            f64::from(n),
        );
    }
}

fn one(page: &mut Page, o: &DynamicObject, conditions: &Conditions, whose: &str, now: Timestamp) {
    let number = |v: &serde_json::Value| v.as_f64().unwrap_or(0.0);
    let spec = &o.data["spec"];
    let size = if spec["replicas"].is_null() {
        number(&o.data["status"]["replicas"])
    } else {
        number(&spec["replicas"])
    };
    page.add("hypershift_nodepools_size", "Nodes that are wanted.", whose.to_owned(), size);
    let available = number(&o.data["status"]["replicas"]);
    page.add(
        "hypershift_nodepools_available_replicas",
        "Nodes that are available.",
        whose.to_owned(),
        available,
    );
    let Some(made) = o.metadata.creation_timestamp.as_ref().map(|t| t.0) else { return };
    if let Some(going) = o.metadata.deletion_timestamp.as_ref() {
        let help = "How long a deletion has been going on.";
        page.add(
            "hypershift_nodepools_deleting_duration_seconds",
            help,
            whose.to_owned(),
            seconds(going.0, now),
        );
    } else if o.data["status"]["version"].is_null() && !conditions.is_true(c::READY) {
        let help = "How long a pool has been without all of its first nodes.";
        page.add(
            "hypershift_nodepools_initial_rolling_out_duration_seconds",
            help,
            whose.to_owned(),
            seconds(made, now),
        );
    }
}
