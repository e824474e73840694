//! `zaffre destroy cluster azure`: the cluster, then what was made for it.

use super::reach;
use crate::cli::prereqs::{self as cli, Which};
use crate::cli::road::DestroyClusterArgs;
use crate::{output, prereqs};
use anyhow::{Context, bail};
use apis::hypershift::HostedCluster;
use apis::hypershift::platform::AzurePlatform;
use apis::names::{annotation, finalizer, label};
use apis::naming;
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
    let azure = found.as_ref().and_then(|h| h.spec.shared.platform.azure.as_ref());
    if let Some(azure) = azure {
        same_subscription(&args.name, &azure.subscription_id, &prereqs::account_names(&args.account)?.0)?;
    }
    let (group, said) = group(azure, &args.name, &infra_id, args.resource_group_name);
    said.iter().for_each(|line| output::note(line));
    let infra = cli::DestroyInfraArgs {
        which: Which { name: args.name.clone(), infra_id: infra_id.clone() },
        account: args.account,
        location: args.location.unwrap_or_default(),
        resource_group_name: group,
        preserve_resource_group: args.preserve_resource_group,
        how: args.how,
    };
    if dry || infra.how.dry_run {
        let first = found.is_some().then(|| (args.namespace.clone(), args.name.clone()));
        return prereqs::destroy_with(cli::Destroy::Infra(cli::On::Azure(infra)), true, first).await;
    }
    if let Some(hc) = &found {
        let grace = grace(azure, args.cluster_grace_period.as_deref());
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

/// Elsewhere nothing of the cluster would be found, and it would be let go of as if nothing were left.
fn same_subscription(name: &str, theirs: &str, ours: &str) -> anyhow::Result<()> {
    if theirs.eq_ignore_ascii_case(ours) {
        return Ok(());
    }
    bail!(
        "HostedCluster {name} is in subscription {theirs}, and you ask in {ours}: give credentials for that one (--azure-creds, or AZURE_SUBSCRIPTION_ID)"
    )
}

/// How long the cluster itself may take.
fn grace<'a>(azure: Option<&AzurePlatform>, flag: Option<&'a str>) -> &'a str {
    let private = azure.is_some_and(|a| a.topology().is_private());
    flag.unwrap_or(if private { "20m" } else { "10m" })
}

/// Somebody's own group in which the cluster lives, and what is to be said of it. The cluster's word goes before the flag's.
///
/// What the cluster left in such a group is found by the infra id in its names. Five random characters are in nobody else's;
/// but `prod` may be in any, and then whoever runs this has to name the group.
fn group(
    azure: Option<&AzurePlatform>,
    name: &str,
    infra_id: &str,
    flag: Option<String>,
) -> (Option<String>, Vec<String>) {
    let Some(place) = azure.map(|a| a.resource_group.as_str()) else { return (flag, Vec::new()) };
    let is_place = |group: &str| group.eq_ignore_ascii_case(place);
    let named = flag.as_deref().is_some_and(is_place);
    let mut said = Vec::new();
    if let Some(flag) = flag.filter(|_| !named) {
        said.push(format!("ignored  --resource-group-name {flag}: the HostedCluster is in {place}"));
    }
    if is_place(&format!("{name}-{infra_id}")) {
        return (None, said);
    }
    if named || naming::is_random(infra_id) {
        return (Some(place.to_owned()), said);
    }
    said.push(format!(
        "kept     what the cluster itself made in {place}: others may have {infra_id} in their names; \
         `zaffre destroy infra azure --name {name} --infra-id {infra_id} --resource-group-name {place}` looks there"
    ));
    (None, said)
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
    let now = api.get_opt(name).await.context("cannot ask the management cluster")?;
    let Some(held) = now.filter(|now| !ours_alone(Some(now))) else { return Ok(()) };
    if !force {
        bail!("{name} is not gone after {grace} (--cluster-grace-period): {}", holders(&held, false));
    }
    output::note(
        "forcing  finalizers are taken off; `zaffre azure leaks` or the portal shows what is left in Azure",
    );
    let patch = json!({"metadata": {"annotations": {hypershift::delete::FORCE: "all"}}});
    api.patch(name, &PatchParams::default(), &Patch::Merge(&patch))
        .await
        .context("cannot force the deletion")?;
    if let Ok(met) =
        tokio::time::timeout(limit, Box::pin(await_condition(api.clone(), name, ours_alone))).await
    {
        return met.map(drop).context("cannot watch the cluster");
    }
    match api.get_opt(name).await.context("cannot ask the management cluster")? {
        Some(held) if !ours_alone(Some(&held)) => {
            bail!("{name} is not gone although it was forced: {}", holders(&held, true))
        }
        _ => Ok(()),
    }
}

