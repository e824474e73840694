//! How simulated containers live, as data: in which state, for which pods, after how long, what happens.
//!
//! The first stage that fits decides. A set is searched from its front, so a test puts its own stages there and
//! leaves the rest as it is.

use ek_meta::object;
use jiff::SignedDuration;
use serde_json::Value;
use std::collections::BTreeMap;

/// Failures are asked for by this annotation: `CrashLoop`, or `CrashLoop/container` for one container.
pub const FAIL: &str = "zaffre.io/fail";
/// How long until a container ends by itself (`5s`, `200ms`), or `never`.
pub const COMPLETE_AFTER: &str = "zaffre.io/complete-after";
/// With which code it ends.
pub const EXIT_CODE: &str = "zaffre.io/exit-code";
/// How long until a running container is ready.
pub const READY_AFTER: &str = "zaffre.io/ready-after";
/// What no program runs says so.
pub const SIMULATED: &str = "zaffre.io/simulated";

/// The states in which something happens by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum On {
    /// A pod that came to the node.
    Assigned,
    /// A container whose turn it is to start.
    Waiting,
    /// A container that runs and is not ready.
    Running,
    /// A container that is ready.
    Ready,
    /// A pod that is to go.
    Terminating,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ContainerKind {
    Init,
    /// An init container that stays.
    Sidecar,
    Main,
}

/// What happens at the end of a stage; it decides the next state.
#[derive(Clone, Debug, PartialEq)]
pub enum Then {
    /// The pod gets its address.
    Sandbox,
    Start,
    /// The image does not come; tried again, ever more rarely.
    PullError,
    Ready,
    Exit {
        code: i64,
        reason: String,
    },
    /// The pod fails for good.
    Evict {
        message: String,
    },
    /// A merge patch of the pod's status.
    Patch(Value),
    /// The pod is removed.
    Gone,
    /// Nothing, until the pod changes.
    Stay,
}

/// Which pods and containers; what is empty fits all.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Select {
    pub labels: BTreeMap<String, String>,
    /// Without a value: present.
    pub annotations: BTreeMap<String, Option<String>>,
    /// Globs.
    pub images: Vec<String>,
    pub kinds: Vec<ContainerKind>,
    /// Restart policies.
    pub restart: Vec<String>,
    pub owner_kind: Option<String>,
    /// Failures asked for by [`FAIL`].
    pub failure: Vec<String>,
}

/// Uniform between two bounds, by seed.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Delay {
    pub min_ms: i64,
    pub max_ms: i64,
    /// This annotation, when a pod has it, says how long instead.
    pub annotation: Option<String>,
    /// Adds what startup and readiness probes wait before they first look.
    pub probes: bool,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Stage {
    pub name: String,
    pub on: Vec<On>,
    pub select: Select,
    pub delay: Delay,
    pub then: Then,
}

/// A container as stages see it; for stages of the pod as a whole there is none.
#[derive(Clone, Copy)]
pub(crate) struct Subject<'a> {
    pub pod: &'a Value,
    pub container: Option<(&'a str, &'a Value, ContainerKind)>,
}

impl Select {
    pub(crate) fn fits(&self, s: Subject<'_>) -> bool {
        let meta = &s.pod["metadata"];
        let name = s.container.map(|(n, ..)| n).unwrap_or_default();
        self.labels.iter().all(|(k, v)| meta["labels"][k] == v.as_str())
            && self.annotations.iter().all(|(k, v)| match (v, meta["annotations"][k].as_str()) {
                (_, None) => false,
                (None, Some(_)) => true,
                (Some(want), Some(is)) => want == is,
            })
            && (self.images.is_empty()
                || s.container.is_some_and(|(_, c, _)| {
                    let image = c["image"].as_str().unwrap_or_default();
                    self.images.iter().any(|g| glob(g, image))
                }))
            && (self.kinds.is_empty() || s.container.is_some_and(|(.., k)| self.kinds.contains(&k)))
            && (self.restart.is_empty()
                || self.restart.iter().any(|r| s.pod["spec"]["restartPolicy"] == r.as_str()))
            && self.owner_kind.as_ref().is_none_or(|k| {
                let owners = meta["ownerReferences"].as_array().into_iter().flatten();
                owners.into_iter().any(|o| o["kind"] == k.as_str())
            })
            && (self.failure.is_empty()
                || meta["annotations"][FAIL].as_str().is_some_and(|f| {
                    let (what, whose) = f.split_once('/').unwrap_or((f, ""));
                    (whose.is_empty() || whose == name) && self.failure.iter().any(|w| w == what)
                }))
    }
}

