//! The token endpoint: secrets, certificates, federated tokens, MSI credential files.

use crate::cloud::Endpoint;
use crate::credential::error::{CredentialError, EntraError};
use crate::credential::{AccessToken, Certificate, TokenRequest, TokenSource};
use crate::pipeline::retry_after;
use crate::{Answer, Http, Secret, Timing};
use bytes::Bytes;
use futures::future::BoxFuture;
use http::Request;
use jiff::{SignedDuration, Timestamp};
use serde::Deserialize;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::time::Duration;

const ASSERTION: &str = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer";
/// A federated token, certificate or credentials file larger than this is something else.
const MAX_FILE: u64 = 1 << 20;
const ATTEMPTS: u32 = 4;

/// What an application proves itself with.
#[derive(Clone, Debug)]
pub enum Proof {
    Secret(Secret),
    /// A PEM or PKCS#12 file with certificate and key.
    CertificateFile {
        path: PathBuf,
        password: Option<Secret>,
    },
    Certificate(Box<Certificate>),
    /// A token of a foreign issuer in a file that somebody rotates (workload identity).
    FederatedFile(PathBuf),
}

/// How to reach Entra ID.
#[derive(Clone)]
pub struct Entra {
    pub http: Http,
    pub login: Endpoint,
    pub timing: Timing,
}

/// An application or identity that signs in by itself.
pub struct Confidential {
    entra: Entra,
    who: Who,
}

enum Who {
    Known {
        tenant: String,
        client: String,
        proof: Proof,
    },
    /// As Azure's MSI data plane hands them out; read anew for each token.
    MsiFile(PathBuf),
}

/// The fields of an MSI credentials file that signing in needs.
#[derive(Deserialize)]
struct MsiFile {
    client_id: String,
    client_secret: Secret,
    tenant_id: String,
    #[serde(default)]
    authentication_endpoint: Option<String>,
    #[serde(default)]
    not_after: Option<Timestamp>,
}

pub(crate) async fn read_file(what: &'static str, path: &Path) -> Result<Vec<u8>, CredentialError> {
    use tokio::io::AsyncReadExt;
    let failed = |source| CredentialError::ReadFile { what, path: path.to_owned(), source };
    let file = tokio::fs::File::open(path).await.map_err(failed)?;
    let mut bytes = Vec::new();
    file.take(MAX_FILE).read_to_end(&mut bytes).await.map_err(failed)?;
    Ok(bytes)
}

impl Confidential {
    pub fn new(entra: Entra, tenant: &str, client: &str, proof: Proof) -> Confidential {
        let who = Who::Known { tenant: tenant.to_owned(), client: client.to_owned(), proof };
        Confidential { entra, who }
    }

    /// Credentials of a managed identity as ARO mounts them.
    pub fn msi_file(entra: Entra, path: impl Into<PathBuf>) -> Confidential {
        Confidential { entra, who: Who::MsiFile(path.into()) }
    }

    async fn fetch(&self, ask: &TokenRequest) -> Result<AccessToken, CredentialError> {
        match &self.who {
            Who::Known { tenant, client, proof } => {
                let login = self.entra.login.clone();
                let proof = self.prove(&login, tenant, client, proof).await?;
                self.entra.exchange(&login, tenant, client, proof, ask).await
            }
            Who::MsiFile(path) => self.fetch_msi(path, ask).await,
        }
    }

    async fn fetch_msi(&self, path: &Path, ask: &TokenRequest) -> Result<AccessToken, CredentialError> {
        let bytes = read_file("an MSI credential", path).await?;
        let file: MsiFile = serde_json::from_slice(&bytes).map_err(|source| CredentialError::ParseFile {
            what: "an MSI credential",
            path: path.to_owned(),
            source,
        })?;
        let field = |field, fix| CredentialError::Field { path: path.to_owned(), field, fix };
        if file.not_after.is_some_and(|end| end <= self.entra.timing.clock.now()) {
            return Err(field("not_after", "the credential has expired: whoever renews it has stopped"));
        }
        let login = match &file.authentication_endpoint {
            Some(url) => Endpoint::parse("authentication_endpoint", url)
                .map_err(|_| field("authentication_endpoint", "it must be an https URL"))?,
            None => self.entra.login.clone(),
        };
        let certificate = Certificate::read_text(file.client_secret.expose())
            .map_err(|source| CredentialError::Certificate { of: path.display().to_string(), source })?;
        let proof = self.assert(&login, &file.tenant_id, &file.client_id, &certificate)?;
        self.entra.exchange(&login, &file.tenant_id, &file.client_id, proof, ask).await
    }

