//! `create`, `destroy`, `plan` and `doctor` for Azure: flags become inputs of `landing-zone`, what it does becomes
//! progress, what it found becomes files and exit codes.

mod account;
mod files;
mod inputs;
mod progress;
mod say;
mod shared;

use crate::cli::Format;
use crate::cli::prereqs::{self as cli, How, Shown};
use crate::{output, road};
use account::Azure;
pub use account::names as account_names;
use anyhow::bail;
use arm::ResourceId;
use azure::plan::plan;
pub use files::write as write_private;
use landing_zone::doctor::{Examination, For, Level, Nodes, examine};
use landing_zone::infra::Infra;
use landing_zone::picture::Picture;
use landing_zone::run::{self, Options, Outcome};
use landing_zone::survey::Survey;
use landing_zone::{Cluster, Error, MadeBy, destroy as way_back, extras, survey};
use progress::Progress;
use serde_json::json;
use std::process::ExitCode;

/// There are changes that nobody made yet.
pub const CHANGES: u8 = 2;

pub async fn create(what: cli::Create, dry: bool) -> anyhow::Result<ExitCode> {
    match what {
        cli::Create::Cluster(on) => Box::pin(road::create_cluster(on.args(), dry)).await,
        cli::Create::Nodepool(on) => Box::pin(road::create_nodepool(on.args(), dry)).await,
        cli::Create::Kubeconfig(args) => Box::pin(road::create_kubeconfig(args)).await,
        cli::Create::Iam(on) => iam(on.args(), dry).await,
        cli::Create::Infra(on) => infra(on.args(), dry).await,
        cli::Create::OidcIssuer(on) => shared::oidc_issuer(on.args(), dry).await,
        cli::Create::ManagedIdentities(on) => shared::managed_identities(on.args(), dry).await,
    }
}

pub async fn destroy(what: cli::Destroy, dry: bool) -> anyhow::Result<ExitCode> {
    destroy_with(what, dry, None).await
}

