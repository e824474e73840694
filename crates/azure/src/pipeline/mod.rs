//! The pipeline: what every call goes through.
//!
//! budget → token → send → read; then, depending on the answer: a new token once (401), the provider's registration
//! once (409), or the same again after a wait. Requests carry a correlation id for the whole operation and a request
//! id of their own. Logs have method, path and status; queries are left out, because operation URLs are signed.

mod error;
mod register;
mod retry;
mod throttle;

pub use error::{Error, Refused};
pub(crate) use retry::Trouble;
pub use retry::{RetryPolicy, retry_after};
pub use throttle::{Budget, Budgets, Class};

use crate::cloud::Endpoint;
use crate::credential::{AccessToken, Credential, TokenRequest};
use crate::{Answer, Cloud, Http, HttpError, Timing};
use arm::code;
use base64::Engine;
use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request};
use serde_json::Value;
use std::sync::Arc;
use std::time::Duration;
use url::Url;

/// Who is asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Service {
    Arm,
    Graph,
    /// A vault, an account, a registry: each has a host of its own.
    At(Arc<Door>),
}

/// Where a data plane is, and what tokens for it are asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Door {
    pub endpoint: Endpoint,
    pub scope: String,
}

/// One call. The target is a path with its query, or a URL that the service handed out.
#[derive(Clone, Debug)]
pub struct Call {
    pub service: Service,
    pub method: Method,
    pub target: String,
    pub headers: HeaderMap,
    pub body: Option<Value>,
    /// Bytes in place of a body of JSON; a header says what they are.
    pub content: Option<Bytes>,
    /// Whether it may be sent twice; by default, if the method is idempotent.
    pub repeatable: bool,
    /// Groups the calls of one operation; made up if absent.
    pub correlation: Option<String>,
}

impl Call {
    pub fn new(method: Method, target: impl Into<String>) -> Call {
        Call {
            service: Service::Arm,
            repeatable: retry::repeatable(&method),
            method,
            target: target.into(),
            headers: HeaderMap::new(),
            body: None,
            content: None,
            correlation: None,
        }
    }

    pub fn get(target: impl Into<String>) -> Call {
        Call::new(Method::GET, target)
    }

    #[must_use]
    pub fn body(mut self, body: Value) -> Call {
        self.body = Some(body);
        self
    }

    /// Of a data plane.
    #[must_use]
    pub fn at(mut self, door: &Arc<Door>) -> Call {
        self.service = Service::At(door.clone());
        self
    }

    #[must_use]
    pub fn content(mut self, content: Bytes) -> Call {
        self.content = Some(content);
        self
    }

    #[must_use]
    pub fn header(mut self, name: &'static str, value: &str) -> Call {
        // Etags and ids are ASCII; what is not cannot be sent and cannot match either.
        if let Ok(value) = HeaderValue::from_str(value) {
            self.headers.insert(HeaderName::from_static(name), value);
        }
        self
    }

    /// A POST that changes nothing, or nothing more when it is done twice.
    #[must_use]
    pub fn repeatable(mut self) -> Call {
        self.repeatable = true;
        self
    }

    #[must_use]
    pub fn correlation(mut self, id: &str) -> Call {
        self.correlation = Some(id.to_owned());
        self
    }
}

struct Inner {
    cloud: Cloud,
    http: Http,
    credential: Credential,
    timing: Timing,
    retry: RetryPolicy,
    budgets: Budgets,
    user_agent: String,
    auto_register: bool,
    registering: register::Registering,
    poll_default: Duration,
    poll_patience: Duration,
}

/// A client of one cloud as one principal. Clones share connections, tokens and budgets.
#[derive(Clone)]
pub struct Client(Arc<Inner>);

impl std::fmt::Debug for Client {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Client({} as {})", self.0.cloud.arm.as_str(), self.0.credential.describe())
    }
}

/// Everything that can be chosen about a client.
#[derive(Clone)]
pub struct ClientOptions {
    pub timing: Timing,
    pub retry: RetryPolicy,
    /// Share one between clients of the same principal.
    pub budgets: Budgets,
    pub user_agent: String,
    /// Register a resource provider when Azure says that it is not.
    pub auto_register: bool,
    /// Between looks at an operation when the service does not say.
    pub poll_default: Duration,
    /// How long `wait` waits for one operation before it hands the operation back.
    pub poll_patience: Duration,
}

