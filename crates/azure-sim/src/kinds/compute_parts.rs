//! What the compute types share: refusals, identities, merging.

use crate::kinds::{Prep, properties};
use crate::state::{Key, PrincipalKind, Record, State, hash};
use crate::wire::{Cause, Fault};
use arm::ErrorDetail;
use http::StatusCode;
use jiff::Timestamp;
use serde_json::{Map, Value, json};

/// What the simulator remembers in a document beside what Azure shows of it.
pub const HIDDEN: &str = "zaffre";

/// A value that belongs to an id in all its lives.
pub fn stable(state: &State, key: &str, purpose: &str) -> u128 {
    hash(state.seed, &[key, purpose])
}

/// A refusal that names the parameter.
pub fn invalid(target: &str, message: String) -> Fault {
    let mut detail = ErrorDetail::new("InvalidParameter", message);
    detail.target = Some(target.to_owned());
    Fault::new(StatusCode::BAD_REQUEST, Cause::Unsaid, detail)
}

pub fn conflict(code: &str, message: String) -> Fault {
    Fault::plain(StatusCode::CONFLICT, code, message)
}

pub fn not_found(id: &str) -> Fault {
    Fault::service(StatusCode::NOT_FOUND, "NotFound", format!("Resource {id} not found."))
}

pub fn text<'a>(v: &'a Value, path: &[&str]) -> Option<&'a str> {
    path.iter().try_fold(v, |v, k| v.get(*k))?.as_str()
}

/// A member object, made if absent.
pub fn object<'a>(m: &'a mut Map<String, Value>, name: &str) -> &'a mut Map<String, Value> {
    let v = m.entry(name).or_insert_with(|| json!({}));
    if !v.is_object() {
        *v = json!({});
    }
    match v {
        Value::Object(m) => m,
        // Made an object just above.
        _ => unreachable!("a member object is an object"),
    }
}

/// What a patch says replaces what is there; objects are gone into, a null takes away.
pub fn merge(into: &mut Value, change: &Value) {
    match (into, change) {
        (Value::Object(a), Value::Object(b)) => {
            for (k, v) in b {
                if v.is_null() {
                    a.remove(k);
                } else {
                    merge(a.entry(k.clone()).or_insert(Value::Null), v);
                }
            }
        }
        (a, b) => *a = b.clone(),
    }
}

/// A document with a patch applied: tags are replaced, identities and properties merged.
pub fn patch(old: &Record, change: &Map<String, Value>) -> Map<String, Value> {
    let mut doc = Value::Object(old.doc.clone());
    for (k, v) in change {
        match k.as_str() {
            "tags" | "sku" | "zones" => doc[k] = v.clone(),
            "identity" => {
                if v.get("type").is_some() && v.get("userAssignedIdentities").is_none() {
                    // Another type without a list keeps the list, unless it says there is none.
                    let users = text(v, &["type"]).is_some_and(|t| t.to_lowercase().contains("userassigned"));
                    if !users && let Some(i) = doc["identity"].as_object_mut() {
                        i.remove("userAssignedIdentities");
                    }
                }
                merge(&mut doc["identity"], v);
            }
            "location" => {}
            _ => merge(&mut doc[k], v),
        }
    }
    match doc {
        Value::Object(m) => m,
        _ => Map::new(),
    }
}

/// Checks and completes the identity of what is written. Not mentioned, it stays.
pub fn identity(prep: &Prep<'_>, doc: &mut Map<String, Value>) -> Result<(), Fault> {
    let old = prep.old.and_then(|o| o.doc.get("identity"));
    let Some(given) = doc.get("identity").or(old).cloned() else { return Ok(()) };
    let kind = text(&given, &["type"]).unwrap_or_default().to_lowercase().replace(' ', "");
    let (own, users) = match kind.as_str() {
        "systemassigned" => (true, false),
        "userassigned" => (false, true),
        "systemassigned,userassigned" | "userassigned,systemassigned" => (true, true),
        "none" | "" => {
            doc.remove("identity");
            return Ok(());
        }
        other => {
            return Err(invalid(
                "identity.type",
                format!("The value '{other}' of identity.type is invalid."),
            ));
        }
    };
    let mut out = Map::new();
    let name = match (own, users) {
        (true, true) => "SystemAssigned, UserAssigned",
        (true, false) => "SystemAssigned",
        _ => "UserAssigned",
    };
    out.insert("type".into(), name.into());
    if own {
        let kept = old.and_then(|o| text(o, &["principalId"])).map(str::to_owned);
        let principal = kept.unwrap_or_else(|| prep.state.guid(prep.id.key(), "identity-principal"));
        out.insert("principalId".into(), principal.into());
        out.insert("tenantId".into(), prep.state.tenant.as_str().into());
    }
    if users {
        let mut list = Map::new();
        for id in given["userAssignedIdentities"].as_object().into_iter().flatten().map(|(k, _)| k) {
            let key = id.to_lowercase();
            let Some(r) = prep.state.get(&key) else {
                return Err(Fault::gateway(
                    StatusCode::BAD_REQUEST,
                    "FailedIdentityOperation",
                    format!(
                        "Identity operation for resource '{}' failed with error 'Resource '{id}' was not found.'.",
                        prep.id
                    ),
                ));
            };
            let of = |f: &str| r.property(f).cloned().unwrap_or_default();
            list.insert(id.clone(), json!({"principalId": of("principalId"), "clientId": of("clientId")}));
        }
        if list.is_empty() {
            return Err(invalid(
                "identity.userAssignedIdentities",
                "An identity of type 'UserAssigned' needs at least one user-assigned identity.".into(),
            ));
        }
        out.insert("userAssignedIdentities".into(), Value::Object(list));
    }
    doc.insert("identity".into(), Value::Object(out));
    Ok(())
}

/// The resource's own principal exists as long as its identity does.
pub fn principal(state: &mut State, key: &Key, now: Timestamp) {
    let Some(record) = state.get(key).cloned() else { return };
    let of = record.doc.get("identity").and_then(|i| text(i, &["principalId"])).map(str::to_owned);
    let has = |p: &str| state.directory.principal(p).is_some();
    let Some(object_id) = of else {
        let left = state
            .directory
            .principals
            .values()
            .any(|p| matches!(&p.kind, PrincipalKind::Identity(k, _) if k == key));
        if left {
            state.directory.remove_resource(key);
        }
        return;
    };
    if has(&object_id) {
        return;
    }
    let client_id = state.guid(key, "identity-client");
    state.enrol(&record.id, client_id, object_id, now);
}

/// Takes the fields of `names` over from what was there, if they are not mentioned.
pub fn keep(prep: &Prep<'_>, doc: &mut Map<String, Value>, names: &[&str]) {
    let Some(old) = prep.old else { return };
    let p = properties(doc);
    for name in names {
        if !p.contains_key(*name)
            && let Some(v) = old.property(name)
        {
            p.insert((*name).to_owned(), v.clone());
        }
    }
}
