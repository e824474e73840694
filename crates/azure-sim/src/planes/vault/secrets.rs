//! Secrets.

use crate::planes::vault::objects::{Attributes, Holds, Object, Sort, Version};
use crate::planes::vault::{Refusal, Room, tags};
use crate::state::Secret;
use crate::wire::Reply;
use http::{Method, StatusCode};
use serde_json::{Value, json};

/// 25 KB.
const MAX_VALUE: usize = 25_600;

pub fn shown(room: &Room<'_>, o: &Object, v: &Version) -> Value {
    let mut out = json!({
        "id": format!("{}/secrets/{}/{}", room.base(), o.name, v.id),
        "attributes": v.attributes.json(room.recovery(), Sort::Secret),
    });
    if let Holds::Secret { value, content_type } = &v.holds {
        out["value"] = value.expose().into();
        if let Some(c) = content_type {
            out["contentType"] = c.as_str().into();
        }
    }
    if let Some(tags) = &v.tags {
        out["tags"] = json!(tags);
    }
    if o.managed {
        out["managed"] = true.into();
        out["kid"] = format!("{}/keys/{}/{}", room.base(), o.name, v.id).into();
    }
    out
}

pub fn answer(room: &mut Room<'_>, method: &Method, words: &[&str], body: &Value) -> Result<Reply, Refusal> {
    let (name, version) = (words[0], words.get(1).copied().unwrap_or_default());
    match *method {
        Method::PUT => set(room, name, body),
        Method::PATCH => update(room, name, version, body),
        _ => get(room, name, version),
    }
}

fn get(room: &Room<'_>, name: &str, version: &str) -> Result<Reply, Refusal> {
    let o = room.object(Sort::Secret, name).ok_or_else(|| room.missing(Sort::Secret, name))?;
    let v = o.version(version).ok_or_else(|| room.missing(Sort::Secret, &format!("{name}/{version}")))?;
    if !v.attributes.enabled {
        let why = "Operation get is not allowed on a disabled secret.";
        return Err(Refusal::new(StatusCode::FORBIDDEN, "Forbidden", why).inner("SecretDisabled"));
    }
    Ok(Reply::ok(shown(room, o, v)))
}

fn content_type(body: &Value) -> Result<Option<String>, Refusal> {
    match &body["contentType"] {
        Value::Null => Ok(None),
        Value::String(s) if s.len() <= 255 => Ok(Some(s.clone())),
        _ => Err(Refusal::bad("Property contentType has invalid value: text of at most 255 characters.")),
    }
}

fn set(room: &mut Room<'_>, name: &str, body: &Value) -> Result<Reply, Refusal> {
    room.free(Sort::Secret, name)?;
    let value = body["value"]
        .as_str()
        .ok_or_else(|| Refusal::bad("Property value has invalid value: text is required."))?;
    if value.len() > MAX_VALUE {
        return Err(Refusal::bad(format!(
            "Property value has invalid value: it is longer than {MAX_VALUE} characters."
        )));
    }
    let mut attributes = Attributes::new(room.now);
    attributes.merge(&body["attributes"]).map_err(Refusal::bad)?;
    let holds = Holds::Secret { value: Secret::new(value), content_type: content_type(body)? };
    let tags = tags(body)?;
    let id = room.version_id(Sort::Secret, name);
    let mut o = room.object(Sort::Secret, name).cloned().unwrap_or_else(|| Object::new(name, Sort::Secret));
    o.versions.push(Version { id, attributes, tags, holds });
    let reply = o.versions.last().map_or(Value::Null, |v| shown(room, &o, v));
    room.put(o);
    Ok(Reply::ok(reply))
}

fn update(room: &mut Room<'_>, name: &str, version: &str, body: &Value) -> Result<Reply, Refusal> {
    let missing = room.missing(Sort::Secret, name);
    let mut o = room.object(Sort::Secret, name).cloned().ok_or_else(|| missing.clone())?;
    let v = o.version_mut(version).ok_or(missing)?;
    v.attributes.merge(&body["attributes"]).map_err(Refusal::bad)?;
    v.attributes.updated = room.now;
    if let Some(tags) = tags(body)? {
        v.tags = Some(tags);
    }
    if let (Some(new), Holds::Secret { content_type, .. }) = (content_type(body)?, &mut v.holds) {
        *content_type = Some(new);
    }
    let v = v.clone();
    let mut reply = shown(room, &o, &v);
    if let Some(m) = reply.as_object_mut() {
        m.remove("value");
    }
    room.put(o);
    Ok(Reply::ok(reply))
}

/// Resource Manager's way to set one: `vaults/secrets`.
pub fn set_by_arm(room: &mut Room<'_>, name: &str, properties: &Value) -> Result<(), Refusal> {
    let body = json!({
        "value": properties["value"], "contentType": properties["contentType"],
        "attributes": properties["attributes"], "tags": properties["tags"],
    });
    set(room, name, &body).map(|_| ())
}

/// What Resource Manager shows: everything but the value.
pub fn shown_by_arm(room: &Room<'_>, name: &str) -> Option<Value> {
    let o = room.object(Sort::Secret, name)?;
    let v = o.versions.last()?;
    let uri = format!("{}/secrets/{}", room.base(), o.name);
    let mut p = json!({
        "attributes": {"enabled": v.attributes.enabled, "created": v.attributes.created, "updated": v.attributes.updated},
        "secretUri": uri, "secretUriWithVersion": format!("{uri}/{}", v.id),
    });
    if let Holds::Secret { content_type: Some(c), .. } = &v.holds {
        p["contentType"] = c.as_str().into();
    }
    Some(p)
}
