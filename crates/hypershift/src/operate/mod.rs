//! The controller: looks, plans, applies, and says how things stand.
//!
//! A pass reads views and what was fetched before, decides in pure functions, and writes what differs; then it writes the
//! status, once. What a cluster lacks keeps it from being begun; what a cluster that runs comes to lack keeps it as it
//! is. Everything a pass waits for is told by a watch, but Azure and registries, which are asked again.

mod aside;
mod fetch;
mod holders;
mod ingress;
mod memo;
mod releases;
mod remove;
mod shard;
mod sizing;
mod uids;
mod views;
pub(crate) mod views_of_pools;
mod watches;
mod work;

pub use shard::Shard;
pub use views::Views;
pub use watches::{MANAGER, Setup, start, start_with};

use crate::around::{NoRelease, Payload, Surroundings};
use crate::inputs::{self, Found, Input, Purpose};
use crate::preflight::{Asked, Issuer, Verdict, Verdicts};
use crate::status::{self, Seen};
use crate::validate::release::Gate;
use crate::validate::{Problem, configuration};
use crate::{kinds, naming, validate};
use apis::conditions::{hosted_cluster as condition, reason};
use apis::hypershift::HostedCluster;
use apis::version::Version;
use clock::{Random, SharedClock};
use fetch::Fetch;
use futures::future::BoxFuture;
use jiff::SignedDuration;
use kube::core::DynamicObject;
use reconcile::{Applier, Controller, Failure, Outcome, Pause, Waiting, chain, split};
use releases::Releases;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::sync::Arc;
pub use uids::Uids;

/// The one key that is no cluster: what this operator says of itself.
const SUPPORTED: &str = crate::supported::NAME;

/// The copy of the pull secret beside the control plane.
const PULL_SECRET: &str = "pull-secret";

/// Keeps hosted clusters as their objects say.
pub struct Operator {
    pub views: Views,
    pub(crate) applier: Applier,
    pub(crate) clock: SharedClock,
    pub(crate) random: Random,
    pub(crate) around: Arc<dyn Surroundings>,
    served: BTreeSet<String>,
    pub(crate) fetch: Fetch,
    uids: Uids,
    pub(crate) releases: Releases,
    verdicts: Verdicts,
    groups: remove::Groups,
    shard: Shard,
    grants: crate::sizing::Grants,
    meanings: ingress::Meanings,
    pub(crate) memos: memo::Memos,
    pub(crate) metrics: reconcile::Metrics,
    pools: std::sync::OnceLock<reconcile::Handle>,
    /// What machines of a size have, where somebody wanted to know.
    pub(crate) sizes: crate::nodepool::capacity::Sizes,
    /// Milestones that were counted, by cluster: views may be older than what was written.
    counted: parking_lot::Mutex<std::collections::HashMap<String, BTreeSet<&'static str>>>,
}

impl Controller for Operator {
    fn name(&self) -> &'static str {
        "hosted-cluster"
    }

    fn reconcile<'a>(&'a self, key: &'a str) -> BoxFuture<'a, Result<Outcome, Failure>> {
        Box::pin(self.run(key))
    }
}

/// What a pass has looked at.
struct Look {
    seen: Arc<DynamicObject>,
    hc: Arc<HostedCluster>,
    namespace: String,
    plane: Option<Arc<DynamicObject>>,
    inputs: Vec<Input>,
    found: Found,
    /// The control plane's copy of the pull secret, looked for if the original is gone.
    copy: Option<inputs::Given>,
    problems: Vec<Problem>,
    /// The release that the spec names.
    release: Option<Arc<Result<Payload, NoRelease>>>,
    /// The one that the control plane is to run, if it has one of its own.
    plane_release: Option<Arc<Result<Payload, NoRelease>>>,
    gate: Gate,
    pause: Result<Pause, String>,
    verdict: Option<Arc<Verdict>>,
    /// Nothing: clusters have no sizes here.
    size: Option<crate::sizing::Decision>,
    again: Option<SignedDuration>,
}

fn sooner(a: Option<SignedDuration>, b: Option<SignedDuration>) -> Option<SignedDuration> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (a, b) => a.or(b),
    }
}

