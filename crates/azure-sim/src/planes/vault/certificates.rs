//! Certificates: created by issuance that takes its time, imported, merged; each with a key and a secret beside it.

use crate::planes::vault::crypto::{Material, Wanted};
use crate::planes::vault::objects::{Attributes, Holds, Issued, Object, Pending, Sort, Version};
use crate::planes::vault::x509::{self, X509Error};
use crate::planes::vault::{Made, Refusal, Room, tags};
use crate::planes::{Cx, Datum};
use crate::state::Secret;
use crate::wire::Reply;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::{Method, StatusCode};
use serde_json::{Map, Value, json};

/// Seconds that a real vault takes for a self-signed certificate.
const LASTS: f64 = 10.0;

fn refused(e: X509Error) -> Refusal {
    Refusal::bad(match e {
        X509Error::Policy(field) => format!("Property policy has invalid value: x509_props.{field}"),
        X509Error::Unreadable => "The specified PKCS#12 X.509 certificate content can not be read. Please check if certificate is in valid PKCS#12 format, or PEM.".to_owned(),
        X509Error::NoKey => "Property value has invalid value: private key is not specified in the specified X.509 PEM or PKCS#12 certificate content. Please specify private key in the X.509 certificate content.".to_owned(),
        e => format!("The specified X.509 certificate content is invalid: {e}."),
    })
}

pub fn shown(room: &Room<'_>, o: &Object, v: &Version) -> Value {
    let base = room.base();
    let mut out = json!({
        "id": format!("{base}/certificates/{}/{}", o.name, v.id),
        "kid": format!("{base}/keys/{}/{}", o.name, v.id),
        "sid": format!("{base}/secrets/{}/{}", o.name, v.id),
        "attributes": v.attributes.json(room.recovery(), Sort::Certificate),
    });
    if let Holds::Certificate(issued) = &v.holds {
        out["x5t"] = x509::thumbprint(issued).into();
        out["cer"] = STANDARD.encode(issued.chain.first().map_or(&[][..], Vec::as_slice)).into();
    }
    if let Some(tags) = &v.tags {
        out["tags"] = json!(tags);
    }
    if let Some(policy) = &o.policy {
        out["policy"] = policy_shown(room, o, policy);
    }
    if o.pending.is_some() {
        out["pending"] = json!({"id": format!("{base}/certificates/{}/pending", o.name)});
    }
    out
}

fn policy_shown(room: &Room<'_>, o: &Object, policy: &Value) -> Value {
    let mut p = policy.clone();
    p["id"] = format!("{}/certificates/{}/policy", room.base(), o.name).into();
    p
}

/// A policy with the service's defaults.
fn whole(given: &Value, now: i64) -> Result<Value, Refusal> {
    if !given.is_object() {
        return Err(Refusal::bad("Property policy has invalid value: an object is required."));
    }
    let mut p = given.clone();
    let default = |p: &mut Value, at: &str, v: Value| {
        let slot = at.split('/').fold(&mut *p, |v, k| &mut v[k]);
        if slot.is_null() {
            *slot = v;
        }
    };
    for part in ["key_props", "secret_props", "x509_props", "issuer"] {
        if !p[part].is_null() && !p[part].is_object() {
            return Err(Refusal::bad(format!("Property policy.{part} has invalid value.")));
        }
    }
    default(&mut p, "key_props/exportable", true.into());
    default(&mut p, "key_props/kty", "RSA".into());
    if p["key_props"]["kty"] == "RSA" {
        default(&mut p, "key_props/key_size", 2048.into());
    }
    default(&mut p, "key_props/reuse_key", false.into());
    default(&mut p, "secret_props/contentType", "application/x-pkcs12".into());
    default(&mut p, "x509_props/validity_months", 12.into());
    default(&mut p, "x509_props/key_usage", json!(["digitalSignature", "keyEncipherment"]));
    default(&mut p, "x509_props/ekus", json!(["1.3.6.1.5.5.7.3.1", "1.3.6.1.5.5.7.3.2"]));
    default(&mut p, "x509_props/basic_constraints", json!({"ca": false}));
    default(
        &mut p,
        "lifetime_actions",
        json!([{"trigger": {"lifetime_percentage": 80}, "action": {"action_type": "AutoRenew"}}]),
    );
    default(&mut p, "issuer/name", "Self".into());
    p["attributes"] = json!({"enabled": true, "created": now, "updated": now});
    let content = p["secret_props"]["contentType"].as_str().unwrap_or_default();
    if !matches!(content, "application/x-pkcs12" | "application/x-pem-file") {
        return Err(Refusal::bad(
            "Property policy.secret_props.contentType has invalid value: application/x-pkcs12 or application/x-pem-file.",
        ));
    }
    key_of(&p)?;
    Ok(p)
}

