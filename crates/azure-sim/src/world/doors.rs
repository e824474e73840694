//! The doors of a world: Resource Manager, Entra ID, Graph, CheckAccess and what machines ask.

use crate::access;
use crate::entra::{self, Caller, Issuers};
use crate::gateway::{self, Answer, Rules, Seen};
use crate::graph;
use crate::provider;
use crate::state::State;
use crate::trouble::{Due, Stale, around};
use crate::wire::{Call, Fault, Reply};
use crate::world::World;
use http::{Method, StatusCode};
use jiff::Timestamp;
use serde_json::{Value, json};
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;

impl World {
    /// Writes down a request that was not served, or not by Resource Manager.
    pub(crate) fn note_trouble(&self, call: &Call, reply: &Reply, due: &Due) {
        let seen = Seen { fault: due.text(), ..Seen::default() };
        let now = self.now();
        self.journal.lock().add(call, reply, seen, now, 0);
    }

    pub(super) async fn token(
        &self,
        tenant: &str,
        form: &[(String, String)],
        v2: bool,
    ) -> Result<Value, entra::Refusal> {
        let mut state = self.state.lock().clone();
        state.lags.route = self.logins.fetch_add(1, Ordering::Relaxed);
        let issuers = Inside { world: self, beyond: &*self.setup.issuers };
        entra::exchange(&state, &self.keys, &issuers, tenant, form, v2, self.now()).await
    }

    /// Writes a call to a data plane down, under the URL it was for.
    pub(crate) fn note_call(&self, call: &Call, url: &str, reply: &Reply, seen: Seen, now: Timestamp) {
        let call = Call { path: url.to_owned(), body: bytes::Bytes::new(), ..call.clone() };
        self.note(&call, reply, seen, now);
    }

    /// Resource Manager, but for what others answer for: see [`World::serve`].
    pub fn arm(&self, call: &Call) -> Reply {
        let now = self.now();
        if let Some(reply) = self.open_to_all(call) {
            return reply;
        }
        let (answer, seen) = self.gate(call, now, &Due::default());
        let reply = match answer {
            Answer::Reply(reply) | Answer::Drain(reply, _) => reply,
            Answer::Forward(f) => f.unreachable().reply(),
        };
        self.finish(call, reply, seen, now)
    }

    /// Resource Manager, with providers elsewhere.
    pub async fn serve(self: &Arc<World>, call: &Call) -> Reply {
        self.serve_under(call, &Due::default()).await
    }

    /// Resource Manager with all that goes wrong on the way; `None` if the connection breaks.
    pub async fn meet(self: &Arc<World>, call: Call) -> Option<Reply> {
        let inner = async |call: Call, due: Due| self.serve_under(&call, &due).await;
        around(self, "arm", call, inner).await
    }

    pub(crate) async fn serve_under(self: &Arc<World>, call: &Call, due: &Due) -> Reply {
        let now = self.now();
        if let Some(reply) = self.open_to_all(call) {
            return reply;
        }
        let (answer, seen) = self.gate(call, now, due);
        let reply = match answer {
            Answer::Reply(reply) => {
                provider::registration(self, call, &reply);
                reply
            }
            Answer::Drain(reply, drain) => {
                provider::drain(self, drain);
                reply
            }
            Answer::Forward(f) => provider::forward(self, *f, call).await,
        };
        self.finish(call, reply, seen, now)
    }

    /// What needs no token.
    fn open_to_all(&self, call: &Call) -> Option<Reply> {
        let path = call.path.trim_end_matches('/');
        path.eq_ignore_ascii_case("/metadata/endpoints").then(|| Reply::ok(metadata(&call.base)))
    }

    fn gate(&self, call: &Call, now: Timestamp, due: &Due) -> (Answer, Seen) {
        let caller = self.caller(call, now);
        let rules = Rules { profile: self.pace(), proxied: &self.providers, due, trouble: &self.trouble };
        let reads = matches!(call.method, Method::GET | Method::HEAD);
        let stale = due.stale.filter(|_| reads).and_then(|how| self.earlier(how, now));
        if let Some((mut then, at)) = stale {
            let (answer, seen) =
                gateway::handle(&mut then, &mut self.buckets.lock(), call, caller, at, &rules);
            return (answer, Seen { fault: due.text(), ..seen });
        }
        let mut outcome = None;
        let written = self.change(|state| {
            // A state that is kept shares its nodes, so every write would copy its way down: only if there may be readers.
            let before = (!reads && self.trouble.lets_lag()).then(|| state.clone());
            let done = gateway::handle(state, &mut self.buckets.lock(), call, caller, now, &rules);
            if let (Some(before), Answer::Reply(reply) | Answer::Drain(reply, _)) = (before, &done.0)
                && reply.status.is_success()
            {
                self.history.lock().keep(before, now);
            }
            outcome = Some(done);
        });
        match (written, outcome) {
            (Ok(()), Some((answer, seen))) => (answer, Seen { fault: due.text(), ..seen }),
            (Err(error), _) => {
                tracing::error!(%error, "a request was refused: it cannot be remembered");
                (Answer::Reply(unremembered()), Seen::default())
            }
            (Ok(()), None) => (Answer::Reply(unremembered()), Seen::default()),
        }
    }

