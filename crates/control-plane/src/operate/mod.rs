//! Running a control plane: from a HostedControlPlane to a namespace full of components, and back to its status.
//!
//! ```text
//! HostedControlPlane ─> facts ─> Services, Routes ─> certificates ─> components whose turn it is
//!          ▲                                                              │
//!          └── conditions, one write <── progress (pure) <── workloads as they are
//! ```
//!
//! A run reads views only, plans, and applies what differs; a settled control plane costs no request. Components do not
//! wait in line: each is applied as soon as what it depends on is rolled out at the wanted version, which a watch tells.
//! During an upgrade a component that has to wait goes on in its old version.

mod objects;
mod progress;
mod views;
mod watches;

pub use progress::{Progress, Rollout, Turn, progress};
pub use views::Views;
pub use watches::{KINDS, start};

use crate::certificates::plan::{self, Kind};
use crate::facts::{self, Around};
use crate::scope::{Release, Scope};
use crate::{Error as RenderError, publish, render, table};
use apis::hypershift::HostedControlPlane;
use clock::SharedClock;
use futures::future::BoxFuture;
use jiff::SignedDuration;
use kube::core::DynamicObject;
use objects::{component_status, secret_of};
use progress::conditions;
use reconcile::conditions::Conditions;
use reconcile::{Applier, Controller, Desired, Failure, Outcome, Pause, Waiting, chain, split};
use serde_json::{Value, json};
use std::sync::Arc;

/// What an operator must be told about the world around it.
pub trait Surroundings: Send + Sync + 'static {
    /// The release a control plane is to run.
    fn release<'a>(&'a self, hcp: &'a HostedControlPlane) -> BoxFuture<'a, Result<Release, Failure>>;

    /// Whether the API answers where it is published, and if not, why.
    fn healthy<'a>(&'a self, scope: &'a Scope) -> BoxFuture<'a, Result<(), String>>;

    /// What is known of the management cluster for a namespace.
    fn management(&self, namespace: &str) -> crate::scope::Management;

    /// Client id of the identity that reads vaults.
    fn vault_reader(&self) -> String;

    /// Whether control planes of a namespace are this operator's. Each has a pod of its own that says so; while it does
    /// not run, nothing is done.
    fn serves(&self, _namespace: &str) -> bool {
        true
    }
}

/// Keeps control planes as their objects say.
pub struct Operator {
    pub views: Views,
    pub applier: Applier,
    pub clock: SharedClock,
    pub around: Arc<dyn Surroundings>,
}

impl Controller for Operator {
    fn name(&self) -> &'static str {
        "hosted-control-plane"
    }

    fn reconcile<'a>(&'a self, key: &'a str) -> BoxFuture<'a, Result<Outcome, Failure>> {
        Box::pin(self.run(key))
    }
}

/// Why a control plane is not further along than it is.
struct Held {
    kind: &'static str,
    reason: &'static str,
    message: String,
}

impl Operator {
    async fn run(&self, key: &str) -> Result<Outcome, Failure> {
        let (namespace, name) = split(key);
        let Some(seen) = self.views.planes.get(namespace, name) else { return Ok(Outcome::Done) };
        if seen.metadata.deletion_timestamp.is_some() {
            // Everything is owned by the object and goes with it.
            return Ok(Outcome::Done);
        }
        if !self.around.serves(namespace) {
            return Ok(Outcome::Done);
        }
        let hcp: HostedControlPlane = serde_json::from_value(serde_json::to_value(&*seen)?)?;
        let now = self.clock.now();
        match Pause::read(hcp.spec.paused_until.as_deref(), now) {
            Ok(Pause::Forever) => return Ok(Outcome::Done),
            Ok(Pause::Until(t)) => return Ok(Outcome::After(t.duration_since(now))),
            Ok(Pause::No) | Err(_) => {}
        }
        let mut waiting = Vec::new();
        let held = self.work(&seen, &hcp, &mut waiting).await?;
        let scope = self.scope(&hcp).await.ok();
        let health = match &scope {
            Some(s) if self.views.rollout(namespace, "kube-apiserver").available => {
                self.around.healthy(s).await
            }
            _ => Err("the API server is not available yet".to_owned()),
        };
        let progress = scope.as_ref().map(|s| progress(s, &|n| self.views.rollout(namespace, n)));
        let at = KINDS.plane().at(namespace, name);
        self.applier
            .status(&at, &seen, |o| status(o, scope.as_ref(), progress.as_ref(), held.as_ref(), &health, now))
            .await?;
        if let Some(p) = &progress {
            self.component_statuses(&seen, namespace, p).await?;
            waiting.extend(p.waiting(now));
        }
        // Nobody watches an address from outside; it is asked again until it answers.
        let again = health.is_err().then(|| SignedDuration::from_secs(2));
        match waiting.is_empty() && again.is_none() {
            true => Ok(Outcome::Done),
            false => Ok(Outcome::Waiting { on: waiting, again }),
        }
    }

    async fn scope(&self, hcp: &HostedControlPlane) -> Result<Scope, Held> {
        let release = self.around.release(hcp).await.map_err(|e| Held {
            kind: "ValidReleaseInfo",
            reason: "MissingReleaseImages",
            message: chain(&*e).to_string(),
        })?;
        let namespace = hcp.metadata.namespace.clone().unwrap_or_default();
        let around = Around {
            release,
            management: self.around.management(&namespace),
            given: self.views.given(&namespace),
            vault_reader: self.around.vault_reader(),
        };
        facts::read(hcp, &around).map_err(|e| Held {
            kind: "ValidHostedControlPlaneConfiguration",
            reason: "InvalidConfiguration",
            message: e.to_string(),
        })
    }

