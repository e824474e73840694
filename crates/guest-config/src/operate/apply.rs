//! Writing the plan.

use super::{Operator, age, asking, is_deleting, seconds};
use crate::facts::Serving;
use crate::plan::{Item, LABEL, Mode, Plan, plan};
use apis::conditions::{hosted_cluster as condition, reason};
use apis::hypershift::HostedControlPlane;
use futures::StreamExt;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api as k8s;
use kube::core::DynamicObject;
use parking_lot::Mutex;
use reconcile::conditions::Finding;
use reconcile::{Applied, Desired, Failure, Kind, ObjectRef, Outcome, Owner, Prune, chain};
use serde_json::Value;
use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::LazyLock;

/// Kinds whose changes are told by a watch; see [`super::watches`].
pub(super) fn watched() -> &'static [Kind; 11] {
    static ALL: LazyLock<[Kind; 11]> = LazyLock::new(|| {
        [
            Kind::of_cluster::<k8s::core::v1::Namespace>(),
            Kind::of::<k8s::core::v1::ConfigMap>(),
            Kind::of::<k8s::core::v1::Secret>(),
            Kind::of::<k8s::apps::v1::DaemonSet>(),
            Kind::of_cluster::<k8s::rbac::v1::ClusterRole>(),
            Kind::of_cluster::<k8s::rbac::v1::ClusterRoleBinding>(),
            Kind::of::<k8s::rbac::v1::Role>(),
            Kind::of::<k8s::rbac::v1::RoleBinding>(),
            Kind::of::<k8s::discovery::v1::EndpointSlice>(),
            Kind::of_cluster::<k8s::admissionregistration::v1::ValidatingAdmissionPolicy>(),
            Kind::of_cluster::<k8s::admissionregistration::v1::ValidatingAdmissionPolicyBinding>(),
        ]
    });
    &ALL
}

/// Kinds of which we remove what is no longer planned. Never those that hold what users made.
fn prunable() -> Vec<Kind> {
    vec![
        Kind::of::<k8s::core::v1::ConfigMap>(),
        Kind::of::<k8s::core::v1::Secret>(),
        Kind::of_cluster::<k8s::admissionregistration::v1::ValidatingAdmissionPolicy>(),
        Kind::of_cluster::<k8s::admissionregistration::v1::ValidatingAdmissionPolicyBinding>(),
        crate::kinds::MIRRORS,
    ]
}

/// What was written of kinds that nobody watches, and when. Only hashes.
#[derive(Default)]
pub struct Memo(Mutex<HashMap<(u64, u8), (u64, Timestamp)>>);

const TRUSTED: SignedDuration = SignedDuration::from_hours(1);

fn hash(value: &impl Hash) -> u64 {
    let mut h = DefaultHasher::new();
    value.hash(&mut h);
    h.finish()
}

impl Memo {
    /// Whether it was written like this not long ago. `part` tells an object from its status.
    fn knows(&self, at: &ObjectRef, part: u8, content: u64, now: Timestamp) -> bool {
        let known = self.0.lock().get(&(hash(at), part)).copied();
        known.is_some_and(|(c, when)| c == content && age(when, now) < TRUSTED)
    }

    fn put(&self, at: &ObjectRef, part: u8, content: u64, now: Timestamp) {
        self.0.lock().insert((hash(at), part), (content, now));
    }

    fn clear(&self) {
        self.0.lock().clear();
    }
}

/// What a pass over the plan did.
#[derive(Default)]
struct Wrote {
    /// Everything that is planned.
    all: Vec<ObjectRef>,
    /// A policy had to be put right.
    corrected: bool,
}

impl Operator {
    pub(super) async fn resources(&self, hcp: &HostedControlPlane) -> Result<Outcome, Failure> {
        if is_deleting(hcp) {
            return Ok(Outcome::Done);
        }
        let done = self.write(hcp).await;
        let kind = condition::CONFIG_OPERATOR_RECONCILIATION_SUCCEEDED;
        match &done {
            Ok((p, _)) if p.lacking.is_empty() => {
                let mut message = "the guest's resources are as they should be".to_owned();
                if !p.without.is_empty() {
                    message = format!("{message}; the release has no image for: {}", p.without.join(", "));
                }
                self.find(kind, Finding::new(kind, true, reason::AS_EXPECTED, message));
            }
            Ok((p, _)) => {
                let message = format!("waiting for the control plane to have {}", p.lacking.join("; "));
                self.find(kind, Finding::new(kind, false, reason::RECONCILE_ERROR, message));
            }
            Err(e) => {
                self.find(kind, Finding::new(kind, false, reason::RECONCILE_ERROR, chain(&**e).to_string()))
            }
        }
        let (p, serving) = done?;
        if p.lacking.is_empty() && serving != Serving::Unknown {
            return Ok(Outcome::After(TRUSTED));
        }
        let mut on: Vec<_> =
            p.lacking.iter().map(|l| self.waiting(l, "the control-plane operator writes it")).collect();
        // Nobody watches Deployments of the control plane for us.
        let again = (serving == Serving::Unknown).then(|| seconds(2));
        if serving == Serving::Unknown {
            on.push(self.waiting(
                "Deployment openshift-apiserver to be available, and to answer",
                "it decides who serves Route and OAuthClient",
            ));
        }
        Ok(Outcome::Waiting { on, again })
    }