impl Delay {
    pub fn fixed(d: SignedDuration) -> Delay {
        let ms = i64::try_from(d.as_millis()).unwrap_or(i64::MAX);
        Delay { min_ms: ms, max_ms: ms, ..Delay::default() }
    }

    pub fn between(min_ms: i64, max_ms: i64) -> Delay {
        Delay { min_ms, max_ms, ..Delay::default() }
    }

    fn annotated(mut self, name: &str) -> Delay {
        self.annotation = Some(name.to_owned());
        self
    }

    /// `None`: never. The same seed, pod, container and round give the same delay.
    pub(crate) fn pick(
        &self,
        seed: u64,
        stage: &str,
        s: Subject<'_>,
        round: i64,
        probes: bool,
    ) -> Option<SignedDuration> {
        if let Some(text) =
            self.annotation.as_ref().and_then(|a| s.pod["metadata"]["annotations"][a].as_str())
        {
            return duration(text);
        }
        let name = s.container.map(|(n, ..)| n).unwrap_or_default();
        let span = self.max_ms.saturating_sub(self.min_ms).max(0).unsigned_abs().saturating_add(1);
        let draw = mix(seed, &[object::uid(s.pod), stage, name], round) % span;
        let mut ms = self.min_ms.saturating_add_unsigned(draw);
        if let (true, true, Some((_, c, _))) = (self.probes, probes, s.container) {
            let seconds = |probe: &str| {
                let p = &c[probe];
                let n = |f: &str, or: i64| p[f].as_i64().unwrap_or(or);
                if p.is_null() {
                    0
                } else {
                    n("initialDelaySeconds", 0) + (n("successThreshold", 1) - 1) * n("periodSeconds", 10)
                }
            };
            ms = ms.saturating_add(1000 * (seconds("startupProbe") + seconds("readinessProbe")));
        }
        Some(SignedDuration::from_millis(ms.max(0)))
    }
}

/// A number that depends on everything given and nothing else.
pub(crate) fn mix(seed: u64, parts: &[&str], round: i64) -> u64 {
    let mut h = seed ^ 0x9e37_79b9_7f4a_7c15;
    let mut add = |x: u64| {
        h = (h ^ x).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        h ^= h >> 29;
    };
    for p in parts {
        p.bytes().for_each(|b| add(u64::from(b)));
        add(0x100);
    }
    add(round.unsigned_abs());
    h = (h ^ (h >> 30)).wrapping_mul(0x94d0_49bb_1331_11eb);
    h ^ (h >> 31)
}

/// `1m30s`, `2.5s`, `200ms`; anything else, `never` included, is never.
pub(crate) fn duration(text: &str) -> Option<SignedDuration> {
    let mut rest = text.trim();
    if rest == "0" {
        return Some(SignedDuration::ZERO);
    }
    let mut total = 0.0;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let value: f64 = rest[..digits].parse().ok()?;
        rest = &rest[digits..];
        let unit = rest.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(rest.len());
        total += value
            * match &rest[..unit] {
                "ms" => 0.001,
                "s" => 1.0,
                "m" => 60.0,
                "h" => 3600.0,
                _ => return None,
            };
        rest = &rest[unit..];
    }
    (!text.trim().is_empty()).then(|| SignedDuration::try_from_secs_f64(total).ok())?
}

