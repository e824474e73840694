//! `zaffre up`: a region on one machine, until it is told to stop.

use crate::cli::{Format, Pace, UpArgs};
use crate::down::{self, Held};
use crate::output;
use crate::serve::{azure, write_kubeconfig};
use anyhow::{Context, bail};
use azure_sim::Profile;
use ek_server::Listening;
use serde_json::{Value, json};
use std::io::Write;
use std::net::SocketAddr;
use std::path::Path;
use tokio::signal::unix::{SignalKind, signal};
use world::{Options, World};

/// A management cluster that serves.
struct Site {
    world: World,
    listening: Listening,
    context: String,
    url: String,
}

fn options(args: &UpArgs, n: u16) -> Options {
    let (profile, pace) = match args.profile {
        Pace::Instant => (Profile::Instant, world::Pace::Instant),
        Pace::Fast => (Profile::Fast, world::Pace::Instant),
        Pace::Real => (Profile::Real, world::Pace::Realistic),
        Pace::BadDay => (Profile::BadDay, world::Pace::Realistic),
    };
    let dir = args.data_dir.as_ref().map(|d| if n == 1 { d.clone() } else { d.join(context(n)) });
    let (sizing, shared_ingress) = (args.enable_size_tagging, args.shared_ingress);
    Options { dir, seed: args.seed, profile, pace, sizing, shared_ingress, ..Options::default() }
}

fn context(n: u16) -> String {
    if n == 1 { ek_server::MAIN.to_owned() } else { format!("management-{n}") }
}

pub async fn run(args: UpArgs) -> anyhow::Result<()> {
    // Listen for signals first: one that comes during start must end us in order, too.
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    let mut held = Held::take(down::place(args.data_dir.as_deref(), &args.kubeconfig_out))?;
    let sites = tokio::select! {
        sites = Box::pin(start(&args)) => sites?,
        _ = interrupt.recv() => bail!("interrupted while starting"),
        _ = terminate.recv() => bail!("told to stop while starting"),
    };
    let Some(first) = sites.first() else { bail!("there is no management cluster") };
    write_kubeconfig(&args.kubeconfig_out, &kubeconfig(&sites)?)?;
    let cloud = first.world.cloud();
    azure::write_access(&cloud.sim, args.env_out.as_deref(), args.creds_out.as_deref())?;
    if let (Some(path), Some((_, image))) = (&args.env_out, cloud.releases.last_key_value()) {
        let source = format!("oci://{}/openshift/release", cloud.registry);
        append(path, &format!("export ZAFFRE_RELEASE='{image}'\nexport ZAFFRE_RELEASE_SOURCE='{source}'\n"))?;
    }
    held.serves(&first.url)?;
    match args.output {
        Format::Text => {
            output::line(&format!("ready {}", first.url));
            let lines = if args.quiet { Vec::new() } else { how_to(&args, &sites) };
            lines.iter().for_each(|line| output::line(line));
        }
        format => output::value(format, &serving(&args, &sites))?,
    }
    tokio::select! {
        _ = interrupt.recv() => {}
        _ = terminate.recv() => {}
    }
    tracing::info!("stopping; a second Ctrl-C ends it at once");
    let stopped = async {
        // The first one's Azure is everybody's, so it goes last.
        for site in sites.into_iter().rev() {
            site.listening.drain().await;
            site.world.stop().await;
        }
    };
    tokio::select! {
        () = Box::pin(stopped) => {
            held.stopped();
            Ok(())
        }
        _ = interrupt.recv() => bail!("interrupted while stopping; acknowledged writes are safe"),
    }
}

async fn start(args: &UpArgs) -> anyhow::Result<Vec<Site>> {
    let mut sites: Vec<Site> = Vec::new();
    for n in 1..=args.management_clusters {
        let options = options(args, n);
        let started = match sites.first() {
            None => Box::pin(World::start(options)).await,
            Some(first) => Box::pin(first.world.beside(options)).await,
        };
        let world = started.with_context(|| match &args.data_dir {
            Some(dir) => {
                format!("the world in {} cannot start: choose another --data-dir, or none", dir.display())
            }
            None => "the world cannot start".to_owned(),
        })?;
        // One port was named; further ones follow it.
        let port = if args.listen.port() == 0 { 0 } else { args.listen.port().saturating_add(n - 1) };
        let at = SocketAddr::new(args.listen.ip(), port);
        let listening = world.management().listen(at).await.with_context(|| {
            format!("cannot serve on {at}: choose another address with --listen, or port 0 for any free one")
        })?;
        let url = format!("https://{}", listening.address);
        sites.push(Site { world, listening, context: context(n), url });
    }
    Ok(sites)
}

