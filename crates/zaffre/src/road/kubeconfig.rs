//! `zaffre create kubeconfig`.

use super::reach;
use crate::cli::road::KubeconfigArgs;
use crate::output;
use anyhow::{Context, bail};
use apis::hypershift::HostedCluster;
use k8s_openapi::api::core::v1::Secret;
use kube::{Api, Client};
use serde_json::{Value, json};
use std::process::ExitCode;

async fn of(client: &Client, hc: &HostedCluster) -> anyhow::Result<Option<String>> {
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
        output::line(text.trim_end());
        return Ok(ExitCode::SUCCESS);
    }
    let mut all = json!({"apiVersion": "v1", "kind": "Config", "preferences": {}, "clusters": [], "contexts": [],
        "users": [], "current-context": ""});
    for hc in api.list(&Default::default()).await.context("cannot list hosted clusters")?.items {
        let Some(text) = of(&client, &hc).await? else { continue };
        let one: Value = serde_saphyr::from_str(&text).context("a kubeconfig cannot be read")?;
        let name = format!("{}-{}", args.namespace, hc.metadata.name.unwrap_or_default());
        let user = format!("{name}-admin");
        let mut add = |list: &str, value: Value| {
            if let Some(l) = all[list].as_array_mut() {
                l.push(value);
            }
        };
        add("clusters", json!({"name": name, "cluster": one["clusters"][0]["cluster"]}));
        add("users", json!({"name": user, "user": one["users"][0]["user"]}));
        add(
            "contexts",
            json!({"name": name, "context": {"cluster": name, "user": user, "namespace": "default"}}),
        );
        if all["current-context"] == "" {
            all["current-context"] = json!(name);
        }
    }
    if all["clusters"].as_array().is_none_or(Vec::is_empty) {
        bail!("no cluster in namespace {} has a kubeconfig yet", args.namespace);
    }
    output::line(serde_saphyr::to_string(&all)?.trim_end());
    Ok(ExitCode::SUCCESS)
}
