//! `zaffre install`: definitions, then the rest; or the same as text.

use super::apply::{Applier, made_of, named};
use super::inputs;
use super::reach;
use super::shown::Shown;
use crate::cli::road::{HelmArgs, InstallArgs, InstallHow, RenderArgs, TextFormat, UninstallArgs};
use crate::{output, prereqs};
use anyhow::{Context, bail};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::DynamicObject;
use kube::runtime::wait::{Condition, await_condition, conditions};
use kube::{Api, Client};
use self_managed::install::{
    Args, Inputs, MANAGER, Objects, Scope, handover, is_handed_over, is_of_machines, only_if_absent, removal,
};
use self_managed::{Refused, documents};
use serde_json::{Value, json};
use std::path::Path;
use std::time::Duration;

/// How long what was installed may take to come up.
const PATIENCE: Duration = Duration::from_secs(300);

fn read(args: &Args) -> anyhow::Result<Inputs> {
    let path = |p: &Option<std::path::PathBuf>| p.clone();
    let bytes = |p: &Option<std::path::PathBuf>, flag| inputs::maybe(path(p).as_deref(), flag, inputs::bytes);
    Ok(Inputs {
        pull_secret: inputs::maybe(args.pull_secret.as_deref(), "--pull-secret", inputs::pull_secret)?,
        trust_bundle: inputs::maybe(
            args.additional_trust_bundle.as_deref(),
            "--additional-trust-bundle",
            inputs::bundle,
        )?,
        azure_private_creds: bytes(&args.azure_private_creds, "--azure-private-creds")?,
        external_dns_credentials: bytes(&args.external_dns_credentials, "--external-dns-credentials")?,
        scale_from_zero_creds: bytes(&args.scale_from_zero_creds, "--scale-from-zero-creds")?,
        image: inputs::maybe(args.image_refs.as_deref(), "--image-refs", image)?,
        txt_owner: clock::Random::from_os().uuid(),
    })
}

/// The operator's image in an ImageStream.
fn image(flag: &str, path: &Path) -> anyhow::Result<String> {
    let stream: Value = serde_saphyr::from_str(&inputs::text(flag, path)?)
        .with_context(|| format!("{} ({flag}) is not an ImageStream", path.display()))?;
    let tags = stream["spec"]["tags"].as_array().into_iter().flatten();
    let found = tags.filter(|t| t["name"] == "hypershift-operator").find_map(|t| t["from"]["name"].as_str());
    let found =
        found.with_context(|| format!("{} ({flag}) has no tag hypershift-operator", path.display()))?;
    Ok(found.to_owned())
}

pub async fn install(args: InstallArgs) -> anyhow::Result<()> {
    args.what.check()?;
    match args.how {
        Some(InstallHow::Render(how)) => render(&args.what, &how),
        Some(InstallHow::Helm(how)) => helm(&args.what, &how),
        None => {
            let objects = args.what.objects(&read(&args.what)?)?;
            let client = reach(&args.management).await?;
            expected(&client, &objects).await?;
            let (mut applied, mut skipped) = (Vec::new(), Vec::new());
            if args.install_scope != Scope::Resources {
                let wait = args.wait_until_crds_established || args.install_scope == Scope::All;
                applied.extend(definitions(&client, &objects, wait).await?);
            }
            if args.install_scope != Scope::Crds {
                let (made, not) = resources(&client, &args.what, &objects, args.wait_until_available).await?;
                applied.extend(made);
                skipped.extend(not);
            }
            let result = json!({"namespace": args.what.namespace, "applied": applied, "skipped": skipped});
            output::result(args.output, &result)
        }
    }
}

