//! What is wrong with the CEL of webhook configurations and admission policies, found when they are written.

use ek_meta::schema::{Definitions, Node, Schema};
use ek_meta::{FieldError, FieldPath, names};
use ek_schema::cel::Program;
use serde_json::{Map, Value, json};

/// What the authorizer and what it leads to can be asked.
const METHODS: [&str; 14] = [
    "path",
    "group",
    "serviceAccount",
    "resource",
    "subresource",
    "namespace",
    "name",
    "fieldSelector",
    "labelSelector",
    "check",
    "allowed",
    "errored",
    "reason",
    "error",
];
const MATCH_VARIABLES: [&str; 5] = ["object", "oldObject", "request", "namespaceObject", "authorizer"];

/// Everything wrong with the expressions of an object of `admissionregistration.k8s.io`.
pub fn validate(plural: &str, obj: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let list = |v: &Value, k: &str| v[k].as_array().cloned().unwrap_or_default();
    match plural {
        "validatingwebhookconfigurations" | "mutatingwebhookconfigurations" => {
            for (i, w) in list(obj, "webhooks").iter().enumerate() {
                let at = FieldPath::new("webhooks").index(i).child("matchConditions");
                conditions(&list(w, "matchConditions"), &at, &MATCH_VARIABLES, &mut errors);
            }
        }
        "validatingadmissionpolicies" => policy(obj, &mut errors),
        _ => {}
    }
    errors
}

fn conditions(all: &[Value], path: &FieldPath, variables: &[&str], errors: &mut Vec<FieldError>) {
    for (i, c) in all.iter().enumerate() {
        let scope = Scope { variables, composed: &Value::Null };
        scope.check(&c["expression"], &path.index(i).child("expression"), &["bool"], errors);
    }
}

fn policy(obj: &Value, errors: &mut Vec<FieldError>) {
    let spec = &obj["spec"];
    let at = |f: &str| FieldPath::new("spec").child(f);
    let list = |k: &str| spec[k].as_array().map(Vec::as_slice).unwrap_or_default();
    let mut variables = MATCH_VARIABLES.to_vec();
    if spec["paramKind"].is_object() {
        variables.push("params");
    }
    conditions(list("matchConditions"), &at("matchConditions"), &variables, errors);
    variables.push("variables");
    // Each variable sees those before it; a validation sees all.
    let mut composed = json!({"type": "object", "properties": {}});
    for (i, v) in list("variables").iter().enumerate() {
        let path = at("variables").index(i);
        let name = v["name"].as_str().unwrap_or_default();
        if !name.is_empty() && !is_identifier(name) {
            errors.push(FieldError::invalid(&path.child("name"), name, "must be a valid CEL identifier"));
        }
        let scope = Scope { variables: &variables, composed: &composed };
        scope.check(&v["expression"], &path.child("expression"), &[], errors);
        composed["properties"][name] = Value::Object(Map::new());
    }
    let scope = Scope { variables: &variables, composed: &composed };
    for (i, v) in list("validations").iter().enumerate() {
        let path = at("validations").index(i);
        scope.check(&v["expression"], &path.child("expression"), &["bool"], errors);
        scope.check(&v["messageExpression"], &path.child("messageExpression"), &["string"], errors);
        if let Some(m) = v["message"].as_str().filter(|m| m.trim().contains('\n')) {
            errors.push(FieldError::invalid(&path.child("message"), m, "must not contain line breaks"));
        }
    }
    let policy = ek_meta::object::name(obj);
    for (i, a) in list("auditAnnotations").iter().enumerate() {
        let path = at("auditAnnotations").index(i);
        let key = format!("{policy}/{}", a["key"].as_str().unwrap_or_default());
        for m in names::qualified_name(&key) {
            errors.push(FieldError::invalid(&path.child("key"), key.as_str(), m));
        }
        let vp = path.child("valueExpression");
        if a["valueExpression"].as_str().is_none_or(|e| e.trim().is_empty()) {
            errors.push(FieldError::required(&vp, "valueExpression is not specified"));
        }
        scope.check(&a["valueExpression"], &vp, &["string", "null_type"], errors);
    }
}

