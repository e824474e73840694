//! `Microsoft.Storage`: names, keys, signatures, and the services of an account with what they hold.

use crate::gateway::own::asked_name;
use crate::gateway::{Cx, not_allowed, tree};
use crate::kinds;
use crate::planes::blob::{self, AccountKeys, Container};
use crate::planes::{Datum, Doc};
use crate::state::{Phase, Record};
use crate::wire::{Fault, Reply};
use arm::ResourceId;
use http::{Method, StatusCode};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;

const SERVICES: [&str; 4] = ["blobservices", "queueservices", "fileservices", "tableservices"];

/// Collections of small documents, and how their types are spelled.
const DOCS: [(&str, &str); 6] = [
    ("storageaccounts/managementpolicies", "Microsoft.Storage/storageAccounts/managementPolicies"),
    ("storageaccounts/encryptionscopes", "Microsoft.Storage/storageAccounts/encryptionScopes"),
    ("storageaccounts/queueservices/queues", "Microsoft.Storage/storageAccounts/queueServices/queues"),
    ("storageaccounts/fileservices/shares", "Microsoft.Storage/storageAccounts/fileServices/shares"),
    ("storageaccounts/tableservices/tables", "Microsoft.Storage/storageAccounts/tableServices/tables"),
    ("storageaccounts/privatelinkresources", "Microsoft.Storage/storageAccounts/privateLinkResources"),
];

pub fn is_own(path: &str) -> bool {
    if path == "checknameavailability" {
        return true;
    }
    let Some(rest) = path.strip_prefix("storageaccounts/") else { return false };
    matches!(
        rest,
        "listkeys" | "regeneratekey" | "listaccountsas" | "listservicesas" | "blobservices/containers"
    ) || SERVICES.contains(&rest)
        || DOCS.iter().any(|(p, _)| *p == path)
}

pub fn serve(cx: &mut Cx<'_>, of: Option<&ResourceId>, path: &str) -> Result<Reply, Fault> {
    if path == "checknameavailability" {
        return available(cx);
    }
    let id = of.ok_or_else(|| not_allowed(cx))?;
    let root = id.root();
    let record = cx.state.get(root.key()).cloned().ok_or_else(|| super::not_found(&root))?;
    // A collection is named by a word after an id, so the id is one level short.
    let deep = path.matches('/').count();
    let collection = id.pairs().len() == deep;
    let rest = path.strip_prefix("storageaccounts/").unwrap_or_default();
    match (cx.call.method.as_str(), rest) {
        ("POST", "listkeys") => list_keys(cx, &record),
        ("POST", "regeneratekey") => regenerate(cx, &record),
        ("POST", "listaccountsas" | "listservicesas") => signature(cx, &record, rest == "listaccountsas"),
        (_, "blobservices/containers") if collection => containers(cx, &record),
        (_, "blobservices/containers") => container(cx, id, &record),
        (_, s) if SERVICES.contains(&s) => service(cx, id, &record, s, collection),
        _ => doc(cx, id, &record, path, collection),
    }
}

fn available(cx: &Cx<'_>) -> Result<Reply, Fault> {
    let name = asked_name(cx)?;
    Ok(Reply::ok(if !kinds::storage::name_ok(&name) {
        json!({"nameAvailable": false, "reason": "AccountNameInvalid", "message": format!("{name} is not a valid storage account name. Storage account name must be between 3 and 24 characters in length and use numbers and lower-case letters only.")})
    } else if cx.state.data.host(&kinds::storage::host(&name)).is_some() {
        json!({"nameAvailable": false, "reason": "AlreadyExists", "message": format!("The storage account named {name} is already taken.")})
    } else {
        json!({"nameAvailable": true})
    }))
}

fn keys(cx: &Cx<'_>, record: &Record) -> Result<AccountKeys, Fault> {
    let name = record.id.name();
    let found = blob::keys(cx.state, &name.to_lowercase()).cloned();
    match (record.phase == Phase::Updating, found) {
        (false, Some(k)) => Ok(k),
        _ => Err(Fault::plain(
            StatusCode::CONFLICT,
            "StorageAccountIsNotProvisioned",
            "The storage account provisioning state must be 'Succeeded' before executing the operation.",
        )),
    }
}

