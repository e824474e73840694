//! How much of a control plane the management cluster's monitoring scrapes.
//!
//! A control plane says thousands of series, a region has hundreds of them, and somebody pays for each. So monitors carry
//! rules by the cluster's [set](MetricsSet): a few names that telemetry needs, everything but what nobody reads, or what
//! the people who run the place wrote into ConfigMap `sre-metric-set`, by component. Components that are not listed here
//! are scraped whole.

use crate::Materials;
use crate::scope::{MetricsSet, Scope};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// What the people who run the place want to see. The HostedCluster's operator copies it from its own namespace.
pub const OWN_SET: &str = "sre-metric-set";
const OWN_KEY: &str = "config";

/// Rules of one component.
struct Rules {
    component: &'static str,
    /// Its name in the ConfigMap.
    key: &'static str,
    /// What telemetry needs; nothing of it if empty.
    telemetry: &'static [&'static str],
    /// Patterns that even those leave out who want all.
    dropped: &'static [&'static str],
}

const SERVED: &[&str] =
    &["apiserver_storage_objects", "apiserver_request_total", "apiserver_current_inflight_requests"];
/// What a client library of etcd says of itself, in a program that is not etcd.
const STORED: &str = "etcd_(debugging|disk|server).*";
const STORED_AND_ASKED: &str = "etcd_(debugging|disk|request|server).*";
/// Rules over name and bucket are told by this.
const BUCKETS: &str = "apiserver_request_duration_seconds_bucket;(0.15|0.25|0.3|0.35|0.4|0.45|0.6|0.7|0.8|0.9|1.25|1.5|1.75|2.5|3|3.5|4.5|6|7|8|9|15|25|30|50)";

static RULES: [Rules; 11] = [
    Rules {
        component: "etcd",
        key: "etcd",
        telemetry: &[
            "etcd_disk_wal_fsync_duration_seconds_bucket",
            "etcd_mvcc_db_total_size_in_bytes",
            "etcd_network_peer_round_trip_time_seconds_bucket",
            "etcd_mvcc_db_total_size_in_use_in_bytes",
            "etcd_disk_backend_commit_duration_seconds_bucket",
            "etcd_server_leader_changes_seen_total",
        ],
        dropped: &[],
    },
    Rules {
        component: "kube-apiserver",
        key: "kubeAPIServer",
        telemetry: SERVED,
        dropped: &[
            STORED,
            "apiserver_admission_controller_admission_latencies_seconds_.*",
            "apiserver_admission_step_admission_latencies_seconds_.*",
            "scheduler_(e2e_scheduling_latency_microseconds|scheduling_algorithm_predicate_evaluation|scheduling_algorithm_priority_evaluation|scheduling_algorithm_preemption_evaluation|scheduling_algorithm_latency_microseconds|binding_latency_microseconds|scheduling_latency_seconds)",
            "apiserver_(request_count|request_latencies|request_latencies_summary|dropped_requests|storage_data_key_generation_latencies_microseconds|storage_transformation_failures_total|storage_transformation_latencies_microseconds|proxy_tunnel_sync_latency_secs)",
            "docker_(operations|operations_latency_microseconds|operations_errors|operations_timeout)",
            "reflector_(items_per_list|items_per_watch|list_duration_seconds|lists_total|short_watches_total|watch_duration_seconds|watches_total)",
            "etcd_(helper_cache_hit_count|helper_cache_miss_count|helper_cache_entry_count|request_cache_get_latencies_summary|request_cache_add_latencies_summary|request_latencies_summary)",
            "transformation_(transformation_latencies_microseconds|failures_total)",
            "network_plugin_operations_latency_microseconds|sync_proxy_rules_latency_microseconds|rest_client_request_latency_seconds",
            BUCKETS,
        ],
    },
    Rules {
        component: "kube-controller-manager",
        key: "kubeControllerManager",
        telemetry: &["pv_collector_total_pv_count"],
        dropped: &[
            STORED_AND_ASKED,
            "rest_client_request_latency_seconds_(bucket|count|sum)",
            "root_ca_cert_publisher_sync_duration_seconds_(bucket|count|sum)",
        ],
    },
    Rules {
        component: "openshift-apiserver",
        key: "openshiftAPIServer",
        telemetry: SERVED,
        dropped: &[
            STORED,
            "apiserver_admission_controller_admission_latencies_seconds_.*",
            "apiserver_admission_step_admission_latencies_seconds_.*",
            BUCKETS,
        ],
    },
    Rules {
        component: "openshift-controller-manager",
        key: "openshiftControllerManager",
        telemetry: &["openshift_build_status_phase_total"],
        dropped: &[STORED_AND_ASKED],
    },
    Rules {
        component: "openshift-route-controller-manager",
        key: "openshiftRouteControllerManager",
        telemetry: &[],
        dropped: &[STORED_AND_ASKED],
    },
    Rules {
        component: "cluster-version-operator",
        key: "cvo",
        telemetry: &[
            "cluster_version",
            "cluster_version_available_updates",
            "cluster_operator_up",
            "cluster_operator_conditions",
            "cluster_version_payload",
            "cluster_installer",
        ],
        dropped: &[STORED],
    },
    Rules {
        component: "olm-operator",
        key: "olm",
        telemetry: &["csv_succeeded", "csv_abnormal"],
        dropped: &[STORED],
    },
    Rules {
        component: "catalog-operator",
        key: "catalogOperator",
        telemetry: &["subscription_sync_total", "olm_resolution_duration_seconds"],
        dropped: &[STORED],
    },
    Rules {
        component: "cluster-image-registry-operator",
        key: "registryOperator",
        telemetry: &[],
        dropped: &[],
    },
    Rules {
        component: "cluster-node-tuning-operator",
        key: "nodeTuningOperator",
        telemetry: &["nto_profile_calculated_total"],
        dropped: &[],
    },
];

