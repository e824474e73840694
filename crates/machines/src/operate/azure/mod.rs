//! AzureMachines: one virtual machine each, with its network interface and its disks.
//!
//! ```text
//! checked? ─> boots with? ─> (set) ─> interface ─> machine ─ … ─> provider id, addresses, ready
//! going?   ─> machine ─ … ─> interface ─> disks ─> (set) ─> finalizer
//! ```
//!
//! Every arrow is a call that can be made again, under a name that follows from the object's. The finalizer is on
//! before the first call and off after the last answer, so a process may die between any two of them. Whatever Azure
//! is busy with is not waited for by a worker: the operation is written into the status and looked at again when Azure
//! says so.

mod identity;
mod make;
mod offers;
mod remove;

pub use offers::{Census, Offers};

use super::Shared;
use super::views::{Seen, cluster_of, created, name, namespace, typed};
use crate::kinds::{self, finalizer};
use crate::vm::{Kind, Place, Trouble};
use crate::words::{self, Word};
use apis::capz::azure_cluster::AzureClusterSpec;
use apis::capz::azure_machine::AzureMachineSpec;
use futures::future::BoxFuture;
use jiff::SignedDuration;
use kube::core::DynamicObject;
use reconcile::{Controller, Failure, Outcome, Waiting, split};
use serde_json::{Value, json};
use std::sync::Arc;

pub struct AzureMachines(pub Arc<Shared>);

const RUNNING: &str = "VMRunning";
const MARRED: &str = "VMStateFailed";

impl Controller for AzureMachines {
    fn name(&self) -> &'static str {
        "azure-machine"
    }

    fn reconcile<'a>(&'a self, key: &'a str) -> BoxFuture<'a, Result<Outcome, Failure>> {
        Box::pin(self.run(key))
    }
}

/// Everything around a machine.
struct Scope {
    seen: Seen,
    spec: AzureMachineSpec,
    /// Gone before what it stands on, sometimes.
    machine: Option<Seen>,
    azure: Seen,
    place: Place,
    has_zones: bool,
}

/// What a pass came to, for the status.
enum Came {
    /// It waits for something in the management cluster: reason and message.
    Waits(&'static str, String),
    /// Azure is at work. An operation to look at, if there is one; when to look.
    Working {
        reason: &'static str,
        message: String,
        operation: Option<Value>,
        again: SignedDuration,
    },
    /// `fresh` is the object after our own last write.
    Ready {
        addresses: Value,
        fresh: Option<Box<DynamicObject>>,
    },
    /// It runs, and Azure says that the last change to it failed.
    Marred(String),
    Troubled(Trouble),
}

impl AzureMachines {
    async fn run(&self, key: &str) -> Result<Outcome, Failure> {
        let (ns, n) = split(key);
        let shared = &self.0;
        let Some(seen) = shared.views.azure_machines.get(ns, n) else { return Ok(Outcome::Done) };
        if shared.is_stale(&seen) || shared.rests(&seen) {
            return Ok(Outcome::Done);
        }
        let scope = self.scope(&seen);
        if seen.metadata.deletion_timestamp.is_some() {
            return self.remove(&seen, scope).await;
        }
        let scope = match scope {
            Ok(scope) => scope,
            Err(came) => return self.end(&seen, *came).await,
        };
        let at = kinds::AZURE_MACHINE.at(ns, n);
        if shared.applier.add_finalizer(&at, &seen, finalizer::AZURE_MACHINE).await?.is_some() {
            return Ok(Outcome::Done);
        }
        // What failed for good is held as it is, until somebody deletes it.
        if seen.data["status"]["failureReason"].is_string() {
            return Ok(Outcome::Done);
        }
        if seen.data["status"]["ready"] == true && scope.spec.provider_id.is_some() {
            return self.settled(&scope).await;
        }
        let came = Box::pin(self.make(&scope)).await;
        self.end(&seen, came).await
    }

