//! What a write must pass before it is one: conditions, one writer at a time, places, names, references.

use crate::gateway::{Cx, stages};
use crate::kinds::{self, Kind, Part};
use crate::state::{Edge, Phase, Record};
use crate::wire::{Cause, Fault};
use arm::{ErrorDetail, ResourceId, code};
use http::StatusCode;
use serde_json::{Map, Value};

/// `If-Match` and `If-None-Match`.
pub fn preconditions(cx: &Cx<'_>, old: Option<&Record>) -> Result<(), Fault> {
    let same = |given: &str| {
        let bare = |s: &str| s.trim().trim_start_matches("W/").trim_matches('"').to_owned();
        old.is_some_and(|o| bare(given) == o.etag)
    };
    let fits = cx.call.header("if-match").is_none_or(|m| if m == "*" { old.is_some() } else { same(m) });
    let new = cx.call.header("if-none-match").is_none_or(|m| if m == "*" { old.is_none() } else { !same(m) });
    if fits && new {
        return Ok(());
    }
    Err(Fault::service(
        StatusCode::PRECONDITION_FAILED,
        code::PRECONDITION_FAILED,
        "One or more write condition(s) specified are not met. Condition: the etag of the resource does not match.",
    ))
}

/// One writer per tree.
pub fn idle(cx: &Cx<'_>, old: Option<&Record>) -> Result<(), Fault> {
    let Some((op, _)) = old.and_then(|o| o.busy.as_deref()) else { return Ok(()) };
    if old.is_some_and(|o| o.kind.namespace == "Microsoft.Compute") {
        return Err(Fault::plain(
            StatusCode::CONFLICT,
            "Conflict",
            "The request failed due to conflict with a concurrent request. To resolve it, please refer to https://aka.ms/activitylog to get more details on the conflicting requests.",
        ));
    }
    let name = cx.state.operations.get(op).map_or("", |o| &*o.name);
    let id = old.map_or("", |o| o.id.as_str());
    let detail =
        ErrorDetail::new(code::RETRYABLE_ERROR, "A retryable error occurred.").with_detail(ErrorDetail::new(
            "RetryableErrorDueToAnotherOperation",
            format!(
                "Operation {name} ({op}) is updating resource {id}. The call can be retried in 11 seconds."
            ),
        ));
    let fault = Fault::new(StatusCode::TOO_MANY_REQUESTS, Cause::Unsaid, detail);
    Err(match cx.profile.retry_after(11) {
        Some((name, value)) => fault.header(name, value),
        None => fault,
    })
}

pub fn located(kind: &Kind, doc: &mut Map<String, Value>, old: Option<&Record>) -> Result<(), Fault> {
    let bad = |status, code: &str, m: String| Fault::gateway(status, code, m);
    match kind.located {
        kinds::Located::Nowhere => {
            doc.remove("location");
        }
        kinds::Located::Global => {
            doc.insert("location".into(), "global".into());
        }
        kinds::Located::Regional => {
            let given = doc.get("location").and_then(Value::as_str).unwrap_or_default();
            let place = given.replace(' ', "").to_lowercase();
            if place.is_empty() {
                return Err(bad(
                    StatusCode::BAD_REQUEST,
                    "LocationRequired",
                    "The location property is required for this definition.".into(),
                ));
            }
            if let Some(there) = old.and_then(Record::location).filter(|l| *l != place) {
                return Err(bad(
                    StatusCode::CONFLICT,
                    "InvalidResourceLocation",
                    format!(
                        "The resource already exists in location '{there}'. A resource with the same name cannot be created in location '{place}'."
                    ),
                ));
            }
            doc.insert("location".into(), place.into());
        }
    }
    Ok(())
}

