//! Managed identity: the metadata server of a virtual machine, or the endpoint that App Service (and whoever
//! imitates it) names in the environment. Both are plain http on the machine itself.

use crate::credential::error::CredentialError;
use crate::credential::{AccessToken, TokenRequest, TokenSource};
use crate::pipeline::retry_after;
use crate::{Answer, Env, Http, Secret, Timing};
use bytes::Bytes;
use futures::future::BoxFuture;
use http::Request;
use jiff::{SignedDuration, Timestamp};
use serde::Deserialize;
use serde_json::Value;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

const IMDS: &str = "http://169.254.169.254";
const ATTEMPTS: u32 = 5;
/// A metadata server answers soon or is not there. Until it has answered once, patience is short: on a machine that is
/// not in Azure this is the time before another credential is tried.
const PROBES: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(5)];
const PATIENCE: Duration = Duration::from_secs(30);

/// Which of a machine's identities.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum IdentityId {
    System,
    Client(String),
    Object(String),
    Resource(String),
}

enum Endpoint {
    Imds { base: String },
    AppService { url: String, header: Secret },
}

pub struct ManagedIdentity {
    http: Http,
    timing: Timing,
    endpoint: Endpoint,
    identity: IdentityId,
    /// Whether somebody is known to be there.
    answered: AtomicBool,
}

impl ManagedIdentity {
    /// The metadata server of a virtual machine.
    pub fn imds(http: &Http, timing: Timing, identity: IdentityId) -> ManagedIdentity {
        ManagedIdentity::imds_at(http, timing, identity, IMDS)
    }

    /// A metadata server elsewhere; `AZURE_POD_IDENTITY_AUTHORITY_HOST` names one.
    pub fn imds_at(http: &Http, timing: Timing, identity: IdentityId, base: &str) -> ManagedIdentity {
        let endpoint = Endpoint::Imds { base: base.trim_end_matches('/').to_owned() };
        ManagedIdentity { http: http.clone(), timing, endpoint, identity, answered: AtomicBool::new(false) }
    }

    pub fn app_service(
        http: &Http,
        timing: Timing,
        identity: IdentityId,
        url: &str,
        header: Secret,
    ) -> ManagedIdentity {
        let endpoint = Endpoint::AppService { url: url.to_owned(), header };
        ManagedIdentity { http: http.clone(), timing, endpoint, identity, answered: AtomicBool::new(true) }
    }

    /// `IDENTITY_ENDPOINT` and `IDENTITY_HEADER` if set, else the metadata server.
    pub fn from_env(http: &Http, timing: Timing, identity: IdentityId, env: &Env) -> ManagedIdentity {
        match (env.get("IDENTITY_ENDPOINT"), env.get("IDENTITY_HEADER")) {
            (Some(url), Some(header)) => {
                ManagedIdentity::app_service(http, timing, identity, url, Secret::new(header))
            }
            _ => {
                let base = env.get("AZURE_POD_IDENTITY_AUTHORITY_HOST").unwrap_or(IMDS);
                ManagedIdentity::imds_at(http, timing, identity, base)
            }
        }
    }

    fn request(&self, ask: &TokenRequest) -> Result<Request<Bytes>, CredentialError> {
        let (base, version) = match &self.endpoint {
            Endpoint::Imds { base } => (format!("{base}/metadata/identity/oauth2/token"), "2018-02-01"),
            Endpoint::AppService { url, .. } => (url.clone(), "2019-08-01"),
        };
        let bad = || {
            CredentialError::Configuration(format!("'{base}' is not a URL of a managed identity endpoint"))
        };
        let mut url = url::Url::parse(&base).map_err(|_| bad())?;
        {
            let mut q = url.query_pairs_mut();
            q.append_pair("api-version", version).append_pair("resource", ask.resource());
            // The two kinds disagree on the name of the last one.
            let by_resource = match &self.endpoint {
                Endpoint::Imds { .. } => "msi_res_id",
                Endpoint::AppService { .. } => "mi_res_id",
            };
            match &self.identity {
                IdentityId::System => {}
                IdentityId::Client(id) => drop(q.append_pair("client_id", id)),
                IdentityId::Object(id) => drop(q.append_pair("object_id", id)),
                IdentityId::Resource(id) => drop(q.append_pair(by_resource, id)),
            }
        }
        let request = Request::get(url.as_str());
        let request = match &self.endpoint {
            Endpoint::Imds { .. } => request.header("metadata", "true"),
            Endpoint::AppService { header, .. } => request.header("x-identity-header", header.expose()),
        };
        request.body(Bytes::new()).map_err(|_| bad())
    }

