//! What is deleted and comes back, or does not; backups.

use crate::planes::vault::objects::{Object, Sort};
use crate::planes::vault::{Refusal, Room, name_ok};
use crate::wire::Reply;
use http::StatusCode;
use serde_json::{Value, json};

pub fn deleted_shown(room: &Room<'_>, o: &Object) -> Value {
    let mut out = o.versions.last().map_or_else(|| json!({}), |v| room.shown(o, v));
    if let Some(m) = out.as_object_mut() {
        m.remove("value");
    }
    room.deleted_fields(o, &mut out);
    out
}

/// The certificate's key and secret share its fate.
pub fn bound(sort: Sort) -> &'static [Sort] {
    match sort {
        Sort::Certificate => &[Sort::Certificate, Sort::Key, Sort::Secret],
        Sort::Key => &[Sort::Key],
        Sort::Secret => &[Sort::Secret],
    }
}

pub fn delete(room: &mut Room<'_>, sort: Sort, name: &str) -> Result<Reply, Refusal> {
    let found = room.object(sort, name).ok_or_else(|| room.missing(sort, name))?;
    if found.managed {
        room.free(sort, name)?;
    }
    let until = room.now + room.recovery().days * 86_400;
    let mut shown = Value::Null;
    for s in bound(sort) {
        let Some(mut o) = room.object(*s, name).cloned() else { continue };
        o.deleted = Some((room.now, until));
        o.pending = None;
        if *s == sort {
            shown = deleted_shown(room, &o);
        }
        room.put(o);
    }
    Ok(Reply::ok(shown))
}

pub fn deleted<'a>(room: &'a Room<'_>, sort: Sort, name: &str) -> Result<&'a Object, Refusal> {
    room.any(sort, name).filter(|o| o.deleted.is_some()).ok_or_else(|| {
        Refusal::new(
            StatusCode::NOT_FOUND,
            match sort {
                Sort::Secret => "SecretNotFound",
                Sort::Key => "KeyNotFound",
                Sort::Certificate => "CertificateNotFound",
            },
            format!("Deleted {} not found: {name}", sort.word()),
        )
    })
}

pub fn get_deleted(room: &Room<'_>, sort: Sort, name: &str) -> Result<Reply, Refusal> {
    Ok(Reply::ok(deleted_shown(room, deleted(room, sort, name)?)))
}

pub fn recover(room: &mut Room<'_>, sort: Sort, name: &str) -> Result<Reply, Refusal> {
    deleted(room, sort, name)?;
    let mut shown = Value::Null;
    for s in bound(sort) {
        let Some(mut o) = room.any(*s, name).cloned() else { continue };
        o.deleted = None;
        if *s == sort {
            shown = o.versions.last().map_or(Value::Null, |v| room.shown(&o, v));
            if let Some(m) = shown.as_object_mut() {
                m.remove("value");
            }
        }
        room.put(o);
    }
    Ok(Reply::ok(shown))
}

pub fn purge(room: &mut Room<'_>, sort: Sort, name: &str) -> Result<Reply, Refusal> {
    deleted(room, sort, name)?;
    if room.recovery().protected {
        return Err(Refusal::new(
            StatusCode::FORBIDDEN,
            "Forbidden",
            "Operation \"purge\" is not allowed because purge protection is enabled for this vault. Key Vault service will automatically purge it after the retention period has passed.",
        )
        .inner("ForbiddenByPolicy"));
    }
    for s in bound(sort) {
        room.remove(*s, name);
    }
    Ok(Reply::empty(StatusCode::NO_CONTENT))
}

/// A backup is good in any vault of this simulator's world; it holds the private parts, sealed against reading only
/// by being opaque.
pub fn backup(room: &Room<'_>, sort: Sort, name: &str) -> Result<Reply, Refusal> {
    use base64::Engine;
    let o = room.object(sort, name).ok_or_else(|| room.missing(sort, name))?;
    let bytes = serde_json::to_vec(o).unwrap_or_default();
    let text = base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(bytes);
    Ok(Reply::ok(json!({"value": text})))
}

pub fn restore(room: &mut Room<'_>, sort: Sort, body: &Value) -> Result<Reply, Refusal> {
    use base64::Engine;
    let bad = || Refusal::bad("Backup blob contains invalid or corrupt data.");
    let bytes = base64::engine::general_purpose::URL_SAFE_NO_PAD
        .decode(body["value"].as_str().unwrap_or_default())
        .map_err(|_| bad())?;
    let o: Object = serde_json::from_slice(&bytes).map_err(|_| bad())?;
    if o.sort != sort || !name_ok(&o.name) || o.versions.is_empty() {
        return Err(bad());
    }
    if room.any(sort, &o.name).is_some() {
        return Err(Refusal::new(
            StatusCode::CONFLICT,
            "Conflict",
            format!("{} '{}' already exists in this vault.", sort.word(), o.name),
        ));
    }
    let shown = o.versions.last().map_or(Value::Null, |v| room.shown(&o, v));
    room.put(o);
    Ok(Reply::ok(shown))
}
