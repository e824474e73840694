//! The loads, in the order that needs least cleaning up.

use crate::client::Client;
use crate::process::Server;
use anyhow::{Context, ensure};
use bytes::Bytes;
use http::Method;
use http_body_util::BodyExt;
use serde_json::json;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tokio::sync::Notify;

/// One figure with its target.
pub struct Figure {
    pub name: &'static str,
    pub unit: &'static str,
    pub value: f64,
    pub target: f64,
}

pub struct Figures {
    pub server: &'static str,
    pub all: Vec<Figure>,
}

const JSON: &str = "application/json";
const CONFIG_MAPS: &str = "/api/v1/namespaces/bench/configmaps";

fn config_map(name: &str, fill: usize) -> Bytes {
    json!({"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": "bench", "labels": {"app": "bench"}}, "data": {"payload": "x".repeat(fill)}})
    .to_string()
    .into()
}

/// A Deployment of about 6 KB with what real ones have: several containers, environment, probes, volumes.
fn deployment(replicas: u32, image: &str) -> Bytes {
    let env: Vec<_> = (0..16).map(|i| json!({"name": format!("SETTING_{i:02}"), "value": format!("value-of-setting-number-{i:04}")})).collect();
    let container = |n: usize| {
        json!({"name": format!("part-{n}"), "image": image, "args": ["--listen=:8080", "--log-level=info", "--config=/etc/part/config.yaml"],
            "env": env, "ports": [{"containerPort": 8080 + n, "name": format!("http-{n}"), "protocol": "TCP"}],
            "resources": {"requests": {"cpu": "100m", "memory": "128Mi"}, "limits": {"memory": "256Mi"}},
            "livenessProbe": {"httpGet": {"path": "/healthz", "port": 8080 + n}, "initialDelaySeconds": 5},
            "readinessProbe": {"httpGet": {"path": "/readyz", "port": 8080 + n}},
            "volumeMounts": [{"name": "config", "mountPath": "/etc/part"}, {"name": "tmp", "mountPath": "/tmp"}]})
    };
    json!({"apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": "bench", "namespace": "bench", "labels": {"app": "bench"}, "annotations": {"example.com/owner": "bench"}},
        "spec": {"replicas": replicas, "selector": {"matchLabels": {"app": "bench"}},
            "template": {"metadata": {"labels": {"app": "bench"}}, "spec": {"containers": [container(0), container(1), container(2)],
                "volumes": [{"name": "config", "configMap": {"name": "bench"}}, {"name": "tmp", "emptyDir": {}}]}}}})
    .to_string()
    .into()
}

/// A part of the bench that can be asked for alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Load {
    Create,
    Get,
    List,
    Watch,
    Apply,
    Memory,
}

pub async fn all(server: Server, scale: f64, only: &[Load]) -> anyhow::Result<Figures> {
    let n = |x: usize| ((x as f64 * scale) as usize).max(10);
    let wants = |l: Load| only.is_empty() || only.contains(&l);
    let mut f = Vec::new();
    let mut add = |name, unit, value, target| f.push(Figure { name, unit, value, target });
    let settled = server.memory();
    add("start to ready", "ms", server.start.as_secs_f64() * 1000.0, 100.0);
    add("idle memory", "MiB", settled as f64 / 1048576.0, 25.0);
    let mut c = server.access.connect().await?;
    let ns = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "bench"}}).to_string();
    c.send(Method::POST, "/api/v1/namespaces", JSON, ns.into()).await?;
    // Warm up: connections, lazily built tables.
    for i in 0..50 {
        c.send(Method::POST, CONFIG_MAPS, JSON, config_map(&format!("warm-{i}"), 700)).await?;
    }

    // Reads need the objects that the creates leave behind.
    if [Load::Create, Load::Get, Load::List].into_iter().any(wants) {
        let (cpu, mut latencies) = creates(&server, n(6000)).await?;
        latencies.sort();
        let p99 = latencies[latencies.len() * 99 / 100].as_secs_f64() * 1000.0;
        add("create 1 KB, durable: CPU", "ms", cpu * 1000.0, 0.10);
        add("create 1 KB, durable: p99", "ms", p99, 5.0);
    }
    if wants(Load::Get) {
        let gets = n(20000);
        let before = server.cpu();
        for i in 0..gets {
            let (code, _) = c.get(&format!("{CONFIG_MAPS}/c-{}", i % n(6000))).await?;
            ensure!(code == 200, "get answered {code}");
        }
        add("get: CPU", "µs", (server.cpu() - before) / gets as f64 * 1e6, 50.0);
    }
    if wants(Load::List) {
        let lists = n(30);
        let before = server.cpu();
        for _ in 0..lists {
            let (code, body) = c.get(CONFIG_MAPS).await?;
            ensure!(
                code == 200 && body.len() > n(6000) * 900,
                "list answered {code} with {} bytes",
                body.len()
            );
        }
        add(
            "list 6,000 × 1 KB: CPU",
            "ms",
            (server.cpu() - before) / lists as f64 * 1000.0 / scale.min(1.0),
            10.0,
        );
    }
    if wants(Load::Watch) {
        add("watch, 200 watchers: CPU per event", "µs", watch(&server, 200, n(300)).await? * 1e6, 6.0);
    }
    if wants(Load::Apply) {
        let (same, changed) = apply(&server, n(2000)).await?;
        add("server-side apply 6 KB, unchanged: CPU", "µs", same * 1e6, 150.0);
        add("server-side apply 6 KB, one change: CPU", "µs", changed * 1e6, 150.0);
    }
    if wants(Load::Memory) {
        add("memory per 1 KB object", "KB", memory(&server, n(40000)).await? / 1000.0, 1.6);
    }
    Ok(Figures { server: server.name, all: f })
}

