//! The last part of the demo: the self-managed road, from nothing to a cluster with nodes and back to nothing.
//!
//! A region comes up in this process; everything after that is done by this program's own commands, as processes, with
//! the environment that `zaffre up --env-out` writes. So what the demo shows is what a person would type, and a step holds
//! only if the command that a person would have typed says so. What has no command here (`kubectl`) is asked of the APIs.

use super::Report;
use crate::serve::{azure, write_kubeconfig};
use anyhow::{Context, bail};
use futures::TryStreamExt;
use hypershift::kinds;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{Namespace, Node};
use kube::Client;
use kube::api::{Api, ListParams, Patch, PatchParams, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::runtime::wait::await_condition;
use kube::runtime::{WatchStreamExt, watcher};
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;
use world::landing::{DOMAIN, LOCATION};
use world::{Options, World};

/// Of each step; a debug build on a busy machine takes a minute.
const STEP: Duration = Duration::from_secs(300);
const NAME: &str = "demo";
const NAMESPACE: &str = "clusters";
const INFRA: &str = "demo-x2b4c";
const FROM: &str = "4.20.1";
const TO: &str = "4.21.0";

pub async fn work(r: &mut Report) -> anyhow::Result<()> {
    let world = World::start(Options::default()).await.context("the region cannot start")?;
    let listening = world.management().listen(([127, 0, 0, 1], 0).into()).await?;
    let shell = Shell::new(&world, &format!("https://{}", listening.address))?;
    r.step("a region is up", "Azure, a management cluster with three zones, operators");
    let walked = Box::pin(walk(r, &world, &shell)).await;
    listening.drain().await;
    world.stop().await;
    walked
}

async fn walk(r: &mut Report, world: &World, shell: &Shell) -> anyhow::Result<()> {
    let on = |words: &str| words.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    shell.run(r, "operators installed", &on("install --wait-until-available")).await?;
    let words = format!(
        "create oidc-issuer azure --name demooidc --resource-group-name demo-oidc --location {LOCATION} --output-dir oidc"
    );
    shell.run(r, "issuer of tokens made", &on(&words)).await?;
    let issuer = std::fs::read_to_string(shell.dir.join("oidc/issuer-url"))?;
    let issuer = issuer.trim();
    let words = format!(
        "create iam azure --name {NAME} --infra-id {INFRA} --resource-group-name demo-identities --location {LOCATION} \
         --oidc-issuer-url {issuer} --output-file identities.json"
    );
    shell.run(r, "identities made", &on(&words)).await?;
    let words = format!(
        "create infra azure --name {NAME} --infra-id {INFRA} --location {LOCATION} --base-domain {DOMAIN} \
         --workload-identities-file identities.json --assign-identity-roles --dns-zone-rg-name zaffre-dns \
         --output-file infra.yaml"
    );
    shell.run(r, "network and roles made", &on(&words)).await?;
    std::fs::write(shell.dir.join("pull-secret.json"), r#"{"auths":{}}"#)?;
    let image = world.cloud().releases.get(FROM).context("the registry lacks a release")?;
    let words = format!(
        "create cluster azure --name {NAME} --infra-json infra.yaml --pull-secret pull-secret.json --release-image {image} \
         --oidc-issuer-url {issuer} --sa-token-issuer-private-key-path oidc/serviceaccount-signer.private \
         --generate-ssh --node-pool-replicas 2 --wait"
    );
    shell.run(r, "a cluster is created and available", &on(&words)).await?;
    let guest = shell.guest(world).await?;
    let nodes = ready(&guest, 2).await?;
    r.step("its machines booted and joined", &nodes);
    workload(&guest).await?;
    r.step("a deployment runs in it", "hello: 2 pods, on its own nodes");

    let pools = kinds::POOL.api(&world.client(), NAMESPACE);
    let pool = pools.list(&ListParams::default()).await?.items;
    let pool = pool.first().and_then(|p| p.metadata.name.clone()).context("there is no node pool")?;
    let three = Patch::Merge(json!({"spec": {"replicas": 3}}));
    pools.patch(&pool, &PatchParams::default(), &three).await?;
    ready(&guest, 3).await?;
    r.step("scaled from 2 nodes to 3", &format!("kubectl scale nodepool/{pool} --replicas 3"));

    let words = format!("upgrade cluster {NAME} --namespace {NAMESPACE} --to {TO} --wait");
    shell.run(r, "control plane upgraded", &on(&words)).await?;
    let words = format!("upgrade nodepool {pool} --namespace {NAMESPACE} --to {TO} --wait");
    shell.run(r, "nodes upgraded, one after the other", &on(&words)).await?;
    r.step("all nodes replaced and ready", &ready(&guest, 3).await?);

    shell.run(r, "cluster destroyed", &on(&format!("destroy cluster azure --name {NAME}"))).await?;
    let words = format!("destroy iam azure --name {NAME} --infra-id {INFRA}");
    shell.run(r, "identities destroyed", &on(&words)).await?;
    shell.run(r, "issuer destroyed", &on("destroy oidc-issuer azure --name demooidc")).await?;
    shell.run(r, "nothing is left in Azure", &on("azure leaks --fail-on-leaks")).await?;
    let spaces: Api<Namespace> = Api::all(world.client());
    let plane = format!("{NAMESPACE}-{NAME}");
    if spaces.get_opt(&plane).await?.is_some() {
        bail!("namespace {plane} was left behind");
    }
    r.step("nothing is left in the management cluster", &format!("namespace {plane} is gone"));
    Ok(())
}

/// Where commands are run, and with what around them.
struct Shell {
    program: PathBuf,
    dir: PathBuf,
    variables: Vec<(String, String)>,
    _scratch: tempfile::TempDir,
}

impl Shell {
    fn new(world: &World, url: &str) -> anyhow::Result<Shell> {
        let scratch = tempfile::Builder::new().prefix("zaffre-demo-").tempdir()?;
        let dir = scratch.path().to_owned();
        let kubeconfig = dir.join("kc");
        write_kubeconfig(&kubeconfig, &world.management().kubeconfig(url)?)?;
        let mut variables = azure::variables(&world.cloud().sim, &dir.join("env"))?;
        variables.push(("KUBECONFIG".to_owned(), kubeconfig.display().to_string()));
        Ok(Shell { program: std::env::current_exe()?, dir, variables, _scratch: scratch })
    }

    /// What a command prints; what it complains about is the error.
    async fn output(&self, words: &[String]) -> anyhow::Result<String> {
        let mut command = tokio::process::Command::new(&self.program);
        command.args(words).current_dir(&self.dir).kill_on_drop(true).stdin(Stdio::null());
        command.envs(self.variables.iter().map(|(k, v)| (k, v)));
        let said = || format!("zaffre {}", words.join(" "));
        let waited = tokio::time::timeout(STEP, command.output()).await;
        let done = waited.with_context(|| format!("no end after {} s: {}", STEP.as_secs(), said()))?;
        let done = done.with_context(|| format!("cannot run {}", said()))?;
        if !done.status.success() {
            let (out, err) = (String::from_utf8_lossy(&done.stdout), String::from_utf8_lossy(&done.stderr));
            bail!("{} ({}): {}\n{}", said(), done.status, err.trim_end(), out.trim_end());
        }
        Ok(String::from_utf8_lossy(&done.stdout).into_owned())
    }

    /// A step that is one command.
    async fn run(&self, r: &mut Report, what: &str, words: &[String]) -> anyhow::Result<()> {
        let working = r.working(what);
        let done = self.output(words).await;
        working.finish_and_clear();
        done?;
        // As far as the flags: they are on the page about this road.
        let short: Vec<&str> =
            words.iter().map(String::as_str).take_while(|w| !w.starts_with("--")).collect();
        r.step(what, &format!("zaffre {}", short.join(" ")));
        Ok(())
    }

    /// The guest as its administrator sees it.
    async fn guest(&self, world: &World) -> anyhow::Result<Client> {
        let words = ["create", "kubeconfig", "--name", NAME].map(str::to_owned);
        let text = self.output(&words).await?;
        let file = Kubeconfig::from_yaml(&world.reachable(&text)?)?;
        let mut config = kube::Config::from_custom_kubeconfig(file, &KubeConfigOptions::default()).await?;
        // The balancer is on this machine, whatever the environment says.
        config.proxy_url = None;
        Ok(Client::try_from(config)?)
    }
}

fn is_ready(node: &Node) -> bool {
    let conditions = node.status.as_ref().and_then(|s| s.conditions.as_deref()).unwrap_or_default();
    conditions.iter().any(|c| c.type_ == "Ready" && c.status == "True")
}

/// Waits until a guest has exactly so many nodes and all of them are ready; says their versions.
async fn ready(guest: &Client, count: usize) -> anyhow::Result<String> {
    let nodes: Api<Node> = Api::all(guest.clone());
    let mut known: BTreeMap<String, Node> = BTreeMap::new();
    let mut events = std::pin::pin!(watcher(nodes, watcher::Config::default()).default_backoff());
    let watched = async {
        while let Some(event) = events.try_next().await? {
            match event {
                watcher::Event::Init => known.clear(),
                watcher::Event::InitApply(n) | watcher::Event::Apply(n) => {
                    known.insert(n.metadata.name.clone().unwrap_or_default(), n);
                }
                watcher::Event::Delete(n) => {
                    known.remove(n.metadata.name.as_deref().unwrap_or_default());
                }
                watcher::Event::InitDone => {}
            }
            if known.len() == count && known.values().all(is_ready) {
                break;
            }
        }
        anyhow::Ok(())
    };
    let waited = tokio::time::timeout(STEP, watched).await;
    let seen = known.values().filter(|n| is_ready(n)).count();
    waited
        .with_context(|| format!("{seen} of {} nodes are ready, and {count} were to be", known.len()))??;
    let versions: BTreeSet<&str> = known
        .values()
        .filter_map(|n| Some(n.status.as_ref()?.node_info.as_ref()?.kubelet_version.as_str()))
        .collect();
    Ok(format!("{count} nodes are ready, kubelet {}", versions.into_iter().collect::<Vec<_>>().join(", ")))
}

/// A deployment in the guest, until its pods run on the guest's nodes.
async fn workload(guest: &Client) -> anyhow::Result<()> {
    let deployments: Api<Deployment> = Api::namespaced(guest.clone(), "default");
    let labels = json!({"app": "hello"});
    let object = json!({"metadata": {"name": "hello"}, "spec": {"replicas": 2, "selector": {"matchLabels": labels},
        "template": {"metadata": {"labels": labels},
            "spec": {"containers": [{"name": "hello", "image": "registry.example/hello"}]}}}});
    deployments.create(&PostParams::default(), &serde_json::from_value(object)?).await?;
    let runs = |d: Option<&Deployment>| {
        d.and_then(|d| d.status.as_ref()?.available_replicas).is_some_and(|available| available == 2)
    };
    let waited = tokio::time::timeout(STEP, await_condition(deployments, "hello", runs)).await;
    waited.context("the deployment in the guest does not become available")??;
    Ok(())
}
