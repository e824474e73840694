//! `zaffre upgrade`: reads, judges (`self_managed::upgrade`), changes one field, and waits.

mod observe;
mod wait;

use super::reach;
use super::releases::Shelf;
use crate::cli::Format;
use crate::cli::road::{Upgrade, UpgradeArgs};
use crate::output;
use anyhow::{Context, bail};
use apis::hypershift::node_pool::Arch;
use apis::hypershift::status::PayloadArch;
use apis::hypershift::{HostedCluster, NodePool};
use apis::version::Version;
use hypershift::kinds;
use kube::api::{ListParams, Patch, PatchParams};
use kube::{Api, Client};
use self_managed::stream::Stream;
use self_managed::upgrade::{Facts, Known, Plan, Release, Target, candidates, plan, text};
use serde_json::Value;
use std::process::ExitCode;

const MANAGER: &str = "hypershift-cli";

pub async fn upgrade(what: Upgrade) -> anyhow::Result<ExitCode> {
    let (args, target) = match what {
        Upgrade::Cluster(args) => (args, Target::Cluster),
        Upgrade::Nodepool(args) => {
            let target = Target::NodePool(args.name.clone());
            (args, target)
        }
    };
    let client = reach(&args.management).await?;
    let (hc, pools) = subject(&client, &args, &target).await?;
    let facts = Box::pin(facts(&client, &args, target, hc, pools)).await?;
    let plan = plan(&facts);
    show(&args, &plan)?;
    let blockers = plan.blockers(args.force);
    if !blockers.is_empty() {
        let all: Vec<String> = blockers.iter().map(|c| format!("{} ({})", c.check, c.fix)).collect();
        bail!(
            "{} {} is not upgraded to {}; nothing was changed: {}",
            plan.kind,
            plan.name,
            plan.to,
            all.join("; ")
        );
    }
    if args.dry_run {
        return Ok(ExitCode::from(if plan.nothing { 0 } else { 2 }));
    }
    if !plan.nothing {
        change(&client, &args, &facts, &plan).await?;
    }
    if args.wait {
        Box::pin(wait::wait(&client, &args, &facts, &plan)).await?;
    } else if !plan.nothing {
        output::note(&format!(
            "watch it: zaffre status {} -n {} --watch",
            name_of(&facts.cluster),
            args.namespace
        ));
    }
    Ok(ExitCode::SUCCESS)
}

fn name_of(object: &Value) -> &str {
    object["metadata"]["name"].as_str().unwrap_or_default()
}

/// The cluster that is meant, and its pools.
async fn subject(
    client: &Client,
    args: &UpgradeArgs,
    target: &Target,
) -> anyhow::Result<(HostedCluster, Vec<NodePool>)> {
    let namespace = &args.namespace;
    let clusters: Api<HostedCluster> = Api::namespaced(client.clone(), namespace);
    let pools: Api<NodePool> = Api::namespaced(client.clone(), namespace);
    let hint = "cannot ask the management cluster: is it one (`zaffre install`)?";
    let pools = pools.list(&ListParams::default()).await.context(hint)?.items;
    let cluster = match target {
        Target::Cluster => args.name.clone(),
        Target::NodePool(name) => {
            let found = pools.iter().find(|p| p.metadata.name.as_ref() == Some(name));
            let Some(pool) = found else {
                bail!("there is no NodePool {namespace}/{name}: kubectl get nodepools -A")
            };
            pool.spec.cluster_name.clone()
        }
    };
    let found = clusters.get_opt(&cluster).await.context(hint)?;
    let Some(hc) = found else {
        bail!("there is no HostedCluster {namespace}/{cluster}: kubectl get hostedclusters -A")
    };
    Ok((hc, pools.into_iter().filter(|p| p.spec.cluster_name == cluster).collect()))
}