fn keys_shown(k: &AccountKeys) -> Reply {
    let one = |i: usize| json!({"creationTime": k.made[i].to_string(), "keyName": format!("key{}", i + 1), "value": k.keys[i].expose(), "permissions": "FULL"});
    Reply::ok(json!({"keys": [one(0), one(1)]}))
}

fn list_keys(cx: &Cx<'_>, record: &Record) -> Result<Reply, Fault> {
    Ok(keys_shown(&keys(cx, record)?))
}

fn regenerate(cx: &mut Cx<'_>, record: &Arc<Record>) -> Result<Reply, Fault> {
    let mut k = keys(cx, record)?;
    let body = cx.call.json()?.unwrap_or_default();
    let index = match body["keyName"].as_str() {
        Some("key1") => 0,
        Some("key2") => 1,
        _ => {
            return Err(Fault::plain(
                StatusCode::BAD_REQUEST,
                "InvalidValuesForRequestParameters",
                "Values for request parameters are invalid: keyName is key1 or key2.",
            ));
        }
    };
    let account = record.id.name().to_lowercase();
    k.keys[index] = blob::new_key(cx.state, &account, index);
    k.made[index] = cx.now;
    let reply = keys_shown(&k);
    cx.state.data.put(&format!("bk/{account}"), Datum::AccountKeys(Box::new(k)));
    let mut next = (**record).clone();
    let times = kinds::properties(&mut next.doc).entry("keyCreationTime").or_insert_with(|| json!({}));
    times[format!("key{}", index + 1)] = cx.now.to_string().into();
    cx.state.replace(next);
    Ok(reply)
}

/// A signature made here is what a client with the key would make.
fn signature(cx: &Cx<'_>, record: &Record, account_wide: bool) -> Result<Reply, Fault> {
    let k = keys(cx, record)?;
    let body = cx.call.json()?.unwrap_or_default();
    let text = |n: &str| body[n].as_str().unwrap_or_default().to_owned();
    if text("signedExpiry").is_empty() || text("signedPermission").is_empty() {
        return Err(Fault::plain(
            StatusCode::BAD_REQUEST,
            "InvalidValuesForRequestParameters",
            "Values for request parameters are invalid: signedExpiry, signedPermission.",
        ));
    }
    let version = "2022-11-02";
    let name = record.id.name();
    let key = if text("keyToSign") == "key2" { &k.keys[1] } else { &k.keys[0] };
    let (st, se, sp, sip, spr) = (
        text("signedStart"),
        text("signedExpiry"),
        text("signedPermission"),
        text("signedIp"),
        text("signedProtocol"),
    );
    let (to_sign, mut pairs) = if account_wide {
        let (ss, srt) = (text("signedServices"), text("signedResourceTypes"));
        let lines = [name, &sp, &ss, &srt, &st, &se, &sip, &spr, version, "", ""].join("\n");
        (lines, vec![("ss", ss), ("srt", srt)])
    } else {
        let resource = text("canonicalizedResource");
        let sr = text("signedResource");
        let lines =
            [&sp, &st, &se, resource.as_str(), "", &sip, &spr, version, &sr, "", "", "", "", "", "", ""]
                .join("\n");
        (lines, vec![("sr", sr)])
    };
    let sig = blob::sign(key.expose(), &to_sign).unwrap_or_default();
    pairs.extend([
        ("sv", version.to_owned()),
        ("sp", sp),
        ("st", st),
        ("se", se),
        ("sip", sip),
        ("spr", spr),
        ("sig", sig),
    ]);
    let mut q = url::form_urlencoded::Serializer::new(String::new());
    for (n, v) in pairs.iter().filter(|(_, v)| !v.is_empty()) {
        q.append_pair(n, v);
    }
    let field = if account_wide { "accountSasToken" } else { "serviceSasToken" };
    Ok(Reply::ok(json!({field: q.finish()})))
}

