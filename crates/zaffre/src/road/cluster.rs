//! `zaffre create cluster azure`.

use super::again::Tries;
use super::apply::{Applier, made_of, named};
use super::releases::Shelf;
use super::shown::Shown;
use super::{inputs, reach, ssh};
use crate::cli::Format;
use crate::cli::prereqs::{self as cli, How, Which};
use crate::cli::road::ClusterArgs;
use crate::{output, prereqs};
use anyhow::{Context, bail};
use apis::hypershift::HostedCluster;
use apis::names::label;
use clock::Random;
use k8s_openapi::api::core::v1::{ConfigMap, Node};
use kube::api::ListParams;
use kube::runtime::wait::await_condition;
use kube::{Api, Client};
use self_managed::cluster::{Args, Inputs, encryption_key_name};
use self_managed::infra::Infra;
use self_managed::stream::Stream;
use self_managed::{Refused, documents};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::process::ExitCode;
use std::time::Duration;

const MANAGER: &str = "hypershift-cli";
/// How long a cluster may take with --wait and no --timeout.
const PATIENCE: &str = "30m";
/// Whose newest release a cluster has if nobody says.
pub(super) const STREAM: &str = "4-stable-multi";

pub async fn create(args: ClusterArgs, dry: bool) -> anyhow::Result<ExitCode> {
    let ClusterArgs { management, source, account, mut what, output: format } = args;
    what.planned = dry;
    what.check()?;
    let stream = Stream::parse(what.release_stream.as_deref().unwrap_or(STREAM), what.arch.as_str())?;
    let (subscription, tenant) = prereqs::account_names(&account)?;
    if what.renders() {
        let objects = what.objects(&read(&what, infra_of(&what)?, subscription, tenant)?)?;
        render(&what, objects, format)?;
        return Ok(ExitCode::from(if dry { prereqs::CHANGES } else { 0 }));
    }
    // Whatever the files say wrong is said before anything is made.
    let making = match &what.infra_json {
        Some(_) => None,
        None => Some(making(&what, account)),
    };
    let infra = match &making {
        Some(making) => Infra::read(&prereqs::foreseen_infra(making, &subscription)?)?,
        None => infra_of(&what)?,
    };
    let mut inputs = read(&what, infra, subscription, tenant)?;
    let foreseen = what.objects(&inputs)?;
    let client = reach(&management).await?;
    if begun(&client, &what, &foreseen).await? {
        missing(&Applier::new(client.clone(), MANAGER).await?, &what, foreseen).await?;
    }
    if what.version_check {
        same_version(&client).await?;
    }
    if what.release_image.is_none() {
        let pull_secret = inputs::text("--pull-secret", &what.pull_secret)?;
        let shelf = Shelf::new(&pull_secret, Default::default()).await.context("--pull-secret")?;
        let image = shelf.newest(&stream, &source.release_source).await?;
        output::note(&format!("release  {image}"));
        inputs.release_image.clone_from(&image);
        (what.release_image, what.release_stream) = (Some(image), None);
    }
    same_arch(&client, &what).await?;
    let applier = Applier::new(client.clone(), MANAGER).await?;
    try_out(&applier, &what.objects(&inputs)?).await?;
    if let Some(making) = &making {
        inputs.infra = Box::pin(made(making)).await?;
    }
    let mut objects = what.objects(&inputs)?;
    let infra_id = infra_id(&objects).to_owned();
    // All that took its time, and somebody else may have been quicker.
    if begun(&client, &what, &objects).await? {
        objects = missing(&applier, &what, objects).await?;
    }
    let applied = objects.iter().map(made_of).collect::<Vec<Value>>();
    apply(&applier, &what, &infra_id, objects).await?;
    if what.wait {
        wait(&client, &what).await?;
    } else {
        let (name, namespace) = (&what.name, &what.namespace);
        output::note(&format!("watch it: zaffre explain hostedcluster {name} -n {namespace}"));
    }
    let result = json!({"namespace": what.namespace, "name": what.name, "infraID": infra_id,
        "rolledOut": what.wait, "applied": applied});
    output::result(format, &result)?;
    Ok(ExitCode::SUCCESS)
}

fn infra_of(what: &Args) -> anyhow::Result<Infra> {
    let path = what.infra_json.as_deref().context("--infra-json is missing")?;
    let text = inputs::text("--infra-json", path)?;
    Infra::read(&text).with_context(|| format!("{} (--infra-json)", path.display()))
}

