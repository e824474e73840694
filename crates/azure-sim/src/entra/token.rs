//! The token endpoint.

use crate::entra::error::Refusal;
use crate::entra::keys::peek;
use crate::entra::{Keys, assertion, fetch::Issuers};
use crate::graph;
use crate::state::{App, Principal, PrincipalKind, State};
use jiff::Timestamp;
use serde_json::{Value, json};

/// A form, decoded.
pub struct Form<'a>(pub &'a [(String, String)]);

impl Form<'_> {
    fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(k, _)| k == name).map(|(_, v)| v.as_str()).filter(|v| !v.is_empty())
    }

    fn need(&self, name: &str) -> Result<&str, Refusal> {
        self.get(name).ok_or_else(|| Refusal::missing(name))
    }
}

const ASSERTION: &str = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer";

/// What `scope` (v2) or `resource` (v1) asks a token for: `/.default` is stripped once, the rest is kept.
fn audience(form: &Form<'_>, v2: bool) -> Result<String, Refusal> {
    if !v2 {
        return Ok(form.need("resource")?.to_owned());
    }
    let scopes = form.need("scope")?;
    let ignored = ["openid", "offline_access", "profile"];
    let scope = scopes
        .split(' ')
        .find(|s| !s.is_empty() && !ignored.contains(s))
        .ok_or_else(|| Refusal::missing("scope"))?;
    Ok(scope.strip_suffix("/.default").unwrap_or(scope).to_owned())
}

/// Answers a token request. `state` is a snapshot: fetching an issuer's keys must not hold anybody up.
pub async fn exchange(
    state: &State,
    keys: &Keys,
    issuers: &dyn Issuers,
    tenant: &str,
    form: &[(String, String)],
    v2: bool,
    now: Timestamp,
) -> Result<Value, Refusal> {
    let form = Form(form);
    if !super::is_tenant(&state.tenant, tenant) {
        return Err(Refusal::tenant(tenant));
    }
    let grant = form.need("grant_type")?;
    if grant != "client_credentials" {
        return Err(Refusal::grant(grant));
    }
    let client = form.need("client_id")?;
    let audience = audience(&form, v2)?;
    let unknown = || Refusal::unknown_app(client, &state.tenant);
    let app = state.directory.apps.get(&client.to_lowercase()).ok_or_else(unknown)?;
    let principal = state.directory.by_client(client).ok_or_else(unknown)?;
    if !app.enabled {
        return Err(Refusal::disabled(client));
    }
    let strength = match (form.get("client_secret"), form.get("client_assertion")) {
        (Some(secret), _) => {
            by_secret(app, secret, now)?;
            "1"
        }
        (None, Some(token)) => {
            if form.get("client_assertion_type") != Some(ASSERTION) {
                return Err(Refusal::missing("client_assertion_type"));
            }
            by_assertion(state, keys, app, token, issuers, now).await?;
            "2"
        }
        (None, None) => return Err(Refusal::no_credential()),
    };
    if !audience.contains(':') && audience.len() != 36 {
        return Err(Refusal::resource(&audience, &state.tenant));
    }
    Ok(issue(state, keys, principal, &audience, &Made { strength, v2, at: None }, now))
}

fn by_secret(app: &App, secret: &str, now: Timestamp) -> Result<(), Refusal> {
    match app.passwords.iter().find(|p| p.secret.matches(secret)) {
        None => Err(Refusal::bad_secret(&app.client_id)),
        Some(p) if p.until.is_some_and(|until| until <= now) => Err(Refusal::expired_secret(&app.client_id)),
        Some(_) => Ok(()),
    }
}

const MAX_ASSERTION: usize = 16 << 10;

async fn by_assertion(
    state: &State,
    keys: &Keys,
    app: &App,
    token: &str,
    issuers: &dyn Issuers,
    now: Timestamp,
) -> Result<(), Refusal> {
    let (_, claims) = peek(token)
        .filter(|_| token.len() <= MAX_ASSERTION)
        .ok_or_else(|| Refusal::assertion("it is not a JWT"))?;
    // Who signs something dates it by the machine's clock, whatever ours says.
    let wall = keys.wall(now);
    if assertion::is_own(&claims, &app.client_id) {
        return assertion::by_certificate(token, &claims, app, now, wall);
    }
    let issuer = assertion::matching(state, app, &claims, now)?;
    assertion::by_issuer(token, &claims, &issuer, issuers, wall).await
}

/// How a token is asked for.
pub struct Made<'a> {
    /// 1 by a secret, 2 by a signature.
    pub strength: &'a str,
    pub v2: bool,
    /// The resource it is asked for at, if that is not the identity itself.
    pub at: Option<&'a str>,
}

pub fn issue(
    state: &State,
    keys: &Keys,
    p: &Principal,
    audience: &str,
    made: &Made<'_>,
    now: Timestamp,
) -> Value {
    let Made { strength, v2, at } = made;
    let t = keys.wall(now).as_second();
    let identity = match &p.kind {
        PrincipalKind::Identity(_, text) => Some(text.clone()),
        PrincipalKind::Application => None,
    };
    let lifetime = keys.life(if identity.is_some() { 86_399 } else { 3_599 });
    // No two are alike, even within a second: a token can be refused by itself.
    let number = state.lags.route.to_string();
    let unique = crate::state::hash(state.seed, &[&p.object_id, &t.to_string(), &number]);
    let mut claims = json!({
        "aud": audience, "iss": format!("https://sts.windows.net/{}/", state.tenant), "iat": t, "nbf": t,
        "exp": t + lifetime, "aio": format!("{unique:032x}"), "appid": p.client_id, "appidacr": strength,
        "idp": format!("https://sts.windows.net/{}/", state.tenant), "idtyp": "app", "oid": p.object_id,
        "rh": "1.sim.", "sub": p.object_id, "tid": state.tenant, "uti": format!("{:022x}", unique >> 40),
        "ver": "1.0", "xms_tcdt": 1_700_000_000,
    });
    if let Some(id) = identity {
        claims["xms_mirid"] = json!(&*id);
        claims["xms_az_rid"] = json!(at.unwrap_or(&id));
    }
    let for_graph = [graph::AUDIENCE, graph::AUDIENCE_ID].contains(&audience.trim_end_matches('/'));
    let roles = if for_graph { graph::roles_of(state, p) } else { Vec::new() };
    if !roles.is_empty() {
        claims["roles"] = json!(roles);
    }
    keys.mark(&mut claims);
    let token = keys.sign(&claims).unwrap_or_default();
    if *v2 {
        return json!({"token_type": "Bearer", "expires_in": lifetime, "ext_expires_in": lifetime, "access_token": token});
    }
    // The first version of the endpoint says numbers as text.
    json!({
        "token_type": "Bearer", "expires_in": lifetime.to_string(), "ext_expires_in": lifetime.to_string(),
        "expires_on": (t + lifetime).to_string(), "not_before": t.to_string(), "resource": audience,
        "access_token": token,
    })
}
