//! Machines: what they boot with, what they stand on, which node they became, and how they go.

use super::Shared;
use super::guests::{AWAY, Guest, NodeFact};
use super::views::{Seen, cluster_of, has_annotation, name, namespace, typed};
use super::write::Changed;
use crate::kinds::{self, annotation, finalizer, label};
use crate::life::{self, Facts, Going, Infra, Node};
use crate::words;
use apis::capi::MachineSpec;
use futures::future::BoxFuture;
use jiff::SignedDuration;
use kube::core::DynamicObject;
use reconcile::{Controller, Failure, Outcome, Waiting, own, split};
use serde_json::{Value, json};
use std::sync::Arc;

pub struct Machines(pub Arc<Shared>);

impl Controller for Machines {
    fn name(&self) -> &'static str {
        "machine"
    }

    fn reconcile<'a>(&'a self, key: &'a str) -> BoxFuture<'a, Result<Outcome, Failure>> {
        Box::pin(self.run(key))
    }
}

/// The infrastructure of a machine as its own controller reports it.
fn infra(o: Option<&Seen>) -> Infra {
    let Some(o) = o else { return Infra::Absent };
    let (spec, status) = (&o.data["spec"], &o.data["status"]);
    let text = |v: &Value| v.as_str().map(str::to_owned);
    let failure = text(&status["failureMessage"])
        .map(|m| (text(&status["failureReason"]).unwrap_or_else(|| "CreateError".into()), m));
    Infra::There {
        ready: status["ready"] == true,
        provider_id: text(&spec["providerID"]),
        addresses: status["addresses"].clone(),
        failure,
        said: words::find(status, words::READY).cloned(),
    }
}

impl Machines {
    async fn run(&self, key: &str) -> Result<Outcome, Failure> {
        let (ns, n) = split(key);
        let shared = &self.0;
        let Some(seen) = shared.views.machines.get(ns, n) else {
            shared.guests.drained(key);
            return Ok(Outcome::Done);
        };
        if shared.is_stale(&seen) || shared.rests(&seen) {
            return Ok(Outcome::Done);
        }
        let spec: MachineSpec = typed(&seen, "spec")?;
        let azure =
            spec.infrastructure_ref.name.as_deref().and_then(|n| shared.views.azure_machines.get(ns, n));
        if seen.metadata.deletion_timestamp.is_some() {
            return self.remove(&seen, &spec, azure, key).await;
        }
        let at = kinds::MACHINE.at(ns, n);
        if shared.applier.add_finalizer(&at, &seen, finalizer::MACHINE).await?.is_some() {
            return Ok(Outcome::Done);
        }
        if let Some(azure) = &azure {
            self.take(&seen, azure).await?;
        }
        let facts_infra = infra(azure.as_ref());
        if let Changed::Written(_) | Changed::Overtaken = self.follow(&seen, &facts_infra).await? {
            return Ok(Outcome::Done);
        }
        let (node, away) = self.node(&seen, &spec).await;
        if let (Node::There { .. }, Some((guest, fact))) = (&node, &away) {
            self.mark(&seen, guest, fact).await?;
        }
        let waits = matches!(node, Node::Unreachable(_));
        let hint = if let Node::Unreachable(why) = &node { why.clone() } else { String::new() };
        let facts = Facts {
            generation: seen.metadata.generation,
            bootstrap: spec.bootstrap.data_secret_name.as_deref().is_some_and(|s| !s.is_empty()),
            infra: facts_infra,
            node,
            going: None,
        };
        let now = shared.clock.now();
        shared.status(&at, &seen, |o| life::status(&o.data["status"], &facts, now)).await?;
        Ok(match waits {
            true => Outcome::Waiting {
                on: vec![Waiting::new(format!("the API of cluster {ns}/{}", spec.cluster_name), hint, now)],
                again: Some(AWAY),
            },
            false => Outcome::Done,
        })
    }

    /// An AzureMachine that somebody made by hand becomes the machine's.
    async fn take(&self, machine: &Seen, azure: &Seen) -> Result<(), Failure> {
        if super::index::controller(azure).is_some() {
            return Ok(());
        }
        self.0
            .change(&kinds::AZURE_MACHINE, azure, |o| {
                own(o, &kinds::MACHINE, machine);
                o["metadata"]["labels"][label::CLUSTER] = json!(cluster_of(machine));
            })
            .await?;
        Ok(())
    }

    /// What the infrastructure decided: id and zone.
    async fn follow(&self, machine: &Seen, infra: &Infra) -> Result<Changed, Failure> {
        let id = match infra {
            Infra::There { provider_id: Some(id), .. } => Some(id.clone()),
            _ => None,
        };
        let changed = self
            .0
            .change(&kinds::MACHINE, machine, |o| {
                o["metadata"]["labels"][label::CLUSTER] = json!(cluster_of(machine));
                if let Some(id) = id {
                    o["spec"]["providerID"] = json!(id);
                }
            })
            .await?;
        Ok(changed)
    }

