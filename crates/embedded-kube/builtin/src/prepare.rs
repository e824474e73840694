//! What the server reshapes in an object besides filling defaults.
//!
//! Two reasons: fields only the server may decide
//! are decided (`status` of a new object, the selector of a job), and allocated values survive an update by a
//! client that did not know them (a service's addresses). `prepare` runs before admission and, like defaulting,
//! again after each webhook, so every step is idempotent. `reset_on_create` runs once after mutating admission:
//! neither a client nor a webhook may choose the first status.

use crate::json::{Obj, child, each, ensure, is_zero, list, str_of, text, zero};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use ek_meta::quantity::Quantity;
use serde_json::{Map, Value, json};

pub fn prepare(group: &str, plural: &str, obj: &mut Value, old: Option<&Value>) {
    match (group, plural) {
        ("", "services") => {
            if let Some(old) = old {
                service_update(obj, old);
            }
            service_addresses(obj);
        }
        ("", "namespaces") if old.is_none() => namespace_finalizer(obj),
        // Asked once: what was requested never changes, whatever an update says.
        ("certificates.k8s.io", "certificatesigningrequests") => {
            if let (Some(m), Some(spec)) = (obj.as_object_mut(), old.and_then(|o| o.get("spec"))) {
                m.insert("spec".into(), spec.clone());
            }
        }
        ("batch", "jobs") if old.is_none() => job_selector(obj),
        ("apps", "daemonsets") => template_generation(obj, old),
        _ => {}
    }
    if old.is_none() {
        reset_on_create(group, plural, obj);
    }
}

/// Replaces what was sent as `status` by what a new object has.
pub fn reset_on_create(group: &str, plural: &str, obj: &mut Value) {
    let Some(m) = obj.as_object_mut() else { return };
    let status = match (group, plural) {
        ("", "pods") => {
            let qos = m.get("spec").map_or("BestEffort", qos_class);
            json!({"phase": "Pending", "qosClass": qos})
        }
        ("", "namespaces") => json!({"phase": "Active"}),
        ("", "persistentvolumes" | "persistentvolumeclaims") => json!({"phase": "Pending"}),
        ("", "services") | ("networking.k8s.io", "ingresses") => json!({"loadBalancer": {}}),
        ("", "replicationcontrollers") | ("apps", "replicasets") => json!({"replicas": 0}),
        ("apps", "statefulsets") => json!({"replicas": 0, "availableReplicas": 0}),
        ("apps", "daemonsets") => json!({
            "currentNumberScheduled": 0, "numberMisscheduled": 0, "desiredNumberScheduled": 0, "numberReady": 0
        }),
        ("policy", "poddisruptionbudgets") => {
            json!({"disruptionsAllowed": 0, "currentHealthy": 0, "desiredHealthy": 0, "expectedPods": 0})
        }
        ("autoscaling", "horizontalpodautoscalers") => json!({"currentReplicas": 0, "desiredReplicas": 0}),
        ("storage.k8s.io", "volumeattachments") => json!({"attached": false}),
        ("", "resourcequotas")
        | ("apps", "deployments")
        | ("batch", "jobs" | "cronjobs")
        | ("certificates.k8s.io", "certificatesigningrequests")
        | ("networking.k8s.io", "servicecidrs")
        | ("admissionregistration.k8s.io", "validatingadmissionpolicies")
        | ("flowcontrol.apiserver.k8s.io", "flowschemas" | "prioritylevelconfigurations")
        | ("apiregistration.k8s.io", "apiservices")
        | ("resource.k8s.io", "resourceclaims") => json!({}),
        // A kubelet registers its node together with what it found.
        _ => return,
    };
    m.insert("status".into(), status);
}

/// Text a person may write, merged over the encoded data and never stored as such.
pub(crate) fn string_data(m: &mut Obj) {
    let Some(Value::Object(plain)) = m.shift_remove("stringData") else { return };
    if plain.is_empty() {
        return;
    }
    if let Some(data) = ensure(m, "data") {
        for (k, v) in plain {
            data.insert(k, Value::String(STANDARD.encode(v.as_str().unwrap_or_default())));
        }
    }
}

/// Held until the namespace is empty.
fn namespace_finalizer(obj: &mut Value) {
    let Some(spec) = obj.as_object_mut().and_then(|m| ensure(m, "spec")) else { return };
    if !list_contains(spec.get("finalizers"), "kubernetes") {
        match spec.get_mut("finalizers") {
            Some(Value::Array(a)) => a.push("kubernetes".into()),
            _ => _ = spec.insert("finalizers".into(), json!(["kubernetes"])),
        }
    }
}

fn list_contains(v: Option<&Value>, s: &str) -> bool {
    v.and_then(Value::as_array).is_some_and(|a| a.iter().any(|x| x == s))
}

