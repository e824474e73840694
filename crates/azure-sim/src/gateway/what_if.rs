//! `POST …/whatIf`: what a deployment would change.
//!
//! It is deployed into a copy of the state that nobody keeps, and both are compared as their reader would see them. So the
//! answer knows what providers add by themselves, and has no false alarms; Azure's guesses from the template.

use super::deployments::{body, failure, place, properties, rehearse};
use super::{Cx, operations};
use crate::kinds::{self, Flow, How, show};
use crate::state::Effect;
use crate::wire::{Fault, Reply};
use arm::ResourceId;
use http::StatusCode;
use serde_json::{Map, Value, json};
use std::collections::BTreeSet;

pub fn serve(cx: &mut Cx<'_>, id: &ResourceId) -> Result<Reply, Fault> {
    let Some(kind) = kinds::kind(kinds::DEPLOYMENTS) else { return Err(super::not_allowed(cx)) };
    let group = id.group().unwrap_or_default().to_owned();
    let body = body(cx)?;
    let (place, properties) = (place(cx, id, &group), properties(&body)?);
    let mut scratch = cx.state.clone();
    let mut drain = None;
    let mut inner = Cx {
        state: &mut scratch,
        call: cx.call,
        caller: cx.caller,
        version: cx.version.clone(),
        now: cx.now,
        profile: cx.profile,
        proxied: cx.proxied,
        due: cx.due,
        trouble: None,
        drain: &mut drain,
    };
    let (ids, failed) = rehearse(&mut inner, &properties, &place)?;
    let said = match failed {
        Some(why) => json!({"status": "Failed", "error": failure(why)}),
        None => {
            let brief = properties["whatIfSettings"]["resultFormat"]
                .as_str()
                .is_some_and(|f| f.eq_ignore_ascii_case("ResourceIdOnly"));
            let mut changes: Vec<Value> = Vec::new();
            let mut planned = BTreeSet::new();
            for text in &ids {
                let key = text.to_lowercase();
                let look =
                    |state: &crate::state::State| state.get(&key).map(|r| plain(show(state, r, &cx.version)));
                if !planned.insert(key.clone()) || key.contains("/microsoft.resources/deployments/") {
                    continue;
                }
                changes.push(change(text, look(cx.state), look(&scratch), brief));
            }
            let prefix = format!("/subscriptions/{}/resourcegroups/{group}/providers/", place.subscription);
            let others = cx.state.below(prefix.to_lowercase().trim_end_matches('/'));
            for record in others.filter(|r| r.kind.tracked && !planned.contains(&**r.id.key())) {
                let mut v = json!({"resourceId": record.id.as_str(), "changeType": "Ignore"});
                if !brief {
                    let shown = plain(show(cx.state, record, &cx.version));
                    (v["before"], v["after"]) = (shown.clone(), shown);
                }
                changes.push(v);
            }
            json!({"status": "Succeeded", "properties": {
                "correlationId": cx.state.guid(id.key(), "correlation"), "changes": changes, "diagnostics": [],
            }})
        }
    };
    let flow = Flow { how: How::Async, retry: 5, lasts: 2.0 };
    let (token, _, _) = operations::begin(cx, kind, id, &place.location, flow, Effect::Nothing, "WhatIf");
    cx.state.says(&token, Some(said));
    let at = format!(
        "{}/subscriptions/{}/operationresults/{token}?api-version={}&t=1&c=sim&s=sim&h=sim",
        cx.call.base, place.subscription, cx.version
    );
    let mut reply = Reply::empty(StatusCode::ACCEPTED).with("location", &at);
    if let Some((name, value)) = cx.profile.retry_after(5) {
        reply = reply.with(name, &value);
    }
    Ok(reply)
}

/// Without what changes by itself.
fn plain(mut v: Value) -> Value {
    match &mut v {
        Value::Object(m) => {
            m.retain(|k, _| !matches!(k.as_str(), "etag" | "provisioningState" | "systemData"));
            *m = std::mem::take(m).into_iter().map(|(k, v)| (k, plain(v))).collect();
        }
        Value::Array(l) => *l = std::mem::take(l).into_iter().map(plain).collect(),
        _ => {}
    }
    v
}