/// `*` stands for anything, also across slashes.
pub(crate) fn glob(pattern: &str, text: &str) -> bool {
    let Some((first, others)) = pattern.split_once('*') else { return pattern == text };
    let (middle, last) = others.rsplit_once('*').unwrap_or(("", others));
    // Both ends first: images of one registry begin alike, and every container is compared with every program.
    let rest = text.strip_prefix(first).and_then(|rest| rest.strip_suffix(last));
    let Some(mut rest) = rest else { return false };
    for part in middle.split('*') {
        match rest.find(part) {
            Some(at) => rest = &rest[at + part.len()..],
            None => return false,
        }
    }
    true
}

/// Stages in the order in which they are tried.
#[derive(Clone, Debug, PartialEq)]
pub struct StageSet {
    pub stages: Vec<Stage>,
    /// Whether probes' own delays count.
    pub probes: bool,
    /// Nothing moves until [`crate::Nodes::step`].
    pub manual: bool,
}

impl StageSet {
    /// Delays as on a machine that is neither fast nor slow.
    pub fn realistic() -> StageSet {
        let stage = |name: &str, on: &[On], select: Select, delay: Delay, then: Then| Stage {
            name: name.to_owned(),
            on: on.to_vec(),
            select,
            delay,
            then,
        };
        let all = Select::default;
        let failing =
            |f: &[&str]| Select { failure: f.iter().map(|s| (*s).to_owned()).collect(), ..Select::default() };
        let exit = |code: i64, reason: &str| Then::Exit { code, reason: reason.to_owned() };
        let live = &[On::Running, On::Ready];
        let lasting = vec![ContainerKind::Main, ContainerKind::Sidecar];
        let restart = vec!["Never".to_owned(), "OnFailure".to_owned()];
        let low = "The node was low on resource: memory.".to_owned();
        let stages = vec![
            stage("evict", live, failing(&["Evicted"]), Delay::between(0, 0), Then::Evict { message: low }),
            stage("sandbox", &[On::Assigned], all(), Delay::between(50, 300), Then::Sandbox),
            stage(
                "pull-error",
                &[On::Waiting],
                failing(&["ImagePullBackOff", "ErrImagePull"]),
                Delay::between(200, 800),
                Then::PullError,
            ),
            stage("start", &[On::Waiting], all(), Delay::between(200, 1500), Then::Start),
            stage("oom", live, failing(&["OOMKilled"]), Delay::between(1000, 3000), exit(137, "OOMKilled")),
            stage(
                "crash",
                live,
                failing(&["CrashLoop", "CrashLoopBackOff", "Error"]),
                Delay::between(500, 2000),
                exit(1, "Error"),
            ),
            stage(
                "init-done",
                live,
                Select { kinds: vec![ContainerKind::Init], ..all() },
                Delay::between(200, 1000),
                exit(0, "Completed"),
            ),
            stage("never-ready", &[On::Running], failing(&["NeverReady"]), Delay::default(), Then::Stay),
            stage(
                "slow-ready",
                &[On::Running],
                failing(&["SlowReady"]),
                Delay::between(30_000, 30_000).annotated(READY_AFTER),
                Then::Ready,
            ),
            stage(
                "ready",
                &[On::Running],
                Select { kinds: lasting, ..all() },
                Delay { probes: true, ..Delay::between(50, 500).annotated(READY_AFTER) },
                Then::Ready,
            ),
            stage(
                "complete",
                &[On::Ready],
                Select {
                    kinds: vec![ContainerKind::Main],
                    annotations: [(COMPLETE_AFTER.to_owned(), None)].into(),
                    ..all()
                },
                Delay::default().annotated(COMPLETE_AFTER),
                exit(0, "Completed"),
            ),
            stage(
                "job-done",
                &[On::Ready],
                Select {
                    kinds: vec![ContainerKind::Main],
                    restart,
                    owner_kind: Some("Job".to_owned()),
                    ..all()
                },
                Delay::between(1000, 3000).annotated(COMPLETE_AFTER),
                exit(0, "Completed"),
            ),
            stage("stop", &[On::Terminating], all(), Delay::between(50, 500), Then::Gone),
        ];
        StageSet { stages, probes: true, manual: false }
    }

