//! Workloads: from a Deployment to pods that are available, once and ten thousand times.

use crate::{Args, scaled};
use anyhow::Context;
use ek_engine::Engine;
use ek_node::{Events, NodeSpec, Nodes, Options, StageSet};
use ek_server::{ClusterConfig, Host, HostConfig};
use futures::{StreamExt, TryStreamExt};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::ServiceAccount;
use kube::api::{Api, PostParams};
use kube::runtime::watcher;
use serde_json::json;
use std::time::{Duration, Instant};
use testkit::bench::{Figure, resident_kib};

const PATIENCE: Duration = Duration::from_secs(120);

/// A host whose clusters live, with stages that take no time.
pub struct World {
    pub host: Host,
    nodes: Nodes,
    task: tokio::task::JoinHandle<()>,
    _dir: tempfile::TempDir,
}

impl World {
    pub async fn start() -> anyhow::Result<World> {
        let dir = tempfile::tempdir()?;
        let host = Host::start(HostConfig::memory()).await?;
        let options =
            Options { stages: StageSet::instant(), events: Events::All, ..Options::new(dir.path()) };
        let nodes = Nodes::new(&host, options);
        let mut all = nodes.controllers();
        all.extend(ek_controllers::all(ek_controllers::Options::default()));
        let engine = Engine::new(&host, all);
        nodes.attach(&engine);
        let task = tokio::spawn(engine.run());
        Ok(World { host, nodes, task, _dir: dir })
    }

    async fn cluster(&self, name: &str) -> anyhow::Result<Api<Deployment>> {
        let server = self.host.ensure(name, ClusterConfig::default()).await?;
        self.nodes.add_node(name, "node-1", NodeSpec::default()).await?;
        Ok(Api::namespaced(server.client(), "default"))
    }

    pub async fn stop(self) {
        self.host.stop().await;
        let _ = self.task.await;
    }
}

/// Waits until controllers have given a new cluster what every cluster has.
pub async fn furnished(host: &Host, name: &str) -> anyhow::Result<()> {
    let server = host.cluster(name).context("no such cluster")?;
    let accounts: Api<ServiceAccount> = Api::namespaced(server.client(), "kube-system");
    let there =
        kube::runtime::wait::await_condition(accounts, "default", |a: Option<&ServiceAccount>| a.is_some());
    tokio::time::timeout(PATIENCE, there).await.context("no service account in time")??;
    Ok(())
}

async fn available(deployments: Api<Deployment>, name: &str, replicas: i32) -> anyhow::Result<()> {
    let mut states = watcher::watch_object(deployments, name).boxed();
    let wait = async {
        while let Some(state) = states.next().await {
            let status = state?.and_then(|d| d.status).unwrap_or_default();
            if status.available_replicas == Some(replicas) {
                return anyhow::Ok(());
            }
        }
        anyhow::bail!("the watch ended")
    };
    tokio::time::timeout(PATIENCE, wait).await.context("not available in time")?
}

fn deployment(name: &str, replicas: i32) -> anyhow::Result<Deployment> {
    let labels = json!({"app": name});
    Ok(serde_json::from_value(json!({"metadata": {"name": name}, "spec": {"replicas": replicas,
        "selector": {"matchLabels": labels}, "template": {"metadata": {"labels": labels},
        "spec": {"containers": [{"name": "main", "image": "registry.example/main:1"}]}}}}))?)
}

pub async fn rollout(args: &Args, all: &mut Vec<Figure>) -> anyhow::Result<()> {
    let world = World::start().await?;
    let deployments = world.cluster("one").await?;
    let mut times = Vec::new();
    for i in 0..scaled(20, args) {
        let name = format!("web-{i}");
        let begun = Instant::now();
        deployments.create(&PostParams::default(), &deployment(&name, 3)?).await?;
        available(deployments.clone(), &name, 3).await?;
        times.push(begun.elapsed().as_secs_f64() * 1e3);
    }
    times.sort_by(f64::total_cmp);
    all.push(Figure {
        name: "Deployment of 3 replicas to Available, median".into(),
        unit: "ms",
        value: times[times.len() / 2],
        target: 20.0,
    });
    world.stop().await;
    Ok(())
}

pub async fn fleet(args: &Args, all: &mut Vec<Figure>) -> anyhow::Result<()> {
    const EACH: i32 = 50;
    let world = World::start().await?;
    let clusters = scaled(200, args);
    let mut apis = Vec::new();
    for i in 0..clusters {
        apis.push(world.cluster(&format!("c{i}")).await?);
    }
    let begun = Instant::now();
    futures::stream::iter(&apis)
        .map(|api| async move {
            api.create(&PostParams::default(), &deployment("web", EACH)?).await?;
            available(api.clone(), "web", EACH).await
        })
        .buffer_unordered(clusters)
        .try_collect::<Vec<()>>()
        .await?;
    let took = begun.elapsed().as_secs_f64();
    let pods = clusters * usize::try_from(EACH)?;
    let name = format!("{pods} pods across {clusters} clusters settled");
    all.push(Figure { name: name.clone(), unit: "s", value: took, target: 10.0 });
    all.push(Figure {
        name: format!("{name}, whole process"),
        unit: "MiB",
        value: resident_kib() / 1024.0,
        target: 400.0,
    });
    world.stop().await;
    Ok(())
}