fn key_of(policy: &Value) -> Result<Wanted, Refusal> {
    Wanted::read(&policy["key_props"])
        .map_err(|e| Refusal::bad(format!("Property policy.key_props has invalid value: {e}.")))
}

/// The policy of the request, else that of the certificate.
fn policy_of(room: &Room<'_>, name: &str, body: &Value) -> Result<Value, Refusal> {
    match (&body["policy"], room.any(Sort::Certificate, name).and_then(|o| o.policy.as_ref())) {
        (Value::Null, Some(old)) => Ok(old.clone()),
        (given, _) => whole(given, room.now),
    }
}

/// The key that a create will need.
pub fn wanted(room: &mut Room<'_>, name: &str, body: &Value) -> Option<Wanted> {
    key_of(&policy_of(room, name, body).ok()?).ok()
}

pub fn answer(
    room: &mut Room<'_>,
    cx: &Cx<'_>,
    method: &Method,
    words: &[&str],
    body: &Value,
    made: Option<&Made>,
) -> Result<Reply, Refusal> {
    let name = words[0];
    let second = words.get(1).copied().unwrap_or_default();
    match (method.as_str(), second.to_ascii_lowercase().as_str(), words.get(2)) {
        ("POST", "create", None) => create(room, cx, name, body, made),
        ("POST", "import", None) => import(room, name, body),
        ("POST", "pending", Some(_)) => merge(room, name, body),
        ("GET", "pending", None) => pending(room, cx, name),
        ("PATCH", "pending", None) => cancel(room, cx, name, body),
        ("DELETE", "pending", None) => forget(room, cx, name),
        ("GET", "policy", None) => {
            let o = find(room, name)?;
            let policy = o.policy.as_ref().ok_or_else(|| room.missing(Sort::Certificate, name))?;
            Ok(Reply::ok(policy_shown(room, o, policy)))
        }
        ("PATCH", "policy", None) => set_policy(room, name, body),
        ("PATCH", _, None) => update(room, name, second, body),
        _ => {
            let o = find(room, name)?;
            let v = o
                .version(second)
                .ok_or_else(|| room.missing(Sort::Certificate, &format!("{name}/{second}")))?;
            Ok(Reply::ok(shown(room, o, v)))
        }
    }
}

fn find<'a>(room: &'a Room<'_>, name: &str) -> Result<&'a Object, Refusal> {
    room.object(Sort::Certificate, name).ok_or_else(|| room.missing(Sort::Certificate, name))
}

