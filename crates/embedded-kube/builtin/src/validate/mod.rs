//! What makes an object of a built-in kind wrong.
//!
//! Types and unknown fields are the schema's business and come before. Here is a curated part of what upstream
//! checks: fields that must be there, words from fixed sets, ranges, references inside one object, and what may not
//! change. The wording is upstream's, for people and tests match on it. An object accepted here that a production
//! server refuses is the failure to avoid; where a rule is missing, the gap is on the side of accepting.
//!
//! Status writes come from controllers that know what they do: they are not checked.

mod batch;
mod container;
mod core;
mod network;
mod node;
mod path;
mod pod;
mod policy;
mod rbac;
mod storage;
mod webhooks;
mod workloads;

use crate::json::str_of;
use ek_meta::FieldError;
use ek_meta::quantity::Quantity;
use path::{Errors, Path};
use serde_json::Value;

/// Everything wrong with `new`, which replaces `old` or is created.
pub fn validate(
    group: &str,
    plural: &str,
    new: &Value,
    old: Option<&Value>,
    subresource: &str,
) -> Vec<FieldError> {
    let mut e = Errors::default();
    if !matches!(subresource, "" | "scale") {
        if plural == "certificatesigningrequests" {
            core::signing_decision(&mut e, new, old);
        }
        if let (true, Some(old)) = (subresource == "resize", old) {
            pod::resize(&mut e, new, old);
        }
        return e.0;
    }
    match (group, plural) {
        ("", "configmaps") => core::config_map(&mut e, new, old),
        ("", "secrets") => core::secret(&mut e, new, old),
        ("" | "events.k8s.io", "events") => core::event(&mut e, new, old, group),
        ("", "pods") => pod::pod(&mut e, new, old),
        ("", "podtemplates") => pod::template(&mut e, &Path::ROOT, new, &[]),
        ("", "nodes") => node::node(&mut e, new, old),
        ("", "services") => network::service(&mut e, new, old),
        ("", "endpoints") => network::endpoints(&mut e, new),
        ("", "replicationcontrollers") => workloads::replication_controller(&mut e, new),
        ("", "persistentvolumes") => storage::volume(&mut e, new, old),
        ("", "persistentvolumeclaims") => storage::claim(&mut e, new, old),
        ("", "limitranges") => policy::limit_range(&mut e, new),
        ("", "resourcequotas") => policy::resource_quota(&mut e, new, old),
        ("apps", "deployments") => workloads::deployment(&mut e, new, old),
        ("apps", "replicasets") => workloads::replica_set(&mut e, new, old),
        ("apps", "statefulsets") => workloads::stateful_set(&mut e, new, old),
        ("apps", "daemonsets") => workloads::daemon_set(&mut e, new, old),
        ("apps", "controllerrevisions") => workloads::controller_revision(&mut e, new, old),
        ("batch", "jobs") => batch::job(&mut e, new, old),
        ("batch", "cronjobs") => batch::cron_job(&mut e, new, old),
        ("autoscaling", "horizontalpodautoscalers") => policy::autoscaler(&mut e, new),
        ("networking.k8s.io", "ingresses") => network::ingress(&mut e, new),
        ("networking.k8s.io", "ingressclasses") => network::ingress_class(&mut e, new, old),
        ("networking.k8s.io", "networkpolicies") => network::network_policy(&mut e, new),
        ("discovery.k8s.io", "endpointslices") => network::endpoint_slice(&mut e, new, old),
        ("policy", "poddisruptionbudgets") => policy::disruption_budget(&mut e, new),
        ("rbac.authorization.k8s.io", "roles") => rbac::role(&mut e, new, true),
        ("rbac.authorization.k8s.io", "clusterroles") => rbac::role(&mut e, new, false),
        ("rbac.authorization.k8s.io", "rolebindings") => rbac::binding(&mut e, new, old, true),
        ("rbac.authorization.k8s.io", "clusterrolebindings") => rbac::binding(&mut e, new, old, false),
        ("storage.k8s.io", "storageclasses") => storage::class(&mut e, new, old),
        ("admissionregistration.k8s.io", "validatingwebhookconfigurations") => {
            webhooks::configuration(&mut e, new, false);
        }
        ("admissionregistration.k8s.io", "mutatingwebhookconfigurations") => {
            webhooks::configuration(&mut e, new, true);
        }
        ("admissionregistration.k8s.io", "validatingadmissionpolicies") => webhooks::policy(&mut e, new),
        ("admissionregistration.k8s.io", "validatingadmissionpolicybindings") => {
            webhooks::binding(&mut e, new)
        }
        ("scheduling.k8s.io", "priorityclasses") => policy::priority_class(&mut e, new, old),
        ("coordination.k8s.io", "leases") => policy::lease(&mut e, new),
        ("node.k8s.io", "runtimeclasses") => policy::runtime_class(&mut e, new, old),
        ("certificates.k8s.io", "certificatesigningrequests") => core::signing_request(&mut e, new),
        ("flowcontrol.apiserver.k8s.io", "flowschemas") => policy::flow_schema(&mut e, new),
        ("flowcontrol.apiserver.k8s.io", "prioritylevelconfigurations") => {
            policy::priority_level(&mut e, new)
        }
        ("apiregistration.k8s.io", "apiservices") => policy::api_service(&mut e, new),
        _ => {}
    }
    e.0
}