fn rule(action: &str, regex: &str) -> Value {
    let labels = if regex == BUCKETS { json!(["__name__", "le"]) } else { json!(["__name__"]) };
    json!({"action": action, "regex": regex, "sourceLabels": labels})
}

/// The rules of a set that people wrote, by their names of components; or what is wrong with it. Names that we do not know
/// are those of components that have no rules here.
pub fn own_set(data: &BTreeMap<String, Vec<u8>>) -> Result<BTreeMap<String, Vec<Value>>, String> {
    let text = data.get(OWN_KEY).ok_or_else(|| format!("it has no key {OWN_KEY}"))?;
    let text = std::str::from_utf8(text).map_err(|e| format!("{OWN_KEY}: {e}"))?;
    serde_saphyr::from_str(text).map_err(|e| format!("{OWN_KEY} is no map of lists of relabelings: {e}"))
}

/// Puts the rules of the cluster's set into a component's monitors; what they were read from, if they were.
pub(crate) fn choose(
    scope: &Scope,
    component: &str,
    objects: &mut [Value],
    materials: &dyn Materials,
) -> Option<(&'static str, String)> {
    let rules = RULES.iter().find(|r| r.component == component)?;
    let few = || match rules.telemetry {
        [] => vec![rule("drop", "(.*)")],
        names => vec![rule("keep", &format!("({})", names.join("|")))],
    };
    let (chosen, read) = match scope.metrics {
        MetricsSet::Telemetry => (few(), None),
        MetricsSet::All => (rules.dropped.iter().map(|r| rule("drop", r)).collect(), None),
        MetricsSet::Sre => {
            // Without a set that can be read, few rather than all: the HostedCluster says what is wrong with it, and
            // nobody pays for a slip of the pen.
            let data = materials.data("ConfigMap", OWN_SET).unwrap_or_default();
            let own = own_set(&data).map(|mut set| set.remove(rules.key).unwrap_or_default());
            (own.unwrap_or_else(|_| few()), Some(("ConfigMap", OWN_SET.to_owned())))
        }
    };
    for object in objects {
        let places = match object["kind"].as_str() {
            Some("ServiceMonitor") => "endpoints",
            Some("PodMonitor") => "podMetricsEndpoints",
            _ => continue,
        };
        let places = object["spec"][places].as_array_mut().into_iter().flatten();
        places.filter(|_| !chosen.is_empty()).for_each(|p| p["metricRelabelings"] = json!(chosen));
    }
    read
}