/// CPU seconds per create and the latency of each, from four clients at once.
async fn creates(server: &Server, count: usize) -> anyhow::Result<(f64, Vec<Duration>)> {
    const CLIENTS: usize = 4;
    let before = server.cpu();
    let mut tasks = Vec::new();
    for k in 0..CLIENTS {
        let access = server.access.clone();
        tasks.push(tokio::spawn(async move {
            let mut c = access.connect().await?;
            let mut latencies = Vec::new();
            for i in (k..count).step_by(CLIENTS) {
                let body = config_map(&format!("c-{i}"), 700);
                let start = Instant::now();
                let (code, body) = c.send(Method::POST, CONFIG_MAPS, JSON, body).await?;
                ensure!(code == 201, "create answered {code}: {}", String::from_utf8_lossy(&body));
                latencies.push(start.elapsed());
            }
            anyhow::Ok(latencies)
        }));
    }
    let mut all = Vec::new();
    for t in tasks {
        all.extend(t.await??);
    }
    Ok(((server.cpu() - before) / count as f64, all))
}

/// CPU seconds per delivered event: one writer, many watchers, each on its own connection.
async fn watch(server: &Server, watchers: usize, events: usize) -> anyhow::Result<f64> {
    let seen = Arc::new(AtomicU64::new(0));
    let done = Arc::new(Notify::new());
    let expected = (watchers * events) as u64;
    let mut c = server.access.connect().await?;
    let (_, list) = c.get("/api/v1/namespaces/default/configmaps").await?;
    let list: serde_json::Value = serde_json::from_slice(&list)?;
    let rv = list["metadata"]["resourceVersion"].as_str().context("a list has a version")?.to_owned();
    let mut tasks = Vec::new();
    for _ in 0..watchers {
        let mut w: Client = server.access.connect().await?;
        let path = format!("/api/v1/namespaces/default/configmaps?watch=true&resourceVersion={rv}");
        let (code, mut body) = w.stream(Method::GET, &path, JSON, Bytes::new()).await?;
        ensure!(code == 200, "watch answered {code}");
        let (seen, done) = (seen.clone(), done.clone());
        tasks.push(tokio::spawn(async move {
            let _client = w;
            while let Some(Ok(frame)) = body.frame().await {
                let lines = frame.data_ref().map_or(0, |d| d.iter().filter(|b| **b == b'\n').count());
                if seen.fetch_add(lines as u64, Ordering::Relaxed) + lines as u64 >= expected {
                    done.notify_one();
                }
            }
        }));
    }
    let before = server.cpu();
    for i in 0..events {
        let body = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": format!("w-{i}"), "namespace": "default"}, "data": {"payload": "x".repeat(700)}});
        let (code, _) = c
            .send(Method::POST, "/api/v1/namespaces/default/configmaps", JSON, body.to_string().into())
            .await?;
        ensure!(code == 201, "create answered {code}");
    }
    tokio::time::timeout(Duration::from_secs(60), done.notified())
        .await
        .context("events are missing after 60 s")?;
    let cpu = (server.cpu() - before) / expected as f64;
    for t in tasks {
        t.abort();
    }
    Ok(cpu)
}

/// CPU seconds of an apply that changes nothing, and of one that changes a field.
async fn apply(server: &Server, count: usize) -> anyhow::Result<(f64, f64)> {
    const PATH: &str = "/apis/apps/v1/namespaces/bench/deployments/bench?fieldManager=bench&force=true";
    const APPLY: &str = "application/apply-patch+yaml";
    let mut c = server.access.connect().await?;
    let (code, body) = c.send(Method::PATCH, PATH, APPLY, deployment(1, "image:1")).await?;
    ensure!(code == 201, "apply answered {code}: {}", String::from_utf8_lossy(&body));
    let before = server.cpu();
    for _ in 0..count {
        let (code, _) = c.send(Method::PATCH, PATH, APPLY, deployment(1, "image:1")).await?;
        ensure!(code == 200, "apply answered {code}");
    }
    let same = (server.cpu() - before) / count as f64;
    let before = server.cpu();
    for i in 0..count {
        let (code, _) = c.send(Method::PATCH, PATH, APPLY, deployment(2 + (i % 2) as u32, "image:1")).await?;
        ensure!(code == 200, "apply answered {code}");
    }
    Ok((same, (server.cpu() - before) / count as f64))
}

/// Bytes of resident memory per object, over enough objects to drown noise.
async fn memory(server: &Server, count: usize) -> anyhow::Result<f64> {
    let before = server.memory();
    let mut tasks = Vec::new();
    for k in 0..4 {
        let access = server.access.clone();
        tasks.push(tokio::spawn(async move {
            let mut c = access.connect().await?;
            for i in (k..count).step_by(4) {
                let (code, _) =
                    c.send(Method::POST, CONFIG_MAPS, JSON, config_map(&format!("m-{i}"), 700)).await?;
                ensure!(code == 201, "create answered {code}");
            }
            anyhow::Ok(())
        }));
    }
    for t in tasks {
        t.await??;
    }
    Ok((server.memory().saturating_sub(before)) as f64 / count as f64)
}
