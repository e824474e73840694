//! What an upgrade is judged by: workloads and room of the management cluster, nodes and budgets of the guest, quota of
//! the subscription.

use super::super::kubeconfig;
use crate::reach;
use crate::serve::ground::azure_account;
use anyhow::Context;
use apis::hypershift::{HostedCluster, NodePool};
use ek_meta::quantity::Quantity;
use futures::TryStreamExt;
use k8s_openapi::api::apps::v1::{Deployment, StatefulSet};
use k8s_openapi::api::core::v1::{Node, Pod, PodSpec};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube::api::ListParams;
use kube::config::Kubeconfig;
use kube::{Api, Client, Resource};
use machines::vm::offer::Size;
use release::Payload;
use self_managed::upgrade::{Budget, Demand, Guest, Quota, Room, Workload};
use serde::de::DeserializeOwned;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

type Quantities = BTreeMap<String, k8s_openapi::apimachinery::pkg::api::resource::Quantity>;

/// Objects of one page.
const PAGE: u32 = 500;
/// More pages than this are somebody else's problem.
const PAGES: usize = 200;
/// A guest that does not answer is not waited for.
const GUEST: Duration = Duration::from_secs(15);

/// All objects, page by page.
async fn all<K>(api: &Api<K>, what: &str) -> anyhow::Result<Vec<K>>
where
    K: Clone + DeserializeOwned + std::fmt::Debug,
{
    let mut out = Vec::new();
    let mut params = ListParams::default().limit(PAGE);
    for _ in 0..PAGES {
        let page = api.list(&params).await.with_context(|| format!("{what} cannot be listed"))?;
        out.extend(page.items);
        match page.metadata.continue_.filter(|c| !c.is_empty()) {
            Some(next) => params = params.continue_token(&next),
            None => break,
        }
    }
    Ok(out)
}

fn demand(quantities: Option<&Quantities>) -> Demand {
    let read = |name: &str, scale: f64| {
        let text = quantities.and_then(|q| q.get(name)).map(|q| q.0.as_str());
        let value = text.and_then(|t| t.parse::<Quantity>().ok()).map_or(0.0, |q| q.as_f64());
        (value * scale) as i64
    };
    Demand { cpu: read("cpu", 1000.0), memory: read("memory", 1.0) }
}

/// What a pod asks for.
fn asks(spec: &PodSpec) -> Demand {
    let of = |c: &k8s_openapi::api::core::v1::Container| {
        demand(c.resources.as_ref().and_then(|r| r.requests.as_ref()))
    };
    spec.containers.iter().map(of).fold(Demand::default(), Demand::plus)
}

/// Whether a new release has another image for one of the containers.
fn changes(spec: &PodSpec, now: Option<&Payload>, wanted: &Payload) -> bool {
    let Some(now) = now else { return true };
    let containers = spec.containers.iter().chain(spec.init_containers.iter().flatten());
    let mut keys = containers.filter_map(|c| {
        now.images.iter().find(|(_, image)| Some(*image) == c.image.as_ref()).map(|(key, _)| key)
    });
    keys.any(|key| now.images.get(key) != wanted.images.get(key))
}

/// Deployments and StatefulSets of a control plane.
pub async fn workloads(
    client: &Client,
    plane: &str,
    now: Option<&Payload>,
    wanted: &Payload,
) -> anyhow::Result<Vec<Workload>> {
    let deployments: Api<Deployment> = Api::namespaced(client.clone(), plane);
    let sets: Api<StatefulSet> = Api::namespaced(client.clone(), plane);
    let mut out = Vec::new();
    for d in all(&deployments, "deployments of the control plane").await? {
        let Some(spec) = d.spec else { continue };
        let Some(pod) = spec.template.spec else { continue };
        let strategy = spec.strategy.as_ref();
        let recreates = strategy.is_some_and(|s| s.type_.as_deref() == Some("Recreate"));
        let surge = strategy.and_then(|s| s.rolling_update.as_ref()).and_then(|r| r.max_surge.clone());
        let none = surge.is_some_and(|s| serde_json::to_value(s).is_ok_and(|v| v == 0 || v == "0%"));
        out.push(Workload {
            name: d.metadata.name.unwrap_or_default(),
            pods: spec.replicas.unwrap_or(1).into(),
            demand: asks(&pod),
            surges: !recreates && !none,
            changes: changes(&pod, now, wanted),
        });
    }
    for s in all(&sets, "stateful sets of the control plane").await? {
        let Some(spec) = s.spec else { continue };
        let Some(pod) = spec.template.spec else { continue };
        out.push(Workload {
            name: s.metadata.name.unwrap_or_default(),
            pods: spec.replicas.unwrap_or(1).into(),
            demand: asks(&pod),
            surges: false,
            changes: changes(&pod, now, wanted),
        });
    }
    out.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(out)
}

fn runs(pod: &Pod) -> bool {
    let phase = pod.status.as_ref().and_then(|s| s.phase.as_deref());
    !matches!(phase, Some("Succeeded" | "Failed"))
}

