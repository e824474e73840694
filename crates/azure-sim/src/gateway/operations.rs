//! Where clients ask how an operation is doing.

use crate::gateway::Cx;
use crate::kinds::{Flow, Kind, Operations, show};
use crate::state::{Effect, Operation};
use crate::target::Target;
use crate::wire::{Fault, Reply};
use arm::{ErrorDetail, ResourceId};
use http::StatusCode;
use jiff::Timestamp;
use serde_json::{Value, json};
use std::sync::Arc;

/// The operation a path asks about: its token, and whether it asks for the result instead of the status.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Token {
    id: String,
    result: bool,
}

pub fn token(target: &Target) -> Option<Token> {
    let at = |words: &[&str]| -> Option<Token> {
        let [.., word, id] = words else { return None };
        let word = word.to_lowercase();
        let result = word.ends_with("operationresults") || word == "asyncoperations";
        let asks = result
            || word.ends_with("operationstatuses")
            || matches!(word.as_str(), "operations" | "diskoperations");
        asks.then(|| Token { id: (*id).to_owned(), result })
    };
    match (&target.of, target.rest.as_slice()) {
        (Some(id), []) if id.namespace().is_some() => {
            let pairs = id.pairs();
            let (word, name) = pairs.last()?;
            at(&[word, name])
        }
        (Some(_), [word, id]) => at(&[word, id]),
        _ => None,
    }
}

/// Starts an operation and returns its URLs: status, result.
pub fn begin(
    cx: &mut Cx<'_>,
    kind: &Kind,
    id: &ResourceId,
    location: &str,
    flow: Flow,
    effect: Effect,
    name: &str,
) -> (Arc<str>, String, String) {
    let key = id.key().clone();
    cx.state.bump(&key);
    let guid = cx.state.guid(&key, "operation");
    let token: Arc<str> = guid.as_str().into();
    // A part has times of its own.
    let what = match &effect {
        Effect::RemovePart(_, list, _) => format!("{}/{list}", kind.full()),
        _ => kind.full(),
    };
    let bits = cx.state.derive(&key, "lasts");
    let lasts = cx.profile.takes(&what, name.starts_with("Delete"), flow.lasts, flow.retry, bits);
    let due = lasts.and_then(|d| cx.now.checked_add(d).ok());
    let effect = cx.due.late(effect);
    let name = cx.state.share(name);
    cx.state.begin(Operation {
        retry: flow.retry,
        accepted: matches!(kind.operations, Operations::ByGroup(_) | Operations::Monitor),
        shows: matches!(kind.operations, Operations::Monitor).then(|| key.clone()),
        started: matches!(kind.operations, Operations::Compute | Operations::Disks).then_some(cx.now),
        output: matches!(kind.operations, Operations::Disks).then(|| key.clone()),
        ..Operation::new(token.clone(), due, effect, name)
    });
    let (status, result) = urls(cx, kind, id, location, &guid);
    (token, status, result)
}

fn urls(cx: &Cx<'_>, kind: &Kind, id: &ResourceId, location: &str, guid: &str) -> (String, String) {
    let (base, s, ns, v) =
        (&cx.call.base, id.subscription().unwrap_or_default(), kind.namespace, &cx.version);
    // Azure signs its operation URLs; clients treat the parameters as opaque.
    let signed = format!("api-version={v}&t={}&c=sim&s=sim&h=sim", cx.now.as_second());
    let at = match kind.operations {
        Operations::ByLocation => {
            let place = format!("{base}/subscriptions/{s}/providers/{ns}/locations/{location}");
            return (
                format!("{place}/operations/{guid}?{signed}"),
                format!("{place}/operationResults/{guid}?{signed}"),
            );
        }
        Operations::Monitor => {
            let place = format!("{base}/subscriptions/{s}/providers/{ns}/locations/{location}");
            let url = format!("{place}/asyncoperations/{guid}?monitor=true&{signed}");
            return (url.clone(), url);
        }
        Operations::Compute | Operations::Disks => {
            let word = if kind.operations == Operations::Disks { "DiskOperations" } else { "operations" };
            let at =
                format!("{base}/subscriptions/{s}/providers/{ns}/locations/{location}/{word}/{guid}?p=sim");
            return (format!("{at}&{signed}"), format!("{at}&monitor=true&{signed}"));
        }
        Operations::ByGroup(prefix) => {
            let g = id.group().unwrap_or_default();
            format!("{base}/subscriptions/{s}/resourceGroups/{g}/providers/{ns}/{prefix}Operation")
        }
    };
    (format!("{at}Statuses/{guid}?{signed}"), format!("{at}Results/{guid}?{signed}"))
}