/// Refuses to go on without what others must have defined. What is there from an installation of ours that kept machines
/// itself is not it: upstream's controllers would find half of their fields missing.
async fn expected(client: &Client, objects: &Objects) -> anyhow::Result<()> {
    if objects.expected.is_empty() {
        return Ok(());
    }
    let applier = Applier::new(client.clone(), MANAGER).await?;
    let (mut missing, mut ours) = (Vec::new(), Vec::new());
    for definition in &objects.expected {
        let name = text(&definition["metadata"]["name"]);
        if !applier.is_served(&served_by(definition)) {
            missing.push(name);
        } else if applier.is_defined_by_us(definition).await? {
            ours.push(name);
        }
    }
    let mut said = Vec::new();
    if !missing.is_empty() {
        said.push(format!("not served: {}", missing.join(", ")));
    }
    if !ours.is_empty() {
        said.push(format!("served, but by our partial definitions: {}", ours.join(", ")));
    }
    if said.is_empty() {
        return Ok(());
    }
    bail!(
        "--machines=external needs the definitions of Cluster API and of its provider for Azure: {}. Nothing was changed. \
         Install theirs, without their controllers, which run for each cluster:\n  \
         kubectl apply --server-side --force-conflicts -k 'https://github.com/kubernetes-sigs/cluster-api/config/crd?ref={}'\n  \
         kubectl apply --server-side --force-conflicts -k 'https://github.com/kubernetes-sigs/cluster-api-provider-azure/config/crd?ref={}'\n\
         then run this again",
        said.join("; "),
        apis::capi::UPSTREAM,
        apis::capz::UPSTREAM,
    )
}

/// An object of the kind that a definition defines.
fn served_by(definition: &Value) -> Value {
    let spec = &definition["spec"];
    json!({"apiVersion": format!("{}/{}", text(&spec["group"]), text(&spec["versions"][0]["name"])),
        "kind": spec["names"]["kind"]})
}

/// All are tried before the first is changed.
async fn definitions(client: &Client, objects: &Objects, wait: bool) -> anyhow::Result<Vec<Value>> {
    let applier = Applier::new(client.clone(), MANAGER).await?;
    let (others, ours): (Vec<&Value>, Vec<&Value>) =
        objects.definitions.iter().partition(|d| only_if_absent(d));
    for definition in &ours {
        applier.try_out(definition).await?;
    }
    handed_over(&applier, objects).await?;
    for definition in &ours {
        applier.apply(definition).await?;
    }
    let mut made = ours;
    for definition in others {
        if !applier.is_served(&served_by(definition)) && applier.create_if_absent(definition).await? {
            made.push(definition);
        }
    }
    output::note(&format!("applied  {} definitions", made.len()));
    if wait {
        let api: Api<CustomResourceDefinition> = Api::all(client.clone());
        let shown = Shown::new(true);
        for (i, definition) in made.iter().enumerate() {
            let name = text(&definition["metadata"]["name"]);
            shown.tell(i as u64, made.len() as u64, &format!("definition {name}"));
            until(&api, name, conditions::is_crd_established(), "definition").await?;
        }
        drop(shown);
        output::note("ready    definitions are served");
    }
    Ok(made.into_iter().map(made_of).collect())
}

/// Where somebody keeps definitions of the Cluster API as their release has them, they are told that these are ours, and
/// are waited for.
async fn handed_over(applier: &Applier, objects: &Objects) -> anyhow::Result<()> {
    let object = handover(&objects.definitions);
    if !applier.is_served(&object) {
        return Ok(());
    }
    applier.apply(&object).await?;
    let api = applier.api(&object)?;
    let applied = api.get("cluster").await.context("cannot read ClusterAPI cluster")?;
    let generation = applied.metadata.generation.unwrap_or(0);
    let told = move |o: Option<&DynamicObject>| {
        o.is_some_and(|o| is_handed_over(o.data.get("status").unwrap_or(&Value::Null), generation))
    };
    let shown = Shown::new(true);
    shown.tell(0, 1, "ClusterAPI cluster: its operator leaves definitions to us");
    until(&api, "cluster", told, "ClusterAPI").await?;
    drop(shown);
    output::note("ready    definitions of the Cluster API are left to us");
    Ok(())
}

fn text(v: &Value) -> &str {
    v.as_str().unwrap_or_default()
}