/// A job owns its pods by a label nobody else can have: its uid. The unprefixed labels are older and still read.
fn job_selector(obj: &mut Value) {
    let name = Value::from(ek_meta::object::name(obj));
    let uid = Value::from(ek_meta::object::uid(obj));
    let Some(spec) = obj.as_object_mut().and_then(|m| child(m, "spec")) else { return };
    if spec.get("manualSelector") == Some(&Value::Bool(true)) || is_zero(&uid) {
        return;
    }
    let labels =
        ensure(spec, "template").and_then(|t| ensure(t, "metadata")).and_then(|m| ensure(m, "labels"));
    let mut all = Value::Null;
    if let Some(labels) = labels {
        for key in ["controller-uid", "batch.kubernetes.io/controller-uid"] {
            labels.insert(key.into(), uid.clone());
        }
        for key in ["job-name", "batch.kubernetes.io/job-name"] {
            labels.insert(key.into(), name.clone());
        }
        all = Value::Object(labels.clone());
    }
    if let Some(labels) = ensure(spec, "selector").and_then(|s| ensure(s, "matchLabels")) {
        labels.insert("batch.kubernetes.io/controller-uid".into(), uid);
    }
    // A job without labels of its own has those of its pods.
    if let Some(meta) = obj.as_object_mut().and_then(|m| ensure(m, "metadata")) {
        crate::json::fill_zero(meta, "labels", all);
    }
}

/// Counts the templates of a daemon set, in an annotation: the field it once was is long gone.
fn template_generation(obj: &mut Value, old: Option<&Value>) {
    let count = match old {
        None => 1,
        Some(old) => {
            let before = old.pointer("/metadata/annotations").map_or("", |a| str_of(a, TEMPLATE_GENERATION));
            let changed = old.pointer("/spec/template") != obj.pointer("/spec/template");
            before.parse::<i64>().unwrap_or(0) + i64::from(changed)
        }
    };
    let annotations =
        obj.as_object_mut().and_then(|m| ensure(m, "metadata")).and_then(|m| ensure(m, "annotations"));
    if let Some(a) = annotations {
        a.insert(TEMPLATE_GENERATION.into(), count.to_string().into());
    }
}

pub(crate) const TEMPLATE_GENERATION: &str = "deprecated.daemonset.template.generation";

/// How a node under pressure ranks the pod: by how much of what it may use it has reserved.
fn qos_class(spec: &Value) -> &'static str {
    let (mut any, mut guaranteed, mut seen) = (false, true, false);
    let own = spec.get("resources").filter(|r| !is_zero(r));
    let containers = list(spec, "containers").iter().chain(list(spec, "initContainers"));
    let all: Vec<&Value> = match own {
        Some(r) => vec![r],
        None => containers.map(|c| c.get("resources").unwrap_or(&Value::Null)).collect(),
    };
    for r in all {
        seen = true;
        for name in ["cpu", "memory"] {
            let read = |kind: &str| {
                let q = r.get(kind)?.get(name)?.as_str()?.parse::<Quantity>().ok()?;
                (!q.is_zero()).then_some(q)
            };
            let (limit, request) = (read("limits"), read("requests"));
            any |= limit.is_some() || request.is_some();
            guaranteed &= limit.is_some() && request.is_none_or(|r| Some(r) == limit);
        }
    }
    match (any, guaranteed && seen) {
        (false, _) => "BestEffort",
        (true, true) => "Guaranteed",
        (true, false) => "Burstable",
    }
}

fn has_cluster_ip(ty: &str) -> bool {
    matches!(ty, "ClusterIP" | "NodePort" | "LoadBalancer" | "")
}

const ADDRESSING: [&str; 4] = ["clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy"];

/// Keeps what was allocated when the client leaves it out, and lets go of it when the type no longer has it.
fn service_update(obj: &mut Value, old: &Value) {
    let Some(old) = old.get("spec") else { return };
    let Some(Value::Object(spec)) = obj.get_mut("spec") else { return };
    let (had_ip, has_ip) = (has_cluster_ip(str_of(old, "type")), has_cluster_ip(text(spec, "type")));
    if had_ip && has_ip {
        let changed = !zero(spec, "clusterIP") && spec.get("clusterIP") != old.get("clusterIP");
        if changed && spec.get("clusterIPs") == old.get("clusterIPs") {
            spec.insert(
                "clusterIPs".into(),
                Value::Array(spec.get("clusterIP").cloned().into_iter().collect()),
            );
        } else if !changed {
            for key in ADDRESSING {
                keep(spec, old, key);
            }
        }
    } else if had_ip {
        for key in ADDRESSING.into_iter().chain(["internalTrafficPolicy"]) {
            release(spec, old, key);
        }
    }
    let had_ports = old.as_object().is_some_and(has_node_port);
    let has_ports = has_node_port(spec);
    if had_ports && has_ports {
        keep_node_ports(spec, old);
    } else if had_ports {
        let allocated: Vec<&Value> = list(old, "ports").iter().filter_map(|p| p.get("nodePort")).collect();
        each(spec, "ports", |p| {
            if p.get("nodePort").is_some_and(|n| allocated.contains(&n)) {
                p.shift_remove("nodePort");
            }
        });
    }
    let outside = matches!(text(spec, "type"), "NodePort" | "LoadBalancer") || !zero(spec, "externalIPs");
    if !outside {
        release(spec, old, "externalTrafficPolicy");
    }
    if text(spec, "type") == "LoadBalancer" {
        if text(spec, "externalTrafficPolicy") == "Local" {
            keep(spec, old, "healthCheckNodePort");
        }
    } else {
        for key in ["allocateLoadBalancerNodePorts", "loadBalancerClass", "healthCheckNodePort"] {
            release(spec, old, key);
        }
    }
}

