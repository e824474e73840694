//! Applications: registrations, their secrets, certificates and federated credentials.

use crate::graph::{Cx, bad, error, list, missing, select, show};
use crate::state::{App, Certificate, FederatedCredential, Password, Secret};
use crate::wire::Reply;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::StatusCode;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Map, Value, json};
use std::sync::Arc;

/// `appId='x'` or `'id'`.
pub fn by_key(cx: &Cx<'_>, key: &str) -> Result<String, Reply> {
    let value = key.rsplit('=').next().unwrap_or(key).trim().trim_matches('\'');
    if !key.to_ascii_lowercase().starts_with("appid") {
        return Ok(value.to_owned());
    }
    let found = cx.state.directory.apps.get(&value.to_lowercase()).filter(|a| !a.managed);
    found.map(|a| a.object_id.clone()).ok_or_else(|| missing(value))
}

fn shown(cx: &Cx<'_>) -> Vec<Value> {
    let mut all: Vec<Value> =
        cx.state.directory.apps.values().filter(|a| !a.managed).map(|a| show::application(a)).collect();
    all.sort_by(|a, b| a["id"].as_str().cmp(&b["id"].as_str()));
    all
}

pub fn all(cx: &mut Cx<'_>, only_count: bool) -> Result<Reply, Reply> {
    match cx.call.method.as_str() {
        "GET" => list(cx, "applications", shown(cx), only_count),
        "POST" => create(cx),
        _ => Err(error(
            StatusCode::METHOD_NOT_ALLOWED,
            "Request_BadRequest",
            "The method is not allowed here.",
        )),
    }
}

fn create(cx: &mut Cx<'_>) -> Result<Reply, Reply> {
    cx.may_create()?;
    let body = cx.body()?;
    let name = body.get("displayName").and_then(Value::as_str).filter(|n| !n.is_empty() && n.len() <= 256);
    let Some(name) = name.map(str::to_owned) else {
        return Err(bad("A value is required for property 'displayName' of resource 'Application'."));
    };
    let mut app = App {
        client_id: cx.random.uuid(),
        object_id: cx.random.uuid(),
        name,
        passwords: Vec::new(),
        certificates: Vec::new(),
        federated: Vec::new(),
        enabled: true,
        created: cx.now,
        owner: Some(cx.caller.object_id.clone()),
        managed: false,
        other: Map::new(),
    };
    let secrets = update(cx, &mut app, body)?;
    let mut shown = show::application(&app);
    // Secrets that were asked for with the application are shown with it, once.
    for (i, secret) in secrets.iter().enumerate() {
        shown["passwordCredentials"][i]["secretText"] = secret.expose().into();
    }
    cx.state.directory.add_app(app);
    Ok(Reply::json(StatusCode::CREATED, shown))
}

const READ_ONLY: [&str; 6] = ["id", "appId", "createdDateTime", "publisherDomain", "deletedDateTime", "info"];
const MAX_CREDENTIALS: usize = 20;

/// Takes over what a body says; the secrets that it asked for.
fn update(cx: &Cx<'_>, app: &mut App, body: Map<String, Value>) -> Result<Vec<Secret>, Reply> {
    let mut made = Vec::new();
    for (name, value) in body {
        match name.as_str() {
            "displayName" => match value.as_str().filter(|n| !n.is_empty() && n.len() <= 256) {
                Some(n) => app.name = n.to_owned(),
                None => {
                    return Err(bad(
                        "Invalid value specified for property 'displayName' of resource 'Application'.",
                    ));
                }
            },
            "passwordCredentials" => {
                let given = value.as_array().cloned().unwrap_or_default();
                // Those that are not mentioned go; new ones have no key id yet.
                let kept = |p: &Password| given.iter().any(|g| g["keyId"].as_str() == Some(p.id.as_str()));
                app.passwords.retain(kept);
                for g in given.iter().filter(|g| g["keyId"].is_null()) {
                    let p = password(cx, g)?;
                    made.push(p.secret.clone());
                    app.passwords.push(p);
                }
            }
            "keyCredentials" => {
                let given = value.as_array().cloned().unwrap_or_default();
                if given.len() > MAX_CREDENTIALS {
                    return Err(bad("Too many key credentials."));
                }
                let mut fresh = Vec::new();
                // Those already known are listed without their key; those that are not mentioned go.
                let stays = |c: &Certificate| {
                    given.iter().any(|g| g["keyId"].as_str() == Some(show::key_id(&c.0).as_str()))
                };
                app.certificates.retain(stays);
                for g in &given {
                    let Some(text) = g["key"].as_str() else { continue };
                    // az leaves the line breaks of PEM in it.
                    let text: String = text.split_whitespace().collect();
                    let der =
                        STANDARD.decode(text).ok().filter(|d| x509_parser::parse_x509_certificate(d).is_ok());
                    let der =
                        der.ok_or_else(|| bad("Key credential is invalid: 'key' is not a certificate."))?;
                    fresh.push(Certificate(der.into()));
                }
                app.certificates.extend(fresh);
            }
            "identifierUris" if !value.is_array() => {
                return Err(bad("The property 'identifierUris' is a list."));
            }
            n if READ_ONLY.contains(&n) || n.starts_with('@') => {}
            _ => {
                app.other.insert(name, value);
            }
        }
    }
    Ok(made)
}

