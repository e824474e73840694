//! Pods: their spec, the templates that hold one, and what may change once they exist.

use super::container::{self, Pod};
use super::path::{Errors, Path};
use super::spec;
use crate::json::{bool_of, int_of, is_zero, list, str_of};
use ek_meta::names;
use serde_json::Value;

pub(super) fn pod(e: &mut Errors, new: &Value, old: Option<&Value>) {
    let p = Path::ROOT.child("spec");
    pod_spec(e, &p, spec(new), &["Always", "OnFailure", "Never"], &[]);
    if let Some(old) = old {
        update(e, &p, new, old);
    }
}

/// `template` of `owner`; `restart` names the policies the owner can work with, none meaning any.
pub(super) fn template(e: &mut Errors, p: &Path<'_>, owner: &Value, restart: &[&str]) {
    // Claims of a stateful set stand in for volumes its template does not list.
    let claims = list(owner, "volumeClaimTemplates");
    let p = p.child("template");
    let t = owner.get("template").unwrap_or(&Value::Null);
    if let Some(Value::Object(labels)) = t.get("metadata").and_then(|m| m.get("labels")) {
        let meta = p.child("metadata");
        let p = meta.child("labels");
        for (k, v) in labels {
            e.named(&p, k, names::qualified_name);
            e.named(&p, v.as_str().unwrap_or_default(), names::label_value);
        }
    }
    let any = ["Always", "OnFailure", "Never"];
    pod_spec(e, &p.child("spec"), spec(t), if restart.is_empty() { &any } else { restart }, claims);
}

fn pod_spec(e: &mut Errors, p: &Path<'_>, s: &Value, restart: &[&str], claims: &[Value]) {
    let mut volumes = volumes(e, &p.child("volumes"), list(s, "volumes"));
    volumes.extend(claims.iter().map(ek_meta::object::name));
    let pod = Pod { volumes, host_network: bool_of(s, "hostNetwork") };
    let all = list(s, "containers");
    let mut names = Vec::with_capacity(all.len());
    if all.is_empty() {
        e.required(&p.child("containers"), "");
    }
    container::containers(e, &p.child("containers"), all, &pod, &mut names);
    let inits = list(s, "initContainers");
    container::containers(e, &p.child("initContainers"), inits, &pod, &mut names);
    let ephemeral = list(s, "ephemeralContainers");
    container::containers(e, &p.child("ephemeralContainers"), ephemeral, &pod, &mut names);
    container::ephemeral(e, &p.child("ephemeralContainers"), ephemeral);
    let policy = str_of(s, "restartPolicy");
    if policy.is_empty() {
        e.required(&p.child("restartPolicy"), "");
    } else if !restart.contains(&policy) {
        e.not_supported(&p.child("restartPolicy"), policy, restart);
    }
    e.one_of(
        &p.child("dnsPolicy"),
        s.get("dnsPolicy"),
        &["ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"],
    );
    if let Some(n) = int_of(s, "activeDeadlineSeconds").filter(|n| !(1..=i64::from(i32::MAX)).contains(n)) {
        e.invalid(&p.child("activeDeadlineSeconds"), n, "must be between 1 and 2147483647, inclusive");
    }
    for (key, rule) in [
        ("serviceAccountName", names::dns_subdomain as fn(&str) -> Vec<String>),
        ("nodeName", names::dns_subdomain),
        ("hostname", names::dns_label),
        ("subdomain", names::dns_label),
        ("priorityClassName", names::dns_subdomain),
        ("runtimeClassName", names::dns_subdomain),
    ] {
        let v = str_of(s, key);
        if !v.is_empty() {
            e.named(&p.child(key), v, rule);
        }
    }
    super::labels(e, &p.child("nodeSelector"), s.get("nodeSelector"));
    tolerations(e, &p.child("tolerations"), list(s, "tolerations"));
    if let Some(r) = s.get("resources").filter(|r| r.is_object()) {
        container::resources(e, &p.child("resources"), r);
    }
}

