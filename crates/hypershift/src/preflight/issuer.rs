//! What an issuer publishes, held against the key that the cluster signs tokens with.
//!
//! Entra reads these documents over the public internet, and refuses every token of a key that is not among them: no
//! identity of the cluster would work, and only the logs of its components would say why. We read the same documents. What
//! they say for sure stops a new cluster; that we cannot read them is only said, because Entra may be able to.

use super::{Issuer, Verdict};
use azure::{Env, Http, HttpOptions};
use bytes::Bytes;
use http::{Request, StatusCode};
use serde_json::Value;
use std::time::Duration;

/// For one document. A cluster is not begun before this is over, on networks where nothing answers too.
const PATIENCE: Duration = Duration::from_secs(3);
/// Far more than any issuer has to say.
const LARGEST: usize = 256 << 10;

/// Reads issuers as this process reaches the internet.
pub(super) struct Issuers(Http);

impl Issuers {
    /// By the environment's proxy and authorities; nothing if those cannot be used.
    pub(super) fn new(env: &Env) -> Option<Issuers> {
        let options = HttpOptions {
            connect_timeout: PATIENCE,
            timeout: PATIENCE,
            max_body: LARGEST,
            ..HttpOptions::from_env(env)
        };
        match Http::new(&options) {
            Ok(http) => Some(Issuers(http)),
            Err(e) => {
                tracing::warn!(why = %reconcile::chain(&e), "issuers of tokens cannot be read");
                None
            }
        }
    }

    async fn get(&self, url: &str) -> Result<Value, String> {
        if !url.starts_with("https://") {
            return Err(format!("{url:?} is no https URL"));
        }
        let request = Request::get(url).body(Bytes::new()).map_err(|e| format!("{url:?}: {e}"))?;
        let answer =
            self.0.send(request).await.map_err(|e| format!("GET {url}: {}", reconcile::chain(&e)))?;
        match answer.status {
            StatusCode::OK => answer.json().ok_or_else(|| format!("GET {url}: the answer is no JSON")),
            status => Err(format!("GET {url}: {status}")),
        }
    }

    async fn read(&self, issuer: &Issuer) -> Result<Option<String>, String> {
        let base = issuer.url.trim_end_matches('/');
        let document = self.get(&format!("{base}/.well-known/openid-configuration")).await?;
        if let Some(wrong) = other_issuer(issuer, &document) {
            return Ok(Some(wrong));
        }
        let keys = document["jwks_uri"].as_str().ok_or("its document names no keys (jwks_uri)")?;
        Ok(other_keys(issuer, &self.get(keys).await?))
    }

    pub(super) async fn judge(&self, issuer: &Issuer, verdict: &mut Verdict) {
        match self.read(issuer).await {
            Ok(wrong) => verdict.places.extend(wrong),
            Err(why) => {
                verdict.unread = Some(format!(
                    "the issuer spec.issuerURL {} cannot be read from here, and it is tried again: {why}; if Entra cannot read it either, no identity of the cluster gets a token: publish its documents over public https (`zaffre create oidc-issuer azure` does)",
                    issuer.url
                ));
            }
        }
    }
}

/// The document must say the very URL that tokens say.
fn other_issuer(issuer: &Issuer, document: &Value) -> Option<String> {
    let said = document["issuer"].as_str().unwrap_or_default();
    (said != issuer.url).then(|| {
        format!(
            "spec.issuerURL is {}, and the document published there says that its issuer is {said:?}: Entra would refuse every token; set spec.issuerURL to what the document says, letter by letter, or publish it anew with `zaffre create oidc-issuer azure`",
            issuer.url
        )
    })
}

fn other_keys(issuer: &Issuer, document: &Value) -> Option<String> {
    // Something else than a list of keys is no answer, and nothing can be said of it for sure.
    let keys: Vec<&str> = document["keys"].as_array()?.iter().filter_map(|k| k["kid"].as_str()).collect();
    (!keys.contains(&issuer.kid.as_str())).then(|| {
        format!(
            "spec.serviceAccountSigningKey holds the key {}, and spec.issuerURL {} publishes {}: Entra would refuse every token; put the private key of the issuer into the Secret, or publish this one with `zaffre create oidc-issuer azure`",
            issuer.kid,
            issuer.url,
            if keys.is_empty() { "none".to_owned() } else { keys.join(", ") }
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn documents_are_held_against_what_tokens_say() {
        let issuer = Issuer { url: "https://a.example/b".into(), kid: "k1".into() };
        assert_eq!(other_issuer(&issuer, &json!({"issuer": "https://a.example/b"})), None);
        for wrong in [json!({"issuer": "https://a.example/b/"}), json!({})] {
            let text = other_issuer(&issuer, &wrong).unwrap();
            assert!(
                text.contains("spec.issuerURL is https://a.example/b, and")
                    && text.contains("set spec.issuerURL"),
                "{text}"
            );
        }
        assert_eq!(other_keys(&issuer, &json!({"keys": [{"kid": "k0"}, {"kid": "k1"}]})), None);
        assert_eq!(other_keys(&issuer, &json!({"error": "later"})), None, "no answer is no judgement");
        let text = other_keys(&issuer, &json!({"keys": [{"kid": "k0"}]})).unwrap();
        assert!(text.contains("holds the key k1") && text.contains("publishes k0"), "{text}");
        assert!(other_keys(&issuer, &json!({"keys": []})).unwrap().contains("publishes none"));
    }
}