/// Everything that is judged by. What cannot be read is said to be unknown, and no reason to stop.
async fn facts(
    client: &Client,
    args: &UpgradeArgs,
    target: Target,
    hc: HostedCluster,
    pools: Vec<NodePool>,
) -> anyhow::Result<Facts> {
    let shelf = Shelf::of(client, &hc).await?;
    let pool = match &target {
        Target::Cluster => None,
        Target::NodePool(name) => pools.iter().find(|p| p.metadata.name.as_ref() == Some(name)),
    };
    let current = pool.map_or(&hc.spec.release.image, |p| &p.spec.release.image).clone();
    let image = match (&args.release_image, &args.to) {
        (Some(image), _) => image.clone(),
        (None, Some(version)) => {
            let there = candidates(&current, &version.to_string(), payload_arch(&hc));
            shelf.first(&there, current.contains('@')).await.context(format!("version {version} (--to)"))?
        }
        (None, None) => {
            let name = args.release_stream.as_deref().unwrap_or(super::cluster::STREAM);
            let stream = Stream::parse(name, &stream_arch(pool.map(|p| p.spec.arch), payload_arch(&hc)))?;
            shelf.newest(&stream, &args.source.release_source).await?
        }
    };
    let wanted = shelf.payload(&image).await.with_context(|| {
        format!("the release {image} cannot be read: check its name, and that the pull secret reaches its registry")
    })?;
    let version: Version = wanted.version.parse().with_context(|| format!("the release {image}"))?;
    let now = shelf.payload(&current).await.ok();
    let plane = apis::naming::control_plane_namespace(
        &args.namespace,
        hc.metadata.name.as_deref().unwrap_or_default(),
    );
    let (workloads, room, guest, quota) = match pool {
        None => {
            let workloads = observe::workloads(client, &plane, now.as_deref(), &wanted).await;
            (known(workloads), known(observe::room(client).await), nobody(), nobody())
        }
        Some(pool) => {
            let guest = observe::guest(client, &hc, pool).await;
            (nobody(), nobody(), known(guest), known(observe::quota(&hc, pool).await))
        }
    };
    let pools: Result<Vec<Value>, _> = pools.iter().map(serde_json::to_value).collect();
    Ok(Facts {
        target,
        cluster: serde_json::to_value(&hc)?,
        pools: pools?,
        release: Release { image, version },
        asked: args.to.clone(),
        workloads,
        room,
        guest,
        quota,
    })
}

/// What the cluster's release is built for, as its status says; empty when it does not say yet.
fn payload_arch(hc: &HostedCluster) -> &'static str {
    hc.status.as_ref().and_then(|s| s.payload_arch).map_or("", PayloadArch::as_str)
}

/// Which releases of a stream are looked at that does not name an architecture: those for the nodes of the pool, or those
/// that are built as the cluster's is.
fn stream_arch(pool: Option<Arch>, payload: &str) -> String {
    pool.map_or_else(|| payload.to_ascii_lowercase(), |arch| arch.to_string())
}

fn known<T>(found: anyhow::Result<T>) -> Known<T> {
    match found {
        Ok(t) => Known::Yes(t),
        Err(e) => Known::No(format!("{e:#}")),
    }
}

fn nobody<T>() -> Known<T> {
    Known::No("was not asked for".into())
}

fn show(args: &UpgradeArgs, plan: &Plan) -> anyhow::Result<()> {
    match args.output {
        Format::Text => {
            output::line(text(plan, args.force).trim_end());
            Ok(())
        }
        format => output::value(format, &serde_json::to_value(plan)?),
    }
}

/// One field. Whoever changed the object since it was read changed what was judged, too.
async fn change(client: &Client, args: &UpgradeArgs, facts: &Facts, plan: &Plan) -> anyhow::Result<()> {
    let (kind, object) = match &facts.target {
        Target::Cluster => (&kinds::CLUSTER, Some(&facts.cluster)),
        Target::NodePool(name) => (&kinds::POOL, facts.pools.iter().find(|p| name_of(p) == name)),
    };
    let version = object.and_then(|o| o["metadata"]["resourceVersion"].as_str()).unwrap_or_default();
    let params = PatchParams { field_manager: Some(MANAGER.into()), ..PatchParams::default() };
    let patch = Patch::Merge(plan.patch(version, args.force));
    match kind.api(client, &args.namespace).patch(&args.name, &params, &patch).await {
        Ok(_) => {
            output::note(&format!("changed  {} {}: spec.release.image {}", plan.kind, plan.name, plan.image));
            Ok(())
        }
        Err(kube::Error::Api(s)) if s.code == 409 => {
            bail!("{} {} was changed by somebody else meanwhile: run it again", plan.kind, plan.name)
        }
        Err(e) => Err(e).with_context(|| format!("cannot change {} {}", plan.kind, plan.name)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_is_that_of_the_architecture() {
        let host = |pool, payload| {
            let stream = Stream::parse("4-stable", &stream_arch(pool, payload)).unwrap();
            stream.url("{arch}").split('/').next().unwrap().to_owned()
        };
        assert_eq!(host(Some(Arch::Arm64), PayloadArch::Multi.as_str()), "arm64");
        assert_eq!(host(None, PayloadArch::Arm64.as_str()), "arm64");
        assert_eq!(host(None, PayloadArch::Multi.as_str()), "multi");
        assert_eq!(host(None, ""), "amd64");
    }
}