impl Default for ClientOptions {
    fn default() -> ClientOptions {
        ClientOptions {
            timing: Timing::system(),
            retry: RetryPolicy::default(),
            budgets: Budgets::default(),
            user_agent: concat!("zaffre/", env!("CARGO_PKG_VERSION")).to_owned(),
            auto_register: true,
            poll_default: Duration::from_secs(30),
            poll_patience: Duration::from_secs(2 * 3600),
        }
    }
}

/// What a URL is, for people and logs: no query.
fn path_of(url: &Url) -> String {
    url.path().to_owned()
}

fn subscription_of(path: &str) -> &str {
    let mut words = path.trim_start_matches('/').split('/');
    match (words.next(), words.next()) {
        (Some(w), Some(id)) if w.eq_ignore_ascii_case("subscriptions") => id,
        _ => "",
    }
}

impl Client {
    pub fn new(cloud: Cloud, http: Http, credential: Credential, options: ClientOptions) -> Client {
        let ClientOptions { timing, retry, budgets, user_agent, auto_register, poll_default, poll_patience } =
            options;
        Client(Arc::new(Inner {
            cloud,
            http,
            credential,
            timing,
            retry,
            budgets,
            user_agent,
            auto_register,
            registering: register::Registering::default(),
            poll_default,
            poll_patience,
        }))
    }

    /// The same client, but it waits out refusals that follow from rights, principals or identities that were just
    /// made and have not arrived everywhere, for this long at most.
    #[must_use]
    pub fn settling(&self, window: Duration) -> Client {
        let inner = &self.0;
        let retry = RetryPolicy { settle: window, ..inner.retry.clone() };
        Client(Arc::new(Inner {
            cloud: inner.cloud.clone(),
            http: inner.http.clone(),
            credential: inner.credential.clone(),
            timing: inner.timing.clone(),
            retry,
            budgets: inner.budgets.clone(),
            user_agent: inner.user_agent.clone(),
            auto_register: inner.auto_register,
            registering: register::Registering::default(),
            poll_default: inner.poll_default,
            poll_patience: inner.poll_patience,
        }))
    }

    pub fn cloud(&self) -> &Cloud {
        &self.0.cloud
    }

    pub fn credential(&self) -> &Credential {
        &self.0.credential
    }

    pub fn timing(&self) -> &Timing {
        &self.0.timing
    }

    pub fn poll_default(&self) -> Duration {
        self.0.poll_default
    }

    pub(crate) fn poll_patience(&self) -> Duration {
        self.0.poll_patience
    }

    pub(crate) fn uuid(&self) -> String {
        self.0.timing.random.uuid()
    }