fn read(what: &Args, infra: Infra, subscription: String, tenant: String) -> anyhow::Result<Inputs> {
    let (ssh_key, ssh_private_key) = match &what.ssh_key {
        Some(path) => (Some(inputs::bytes("--ssh-key", path)?), None),
        None if what.generate_ssh => {
            let (public, private) = ssh::generate()?;
            (Some(public), Some(private))
        }
        None => (None, None),
    };
    let sources =
        inputs::maybe(what.image_content_sources.as_deref(), "--image-content-sources", |flag, path| {
            serde_saphyr::from_str(&inputs::text(flag, path)?)
                .with_context(|| format!("{} ({flag}) is not YAML", path.display()))
        })?;
    let key = inputs::maybe(
        what.sa_token_issuer_private_key_path.as_deref(),
        "--sa-token-issuer-private-key-path",
        inputs::bytes,
    )?;
    Ok(Inputs {
        infra,
        subscription,
        tenant,
        // The newest of a stream is looked for later.
        release_image: what.release_image.clone().unwrap_or_default(),
        pull_secret: inputs::pull_secret("--pull-secret", &what.pull_secret)?,
        ssh_key,
        ssh_private_key,
        trust_bundle: inputs::maybe(
            what.additional_trust_bundle.as_deref(),
            "--additional-trust-bundle",
            inputs::bundle,
        )?,
        image_content_sources: sources,
        signing_key: key,
        encryption_key: Random::from_os().bytes(),
    })
}

fn render(what: &Args, mut objects: Vec<Value>, format: Format) -> anyhow::Result<()> {
    if !what.render_sensitive {
        objects.retain(|o| !documents::is_secret(o));
    }
    let text = match format {
        Format::Json => documents::json(&objects)?,
        Format::Text | Format::Yaml => documents::terminated(&objects)?,
    };
    match &what.render_into {
        Some(path) => prereqs::write_private(path, &text)?,
        None => output::line(text.trim_end()),
    }
    Ok(())
}

fn infra_id(objects: &[Value]) -> &str {
    objects.iter().find_map(|o| o["spec"]["infraID"].as_str()).unwrap_or_default()
}

/// Whether an earlier run made this very cluster, on this infrastructure. Any other of its name is in the way.
async fn begun(client: &Client, what: &Args, objects: &[Value]) -> anyhow::Result<bool> {
    let api: Api<HostedCluster> = Api::namespaced(client.clone(), &what.namespace);
    let (namespace, name) = (&what.namespace, &what.name);
    match Tries::of_a_person().ask(async || api.get_opt(name).await).await {
        Ok(None) => Ok(false),
        Ok(Some(there)) if there.metadata.deletion_timestamp.is_some() => bail!(
            "HostedCluster {namespace}/{name} is being deleted: wait until it is gone (`zaffre explain hostedcluster {name} -n {namespace}` says what holds it), or choose another --name"
        ),
        Ok(Some(there)) => match there.spec.infra_id.unwrap_or_default() {
            theirs if theirs == infra_id(objects) => Ok(true),
            theirs => bail!(
                "HostedCluster {namespace}/{name} is there already, on infrastructure {theirs}: choose another --name, go on with it by --infra-id {theirs}, or `zaffre destroy cluster azure --namespace {namespace} --name {name}` first"
            ),
        },
        Err(kube::Error::Api(s)) if s.code == 404 => {
            bail!("the management cluster does not know HostedClusters: run `zaffre install` first")
        }
        Err(e) => Err(e).context("cannot ask the management cluster"),
    }
}

/// What an earlier run did not come to. What is there stays as it is: people may have changed it since.
async fn missing(applier: &Applier, what: &Args, objects: Vec<Value>) -> anyhow::Result<Vec<Value>> {
    let mut left = Vec::new();
    for object in objects {
        if !applier.is_there(&object).await? {
            left.push(object);
        }
    }
    if left.is_empty() {
        bail!(
            "HostedCluster {0}/{1} is there already, with all that belongs to it: choose another --name, or `zaffre destroy cluster azure --namespace {0} --name {1}` first",
            what.namespace,
            what.name
        );
    }
    Ok(left)
}

/// What the management cluster would refuse is said before there is infrastructure, which somebody pays for.
async fn try_out(applier: &Applier, objects: &[Value]) -> anyhow::Result<()> {
    let code = |e: &anyhow::Error| match e.downcast_ref() {
        Some(kube::Error::Api(s)) => s.code,
        _ => 0,
    };
    for object in objects.iter().filter(|o| o["kind"] == "HostedCluster" || o["kind"] == "NodePool") {
        let tried = match applier.try_out(object).await {
            // Its namespace is only made now.
            Err(e) if code(&e) == 404 => {
                let mut elsewhere = object.clone();
                elsewhere["metadata"]["namespace"] = json!("default");
                applier.try_out(&elsewhere).await
            }
            tried => tried,
        };
        match tried {
            // Who may not write there is told when it is written.
            Err(e) if code(&e) == 403 => {}
            tried => tried?,
        }
    }
    Ok(())
}