fn time(v: &Value) -> Option<Timestamp> {
    v.as_str().and_then(|t| t.parse().ok())
}

fn password(cx: &Cx<'_>, given: &Value) -> Result<Password, Reply> {
    let from = time(&given["startDateTime"]).unwrap_or(cx.now);
    let two_years = cx.now.checked_add(SignedDuration::from_hours(24 * 730)).unwrap_or(Timestamp::MAX);
    let until = match &given["endDateTime"] {
        Value::Null => two_years,
        v => time(v).ok_or_else(|| {
            bad("Invalid value specified for property 'endDateTime' of resource 'PasswordCredential'.")
        })?,
    };
    if until <= from {
        return Err(bad("Key credential end date is invalid: it is before the start date."));
    }
    let secret = format!("{}~{}", &cx.random.uuid()[..3], cx.random.uuid().replace('-', ""));
    let name = given["displayName"].as_str().map(str::to_owned);
    Ok(Password { id: cx.random.uuid(), name, secret: Secret::new(&secret), from, until: Some(until) })
}

pub fn one(cx: &mut Cx<'_>, id: &str, rest: &[&str]) -> Result<Reply, Reply> {
    let app = cx.state.directory.app(id).filter(|a| !a.managed).cloned().ok_or_else(|| missing(id))?;
    let method = cx.call.method.clone();
    let word = rest.first().map(|w| w.to_ascii_lowercase());
    match (method.as_str(), word.as_deref()) {
        ("GET", None) => Ok(Reply::ok(select(cx, show::application(&app)))),
        ("GET", Some("owners")) => {
            let owners = app.owner.iter().filter_map(|o| show::object(cx.state, o)).collect();
            list(cx, "directoryObjects", owners, false)
        }
        ("GET", Some("federatedidentitycredentials")) => federated(cx, &app, rest),
        _ => {
            cx.may_write(app.owner.as_deref())?;
            let mut next = (*app).clone();
            let reply = change(cx, &mut next, method.as_str(), rest)?;
            if method.as_str() != "DELETE" || rest.len() > 1 {
                cx.state.directory.add_app(next);
            }
            Ok(reply)
        }
    }
}

fn change(cx: &mut Cx<'_>, app: &mut App, method: &str, rest: &[&str]) -> Result<Reply, Reply> {
    let word = rest.first().map(|w| w.to_ascii_lowercase());
    match (method, word.as_deref()) {
        ("PATCH", None) => {
            let body = cx.body()?;
            update(cx, app, body)?;
            Ok(Reply::empty(StatusCode::NO_CONTENT))
        }
        ("DELETE", None) => {
            let principal = cx.state.directory.by_client(&app.client_id).map(|p| p.object_id.clone());
            if let Some(object) = principal {
                cx.state.directory.remove_principal(&object);
            }
            cx.state.directory.apps.remove(&app.client_id.to_lowercase());
            Ok(Reply::empty(StatusCode::NO_CONTENT))
        }
        ("POST", Some("addpassword" | "microsoft.graph.addpassword")) => {
            let body = serde_json::from_slice::<Value>(&cx.call.body).unwrap_or_default();
            let p = password(cx, &body["passwordCredential"])?;
            let mut shown = show::password(&p);
            shown["secretText"] = p.secret.expose().into();
            app.passwords.push(p);
            Ok(Reply::ok(shown))
        }
        ("POST", Some("removepassword" | "microsoft.graph.removepassword")) => {
            let body = cx.body()?;
            let key = body.get("keyId").and_then(Value::as_str).unwrap_or_default();
            let before = app.passwords.len();
            app.passwords.retain(|p| p.id != key);
            if app.passwords.len() == before {
                return Err(bad("No password credential found with keyId."));
            }
            Ok(Reply::empty(StatusCode::NO_CONTENT))
        }
        ("POST" | "PATCH" | "DELETE", Some("federatedidentitycredentials")) => {
            write_federated(cx, app, method, rest)
        }
        _ => Err(error(
            StatusCode::METHOD_NOT_ALLOWED,
            "Request_BadRequest",
            "The method is not allowed here.",
        )),
    }
}