    async fn fetch(&self, ask: &TokenRequest) -> Result<AccessToken, CredentialError> {
        let mut attempt = 0;
        loop {
            let known = self.answered.load(Ordering::Relaxed);
            let patience = PROBES.get(attempt as usize).filter(|_| !known).unwrap_or(&PATIENCE);
            attempt += 1;
            let sent = self.http.with_timeout(*patience).send(self.request(ask)?).await;
            if sent.is_ok() {
                self.answered.store(true, Ordering::Relaxed);
            }
            // 404 and 410 are what the metadata server says while it is being updated.
            let again = match &sent {
                Ok(a) => matches!(a.status.as_u16(), 404 | 408 | 410 | 429 | 500..=599),
                // If nothing listens, this is no machine of Azure's; asking again only delays saying so.
                Err(e) => e.is_transient() && !e.never_sent() && (known || (attempt as usize) < PROBES.len()),
            };
            if !again || attempt == ATTEMPTS {
                let what = "managed identity";
                let answer = sent.map_err(|e| CredentialError::Unavailable {
                    what,
                    why: format!("{e}; is this a machine in Azure with an identity?"),
                })?;
                return read(&answer, self.timing.clock.now());
            }
            let said = sent.ok().and_then(|a| retry_after(&a.headers, self.timing.clock.now()));
            let wait = said.unwrap_or_else(|| Duration::from_millis(400 << attempt));
            self.timing.pause.pause(wait.min(Duration::from_secs(30))).await;
        }
    }
}

impl TokenSource for ManagedIdentity {
    fn token<'a>(&'a self, ask: &'a TokenRequest) -> BoxFuture<'a, Result<AccessToken, CredentialError>> {
        Box::pin(self.fetch(ask))
    }

    fn describe(&self) -> String {
        let which = match &self.identity {
            IdentityId::System => "system-assigned identity".to_owned(),
            IdentityId::Client(id) | IdentityId::Object(id) | IdentityId::Resource(id) => {
                format!("identity {id}")
            }
        };
        match &self.endpoint {
            Endpoint::Imds { .. } => format!("{which} of this machine"),
            Endpoint::AppService { .. } => format!("{which} of this service"),
        }
    }
}

/// Numbers come as text from some of these endpoints and as numbers from others.
fn number(v: &Value) -> Option<i64> {
    v.as_i64().or_else(|| v.as_str()?.parse().ok())
}

#[derive(Deserialize)]
struct Granted {
    access_token: Secret,
    #[serde(default)]
    expires_on: Value,
    #[serde(default)]
    expires_in: Value,
}

fn read(answer: &Answer, now: Timestamp) -> Result<AccessToken, CredentialError> {
    let status = answer.status.as_u16();
    if !answer.status.is_success() {
        let body = answer.json().unwrap_or_default();
        // App Service wraps its errors in other words.
        let text =
            |a: &str, b: &str| body[a].as_str().or_else(|| body[b].as_str()).unwrap_or_default().to_owned();
        let code = match text("error", "statusCode") {
            c if c.is_empty() => format!("http {status}"),
            c => c,
        };
        return Err(CredentialError::Managed { code, message: text("error_description", "message") });
    }
    let bad = || CredentialError::Answer { host: "the managed identity endpoint".to_owned(), status };
    let g: Granted = serde_json::from_slice(&answer.body).map_err(|_| bad())?;
    let on = number(&g.expires_on).and_then(|s| Timestamp::from_second(s).ok());
    let within = number(&g.expires_in).and_then(|s| now.checked_add(SignedDuration::from_secs(s)).ok());
    Ok(AccessToken { secret: g.access_token, expires: on.or(within).ok_or_else(bad)?, refresh: None })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_text_and_numbers() {
        let now = Timestamp::from_second(1000).unwrap();
        let answer = |status: u16, body: &'static str| Answer {
            status: http::StatusCode::from_u16(status).unwrap(),
            body: Bytes::from_static(body.as_bytes()),
            ..Answer::default()
        };
        let end = |body| read(&answer(200, body), now).map(|t| t.expires.as_second()).ok();
        assert_eq!(
            end(r#"{"access_token":"t","expires_on":"1700000000","expires_in":"5"}"#),
            Some(1_700_000_000)
        );
        assert_eq!(end(r#"{"access_token":"t","expires_in":5}"#), Some(1005));
        assert_eq!(end(r#"{"access_token":"t"}"#), None);
        assert_eq!(end("<html>"), None);
        let refused = read(
            &answer(400, r#"{"error":"invalid_request","error_description":"Identity not found"}"#),
            now,
        );
        assert!(
            matches!(refused, Err(CredentialError::Managed { code, message }) if code == "invalid_request" && message == "Identity not found")
        );
    }
}