impl Operator {
    async fn run(&self, key: &str) -> Result<Outcome, Failure> {
        if key == SUPPORTED {
            return self.supported().await;
        }
        if key == sizing::KEY {
            return self.sizing_configuration().await;
        }
        if key == ingress::KEY {
            return self.shared_ingress().await;
        }
        let (namespace, name) = split(key);
        let Some(seen) = self.views.clusters.get(namespace, name) else {
            self.forget(key);
            return Ok(Outcome::Done);
        };
        if !self.shard.covers(&seen.metadata) {
            self.forget(key);
            return Ok(Outcome::Done);
        }
        let hc = self.memos.read(key, &seen)?;
        if seen.metadata.deletion_timestamp.is_some() {
            return self.remove(&seen, &hc).await;
        }
        let pause = Pause::read(hc.spec.paused_until.as_deref(), self.clock.now());
        if matches!(pause, Ok(Pause::Until(_) | Pause::Forever)) {
            return self.paused(seen, hc, pause).await;
        }
        if self.prepare(&seen, &hc).await? {
            // The change wakes us.
            return Ok(Outcome::Done);
        }
        let sized = self.size(&seen, &hc);
        if self.follow(&seen, &sized).await? {
            return Ok(Outcome::Done);
        }
        let mut look = Box::pin(self.look(seen, hc, pause)).await?;
        look.again = sized.sooner(look.again);
        look.size = sized.decision;
        let worked = match self.blocked(&look) {
            true => Ok(Vec::new()),
            false => self.work(&look).await,
        };
        let back = self.back(&look).await;
        let error = match (&worked, &back) {
            (Err(e), _) | (_, Err(e)) => Some(chain(&**e).to_string()),
            (Ok(troubles), Ok(_)) if !troubles.is_empty() => Some(troubles.join("; ")),
            _ => None,
        };
        let there = aside::there(&back, &look.seen.data["status"]);
        let status = self.report(&look, there, error.as_deref()).await?;
        self.marks(&look, &status).await?;
        worked?;
        back?;
        Ok(self.outcome(&look, &status))
    }

    async fn supported(&self) -> Result<Outcome, Failure> {
        let home = self.around.home();
        if home.is_empty() || self.views.spaces.get("", &home).is_none() {
            return Ok(Outcome::Done);
        }
        let object = crate::supported::config_map(&home, env!("CARGO_PKG_VERSION"));
        self.applier.apply(&self.applier.desired(object)?).await?;
        Ok(Outcome::Done)
    }

    fn forget(&self, key: &str) {
        self.verdicts.forget(key);
        self.groups.forget(key);
        self.memos.forget(key);
        self.counted.lock().remove(key);
        self.fetch.tidy(&self.views);
    }

    /// Everything that decides, looked at.
    async fn look(
        &self,
        seen: Arc<DynamicObject>,
        hc: Arc<HostedCluster>,
        pause: Result<Pause, String>,
    ) -> Result<Look, Failure> {
        let now = self.clock.now();
        let namespace = naming::namespace(&hc);
        let plane = self.views.planes.get(&namespace, naming::name(&hc));
        let inputs = inputs::of(&hc);
        let found = self.fetch.all(&self.views, naming::home(&hc), &inputs).await?;
        let gone = inputs.iter().any(|i| i.purpose == Purpose::PullSecret && found.get(i).is_none());
        let copy = match gone && plane.is_some() {
            true => self.fetch.one(&self.views, inputs::Sort::Secret, &namespace, PULL_SECRET).await?,
            false => None,
        };
        let tenant = self.tenant(&hc, &namespace);
        let mut problems: Vec<Problem> = configuration::problems(&hc, &self.around.management(), &tenant)
            .into_iter()
            .map(Problem::configuration)
            .collect();
        problems.extend(configuration::unsupported(&hc).map(|message| Problem {
            condition: condition::SUPPORTED_HOSTED_CLUSTER,
            reason: "UnsupportedHostedCluster",
            message,
        }));
        problems.extend(validate::inputs::problems(&hc, &inputs, &found, now));
        let end = validate::inputs::next_end(&inputs, &found, now);
        let mut look = Look {
            seen,
            hc,
            namespace,
            plane,
            inputs,
            found,
            copy,
            problems,
            release: None,
            plane_release: None,
            gate: Gate::Open,
            pause,
            verdict: None,
            size: None,
            // A moment later, when it has ended.
            again: end.map(|end| end.duration_since(now) + SignedDuration::from_secs(1)),
        };
        self.look_at_release(&mut look, now).await;
        self.look_at_plane_release(&mut look, now).await;
        self.look_at_azure(&mut look, now).await;
        Ok(look)
    }

