//! Making objects be as desired, and saying nothing when they are.
//!
//! Everything is written by server-side apply with one field manager: fields we name are ours, fields we stop naming
//! are removed, fields of others are left alone. [`Applier::apply`] asks the [`Ledger`] first; in a
//! settled cluster it sends nothing. [`Applier::apply_all`] attempts every object, some at a time, and reports on each.
//!
//! Objects whose content is drawn once (keys, passwords) are [`create_once`](Applier::create_once): made if absent, never
//! touched again.

mod desired;
mod error;
mod meta;
mod prune;
mod status;

pub use desired::{Desired, Immutable};
pub use error::{Cause, Error};
pub use meta::own;
pub use prune::{Owner, Prune};
pub use status::{Status, merge_patch};

use crate::kind::{Kinds, ObjectRef};
use crate::ledger::{Ledger, Print, Standing};
use crate::metrics::{APPLIES, Metrics};
use error::request;
use futures::StreamExt;
use futures::future::BoxFuture;
use kube::Client;
use kube::api::{DeleteParams, DynamicObject, Patch, PatchParams, PostParams, Preconditions};
use serde_json::Value;
use std::sync::Arc;

/// Requests of one [`Applier::apply_all`] at the same time.
const PARALLEL: usize = 16;

/// The create-once objects' desired state: that they exist.
const EXISTS: u64 = 1;

/// What it took.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Applied {
    /// Nothing: it is as desired.
    Skipped,
    /// It was applied. Whether that wrote anything, the server knows.
    Sent,
    /// Somebody had changed it while we wished the same, this many times in a row now.
    Corrected { times: u8 },
    /// It was made.
    Created,
    /// It was there, which is all that was wanted.
    Kept,
    /// It could not be changed: it was deleted and made anew.
    Replaced,
    /// It could not be changed and is being deleted. The watch that tells of its end brings us back.
    Replacing,
    /// It was ours, and no longer desired.
    Pruned,
}

impl Applied {
    fn word(self) -> &'static str {
        match self {
            Applied::Skipped => "skipped",
            Applied::Sent => "sent",
            Applied::Corrected { .. } => "corrected",
            Applied::Created => "created",
            Applied::Kept => "kept",
            Applied::Replaced => "replaced",
            Applied::Replacing => "replacing",
            Applied::Pruned => "pruned",
        }
    }
}

/// Writes objects as one field manager. Cheap to clone.
#[derive(Clone)]
pub struct Applier {
    client: Client,
    ledger: Arc<Ledger>,
    kinds: Arc<Kinds>,
    metrics: Metrics,
    manager: &'static str,
    force: bool,
}

/// One result per object, in the order of the objects.
#[derive(Debug, Default)]
pub struct Report {
    pub results: Vec<(ObjectRef, Result<Applied, Error>)>,
}

impl Report {
    pub fn is_good(&self) -> bool {
        self.failures().next().is_none()
    }

    pub fn failures(&self) -> impl Iterator<Item = (&ObjectRef, &Error)> {
        self.results.iter().filter_map(|(at, r)| r.as_ref().err().map(|e| (at, e)))
    }

    /// Whether nothing was asked of the server.
    pub fn is_quiet(&self) -> bool {
        self.results.iter().all(|(_, r)| matches!(r, Ok(Applied::Skipped)))
    }

    pub fn merge(&mut self, other: Report) {
        self.results.extend(other.results);
    }

    /// The first failure, to fail with; the others are in the log.
    pub fn into_result(self) -> Result<(), Error> {
        let mut failures = self.results.into_iter().filter_map(|(_, r)| r.err());
        let first = failures.next();
        for e in failures {
            tracing::debug!(error = %crate::chain(&e), "failed as well");
        }
        first.map_or(Ok(()), Err)
    }
}

