//! Field errors: what is wrong, where, and how Kubernetes words it.
//!
//! The texts are contracts: kubectl prints them, and tests of real clients match on them.

use crate::status::Cause;
use serde_json::Value;
use std::fmt;

/// A path into an object, printed `spec.containers[0].name` or `data[key]`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FieldPath(String);

impl FieldPath {
    pub fn root() -> Self {
        FieldPath(String::new())
    }

    pub fn new(path: impl Into<String>) -> Self {
        FieldPath(path.into())
    }

    pub fn child(&self, name: &str) -> Self {
        if self.0.is_empty() { FieldPath(name.to_owned()) } else { FieldPath(format!("{}.{name}", self.0)) }
    }

    pub fn index(&self, i: usize) -> Self {
        FieldPath(format!("{}[{i}]", self.0))
    }

    pub fn key(&self, key: &str) -> Self {
        FieldPath(format!("{}[{key}]", self.0))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for FieldPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The closed list of things that can be wrong with a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorKind {
    NotFound,
    Required,
    Duplicate,
    Invalid,
    NotSupported,
    Forbidden,
    TooLong,
    TooMany,
    TypeInvalid,
    Internal,
}

impl ErrorKind {
    /// `reason` of a Status cause.
    pub fn cause_reason(self) -> &'static str {
        match self {
            ErrorKind::NotFound => "FieldValueNotFound",
            ErrorKind::Required => "FieldValueRequired",
            ErrorKind::Duplicate => "FieldValueDuplicate",
            ErrorKind::Invalid => "FieldValueInvalid",
            ErrorKind::NotSupported => "FieldValueNotSupported",
            ErrorKind::Forbidden => "FieldValueForbidden",
            ErrorKind::TooLong => "FieldValueTooLong",
            ErrorKind::TooMany => "FieldValueTooMany",
            ErrorKind::TypeInvalid => "FieldValueTypeInvalid",
            ErrorKind::Internal => "InternalError",
        }
    }

    fn text(self) -> &'static str {
        match self {
            ErrorKind::NotFound => "Not found",
            ErrorKind::Required => "Required value",
            ErrorKind::Duplicate => "Duplicate value",
            ErrorKind::Invalid => "Invalid value",
            ErrorKind::NotSupported => "Unsupported value",
            ErrorKind::Forbidden => "Forbidden",
            ErrorKind::TooLong => "Too long",
            ErrorKind::TooMany => "Too many",
            ErrorKind::TypeInvalid => "Invalid value",
            ErrorKind::Internal => "Internal error",
        }
    }
}

/// One thing wrong with one field.
#[derive(Clone, Debug, PartialEq)]
pub struct FieldError {
    pub kind: ErrorKind,
    pub field: String,
    /// Shown for kinds that quote the value; `None` prints nothing.
    pub value: Option<Value>,
    pub detail: String,
}

impl FieldError {
    fn new(kind: ErrorKind, field: &FieldPath, value: Option<Value>, detail: impl Into<String>) -> Self {
        FieldError { kind, field: field.to_string(), value, detail: detail.into() }
    }

    pub fn invalid(field: &FieldPath, value: impl Into<Value>, detail: impl Into<String>) -> Self {
        Self::new(ErrorKind::Invalid, field, Some(value.into()), detail)
    }

    pub fn type_invalid(field: &FieldPath, value: impl Into<Value>, detail: impl Into<String>) -> Self {
        Self::new(ErrorKind::TypeInvalid, field, Some(value.into()), detail)
    }

    pub fn required(field: &FieldPath, detail: impl Into<String>) -> Self {
        Self::new(ErrorKind::Required, field, None, detail)
    }

    pub fn forbidden(field: &FieldPath, detail: impl Into<String>) -> Self {
        Self::new(ErrorKind::Forbidden, field, None, detail)
    }

    pub fn duplicate(field: &FieldPath, value: impl Into<Value>) -> Self {
        Self::new(ErrorKind::Duplicate, field, Some(value.into()), "")
    }

    pub fn not_found(field: &FieldPath, value: impl Into<Value>) -> Self {
        Self::new(ErrorKind::NotFound, field, Some(value.into()), "")
    }

    pub fn internal(field: &FieldPath, detail: impl Into<String>) -> Self {
        Self::new(ErrorKind::Internal, field, None, detail)
    }

    /// `supported` is printed in the given order, each in quotes.
    pub fn not_supported(field: &FieldPath, value: impl Into<Value>, supported: &[&str]) -> Self {
        let list = supported.iter().map(|s| format!("\"{s}\"")).collect::<Vec<_>>().join(", ");
        let detail = if list.is_empty() { String::new() } else { format!("supported values: {list}") };
        Self::new(ErrorKind::NotSupported, field, Some(value.into()), detail)
    }

    /// A string longer than `max` bytes.
    pub fn too_long(field: &FieldPath, max: usize) -> Self {
        Self::new(ErrorKind::TooLong, field, None, format!("may not be more than {max} bytes"))
    }

    /// A list of `actual` items where `max` are allowed.
    pub fn too_many(field: &FieldPath, actual: usize, max: usize) -> Self {
        Self::new(
            ErrorKind::TooMany,
            field,
            Some(Value::from(actual)),
            format!("must have at most {max} items"),
        )
    }

    /// The message without the leading field path: what a Status cause carries.
    pub fn body(&self) -> String {
        let mut out = String::from(self.kind.text());
        let quotes = !matches!(
            self.kind,
            ErrorKind::Required | ErrorKind::Forbidden | ErrorKind::TooLong | ErrorKind::Internal
        );
        if quotes && let Some(v) = &self.value {
            out.push_str(": ");
            out.push_str(&quote(v));
        }
        if !self.detail.is_empty() {
            out.push_str(": ");
            out.push_str(&self.detail);
        }
        out
    }

    pub fn cause(&self) -> Cause {
        Cause {
            reason: Some(self.kind.cause_reason().to_owned()),
            message: Some(self.body()),
            field: Some(self.field.clone()),
        }
    }
}

/// Strings in quotes, scalars bare, structures as JSON.
fn quote(v: &Value) -> String {
    match v {
        Value::String(s) => format!("{s:?}"),
        other => other.to_string(),
    }
}

impl fmt::Display for FieldError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", if self.field.is_empty() { "<nil>" } else { &self.field }, self.body())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_what_clients_match_on() {
        let p = FieldPath::root().child("spec").child("ports").index(0).child("port");
        assert_eq!(
            FieldError::invalid(&p, 0, "must be between 1 and 65535, inclusive").to_string(),
            "spec.ports[0].port: Invalid value: 0: must be between 1 and 65535, inclusive"
        );
        assert_eq!(FieldError::required(&p, "").to_string(), "spec.ports[0].port: Required value");
        assert_eq!(
            FieldError::not_supported(&p, "x", &["A", "B"]).to_string(),
            "spec.ports[0].port: Unsupported value: \"x\": supported values: \"A\", \"B\""
        );
    }
}