    /// Everything at once; what backs off still does.
    pub fn instant() -> StageSet {
        let mut set = StageSet::realistic();
        for s in &mut set.stages {
            if s.name != "slow-ready" {
                (s.delay.min_ms, s.delay.max_ms) = (0, 0);
            }
        }
        set.probes = false;
        set
    }

    /// The same, but only when poked.
    pub fn manual(mut self) -> StageSet {
        self.manual = true;
        self
    }

    /// Puts a stage before all others.
    pub fn with(mut self, stage: Stage) -> StageSet {
        self.stages.insert(0, stage);
        self
    }

    /// Containers of these images (globs) end by themselves when their pod allows it.
    pub fn completing(self, images: &[&str]) -> StageSet {
        let delay = self.stages.iter().find(|s| s.name == "job-done").map(|s| s.delay.clone());
        self.with(Stage {
            name: "image-done".into(),
            on: vec![On::Ready],
            select: Select {
                images: images.iter().map(|s| (*s).to_owned()).collect(),
                kinds: vec![ContainerKind::Main],
                restart: vec!["Never".into(), "OnFailure".into()],
                ..Select::default()
            },
            delay: delay.unwrap_or_default(),
            then: Then::Exit { code: 0, reason: "Completed".into() },
        })
    }

    pub(crate) fn find(&self, on: On, subject: Subject<'_>) -> Option<&Stage> {
        self.stages.iter().find(|s| s.on.contains(&on) && s.select.fits(subject))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn globs_and_durations() {
        assert!(glob("zaffre.io/echo*", "zaffre.io/echo:1"));
        assert!(glob("*/busybox:*", "docker.io/library/busybox:1.36"));
        assert!(!glob("busybox", "busybox:1"));
        assert!(glob("*", "") && glob("", "") && !glob("", "x"));
        assert!(glob("a*b*c", "a-b-c") && glob("a*b*c", "abc") && !glob("a*b*c", "a-c-b"));
        assert!(!glob("ab*bc", "abc"), "what is at the beginning is not at the end, too");
        assert!(glob("a**c", "ac") && !glob("*/x", "x"));
        assert_eq!(duration("1m30s"), Some(SignedDuration::from_secs(90)));
        assert_eq!(duration("250ms"), Some(SignedDuration::from_millis(250)));
        assert_eq!(duration("never"), None);
        assert_eq!(duration(""), None);
    }

    #[test]
    fn delays_repeat_by_seed_and_stay_in_bounds() {
        let pod = json!({"metadata": {"uid": "u"}});
        let s = Subject { pod: &pod, container: None };
        let d = Delay::between(100, 200);
        let draws: Vec<_> = (0..50).map(|i| d.pick(7, "x", s, i, false).unwrap()).collect();
        assert_eq!(draws, (0..50).map(|i| d.pick(7, "x", s, i, false).unwrap()).collect::<Vec<_>>());
        assert!(draws.iter().all(|d| (100..=200).contains(&d.as_millis())));
        assert!(draws.iter().any(|d| d != &draws[0]));
    }

    #[test]
    fn failures_may_name_one_container() {
        let pod = json!({"metadata": {"annotations": {FAIL: "CrashLoop/a"}}});
        let c = json!({});
        let set = StageSet::instant();
        let at = |name| Subject { pod: &pod, container: Some((name, &c, ContainerKind::Main)) };
        assert_eq!(set.find(On::Ready, at("a")).unwrap().name, "crash");
        assert!(set.find(On::Ready, at("b")).is_none());
    }
}
