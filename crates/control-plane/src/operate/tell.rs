//! Saying how things are: the status of a control plane and of its components.

use super::conditions::{Known, conditions, encrypted, observed};
use super::memo::{self, Memo};
use super::objects::{self, Standing, component_status};
use super::progress::{self, Progress, Rollout, Turn};
use super::trouble::Trouble;
use super::{Found, KINDS, Operator, Pass, Verdict};
use crate::certificates;
use crate::encryption::{self, Observed};
use apis::conditions::hosted_cluster::VALID_RELEASE_INFO;
use apis::hypershift::encryption::SecretEncryptionStatus;
use futures::StreamExt;
use futures::future::BoxFuture;
use kube::core::DynamicObject;
use reconcile::conditions::Conditions;
use reconcile::{Failure, StatusWrite};
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// Set by the config operator: the key that everything was last rewritten with.
const MIGRATED: &str = "hypershift.openshift.io/re-encrypted-with";
/// Statuses written at the same time.
const PARALLEL: usize = 8;

/// Components that the operator of HostedClusters applies. It renders, and we see them run: they are told of with the others.
const BROUGHT: [&str; 3] = ["control-plane-operator", "cluster-api", "capi-provider"];

impl Operator {
    /// Writes the status of a control plane, if it is news. Says whether the key of its data is being changed.
    pub(super) async fn tell(&self, seen: &DynamicObject, account: &Account<'_>) -> Result<bool, Failure> {
        let m = &seen.metadata;
        let namespace = m.namespace.as_deref().unwrap_or_default();
        let at = KINDS.plane().at(namespace, m.name.clone().unwrap_or_default());
        let now = self.clock.now();
        self.applier.status(&at, seen, |o| status(o, seen, account, now)).await?;
        let wished = account.pass.and_then(|p| p.wished);
        Ok(wished.is_some() && encryption::rotating(&encryption_of(seen)))
    }

    /// Those of [`BROUGHT`] that are there. Their version is that of whoever brings them, not the guest's.
    fn brought(&self, pass: &Pass<'_>) -> Vec<(&'static str, Rollout)> {
        let there = BROUGHT.iter().map(|name| (*name, self.views.rollout(&pass.scope.namespace, name)));
        let there = there.filter(|(_, own)| own.there);
        there
            .map(|(name, own)| (name, Rollout { version: pass.progress.version().to_owned(), ..own }))
            .collect()
    }

    /// One ControlPlaneComponent for each component that is part of the cluster, and none for others.
    pub(super) async fn tell_components(
        &self,
        pass: &Pass<'_>,
        found: &Found,
        memo: &mut Memo,
    ) -> Result<(), Failure> {
        if !self.views.components_served() {
            return Ok(());
        }
        let (namespace, p) = (&*pass.scope.namespace, pass.progress);
        let brought = self.brought(pass);
        for name in BROUGHT {
            let there = self.views.components.get(namespace, name).is_some();
            if there && !brought.iter().any(|(n, _)| *n == name) {
                self.applier.delete(&KINDS.component().at(namespace, name)).await?;
            }
        }
        let all = || p.iter().chain(brought.iter().map(|(name, own)| (*name, Turn::Now, own)));
        let mut missing = Vec::new();
        let mut open: Vec<BoxFuture<'_, Result<Option<(&'static str, memo::Sum)>, Failure>>> = Vec::new();
        for (name, turn, rollout) in all() {
            let Some(there) = self.views.components.get(namespace, name) else {
                let mut object = json!({"apiVersion": "hypershift.openshift.io/v1beta1", "kind": "ControlPlaneComponent",
                    "metadata": {"name": name, "namespace": namespace}, "spec": {}});
                objects::finish(&mut object, pass.seen);
                missing.push(self.applier.desired(object)?);
                continue;
            };
            let standing = Standing {
                turn,
                rollout,
                after: p.after(name),
                error: found.errors.get(name).map(String::as_str),
                trouble: pass.troubles.iter().find(|t| t.component == name).map(|t| t.text.as_str()),
            };
            let looks = memo::sum(&format!("{:?}{standing:?}{}", there.version, p.version()));
            let resources = memo.resources.get(name).cloned();
            if memo.told.get(name) == Some(&looks) && resources.is_none() {
                continue;
            }
            open.push(Box::pin(async move {
                let at = KINDS.component().at(namespace, name);
                let resources = resources.as_deref();
                let compute =
                    |o: &DynamicObject| component_status(o, &standing, resources, p.version(), pass.now);
                let wrote = self.applier.status(&at, &there.object(), compute).await?;
                Ok((wrote == StatusWrite::Same).then_some((name, looks)))
            }));
        }
        let made = self.applier.apply_all(&missing).await.into_result();
        let mut writes = futures::stream::iter(open).buffer_unordered(PARALLEL);
        let mut failed = None;
        while let Some(wrote) = writes.next().await {
            match wrote {
                Ok(Some((name, looks))) => {
                    memo.told.insert(name, looks);
                    memo.resources.remove(name);
                }
                Ok(None) => {}
                Err(e) => failed = Some(e),
            }
        }
        made?;
        let wanted: BTreeSet<&str> = all().map(|(n, _, _)| n).collect();
        memo.told.retain(|n, _| wanted.contains(n));
        // What is published and what is private belongs to no component.
        memo.resources.retain(|n, _| wanted.contains(n));
        failed.map_or(Ok(()), Err)
    }
}