/// The same, of a cluster whose object goes before all that: `first`, for the plan.
pub async fn destroy_with(
    what: cli::Destroy,
    dry: bool,
    first: Option<(String, String)>,
) -> anyhow::Result<ExitCode> {
    let (cluster, account, how, by, group, preserve) = match what {
        cli::Destroy::Cluster(on) => return Box::pin(road::destroy_cluster(on.args(), dry)).await,
        cli::Destroy::Iam(on) => {
            let a = on.args();
            if let Some(path) = &a.workload_identities_file {
                files::workload_identities(path)?;
            }
            (named(&a.which)?, a.account, a.how, MadeBy::Iam, a.resource_group_name, false)
        }
        cli::Destroy::Infra(on) => {
            let a = on.args();
            let cluster = named(&a.which)?;
            (cluster, a.account, a.how, MadeBy::Infra, a.resource_group_name, a.preserve_resource_group)
        }
        cli::Destroy::OidcIssuer(on) => {
            let a = on.args();
            let cluster = Cluster::shared(&a.name)?;
            (cluster, a.account, a.how, MadeBy::OidcIssuer, a.resource_group_name, false)
        }
        cli::Destroy::ManagedIdentities(on) => {
            let a = on.args();
            let cluster = Cluster::shared(&a.name)?;
            (cluster, a.account, a.how, MadeBy::ManagedIdentities, a.resource_group_name, false)
        }
    };
    let Azure { client, subscription } = account::connect(&account).await?;
    let d = way_back::Destroy { cluster, subscription, by, group, preserve };
    let title = title("destroy", by, &d.cluster);
    if dry || how.dry_run {
        let survey = way_back::survey(&client, &d).await.map_err(say::failed)?;
        return show_with(&title, &survey, how.output, first);
    }
    let progress = Progress::new(&how);
    let watch = |p: run::Progress<'_>| progress.tell(&p);
    let done = way_back::destroy(&client, &d, options(&how), &watch).await;
    progress.end();
    let way_back::Destroyed { outcome, failed } = done.map_err(say::failed)?;
    finish(&title, &outcome, &failed, &how)?;
    failures_beside(&title, &failed)?;
    if how.output == Shown::Text && !how.quiet {
        for k in &outcome.survey.kept {
            output::line(&format!("kept     {}  ({})", k.id, k.why));
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn named(which: &cli::Which) -> anyhow::Result<Cluster> {
    Ok(Cluster::new(&which.name, &which.infra_id)?)
}

fn title(verb: &str, by: MadeBy, cluster: &Cluster) -> String {
    match by {
        MadeBy::Iam | MadeBy::Infra => {
            format!("{verb} {} azure: cluster {}, infra id {}", by.as_str(), cluster.name, cluster.infra_id)
        }
        MadeBy::OidcIssuer | MadeBy::ManagedIdentities => {
            format!("{verb} {} azure: {}", by.as_str(), cluster.name)
        }
    }
}

fn options(how: &How) -> Options {
    Options { parallel: usize::from(how.parallel) }
}

/// A plan that is only shown.
fn show(title: &str, survey: &Survey, format: Shown) -> anyhow::Result<ExitCode> {
    show_with(title, survey, format, None)
}

/// `first` is a HostedCluster that goes, by namespace and name.
fn show_with(
    title: &str,
    survey: &Survey,
    format: Shown,
    first: Option<(String, String)>,
) -> anyhow::Result<ExitCode> {
    let steps = plan(&survey.goal, &survey.observed)?;
    let picture = Picture { title, plan: &steps, kept: &survey.kept, extras: &survey.extras };
    let mut json = picture.json();
    if let Some((namespace, name)) = &first {
        json["hostedCluster"] = json!({"action": "delete", "namespace": namespace, "name": name});
    }
    match format {
        Shown::Text => {
            if let Some((namespace, name)) = &first {
                output::line(&format!("- HostedCluster {namespace}/{name}"));
            }
            output::line(picture.text().trim_end());
        }
        Shown::Json => output::value(Format::Json, &json)?,
        Shown::Yaml => output::value(Format::Yaml, &json)?,
    }
    let nothing = steps.is_empty() && !extras::changes(&survey.extras) && first.is_none();
    Ok(if nothing { ExitCode::SUCCESS } else { ExitCode::from(CHANGES) })
}

/// Says how it went; an error if not all of it went well.
fn finish(title: &str, outcome: &Outcome, beside: &[(String, Error)], how: &How) -> anyhow::Result<()> {
    let failures = say::failures(&outcome.report, beside);
    if how.output != Shown::Text {
        let kept = &outcome.survey.kept;
        let event = json!({"event": "summary", "good": outcome.is_good() && beside.is_empty(), "failures": failures.json, "kept": kept});
        output::event(how.output, &event);
    } else {
        for line in &failures.text {
            output::note(line);
        }
    }
    if !outcome.is_good() {
        let (bad, all) = (failures.json.len(), outcome.plan.steps.len());
        bail!(
            "{title}: {bad} of {all} steps did not succeed; what was done stays, and the same command goes on from there"
        );
    }
    Ok(())
}

/// Ends a run in which something beside Resource Manager was not done; it was said what.
fn failures_beside(title: &str, failed: &[(String, Error)]) -> anyhow::Result<()> {
    if !failed.is_empty() {
        bail!(
            "{title}: {} thing(s) were not done; what was done stays, and the same command goes on from there",
            failed.len()
        );
    }
    Ok(())
}

async fn iam(a: cli::IamArgs, dry: bool) -> anyhow::Result<ExitCode> {
    let Azure { client, subscription } = account::connect(&a.account).await?;
    let iam = inputs::iam(&a, subscription)?;
    let title = title("create", MadeBy::Iam, &iam.cluster);
    if dry || a.how.dry_run {
        let found = survey::iam(&client, &iam, &|_, _, _| {}).await.map_err(say::failed)?;
        return show(&title, &found, a.how.output);
    }
    files::writable(&a.output_file)?;
    let progress = Progress::new(&a.how);
    let watch = |p: run::Progress<'_>| progress.tell(&p);
    let done = run::create_iam(&client, &iam, options(&a.how), &watch).await;
    progress.end();
    let (outcome, made) = done.map_err(say::failed)?;
    finish(&title, &outcome, &[], &a.how)?;
    if let Some(made) = made {
        files::write(&a.output_file, &landing_zone::output::workload_identities(&made))?;
        if a.how.output == Shown::Text && !a.how.quiet {
            output::line(&format!("wrote    {}", a.output_file.display()));
        }
    }
    Ok(ExitCode::SUCCESS)
}

async fn infra(a: cli::InfraArgs, dry: bool) -> anyhow::Result<ExitCode> {
    if dry || a.how.dry_run {
        let (client, infra) = ready_infra(&a).await?;
        let (found, _) = survey::infra(&client, &infra, &|_, _, _| {}).await.map_err(say::failed)?;
        return show(&title("create", MadeBy::Infra, &infra.cluster), &found, a.how.output);
    }
    let text = make_infra(&a).await?;
    match &a.output_file {
        Some(path) => {
            files::write(path, &text)?;
            if a.how.output == Shown::Text && !a.how.quiet {
                output::line(&format!("wrote    {}", path.display()));
            }
        }
        None if a.how.output == Shown::Text => output::line(text.trim_end()),
        None => output::event(
            a.how.output,
            &json!({"event": "result", "infra": serde_saphyr::from_str::<serde_json::Value>(&text)?}),
        ),
    }
    Ok(ExitCode::SUCCESS)
}

async fn ready_infra(a: &cli::InfraArgs) -> anyhow::Result<(azure::Client, Infra)> {
    // What is wrong with the flags is said before anybody is asked.
    let files = inputs::identities(a)?;
    let Azure { client, subscription } = account::connect(&a.account).await?;
    Ok((client, inputs::infra(a, subscription, files)?))
}

/// What [`make_infra`] would give, as far as flags and files say: nobody is asked.
pub fn foreseen_infra(a: &cli::InfraArgs, subscription: &str) -> anyhow::Result<String> {
    let subscription = ResourceId::subscription_scope(subscription)?;
    let infra = inputs::infra(a, subscription, inputs::identities(a)?)?;
    Ok(landing_zone::output::foreseen_infra(&infra)?)
}

/// Makes the infrastructure, and says what there is now. In text, nothing is written to standard output.
pub async fn make_infra(a: &cli::InfraArgs) -> anyhow::Result<String> {
    let (client, infra) = ready_infra(a).await?;
    if let Some(path) = &a.output_file {
        files::writable(path)?;
    }
    let progress = Progress::new(&a.how);
    let watch = |p: run::Progress<'_>| progress.tell(&p);
    let done = run::create_infra(&client, &infra, options(&a.how), &watch).await;
    progress.end();
    let (outcome, facts) = done.map_err(say::failed)?;
    finish(&title("create", MadeBy::Infra, &infra.cluster), &outcome, &[], &a.how)?;
    Ok(landing_zone::output::infra(&infra, &facts)?)
}

pub async fn doctor(what: cli::Doctor) -> anyhow::Result<ExitCode> {
    let cli::Doctor::Azure(a) = what;
    let Azure { client, subscription } = account::connect(&a.account).await?;
    let purpose = match a.purpose {
        cli::Purpose::Infra => For::Infra,
        cli::Purpose::Iam => For::Iam,
        cli::Purpose::Cluster => For::Cluster,
        cli::Purpose::Managed => For::Managed,
    };
    let cluster = match (&a.name, &a.infra_id) {
        (Some(name), Some(id)) => Some(Cluster::new(name, id)?),
        _ => None,
    };
    let x = Examination {
        subscription,
        purpose,
        location: a.location,
        base_domain: a.base_domain,
        groups: Vec::new(),
        dns_group: a.dns_zone_rg_name,
        cluster,
        account: a.oidc_issuer_name,
        vault: a.key_vault_name,
        nodes: Nodes { size: a.instance_type, count: a.node_pool_replicas, zones: a.availability_zones },
    };
    let findings = examine(&client, &x).await;
    let blockers = findings.iter().filter(|f| f.level == Level::Blocker).count();
    if a.output != Shown::Text {
        let format = if a.output == Shown::Yaml { Format::Yaml } else { Format::Json };
        output::value(format, &json!({"findings": findings, "blockers": blockers}))?;
    } else {
        for f in &findings {
            let sign = match f.level {
                Level::Good => "ok      ",
                Level::Warning => "warning ",
                Level::Blocker => "BLOCKER ",
            };
            output::line(&format!("{sign} {}: {}", f.check, f.found));
            if let Some(fix) = &f.fix {
                output::line(&format!("          fix: {fix}"));
            }
        }
    }
    if blockers > 0 {
        bail!("{blockers} blocker(s)");
    }
    Ok(ExitCode::SUCCESS)
}
