//! Which pods a stateful set makes, deletes and replaces, one step at a time.

use crate::objects::{counts, int, list, sooner, text};
use crate::pods::Pod;
use jiff::Timestamp;
use serde_json::{Map, Value, json};

/// What to do now.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Make the pod of this ordinal, of the present template or of the one before.
    Create {
        ordinal: i64,
        current: bool,
    },
    Delete {
        name: String,
    },
}

#[derive(Debug, Default)]
pub(super) struct Plan {
    pub(super) steps: Vec<Step>,
    /// Look again then: somebody becomes available.
    pub(super) at: Option<Timestamp>,
}

/// How the set wants to be treated.
pub(super) struct Shape {
    pub(super) start: i64,
    pub(super) replicas: i64,
    pub(super) ordered: bool,
    pub(super) min_ready: i64,
    pub(super) rolling: bool,
    pub(super) partition: i64,
}

impl Shape {
    pub(super) fn of(set: &Value) -> Shape {
        Shape {
            start: int(set, "/spec/ordinals/start").unwrap_or(0),
            replicas: int(set, "/spec/replicas").unwrap_or(1),
            ordered: text(set, "/spec/podManagementPolicy") != "Parallel",
            min_ready: int(set, "/spec/minReadySeconds").unwrap_or(0),
            rolling: text(set, "/spec/updateStrategy/type") != "OnDelete",
            partition: int(set, "/spec/updateStrategy/rollingUpdate/partition").unwrap_or(0),
        }
    }

    pub(super) fn wants(&self, ordinal: i64) -> bool {
        (self.start..self.start + self.replicas).contains(&ordinal)
    }
}

/// The number at the end of a pod's name, if it is this set's.
pub(super) fn ordinal(set: &str, pod: &str) -> Option<i64> {
    pod.strip_prefix(set)?.strip_prefix('-')?.parse().ok().filter(|n| *n >= 0)
}

fn revision(pod: &Pod) -> &str {
    pod.label("controller-revision-hash").unwrap_or_default()
}

pub(super) fn plan(shape: &Shape, name: &str, pods: &[Pod], update: &str, now: Timestamp) -> Plan {
    let mut out = Plan::default();
    let find = |n: i64| pods.iter().find(|p| ordinal(name, &p.name) == Some(n));
    let healthy = |p: &Pod| p.ready && !p.deleting;
    for n in shape.start..shape.start + shape.replicas {
        let Some(pod) = find(n) else {
            // Below the partition the old template still holds.
            let current = shape.rolling && n < shape.start + shape.partition;
            out.steps.push(Step::Create { ordinal: n, current });
            if shape.ordered {
                return out;
            }
            continue;
        };
        if pod.ended() && !pod.deleting {
            out.steps.push(Step::Delete { name: pod.name.clone() });
            if shape.ordered {
                return out;
            }
            continue;
        }
        if shape.ordered && !healthy(pod) {
            return out;
        }
        if !pod.available(shape.min_ready, now) {
            out.at = sooner(out.at, pod.available_at(shape.min_ready).filter(|t| *t > now));
            if shape.ordered {
                return out;
            }
        }
    }
    let mut surplus: Vec<(i64, &Pod)> = pods
        .iter()
        .filter_map(|p| ordinal(name, &p.name).filter(|n| !shape.wants(*n)).map(|n| (n, p)))
        .collect();
    surplus.sort_by_key(|(n, _)| std::cmp::Reverse(*n));
    let first_unhealthy =
        surplus.iter().map(|(n, p)| (*n, p)).filter(|(_, p)| !healthy(p)).map(|(n, _)| n).min();
    for (n, pod) in &surplus {
        if pod.deleting {
            if shape.ordered {
                return out;
            }
            continue;
        }
        // In order, one that is not well waits for those that go before it.
        if shape.ordered && !healthy(pod) && first_unhealthy != Some(*n) {
            return out;
        }
        out.steps.push(Step::Delete { name: pod.name.clone() });
        if shape.ordered {
            return out;
        }
    }
    if !shape.rolling || !out.steps.is_empty() {
        return out;
    }
    for n in (shape.start + shape.partition..shape.start + shape.replicas).rev() {
        let Some(pod) = find(n) else { continue };
        if revision(pod) != update && !pod.deleting {
            out.steps.push(Step::Delete { name: pod.name.clone() });
            return out;
        }
        if !healthy(pod) || !pod.available(shape.min_ready, now) {
            return out;
        }
    }
    out
}

