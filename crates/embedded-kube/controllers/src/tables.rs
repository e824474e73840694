//! Where the kinds that controllers deal with are stored.

use ek_server::registry::table_name;
use ek_store::TableName;
use std::sync::LazyLock;

macro_rules! tables {
    ($($name:ident = $group:literal $plural:literal;)*) => {
        $(pub static $name: LazyLock<TableName> = LazyLock::new(|| table_name($group, $plural));)*
    };
}

tables! {
    CONFIG_MAPS = "" "configmaps";
    CLAIMS = "" "persistentvolumeclaims";
    ENDPOINTS = "" "endpoints";
    EVENTS = "" "events";
    NAMESPACES = "" "namespaces";
    NODES = "" "nodes";
    PODS = "" "pods";
    QUOTAS = "" "resourcequotas";
    REPLICATION_CONTROLLERS = "" "replicationcontrollers";
    SERVICES = "" "services";
    SERVICE_ACCOUNTS = "" "serviceaccounts";
    VOLUMES = "" "persistentvolumes";
    CONTROLLER_REVISIONS = "apps" "controllerrevisions";
    DAEMON_SETS = "apps" "daemonsets";
    DEPLOYMENTS = "apps" "deployments";
    REPLICA_SETS = "apps" "replicasets";
    STATEFUL_SETS = "apps" "statefulsets";
    CRON_JOBS = "batch" "cronjobs";
    JOBS = "batch" "jobs";
    SIGNING_REQUESTS = "certificates.k8s.io" "certificatesigningrequests";
    LEASES = "coordination.k8s.io" "leases";
    ENDPOINT_SLICES = "discovery.k8s.io" "endpointslices";
    DISRUPTION_BUDGETS = "policy" "poddisruptionbudgets";
    STORAGE_CLASSES = "storage.k8s.io" "storageclasses";
}
