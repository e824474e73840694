//! What an OpenID provider says of itself.

use crate::{Env, Http, HttpOptions};
use bytes::Bytes;
use http::Request;
use serde_json::Value;
use std::time::Duration;

/// For one provider; a cluster waits for it.
const PATIENCE: Duration = Duration::from_secs(10);
/// Far more than any provider has to say.
const LARGEST: usize = 256 << 10;

/// The document that an issuer publishes. `ca` is who signed its certificate, beside those that the machine trusts.
pub async fn discover(env: &Env, issuer: &str, ca: Option<&str>) -> Result<Value, String> {
    let url = format!("{}/.well-known/openid-configuration", issuer.trim_end_matches('/'));
    if !url.starts_with("https://") {
        return Err(format!("{issuer:?} is no https URL"));
    }
    let options = HttpOptions {
        extra_roots: ca.map(str::to_owned).into_iter().collect(),
        connect_timeout: PATIENCE,
        timeout: PATIENCE,
        max_body: LARGEST,
        ..HttpOptions::from_env(env)
    };
    let http = Http::new(&options).map_err(|e| said(&e))?;
    let request = Request::get(&url).body(Bytes::new()).map_err(|e| e.to_string())?;
    let answer = http.send(request).await.map_err(|e| said(&e))?;
    if answer.status != http::StatusCode::OK {
        return Err(format!("GET {url}: {}", answer.status));
    }
    answer.json().ok_or_else(|| format!("GET {url}: the answer is no JSON"))
}

/// An error with its causes.
fn said(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(error.source(), |e| e.source());
    causes.fold(error.to_string(), |all, cause| format!("{all}: {cause}"))
}