fn is_ready(node: &Node) -> bool {
    let conditions = node.status.as_ref().and_then(|s| s.conditions.as_ref());
    let ready = conditions.into_iter().flatten().any(|c| c.type_ == "Ready" && c.status == "True");
    ready && !node.spec.as_ref().is_some_and(|s| s.unschedulable.unwrap_or(false))
}

/// What the nodes that take pods have, and what pods on each ask for.
async fn nodes(client: &Client) -> anyhow::Result<Vec<(Node, Demand, Demand)>> {
    let pods = all(&Api::<Pod>::all(client.clone()), "pods").await?;
    let mut asked: BTreeMap<String, Demand> = BTreeMap::new();
    for spec in pods.iter().filter(|p| runs(p)).filter_map(|p| p.spec.as_ref()) {
        let Some(node) = &spec.node_name else { continue };
        let sum = asked.entry(node.clone()).or_default();
        *sum = sum.plus(asks(spec));
    }
    let nodes = all(&Api::<Node>::all(client.clone()), "nodes").await?;
    let ready = nodes.into_iter().filter(is_ready).map(|n| {
        let has = demand(n.status.as_ref().and_then(|s| s.allocatable.as_ref()));
        let used = n.meta().name.as_ref().and_then(|name| asked.get(name)).copied().unwrap_or_default();
        (n, has, used)
    });
    Ok(ready.collect())
}

/// What is free in the management cluster.
pub async fn room(client: &Client) -> anyhow::Result<Room> {
    let nodes = nodes(client).await.context("the management cluster")?;
    Ok(Room { free: nodes.iter().map(|(_, has, used)| has.minus(*used)).collect() })
}

/// Nodes of a pool, in the guest's words.
const POOL: &str = "hypershift.openshift.io/nodePool";

pub async fn guest(client: &Client, hc: &HostedCluster, pool: &NodePool) -> anyhow::Result<Guest> {
    let text = kubeconfig::of(client, hc).await?.context("the cluster has no kubeconfig yet")?;
    let guest = reach::by(Kubeconfig::from_yaml(&text)?).await?;
    let read = async {
        let nodes = nodes(&guest).await?;
        let budgets: Api<PodDisruptionBudget> = Api::all(guest.clone());
        anyhow::Ok((nodes, all(&budgets, "PodDisruptionBudgets").await?))
    };
    let read = tokio::time::timeout(GUEST, read).await;
    let (nodes, budgets) =
        read.context("it does not answer").and_then(|r| r).context("the guest cannot be asked")?;
    let name = pool.metadata.name.as_deref().unwrap_or_default();
    let mine = |n: &Node| n.metadata.labels.as_ref().and_then(|l| l.get(POOL)).is_some_and(|p| p == name);
    Ok(Guest {
        pool: nodes.iter().filter(|(n, ..)| mine(n)).map(|(_, has, _)| *has).collect(),
        all: nodes.iter().fold(Demand::default(), |sum, (_, has, _)| sum.plus(*has)),
        asked: nodes.iter().fold(Demand::default(), |sum, (_, _, used)| sum.plus(*used)),
        budgets: budgets
            .into_iter()
            .map(|b| {
                let status = b.status.unwrap_or_default();
                Budget {
                    namespace: b.metadata.namespace.unwrap_or_default(),
                    name: b.metadata.name.unwrap_or_default(),
                    pods: status.expected_pods.into(),
                    allowed: status.disruptions_allowed.into(),
                }
            })
            .collect(),
    })
}

/// Processors that are left for machines of a pool's size.
pub async fn quota(hc: &HostedCluster, pool: &NodePool) -> anyhow::Result<Quota> {
    let azure = azure_account()
        .await?
        .context("the environment names no Azure account, so quotas cannot be asked")?;
    let (hc, pool) = (serde_json::to_value(hc)?, serde_json::to_value(pool)?);
    let text = |o: &serde_json::Value, path: &str| {
        o.pointer(path)
            .and_then(|v| v.as_str())
            .map(str::to_owned)
            .with_context(|| format!("{path} is not set"))
    };
    let subscription = text(&hc, "/spec/platform/azure/subscriptionID")?;
    let location = text(&hc, "/spec/platform/azure/location")?;
    let size = text(&pool, "/spec/platform/azure/vmSize")?;
    let failed = || format!("quotas of {location} cannot be read");
    let skus: Vec<_> =
        azure.compute_skus(&subscription, &location).try_collect().await.with_context(failed)?;
    let offered =
        skus.iter().filter_map(|s| Size::read(s, &location)).find(|s| s.name.eq_ignore_ascii_case(&size));
    let offered = offered.with_context(|| format!("there is no size {size} in {location}"))?;
    let usages: Vec<_> =
        azure.compute_usages(&subscription, &location).try_collect().await.with_context(failed)?;
    let names: BTreeSet<String> = ["cores".to_owned(), offered.family.to_lowercase()].into();
    let left = usages.iter().filter_map(|u| {
        let name = u.name.as_ref()?.value.as_ref()?.to_lowercase();
        names.contains(&name).then(|| u.limit.unwrap_or(i64::MAX) - u.current_value.unwrap_or(0))
    });
    Ok(Quota { size, cpus: offered.cpus.into(), left: left.min().unwrap_or(i64::MAX), location })
}
