//! What an absent field means.
//!
//! Values are filled in when an object enters, not when it is read: a later release with other defaults must not
//! change the meaning of what is stored, and controllers may rely on fields being there. Two kinds of absence
//! exist, inherited from Go: a pointer field is absent when missing or null (`fill`), a plain field also when it
//! holds its zero value (`fill_zero`). Structs that Go always prints, such as `resources: {}`, are filled too, for
//! clients compare documents.
//!
//! Filling is idempotent: it runs again after every patch and every webhook.

mod batch;
mod network;
mod pod;
mod policy;
mod storage;
mod workloads;

use crate::json::{Obj, child, each, ensure, fill_zero, zero};
use crate::prepare::drop_nulls;
use serde_json::Value;

/// Fills what the client left out.
pub fn default(group: &str, plural: &str, obj: &mut Value) {
    let hpa_v1 =
        group == "autoscaling" && obj.get("apiVersion").and_then(Value::as_str) == Some("autoscaling/v1");
    let Some(m) = obj.as_object_mut() else { return };
    match (group, plural) {
        // Free-form JSON, where null is a value.
        ("apps", "controllerrevisions") | ("apiextensions.k8s.io", _) => return,
        ("resource.k8s.io", _) => {}
        _ => drop_nulls(m),
    }
    match (group, plural) {
        ("", "pods") => pod::pod(m),
        ("", "podtemplates") => pod::template_of(m),
        ("", "replicationcontrollers") => workloads::replication_controller(m),
        ("", "services") => network::service(m),
        ("", "endpoints") => network::endpoints(m),
        ("", "events") => event(m),
        ("", "secrets") => {
            // Write-only, so its stored form is what the client wrote.
            crate::prepare::string_data(m);
            fill_zero(m, "type", "Opaque");
        }
        ("", "namespaces") => namespace(m),
        ("", "nodes") => node(m),
        ("", "limitranges") => policy::limit_range(m),
        ("", "resourcequotas") => policy::resource_quota(m),
        ("", "persistentvolumes") => storage::volume(m),
        ("", "persistentvolumeclaims") => storage::claim(m),
        ("apps", "deployments") => workloads::deployment(m),
        ("apps", "replicasets") => workloads::replica_set(m),
        ("apps", "statefulsets") => workloads::stateful_set(m),
        ("apps", "daemonsets") => workloads::daemon_set(m),
        ("batch", "jobs") => batch::job(m),
        ("batch", "cronjobs") => batch::cron_job(m),
        ("autoscaling", "horizontalpodautoscalers") => policy::autoscaler(m, hpa_v1),
        ("networking.k8s.io", "networkpolicies") => network::network_policy(m),
        ("networking.k8s.io", "ingressclasses") => network::ingress_class(m),
        ("networking.k8s.io", "ingresses") => _ = ensure(m, "spec"),
        ("discovery.k8s.io", "endpointslices") => network::endpoint_slice(m),
        ("storage.k8s.io", "storageclasses") => storage::class(m),
        ("storage.k8s.io", "csidrivers") => storage::csi_driver(m),
        ("rbac.authorization.k8s.io", "rolebindings" | "clusterrolebindings") => policy::binding(m),
        ("admissionregistration.k8s.io", "validatingwebhookconfigurations") => policy::webhooks(m, false),
        ("admissionregistration.k8s.io", "mutatingwebhookconfigurations") => policy::webhooks(m, true),
        ("admissionregistration.k8s.io", "validatingadmissionpolicies") => policy::admission_policy(m),
        ("admissionregistration.k8s.io", "validatingadmissionpolicybindings") => policy::policy_binding(m),
        ("scheduling.k8s.io", "priorityclasses") => {
            crate::json::fill(m, "preemptionPolicy", "PreemptLowerPriority");
        }
        ("flowcontrol.apiserver.k8s.io", "flowschemas") => policy::flow_schema(m),
        ("flowcontrol.apiserver.k8s.io", "prioritylevelconfigurations") => policy::priority_level(m),
        ("apiregistration.k8s.io", "apiservices") => {
            if let Some(s) = child(m, "spec").and_then(|s| child(s, "service")) {
                crate::json::fill(s, "port", 443);
            }
        }
        ("resource.k8s.io", "resourceclaims") => policy::resource_claim(m),
        ("resource.k8s.io", "resourceclaimtemplates") => {
            if let Some(s) = child(m, "spec") {
                policy::resource_claim(s);
            }
        }
        _ => {}
    }
}

pub(crate) use policy::autoscaler as default_autoscaler;

/// The label by which selectors can name one namespace.
fn namespace(m: &mut Obj) {
    let Some(name) = m.get("metadata").and_then(|v| v.get("name")).and_then(Value::as_str) else { return };
    if name.is_empty() {
        return;
    }
    let name = Value::from(name);
    if let Some(labels) = child(m, "metadata").and_then(|meta| ensure(meta, "labels")) {
        labels.insert("kubernetes.io/metadata.name".into(), name);
    }
}

/// A kubelet that reports capacity only offers all of it.
fn node(m: &mut Obj) {
    if let Some(spec) = ensure(m, "spec")
        && zero(spec, "podCIDRs")
        && let Some(one) = spec.get("podCIDR").filter(|c| !crate::json::is_zero(c)).cloned()
    {
        spec.insert("podCIDRs".into(), Value::Array(vec![one]));
    }
    let Some(status) = child(m, "status") else { return };
    quantities(status, "capacity");
    quantities(status, "allocatable");
    if zero(status, "allocatable")
        && let Some(capacity) = status.get("capacity").filter(|c| !crate::json::is_zero(c)).cloned()
    {
        status.insert("allocatable".into(), capacity);
    }
}

fn event(m: &mut Obj) {
    ensure(m, "source");
    crate::json::fill(m, "reportingComponent", "");
    crate::json::fill(m, "reportingInstance", "");
}

/// Quantities are stored in canonical form, whatever was sent, so that equal amounts compare equal.
pub(crate) fn quantities(m: &mut Obj, key: &str) {
    if let Some(map) = child(m, key) {
        map.values_mut().for_each(quantity);
    }
}

pub(crate) fn quantity(v: &mut Value) {
    use ek_meta::quantity::Quantity;
    let canonical = match v {
        Value::String(s) if crate::json::is_canonical(s) => return,
        Value::String(s) => match s.parse::<Quantity>() {
            Ok(q) => q.to_string(),
            Err(_) => return,
        },
        Value::Number(n) => match n.to_string().parse::<Quantity>() {
            Ok(q) => q.to_string(),
            Err(_) => return,
        },
        _ => return,
    };
    *v = Value::String(canonical);
}

/// `resources` of a container, a claim or a pod.
fn resources(m: &mut Obj) {
    if let Some(r) = ensure(m, "resources") {
        quantities(r, "limits");
        quantities(r, "requests");
    }
}

/// Rules of webhooks and policies match both scopes unless they say otherwise.
fn rule_scopes(m: &mut Obj, key: &str) {
    each(m, key, |r| crate::json::fill(r, "scope", "*"));
}
