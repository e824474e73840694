//! Lists: subscriptions, resources, collections. Pages carry on after the key in their token.

use crate::gateway::Cx;
use crate::gateway::groups::LOCATIONS;
use crate::kinds::{self, show};
use crate::state::{Record, Subscription};
use crate::wire::{Fault, Reply};
use arm::{ResourceId, SkipToken, code};
use http::StatusCode;
use serde_json::{Map, Value, json};
use std::sync::Arc;

/// What a collection shows at once when the client does not say.
const PAGE: usize = 100;
const MAX_PAGE: usize = 1000;

fn shown(s: &Subscription) -> Value {
    json!({
        "id": format!("/subscriptions/{}", s.id), "subscriptionId": s.id, "tenantId": s.tenant,
        "displayName": s.name, "state": "Enabled", "authorizationSource": "RoleBased", "managedByTenants": [],
        "subscriptionPolicies": {
            "locationPlacementId": "Public_2014-09-01", "quotaId": "PayAsYouGo_2014-09-01", "spendingLimit": "Off",
        },
    })
}

fn sees(cx: &Cx<'_>, s: &Subscription) -> bool {
    let scope = format!("/subscriptions/{}", s.id).to_lowercase();
    cx.state.assignments.of(&cx.caller.object_id).any(|a| a.scope.is_empty() || a.scope.starts_with(&scope))
}

pub fn subscriptions(cx: &Cx<'_>) -> Reply {
    let value: Vec<Value> = cx.state.subscriptions.values().filter(|s| sees(cx, s)).map(shown).collect();
    let count = value.len();
    Reply::ok(json!({"value": value, "count": {"type": "Total", "value": count}}))
}

pub fn subscription(cx: &Cx<'_>, id: &ResourceId) -> Result<Reply, Fault> {
    let key = id.subscription().unwrap_or_default().to_lowercase();
    match cx.state.subscriptions.get(&key).filter(|s| sees(cx, s)) {
        Some(s) => Ok(Reply::ok(shown(s))),
        None => Err(Fault::gateway(
            StatusCode::NOT_FOUND,
            code::SUBSCRIPTION_NOT_FOUND,
            format!("The subscription '{key}' could not be found."),
        )),
    }
}

pub fn tenants(cx: &Cx<'_>) -> Reply {
    let t = &cx.state.tenant;
    Reply::ok(json!({"value": [{
        "id": format!("/tenants/{t}"), "tenantId": t, "countryCode": "US", "displayName": "Zaffre",
        "domains": ["zaffre.test"], "tenantCategory": "Home", "defaultDomain": "zaffre.test", "tenantType": "AAD",
    }]}))
}

pub fn locations(id: &ResourceId) -> Reply {
    let value: Vec<Value> = LOCATIONS
        .iter()
        .map(|(name, display)| {
            json!({
                "id": format!("{id}/locations/{name}"), "name": name, "type": "Region", "displayName": display,
                "regionalDisplayName": display, "metadata": {"regionType": "Physical", "regionCategory": "Recommended"},
            })
        })
        .collect();
    Reply::ok(json!({"value": value}))
}

/// `tagName eq 'a' and tagValue eq 'b'`.
pub fn tag_filter(filter: &str) -> Option<(String, Option<String>)> {
    let name = comparison(filter, "tagName")?;
    Some((name, comparison(filter, "tagValue")))
}

pub fn has_tag(r: &Record, (name, value): &(String, Option<String>)) -> bool {
    let tags = r.doc.get("tags").and_then(Value::as_object);
    tags.into_iter().flatten().any(|(k, v)| {
        k.eq_ignore_ascii_case(name) && value.as_ref().is_none_or(|want| v.as_str() == Some(want))
    })
}

/// The right side of `field eq 'value'`.
pub fn comparison(filter: &str, field: &str) -> Option<String> {
    let lower = filter.to_ascii_lowercase();
    let needle = format!("{} eq '", field.to_ascii_lowercase());
    // `name` is not the end of `tagName`.
    let starts = |at: &usize| !lower[..*at].ends_with(|c: char| c.is_ascii_alphanumeric() || c == '/');
    let at = lower.match_indices(&needle).map(|(at, _)| at).find(starts)?;
    let from = at + needle.len();
    let rest = filter.get(from..)?;
    Some(rest[..rest.find('\'')?].to_owned())
}

fn page(cx: &Cx<'_>, records: impl Iterator<Item = Arc<Record>>, each: impl Fn(&Record) -> Value) -> Reply {
    let top = cx.call.query("$top").and_then(|t| t.parse().ok()).unwrap_or(PAGE).clamp(1, MAX_PAGE);
    let mut value = Vec::new();
    let mut last = None;
    let mut more = false;
    for r in records {
        if value.len() == top {
            more = true;
            break;
        }
        value.push(each(&r));
        last = Some(r.id.key().to_string());
    }
    let mut body = Value::Object(Map::from_iter([("value".to_owned(), Value::Array(value))]));
    if let Some(key) = last.filter(|_| more) {
        let mut query: Vec<String> = Vec::new();
        for (k, v) in cx.call.query.iter().filter(|(k, _)| !k.eq_ignore_ascii_case("$skiptoken")) {
            query.push(format!(
                "{k}={}",
                percent_encoding::utf8_percent_encode(v, percent_encoding::NON_ALPHANUMERIC)
            ));
        }
        query.push(format!("$skiptoken={}", SkipToken(key).encode()));
        body["nextLink"] = format!("{}{}?{}", cx.call.base, cx.call.path, query.join("&")).into();
    }
    Reply::ok(body)
}

