//! Resource groups and tags.

use crate::gateway::{Cx, lists, operations, tree};
use crate::kinds::{self, Flow, How, group_kind, show};
use crate::provider::Drain;
use crate::state::{Effect, Phase, Record};
use crate::wire::{Fault, Reply};
use arm::{ResourceId, code};
use http::StatusCode;
use serde_json::{Map, Value, json};

/// Regions that exist.
pub const LOCATIONS: [(&str, &str); 50] = [
    ("eastus", "East US"),
    ("eastus2", "East US 2"),
    ("southcentralus", "South Central US"),
    ("westus2", "West US 2"),
    ("westus3", "West US 3"),
    ("australiaeast", "Australia East"),
    ("southeastasia", "Southeast Asia"),
    ("northeurope", "North Europe"),
    ("swedencentral", "Sweden Central"),
    ("uksouth", "UK South"),
    ("westeurope", "West Europe"),
    ("centralus", "Central US"),
    ("southafricanorth", "South Africa North"),
    ("centralindia", "Central India"),
    ("eastasia", "East Asia"),
    ("japaneast", "Japan East"),
    ("koreacentral", "Korea Central"),
    ("newzealandnorth", "New Zealand North"),
    ("canadacentral", "Canada Central"),
    ("francecentral", "France Central"),
    ("germanywestcentral", "Germany West Central"),
    ("italynorth", "Italy North"),
    ("norwayeast", "Norway East"),
    ("polandcentral", "Poland Central"),
    ("spaincentral", "Spain Central"),
    ("switzerlandnorth", "Switzerland North"),
    ("mexicocentral", "Mexico Central"),
    ("uaenorth", "UAE North"),
    ("brazilsouth", "Brazil South"),
    ("israelcentral", "Israel Central"),
    ("qatarcentral", "Qatar Central"),
    ("northcentralus", "North Central US"),
    ("westus", "West US"),
    ("japanwest", "Japan West"),
    ("westcentralus", "West Central US"),
    ("australiacentral", "Australia Central"),
    ("australiasoutheast", "Australia Southeast"),
    ("koreasouth", "Korea South"),
    ("southindia", "South India"),
    ("westindia", "West India"),
    ("canadaeast", "Canada East"),
    ("francesouth", "France South"),
    ("germanynorth", "Germany North"),
    ("norwaywest", "Norway West"),
    ("switzerlandwest", "Switzerland West"),
    ("ukwest", "UK West"),
    ("uaecentral", "UAE Central"),
    ("brazilsoutheast", "Brazil Southeast"),
    ("eastus2euap", "East US 2 EUAP"),
    ("centraluseuap", "Central US EUAP"),
];

fn missing(id: &ResourceId) -> Fault {
    let message = format!("Resource group '{}' could not be found.", id.name());
    Fault::gateway(StatusCode::NOT_FOUND, code::RESOURCE_GROUP_NOT_FOUND, message)
}

pub fn list(cx: &Cx<'_>, scope: &ResourceId) -> Reply {
    let filter = cx.call.query("$filter");
    let tagged = filter.and_then(lists::tag_filter);
    let action = "Microsoft.Resources/subscriptions/resourceGroups/read";
    let groups = cx.state.of_kind(group_kind(), scope.key(), None).filter(|r| {
        let fits = tagged.as_ref().is_none_or(|t| lists::has_tag(r, t));
        fits && cx.state.assignments.allowed(&cx.caller.object_id, action, r.id.key(), false).is_some()
    });
    let value: Vec<Value> = groups.map(|r| show(cx.state, r, &cx.version)).collect();
    Reply::ok(json!({"value": value}))
}

pub fn serve(cx: &mut Cx<'_>, id: &ResourceId) -> Result<Reply, Fault> {
    let old = cx.state.get(id.key()).cloned();
    match (cx.call.method.as_str(), old) {
        ("GET", Some(r)) => Ok(Reply::ok(show(cx.state, &r, &cx.version))),
        ("HEAD", Some(_)) => Ok(Reply::empty(StatusCode::NO_CONTENT)),
        ("HEAD", None) => Ok(Reply::empty(StatusCode::NOT_FOUND)),
        ("PUT", old) => put(cx, id, old.as_deref()),
        ("PATCH", Some(r)) => {
            let change = tree::body(cx)?;
            let mut next = (*r).clone();
            if let Some(tags) = change.get("tags") {
                next.doc.insert("tags".into(), tags.clone());
            }
            cx.state.replace(next.clone());
            Ok(Reply::ok(show(cx.state, &next, &cx.version)))
        }
        ("DELETE", Some(r)) => Ok(delete(cx, &r)),
        ("GET" | "DELETE" | "PATCH", None) => Err(missing(id)),
        _ => Err(super::not_allowed(cx)),
    }
}

