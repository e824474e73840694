//! What the machine-config daemon does on a node: takes another configuration without a new machine.
//!
//! Each step is said on the Node, as the daemon says it: working, drained by whoever drains, restarted, current, open for
//! pods again. Nothing is claimed before it is so: a node whose drain nobody does stays as it is.

use super::payload::Settings;
use ignition::data;
use k8s_openapi::api::core::v1::{ConfigMap, Node};
use kube::api::{Api, Patch, PatchParams};
use serde_json::{Value, json};

const CURRENT: &str = "machineconfiguration.openshift.io/currentConfig";
const DESIRED: &str = "machineconfiguration.openshift.io/desiredConfig";
const STATE: &str = "machineconfiguration.openshift.io/state";
const REASON: &str = "machineconfiguration.openshift.io/reason";
const DESIRED_DRAIN: &str = "machineconfiguration.openshift.io/desiredDrain";
const APPLIED_DRAIN: &str = "machineconfiguration.openshift.io/lastAppliedDrain";

fn mark<'a>(node: &'a Node, key: &str) -> &'a str {
    node.metadata.annotations.as_ref().and_then(|a| a.get(key)).map_or("", String::as_str)
}

fn said(what: &str) -> impl Fn(kube::Error) -> String {
    move |e| format!("cannot {what}: {e}")
}

async fn annotate(client: &kube::Client, name: &str, marks: Value) -> Result<(), String> {
    let nodes: Api<Node> = Api::all(client.clone());
    let patch = json!({"metadata": {"annotations": marks}});
    let done = nodes.patch(name, &PatchParams::default(), &Patch::Merge(&patch)).await;
    done.map(drop).map_err(said("write to the node"))
}

/// Asks for a drain or its end, and waits until it was done.
async fn drained(client: &kube::Client, name: &str, wish: &str) -> Result<(), String> {
    annotate(client, name, json!({DESIRED_DRAIN: wish})).await?;
    let nodes: Api<Node> = Api::all(client.clone());
    let done = |n: Option<&Node>| n.is_some_and(|n| mark(n, APPLIED_DRAIN) == wish);
    let wait = kube::runtime::wait::await_condition(nodes, name, done).await;
    wait.map(drop).map_err(|e| format!("cannot wait for {wish}: {e}"))
}

/// The configuration that was taken; nothing if the node has it.
pub(super) async fn apply(
    client: &kube::Client,
    name: &str,
    namespace: &str,
) -> Result<Option<Value>, String> {
    let nodes: Api<Node> = Api::all(client.clone());
    let node = nodes.get(name).await.map_err(said("read the node"))?;
    let target = mark(&node, DESIRED).to_owned();
    if target.is_empty() || (mark(&node, CURRENT) == target && mark(&node, STATE) == "Done") {
        return Ok(None);
    }
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), namespace);
    let map = maps.get(namespace).await.map_err(said("read the configuration"))?.data.unwrap_or_default();
    if map.get("hash").is_none_or(|h| *h != target) {
        return Err(format!("ConfigMap {namespace}/{namespace} is not of {target}"));
    }
    let packed = map.get("config").map(String::as_bytes).unwrap_or_default();
    let text = data::unpack(packed).map_err(|e| format!("the configuration of {target}: {e}"))?;
    let config: Value =
        serde_json::from_str(&text).map_err(|_| "the configuration is not JSON".to_owned())?;
    let settings = Settings::read(&config)?;
    annotate(client, name, json!({STATE: "Working", REASON: ""})).await?;
    drained(client, name, &format!("drain-{target}")).await?;
    // Here a machine restarts; what it is made of afterwards is what the node says of itself.
    let info =
        json!({"status": {"nodeInfo": {"kubeletVersion": settings.kubelet, "osImage": settings.os_image()}}});
    let done = nodes.patch_status(name, &PatchParams::default(), &Patch::Merge(&info)).await;
    done.map_err(said("write the node's status"))?;
    annotate(client, name, json!({CURRENT: target})).await?;
    drained(client, name, &format!("uncordon-{target}")).await?;
    annotate(client, name, json!({STATE: "Done"})).await?;
    Ok(Some(config))
}

/// Says that it could not; whoever upgrades stops.
pub(super) async fn degraded(client: &kube::Client, name: &str, why: &str) {
    let marks = json!({STATE: "Degraded", REASON: why.chars().take(500).collect::<String>()});
    if let Err(e) = annotate(client, name, marks).await {
        tracing::debug!(node = name, error = e, "a node could not say that it is degraded");
    }
}
