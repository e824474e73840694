//! Removing what is ours and no longer desired.
//!
//! "Ours" is a label that a list can select by, and an annotation that says whose exactly (labels are too short for
//! `namespace/name`). An object needs both to be deleted. A plan that desires nothing, or would delete much, is more
//! often a bug than a wish, so both have to be said.

use super::error::{Cause, request};
use super::{Applied, Applier, Error, Report};
use crate::kind::{Kind, ObjectRef};
use crate::ledger::Ledger;
use crate::metrics::APPLIES;
use futures::StreamExt;
use kube::api::{DeleteParams, ListParams, Preconditions};
use kube::core::ObjectMeta;
use serde_json::{Value, json};
use std::collections::{BTreeSet, HashSet};

/// How our objects are marked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owner {
    /// To find them by.
    pub label: (String, String),
    /// To be sure.
    pub annotation: Option<(String, String)>,
}

impl Owner {
    pub fn label(key: impl Into<String>, value: impl Into<String>) -> Owner {
        Owner { label: (key.into(), value.into()), annotation: None }
    }

    #[must_use]
    pub fn annotation(mut self, key: impl Into<String>, value: impl Into<String>) -> Owner {
        self.annotation = Some((key.into(), value.into()));
        self
    }

    /// Marks a manifest as ours.
    pub fn stamp(&self, manifest: &mut Value) {
        let meta = &mut manifest["metadata"];
        meta["labels"][&self.label.0] = json!(self.label.1);
        if let Some((k, v)) = &self.annotation {
            meta["annotations"][k] = json!(v);
        }
    }

    fn owns(&self, m: &ObjectMeta) -> bool {
        let has = |map: &Option<std::collections::BTreeMap<String, String>>, (k, v): &(String, String)| {
            map.as_ref().and_then(|m| m.get(k)) == Some(v)
        };
        has(&m.labels, &self.label) && self.annotation.as_ref().is_none_or(|a| has(&m.annotations, a))
    }
}

impl std::fmt::Display for Owner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}={}", self.label.0, self.label.1)
    }
}

/// What to look through and how far to go.
#[derive(Clone, Debug)]
pub struct Prune {
    pub owner: Owner,
    /// Empty: all.
    pub namespace: String,
    /// Only these kinds are looked at. Keep those in that were desired in an earlier version of the program.
    pub kinds: Vec<Kind>,
    pub at_most: usize,
    pub all: bool,
}

impl Prune {
    pub fn new(owner: Owner, namespace: impl Into<String>, kinds: impl Into<Vec<Kind>>) -> Prune {
        Prune { owner, namespace: namespace.into(), kinds: kinds.into(), at_most: 50, all: false }
    }

    /// Nothing is desired, and that is meant.
    #[must_use]
    pub fn all(mut self) -> Prune {
        (self.all, self.at_most) = (true, usize::MAX);
        self
    }

    #[must_use]
    pub fn at_most(mut self, most: usize) -> Prune {
        self.at_most = most;
        self
    }

    /// What is remembered after a prune: who looked where, and what was desired.
    fn hashes(&self, ledger: &Ledger, keep: &BTreeSet<&ObjectRef>) -> (u64, u64) {
        let kinds: Vec<String> = self.kinds.iter().map(|k| format!("{}/{}", k.group, k.kind)).collect();
        let who = json!([self.owner.label, self.owner.annotation, self.namespace, kinds]);
        let keep: Vec<String> = keep.iter().map(|r| format!("{}/{r}", r.kind.group)).collect();
        (ledger.prints().value(&who), ledger.prints().value(&json!(keep)))
    }
}

impl Applier {
    /// Deletes what is ours and not in `keep`. Asks nothing if the same was desired last time and every list since
    /// then is accounted for.
    pub async fn prune<'a>(
        &self,
        what: &Prune,
        keep: impl IntoIterator<Item = &'a ObjectRef>,
    ) -> Result<Report, Error> {
        let keep: BTreeSet<&ObjectRef> = keep.into_iter().collect();
        let owner = || what.owner.to_string();
        if what.owner.label.0.is_empty() || what.owner.label.1.is_empty() {
            return Err(Error::Unmarked { label: owner() });
        }
        if keep.is_empty() && !what.all {
            return Err(Error::NothingDesired { owner: owner() });
        }
        let (who, desired) = what.hashes(&self.ledger, &keep);
        if self.ledger.is_pruned(who, desired) {
            return Ok(Report::default());
        }
        let mut doomed = Vec::new();
        for kind in &what.kinds {
            let kept: HashSet<(&str, &str)> = keep
                .iter()
                .filter(|r| r.kind.is(&kind.group, &kind.kind))
                .map(|r| (&*r.namespace, &*r.name))
                .collect();
            for m in self.ours(what, kind).await? {
                let (ns, name) =
                    (m.namespace.clone().unwrap_or_default(), m.name.clone().unwrap_or_default());
                // What is on its way out needs no push.
                if !kept.contains(&(&*ns, &*name)) && m.deletion_timestamp.is_none() {
                    doomed.push((kind.at(ns, name), m));
                }
            }
        }
        if doomed.len() > what.at_most {
            return Err(Error::TooMany { owner: owner(), found: doomed.len(), most: what.at_most });
        }
        let results: Vec<_> = futures::stream::iter(doomed)
            .map(|(at, m)| async move {
                let result = self.remove(&at, &m).await;
                (at, result)
            })
            .buffered(super::PARALLEL)
            .collect()
            .await;
        let report = Report { results };
        // An owner of nothing is about to be gone: nothing is remembered of it.
        self.ledger.pruned(who, (report.is_good() && !keep.is_empty()).then_some(desired));
        Ok(report)
    }

    async fn ours(&self, what: &Prune, kind: &Kind) -> Result<Vec<ObjectMeta>, Error> {
        let api = kind.api(&self.client, &what.namespace);
        let selector = what.owner.to_string();
        let mut params = ListParams::default().labels(&selector).limit(500);
        let mut found = Vec::new();
        loop {
            let page = match api.list_metadata(&params).await {
                Ok(page) => page,
                // Not served: there are none.
                Err(kube::Error::Api(s)) if s.code == 404 => return Ok(found),
                Err(e) => {
                    return Err(Error::List {
                        kind: kind.kind.to_string(),
                        selector,
                        source: Cause::from(e),
                    });
                }
            };
            found.extend(page.items.into_iter().map(|o| o.metadata).filter(|m| what.owner.owns(m)));
            match page.metadata.continue_.filter(|c| !c.is_empty()) {
                Some(next) => params.continue_token = Some(next),
                None => return Ok(found),
            }
        }
    }

    /// Exactly the object that was looked at: one that changed meanwhile may no longer be ours.
    async fn remove(&self, at: &ObjectRef, m: &ObjectMeta) -> Result<Applied, Error> {
        let exactly = Preconditions { uid: m.uid.clone(), resource_version: m.resource_version.clone() };
        let params = DeleteParams::background().preconditions(exactly);
        match at.api(&self.client).delete(&at.name, &params).await {
            Ok(_) => {}
            Err(kube::Error::Api(s)) if s.code == 404 => {}
            Err(e) => return Err(request("prune", at)(e)),
        }
        self.ledger.forget(at);
        self.metrics.count(&APPLIES, &[self.manager, Applied::Pruned.word()]);
        Ok(Applied::Pruned)
    }
}
