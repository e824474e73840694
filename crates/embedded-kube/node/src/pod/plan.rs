//! From what a pod's status says to what it should say now.
//!
//! A pure function: the same pod, facts, memory and time give the same plan. Transitions that are due together
//! are made together, so a pod whose stages take no time goes from assigned to ready in one write.

use super::conditions::{initialized, restarts, summarize};
use super::container::{State, Unit};
use super::{Fact, Facts, Known, Memory, Note};
use crate::stage::{ContainerKind, On, SIMULATED, Stage, StageSet, Subject, Then};
use ek_meta::time;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

/// The world around a pod.
pub(crate) struct Surroundings<'a> {
    pub stages: &'a StageSet,
    pub seed: u64,
    pub now: Timestamp,
    pub host_ip: &'a str,
    pub pod_ip: &'a str,
    pub facts: &'a Facts,
    /// Whether a container is run by a program.
    pub real: &'a (dyn Fn(&Value) -> bool + Sync),
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Plan {
    /// The pod as it should be: status, and the mark of what is simulated. Nothing unless it changed.
    pub pod: Value,
    pub changed: bool,
    /// A program has begun and is not where it is going: it has to end, or to become ready.
    pub moving: bool,
    pub notes: Vec<Note>,
    /// Look again at this time.
    pub wake: Option<Timestamp>,
    /// Containers whose program must start before the plan can go on, with the number of the run.
    pub start: Vec<(String, i64)>,
    /// Containers whose program must end.
    pub stop: Vec<String>,
    /// Everything has ended: remove the pod.
    pub gone: bool,
    pub memory: Memory,
}

pub(super) struct Draft<'a, 'b> {
    pub(super) pod: &'a Value,
    pub(super) world: &'b Surroundings<'b>,
    pub(super) units: Vec<Unit<'a>>,
    status: Value,
    pub(super) plan: Plan,
    /// Nothing is started again.
    ending: bool,
}

/// Transitions without an end would be a mistake in a stage set; this many are not needed by any pod.
const ENOUGH: usize = 10_000;

pub(crate) fn plan(pod: &Value, memory: &Memory, world: &Surroundings<'_>) -> Plan {
    let mut d = Draft {
        pod,
        world,
        units: Unit::all(pod),
        status: match &pod["status"] {
            Value::Object(o) => Value::Object(o.clone()),
            _ => json!({}),
        },
        plan: Plan { memory: memory.clone(), ..Plan::default() },
        ending: false,
    };
    let ended = matches!(pod["status"]["phase"].as_str(), Some("Succeeded" | "Failed"));
    if !pod["metadata"]["deletionTimestamp"].is_null() {
        d.terminate(ended);
        // Somebody holds the pod: what they decide by must say how it ended.
        let held = pod["metadata"]["finalizers"].as_array().is_some_and(|f| !f.is_empty());
        if d.plan.gone && held && !ended {
            d.end_all();
            return d.finish();
        }
        return d.plan;
    }
    if ended {
        d.plan.memory = Memory::default();
        return d.plan;
    }
    for _ in 0..ENOUGH {
        if !d.advance() {
            break;
        }
    }
    d.finish()
}