    fn assert(
        &self,
        login: &Endpoint,
        tenant: &str,
        client: &str,
        certificate: &Certificate,
    ) -> Result<Sent, CredentialError> {
        let now = self.entra.timing.clock.now();
        let id = self.entra.timing.random.uuid();
        certificate
            .assertion(client, &endpoint(login, tenant), &id, now)
            .map(Sent::Assertion)
            .map_err(|source| CredentialError::Certificate { of: client.to_owned(), source })
    }

    async fn prove(
        &self,
        login: &Endpoint,
        tenant: &str,
        client: &str,
        proof: &Proof,
    ) -> Result<Sent, CredentialError> {
        match proof {
            Proof::Secret(s) => Ok(Sent::Secret(s.clone())),
            Proof::Certificate(c) => self.assert(login, tenant, client, c),
            Proof::CertificateFile { path, password } => {
                let bytes = read_file("the client certificate", path).await?;
                let certificate = Certificate::read(&bytes, password.as_ref()).map_err(|source| {
                    CredentialError::Certificate { of: path.display().to_string(), source }
                })?;
                self.assert(login, tenant, client, &certificate)
            }
            Proof::FederatedFile(path) => {
                let bytes = read_file("a federated token", path).await?;
                let text = std::str::from_utf8(&bytes).map(str::trim).unwrap_or_default();
                if text.split('.').count() != 3 {
                    let fix = "the file must hold one JWT: is the service account's token volume mounted?";
                    return Err(CredentialError::Field { path: path.clone(), field: "the token", fix });
                }
                Ok(Sent::Assertion(Secret::new(text)))
            }
        }
    }
}

impl TokenSource for Confidential {
    fn token<'a>(&'a self, ask: &'a TokenRequest) -> BoxFuture<'a, Result<AccessToken, CredentialError>> {
        Box::pin(self.fetch(ask))
    }

    fn describe(&self) -> String {
        match &self.who {
            Who::MsiFile(path) => format!("MSI credentials in {}", path.display()),
            Who::Known { client, proof, .. } => match proof {
                Proof::Secret(_) => format!("secret of application {client}"),
                Proof::CertificateFile { path, .. } => {
                    format!("certificate {} of application {client}", path.display())
                }
                Proof::Certificate(_) => format!("certificate of application {client}"),
                Proof::FederatedFile(path) => format!("federated token {} of {client}", path.display()),
            },
        }
    }
}

/// What goes into the form.
enum Sent {
    Secret(Secret),
    Assertion(Secret),
}

fn endpoint(login: &Endpoint, tenant: &str) -> String {
    format!("{}/{tenant}/oauth2/v2.0/token", login.as_str())
}

/// Claims for the request: what a service demanded, and that we understand such demands.
fn claims(demanded: Option<&str>) -> String {
    let mut all: Value = demanded
        .and_then(|c| serde_json::from_str(c).ok())
        .filter(Value::is_object)
        .unwrap_or_else(|| json!({}));
    let token = all["access_token"].take();
    let mut token = if token.is_object() { token } else { json!({}) };
    token["xms_cc"] = json!({"values": ["cp1"]});
    all["access_token"] = token;
    all.to_string()
}

