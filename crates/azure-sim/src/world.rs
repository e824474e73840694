//! The simulator without its sockets: requests in, answers out.

use crate::entra::{self, Caller, Issuers, KeyError, Keys};
use crate::gateway::{self, Buckets, Limits};
use crate::graph;
use crate::journal::{Entry, Journal};
use crate::profile::Profile;
use crate::rbac::Role;
use crate::seed::{self, Login};
use crate::state::{Certificate, Secret, State, guid, hash};
use crate::wire::{Call, Fault, Reply};
use clock::{Random, SharedClock};
use http::StatusCode;
use jiff::{SignedDuration, Timestamp};
use parking_lot::Mutex;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

#[derive(Debug, thiserror::Error)]
pub enum WorldError {
    #[error("cannot make the token signing key")]
    Keys(#[source] KeyError),
}

/// One simulated Azure.
pub struct World {
    state: Mutex<State>,
    buckets: Mutex<Buckets>,
    journal: Mutex<Journal>,
    pub(crate) keys: Arc<Keys>,
    issuers: Arc<dyn Issuers>,
    clock: SharedClock,
    /// Milliseconds that the admin API moved the clock ahead.
    ahead: AtomicI64,
    random: Random,
    profile: Profile,
    limits: Option<Limits>,
    pub(crate) login: Login,
}

impl World {
    pub fn new(
        seed_number: u64,
        profile: Profile,
        limits: Option<Limits>,
        roles: &[Role],
        issuers: Arc<dyn Issuers>,
        clock: SharedClock,
    ) -> Result<World, WorldError> {
        let (state, login) = seed::seed(seed_number, roles, clock.now());
        Ok(World {
            state: Mutex::new(state),
            buckets: Mutex::new(Buckets::new(limits)),
            journal: Mutex::new(Journal::default()),
            keys: Arc::new(Keys::generate().map_err(WorldError::Keys)?),
            issuers,
            clock,
            ahead: AtomicI64::new(0),
            random: Random::seeded(seed_number),
            profile,
            limits,
            login,
        })
    }

    /// A world that starts as this one is now. Tokens of either are good in both.
    pub fn fork(&self) -> World {
        World {
            state: Mutex::new(self.state.lock().clone()),
            buckets: Mutex::new(Buckets::new(self.limits)),
            journal: Mutex::new(Journal::default()),
            keys: self.keys.clone(),
            issuers: self.issuers.clone(),
            clock: self.clock.clone(),
            ahead: AtomicI64::new(self.ahead.load(Ordering::Relaxed)),
            random: self.random.clone(),
            profile: self.profile,
            limits: self.limits,
            login: self.login.clone(),
        }
    }

    pub fn now(&self) -> Timestamp {
        let ahead = SignedDuration::from_millis(self.ahead.load(Ordering::Relaxed));
        self.clock.now().checked_add(ahead).unwrap_or(Timestamp::MAX)
    }

    pub fn advance(&self, by: SignedDuration) {
        let ms = i64::try_from(by.as_millis()).unwrap_or(0).max(0);
        self.ahead.fetch_add(ms, Ordering::Relaxed);
    }

    /// An application with a secret and certificates (DER); its client id and its principal's object id.
    pub fn add_app(&self, name: &str, secret: &str, certificates: Vec<Vec<u8>>) -> (String, String) {
        let mut state = self.state.lock();
        let of = |what: &str| guid(hash(state.seed, &["app", name, what]));
        let (client, object) = (of("client"), of("object"));
        seed::add_app(&mut state, &client, &object, name, &Secret::new(secret));
        if let Some(app) = state.directory.apps.get(&client).cloned() {
            let mut app = (*app).clone();
            app.certificates = certificates.into_iter().map(|c| Certificate(c.into())).collect();
            state.directory.add_app(app);
        }
        (client, object)
    }

    /// Gives a principal a role, by the role's GUID.
    pub fn assign(&self, principal: &str, role: &str, scope: &str) {
        let mut state = self.state.lock();
        let name = guid(hash(state.seed, &["assign", principal, role, scope]));
        seed::assign(&mut state, principal, role, scope, &name, self.now());
    }

