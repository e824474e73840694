//! ValidatingAdmissionPolicy: CEL in the cluster instead of a webhook beside it.

use super::authorizer::AuthorizerHost;
use super::conditions::{Conditions, Verdict};
use super::matching::{RuleMatch, rules_match, selectors_match};
use super::{Attempt, Operation};
use crate::cluster::{Cluster, tables};
use crate::verbs::Call;
use ek_meta::gvk::GroupVersion;
use ek_meta::object;
use ek_meta::selector::LabelSelector;
use ek_meta::{Reason, Status};
use ek_schema::cel::{Budget, Program, Val, Variables};
use serde_json::{Value, json};
use std::rc::Rc;
use std::sync::Arc;

/// All expressions of one policy on one object share this.
const BUDGET: u64 = 10_000_000;

type Compiled = Result<Program, String>;

struct Validation {
    source: String,
    expression: Compiled,
    message: Option<String>,
    message_expression: Option<Compiled>,
    reason: Option<String>,
}

pub struct Policy {
    name: String,
    spec: Value,
    conditions: Conditions,
    variables: Result<Vec<(String, Program)>, String>,
    validations: Vec<Validation>,
    /// Keys of audit annotations, and what they are to say.
    annotations: Vec<(String, Compiled)>,
    bindings: Vec<Value>,
}

/// Under which the failures of validations are told to the audit log.
const AUDIT_FAILURE: &str = "validation.policy.admission.k8s.io/validation_failure";

#[derive(Default)]
pub struct Policies(Vec<Policy>);

impl Cluster {
    fn admission_policies(&self) -> Arc<Policies> {
        self.policies.get(
            || self.revisions([&tables::POLICIES, &tables::POLICY_BINDINGS]),
            |_| {
                let bindings = self.objects(&tables::POLICY_BINDINGS);
                Policies(
                    self.objects(&tables::POLICIES)
                        .into_iter()
                        .map(|p| Policy::compile(p, &bindings))
                        .collect(),
                )
            },
        )
    }
}

pub fn is_configured(cluster: &Cluster) -> bool {
    cluster.admission_policies().0.iter().any(|p| !p.bindings.is_empty())
}

fn compile(v: &Value) -> Compiled {
    Program::compile(v.as_str().unwrap_or_default()).map_err(|e| e.to_string())
}

impl Policy {
    fn compile(p: Value, bindings: &[Value]) -> Policy {
        let name = object::name(&p).to_owned();
        let spec = p["spec"].clone();
        let list = |f: &str| spec[f].as_array().cloned().unwrap_or_default();
        let variables = list("variables")
            .iter()
            .map(|v| Ok((v["name"].as_str().unwrap_or_default().to_owned(), compile(&v["expression"])?)))
            .collect();
        let validations = list("validations")
            .iter()
            .map(|v| Validation {
                source: v["expression"].as_str().unwrap_or_default().to_owned(),
                expression: compile(&v["expression"]),
                message: v["message"].as_str().filter(|m| !m.is_empty()).map(str::to_owned),
                message_expression: v.get("messageExpression").filter(|m| m.is_string()).map(compile),
                reason: v["reason"].as_str().map(str::to_owned),
            })
            .collect();
        let annotations = list("auditAnnotations")
            .iter()
            .map(|a| {
                let key = format!("{name}/{}", a["key"].as_str().unwrap_or_default());
                (key, compile(&a["valueExpression"]))
            })
            .collect();
        Policy {
            annotations,
            conditions: Conditions::compile(&spec["matchConditions"]),
            bindings: bindings.iter().filter(|b| b["spec"]["policyName"] == name.as_str()).cloned().collect(),
            name,
            variables,
            validations,
            spec,
        }
    }

    /// `matchConstraints` of the policy or `matchResources` of a binding.
    fn selects(constraints: &Value, a: &Attempt<'_>, absent: bool) -> bool {
        if constraints.is_null() {
            return absent;
        }
        let equivalent = constraints["matchPolicy"] != "Exact";
        let rules = &constraints["resourceRules"];
        let by_rule = rules.as_array().is_none_or(Vec::is_empty) && absent
            || !matches!(rules_match(rules, equivalent, a), RuleMatch::No);
        by_rule
            && matches!(rules_match(&constraints["excludeResourceRules"], equivalent, a), RuleMatch::No)
            && selectors_match(&constraints["namespaceSelector"], &constraints["objectSelector"], a)
    }
}

/// A failed validation.
struct Failure {
    /// Which; none if it was not a validation that failed.
    index: Option<usize>,
    message: String,
    reason: Option<String>,
}