fn create(
    room: &mut Room<'_>,
    cx: &Cx<'_>,
    name: &str,
    body: &Value,
    made: Option<&Made>,
) -> Result<Reply, Refusal> {
    for sort in [Sort::Certificate, Sort::Key, Sort::Secret] {
        // The key and secret of this certificate are in nobody's way.
        if room
            .any(sort, name)
            .is_some_and(|o| o.deleted.is_some() || (sort != Sort::Certificate && !o.managed))
        {
            room.free(sort, name)?;
            return Err(Refusal::new(
                StatusCode::CONFLICT,
                "Conflict",
                format!(
                    "A {} named {name} exists already and does not belong to a certificate.",
                    sort.word().to_lowercase()
                ),
            ));
        }
    }
    let policy = policy_of(room, name, body)?;
    let mut attributes = Attributes::new(room.now);
    attributes.merge(&body["attributes"]).map_err(Refusal::bad)?;
    let tags = tags(body)?;
    let issuer = policy["issuer"]["name"].as_str().unwrap_or_default().to_owned();
    if !matches!(issuer.as_str(), "Self" | "Unknown") {
        return Err(Refusal::bad(format!(
            "Issuer '{issuer}' is not found: the simulator's vaults issue as 'Self', or leave it to others as 'Unknown'."
        )));
    }
    let material = made.map(|m| m.0.clone()).ok_or_else(|| refused(X509Error::Make))?;
    let csr = x509::request(&material, &policy, room.now).map_err(refused)?;
    let issued = match issuer.as_str() {
        "Self" => Some(x509::self_signed(&material, &policy, room.now).map_err(refused)?),
        _ => None,
    };
    let due = cx.profile.lasts(LASTS).map(|d| room.now + d.as_secs());
    let version = room.version_id(Sort::Certificate, name);
    let mut o =
        room.any(Sort::Certificate, name).cloned().unwrap_or_else(|| Object::new(name, Sort::Certificate));
    o.policy = Some(policy);
    o.pending = Some(Box::new(Pending {
        request: room.state.guid(&version, "request"),
        version,
        issuer,
        csr,
        material,
        issued,
        due,
        tags,
        enabled: attributes.enabled,
        cancelled: false,
        done: false,
        fails: cx.due.fail_late.clone(),
    }));
    let body = o.pending.as_ref().map(|p| pending_shown(room, &o, p)).unwrap_or_default();
    let at = format!(
        "{}/certificates/{}/pending?api-version=7.4&request_id={}",
        room.base(),
        o.name,
        body["request_id"].as_str().unwrap_or_default()
    );
    room.put(o);
    Ok(retry(Reply::json(StatusCode::ACCEPTED, body).with("location", &at), cx))
}

fn retry(reply: Reply, cx: &Cx<'_>) -> Reply {
    match cx.profile.retry_after(10) {
        Some((name, value)) => reply.with(name, &value),
        None => reply,
    }
}

fn pending_shown(room: &Room<'_>, o: &Object, p: &Pending) -> Value {
    let base = format!("{}/certificates/{}", room.base(), o.name);
    let mut out = json!({
        "id": format!("{base}/pending"), "issuer": {"name": p.issuer}, "csr": STANDARD.encode(&p.csr),
        "cancellation_requested": p.cancelled, "request_id": p.request,
    });
    if let Some(why) = p.fails.as_ref().filter(|_| p.done) {
        let message = why.message.as_deref().unwrap_or("The certificate could not be issued.");
        out["status"] = "failed".into();
        out["error"] = json!({"code": why.code, "message": message});
    } else if p.done {
        out["status"] = "completed".into();
        out["target"] = base.into();
    } else if p.cancelled {
        out["status"] = "cancelled".into();
    } else {
        out["status"] = "inProgress".into();
        out["status_details"] = match p.issuer.as_str() {
            "Unknown" => "Pending certificate created. Please Perform Merge to complete the request.",
            _ => "Pending certificate created. Certificate request is in progress. This may take some time based on the issuer provider. Please check again later.",
        }
        .into();
    }
    out
}

fn pending(room: &Room<'_>, cx: &Cx<'_>, name: &str) -> Result<Reply, Refusal> {
    let o = room.any(Sort::Certificate, name).filter(|o| o.deleted.is_none());
    let Some((o, p)) = o.and_then(|o| o.pending.as_ref().map(|p| (o, p))) else {
        return Err(Refusal::new(
            StatusCode::NOT_FOUND,
            "PendingCertificateNotFound",
            format!("Pending certificate not found: {name}"),
        ));
    };
    let reply = Reply::ok(pending_shown(room, o, p));
    Ok(if p.done { reply } else { retry(reply, cx) })
}

fn change_pending(
    room: &mut Room<'_>,
    cx: &Cx<'_>,
    name: &str,
    how: impl FnOnce(&mut Option<Box<Pending>>),
) -> Result<Reply, Refusal> {
    let before = pending(room, cx, name)?;
    let Some(mut o) = room.any(Sort::Certificate, name).cloned() else { return Ok(before) };
    how(&mut o.pending);
    let reply = o.pending.as_ref().map(|p| Reply::ok(pending_shown(room, &o, p)));
    if o.pending.is_none() && o.versions.is_empty() {
        room.remove(Sort::Certificate, name);
    } else {
        room.put(o);
    }
    Ok(reply.unwrap_or(before))
}

fn cancel(room: &mut Room<'_>, cx: &Cx<'_>, name: &str, body: &Value) -> Result<Reply, Refusal> {
    let wish = body["cancellation_requested"].as_bool().unwrap_or(false);
    change_pending(room, cx, name, |p| {
        if let Some(p) = p {
            p.cancelled = wish && !p.done;
        }
    })
}

