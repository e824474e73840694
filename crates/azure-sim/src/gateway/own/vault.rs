//! `Microsoft.KeyVault`: names, access policies, deleted vaults, keys and secrets through Resource Manager.

use crate::gateway::own::{asked_name, not_found};
use crate::gateway::{Cx, not_allowed, operations, tree};
use crate::kinds::{self, show};
use crate::planes::vault::{self, Room, Sort};
use crate::state::{Effect, Phase, Record};
use crate::wire::{Fault, Reply};
use arm::ResourceId;
use http::{Method, StatusCode};
use serde_json::{Value, json};

pub fn is_own(path: &str) -> bool {
    matches!(
        path,
        "checknameavailability"
            | "deletedvaults"
            | "locations/deletedvaults"
            | "locations/deletedvaults/purge"
            | "vaults/accesspolicies"
            | "vaults/keys"
            | "vaults/secrets"
            | "vaults/privatelinkresources"
    )
}

pub fn serve(cx: &mut Cx<'_>, of: Option<&ResourceId>, path: &str) -> Result<Reply, Fault> {
    let method = cx.call.method.clone();
    match (method.as_str(), path, of) {
        ("POST", "checknameavailability", _) => available(cx),
        ("GET", "deletedvaults", Some(scope)) => Ok(deleted_list(cx, scope)),
        ("GET", "locations/deletedvaults", Some(id)) => {
            let r = deleted(cx, id)?;
            Ok(Reply::ok(show(cx.state, &r, &cx.version)))
        }
        ("POST", "locations/deletedvaults/purge", Some(id)) => purge(cx, id),
        ("PUT", "vaults/accesspolicies", Some(id)) => policies(cx, id),
        ("GET", "vaults/privatelinkresources", Some(id)) => Ok(Reply::ok(json!({"value": [{
            "id": format!("{id}/privateLinkResources/vault"), "name": "vault", "type": "Microsoft.KeyVault/vaults/privateLinkResources",
            "properties": {"groupId": "vault", "requiredMembers": ["default"], "requiredZoneNames": ["privatelink.vaultcore.azure.net"]},
        }]}))),
        (_, "vaults/keys" | "vaults/secrets", Some(id)) => objects(cx, id, path),
        _ => Err(not_allowed(cx)),
    }
}

fn available(cx: &Cx<'_>) -> Result<Reply, Fault> {
    let name = asked_name(cx)?;
    if !kinds::vault::name_ok(&name) {
        return Ok(Reply::ok(
            json!({"nameAvailable": false, "reason": "AccountNameInvalid", "message": format!("The vault name '{name}' is invalid. A vault's name must be between 3-24 alphanumeric characters.")}),
        ));
    }
    let taken = kinds::vault::holder(cx.state, &name)
        .is_some_and(|r| r.kind.path == "vaults" || kinds::vault::deleted(cx.state, &name, cx.now).is_some());
    Ok(Reply::ok(match taken {
        true => {
            json!({"nameAvailable": false, "reason": "AlreadyExists", "message": format!("The vault name '{name}' is already in use. Vault names are globally unique so it is possible that the name is already taken.")})
        }
        false => json!({"nameAvailable": true}),
    }))
}

fn deleted(cx: &Cx<'_>, id: &ResourceId) -> Result<Record, Fault> {
    let found = kinds::vault::deleted(cx.state, id.name(), cx.now).filter(|r| r.id == *id).cloned();
    found.ok_or_else(|| {
        Fault::plain(
            StatusCode::NOT_FOUND,
            "DeletedVaultNotFound",
            format!("The specified deleted vault '{}' does not exist. Ensure that the vault was indeed deleted and that it is in recoverable state. If soft delete was not enabled then the vault is permanently deleted. Follow this link for more information: https://go.microsoft.com/fwlink/?linkid=2149745", id.name()),
        )
    })
}

fn deleted_list(cx: &Cx<'_>, scope: &ResourceId) -> Reply {
    let Some(kind) = kinds::kind(kinds::vault::DELETED) else { return Reply::ok(json!({"value": []})) };
    let all = cx.state.of_kind(kind, scope.key(), None);
    let value: Vec<Value> = all
        .filter(|r| kinds::vault::deleted(cx.state, r.id.name(), cx.now).is_some())
        .map(|r| show(cx.state, r, &cx.version))
        .collect();
    Reply::ok(json!({"value": value}))
}

fn purge(cx: &mut Cx<'_>, id: &ResourceId) -> Result<Reply, Fault> {
    let r = deleted(cx, id)?;
    if r.property("purgeProtectionEnabled").is_some() {
        return Err(Fault::plain(
            StatusCode::BAD_REQUEST,
            "MethodNotAllowed",
            "Operation 'DeletedVaultPurge' is not allowed: purge protection is enabled.",
        ));
    }
    let flow = kinds::Flow { how: kinds::How::Located, retry: 5, lasts: 20.0 };
    let place = id.pairs().first().map_or("global", |(_, l)| l).to_owned();
    let effect = Effect::Remove(id.key().clone());
    let (token, _, _) = operations::begin(cx, r.kind, id, &place, flow, effect, "PurgeVault");
    let s = id.subscription().unwrap_or_default();
    let at = format!(
        "{}/subscriptions/{s}/providers/Microsoft.KeyVault/locations/{place}/operationResults/{token}?api-version={}",
        cx.call.base, cx.version
    );
    let reply = Reply::empty(StatusCode::ACCEPTED).with("location", &at);
    Ok(match cx.profile.retry_after(5) {
        Some((name, value)) => reply.with(name, &value),
        None => reply,
    })
}

