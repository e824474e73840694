//! `zaffre destroy cluster azure`: the cluster, then what was made for it.

use super::reach;
use crate::cli::prereqs::{self as cli, Which};
use crate::cli::road::DestroyClusterArgs;
use crate::{output, prereqs};
use anyhow::{Context, bail};
use apis::hypershift::HostedCluster;
use apis::names::{annotation, finalizer, label};
use k8s_openapi::api::core::v1::Secret;
use kube::api::{ListParams, Patch, PatchParams};
use kube::runtime::wait::await_condition;
use kube::{Api, Client};
use serde_json::{Value, json};
use std::process::ExitCode;
use std::time::Duration;

/// How often somebody else may write in between.
const TRIES: usize = 20;

pub async fn destroy(args: DestroyClusterArgs, dry: bool) -> anyhow::Result<ExitCode> {
    let client = reach(&args.management).await?;
    let api: Api<HostedCluster> = Api::namespaced(client.clone(), &args.namespace);
    let found = match api.get_opt(&args.name).await {
        Ok(found) => found,
        Err(e) => return Err(e).context("cannot ask the management cluster"),
    };
    let infra_id = found.as_ref().and_then(|h| h.spec.infra_id.clone()).or_else(|| args.infra_id.clone());
    let Some(infra_id) = infra_id else {
        bail!(
            "there is no HostedCluster {}/{}: name what is left in Azure with --infra-id, or there is nothing to do",
            args.namespace,
            args.name
        );
    };
    let infra = cli::DestroyInfraArgs {
        which: Which { name: args.name.clone(), infra_id: infra_id.clone() },
        account: args.account,
        location: args.location.unwrap_or_default(),
        resource_group_name: args.resource_group_name,
        preserve_resource_group: args.preserve_resource_group,
        how: args.how,
    };
    if dry || infra.how.dry_run {
        let first = found.is_some().then(|| (args.namespace.clone(), args.name.clone()));
        return prereqs::destroy_with(cli::Destroy::Infra(cli::On::Azure(infra)), true, first).await;
    }
    if let Some(hc) = &found {
        let private = hc.spec.shared.platform.azure.as_ref().is_some_and(|a| a.topology().is_private());
        let grace = args.cluster_grace_period.as_deref().unwrap_or(if private { "20m" } else { "10m" });
        cluster(&api, hc, grace, args.destroy_cloud_resources, args.force).await?;
    }
    prereqs::destroy(cli::Destroy::Infra(cli::On::Azure(infra)), false).await?;
    secrets(&client, &args.namespace, &infra_id).await?;
    if found.is_some() {
        held(&api, &args.name, false, json!({})).await.context("cannot let go of the cluster")?;
    }
    output::note(&format!("gone     {} (its identities stay: zaffre destroy iam azure)", args.name));
    Ok(ExitCode::SUCCESS)
}

/// Whether nobody but us holds it.
fn ours_alone(hc: Option<&HostedCluster>) -> bool {
    hc.is_none_or(|h| h.metadata.finalizers.iter().flatten().all(|f| f == finalizer::DESTROY_CLUSTER))
}

/// Deletes the object; our finalizer keeps it until Azure is clean, so that a second run knows what there is.
async fn cluster(
    api: &Api<HostedCluster>,
    hc: &HostedCluster,
    grace: &str,
    cloud: bool,
    force: bool,
) -> anyhow::Result<()> {
    let name = hc.metadata.name.as_deref().unwrap_or_default();
    let namespace = hc.metadata.namespace.as_deref().unwrap_or_default();
    if hc.metadata.deletion_timestamp.is_none() {
        let marks = json!({annotation::CLEANUP_CLOUD_RESOURCES: cloud.to_string()});
        held(api, name, true, marks).await.context("cannot mark the cluster")?;
        api.delete(name, &Default::default()).await.context("cannot delete the cluster")?;
    }
    output::note(&format!("deleting HostedCluster {name}"));
    let limit = apis::duration::go_duration(grace).and_then(|d| Duration::try_from(d).ok());
    let limit = limit.unwrap_or(Duration::from_secs(600));
    let waiting = Box::pin(await_condition(api.clone(), name, ours_alone));
    if let Ok(met) = tokio::time::timeout(limit, waiting).await {
        met.context("cannot watch the cluster")?;
        output::note(&format!("deleted  HostedCluster {name}"));
        return Ok(());
    }
    if !force {
        bail!(
            "{name} is not gone after {grace} (--cluster-grace-period): `kubectl describe hostedcluster {name} -n {namespace}` names what \
             blocks it (DeletionBlocked); --force takes finalizers off"
        );
    }
    output::note(
        "forcing  finalizers are taken off; `zaffre azure leaks` or the portal shows what is left in Azure",
    );
    let patch = json!({"metadata": {"annotations": {hypershift::delete::FORCE: "all"}}});
    api.patch(name, &PatchParams::default(), &Patch::Merge(&patch))
        .await
        .context("cannot force the deletion")?;
    match tokio::time::timeout(limit, Box::pin(await_condition(api.clone(), name, ours_alone))).await {
        Ok(met) => met.map(drop).context("cannot watch the cluster"),
        Err(_) => bail!("{name} is not gone although it was forced: is the operator running?"),
    }
}

async fn secrets(client: &Client, namespace: &str, infra_id: &str) -> anyhow::Result<()> {
    let api: Api<Secret> = Api::namespaced(client.clone(), namespace);
    let mine = ListParams::default().labels(&format!("{}={infra_id}", label::AUTO_CREATED_FOR_INFRA));
    for secret in api.list(&mine).await.context("cannot list the cluster's secrets")?.items {
        let name = secret.metadata.name.unwrap_or_default();
        match api.delete(&name, &Default::default()).await {
            Ok(_) => output::note(&format!("deleted  Secret {name}")),
            Err(kube::Error::Api(s)) if s.code == 404 => {}
            Err(e) => return Err(e).with_context(|| format!("cannot delete Secret {name}")),
        }
    }
    Ok(())
}

/// Holds the object, or lets go of it. Others write it meanwhile: it is read again then.
async fn held(
    api: &Api<HostedCluster>,
    name: &str,
    hold: bool,
    annotations: Value,
) -> Result<(), kube::Error> {
    let mut tries = 0;
    loop {
        let Some(hc) = api.get_opt(name).await? else { return Ok(()) };
        let mut all = hc.metadata.finalizers.unwrap_or_default();
        all.retain(|f| f != finalizer::DESTROY_CLUSTER);
        if hold {
            all.push(finalizer::DESTROY_CLUSTER.to_owned());
        }
        let patch = json!({"metadata": {"finalizers": all, "resourceVersion": hc.metadata.resource_version,
            "annotations": annotations}});
        match api.patch(name, &PatchParams::default(), &Patch::Merge(&patch)).await {
            Err(kube::Error::Api(s)) if s.code == 409 && tries < TRIES => tries += 1,
            Err(kube::Error::Api(s)) if s.code == 404 => return Ok(()),
            other => return other.map(drop),
        }
    }
}
