//! ReplicaSets and ReplicationControllers: so many pods of a template, no more and no fewer.

mod plan;

use crate::events;
use crate::objects::{int, is_deleting, put_status, simple_selector, until};
use crate::whom::{Owners, selector_of};
use crate::{MANAGER, pods, tables};
use ek_engine::{Controller, Delta, Keys, Outcome, split};
use ek_meta::{Status, object};
use ek_server::Access;
use futures::future::BoxFuture;
use serde_json::Value;

pub struct Replicas {
    name: &'static str,
    component: &'static str,
    watches: &'static [&'static str],
    owners: Owners,
}

pub const REPLICA_SETS: Replicas = Replicas {
    name: "replicaset",
    component: "replicaset-controller",
    watches: &["apps/replicasets", "/pods"],
    owners: Owners {
        kind: "ReplicaSet",
        group: "apps",
        table: || &tables::REPLICA_SETS,
        selector: selector_of,
    },
};

pub const REPLICATION_CONTROLLERS: Replicas = Replicas {
    name: "replicationcontroller",
    component: "replication-controller",
    watches: &["/replicationcontrollers", "/pods"],
    owners: Owners {
        kind: "ReplicationController",
        group: "",
        table: || &tables::REPLICATION_CONTROLLERS,
        selector: |o| simple_selector(o.pointer("/spec/selector")),
    },
};

impl Controller for Replicas {
    fn name(&self) -> &'static str {
        self.name
    }

    fn watches(&self) -> &'static [&'static str] {
        self.watches
    }

    fn concerns(&self, access: &Access, delta: &Delta, keys: &mut Keys) {
        self.owners.of(access, delta, keys);
    }

    fn reconcile<'a>(&'a self, access: &'a Access, key: &'a str) -> BoxFuture<'a, Result<Outcome, Status>> {
        Box::pin(async move { self.run(&access.manager(MANAGER), key).await })
    }
}

impl Replicas {
    async fn run(&self, access: &Access, key: &str) -> Result<Outcome, Status> {
        let (namespace, name) = split(key);
        let table = (self.owners.table)();
        let Some(owner) = access.look(table, namespace, name) else { return Ok(Outcome::Done) };
        let Some(selector) = (self.owners.selector)(&owner) else { return Ok(Outcome::Done) };
        let claim = pods::claim(access, namespace, object::uid(&owner), &selector);
        let mut failed: Option<(&'static str, Status)> = None;
        let mut mine = if is_deleting(&owner) {
            claim.mine
        } else {
            let mine = pods::settle_claim(access, &owner, claim).await?;
            let plan = plan::plan(int(&owner, "/spec/replicas").unwrap_or(1), &mine);
            let mut notes = Vec::new();
            if plan.create > 0 {
                let pod = pods::from_template(&owner, &owner["spec"]["template"]);
                let (_, told, error) = pods::create(access, vec![pod; plan.create]).await;
                notes = told;
                failed = error.map(|e| ("FailedCreate", e));
            } else if !plan.delete.is_empty() {
                let (told, error) = pods::delete(access, namespace, &plan.delete).await;
                notes = told;
                failed = error.map(|e| ("FailedDelete", e));
            }
            if !notes.is_empty() {
                events::tell_all(access, self.component, &owner, &notes).await;
                // What was made or deleted brings the next run, which counts it; only failure is told now.
                if failed.is_none() {
                    return Ok(Outcome::Done);
                }
            }
            mine
        };
        mine.retain(|p| !p.deleting);
        let why = failed.as_ref().map(|(reason, e)| (*reason, e));
        let (status, next) = plan::status(&owner, &mine, why, access.now(), &access.timestamp());
        let same_owner = |o: &mut Value| object::uid(o) == object::uid(&owner) && put_status(o, &status);
        // Most runs find nothing new.
        if owner.get("status").and_then(Value::as_object) != Some(&status) {
            match access.update(table, namespace, name, "status", same_owner).await {
                Err(e) if e.code != 404 => return Err(e),
                _ => {}
            }
        }
        match (failed, next) {
            (Some((_, e)), _) => Err(e),
            (None, Some(at)) => Ok(Outcome::After(until(access.now(), at))),
            (None, None) => Ok(Outcome::Done),
        }
    }
}
