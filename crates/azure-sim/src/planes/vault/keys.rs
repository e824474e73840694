//! Keys: created, imported, used, rotated.

use crate::planes::vault::crypto::{CryptoError, Material, Wanted};
use crate::planes::vault::objects::{Attributes, Holds, Object, Sort, Version};
use crate::planes::vault::{Made, Refusal, Room, tags};
use crate::wire::Reply;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::{Method, StatusCode};
use serde_json::{Map, Value, json};

const RSA_OPS: [&str; 6] = ["encrypt", "decrypt", "sign", "verify", "wrapKey", "unwrapKey"];
const EC_OPS: [&str; 2] = ["sign", "verify"];
const ALL_OPS: [&str; 8] =
    ["encrypt", "decrypt", "sign", "verify", "wrapKey", "unwrapKey", "import", "export"];

pub fn shown(room: &Room<'_>, o: &Object, v: &Version) -> Value {
    let mut out = json!({"attributes": v.attributes.json(room.recovery(), Sort::Key)});
    if let Holds::Key { material, ops } = &v.holds {
        let mut key = json!({"kid": format!("{}/keys/{}/{}", room.base(), o.name, v.id)});
        if let (Some(k), Some(j)) = (key.as_object_mut(), material.jwk().as_object()) {
            k.extend(j.clone());
            k.insert("key_ops".into(), json!(ops));
        }
        out["key"] = key;
    }
    if let Some(tags) = &v.tags {
        out["tags"] = json!(tags);
    }
    if o.managed {
        out["managed"] = true.into();
    }
    out
}

pub fn wanted(body: &Value) -> Result<Wanted, Refusal> {
    Wanted::read(body)
        .map_err(|e| Refusal::bad(format!("Property kty, key_size or crv has invalid value: {e}.")))
}

/// What kind of key the newest version is, for rotating it.
pub fn kind_of(room: &Room<'_>, name: &str) -> Option<Wanted> {
    match &room.object(Sort::Key, name)?.versions.last()?.holds {
        Holds::Key { material, .. } => Some(material.kind),
        _ => None,
    }
}

pub fn answer(
    room: &mut Room<'_>,
    method: &Method,
    words: &[&str],
    body: &Value,
    made: Option<&Made>,
) -> Result<Reply, Refusal> {
    let name = words[0];
    let second = words.get(1).copied().unwrap_or_default();
    match (method.as_str(), second.to_ascii_lowercase().as_str(), words.get(2)) {
        ("POST", "create", None) => {
            wanted(body)?;
            let made = made.ok_or_else(unmade)?;
            add(room, name, body, &made.0)
        }
        ("POST", "rotate", None) => rotate(room, name, made),
        ("GET", "rotationpolicy", None) => policy(room, name),
        ("PUT", "rotationpolicy", None) => set_policy(room, name, body),
        ("PUT", "", None) => import(room, name, body),
        ("PATCH", _, None) => update(room, name, second, body),
        ("POST", _, Some(verb)) => apply(room, name, second, &verb.to_ascii_lowercase(), body),
        _ => {
            let (o, v) = find(room, name, second)?;
            Ok(Reply::ok(shown(room, o, v)))
        }
    }
}

fn unmade() -> Refusal {
    Refusal::new(StatusCode::INTERNAL_SERVER_ERROR, "InternalServerError", "The key could not be made.")
}

fn find<'a>(room: &'a Room<'_>, name: &str, version: &str) -> Result<(&'a Object, &'a Version), Refusal> {
    let o = room.object(Sort::Key, name).ok_or_else(|| room.missing(Sort::Key, name))?;
    let v = o.version(version).ok_or_else(|| room.missing(Sort::Key, &format!("{name}/{version}")))?;
    Ok((o, v))
}

fn ops(body: &Value, kind: Wanted) -> Result<Vec<String>, Refusal> {
    let given = body.get("key_ops").or_else(|| body.get("keyOps")).unwrap_or(&Value::Null);
    match given {
        Value::Null => Ok(match kind {
            Wanted::Rsa(_) => RSA_OPS.iter().map(|s| (*s).to_owned()).collect(),
            Wanted::Ec(_) => EC_OPS.iter().map(|s| (*s).to_owned()).collect(),
        }),
        Value::Array(l) if l.iter().all(|v| v.as_str().is_some_and(|s| ALL_OPS.contains(&s))) => {
            Ok(l.iter().filter_map(Value::as_str).map(str::to_owned).collect())
        }
        _ => Err(Refusal::bad("Property key_ops has invalid value.")),
    }
}