fn is_identifier(s: &str) -> bool {
    let mut chars = s.chars();
    chars.next().is_some_and(|c| c.is_ascii_alphabetic() || c == '_')
        && chars.all(|c| c.is_ascii_alphanumeric() || c == '_')
}

/// What an expression may mention.
struct Scope<'a> {
    variables: &'a [&'a str],
    /// The schema of `variables`.
    composed: &'a Value,
}

impl Scope<'_> {
    /// Compiles an expression, unless it is missing, which is another rule's business. `types` are those it may
    /// have; none means any.
    fn check(&self, expression: &Value, path: &FieldPath, types: &[&str], errors: &mut Vec<FieldError>) {
        let Some(source) = expression.as_str().filter(|e| !e.trim().is_empty()) else { return };
        let mut wrong = |why: String| errors.push(FieldError::invalid(path, source, why));
        let program = match Program::compile_scoped(source, Some(self.variables), &METHODS) {
            Ok(p) => p,
            Err(e) => return wrong(format!("compilation failed: {e}")),
        };
        let schema = Schema::parse(self.composed, &|_| None);
        if self.composed.is_object() {
            let node = Node::new(&schema, Definitions::empty());
            if let Some(u) = program.undefined_fields(&[("variables", node)]).into_iter().next() {
                return wrong(format!("compilation failed: {}", u.message));
            }
        }
        match (program.static_type(), types) {
            (None, _) | (_, []) => {}
            (Some(t), types) if types.contains(&t) => {}
            (Some(t), [one]) => wrong(format!("must evaluate to {one} but got {t}")),
            (Some(t), many) => wrong(format!("must evaluate to one of [{}] but got {t}", many.join(" "))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wrong(spec: Value) -> Vec<String> {
        let obj = json!({"metadata": {"name": "p"}, "spec": spec});
        validate("validatingadmissionpolicies", &obj)
            .iter()
            .map(|e| format!("{}: {}", e.field, e.detail))
            .collect()
    }

    #[test]
    fn expressions_are_compiled_in_their_scope() {
        let ok = json!({"paramKind": {}, "variables": [{"name": "v", "expression": "object.x"}, {"name": "w", "expression": "variables.v"}],
            "matchConditions": [{"expression": "authorizer.group('').resource('pods').check('get').allowed()"}],
            "validations": [{"expression": "variables.w == params.x", "messageExpression": "'no ' + request.name"}],
            "auditAnnotations": [{"key": "k", "valueExpression": "null"}]});
        assert_eq!(wrong(ok), Vec::<String>::new());
        let bad = json!({"variables": [{"name": "1x", "expression": "variables.late"}],
            "matchConditions": [{"expression": "1"}],
            "validations": [{"expression": "params.x"}, {"expression": "object.nope()"}],
            "auditAnnotations": [{"key": "k", "valueExpression": "1"}]});
        let got = wrong(bad);
        let want = [
            "spec.matchConditions[0].expression: must evaluate to bool but got int",
            "spec.variables[0].name: must be a valid CEL identifier",
            "spec.variables[0].expression: compilation failed: ERROR: <input>:1:10: undefined field 'late'",
            "spec.validations[0].expression: compilation failed: ERROR: <input>:1:1: undeclared reference to 'params'",
            "spec.validations[1].expression: compilation failed: ERROR: <input>:1:12: undeclared reference to 'nope'",
            "spec.auditAnnotations[0].valueExpression: must evaluate to one of [string null_type] but got int",
        ];
        assert_eq!(got.len(), want.len(), "{got:#?}");
        for (got, want) in got.iter().zip(want) {
            assert!(got.starts_with(want), "{got} should start with {want}");
        }
    }
}
