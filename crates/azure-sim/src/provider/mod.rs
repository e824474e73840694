//! Resource providers outside of the simulator, reached as Resource Manager reaches them.
//!
//! A request for a proxied namespace passes the same gate as any other (token, subscription, throttle, roles,
//! registration, group, locks); then it is sent on with the headers that Resource Manager adds, and its answer
//! comes back with URLs that lead through us. Resource Manager keeps track of what providers hold: a resource
//! with a location that a `PUT` made is listed in `resources`, and deleting its group deletes it first.
//!
//! Before a provider sees the first request of a subscription it is told that the subscription is registered.
//! Rejected: a queue of pending deletes (the records themselves say what is being deleted, and survive a restart).

mod headers;
mod track;

pub use track::{Drain, drain, registration, resume};

use crate::edge::ProxiedProvider;
use crate::entra::Caller;
use crate::outbound::{Outbound, OutboundError};
use crate::state::State;
use crate::wire::{Call, Fault, Reply};
use crate::world::World;
use arm::ResourceId;
use bytes::Bytes;
use http::{HeaderMap, Method, Response, StatusCode};
use jiff::Timestamp;
use parking_lot::Mutex;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;
use url::Url;

/// Resource Manager's own limits.
const PATIENCE: Duration = Duration::from_secs(60);
const MAX_ANSWER: usize = 16 << 20;

/// The proxied namespaces.
pub struct Providers {
    list: Vec<ProxiedProvider>,
    outbound: Outbound,
    /// `(namespace, subscription)` pairs that the provider knows of.
    announced: Mutex<BTreeSet<(String, String)>>,
}

impl Providers {
    pub fn new(list: &[ProxiedProvider], trust: &[String]) -> Providers {
        Providers { list: list.to_vec(), outbound: Outbound::new(trust), announced: Mutex::default() }
    }

    pub fn find(&self, namespace: &str) -> Option<&ProxiedProvider> {
        self.list.iter().find(|p| p.namespace.eq_ignore_ascii_case(namespace))
    }

    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.list.iter().map(|p| p.namespace.as_str())
    }

    async fn send(
        &self,
        provider: &ProxiedProvider,
        method: &Method,
        path_and_query: &str,
        headers: &HeaderMap,
        body: Bytes,
    ) -> Result<Response<Bytes>, OutboundError> {
        let text = format!("{}{path_and_query}", base_of(provider));
        let url = Url::parse(&text).map_err(|_| OutboundError::Url(text))?;
        let mut request = http::Request::builder().method(method.clone());
        if let Some(h) = request.headers_mut() {
            *h = headers.clone();
        }
        self.outbound.send(&url, request, body, PATIENCE, MAX_ANSWER).await
    }

    /// Tells a provider about a subscription, unless it knows.
    async fn announce(&self, provider: &ProxiedProvider, subscription: &str, tenant: &str, since: Timestamp) {
        let key = (provider.namespace.to_lowercase(), subscription.to_lowercase());
        if self.announced.lock().contains(&key) {
            return;
        }
        if self.lifecycle(provider, subscription, tenant, "Registered", since).await {
            self.announced.lock().insert(key);
        }
    }

    /// The subscription's state as Resource Manager notifies it.
    async fn lifecycle(
        &self,
        provider: &ProxiedProvider,
        subscription: &str,
        tenant: &str,
        state: &str,
        since: Timestamp,
    ) -> bool {
        let body = json!({
            "state": state, "registrationDate": since.strftime("%a, %d %b %Y %H:%M:%S GMT").to_string(),
            "properties": {
                "tenantId": tenant, "locationPlacementId": "Public_2014-09-01", "quotaId": "PayAsYouGo_2014-09-01",
                "spendingLimit": "Off", "registeredFeatures": [], "managedByTenants": [],
                "accountOwner": {"puid": "", "email": "owner@zaffre.test"},
            },
        });
        let mut headers = HeaderMap::new();
        headers::set(&mut headers, "content-type", "application/json");
        let path = format!("/subscriptions/{subscription}?api-version=2.0");
        let body = Bytes::from(body.to_string());
        match self.send(provider, &Method::PUT, &path, &headers, body).await {
            Ok(r) if r.status().is_success() => true,
            Ok(r) => {
                let status = r.status().as_u16();
                tracing::warn!(provider = provider.namespace, status, "the provider refused a subscription");
                false
            }
            Err(error) => {
                tracing::warn!(provider = provider.namespace, %error, "cannot tell the provider of a subscription");
                false
            }
        }
    }
}

fn base_of(provider: &ProxiedProvider) -> &str {
    provider.url.as_str().trim_end_matches('/')
}

/// A request that passed the gate.
#[derive(Clone, Debug)]
pub struct Forward {
    pub namespace: String,
    /// What it is about, if that is one resource.
    pub id: Option<ResourceId>,
    pub subscription: Option<String>,
    pub caller: Caller,
    pub version: String,
    pub at: Timestamp,
    /// The system data to tell, of writes.
    pub system_data: Option<Value>,
    /// Whether the resource has an identity, and whether it is its own.
    pub identity: Option<bool>,
}