/// Whether the operator is of this version. It says so where it lives.
async fn same_version(client: &Client) -> anyhow::Result<()> {
    let own = env!("CARGO_PKG_VERSION");
    let api: Api<ConfigMap> = Api::all(client.clone());
    let labelled = ListParams::default()
        .labels(&format!("hypershift.openshift.io/{}=true", hypershift::supported::NAME));
    let found =
        api.list(&labelled).await.context("cannot read the operator's version (--version-check)")?.items;
    let said: Vec<String> = found.into_iter().filter_map(|m| m.data?.remove("server-version")).collect();
    match said.as_slice() {
        [] => bail!(
            "no operator says its version (--version-check): run `zaffre install --wait-until-available` first"
        ),
        all if all.iter().all(|v| v == own) => Ok(()),
        all => bail!(
            "the operator is of version {}, this command of {own} (--version-check): use the same, or leave the flag out",
            all.join(", ")
        ),
    }
}

/// Whether the pods of the control plane run where they are to run: they are of the release, as the nodes of the cluster are.
async fn same_arch(client: &Client, what: &Args) -> anyhow::Result<()> {
    let api: Api<Node> = Api::all(client.clone());
    let nodes = Tries::of_a_person().ask(async || api.list(&ListParams::default().limit(500)).await).await;
    let nodes =
        nodes.context("cannot list the management cluster's nodes, for their architecture (--arch)")?;
    let of = |n: Node| n.status?.node_info.map(|i| i.architecture);
    let there: BTreeSet<String> = nodes.items.into_iter().filter_map(of).collect();
    let arch = what.arch.as_str();
    // A cluster that says nothing of its nodes refuses nothing.
    if there.is_empty() || there.contains(arch) {
        return Ok(());
    }
    let image = what.release_image.as_deref().unwrap_or_default();
    let pull_secret = inputs::text("--pull-secret", &what.pull_secret)?;
    let shelf = Shelf::new(&pull_secret, Default::default()).await.context("--pull-secret")?;
    let nodes = there.into_iter().collect::<Vec<_>>().join(", ");
    let multi = shelf.is_multi_arch(image).await.with_context(|| {
        format!(
            "the management cluster's nodes are {nodes}, and --arch is {arch}: that needs a multi-arch release, and {image} cannot be read"
        )
    })?;
    if multi {
        return Ok(());
    }
    let fix = format!(
        "the management cluster's nodes are {nodes}, and {image} is for one architecture only: use --arch {}, or a multi-arch release (--release-stream {STREAM})",
        nodes.split(", ").next().unwrap_or_default()
    );
    Err(Refused::value("--arch", arch, &fix).into())
}

/// Infrastructure that is to be made, as the flags of `create infra azure` would say it.
fn making(what: &Args, account: cli::Account) -> cli::InfraArgs {
    let infra_id =
        what.infra_id.clone().unwrap_or_else(|| apis::naming::infra_id(&what.name, &Random::from_os()));
    cli::InfraArgs {
        which: Which { name: what.name.clone(), infra_id },
        account,
        base_domain: what.base_domain.clone().unwrap_or_default(),
        location: what.location.clone(),
        resource_group_name: what.resource_group_name.clone(),
        vnet_id: what.vnet_id.clone(),
        subnet_id: what.subnet_id.clone(),
        network_security_group_id: what.network_security_group_id.clone(),
        resource_group_tags: what.resource_group_tags.clone(),
        output_file: None,
        managed_identities_file: what.managed_identities_file.clone(),
        data_plane_identities_file: what.data_plane_identities_file.clone(),
        workload_identities_file: what.workload_identities_file.clone(),
        assign_identity_roles: what.assign_service_principal_roles,
        assign_custom_hcp_roles: what.assign_custom_hcp_roles,
        dns_zone_rg_name: what.dns_zone_rg_name.clone(),
        disable_cluster_capabilities: what.disable_cluster_capabilities.clone(),
        endpoint_access: what.endpoint_access,
        endpoint_access_private_nat_subnet_id: what.endpoint_access_private_nat_subnet_id.clone(),
        adopt: false,
        how: How { dry_run: false, output: cli::Shown::Text, quiet: false, parallel: 16 },
    }
}

async fn made(making: &cli::InfraArgs) -> anyhow::Result<Infra> {
    let infra_id = &making.which.infra_id;
    output::note(&format!(
        "infra id {infra_id}: if this stops, run it again with --infra-id {infra_id} and it goes on"
    ));
    Ok(Infra::read(&prereqs::make_infra(making).await?)?)
}

