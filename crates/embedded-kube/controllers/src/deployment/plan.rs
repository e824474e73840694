//! How a deployment's replica sets grow and shrink.

use crate::objects::{annotation, fingerprint, flag, int, scaled, text, when};
use jiff::Timestamp;
use serde_json::{Map, Value, json};
use std::sync::Arc;

pub(super) const REVISION: &str = "deployment.kubernetes.io/revision";
const HISTORY: &str = "deployment.kubernetes.io/revision-history";
const DESIRED: &str = "deployment.kubernetes.io/desired-replicas";
const MAX: &str = "deployment.kubernetes.io/max-replicas";
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";
pub(super) const HASH: &str = "pod-template-hash";

/// A replica set of the deployment.
#[derive(Clone, Debug)]
pub(super) struct Set {
    pub(super) object: Arc<Value>,
    pub(super) name: String,
    pub(super) replicas: i64,
    pub(super) available: i64,
    created: Timestamp,
}

impl Set {
    pub(super) fn of(object: Arc<Value>) -> Set {
        let replicas = int(&object, "/spec/replicas").unwrap_or(0);
        // What a set still counts beyond what it should have is about to go.
        let available = int(&object, "/status/availableReplicas").unwrap_or(0).min(replicas);
        Set {
            name: text(&object, "/metadata/name").to_owned(),
            replicas,
            available,
            created: when(&object, "/metadata/creationTimestamp").unwrap_or(Timestamp::MIN),
            object,
        }
    }

    pub(super) fn revision(&self) -> i64 {
        annotation(&self.object, REVISION).and_then(|r| r.parse().ok()).unwrap_or(0)
    }

    fn count(&self, key: &str) -> Option<i64> {
        annotation(&self.object, key).and_then(|n| n.parse().ok())
    }
}

/// A set as it is to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Change {
    pub(super) name: String,
    pub(super) from: i64,
    pub(super) to: i64,
    pub(super) annotations: Vec<(String, String)>,
    pub(super) min_ready_seconds: Option<i64>,
}

#[derive(Debug, Default)]
pub(super) struct Plan {
    pub(super) create: Option<Value>,
    pub(super) changes: Vec<Change>,
    pub(super) delete: Vec<String>,
    pub(super) revision: Option<i64>,
}

/// How far a rolling update may go up and down.
pub(super) fn bounds(d: &Value) -> (i64, i64) {
    let replicas = int(d, "/spec/replicas").unwrap_or(1);
    if text(d, "/spec/strategy/type") == "Recreate" {
        return (0, replicas);
    }
    let of = |field: &str| d.pointer(&format!("/spec/strategy/rollingUpdate/{field}"));
    let surge = scaled(of("maxSurge"), replicas, true);
    let unavailable = scaled(of("maxUnavailable"), replicas, false);
    // Both zero would never move.
    (surge, if surge == 0 && unavailable == 0 { 1 } else { unavailable.min(replicas) })
}

/// Whether two templates are the same but for what the controller adds to them. Neither is copied: this is asked in every
/// run, and templates are most of what workloads are.
pub(super) fn same(a: &Value, b: &Value) -> bool {
    let (meta, other) = (&a["metadata"], &b["metadata"]);
    same_but(a, b, "metadata")
        && same_but(meta, other, "labels")
        && same_but(&meta["labels"], &other["labels"], HASH)
}

/// Whether two objects agree in all fields but one. Having no fields is as not being there.
fn same_but(a: &Value, b: &Value, field: &str) -> bool {
    let rest = |v: &Value| v.as_object().map_or(0, |o| o.len() - usize::from(o.contains_key(field)));
    let agrees = |(k, v): (&String, &Value)| k == field || b.get(k) == Some(v);
    rest(a) == rest(b) && a.as_object().into_iter().flatten().all(agrees)
}

/// The set made of the present template. Of several the oldest counts, so that all runs agree.
pub(super) fn newest<'a>(d: &Value, sets: &'a [Set]) -> Option<&'a Set> {
    let made_of_it = sets.iter().filter(|s| same(&s.object["spec"]["template"], &d["spec"]["template"]));
    made_of_it.min_by(|a, b| (a.created, &a.name).cmp(&(b.created, &b.name)))
}

