//! `zaffre dump cluster`: everything that somebody who was not there needs to understand a cluster, in one directory.
//!
//! ```text
//! DIR/cluster-scoped-resources/<group>/<plural>.yaml      nodes, definitions
//!    /namespaces/<namespace>/<group>/<plural>.yaml        every kind of the cluster's and the operators' namespaces
//!    /namespaces/<namespace>/core/pods/logs/<pod>-<container>[-previous].log
//!    /hostedcluster-<name>/…                              the same of the guest (--dump-guest-cluster)
//!    /failures.txt                                        what could not be read, if anything
//!    /hypershift-dump.tar.gz
//! ```
//!
//! A dump is made when things are broken, so one read that fails never ends it: it is noted, and the rest goes on. It is
//! passed around, so values of Secrets are never in it. Lists are read in pages and written as they come; logs have a limit
//! each; and at most [`AT_ONCE`] questions are open.

mod archive;
mod collect;
mod redact;

use super::again::Tries;
use super::reach_as;
use crate::cli::road::DumpArgs;
use crate::reach;
use crate::{output, road::kubeconfig};
use anyhow::{Context, bail};
use apis::hypershift::HostedCluster;
use collect::{Collector, Kinds};
use kube::{Api, Client};
use serde_json::{Value, json};
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

/// Questions that are open at a time.
const AT_ONCE: usize = 8;
pub const ARCHIVE: &str = "hypershift-dump.tar.gz";
const FAILURES: &str = "failures.txt";
/// A guest that does not answer is noted, and not waited for.
const GUEST: Duration = Duration::from_secs(15);

/// Where routers of the managed flavour are.
const SHARED_INGRESS: &str = "hypershift-sharedingress";

/// Kinds that are no part of a namespace and tell of a cluster.
const AROUND: [&str; 6] = [
    "nodes",
    "namespaces",
    "persistentvolumes",
    "storageclasses",
    "customresourcedefinitions",
    "validatingwebhookconfigurations",
];

pub async fn dump(args: DumpArgs) -> anyhow::Result<ExitCode> {
    let dir = &args.artifact_dir;
    if dir.join("namespaces").exists() || dir.join(ARCHIVE).exists() {
        bail!("{} has a dump already: two in one mislead; name another --artifact-dir", dir.display());
    }
    std::fs::create_dir_all(dir)
        .with_context(|| format!("cannot make {} (--artifact-dir)", dir.display()))?;
    let client = reach_as(&args.management, args.impersonate.as_deref()).await?;
    let hc = cluster(&client, &args).await?;
    let mut collector = Collector::new(dir.clone(), args.log_limit_mib);
    management(&mut collector, &client, &args).await;
    match (&hc, args.dump_guest_cluster || args.dump_guest_cluster_through_kube_service) {
        (Some(hc), true) => Box::pin(guest(&mut collector, &client, hc, &args)).await,
        (None, true) => {
            collector.failed("the guest", "there is no HostedCluster, so nobody says where it is")
        }
        _ => {}
    }
    let (files, failures) = collector.end();
    if !failures.is_empty() {
        let text: String = failures.iter().map(|(what, why)| format!("{what}: {why}\n")).collect();
        std::fs::write(dir.join(FAILURES), text)
            .with_context(|| format!("cannot write {}", dir.display()))?;
    }
    output::note(&format!("dumped   {} files into {}", files, dir.display()));
    if args.archive_dump {
        let path = dir.join(ARCHIVE);
        archive::write(dir.clone(), path.clone()).await?;
        output::note(&format!("archived {}", path.display()));
    }
    if !failures.is_empty() {
        output::note(&format!("{} reads failed ({}):", failures.len(), dir.join(FAILURES).display()));
        for (what, why) in failures.iter().take(10) {
            output::note(&format!("  {what}: {why}"));
        }
    }
    let failed: Vec<Value> = failures.iter().map(|(what, why)| json!({"what": what, "why": why})).collect();
    let archive = args.archive_dump.then(|| dir.join(ARCHIVE).display().to_string());
    output::result(
        args.output,
        &json!({"directory": dir.display().to_string(), "files": files, "archive": archive, "failures": failed}),
    )?;
    Ok(ExitCode::SUCCESS)
}

/// The cluster, if it is there; a dump of what is left of one is a dump, too.
async fn cluster(client: &Client, args: &DumpArgs) -> anyhow::Result<Option<HostedCluster>> {
    let api: Api<HostedCluster> = Api::namespaced(client.clone(), &args.namespace);
    match Tries::of_a_person().ask(async || api.get_opt(&args.name).await).await {
        Ok(Some(hc)) => Ok(Some(hc)),
        Ok(None) => {
            output::note(&format!(
                "there is no HostedCluster {}/{}: what is left of it is dumped",
                args.namespace, args.name
            ));
            Ok(None)
        }
        Err(kube::Error::Api(s)) if s.code == 404 => {
            bail!("the management cluster does not know HostedClusters: is --kubeconfig the right one?")
        }
        Err(e) => Err(e).context("cannot ask the management cluster"),
    }
}

async fn management(collector: &mut Collector, client: &Client, args: &DumpArgs) {
    let kinds = match Kinds::of(client).await {
        Ok(kinds) => kinds,
        Err(e) => return collector.failed("the kinds of the management cluster", &format!("{e:#}")),
    };
    for group in &kinds.silent {
        collector.failed(group, "the API group does not answer");
    }
    collector.cluster_wide(client, Path::new(""), &kinds, Some(&AROUND)).await;
    let plane = apis::naming::control_plane_namespace(&args.namespace, &args.name);
    for namespace in [&args.namespace, &plane, &args.operator_namespace, SHARED_INGRESS] {
        collector.namespace(client, namespace, &kinds).await;
    }
}

async fn guest(collector: &mut Collector, client: &Client, hc: &HostedCluster, args: &DumpArgs) {
    let reached = async {
        let text = kubeconfig::of(client, hc).await?.context("it has no kubeconfig yet")?;
        let mut config: Value = serde_saphyr::from_str(&text).context("its kubeconfig cannot be read")?;
        if args.dump_guest_cluster_through_kube_service {
            kubeconfig::through_service(client, hc, &mut config["clusters"][0]["cluster"]).await?;
        }
        let guest = reach::by(serde_json::from_value(config)?).await?;
        let kinds = tokio::time::timeout(GUEST, Kinds::of(&guest)).await.context("it does not answer")??;
        anyhow::Ok((guest, kinds))
    };
    match reached.await {
        Ok((guest, kinds)) => {
            let below = format!("hostedcluster-{}", args.name);
            let below = Path::new(&below);
            collector.cluster_wide(&guest, below, &kinds, None).await;
            collector.everywhere(&guest, below, &kinds).await;
        }
        Err(e) => collector.failed("the guest", &format!("{e:#}")),
    }
}