    async fn write(&self, hcp: &HostedControlPlane) -> Result<(Plan, Serving), Failure> {
        let f = self.gather(hcp).await?;
        let mut p = plan(&f);
        let mut wrote = self.apply(&mut p).await?;
        if wrote.corrected {
            // Somebody had a policy out of the way: what it protects may have been changed.
            self.memo.clear();
            p = plan(&f);
            wrote = self.apply(&mut p).await?;
        }
        // What is not planned because something is lacking is not unwanted.
        if p.lacking.is_empty() {
            let prune = Prune::new(Owner::label(LABEL.0, LABEL.1), "", prunable());
            self.applier.prune(&prune, &wrote.all).await?.into_result()?;
        }
        Ok((p, f.serving))
    }

    /// Writes the items of a plan, which are used up.
    async fn apply(&self, p: &mut Plan) -> Result<Wrote, Failure> {
        let now = self.clock.now();
        let mut first: Option<Failure> = None;
        // Definitions before what they define.
        let mut absent = Vec::new();
        for definition in &p.definitions {
            let name = definition["metadata"]["name"].as_str().unwrap_or_default();
            if !self.memo.knows(&crate::kinds::DEFINITION.at("", name), 0, 0, now) {
                absent.push(self.applier.desired((*definition).clone())?);
            }
        }
        self.create(absent, now, &mut first).await;
        let mut wrote = Wrote::default();
        let (mut once, mut keep, mut about, mut statuses) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        for Item { object, status, mode } in std::mem::take(&mut p.items) {
            let desired = self.applier.desired(object)?;
            let at = desired.at().clone();
            wrote.all.push(at.clone());
            statuses.extend(status.map(|s| (at.clone(), s)));
            // Of those that are watched, the ledger knows.
            let content = match (mode, watched().contains(&at.kind)) {
                (Mode::Once, _) => Some(0),
                (Mode::Keep, true) => None,
                (Mode::Keep, false) => Some(hash(&desired.manifest().to_string())),
            };
            if content.is_some_and(|c| self.memo.knows(&at, 0, c, now)) {
                continue;
            }
            match mode {
                Mode::Once => once.push(desired),
                Mode::Keep => {
                    keep.push(desired);
                    about.push(content);
                }
            }
        }
        let report = self.applier.apply_all(&keep).await;
        for ((at, result), content) in report.results.into_iter().zip(about) {
            match result {
                Ok(applied) => {
                    wrote.corrected |= matches!(applied, Applied::Corrected { .. })
                        && at.kind.kind.starts_with("ValidatingAdmission");
                    if let Some(content) = content {
                        self.memo.put(&at, 0, content, now);
                    }
                }
                Err(e) => {
                    first.get_or_insert_with(|| e.into());
                }
            }
        }
        self.create(once, now, &mut first).await;
        for (at, status) in &statuses {
            if let Err(e) = self.state(at, status, now).await {
                first.get_or_insert(e);
            }
        }
        first.map_or(Ok(wrote), Err)
    }

    /// Makes what is absent, several at a time.
    async fn create(&self, all: Vec<Desired>, now: Timestamp, first: &mut Option<Failure>) {
        let mut made = futures::stream::iter(all.into_iter().map(|desired| {
            let at = desired.at().clone();
            async move {
                let result = self.applier.create_once(&at, || Ok(desired)).await;
                (at, result)
            }
        }))
        .buffer_unordered(8);
        while let Some((at, result)) = made.next().await {
            match result {
                Ok(_) => self.memo.put(&at, 0, 0, now),
                Err(e) => {
                    first.get_or_insert_with(|| e.into());
                }
            }
        }
    }

    /// The part of a status that is ours to say; others may say more.
    async fn state(&self, at: &ObjectRef, status: &Value, now: Timestamp) -> Result<(), Failure> {
        let content = hash(&status.to_string());
        if status.as_object().is_none_or(serde_json::Map::is_empty) || self.memo.knows(at, 1, content, now) {
            return Ok(());
        }
        let read = at.kind.api(self.applier.client(), &at.namespace).get_opt(&at.name).await;
        // Absent although just written: somebody deletes it, and the next run makes it anew.
        let Some(seen) = read.map_err(asking(format!("read {at}")))? else { return Ok(()) };
        let whole = |o: &DynamicObject| {
            let mut all = o
                .data
                .get("status")
                .cloned()
                .filter(Value::is_object)
                .unwrap_or_else(|| Value::Object(Default::default()));
            apis::edit::apply(&mut all, status);
            all
        };
        self.applier.status(at, &seen, whole).await?;
        self.memo.put(at, 1, content, now);
        Ok(())
    }
}