async fn until<K>(api: &Api<K>, name: &str, condition: impl Condition<K>, what: &str) -> anyhow::Result<()>
where
    K: kube::Resource + Clone + std::fmt::Debug + Send + serde::de::DeserializeOwned + 'static,
{
    let waiting = await_condition(api.clone(), name, condition);
    match tokio::time::timeout(PATIENCE, waiting).await {
        Ok(met) => met.map(drop).with_context(|| format!("cannot watch {what} {name}")),
        Err(_) => bail!(
            "{what} {name} is not ready after 5 minutes: kubectl describe it; the same command goes on from there"
        ),
    }
}

/// What was applied, and what was not.
async fn resources(
    client: &Client,
    args: &Args,
    objects: &Objects,
    wait: bool,
) -> anyhow::Result<(Vec<Value>, Vec<Value>)> {
    let applier = Applier::new(client.clone(), MANAGER).await?;
    let (mut skipped, mut applied, mut not) = (Vec::new(), Vec::new(), Vec::new());
    for object in &objects.resources {
        if object["kind"] == "PriorityClass" {
            applier.create_if_absent(object).await?;
            applied.push(made_of(object));
        } else if text(&object["apiVersion"]).starts_with("monitoring.coreos.com/")
            && !applier.is_served(object)
        {
            skipped.push(named(object));
            not.push(made_of(object));
        } else {
            applier.apply(object).await?;
            applied.push(made_of(object));
        }
    }
    output::note(&format!(
        "applied  {} objects in namespace {}",
        objects.resources.len() - skipped.len(),
        args.namespace
    ));
    if !skipped.is_empty() {
        output::note(&format!("skipped  {}: Prometheus' kinds are not served here", skipped.join(", ")));
    }
    if wait && !args.development {
        let api: Api<Deployment> = Api::namespaced(client.clone(), &args.namespace);
        let shown = Shown::new(true);
        let condition = |d: Option<&Deployment>| {
            let Some(d) = d else { return false };
            let wanted = d.spec.as_ref().and_then(|s| s.replicas).unwrap_or(1);
            let (there, what) = running(d);
            shown.tell(there, wanted.unsigned_abs().into(), &what);
            d.status.as_ref().is_some_and(|s| {
                s.observed_generation == d.metadata.generation && s.available_replicas.unwrap_or(0) >= wanted
            })
        };
        until(&api, "operator", condition, "Deployment").await?;
        drop(shown);
        output::note("ready    the operator is available");
    }
    Ok((applied, not))
}

/// How many pods of a Deployment are available, and why not more, if it says.
fn running(d: &Deployment) -> (u64, String) {
    let status = d.status.clone().unwrap_or_default();
    let why = status.conditions.into_iter().flatten().find(|c| c.status != "True").and_then(|c| c.message);
    let what = why.map_or_else(String::new, |w| format!(": {w}"));
    let there = status.available_replicas.unwrap_or(0).unsigned_abs();
    (there.into(), format!("pods of Deployment operator are available{what}"))
}

fn render(args: &Args, how: &RenderArgs) -> anyhow::Result<()> {
    if how.template && how.outputs.is_some() {
        let fix = "a template holds both halves; leave one of them out";
        return Err(Refused::together("--template", "--outputs", fix).into());
    }
    if how.template && !how.render_sensitive {
        let fix = "a template without its secrets would install nothing that works";
        return Err(Refused::needs("--template", "--render-sensitive", fix).into());
    }
    let mut args = args.clone();
    let mut files = read(&args)?;
    let mut parameters = Vec::new();
    if how.template {
        let mut parameter = |name: &str, value: String| {
            parameters.push(json!({"name": name, "value": value, "required": true}));
            format!("${{{name}}}")
        };
        args.namespace = parameter("NAMESPACE", args.namespace);
        let image = files.image.unwrap_or_else(|| args.hypershift_image.clone());
        files.image = Some(parameter("OPERATOR_IMAGE", image));
    }
    let Objects { definitions, resources, .. } = args.objects(&files)?;
    let mut all = match how.outputs.unwrap_or(Scope::All) {
        Scope::All => [definitions, resources].concat(),
        Scope::Crds => definitions,
        Scope::Resources => resources,
    };
    if !how.render_sensitive {
        all.retain(|o| !documents::is_secret(o));
    }
    if how.template {
        all = vec![json!({"apiVersion": "template.openshift.io/v1", "kind": "Template",
            "metadata": {"name": "hypershift-operator-template"}, "objects": all, "parameters": parameters})];
    }
    let text = match how.format {
        TextFormat::Yaml => documents::joined(&all)?,
        TextFormat::Json => documents::json(&all)?,
    };
    match &how.output_file {
        Some(path) if how.render_sensitive => prereqs::write_private(path, &text),
        Some(path) => std::fs::write(path, text)
            .with_context(|| format!("cannot write {} (--output-file)", path.display())),
        None => {
            output::line(text.trim_end());
            Ok(())
        }
    }
}