async fn apply(applier: &Applier, what: &Args, infra_id: &str, objects: Vec<Value>) -> anyhow::Result<()> {
    let key = encryption_key_name(&what.name);
    for mut object in objects {
        if object["kind"] != "Namespace" {
            object["metadata"]["labels"][label::AUTO_CREATED_FOR_INFRA] = json!(infra_id);
        }
        if object["kind"] == "HostedCluster" {
            if !applier.create_if_absent(&object).await? {
                bail!("HostedCluster {}/{} was made by somebody else meanwhile", what.namespace, what.name);
            }
        } else if documents::is_secret(&object) && object["metadata"]["name"] == *key {
            // Somebody's etcd may be written with the key that is there: without it nobody reads that again.
            if !applier.create_if_absent(&object).await? {
                output::note(&format!(
                    "kept     {}: it is there already, and its key is used",
                    named(&object)
                ));
                continue;
            }
        } else {
            applier.apply(&object).await?;
        }
        output::note(&format!("applied  {}", named(&object)));
    }
    Ok(())
}

/// The steps of a cluster on its way, as its conditions tell them.
const STEPS: [&str; 7] = [
    "ValidConfiguration",
    "ValidReleaseImage",
    "InfrastructureReady",
    "EtcdAvailable",
    "KubeAPIServerAvailable",
    "Available",
    "ClusterVersionAvailable",
];

/// How many steps of how many are done, and what the first of the others says.
fn standing(hc: &Value) -> (u64, u64, String) {
    let all = hc["status"]["conditions"].as_array();
    let find = |kind: &&str| all.into_iter().flatten().find(|c| c["type"] == **kind);
    let is = |kind: &&str| find(kind).is_some_and(|c| c["status"] == "True");
    let done = STEPS.iter().filter(|s| is(s)).count();
    let what = match STEPS.iter().find(|s| !is(s)) {
        Some(step) => match find(step).and_then(|c| c["message"].as_str()).filter(|m| !m.is_empty()) {
            Some(message) => format!("{step}: {}", message.lines().next().unwrap_or_default()),
            None => (*step).to_owned(),
        },
        None => "operators in the cluster".to_owned(),
    };
    (done as u64, STEPS.len() as u64, what)
}

/// How long is waited; none for as long as it takes.
fn patience(limit: &str) -> Option<Duration> {
    let limit = apis::duration::go_duration(limit).and_then(|d| Duration::try_from(d).ok());
    limit.filter(|d| !d.is_zero())
}

async fn wait(client: &Client, what: &Args) -> anyhow::Result<()> {
    let api: Api<HostedCluster> = Api::namespaced(client.clone(), &what.namespace);
    let limit = what.timeout.as_deref().unwrap_or(PATIENCE);
    let shown = Shown::new(true);
    let done = |h: Option<&HostedCluster>| {
        if let Some(h) = h {
            let (done, of, what) = standing(&serde_json::to_value(h).unwrap_or_default());
            shown.tell(done, of, &what);
        }
        let version = h.and_then(|h| h.status.as_ref()).and_then(|s| s.version.as_ref());
        version.and_then(|v| v.history.as_ref()?.first()).is_some_and(|h| h.completion_time.is_some())
    };
    let waiting = Box::pin(await_condition(api, &what.name, done));
    let waited = match patience(limit) {
        Some(patience) => tokio::time::timeout(patience, waiting).await,
        None => Ok(waiting.await),
    };
    drop(shown);
    match waited {
        Ok(met) => {
            met.context("cannot watch the cluster")?;
            output::note(&format!("ready    {}", what.name));
            Ok(())
        }
        Err(_) => bail!(
            "{} is not rolled out after {limit} (--timeout): `zaffre explain hostedcluster {} -n {}` says what it waits for",
            what.name,
            what.name,
            what.namespace
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_no_limit() {
        assert_eq!((patience("0"), patience("0s")), (None, None));
        assert_eq!(patience(PATIENCE), Some(Duration::from_secs(1800)));
    }

    #[test]
    fn a_cluster_on_its_way_says_what_is_waited_for() {
        let hc = |list: Value| json!({"status": {"conditions": list}});
        assert_eq!(standing(&hc(json!(null))), (0, 7, "ValidConfiguration".into()));
        let mut list: Vec<Value> = STEPS.iter().map(|s| json!({"type": s, "status": "True"})).collect();
        list[3] = json!({"type": "EtcdAvailable", "status": "False", "message": "1 of 3 members\nmore"});
        assert_eq!(standing(&hc(json!(list))), (6, 7, "EtcdAvailable: 1 of 3 members".into()));
        list[3]["status"] = json!("True");
        assert_eq!(standing(&hc(json!(list))).2, "operators in the cluster");
    }
}