/// One file with a context for each; the first is current.
fn kubeconfig(sites: &[Site]) -> anyhow::Result<Value> {
    let mut all = Value::Null;
    for site in sites {
        let mut one = site.world.management().kubeconfig(&site.url)?;
        let (name, user) = (json!(site.context), json!(format!("{}-admin", site.context)));
        one["clusters"][0]["name"] = name.clone();
        one["users"][0]["name"] = user.clone();
        one["contexts"][0]["name"] = name.clone();
        one["contexts"][0]["context"]["cluster"] = name.clone();
        one["contexts"][0]["context"]["user"] = user;
        one["current-context"] = name;
        if all.is_null() {
            all = one;
            continue;
        }
        for list in ["clusters", "users", "contexts"] {
            let more = one[list].take();
            if let (Some(to), Value::Array(more)) = (all[list].as_array_mut(), more) {
                to.extend(more);
            }
        }
    }
    Ok(all)
}

fn append(path: &Path, line: &str) -> anyhow::Result<()> {
    let mut file = std::fs::OpenOptions::new().append(true).open(path);
    let written = file.as_mut().map_or_else(|e| Err(e.kind().into()), |f| f.write_all(line.as_bytes()));
    written.with_context(|| format!("cannot write {}", path.display()))
}

/// What a program needs to know of it.
fn serving(args: &UpArgs, sites: &[Site]) -> Value {
    let cloud = sites.first().map(|s| s.world.cloud());
    let clusters = sites.iter().map(|s| json!({"context": s.context, "server": s.url}));
    json!({
        "pid": std::process::id(),
        "kubeconfig": args.kubeconfig_out,
        "clusters": clusters.collect::<Vec<_>>(),
        "dataDir": args.data_dir,
        "environment": args.env_out,
        "credentials": args.creds_out,
        "releases": cloud.map(|c| &c.releases),
    })
}

/// How az and zaffre speak to this Azure: whole commands, as docs/azure-simulator.md has them.
fn how_to_az(env: Option<&Path>) -> Vec<String> {
    let Some(env) = env else {
        return vec!["  az: run it with --env-out env.sh, and this says the commands".to_owned()];
    };
    let env = env.display().to_string();
    let here = if env.contains('/') { env } else { format!("./{env}") };
    let lines = [
        format!(". {here}{:<24}az and zaffre speak to this Azure", ""),
        "az login --service-principal -u $AZURE_CLIENT_ID -p $AZURE_CLIENT_SECRET --tenant $AZURE_TENANT_ID"
            .to_owned(),
        "az group list -o table".to_owned(),
    ];
    lines.into_iter().map(|l| format!("  {l}")).collect()
}

/// What a reader can do next, to be copied.
fn how_to(args: &UpArgs, sites: &[Site]) -> Vec<String> {
    let shown = |p: &Path| p.display().to_string();
    let mut lines = vec![
        format!("  export KUBECONFIG={}", shown(&args.kubeconfig_out)),
        "  kubectl get nodes".to_owned(),
    ];
    if sites.len() > 1 {
        lines.extend(sites.iter().map(|s| format!("  kubectl --context {:<24} {}", s.context, s.url)));
    }
    lines.extend(how_to_az(args.env_out.as_deref()));
    let releases = sites.first().map(|s| &s.world.cloud().releases).into_iter().flatten();
    lines.extend(releases.map(|(version, image)| format!("  release {version}  {image}")));
    let at = match &args.data_dir {
        Some(dir) => format!(" --data-dir {}", shown(dir)),
        None if args.kubeconfig_out == Path::new("kubeconfig") => String::new(),
        None => format!(" --kubeconfig-out {}", shown(&args.kubeconfig_out)),
    };
    lines.push(format!("  zaffre down{at:<23} stops it"));
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn az_is_told_in_whole_commands() {
        let lines = how_to_az(Some(Path::new("env.sh"))).join("\n");
        assert!(
            lines.starts_with("  . ./env.sh")
                && lines.contains("az login --service-principal -u $AZURE_CLIENT_ID")
        );
        assert!(how_to_az(None)[0].contains("--env-out"));
    }
}
