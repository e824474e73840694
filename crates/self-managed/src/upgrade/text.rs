//! A plan for people.

use super::{Plan, Roll, Verdict};
use std::fmt::Write;

fn mark(verdict: Verdict, force: bool) -> char {
    match verdict {
        Verdict::Passed => '✓',
        Verdict::Unknown => '?',
        Verdict::Risky => '!',
        Verdict::Refused if force => '!',
        Verdict::Refused | Verdict::Impossible => '✗',
    }
}

/// As it is printed before anything is changed.
pub fn text(plan: &Plan, force: bool) -> String {
    let mut out = String::new();
    let from = if plan.from.is_empty() { "?" } else { &plan.from };
    let _ = writeln!(out, "{} {}/{}: {from} → {}", plan.kind, plan.namespace, plan.name, plan.to);
    let _ = writeln!(out, "    {:<12} {}", "image", plan.image);
    for c in &plan.checks {
        let _ = writeln!(out, "  {} {:<12} {}", mark(c.verdict, force), c.check, c.found);
        if !c.fix.is_empty() {
            let forced = if force && c.verdict == Verdict::Refused { " (forced)" } else { "" };
            let _ = writeln!(out, "    {:<12} → {}{forced}", "", c.fix);
        }
    }
    if plan.nothing {
        let _ = writeln!(out, "nothing to do: this is its release already");
        return out;
    }
    let _ = writeln!(out, "will roll");
    let (mut names, mut pods) = (Vec::new(), 0);
    for roll in &plan.rolls {
        match roll {
            Roll::Workload { name, pods: n } => {
                names.push(name.as_str());
                pods += n;
            }
            Roll::Nodes { pool, nodes, how, surge, unavailable } => {
                let _ = writeln!(
                    out,
                    "  pool {pool}: {nodes} nodes, {how}; at most {surge} more and {unavailable} fewer than now"
                );
            }
            Roll::Stays { .. } => {}
        }
    }
    if !names.is_empty() {
        let _ =
            writeln!(out, "  control plane: {} workloads, {pods} pods: {}", names.len(), names.join(", "));
    }
    for roll in &plan.rolls {
        if let Roll::Stays { pool, nodes, version } = roll {
            let version = if version.is_empty() { "no version yet" } else { version };
            let _ = writeln!(
                out,
                "  not pool {pool} ({nodes} nodes, {version}): then `zaffre upgrade nodepool {pool} -n {} --to {}`",
                plan.namespace, plan.to
            );
        }
    }
    out
}