fn after(cx: &Cx<'_>) -> Result<Option<String>, Fault> {
    match cx.call.query("$skiptoken") {
        None => Ok(None),
        Some(t) => SkipToken::decode(t).map(|t| Some(t.0)).ok_or_else(|| {
            Fault::gateway(StatusCode::BAD_REQUEST, "InvalidSkipToken", "The provided skip token is invalid.")
        }),
    }
}

/// `resources` of a subscription or group: what the caller may read, with filters.
pub fn resources(cx: &Cx<'_>, scope: &ResourceId) -> Result<Reply, Fault> {
    let filter = cx.call.query("$filter").unwrap_or_default();
    let of_type = comparison(filter, "resourceType");
    let named = comparison(filter, "name");
    let grouped = comparison(filter, "resourceGroup");
    let tagged = tag_filter(filter);
    let expand = cx.call.query("$expand").unwrap_or_default().to_lowercase();
    let after = after(cx)?;
    let chosen = cx.state.below(scope.key()).filter(|r| {
        r.kind.tracked
            && after.as_deref().is_none_or(|a| &**r.id.key() > a)
            && of_type.as_ref().is_none_or(|t| r.id.resource_type().is(t))
            && named.as_ref().is_none_or(|n| r.id.name().eq_ignore_ascii_case(n))
            && grouped.as_ref().is_none_or(|g| r.id.group().is_some_and(|x| x.eq_ignore_ascii_case(g)))
            && tagged.as_ref().is_none_or(|t| has_tag(r, t))
            && {
                let action = format!("{}/read", r.id.resource_type());
                cx.state.assignments.allowed(&cx.caller.object_id, &action, r.id.key(), false).is_some()
            }
    });
    Ok(page(cx, chosen.cloned(), |r| {
        let mut v = json!({"id": r.id.as_str(), "name": r.id.name(), "type": r.id.resource_type().as_str()});
        for field in ["location", "tags", "sku", "kind", "identity", "zones", "managedBy"] {
            if let Some(x) = r.doc.get(field) {
                v[field] = x.clone();
            }
        }
        for (field, at) in [("createdTime", r.created), ("changedTime", r.changed)] {
            if expand.contains(&field.to_lowercase()) {
                v[field] = at.to_string().into();
            }
        }
        if expand.contains("provisioningstate") {
            v["provisioningState"] = r.phase.as_str().into();
        }
        v
    }))
}

/// All resources of a type in a subscription or group.
pub fn of_type(cx: &Cx<'_>, scope: &ResourceId, full: &str) -> Result<Reply, Fault> {
    let Some(kind) = kinds::kind(full) else { return Err(super::not_allowed(cx)) };
    let after = after(cx)?;
    let prefix = scope.key().to_string();
    let within = cx
        .state
        .of_kind(kind, &prefix, after.as_deref())
        .filter(|r| r.id.key().get(prefix.len()..).is_some_and(|rest| rest.starts_with('/')));
    let status = cx.call.query("statusOnly").is_some_and(|s| s.eq_ignore_ascii_case("true"));
    Ok(page(cx, within.cloned(), |r| {
        let mut shown = super::tree::expanded(cx, r);
        if status && kind.path == kinds::MACHINES {
            shown["properties"] = json!({"vmId": shown["properties"]["vmId"], "instanceView": kinds::instance_view(cx.state, r)});
        }
        shown
    }))
}

/// Children of a resource: an embedded list, or records below it.
pub fn children(cx: &Cx<'_>, id: &ResourceId, word: &str) -> Result<Reply, Fault> {
    let full = id.resource_type();
    let Some(parent) = cx.state.get(id.key()) else {
        return Err(Fault::gateway(
            StatusCode::NOT_FOUND,
            code::RESOURCE_NOT_FOUND,
            format!(
                "The Resource '{}/{}' under resource group '{}' was not found. For more details please go to https://aka.ms/ARMResourceNotFoundFix",
                full,
                id.name(),
                id.group().unwrap_or_default()
            ),
        ));
    };
    if super::views::is_view(parent.kind.path, word) {
        return super::views::serve(cx, parent, word);
    }
    if let Some(part) = parent.kind.part(word) {
        let whole = show(cx.state, parent, &cx.version);
        let list = whole["properties"].get(part.list).cloned().unwrap_or_else(|| json!([]));
        return Ok(Reply::ok(json!({"value": list})));
    }
    let after = after(cx)?;
    if matches!(word, "recordsets" | "all") {
        let below = cx.state.below(id.key()).filter(|r| kinds::is_record_set(r.kind));
        let rest = below.filter(|r| after.as_deref().is_none_or(|a| &**r.id.key() > a));
        return Ok(page(cx, rest.cloned(), |r| show(cx.state, r, &cx.version)));
    }
    let Some(kind) = kinds::kind(&format!("{full}/{word}")) else { return Err(super::not_allowed(cx)) };
    let prefix = format!("{}/", id.key());
    let below = cx.state.of_kind(kind, &prefix, after.as_deref());
    Ok(page(cx, below.cloned(), |r| show(cx.state, r, &cx.version)))
}