    /// What belongs to the machine, or what is lacking.
    fn scope(&self, seen: &Seen) -> Result<Scope, Box<Came>> {
        let views = &self.0.views;
        let (ns, lacks) = (namespace(seen), |reason, message: String| Box::new(Came::Waits(reason, message)));
        let invalid =
            |e: serde_json::Error| Box::new(Came::Troubled(Trouble::new(Kind::Invalid, e.to_string())));
        let owner = seen.metadata.owner_references.iter().flatten().find(|r| r.kind == "Machine");
        let machine = owner.and_then(|r| views.machines.get(ns, &r.name));
        let (name_of, pool) = belongs(seen, machine.as_deref())
            .ok_or_else(|| lacks("WaitingForMachine", "no Machine owns it yet".into()))?;
        let cluster = views.clusters.get(ns, &name_of);
        let cluster = cluster
            .ok_or_else(|| lacks("WaitingForCluster", format!("there is no Cluster {ns}/{name_of}")))?;
        let infra = cluster.data["spec"]["infrastructureRef"]["name"].as_str().unwrap_or_default();
        let azure = views.azure_clusters.get(ns, infra);
        let azure = azure.ok_or_else(|| {
            lacks("WaitingForClusterInfrastructure", format!("there is no AzureCluster {ns}/{infra}"))
        })?;
        let spec: AzureMachineSpec = typed(seen, "spec").map_err(invalid)?;
        let azure_spec: AzureClusterSpec = typed(&azure, "spec").map_err(invalid)?;
        let place = Place::of(name(seen), &spec, &azure_spec, &name_of, &pool)
            .map_err(|t| Box::new(Came::Troubled(t)))?;
        let has_zones = azure.data["status"]["failureDomains"].as_object().is_some_and(|d| !d.is_empty());
        Ok(Scope { seen: seen.clone(), spec, machine, azure, place, has_zones })
    }

    /// A machine that is ready costs one list per resource group, now and then.
    async fn settled(&self, scope: &Scope) -> Result<Outcome, Failure> {
        let shared = &self.0;
        let again = shared.look;
        let client = match self.client(&scope.azure).await {
            Ok(client) => client,
            Err(t) => return Ok(waiting("Azure", &t.message, shared, again)),
        };
        let now = shared.clock.now();
        let group = &scope.place.group;
        match shared.census.state(&client, group, scope.place.vm.name(), shared.look, now).await {
            Ok(Some(state)) => match heard(&scope.seen.data["status"], &state) {
                Some(came) => self.put(&scope.seen, came).await,
                None => Ok(Outcome::After(again)),
            },
            // A list may be older than the machine.
            Ok(None) => match make::find(&client, &scope.place).await {
                Ok(Some(_)) => Ok(Outcome::After(again)),
                Ok(None) => {
                    let mut t = Trouble::new(
                        Kind::Provisioning,
                        format!("the virtual machine {} was deleted in Azure", scope.place.vm),
                    );
                    t.terminal = true;
                    // What is gone has no console.
                    self.put(&scope.seen, Came::Troubled(t)).await
                }
                Err(e) => Ok(waiting("Azure", &reconcile::chain(&e).to_string(), shared, again)),
            },
            Err(e) => Ok(waiting("Azure", &reconcile::chain(&e).to_string(), shared, again)),
        }
    }

    /// Writes the status, and says when to come back.
    async fn end(&self, seen: &Seen, mut came: Came) -> Result<Outcome, Failure> {
        if let Came::Troubled(t) = &mut came
            && t.kind == Kind::Provisioning
        {
            let console = crate::vm::body::console(&seen.data["spec"]["diagnostics"]["boot"]);
            t.message = format!("{}; {console}", t.message);
        }
        self.put(seen, came).await
    }