    /// The state that a reader who is behind sees.
    pub(crate) fn earlier(&self, how: Stale, now: Timestamp) -> Option<(State, Timestamp)> {
        self.history.lock().look(how, now)
    }

    /// Keeps what a write ends, for readers who are behind; uploads are large, so only if there may be any.
    pub(crate) fn keep_earlier(&self, before: &State, now: Timestamp) {
        if self.trouble.lets_lag() {
            self.history.lock().keep(before.clone(), now);
        }
    }

    fn finish(&self, call: &Call, reply: Reply, seen: Seen, now: Timestamp) -> Reply {
        self.note(call, &reply, seen, now);
        self.dressed(call, reply)
    }

    /// With the headers that every answer has.
    pub(crate) fn dressed(&self, call: &Call, reply: Reply) -> Reply {
        let now = self.now();
        let request = self.random.uuid();
        let correlation = call.header("x-ms-correlation-request-id").unwrap_or(&request).to_owned();
        let routing = format!("SIM:{}:{request}", now.strftime("%Y%m%dT%H%M%SZ"));
        // A provider's own request id is the one to ask it about.
        let request =
            reply.headers.get("x-ms-request-id").and_then(|v| v.to_str().ok()).unwrap_or(&request).to_owned();
        let mut reply = reply
            .with("x-ms-request-id", &request)
            .with("x-ms-correlation-request-id", &correlation)
            .with("x-ms-routing-request-id", &routing)
            .with("cache-control", "no-cache")
            .with("x-content-type-options", "nosniff");
        if call.header("x-ms-return-client-request-id").is_some_and(|v| v.eq_ignore_ascii_case("true"))
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
        self.login_under(call, &Due::default()).await
    }

    pub(crate) async fn login_under(&self, call: &Call, due: &Due) -> Reply {
        let now = self.now();
        let reply = self.sign_in(call).await;
        // Who asked for a token is known by the application it named, whether it got one or not.
        let client = url::form_urlencoded::parse(&call.body).find(|(k, _)| k == "client_id");
        let principal = client.and_then(|(_, id)| {
            self.look(|state| state.directory.by_client(&id).map(|p| p.object_id.clone()))
        });
        self.note(call, &reply, Seen { principal, fault: due.text(), ..Seen::default() }, now);
        reply
    }

    fn note(&self, call: &Call, reply: &Reply, seen: Seen, began: Timestamp) {
        let micros = u64::try_from(self.now().duration_since(began).as_micros()).unwrap_or(0);
        self.journal.lock().add(call, reply, seen, began, micros);
    }

