//! Error bodies: `{"error":{"code","message","target"?,"details"?,"innererror"?,"additionalInfo"?}}`.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// Codes that clients branch on; the spelling is the contract.
pub mod code {
    pub const AUTHENTICATION_FAILED: &str = "AuthenticationFailed";
    pub const INVALID_AUTHENTICATION_TOKEN: &str = "InvalidAuthenticationToken";
    pub const EXPIRED_AUTHENTICATION_TOKEN: &str = "ExpiredAuthenticationToken";
    pub const INVALID_AUTHENTICATION_TOKEN_TENANT: &str = "InvalidAuthenticationTokenTenant";
    pub const SUBSCRIPTION_NOT_FOUND: &str = "SubscriptionNotFound";
    pub const INVALID_SUBSCRIPTION_ID: &str = "InvalidSubscriptionId";
    pub const MISSING_API_VERSION: &str = "MissingApiVersionParameter";
    pub const INVALID_API_VERSION: &str = "InvalidApiVersionParameter";
    pub const NO_REGISTERED_PROVIDER: &str = "NoRegisteredProviderFound";
    pub const INVALID_RESOURCE_NAMESPACE: &str = "InvalidResourceNamespace";
    pub const INVALID_RESOURCE_TYPE: &str = "InvalidResourceType";
    pub const THROTTLED: &str = "SubscriptionRequestsThrottled";
    pub const AUTHORIZATION_FAILED: &str = "AuthorizationFailed";
    pub const LINKED_AUTHORIZATION_FAILED: &str = "LinkedAuthorizationFailed";
    pub const MISSING_SUBSCRIPTION_REGISTRATION: &str = "MissingSubscriptionRegistration";
    pub const RESOURCE_GROUP_NOT_FOUND: &str = "ResourceGroupNotFound";
    pub const RESOURCE_GROUP_BEING_DELETED: &str = "ResourceGroupBeingDeleted";
    pub const PARENT_RESOURCE_NOT_FOUND: &str = "ParentResourceNotFound";
    pub const RESOURCE_NOT_FOUND: &str = "ResourceNotFound";
    pub const NOT_FOUND: &str = "NotFound";
    pub const SCOPE_LOCKED: &str = "ScopeLocked";
    pub const INVALID_REQUEST_CONTENT: &str = "InvalidRequestContent";
    pub const INVALID_REQUEST_FORMAT: &str = "InvalidRequestFormat";
    pub const PRECONDITION_FAILED: &str = "PreconditionFailed";
    pub const RETRYABLE_ERROR: &str = "RetryableError";
    pub const INVALID_RESOURCE_REFERENCE: &str = "InvalidResourceReference";
}

/// The body of a refused request.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ErrorBody {
    pub error: ErrorDetail,
}

/// One error, possibly with its causes below it. Unknown fields are kept.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ErrorDetail {
    #[serde(default)]
    pub code: String,
    #[serde(default)]
    pub message: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub details: Option<Vec<ErrorDetail>>,
    #[serde(flatten)]
    pub other: Map<String, Value>,
}

impl ErrorDetail {
    pub fn new(code: impl Into<String>, message: impl Into<String>) -> ErrorDetail {
        ErrorDetail { code: code.into(), message: message.into(), ..ErrorDetail::default() }
    }

    pub fn with_detail(mut self, detail: ErrorDetail) -> ErrorDetail {
        self.details.get_or_insert_default().push(detail);
        self
    }

    pub fn with_target(mut self, target: impl Into<String>) -> ErrorDetail {
        self.target = Some(target.into());
        self
    }

    /// The code itself, or any code below it.
    pub fn has_code(&self, code: &str) -> bool {
        self.code == code || self.details.iter().flatten().any(|d| d.has_code(code))
    }
}

impl ErrorBody {
    pub fn new(code: impl Into<String>, message: impl Into<String>) -> ErrorBody {
        ErrorBody { error: ErrorDetail::new(code, message) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_what_it_does_not_know() {
        let text = r#"{"error":{"code":"RetryableError","message":"m","details":[{"code":"Inner","message":"n"}],"innererror":{"trace":"x"},"additionalInfo":[{"type":"PolicyViolation","info":{}}]}}"#;
        let body: ErrorBody = serde_json::from_str(text).unwrap();
        assert!(body.error.has_code("Inner") && !body.error.has_code("Other"));
        assert_eq!(serde_json::to_string(&body).unwrap(), text);
        let bare: ErrorBody = serde_json::from_str(r#"{"error":{}}"#).unwrap();
        assert_eq!(bare.error, ErrorDetail::default());
    }
}
