//! Who may pull and push: tokens, and what a request brings.

use crate::entra::Caller;
use crate::planes::Cx;
use crate::planes::registry::{Desk, Refusal, passwords};
use crate::wire::Reply;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::{Method, StatusCode};
use serde_json::{Value, json};

/// The user name that a refresh token is the password of.
const NOBODY: &str = "00000000-0000-0000-0000-000000000000";
const REFRESH: i64 = 3 * 3600;
const ACCESS: i64 = 75 * 60;

const AUDIENCES: [&str; 3] = [
    "https://containerregistry.azure.net",
    "https://management.azure.com",
    "https://management.core.windows.net",
];

/// A repository, or the catalog, and what is done with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scope {
    pub kind: String,
    pub name: String,
    pub actions: Vec<String>,
}

impl Scope {
    pub fn repository(name: &str, action: &str) -> Scope {
        Scope { kind: "repository".into(), name: name.into(), actions: vec![action.into()] }
    }

    pub fn catalog() -> Scope {
        Scope { kind: "registry".into(), name: "catalog".into(), actions: vec!["*".into()] }
    }

    fn parse(text: &str) -> Option<Scope> {
        let (kind, rest) = text.split_once(':')?;
        let (name, actions) = rest.rsplit_once(':')?;
        let actions = actions.split(',').map(str::to_owned).collect();
        Some(Scope { kind: kind.to_owned(), name: name.to_owned(), actions })
    }

    fn text(&self) -> String {
        format!("{}:{}:{}", self.kind, self.name, self.actions.join(","))
    }
}

/// What a role must allow for a word of a scope.
fn action(word: &str) -> Option<&'static str> {
    Some(match word {
        "pull" | "metadata_read" => "Microsoft.ContainerRegistry/registries/pull/read",
        "push" | "metadata_write" => "Microsoft.ContainerRegistry/registries/push/write",
        "delete" | "deleted_read" | "deleted_restore" => {
            "Microsoft.ContainerRegistry/registries/artifacts/delete"
        }
        _ => return None,
    })
}

const ALL: [&str; 5] = ["pull", "push", "delete", "metadata_read", "metadata_write"];

/// The part of the scopes that the roles of a principal allow.
fn granted(desk: &Desk<'_>, cx: &mut Cx<'_>, who: &str, scopes: &[Scope]) -> Vec<Scope> {
    let key = desk.record.id.key().clone();
    let mut out = Vec::new();
    for s in scopes {
        let words: Vec<String> = match s.kind.as_str() {
            "registry" => vec!["*".into()],
            _ if s.actions.iter().any(|a| a == "*") => ALL.iter().map(|a| (*a).to_owned()).collect(),
            _ => s.actions.clone(),
        };
        let mut kept = Vec::new();
        for w in words {
            let Some(needed) = action(if w == "*" { "pull" } else { &w }) else { continue };
            let by = desk.state.assignments.allowed(who, needed, &key, false).map(|a| a.id.to_string());
            cx.note(needed, desk.record.id.as_str(), by.clone());
            if by.is_some() {
                kept.push(w);
            }
        }
        if !kept.is_empty() {
            out.push(Scope { actions: kept, ..s.clone() });
        }
    }
    out
}

fn unauthorized(desk: &Desk<'_>, scope: Option<&Scope>) -> Refusal {
    let host = &desk.ask.host;
    let mut challenge = format!("Bearer realm=\"https://{host}/oauth2/token\",service=\"{host}\"");
    if let Some(s) = scope {
        challenge.push_str(&format!(",scope=\"{}\"", s.text()));
    }
    let mut r = Refusal::new(
        StatusCode::UNAUTHORIZED,
        "UNAUTHORIZED",
        "authentication required, visit https://aka.ms/acr/authorization for more information.",
    );
    r.challenge = Some(challenge);
    r
}

fn form(desk: &Desk<'_>) -> Vec<(String, String)> {
    match desk.ask.call.method {
        Method::GET => desk.ask.call.query.clone(),
        _ => url::form_urlencoded::parse(&desk.ask.call.body).into_owned().collect(),
    }
}

fn field<'a>(form: &'a [(String, String)], name: &str) -> &'a str {
    form.iter().find(|(k, _)| k == name).map_or("", |(_, v)| v.as_str())
}

fn sign(desk: &Desk<'_>, cx: &Cx<'_>, who: &Caller, kind: &str, access: &[Scope], lasts: i64) -> String {
    let now = cx.now.as_second();
    let access: Vec<Value> =
        access.iter().map(|s| json!({"type": s.kind, "name": s.name, "actions": s.actions})).collect();
    let claims = json!({
        "jti": (cx.random)(), "sub": who.object_id, "oid": who.object_id, "appid": who.client_id, "tid": who.tenant,
        "tenant": who.tenant, "nbf": now, "iat": now, "exp": now + lasts, "iss": "Azure Container Registry",
        "aud": desk.ask.host, "version": "1.0", "grant_type": kind, "access": access,
        "permissions": {"actions": ["read"]},
    });
    cx.keys.sign(&claims).unwrap_or_default()
}