fn missing(id: &str) -> Fault {
    Fault::plain(StatusCode::NOT_FOUND, arm::code::NOT_FOUND, format!("The operation '{id}' was not found."))
}

pub fn status(cx: &mut Cx<'_>, token: &Token) -> Result<Reply, Fault> {
    let op = cx.state.operations.get(token.id.as_str()).cloned().ok_or_else(|| missing(&token.id))?;
    let url = || format!("{}{}?{}", cx.call.base, cx.call.path, query(cx));
    let retry = |mut reply: Reply| {
        if let Some((name, value)) = cx.profile.retry_after(op.retry) {
            reply = reply.with(name, &value);
        }
        reply
    };
    let result = token.result || cx.call.query("monitor").is_some_and(|m| m.eq_ignore_ascii_case("true"));
    if let (Some(started), false) = (op.started, result) {
        let reply = Reply::ok(timed(cx, &op, started));
        return Ok(if op.outcome.is_none() { retry(reply) } else { reply });
    }
    Ok(match (&op.outcome, result) {
        (None, true) => retry(Reply::empty(StatusCode::ACCEPTED).with("location", &url())),
        (None, false) if op.accepted => {
            let reply = Reply::json(StatusCode::ACCEPTED, json!({"status": "InProgress"}));
            let other = url().replace("OperationStatuses", "OperationResults");
            retry(reply.with("azure-asyncoperation", &url()).with("location", &other))
        }
        (None, false) => retry(Reply::ok(json!({"status": "InProgress"}))),
        (Some(Ok(())), true) => match op.shows.as_ref().and_then(|k| cx.state.get(k)) {
            Some(record) => Reply::ok(crate::kinds::show(cx.state, record, &cx.version)),
            None => match outcome(cx, &op) {
                Some(body) => Reply::ok(body),
                None => Reply::empty(StatusCode::OK),
            },
        },
        (Some(Ok(())), false) => Reply::ok(json!({"status": "Succeeded"})),
        (Some(Err(why)), true) => {
            return Err(Fault::plain(StatusCode::CONFLICT, &why.code, why.message.clone()));
        }
        (Some(Err(why)), false) => Reply::ok(failed(why)),
    })
}

/// What came of it, as its provider shows it.
fn outcome(cx: &Cx<'_>, op: &Operation) -> Option<Value> {
    if let Some(said) = &op.said {
        return Some((**said).clone());
    }
    let record = cx.state.get(op.output.as_ref()?)?;
    Some(show(cx.state, record, &cx.version))
}

/// The status of providers that say when.
fn timed(cx: &Cx<'_>, op: &Operation, started: Timestamp) -> Value {
    let mut body = json!({"startTime": started.to_string(), "name": &*op.id});
    if let Some(ended) = op.ended {
        body["endTime"] = ended.to_string().into();
    }
    match &op.outcome {
        None => body["status"] = "InProgress".into(),
        Some(Ok(())) => {
            body["status"] = "Succeeded".into();
            if let Some(output) = outcome(cx, op) {
                body["properties"] = json!({"output": output});
            }
        }
        Some(Err(why)) => {
            body["status"] = "Failed".into();
            body["error"] = json!(why);
        }
    }
    body
}

fn failed(why: &ErrorDetail) -> serde_json::Value {
    json!({"status": "Failed", "error": why})
}

fn query(cx: &Cx<'_>) -> String {
    let pairs: Vec<String> = cx.call.query.iter().map(|(k, v)| format!("{k}={v}")).collect();
    pairs.join("&")
}
