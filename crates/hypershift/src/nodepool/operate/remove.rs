//! Taking a pool away: first what makes machines, then the machines, then what they booted with.

use super::Pools;
use crate::kinds;
use crate::nodepool::{home, key, name, status};
use apis::hypershift::NodePool;
use apis::names::finalizer;
use jiff::SignedDuration;
use kube::core::DynamicObject;
use reconcile::{Failure, Outcome, Waiting};

/// A watch tells of every machine that goes; this is for the one that never does.
const AGAIN: SignedDuration = SignedDuration::from_mins(1);
/// For what no watch has told of.
const SOON: SignedDuration = SignedDuration::from_secs(1);

impl Pools {
    pub(super) async fn remove(&self, seen: &DynamicObject, np: &NodePool) -> Result<Outcome, Failure> {
        let at = kinds::POOL.at(home(np), name(np));
        if !seen.metadata.finalizers.iter().flatten().any(|f| f == finalizer::HYPERSHIFT) {
            return Ok(Outcome::Done);
        }
        let namespace = apis::naming::control_plane_namespace(home(np), &np.spec.cluster_name);
        let (views, applier) = (self.views(), &self.operator.applier);
        let pool = key(np);
        self.rolling.lock().remove(&pool);
        self.pause_machines(np, &namespace, false).await?;
        let mut makers = Vec::new();
        for (kind, view) in
            [(kinds::MACHINE_DEPLOYMENT, &views.deployments), (kinds::MACHINE_SET, &views.sets)]
        {
            for w in view.within(&namespace).into_iter().filter(|w| w.pool == pool) {
                if !w.deleting && !w.owned {
                    applier.delete(&kind.at(&namespace, &w.name)).await?;
                }
                makers.push(format!("{} {namespace}/{}", kind.kind, w.name));
            }
        }
        if views.checks.get(&namespace, name(np)).is_some_and(|c| c.pool == pool) {
            applier.delete(&kinds::MACHINE_CHECK.at(&namespace, name(np))).await?;
        }
        let machines = self.machines(np, &namespace);
        if !machines.is_empty() || !makers.is_empty() {
            let finding = status::leaving(&machines);
            let text = finding.message.clone();
            self.say(seen, finding).await?;
            let mut on: Vec<Waiting> = makers
                .into_iter()
                .map(|m| Waiting::new(format!("{m} to be gone"), text.clone(), self.operator.clock.now()))
                .collect();
            on.extend(machines.iter().map(|m| {
                let said = m.ready.as_ref().map(|w| w.message.clone()).unwrap_or_default();
                Waiting::new(
                    format!("Machine {namespace}/{} to be gone", m.name),
                    said,
                    self.operator.clock.now(),
                )
            }));
            return Ok(Outcome::Waiting { on, again: Some(AGAIN) });
        }
        let unseen = self.unseen(np, &namespace).await?;
        if !unseen.is_empty() {
            return Ok(Outcome::Waiting { on: unseen, again: Some(SOON) });
        }
        for t in views.templates.within(&namespace).into_iter().filter(|t| t.pool == pool) {
            applier.delete(&kinds::AZURE_TEMPLATE.at(&namespace, &t.name)).await?;
        }
        for t in self.tunings(np, &namespace) {
            applier.delete(&kinds::CONFIG_MAP.at(&namespace, &t.name)).await?;
        }
        for s in self.tokens(np, &namespace) {
            applier.delete(&kinds::SECRET.at(&namespace, &s.name)).await?;
        }
        applier.remove_finalizer(&at, seen, finalizer::HYPERSHIFT).await?;
        Ok(Outcome::Done)
    }

    /// What has the pool's name is asked to go, whether a watch has told of it or not: nobody owns it but the pool, and
    /// what is there after the pool is there for ever. Says what was still there.
    async fn unseen(&self, np: &NodePool, namespace: &str) -> Result<Vec<Waiting>, Failure> {
        let mut on = Vec::new();
        for kind in [kinds::MACHINE_DEPLOYMENT, kinds::MACHINE_SET, kinds::MACHINE_CHECK] {
            if self.operator.applier.delete(&kind.at(namespace, name(np))).await? {
                let what = format!("{} {namespace}/{} to be gone", kind.kind, name(np));
                on.push(Waiting::new(what, "its deletion was asked for", self.operator.clock.now()));
            }
        }
        Ok(on)
    }
}
