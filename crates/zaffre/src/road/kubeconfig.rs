//! `zaffre create kubeconfig`.

use super::reach;
use crate::cli::road::KubeconfigArgs;
use crate::output;
use anyhow::{Context, anyhow, bail};
use apis::hypershift::HostedCluster;
use k8s_openapi::api::core::v1::{Secret, Service};
use kube::{Api, Client};
use serde_json::{Value, json};
use std::process::ExitCode;

/// The Service that a control plane's API server is behind.
const API: &str = "kube-apiserver";

pub(super) async fn of(client: &Client, hc: &HostedCluster) -> anyhow::Result<Option<String>> {
    let namespace = hc.metadata.namespace.as_deref().unwrap_or_default();
    let Some(name) = hc.status.as_ref().and_then(|s| s.kubeconfig.as_ref()).map(|k| k.name.clone()) else {
        return Ok(None);
    };
    let api: Api<Secret> = Api::namespaced(client.clone(), namespace);
    let secret = api.get(&name).await.with_context(|| format!("cannot read Secret {namespace}/{name}"))?;
    let data = secret.data.and_then(|mut d| d.remove("kubeconfig"));
    let data = data.with_context(|| format!("Secret {namespace}/{name} has no key kubeconfig"))?;
    Ok(Some(String::from_utf8(data.0).context("the kubeconfig is not text")?))
}

/// Whether its API is reached from inside its network only.
fn is_private(hc: &HostedCluster) -> bool {
    serde_json::to_value(&hc.spec).is_ok_and(|s| s["platform"]["azure"]["topology"] == "Private")
}

/// Leads to this machine, where `kubectl port-forward` is to listen; the certificate is still that of the server.
fn to_this_machine(cluster: &mut Value, port: i32) -> anyhow::Result<()> {
    let server: http::Uri =
        cluster["server"].as_str().unwrap_or_default().parse().context("its server is no URL")?;
    let host = server.host().context("its server is no URL")?.to_owned();
    cluster["server"] = json!(format!("https://localhost:{port}"));
    if cluster["tls-server-name"].is_null() {
        cluster["tls-server-name"] = json!(host);
    }
    Ok(())
}

/// Leads to the Service, by the name that the certificate has for it.
fn to_service(cluster: &mut Value, plane: &str, port: i32) {
    cluster["server"] = json!(format!("https://{API}.{plane}.svc:{port}"));
    cluster["tls-server-name"] = json!(API);
}

/// Namespace and port of the Service that a cluster's API server is behind.
async fn service(client: &Client, hc: &HostedCluster, flag: &str) -> anyhow::Result<(String, i32)> {
    let meta = &hc.metadata;
    let (namespace, name) =
        (meta.namespace.as_deref().unwrap_or_default(), meta.name.as_deref().unwrap_or_default());
    let plane = apis::naming::control_plane_namespace(namespace, name);
    let services: Api<Service> = Api::namespaced(client.clone(), &plane);
    let service =
        services.get(API).await.with_context(|| format!("cannot read Service {plane}/{API} ({flag})"))?;
    let port = service.spec.and_then(|s| s.ports).and_then(|p| p.first().map(|p| p.port));
    let port = port.with_context(|| format!("Service {plane}/{API} has no port"))?;
    Ok((plane, port))
}

/// For those who are where Services are reached.
pub(super) async fn through_service(
    client: &Client,
    hc: &HostedCluster,
    cluster: &mut Value,
) -> anyhow::Result<()> {
    let (plane, port) = service(client, hc, "--dump-guest-cluster-through-kube-service").await?;
    to_service(cluster, &plane, port);
    Ok(())
}

async fn forwarded(client: &Client, hc: &HostedCluster, cluster: &mut Value) -> anyhow::Result<()> {
    let (plane, port) = service(client, hc, "--port-forward").await?;
    to_this_machine(cluster, port)?;
    output::note(&format!("first: kubectl port-forward -n {plane} service/{API} {port}"));
    Ok(())
}