    async fn put(&self, seen: &Seen, came: Came) -> Result<Outcome, Failure> {
        let shared = &self.0;
        let now = shared.clock.now();
        let at = kinds::AZURE_MACHINE.at(namespace(seen), name(seen));
        let latest = match &came {
            Came::Ready { fresh: Some(fresh), .. } => fresh,
            _ => &**seen,
        };
        shared.status(&at, latest, |o| status(o, &came, now)).await?;
        Ok(match came {
            Came::Waits(_, message) => {
                Outcome::Waiting { on: vec![Waiting::new("what it is made from", message, now)], again: None }
            }
            Came::Working { message, again, .. } => {
                Outcome::Waiting { on: vec![Waiting::new("Azure", message, now)], again: Some(again) }
            }
            Came::Ready { .. } | Came::Marred(_) => Outcome::After(shared.look),
            Came::Troubled(t) if t.terminal => Outcome::Done,
            Came::Troubled(t) => Outcome::Waiting {
                on: vec![Waiting::new(format!("an end to {}", t.kind.reason()), t.message.clone(), now)],
                again: Some(t.again(now.duration_since(asked(seen)))),
            },
        })
    }
}

/// The cluster and the pool of a machine. One that goes may have outlived its Machine, and has copies of its labels: what it
/// left in Azure is found by them.
fn belongs(seen: &DynamicObject, machine: Option<&DynamicObject>) -> Option<(String, String)> {
    let goes = seen.metadata.deletion_timestamp.is_some();
    let of = machine.or_else(|| Some(seen).filter(|o| goes && !cluster_of(o).is_empty()))?;
    let labelled = |key: &str| of.metadata.labels.as_ref().and_then(|l| l.get(key)).cloned();
    let pool = labelled(kinds::label::DEPLOYMENT).or_else(|| labelled(kinds::label::SET));
    Some((cluster_of(of).to_owned(), pool.unwrap_or_else(|| "node".into())))
}

/// Since when what is tried now was wanted.
fn asked(seen: &Seen) -> jiff::Timestamp {
    seen.metadata.deletion_timestamp.as_ref().map_or_else(|| created(seen), |t| t.0)
}

/// What a machine that was ready is said to be, if that is news. Azure leaves a machine in state Failed after any change
/// that it could not make, such as a disk of a pod that was not attached: it runs on. Whether it is to be replaced is for its
/// node to tell.
fn heard(status: &Value, state: &str) -> Option<Came> {
    let said = words::find(status, RUNNING).is_some_and(|c| c["reason"] == MARRED);
    match state {
        "Failed" if !said => Some(Came::Marred(
            "Azure could not make the last change to the virtual machine (its state is Failed) and runs it as it was; see its activity log".into(),
        )),
        "Succeeded" if words::is(status, RUNNING, "False") => {
            Some(Came::Ready { addresses: status["addresses"].clone(), fresh: None })
        }
        _ => None,
    }
}

fn waiting(on: &str, why: &str, shared: &Shared, again: SignedDuration) -> Outcome {
    Outcome::Waiting { on: vec![Waiting::new(on, why, shared.clock.now())], again: Some(again) }
}

fn status(o: &DynamicObject, came: &Came, now: jiff::Timestamp) -> Value {
    let mut status = o.data.get("status").filter(|s| s.is_object()).cloned().unwrap_or_else(|| json!({}));
    let going = o.metadata.deletion_timestamp.is_some();
    let word = match came {
        Came::Marred(_) => Word::good(words::READY),
        Came::Waits(reason, message) => Word::bad(words::READY, "Info", reason, message.clone()),
        Came::Working { reason, message, .. } => Word::bad(words::READY, "Info", reason, message.clone()),
        Came::Ready { .. } => Word::good(words::READY),
        // This reason is what the operator of the cluster looks for when it decides to give up.
        Came::Troubled(t) if going => {
            Word::bad(words::READY, t.kind.severity(), "DeletionFailed", t.message.clone())
        }
        Came::Troubled(t) => Word::bad(words::READY, t.kind.severity(), t.kind.reason(), t.message.clone()),
    };
    let mut list = words::list(&status);
    words::set(&mut list, &word, now);
    let running = match came {
        Came::Marred(message) => Word::bad(RUNNING, "Warning", MARRED, message.clone()),
        _ => Word { kind: RUNNING, ..word },
    };
    words::set(&mut list, &running, now);
    status["conditions"] = json!(list);
    let state = match came {
        Came::Working { reason: "Creating", .. } => Some("Creating"),
        Came::Working { reason: "Deleting", .. } => Some("Deleting"),
        Came::Ready { .. } => Some("Succeeded"),
        Came::Marred(_) => Some("Failed"),
        Came::Troubled(t) if t.terminal => Some("Failed"),
        _ => None,
    };
    if let Some(state) = state {
        status["vmState"] = json!(state);
    }
    match came {
        Came::Ready { addresses, .. } => {
            (status["ready"], status["addresses"]) = (json!(true), addresses.clone());
        }
        Came::Troubled(t) if t.terminal && !going => {
            status["ready"] = json!(false);
            (status["failureReason"], status["failureMessage"]) = (json!("CreateError"), json!(t.message));
        }
        _ if going => status["ready"] = json!(false),
        _ => {}
    }
    let operation = match came {
        Came::Working { operation: Some(op), .. } => Some(op.clone()),
        // Azure could not be asked: what it is busy with goes on.
        Came::Troubled(t) if !t.terminal => status["longRunningOperationStates"].get(0).cloned(),
        _ => None,
    };
    match operation {
        Some(op) => status["longRunningOperationStates"] = json!([op]),
        None => {
            status.as_object_mut().map(|s| s.remove("longRunningOperationStates"));
        }
    }
    status
}

#[cfg(test)]
mod tests {
    use super::*;