fn add(room: &mut Room<'_>, name: &str, body: &Value, material: &Material) -> Result<Reply, Refusal> {
    room.free(Sort::Key, name)?;
    let mut attributes = Attributes::new(room.now);
    attributes.merge(&body["attributes"]).map_err(Refusal::bad)?;
    let ops = ops(body, material.kind)?;
    let tags = tags(body)?;
    Ok(push(room, name, attributes, tags, Holds::Key { material: material.clone(), ops }))
}

fn push(
    room: &mut Room<'_>,
    name: &str,
    attributes: Attributes,
    tags: Option<Map<String, Value>>,
    holds: Holds,
) -> Reply {
    let id = room.version_id(Sort::Key, name);
    let mut o = room.object(Sort::Key, name).cloned().unwrap_or_else(|| Object::new(name, Sort::Key));
    let v = Version { id, attributes, tags, holds };
    let reply = shown(room, &o, &v);
    o.versions.push(v);
    room.put(o);
    Reply::ok(reply)
}

fn import(room: &mut Room<'_>, name: &str, body: &Value) -> Result<Reply, Refusal> {
    let material = Material::from_jwk(&body["key"]).map_err(|e| {
        Refusal::bad(format!("Property key has invalid value: {e}. RSA keys need n, e, d, p, q, dp, dq and qi; EC keys crv, x, y and d."))
    })?;
    let mut with = body.clone();
    if with.get("key_ops").is_none() {
        with["key_ops"] = body["key"]["key_ops"].clone();
    }
    add(room, name, &with, &material)
}

fn rotate(room: &mut Room<'_>, name: &str, made: Option<&Made>) -> Result<Reply, Refusal> {
    let (o, v) = find(room, name, "")?;
    let (attributes, tags, holds, managed) = (v.attributes, v.tags.clone(), v.holds.clone(), o.managed);
    let (Holds::Key { ops, .. }, Some(made)) = (holds, made) else { return Err(unmade()) };
    if managed {
        room.free(Sort::Key, name)?;
    }
    let attributes = Attributes {
        enabled: attributes.enabled,
        exportable: attributes.exportable,
        ..Attributes::new(room.now)
    };
    Ok(push(room, name, attributes, tags, Holds::Key { material: made.0.clone(), ops }))
}

fn update(room: &mut Room<'_>, name: &str, version: &str, body: &Value) -> Result<Reply, Refusal> {
    find(room, name, version)?;
    let mut o = room.object(Sort::Key, name).cloned().ok_or_else(|| room.missing(Sort::Key, name))?;
    let now = room.now;
    let v = o.version_mut(version).ok_or_else(|| room.missing(Sort::Key, name))?;
    v.attributes.merge(&body["attributes"]).map_err(Refusal::bad)?;
    v.attributes.updated = now;
    if let Some(tags) = tags(body)? {
        v.tags = Some(tags);
    }
    if let Holds::Key { material, ops: has } = &mut v.holds
        && !body["key_ops"].is_null()
    {
        *has = ops(body, material.kind)?;
    }
    let v = v.clone();
    let reply = shown(room, &o, &v);
    room.put(o);
    Ok(Reply::ok(reply))
}

fn policy(room: &Room<'_>, name: &str) -> Result<Reply, Refusal> {
    let (o, _) = find(room, name, "")?;
    let mut p = o.policy.clone().unwrap_or_else(|| {
        json!({
            "lifetimeActions": [{"trigger": {"timeBeforeExpiry": "P30D"}, "action": {"type": "Notify"}}],
            "attributes": {},
        })
    });
    p["id"] = format!("{}/keys/{}/rotationpolicy", room.base(), o.name).into();
    Ok(Reply::ok(p))
}

fn set_policy(room: &mut Room<'_>, name: &str, body: &Value) -> Result<Reply, Refusal> {
    find(room, name, "")?;
    let actions = &body["lifetimeActions"];
    if !actions.is_null() && !actions.is_array() {
        return Err(Refusal::bad("Property lifetimeActions has invalid value."));
    }
    let mut o = room.object(Sort::Key, name).cloned().ok_or_else(|| room.missing(Sort::Key, name))?;
    let created = o.policy.as_ref().and_then(|p| p["attributes"]["created"].as_i64()).unwrap_or(room.now);
    o.policy = Some(json!({
        "lifetimeActions": actions,
        "attributes": {
            "expiryTime": body["attributes"]["expiryTime"], "created": created, "updated": room.now,
        },
    }));
    room.put(o);
    policy(room, name)
}

