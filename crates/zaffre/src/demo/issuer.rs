//! The issuer of the demo's service-account tokens: made as `create oidc-issuer azure` makes it, in the simulated Azure,
//! where Entra ID finds its public key.

use anyhow::Context;
use arm::ResourceId;
use azure::Client;
use jsonwebtoken::{Algorithm, EncodingKey, Header};
use landing_zone::identities::AUDIENCE;
use landing_zone::issuer::{self, KeyDir, Keys, Rotation, SigningKey};
use landing_zone::run::Options;
use serde_json::json;

/// Of the account and of its container.
pub const NAME: &str = "zaffredemo";

pub struct Issuer {
    pub url: String,
    pub kid: String,
    /// Of the key; it ends with the demo.
    dir: tempfile::TempDir,
}

impl Issuer {
    pub async fn create(client: &Client, subscription: &ResourceId, place: &str) -> anyhow::Result<Issuer> {
        let dir = tempfile::tempdir()?;
        let wanted = issuer::Issuer::new(NAME, subscription.clone(), "demo-oidc", place)?;
        let keys = Keys {
            dir: KeyDir::open(dir.path())?,
            given: None,
            rotation: Rotation::Keep,
            make: SigningKey::generate,
        };
        let (outcome, published) =
            issuer::create(client, &wanted, &keys, Options::default(), &super::azure::quiet).await?;
        super::azure::good(&outcome)?;
        let published = published.context("the issuer has no key")?;
        Ok(Issuer { url: published.url, kid: published.kid, dir })
    }

    /// What a pod of this service account would find in its token file.
    pub fn token(&self, subject: &str, now: i64) -> anyhow::Result<String> {
        let pem = std::fs::read(self.dir.path().join("serviceaccount-signer.private"))?;
        let claims = json!({"iss": self.url, "sub": subject, "aud": [AUDIENCE],
            "iat": now, "nbf": now, "exp": now + 600});
        let header = Header { kid: Some(self.kid.clone()), ..Header::new(Algorithm::RS256) };
        Ok(jsonwebtoken::encode(&header, &claims, &EncodingKey::from_rsa_pem(&pem)?)?)
    }
}