/// Who holds it beside us, what for, and the way out.
fn holders(hc: &HostedCluster, forced: bool) -> String {
    let (name, namespace) = (hc.metadata.name.as_deref(), hc.metadata.namespace.as_deref());
    let (name, namespace) = (name.unwrap_or_default(), namespace.unwrap_or_default());
    let all = hc.metadata.finalizers.iter().flatten().map(String::as_str);
    let others: Vec<&str> = all.filter(|f| *f != finalizer::DESTROY_CLUSTER).collect();
    let mut said = format!("held by {}", others.join(", "));
    let conditions = hc.status.iter().filter_map(|s| s.conditions.as_ref()).flatten();
    for c in conditions.filter(|c| c.type_ == hypershift::delete::DELETION_BLOCKED) {
        said.push_str(&format!(" ({})", c.message));
    }
    // The operator forces what is below the cluster, and lets go of it then; others' finalizers at the cluster are theirs.
    said.push_str(&match (others.contains(&finalizer::HYPERSHIFT), forced) {
        (true, false) => format!(
            "; `kubectl describe hostedcluster {name} -n {namespace}` says more (DeletionBlocked), --force takes finalizers off"
        ),
        (true, true) => "; is the operator running?".to_owned(),
        (false, _) => format!(
            "; whoever put it there takes it off, or `kubectl edit hostedcluster {name} -n {namespace}` does; the same command \
             goes on from there"
        ),
    });
    said
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

#[cfg(test)]
mod tests {
    use super::*;
    use apis::hypershift::platform::Topology;

    fn azure(resource_group: &str, topology: Option<Topology>) -> AzurePlatform {
        AzurePlatform { resource_group: resource_group.to_owned(), topology, ..AzurePlatform::default() }
    }

    #[test]
    fn a_cluster_is_looked_for_where_it_is() {
        assert!(same_subscription("demo", "AB", "ab").is_ok());
        let said = same_subscription("demo", "a", "b").unwrap_err().to_string();
        assert!(said.contains("in subscription a, and you ask in b") && said.contains("--azure-creds"));
    }

    #[test]
    fn private_clusters_may_take_longer() {
        for (topology, expected) in [
            (None, "10m"),
            (Some(Topology::Public), "10m"),
            (Some(Topology::PublicAndPrivate), "20m"),
            (Some(Topology::Private), "20m"),
        ] {
            let azure = azure("mine", topology);
            assert_eq!(grace(Some(&azure), None), expected, "{topology:?}");
            assert_eq!(grace(Some(&azure), Some("1m")), "1m");
        }
        assert_eq!(grace(None, None), "10m");
    }

    /// With names of others in it, a group is looked through for an infra id that is nobody else's, or by who names it.
    #[test]
    fn the_group_is_the_clusters_word() {
        for (place, infra_id, flag, expected, says) in [
            ("demo-demo-x2b4c", "demo-x2b4c", None, None, None),
            ("Demo-demo-x2b4c", "demo-x2b4c", Some("demo-demo-x2b4c"), None, None),
            (
                "demo-demo-x2b4c",
                "demo-x2b4c",
                Some("other"),
                None,
                Some("ignored  --resource-group-name other"),
            ),
            ("mine", "demo-x2b4c", None, Some("mine"), None),
            ("mine", "demo-x2b4c", Some("other"), Some("mine"), Some("the HostedCluster is in mine")),
            ("mine", "prod", None, None, Some("--infra-id prod --resource-group-name mine` looks there")),
            ("mine", "prod", Some("Mine"), Some("mine"), None),
        ] {
            let azure = azure(place, None);
            let (group, said) = group(Some(&azure), "demo", infra_id, flag.map(str::to_owned));
            let case = format!("{place} {infra_id} {flag:?}: {said:?}");
            assert_eq!(group.as_deref(), expected, "{case}");
            assert_eq!(said.len(), usize::from(says.is_some()), "{case}");
            assert!(says.is_none_or(|words| said[0].contains(words)), "{case}");
        }
        let gone = group(None, "demo", "prod", Some("mine".to_owned()));
        assert_eq!(gone, (Some("mine".to_owned()), Vec::new()), "nothing but the flag says it");
    }

    #[test]
    fn who_holds_a_cluster_is_named() {
        let mut hc = HostedCluster::new("demo", Default::default());
        hc.metadata.namespace = Some("clusters".to_owned());
        let mut said = |finalizers: &[&str], forced| {
            hc.metadata.finalizers = Some(finalizers.iter().map(|f| (*f).to_owned()).collect());
            holders(&hc, forced)
        };
        let theirs = said(&[finalizer::DESTROY_CLUSTER, "example.com/held"], true);
        assert!(theirs.starts_with("held by example.com/held; "), "{theirs}");
        assert!(theirs.contains("kubectl edit hostedcluster demo -n clusters"), "{theirs}");
        assert!(said(&[finalizer::HYPERSHIFT], false).contains("--force"));
        assert!(said(&[finalizer::HYPERSHIFT], true).contains("is the operator running?"));
    }
}
