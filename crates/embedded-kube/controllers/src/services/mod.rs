//! Services: the addresses behind them, in both kinds clients read, and load balancers before them.

mod balancers;
mod plan;

pub use balancers::{LoadBalancers, Services as ServiceBalancers};

use crate::objects::{controller_ref, label, simple_selector};
use crate::whom::Selectors;
use crate::{MANAGER, tables};
use ek_engine::{Controller, Delta, Keys, Outcome, split};
use ek_meta::{Status, object};
use ek_server::{Access, Deletion, parse};
use ek_store::ClusterId;
use futures::future::BoxFuture;
use plan::{Backend, Slice};
use serde_json::{Map, Value, json};
use std::collections::HashMap;

pub struct Endpoints {
    selectors: Selectors,
}

impl Default for Endpoints {
    fn default() -> Endpoints {
        Endpoints { selectors: Selectors::new(|s| simple_selector(s.pointer("/spec/selector"))) }
    }
}

impl Controller for Endpoints {
    fn name(&self) -> &'static str {
        "endpoints"
    }

    fn watches(&self) -> &'static [&'static str] {
        &["/services", "/pods", "/endpoints", "discovery.k8s.io/endpointslices"]
    }

    fn concerns(&self, _: &Access, delta: &Delta, keys: &mut Keys) {
        match &*delta.table {
            "/services" => {
                self.selectors.follow(delta);
                keys.push(delta.key.clone());
            }
            "/pods" => self.selectors.of(delta, keys),
            // What somebody else changed or removed is put right.
            "/endpoints" => keys.push(delta.key.clone()),
            _ => {
                if let Some(service) = delta.latest().and_then(|e| e.meta.label(plan::SERVICE_NAME)) {
                    keys.object(split(&delta.key).0, service);
                }
            }
        }
    }

    fn reconcile<'a>(&'a self, access: &'a Access, key: &'a str) -> BoxFuture<'a, Result<Outcome, Status>> {
        Box::pin(async move {
            run(&access.manager(MANAGER), key).await?;
            Ok(Outcome::Done)
        })
    }

    fn forget(&self, cluster: &ClusterId) {
        self.selectors.forget(cluster);
    }
}

async fn run(access: &Access, key: &str) -> Result<(), Status> {
    let (namespace, name) = split(key);
    let Some(service) = access.get(&tables::SERVICES, namespace, name) else {
        // Slices go with their owner; endpoints have none, only ours are ours to delete.
        let ours = access.entry(&tables::ENDPOINTS, namespace, name);
        if ours.is_some_and(|e| e.meta.label("endpoints.kubernetes.io/managed-by").is_some()) {
            access.delete(&tables::ENDPOINTS, namespace, name, Deletion::default()).await?;
        }
        return Ok(());
    };
    let Some(selector) = simple_selector(service.pointer("/spec/selector")) else { return Ok(()) };
    if crate::objects::is_deleting(&service) || service["spec"]["type"] == "ExternalName" {
        return Ok(());
    }
    let mut pods: Vec<Backend> = (access.in_namespace(&tables::PODS, namespace).iter())
        .filter(|(_, e)| selector.matches(|k| e.meta.label(k)))
        .filter_map(|(_, e)| Backend::read(e))
        .collect();
    pods.retain(|p| !p.node().is_empty());
    let (labels, subsets) = plan::endpoints(&service, &pods);
    write_endpoints(access, &service, &labels, &subsets).await?;
    let mut zones: HashMap<String, Option<String>> = HashMap::new();
    for p in &pods {
        if !zones.contains_key(p.node()) {
            let node = access.entry(&tables::NODES, "", p.node());
            let zone = node.and_then(|n| n.meta.label("topology.kubernetes.io/zone").map(str::to_owned));
            zones.insert(p.node().to_owned(), zone);
        }
    }
    let wanted = plan::slices(&service, &pods, |node| zones.get(node).cloned().flatten());
    write_slices(access, &service, wanted).await
}

async fn write_endpoints(
    access: &Access,
    service: &Value,
    labels: &Map<String, Value>,
    subsets: &[Value],
) -> Result<(), Status> {
    let (namespace, name) = (object::namespace(service), object::name(service));
    if access.entry(&tables::ENDPOINTS, namespace, name).is_none() {
        let new = json!({"apiVersion": "v1", "kind": "Endpoints", "metadata": {"name": name, "namespace": namespace, "labels": labels}, "subsets": subsets});
        return done(access.add(&tables::ENDPOINTS, new).await.map(|_| ()));
    }
    let put = |e: &mut Value| {
        let same = crate::objects::list(e, "/subsets") == subsets
            && e.pointer("/metadata/labels").and_then(Value::as_object) == Some(labels);
        if same {
            return false;
        }
        e["subsets"] = json!(subsets);
        e["metadata"]["labels"] = json!(labels);
        true
    };
    done(access.update(&tables::ENDPOINTS, namespace, name, "", put).await.map(|_| ()))
}

async fn write_slices(access: &Access, service: &Value, wanted: Vec<Slice>) -> Result<(), Status> {
    let (namespace, name) = (object::namespace(service), object::name(service));
    let ours: Vec<Value> = (access.in_namespace(&tables::ENDPOINT_SLICES, namespace).iter())
        .filter(|(_, e)| {
            !e.meta.deleting
                && e.meta.label(plan::SERVICE_NAME) == Some(name)
                && e.meta.label(plan::MANAGED_BY) == Some(plan::SLICES_BY)
        })
        .filter_map(|(_, e)| parse(e))
        .collect();
    let labels = plan::slice_labels(service);
    let changes = plan::changes(&ours, wanted);
    for (slice, w) in &changes.update {
        let put = |s: &mut Value| {
            s["ports"] = json!(w.ports);
            s["endpoints"] = json!(w.endpoints);
            s["metadata"]["labels"] = json!(labels);
            true
        };
        done(access.update(&tables::ENDPOINT_SLICES, namespace, slice, "", put).await.map(|_| ()))?;
    }
    for w in &changes.create {
        let new = json!({"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
            "metadata": {"generateName": format!("{name}-"), "namespace": namespace, "labels": labels, "ownerReferences": [controller_ref(service)]},
            "addressType": w.family, "ports": w.ports, "endpoints": w.endpoints});
        done(access.add(&tables::ENDPOINT_SLICES, new).await.map(|_| ()))?;
    }
    for slice in &changes.delete {
        access.delete(&tables::ENDPOINT_SLICES, namespace, slice, Deletion::default()).await?;
    }
    // Labels of slices whose content stayed.
    let stale = |s: &&Value| s.pointer("/metadata/labels").and_then(Value::as_object) != Some(&labels);
    for slice in ours.iter().filter(stale).filter(|s| label(s, plan::SERVICE_NAME).is_some()) {
        let touched = changes.update.iter().any(|(n, _)| n == object::name(slice))
            || changes.delete.iter().any(|n| n == object::name(slice));
        if !touched {
            let put = |s: &mut Value| {
                s["metadata"]["labels"] = json!(labels);
                true
            };
            done(
                access
                    .update(&tables::ENDPOINT_SLICES, namespace, object::name(slice), "", put)
                    .await
                    .map(|_| ()),
            )?;
        }
    }
    Ok(())
}

/// The namespace is going, or the object went: the next change tells.
fn done(result: Result<(), Status>) -> Result<(), Status> {
    match result {
        Err(e) if e.code != 403 && e.code != 404 => Err(e),
        _ => Ok(()),
    }
}