impl Applier {
    /// Writes as the ledger's manager.
    pub fn new(client: Client, kinds: Arc<Kinds>, ledger: Arc<Ledger>) -> Applier {
        let manager = ledger.manager();
        Applier { client, ledger, kinds, metrics: Metrics::default(), manager, force: true }
    }

    #[must_use]
    pub fn with_metrics(mut self, metrics: &Metrics) -> Applier {
        self.metrics = metrics.clone();
        self
    }

    /// Fails with `Conflict` in place of taking fields that another manager owns.
    #[must_use]
    pub fn polite(mut self) -> Applier {
        self.force = false;
        self
    }

    pub fn client(&self) -> &Client {
        &self.client
    }

    pub fn desired(&self, manifest: Value) -> Result<Desired, Error> {
        Desired::new(&self.kinds, manifest).map_err(Error::Manifest)
    }

    /// To ask later whether it still stands.
    pub fn print(&self, desired: &Desired) -> Print {
        self.ledger.print(&desired.at, self.ledger.prints().value(&desired.manifest))
    }

    /// Whether all of these are as they were applied: then applying them again would send nothing.
    pub fn stand(&self, prints: &[Print]) -> bool {
        self.ledger.stand(prints)
    }

    /// The newest resourceVersion that is known of an object; nothing if it is gone or was never applied. A view that has
    /// an older one has not heard of what we did yet.
    pub fn version(&self, print: &Print) -> Option<u64> {
        self.ledger.version(print)
    }

    /// Makes one object be as desired.
    pub async fn apply(&self, desired: &Desired) -> Result<Applied, Error> {
        let hash = self.ledger.prints().value(&desired.manifest);
        let result = match self.ledger.standing(&desired.at, hash) {
            Standing::Settled => Ok(Applied::Skipped),
            Standing::Open => self.send(desired, hash).await,
            Standing::Drifted { corrections } => match self.send(desired, hash).await {
                Ok(Applied::Sent) => Ok(self.corrected(&desired.at, corrections.saturating_add(1))),
                other => other,
            },
        };
        self.metrics.count(&APPLIES, &[self.manager, result.as_ref().map_or("failed", |a| a.word())]);
        result
    }

    fn corrected(&self, at: &ObjectRef, times: u8) -> Applied {
        // Once is a person, again and again is a program that believes the field is its own.
        if times >= 4 && times.is_power_of_two() {
            tracing::warn!(object = %at, manager = self.manager, times, "somebody keeps changing what we own");
        }
        Applied::Corrected { times }
    }

    async fn send(&self, desired: &Desired, hash: u64) -> Result<Applied, Error> {
        let flight = self.ledger.sending(&desired.at);
        let (applied, live) = match self.patch(desired).await {
            Err(Error::Request { source, .. })
                if source.is_immutable() && desired.immutable == Immutable::Replace =>
            {
                self.replace(desired).await?
            }
            sent => (Applied::Sent, Some(sent?)),
        };
        if let Some(live) = live {
            flight.answered(hash, &live);
        }
        Ok(applied)
    }

    async fn patch(&self, desired: &Desired) -> Result<DynamicObject, Error> {
        let mut params = PatchParams::apply(self.manager);
        params.force = self.force;
        let api = desired.at.api(&self.client);
        api.patch(&desired.at.name, &params, &Patch::Apply(&desired.manifest))
            .await
            .map_err(request("apply", &desired.at))
    }

    /// Deletes what cannot be changed, exactly that one, and makes it anew if it is gone at once.
    async fn replace(&self, desired: &Desired) -> Result<(Applied, Option<DynamicObject>), Error> {
        let (at, api) = (&desired.at, desired.at.api(&self.client));
        if let Some(old) = api.get_metadata_opt(&at.name).await.map_err(request("read", at))? {
            let exactly = Preconditions { uid: old.metadata.uid, resource_version: None };
            match api.delete(&at.name, &DeleteParams::background().preconditions(exactly)).await {
                Ok(_) => {}
                Err(kube::Error::Api(s)) if s.code == 404 => {}
                Err(e) => return Err(request("replace", at)(e)),
            }
        }
        match self.patch(desired).await {
            Ok(live) => Ok((Applied::Replaced, Some(live))),
            // Its finalizers have not had their say yet.
            Err(Error::Request { source, .. }) if source.is_immutable() => Ok((Applied::Replacing, None)),
            Err(e) => Err(e),
        }
    }