/// The claims of a token of ours for this registry.
fn claims(desk: &Desk<'_>, cx: &Cx<'_>, token: &str, kind: &str) -> Option<std::sync::Arc<Value>> {
    let claims = cx.keys.claims(token)?;
    let now = cx.now.as_second();
    let fits = claims["aud"] == desk.ask.host.as_str()
        && claims["grant_type"] == kind
        && claims["exp"].as_i64().is_some_and(|t| now < t);
    fits.then_some(claims)
}

fn caller(claims: &Value) -> Caller {
    let text = |n: &str| claims[n].as_str().unwrap_or_default().to_owned();
    Caller { object_id: text("oid"), client_id: text("appid"), tenant: text("tid") }
}

/// `/oauth2/exchange`: a token of Entra ID for a refresh token.
pub fn exchange(desk: &Desk<'_>, cx: &mut Cx<'_>) -> Result<Reply, Refusal> {
    let form = form(desk);
    let bad = |m: &str| Refusal::new(StatusCode::BAD_REQUEST, "UNSUPPORTED", m);
    if desk.ask.call.method != Method::POST {
        return Err(Refusal::new(StatusCode::METHOD_NOT_ALLOWED, "UNSUPPORTED", "use POST"));
    }
    if !field(&form, "grant_type").starts_with("access_token") {
        return Err(bad("grant_type must be access_token"));
    }
    if !field(&form, "service").eq_ignore_ascii_case(&desk.ask.host) {
        return Err(bad("service must be the registry's host"));
    }
    let header = format!("Bearer {}", field(&form, "access_token"));
    let found = cx.keys.authenticate_for(Some(&header), &desk.state.tenant, &AUDIENCES, cx.now);
    let who = found.ok_or_else(|| unauthorized(desk, None))?;
    cx.seen.principal = Some(who.object_id.clone());
    // Whoever has nothing to do here gets no token.
    let any = granted(desk, cx, &who.object_id, &[Scope::repository("*", "*")]);
    if any.is_empty() {
        return Err(unauthorized(desk, None));
    }
    Ok(Reply::ok(json!({"refresh_token": sign(desk, cx, &who, "refresh_token", &[], REFRESH)})))
}

fn admin(desk: &Desk<'_>, user: &str, password: &str) -> bool {
    let enabled = desk.record.property("adminUserEnabled").and_then(Value::as_bool) == Some(true);
    enabled
        && user.eq_ignore_ascii_case(&desk.registry)
        && passwords(desk.state, &desk.registry)
            .is_some_and(|p| p.passwords.iter().any(|s| s.matches(password)))
}

/// Who a user name and a password stand for, and what of the scopes they may do.
fn by_password(
    desk: &Desk<'_>,
    cx: &mut Cx<'_>,
    user: &str,
    password: &str,
    scopes: &[Scope],
) -> Option<(Caller, Vec<Scope>)> {
    if user == NOBODY {
        let who = caller(&*claims(desk, cx, password, "refresh_token")?);
        cx.seen.principal = Some(who.object_id.clone());
        let scopes = granted(desk, cx, &who.object_id, scopes);
        return Some((who, scopes));
    }
    if admin(desk, user, password) {
        let who = Caller {
            object_id: desk.registry.clone(),
            client_id: desk.registry.clone(),
            tenant: desk.state.tenant.clone(),
        };
        cx.seen.principal = Some(format!("{} (admin user)", desk.registry));
        cx.note(
            "Microsoft.ContainerRegistry/registries/pull/read",
            desk.record.id.as_str(),
            Some(format!("{}/listCredentials", desk.record.id)),
        );
        let all = scopes
            .iter()
            .map(|s| match s.actions.iter().any(|a| a == "*") && s.kind == "repository" {
                true => Scope { actions: ALL.iter().map(|a| (*a).to_owned()).collect(), ..s.clone() },
                false => s.clone(),
            })
            .collect();
        return Some((who, all));
    }
    // A service principal's own id and secret.
    let app = desk.state.directory.apps.get(&user.to_lowercase())?;
    let principal = desk.state.directory.by_client(user)?;
    let good = app.enabled
        && app.passwords.iter().any(|p| p.until.is_none_or(|t| t > cx.now) && p.secret.matches(password));
    if !good {
        return None;
    }
    let who = Caller {
        object_id: principal.object_id.clone(),
        client_id: app.client_id.clone(),
        tenant: desk.state.tenant.clone(),
    };
    cx.seen.principal = Some(who.object_id.clone());
    let scopes = granted(desk, cx, &who.object_id, scopes);
    Some((who, scopes))
}

