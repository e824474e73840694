//! The last part of the demo: a region, and in it a hosted cluster: from one object to an API that answers, and back.

use super::Report;
use anyhow::{Context, bail};
use hypershift::kinds;
use k8s_openapi::api::core::v1::{Namespace, Secret};
use kube::api::{Api, DeleteParams, DynamicObject, ListParams, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::runtime::wait::{await_condition, conditions};
use serde_json::json;
use std::time::Duration;
use world::sample::{NAMESPACE, Sample};
use world::{Flavour, Landing, Options, World};

/// Of each wait; a debug build on a busy machine takes a minute.
const STEP: Duration = Duration::from_secs(240);
const NAME: &str = "demo";
const VERSION: &str = "4.20.1";

pub async fn work(r: &mut Report) -> anyhow::Result<()> {
    let world = World::start(Options::default()).await.context("the region cannot start")?;
    r.step("a region is up", "Azure, a management cluster with three zones, operators");
    let landing = Landing::make(world.cloud(), world.dir(), NAME, Flavour::Workload)
        .await
        .context("cannot make what a cluster needs in Azure")?;
    r.step("issuer, identities and network made", &landing.issuer);
    let sample = Sample::new(&world, &landing, NAME, VERSION)?;
    sample.create(&world).await?;
    r.step("HostedCluster created", &format!("{NAMESPACE}/{NAME}, {VERSION}"));
    let clusters = kinds::CLUSTER.api(&world.client(), NAMESPACE);
    let available = |o: Option<&DynamicObject>| {
        let all = o.and_then(|o| o.data["status"]["conditions"].as_array());
        all.into_iter().flatten().any(|c| c["type"] == "Available" && c["status"] == "True")
    };
    let waited = tokio::time::timeout(STEP, await_condition(clusters.clone(), NAME, available)).await;
    let Ok(cluster) = waited else {
        let why = world.clusters().explain(&format!("{NAMESPACE}/{NAME}"));
        bail!("the hosted cluster did not become available within {} s: {why:#?}", STEP.as_secs());
    };
    let cluster = cluster?.context("the hosted cluster is gone")?;
    let components = kinds::COMPONENT.api(&world.client(), &sample.plane());
    let count = components.list(&ListParams::default()).await?.items.len();
    r.step("its control plane is available", &format!("{count} components in namespace {}", sample.plane()));
    let guest = guest(&world, &cluster).await?;
    let version = guest.apiserver_version().await.context("the guest's API does not answer")?;
    let hello = serde_json::from_value(json!({"metadata": {"name": "hello"}}))?;
    Api::<Namespace>::all(guest).create(&PostParams::default(), &hello).await?;
    r.step(
        "its API answers where it is published",
        &format!("Kubernetes {}; namespace hello made", version.git_version),
    );
    clusters.delete(NAME, &DeleteParams::foreground()).await?;
    let uid = cluster.metadata.uid.unwrap_or_default();
    let gone = await_condition(clusters, NAME, conditions::is_deleted(&uid));
    tokio::time::timeout(STEP, gone).await.context("the hosted cluster is still there")??;
    let namespaces: Api<Namespace> = Api::all(world.client());
    if namespaces.get_opt(&sample.plane()).await?.is_some() {
        bail!("namespace {} was left behind", sample.plane());
    }
    r.step("deleted", "the cluster, its control plane and its namespace are gone");
    world.stop().await;
    Ok(())
}

/// The guest as its administrator sees it, by the kubeconfig that the cluster names.
async fn guest(world: &World, cluster: &DynamicObject) -> anyhow::Result<kube::Client> {
    let name = cluster.data["status"]["kubeconfig"]["name"].as_str().context("there is no kubeconfig")?;
    let secret = Api::<Secret>::namespaced(world.client(), NAMESPACE).get(name).await?;
    let text = secret.data.and_then(|mut d| d.remove("kubeconfig")).context("the kubeconfig is empty")?;
    let file = Kubeconfig::from_yaml(&world.reachable(&String::from_utf8(text.0)?)?)?;
    let mut config = kube::Config::from_custom_kubeconfig(file, &KubeConfigOptions::default()).await?;
    // The balancer is on this machine, whatever the environment says.
    config.proxy_url = None;
    Ok(kube::Client::try_from(config)?)
}
