//! Certificates: issued by a policy, or imported.

use super::base64url;
use super::objects::{Attributes, Objects, Sort, part};
use crate::Secret;
use crate::pipeline::{Error, retry_after};
use arm::ErrorDetail;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::Method;
use serde::{Deserialize, Deserializer};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::time::Duration;

#[derive(Clone, Copy, Debug)]
pub enum Certificates {}

impl Sort for Certificates {
    const PATH: &'static str = "certificates";
    const WHAT: &'static str = "a certificate";
    type Version = Certificate;
}

#[derive(Clone, Debug, Deserialize)]
pub struct Certificate {
    pub id: String,
    /// Its key.
    #[serde(default)]
    pub kid: String,
    /// The secret that holds certificate and private key, if that can be had.
    #[serde(default)]
    pub sid: String,
    /// SHA-1 of the DER.
    #[serde(rename = "x5t", default, deserialize_with = "base64url::decode")]
    pub thumbprint: Vec<u8>,
    /// DER.
    #[serde(rename = "cer", default, deserialize_with = "standard")]
    pub der: Vec<u8>,
    #[serde(default)]
    pub attributes: Attributes,
    #[serde(default)]
    pub tags: BTreeMap<String, String>,
    #[serde(default)]
    pub policy: Value,
}

fn standard<'de, D: Deserializer<'de>>(d: D) -> Result<Vec<u8>, D::Error> {
    STANDARD.decode(String::deserialize(d)?).map_err(serde::de::Error::custom)
}

impl Certificate {
    pub fn version(&self) -> &str {
        part(&self.id, 2).unwrap_or_default()
    }

    /// Where its secret is: name and version.
    pub fn secret(&self) -> Option<(&str, &str)> {
        Some((part(&self.sid, 1)?, part(&self.sid, 2)?))
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyKind {
    Rsa(u32),
    /// `P-256`, `P-384` or `P-521`.
    Ec(&'static str),
}

impl KeyKind {
    pub(super) fn describe(self, into: &mut Value) {
        match self {
            KeyKind::Rsa(bits) => {
                into["kty"] = "RSA".into();
                into["key_size"] = bits.into();
            }
            KeyKind::Ec(curve) => {
                into["kty"] = "EC".into();
                into["crv"] = curve.into();
            }
        }
    }
}

/// How a certificate is to be.
#[derive(Clone, Debug)]
pub struct CertificatePolicy {
    /// `CN=name`.
    pub subject: String,
    pub dns_names: Vec<String>,
    pub months: u32,
    pub key: KeyKind,
    /// `Self`, `Unknown` (merge by hand), or an issuer of the vault.
    pub issuer: String,
    /// The secret holds PEM rather than PKCS#12.
    pub pem: bool,
}

impl CertificatePolicy {
    pub fn self_signed(subject: &str) -> CertificatePolicy {
        CertificatePolicy {
            subject: subject.to_owned(),
            dns_names: Vec::new(),
            months: 12,
            key: KeyKind::Rsa(2048),
            issuer: "Self".to_owned(),
            pem: false,
        }
    }

    #[must_use]
    pub fn pem(mut self) -> CertificatePolicy {
        self.pem = true;
        self
    }

    fn json(&self) -> Value {
        let content = if self.pem { "application/x-pem-file" } else { "application/x-pkcs12" };
        let mut key = json!({"exportable": true, "reuse_key": false});
        self.key.describe(&mut key);
        let mut x509 = json!({"subject": self.subject, "validity_months": self.months});
        if !self.dns_names.is_empty() {
            x509["sans"] = json!({"dns_names": self.dns_names});
        }
        json!({
            "key_props": key, "secret_props": {"contentType": content}, "x509_props": x509,
            "issuer": {"name": self.issuer},
        })
    }
}

/// A certificate that is being issued.
#[derive(Clone, Debug, Deserialize)]
pub struct Pending {
    /// `inProgress`, `completed`, `cancelled`, `failed`.
    pub status: String,
    #[serde(default)]
    pub status_details: Option<String>,
    #[serde(default)]
    pub error: Option<ErrorDetail>,
    /// DER of the request, for an issuer outside.
    #[serde(default, deserialize_with = "standard")]
    pub csr: Vec<u8>,
}

/// What is imported: PKCS#12 with its password, or PEM of key and certificates.
#[derive(Clone)]
pub enum Import {
    Pkcs12 { content: Vec<u8>, password: Secret },
    Pem(Secret),
}

impl std::fmt::Debug for Import {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Import::Pkcs12 { .. } => "Pkcs12(…)",
            Import::Pem(_) => "Pem(…)",
        })
    }
}

