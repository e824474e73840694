//! The second half of the demo: clusters that live. A Deployment rolls, a program really serves behind a Service,
//! and hundreds of clusters come and go.

use super::{Report, STEP};
use crate::cli::Controllers;
use crate::living::{self, Living, Wanted};
use anyhow::{Context, bail};
use ek_node::StageSet;
use ek_server::{ApiServer, ClusterConfig};
use futures::StreamExt;
use http_body_util::BodyExt;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Service;
use kube::api::{Api, Patch, PatchParams, PostParams};
use kube::runtime::watcher;
use serde_json::json;
use std::time::Instant;

const CLUSTERS: usize = 500;

pub async fn work(r: &mut Report, server: &ApiServer) -> anyhow::Result<()> {
    let scratch = tempfile::tempdir().context("cannot make a directory for volumes")?;
    let wanted = Wanted { controllers: Controllers::All, nodes: 3 };
    let options = ek_node::Options { stages: StageSet::instant(), ..living::node_options(scratch.path()) };
    let living = Living::start(server.host(), wanted, options).await?;
    r.step("controllers and nodes run", "node-1, node-2, node-3");
    rollout(r, server).await?;
    serving(r, server).await?;
    many(r, server).await?;
    server.host().shutdown().cancel();
    living.end().await;
    Ok(())
}

fn deployment(name: &str, image: &str, replicas: usize) -> anyhow::Result<Deployment> {
    let labels = json!({"app": name});
    let container =
        json!({"name": "main", "image": image, "ports": [{"name": "http", "containerPort": 8080}]});
    Ok(serde_json::from_value(json!({"metadata": {"name": name}, "spec": {"replicas": replicas,
        "selector": {"matchLabels": labels},
        "template": {"metadata": {"labels": labels}, "spec": {"containers": [container]}}}}))?)
}

/// Waits until a Deployment has rolled out, by watching it.
async fn rolled_out(deployments: &Api<Deployment>, name: &str) -> anyhow::Result<Deployment> {
    let mut states = watcher::watch_object(deployments.clone(), name).boxed();
    let wait = async {
        while let Some(state) = states.next().await {
            let Some(d) = state? else { continue };
            let (spec, status) = (d.spec.clone().unwrap_or_default(), d.status.clone().unwrap_or_default());
            let wanted = spec.replicas;
            let all = [status.updated_replicas, status.available_replicas, status.replicas];
            if status.observed_generation == d.metadata.generation && all.iter().all(|n| *n == wanted) {
                return Ok(d);
            }
        }
        bail!("the watch ended early")
    };
    tokio::time::timeout(STEP, wait).await.with_context(|| format!("{name} did not roll out within 20 s"))?
}

async fn rollout(r: &mut Report, server: &ApiServer) -> anyhow::Result<()> {
    let deployments: Api<Deployment> = Api::namespaced(server.client(), "default");
    let web = deployment("web", "registry.example/web:1", 3)?;
    deployments.create(&PostParams::default(), &web).await?;
    rolled_out(&deployments, "web").await?;
    r.step("Deployment available (simulated pods)", "web: 3 of 3");
    let image = json!({"spec": {"template": {"spec": {"containers": [{"name": "main", "image": "registry.example/web:2"}]}}}});
    deployments.patch("web", &PatchParams::default(), &Patch::Strategic(image)).await?;
    let d = rolled_out(&deployments, "web").await?;
    let revision = d.metadata.annotations.unwrap_or_default();
    let revision = revision.get("deployment.kubernetes.io/revision").cloned().unwrap_or_default();
    r.step("Deployment rolled to a new image", &format!("web: revision {revision}"));
    Ok(())
}

async fn serving(r: &mut Report, server: &ApiServer) -> anyhow::Result<()> {
    let deployments: Api<Deployment> = Api::namespaced(server.client(), "default");
    let services: Api<Service> = Api::namespaced(server.client(), "default");
    deployments.create(&PostParams::default(), &deployment("echo", "zaffre.io/echo", 2)?).await?;
    let service: Service = serde_json::from_value(json!({"metadata": {"name": "echo"}, "spec": {
        "selector": {"app": "echo"}, "ports": [{"name": "http", "port": 80, "targetPort": "http"}]}}))?;
    let made = services.create(&PostParams::default(), &service).await?;
    rolled_out(&deployments, "echo").await?;
    let address = made.spec.and_then(|s| s.cluster_ip).unwrap_or_default();
    r.step("program runs behind a Service", &format!("echo: 2 pods, cluster address {address}"));
    let path = "/api/v1/namespaces/default/services/echo:http/proxy/hello";
    let request = http::Request::get(path).body(http_body_util::Empty::<bytes::Bytes>::new())?;
    let service = server.service(ek_auth::User::loopback());
    let reply = tower::ServiceExt::oneshot(service, request).await?;
    let status = reply.status();
    let body = reply.into_body().collect().await.map_err(|e| anyhow::anyhow!("{e}"))?.to_bytes();
    let text = String::from_utf8_lossy(&body);
    if !status.is_success() {
        bail!("the program behind the Service answered {status}: {text}");
    }
    r.step("HTTP through the Service", &text.lines().take(2).collect::<Vec<_>>().join(", "));
    Ok(())
}

async fn many(r: &mut Report, server: &ApiServer) -> anyhow::Result<()> {
    let host = server.host();
    let before = resident_kib();
    let begun = Instant::now();
    for i in 0..CLUSTERS {
        host.ensure(&format!("demo-{i}"), ClusterConfig::default()).await?;
    }
    let each = begun.elapsed().as_secs_f64() * 1e3 / CLUSTERS as f64;
    let grown = (resident_kib() - before) / CLUSTERS as f64;
    r.step(&format!("{CLUSTERS} more clusters created"), &format!("{each:.2} ms and {grown:.0} KiB each"));
    for i in 0..CLUSTERS {
        host.delete(&format!("demo-{i}")).await?;
    }
    let left: Vec<String> = host.names().into_iter().filter(|n| n.starts_with("demo-")).collect();
    if !left.is_empty() {
        bail!("clusters were left behind: {left:?}");
    }
    r.step(&format!("{CLUSTERS} clusters deleted"), &format!("process: {:.0} MiB", resident_kib() / 1024.0));
    Ok(())
}

fn resident_kib() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|l| l.starts_with("VmRSS:")).unwrap_or_default();
    line.split_whitespace().nth(1).and_then(|n| n.parse().ok()).unwrap_or(0.0)
}
