//! Clusters: a cluster that goes takes its machines with it, and waits for them.

use super::Shared;
use super::views::{Seen, cluster_of, name, namespace};
use crate::kinds::{self, finalizer};
use crate::words::{self, Word};
use futures::future::BoxFuture;
use jiff::Timestamp;
use kube::core::DynamicObject;
use reconcile::{Controller, Failure, Kind, Outcome, Waiting, split};
use serde_json::{Value, json};
use std::sync::Arc;

pub struct Clusters(pub Arc<Shared>);

impl Controller for Clusters {
    fn name(&self) -> &'static str {
        "capi-cluster"
    }

    fn reconcile<'a>(&'a self, key: &'a str) -> BoxFuture<'a, Result<Outcome, Failure>> {
        Box::pin(self.run(key))
    }
}

impl Clusters {
    async fn run(&self, key: &str) -> Result<Outcome, Failure> {
        let (ns, n) = split(key);
        let shared = &self.0;
        let Some(seen) = shared.views.clusters.get(ns, n) else {
            shared.guests.forget(ns, n);
            return Ok(Outcome::Done);
        };
        let at = kinds::CLUSTER.at(ns, n);
        if shared.is_stale(&seen) || seen.data["spec"]["paused"] == true || !shared.tenants.serves(ns) {
            return Ok(Outcome::Done);
        }
        if seen.metadata.deletion_timestamp.is_some() {
            let left = self.left(&seen);
            for (kind, o) in left.iter().filter(|(_, o)| o.metadata.deletion_timestamp.is_none()) {
                shared.writer.delete(kind, o).await?;
            }
            if left.is_empty() {
                shared.applier.remove_finalizer(&at, &seen, finalizer::CLUSTER).await?;
                return Ok(Outcome::Done);
            }
            let now = shared.clock.now();
            let names: Vec<String> =
                left.iter().take(5).map(|(k, o)| format!("{} {}", k.kind, name(o))).collect();
            let message = format!("{} objects of the cluster are left: {}", left.len(), names.join(", "));
            shared.status(&at, &seen, |o| status(o, false, Some(&message), now)).await?;
            return Ok(Outcome::Waiting {
                on: vec![Waiting::new("its machines to be gone", message, now)],
                again: None,
            });
        }
        if shared.applier.add_finalizer(&at, &seen, finalizer::CLUSTER).await?.is_some() {
            return Ok(Outcome::Done);
        }
        let infra = seen.data["spec"]["infrastructureRef"]["name"].as_str().unwrap_or_default();
        let ready =
            shared.views.azure_clusters.get(ns, infra).is_some_and(|a| a.data["status"]["ready"] == true);
        let now = shared.clock.now();
        shared.status(&at, &seen, |o| status(o, ready, None, now)).await?;
        Ok(Outcome::Done)
    }

    fn left(&self, cluster: &DynamicObject) -> Vec<(Kind, Seen)> {
        let views = &self.0.views;
        let of = |o: &Seen| cluster_of(o) == name(cluster);
        let each = [
            (kinds::CHECK, &views.checks),
            (kinds::DEPLOYMENT, &views.deployments),
            (kinds::SET, &views.sets),
            (kinds::MACHINE, &views.machines),
        ];
        let all = each.into_iter().flat_map(|(kind, view)| {
            view.within(namespace(cluster)).into_iter().map(move |o| (kind.clone(), o))
        });
        // What outlives its Machine is found in Azure by way of the cluster.
        let outlives = |o: &Seen| {
            let machine = super::index::controller(o).and_then(|(_, n)| views.machines.get(namespace(o), n));
            o.metadata.deletion_timestamp.is_some() && machine.is_none()
        };
        let azure = views.azure_machines.within(namespace(cluster)).into_iter().filter(outlives);
        all.chain(azure.map(|o| (kinds::AZURE_MACHINE, o))).filter(|(_, o)| of(o)).collect()
    }
}

fn status(o: &DynamicObject, ready: bool, going: Option<&str>, now: Timestamp) -> Value {
    let mut status = o.data.get("status").filter(|s| s.is_object()).cloned().unwrap_or_else(|| json!({}));
    let word = match going {
        Some(message) => Word::bad(words::READY, "Info", "Deleting", message),
        None if ready => Word::good(words::READY),
        None => Word::bad(words::READY, "Info", "WaitingForInfrastructure", "the AzureCluster is not ready"),
    };
    let mut list = words::list(&status);
    words::set(&mut list, &word, now);
    if going.is_none() {
        let infra = if ready {
            Word::good("InfrastructureReady")
        } else {
            Word { kind: "InfrastructureReady", ..word.clone() }
        };
        words::set(&mut list, &infra, now);
        status["infrastructureReady"] = json!(ready);
    }
    status["conditions"] = json!(list);
    status["phase"] = json!(match (going, ready) {
        (Some(_), _) => "Deleting",
        (None, true) => "Provisioned",
        (None, false) => "Provisioning",
    });
    status
}