fn tolerations(e: &mut Errors, p: &Path<'_>, all: &[Value]) {
    for (i, t) in all.iter().enumerate() {
        let p = p.index(i);
        let (key, op) = (str_of(t, "key"), str_of(t, "operator"));
        if !key.is_empty() {
            e.named(&p.child("key"), key, names::qualified_name);
        } else if op != "Exists" {
            e.invalid(
                &p.child("operator"),
                op,
                "operator must be Exists when `key` is empty, which means \"match all values and all keys\"",
            );
        }
        match op {
            "" | "Equal" => e.named(&p.child("operator"), str_of(t, "value"), names::label_value),
            "Exists" if !str_of(t, "value").is_empty() => {
                e.invalid(
                    &p.child("operator"),
                    str_of(t, "value"),
                    "value must be empty when `operator` is 'Exists'",
                );
            }
            "Exists" => {}
            other => e.not_supported(&p.child("operator"), other, &["Equal", "Exists"]),
        }
        e.one_of(
            &p.child("effect"),
            t.get("effect").filter(|v| !is_zero(v)),
            &["NoSchedule", "PreferNoSchedule", "NoExecute"],
        );
    }
}

/// Checks the volumes and returns their names.
fn volumes<'a>(e: &mut Errors, p: &Path<'_>, all: &'a [Value]) -> Vec<&'a str> {
    let mut seen: Vec<&str> = Vec::with_capacity(all.len());
    for (i, v) in all.iter().enumerate() {
        let p = p.index(i);
        let name = e.need(&p, v, "name");
        if !name.is_empty() {
            e.named(&p.child("name"), name, names::dns_label);
            if seen.contains(&name) {
                e.duplicate(&p.child("name"), name);
            }
            seen.push(name);
        }
        let Some(m) = v.as_object() else { continue };
        let mut sources = m.iter().filter(|(k, v)| *k != "name" && v.is_object());
        let Some((kind, source)) = sources.next() else {
            e.required(&p, "must specify a volume type");
            continue;
        };
        for (extra, _) in sources {
            e.forbidden(&p.child(extra), "may not specify more than 1 volume type");
        }
        let p = p.child(kind);
        match kind.as_str() {
            "hostPath" => _ = e.need(&p, source, "path"),
            "secret" => _ = e.need(&p, source, "secretName"),
            "configMap" => _ = e.need(&p, source, "name"),
            "persistentVolumeClaim" => _ = e.need(&p, source, "claimName"),
            "nfs" => {
                e.need(&p, source, "server");
                e.need(&p, source, "path");
            }
            "csi" => _ = e.need(&p, source, "driver"),
            _ => {}
        }
        if let Some(n) = int_of(source, "defaultMode").filter(|n| !(0..=0o777).contains(n)) {
            e.invalid(
                &p.child("defaultMode"),
                n,
                "must be a number between 0 and 0777 (octal), both inclusive",
            );
        }
    }
    seen
}

const MAY_CHANGE: &str = "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)";

fn update(e: &mut Errors, p: &Path<'_>, new: &Value, old: &Value) {
    let (n, o) = (spec(new), spec(old));
    if n == o {
        return;
    }
    for key in ["containers", "initContainers"] {
        if list(n, key).len() != list(o, key).len() {
            let what = if key == "containers" { "containers" } else { "init containers" };
            e.forbidden(&p.child(key), &format!("pod updates may not add or remove {what}"));
            return;
        }
    }
    let deadline = (int_of(n, "activeDeadlineSeconds"), int_of(o, "activeDeadlineSeconds"));
    match deadline {
        (None, Some(_)) => e.invalid(
            &p.child("activeDeadlineSeconds"),
            Value::Null,
            "must not update from a positive integer to nil value",
        ),
        (Some(n), Some(o)) if n > o => {
            e.invalid(&p.child("activeDeadlineSeconds"), n, "must be less than or equal to previous value");
        }
        _ => {}
    }
    let kept = list(o, "tolerations").iter().all(|t| list(n, "tolerations").contains(t));
    if !kept {
        e.forbidden(
            &p.child("tolerations"),
            "existing toleration can not be modified except its tolerationSeconds",
        );
    }
    let gated = !list(o, "schedulingGates").is_empty();
    let gates_shrink = list(n, "schedulingGates").iter().all(|g| list(o, "schedulingGates").contains(g));
    let may_change = |key: &str| match key {
        "activeDeadlineSeconds" | "tolerations" => true,
        "schedulingGates" => gates_shrink,
        "nodeSelector" | "affinity" => gated,
        "terminationGracePeriodSeconds" => int_of(o, key).is_some_and(|v| v < 0) && int_of(n, key) == Some(1),
        _ => false,
    };
    let same_but_image =
        |key: &str| list(n, key).iter().zip(list(o, key)).all(|(a, b)| differs_only(a, b, |k| k == "image"));
    let same = differs_only(n, o, |k| may_change(k) || matches!(k, "containers" | "initContainers"))
        && same_but_image("containers")
        && same_but_image("initContainers");
    if !same {
        e.forbidden(p, MAY_CHANGE);
    }
}