fn change(id: &str, before: Option<Value>, after: Option<Value>, brief: bool) -> Value {
    if brief {
        return json!({"resourceId": id, "changeType": "Deploy"});
    }
    let delta = match (&before, &after) {
        (Some(b), Some(a)) => differences(b, a),
        _ => Vec::new(),
    };
    let kind = match (&before, delta.is_empty()) {
        (None, _) => "Create",
        (Some(_), true) => "NoChange",
        (Some(_), false) => "Modify",
    };
    let mut shown = Map::new();
    shown.insert("resourceId".into(), id.into());
    shown.insert("changeType".into(), kind.into());
    for (name, v) in [("before", before), ("after", after)] {
        shown.extend(v.map(|v| (name.to_owned(), v)));
    }
    if !delta.is_empty() {
        shown.insert("delta".into(), delta.into());
    }
    Value::Object(shown)
}

/// Fields by their paths; lists of the same length element by element.
fn differences(before: &Value, after: &Value) -> Vec<Value> {
    let mut out = Vec::new();
    collect(before, after, "", &mut out);
    out
}

fn collect(before: &Value, after: &Value, path: &str, out: &mut Vec<Value>) {
    let below = |name: &str| if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") };
    match (before, after) {
        (b, a) if b == a => {}
        (Value::Object(b), Value::Object(a)) => {
            let names: BTreeSet<&String> = b.keys().chain(a.keys()).collect();
            for name in names {
                let path = below(name);
                match (b.get(name), a.get(name)) {
                    (Some(b), Some(a)) => collect(b, a, &path, out),
                    (Some(b), None) => {
                        out.push(json!({"path": path, "propertyChangeType": "Delete", "before": b}));
                    }
                    (None, Some(a)) => {
                        out.push(json!({"path": path, "propertyChangeType": "Create", "after": a}));
                    }
                    (None, None) => {}
                }
            }
        }
        (Value::Array(b), Value::Array(a)) => {
            let mut children = Vec::new();
            for i in 0..b.len().max(a.len()) {
                let at = i.to_string();
                match (b.get(i), a.get(i)) {
                    (Some(b), Some(a)) if b == a => {}
                    (Some(b), Some(a)) => {
                        let inner = differences(b, a);
                        children.push(json!({"path": at, "propertyChangeType": "Modify", "before": b, "after": a, "children": inner}));
                    }
                    (Some(b), None) => {
                        children.push(json!({"path": at, "propertyChangeType": "Delete", "before": b}));
                    }
                    (None, a) => {
                        children.push(json!({"path": at, "propertyChangeType": "Create", "after": a}));
                    }
                }
            }
            out.push(json!({"path": path, "propertyChangeType": "Array", "before": b, "after": a, "children": children}));
        }
        (b, a) => {
            out.push(json!({"path": path, "propertyChangeType": "Modify", "before": b, "after": a}));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differences_are_told_by_path() {
        let before = json!({"tags": {"a": "1", "b": "2"}, "list": [{"x": 1}, {"y": 2}], "gone": true});
        let after = json!({"tags": {"a": "9", "b": "2", "c": "3"}, "list": [{"x": 1}]});
        let told = differences(&before, &after);
        let short: Vec<(&str, &str)> = told
            .iter()
            .map(|d| (d["path"].as_str().unwrap(), d["propertyChangeType"].as_str().unwrap()))
            .collect();
        assert_eq!(
            short,
            [("gone", "Delete"), ("list", "Array"), ("tags.a", "Modify"), ("tags.c", "Create")]
        );
        assert_eq!(
            told[1]["children"],
            json!([{"path": "1", "propertyChangeType": "Delete", "before": {"y": 2}}])
        );
        assert!(differences(&before, &before).is_empty());
    }
}