    /// Who has the namespace.
    fn tenant(&self, hc: &HostedCluster, namespace: &str) -> configuration::Tenant {
        let other = self.views.spaces.get("", namespace).and_then(|s| s.cluster.clone());
        match other.filter(|key| *key != naming::key(hc)) {
            Some(key) => configuration::Tenant::Other(key),
            None => configuration::Tenant::Free,
        }
    }

    /// What images are read with. A cluster that runs has a copy of it: if the original is gone, that goes on to be used.
    fn pull_secret<'a>(&self, look: &'a Look) -> Option<&'a [u8]> {
        let input = look.inputs.iter().find(|i| i.purpose == Purpose::PullSecret)?;
        let given = look.found.get(input).or(look.copy.as_ref())?;
        given.data.get(".dockerconfigjson").map(Vec::as_slice)
    }

    async fn look_at_release(&self, look: &mut Look, now: jiff::Timestamp) {
        let Some(pull_secret) = self.pull_secret(look).map(<[u8]>::to_vec) else { return };
        let image = look.hc.spec.release.image.clone();
        let (answer, again) = self.releases.get(&*self.around, &look.hc, &image, &pull_secret, now).await;
        look.again = sooner(look.again, again);
        match &*answer {
            Ok(payload) => {
                let running = match look.hc.spec.control_plane_release {
                    None => status::running(&look.seen.data["status"]),
                    // What the control plane has gone ahead to is not what the rest comes from.
                    Some(_) => status::running_guest(&look.seen.data["status"]),
                };
                look.problems.extend(validate::release::problems(&look.hc, payload, running.as_ref()));
                if let Ok(wanted) = payload.release.version.parse() {
                    let blocked = look.plane.as_ref().and_then(|p| not_upgradeable(p));
                    let admitted = match blocked {
                        Some(_) => self.admitted(look, &pull_secret, now).await,
                        None => None,
                    };
                    look.gate = validate::release::gate(
                        &look.hc,
                        &wanted,
                        running.as_ref(),
                        admitted.as_ref(),
                        blocked.as_deref(),
                    );
                }
            }
            Err(why) => look.problems.extend(validate::release::absent(&look.hc, why)),
        }
        look.release = Some(answer);
    }

    /// The version that the control plane was told to run.
    async fn admitted(&self, look: &Look, pull_secret: &[u8], now: jiff::Timestamp) -> Option<Version> {
        let image = look.plane.as_ref()?.data["spec"]["releaseImage"].as_str()?;
        let (answer, _) = self.releases.get(&*self.around, &look.hc, image, pull_secret, now).await;
        answer.as_ref().as_ref().ok()?.release.version.parse().ok()
    }

    /// A control plane that goes ahead does so by a release that must be there, too.
    async fn look_at_plane_release(&self, look: &mut Look, now: jiff::Timestamp) {
        let Some(pull_secret) = self.pull_secret(look).map(<[u8]>::to_vec) else { return };
        let Some(image) = look.hc.spec.control_plane_release.as_ref().map(|r| r.image.clone()) else {
            return;
        };
        let (answer, again) = self.releases.get(&*self.around, &look.hc, &image, &pull_secret, now).await;
        look.again = sooner(look.again, again);
        match &*answer {
            Ok(payload) => {
                let running = status::running(&look.seen.data["status"]);
                let problems = validate::release::problems_of_plane(&look.hc, payload, running.as_ref());
                look.problems.extend(problems);
            }
            Err(why) => look.problems.extend(validate::release::absent_of_plane(&look.hc, why)),
        }
        look.plane_release = Some(answer);
    }

    /// Azure is asked only about what could be right otherwise.
    async fn look_at_azure(&self, look: &mut Look, now: jiff::Timestamp) {
        let (Some(azure), Some(mut asked)) = (self.around.preflight(), Asked::of(&look.hc)) else { return };
        if look.plane.is_none() && !look.problems.is_empty() {
            return;
        }
        asked.issuer = Issuer::of(&look.hc, &look.inputs, &look.found);
        let key = naming::key(&look.hc);
        let (verdict, again) = self.verdicts.get(&key, asked, &*azure, now).await;
        look.again = sooner(look.again, Some(again));
        let wrong = verdict.places.iter().cloned().map(Problem::configuration);
        look.problems.extend(wrong);
        look.verdict = Some(verdict);
    }

    /// Whether nothing may be applied. A cluster that runs is stopped by what it says of itself, never by what Azure says.
    fn blocked(&self, look: &Look) -> bool {
        let Some(Ok(_)) = look.release.as_deref() else { return true };
        if let Some(Err(_)) = look.plane_release.as_deref() {
            return true;
        }
        if look.plane.is_none() {
            return !look.problems.is_empty() || look.verdict.as_ref().is_some_and(|v| !v.good());
        }
        let places = look.verdict.as_ref().map(|v| v.places.as_slice()).unwrap_or_default();
        look.problems.iter().any(|p| p.stops() && !places.contains(&p.message))
    }

    /// Writes the status and says what it is now.
    async fn report(&self, look: &Look, back: [bool; 3], error: Option<&str>) -> Result<Value, Failure> {
        let links = self.views.links.within(&look.namespace);
        let report = Seen {
            hc: &look.hc,
            plane: look.plane.as_deref(),
            links: &links,
            snapshot: self.views.snapshots.within(&look.namespace).into_iter().max().map(|s| s.url.clone()),
            problems: &look.problems,
            release: look.release.as_deref(),
            gate: &look.gate,
            pause: &look.pause,
            verdict: look.verdict.as_deref(),
            asks: self.around.preflight().is_some(),
            ignition: self.views.rollout(&look.namespace, "ignition-server"),
            ignition_host: self.views.ignition.get(&look.namespace, views::IGNITION).map(|h| (*h).clone()),
            error,
            back,
            size: look.size.as_ref(),
            swift: self.around.shared_ingress().is_some() && crate::ingress::swift(&look.hc),
            exposed: self.exposed(&look.hc),
        };
        let now = self.clock.now();
        let at = kinds::CLUSTER.at(naming::home(&look.hc), naming::name(&look.hc));
        self.applier.status(&at, &look.seen, |o| status::status(o, &report, now)).await?;
        let status = status::status(&look.seen, &report, now);
        self.milestones(look, &status, now);
        self.migration(look, &status);
        Ok(status)
    }

    /// Counts what a cluster has reached for the first time. One that was available before has been counted by then.
    fn milestones(&self, look: &Look, status: &Value, now: jiff::Timestamp) {
        let been = naming::annotation(&look.hc, apis::names::annotation::HAS_BEEN_AVAILABLE).is_some();
        let Some(made) = look.seen.metadata.creation_timestamp.as_ref().filter(|_| !been) else { return };
        let reached = crate::metrics::reached(&look.seen.data["status"], status);
        if reached.is_empty() {
            return;
        }
        let mut counted = self.counted.lock();
        let counted = counted.entry(naming::key(&look.hc)).or_default();
        for kind in reached.into_iter().filter(|k| counted.insert(k)) {
            let seconds = now.duration_since(made.0).as_secs_f64().max(0.0);
            self.metrics.observe(&crate::metrics::TRANSITIONS, &[kind], seconds);
        }
    }

    /// Counts that data could not be moved to another key, each time that it comes to that.
    fn migration(&self, look: &Look, status: &Value) {
        use crate::metrics::{MIGRATION_FAILURES, migration_failed};
        let (key, mut counted) = (naming::key(&look.hc), self.counted.lock());
        if !migration_failed(status) {
            counted.get_mut(&key).map(|c| c.remove(reason::RE_ENCRYPTION_FAILED));
            return;
        }
        let new = counted.entry(key).or_default().insert(reason::RE_ENCRYPTION_FAILED);
        if new && !migration_failed(&look.seen.data["status"]) {
            let id = look.hc.spec.cluster_id.as_deref().unwrap_or_default();
            let whose = [naming::home(&look.hc), naming::name(&look.hc), id];
            self.metrics.count(&MIGRATION_FAILURES, &whose);
        }
    }

    fn outcome(&self, look: &Look, status: &Value) -> Outcome {
        let now = self.clock.now();
        let mut on: Vec<Waiting> = look
            .problems
            .iter()
            .map(|p| Waiting::new(format!("{} to be True", p.condition), p.message.clone(), now))
            .collect();
        if let Some(v) = &look.verdict {
            let open = v.identities.iter().chain(&v.unknown);
            on.extend(open.map(|m| Waiting::new("Azure identities", m.clone(), now)));
        }
        for release in [&look.release, &look.plane_release] {
            let Some(Err(NoRelease::Unreachable(why))) = release.as_deref() else { continue };
            on.push(Waiting::new("the release's registry", why.clone(), now));
        }
        let conditions = reconcile::conditions::Conditions::of(status);
        if on.is_empty() && !conditions.is_true(condition::AVAILABLE) {
            let message = conditions.get(condition::AVAILABLE).map(|c| c.message.clone()).unwrap_or_default();
            let at =
                format!("HostedControlPlane {}/{} to be available", look.namespace, naming::name(&look.hc));
            on.push(Waiting::new(at, message, now));
        }
        match (on.is_empty(), look.again) {
            (true, None) => Outcome::Done,
            (true, Some(again)) => Outcome::After(again),
            (false, again) => Outcome::Waiting { on, again },
        }
    }
}