fn helm(args: &Args, how: &HelmArgs) -> anyhow::Result<()> {
    let mut args = args.clone();
    let mut files = read(&args)?;
    let image =
        files.image.replace("{{ .Values.image }}".into()).unwrap_or_else(|| args.hypershift_image.clone());
    args.namespace = "{{ .Release.Namespace }}".into();
    let Objects { definitions, mut resources, .. } = args.objects(&files)?;
    // A chart is passed around: what is secret stays out of it.
    let secrets: Vec<String> = resources.iter().filter(|o| documents::is_secret(o)).map(named).collect();
    resources.retain(|o| !documents::is_secret(o));
    // Helm makes the namespace itself.
    resources.retain(|o| o["kind"] != "Namespace" || text(&o["metadata"]["name"]) != args.namespace);
    let dir = &how.output_dir;
    let write = |name: &str, text: String| {
        let path = dir.join(name);
        let parent = path.parent().unwrap_or(dir);
        std::fs::create_dir_all(parent)
            .and_then(|()| std::fs::write(&path, text))
            .with_context(|| format!("cannot write {} (--output-dir)", path.display()))
    };
    let version = env!("CARGO_PKG_VERSION");
    write(
        "Chart.yaml",
        format!(
            "apiVersion: v2\nname: hypershift-operator\ndescription: Operators of hosted control planes on Azure\ntype: application\nversion: {version}\nappVersion: \"{version}\"\n"
        ),
    )?;
    write("values.yaml", format!("# Image of the operators.\nimage: {image}\n"))?;
    for d in &definitions {
        write(
            &format!("crds/{}.yaml", text(&d["metadata"]["name"])),
            documents::joined(std::slice::from_ref(d))?,
        )?;
    }
    write("templates/operator.yaml", documents::joined(&resources)?)?;
    output::note(&format!(
        "wrote    {} ({} definitions, {} objects)",
        dir.display(),
        definitions.len(),
        resources.len()
    ));
    if !secrets.is_empty() {
        output::note(&format!("left out {}: make them in the release's namespace first", secrets.join(", ")));
    }
    Ok(())
}