fn bytes(body: &Value, field: &str) -> Result<Vec<u8>, Refusal> {
    let text = body[field].as_str().unwrap_or_default();
    URL_SAFE_NO_PAD
        .decode(text.trim_end_matches('='))
        .ok()
        .filter(|b| !b.is_empty())
        .ok_or_else(|| Refusal::bad(format!("Property {field} has invalid value: base64url is required.")))
}

fn apply(room: &Room<'_>, name: &str, version: &str, verb: &str, body: &Value) -> Result<Reply, Refusal> {
    let (o, v) = find(room, name, version)?;
    let Holds::Key { material, ops } = &v.holds else { return Err(unmade()) };
    let kid = format!("{}/keys/{}/{}", room.base(), o.name, v.id);
    let forbidden =
        |why: String, code| Err(Refusal::new(StatusCode::FORBIDDEN, "Forbidden", why).inner(code));
    if !v.attributes.enabled {
        return forbidden(format!("Operation {verb} is not allowed on a disabled key."), "KeyDisabled");
    }
    let outside =
        v.attributes.nbf.is_some_and(|t| room.now < t) || v.attributes.exp.is_some_and(|t| room.now >= t);
    // What was locked with a key can be unlocked after its time.
    if outside && matches!(verb, "encrypt" | "wrapkey" | "sign") {
        return forbidden(
            format!("Operation {verb} is not allowed on a key that is expired or not yet valid."),
            "KeyNotYetValidOrExpired",
        );
    }
    if !ops.iter().any(|op| op.eq_ignore_ascii_case(verb)) {
        return forbidden(format!("Operation {verb} is not permitted on this key."), "KeyOperationForbidden");
    }
    let algorithm = body["alg"].as_str().unwrap_or_default();
    let refused = |e: CryptoError| match e {
        CryptoError::Algorithm(a) => Refusal::bad(format!(
            "Key and algorithm are incompatible. Key {kid} is of type '{}' and cannot be used with algorithm '{a}'.",
            material.kind.kty()
        )),
        e => Refusal::bad(format!("Property value has invalid value: {e}.")),
    };
    let result = match verb {
        "encrypt" | "wrapkey" => material.encrypt(algorithm, &bytes(body, "value")?).map_err(refused)?,
        "decrypt" | "unwrapkey" => material.decrypt(algorithm, &bytes(body, "value")?).map_err(refused)?,
        "sign" => material.sign(algorithm, &bytes(body, "value")?).map_err(refused)?,
        _ => {
            let digest = bytes(body, "digest")?;
            let given = bytes(body, "value")?;
            let good = material.verify(algorithm, &digest, &given).map_err(refused)?;
            return Ok(Reply::ok(json!({"value": good})));
        }
    };
    Ok(Reply::ok(json!({"kid": kid, "value": URL_SAFE_NO_PAD.encode(result)})))
}

/// Resource Manager's way to create one: `vaults/keys`. What exists stays as it is.
pub fn create_by_arm(room: &mut Room<'_>, name: &str, properties: &Value) -> Result<(), Refusal> {
    if room.object(Sort::Key, name).is_some() {
        return Ok(());
    }
    let body = json!({
        "kty": properties["kty"], "key_size": properties["keySize"], "crv": properties["curveName"],
        "attributes": properties["attributes"], "keyOps": properties["keyOps"],
    });
    let material = Material::generate(wanted(&body)?).map_err(|_| unmade())?;
    add(room, name, &body, &material).map(|_| ())
}

pub fn shown_by_arm(room: &Room<'_>, name: &str) -> Option<Value> {
    let o = room.object(Sort::Key, name)?;
    let v = o.versions.last()?;
    let Holds::Key { material, ops } = &v.holds else { return None };
    let uri = format!("{}/keys/{}", room.base(), o.name);
    let a = &v.attributes;
    let mut p = json!({
        "attributes": {
            "enabled": a.enabled, "created": a.created, "updated": a.updated,
            "recoveryLevel": room.recovery().level(), "exportable": a.exportable,
        },
        "kty": material.kind.kty(), "keyOps": ops, "keyUri": uri, "keyUriWithVersion": format!("{uri}/{}", v.id),
    });
    match material.kind {
        Wanted::Rsa(bits) => p["keySize"] = bits.into(),
        Wanted::Ec(curve) => p["curveName"] = curve.name().into(),
    }
    Some(p)
}
