//! Deployments: replica sets in succession, one for each template, with pods moving from the old to the new.

mod plan;
mod status;
#[cfg(test)]
mod tests;

use crate::events::{self, Note};
use crate::objects::{annotate, controller_of, int, is_deleting, put_status, sooner, until};
use crate::whom::{Owners, selector_of};
use crate::{MANAGER, pods, tables};
use ek_engine::{Controller, Delta, Keys, Outcome, split};
use ek_meta::{Status, object};
use ek_server::{Access, Deletion, shared};
use futures::future::BoxFuture;
use plan::{Change, Set};
use serde_json::{Value, json};

const COMPONENT: &str = "deployment-controller";

const OWNERS: Owners =
    Owners { kind: "Deployment", group: "apps", table: || &tables::DEPLOYMENTS, selector: selector_of };

pub struct Deployments;

impl Controller for Deployments {
    fn name(&self) -> &'static str {
        "deployment"
    }

    fn watches(&self) -> &'static [&'static str] {
        &["apps/deployments", "apps/replicasets"]
    }

    fn concerns(&self, access: &Access, delta: &Delta, keys: &mut Keys) {
        OWNERS.of(access, delta, keys);
    }

    fn reconcile<'a>(&'a self, access: &'a Access, key: &'a str) -> BoxFuture<'a, Result<Outcome, Status>> {
        Box::pin(async move { run(&access.manager(MANAGER), key).await })
    }
}

async fn run(access: &Access, key: &str) -> Result<Outcome, Status> {
    let (namespace, name) = split(key);
    let Some(d) = access.look(&tables::DEPLOYMENTS, namespace, name) else { return Ok(Outcome::Done) };
    let sets = sets(access, &d).await?;
    let new = plan::newest(&d, &sets);
    let (now, stamp) = (access.now(), access.timestamp());
    let mut created = None;
    let mut failed = None;
    if !is_deleting(&d) {
        let complete = status::status(&d, &sets, new, None, now, &stamp).complete;
        let plan = plan::plan(&d, &sets, complete);
        let mut notes = Vec::new();
        if let Some(set) = plan.create {
            match create(access, &d, set).await? {
                Made::New(set) => {
                    let (name, size) = (object::name(&set), int(&set, "/spec/replicas").unwrap_or(0));
                    if size > 0 {
                        let text = format!("Scaled up replica set {name} from 0 to {size}");
                        notes.push(Note::normal("ScalingReplicaSet", text));
                    }
                    created = Some(name.to_owned());
                }
                // The name is taken by a set of another template: the next run finds another name.
                Made::Collision => return Ok(Outcome::Done),
                Made::Failed(e) => {
                    let text = format!("Failed to create new replica set: {}", e.message);
                    notes.push(Note::warning("ReplicaSetCreateError", text));
                    failed = Some(e);
                }
            }
        }
        for change in &plan.changes {
            resize(access, namespace, change).await?;
            notes.extend(scaling(change));
        }
        for old in &plan.delete {
            access.delete(&tables::REPLICA_SETS, namespace, old, Deletion::default()).await?;
        }
        if let Some(revision) = plan.revision {
            let number = |d: &mut Value| annotate(d, plan::REVISION, &revision.to_string());
            access.update(&tables::DEPLOYMENTS, namespace, name, "", number).await?;
        }
        events::tell_all(access, COMPONENT, &d, &notes).await;
    }
    let result = status::status(&d, &sets, new, created.as_deref(), now, &stamp);
    let write = |o: &mut Value| object::uid(o) == object::uid(&d) && put_status(o, &result.status);
    // Most runs find nothing new.
    if d.get("status").and_then(Value::as_object) != Some(&result.status) {
        match access.update(&tables::DEPLOYMENTS, namespace, name, "status", write).await {
            Err(e) if e.code != 404 => return Err(e),
            _ => {}
        }
    }
    if let Some(e) = failed {
        return Err(e);
    }
    match sooner(result.deadline, None).filter(|t| *t > now) {
        Some(at) => Ok(Outcome::After(until(now, at))),
        None => Ok(Outcome::Done),
    }
}

/// The deployment's sets: adopted if they match and belong to nobody, let go if they match no longer.
async fn sets(access: &Access, d: &Value) -> Result<Vec<Set>, Status> {
    let (namespace, uid) = (object::namespace(d), object::uid(d));
    let Some(selector) = selector_of(d) else { return Ok(Vec::new()) };
    let mut out = Vec::new();
    for (key, entry) in access.in_namespace(&tables::REPLICA_SETS, namespace) {
        let (_, name) = split(&key);
        let owned = entry.meta.owners.iter().any(|o| &*o.uid == uid);
        let matches = selector.matches(|k| entry.meta.label(k));
        match (owned, matches) {
            (true, true) => {}
            (true, false) => {
                pods::disown(access, &tables::REPLICA_SETS, namespace, name, &entry.meta.uid, uid).await?;
                continue;
            }
            (false, true) if !entry.meta.deleting && !is_deleting(d) && controller_of(&entry).is_none() => {
                if !pods::own(access, &tables::REPLICA_SETS, d, name, &entry.meta.uid).await? {
                    continue;
                }
            }
            _ => continue,
        }
        out.extend(shared(&entry).map(Set::of));
    }
    Ok(out)
}

enum Made {
    New(Value),
    Collision,
    Failed(Status),
}

async fn create(access: &Access, d: &Value, set: Value) -> Result<Made, Status> {
    match access.create(&tables::REPLICA_SETS, set).await {
        Ok(set) => Ok(Made::New(set)),
        Err(e) if e.code == 409 => {
            let bump = |o: &mut Value| {
                o["status"]["collisionCount"] =
                    json!(o["status"]["collisionCount"].as_i64().unwrap_or(0) + 1);
                true
            };
            let (ns, name) = (object::namespace(d), object::name(d));
            access.update(&tables::DEPLOYMENTS, ns, name, "status", bump).await?;
            Ok(Made::Collision)
        }
        Err(e) => Ok(Made::Failed(e)),
    }
}

async fn resize(access: &Access, namespace: &str, change: &Change) -> Result<(), Status> {
    let apply = |o: &mut Value| {
        let mut changed = false;
        for (k, v) in &change.annotations {
            changed |= annotate(o, k, v);
        }
        if let Some(n) = change.min_ready_seconds {
            o["spec"]["minReadySeconds"] = json!(n);
            changed = true;
        }
        if change.from != change.to {
            o["spec"]["replicas"] = json!(change.to);
            changed = true;
        }
        changed
    };
    match access.update(&tables::REPLICA_SETS, namespace, &change.name, "", apply).await {
        Err(e) if e.code != 404 => Err(e),
        _ => Ok(()),
    }
}

fn scaling(change: &Change) -> Option<Note> {
    let way = match change.to.cmp(&change.from) {
        std::cmp::Ordering::Greater => "up",
        std::cmp::Ordering::Less => "down",
        std::cmp::Ordering::Equal => return None,
    };
    let text = format!("Scaled {way} replica set {} from {} to {}", change.name, change.from, change.to);
    Some(Note::normal("ScalingReplicaSet", text))
}