fn federated(cx: &Cx<'_>, app: &Arc<App>, rest: &[&str]) -> Result<Reply, Reply> {
    match rest.get(1) {
        None => {
            let mut all: Vec<Value> = app.federated.iter().map(show::federated).collect();
            all.sort_by(|a, b| a["id"].as_str().cmp(&b["id"].as_str()));
            list(cx, "applications/federatedIdentityCredentials", all, false)
        }
        Some(id) => {
            let found = app.federated.iter().find(|c| c.id == *id || c.name == *id);
            found.map(|c| Reply::ok(show::federated(c))).ok_or_else(|| missing(id))
        }
    }
}

fn write_federated(cx: &Cx<'_>, app: &mut App, method: &str, rest: &[&str]) -> Result<Reply, Reply> {
    let at = rest
        .get(1)
        .map(|id| app.federated.iter().position(|c| c.id == *id || c.name == *id).ok_or_else(|| missing(id)));
    let at = at.transpose()?;
    if method == "DELETE" {
        let Some(at) = at else { return Err(bad("Name the credential.")) };
        app.federated.remove(at);
        return Ok(Reply::empty(StatusCode::NO_CONTENT));
    }
    let body = cx.body()?;
    let old = at.and_then(|i| app.federated.get(i)).cloned();
    let text = |f: &str, old: Option<&String>| {
        let given = body.get(f).and_then(Value::as_str).map(str::to_owned);
        given.or_else(|| old.cloned()).filter(|t| !t.is_empty() && t.len() <= 600)
    };
    let audiences = match body.get("audiences") {
        Some(Value::Array(l)) => l.iter().filter_map(Value::as_str).map(str::to_owned).collect(),
        _ => old.as_ref().map(|o| o.audiences.clone()).unwrap_or_default(),
    };
    let issuer = text("issuer", old.as_ref().map(|o| &o.issuer));
    let subject = text("subject", old.as_ref().map(|o| &o.subject));
    let name = text("name", old.as_ref().map(|o| &o.name));
    let (Some(issuer), Some(subject), Some(name), 1) = (issuer, subject, name, audiences.len()) else {
        return Err(bad("A federated credential has a name, an issuer, a subject and one audience."));
    };
    let others = app.federated.iter().enumerate().filter(|(i, _)| Some(*i) != at);
    for (_, c) in others {
        if c.name == name || (c.issuer == issuer && c.subject == subject) {
            return Err(error(
                StatusCode::CONFLICT,
                "Request_MultipleObjectsWithSameKeyValue",
                "FederatedIdentityCredential with the same name, or the same issuer and subject, already exists.",
            ));
        }
    }
    if at.is_none() && app.federated.len() >= MAX_CREDENTIALS {
        return Err(bad("Federated identity credentials limit of 20 is reached."));
    }
    let description = body.get("description").and_then(Value::as_str).map(str::to_owned);
    let id = old.map_or_else(|| cx.random.uuid(), |o| o.id);
    let made =
        FederatedCredential { id, name, issuer, subject, audiences, description, changed: Some(cx.now) };
    let shown = show::federated(&made);
    match at {
        Some(i) => {
            app.federated[i] = made;
            Ok(Reply::empty(StatusCode::NO_CONTENT))
        }
        None => {
            app.federated.push(made);
            Ok(Reply::json(StatusCode::CREATED, json!(shown)))
        }
    }
}
