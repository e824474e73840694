//! One container's status, read and moved from state to state.

use crate::stage::{ContainerKind, Subject, mix};
use ek_meta::{object, time};
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

/// A container that ran this long has earned a fresh start.
const LONG_RUN: SignedDuration = SignedDuration::from_mins(10);
const FIRST_BACKOFF: i64 = 10;
const LAST_BACKOFF: i64 = 300;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    Waiting,
    Running,
    Terminated { code: i64 },
}

/// A container of a pod with its status in hand.
pub(crate) struct Unit<'a> {
    pub name: &'a str,
    pub spec: &'a Value,
    pub kind: ContainerKind,
    pub status: Value,
}

impl<'a> Unit<'a> {
    /// All containers: init containers first, in their order.
    pub(crate) fn all(pod: &'a Value) -> Vec<Unit<'a>> {
        let list = |specs: &'a str, statuses: &'a str, init: bool| {
            pod["spec"][specs].as_array().into_iter().flatten().map(move |spec| {
                let name = spec["name"].as_str().unwrap_or_default();
                let known = pod["status"][statuses].as_array().into_iter().flatten();
                let kind = match (init, spec["restartPolicy"].as_str()) {
                    (true, Some("Always")) => ContainerKind::Sidecar,
                    (true, _) => ContainerKind::Init,
                    _ => ContainerKind::Main,
                };
                let status = known.into_iter().find(|s| s["name"] == name).cloned();
                Unit { name, spec, kind, status: status.unwrap_or_else(|| fresh(name, spec)) }
            })
        };
        list("initContainers", "initContainerStatuses", true)
            .chain(list("containers", "containerStatuses", false))
            .collect()
    }

    pub(crate) fn subject(&self, pod: &'a Value) -> Subject<'a> {
        Subject { pod, container: Some((self.name, self.spec, self.kind)) }
    }

    pub(crate) fn state(&self) -> State {
        let s = &self.status["state"];
        match &s["terminated"] {
            Value::Null if s["running"].is_null() => State::Waiting,
            Value::Null => State::Running,
            t => State::Terminated { code: t["exitCode"].as_i64().unwrap_or(0) },
        }
    }

    pub(crate) fn round(&self) -> i64 {
        self.status["restartCount"].as_i64().unwrap_or(0)
    }

    pub(crate) fn is_ready(&self) -> bool {
        self.status["ready"] == true
    }

    pub(crate) fn is_started(&self) -> bool {
        self.status["started"] == true
    }

    pub(crate) fn waiting_reason(&self) -> &str {
        self.status["state"]["waiting"]["reason"].as_str().unwrap_or_default()
    }

    /// Where events about it point.
    pub(crate) fn field_path(&self) -> String {
        let list = if self.kind == ContainerKind::Main { "containers" } else { "initContainers" };
        format!("spec.{list}{{{}}}", self.name)
    }

    pub(crate) fn wait(&mut self, reason: &str, message: Option<&str>) {
        let mut waiting = json!({"reason": reason});
        if let Some(m) = message {
            waiting["message"] = json!(m);
        }
        self.status["state"] = json!({"waiting": waiting});
        self.status["ready"] = json!(false);
        self.status["started"] = json!(false);
    }

    /// It waits before it is started once more; how it ended stays visible.
    pub(crate) fn wait_again(&mut self, reason: &str, message: &str) {
        if self.status["state"]["terminated"].is_object() {
            self.status["lastState"] = self.status["state"].take();
        }
        self.wait(reason, Some(message));
    }

    pub(crate) fn run(&mut self, uid: &str, id: Option<&str>, since: Timestamp, round: i64) {
        let image = self.spec["image"].as_str().unwrap_or_default();
        if self.status["state"]["terminated"].is_object() {
            self.status["lastState"] = self.status["state"].take();
        }
        let id = id.map_or_else(|| container_id(uid, self.name, round), str::to_owned);
        self.status["state"] = json!({"running": {"startedAt": time::rfc3339(since)}});
        self.status["restartCount"] = json!(round);
        self.status["containerID"] = json!(id);
        self.status["imageID"] = json!(image_id(image));
        self.status["started"] = json!(self.spec.get("startupProbe").is_none_or(Value::is_null));
        self.status["ready"] = json!(false);
    }

    pub(crate) fn exit(&mut self, code: i64, reason: &str, message: &str, at: Timestamp) {
        let started = self.status["state"]["running"]["startedAt"].take();
        let mut t = json!({"exitCode": code, "reason": reason, "startedAt": started,
            "finishedAt": time::rfc3339(at), "containerID": self.status["containerID"]});
        if started_is_null(&t) {
            t["startedAt"] = json!(time::rfc3339(at));
        }
        if !message.is_empty() {
            t["message"] = json!(message);
        }
        self.status["state"] = json!({"terminated": t});
        // An init container that did its work is done, and counts as ready.
        self.status["ready"] = json!(self.kind == ContainerKind::Init && code == 0);
        self.status["started"] = json!(false);
    }

    /// How long to wait before the next start: not at all the first time, then ever longer.
    pub(crate) fn backoff(&self) -> SignedDuration {
        let t = match &self.status["state"]["terminated"] {
            Value::Null => &self.status["lastState"]["terminated"],
            t => t,
        };
        let when = |f: &str| t[f].as_str().and_then(time::parse);
        let long = match (when("startedAt"), when("finishedAt")) {
            (Some(a), Some(b)) => b.duration_since(a) >= LONG_RUN,
            _ => false,
        };
        match self.round() {
            0 => SignedDuration::ZERO,
            _ if long => SignedDuration::ZERO,
            n => SignedDuration::from_secs(backoff_seconds(n)),
        }
    }
}

fn started_is_null(t: &Value) -> bool {
    t["startedAt"].is_null()
}

/// After the nth failure in a row.
pub(crate) fn backoff_seconds(n: i64) -> i64 {
    let doublings = u32::try_from(n.saturating_sub(1).clamp(0, 10)).unwrap_or(0);
    (FIRST_BACKOFF << doublings).min(LAST_BACKOFF)
}

fn fresh(name: &str, spec: &Value) -> Value {
    json!({"name": name, "state": {"waiting": {"reason": "ContainerCreating"}}, "lastState": {}, "ready": false,
        "restartCount": 0, "image": spec["image"], "imageID": "", "started": false})
}

/// Looks like one and is the same for the same run of the same container.
pub(crate) fn container_id(uid: &str, name: &str, round: i64) -> String {
    let mut id = String::from("containerd://");
    for part in 0..4 {
        id.push_str(&format!("{:016x}", mix(part, &[uid, name], round)));
    }
    id
}

fn image_id(image: &str) -> String {
    let name = image.split_once('@').map_or(image, |(n, _)| n);
    let mut id = format!("{name}@sha256:");
    for part in 0..4 {
        id.push_str(&format!("{:016x}", mix(part, &[image], 0)));
    }
    id
}

/// What a pod is called in messages about its containers.
pub(crate) fn full_name(pod: &Value) -> String {
    format!("{}_{}({})", object::name(pod), object::namespace(pod), object::uid(pod))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn backoff_doubles_to_five_minutes() {
        assert_eq!((1..=7).map(backoff_seconds).collect::<Vec<_>>(), [10, 20, 40, 80, 160, 300, 300]);
    }

    #[test]
    fn a_restart_keeps_how_the_last_run_ended() {
        let pod = json!({"spec": {"containers": [{"name": "a", "image": "x"}]}, "status": {}});
        let mut unit = Unit::all(&pod).remove(0);
        let t = Timestamp::UNIX_EPOCH;
        unit.run("u", None, t, 0);
        assert_eq!(unit.state(), State::Running);
        unit.exit(3, "Error", "", t);
        assert_eq!(unit.state(), State::Terminated { code: 3 });
        unit.wait_again("CrashLoopBackOff", "soon");
        unit.run("u", None, t, 1);
        assert_eq!(unit.status["lastState"]["terminated"]["exitCode"], 3);
        assert_eq!(unit.round(), 1);
    }
}