fn same(a: &Value, b: &Value) -> bool {
    ["objectId", "tenantId", "applicationId"].iter().all(|f| {
        let text = |v: &Value| v[*f].as_str().unwrap_or_default().to_lowercase();
        text(a) == text(b)
    })
}

/// `accessPolicies/add`, `replace` and `remove`.
fn policies(cx: &mut Cx<'_>, id: &ResourceId) -> Result<Reply, Fault> {
    let body = tree::body(cx)?;
    let given = body.get("properties").and_then(|p| p.get("accessPolicies")).cloned().unwrap_or_default();
    kinds::vault::check_policies(&given)?;
    let given = given.as_array().cloned().unwrap_or_default();
    let root = id.root();
    let mut record = cx.state.get(root.key()).map(|r| (**r).clone()).ok_or_else(|| not_found(&root))?;
    let mut list = record.property("accessPolicies").and_then(Value::as_array).cloned().unwrap_or_default();
    let lists = ["keys", "secrets", "certificates", "storage"];
    let words = |v: &Value| -> Vec<String> {
        v.as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_lowercase).collect()
    };
    match id.name().to_ascii_lowercase().as_str() {
        "replace" => list.clone_from(&given),
        "add" => {
            for g in given {
                match list.iter_mut().find(|p| same(p, &g)) {
                    Some(p) => {
                        for l in lists {
                            let mut all = words(&p["permissions"][l]);
                            all.extend(words(&g["permissions"][l]));
                            all.sort();
                            all.dedup();
                            p["permissions"][l] = json!(all);
                        }
                    }
                    None => list.push(g),
                }
            }
        }
        "remove" => {
            for g in &given {
                for p in list.iter_mut().filter(|p| same(p, g)) {
                    for l in lists {
                        let gone = words(&g["permissions"][l]);
                        let kept: Vec<String> =
                            words(&p["permissions"][l]).into_iter().filter(|w| !gone.contains(w)).collect();
                        p["permissions"][l] = json!(kept);
                    }
                }
            }
            list.retain(|p| lists.iter().any(|l| !words(&p["permissions"][*l]).is_empty()));
        }
        _ => {
            return Err(Fault::plain(
                StatusCode::BAD_REQUEST,
                "BadRequest",
                "Access policies can be changed with add, replace or remove.",
            ));
        }
    }
    let shown = json!({
        "id": format!("{root}/accessPolicies/"), "name": root.name(), "type": "Microsoft.KeyVault/vaults/accessPolicies",
        "location": record.location(), "properties": {"accessPolicies": list},
    });
    kinds::properties(&mut record.doc).insert("accessPolicies".into(), json!(list));
    record.changed = cx.now;
    record.changed_by = cx.caller.object_id.as_str().into();
    cx.state.replace(record);
    Ok(Reply::ok(shown))
}

/// Keys and secrets as resources.
fn objects(cx: &mut Cx<'_>, id: &ResourceId, path: &str) -> Result<Reply, Fault> {
    let root = id.root();
    let record = cx.state.get(root.key()).cloned().ok_or_else(|| not_found(&root))?;
    if record.phase == Phase::Deleting {
        return Err(not_found(&root));
    }
    let sort = if path.ends_with("keys") { Sort::Key } else { Sort::Secret };
    let place = record.location().unwrap_or_default().to_owned();
    let whole = id.pairs().len() > 1;
    let body = match cx.call.method {
        Method::PUT => tree::body(cx)?,
        _ => serde_json::Map::new(),
    };
    let mut room = Room::open(cx.state, record, cx.now.as_second());
    let shown = |room: &Room<'_>, name: &str| {
        let p = match sort {
            Sort::Key => vault::key_shown_by_arm(room, name),
            _ => vault::secret_shown_by_arm(room, name),
        };
        p.map(|p| json!({
            "id": format!("{root}/{}/{name}", sort.path()), "name": name, "type": format!("Microsoft.KeyVault/vaults/{}", sort.path()),
            "location": place, "properties": p,
        }))
    };
    if !whole {
        let prefix = format!("v/{}/{}/", room.name, sort.path());
        let names: Vec<String> = room
            .state
            .data
            .range(&prefix, None)
            .filter_map(|(k, _)| k.strip_prefix(&prefix).map(str::to_owned))
            .collect();
        let value: Vec<Value> = names.iter().filter_map(|n| shown(&room, n)).collect();
        return Ok(Reply::ok(json!({"value": value})));
    }
    if cx.call.method == Method::PUT {
        let p = body.get("properties").cloned().unwrap_or_default();
        if !vault::name_ok(id.name()) {
            return Err(Fault::plain(
                StatusCode::BAD_REQUEST,
                "BadRequest",
                format!("The name '{}' is invalid: letters, digits and hyphens, up to 127.", id.name()),
            ));
        }
        let done = match sort {
            Sort::Key => vault::create_key_by_arm(&mut room, id.name(), &p),
            _ => vault::set_secret_by_arm(&mut room, id.name(), &p),
        };
        done.map_err(|e| Fault::plain(e.status(), "BadRequest", e.message()))?;
    } else if cx.call.method != Method::GET {
        return Err(not_allowed(cx));
    }
    shown(&room, id.name()).map(Reply::ok).ok_or_else(|| not_found(id))
}