impl Forward {
    pub fn new(
        state: &State,
        call: &Call,
        caller: &Caller,
        namespace: &str,
        id: Option<&ResourceId>,
        subscription: Option<&str>,
        now: Timestamp,
    ) -> Forward {
        let old = id.and_then(|i| state.get(i.key()));
        let old = old.map(|r| &**r);
        let writes = matches!(call.method, Method::PUT | Method::PATCH);
        let body: Option<Value> = serde_json::from_slice(&call.body).ok();
        Forward {
            namespace: namespace.to_owned(),
            id: id.cloned(),
            subscription: subscription.map(str::to_owned),
            caller: caller.clone(),
            version: call.query("api-version").unwrap_or_default().to_owned(),
            at: now,
            system_data: writes.then(|| headers::system_data(caller, old, now)),
            identity: headers::identity_of(body.as_ref(), old)
                .map(|(own, _)| own)
                .filter(|_| writes || old.is_some()),
        }
    }

    pub fn unreachable(&self) -> Fault {
        Fault::gateway(
            StatusCode::BAD_GATEWAY,
            "BadGatewayConnection",
            format!(
                "The network connectivity issue encountered for '{}'; cannot fulfill the request.",
                self.namespace
            ),
        )
    }

    fn late(&self) -> Fault {
        Fault::gateway(
            StatusCode::GATEWAY_TIMEOUT,
            "GatewayTimeout",
            format!(
                "The gateway did not receive a response from '{}' within the specified time period.",
                self.namespace
            ),
        )
    }
}

/// The path and query as they are sent on.
fn written(call: &Call) -> String {
    use percent_encoding::{AsciiSet, CONTROLS, utf8_percent_encode};
    const PATH: &AsciiSet = &CONTROLS
        .add(b' ')
        .add(b'"')
        .add(b'#')
        .add(b'%')
        .add(b'<')
        .add(b'>')
        .add(b'?')
        .add(b'`')
        .add(b'{')
        .add(b'}');
    let path = utf8_percent_encode(&call.path, PATH);
    if call.query.is_empty() {
        return path.to_string();
    }
    let query = url::form_urlencoded::Serializer::new(String::new()).extend_pairs(call.query.iter()).finish();
    format!("{path}?{query}")
}

/// Sends a request on and brings the answer back.
pub async fn forward(world: &Arc<World>, f: Forward, call: &Call) -> Reply {
    let Some(provider) = world.providers.find(&f.namespace) else { return f.unreachable().reply() };
    if let Some(s) = &f.subscription {
        world.providers.announce(provider, s, &f.caller.tenant, f.at).await;
    }
    let sent = written(call);
    let url = format!("{}{sent}", call.base);
    let correlation = call.header("x-ms-correlation-request-id").map_or_else(|| world.uuid(), str::to_owned);
    let mut headers = headers::request(call, &f.caller, &url, &correlation);
    if let Some(data) = &f.system_data {
        headers::set(&mut headers, "x-ms-arm-resource-system-data", &data.to_string());
    }
    if let (Some(own), Some(id)) = (f.identity, &f.id) {
        let at = world.identity_url(id, &call.base);
        headers::set(&mut headers, "x-ms-identity-url", &at);
        if own {
            headers::set(
                &mut headers,
                "x-ms-identity-principal-id",
                &world.guid_of(id, "identity-principal"),
            );
        }
    }
    let answer = world.providers.send(provider, &call.method, &sent, &headers, call.body.clone()).await;
    let answer = match answer {
        Ok(answer) => answer,
        Err(error) => {
            tracing::warn!(provider = provider.namespace, %error, "a provider did not answer");
            return match error {
                OutboundError::Late(_) => f.late(),
                _ => f.unreachable(),
            }
            .reply();
        }
    };
    track::answered(world, &f, call, &answer, f.at);
    reply(provider, call, answer)
}

/// The provider's answer as a client sees it.
fn reply(provider: &ProxiedProvider, call: &Call, answer: Response<Bytes>) -> Reply {
    let (head, body) = answer.into_parts();
    let mut reply = Reply::empty(head.status);
    reply.headers = headers::response(&head.headers, base_of(provider), &call.base);
    if head.status.as_u16() >= 400 && !reply.headers.contains_key("x-ms-failure-cause") {
        reply = reply.with("x-ms-failure-cause", "service");
    }
    reply.raw = Some(linked(body, base_of(provider), &call.base));
    reply
}

/// A list's `nextLink` leads through us, too. Other bodies stay as they are, byte for byte.
fn linked(body: Bytes, provider: &str, base: &str) -> Bytes {
    let mentions = body.windows(8).any(|w| w == b"nextLink");
    if !mentions {
        return body;
    }
    let Ok(mut value) = serde_json::from_slice::<Value>(&body) else { return body };
    let next = value.get("nextLink").and_then(Value::as_str).map(|u| headers::through(u, provider, base));
    match next {
        Some(url) => {
            value["nextLink"] = url.into();
            value.to_string().into()
        }
        None => body,
    }
}