/// Somebody deleted the control plane and not the cluster: it is held, because its end would be that of its keys.
fn going(look: &Look) -> String {
    let at = format!("{}/{}", look.namespace, naming::name(&look.hc));
    format!(
        "HostedControlPlane {at} is being deleted, and its HostedCluster is not: it is held by its finalizer {} and runs on, but is not looked after any more; delete the HostedCluster, or remove that finalizer to have the control plane made anew (with new certificates, on the same etcd volumes)",
        apis::names::finalizer::HYPERSHIFT
    )
}

/// Why the guest is not ready for another minor, if it says so.
fn not_upgradeable(plane: &DynamicObject) -> Option<String> {
    let conditions = reconcile::conditions::Conditions::of(&plane.data["status"]);
    let found = conditions.get(condition::CLUSTER_VERSION_UPGRADEABLE)?;
    (found.status == reconcile::conditions::Status::False).then(|| {
        let said = if found.message.is_empty() { &found.reason } else { &found.message };
        said.clone()
    })
}

/// A merge patch that only holds for the object as it was seen.
fn bound(seen: &DynamicObject, mut patch: Value) -> Value {
    patch["metadata"]["resourceVersion"] = json!(seen.metadata.resource_version);
    patch["metadata"]["uid"] = json!(seen.metadata.uid);
    patch
}