fn basic(desk: &Desk<'_>) -> Option<(String, String)> {
    let given = desk.ask.call.header("authorization")?.strip_prefix("Basic ")?;
    let text = String::from_utf8(STANDARD.decode(given).ok()?).ok()?;
    text.split_once(':').map(|(u, p)| (u.to_owned(), p.to_owned()))
}

/// `/oauth2/token`: an access token for scopes.
pub fn token(desk: &Desk<'_>, cx: &mut Cx<'_>) -> Result<Reply, Refusal> {
    let form = form(desk);
    let scopes: Vec<Scope> = form
        .iter()
        .filter(|(k, _)| k == "scope")
        .flat_map(|(_, v)| v.split(' '))
        .take(50)
        .filter_map(Scope::parse)
        .collect();
    let found = match (field(&form, "grant_type"), basic(desk)) {
        ("refresh_token", _) => {
            let claims = claims(desk, cx, field(&form, "refresh_token"), "refresh_token");
            claims.map(|c| {
                let who = caller(&c);
                cx.seen.principal = Some(who.object_id.clone());
                let scopes = granted(desk, cx, &who.object_id, &scopes);
                (who, scopes)
            })
        }
        ("password", _) => by_password(desk, cx, field(&form, "username"), field(&form, "password"), &scopes),
        (_, Some((user, password))) => by_password(desk, cx, &user, &password, &scopes),
        _ => anonymous(desk, &scopes),
    };
    let (who, allowed) = found.ok_or_else(|| unauthorized(desk, scopes.first()))?;
    if allowed.is_empty() && !scopes.is_empty() {
        return Err(unauthorized(desk, scopes.first()));
    }
    let token = sign(desk, cx, &who, "access_token", &allowed, ACCESS);
    Ok(Reply::ok(json!({"access_token": token, "expires_in": ACCESS})))
}

/// Pulling without a name, if the registry allows it.
fn anonymous(desk: &Desk<'_>, scopes: &[Scope]) -> Option<(Caller, Vec<Scope>)> {
    let open = desk.record.property("anonymousPullEnabled").and_then(Value::as_bool) == Some(true);
    let reads = |a: &String| matches!(a.as_str(), "pull" | "metadata_read");
    let scopes: Vec<Scope> = scopes
        .iter()
        .filter(|s| s.kind == "repository")
        .map(|s| Scope { actions: s.actions.iter().filter(|a| reads(a)).cloned().collect(), ..s.clone() })
        .filter(|s| !s.actions.is_empty())
        .collect();
    let who =
        Caller { object_id: String::new(), client_id: String::new(), tenant: desk.state.tenant.clone() };
    open.then_some((who, scopes))
}

/// Whether a request may do it. `None` as scope: being known is enough.
pub fn admit(desk: &Desk<'_>, cx: &mut Cx<'_>, scope: Option<&Scope>) -> Result<(), Refusal> {
    if let Some((user, password)) = basic(desk) {
        let wanted: Vec<Scope> = scope.cloned().into_iter().collect();
        let (_, allowed) =
            by_password(desk, cx, &user, &password, &wanted).ok_or_else(|| unauthorized(desk, scope))?;
        return if allowed.len() == wanted.len() { Ok(()) } else { Err(denied()) };
    }
    let header = desk.ask.call.header("authorization").unwrap_or_default();
    let token = header.get(..7).filter(|h| h.eq_ignore_ascii_case("Bearer ")).and_then(|_| header.get(7..));
    let claims = token.and_then(|t| claims(desk, cx, t.trim(), "access_token"));
    let Some(claims) = claims else { return Err(unauthorized(desk, scope)) };
    let who = caller(&claims);
    cx.seen.principal = Some(who.object_id);
    let Some(scope) = scope else { return Ok(()) };
    let word = scope.actions.first().map_or("", String::as_str);
    let needed = action(if word == "*" { "pull" } else { word }).unwrap_or_default();
    let holds = claims["access"].as_array().into_iter().flatten().any(|a| {
        let has = |w: &str| a["actions"].as_array().is_some_and(|l| l.iter().any(|x| x == w || x == "*"));
        a["type"] == scope.kind.as_str() && a["name"] == scope.name.as_str() && has(word)
    });
    cx.note(
        needed,
        desk.record.id.as_str(),
        holds.then(|| format!("token {}", claims["jti"].as_str().unwrap_or_default())),
    );
    if holds { Ok(()) } else { Err(unauthorized(desk, Some(scope))) }
}

fn denied() -> Refusal {
    Refusal::new(StatusCode::FORBIDDEN, "DENIED", "requested access to the resource is denied")
}
