//! On which nodes a daemon set's pods are, should be, and are replaced.

use crate::objects::{counts, int, list, scaled, sooner, text};
use crate::placement::{tolerates, untolerated, wants_node};
use crate::pods::Pod;
use jiff::Timestamp;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

/// Daemons put up with what drives others off: they are often what makes a node well again.
fn own_tolerations(spec: &Value) -> Vec<Value> {
    let t = |key: &str, effect: &str| json!({"key": format!("node.kubernetes.io/{key}"), "operator": "Exists", "effect": effect});
    let mut all = vec![
        t("not-ready", "NoExecute"),
        t("unreachable", "NoExecute"),
        t("disk-pressure", "NoSchedule"),
        t("memory-pressure", "NoSchedule"),
        t("pid-pressure", "NoSchedule"),
        t("unschedulable", "NoSchedule"),
    ];
    if spec.get("hostNetwork") == Some(&Value::Bool(true)) {
        all.push(t("network-unavailable", "NoSchedule"));
    }
    all
}

/// The template with the tolerations every daemon has.
pub(super) fn template(set: &Value) -> Value {
    let mut t = set["spec"]["template"].clone();
    let own = own_tolerations(&t["spec"]);
    let spec = crate::objects::object_at(&mut t, "spec");
    let all = spec.entry("tolerations").or_insert_with(|| json!([]));
    if let Value::Array(a) = all {
        for t in own {
            if !a.contains(&t) {
                a.push(t);
            }
        }
    }
    t
}

/// Whether a pod of the template should be on the node, and whether one that is may stay.
pub(super) fn belongs(template: &Value, node: &Value) -> (bool, bool) {
    let spec = &template["spec"];
    let tolerations = list(spec, "/tolerations");
    let wanted = text(spec, "/nodeName");
    if !wanted.is_empty() && wanted != ek_meta::object::name(node) || !wants_node(spec, node) {
        return (false, false);
    }
    let cordon = json!({"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"});
    let cordoned = node.pointer("/spec/unschedulable") == Some(&Value::Bool(true));
    if untolerated(tolerations, node, &["NoExecute"]).is_some() {
        return (false, false);
    }
    let taken = untolerated(tolerations, node, &["NoSchedule"]).is_none()
        && (!cordoned || tolerates(tolerations, &cordon));
    (taken, true)
}

/// A pod of the set for one node; the scheduler sees that it gets there.
pub(super) fn pod(set: &Value, template: &Value, hash: &str, node: &str) -> Value {
    let mut pod = crate::pods::from_template(set, template);
    let labels = crate::objects::object_at(&mut pod, "metadata").entry("labels").or_insert_with(|| json!({}));
    labels["controller-revision-hash"] = json!(hash);
    if let Some(g) = crate::objects::annotation(set, "deprecated.daemonset.template.generation") {
        labels["pod-template-generation"] = json!(g);
    }
    let field = json!({"key": "metadata.name", "operator": "In", "values": [node]});
    let required =
        &mut pod["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"];
    match required.get_mut("nodeSelectorTerms").and_then(Value::as_array_mut) {
        // The node's name in every term, in place of other fields: of several one is enough.
        Some(terms) if !terms.is_empty() => {
            for t in terms {
                t["matchFields"] = json!([field]);
            }
        }
        _ => *required = json!({"nodeSelectorTerms": [{"matchFields": [field]}]}),
    }
    pod
}

/// The node a pod is on or meant for.
pub(super) fn node_of(pod: &Pod, object: &Value) -> String {
    if !pod.node.is_empty() {
        return pod.node.clone();
    }
    let terms = list(
        object,
        "/spec/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution/nodeSelectorTerms",
    );
    let fields = terms.iter().flat_map(|t| list(t, "/matchFields"));
    fields
        .filter_map(|f| f.pointer("/values/0"))
        .filter_map(Value::as_str)
        .next()
        .unwrap_or_default()
        .to_owned()
}

pub(super) struct Input<'a> {
    pub(super) set: &'a Value,
    /// For each node whether a pod should be there, and whether one may stay.
    pub(super) nodes: BTreeMap<String, (bool, bool)>,
    pub(super) pods: BTreeMap<String, Vec<&'a Pod>>,
    pub(super) hash: &'a str,
    pub(super) now: Timestamp,
}

#[derive(Debug, Default)]
pub(super) struct Plan<'a> {
    pub(super) create: Vec<String>,
    pub(super) delete: Vec<&'a Pod>,
    /// Failed ones among `delete`, by node.
    pub(super) failed: Vec<(String, &'a Pod)>,
    pub(super) status: Map<String, Value>,
    pub(super) at: Option<Timestamp>,
}

fn is_new(p: &Pod, hash: &str) -> bool {
    p.label("controller-revision-hash") == Some(hash)
}

