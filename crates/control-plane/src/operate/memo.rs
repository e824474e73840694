//! What is remembered of a control plane between runs, so that a settled one costs next to nothing.
//!
//! Nothing here is truth: it says what was made from what. Objects of a component depend on the facts and on what its pods
//! mount; if both are as they were and the [ledger](reconcile::Ledger) says that the objects are as they were left,
//! there is nothing to render. Without a memory everything is rendered once and, being the same, written not at all.
//!
//! The exception is [`Pending`]: certificates that were written and that the watch has not told of yet. A run that did
//! not know of them would issue them again, and an authority that is issued twice is a wrong one.
//!
//! It costs some 30 kB for a control plane: the numbers of 250 objects and the names of what is mounted.

use super::views::Material;
use super::{VERDICT_AGAIN, VERDICT_BELIEVED, Verdict};
use crate::certificates::plan::{Data, Kind};
use crate::scope::{Management, OpenId, Release, Scope};
use apis::hypershift::HostedControlPlane;
use apis::hypershift::component::ComponentResource;
use aws_lc_rs::digest::{SHA256, digest};
use jiff::Timestamp;
use kube::core::DynamicObject;
use pki::rotation::Step;
use reconcile::{Applier, Failure, Print};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Stands for content: half of a SHA-256.
pub type Sum = u128;

/// The sum of a text; most often of how something looks to `Debug`, in which no field can be forgotten.
pub fn sum(text: &str) -> Sum {
    sum_bytes(text.as_bytes())
}

pub fn sum_bytes(bytes: &[u8]) -> Sum {
    let sum = digest(&SHA256, bytes);
    let mut half = [0; 16];
    half.copy_from_slice(&sum.as_ref()[..16]);
    Sum::from_be_bytes(half)
}

/// The sum of keys and values, each with its length.
pub fn sum_of(data: &Data) -> Sum {
    let mut context = aws_lc_rs::digest::Context::new(&SHA256);
    for (key, value) in data {
        for part in [key.as_bytes(), value] {
            context.update(&u64::try_from(part.len()).unwrap_or(u64::MAX).to_be_bytes());
            context.update(part);
        }
    }
    let mut half = [0; 16];
    half.copy_from_slice(&context.finish().as_ref()[..16]);
    Sum::from_be_bytes(half)
}

/// Everything that is remembered of one control plane.
#[derive(Default)]
pub struct Memo {
    read: Option<Read>,
    facts: Option<Facts>,
    /// The release as it was looked up for this object, and until when that is believed.
    pub released: Option<(Release, Timestamp)>,
    /// What was last looked up, by which image: counts if nobody answers any more.
    pub last: Option<(String, Release)>,
    /// Why nobody answered when the release was last looked up.
    pub unanswered: Option<String>,
    /// The last facts there were, whatever the object has become since: where its API is, and what belongs to it.
    pub lately: Option<Arc<Scope>>,
    /// By component; under the empty name what is published.
    pub parts: BTreeMap<&'static str, Part>,
    pub issued: Option<Issued>,
    /// What issuers of OpenID tokens said, by issuer and authority, and when.
    pub openid: BTreeMap<(String, Option<Sum>), (Result<OpenId, String>, Timestamp)>,
    pub pending: Pending,
    /// What the API server looked like when it last answered, and when that was.
    pub answered: Option<(Sum, Timestamp)>,
    /// The member of etcd that was last replaced, by the uid of its pod.
    pub replaced: Option<String>,
    /// What others said of what, and when.
    verdicts: BTreeMap<&'static str, (Sum, Timestamp, Verdict)>,
    /// What the statuses of components were made from.
    pub told: BTreeMap<&'static str, Sum>,
    /// What components consist of, until their ControlPlaneComponents say so.
    pub resources: BTreeMap<&'static str, Arc<[ComponentResource]>>,
}

/// The object, read.
struct Read {
    uid: Option<String>,
    generation: Option<i64>,
    annotations: Sum,
    hcp: Arc<HostedControlPlane>,
}

/// Facts, and what they were made from besides the object and its release.
struct Facts {
    given: BTreeMap<&'static str, String>,
    management: Management,
    scope: Arc<Scope>,
    sum: Sum,
}

