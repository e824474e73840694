//! Saying how things are: the status of a control plane and of its components.

use super::memo::{self, Memo};
use super::objects::{self, component_status};
use super::progress::{self, conditions};
use super::{Held, KINDS, Operator, Pass};
use futures::StreamExt;
use futures::future::BoxFuture;
use kube::core::DynamicObject;
use reconcile::conditions::Conditions;
use reconcile::{Failure, StatusWrite};
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// Statuses written at the same time.
const PARALLEL: usize = 8;

impl Operator {
    /// Writes the status of a control plane, if it is news.
    pub(super) async fn tell(
        &self,
        seen: &DynamicObject,
        pass: Option<&Pass<'_>>,
        held: Option<&Held>,
        health: &Result<(), String>,
    ) -> Result<(), Failure> {
        let m = &seen.metadata;
        let at =
            KINDS.plane().at(m.namespace.as_deref().unwrap_or_default(), m.name.clone().unwrap_or_default());
        let now = self.clock.now();
        self.applier.status(&at, seen, |o| status(o, pass, held, health, now)).await?;
        Ok(())
    }

    /// One ControlPlaneComponent for each component that is part of the cluster, and none for others.
    pub(super) async fn tell_components(&self, pass: &Pass<'_>, memo: &mut Memo) -> Result<(), Failure> {
        if !self.views.components_served() {
            return Ok(());
        }
        let (namespace, p) = (&*pass.scope.namespace, pass.progress);
        let mut missing = Vec::new();
        let mut open: Vec<BoxFuture<'_, Result<Option<(&'static str, memo::Sum)>, Failure>>> = Vec::new();
        for (name, turn, rollout) in p.iter() {
            let Some(there) = self.views.components.get(namespace, name) else {
                let mut object = json!({"apiVersion": "hypershift.openshift.io/v1beta1", "kind": "ControlPlaneComponent",
                    "metadata": {"name": name, "namespace": namespace}, "spec": {}});
                objects::finish(&mut object, pass.seen);
                missing.push(self.applier.desired(object)?);
                continue;
            };
            let looks = memo::sum(&format!("{:?}{turn:?}{rollout:?}{}", there.version, p.version()));
            if memo.told.get(name) == Some(&looks) {
                continue;
            }
            open.push(Box::pin(async move {
                let at = KINDS.component().at(namespace, name);
                let compute = |o: &DynamicObject| component_status(o, turn, rollout, p.version(), pass.now);
                let wrote = self.applier.status(&at, &there.object(), compute).await?;
                Ok((wrote == StatusWrite::Same).then_some((name, looks)))
            }));
        }
        let made = self.applier.apply_all(&missing).await.into_result();
        let mut writes = futures::stream::iter(open).buffer_unordered(PARALLEL);
        let mut failed = None;
        while let Some(wrote) = writes.next().await {
            match wrote {
                Ok(Some((name, looks))) => drop(memo.told.insert(name, looks)),
                Ok(None) => {}
                Err(e) => failed = Some(e),
            }
        }
        made?;
        let wanted: BTreeSet<&str> = p.iter().map(|(n, _, _)| n).collect();
        memo.told.retain(|n, _| wanted.contains(n));
        failed.map_or(Ok(()), Err)
    }
}

/// The status of a control plane; pure.
fn status(
    o: &DynamicObject,
    pass: Option<&Pass<'_>>,
    held: Option<&Held>,
    health: &Result<(), String>,
    now: jiff::Timestamp,
) -> Value {
    let (scope, progress) = (pass.map(|p| p.scope), pass.map(|p| p.progress));
    let mut status = o.data.get("status").cloned().filter(Value::is_object).unwrap_or_else(|| json!({}));
    let generation = o.metadata.generation;
    let mut all = Conditions::of(&status);
    let was_available = status["initialized"] == true;
    let held = held.map(|h| (h.kind, h.reason, h.message.as_str()));
    for finding in conditions(scope, progress, held, health, was_available) {
        all.set(finding, generation, now);
    }
    let available = all.is_true("Available");
    status["ready"] = json!(available);
    status["initialized"] = json!(was_available || available);
    status["externalManagedControlPlane"] = json!(true);
    if let Some(s) = scope {
        status["controlPlaneEndpoint"] = json!({"host": s.endpoints.api.host, "port": s.endpoints.api.port});
        status["kubeConfig"] = json!({"name": "admin-kubeconfig", "key": "kubeconfig"});
        if s.oauth() {
            status["kubeadminPassword"] = json!({"name": "kubeadmin-password"});
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