fn spec(obj: &Value) -> &Value {
    obj.get("spec").unwrap_or(&Value::Null)
}

/// Every amount in a map is a number, and none is negative.
fn quantities(e: &mut Errors, p: &Path<'_>, v: &Value, key: &str) {
    let Some(Value::Object(m)) = v.get(key) else { return };
    let p = p.child(key);
    for (name, v) in m {
        if v.as_str().is_some_and(|s| crate::json::simple_quantity(s).is_some()) {
            continue;
        }
        match quantity(v) {
            Some(q) if q.sign() < 0 => e.invalid(&p.key(name), v.clone(), path::NEGATIVE),
            Some(_) => {}
            None => e.invalid(&p.key(name), v.clone(), ek_meta::quantity::ParseQuantityError.to_string()),
        }
    }
}

fn exceeds(a: &Value, b: &Value) -> bool {
    use crate::json::simple_quantity;
    match (a.as_str().and_then(simple_quantity), b.as_str().and_then(simple_quantity)) {
        (Some((x, s)), Some((y, t))) if s == t => x > y,
        _ => quantity(a) > quantity(b),
    }
}

fn quantity(v: &Value) -> Option<Quantity> {
    match v {
        Value::String(s) => s.parse().ok(),
        Value::Number(n) => n.to_string().parse().ok(),
        _ => None,
    }
}

/// Labels, by the name of the field that holds them all.
fn labels(e: &mut Errors, p: &Path<'_>, v: Option<&Value>) {
    let Some(Value::Object(m)) = v else { return };
    for (k, v) in m {
        e.named(p, k, ek_meta::names::qualified_name);
        e.named(p, v.as_str().unwrap_or_default(), ek_meta::names::label_value);
    }
}

/// A label selector that selectors' own rules accept.
fn selector(e: &mut Errors, p: &Path<'_>, v: &Value) {
    use ek_meta::names;
    if let Some(Value::Object(m)) = v.get("matchLabels") {
        let p = p.child("matchLabels");
        for (k, v) in m {
            e.named(&p, k, names::qualified_name);
            e.named(&p, v.as_str().unwrap_or_default(), names::label_value);
        }
    }
    let p = p.child("matchExpressions");
    for (i, x) in crate::json::list(v, "matchExpressions").iter().enumerate() {
        let p = p.index(i);
        let none = crate::json::list(x, "values").is_empty();
        match str_of(x, "operator") {
            "In" | "NotIn" if none => {
                e.required(&p.child("values"), "must be specified when `operator` is 'In' or 'NotIn'");
            }
            "Exists" | "DoesNotExist" if !none => {
                e.forbidden(
                    &p.child("values"),
                    "may not be specified when `operator` is 'Exists' or 'DoesNotExist'",
                );
            }
            "In" | "NotIn" | "Exists" | "DoesNotExist" => {}
            other => e.invalid(&p.child("operator"), other, "not a valid selector operator"),
        }
        e.named(&p.child("key"), str_of(x, "key"), names::qualified_name);
    }
}

/// A number, or a share of one.
fn int_or_percent(e: &mut Errors, p: &Path<'_>, v: Option<&Value>) {
    match v {
        Some(Value::Number(n)) if n.as_i64().is_some_and(|n| n < 0) => {
            e.invalid(p, Value::Number(n.clone()), path::NEGATIVE);
        }
        Some(Value::String(s)) => {
            let digits = s.strip_suffix('%').unwrap_or_default();
            if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
                e.invalid(p, s.as_str(), "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or '93%', regex used for validation is '[0-9]+%')");
            }
        }
        _ => {}
    }
}

/// Zero, written either way.
fn is_nothing(v: Option<&Value>) -> bool {
    match v {
        Some(Value::Number(n)) => n.as_i64() == Some(0),
        Some(Value::String(s)) => s.trim_end_matches('%').parse::<i64>() == Ok(0),
        _ => true,
    }
}

/// A service's name for a port: what IANA accepts.
fn port_name(s: &str) -> Vec<String> {
    let mut out = Vec::new();
    if s.len() > 15 {
        out.push("must be no more than 15 characters".to_owned());
    }
    let plain = |b: &u8| b.is_ascii_lowercase() || b.is_ascii_digit();
    if !s.bytes().all(|b| plain(&b) || b == b'-') || s.is_empty() {
        out.push("must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)".to_owned());
    }
    if !s.bytes().any(|b| b.is_ascii_lowercase()) {
        out.push("must contain at least one letter (a-z)".to_owned());
    }
    if s.contains("--") {
        out.push("must not contain consecutive hyphens".to_owned());
    }
    if s.starts_with('-') || s.ends_with('-') {
        out.push("must not begin or end with a hyphen".to_owned());
    }
    out
}

/// A port by number or by name.
fn port_or_name(e: &mut Errors, p: &Path<'_>, v: Option<&Value>) {
    match v {
        Some(Value::Number(n)) => e.port(p, n.as_i64().unwrap_or_default()),
        Some(Value::String(s)) => e.named(p, s, port_name),
        _ => e.port(p, 0),
    }
}

fn is_ip(s: &str) -> bool {
    s.parse::<std::net::IpAddr>().is_ok()
}

const NOT_IP: &str = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)";
