//! One entry of `x-kubernetes-validations`, checked and compiled.

use crate::cel::Program;
use ek_meta::field::ErrorKind;
use ek_meta::{FieldError, FieldPath, Node};
use serde_json::Value;

/// Whether a value here can be matched with the one it replaces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    Correlatable,
    /// Below a list that is not a map: `oldSelf` means nothing.
    Uncorrelatable,
}

#[derive(Debug)]
pub struct Rule {
    pub(super) program: Program,
    pub(super) message: Option<Box<str>>,
    pub(super) message_expression: Option<Program>,
    pub(super) reason: ErrorKind,
    pub(super) field_path: Vec<Step>,
    /// Uses `oldSelf`: runs on updates, and always then.
    pub(super) transition: bool,
    pub(super) optional_old_self: bool,
}

/// A step of `fieldPath`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Step {
    Field(Box<str>),
    Key(Box<str>),
}

const VARIABLES: [&str; 2] = ["self", "oldSelf"];
const REASONS: [&str; 4] =
    ["FieldValueDuplicate", "FieldValueForbidden", "FieldValueInvalid", "FieldValueRequired"];

impl Rule {
    /// Checks and compiles one entry for values of `node`.
    pub fn parse(v: &Value, node: Node<'_>, scope: Scope, path: &FieldPath) -> Result<Rule, Vec<FieldError>> {
        let mut errors = Vec::new();
        let text = |k: &str| v.get(k).and_then(Value::as_str);
        let source = text("rule").unwrap_or("");
        let message = text("message");
        check_texts(source, message, text("messageExpression"), path, &mut errors);

        let at = path.child("rule");
        let program = if source.trim().is_empty() {
            errors.push(FieldError::required(&at, "rule is not specified"));
            None
        } else {
            compile(source, node, "compilation failed", &at, &mut errors)
        };
        if program.as_ref().and_then(Program::static_type).is_some_and(|t| t != "bool") {
            errors.push(FieldError::invalid(&at, source, "cel expression must evaluate to a bool"));
        }
        let expression_at = path.child("messageExpression");
        let message_expression = text("messageExpression").filter(|m| !m.trim().is_empty()).and_then(|m| {
            compile(m, node, "messageExpression compilation failed", &expression_at, &mut errors)
        });
        if let Some(p) = &message_expression
            && p.static_type().is_some_and(|t| t != "string")
        {
            let detail = "messageExpression must evaluate to a string";
            errors.push(FieldError::invalid(&expression_at, p.source(), detail));
        }

        let transition = program.as_ref().is_some_and(|p| p.uses("oldSelf"));
        let optional = v.get("optionalOldSelf").and_then(Value::as_bool);
        if transition && scope == Scope::Uncorrelatable {
            let detail =
                format!("oldSelf cannot be used on the uncorrelatable portion of the schema within {path}");
            errors.push(FieldError::invalid(&at, source, detail));
        }
        if optional.is_some() && program.is_some() && !transition {
            let detail = "may not be set if oldSelf is not used in rule";
            errors.push(FieldError::invalid(&path.child("optionalOldSelf"), optional, detail));
        }
        let reason = match text("reason") {
            None | Some("") | Some("FieldValueInvalid") => ErrorKind::Invalid,
            Some("FieldValueDuplicate") => ErrorKind::Duplicate,
            Some("FieldValueForbidden") => ErrorKind::Forbidden,
            Some("FieldValueRequired") => ErrorKind::Required,
            Some(other) => {
                errors.push(FieldError::not_supported(&path.child("reason"), other, &REASONS));
                ErrorKind::Invalid
            }
        };
        let field_path = match text("fieldPath") {
            None => Vec::new(),
            Some(p) => field_path(p, node).unwrap_or_else(|e| {
                let detail = format!("fieldPath must be a valid path: {e}");
                errors.push(FieldError::invalid(&path.child("fieldPath"), p, detail));
                Vec::new()
            }),
        };
        match program {
            Some(program) if errors.is_empty() => Ok(Rule {
                program,
                message: message.map(|m| m.trim().into()),
                message_expression,
                reason,
                field_path,
                transition,
                optional_old_self: optional == Some(true),
            }),
            _ => Err(errors),
        }
    }
}

