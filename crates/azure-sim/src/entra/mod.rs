//! Entra ID: discovery, keys, tokens.
//!
//! Tokens are RS256 because the official clients and services accept nothing else. The RSA key is made by
//! aws-lc (through rcgen); no pure-Rust RSA, which has an open timing advisory. All times are checked against the
//! injected clock.

mod assertion;
mod error;
mod fetch;
mod keys;
mod managed;
mod msi;
mod token;

pub use error::Refusal;
pub use fetch::{FetchError, HttpsIssuers, Issuers};
pub use keys::{Caller, KeyError, Keys, peek};
pub use managed::{Asked, app_service_secret, metadata, token_for_machine};
pub use msi::{
    is_audience as is_identity_audience, keys_for as identity_keys, serve as identity_service,
    url as identity_url,
};
pub use token::exchange;

use serde_json::{Value, json};

/// Whether the path of a login URL names the tenant there is.
pub fn is_tenant(id: &str, given: &str) -> bool {
    [id, "zaffre.test", "organizations", "common"].iter().any(|t| t.eq_ignore_ascii_case(given))
}

/// `/{tenant}[/v2.0]/.well-known/openid-configuration`.
pub fn discovery(base: &str, tenant: &str, v2: bool) -> Value {
    let at = format!("{base}/{tenant}");
    let (token, issuer) = match v2 {
        true => (format!("{at}/oauth2/v2.0/token"), format!("{at}/v2.0")),
        false => (format!("{at}/oauth2/token"), format!("https://sts.windows.net/{tenant}/")),
    };
    json!({
        "token_endpoint": token,
        "token_endpoint_auth_methods_supported": ["client_secret_post", "private_key_jwt", "client_secret_basic"],
        "jwks_uri": format!("{at}/discovery/v2.0/keys"),
        "response_modes_supported": ["query", "fragment", "form_post"],
        "subject_types_supported": ["pairwise"],
        "id_token_signing_alg_values_supported": ["RS256"],
        "response_types_supported": ["code", "id_token", "code id_token", "id_token token"],
        "scopes_supported": ["openid", "profile", "email", "offline_access"],
        "issuer": issuer,
        "request_uri_parameter_supported": false,
        "authorization_endpoint": format!("{at}/oauth2/v2.0/authorize"),
        "device_authorization_endpoint": format!("{at}/oauth2/v2.0/devicecode"),
        "http_logout_supported": true,
        "end_session_endpoint": format!("{at}/oauth2/v2.0/logout"),
        "claims_supported": ["sub", "iss", "aud", "exp", "iat", "tid", "ver"],
        "tenant_region_scope": "NA",
        "cloud_instance_name": "microsoftonline.com",
        "cloud_graph_host_name": "graph.windows.net",
        "msgraph_host": "graph.microsoft.com",
    })
}

/// `/common/discovery/instance`: which hosts are one authority.
pub fn instance(base: &str, tenant: &str) -> Value {
    let host = base.trim_start_matches("https://");
    let mut metadata = vec![json!({
        "preferred_network": "login.microsoftonline.com", "preferred_cache": "login.windows.net",
        "aliases": ["login.microsoftonline.com", "login.windows.net", "login.microsoft.com", "sts.windows.net"],
    })];
    if !host.ends_with(".com") {
        metadata.push(json!({"preferred_network": host, "preferred_cache": host, "aliases": [host]}));
    }
    json!({
        "tenant_discovery_endpoint": format!("{base}/{tenant}/v2.0/.well-known/openid-configuration"),
        "api-version": "1.1", "metadata": metadata,
    })
}