/// `blobServices/default` and its like.
fn service(
    cx: &mut Cx<'_>,
    id: &ResourceId,
    record: &Record,
    word: &str,
    collection: bool,
) -> Result<Reply, Fault> {
    let spelled = match word {
        "blobservices" => "blobServices",
        "queueservices" => "queueServices",
        "fileservices" => "fileServices",
        _ => "tableServices",
    };
    let account = record.id.name().to_lowercase();
    let key = format!("fs/{account}/{word}");
    let stored = match cx.state.data.get(&key) {
        Some(Datum::Doc(d)) => d.value.clone(),
        _ => json!({}),
    };
    let shown = |given: &Value| {
        let mut p = given.clone();
        if p["cors"].is_null() {
            p["cors"] = json!({"corsRules": []});
        }
        match word {
            "blobservices" if p["deleteRetentionPolicy"].is_null() => {
                p["deleteRetentionPolicy"] = json!({"allowPermanentDelete": false, "enabled": false})
            }
            "fileservices" if p["shareDeleteRetentionPolicy"].is_null() => {
                p["shareDeleteRetentionPolicy"] = json!({"enabled": true, "days": 7})
            }
            _ => {}
        }
        let mut v = json!({
            "id": format!("{}/{spelled}/default", record.id), "name": "default",
            "type": format!("Microsoft.Storage/storageAccounts/{spelled}"), "properties": p,
        });
        if matches!(word, "blobservices" | "fileservices") {
            v["sku"] = record.doc.get("sku").cloned().unwrap_or_default();
        }
        v
    };
    if collection {
        return match cx.call.method {
            Method::GET => Ok(Reply::ok(json!({"value": [shown(&stored)]}))),
            _ => Err(not_allowed(cx)),
        };
    }
    if !id.name().eq_ignore_ascii_case("default") {
        return Err(Fault::plain(
            StatusCode::BAD_REQUEST,
            "InvalidResourceName",
            "The only service is 'default'.",
        ));
    }
    match cx.call.method {
        Method::GET => Ok(Reply::ok(shown(&stored))),
        Method::PUT => {
            let body = tree::body(cx)?;
            let given = body.get("properties").cloned();
            let value = given.clone().unwrap_or(stored);
            let etag = blob::etag(cx.state, &key);
            cx.state.data.put(&key, Datum::Doc(Box::new(Doc { value, at: cx.now, etag })));
            // It repeats what was said, no more.
            let mut reply = json!({"name": "default"});
            if let Some(p) = given {
                reply = shown(&p);
            }
            Ok(Reply::ok(reply))
        }
        _ => Err(not_allowed(cx)),
    }
}

fn container_shown(record: &Record, c: &Container, whole: bool) -> Value {
    let mut v = json!({
        "id": format!("{}/blobServices/default/containers/{}", record.id, c.name), "name": c.name,
        "type": "Microsoft.Storage/storageAccounts/blobServices/containers",
    });
    if whole {
        let public = match c.public.as_deref() {
            Some("container") => "Container",
            Some("blob") => "Blob",
            _ => "None",
        };
        v["etag"] = c.etag.as_str().into();
        v["properties"] = json!({
            "deleted": false, "remainingRetentionDays": 0, "defaultEncryptionScope": "$account-encryption-key",
            "denyEncryptionScopeOverride": false, "publicAccess": public, "leaseStatus": "Unlocked", "leaseState": "Available",
            "lastModifiedTime": c.modified.to_string(), "legalHold": {"hasLegalHold": false, "tags": []},
            "hasImmutabilityPolicy": false, "hasLegalHold": false,
        });
        if !c.metadata.is_empty() {
            v["properties"]["metadata"] = json!(c.metadata);
        }
    }
    v
}

fn containers(cx: &Cx<'_>, record: &Record) -> Result<Reply, Fault> {
    if cx.call.method != Method::GET {
        return Err(not_allowed(cx));
    }
    let prefix = format!("bc/{}/", record.id.name().to_lowercase());
    let all = cx.state.data.range(&prefix, None).filter_map(|(_, d)| match d {
        Datum::Container(c) => Some(container_shown(record, c, true)),
        _ => None,
    });
    Ok(Reply::ok(json!({"value": all.collect::<Vec<_>>()})))
}