/// What can be said of a rule without compiling it.
pub fn check_choices(rule: &Value, path: &FieldPath) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let text = |k: &str| rule.get(k).and_then(Value::as_str);
    if let Some(r) = text("reason").filter(|r| !r.is_empty() && !REASONS.contains(r)) {
        errors.push(FieldError::not_supported(&path.child("reason"), r, &REASONS));
    }
    if let Some(p) = text("fieldPath").filter(|p| !p.starts_with(['.', '['])) {
        errors.push(FieldError::invalid(&path.child("fieldPath"), p, "must be a valid path"));
    }
    errors
}

fn check_texts(
    rule: &str,
    message: Option<&str>,
    expression: Option<&str>,
    path: &FieldPath,
    errors: &mut Vec<FieldError>,
) {
    let at = path.child("message");
    match message {
        Some(m) if m.trim().is_empty() && !m.is_empty() => {
            errors.push(FieldError::invalid(&at, m, "message must be non-empty if specified"));
        }
        Some(m) if m.trim().contains('\n') => {
            errors.push(FieldError::invalid(&at, m, "message must not contain line breaks"));
        }
        None | Some("") if rule.trim().contains('\n') && expression.is_none() => {
            errors.push(FieldError::required(&at, "message must be specified if rule contains line breaks"));
        }
        _ => {}
    }
    if expression.is_some_and(|e| e.trim().is_empty()) {
        let detail = "messageExpression must be non-empty if specified";
        errors.push(FieldError::required(&path.child("messageExpression"), detail));
    }
}

fn compile(
    source: &str,
    node: Node<'_>,
    prefix: &str,
    path: &FieldPath,
    errors: &mut Vec<FieldError>,
) -> Option<Program> {
    match Program::compile_with(source, Some(&VARIABLES)) {
        Ok(program) => {
            let undefined = program.undefined_fields(&[("self", node), ("oldSelf", node)]);
            if undefined.is_empty() {
                return Some(program);
            }
            let all: Vec<String> = undefined.into_iter().map(|u| u.message).collect();
            errors.push(FieldError::invalid(path, source, format!("{prefix}: {}", all.join("\n"))));
            None
        }
        Err(e) => {
            errors.push(FieldError::invalid(path, source, format!("{prefix}: {e}")));
            None
        }
    }
}

/// Reads `.spec.names['a-b']` and follows it through the schema.
fn field_path(p: &str, node: Node<'_>) -> Result<Vec<Step>, String> {
    let mut steps = Vec::new();
    let mut at = Some(node);
    let mut rest = p;
    while !rest.is_empty() {
        let (name, tail) = if let Some(r) = rest.strip_prefix("['") {
            let end = r.find("']").ok_or("expected ']'")?;
            (r[..end].to_owned(), &r[end + 2..])
        } else if let Some(r) = rest.strip_prefix('.') {
            let end = r.find(['.', '[']).unwrap_or(r.len());
            (r[..end].to_owned(), &r[end..])
        } else {
            return Err(format!("expected [ or . but got: {rest}"));
        };
        if name.is_empty() {
            return Err("unexpected end of JSON path".to_owned());
        }
        let Some(here) = at else { return Err(format!("does not refer to a valid field: {name}")) };
        let declared = here.property(&name);
        match (&declared, here.field(&name)) {
            (Some(_), _) => steps.push(Step::Field(name.as_str().into())),
            (None, Some(_)) => steps.push(Step::Key(name.as_str().into())),
            (None, None) => return Err(format!("does not refer to a valid field: {name}")),
        }
        at = here.field(&name);
        rest = tail;
    }
    if steps.is_empty() { Err("must not be empty".to_owned()) } else { Ok(steps) }
}