fn has_node_port(spec: &Obj) -> bool {
    match text(spec, "type") {
        "NodePort" => true,
        "LoadBalancer" => spec.get("allocateLoadBalancerNodePorts") != Some(&Value::Bool(false)),
        _ => false,
    }
}

fn keep(spec: &mut Obj, old: &Value, key: &str) {
    if zero(spec, key)
        && let Some(v) = old.get(key).filter(|v| !is_zero(v))
    {
        spec.insert(key.to_owned(), v.clone());
    }
}

/// Drops a value the client merely echoed; one it changed stays, for validation to refuse.
fn release(spec: &mut Obj, old: &Value, key: &str) {
    if spec.get(key) == old.get(key) {
        spec.shift_remove(key);
    }
}

fn keep_node_ports(spec: &mut Obj, old: &Value) {
    let mut used: Vec<Value> = Vec::new();
    each(spec, "ports", |p| {
        if !zero(p, "nodePort")
            && let Some(n) = p.get("nodePort")
        {
            used.push(n.clone());
        }
    });
    each(spec, "ports", |p| {
        if !zero(p, "nodePort") {
            return;
        }
        let same =
            |o: &&Value| o.get("port") == p.get("port") && str_of(o, "protocol") == text(p, "protocol");
        if let Some(n) = list(old, "ports").iter().find(same).and_then(|o| o.get("nodePort"))
            && !used.contains(n)
        {
            used.push(n.clone());
            p.insert("nodePort".into(), n.clone());
        }
    });
}

/// The single and the plural field say the same, and families follow from addresses.
fn service_addresses(obj: &mut Value) {
    let Some(Value::Object(spec)) = obj.get_mut("spec") else { return };
    if !has_cluster_ip(text(spec, "type")) {
        return;
    }
    if zero(spec, "clusterIPs") && !zero(spec, "clusterIP") {
        let ip = spec.get("clusterIP").cloned().unwrap_or_default();
        spec.insert("clusterIPs".into(), json!([ip]));
    } else if zero(spec, "clusterIP")
        && let Some(first) = spec.get("clusterIPs").and_then(|a| a.get(0)).cloned()
    {
        spec.insert("clusterIP".into(), first);
    }
    if zero(spec, "clusterIP") {
        return;
    }
    // Endpoints somebody else writes may be of any family.
    let open = text(spec, "clusterIP") == "None" && zero(spec, "selector");
    if zero(spec, "ipFamilyPolicy") {
        let dual = spec.get("clusterIPs").and_then(Value::as_array).is_some_and(|a| a.len() > 1);
        let policy = if open || dual { "RequireDualStack" } else { "SingleStack" };
        spec.insert("ipFamilyPolicy".into(), policy.into());
    }
    if zero(spec, "ipFamilies") {
        let single = text(spec, "ipFamilyPolicy") == "SingleStack";
        let of = |ip: &Value| if ip.as_str().is_some_and(|s| s.contains(':')) { "IPv6" } else { "IPv4" };
        let mut families: Vec<&str> = spec
            .get("clusterIPs")
            .and_then(Value::as_array)
            .map_or(Vec::new(), |a| a.iter().map(of).collect());
        families.dedup();
        if open && !single && families.len() == 1 {
            families.push(if families[0] == "IPv4" { "IPv6" } else { "IPv4" });
        }
        spec.insert("ipFamilies".into(), json!(families));
    }
}

/// Removes null members, which mean absent in every built-in kind; what sits in lists stays.
pub(crate) fn drop_nulls(m: &mut Map<String, Value>) {
    if m.values().any(Value::is_null) {
        m.retain(|_, v| !v.is_null());
    }
    for v in m.values_mut() {
        match v {
            Value::Object(m) => drop_nulls(m),
            Value::Array(a) => a.iter_mut().filter_map(Value::as_object_mut).for_each(drop_nulls),
            _ => {}
        }
    }
}