/// All that a status is made from.
pub(super) struct Account<'a> {
    /// Nothing if there are no facts to go by.
    pub pass: Option<&'a Pass<'a>>,
    /// What is seen all the same.
    pub progress: Option<&'a Progress>,
    pub troubles: &'a [Trouble],
    pub found: &'a Found,
    pub health: &'a Result<(), String>,
    /// The administrator's kubeconfig is written.
    pub kubeconfig: bool,
    pub name: Option<Result<(), String>>,
    pub azure: Verdict,
    pub kms: Verdict,
}

impl<'a> Account<'a> {
    pub fn of(found: &'a Found, health: &'a Result<(), String>) -> Account<'a> {
        Account {
            pass: None,
            progress: None,
            troubles: &[],
            found,
            health,
            kubeconfig: false,
            name: None,
            azure: Verdict::Good,
            kms: Verdict::Good,
        }
    }
}

/// What an object says of the encryption of its data.
pub(super) fn encryption_of(o: &DynamicObject) -> SecretEncryptionStatus {
    let status = o.data.get("status").and_then(|s| s.get("secretEncryption"));
    status.and_then(|s| serde_json::from_value(s.clone()).ok()).unwrap_or_default()
}

/// The status of a control plane; pure. Conditions of others stay as they are.
fn status(o: &DynamicObject, seen: &DynamicObject, account: &Account<'_>, now: jiff::Timestamp) -> Value {
    let scope = account.pass.map(|p| p.scope);
    let progress = account.pass.map(|p| p.progress).or(account.progress);
    let mut status = o.data.get("status").cloned().filter(Value::is_object).unwrap_or_else(|| json!({}));
    let generation = o.metadata.generation;
    let mut all = Conditions::of(&status);
    let was_available = status["initialized"] == true;
    let known = Known {
        scope,
        progress,
        held: account.found.held.as_ref(),
        stale: account.found.stale.as_deref(),
        foreign_etcd: o.data["spec"]["etcd"]["managementType"] == "Unmanaged",
        kubeconfig: account.kubeconfig,
        health: account.health,
        was_available,
        name: account.name.as_ref(),
        providers: account.found.providers.as_deref(),
        azure: &account.azure,
        kms: &account.kms,
        troubles: account.pass.map_or(account.troubles, |p| p.troubles),
    };
    for finding in conditions(&known) {
        // Without facts, what was said of them stands; but why there are none is said.
        let news = known.held.is_some_and(|h| h.kind == finding.kind || finding.kind == VALID_RELEASE_INFO);
        if scope.is_some() || observed(&finding.kind) || news || all.get(&finding.kind).is_none() {
            all.set(finding, generation, now);
        }
    }
    for finding in &account.found.said {
        all.set(finding.clone(), generation, now);
    }
    let available = all.is_true("Available");
    status["ready"] = json!(available);
    status["initialized"] = json!(was_available || available);
    status["externalManagedControlPlane"] = json!(true);
    if let Some(wished) = account.pass.and_then(|p| p.wished) {
        let (before, was) = (encryption_of(o), encryption_of(seen));
        let annotations = o.metadata.annotations.as_ref();
        let observed = Observed {
            // What was seen is of the phase that was seen.
            converged: account.found.api_converged && before == was,
            migrated_with: annotations.and_then(|a| a.get(MIGRATED)).map(String::as_str),
            // A cluster that is made with a key runs with it before it is available for the first time.
            plain: was_available && status["secretEncryption"].is_null(),
        };
        let after = encryption::advance(wished, &before, observed, now);
        if after != SecretEncryptionStatus::default() {
            status["secretEncryption"] = json!(after);
        }
        if let Some(finding) = encrypted(&after) {
            all.set(finding, generation, now);
        }
    }
    if let Some(s) = scope {
        status["controlPlaneEndpoint"] = json!({"host": s.endpoints.api.host, "port": s.endpoints.api.port});
        status["kubeConfig"] = json!({"name": "admin-kubeconfig", "key": "kubeconfig"});
        status["customKubeconfig"] = match s.endpoints.custom_api {
            Some(_) => json!({"name": certificates::CUSTOM, "key": "kubeconfig"}),
            None => Value::Null,
        };
        status["kubeadminPassword"] = match s.kubeadmin() {
            true => json!({"name": certificates::KUBEADMIN}),
            false => Value::Null,
        };
        if s.oauth() {
            let e = &s.endpoints.oauth;
            status["oauthCallbackURLTemplate"] =
                json!(format!("https://{}:{}/oauth2callback/[identity-provider-name]", e.host, e.port));
        }
        if let Some(p) = progress {
            status["controlPlaneVersion"] =
                progress::history(&status["controlPlaneVersion"], s, p, generation, now);
        }
    }
    status["conditions"] = all.to_value();
    status
}