pub(super) fn plan(d: &Value, sets: &[Set], complete: bool) -> Plan {
    let wanted = int(d, "/spec/replicas").unwrap_or(1);
    let (surge, _) = bounds(d);
    let new = newest(d, sets);
    let mut old: Vec<&Set> = sets.iter().filter(|s| Some(&s.name) != new.map(|n| &n.name)).collect();
    old.sort_by(|a, b| (a.created, &a.name).cmp(&(b.created, &b.name)));
    let revision = old.iter().map(|s| s.revision()).max().unwrap_or(0) + 1;
    let paused = flag(d, "/spec/paused");
    let mut plan = Plan::default();

    let active: Vec<&Set> = sets.iter().filter(|s| s.replicas > 0).collect();
    let rescaled = active.iter().any(|s| s.count(DESIRED).is_some_and(|n| n != wanted));
    let mut sizes: Vec<(&Set, i64)> = sets.iter().map(|s| (s, s.replicas)).collect();
    if paused || rescaled {
        rescale(d, &mut sizes, new, &old, wanted, surge);
    } else if text(d, "/spec/strategy/type") == "Recreate" {
        let running = |s: &&&Set| s.replicas > 0 || int(&s.object, "/status/replicas").unwrap_or(0) > 0;
        let clear = old.iter().filter(running).count() == 0;
        for (s, n) in &mut sizes {
            *n = if Some(&s.name) != new.map(|n| &n.name) {
                0
            } else if clear {
                wanted
            } else {
                *n
            };
        }
        if new.is_none() {
            plan.create = Some(new_set(d, revision, if clear { wanted } else { 0 }, wanted, surge));
        }
    } else {
        let created = roll(d, &mut sizes, new, &old, wanted);
        if new.is_none() {
            plan.create = Some(new_set(d, revision, created, wanted, surge));
        }
    }
    let touched = paused || rescaled;
    for (set, to) in sizes {
        let is_new = Some(&set.name) == new.map(|n| &n.name);
        let change = change(d, set, to, is_new, revision, wanted, surge, touched);
        plan.changes.extend(change);
    }
    plan.revision = match new {
        Some(n) => Some(n.revision().max(revision)),
        None if paused => None,
        None => Some(revision),
    };
    if complete || paused {
        plan.delete = superfluous(d, &old);
    }
    plan
}

/// One step of a rolling update; returns the size of a new set that is to be made.
fn roll(d: &Value, sizes: &mut [(&Set, i64)], new: Option<&Set>, old: &[&Set], wanted: i64) -> i64 {
    let (surge, unavailable) = bounds(d);
    let total: i64 = sizes.iter().map(|(_, n)| n).sum();
    let have = new.map_or(0, |n| n.replicas);
    let target =
        if have >= wanted { wanted } else { have + (wanted + surge - total).clamp(0, wanted - have) };
    let is_new = |s: &Set| Some(&s.name) == new.map(|n| &n.name);
    for (s, n) in sizes.iter_mut() {
        if is_new(s) {
            *n = target;
        }
    }
    let all = total - have + target;
    let least = wanted - unavailable;
    let pending = target - new.map_or(0, |n| n.available);
    let mut room = all - least - pending;
    // First what does not serve anyway.
    for set in old {
        if room <= 0 {
            break;
        }
        let gone = (set.replicas - set.available).clamp(0, room);
        room -= gone;
        shrink(sizes, set, gone);
    }
    let available: i64 = sizes.iter().map(|(s, _)| s.available).sum();
    let mut spare = (available - least).max(0);
    if all - least - pending <= 0 {
        spare = 0;
    }
    for set in old {
        let size = sizes.iter().find(|(s, _)| s.name == set.name).map_or(0, |(_, n)| *n);
        let gone = size.min(spare);
        spare -= gone;
        shrink(sizes, set, gone);
    }
    target
}

fn shrink(sizes: &mut [(&Set, i64)], set: &Set, by: i64) {
    for (s, n) in sizes {
        if s.name == set.name {
            *n -= by;
        }
    }
}

/// The number of replicas changed, perhaps in the middle of an update: all sets keep their shares.
fn rescale(d: &Value, sizes: &mut [(&Set, i64)], new: Option<&Set>, old: &[&Set], wanted: i64, surge: i64) {
    let active: Vec<&Set> = sizes.iter().map(|(s, _)| *s).filter(|s| s.replicas > 0).collect();
    let only = match active.as_slice() {
        [] => new.or_else(|| old.last().copied()),
        [one] => Some(*one),
        _ => None,
    };
    let set_size = |sizes: &mut [(&Set, i64)], name: &str, to: i64| {
        for (s, n) in sizes {
            if s.name == name {
                *n = to;
            }
        }
    };
    if let Some(one) = only {
        return set_size(sizes, &one.name, wanted);
    }
    let saturated =
        |s: &Set| s.count(DESIRED) == Some(s.replicas) && s.available == s.replicas && s.replicas == wanted;
    if new.is_some_and(saturated) {
        for s in old {
            set_size(sizes, &s.name, 0);
        }
        return;
    }
    if text(d, "/spec/strategy/type") == "Recreate" {
        return;
    }
    let total: i64 = sizes.iter().map(|(_, n)| n).sum();
    let allowed = if wanted > 0 { wanted + surge } else { 0 };
    let mut left = allowed - total;
    let mut order = active;
    // The largest first; of two the newer grows and the older shrinks.
    order.sort_by(|a, b| {
        let age = if left >= 0 { b.created.cmp(&a.created) } else { a.created.cmp(&b.created) };
        b.replicas.cmp(&a.replicas).then(age).then_with(|| a.name.cmp(&b.name))
    });
    let add = left;
    for s in &order {
        let max = s.count(MAX).unwrap_or(wanted + surge).max(1);
        let exact = s.replicas as f64 * allowed as f64 / max as f64;
        let share = exact.round() as i64 - s.replicas;
        let share = if add > 0 { share.clamp(0, left.max(0)) } else { share.clamp(left.min(0), 0) };
        left -= share;
        set_size(sizes, &s.name, s.replicas + share);
    }
    if let Some(first) = order.first()
        && left != 0
        && let Some((_, n)) = sizes.iter_mut().find(|(s, _)| s.name == first.name)
    {
        *n = (*n + left).max(0);
    }
}

