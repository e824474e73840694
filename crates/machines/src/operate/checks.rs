//! MachineHealthChecks: find what is broken, and have it replaced while that is not too much.
//!
//! Replacing is the owner's work: a machine is marked, and its set deletes it. A guest that cannot be asked condemns
//! nobody.

use super::Shared;
use super::views::{Seen, cluster_of, created, has_annotation, name, namespace, typed};
use crate::health::{self, Node, Verdict};
use crate::kinds::{self, annotation};
use crate::text::{int, selects};
use crate::words::{self, Word};
use apis::capi::MachineHealthCheckSpec;
use futures::future::BoxFuture;
use jiff::Timestamp;
use reconcile::{Controller, Failure, Outcome, split};
use serde_json::{Value, json};
use std::sync::Arc;

pub struct Checks(pub Arc<Shared>);

impl Controller for Checks {
    fn name(&self) -> &'static str {
        "machine-health-check"
    }

    fn reconcile<'a>(&'a self, key: &'a str) -> BoxFuture<'a, Result<Outcome, Failure>> {
        Box::pin(self.run(key))
    }
}

impl Checks {
    async fn run(&self, key: &str) -> Result<Outcome, Failure> {
        let (ns, n) = split(key);
        let shared = &self.0;
        let Some(seen) = shared.views.checks.get(ns, n) else { return Ok(Outcome::Done) };
        if shared.is_stale(&seen) || shared.rests(&seen) || seen.metadata.deletion_timestamp.is_some() {
            return Ok(Outcome::Done);
        }
        let spec: MachineHealthCheckSpec = typed(&seen, "spec")?;
        let now = shared.clock.now();
        let all = shared.views.machines.within(ns).into_iter();
        let all = all
            .filter(|m| cluster_of(m) == spec.cluster_name)
            .filter(|m| selects(&spec.selector, &m.metadata.labels.clone().unwrap_or_default()));
        let (going, mut targets): (Vec<Seen>, Vec<Seen>) = all.partition(|m| shared.views.is_going(m));
        let verdicts: Vec<Verdict> = targets.iter().map(|m| self.judge(m, &spec, now)).collect();
        let broken = |m: &Seen| health::counts(&m.data["status"], &self.judge(m, &spec, now));
        let broken: Vec<Seen> = going.into_iter().filter(broken).collect();
        let sick = verdicts.iter().filter(|v| matches!(v, Verdict::Sick { .. })).count() + broken.len();
        let (sick, total) = (sick as u32, (targets.len() + broken.len()) as u32);
        let allowance = health::allowance(&spec, total, sick);
        for (machine, verdict) in targets.iter().zip(&verdicts) {
            self.mark(machine, verdict, allowance.is_some(), now).await?;
        }
        targets.extend(broken);
        let at = kinds::CHECK.at(ns, n);
        shared
            .status(&at, &seen, |o| {
                status(&o.data["status"], seen.metadata.generation, &spec, &targets, sick, allowance, now)
            })
            .await?;
        let next = verdicts.iter().filter_map(|v| if let Verdict::Well(t) = v { *t } else { None }).min();
        Ok(next
            .map_or(Outcome::Done, |t| Outcome::After(t.duration_since(now).max(jiff::SignedDuration::ZERO))))
    }

    fn judge(&self, machine: &Seen, spec: &MachineHealthCheckSpec, now: Timestamp) -> Verdict {
        let status = &machine.data["status"];
        let guest =
            self.0.guests.known(namespace(machine), cluster_of(machine)).filter(|g| g.nodes.complete());
        let fact = guest
            .as_ref()
            .and_then(|g| g.nodes.by_name(status["nodeRef"]["name"].as_str().unwrap_or_default()));
        let node = match (status["nodeRef"].is_object(), &guest) {
            // A machine that does not exist yet needs no guest to be late.
            (false, None) if machine.data["spec"]["providerID"].is_string() => Node::Unknown,
            (false, _) => Node::Awaited(health::awaited(created(machine), status)),
            (true, None) => Node::Unknown,
            (true, Some(_)) => match &fact {
                Some(f) => Node::There(&f.conditions),
                None => Node::Gone,
            },
        };
        let failure = status["failureMessage"].as_str().or_else(|| status["failureReason"].as_str());
        health::judge(spec, failure, has_annotation(machine, annotation::REMEDIATE), &node, now)
    }

    /// Writes down on the machine what was found, and whether it is to go.
    async fn mark(
        &self,
        machine: &Seen,
        verdict: &Verdict,
        allowed: bool,
        now: Timestamp,
    ) -> Result<(), Failure> {
        let skipped = has_annotation(machine, annotation::SKIP_REMEDIATION)
            || has_annotation(machine, annotation::PAUSED);
        let at = kinds::MACHINE.at(namespace(machine), name(machine));
        self.0
            .status(&at, machine, |o| {
                let mut status =
                    o.data.get("status").filter(|s| s.is_object()).cloned().unwrap_or_else(|| json!({}));
                let mut list = words::list(&status);
                match verdict {
                    Verdict::Well(_) => {
                        words::set(&mut list, &Word::good("HealthCheckSucceeded"), now);
                        words::remove(&mut list, "OwnerRemediated");
                    }
                    Verdict::Sick { reason, message } => {
                        words::set(
                            &mut list,
                            &Word::bad("HealthCheckSucceeded", "Warning", reason, message.clone()),
                            now,
                        );
                        if allowed && !skipped {
                            let why = "the health check wants it replaced";
                            words::set(
                                &mut list,
                                &Word::bad("OwnerRemediated", "Warning", "WaitingForRemediation", why),
                                now,
                            );
                        }
                    }
                }
                status["conditions"] = json!(list);
                status
            })
            .await?;
        Ok(())
    }
}

fn status(
    before: &Value,
    generation: Option<i64>,
    spec: &MachineHealthCheckSpec,
    targets: &[Seen],
    sick: u32,
    allowance: Option<u32>,
    now: Timestamp,
) -> Value {
    let mut status = if before.is_object() { before.clone() } else { json!({}) };
    let total = targets.len() as u32;
    let word = match (allowance, &spec.remediation_template) {
        (None, _) => {
            let limit =
                spec.unhealthy_range.clone().or_else(|| spec.max_unhealthy.as_ref().map(ToString::to_string));
            Word::bad(
                "RemediationAllowed",
                "Warning",
                "TooManyUnhealthy",
                format!(
                    "{sick} of {total} machines are unhealthy and the limit is {}: none is replaced, because so many at once have a common cause (network, control plane, image); repair that, or raise maxUnhealthy",
                    limit.unwrap_or_else(|| "100%".into())
                ),
            )
        }
        (Some(_), Some(_)) => Word::bad(
            "RemediationAllowed",
            "Warning",
            "ExternalRemediationNotSupported",
            "spec.remediationTemplate is not acted on: machines are replaced by their sets",
        ),
        (Some(_), None) => Word::good("RemediationAllowed"),
    };
    let mut list = words::list(&status);
    words::set(&mut list, &word, now);
    let mut names: Vec<&str> = targets.iter().map(|m| name(m)).collect();
    names.sort_unstable();
    for (field, value) in [
        ("expectedMachines", json!(int(total))),
        ("currentHealthy", json!(int(total - sick))),
        ("remediationsAllowed", json!(int(allowance.unwrap_or(0)))),
        ("observedGeneration", json!(generation)),
        ("targets", json!(names)),
        ("conditions", json!(list)),
    ] {
        status[field] = value;
    }
    status
}
