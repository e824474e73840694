//! Failures in words: what, which code, why, and what to do next.

use azure::plan::{Report, StepResult};
use landing_zone::{Error, advice};
use serde_json::{Value, json};

/// The command as it was typed: it goes on where it stopped.
fn again() -> String {
    let quote = |a: String| {
        let plain = |c: char| c.is_ascii_alphanumeric() || "-_./=:,@+".contains(c);
        if !a.is_empty() && a.chars().all(plain) { a } else { format!("'{}'", a.replace('\'', "'\\''")) }
    };
    let rest: Vec<String> = std::env::args().skip(1).map(quote).collect();
    format!("zaffre {}", rest.join(" "))
}

pub struct Failures {
    pub text: Vec<String>,
    pub json: Vec<Value>,
}

pub fn failures(report: &Report, beside: &[(String, Error)]) -> Failures {
    let (mut text, mut list) = (Vec::new(), Vec::new());
    let again = again();
    for (id, result) in &report.results {
        match result {
            StepResult::Failed(e) => {
                let code = e.code().unwrap_or("NoAnswer");
                let a = advice(id, e, &again);
                text.push(format!("failed   {id}"));
                text.push(format!("  code:  {code}"));
                text.push(format!("  cause: {}", a.cause));
                text.push(format!("  azure: {}", chain(e)));
                text.push(format!("  next:  {}", a.next));
                list.push(
                    json!({"id": id, "code": code, "cause": a.cause, "message": chain(e), "next": a.next}),
                );
            }
            StepResult::Skipped { because } => {
                text.push(format!("skipped  {id}  (needs {because})"));
                list.push(json!({"id": id, "skipped": because}));
            }
            _ => {}
        }
    }
    for (what, e) in beside {
        text.push(format!("failed   {what}"));
        text.push(format!("  azure: {}", chain(e)));
        text.push(format!("  next:  {again}"));
        list.push(json!({"what": what, "message": chain(e), "next": again}));
    }
    Failures { text, json: list }
}

fn chain(e: &(dyn std::error::Error + 'static)) -> String {
    let all = std::iter::successors(Some(e), |e| e.source());
    all.map(ToString::to_string).collect::<Vec<_>>().join(": ")
}

/// Errors that are lists are shown as such.
pub fn failed(e: Error) -> anyhow::Error {
    let mut lines = Vec::new();
    match &e {
        Error::Rights(missing) => {
            for m in missing {
                let fix = format!(
                    "az role assignment create --role '{}' --scope {} --assignee …",
                    m.role(),
                    m.scope
                );
                lines.push(format!("missing  {} at {}\n  next:  {fix}", m.action, m.scope));
            }
            lines.push("  more:  zaffre doctor azure".to_owned());
        }
        Error::Look(failed) => {
            let again = again();
            for (id, e) in failed {
                let a = advice(id, e, &again);
                lines.push(format!(
                    "unread   {id}\n  cause: {}\n  azure: {}\n  next:  {}",
                    a.cause,
                    chain(e),
                    a.next
                ));
            }
        }
        _ => {}
    }
    lines.iter().for_each(|l| crate::output::note(l));
    anyhow::Error::new(e)
}