fn forget(room: &mut Room<'_>, cx: &Cx<'_>, name: &str) -> Result<Reply, Refusal> {
    change_pending(room, cx, name, |p| *p = None)
}

/// Ends the issuances of this vault that are due.
pub fn settle(room: &mut Room<'_>) {
    let prefix = format!("v/{}/certificates/", room.name);
    let now = room.now;
    let due: Vec<Object> = room
        .state
        .data
        .range(&prefix, None)
        .filter_map(|(_, d)| match d {
            Datum::Object(o)
                if o.deleted.is_none()
                    && o.pending.as_ref().is_some_and(|p| {
                        !p.done && !p.cancelled && p.issued.is_some() && p.due.is_some_and(|t| t <= now)
                    }) =>
            {
                Some((**o).clone())
            }
            _ => None,
        })
        .collect();
    for mut o in due {
        let Some(p) = &mut o.pending else { continue };
        p.done = true;
        let issued = p.issued.take();
        if p.fails.is_some() {
            room.put(o);
            continue;
        }
        let Some(issued) = issued else { continue };
        let p = (**p).clone();
        let _ = complete(room, o, &p.version, issued, &p.material, p.enabled, p.tags);
    }
}

/// Adds a version to the certificate, its key and its secret.
fn complete(
    room: &mut Room<'_>,
    mut o: Object,
    id: &str,
    issued: Issued,
    material: &Material,
    enabled: bool,
    tags: Option<Map<String, Value>>,
) -> Result<Value, Refusal> {
    let policy = o.policy.clone().unwrap_or_default();
    let content = policy["secret_props"]["contentType"].as_str().unwrap_or("application/x-pkcs12").to_owned();
    let exportable = policy["key_props"]["exportable"].as_bool().unwrap_or(true);
    let value = x509::secret(&issued, Some(material).filter(|_| exportable), &content).map_err(refused)?;
    let (nbf, exp) = x509::validity(&issued);
    let attributes = Attributes { enabled, nbf, exp, exportable, ..Attributes::new(room.now) };
    let name = o.name.clone();
    let ops = match material.kind {
        Wanted::Rsa(_) => vec!["sign", "verify", "wrapKey", "unwrapKey", "encrypt", "decrypt"],
        Wanted::Ec(_) => vec!["sign", "verify"],
    };
    let ops = ops.into_iter().map(str::to_owned).collect();
    let beside = [
        (Sort::Key, Holds::Key { material: material.clone(), ops }),
        (Sort::Secret, Holds::Secret { value: Secret::new(&value), content_type: Some(content) }),
    ];
    for (sort, holds) in beside {
        let mut other = room.any(sort, &name).cloned().unwrap_or_else(|| Object::new(&name, sort));
        other.managed = true;
        other.versions.push(Version { id: id.to_owned(), attributes, tags: tags.clone(), holds });
        room.put(other);
    }
    let v = Version { id: id.to_owned(), attributes, tags, holds: Holds::Certificate(issued) };
    let reply = shown(room, &o, &v);
    o.versions.push(v);
    room.put(o);
    Ok(reply)
}

fn import(room: &mut Room<'_>, name: &str, body: &Value) -> Result<Reply, Refusal> {
    room.free(Sort::Certificate, name)?;
    for sort in [Sort::Key, Sort::Secret] {
        if room.any(sort, name).is_some_and(|o| !o.managed || o.deleted.is_some()) {
            return Err(Refusal::new(
                StatusCode::CONFLICT,
                "Conflict",
                format!(
                    "A {} named {name} exists already and does not belong to a certificate.",
                    sort.word().to_lowercase()
                ),
            ));
        }
    }
    let value = body["value"].as_str().ok_or_else(|| {
        Refusal::bad("Property value has invalid value: base64 of PKCS#12, or PEM, is required.")
    })?;
    let (material, issued, content) =
        x509::read(value, body["pwd"].as_str().unwrap_or_default()).map_err(refused)?;
    let mut policy = match &body["policy"] {
        Value::Null => json!({}),
        p => p.clone(),
    };
    if policy["secret_props"]["contentType"].is_null() {
        policy["secret_props"]["contentType"] = content.into();
    }
    policy["key_props"]["kty"] = material.kind.kty().into();
    match material.kind {
        Wanted::Rsa(bits) => policy["key_props"]["key_size"] = bits.into(),
        Wanted::Ec(curve) => policy["key_props"]["crv"] = curve.name().into(),
    }
    policy["x509_props"]["subject"] = x509::subject(&issued).into();
    policy["issuer"]["name"] = "Unknown".into();
    let mut attributes = Attributes::new(room.now);
    attributes.merge(&body["attributes"]).map_err(Refusal::bad)?;
    let tags = tags(body)?;
    let mut o =
        room.any(Sort::Certificate, name).cloned().unwrap_or_else(|| Object::new(name, Sort::Certificate));
    o.policy = Some(whole(&policy, room.now)?);
    let id = room.version_id(Sort::Certificate, name);
    Ok(Reply::ok(complete(room, o, &id, issued, &material, attributes.enabled, tags)?))
}