fn form(client: &str, proof: &Sent, ask: &TokenRequest) -> Bytes {
    let mut form = url::form_urlencoded::Serializer::new(String::new());
    form.append_pair("grant_type", "client_credentials")
        .append_pair("client_id", client)
        .append_pair("scope", &ask.scope)
        .append_pair("claims", &claims(ask.claims.as_deref()));
    match proof {
        Sent::Secret(s) => form.append_pair("client_secret", s.expose()),
        Sent::Assertion(a) => {
            form.append_pair("client_assertion_type", ASSERTION).append_pair("client_assertion", a.expose())
        }
    };
    Bytes::from(form.finish())
}

#[derive(Deserialize)]
struct Granted {
    access_token: Secret,
    expires_in: i64,
    #[serde(default)]
    refresh_in: Option<i64>,
}

impl Entra {
    async fn exchange(
        &self,
        login: &Endpoint,
        tenant: &str,
        client: &str,
        proof: Sent,
        ask: &TokenRequest,
    ) -> Result<AccessToken, CredentialError> {
        // The tenant becomes part of a path.
        if tenant.is_empty() || !tenant.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'.') {
            let why = format!("'{tenant}' is not a tenant: use its id or a domain of it");
            return Err(CredentialError::Configuration(why));
        }
        let url = endpoint(login, tenant);
        let answer = self.post(&url, login, form(client, &proof, ask)).await?;
        let now = self.timing.clock.now();
        let host = login.as_str().to_owned();
        if answer.status.is_success() {
            let bad = |_| CredentialError::Answer { host, status: answer.status.as_u16() };
            let g: Granted = serde_json::from_slice(&answer.body).map_err(bad)?;
            let after =
                |s: i64| now.checked_add(SignedDuration::from_secs(s.clamp(0, 7 * 86_400))).unwrap_or(now);
            return Ok(AccessToken {
                secret: g.access_token,
                expires: after(g.expires_in),
                refresh: g.refresh_in.map(after),
            });
        }
        let status = answer.status.as_u16();
        Err(match EntraError::read(status, &answer.body) {
            Some(e) => CredentialError::Entra(Box::new(e)),
            None => CredentialError::Answer { host, status },
        })
    }

    /// Asks again when the endpoint is busy or cannot be reached; a refusal is a refusal.
    async fn post(&self, url: &str, login: &Endpoint, body: Bytes) -> Result<Answer, CredentialError> {
        let mut attempt = 0;
        loop {
            attempt += 1;
            let request = Request::post(url)
                .header("content-type", "application/x-www-form-urlencoded")
                .header("accept", "application/json")
                .header("client-request-id", self.timing.random.uuid())
                .body(body.clone())
                .map_err(|_| CredentialError::Configuration(format!("'{url}' is not a URL")))?;
            let sent = self.http.send(request).await;
            let again = match &sent {
                Ok(a) => matches!(a.status.as_u16(), 408 | 429 | 500..=599),
                Err(e) => e.is_transient(),
            };
            if !again || attempt == ATTEMPTS {
                return sent
                    .map_err(|source| CredentialError::Ask { host: login.as_str().to_owned(), source });
            }
            let said = sent.ok().and_then(|a| retry_after(&a.headers, self.timing.clock.now()));
            let wait = said.unwrap_or_else(|| {
                Duration::from_millis(400 << attempt).mul_f64(0.75 + 0.5 * self.timing.chance())
            });
            tracing::debug!(attempt, ?wait, "asking Entra ID again");
            self.timing.pause.pause(wait.min(Duration::from_secs(60))).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn demanded_claims_are_passed_on_and_ours_added() {
        let demanded = r#"{"access_token":{"nbf":{"essential":true,"value":"1"}}}"#;
        let all: Value = serde_json::from_str(&claims(Some(demanded))).unwrap();
        assert_eq!(all["access_token"]["nbf"]["value"], "1");
        assert_eq!(all["access_token"]["xms_cc"]["values"][0], "cp1");
        for none in [None, Some("[]"), Some("junk")] {
            let all: Value = serde_json::from_str(&claims(none)).unwrap();
            assert_eq!(all["access_token"]["xms_cc"]["values"][0], "cp1");
        }
    }
}