/// Names, and what the service owns, in embedded lists.
pub fn normalise(parts: &[Part], doc: &mut Map<String, Value>) -> Result<(), Fault> {
    let bad = |m: String| Fault::service(StatusCode::BAD_REQUEST, code::INVALID_REQUEST_FORMAT, m);
    kinds::properties(doc).remove("provisioningState");
    for part in parts {
        let p = kinds::properties(doc);
        let Some(list) = p.get_mut(part.list) else { continue };
        let Some(list) = list.as_array_mut() else {
            return Err(bad(format!("Cannot parse the request: {} is not a list.", part.list)));
        };
        let mut names = std::collections::BTreeSet::new();
        for e in list {
            let Some(e) = e.as_object_mut() else {
                return Err(bad(format!(
                    "Cannot parse the request: an element of {} is not an object.",
                    part.list
                )));
            };
            for owned in ["id", "etag", "type"] {
                e.remove(owned);
            }
            let name = e.get("name").and_then(Value::as_str).unwrap_or_default().to_lowercase();
            if name.is_empty() || name.contains('/') || !names.insert(name) {
                return Err(bad(format!(
                    "An element of {} has no name, an invalid one, or one that is taken.",
                    part.list
                )));
            }
            normalise(part.parts, e)?;
            (part.defaults)(e);
        }
    }
    Ok(())
}

/// All references must lead somewhere that is ready, and the caller must be allowed to link to it.
pub fn references(
    cx: &Cx<'_>,
    kind: &'static Kind,
    id: &ResourceId,
    doc: &Map<String, Value>,
    edges: &[Edge],
) -> Result<(), Fault> {
    for (action, target) in kinds::link_actions(kind, id, doc) {
        if stages::authorize(cx.state, cx.caller, &action, &target).is_err() {
            return Err(Fault::gateway(
                StatusCode::FORBIDDEN,
                code::LINKED_AUTHORIZATION_FAILED,
                format!(
                    "The client '{}' with object id '{}' has permission to perform action '{}/write' on scope '{id}'; however, it does not have permission to perform action(s) '{action}' on the linked scope(s) '{target}' (respectively) or the linked scope(s) are invalid.",
                    cx.caller.client_id,
                    cx.caller.object_id,
                    kind.full()
                ),
            ));
        }
    }
    for e in edges.iter().filter(|e| !e.loose) {
        let phase = phase_of(cx, id, doc, &e.target);
        match phase {
            Some(Phase::Succeeded) => {}
            None => {
                return Err(Fault::service(
                    StatusCode::BAD_REQUEST,
                    code::INVALID_RESOURCE_REFERENCE,
                    format!(
                        "Resource {} referenced by resource {} was not found. Please make sure that the referenced resource exists, and that both resources are in the same region.",
                        e.target, e.text
                    ),
                ));
            }
            Some(phase) => {
                let detail = ErrorDetail::new(code::RETRYABLE_ERROR, "A retryable error occurred.").with_detail(ErrorDetail::new(
                    "ReferencedResourceNotProvisioned",
                    format!("Cannot proceed with operation because resource {} used by resource {id} is not in Succeeded state. Resource is in {} state.", e.target, phase.as_str()),
                ));
                return Err(Fault::new(StatusCode::TOO_MANY_REQUESTS, Cause::Unsaid, detail));
            }
        }
    }
    Ok(())
}

/// The state of a target: in the document being written, or in the store.
fn phase_of(cx: &Cx<'_>, id: &ResourceId, doc: &Map<String, Value>, target: &str) -> Option<Phase> {
    let target = ResourceId::parse(target).ok()?;
    let root = target.root();
    let pairs = target.pairs();
    let in_list = |doc: &Map<String, Value>| {
        let (list, name) = *pairs.get(1)?;
        let p = doc.get("properties")?.as_object()?;
        let (_, list) = p.iter().find(|(k, _)| k.eq_ignore_ascii_case(list))?;
        list.as_array()?
            .iter()
            .find(|e| e["name"].as_str().is_some_and(|n| n.eq_ignore_ascii_case(name)))
            .map(|_| ())
    };
    if root == *id {
        return in_list(doc).map(|()| Phase::Succeeded);
    }
    let record = cx.state.get(root.key())?;
    match pairs.as_slice() {
        [_] => Some(record.phase.clone()),
        [_, (list, name)] => in_list(&record.doc).map(|()| record.part_phase(Some((list, name)))),
        _ => cx.state.get(target.key()).map(|r| r.phase.clone()),
    }
}
