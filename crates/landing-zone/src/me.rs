//! Who asks: read from the token that Azure will check.

use crate::Error;
use azure::Client;
use azure::credential::TokenRequest;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::Value;

/// Who a token is made out to: its claims are read, not trusted; Azure checks the signature.
pub(crate) fn claims(token: &str) -> Value {
    let part = token.split('.').nth(1).unwrap_or_default();
    let bytes = URL_SAFE_NO_PAD.decode(part.trim_end_matches('=')).unwrap_or_default();
    serde_json::from_slice(&bytes).unwrap_or_default()
}

/// The account that works.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Me {
    /// Object id of the principal.
    pub object: String,
    pub tenant: String,
    /// People are assigned roles as people.
    pub kind: &'static str,
}

pub async fn who(client: &Client) -> Result<Me, Error> {
    let scope = format!("{}/.default", client.cloud().arm_audience);
    let token = client.credential().token(&TokenRequest::new(scope)).await;
    let token = token.map_err(|e| Error::Token(Box::new(e)))?;
    let c = claims(token.secret.expose());
    let (Some(object), Some(tenant)) = (c["oid"].as_str(), c["tid"].as_str()) else {
        return Err(Error::Nobody);
    };
    let kind = if c["idtyp"] == "user" || c["upn"].is_string() { "User" } else { "ServicePrincipal" };
    Ok(Me { object: object.to_owned(), tenant: tenant.to_owned(), kind })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn claims_are_read_without_padding() {
        // {"oid":"o?>~"} has characters of the URL alphabet.
        assert_eq!(claims("x.eyJvaWQiOiJvPz5-In0.y")["oid"], "o?>~");
        assert_eq!(claims("rubbish"), Value::Null);
    }
}