    fn machine(labels: Value, going: bool, status: Value) -> DynamicObject {
        let mut o = json!({"apiVersion": "v1", "kind": "x", "metadata": {"name": "m", "labels": labels}, "status": status});
        if going {
            o["metadata"]["deletionTimestamp"] = json!("1970-01-01T00:00:00Z");
        }
        serde_json::from_value(o).unwrap()
    }

    #[test]
    fn what_outlives_its_machine_is_known_by_its_labels() {
        let labels =
            json!({kinds::label::CLUSTER: "c", kinds::label::DEPLOYMENT: "d", kinds::label::SET: "s"});
        let owner = machine(labels.clone(), false, Value::Null);
        let pair = |c: &str, p: &str| Some((c.to_owned(), p.to_owned()));
        let bare = machine(json!({}), true, Value::Null);
        assert_eq!(belongs(&bare, Some(&owner)), pair("c", "d"));
        assert_eq!(belongs(&bare, None), None, "nobody knows where it was");
        assert_eq!(belongs(&machine(labels.clone(), true, Value::Null), None), pair("c", "d"));
        assert_eq!(belongs(&machine(labels, false, Value::Null), None), None, "its Machine may yet come");
    }

    #[test]
    fn a_change_that_failed_is_said_of_a_machine_that_runs_and_forgotten() {
        let at = jiff::Timestamp::UNIX_EPOCH;
        let ready =
            Came::Ready { addresses: json!([{"type": "InternalIP", "address": "10.0.0.4"}]), fresh: None };
        let good = status(&machine(json!({}), false, Value::Null), &ready, at);
        assert!(heard(&good, "Succeeded").is_none() && heard(&good, "Updating").is_none());
        let came = heard(&good, "Failed").unwrap();
        let marred = status(&machine(json!({}), false, good.clone()), &came, at);
        assert_eq!((marred["ready"].as_bool(), marred.get("failureReason")), (Some(true), None));
        assert!(words::is(&marred, RUNNING, "False") && words::is(&marred, words::READY, "True"), "{marred}");
        assert_eq!(marred["vmState"], "Failed");
        assert!(heard(&marred, "Failed").is_none() && heard(&marred, "Updating").is_none(), "said once");
        let again =
            status(&machine(json!({}), false, marred.clone()), &heard(&marred, "Succeeded").unwrap(), at);
        assert_eq!(again, good);
    }
}
