//! What reaches into pods: logs, exec, attach, port-forward and proxy.
//!
//! Commands and forwarded ports leave HTTP behind: the connection becomes a WebSocket (what kubectl tries first) or
//! SPDY/3.1 (what it falls back to, and what its port-forward puts inside of a WebSocket).

mod channels;
mod forward;
mod logs;
mod proxy;
mod spdy;
mod upgrade;

use super::Call;
use crate::pods::ContainerAt;
use crate::wire::respond::Reply;
use ek_meta::{Status, object};
use serde_json::Value;
use std::sync::Arc;

pub async fn run(call: &Call) -> Result<Reply, Status> {
    let sub = call.info.subresource.as_str();
    if sub == "proxy" {
        return proxy::run(call).await;
    }
    let pod: Value = serde_json::from_slice(&call.live()?.bytes()).map_err(Status::internal)?;
    match sub {
        "log" => logs::run(call, pod),
        "exec" | "attach" => channels::run(call, pod),
        _ => forward::run(call, pod),
    }
}

fn names(pod: &Value, list: &str) -> Vec<String> {
    let all = pod["spec"][list].as_array().into_iter().flatten();
    all.filter_map(|c| c["name"].as_str()).map(str::to_owned).collect()
}

/// The container a request means.
fn container(call: &Call, pod: Value) -> Result<ContainerAt, Status> {
    let name = object::name(&pod).to_owned();
    let (main, init) = (names(&pod, "containers"), names(&pod, "initContainers"));
    let ephemeral = names(&pod, "ephemeralContainers");
    let container = match (call.params.get("container"), main.as_slice()) {
        (Some(c), _) if main.iter().chain(&init).chain(&ephemeral).any(|n| n == c) => c.to_owned(),
        (Some(c), _) => {
            return Err(Status::bad_request(format!("container {c} is not valid for pod {name}")));
        }
        (None, [only]) => only.clone(),
        (None, _) => {
            let mut text = format!(
                "a container name must be specified for pod {name}, choose one of: [{}]",
                main.join(" ")
            );
            if !init.is_empty() {
                text.push_str(&format!(" or one of the init containers: [{}]", init.join(" ")));
            }
            return Err(Status::bad_request(text));
        }
    };
    if pod["spec"]["nodeName"].as_str().is_none_or(str::is_empty) {
        return Err(Status::bad_request(format!("pod {name} does not have a host assigned")));
    }
    Ok(ContainerAt { cluster: call.cluster.id.clone(), pod: Arc::new(pod), container })
}