fn container(cx: &mut Cx<'_>, id: &ResourceId, record: &Record) -> Result<Reply, Fault> {
    let account = record.id.name().to_lowercase();
    let name = id.name().to_owned();
    let key = blob::container_key(&account, &name);
    let old = match cx.state.data.get(&key) {
        Some(Datum::Container(c)) => Some((**c).clone()),
        _ => None,
    };
    let missing = || {
        Fault::plain(StatusCode::NOT_FOUND, "ContainerNotFound", "The specified container does not exist.")
    };
    match cx.call.method.as_str() {
        "GET" => {
            let c = old.ok_or_else(missing)?;
            Ok(Reply::ok(container_shown(record, &c, true)).with("etag", &c.etag))
        }
        "PUT" | "PATCH" => {
            if old.is_none() && cx.call.method == Method::PATCH {
                return Err(missing());
            }
            let Ok(at) = blob::place(&format!("/{name}")) else {
                return Err(Fault::plain(
                    StatusCode::BAD_REQUEST,
                    "ContainerNameInvalid",
                    format!(
                        "The container name '{name}' is invalid: 3 to 63 lower-case letters, digits and single hyphens."
                    ),
                ));
            };
            let body = tree::body(cx)?;
            let p = body.get("properties").cloned().unwrap_or_default();
            let public = match p["publicAccess"].as_str() {
                None => old.as_ref().and_then(|c| c.public.clone()),
                Some("None") => None,
                Some(word @ ("Container" | "Blob")) => Some(word.to_lowercase()),
                Some(_) => {
                    return Err(Fault::plain(
                        StatusCode::BAD_REQUEST,
                        "InvalidRequestPropertyValue",
                        "The value of the property 'publicAccess' is invalid.",
                    ));
                }
            };
            let allowed = record.property("allowBlobPublicAccess").and_then(Value::as_bool) == Some(true);
            if public.is_some() && !allowed {
                return Err(Fault::plain(
                    StatusCode::CONFLICT,
                    "PublicAccessNotPermitted",
                    "Public access is not permitted on this storage account.",
                ));
            }
            let metadata = match p["metadata"].as_object() {
                Some(m) => m.iter().filter_map(|(k, v)| Some((k.clone(), v.as_str()?.to_owned()))).collect(),
                None => old.as_ref().map_or_else(BTreeMap::new, |c| c.metadata.clone()),
            };
            let policies = old.as_ref().map_or_else(Vec::new, |c| c.policies.clone());
            let etag = blob::etag(cx.state, &key);
            let c = Container { name: at.container, etag, modified: cx.now, metadata, public, policies };
            let status = if old.is_some() { StatusCode::OK } else { StatusCode::CREATED };
            let reply = Reply::json(status, container_shown(record, &c, false)).with("etag", &c.etag);
            cx.state.data.put(&key, Datum::Container(Box::new(c)));
            Ok(reply)
        }
        "DELETE" => {
            if old.is_none() {
                return Ok(Reply::empty(StatusCode::NO_CONTENT));
            }
            cx.state.data.remove(&key);
            for kind in ["bb", "bu"] {
                cx.state.data.remove_all(&format!("{kind}/{account}/{name}/"));
            }
            Ok(Reply::empty(StatusCode::OK).with("content-type", "text/plain; charset=utf-8"))
        }
        _ => Err(not_allowed(cx)),
    }
}

