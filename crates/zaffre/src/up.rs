//! `zaffre up`: a region on one machine, until it is told to stop.

use crate::cli::UpArgs;
use crate::output;
use crate::serve::{azure, write_kubeconfig};
use anyhow::{Context, bail};
use std::io::Write;
use std::path::Path;
use tokio::signal::unix::{SignalKind, signal};
use world::{Options, World};

pub async fn run(args: UpArgs) -> anyhow::Result<()> {
    // Listen for signals first: one that comes during start must end us in order, too.
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    let options = Options { dir: args.data_dir.clone(), seed: args.seed, ..Options::default() };
    let world = tokio::select! {
        world = World::start(options) => world.with_context(|| match &args.data_dir {
            Some(dir) => format!("the world in {} cannot start: choose another --data-dir, or none", dir.display()),
            None => "the world cannot start".to_owned(),
        })?,
        _ = interrupt.recv() => bail!("interrupted while starting"),
        _ = terminate.recv() => bail!("told to stop while starting"),
    };
    let listening = world.management().listen(args.listen).await.with_context(|| {
        format!(
            "cannot serve on {}: choose another address with --listen, or port 0 for any free one",
            args.listen
        )
    })?;
    let url = format!("https://{}", listening.address);
    write_kubeconfig(&args.kubeconfig_out, &world.management().kubeconfig(&url)?)?;
    azure::write_access(&world.cloud().sim, args.env_out.as_deref(), args.creds_out.as_deref())?;
    if let (Some(path), Some((_, image))) = (&args.env_out, world.cloud().releases.last_key_value()) {
        append(path, &format!("export ZAFFRE_RELEASE='{image}'\n"))?;
    }
    output::line(&format!("ready {url}"));
    if !args.quiet {
        for line in how_to(&args, &world) {
            output::line(&line);
        }
    }
    tokio::select! {
        _ = interrupt.recv() => {}
        _ = terminate.recv() => {}
    }
    tracing::info!("stopping; a second Ctrl-C ends it at once");
    let stopped = async {
        listening.drain().await;
        world.stop().await;
    };
    tokio::select! {
        () = stopped => Ok(()),
        _ = interrupt.recv() => bail!("interrupted while stopping; acknowledged writes are safe"),
    }
}

fn append(path: &Path, line: &str) -> anyhow::Result<()> {
    let mut file = std::fs::OpenOptions::new().append(true).open(path);
    let written = file.as_mut().map_or_else(|e| Err(e.kind().into()), |f| f.write_all(line.as_bytes()));
    written.with_context(|| format!("cannot write {}", path.display()))
}

/// What a reader can do next, to be copied.
fn how_to(args: &UpArgs, world: &World) -> Vec<String> {
    let shown = |p: &Path| p.display().to_string();
    let mut lines = vec![format!("  export KUBECONFIG={}", shown(&args.kubeconfig_out))];
    if let Some(env) = &args.env_out {
        let env = shown(env);
        let here = if env.contains('/') { env } else { format!("./{env}") };
        lines.push(format!("  . {here}{:<24}az and zaffre speak to this Azure", ""));
    }
    for (version, image) in &world.cloud().releases {
        lines.push(format!("  release {version}  {image}"));
    }
    lines
}