impl<'a> Draft<'a, '_> {
    /// One transition, if one is due.
    fn advance(&mut self) -> bool {
        if self.status["startTime"].is_null() {
            let subject = Subject { pod: self.pod, container: None };
            return self.pod_stage(On::Assigned, subject);
        }
        if self.status["reason"] == "Evicted" {
            return false;
        }
        for i in 0..self.units.len() {
            if self.observe(i) {
                return true;
            }
        }
        for i in 0..self.units.len() {
            let kind = self.units[i].kind;
            if kind == ContainerKind::Main && !initialized(&self.units) {
                break;
            }
            if self.move_on(i) {
                return true;
            }
            let u = &self.units[i];
            let blocks = match kind {
                ContainerKind::Init => u.state() != State::Terminated { code: 0 },
                ContainerKind::Sidecar => !u.is_started(),
                ContainerKind::Main => false,
            };
            if blocks {
                break;
            }
        }
        self.end_sidecars()
    }

    pub(super) fn is_real(&self, i: usize) -> bool {
        (self.world.real)(self.units[i].spec)
    }

    /// Takes over what a program did by itself.
    fn observe(&mut self, i: usize) -> bool {
        if !self.is_real(i) || self.units[i].state() != State::Running {
            return false;
        }
        let now = self.world.now;
        let u = &mut self.units[i];
        match self.world.facts.get(u.name).and_then(|k| k.at(u.round())) {
            Some(Fact::Running { started, ready, .. }) => {
                let is = (u.is_started(), u.is_ready());
                u.status["started"] = json!(started);
                u.status["ready"] = json!(*started && *ready);
                is != (*started, *started && *ready)
            }
            Some(Fact::Exited { at, code, reason, message, .. }) => {
                u.exit(*code, reason, message, *at);
                true
            }
            // The process that ran it is gone, and the program with it.
            _ => {
                u.exit(137, "Error", "the program ended together with the process that ran it", now);
                true
            }
        }
    }

    fn move_on(&mut self, i: usize) -> bool {
        let u = &self.units[i];
        match u.state() {
            State::Waiting if matches!(u.waiting_reason(), "ErrImagePull" | "ImagePullBackOff") => {
                self.pull_again(i)
            }
            State::Waiting if u.status["lastState"]["terminated"].is_object() => self.restart(i),
            State::Waiting => self.container_stage(i, On::Waiting),
            State::Running if self.is_real(i) => false,
            State::Running if u.is_ready() => self.container_stage(i, On::Ready),
            State::Running => self.container_stage(i, On::Running),
            State::Terminated { code } => {
                let finished = u.kind == ContainerKind::Sidecar && self.main_over();
                if restarts(self.pod, u.kind, code) && !finished { self.restart(i) } else { false }
            }
        }
    }

    fn main_over(&self) -> bool {
        let mut main = self.units.iter().filter(|u| u.kind == ContainerKind::Main);
        main.all(|u| matches!(u.state(), State::Terminated { code } if !restarts(self.pod, u.kind, code)))
    }

    /// Sidecars end with what they stand beside.
    fn end_sidecars(&mut self) -> bool {
        let failed = self.units.iter().any(|u| {
            u.kind == ContainerKind::Init
                && matches!(u.state(), State::Terminated { code } if code != 0 && !restarts(self.pod, u.kind, code))
        });
        if !failed && !self.main_over() {
            return false;
        }
        let now = self.world.now;
        for i in 0..self.units.len() {
            if self.units[i].kind != ContainerKind::Sidecar || self.units[i].state() != State::Running {
                continue;
            }
            if self.is_real(i) {
                let name = self.units[i].name.to_owned();
                if !self.plan.stop.contains(&name) {
                    self.plan.stop.push(name);
                }
            } else {
                self.units[i].exit(0, "Completed", "", now);
                return true;
            }
        }
        false
    }

    /// Whether the time for `stage` of `unit` has come; starts the wait if it has not begun.
    pub(super) fn due(
        &mut self,
        unit: &str,
        stage: &str,
        round: i64,
        wait: impl FnOnce() -> Option<SignedDuration>,
    ) -> bool {
        let now = self.world.now;
        let timers = &mut self.plan.memory.timers;
        let at = match timers.get(unit) {
            Some((s, r, at)) if s == stage && *r == round => *at,
            _ => {
                let at = wait().map(|d| now.checked_add(d).unwrap_or(Timestamp::MAX));
                timers.insert(unit.to_owned(), (stage.to_owned(), round, at));
                at
            }
        };
        match at {
            Some(at) if at <= now => {}
            Some(at) => {
                self.plan.wake = Some(self.plan.wake.map_or(at, |w| w.min(at)));
                return false;
            }
            None => return false,
        }
        if self.world.stages.manual {
            if self.plan.memory.steps == 0 {
                return false;
            }
            self.plan.memory.steps -= 1;
        }
        self.plan.memory.timers.remove(unit);
        true
    }

    pub(super) fn stage_due(&mut self, unit: &str, stage: &Stage, subject: Subject<'_>, round: i64) -> bool {
        let (seed, probes) = (self.world.seed, self.world.stages.probes);
        stage.then != Then::Stay
            && self
                .due(unit, &stage.name, round, || stage.delay.pick(seed, &stage.name, subject, round, probes))
    }

    fn pod_stage(&mut self, on: On, subject: Subject<'_>) -> bool {
        let stages = self.world.stages;
        let Some(stage) = stages.find(on, subject) else { return false };
        if !self.stage_due("", stage, subject, 0) {
            return false;
        }
        match &stage.then {
            Then::Sandbox => {
                self.status["startTime"] = json!(time::rfc3339(self.world.now));
                self.status["hostIP"] = json!(self.world.host_ip);
                self.status["hostIPs"] = json!([{"ip": self.world.host_ip}]);
                self.status["podIP"] = json!(self.world.pod_ip);
                self.status["podIPs"] = json!([{"ip": self.world.pod_ip}]);
                let first = self.units.first().is_some_and(|u| u.kind != ContainerKind::Main);
                for u in &mut self.units {
                    u.wait(if first { "PodInitializing" } else { "ContainerCreating" }, None);
                }
                true
            }
            Then::Patch(p) => self.patch(p),
            Then::Evict { message } => self.evict(message),
            _ => false,
        }
    }

    pub(super) fn patch(&mut self, patch: &Value) -> bool {
        let before = self.status.clone();
        merge(&mut self.status, patch);
        before != self.status
    }

    pub(super) fn evict(&mut self, message: &str) -> bool {
        let now = self.world.now;
        self.status["reason"] = json!("Evicted");
        self.status["message"] = json!(message);
        self.note(true, "Evicted", message.to_owned(), None);
        for i in 0..self.units.len() {
            if self.is_real(i) {
                let name = self.units[i].name.to_owned();
                self.plan.stop.push(name);
            }
            if self.units[i].state() == State::Running {
                self.units[i].exit(137, "Error", "", now);
            }
        }
        true
    }

    pub(super) fn note(&mut self, warning: bool, reason: &'static str, message: String, unit: Option<usize>) {
        let field_path = unit.map(|i| self.units[i].field_path());
        self.plan.notes.push(Note { warning, reason, message, field_path });
    }

    /// The last word on each container of a pod that was told to stop.
    fn end_all(&mut self) {
        let now = self.world.now;
        for u in &mut self.units {
            if matches!(u.state(), State::Terminated { .. }) {
                continue;
            }
            match self.world.facts.get(u.name).map(|k| &k.fact) {
                Some(Fact::Exited { at, code, reason, message, .. }) => u.exit(*code, reason, message, *at),
                _ => u.exit(143, "Error", "", now),
            }
        }
        self.status["startTime"] = match self.status["startTime"].take() {
            Value::Null => json!(time::rfc3339(now)),
            t => t,
        };
        self.ending = true;
    }

    /// A pod that is to go: its programs end within the grace, then it is gone.
    fn terminate(&mut self, ended: bool) {
        let grace = self.pod["metadata"]["deletionGracePeriodSeconds"].as_i64().unwrap_or(30).max(0);
        if !self.plan.memory.killing && !ended {
            self.plan.memory.killing = true;
            self.plan.memory.timers.clear();
            for i in 0..self.units.len() {
                if self.units[i].state() == State::Running {
                    self.note(
                        false,
                        "Killing",
                        format!("Stopping container {}", self.units[i].name),
                        Some(i),
                    );
                }
            }
        }
        let running = |k: &Known| matches!(k.fact, Fact::Running { .. });
        let programs: Vec<String> =
            self.world.facts.iter().filter(|(_, f)| running(f)).map(|(n, _)| n.clone()).collect();
        if !programs.is_empty() {
            self.plan.stop = programs;
            return;
        }
        if ended || self.units.iter().any(|u| (self.world.real)(u.spec)) {
            self.plan.gone = true;
            return;
        }
        let subject = Subject { pod: self.pod, container: None };
        let stages = self.world.stages;
        let Some(stage) = stages.find(On::Terminating, subject) else { return };
        let (seed, probes) = (self.world.seed, stages.probes);
        let wait = || {
            let d = stage.delay.pick(seed, &stage.name, subject, 0, probes)?;
            Some(d.min(SignedDuration::from_secs(grace)))
        };
        self.plan.gone = stage.then == Then::Gone && self.due("", &stage.name, grace, wait);
    }

    fn finish(mut self) -> Plan {
        if self.status["startTime"].is_null() {
            return self.plan;
        }
        summarize(self.pod, &self.units, &mut self.status, self.world.now, self.ending);
        let real: Vec<bool> = (0..self.units.len()).map(|i| self.is_real(i)).collect();
        let (mut init, mut main) = (Vec::new(), Vec::new());
        for (u, real) in self.units.into_iter().zip(&real) {
            let settled = u.kind != ContainerKind::Init && u.is_ready();
            self.plan.moving |= *real && u.state() == State::Running && !settled;
            if u.kind == ContainerKind::Main { &mut main } else { &mut init }.push(u.status);
        }
        if !init.is_empty() {
            self.status["initContainerStatuses"] = Value::Array(init);
        }
        self.status["containerStatuses"] = Value::Array(main);
        let marked = self.pod["metadata"]["annotations"][SIMULATED] == "true" || real.iter().all(|r| *r);
        self.plan.changed = !marked || self.pod["status"] != self.status;
        if self.plan.changed {
            let mut new = self.pod.clone();
            if !marked {
                if !new["metadata"]["annotations"].is_object() {
                    new["metadata"]["annotations"] = json!({});
                }
                new["metadata"]["annotations"][SIMULATED] = json!("true");
            }
            new["status"] = self.status;
            self.plan.pod = new;
        }
        self.plan
    }
}

/// RFC 7386.
fn merge(into: &mut Value, patch: &Value) {
    let Value::Object(p) = patch else {
        *into = patch.clone();
        return;
    };
    if !into.is_object() {
        *into = json!({});
    }
    for (k, v) in p {
        if v.is_null() {
            into.as_object_mut().map(|o| o.remove(k));
        } else {
            merge(&mut into[k], v);
        }
    }
}
