//! Running the CEL rules of an object.

use super::compiled::Compiled;
use super::correlate::children;
use super::keywords::type_of;
use super::path::Path;
use super::rule::{Rule, Step};
use crate::cel::{Budget, CelInput, EvalError, OBJECT_BUDGET, Program, RULE_BUDGET, Val};
use ek_meta::field::ErrorKind;
use ek_meta::{Definitions, FieldError, FieldPath, Node};
use serde_json::Value;

/// Runs every rule that applies, in schema order, until the object's budget is spent.
pub(super) fn run(c: &Compiled, node: Node<'_>, new: &Value, old: Option<&Value>) -> Vec<FieldError> {
    let mut r = Runner { left: OBJECT_BUDGET, spent: false, errors: Vec::new() };
    r.value(c, node, new, old, &Path::root());
    r.errors
}

struct Runner {
    left: u64,
    spent: bool,
    errors: Vec<FieldError>,
}

/// One rule at one value.
struct At<'a> {
    rule: &'a Rule,
    node: Node<'a>,
    new: &'a Value,
    old: Option<&'a Value>,
}

impl<'a> At<'a> {
    fn inputs(&self) -> Vec<(&'a str, CelInput<'a>)> {
        let mut vars = vec![("self", CelInput::Typed(self.new, self.node))];
        if self.rule.optional_old_self {
            vars.push(("oldSelf", CelInput::Optional(self.old.map(|o| (o, self.node)))));
        } else if let Some(o) = self.old {
            vars.push(("oldSelf", CelInput::Typed(o, self.node)));
        }
        vars
    }

    fn evaluate(&self, p: &'a Program, left: &mut u64) -> Result<Val<'a>, EvalError> {
        let budget = Budget::new(RULE_BUDGET.min(*left));
        let out = p.evaluate_within(&self.inputs(), &budget);
        *left -= budget.used();
        out
    }

    fn source(&self) -> &str {
        self.rule.program.source().trim()
    }

    /// What the author calls this rule: its message, or its text.
    fn name(&self) -> &str {
        self.rule.message.as_deref().filter(|m| !m.is_empty()).unwrap_or_else(|| self.source())
    }

    fn message(&self, left: &mut u64) -> String {
        if let Some(p) = &self.rule.message_expression
            && let Ok(Val::Str(s)) = self.evaluate(p, left)
        {
            let text = s.as_str().trim();
            if !text.is_empty() && !text.contains('\n') {
                return text.to_owned();
            }
        }
        match self.rule.message.as_deref() {
            Some(m) if !m.is_empty() => m.to_owned(),
            _ => format!("failed rule: {}", self.source()),
        }
    }

    /// Values are shown by their type: they may be long, and they may be secret.
    fn shown(&self) -> Value {
        Value::from(type_of(self.new))
    }
}

impl Runner {
    fn value(&mut self, c: &Compiled, node: Node<'_>, new: &Value, old: Option<&Value>, path: &Path<'_>) {
        if self.spent || !c.rules_below || new.is_null() {
            return;
        }
        let unchanged = old == Some(new);
        if unchanged && !c.transitions_below {
            return;
        }
        for rule in &c.rules {
            // An unchanged value was judged before; a transition is judged always, if there is one.
            let applies = if rule.transition { old.is_some() || rule.optional_old_self } else { !unchanged };
            if applies {
                self.rule(&At { rule, node, new, old }, path);
            }
            if self.spent {
                return;
            }
        }
        if let Some(r) = &node.schema.rules {
            for (c, s) in c.all_of.iter().zip(&r.all_of) {
                self.value(c, Node::new(s, Definitions::empty()), new, old, path);
            }
        }
        children(c, node.schema, new, old, path, |ch| {
            self.value(ch.compiled, Node::new(ch.schema, Definitions::empty()), ch.new, ch.old, &ch.path);
        });
    }

    fn rule(&mut self, at: &At<'_>, path: &Path<'_>) {
        if self.left == 0 {
            self.spent = true;
            let detail = "validation failed due to running out of cost budget, no further validation rules will be run";
            self.errors.push(FieldError::invalid(&path.to_field(), at.shown(), detail));
            return;
        }
        let detail = match at.evaluate(&at.rule.program, &mut self.left) {
            Ok(Val::Bool(true)) => return,
            Ok(Val::Bool(false)) => {
                let detail = at.message(&mut self.left);
                self.errors.push(FieldError {
                    kind: at.rule.reason,
                    field: field_of(at.rule, path).to_string(),
                    value: (at.rule.reason != ErrorKind::Required).then(|| at.shown()),
                    detail,
                });
                return;
            }
            Ok(other) => format!("unexpected result type {} for rule: {}", other.type_name(), at.name()),
            Err(e @ EvalError::NoOverload(_)) => format!(
                "'{e}': call arguments did not match a supported operator, function or macro signature for rule: {}",
                at.name()
            ),
            Err(e @ EvalError::Budget) => {
                self.spent = true;
                format!(
                    "'{e}': no further validation rules will be run due to call cost exceeds limit for rule: {}",
                    at.name()
                )
            }
            Err(e) => format!("{e} evaluating rule: {}", at.name()),
        };
        self.errors.push(FieldError::invalid(&path.to_field(), at.shown(), detail));
    }
}

fn field_of(rule: &Rule, path: &Path<'_>) -> FieldPath {
    rule.field_path.iter().fold(path.to_field(), |p, step| match step {
        Step::Field(n) => p.child(n),
        Step::Key(k) => p.key(k),
    })
}