    async fn node(&self, machine: &Seen, spec: &MachineSpec) -> (Node, Option<(Arc<Guest>, Arc<NodeFact>)>) {
        let Some(id) = spec.provider_id.as_deref().filter(|id| !id.is_empty()) else {
            return (Node::TooEarly, None);
        };
        let guest = match self.0.guests.get(namespace(machine), &spec.cluster_name).await {
            Ok(guest) => guest,
            Err(why) => return (Node::Unreachable(why.0), None),
        };
        if !guest.nodes.complete() {
            return (Node::Unreachable("its nodes have not been listed yet".into()), None);
        }
        match guest.nodes.by_provider(id) {
            None => (Node::Absent, None),
            Some(fact) => {
                let node = Node::There {
                    name: fact.name.clone(),
                    uid: fact.uid.clone(),
                    info: fact.info.clone(),
                    ready: fact.ready().map_or_else(|| "Unknown".to_owned(), |c| c.status.clone()),
                };
                (node, Some((guest, fact)))
            }
        }
    }

    /// Says on the node whose it is, once.
    async fn mark(&self, machine: &Seen, guest: &Guest, fact: &NodeFact) -> Result<(), Failure> {
        if fact.machine.as_deref() == Some(name(machine)) {
            return Ok(());
        }
        let owner = super::index::controller(machine);
        let patch = json!({"metadata": {"annotations": {
            annotation::NODE_CLUSTER: cluster_of(machine), annotation::NODE_NAMESPACE: namespace(machine),
            annotation::NODE_MACHINE: name(machine),
            annotation::NODE_OWNER_KIND: owner.map(|o| o.0), annotation::NODE_OWNER_NAME: owner.map(|o| o.1),
        }}});
        super::drain::patch_node(&guest.client, &fact.name, &patch).await?;
        Ok(())
    }

    /// What the server has of an AzureMachine that the view has not: the watch may not have told of it yet, and a Machine
    /// that ended before it would leave it behind.
    async fn unseen(&self, machine: &Seen, spec: &MachineSpec) -> Result<Option<Seen>, Failure> {
        let Some(n) = spec.infrastructure_ref.name.as_deref().filter(|n| !n.is_empty()) else {
            return Ok(None);
        };
        let api = kinds::AZURE_MACHINE.api(self.0.applier.client(), namespace(machine));
        Ok(api.get_opt(n).await?.map(Arc::new))
    }

    async fn remove(
        &self,
        seen: &Seen,
        spec: &MachineSpec,
        azure: Option<Seen>,
        key: &str,
    ) -> Result<Outcome, Failure> {
        let shared = &self.0;
        let at = kinds::MACHINE.at(namespace(seen), name(seen));
        let azure = match azure {
            Some(azure) => Some(azure),
            None => self.unseen(seen, spec).await?,
        };
        // Once the infrastructure goes, there is nothing to save any more.
        let begun = azure.as_ref().is_none_or(|a| a.metadata.deletion_timestamp.is_some());
        let (step, again) = match begun {
            true => (super::drain::Step { over: true, ..super::drain::Step::default() }, None),
            false => super::drain::step(shared, seen, spec, key).await,
        };
        let (mut reason, mut message) = (step.reason, step.message.clone());
        let mut gone = false;
        if step.over {
            shared.guests.drained(key);
            match &azure {
                Some(azure) => {
                    if azure.metadata.deletion_timestamp.is_none() {
                        shared.writer.delete(&kinds::AZURE_MACHINE, azure).await?;
                    }
                    let said = words::find(&azure.data["status"], words::READY);
                    let said = said.and_then(|c| c["message"].as_str()).unwrap_or_default();
                    reason = "WaitingForInfrastructureDeletion";
                    message = format!("waiting for AzureMachine {} to be gone. {said}", name(azure))
                        .trim()
                        .to_owned();
                }
                None => {
                    gone = super::drain::delete_node(shared, seen, spec).await?;
                    (reason, message) = ("DeletingNode", "removing the node from the cluster".into());
                }
            }
        }
        if gone {
            shared.applier.remove_finalizer(&at, seen, finalizer::MACHINE).await?;
            return Ok(Outcome::Done);
        }
        let going = Going {
            reason,
            message: message.clone(),
            drain_began: step.drain_began,
            detach_began: step.detach_began,
        };
        let facts = Facts {
            generation: seen.metadata.generation,
            bootstrap: spec.bootstrap.data_secret_name.is_some(),
            infra: infra(azure.as_ref()),
            node: known_node(seen),
            going: Some(going),
        };
        let now = shared.clock.now();
        shared.status(&at, seen, |o| life::status(&o.data["status"], &facts, now)).await?;
        let on = vec![Waiting::new(format!("machine {key} to go ({reason})"), message, now)];
        let again = again.or_else(|| azure.is_none().then_some(SignedDuration::from_secs(2)));
        Ok(Outcome::Waiting { on, again })
    }
}

/// What was known of the node before it began to go.
fn known_node(machine: &DynamicObject) -> Node {
    let node = &machine.data["status"]["nodeRef"];
    match node["name"].as_str() {
        Some(name) => Node::There {
            name: name.to_owned(),
            uid: node["uid"].as_str().unwrap_or_default().to_owned(),
            info: Value::Null,
            ready: match words::find(&machine.data["status"], "NodeHealthy")
                .and_then(|c| c["status"].as_str())
            {
                Some(s) => s.to_owned(),
                None => "Unknown".to_owned(),
            },
        },
        None => Node::TooEarly,
    }
}

/// Whether deletion hooks of a phase are on a machine.
pub fn hooks(machine: &DynamicObject, prefix: &str) -> Vec<String> {
    let all = machine.metadata.annotations.iter().flatten();
    all.filter(|(k, _)| k.starts_with(prefix)).map(|(k, _)| k.clone()).collect()
}

/// Whether an annotation says so.
pub fn excluded(machine: &DynamicObject, key: &str) -> bool {
    has_annotation(machine, key)
}