impl Failure {
    fn other(message: String) -> Failure {
        Failure { index: None, message, reason: None }
    }
}

pub fn validate(a: &Attempt<'_>) -> Result<(), Status> {
    if matches!(
        a.call.res.group.as_str(),
        "admissionregistration.k8s.io" | "authentication.k8s.io" | "authorization.k8s.io"
    ) {
        return Ok(());
    }
    let policies = a.call.cluster.admission_policies();
    if policies.0.iter().all(|p| p.bindings.is_empty()) {
        return Ok(());
    }
    let request = a.request(&a.call.cluster.random.uuid());
    let mut audited = Vec::new();
    let verdict = (|| {
        for policy in policies.0.iter().filter(|p| !p.bindings.is_empty()) {
            if !Policy::selects(&policy.spec["matchConstraints"], a, false) {
                continue;
            }
            for binding in
                policy.bindings.iter().filter(|b| Policy::selects(&b["spec"]["matchResources"], a, true))
            {
                judge(policy, binding, a, &request, &mut audited)?;
            }
        }
        Ok(())
    })();
    if !audited.is_empty() {
        a.call.annotations.lock().push((AUDIT_FAILURE.to_owned(), Value::Array(audited).to_string()));
    }
    verdict
}

fn judge(
    policy: &Policy,
    binding: &Value,
    a: &Attempt<'_>,
    request: &Value,
    audited: &mut Vec<Value>,
) -> Result<(), Status> {
    let ignore = policy.spec["failurePolicy"] == "Ignore";
    let mut failures = Vec::new();
    match params(policy, binding, a) {
        Ok(params) => {
            for p in params {
                match policy.conditions.evaluate(a, request) {
                    Verdict::NoMatch => return Ok(()),
                    Verdict::Match => failures.extend(evaluate(policy, a, request, &p, ignore)),
                    Verdict::Error(_) if ignore => return Ok(()),
                    Verdict::Error(e) => failures.push(Failure::other(e)),
                }
            }
        }
        Err(_) if ignore => {}
        Err(e) => failures.push(Failure::other(e)),
    }
    let actions: Vec<&str> = (binding["spec"]["validationActions"].as_array().into_iter().flatten())
        .filter_map(Value::as_str)
        .collect();
    for f in failures {
        let (p, b) = (&policy.name, object::name(binding));
        if actions.contains(&"Warn") {
            a.call.warn(format!(
                "Validation failed for ValidatingAdmissionPolicy '{p}' with binding '{b}': {}",
                f.message
            ));
        }
        if actions.contains(&"Audit") {
            audited.push(json!({
                "message": f.message, "policy": p, "binding": b,
                "expressionIndex": f.index.unwrap_or(0).to_string(), "validationActions": actions,
            }));
        }
        if actions.is_empty() || actions.contains(&"Deny") {
            let why =
                format!("ValidatingAdmissionPolicy '{p}' with binding '{b}' denied request: {}", f.message);
            let mut s = Status::forbidden(&a.call.res.group, &a.call.res.plural, a.name(), &why);
            (s.code, s.reason) = match f.reason.as_deref() {
                Some("Unauthorized") => (401, Some(Reason::Unauthorized)),
                Some("Forbidden") => (403, Some(Reason::Forbidden)),
                Some("RequestEntityTooLarge") => (413, Some(Reason::RequestEntityTooLarge)),
                _ => (422, Some(Reason::Invalid)),
            };
            return Err(s.with_cause("", &f.message, ""));
        }
    }
    Ok(())
}

/// The parameter objects a binding brings: one `null` when the policy takes none.
fn params(policy: &Policy, binding: &Value, a: &Attempt<'_>) -> Result<Vec<Value>, String> {
    let kind = &policy.spec["paramKind"];
    let reference = &binding["spec"]["paramRef"];
    if kind.is_null() || reference.is_null() {
        return Ok(vec![Value::Null]);
    }
    let gv =
        kind["apiVersion"].as_str().and_then(GroupVersion::parse).ok_or("paramKind has no apiVersion")?;
    let registry = a.call.cluster.registry();
    let res = registry
        .by_kind(&gv.group, &gv.version, kind["kind"].as_str().unwrap_or_default())
        .ok_or_else(|| format!("failed to find resource referenced by paramKind: {}", kind["kind"]))?;
    let ns = if !res.namespaced {
        ""
    } else {
        reference["namespace"].as_str().filter(|n| !n.is_empty()).unwrap_or(&a.call.info.namespace)
    };
    let found: Vec<Value> = match reference["name"].as_str() {
        Some(name) => a.call.cluster.object(&res.table, ns, name).into_iter().collect(),
        None => {
            let selector = LabelSelector::from_json(&reference["selector"]).map_err(|e| e.to_string())?;
            (a.call.cluster.objects(&res.table).into_iter())
                .filter(|o| {
                    (ns.is_empty() || object::namespace(o) == ns)
                        && selector.matches_value(o["metadata"].get("labels"))
                })
                .collect()
        }
    };
    if found.is_empty() {
        return match reference["parameterNotFoundAction"].as_str() {
            Some("Allow") => Ok(Vec::new()),
            _ => Err("no params found for policy binding with `Deny` parameterNotFoundAction".into()),
        };
    }
    Ok(found)
}

