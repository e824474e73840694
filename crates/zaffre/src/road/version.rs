//! `zaffre version`: of this program, and of the operator in the cluster that kubectl would ask.

use super::reach;
use crate::cli::Format;
use crate::cli::road::VersionArgs;
use crate::output;
use anyhow::Context;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use serde_json::{Value, json};
use std::time::Duration;

/// Nobody waits longer for a version.
const PATIENCE: Duration = Duration::from_secs(5);
const OWN: &str = env!("CARGO_PKG_VERSION");

pub async fn version(args: VersionArgs) -> anyhow::Result<()> {
    if args.commit_only {
        output::line(OWN);
        return Ok(());
    }
    let server = if args.client_only { Ok(None) } else { server(&args).await };
    let server = match server {
        Ok(server) => server,
        // Whoever names a cluster wants to know of it.
        Err(e) if args.management.kubeconfig.is_some() => return Err(e),
        Err(e) => {
            output::note(&format!("no server version: {e:#} (--client-only does not ask)"));
            None
        }
    };
    if args.output == Format::Text {
        output::line(&format!("zaffre {OWN} (serves Kubernetes 1.34)"));
        if let Some(server) = &server {
            let list = server["supportedVersions"].as_array().into_iter().flatten();
            let list: Vec<&str> = list.filter_map(Value::as_str).collect();
            output::line(&format!("operator {}", server["version"].as_str().unwrap_or_default()));
            output::line(&format!("supports OpenShift {}", list.join(", ")));
        }
        return Ok(());
    }
    let platform = format!("{}/{}", std::env::consts::OS, std::env::consts::ARCH);
    let mut all = json!({"version": OWN, "kubernetes": "1.34", "platform": platform});
    if let Some(server) = server {
        all["server"] = server;
    }
    output::value(args.output, &all)
}

/// What the operator says of itself; nothing where none is installed, or there is no cluster.
async fn server(args: &VersionArgs) -> anyhow::Result<Option<Value>> {
    let client = match reach(&args.management).await {
        Ok(client) => client,
        Err(e) if args.management.kubeconfig.is_some() => return Err(e),
        Err(_) => return Ok(None),
    };
    let api: Api<ConfigMap> = Api::namespaced(client, &args.namespace);
    let name = hypershift::supported::NAME;
    let found = tokio::time::timeout(PATIENCE, api.get_opt(name)).await;
    let found = found.context("the cluster does not answer")?.context("cannot ask the cluster")?;
    let Some(mut data) = found.and_then(|m| m.data) else {
        output::note(&format!(
            "no operator says its version in namespace {} (--namespace): `zaffre install`",
            args.namespace
        ));
        return Ok(None);
    };
    let list: Value = serde_json::from_str(data.get(name).map_or("", String::as_str))
        .with_context(|| format!("ConfigMap {}/{name} is not as operators write it", args.namespace))?;
    let version = data.remove("server-version").unwrap_or_default();
    Ok(Some(json!({"version": version, "supportedVersions": list["versions"]})))
}
