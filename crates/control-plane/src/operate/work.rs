//! One pass: what can be done is done.
//!
//! Everything a pass has to write goes out in two waves, each in parallel: first what is read and mounted, then what reads
//! and mounts it. Certificates are mounted by the same pass that issued them; it need not wait to be told of them.

use super::memo::{Issued, Memo, Part, Sum};
use super::objects::{self, secret_of};
use super::progress::Turn;
use super::views::{self, Material, Namespace, Reading};
use super::{Found, Held, KINDS, Operator, Pass};
use crate::certificates::plan::{self, Kind, Write};
use crate::certificates::{AUTHORITIES, FORWARDING};
use crate::config::catalogs;
use crate::{Error as RenderError, publish, render, table};
use apis::hypershift::component::ComponentResource;
use apis::names::label;
use kube::core::DynamicObject;
use pki::rotation::Step;
use reconcile::conditions::{Finding, Status};
use reconcile::{Desired, Failure, Owner, Prune, Waiting, chain};
use serde_json::Value;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The condition that tells of a rotation of authorities.
const ROTATING: &str = "CertificateAuthoritiesRotating";
/// What is published is remembered like a component.
const PUBLISHED: &str = "";
/// So are the private ways to it.
const LINKS: &str = "private-links";

/// What a pass writes.
#[derive(Default)]
struct Waves {
    first: Vec<Desired>,
    second: Vec<Desired>,
    /// What is to be remembered once it is written.
    parts: Vec<(&'static str, Part)>,
    resources: Vec<(&'static str, Arc<[ComponentResource]>)>,
    /// Certificates: where they lie in `first`.
    issued: Vec<(usize, Kind, String, Material)>,
}

impl Operator {
    pub(super) async fn work(
        &self,
        pass: &Pass<'_>,
        memo: &mut Memo,
        found: &mut Found,
    ) -> Result<(), Failure> {
        let scope = pass.scope;
        let mut waves = Waves::default();
        if !memo.stands(PUBLISHED, |_| pass.sum, &self.applier) {
            let mut objects = publish::objects(scope);
            objects.extend(crate::policies(scope));
            self.add(&mut waves, pass, PUBLISHED, objects, Vec::new(), pass.sum)?;
        }
        self.links(pass, memo, &mut waves).await?;
        let nowhere = publish::nowhere(scope);
        if !nowhere.is_empty() {
            let message = nowhere.iter().map(|(what, at)| format!("{what} has no address yet ({at})"));
            found.held = Some(Held {
                kind: "InfrastructureReady",
                reason: "WaitingOnInfrastructureReady",
                message: message.collect::<Vec<_>>().join("; "),
            });
            for (_, at) in nowhere {
                let fix = match at.strip_prefix("Service ") {
                    Some(name) => format!(
                        "the management cluster's cloud provider gives it; see `kubectl describe service {name}`"
                    ),
                    None => "the management cluster's ingress gives it; or name a hostname in spec.services"
                        .to_owned(),
                };
                found.waiting.push(Waiting::new(format!("an address of {at}"), fix, pass.now));
            }
            return self.send(waves, memo).await;
        }
        if let Err(held) = self.certificates(pass, memo, &mut waves, found)? {
            found.held = Some(held);
            return self.send(waves, memo).await;
        }
        self.once(pass, memo).await?;
        self.unwanted(pass, memo).await?;
        self.again(pass).await?;
        found.held = self.components(pass, memo, &mut waves, found)?.err();
        found.sent = !waves.first.is_empty() || !waves.second.is_empty();
        self.send(waves, memo).await
    }

    /// The private ways, which follow the addresses of their Services. One whose Service has no load balancer any more goes;
    /// what there is of it in Azure goes by its finalizers.
    async fn links(&self, pass: &Pass<'_>, memo: &Memo, waves: &mut Waves) -> Result<(), Failure> {
        let scope = pass.scope;
        let address = |name: &str| self.views.services.get(&scope.namespace, name)?.outside.clone();
        let objects = crate::links::objects(scope, &pass.seen.data["spec"], &address);
        if objects.is_empty() {
            return Ok(());
        }
        if objects.iter().all(|o| self.views.serves(o)) {
            let named = objects.iter().filter_map(|o| o["metadata"]["name"].as_str());
            let keep: Vec<_> = named.map(|n| KINDS.link().at(&*scope.namespace, n)).collect();
            let ours = Owner::label(label::INFRA_ID, &*scope.infra_id);
            let prune = Prune::new(ours, &*scope.namespace, [KINDS.link()]);
            self.applier.prune(&prune, &keep).await?.into_result()?;
        }
        let sum = super::memo::sum(&format!("{objects:?}"));
        match memo.stands(LINKS, |_| sum, &self.applier) {
            true => Ok(()),
            false => self.add(waves, pass, LINKS, objects, Vec::new(), sum),
        }
    }

    /// Certificates that have to be written, unless the last pass found none and nothing it looked at has changed.
    fn certificates(
        &self,
        pass: &Pass<'_>,
        memo: &mut Memo,
        waves: &mut Waves,
        found: &mut Found,
    ) -> Result<Result<(), Held>, Failure> {
        let scope = pass.scope;
        let kept = self.views.kept(&scope.namespace, &memo.pending);
        let converged = pass.progress.iter().all(|(name, _, _)| self.in_use(pass, memo, &kept, name));
        found.api_converged = self.in_use(pass, memo, &kept, "kube-apiserver");
        let rotations = |ca: &str| self.views.rotation(pass.seen, ca, converged, self.around.propagation());
        let all = (AUTHORITIES.map(|ca| rotations(ca.secret)), FORWARDING.map(|ca| rotations(ca.secret)));
        let known = super::memo::sum(&format!("{all:?}"));
        if let Some(i) = &memo.issued
            && (i.facts, i.known) == (pass.sum, known)
            && i.until.is_none_or(|t| pass.now < t)
            && i.read.iter().all(|(kind, name, sum)| kept.sum(*kind, name) == *sum)
        {
            found.until = i.until;
            found.turning(&i.rotating, asked(pass.seen), pass.now);
            return Ok(Ok(()));
        }
        let reading = Reading { from: kept, read: RefCell::default() };
        let issued = match plan::plan(scope, &reading, &rotations, pass.now) {
            Ok(plan) => plan,
            Err(e) => {
                let message =
                    format!("{}; restore the Secret, or delete it to have everything issued anew", chain(&e));
                return Ok(Err(Held {
                    kind: "ValidHostedControlPlaneConfiguration",
                    reason: "InvalidCertificates",
                    message,
                }));
            }
        };
        found.until = issued.until;
        found.turning(&issued.rotating, asked(pass.seen), pass.now);
        for write in &issued.writes {
            let mut object = secret_of(scope, write);
            objects::finish(&mut object, pass.seen);
            let at = waves.first.len();
            waves.first.push(self.applier.desired(object)?);
            waves.issued.push((at, write.kind, write.name.clone(), merged(&kept, write)));
        }
        memo.issued = issued.writes.is_empty().then(|| Issued {
            facts: pass.sum,
            read: reading.read.into_inner().into_iter().map(|((k, n), s)| (k, n, s)).collect(),
            known,
            until: issued.until,
            rotating: issued.rotating,
        });
        Ok(Ok(()))
    }

    /// Whether a component is rolled out as it is stored now: made from what there is, untouched, complete, and seen so.
    fn in_use(&self, pass: &Pass<'_>, memo: &Memo, kept: &Namespace<'_>, name: &str) -> bool {
        let (Some(part), Some(rollout)) = (memo.parts.get(name), pass.progress.rollout(name)) else {
            return false;
        };
        let newest = part.prints.last().and_then(|w| self.applier.version(w));
        pass.progress.turn(name) == Turn::Now
            && newest.is_some_and(|v| rollout.seen >= v)
            && rollout.done(pass.progress.version())
            && memo.stands(name, |p| inputs(pass.sum, p, kept), &self.applier)
    }

    /// Components whose turn it is and that are not as they would be made now.
    fn components(
        &self,
        pass: &Pass<'_>,
        memo: &mut Memo,
        waves: &mut Waves,
        found: &mut Found,
    ) -> Result<Result<(), Held>, Failure> {
        let scope = pass.scope;
        // Besides what is there, what is about to be.
        let fresh: BTreeMap<(Kind, &str), &Material> =
            waves.issued.iter().map(|(_, kind, name, m)| ((*kind, name.as_str()), m)).collect();
        let kept = self.views.kept(&scope.namespace, &memo.pending);
        let all = Fresh { fresh: &fresh, kept };
        let (mut made, mut held) = (Vec::new(), None);
        for component in table::all() {
            if pass.progress.turn(component.name) != Turn::Now
                || memo.stands(component.name, |p| all.inputs(pass.sum, &p.mounts), &self.applier)
            {
                continue;
            }
            match render::one(scope, component, &all) {
                Ok(mut rendered) => {
                    for object in &mut rendered.objects {
                        objects::mark(scope, object);
                    }
                    let image = pass.progress.rollout(component.name).and_then(|r| r.image.as_deref());
                    if let (Some(image), Some(workload)) = (image, rendered.objects.last_mut()) {
                        catalogs::keep(workload, image);
                    }
                    let inputs = all.inputs(pass.sum, &rendered.mounts);
                    made.push((component.name, rendered, inputs));
                }
                // Logins go on as they were.
                Err(e @ RenderError::Configuration { .. }) if component.name == "oauth-openshift" => {
                    found.errors.insert(component.name, e.to_string());
                    found.providers = Some(e.to_string());
                }
                Err(e) => {
                    found.errors.insert(component.name, e.to_string());
                    let (kind, reason) = match &e {
                        RenderError::Image { .. } => ("ValidReleaseInfo", "MissingReleaseImages"),
                        _ => ("ValidHostedControlPlaneConfiguration", "InvalidConfiguration"),
                    };
                    // The others do not suffer for it.
                    held.get_or_insert_with(|| Held { kind, reason, message: e.to_string() });
                }
            }
        }
        for (name, rendered, inputs) in made {
            self.add(waves, pass, name, rendered.objects, rendered.mounts, inputs)?;
        }
        Ok(held.map_or(Ok(()), Err))
    }

    /// Adds objects; kinds that the management cluster does not serve are passed over.
    fn add(
        &self,
        waves: &mut Waves,
        pass: &Pass<'_>,
        name: &'static str,
        objects: Vec<Value>,
        mounts: Vec<(&'static str, String)>,
        inputs: Sum,
    ) -> Result<(), Failure> {
        let mut prints = Vec::with_capacity(objects.len());
        let mut resources = Vec::with_capacity(objects.len());
        for mut object in objects {
            if !self.views.serves(&object) {
                continue;
            }
            resources.push(objects::resource(&object));
            let workload =
                matches!(object["kind"].as_str(), Some("Deployment" | "StatefulSet" | "Job" | "CronJob"));
            objects::finish(&mut object, pass.seen);
            let desired = self.applier.desired(object)?;
            prints.push(self.applier.print(&desired));
            if workload { &mut waves.second } else { &mut waves.first }.push(desired);
        }
        resources.sort_unstable();
        waves.resources.push((name, resources.into()));
        waves.parts.push((name, Part { inputs, mounts: mounts.into(), prints: prints.into() }));
        Ok(())
    }

    /// Writes both waves. What was written is remembered even if something else was not.
    async fn send(&self, waves: Waves, memo: &mut Memo) -> Result<(), Failure> {
        if waves.first.is_empty() && waves.second.is_empty() {
            return Ok(());
        }
        let report = self.applier.apply_all(&waves.first).await;
        for (at, kind, name, mut material) in waves.issued {
            let print = self.applier.print(&waves.first[at]);
            let written = report.results.get(at).is_some_and(|(_, r)| r.is_ok());
            if let Some(version) = self.applier.version(&print).filter(|_| written) {
                material.version = version;
                memo.pending.insert(kind, name, Arc::new(material), print);
            }
        }
        report.into_result()?;
        self.applier.apply_all(&waves.second).await.into_result()?;
        memo.parts.extend(waves.parts);
        memo.resources.extend(waves.resources);
        Ok(())
    }

    /// Jobs that gave up are taken away, and so made again. They have waited longer and longer between their attempts by
    /// then.
    async fn again(&self, pass: &Pass<'_>) -> Result<(), Failure> {
        let jobs = reconcile::Kind::of::<k8s_openapi::api::batch::v1::Job>();
        for (name, turn, rollout) in pass.progress.iter() {
            if turn == Turn::Now && rollout.failed {
                tracing::warn!(namespace = pass.scope.namespace, job = name, "it gave up, and is made again");
                self.applier.delete(&jobs.at(&*pass.scope.namespace, name)).await?;
            }
        }
        Ok(())
    }

    /// Secrets of random text, made once and kept.
    async fn once(&self, pass: &Pass<'_>, memo: &Memo) -> Result<(), Failure> {
        let scope = pass.scope;
        for (name, key, bytes) in crate::certificates::generated(scope) {
            if self.views.kept(&scope.namespace, &memo.pending).has(Kind::Secret, name) {
                continue;
            }
            let text = objects::random_text(&self.views.random, key, bytes);
            let mut object = objects::text_secret(scope, name, key, &text);
            objects::finish(&mut object, pass.seen);
            let desired = self.applier.desired(object)?;
            let at = desired.at().clone();
            self.applier.create_once(&at, || Ok(desired)).await?;
        }
        Ok(())
    }
}

/// What a component is made from, as a number.
fn inputs(facts: Sum, part: &Part, kept: &Namespace<'_>) -> Sum {
    combined(facts, part.mounts.iter().map(|(kind, name)| kept.sum(views::kind(kind), name)))
}

fn combined(facts: Sum, mounted: impl Iterator<Item = Sum>) -> Sum {
    let mut bytes = facts.to_be_bytes().to_vec();
    for sum in mounted {
        bytes.extend(sum.to_be_bytes());
    }
    super::memo::sum_bytes(&bytes)
}

/// A Secret as it will be: what is written, and what others keep in it.
fn merged(kept: &Namespace<'_>, write: &Write) -> Material {
    let mut data = kept.find(write.kind, &write.name).map(|m| (*m.data).clone()).unwrap_or_default();
    data.extend(write.data.clone());
    Material::new(data, u64::MAX)
}

/// What is there, and before it what this pass writes.
struct Fresh<'a> {
    fresh: &'a BTreeMap<(Kind, &'a str), &'a Material>,
    kept: Namespace<'a>,
}

impl Fresh<'_> {
    fn inputs(&self, facts: Sum, mounts: &[(&'static str, String)]) -> Sum {
        combined(
            facts,
            mounts.iter().map(|(kind, name)| {
                let kind = views::kind(kind);
                self.fresh.get(&(kind, name.as_str())).map_or_else(|| self.kept.sum(kind, name), |m| m.sum)
            }),
        )
    }
}

impl render::Materials for Fresh<'_> {
    fn data(&self, kind: &str, name: &str) -> Option<BTreeMap<String, Vec<u8>>> {
        match self.fresh.get(&(views::kind(kind), name)) {
            Some(m) => Some((*m.data).clone()),
            None => render::Materials::data(&self.kept, kind, name),
        }
    }
}

/// The word by which a rotation of authorities was asked for.
fn asked(plane: &DynamicObject) -> Option<&str> {
    let annotations = plane.metadata.annotations.as_ref()?;
    annotations.get("hypershift.openshift.io/rotate-authorities").map(String::as_str)
}

impl Found {
    /// What rotations of authorities wait for, for those who ask; as a condition if somebody asked for one.
    fn turning(&mut self, list: &[(&'static str, Step)], asked: Option<&str>, now: jiff::Timestamp) {
        let what = |step: &Step| match step {
            Step::Announce { .. } | Step::AwaitTrust => "its successor to be trusted everywhere",
            Step::Promote | Step::AwaitLeaves => "everything it signed to be replaced",
            Step::Retire | Step::Rest { .. } => "its predecessor to be forgotten",
        };
        self.rotates = !list.is_empty();
        for (ca, step) in list {
            let on = format!("authority {ca}: {}", what(step));
            self.waiting.push(Waiting::new(on, "nothing: pods are being replaced", now));
        }
        let announced = list.iter().any(|(_, s)| matches!(s, Step::Announce { .. } | Step::AwaitTrust));
        let (status, reason, message) = match (list.is_empty(), asked) {
            (true, None) => return,
            (true, Some(word)) => {
                (Status::False, "AsExpected", format!("all that was asked for by {word:?} is done"))
            }
            (false, _) => {
                let names: Vec<String> =
                    list.iter().map(|(ca, step)| format!("{ca} waits for {}", what(step))).collect();
                let reason = if announced { "SuccessorsAnnounced" } else { "SuccessorsPromoted" };
                (Status::True, reason, names.join("; "))
            }
        };
        self.said.push(Finding::new(ROTATING, status, reason, message));
    }
}
