//! `Status`: the one shape of every failure on the wire, and the constructors that give it the exact reason,
//! code and message clients match on.

use crate::field::FieldError;
use serde::{Deserialize, Serialize};
use std::fmt;

/// Machine-readable reasons; the names are the wire values.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Reason {
    Unauthorized,
    Forbidden,
    NotFound,
    AlreadyExists,
    Conflict,
    Gone,
    Invalid,
    ServerTimeout,
    StoreReadError,
    Timeout,
    TooManyRequests,
    BadRequest,
    MethodNotAllowed,
    NotAcceptable,
    RequestEntityTooLarge,
    UnsupportedMediaType,
    InternalError,
    Expired,
    ServiceUnavailable,
    /// In somebody else's words: a webhook's.
    #[serde(untagged)]
    Other(Box<str>),
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cause {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub field: Option<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Details {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uid: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub causes: Vec<Cause>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_after_seconds: Option<u32>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ListMeta {
    #[serde(default, rename = "continue", skip_serializing_if = "Option::is_none")]
    pub continue_token: Option<String>,
}

/// A failure (or, for deletions, a success) as the API reports it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Status {
    pub kind: String,
    pub api_version: String,
    #[serde(default)]
    pub metadata: ListMeta,
    pub status: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<Reason>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub details: Option<Box<Details>>,
    #[serde(default)]
    pub code: u16,
}

impl Status {
    pub fn failure(code: u16, reason: Reason, message: impl Into<String>) -> Status {
        Status {
            kind: "Status".into(),
            api_version: "v1".into(),
            metadata: ListMeta::default(),
            status: "Failure".into(),
            message: message.into(),
            reason: Some(reason),
            details: None,
            code,
        }
    }

    pub fn success(details: Details) -> Status {
        Status {
            status: "Success".into(),
            reason: None,
            details: Some(Box::new(details)),
            code: 200,
            ..Status::failure(200, Reason::InternalError, "")
        }
    }

    pub fn about(mut self, group: &str, kind: &str, name: &str) -> Status {
        let d = self.details.get_or_insert_default();
        d.name = Some(name.to_owned()).filter(|s| !s.is_empty());
        d.group = Some(group.to_owned()).filter(|s| !s.is_empty());
        d.kind = Some(kind.to_owned()).filter(|s| !s.is_empty());
        self
    }

    pub fn with_cause(mut self, reason: &str, message: &str, field: &str) -> Status {
        let some = |s: &str| Some(s.to_owned()).filter(|s| !s.is_empty());
        self.details.get_or_insert_default().causes.push(Cause {
            reason: some(reason),
            message: some(message),
            field: some(field),
        });
        self
    }

    pub fn retry_after(mut self, seconds: u32) -> Status {
        self.details.get_or_insert_default().retry_after_seconds = Some(seconds);
        self
    }

    pub fn not_found(group: &str, resource: &str, name: &str) -> Status {
        let gr = crate::gvk::group_resource(group, resource);
        Status::failure(404, Reason::NotFound, format!("{gr} \"{name}\" not found"))
            .about(group, resource, name)
    }

    pub fn already_exists(group: &str, resource: &str, name: &str) -> Status {
        let gr = crate::gvk::group_resource(group, resource);
        Status::failure(409, Reason::AlreadyExists, format!("{gr} \"{name}\" already exists"))
            .about(group, resource, name)
    }

    /// `why` is the inner error, e.g. the text about a modified object.
    pub fn conflict(group: &str, resource: &str, name: &str, why: &str) -> Status {
        let gr = crate::gvk::group_resource(group, resource);
        Status::failure(
            409,
            Reason::Conflict,
            format!("Operation cannot be fulfilled on {gr} \"{name}\": {why}"),
        )
        .about(group, resource, name)
    }

    /// Someone else wrote the object since the client read it.
    pub fn modified(group: &str, resource: &str, name: &str) -> Status {
        Status::conflict(
            group,
            resource,
            name,
            "the object has been modified; please apply your changes to the latest version and try again",
        )
    }

    pub fn forbidden(group: &str, resource: &str, name: &str, why: &str) -> Status {
        let gr = crate::gvk::group_resource(group, resource);
        let message = match (gr.is_empty(), name.is_empty()) {
            (true, _) => format!("forbidden: {why}"),
            (false, true) => format!("{gr} is forbidden: {why}"),
            (false, false) => format!("{gr} \"{name}\" is forbidden: {why}"),
        };
        Status::failure(403, Reason::Forbidden, message).about(group, resource, name)
    }

    /// `kind` is the Kind here, not the resource: that is how validation errors differ from storage errors.
    pub fn invalid(group: &str, kind: &str, name: &str, errors: &[FieldError]) -> Status {
        let gk = crate::gvk::group_resource(group, kind);
        let list = match errors {
            [] => String::new(),
            [one] => one.to_string(),
            many => {
                let mut seen = Vec::new();
                for e in many.iter().map(ToString::to_string) {
                    if !seen.contains(&e) {
                        seen.push(e);
                    }
                }
                if seen.len() == 1 { seen.remove(0) } else { format!("[{}]", seen.join(", ")) }
            }
        };
        let message = format!("{gk} \"{name}\" is invalid: {list}");
        let mut s = Status::failure(422, Reason::Invalid, message).about(group, kind, name);
        s.details.get_or_insert_default().causes = errors.iter().map(FieldError::cause).collect();
        s
    }

    pub fn bad_request(message: impl Into<String>) -> Status {
        Status::failure(400, Reason::BadRequest, message)
    }

    pub fn unauthorized() -> Status {
        Status::failure(401, Reason::Unauthorized, "Unauthorized")
    }

    pub fn internal(message: impl fmt::Display) -> Status {
        let text = message.to_string();
        Status::failure(500, Reason::InternalError, format!("Internal error occurred: {text}"))
            .with_cause("", &text, "")
    }

    pub fn method_not_supported(group: &str, resource: &str, verb: &str) -> Status {
        let gr = crate::gvk::group_resource(group, resource);
        Status::failure(
            405,
            Reason::MethodNotAllowed,
            format!("{verb} is not supported on resources of kind \"{gr}\""),
        )
        .about(group, resource, "")
    }

    pub fn method_not_allowed() -> Status {
        Status::failure(
            405,
            Reason::MethodNotAllowed,
            "the server does not allow this method on the requested resource",
        )
        .about("", "", "")
    }

    pub fn not_acceptable(accepted: &str) -> Status {
        Status::failure(
            406,
            Reason::NotAcceptable,
            format!("only the following media types are accepted: {accepted}"),
        )
    }

    pub fn unsupported_media_type(accepted: &str) -> Status {
        Status::failure(
            415,
            Reason::UnsupportedMediaType,
            format!(
                "the body of the request was in an unknown format - accepted media types include: {accepted}"
            ),
        )
    }

    pub fn too_large(message: impl Into<String>) -> Status {
        Status::failure(413, Reason::RequestEntityTooLarge, message)
    }

    /// The requested history is gone.
    pub fn expired(message: impl Into<String>) -> Status {
        Status::failure(410, Reason::Expired, message)
    }

    pub fn timeout(message: impl Into<String>, retry_seconds: u32) -> Status {
        Status::failure(504, Reason::Timeout, format!("Timeout: {}", message.into()))
            .retry_after(retry_seconds)
    }

    pub fn unavailable(message: impl Into<String>) -> Status {
        Status::failure(503, Reason::ServiceUnavailable, message)
    }

    pub fn too_many_requests(message: impl Into<String>, retry_seconds: u32) -> Status {
        Status::failure(429, Reason::TooManyRequests, message).retry_after(retry_seconds)
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Status {}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::field::FieldPath;

    #[test]
    fn reasons_of_others_survive() {
        for (text, want) in [("Expired", Reason::Expired), ("because", Reason::Other("because".into()))] {
            let r: Reason = serde_json::from_value(text.into()).unwrap();
            assert_eq!(r, want);
            assert_eq!(serde_json::to_value(&r).unwrap(), text);
        }
    }

    #[test]
    fn storage_errors_name_the_resource_and_validation_errors_the_kind() {
        let s = serde_json::to_value(Status::not_found("apps", "deployments", "x")).unwrap();
        assert_eq!(s["message"], "deployments.apps \"x\" not found");
        assert_eq!(s["details"]["kind"], "deployments");
        let e = FieldError::required(&FieldPath::new("spec.selector"), "");
        let s = serde_json::to_value(Status::invalid("apps", "Deployment", "x", &[e])).unwrap();
        assert_eq!(s["message"], "Deployment.apps \"x\" is invalid: spec.selector: Required value");
        assert_eq!(s["details"]["causes"][0]["reason"], "FieldValueRequired");
        assert_eq!(s["code"], 422);
    }
}
