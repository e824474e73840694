//! A default must be a value its own schema would accept and keep.

use crate::validate::Validator;
use ek_meta::{FieldError, FieldPath};
use serde_json::{Map, Value};

pub(super) fn check(m: &Map<String, Value>, path: &FieldPath, errors: &mut Vec<FieldError>) {
    let Some(value) = m.get("default") else { return };
    let at = path.child("default");
    // Defaults of parts are checked where they stand, and rules that do not compile are reported there.
    let Ok(validator) = Validator::compile(&Value::Object(m.clone())) else { return };
    let mut kept = value.clone();
    let embedded = m.get("x-kubernetes-embedded-resource") == Some(&Value::Bool(true));
    if !crate::prune(&mut kept, validator.node(), embedded).is_empty() {
        errors.push(FieldError::invalid(&at, value.clone(), "must not have unknown fields"));
    }
    crate::default(&mut kept, validator.node());
    for mut e in validator.validate(&kept, None) {
        e.field = match e.field.as_str() {
            "" => at.to_string(),
            inner if inner.starts_with('[') => format!("{at}{inner}"),
            inner => at.child(inner).to_string(),
        };
        errors.push(e);
    }
}