/// Policies, scopes, queues, shares: what was said, with what the service adds.
fn doc(
    cx: &mut Cx<'_>,
    id: &ResourceId,
    record: &Record,
    path: &str,
    collection: bool,
) -> Result<Reply, Fault> {
    let Some((_, kind)) = DOCS.iter().find(|(p, _)| *p == path) else { return Err(not_allowed(cx)) };
    let account = record.id.name().to_lowercase();
    let word = path.rsplit('/').next().unwrap_or_default();
    let prefix = format!("fs/{account}/{word}/");
    let base = if collection {
        format!("{id}/{}", kind.rsplit('/').next().unwrap_or_default())
    } else {
        id.parent_path()
    };
    let shown = |name: &str, d: &Doc, whole: bool| {
        let mut p = d.value.clone();
        match word {
            "managementpolicies" => p["lastModifiedTime"] = d.at.to_string().into(),
            "queues" => {
                if p["metadata"].is_null() {
                    p["metadata"] = json!({});
                }
                if whole {
                    p["approximateMessageCount"] = 0.into();
                }
            }
            "encryptionscopes" => {
                for (k, v) in [
                    ("source", json!("Microsoft.Storage")),
                    ("state", json!("Enabled")),
                    ("creationTime", json!(d.at.to_string())),
                    ("lastModifiedTime", json!(d.at.to_string())),
                ] {
                    if p[k].is_null() {
                        p[k] = v;
                    }
                }
            }
            "shares" => {
                for (k, v) in [
                    ("accessTier", json!("TransactionOptimized")),
                    ("shareQuota", json!(5120)),
                    ("enabledProtocols", json!("SMB")),
                    ("leaseStatus", json!("Unlocked")),
                    ("leaseState", json!("Available")),
                    ("lastModifiedTime", json!(d.at.to_string())),
                ] {
                    if p[k].is_null() {
                        p[k] = v;
                    }
                }
            }
            _ => {}
        }
        let title = if word == "managementpolicies" { "DefaultManagementPolicy" } else { name };
        json!({"id": format!("{base}/{name}"), "name": title, "type": kind, "properties": p})
    };
    if collection {
        if cx.call.method != Method::GET {
            return Err(not_allowed(cx));
        }
        let all = cx.state.data.range(&prefix, None).filter_map(|(k, d)| match d {
            Datum::Doc(d) => Some(shown(k.strip_prefix(&prefix)?, d, true)),
            _ => None,
        });
        return Ok(Reply::ok(json!({"value": all.collect::<Vec<_>>()})));
    }
    let key = format!("{prefix}{}", id.name().to_lowercase());
    let old = match cx.state.data.get(&key) {
        Some(Datum::Doc(d)) => Some((**d).clone()),
        _ => None,
    };
    match cx.call.method.as_str() {
        "GET" => match old {
            Some(d) => Ok(Reply::ok(shown(id.name(), &d, true))),
            None => Err(Fault::plain(
                StatusCode::NOT_FOUND,
                match word {
                    "shares" => "ShareNotFound",
                    "queues" => "QueueNotFound",
                    "managementpolicies" => "ManagementPolicyNotFound",
                    _ => "ResourceNotFound",
                },
                "The specified resource does not exist.",
            )),
        },
        "PUT" | "PATCH" => {
            let body = tree::body(cx)?;
            let mut value = body.get("properties").cloned().unwrap_or_else(|| json!({}));
            drop_nulls(&mut value);
            let etag = blob::etag(cx.state, &key);
            let d = Doc { value, at: cx.now, etag };
            let reply = shown(id.name(), &d, false);
            cx.state.data.put(&key, Datum::Doc(Box::new(d)));
            let status = if old.is_none() && matches!(word, "shares" | "encryptionscopes") {
                StatusCode::CREATED
            } else {
                StatusCode::OK
            };
            Ok(Reply::json(status, reply))
        }
        "DELETE" => {
            let there = cx.state.data.remove(&key).is_some();
            let status = if there && word != "queues" { StatusCode::OK } else { StatusCode::NO_CONTENT };
            Ok(Reply::empty(status).with("content-type", "text/plain; charset=utf-8"))
        }
        _ => Err(not_allowed(cx)),
    }
}

fn drop_nulls(v: &mut Value) {
    match v {
        Value::Object(m) => {
            m.retain(|_, v| !v.is_null());
            m.values_mut().for_each(drop_nulls);
        }
        Value::Array(l) => l.iter_mut().for_each(drop_nulls),
        _ => {}
    }
}

trait ParentPath {
    fn parent_path(&self) -> String;
}

impl ParentPath for ResourceId {
    fn parent_path(&self) -> String {
        self.as_str().rsplit_once('/').map_or_else(String::new, |(p, _)| p.to_owned())
    }
}