/// What one component was made from, and what it was made into.
pub struct Part {
    pub inputs: Sum,
    pub mounts: Box<[(&'static str, String)]>,
    /// The workload is the last.
    pub prints: Box<[Print]>,
}

/// A pass over the certificates that found nothing to do.
pub struct Issued {
    pub facts: Sum,
    pub read: Box<[(Kind, String, Sum)]>,
    pub known: Sum,
    pub until: Option<Timestamp>,
    pub rotating: Vec<(&'static str, Step)>,
}

impl Memo {
    /// The typed object; read again only when something in it that we look at has changed.
    pub fn read(&mut self, seen: &DynamicObject) -> Result<Arc<HostedControlPlane>, Failure> {
        let m = &seen.metadata;
        let annotations = sum(&format!("{:?}{:?}", m.annotations, m.labels));
        if let Some(r) = &self.read
            && (&r.uid, r.generation, r.annotations) == (&m.uid, m.generation, annotations)
        {
            return Ok(r.hcp.clone());
        }
        let hcp: HostedControlPlane = serde_json::from_value(serde_json::to_value(seen)?)?;
        let hcp = Arc::new(hcp);
        (self.facts, self.released) = (None, None);
        self.read =
            Some(Read { uid: m.uid.clone(), generation: m.generation, annotations, hcp: hcp.clone() });
        Ok(hcp)
    }

    /// The release, if it was looked up not long ago.
    pub fn release(&self, now: Timestamp) -> Option<Release> {
        let (release, until) = self.released.as_ref()?;
        (now < *until).then(|| release.clone())
    }

    /// What was said of this, if it still counts.
    pub fn verdict(&self, who: &str, of: Sum, now: Timestamp) -> Option<Verdict> {
        let (what, at, verdict) = self.verdicts.get(who)?;
        let believed = if *verdict == Verdict::Good { VERDICT_BELIEVED } else { VERDICT_AGAIN };
        (*what == of && now.duration_since(*at) < believed).then(|| verdict.clone())
    }

    /// Something is wrong: who agreed a while ago is asked again.
    pub fn doubt(&mut self, who: &str, now: Timestamp) {
        let old = |(_, at, verdict): &(Sum, Timestamp, Verdict)| {
            *verdict == Verdict::Good && now.duration_since(*at) >= VERDICT_AGAIN
        };
        if self.verdicts.get(who).is_some_and(old) {
            self.verdicts.remove(who);
        }
    }

    pub fn asked(&mut self, who: &'static str, of: Sum, now: Timestamp, verdict: &Verdict) {
        self.verdicts.insert(who, (of, now, verdict.clone()));
    }

    /// Facts that were made from exactly this.
    pub fn facts(
        &self,
        given: &BTreeMap<&'static str, String>,
        management: &Management,
        release: &Release,
    ) -> Option<(Arc<Scope>, Sum)> {
        let f = self.facts.as_ref()?;
        let same = f.given == *given && f.management == *management && f.scope.release == *release;
        same.then(|| (f.scope.clone(), f.sum))
    }

    pub fn keep(
        &mut self,
        given: BTreeMap<&'static str, String>,
        management: Management,
        scope: Arc<Scope>,
    ) -> Sum {
        let sum = sum(&format!("{scope:?}"));
        self.lately = Some(scope.clone());
        self.facts = Some(Facts { given, management, scope, sum });
        sum
    }

    /// Whether a component was made from these inputs and is still as it was made.
    pub fn stands(&self, name: &str, inputs: impl Fn(&Part) -> Sum, applier: &Applier) -> bool {
        self.parts.get(name).is_some_and(|p| p.inputs == inputs(p) && applier.stand(&p.prints))
    }
}

/// Secrets and ConfigMaps that were written and not yet seen.
#[derive(Default)]
pub struct Pending(BTreeMap<(Kind, String), (Arc<Material>, Print)>);

impl Pending {
    pub fn get(&self, kind: Kind, name: &str) -> Option<Arc<Material>> {
        if self.0.is_empty() {
            return None;
        }
        self.0.get(&(kind, name.to_owned())).map(|(m, _)| m.clone())
    }

    pub fn insert(&mut self, kind: Kind, name: String, material: Arc<Material>, print: Print) {
        self.0.insert((kind, name), (material, print));
    }

    /// Forgets what the views know by now, and what is gone.
    pub fn settle(&mut self, applier: &Applier, seen: impl Fn(Kind, &str) -> Option<Arc<Material>>) {
        self.0.retain(|(kind, name), (material, print)| {
            let there = applier.version(print).is_some();
            there && seen(*kind, name).is_none_or(|s| s.version < material.version)
        });
    }
}
