//! `matchConditions`: CEL that narrows what a webhook or policy is asked about.

use super::Attempt;
use ek_schema::cel::{CelInput, Program};
use serde_json::Value;

/// Compiled once with their configuration. One that does not compile fails every evaluation.
#[derive(Default)]
pub struct Conditions(Vec<(String, Result<Program, String>)>);

#[derive(Debug, PartialEq, Eq)]
pub enum Verdict {
    Match,
    NoMatch,
    /// A condition could not be evaluated and none was false: the failure policy decides.
    Error(String),
}

impl Conditions {
    pub fn compile(list: &Value) -> Conditions {
        Conditions(
            list.as_array()
                .into_iter()
                .flatten()
                .map(|c| {
                    let name = c["name"].as_str().unwrap_or_default().to_owned();
                    let program = Program::compile(c["expression"].as_str().unwrap_or_default());
                    (name, program.map_err(|e| e.to_string()))
                })
                .collect(),
        )
    }

    pub fn evaluate(&self, a: &Attempt<'_>, request: &Value) -> Verdict {
        if self.0.is_empty() {
            return Verdict::Match;
        }
        let null = Value::Null;
        let mut error = None;
        for (name, program) in &self.0 {
            let result = match program {
                Ok(p) => p
                    .evaluate_bool(&[
                        ("object", CelInput::Json(a.object.unwrap_or(&null))),
                        ("oldObject", CelInput::Json(a.old.unwrap_or(&null))),
                        ("request", CelInput::Json(request)),
                    ])
                    .map_err(|e| e.to_string()),
                Err(e) => Err(e.clone()),
            };
            match result {
                Ok(true) => {}
                Ok(false) => return Verdict::NoMatch,
                Err(e) => error = Some(format!("matchCondition {name:?}: {e}")),
            }
        }
        error.map_or(Verdict::Match, Verdict::Error)
    }
}