    /// Makes the object if there is none. `make` is called only then, and what exists is never changed: keys and
    /// passwords are drawn once.
    pub async fn create_once(
        &self,
        at: &ObjectRef,
        make: impl FnOnce() -> Result<Desired, Error>,
    ) -> Result<Applied, Error> {
        let result = match self.ledger.exists(at) {
            true => Ok(Applied::Skipped),
            false => self.create(at, make).await,
        };
        self.metrics.count(&APPLIES, &[self.manager, result.as_ref().map_or("failed", |a| a.word())]);
        result
    }

    async fn create(
        &self,
        at: &ObjectRef,
        make: impl FnOnce() -> Result<Desired, Error>,
    ) -> Result<Applied, Error> {
        let flight = self.ledger.sending(at);
        let (applied, live) = self.create_or_find(at, make).await?;
        flight.answered(EXISTS, &live);
        Ok(applied)
    }

    async fn create_or_find(
        &self,
        at: &ObjectRef,
        make: impl FnOnce() -> Result<Desired, Error>,
    ) -> Result<(Applied, DynamicObject), Error> {
        let api = at.api(&self.client);
        if let Some(live) = api.get_opt(&at.name).await.map_err(request("read", at))? {
            return Ok((Applied::Kept, live));
        }
        let object: DynamicObject = serde_json::from_value(make()?.manifest)
            .map_err(|e| request("create", at)(kube::Error::SerdeError(e)))?;
        let params = PostParams { field_manager: Some(self.manager.to_owned()), ..PostParams::default() };
        match api.create(&params, &object).await {
            Ok(live) => Ok((Applied::Created, live)),
            // Somebody was quicker. Theirs counts.
            Err(kube::Error::Api(s)) if s.code == 409 && s.reason == "AlreadyExists" => {
                api.get(&at.name).await.map(|live| (Applied::Kept, live)).map_err(request("read", at))
            }
            Err(e) => Err(request("create", at)(e)),
        }
    }

    /// All of them, some at a time; first those that others live in.
    pub async fn apply_all(&self, objects: &[Desired]) -> Report {
        let mut results: Vec<Option<Result<Applied, Error>>> = Vec::new();
        results.resize_with(objects.len(), || None);
        for first in [true, false] {
            // Boxed one by one, and not by a closure in the stream: the compiler cannot prove of such a stream that it
            // may be spawned.
            let mut these: Vec<BoxFuture<'_, (usize, Result<Applied, Error>)>> = Vec::new();
            for (i, d) in objects.iter().enumerate() {
                if d.comes_first() == first {
                    these.push(Box::pin(async move { (i, self.apply(d).await) }));
                }
            }
            let mut runs = futures::stream::iter(these).buffer_unordered(PARALLEL);
            while let Some((i, result)) = runs.next().await {
                results[i] = Some(result);
            }
        }
        let results = objects.iter().zip(results).filter_map(|(d, r)| r.map(|r| (d.at.clone(), r)));
        Report { results: results.collect() }
    }

    /// Deletes one object; one that is gone is a success. Says whether there was one.
    pub async fn delete(&self, at: &ObjectRef) -> Result<bool, Error> {
        let gone = match at.api(&self.client).delete(&at.name, &DeleteParams::background()).await {
            Ok(_) => Ok(true),
            Err(kube::Error::Api(s)) if s.code == 404 => Ok(false),
            Err(e) => Err(request("delete", at)(e)),
        };
        self.ledger.forget(at);
        gone
    }
}