    pub fn tenant(&self) -> &str {
        &self.login.tenant
    }

    pub fn subscription(&self) -> &str {
        &self.login.subscription
    }

    /// A token of the seeded owner, for callers in this process.
    pub async fn owner_token(&self) -> String {
        self.token_for(&self.login.client, self.login.secret.expose()).await
    }

    /// A token for Resource Manager of an application with a secret; empty if it is refused.
    pub async fn token_for(&self, client: &str, secret: &str) -> String {
        let form = [
            ("grant_type", "client_credentials"),
            ("client_id", client),
            ("client_secret", secret),
            ("scope", "https://management.azure.com/.default"),
        ]
        .map(|(k, v)| (k.to_owned(), v.to_owned()));
        self.token(&self.login.tenant, &form, true)
            .await
            .ok()
            .and_then(|v| v["access_token"].as_str().map(str::to_owned))
            .unwrap_or_default()
    }

    async fn token(
        &self,
        tenant: &str,
        form: &[(String, String)],
        v2: bool,
    ) -> Result<Value, entra::Refusal> {
        let state = self.state.lock().clone();
        entra::exchange(&state, &self.keys, &*self.issuers, tenant, form, v2, self.now()).await
    }

    /// Resource Manager.
    pub fn arm(&self, call: &Call) -> Reply {
        let now = self.now();
        if call.path.trim_end_matches('/').eq_ignore_ascii_case("/metadata/endpoints") {
            return Reply::ok(metadata(&call.base));
        }
        let caller = self.caller(call, now);
        let (reply, seen) = gateway::handle(
            &mut self.state.lock(),
            &mut self.buckets.lock(),
            call,
            caller,
            now,
            self.profile,
        );
        let micros = u64::try_from(self.now().duration_since(now).as_micros()).unwrap_or(0);
        self.journal.lock().add(call, &reply, seen, now, micros);
        let request = self.random.uuid();
        let correlation = call.header("x-ms-correlation-request-id").unwrap_or(&request).to_owned();
        let routing = format!("SIM:{}:{request}", now.strftime("%Y%m%dT%H%M%SZ"));
        let mut reply = reply
            .with("x-ms-request-id", &request)
            .with("x-ms-correlation-request-id", &correlation)
            .with("x-ms-routing-request-id", &routing)
            .with("cache-control", "no-cache")
            .with("x-content-type-options", "nosniff");
        if call.header("x-ms-return-client-request-id") == Some("true")
            && let Some(id) = call.header("x-ms-client-request-id")
        {
            reply = reply.with("x-ms-client-request-id", id);
        }
        reply
    }

    fn caller(&self, call: &Call, now: Timestamp) -> Result<Caller, Fault> {
        self.keys.authenticate(call.header("authorization"), &self.login.tenant, &call.base, now)
    }

    /// Entra ID.
    pub async fn login(&self, call: &Call) -> Reply {
        let words: Vec<&str> = call.path.trim_matches('/').split('/').collect();
        let tenant_id = &self.login.tenant;
        match (call.method.as_str(), words.as_slice()) {
            ("GET", ["common", "discovery", "instance"]) => Reply::ok(entra::instance(&call.base, tenant_id)),
            ("GET", [_, "v2.0", ".well-known", "openid-configuration"]) => {
                Reply::ok(entra::discovery(&call.base, tenant_id, true))
            }
            ("GET", [_, ".well-known", "openid-configuration"]) => {
                Reply::ok(entra::discovery(&call.base, tenant_id, false))
            }
            ("GET", [_, "discovery", "v2.0", "keys"] | [_, "discovery", "keys"]) => {
                Reply::ok(self.keys.jwks())
            }
            ("POST", [tenant, "oauth2", rest @ ..]) if matches!(rest, ["v2.0", "token"] | ["token"]) => {
                let form: Vec<(String, String)> =
                    url::form_urlencoded::parse(&call.body).into_owned().collect();
                match self.token(tenant, &form, rest.len() == 2).await {
                    Ok(body) => Reply::ok(body).with("cache-control", "no-store, no-cache"),
                    Err(why) => {
                        let (trace, correlation) = (self.random.uuid(), self.random.uuid());
                        let given = call.header("client-request-id").unwrap_or(&correlation);
                        let status = StatusCode::from_u16(why.status).unwrap_or(StatusCode::BAD_REQUEST);
                        Reply::json(status, why.json(&trace, given, self.now()))
                    }
                }
            }
            _ => Reply::json(StatusCode::NOT_FOUND, json!({"error": "invalid_request"})),
        }
    }