    fn endpoint<'a>(&'a self, service: &'a Service) -> (&'a Endpoint, String) {
        match service {
            Service::Arm => (&self.0.cloud.arm, self.0.cloud.arm_scope()),
            Service::Graph => (&self.0.cloud.graph, self.0.cloud.graph_scope()),
            Service::At(door) => (&door.endpoint, door.scope.clone()),
        }
    }

    /// The full URL of a call; refuses to lead a token elsewhere.
    pub fn resolve(&self, service: &Service, target: &str) -> Result<Url, Error> {
        let (endpoint, _) = self.endpoint(service);
        let full = if target.starts_with('/') && !target.starts_with("//") {
            format!("{}{target}", endpoint.as_str())
        } else {
            target.to_owned()
        };
        let url = Url::parse(&full).map_err(|_| Error::Url(target.chars().take(200).collect()))?;
        if !endpoint.owns(&url) {
            let url = format!("{}://{}{}", url.scheme(), url.host_str().unwrap_or_default(), url.path());
            return Err(Error::Foreign { url, endpoint: endpoint.as_str().to_owned() });
        }
        Ok(url)
    }

    /// Sends a call through the whole pipeline. Answers that are not a success are errors.
    pub async fn send(&self, call: Call) -> Result<Answer, Error> {
        let url = self.resolve(&call.service, &call.target)?;
        let correlation = call.correlation.clone().unwrap_or_else(|| self.uuid());
        self.run(&call, &url, &correlation, self.0.auto_register).await
    }

    async fn run(
        &self,
        call: &Call,
        url: &Url,
        correlation: &str,
        may_register: bool,
    ) -> Result<Answer, Error> {
        let body = match (&call.content, &call.body) {
            (Some(bytes), _) => bytes.clone(),
            (None, None) => Bytes::new(),
            (None, Some(v)) => serde_json::to_vec(v).map(Bytes::from).map_err(|source| Error::Write {
                method: call.method.to_string(),
                path: path_of(url),
                source,
            })?,
        };
        let mut state = Attempts {
            made: 0,
            waited: Duration::ZERO,
            refreshed: false,
            registered: !may_register,
            claims: None,
        };
        loop {
            state.made += 1;
            let (trouble, failure) = match self.attempt(call, url, correlation, &body, &mut state).await? {
                Outcome::Good(answer) => return Ok(answer),
                Outcome::Again => continue,
                Outcome::Bad(trouble, failure) => (trouble, failure),
            };
            let chance = self.0.timing.chance();
            match self.0.retry.again(state.made, state.waited, call.repeatable, &trouble, chance) {
                Some(wait) => {
                    tracing::debug!(method = %call.method, path = url.path(), attempt = state.made, ?wait, ?trouble, "trying again");
                    self.0.timing.pause.pause(wait).await;
                    state.waited += wait;
                }
                None => return Err(failure),
            }
        }
    }

    async fn attempt(
        &self,
        call: &Call,
        url: &Url,
        correlation: &str,
        body: &Bytes,
        state: &mut Attempts,
    ) -> Result<Outcome, Error> {
        let (_, scope) = self.endpoint(&call.service);
        let (method, path) = (call.method.to_string(), path_of(url));
        let subscription = match call.service {
            Service::Arm => subscription_of(url.path()),
            Service::Graph | Service::At(_) => "",
        };
        let class = Class::of(&call.method);
        if call.service == Service::Arm {
            self.budget(subscription, class).await;
        }
        let ask = TokenRequest { scope: scope.clone(), claims: state.claims.take() };
        let token = self.0.credential.token(&ask).await;
        let token = match token {
            Ok(token) => token,
            Err(source) => {
                let unsettled = source.is_unsettled();
                let failure = Error::Token { method, path, source };
                return match unsettled {
                    true => Ok(Outcome::Bad(Trouble::Unsettled, failure)),
                    false => Err(failure),
                };
            }
        };
        let request = self.request(call, url, correlation, body, &token)?;
        let answer = match self.0.http.send(request).await {
            Ok(answer) => answer,
            Err(source) => {
                tracing::debug!(%method, %path, attempt = state.made, error = %source, "not answered");
                let trouble = match &source {
                    HttpError::Connect { .. } => Trouble::NeverSent,
                    HttpError::Timeout { .. } | HttpError::Lost { .. } => Trouble::Lost,
                    // Too large, untrusted or misconfigured: it would be so again.
                    _ => Trouble::Answered { status: 0, code: String::new(), said: None },
                };
                let failure = Error::Send { method, path, attempts: state.made, source };
                return Ok(Outcome::Bad(trouble, failure));
            }
        };
        let now = self.0.timing.clock.now();
        let status = answer.status.as_u16();
        let request_id = answer
            .header("x-ms-request-id")
            .or_else(|| answer.header("request-id"))
            .unwrap_or_default()
            .to_owned();
        tracing::debug!(%method, %path, status, attempt = state.made, %request_id, "answered");
        self.0.budgets.learn(subscription, class, &answer.headers, now);
        if answer.status.is_success() || answer.status.as_u16() == 304 {
            return Ok(Outcome::Good(answer));
        }
        let detail = error::detail(&answer);
        let said = retry_after(&answer.headers, now);
        if status == 429 && !detail.has_code(code::RETRYABLE_ERROR) && call.service == Service::Arm {
            // "RetryableError" is about a dependency, not about our pace.
            self.0.budgets.refused(subscription, class, said.unwrap_or(Duration::from_secs(1)), now);
        }
        if status == 401 && !state.refreshed {
            state.refreshed = true;
            state.claims = challenge(&answer.headers);
            self.0.credential.refused(&scope, &token).await;
            return Ok(Outcome::Again);
        }
        if status == 409 && !state.registered && detail.has_code(code::MISSING_SUBSCRIPTION_REGISTRATION) {
            state.registered = true;
            if let Some(namespace) =
                register::namespace(&detail, url.path()).filter(|_| !subscription.is_empty())
            {
                self.register(subscription, &namespace, correlation).await?;
                return Ok(Outcome::Again);
            }
        }
        let trouble = Trouble::Answered { status, code: error::exact(&detail).to_owned(), said };
        let refused = Refused {
            status,
            detail,
            method,
            path,
            request_id,
            correlation: correlation.to_owned(),
            retry_after: said,
            attempts: state.made,
        };
        Ok(Outcome::Bad(trouble, Error::Refused(Box::new(refused))))
    }

    async fn budget(&self, subscription: &str, class: Class) {
        while let Err(wait) = self.0.budgets.take(subscription, class, self.0.timing.clock.now()) {
            tracing::debug!(subscription, ?class, ?wait, "the budget is spent");
            self.0.timing.pause.pause(wait).await;
        }
    }

    fn request(
        &self,
        call: &Call,
        url: &Url,
        correlation: &str,
        body: &Bytes,
        token: &AccessToken,
    ) -> Result<Request<Bytes>, Error> {
        let bad = || Error::Url(path_of(url));
        let mut auth =
            HeaderValue::from_str(&format!("Bearer {}", token.secret.expose())).map_err(|_| bad())?;
        auth.set_sensitive(true);
        let mut request = Request::builder()
            .method(call.method.clone())
            .uri(url.as_str())
            .header("authorization", auth)
            .header("accept", "application/json")
            .header("user-agent", &self.0.user_agent)
            .header("x-ms-correlation-request-id", correlation)
            .header("x-ms-client-request-id", self.uuid())
            .header("x-ms-return-client-request-id", "true");
        if call.body.is_some() {
            request = request.header("content-type", "application/json");
        }
        if body.is_empty() && matches!(call.method, Method::PUT | Method::POST | Method::PATCH) {
            // Azure's front doors answer 411 to a body of unknown length, even to none.
            request = request.header("content-length", "0");
        }
        if matches!(call.service, Service::At(_)) {
            let now = self.0.timing.clock.now().strftime("%a, %d %b %Y %H:%M:%S GMT");
            request = request.header("x-ms-date", now.to_string());
        }
        let mut request = request.body(body.clone()).map_err(|_| bad())?;
        request.headers_mut().extend(call.headers.clone());
        Ok(request)
    }
}