pub async fn uninstall(args: UninstallArgs) -> anyhow::Result<()> {
    let client = reach(&args.management).await?;
    let (resources, definitions) = removal(&args.namespace)?;
    let applier = Applier::new(client.clone(), MANAGER).await?;
    let left = clusters(&client).await?;
    if args.crds && !left.is_empty() {
        bail!(
            "there are hosted clusters, and --crds would delete them without taking anything away in Azure: {}. \
             Run `zaffre destroy cluster azure` for each first",
            left.join(", ")
        );
    }
    let mut gone: Vec<Value> = Vec::new();
    let mut homes = Vec::new();
    let (mut needed, mut foreign) = (Vec::new(), Vec::new());
    for one in &resources {
        let object = &one.object;
        if one.for_clusters && !left.is_empty() {
            if applier.is_there(object).await? {
                needed.push(named(object));
            }
            continue;
        }
        if one.common_name && !applier.is_ours(object).await? {
            if applier.is_there(object).await? {
                foreign.push(named(object));
            }
            continue;
        }
        let was_there = applier.delete(object).await?;
        if was_there {
            gone.push(made_of(object));
        }
        if was_there && object["kind"] == "Namespace" {
            homes.push(text(&object["metadata"]["name"]));
        }
    }
    for definition in definitions.iter().filter(|d| args.crds && !only_if_absent(d)) {
        // Other people's machines may be behind it.
        if is_of_machines(definition) && !applier.is_defined_by_us(definition).await? {
            if applier.is_there(definition).await? {
                foreign.push(named(definition));
            }
            continue;
        }
        if applier.delete(definition).await? {
            gone.push(made_of(definition));
        }
    }
    if args.crds {
        given_back(&applier, &definitions).await?;
    }
    output::note(&format!("deleted  {} objects", gone.len()));
    if !needed.is_empty() {
        output::note(&format!(
            "kept     {}: {} cannot do without; run it again when they are gone",
            needed.join(", "),
            left.join(", ")
        ));
    }
    if !foreign.is_empty() {
        output::note(&format!("kept     {}: `zaffre install` did not make it", foreign.join(", ")));
    }
    for home in homes {
        vanished(&client, home, &args.timeout).await?;
    }
    let kept: Vec<String> = needed.into_iter().chain(foreign).collect();
    output::result(args.output, &json!({"deleted": gone, "kept": kept}))
}

/// What [`handed_over`] said is taken back, if we said it: its operator keeps its own definitions again. What others put on
/// the list is theirs, and stays.
async fn given_back(applier: &Applier, definitions: &[Value]) -> anyhow::Result<()> {
    let mut object = handover(definitions);
    if !applier.is_ours(&object).await? {
        return Ok(());
    }
    // Fields that we applied and do not apply any more go.
    object["spec"] = json!({});
    applier.apply(&object).await?;
    output::note("returned definitions of the Cluster API to whoever keeps them (ClusterAPI cluster)");
    Ok(())
}

/// Waits until a namespace is gone; whoever installs again at once would otherwise install into one that is going.
async fn vanished(client: &Client, name: &str, limit: &str) -> anyhow::Result<()> {
    let api: Api<Namespace> = Api::all(client.clone());
    let there = api.get_opt(name).await.context("cannot look for the namespace")?;
    let uid = there.and_then(|n| n.metadata.uid).unwrap_or_default();
    let waiting = await_condition(api.clone(), name, conditions::is_deleted(&uid));
    let patience = apis::duration::go_duration(limit).and_then(|d| Duration::try_from(d).ok());
    if let Ok(met) = tokio::time::timeout(patience.unwrap_or(PATIENCE), waiting).await {
        met.with_context(|| format!("cannot watch namespace {name}"))?;
        output::note(&format!("gone     namespace {name}"));
        return Ok(());
    }
    let now = api.get_opt(name).await.ok().flatten().and_then(|n| n.status?.conditions).unwrap_or_default();
    let holds = now.into_iter().filter(|c| c.status == "True").filter_map(|c| c.message);
    let holds: Vec<String> = holds.collect();
    bail!(
        "namespace {name} is not gone after {limit} (--timeout): {}. Everything else is deleted; the same command goes on waiting",
        if holds.is_empty() { "nothing says why".to_owned() } else { holds.join("; ") }
    )
}

async fn clusters(client: &Client) -> anyhow::Result<Vec<String>> {
    let api: Api<apis::hypershift::HostedCluster> = Api::all(client.clone());
    match api.list(&Default::default()).await {
        Ok(list) => Ok(list
            .items
            .iter()
            .map(|h| {
                format!(
                    "{}/{}",
                    h.metadata.namespace.as_deref().unwrap_or_default(),
                    h.metadata.name.as_deref().unwrap_or_default()
                )
            })
            .collect()),
        Err(kube::Error::Api(s)) if s.code == 404 => Ok(Vec::new()),
        Err(e) => Err(e).context("cannot list hosted clusters"),
    }
}