    /// One pass: what can be done is done; what holds the rest up is returned.
    async fn work(
        &self,
        seen: &DynamicObject,
        hcp: &HostedControlPlane,
        waiting: &mut Vec<Waiting>,
    ) -> Result<Option<Held>, Failure> {
        let scope = match self.scope(hcp).await {
            Ok(scope) => scope,
            Err(held) => return Ok(Some(held)),
        };
        let now = self.clock.now();
        self.apply(seen, publish::objects(&scope)).await?;
        self.apply(seen, crate::policies(&scope, &[])).await?;
        if scope.endpoints.api.host.is_empty() {
            waiting.push(Waiting::new(
                "an address of Service kube-apiserverlb",
                "the management cluster's cloud provider gives it; see `kubectl describe service kube-apiserverlb`",
                now,
            ));
            return Ok(Some(Held {
                kind: "InfrastructureReady",
                reason: "WaitingOnInfrastructureReady",
                message: "the API's load balancer has no address yet".into(),
            }));
        }
        let kept = self.views.kept(&scope.namespace);
        let rotations = |ca: &str| self.views.rotation(seen, &scope.namespace, ca);
        let issued = match plan::plan(&scope, &kept, &rotations, now) {
            Ok(plan) => plan,
            Err(e) => {
                let message =
                    format!("{}; restore the Secret, or delete it to have everything issued anew", chain(&e));
                return Ok(Some(Held {
                    kind: "ValidHostedControlPlaneConfiguration",
                    reason: "InvalidCertificates",
                    message,
                }));
            }
        };
        let secrets: Vec<Value> = issued.writes.iter().map(|w| secret_of(&scope, w)).collect();
        let wrote = !secrets.is_empty();
        self.apply(seen, secrets).await?;
        self.once(seen, &scope).await?;
        if wrote {
            // Rendered when the views have seen them: what pods mount is part of their hash.
            waiting.push(Waiting::new(
                "certificates that were just issued",
                "nothing: they are on their way",
                now,
            ));
            return Ok(None);
        }
        self.components(seen, &scope).await
    }

    async fn components(&self, seen: &DynamicObject, scope: &Scope) -> Result<Option<Held>, Failure> {
        let turns = progress(scope, &|n| self.views.rollout(&scope.namespace, n));
        let materials = self.views.kept(&scope.namespace);
        let mut objects = Vec::new();
        for component in table::all() {
            if turns.turn(component.name) != Turn::Now {
                continue;
            }
            match render::one(scope, component, &materials) {
                Ok(rendered) => objects.extend(rendered.objects.into_iter().map(|mut o| {
                    objects::mark(scope, &mut o);
                    o
                })),
                Err(e @ RenderError::Image { .. }) => {
                    return Ok(Some(Held {
                        kind: "ValidReleaseInfo",
                        reason: "MissingReleaseImages",
                        message: e.to_string(),
                    }));
                }
                Err(e) => {
                    return Ok(Some(Held {
                        kind: "ValidHostedControlPlaneConfiguration",
                        reason: "InvalidConfiguration",
                        message: e.to_string(),
                    }));
                }
            }
        }
        self.apply(seen, objects).await?;
        Ok(None)
    }

    /// Applies objects of this control plane; kinds that the management cluster does not serve are passed over.
    async fn apply(&self, owner: &DynamicObject, objects: Vec<Value>) -> Result<(), Failure> {
        let mut desired: Vec<Desired> = Vec::with_capacity(objects.len());
        for mut object in objects {
            if !self.views.serves(&object) {
                continue;
            }
            objects::finish(&mut object, owner);
            desired.push(self.applier.desired(object)?);
        }
        self.applier.apply_all(&desired).await.into_result()?;
        Ok(())
    }

    /// Secrets of random text, made once and kept.
    async fn once(&self, owner: &DynamicObject, scope: &Scope) -> Result<(), Failure> {
        for (name, key, bytes) in crate::certificates::generated(scope) {
            if self.views.kept(&scope.namespace).has(Kind::Secret, name) {
                continue;
            }
            let text = objects::random_text(&self.views.random, key, bytes);
            let mut object = objects::text_secret(scope, name, key, &text);
            objects::finish(&mut object, owner);
            let desired = self.applier.desired(object)?;
            let at = desired.at().clone();
            self.applier.create_once(&at, || Ok(desired)).await?;
        }
        Ok(())
    }

    async fn component_statuses(
        &self,
        owner: &DynamicObject,
        namespace: &str,
        p: &Progress,
    ) -> Result<(), Failure> {
        let now = self.clock.now();
        for (name, turn, rollout) in p.iter() {
            if !self.views.components_served() {
                return Ok(());
            }
            let there = self.views.components.get(namespace, name);
            let Some(there) = there else {
                let mut object = json!({"apiVersion": "hypershift.openshift.io/v1beta1", "kind": "ControlPlaneComponent",
                    "metadata": {"name": name, "namespace": namespace}, "spec": {}});
                objects::finish(&mut object, owner);
                self.applier.apply(&self.applier.desired(object)?).await?;
                continue;
            };
            let at = KINDS.component().at(namespace, name);
            self.applier
                .status(&at, &there, |o| component_status(o, turn, rollout, p.version(), now))
                .await?;
        }
        Ok(())
    }
}

/// The status of a control plane; pure.
fn status(
    o: &DynamicObject,
    scope: Option<&Scope>,
    progress: Option<&Progress>,
    held: Option<&Held>,
    health: &Result<(), String>,
    now: jiff::Timestamp,
) -> Value {
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