fn merge(room: &mut Room<'_>, name: &str, body: &Value) -> Result<Reply, Refusal> {
    let o = room.any(Sort::Certificate, name).filter(|o| o.deleted.is_none()).cloned();
    let Some((mut o, p)) = o.and_then(|o| o.pending.clone().filter(|p| !p.done).map(|p| (o, p))) else {
        return Err(Refusal::new(
            StatusCode::NOT_FOUND,
            "PendingCertificateNotFound",
            format!("Pending certificate not found: {name}"),
        ));
    };
    let given = body["x5c"].as_array().cloned().unwrap_or_default();
    let chain: Option<Vec<Vec<u8>>> =
        given.iter().take(10).map(|c| STANDARD.decode(c.as_str()?).ok()).collect();
    let chain =
        chain.filter(|c| !c.is_empty()).ok_or_else(|| Refusal::bad("Property x5c has invalid value."))?;
    if !x509::belongs(&chain[0], &p.material) {
        return Err(Refusal::bad("Public key from x509 certificate and key of this instance doesn't match."));
    }
    if let Some(p) = &mut o.pending {
        p.done = true;
    }
    let reply = complete(room, o, &p.version, Issued { chain }, &p.material, p.enabled, p.tags.clone())?;
    Ok(Reply::json(StatusCode::CREATED, reply))
}

fn set_policy(room: &mut Room<'_>, name: &str, body: &Value) -> Result<Reply, Refusal> {
    let mut o = find(room, name)?.clone();
    let mut policy = o.policy.clone().unwrap_or_else(|| json!({}));
    merge_json(&mut policy, body);
    policy = whole(&policy, room.now)?;
    let reply = policy_shown(room, &o, &policy);
    o.policy = Some(policy);
    room.put(o);
    Ok(Reply::ok(reply))
}

fn merge_json(into: &mut Value, from: &Value) {
    match (into, from) {
        (Value::Object(a), Value::Object(b)) => {
            for (k, v) in b {
                merge_json(a.entry(k.clone()).or_insert(Value::Null), v);
            }
        }
        (a, b) => *a = b.clone(),
    }
}

fn update(room: &mut Room<'_>, name: &str, version: &str, body: &Value) -> Result<Reply, Refusal> {
    let mut o = find(room, name)?.clone();
    let now = room.now;
    if !body["policy"].is_null() {
        o.policy = Some(whole(&body["policy"], now)?);
    }
    let missing = room.missing(Sort::Certificate, &format!("{name}/{version}"));
    let v = o.version_mut(version).ok_or(missing)?;
    v.attributes.merge(&json!({"enabled": body["attributes"]["enabled"]})).map_err(Refusal::bad)?;
    v.attributes.updated = now;
    if let Some(tags) = tags(body)? {
        v.tags = Some(tags);
    }
    let v = v.clone();
    // Its key and secret are enabled and disabled with it.
    for sort in [Sort::Key, Sort::Secret] {
        if let Some(mut other) = room.any(sort, name).filter(|o| o.managed).cloned() {
            if let Some(ov) = other.version_mut(&v.id) {
                ov.attributes.enabled = v.attributes.enabled;
            }
            room.put(other);
        }
    }
    let reply = shown(room, &o, &v);
    room.put(o);
    Ok(Reply::ok(reply))
}