/// A cluster and its user, as its own kubeconfig has them.
async fn one(client: &Client, hc: &HostedCluster, forward: bool) -> anyhow::Result<Option<(Value, Value)>> {
    let Some(text) = of(client, hc).await? else { return Ok(None) };
    // What the parser says could quote a key.
    let read = serde_saphyr::from_str::<Value>(&text).map_err(|_| anyhow!("its kubeconfig is not YAML"))?;
    let (mut cluster, user) = (read["clusters"][0]["cluster"].clone(), read["users"][0]["user"].clone());
    if !cluster.is_object() || !user.is_object() {
        bail!("its kubeconfig names no cluster and user");
    }
    if forward && is_private(hc) {
        forwarded(client, hc, &mut cluster).await?;
    }
    Ok(Some((cluster, user)))
}

pub async fn create(args: KubeconfigArgs) -> anyhow::Result<ExitCode> {
    let client = reach(&args.management).await?;
    let api: Api<HostedCluster> = Api::namespaced(client.clone(), &args.namespace);
    if let Some(name) = &args.name {
        let found = api.get_opt(name).await.context("cannot ask the management cluster")?;
        let Some(hc) = found else { bail!("there is no HostedCluster {}/{name}", args.namespace) };
        let Some(text) = of(&client, &hc).await? else {
            bail!(
                "{name} has no kubeconfig yet: `zaffre explain hostedcluster {name} -n {}` says why",
                args.namespace
            );
        };
        if args.port_forward && is_private(&hc) {
            let mut one: Value = serde_saphyr::from_str(&text).context("the kubeconfig cannot be read")?;
            forwarded(&client, &hc, &mut one["clusters"][0]["cluster"]).await?;
            output::line(serde_saphyr::to_string(&one)?.trim_end());
            return Ok(ExitCode::SUCCESS);
        }
        output::line(text.trim_end());
        return Ok(ExitCode::SUCCESS);
    }
    let mut all = json!({"apiVersion": "v1", "kind": "Config", "preferences": {}, "clusters": [], "contexts": [],
        "users": [], "current-context": ""});
    let mut left_out = 0;
    for hc in api.list(&Default::default()).await.context("cannot list hosted clusters")?.items {
        let name = format!("{}-{}", args.namespace, hc.metadata.name.as_deref().unwrap_or_default());
        let (cluster, its_user) = match one(&client, &hc, args.port_forward).await {
            Ok(Some(found)) => found,
            Ok(None) => continue,
            // The others are of use without it.
            Err(e) => {
                output::note(&format!("left out {name}: {e:#}"));
                left_out += 1;
                continue;
            }
        };
        let user = format!("{name}-admin");
        let mut add = |list: &str, value: Value| {
            if let Some(l) = all[list].as_array_mut() {
                l.push(value);
            }
        };
        add("clusters", json!({"name": name, "cluster": cluster}));
        add("users", json!({"name": user, "user": its_user}));
        add(
            "contexts",
            json!({"name": name, "context": {"cluster": name, "user": user, "namespace": "default"}}),
        );
        if all["current-context"] == "" {
            all["current-context"] = json!(name);
        }
    }
    if all["clusters"].as_array().is_none_or(Vec::is_empty) {
        let why = if left_out > 0 { "that can be read" } else { "yet" };
        bail!("no cluster in namespace {} has a kubeconfig {why}", args.namespace);
    }
    output::line(serde_saphyr::to_string(&all)?.trim_end());
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_forwarded_server_keeps_its_name() {
        let mut cluster = json!({"server": "https://api.demo.hypershift.local:7443"});
        to_this_machine(&mut cluster, 6443).unwrap();
        assert_eq!(
            cluster,
            json!({"server": "https://localhost:6443", "tls-server-name": "api.demo.hypershift.local"})
        );
        assert!(to_this_machine(&mut json!({"server": "x y"}), 1).is_err());
        to_service(&mut cluster, "clusters-demo", 6443);
        assert_eq!(
            cluster,
            json!({"server": "https://kube-apiserver.clusters-demo.svc:6443", "tls-server-name": "kube-apiserver"})
        );
    }
}
