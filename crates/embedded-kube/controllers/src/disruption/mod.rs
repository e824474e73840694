//! Pod disruption budgets: how many pods may be evicted now. Evictions themselves are the API server's.

mod plan;

use crate::events::{self, Note};
use crate::objects::{controller_of, put_status, selector, until};
use crate::pods::Pod;
use crate::whom::Selectors;
use crate::{MANAGER, tables};
use ek_engine::{Controller, Delta, Keys, Outcome, split};
use ek_meta::{Status, object};
use ek_server::Access;
use ek_store::{ClusterId, Entry};
use futures::future::BoxFuture;
use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::Arc;

pub struct Budgets {
    selectors: Selectors,
}

impl Default for Budgets {
    fn default() -> Budgets {
        Budgets { selectors: Selectors::new(|b| selector(b.pointer("/spec/selector"))) }
    }
}

impl Controller for Budgets {
    fn name(&self) -> &'static str {
        "disruption"
    }

    fn watches(&self) -> &'static [&'static str] {
        &["policy/poddisruptionbudgets", "/pods", "apps/deployments", "apps/statefulsets", "apps/replicasets"]
    }

    fn concerns(&self, access: &Access, delta: &Delta, keys: &mut Keys) {
        match &*delta.table {
            "policy/poddisruptionbudgets" => {
                self.selectors.follow(delta);
                keys.push(delta.key.clone());
            }
            "/pods" => self.selectors.of(delta, keys),
            // Their scale may have changed; there are few budgets in a namespace.
            _ if wanted(delta.previous.as_ref()) == wanted(delta.current.as_ref()) => {}
            _ => {
                for (key, _) in access.in_namespace(&tables::DISRUPTION_BUDGETS, split(&delta.key).0) {
                    keys.push(key);
                }
            }
        }
    }

    fn reconcile<'a>(&'a self, access: &'a Access, key: &'a str) -> BoxFuture<'a, Result<Outcome, Status>> {
        Box::pin(async move { run(&access.manager(MANAGER), key).await })
    }

    fn forget(&self, cluster: &ClusterId) {
        self.selectors.forget(cluster);
    }
}

async fn run(access: &Access, key: &str) -> Result<Outcome, Status> {
    let (namespace, name) = split(key);
    let Some(budget) = access.look(&tables::DISRUPTION_BUDGETS, namespace, name) else {
        return Ok(Outcome::Done);
    };
    let Some(selector) = selector(budget.pointer("/spec/selector")) else { return Ok(Outcome::Done) };
    let pods: Vec<Pod> = (access.in_namespace(&tables::PODS, namespace).iter())
        .filter(|(_, e)| selector.matches(|k| e.meta.label(k)))
        .filter_map(|(_, e)| Pod::read(e))
        .collect();
    let now = access.now();
    let plan = plan::plan(&budget, &pods, scale(access, namespace, &pods), now, &access.timestamp());
    let write = |o: &mut Value| object::uid(o) == object::uid(&budget) && put_status(o, &plan.status);
    let written = access.update(&tables::DISRUPTION_BUDGETS, namespace, name, "status", write).await;
    match written {
        Err(e) if e.code != 404 => return Err(e),
        Ok(Some(_)) if pods.is_empty() => {
            events::tell(
                access,
                "controllermanager",
                &budget,
                &Note::normal("NoPods", "No matching pods found"),
            )
            .await;
        }
        _ => {}
    }
    Ok(plan.at.map_or(Outcome::Done, |at| Outcome::After(until(now, at))))
}

/// How many replicas a stored object asks for, without reading the rest of it.
fn wanted(entry: Option<&Arc<Entry>>) -> Option<i64> {
    #[derive(Deserialize)]
    struct Scaled {
        spec: Spec,
    }
    #[derive(Deserialize)]
    struct Spec {
        replicas: Option<i64>,
    }
    let scaled: Scaled = serde_json::from_slice(&entry?.bytes()).ok()?;
    scaled.spec.replicas
}

/// How many pods the controllers of these want altogether.
fn scale(access: &Access, namespace: &str, pods: &[Pod]) -> Result<i64, String> {
    let mut all: BTreeMap<String, i64> = BTreeMap::new();
    for pod in pods.iter().filter(|p| !p.ended()) {
        let Some(owner) = controller_of(&pod.entry) else {
            return Err(format!("found no controllers for pod {:?}", pod.name));
        };
        let (table, mut name) = match owner.kind.as_str() {
            "ReplicaSet" => (&tables::REPLICA_SETS, owner.name.clone()),
            "StatefulSet" => (&tables::STATEFUL_SETS, owner.name.clone()),
            "ReplicationController" => (&tables::REPLICATION_CONTROLLERS, owner.name.clone()),
            kind => return Err(format!("{kind} does not implement the scale subresource")),
        };
        let Some(mut entry) = access.entry(table, namespace, &name) else { continue };
        // A set of a deployment counts as the deployment: sets come and go while it rolls.
        if let Some(d) = controller_of(&entry).filter(|o| o.kind == "Deployment")
            && let Some(e) = access.entry(&tables::DEPLOYMENTS, namespace, &d.name)
        {
            (entry, name) = (e, d.name);
        }
        all.insert(format!("{}/{name}", entry.meta.uid), wanted(Some(&entry)).unwrap_or(0));
    }
    Ok(all.values().sum())
}