    async fn sign_in(&self, call: &Call) -> Reply {
        let words: Vec<&str> = call.path.trim_matches('/').split('/').collect();
        let tenant_id = &self.login.tenant;
        match (call.method.as_str(), words.as_slice()) {
            ("GET", ["common", "discovery", "instance"]) => Reply::ok(entra::instance(&call.base, tenant_id)),
            ("GET", [tenant, .., ".well-known", "openid-configuration"])
                if !entra::is_tenant(tenant_id, tenant) =>
            {
                let (trace, correlation) = (self.random.uuid(), self.random.uuid());
                let why = entra::Refusal::tenant(tenant);
                Reply::json(StatusCode::BAD_REQUEST, why.json(&trace, &correlation, self.now()))
            }
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
        self.graph_under(call, &Due::default())
    }

    pub(crate) fn graph_under(&self, call: &Call, due: &Due) -> Reply {
        let now = self.now();
        let (reply, principal) = self.directory(call, now, due);
        self.note(call, &reply, Seen { principal, fault: due.text(), ..Seen::default() }, now);
        reply
    }

    fn directory(&self, call: &Call, now: Timestamp, due: &Due) -> (Reply, Option<String>) {
        let audiences = [graph::AUDIENCE, graph::AUDIENCE_ID, call.base.as_str()];
        let header = call.header("authorization");
        let Some(caller) = self.keys.authenticate_for(header, &self.login.tenant, &audiences, now) else {
            let body = json!({"error": {"code": "InvalidAuthenticationToken", "message": "Access token is empty, invalid or expired."}});
            return (Reply::json(StatusCode::UNAUTHORIZED, body), None);
        };
        let reads = matches!(call.method, Method::GET | Method::HEAD);
        if let Some((mut then, at)) = due.stale.filter(|_| reads).and_then(|how| self.earlier(how, now)) {
            return (graph::handle(&mut then, call, &caller, at, &self.random), Some(caller.object_id));
        }
        let mut reply = None;
        let written = self.change(|state| {
            if !reads {
                self.keep_earlier(state, now);
            }
            reply = Some(graph::handle(state, call, &caller, now, &self.random));
        });
        let reply = match (written, reply) {
            (Ok(()), Some(reply)) => reply,
            _ => unremembered(),
        };
        (reply, Some(caller.object_id))
    }

    /// CheckAccess, version 2: what somebody may do, by the evaluator that decides it.
    pub fn check_access(&self, call: &Call) -> Reply {
        let now = self.now();
        let own = [
            access::AUDIENCE,
            "https://management.azure.com",
            "https://management.core.windows.net",
            call.base.as_str(),
        ];
        let header = call.header("authorization");
        if self.keys.authenticate_for(header, &self.login.tenant, &own, now).is_none() {
            return access::refuse(
                StatusCode::UNAUTHORIZED,
                "The token is missing, invalid, expired or for another audience.",
            );
        }
        let mut state = self.state.lock().clone();
        state.settle(now);
        access::check(&state, call)
    }

    /// Where a resource's provider asks for the credentials of its identities: what `x-ms-identity-url` says.
    pub fn identity_url(&self, id: &arm::ResourceId, base: &str) -> String {
        self.look(|state| entra::identity_url(state, id, base))
    }

    /// The credential service of managed identities, for resource providers.
    pub async fn identity(&self, call: &Call) -> Reply {
        let now = self.now();
        let header = call.header("authorization");
        let audience = header
            .and_then(|h| entra::peek(h.strip_prefix("Bearer ")?))
            .and_then(|(_, claims)| claims["aud"].as_str().map(|a| a.trim_end_matches('/').to_owned()))
            .filter(|a| entra::is_identity_audience(a) || *a == call.base);
        let audiences: Vec<&str> = audience.iter().map(String::as_str).collect();
        let caller = self.keys.authenticate_for(header, &self.login.tenant, &audiences, now);
        let asked = call.clone();
        let mut keys = match caller.is_some() {
            true => {
                tokio::task::spawn_blocking(move || entra::identity_keys(&asked)).await.unwrap_or_default()
            }
            false => Vec::new(),
        };
        let done = self.change(|state| entra::identity_service(state, call, caller.as_ref(), &mut keys, now));
        done.unwrap_or_else(|_| unremembered())
    }

    /// What a machine's console said, for whoever has the link.
    pub fn console(&self, call: &Call) -> Reply {
        let mut parts = call.path.trim_matches('/').split('/').skip(1);
        let (vm, file) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
        let good = self.look(|state| call.query("sig") == Some(&crate::machines::signature(state, vm)));
        let log = self.boot_log(vm).filter(|_| good && file == "serialconsole.log");
        let Some(log) = log else { return Reply::empty(StatusCode::NOT_FOUND) };
        let mut reply = Reply::empty(StatusCode::OK).with("content-type", "text/plain; charset=utf-8");
        reply.raw = Some(log.into());
        reply
    }

    /// The public half of the signing keys.
    pub fn signing_keys(&self) -> Value {
        self.keys.jwks()
    }
}

/// Issuers whose documents the simulator itself serves are asked in the process, others over the network.
struct Inside<'a> {
    world: &'a World,
    beyond: &'a dyn Issuers,
}

impl Issuers for Inside<'_> {
    fn get<'a>(
        &'a self,
        text: &'a str,
    ) -> Pin<Box<dyn Future<Output = Result<Value, entra::FetchError>> + Send + 'a>> {
        Box::pin(async move {
            let own = url::Url::parse(text).ok().and_then(|url| self.world.published(&url));
            let Some(reply) = own else { return self.beyond.get(text).await };
            if reply.status != StatusCode::OK {
                let status = reply.status.as_u16();
                return Err(entra::FetchError::Status { url: text.to_owned(), status });
            }
            serde_json::from_slice(&reply.bytes()).map_err(|_| entra::FetchError::Body(text.to_owned()))
        })
    }
}

fn unremembered() -> Reply {
    let why = "The simulator cannot write to its data directory, so nothing was changed.";
    Fault::gateway(StatusCode::SERVICE_UNAVAILABLE, "ServiceUnavailable", why).reply()
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
