//! Single transitions of containers: start, end, back off.

use super::Fact;
use super::container::{backoff_seconds, full_name};
use super::plan::Draft;
use crate::stage::{ContainerKind, EXIT_CODE, On, Then};
use ek_meta::object;
use jiff::SignedDuration;
use serde_json::json;

impl Draft<'_, '_> {
    pub(super) fn container_stage(&mut self, i: usize, on: On) -> bool {
        let stages = self.world.stages;
        let u = &self.units[i];
        let (subject, round, name) = (u.subject(self.pod), u.round(), u.name);
        let Some(stage) = stages.find(on, subject) else { return false };
        // What a program does is not for stages to decide, only when it starts.
        if self.is_real(i) && stage.then == Then::Start && self.world.facts.contains_key(name) {
            return self.start(i, round);
        }
        if !self.stage_due(name, stage, subject, round) {
            return false;
        }
        let now = self.world.now;
        match &stage.then {
            Then::Start => self.start(i, round),
            Then::PullError => {
                let image = self.units[i].spec["image"].as_str().unwrap_or_default().to_owned();
                let why = format!("failed to pull and unpack image {image:?}: not found (simulated)");
                self.note(false, "Pulling", format!("Pulling image {image:?}"), Some(i));
                self.note(true, "Failed", format!("Failed to pull image {image:?}: {why}"), Some(i));
                self.note(true, "Failed", "Error: ErrImagePull".to_owned(), Some(i));
                self.units[i].wait("ErrImagePull", Some(&why));
                true
            }
            Then::Ready => {
                self.units[i].status["started"] = json!(true);
                self.units[i].status["ready"] = json!(true);
                true
            }
            Then::Exit { code, reason } => {
                let asked =
                    self.pod["metadata"]["annotations"][EXIT_CODE].as_str().and_then(|c| c.parse().ok());
                let code = asked
                    .filter(|_| *code == 0 && self.units[i].kind == ContainerKind::Main)
                    .unwrap_or(*code);
                let reason = if code != 0 && reason == "Completed" { "Error" } else { reason };
                self.units[i].exit(code, reason, "", now);
                true
            }
            Then::Evict { message } => self.evict(message),
            Then::Patch(p) => self.patch(p),
            Then::Sandbox | Then::Gone | Then::Stay => false,
        }
    }

    /// Starts the run of this number, or waits for the program that must start first.
    fn start(&mut self, i: usize, round: i64) -> bool {
        let (now, uid) = (self.world.now, object::uid(self.pod));
        let name = self.units[i].name;
        let (id, since) = if self.is_real(i) {
            match self.world.facts.get(name).and_then(|k| k.at(round)) {
                Some(Fact::Running { id, since, .. } | Fact::Exited { id, since, .. }) => {
                    (Some(id.clone()), *since)
                }
                Some(Fact::Blocked { reason, message }) => {
                    if self.units[i].waiting_reason() != reason {
                        self.note(true, "Failed", format!("Error: {message}"), Some(i));
                    }
                    self.units[i].wait(reason, Some(message));
                    // What it lacks may come at any time; looking for it costs little.
                    let at = now.checked_add(SignedDuration::from_secs(10)).unwrap_or(now);
                    self.plan.wake = Some(self.plan.wake.map_or(at, |w| w.min(at)));
                    return false;
                }
                _ => {
                    let due = (name.to_owned(), round);
                    if !self.plan.start.contains(&due) {
                        self.plan.start.push(due);
                    }
                    return false;
                }
            }
        } else {
            (None, now)
        };
        let image = self.units[i].spec["image"].as_str().unwrap_or_default().to_owned();
        if round == 0 {
            // Images of programs are always there; of the others, those that are never fetched anew.
            let fetched = id.is_none() && self.units[i].spec["imagePullPolicy"] == "Always";
            if fetched {
                self.note(false, "Pulling", format!("Pulling image {image:?}"), Some(i));
            }
            let text = match fetched {
                true => format!("Successfully pulled image {image:?} (simulated)"),
                false => format!("Container image {image:?} already present on machine"),
            };
            self.note(false, "Pulled", text, Some(i));
        }
        self.note(false, "Created", format!("Created container: {name}"), Some(i));
        self.note(false, "Started", format!("Started container {name}"), Some(i));
        self.units[i].run(uid, id.as_deref(), since, round);
        self.plan.memory.timers.remove(name);
        true
    }

    /// A container that ended and is wanted again.
    pub(super) fn restart(&mut self, i: usize) -> bool {
        let round = self.units[i].round();
        let wait = self.units[i].backoff();
        let name = self.units[i].name;
        let known = self.world.facts.get(name).is_some_and(|k| k.round == round + 1);
        if !known && !self.due(name, "backoff", round, || Some(wait)) {
            if self.units[i].waiting_reason() != "CrashLoopBackOff" && wait > SignedDuration::ZERO {
                let pod = full_name(self.pod);
                let text = format!("back-off {} restarting failed container={name} pod={pod}", span(wait));
                self.units[i].wait_again("CrashLoopBackOff", &text);
                let text = format!("Back-off restarting failed container {name} in pod {pod}");
                self.note(true, "BackOff", text, Some(i));
            }
            return false;
        }
        self.start(i, round + 1)
    }

    /// An image that did not come: back off, then try what the stages say now.
    pub(super) fn pull_again(&mut self, i: usize) -> bool {
        let u = &self.units[i];
        let (name, image) = (u.name, u.spec["image"].as_str().unwrap_or_default().to_owned());
        let tries = self.plan.memory.timers.get(name).filter(|(s, ..)| s == "pull").map_or(1, |(_, r, _)| *r);
        let stages = self.world.stages;
        let heals = stages.find(On::Waiting, u.subject(self.pod)).is_none_or(|s| s.then != Then::PullError);
        if u.waiting_reason() == "ErrImagePull" {
            // The first look shows the error, all further ones that it is being waited out.
            let shown = SignedDuration::from_secs(if stages.probes { 2 } else { 0 });
            if !self.due(name, "pull-error-shown", tries, || Some(shown)) {
                return false;
            }
            let text = format!("Back-off pulling image {image:?}");
            self.note(false, "BackOff", text.clone(), Some(i));
            self.note(true, "Failed", "Error: ImagePullBackOff".to_owned(), Some(i));
            let wait = SignedDuration::from_secs(backoff_seconds(tries));
            self.due(name, "pull", tries, || Some(wait));
            self.units[i].wait("ImagePullBackOff", Some(&text));
            return false;
        }
        let wait = SignedDuration::from_secs(backoff_seconds(tries));
        if !self.due(name, "pull", tries, || Some(wait)) {
            return false;
        }
        if heals {
            self.units[i].wait("ContainerCreating", None);
            return true;
        }
        self.note(true, "Failed", format!("Failed to pull image {image:?}: not found (simulated)"), Some(i));
        let again = SignedDuration::from_secs(backoff_seconds(tries + 1));
        self.due(name, "pull", tries + 1, || Some(again));
        false
    }
}

/// `10s`, `1m20s`, as durations are written in messages.
fn span(d: SignedDuration) -> String {
    let s = d.as_secs();
    if s < 60 { format!("{s}s") } else { format!("{}m{}s", s / 60, s % 60) }
}
