//! `zaffre serve azure`.

use crate::cli::azure::{Pace, ServeArgs};
use crate::output;
use anyhow::{Context, bail};
use azure_sim::{AzureSim, Config, Profile, ProxiedProvider, StartError};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use tokio::signal::unix::{SignalKind, signal};

/// Where distributions keep the authorities they trust; the first that exists is taken.
const SYSTEM_ROOTS: [&str; 5] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
];

pub async fn run(args: ServeArgs) -> anyhow::Result<()> {
    // Listen for signals first: one that comes during start must end us in order, too.
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    let config = config(&args, system_roots().as_deref())?;
    let sim = AzureSim::start(config).await.map_err(|e| explained(e, &args))?;
    write_access(&sim, args.env_out.as_deref(), args.creds_out.as_deref())?;
    output::line(&format!("ready {}", sim.arm_url()));
    tokio::select! {
        _ = interrupt.recv() => {}
        _ = terminate.recv() => {}
    }
    sim.stop();
    Ok(())
}

fn system_roots() -> Option<String> {
    SYSTEM_ROOTS.iter().find_map(|path| std::fs::read_to_string(path).ok())
}

/// What clients need to use it: an environment to source, and the Owner's credentials.
pub fn write_access(sim: &AzureSim, env: Option<&Path>, creds: Option<&Path>) -> anyhow::Result<()> {
    if let Some(path) = env {
        write_env(sim, path, system_roots().as_deref())?;
    }
    creds.map_or(Ok(()), |path| private(path, &sim.creds().file()))
}

fn config(args: &ServeArgs, system_roots: Option<&str>) -> anyhow::Result<Config> {
    let mut trust: Vec<String> = system_roots.map(str::to_owned).into_iter().collect();
    for path in &args.issuer_cas {
        let text =
            std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
        if !text.contains("-----BEGIN CERTIFICATE-----") {
            bail!("{} holds no certificate: --issuer-ca takes a PEM file", path.display());
        }
        trust.push(text);
    }
    let mut proxied: Vec<ProxiedProvider> = Vec::new();
    for p in &args.providers {
        if proxied.iter().any(|other| other.namespace.eq_ignore_ascii_case(&p.namespace)) {
            bail!("--rp names {} twice: a namespace has one resource provider", p.namespace);
        }
        proxied.push(ProxiedProvider { namespace: p.namespace.clone(), url: p.url.clone() });
    }
    let profile = match args.profile {
        Pace::Instant => Profile::Instant,
        Pace::Fast => Profile::Fast,
        Pace::Real => Profile::Real,
        Pace::BadDay => Profile::BadDay,
    };
    Ok(Config {
        listen: args.listen,
        proxy_listen: args.proxy_listen,
        admin_listen: args.admin_listen,
        imds_listen: args.imds_listen,
        profile,
        trust,
        data_dir: (!args.in_memory).then(|| args.data_dir.clone()),
        proxied,
        scale: args.clock_scale,
        ..Config::local(args.seed)
    })
}

/// Adds what to do about it.
fn explained(e: StartError, args: &ServeArgs) -> anyhow::Error {
    let advice = match &e {
        StartError::Bind { address, .. } => {
            let flags = [
                ("--listen", args.listen),
                ("--proxy-listen", args.proxy_listen),
                ("--admin-listen", args.admin_listen),
                ("--imds-listen", args.imds_listen),
            ];
            let flag = flags.iter().find(|(_, a)| a == address).map_or("--listen", |(flag, _)| flag);
            format!("cannot serve on {address}: choose another with {flag}, or port 0 for any free one")
        }
        StartError::Memory(_) => format!(
            "cannot serve from {}: choose another directory with --data-dir, or none with --in-memory",
            args.data_dir.display()
        ),
        StartError::Scale(_) => format!("--clock-scale {} cannot be kept", args.clock_scale.unwrap_or(1.0)),
        _ => "the Azure simulator cannot start".to_owned(),
    };
    anyhow::Error::new(e).context(advice)
}

fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name: OsString = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

/// The same environment as names and values; its files are beside `path`, which is not written.
pub fn variables(sim: &AzureSim, path: &Path) -> anyhow::Result<Vec<(String, String)>> {
    let (bundle, az) = trusted(sim, path, system_roots().as_deref())?;
    let all = sim.variables_with(Some(&bundle), Some(&az));
    Ok(all.into_iter().map(|(name, value)| (name.to_owned(), value)).collect())
}

/// The environment, and the files it points to. Paths are absolute: it is sourced from anywhere.
fn write_env(sim: &AzureSim, path: &Path, system_roots: Option<&str>) -> anyhow::Result<()> {
    let (bundle, az) = trusted(sim, path, system_roots)?;
    private(path, &sim.env_with(Some(&bundle), Some(&az)))
}

/// What the environment points to: the authorities to trust, and where az keeps its logins.
fn trusted(sim: &AzureSim, path: &Path, system_roots: Option<&str>) -> anyhow::Result<(PathBuf, PathBuf)> {
    let absolute = std::path::absolute(path).with_context(|| format!("cannot write {}", path.display()))?;
    let (bundle, az) = (beside(&absolute, ".ca.pem"), az_directory(&absolute, sim.ca_pem())?);
    // With the system's roots, so that what a client reaches without the proxy is trusted as ever.
    private(&bundle, &format!("{}{}", sim.ca_pem(), system_roots.unwrap_or_default()))?;
    Ok((bundle, az))
}

/// Where az keeps its logins and tokens: a directory per world. Another world has the same client with other keys, and
/// az would show it tokens of this one; what a former world left is of no use to anybody.
fn az_directory(env: &Path, ca_pem: &str) -> anyhow::Result<PathBuf> {
    let parent = beside(env, ".az");
    // The end of a certificate is its signature: no two are alike.
    let body: String = ca_pem.lines().filter(|l| !l.starts_with("---")).collect();
    let signature: Vec<char> = body.chars().filter(char::is_ascii_alphanumeric).collect();
    let name = format!("world-{}", signature.iter().rev().take(16).collect::<String>());
    for entry in std::fs::read_dir(&parent).into_iter().flatten().flatten() {
        let old = entry.file_name();
        let old = old.to_string_lossy();
        if old.starts_with("world-") && *old != *name {
            let path = entry.path();
            std::fs::remove_dir_all(&path).with_context(|| format!("cannot remove {}", path.display()))?;
        }
    }
    Ok(parent.join(name))
}

fn private(path: &Path, text: &str) -> anyhow::Result<()> {
    ek_server::write_private(path, text).with_context(|| format!("cannot write {}", path.display()))
}