fn put(cx: &mut Cx<'_>, id: &ResourceId, old: Option<&Record>) -> Result<Reply, Fault> {
    let mut body = tree::body(cx)?;
    let name = id.name();
    let legal = |c: char| c.is_alphanumeric() || matches!(c, '-' | '_' | '.' | '(' | ')');
    if name.chars().count() > 90 || name.ends_with('.') || !name.chars().all(legal) {
        return Err(Fault::gateway(
            StatusCode::BAD_REQUEST,
            "InvalidResourceGroup",
            format!("The provided resource group name '{name}' is invalid."),
        ));
    }
    let place =
        body.get("location").and_then(Value::as_str).unwrap_or_default().replace(' ', "").to_lowercase();
    if place.is_empty() {
        return Err(Fault::gateway(
            StatusCode::BAD_REQUEST,
            "LocationRequired",
            "The location property is required for this definition.",
        ));
    }
    if !LOCATIONS.iter().any(|(l, _)| *l == place) {
        let known: Vec<&str> = LOCATIONS.iter().map(|(l, _)| *l).collect();
        return Err(Fault::gateway(
            StatusCode::BAD_REQUEST,
            "LocationNotAvailableForResourceGroup",
            format!(
                "The provided location '{place}' is not available for resource group. List of available regions is '{}'.",
                known.join(",")
            ),
        ));
    }
    if let Some(there) = old.and_then(Record::location).filter(|l| *l != place) {
        return Err(Fault::gateway(
            StatusCode::CONFLICT,
            "InvalidResourceGroupLocation",
            format!(
                "Invalid resource group location '{place}'. The Resource group already exists in location '{there}'."
            ),
        ));
    }
    body.insert("location".into(), place.into());
    let mut doc = Map::new();
    for field in ["location", "managedBy", "tags"] {
        if let Some(v) = body.remove(field) {
            doc.insert(field.to_owned(), v);
        }
    }
    let by = cx.state.share(&cx.caller.object_id);
    cx.state.bump(id.key());
    let spelled =
        ResourceId::group_scope(id.subscription().unwrap_or_default(), name).unwrap_or_else(|_| id.clone());
    let id = old.map_or(spelled, |o| o.id.clone());
    let record = Record {
        seeded: old.is_some_and(|o| o.seeded),
        ..Record::new(id, group_kind(), doc, by, cx.now).since(old)
    };
    cx.state.put(record.clone(), Vec::new());
    let status = if old.is_some() { StatusCode::OK } else { StatusCode::CREATED };
    Ok(Reply::json(status, show(cx.state, &record, &cx.version)))
}

fn delete(cx: &mut Cx<'_>, record: &Record) -> Reply {
    // Emptying a group takes as long as its slowest member, in steps of a quarter minute.
    let slowest = cx.state.below(record.id.key()).map(|r| r.kind.delete.lasts).fold(0.0_f64, f64::max);
    let steps = (slowest / 15.0).ceil() + 1.0;
    let flow = Flow { how: How::Accepted, retry: 15, lasts: steps * 15.0 - 1.0 };
    let place = record.location().unwrap_or_default().to_owned();
    let effect = Effect::RemoveGroup(record.id.key().clone());
    let (token, _, _) =
        operations::begin(cx, record.kind, &record.id, &place, flow, effect, "DeleteResourceGroup");
    // What providers elsewhere hold goes first, however long that takes.
    if cx.state.below(record.id.key()).any(|r| kinds::is_proxied(r.kind)) {
        cx.state.wait(&token);
        *cx.drain = Some(Drain { group: record.id.key().clone(), operation: token.clone() });
    }
    let mut busy = record.clone();
    busy.phase = Phase::Deleting;
    cx.state.replace(busy);
    let s = record.id.subscription().unwrap_or_default();
    let at = format!(
        "{}/subscriptions/{s}/operationresults/{token}?api-version={}&t=1&c=sim&s=sim&h=sim",
        cx.call.base, cx.version
    );
    let mut reply = Reply::empty(StatusCode::ACCEPTED).with("location", &at);
    if let Some((name, value)) = cx.profile.retry_after(15) {
        reply = reply.with(name, &value);
    }
    reply
}

/// `{scope}/providers/Microsoft.Resources/tags/default`: a view of a resource's tags.
pub fn tags(cx: &mut Cx<'_>, id: &ResourceId) -> Result<Reply, Fault> {
    let Some(scope) = id.extended().filter(|_| id.name().eq_ignore_ascii_case("default")) else {
        return Err(super::not_allowed(cx));
    };
    let Some(record) = cx.state.get(scope.key()).cloned() else {
        return Err(Fault::gateway(
            StatusCode::NOT_FOUND,
            code::RESOURCE_NOT_FOUND,
            format!("The Resource '{scope}' was not found."),
        ));
    };
    let mut tags = record.doc.get("tags").and_then(Value::as_object).cloned().unwrap_or_default();
    let method = cx.call.method.clone();
    if method == "GET" {
        return Ok(Reply::ok(tags_body(id, &tags)));
    }
    if method == "DELETE" {
        tags.clear();
    } else {
        let body = tree::body(cx)?;
        let given = body
            .get("properties")
            .and_then(|p| p.get("tags"))
            .and_then(Value::as_object)
            .cloned()
            .unwrap_or_default();
        let operation = if method == "PUT" {
            "Replace"
        } else {
            body.get("operation").and_then(Value::as_str).unwrap_or("")
        };
        match operation {
            "Replace" => tags = given,
            "Merge" => tags.extend(given),
            "Delete" => tags.retain(|k, v| given.get(k) != Some(v)),
            other => {
                return Err(Fault::gateway(
                    StatusCode::BAD_REQUEST,
                    code::INVALID_REQUEST_CONTENT,
                    format!("The operation '{other}' is not Merge, Replace or Delete."),
                ));
            }
        }
        tree::check_tags(&Value::Object(tags.clone()))?;
    }
    let mut next = (*record).clone();
    next.doc.insert("tags".into(), Value::Object(tags.clone()));
    next.changed = cx.now;
    cx.state.replace(next);
    if method == "DELETE" {
        return Ok(Reply::empty(StatusCode::OK));
    }
    Ok(Reply::ok(tags_body(id, &tags)))
}

fn tags_body(id: &ResourceId, tags: &Map<String, Value>) -> Value {
    json!({"id": id.as_str(), "name": "default", "type": "Microsoft.Resources/tags", "properties": {"tags": tags}})
}