#[allow(clippy::too_many_arguments, reason = "one call, and a struct would only rename the arguments")]
fn change(
    d: &Value,
    set: &Set,
    to: i64,
    is_new: bool,
    revision: i64,
    wanted: i64,
    surge: i64,
    touched: bool,
) -> Option<Change> {
    let mut annotations: Vec<(String, String)> = Vec::new();
    let mut put = |k: &str, v: String| {
        if annotation(&set.object, k) != Some(&v) {
            annotations.push((k.to_owned(), v));
        }
    };
    if to != set.replicas || is_new || (touched && set.replicas > 0) {
        put(DESIRED, wanted.to_string());
        put(MAX, (wanted + surge).to_string());
    }
    let mut min_ready_seconds = None;
    if is_new {
        for (k, v) in inherited(d) {
            put(&k, v);
        }
        if set.revision() < revision {
            put(REVISION, revision.to_string());
            if set.revision() > 0 {
                let before = annotation(&set.object, HISTORY).filter(|h| !h.is_empty());
                let history = before.map_or_else(String::new, |h| format!("{h},"));
                put(HISTORY, format!("{history}{}", set.revision()));
            }
        }
        let min_ready = int(d, "/spec/minReadySeconds").unwrap_or(0);
        if min_ready != int(&set.object, "/spec/minReadySeconds").unwrap_or(0) {
            min_ready_seconds = Some(min_ready);
        }
    }
    if to == set.replicas && annotations.is_empty() && min_ready_seconds.is_none() {
        return None;
    }
    Some(Change { name: set.name.clone(), from: set.replicas, to, annotations, min_ready_seconds })
}

/// Annotations of the deployment that its sets carry on, the cause of a change above all.
fn inherited(d: &Value) -> Vec<(String, String)> {
    let own = [REVISION, HISTORY, DESIRED, MAX, LAST_APPLIED, "deprecated.deployment.rollback.to"];
    crate::objects::members(d, "/metadata/annotations")
        .filter(|(k, _)| !own.contains(&k.as_str()))
        .map(|(k, v)| (k.clone(), v.as_str().unwrap_or_default().to_owned()))
        .collect()
}

/// The name of the set of the present template, after so many collisions.
pub(super) fn set_name(d: &Value) -> (String, String) {
    let collisions = int(d, "/status/collisionCount").unwrap_or(0);
    let hash = fingerprint(&d["spec"]["template"], collisions);
    (format!("{}-{hash}", text(d, "/metadata/name")), hash)
}

fn new_set(d: &Value, revision: i64, replicas: i64, wanted: i64, surge: i64) -> Value {
    let (name, hash) = set_name(d);
    let mut template = d["spec"]["template"].clone();
    crate::objects::object_at(&mut template, "metadata").entry("labels").or_insert_with(|| json!({}))[HASH] =
        json!(hash);
    let mut selector = d["spec"]["selector"].clone();
    crate::objects::object_at(&mut selector, "matchLabels").insert(HASH.into(), json!(hash));
    let mut annotations: Map<String, Value> = inherited(d).into_iter().map(|(k, v)| (k, json!(v))).collect();
    annotations.insert(REVISION.into(), json!(revision.to_string()));
    annotations.insert(DESIRED.into(), json!(wanted.to_string()));
    annotations.insert(MAX.into(), json!((wanted + surge).to_string()));
    let mut spec = json!({"replicas": replicas, "selector": selector, "template": template});
    if let Some(n) = int(d, "/spec/minReadySeconds").filter(|n| *n > 0) {
        spec["minReadySeconds"] = json!(n);
    }
    json!({
        "apiVersion": "apps/v1", "kind": "ReplicaSet",
        "metadata": {
            "name": name, "namespace": text(d, "/metadata/namespace"), "annotations": annotations,
            "labels": spec["template"]["metadata"]["labels"],
            "ownerReferences": [crate::objects::controller_ref(d)],
        },
        "spec": spec,
    })
}

/// Old sets beyond what is kept for going back.
fn superfluous(d: &Value, old: &[&Set]) -> Vec<String> {
    let Some(limit) = int(d, "/spec/revisionHistoryLimit") else { return Vec::new() };
    let empty = |s: &&&Set| {
        s.replicas == 0
            && int(&s.object, "/status/replicas").unwrap_or(0) == 0
            && int(&s.object, "/metadata/generation") <= int(&s.object, "/status/observedGeneration")
            && !crate::objects::is_deleting(&s.object)
    };
    let mut idle: Vec<&&Set> = old.iter().filter(empty).collect();
    idle.sort_by_key(|s| s.revision());
    let surplus = (idle.len() as i64 - limit).max(0) as usize;
    idle.into_iter().take(surplus).map(|s| s.name.clone()).collect()
}
