//! The tables `kubectl get` shows.
//!
//! The server makes them so that every client prints a kind alike. Column names, order and the words in the cells
//! are read by scripts and therefore fixed; columns of priority 1 are what `-o wide` adds. Each kind is a pair of
//! a column list and a function from object to cells, kept side by side so that they cannot drift apart (a test
//! counts them).

mod cells;
mod cluster;
mod network;
mod pods;
mod policy;
mod storage;
mod workloads;

use jiff::Timestamp;
use serde_json::Value;

/// One column of a Table.
#[derive(Clone, Copy, Debug)]
pub struct Column {
    pub name: &'static str,
    pub ty: &'static str,
    pub format: &'static str,
    pub description: &'static str,
    pub priority: i32,
}

const fn col(name: &'static str, ty: &'static str, description: &'static str) -> Column {
    Column { name, ty, format: "", description, priority: 0 }
}

const fn text(name: &'static str, description: &'static str) -> Column {
    col(name, "string", description)
}

const fn int(name: &'static str, description: &'static str) -> Column {
    col(name, "integer", description)
}

const fn wide(name: &'static str, description: &'static str) -> Column {
    Column { name, ty: "string", format: "", description, priority: 1 }
}

const NAME: Column = Column {
    name: "Name",
    ty: "string",
    format: "name",
    description: "Name must be unique within a namespace. Is required when creating resources, although some resources may allow a client to request the generation of an appropriate name automatically. Name is primarily intended for creation idempotence and configuration definition. Cannot be updated. More info: https://kubernetes.io/docs/concepts/overview/working-with-objects/names#names",
    priority: 0,
};
const AGE: Column = text("Age", "Time since the object was created.");
const CREATED_AT: Column = col(
    "Created At",
    "date",
    "CreationTimestamp is a timestamp representing the server time when this object was created.",
);
const CONTAINERS: Column = wide("Containers", "Names of each container in the template.");
const IMAGES: Column = wide("Images", "Images referenced by each container in the template.");
const SELECTOR: Column = wide("Selector", "Labels of the pods this object counts as its own.");

/// Columns and how to fill them.
type Table = (&'static [Column], fn(&Value, Timestamp) -> Vec<Value>);

fn table(group: &str, plural: &str) -> Option<Table> {
    Some(match (group, plural) {
        ("", "pods") => pods::PODS,
        ("", "podtemplates") => workloads::POD_TEMPLATES,
        ("", "replicationcontrollers") => workloads::REPLICATION_CONTROLLERS,
        ("apps", "replicasets") => workloads::REPLICA_SETS,
        ("apps", "deployments") => workloads::DEPLOYMENTS,
        ("apps", "statefulsets") => workloads::STATEFUL_SETS,
        ("apps", "daemonsets") => workloads::DAEMON_SETS,
        ("apps", "controllerrevisions") => workloads::CONTROLLER_REVISIONS,
        ("batch", "jobs") => workloads::JOBS,
        ("batch", "cronjobs") => workloads::CRON_JOBS,
        ("autoscaling", "horizontalpodautoscalers") => policy::AUTOSCALERS,
        ("autoscaling", "scales") => workloads::SCALES,
        ("", "services") => network::SERVICES,
        ("", "endpoints") => network::ENDPOINTS,
        ("discovery.k8s.io", "endpointslices") => network::ENDPOINT_SLICES,
        ("networking.k8s.io", "ingresses") => network::INGRESSES,
        ("networking.k8s.io", "ingressclasses") => network::INGRESS_CLASSES,
        ("networking.k8s.io", "networkpolicies") => network::NETWORK_POLICIES,
        ("networking.k8s.io", "ipaddresses") => network::IP_ADDRESSES,
        ("networking.k8s.io", "servicecidrs") => network::SERVICE_CIDRS,
        ("", "nodes") => cluster::NODES,
        ("", "namespaces") => cluster::NAMESPACES,
        ("", "configmaps") => cluster::CONFIG_MAPS,
        ("", "secrets") => cluster::SECRETS,
        ("", "serviceaccounts") => cluster::SERVICE_ACCOUNTS,
        ("" | "events.k8s.io", "events") => cluster::EVENTS,
        ("", "componentstatuses") => cluster::COMPONENT_STATUSES,
        ("coordination.k8s.io", "leases") => cluster::LEASES,
        ("apiregistration.k8s.io", "apiservices") => cluster::API_SERVICES,
        ("node.k8s.io", "runtimeclasses") => cluster::RUNTIME_CLASSES,
        ("scheduling.k8s.io", "priorityclasses") => cluster::PRIORITY_CLASSES,
        ("certificates.k8s.io", "certificatesigningrequests") => cluster::SIGNING_REQUESTS,
        ("", "persistentvolumes") => storage::VOLUMES,
        ("", "persistentvolumeclaims") => storage::CLAIMS,
        ("storage.k8s.io", "storageclasses") => storage::CLASSES,
        ("storage.k8s.io", "volumeattributesclasses") => storage::ATTRIBUTES_CLASSES,
        ("storage.k8s.io", "volumeattachments") => storage::ATTACHMENTS,
        ("storage.k8s.io", "csidrivers") => storage::CSI_DRIVERS,
        ("storage.k8s.io", "csinodes") => storage::CSI_NODES,
        ("policy", "poddisruptionbudgets") => policy::DISRUPTION_BUDGETS,
        ("", "resourcequotas") => policy::RESOURCE_QUOTAS,
        ("rbac.authorization.k8s.io", "rolebindings" | "clusterrolebindings") => policy::BINDINGS,
        ("admissionregistration.k8s.io", "validatingadmissionpolicies") => policy::ADMISSION_POLICIES,
        ("admissionregistration.k8s.io", "validatingadmissionpolicybindings") => policy::POLICY_BINDINGS,
        (
            "admissionregistration.k8s.io",
            "validatingwebhookconfigurations" | "mutatingwebhookconfigurations",
        ) => policy::WEBHOOKS,
        ("flowcontrol.apiserver.k8s.io", "flowschemas") => policy::FLOW_SCHEMAS,
        ("flowcontrol.apiserver.k8s.io", "prioritylevelconfigurations") => policy::PRIORITY_LEVELS,
        ("resource.k8s.io", "resourceclaims") => policy::RESOURCE_CLAIMS,
        ("resource.k8s.io", "resourceslices") => policy::RESOURCE_SLICES,
        ("resource.k8s.io", "deviceclasses" | "resourceclaimtemplates") => cluster::NAME_AND_AGE,
        ("", "limitranges")
        | ("storage.k8s.io", "csistoragecapacities")
        | ("rbac.authorization.k8s.io", "roles" | "clusterroles")
        | ("apiextensions.k8s.io", "customresourcedefinitions") => cluster::NAME_AND_CREATED,
        _ => return None,
    })
}

/// The columns of a kind; `None` means the generic two.
pub fn columns(group: &str, plural: &str) -> Option<&'static [Column]> {
    table(group, plural).map(|(c, _)| c)
}

/// The cells of one object, as many as there are columns.
pub fn row(group: &str, plural: &str, obj: &Value, now: Timestamp) -> Option<Vec<Value>> {
    table(group, plural).map(|(_, f)| f(obj, now))
}

/// What a row says about itself: `kubectl get` leaves finished pods to those who ask for them.
pub fn row_conditions(group: &str, plural: &str, obj: &Value) -> Option<Value> {
    match (group, plural) {
        ("", "pods") => pods::conditions(obj),
        _ => None,
    }
}