pub(super) fn plan<'a>(input: &Input<'a>) -> Plan<'a> {
    let set = input.set;
    let min_ready = int(set, "/spec/minReadySeconds").unwrap_or(0);
    let available = |p: &Pod| !p.deleting && p.available(min_ready, input.now);
    let desired = input.nodes.values().filter(|(run, _)| *run).count() as i64;
    let update = |field: &str| set.pointer(&format!("/spec/updateStrategy/rollingUpdate/{field}"));
    let rolling = text(set, "/spec/updateStrategy/type") != "OnDelete";
    let surge = if rolling { scaled(update("maxSurge"), desired, true) } else { 0 };
    let mut out = Plan::default();
    let (mut scheduled, mut ready, mut up, mut updated, mut stray) = (0, 0, 0, 0, 0);
    let none = Vec::new();
    for (node, (run, stay)) in &input.nodes {
        let here = input.pods.get(node).unwrap_or(&none);
        let mut alive: Vec<&Pod> = Vec::new();
        for p in here {
            if p.ended() && !p.deleting {
                out.failed.push((node.clone(), p));
            } else if !p.deleting {
                alive.push(p);
            }
        }
        // The oldest of a revision stays; while replacing, one of each may.
        alive.sort_by(|a, b| {
            (a.node.is_empty(), a.created, &a.name).cmp(&(b.node.is_empty(), b.created, &b.name))
        });
        if *run {
            if let Some(first) = alive.first() {
                scheduled += 1;
                ready += i64::from(alive.iter().any(|p| p.ready));
                up += i64::from(alive.iter().any(|p| available(p)));
                updated += i64::from(alive.iter().any(|p| is_new(p, input.hash)));
                let new = alive.iter().find(|p| is_new(p, input.hash));
                let keep_both = surge > 0 && new.is_some_and(|n| !available(n));
                for p in alive.iter().skip(1) {
                    let pair = surge > 0 && is_new(p, input.hash) != is_new(first, input.hash);
                    if !pair {
                        out.delete.push(p);
                    }
                }
                if surge > 0 && !keep_both && new.is_some() {
                    out.delete.extend(alive.iter().filter(|p| !is_new(p, input.hash)));
                }
            } else {
                // One that is going must be gone first, unless two may be there at a time.
                if here.iter().all(|p| p.ended())
                    || (surge > 0 && here.iter().all(|p| p.ended() || p.deleting))
                {
                    out.create.push(node.clone());
                }
            }
        } else if !alive.is_empty() {
            stray += 1;
            if !*stay {
                out.delete.extend(&alive);
            }
        }
        for p in &alive {
            out.at = sooner(out.at, p.available_at(min_ready).filter(|t| *t > input.now));
        }
    }
    for (_, pods) in input.pods.iter().filter(|(n, _)| !input.nodes.contains_key(*n)) {
        out.delete.extend(pods.iter().filter(|p| !p.deleting));
    }
    if rolling {
        roll(input, &mut out, desired, surge, scaled(update("maxUnavailable"), desired, true), &available);
    }
    out.delete.sort_by(|a, b| a.name.cmp(&b.name));
    out.delete.dedup_by(|a, b| a.name == b.name);
    let mut status = counts(
        &[
            ("currentNumberScheduled", scheduled),
            ("numberMisscheduled", stray),
            ("desiredNumberScheduled", desired),
            ("numberReady", ready),
        ],
        &[
            ("observedGeneration", int(set, "/metadata/generation").unwrap_or(0)),
            ("updatedNumberScheduled", updated),
            ("numberAvailable", up),
            ("numberUnavailable", desired - up),
            ("collisionCount", int(set, "/status/collisionCount").unwrap_or(0)),
        ],
    );
    let conditions = list(set, "/status/conditions");
    if !conditions.is_empty() {
        status.insert("conditions".into(), json!(conditions));
    }
    out.status = status;
    out
}

/// Replaces pods of older templates, as many at a time as allowed.
fn roll<'a>(
    input: &Input<'a>,
    out: &mut Plan<'a>,
    desired: i64,
    surge: i64,
    max_unavailable: i64,
    available: &dyn Fn(&Pod) -> bool,
) {
    let none = Vec::new();
    let mut down = 0;
    let mut candidates: Vec<(&String, &'a Pod)> = Vec::new();
    let mut surging = 0;
    for (node, _) in input.nodes.iter().filter(|(_, (run, _))| *run) {
        let here = input.pods.get(node).unwrap_or(&none);
        let alive: Vec<&'a Pod> = here.iter().filter(|p| p.active()).copied().collect();
        let new = alive.iter().find(|p| is_new(p, input.hash));
        let old = alive.iter().find(|p| !is_new(p, input.hash));
        if !alive.iter().any(|p| available(p)) {
            down += 1;
        }
        match (old, new) {
            (Some(old), None) => candidates.push((node, old)),
            (Some(_), Some(_)) => surging += 1,
            _ => {}
        }
    }
    if surge > 0 {
        // One more beside each old one, until enough are there.
        for (node, old) in candidates {
            if !available(old) || surging < surge {
                surging += 1;
                out.create.push(node.clone());
            }
        }
        return;
    }
    let allowed = max_unavailable.max(if desired > 0 { 1 } else { 0 });
    let mut room = allowed - down;
    for (_, old) in candidates {
        if !available(old) {
            out.delete.push(old);
        } else if room > 0 {
            room -= 1;
            out.delete.push(old);
        }
    }
}
