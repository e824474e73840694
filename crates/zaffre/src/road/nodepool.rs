//! `zaffre create nodepool azure`.

use super::again::Tries;
use super::apply::Applier;
use super::reach;
use super::releases::Shelf;
use crate::cli::Format;
use crate::cli::road::NodepoolArgs;
use crate::{output, prereqs};
use anyhow::{Context, bail};
use apis::hypershift::HostedCluster;
use apis::version::Version;
use kube::{Api, Client};
use self_managed::nodepool::Owner;
use self_managed::stream::Stream;
use self_managed::{documents, upgrade};
use serde_json::json;
use std::process::ExitCode;

pub async fn create(args: NodepoolArgs, dry: bool) -> anyhow::Result<ExitCode> {
    let mut what = args.what;
    what.check()?;
    let stream = match &what.release_stream {
        Some(name) => Some(Stream::parse(name, what.arch.as_str())?),
        None => None,
    };
    let client = reach(&args.management).await?;
    let api: Api<HostedCluster> = Api::namespaced(client.clone(), &what.namespace);
    let found = Tries::of_a_person().ask(async || api.get_opt(&what.cluster_name).await).await;
    let found = found.context("cannot ask the management cluster")?;
    let Some(hc) = found else {
        bail!(
            "there is no HostedCluster {}/{} (--cluster-name): kubectl get hostedclusters -A",
            what.namespace,
            what.cluster_name
        );
    };
    if let Some(stream) = stream {
        let shelf = Shelf::of(&client, &hc).await?;
        what.release_image = Some(shelf.newest(&stream, &args.source.release_source).await?);
        what.release_stream = None;
    }
    let nodes = match &what.release_image {
        Some(image) => version(&client, &hc, image).await,
        None => None,
    };
    let hc = serde_json::to_value(hc)?;
    let text = |path: &str| hc.pointer(path).and_then(|v| v.as_str()).unwrap_or_default().to_owned();
    let owner = Owner {
        name: what.cluster_name.clone(),
        platform: text("/spec/platform/type"),
        completed: upgrade::completed(&hc),
        nodes,
        release: text("/spec/release/image"),
        subnet: text("/spec/platform/azure/subnetID"),
        payload_arch: text("/status/payloadArch"),
    };
    let mut object = what.object(&owner)?;
    if what.render || dry {
        let text = match args.output {
            Format::Json => documents::json(&[object])?,
            Format::Text | Format::Yaml => documents::joined(&[object])?,
        };
        output::line(text.trim_end());
        return Ok(ExitCode::from(if dry { prereqs::CHANGES } else { 0 }));
    }
    object["metadata"]["labels"] = json!({apis::names::label::AUTO_CREATED_FOR_INFRA: text("/spec/infraID")});
    let applier = Applier::new(client, "hypershift-cli").await?;
    if !applier.create_if_absent(&object).await? {
        bail!("NodePool {}/{} is there already: choose another --name", what.namespace, what.name);
    }
    output::note(&format!("created  NodePool {}", what.name));
    output::result(
        args.output,
        &json!({"created": [{"kind": "NodePool", "namespace": what.namespace, "name": what.name}]}),
    )?;
    Ok(ExitCode::SUCCESS)
}

/// Version of a release, as the cluster would read it. Where it cannot be read from here, the operator judges later.
async fn version(client: &Client, hc: &HostedCluster, image: &str) -> Option<Version> {
    let read = async {
        let payload = Shelf::of(client, hc).await?.payload(image).await?;
        anyhow::Ok(payload.version.parse()?)
    };
    match read.await {
        Ok(version) => Some(version),
        Err(e) => {
            output::note(&format!("not checked: whether {image} (--release-image) fits the cluster ({e:#})"));
            None
        }
    }
}