struct Attempts {
    made: u32,
    waited: Duration,
    refreshed: bool,
    registered: bool,
    claims: Option<String>,
}

enum Outcome {
    Good(Answer),
    /// Something was put right; the next attempt needs no wait.
    Again,
    Bad(Trouble, Error),
}

/// The claims that a service demands of a new token (continuous access evaluation).
fn challenge(headers: &HeaderMap) -> Option<String> {
    let all = headers.get_all("www-authenticate").iter().filter_map(|v| v.to_str().ok());
    let demanded = all.filter(|v| v.contains("insufficient_claims")).find_map(|v| {
        let rest = &v[v.find("claims=\"")? + 8..];
        Some(&rest[..rest.find('"')?])
    })?;
    use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
    let bytes = STANDARD.decode(demanded).or_else(|_| URL_SAFE_NO_PAD.decode(demanded.trim_end_matches('=')));
    let text = String::from_utf8(bytes.ok()?).ok()?;
    serde_json::from_str::<Value>(&text).ok()?.is_object().then_some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_challenges() {
        let of = |v: &str| {
            challenge(&[(http::header::WWW_AUTHENTICATE, v.parse().unwrap())].into_iter().collect())
        };
        let b64 = base64::engine::general_purpose::STANDARD.encode(r#"{"access_token":{}}"#);
        let good =
            format!(r#"Bearer realm="", authorization_uri="x", error="insufficient_claims", claims="{b64}""#);
        assert_eq!(of(&good).as_deref(), Some(r#"{"access_token":{}}"#));
        assert_eq!(of(r#"Bearer error="invalid_token", claims="eA==""#), None);
        assert_eq!(of(r#"Bearer error="insufficient_claims", claims="%%""#), None);
        assert_eq!(of(r#"Bearer error="insufficient_claims", claims="eA=="#), None);
    }

    #[test]
    fn subscriptions_in_paths() {
        assert_eq!(subscription_of("/Subscriptions/s/resourceGroups"), "s");
        assert_eq!(subscription_of("/providers/x"), "");
    }
}
