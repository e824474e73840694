//! Refusals of the token endpoint, with the codes that clients search for.

use jiff::Timestamp;
use serde_json::{Value, json};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    pub status: u16,
    pub error: &'static str,
    pub number: u32,
    pub message: String,
}

impl Refusal {
    fn new(status: u16, error: &'static str, number: u32, message: String) -> Refusal {
        Refusal { status, error, number, message }
    }

    pub fn tenant(tenant: &str) -> Refusal {
        Refusal::new(
            400,
            "invalid_request",
            90002,
            format!(
                "Tenant '{tenant}' not found. Check to make sure you have the correct tenant ID and are signing into the correct cloud."
            ),
        )
    }

    pub fn missing(field: &str) -> Refusal {
        Refusal::new(
            400,
            "invalid_request",
            900_144,
            format!("The request body must contain the following parameter: '{field}'."),
        )
    }

    pub fn grant(given: &str) -> Refusal {
        Refusal::new(
            400,
            "unsupported_grant_type",
            70003,
            format!("The app requested an unsupported grant type '{given}'."),
        )
    }

    pub fn unknown_app(client: &str, tenant: &str) -> Refusal {
        Refusal::new(
            400,
            "unauthorized_client",
            700_016,
            format!(
                "Application with identifier '{client}' was not found in the directory '{tenant}'. This can happen if the application has not been installed by the administrator of the tenant or consented to by any user in the tenant. You may have sent your authentication request to the wrong tenant."
            ),
        )
    }

    pub fn disabled(client: &str) -> Refusal {
        Refusal::new(400, "unauthorized_client", 7_000_112, format!("Application '{client}' is disabled."))
    }

    pub fn bad_secret(client: &str) -> Refusal {
        Refusal::new(
            401,
            "invalid_client",
            7_000_215,
            format!(
                "Invalid client secret provided. Ensure the secret being sent in the request is the client secret value, not the client secret ID, for a secret added to app '{client}'."
            ),
        )
    }

    pub fn expired_secret(client: &str) -> Refusal {
        Refusal::new(
            401,
            "invalid_client",
            7_000_222,
            format!("The provided client secret keys for app '{client}' are expired."),
        )
    }

    pub fn no_credential() -> Refusal {
        Refusal::new(
            401,
            "invalid_client",
            7_000_218,
            "The request body must contain the following parameter: 'client_assertion' or 'client_secret'."
                .into(),
        )
    }

    pub fn resource(resource: &str, tenant: &str) -> Refusal {
        Refusal::new(
            400,
            "invalid_resource",
            500_011,
            format!("The resource principal named {resource} was not found in the tenant named {tenant}."),
        )
    }

    pub fn assertion(why: &str) -> Refusal {
        Refusal::new(
            401,
            "invalid_client",
            700_027,
            format!(
                "The certificate with identifier used to sign the client assertion is not registered on application, or the assertion's signature does not verify: {why}."
            ),
        )
    }

    pub fn expired_certificate(client: &str) -> Refusal {
        Refusal::new(
            401,
            "invalid_client",
            700_027,
            format!(
                "The certificate with identifier used to sign the client assertion is expired on application '{client}'. [Reason - The key used is expired.]"
            ),
        )
    }

    pub fn window(now: Timestamp) -> Refusal {
        Refusal::new(
            401,
            "invalid_client",
            700_024,
            format!("Client assertion is not within its valid time range. Current time: {now}."),
        )
    }

    pub fn issuer(issuer: &str) -> Refusal {
        Refusal::new(
            401,
            "invalid_client",
            700_211,
            format!(
                "No matching federated identity record found for presented assertion issuer '{issuer}'. Please check your federated identity credential Subject, Audience and Issuer against the presented assertion."
            ),
        )
    }

    pub fn audience(audience: &str) -> Refusal {
        Refusal::new(
            401,
            "invalid_client",
            700_212,
            format!(
                "No matching federated identity record found for presented assertion audience '{audience}'. Please check your federated identity credential Subject, Audience and Issuer against the presented assertion."
            ),
        )
    }

    pub fn subject(subject: &str) -> Refusal {
        Refusal::new(
            401,
            "invalid_client",
            700_213,
            format!(
                "No matching federated identity record found for presented assertion subject '{subject}'. Please check your federated identity credential Subject, Audience and Issuer against the presented assertion."
            ),
        )
    }

    pub fn subject_case(subject: &str) -> Refusal {
        Refusal::new(
            401,
            "invalid_client",
            7_002_138,
            format!(
                "No matching federated identity record found for presented assertion subject '{subject}': it differs from a record only by case."
            ),
        )
    }

    pub fn unreachable(issuer: &str) -> Refusal {
        Refusal::new(
            401,
            "invalid_client",
            50166,
            format!("Request to External OIDC endpoint of issuer '{issuer}' failed."),
        )
    }

    /// The body, as the real endpoint writes it.
    pub fn json(&self, trace: &str, correlation: &str, now: Timestamp) -> Value {
        let at = now.strftime("%Y-%m-%d %H:%M:%SZ").to_string();
        json!({
            "error": self.error,
            "error_description": format!("AADSTS{}: {} Trace ID: {trace} Correlation ID: {correlation} Timestamp: {at}", self.number, self.message),
            "error_codes": [self.number], "timestamp": at, "trace_id": trace, "correlation_id": correlation,
            "error_uri": format!("https://login.microsoftonline.com/error?code={}", self.number),
        })
    }
}
