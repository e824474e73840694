//! LimitRange: defaults for what containers do not say, bounds for what they do.

use crate::cluster::tables;
use crate::verbs::Call;
use ek_meta::quantity::Quantity;
use ek_meta::{Status, object};
use ek_store::TableName;
use serde_json::{Map, Value, json};
use std::collections::BTreeSet;

const NOTE: &str = "kubernetes.io/limit-ranger";

fn ranges(call: &Call) -> Vec<Value> {
    in_namespace(call, &tables::LIMIT_RANGES)
}

/// Objects of the request's namespace, parsed.
pub fn in_namespace(call: &Call, table: &TableName) -> Vec<Value> {
    let prefix = format!("{}/", call.info.namespace);
    let view = call.cluster.store.view(&call.cluster.id, table);
    (view.objects.range::<_, str>((std::ops::Bound::Included(prefix.as_str()), std::ops::Bound::Unbounded)))
        .take_while(|(k, _)| k.starts_with(&prefix))
        .filter_map(|(_, e)| serde_json::from_slice(&e.bytes()).ok())
        .collect()
}

fn items(range: &Value) -> &[Value] {
    range["spec"]["limits"].as_array().map_or(&[], Vec::as_slice)
}

fn quantity(v: &Value) -> Option<Quantity> {
    v.as_str().and_then(|s| s.parse().ok())
}

/// Fills requests and limits of a new pod's containers.
pub fn default_pod(call: &Call, pod: &mut Value) {
    let ranges = ranges(call);
    if ranges.is_empty() {
        return;
    }
    let mut notes: Vec<String> = Vec::new();
    for item in ranges.iter().flat_map(items).filter(|i| i["type"] == "Container") {
        for (list, what) in [("containers", "container"), ("initContainers", "init container")] {
            let Some(Value::Array(all)) = pod.pointer_mut(&format!("/spec/{list}")) else { continue };
            for c in all {
                let name = object::str_at(c, &["name"]).unwrap_or_default().to_owned();
                for (kind, from, word) in
                    [("requests", "defaultRequest", "request"), ("limits", "default", "limit")]
                {
                    let filled = fill(c, kind, &item[from]);
                    if !filled.is_empty() {
                        let filled: Vec<&str> = filled.iter().map(String::as_str).collect();
                        notes.push(format!("{} {word} for {what} {name}", filled.join(", ")));
                    }
                }
            }
        }
    }
    if !notes.is_empty() {
        let meta = object::metadata_mut(pod);
        let annotations = meta.entry("annotations").or_insert_with(|| json!({}));
        annotations[NOTE] = json!(format!("LimitRanger plugin set: {}", notes.join("; ")));
    }
}

fn fill(container: &mut Value, kind: &str, defaults: &Value) -> BTreeSet<String> {
    let mut filled = BTreeSet::new();
    let Some(defaults) = defaults.as_object() else { return filled };
    for (k, v) in defaults {
        let Some(c) = container.as_object_mut() else { return filled };
        let resources = c.entry("resources").or_insert_with(|| json!({}));
        let Some(resources) = resources.as_object_mut() else { return filled };
        let of = resources.entry(kind).or_insert_with(|| Value::Object(Map::new()));
        if let Some(of) = of.as_object_mut()
            && !of.contains_key(k)
        {
            of.insert(k.clone(), v.clone());
            filled.insert(k.clone());
        }
    }
    filled
}

/// Refuses pods and claims outside of the bounds.
pub fn validate(call: &Call, obj: &Value) -> Result<(), Status> {
    let pods = call.res.table == *tables::PODS;
    if !pods && call.res.table != *tables::CLAIMS {
        return Ok(());
    }
    let mut wrong = Vec::new();
    for range in ranges(call) {
        for item in items(&range) {
            let kind = item["type"].as_str().unwrap_or_default();
            match kind {
                "Container" if pods => {
                    for list in ["containers", "initContainers"] {
                        for c in obj["spec"][list].as_array().into_iter().flatten() {
                            let r = &c["resources"];
                            bounds(
                                kind,
                                item,
                                |k| quantity(&r["requests"][k]),
                                |k| quantity(&r["limits"][k]),
                                &mut wrong,
                            );
                        }
                    }
                }
                "Pod" if pods => {
                    let used = ek_builtin::quota::usage("", "pods", obj);
                    let of = |kind: &str, k: &str| used.get(&format!("{kind}.{k}")).cloned();
                    bounds(kind, item, |k| of("requests", k), |k| of("limits", k), &mut wrong);
                }
                "PersistentVolumeClaim" if !pods => {
                    let r = &obj["spec"]["resources"];
                    // A claim has no limit: what it asks for is what it may take.
                    bounds(
                        kind,
                        item,
                        |k| quantity(&r["requests"][k]),
                        |k| quantity(&r["requests"][k]),
                        &mut wrong,
                    );
                }
                _ => {}
            }
        }
    }
    let why = match wrong.as_slice() {
        [] => return Ok(()),
        [one] => one.clone(),
        many => format!("[{}]", many.join(", ")),
    };
    Err(Status::forbidden(&call.res.group, &call.res.plural, object::name(obj), &why))
}

fn bounds(
    kind: &str,
    item: &Value,
    request: impl Fn(&str) -> Option<Quantity>,
    limit: impl Fn(&str) -> Option<Quantity>,
    wrong: &mut Vec<String>,
) {
    let each = |f: &str| -> Vec<(String, Value)> {
        item[f].as_object().into_iter().flatten().map(|(k, v)| (k.clone(), v.clone())).collect()
    };
    let text = |v: &Value| v.as_str().unwrap_or_default().to_owned();
    for (k, v) in each("min") {
        let Some(least) = quantity(&v) else { continue };
        let (r, l) = (request(&k), limit(&k));
        let least_text = text(&v);
        match (&r, &l) {
            (None, _) => {
                wrong.push(format!("minimum {k} usage per {kind} is {least_text}.  No request is specified"))
            }
            (Some(r), _) if *r < least => {
                wrong.push(format!("minimum {k} usage per {kind} is {least_text}, but request is {r}"));
            }
            (_, Some(l)) if *l < least => {
                wrong.push(format!("minimum {k} usage per {kind} is {least_text}, but limit is {l}"));
            }
            _ => {}
        }
    }
    for (k, v) in each("max") {
        let Some(most) = quantity(&v) else { continue };
        let (r, l) = (request(&k), limit(&k));
        let most_text = text(&v);
        match (&r, &l) {
            (_, None) => {
                wrong.push(format!("maximum {k} usage per {kind} is {most_text}.  No limit is specified"))
            }
            (_, Some(l)) if *l > most => {
                wrong.push(format!("maximum {k} usage per {kind} is {most_text}, but limit is {l}"));
            }
            (Some(r), _) if *r > most => {
                wrong.push(format!("maximum {k} usage per {kind} is {most_text}, but request is {r}"));
            }
            _ => {}
        }
    }
    for (k, v) in each("maxLimitRequestRatio") {
        let Some(most) = quantity(&v) else { continue };
        let most_text = text(&v);
        match (request(&k), limit(&k)) {
            (Some(r), Some(l)) if !r.is_zero() => {
                let ratio = l.as_f64() / r.as_f64();
                if ratio > most.as_f64() {
                    wrong.push(format!(
                        "{k} max limit to request ratio per {kind} is {most_text}, but provided ratio is {ratio:.6}"
                    ));
                }
            }
            _ => wrong.push(format!(
                "{k} max limit to request ratio per {kind} is {most_text}, but no request is specified or request is 0"
            )),
        }
    }
}