/// When the service does not say; issuers outside Azure take minutes and say so.
const LOOK: Duration = Duration::from_secs(5);

impl Objects<Certificates> {
    /// Orders a certificate. A second order while one is running replaces it, so a lost answer is not repeated.
    pub async fn begin_create(
        &self,
        name: &str,
        policy: &CertificatePolicy,
        tags: &BTreeMap<String, String>,
    ) -> Result<Pending, Error> {
        let body = json!({"policy": policy.json(), "tags": tags});
        self.vault.ask(self.call(Method::POST, name, &["create"])?.body(body)).await
    }

    /// Orders a certificate and waits until it is issued.
    pub async fn create(&self, name: &str, policy: &CertificatePolicy) -> Result<Certificate, Error> {
        self.begin_create(name, policy, &BTreeMap::new()).await?;
        self.wait(name).await
    }

    /// How an order stands.
    pub async fn pending(&self, name: &str) -> Result<Pending, Error> {
        self.vault.ask(self.call(Method::GET, name, &["pending"])?).await
    }

    /// Calls an order off, as far as the issuer lets it.
    pub async fn cancel(&self, name: &str) -> Result<Pending, Error> {
        let call = self.call(Method::PATCH, name, &["pending"])?;
        self.vault.ask(call.body(json!({"cancellation_requested": true})).repeatable()).await
    }

    /// Waits for the order of that name, begun here or elsewhere.
    pub async fn wait(&self, name: &str) -> Result<Certificate, Error> {
        let client = &self.vault.client;
        let mut waited = Duration::ZERO;
        loop {
            let call = self.call(Method::GET, name, &["pending"])?;
            let path = super::path_of(&call);
            let answer = client.send(call).await?;
            let said: Pending = serde_json::from_slice(&answer.body).map_err(|source| Error::Read {
                method: "GET".to_owned(),
                path: path.clone(),
                source,
            })?;
            match said.status.as_str() {
                "completed" => return self.get(name).await,
                "inProgress" => {}
                other => {
                    let words = said.status_details.unwrap_or_default();
                    let detail = said.error.unwrap_or_else(|| ErrorDetail::new(other, words));
                    return Err(Error::Operation { path, detail: Box::new(detail) });
                }
            }
            if waited > client.poll_patience() {
                return Err(Error::StillRunning { path, waited });
            }
            let wait = retry_after(&answer.headers, client.timing().clock.now()).unwrap_or(LOOK);
            client.timing().pause.pause(wait).await;
            waited += wait.max(Duration::from_millis(1));
        }
    }

    /// Adds a version that was made elsewhere.
    pub async fn import(&self, name: &str, what: &Import) -> Result<Certificate, Error> {
        let body = match what {
            Import::Pkcs12 { content, password } => {
                json!({"value": STANDARD.encode(content), "pwd": password.expose(), "policy": {"secret_props": {"contentType": "application/x-pkcs12"}}})
            }
            Import::Pem(pem) => {
                json!({"value": pem.expose(), "policy": {"secret_props": {"contentType": "application/x-pem-file"}}})
            }
        };
        self.vault.ask(self.call(Method::POST, name, &["import"])?.body(body)).await
    }

    /// Completes an order whose request was signed outside: DER, the leaf first.
    pub async fn merge(&self, name: &str, chain: &[Vec<u8>]) -> Result<Certificate, Error> {
        let x5c: Vec<String> = chain.iter().map(|c| STANDARD.encode(c)).collect();
        self.vault.ask(self.call(Method::POST, name, &["pending", "merge"])?.body(json!({"x5c": x5c}))).await
    }
}