impl Operator {
    /// What a Secret or ConfigMap held when it was last read.
    pub fn known(&self, sort: inputs::Sort, namespace: &str, name: &str) -> Option<inputs::Given> {
        self.fetch.known(sort, namespace, name)
    }

    /// The controller of NodePools, which shares our views.
    pub fn node_pools(&self) -> Option<&reconcile::Handle> {
        self.pools.get()
    }

    /// Whether a cluster is ours to keep.
    pub fn covers(&self, cluster: &DynamicObject) -> bool {
        self.shard.covers(&cluster.metadata)
    }

    /// What [`crate::explain`] needs, from views and from what this controller waits for.
    pub fn facts(
        &self,
        handle: &reconcile::Handle,
        namespace: &str,
        name: &str,
    ) -> Option<crate::explain::Facts> {
        let cluster = self.views.clusters.get(namespace, name)?;
        let inside = apis::naming::control_plane_namespace(namespace, name);
        let value = |o: &DynamicObject| serde_json::to_value(o).unwrap_or_default();
        let explained = handle.explain(&format!("{namespace}/{name}"));
        Some(crate::explain::Facts {
            cluster: value(&cluster),
            plane: self.views.planes.get(&inside, name).map(|o| value(&o)),
            waiting: explained.waiting,
            ..crate::explain::Facts::default()
        })
    }
}