    /// Graph. Its tokens are checked like Resource Manager's, for its own audience.
    pub fn graph(&self, call: &Call) -> Reply {
        let now = self.now();
        // A custom cloud's tokens for Graph are asked for by the address that its metadata names.
        let of = |audience: &str| self.keys.authenticate_for(call.header("authorization"), audience, now);
        if of("https://graph.microsoft.com").or_else(|| of(&call.base)).is_none() {
            let body = json!({"error": {"code": "InvalidAuthenticationToken", "message": "Access token is empty, invalid or expired."}});
            return Reply::json(StatusCode::UNAUTHORIZED, body);
        }
        graph::handle(&self.state.lock(), call)
    }

    pub fn journal(&self) -> Vec<Entry> {
        self.journal.lock().entries()
    }

    /// Ends all operations under way; how many there were.
    pub fn finish_operations(&self) -> usize {
        let mut state = self.state.lock();
        let ids: Vec<Arc<str>> = state.running().map(|o| o.id.clone()).collect();
        let now = self.now();
        for id in &ids {
            state.finish(id, now);
        }
        ids.len()
    }

    /// What exists beyond the seed, and who made it.
    pub fn leaks(&self) -> Value {
        let mut state = self.state.lock();
        state.settle(self.now());
        let left: Vec<Value> = state
            .records
            .values()
            .filter(|r| !r.seeded)
            .map(|r| json!({"id": r.id.as_str(), "createdBy": &*r.created_by, "createdAt": r.created.to_string()}))
            .collect();
        json!({"value": left})
    }

    /// Per principal: actions used, and the patterns granted of which none was used.
    pub fn least_privilege(&self) -> Value {
        let mut used: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for e in self.journal.lock().entries() {
            if let (Some(p), Some(a), Some(_)) = (e.principal, e.action, e.granted_by) {
                used.entry(p).or_default().insert(a);
            }
        }
        let state = self.state.lock();
        let report: Vec<Value> = used
            .iter()
            .map(|(p, actions)| {
                let granted: BTreeSet<String> = state
                    .assignments
                    .of(p)
                    .filter_map(|a| state.assignments.role(&a.role))
                    .flat_map(|r| r.permissions.iter().flat_map(|x| x.actions.iter().cloned()))
                    .collect();
                let idle: Vec<&String> =
                    granted.iter().filter(|g| !actions.iter().any(|a| crate::rbac::matches(g, a))).collect();
                let name = state.directory.principal(p).map(|x| x.name.clone());
                json!({"principal": p, "name": name, "used": actions, "granted": granted, "unused": idle})
            })
            .collect();
        json!({"value": report})
    }
}

/// `/metadata/endpoints`: how a client learns of a cloud it does not know.
fn metadata(base: &str) -> Value {
    json!({
        "name": "ZaffreSim", "resourceManager": base, "portal": base, "graph": base, "graphAudience": "https://graph.windows.net/",
        "microsoftGraphResourceId": base, "gallery": base, "batch": "https://batch.core.windows.net/", "media": base,
        "sqlManagement": "https://management.core.windows.net:8443/",
        "authentication": {
            "loginEndpoint": base, "audiences": ["https://management.core.windows.net/", "https://management.azure.com/"],
            "tenant": "common", "identityProvider": "AAD",
        },
        "suffixes": {
            "storage": "core.windows.net", "keyVaultDns": "vault.azure.net", "sqlServerHostname": "database.windows.net",
            "acrLoginServer": "azurecr.io", "azureDataLakeStoreFileSystem": "azuredatalakestore.net",
            "azureDataLakeAnalyticsCatalogAndJob": "azuredatalakeanalytics.net",
        },
    })
}
