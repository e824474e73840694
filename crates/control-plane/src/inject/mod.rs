//! Containers, volumes and variables that several components share.

mod prober;
pub mod token;
mod tunnel;
mod vault;

use crate::Error;
use crate::component::{Component, Tls};
use crate::pod::Pod;
use crate::scope::{Identity, Scope};
use serde_json::json;

pub use token::minter;
pub use vault::{provider_class, vault_volume};

/// Kubeconfig of an administrator who reaches the API inside the management cluster.
pub const ADMIN: &str = "service-network-admin-kubeconfig";

/// Adds to a component's pod what its row asks for.
pub fn inject(scope: &Scope, component: &Component, pod: &mut Pod<'_>) -> Result<(), Error> {
    if let Some(prober) = &component.prober {
        prober::add(prober, pod);
    }
    if let Some((volume, file)) = component.audit {
        pod.add_container(audit_log(volume, file));
    }
    if component.ready_with_api {
        pod.add_container(api_readiness());
    }
    for tunnel in component.tunnels {
        tunnel::add(scope, tunnel, pod);
    }
    if let Some(credential) = &component.identity {
        match &scope.identity {
            Identity::Workload(_) => token::add_cloud(scope, credential, pod),
            Identity::Managed { .. } => vault::add(scope, credential, pod),
        }
        if credential.api_token {
            token::add_api(scope, credential, pod);
        }
    }
    if component.tls == Tls::Flags
        && let Some(mut main) = pod.main()
    {
        main.args(crate::tls::of(scope)?.flags("--tls-min-version", "--tls-cipher-suites"));
    }
    Ok(())
}

/// Prints an audit log, so that it is read like any other, and ends when it has to.
fn audit_log(volume: &str, file: &str) -> serde_json::Value {
    let directory = file.rsplit_once('/').map_or("/", |(d, _)| d);
    let script = format!(
        "trap 'exit 0' TERM\nuntil [[ -f {file} ]]; do sleep 1; done\ntail -n +1 -F {file} & wait $!\n"
    );
    json!({
        "name": "audit-logs",
        "image": "cli",
        "command": ["/bin/bash"],
        "args": ["-c", script],
        "volumeMounts": [{"name": volume, "mountPath": directory}],
        "resources": {"requests": {"cpu": "5m", "memory": "10Mi"}},
    })
}

/// Never ready while the API server is not: what is aggregated below it would only fail.
fn api_readiness() -> serde_json::Value {
    json!({
        "name": "kas-readiness-check",
        "image": "cli",
        "command": ["/bin/bash", "-c", "sleep infinity"],
        "readinessProbe": {
            "exec": {"command": ["/bin/bash", "-c", "curl -kfs https://kube-apiserver:6443/livez > /dev/null"]},
            "periodSeconds": 10, "timeoutSeconds": 5, "failureThreshold": 3,
        },
        "resources": {"requests": {"cpu": "10m", "memory": "10Mi"}},
    })
}