fn evaluate(policy: &Policy, a: &Attempt<'_>, request: &Value, params: &Value, ignore: bool) -> Vec<Failure> {
    let null = Value::Null;
    let namespace = match a.call.info.namespace.as_str() {
        "" => Value::Null,
        ns => a.call.cluster.object(&tables::NAMESPACES, "", ns).unwrap_or_default(),
    };
    let programs = match &policy.variables {
        Ok(p) => p,
        Err(_) if ignore => return Vec::new(),
        Err(e) => return vec![Failure::other(format!("compilation error: {e}"))],
    };
    let object = if a.op == Operation::Delete { None } else { a.object };
    let mut globals: Vec<(&str, Val<'_>)> = vec![
        ("object", Val::from_json(object.unwrap_or(&null), None)),
        ("oldObject", Val::from_json(a.old.unwrap_or(&null), None)),
        ("request", Val::from_json(request, None)),
        ("params", Val::from_json(params, None)),
        ("namespaceObject", Val::from_json(&namespace, None)),
        ("authorizer", Val::Host(Rc::new(AuthorizerHost::new(a.call)))),
    ];
    let variables = Variables::new(programs, globals.clone());
    globals.push(("variables", Val::Host(Rc::new(variables))));
    let budget = Budget::new(BUDGET);
    let mut failures = Vec::new();
    for (i, v) in policy.validations.iter().enumerate() {
        let outcome = match &v.expression {
            Ok(p) => p.run(&globals, &budget).map_err(|e| e.to_string()),
            Err(e) => Err(format!("compilation error: {e}")),
        };
        match outcome {
            Ok(Val::Bool(true)) => {}
            Ok(Val::Bool(false)) => {
                let spoken = v.message_expression.as_ref().and_then(|m| {
                    match m.as_ref().ok()?.run(&globals, &budget).ok()? {
                        Val::Str(s) => Some(s.as_str().trim().to_owned()).filter(|s| !s.is_empty()),
                        _ => None,
                    }
                });
                let message = spoken
                    .or_else(|| v.message.clone())
                    .unwrap_or_else(|| format!("failed expression: {}", v.source.trim()));
                failures.push(Failure { index: Some(i), message, reason: v.reason.clone() });
            }
            Ok(other) if !ignore => failures.push(Failure {
                index: Some(i),
                message: format!("expression '{}' resulted in {}, not bool", v.source, other.type_name()),
                reason: None,
            }),
            Err(e) if !ignore => failures.push(Failure {
                index: Some(i),
                message: format!("expression '{}' resulted in error: {e}", v.source),
                reason: None,
            }),
            _ => {}
        }
    }
    for (key, value) in &policy.annotations {
        if let Ok(Val::Str(text)) =
            value.as_ref().map_err(|_| ()).and_then(|p| p.run(&globals, &budget).map_err(|_| ()))
            && !text.as_str().trim().is_empty()
        {
            let mut told = a.call.annotations.lock();
            if !told.iter().any(|(k, _)| k == key) {
                told.push((key.clone(), text.as_str().trim().to_owned()));
            }
        }
    }
    failures
}

/// Status of a policy: what its controller would write after type checking.
pub fn status(policy: &Value) -> Value {
    let generation = policy["metadata"]["generation"].as_i64().unwrap_or(1);
    let mut warnings = Vec::new();
    let validations = policy["spec"]["validations"].as_array();
    for (i, v) in validations.into_iter().flatten().enumerate() {
        if let Err(e) = compile(&v["expression"]) {
            warnings.push(json!({"fieldRef": format!("spec.validations[{i}].expression"), "warning": e}));
        }
    }
    let mut checking = json!({});
    if !warnings.is_empty() {
        checking["expressionWarnings"] = json!(warnings);
    }
    json!({"observedGeneration": generation, "typeChecking": checking})
}

/// Policies are stored with their status, like CRDs.
pub fn prepare(call: &Call, obj: &mut Value) {
    if call.res.table == *tables::POLICIES && call.info.subresource.is_empty() {
        obj["status"] = status(obj);
    }
}
