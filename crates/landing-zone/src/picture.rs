//! A plan as people and scripts read it.

use crate::extras::{Act, Extra};
use crate::rights;
use crate::survey::Kept;
use crate::times;
use arm::ResourceId;
use azure::plan::{Action, Plan, Step};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fmt::Write;

/// A plan with what belongs beside it.
pub struct Picture<'a> {
    pub title: &'a str,
    pub plan: &'a Plan,
    pub kept: &'a [Kept],
    pub extras: &'a [Extra],
}

fn sign(a: &Action) -> (&'static str, char) {
    match a {
        Action::Create { .. } => ("create", '+'),
        Action::Keep | Action::Await => ("keep", '='),
        Action::Change { .. } => ("change", '~'),
        Action::Delete => ("delete", '-'),
    }
}

/// Numbers of a plan.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    pub create: usize,
    pub change: usize,
    pub delete: usize,
    pub keep: usize,
}

impl Counts {
    pub fn of(plan: &Plan, extras: &[Extra]) -> Counts {
        let n = |word: &str, act: Act| {
            plan.steps.iter().filter(|s| sign(&s.action).0 == word).count()
                + extras.iter().filter(|e| e.act == act).count()
        };
        Counts {
            create: n("create", Act::Create),
            change: n("change", Act::Change),
            delete: n("delete", Act::Delete),
            keep: n("keep", Act::Keep),
        }
    }
}

/// Whose role it is, for assignments; their names say nothing.
fn note(step: &Step) -> Option<String> {
    let (Action::Create { body } | Action::Change { body, .. }) = &step.action else { return None };
    let p = &body["properties"];
    let role = p["roleDefinitionId"].as_str()?.rsplit('/').next()?;
    Some(format!("role {role} for principal {}", p["principalId"].as_str()?))
}

/// What making and deleting applications needs.
const DIRECTORY: &str = "Application.ReadWrite.OwnedBy";

impl Picture<'_> {
    /// Whether applications are made or changed.
    fn directory(&self) -> bool {
        self.extras.iter().any(|e| e.act != Act::Keep && e.what.starts_with("application "))
    }

    pub fn json(&self) -> Value {
        let c = Counts::of(self.plan, self.extras);
        let steps: Vec<Value> = self
            .plan
            .steps
            .iter()
            .map(|s| {
                let mut v = json!({"do": sign(&s.action).0, "id": s.id, "type": s.id.resource_type().as_str(),
                    "expectedSeconds": times::of(s).as_secs_f64()});
                if let Action::Change { differences, .. } = &s.action {
                    v["differences"] = serde_json::to_value(differences).unwrap_or_default();
                }
                let after: Vec<&ResourceId> =
                    s.after.iter().filter_map(|j| Some(&self.plan.steps.get(*j)?.id)).collect();
                v["after"] = json!(after);
                v
            })
            .collect();
        json!({
            "plan": self.title,
            "steps": steps,
            "kept": self.kept,
            "beside": self.extras,
            "permissions": rights::needed(self.plan),
            "directoryPermissions": if self.directory() { vec![DIRECTORY] } else { Vec::new() },
            "expectedSeconds": times::expected(self.plan).as_secs_f64(),
            "oneByOneSeconds": times::one_by_one(self.plan).as_secs_f64(),
            "create": c.create, "change": c.change, "delete": c.delete, "keep": c.keep,
        })
    }

    /// A tree: what lies in something stands below it, and the path goes on where that one ended.
    pub fn text(&self) -> String {
        let mut out = format!("{}\n\n", self.title);
        let by_id: BTreeMap<&ResourceId, &Step> = self.plan.steps.iter().map(|s| (&s.id, s)).collect();
        let mut above: Vec<&ResourceId> = Vec::new();
        let groups: BTreeMap<&ResourceId, ResourceId> = by_id
            .keys()
            .filter_map(|id| Some((*id, ResourceId::group_scope(id.subscription()?, id.group()?).ok()?)))
            .collect();
        for (id, step) in &by_id {
            while above.last().is_some_and(|a| !a.contains(id)) {
                above.pop();
            }
            // A group that is not part of the plan still holds things that are.
            if let Some(group) = groups.get(id).filter(|g| above.is_empty() && *g != *id) {
                let _ = writeln!(out, "  in {group}");
                above.push(group);
            }
            let path = match above.last() {
                Some(a) => format!("…{}", &id.as_str()[a.as_str().len()..]),
                None => id.to_string(),
            };
            let pad = "  ".repeat(above.len());
            let _ = writeln!(out, "  {pad}{} {path}", sign(&step.action).1);
            if let Some(note) = note(step) {
                let _ = writeln!(out, "  {pad}    {note}");
            }
            if let Action::Change { differences, .. } = &step.action {
                for d in differences {
                    let _ = writeln!(out, "  {pad}    {d}");
                }
            }
            above.push(id);
        }
        if !self.extras.is_empty() {
            out.push_str("\nBeside Resource Manager:\n");
            for e in self.extras {
                let sign = match e.act {
                    Act::Create => '+',
                    Act::Keep => '=',
                    Act::Change => '~',
                    Act::Delete => '-',
                };
                let note = e.note.as_ref().map(|n| format!("  ({n})")).unwrap_or_default();
                let _ = writeln!(out, "  {sign} {}{note}", e.what);
            }
        }
        if !self.kept.is_empty() {
            out.push_str("\nNot touched:\n");
            for k in self.kept {
                let _ = writeln!(out, "  {}  ({})", k.id, k.why);
            }
        }
        let needed = rights::needed(self.plan);
        if !needed.is_empty() || self.directory() {
            out.push_str("\nPermissions needed:\n");
            for (scope, actions) in needed {
                let _ = writeln!(out, "  at {scope}");
                for a in actions {
                    let _ = writeln!(out, "    {a}");
                }
            }
        }
        if self.directory() {
            let _ = writeln!(out, "  in the directory (Microsoft Graph)\n    {DIRECTORY}");
        }
        let c = Counts::of(self.plan, self.extras);
        let _ = writeln!(
            out,
            "\n{} to create, {} to change, {} to delete, {} as wanted.",
            c.create, c.change, c.delete, c.keep
        );
        if !self.plan.is_empty() {
            let (at_once, each) = (times::expected(self.plan), times::one_by_one(self.plan));
            let _ = writeln!(
                out,
                "Expected duration: about {} ({} one by one).",
                times::words(at_once),
                times::words(each)
            );
        }
        out
    }
}