/// The status, and whether the update is complete.
pub(super) fn status(
    set: &Value,
    shape: &Shape,
    pods: &[Pod],
    current: &str,
    update: &str,
    now: Timestamp,
) -> Map<String, Value> {
    let alive = || pods.iter().filter(|p| !p.ended());
    let count = |f: &dyn Fn(&&Pod) -> bool| alive().filter(f).count() as i64;
    let replicas = count(&|_| true);
    let ready = count(&|p| p.ready && !p.deleting);
    let available = count(&|p| !p.deleting && p.available(shape.min_ready, now));
    let updated = count(&|p| !p.deleting && revision(p) == update);
    let complete = shape.rolling
        && shape.partition == 0
        && updated == shape.replicas
        && replicas == shape.replicas
        && ready == shape.replicas;
    let current = if complete { update } else { current };
    let of_current = count(&|p| !p.deleting && revision(p) == current);
    let mut status = counts(
        &[("replicas", replicas), ("availableReplicas", available)],
        &[
            ("observedGeneration", int(set, "/metadata/generation").unwrap_or(0)),
            ("readyReplicas", ready),
            ("currentReplicas", of_current),
            ("updatedReplicas", updated),
        ],
    );
    status.insert("currentRevision".into(), json!(current));
    status.insert("updateRevision".into(), json!(update));
    status.insert("collisionCount".into(), json!(int(set, "/status/collisionCount").unwrap_or(0)));
    let conditions = list(set, "/status/conditions");
    if !conditions.is_empty() {
        status.insert("conditions".into(), json!(conditions));
    }
    status
}

/// The claims a pod of this ordinal uses: template name and claim name.
pub(super) fn claims(set: &Value, ordinal: i64) -> Vec<(String, String)> {
    let name = text(set, "/metadata/name");
    let of = |t: &Value| {
        let volume = text(t, "/metadata/name").to_owned();
        let claim = format!("{volume}-{name}-{ordinal}");
        (volume, claim)
    };
    list(set, "/spec/volumeClaimTemplates").iter().map(of).collect()
}

/// The pod of an ordinal: a template with a name, a place in the set and its own claims.
pub(super) fn pod(set: &Value, template: &Value, revision: &str, ordinal: i64) -> Value {
    let name = format!("{}-{ordinal}", text(set, "/metadata/name"));
    let mut pod = crate::pods::from_template(set, template);
    let meta = crate::objects::object_at(&mut pod, "metadata");
    meta.remove("generateName");
    meta.insert("name".into(), json!(name));
    let labels = meta.entry("labels").or_insert_with(|| json!({}));
    labels["controller-revision-hash"] = json!(revision);
    labels["statefulset.kubernetes.io/pod-name"] = json!(name);
    labels["apps.kubernetes.io/pod-index"] = json!(ordinal.to_string());
    let spec = crate::objects::object_at(&mut pod, "spec");
    spec.insert("hostname".into(), json!(name));
    let service = text(set, "/spec/serviceName");
    if !service.is_empty() {
        spec.insert("subdomain".into(), json!(service));
    }
    let claims = claims(set, ordinal);
    let mut volumes: Vec<Value> = spec.get("volumes").and_then(Value::as_array).cloned().unwrap_or_default();
    volumes.retain(|v| !claims.iter().any(|(n, _)| v["name"] == n.as_str()));
    for (volume, claim) in claims {
        volumes.push(json!({"name": volume, "persistentVolumeClaim": {"claimName": claim}}));
    }
    if !volumes.is_empty() {
        spec.insert("volumes".into(), json!(volumes));
    }
    pod
}