/// Whether two objects are equal apart from some members.
pub(super) fn differs_only(a: &Value, b: &Value, allowed: impl Fn(&str) -> bool) -> bool {
    let (Value::Object(x), Value::Object(y)) = (a, b) else { return a == b };
    let same = |k: &str, v: &Value, other: &Value| {
        other.get(k).map_or_else(|| is_zero(v), |o| o == v || (is_zero(o) && is_zero(v)))
    };
    x.iter().all(|(k, v)| same(k, v, b) || allowed(k)) && y.iter().all(|(k, v)| same(k, v, a) || allowed(k))
}

/// What a resize may do: change how much cpu and memory containers have, and not what that makes of the pod.
pub(super) fn resize(e: &mut Errors, new: &Value, old: &Value) {
    let (p, n, o) = (Path::ROOT.child("spec"), spec(new), spec(old));
    let before = e.0.len();
    for key in ["containers", "initContainers"] {
        let at = p.child(key);
        let name = |c: &Value| str_of(c, "name").to_owned();
        let same = list(n, key).iter().map(name).eq(list(o, key).iter().map(name));
        if !same {
            e.forbidden(&at, "containers may not be added or removed on resize");
            continue;
        }
        for (i, c) in list(n, key).iter().enumerate() {
            let cp = at.index(i);
            container::resources(e, &cp.child("resources"), c.get("resources").unwrap_or(&Value::Null));
        }
    }
    if e.0.len() > before {
        return;
    }
    if quality(n) != quality(o) {
        e.invalid(&p, quality(o), "Pod QOS Class may not change as a result of resizing");
    }
    let both = ["containers", "initContainers"];
    let pairs = both.map(|k| list(n, k).iter().zip(list(o, k)).enumerate().map(move |(i, c)| (k, i, c)));
    for (place, i, (a, b)) in pairs.into_iter().flatten() {
        for key in ["limits", "requests"] {
            let of = |c: &Value| c.get("resources").and_then(|r| r.get(key)).cloned().unwrap_or_default();
            let (a, b) = (of(a), of(b));
            let fixed = |k: &str| !matches!(k, "cpu" | "memory");
            if !differs_only(&a, &b, |k| !fixed(k)) && (a.is_object() || b.is_object()) {
                let members = |v: &Value| -> Vec<(String, Value)> {
                    let all = v.as_object().into_iter().flatten();
                    all.filter(|(k, _)| fixed(k)).map(|(k, v)| (k.clone(), v.clone())).collect()
                };
                if members(&a) != members(&b) {
                    e.forbidden(&p, "only cpu and memory resources are mutable");
                    return;
                }
            }
            for k in ["cpu", "memory"] {
                if b.get(k).is_some() && a.get(k).is_none() {
                    let (lp, why) = (p.child(place), format!("resource {key} cannot be removed"));
                    let cp = lp.index(i);
                    e.forbidden(&cp.child("resources").child(key), &why);
                    break;
                }
            }
        }
    }
}

/// The class of a pod, from what its containers ask for.
fn quality(s: &Value) -> &'static str {
    let containers = || list(s, "containers").iter().chain(list(s, "initContainers"));
    let get = |c: &Value, key: &str, k: &str| {
        let v = c.get("resources").and_then(|r| r.get(key)).and_then(|r| r.get(k));
        v.and_then(super::quantity).filter(|q| q.sign() > 0)
    };
    let kinds = ["cpu", "memory"];
    let any =
        |c: &Value| kinds.iter().any(|k| get(c, "requests", k).is_some() || get(c, "limits", k).is_some());
    let full = |c: &Value| {
        kinds.iter().all(|k| {
            let limit = get(c, "limits", k);
            limit.is_some() && get(c, "requests", k).is_none_or(|r| Some(r) == limit)
        })
    };
    match () {
        () if !containers().any(any) => "BestEffort",
        () if containers().all(full) => "Guaranteed",
        () => "Burstable",
    }
}
