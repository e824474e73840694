//! `xtask setup`: what the tests with real clients need, and nothing outside `target/` unless root says so.
//!
//! Three sources: Debian packages (only when this is root on a Debian, only what a probe finds missing), a
//! Python virtual environment with pinned packages, and programs built from Go modules. Each may be absent:
//! then the tests that want it say `skipped:`, and the rest is as strict as ever. A machine without network
//! must still be able to run CI.

use crate::run;
use anyhow::{Context, Result, anyhow};
use std::path::PathBuf;
use std::process::Command;
use testkit::tools;

/// A Debian package, needed only where the probe fails: a machine may have the thing from elsewhere.
struct Package {
    name: &'static str,
    why: &'static str,
    probe: &'static [&'static str],
}

/// Everything CI may want from the distribution. None is needed to build.
const DEBIAN_PACKAGES: &[Package] = &[
    Package { name: "python3", why: "the official Python client", probe: &["python3", "--version"] },
    Package {
        name: "python3-venv",
        why: "target/venv and its like, where Python clients are installed",
        probe: &["python3", "-c", "import venv, ensurepip"],
    },
    Package {
        name: "skopeo",
        why: "an OCI client for the registries of the Azure simulator",
        probe: &["skopeo", "--version"],
    },
    Package { name: "curl", why: "commands of the pages under docs", probe: &["curl", "--version"] },
    Package { name: "openssl", why: "commands of the pages under docs", probe: &["openssl", "version"] },
    Package { name: "git", why: "the check that tests leave the tree clean", probe: &["git", "--version"] },
];

/// The clients that were found, as tests are told about them.
pub(crate) struct Clients {
    python: Option<PathBuf>,
    python_azure: Option<PathBuf>,
    az: Option<PathBuf>,
    kubectl: Option<PathBuf>,
}

impl Clients {
    /// Puts them into the environment of a test run.
    pub(crate) fn tell(&self, command: &mut Command) {
        let all = [
            ("ZAFFRE_PYTHON", &self.python),
            ("ZAFFRE_PYTHON_AZURE", &self.python_azure),
            ("ZAFFRE_PYTHON_AZ", &self.az),
            ("KUBECTL", &self.kubectl),
        ];
        for (name, path) in all {
            if let Some(path) = path {
                command.env(name, path);
            }
        }
    }
}

pub(crate) fn run() -> Result<Clients> {
    packages();
    clients()
}

/// Everything but packages of the distribution.
pub(crate) fn clients() -> Result<Clients> {
    // Built now so that no test's deadline pays for compiling them; beside the rest, which mostly waits.
    let built = std::thread::spawn(|| (tools::go_manager(), tools::go_azure()));
    let clients = Clients {
        python: python("venv", "requirements.txt")?,
        python_azure: python("venv-azure", "requirements-azure.txt")?,
        az: python("venv-az", "requirements-az.txt")?,
        kubectl: tools::kubectl(),
    };
    let (manager, probe) =
        built.join().map_err(|_| anyhow!("the Go clients could not be built: see the panic above"))?;
    let found = [
        ("python", &clients.python),
        ("python with Azure's SDK", &clients.python_azure),
        ("python with the Azure CLI", &clients.az),
        ("kubectl", &clients.kubectl),
        ("go manager", &manager),
        ("go probe of Azure", &probe),
    ];
    for (what, path) in found {
        if let Some(path) = path {
            println!("  {what}: {}", path.display());
        }
    }
    Ok(clients)
}

/// What the distribution has and this machine has not.
pub(crate) fn packages() {
    let probe =
        |p: &&Package| p.probe.split_first().is_some_and(|(program, rest)| !run::succeeds(program, rest));
    let missing: Vec<&Package> =
        DEBIAN_PACKAGES.iter().filter(probe).filter(|p| !run::succeeds("dpkg", &["-s", p.name])).collect();
    if missing.is_empty() {
        return;
    }
    for package in &missing {
        println!("  missing: {} ({})", package.name, package.why);
    }
    if !rustix::process::geteuid().is_root() || !run::succeeds("apt-get", &["--version"]) {
        println!("  skipped: installing them needs root on a Debian; going on with what is there");
        return;
    }
    let apt = |arguments: &[&str]| {
        let mut command = Command::new("apt-get");
        command.env("DEBIAN_FRONTEND", "noninteractive").args(arguments);
        command
    };
    let mut install = apt(&["install", "--yes", "--quiet", "--no-install-recommends"]);
    install.args(missing.iter().map(|p| p.name));
    let installed = run::visibly(apt(&["update", "--quiet"])).and_then(|()| run::visibly(install));
    if let Err(e) = installed {
        // Offline is not broken: what needs these will say that it was skipped.
        println!("  skipped: {e:#}; going on with what is there");
    }
}

/// A virtual environment that holds exactly the committed requirements. Clients with pins of their own have one each.
fn python(name: &str, requirements: &str) -> Result<Option<PathBuf>> {
    let venv = tools::target_dir().join(name);
    let requirements = tools::workspace_root().join("interop/python").join(requirements);
    let wanted = std::fs::read_to_string(&requirements)
        .with_context(|| format!("cannot read {}", requirements.display()))?;
    let (program, stamp) = (venv.join("bin/python"), venv.join("requirements.installed"));
    if program.exists() && std::fs::read_to_string(&stamp).is_ok_and(|installed| installed == wanted) {
        return Ok(Some(program));
    }
    if !run::succeeds("python3", &["-c", "import venv, ensurepip"]) {
        tools::skipped("Python clients (no python3 with venv)");
        return Ok(None);
    }
    println!("  installing {} into {}", requirements.display(), venv.display());
    let mut create = Command::new("python3");
    create.args(["-m", "venv", "--clear"]).arg(&venv);
    let mut install = Command::new(&program);
    // Everything is pinned, so there is nothing to resolve; and most of it is never imported, so compiling all of it
    // would take longer than installing it.
    install.args([
        "-m",
        "pip",
        "install",
        "--quiet",
        "--disable-pip-version-check",
        "--no-deps",
        "--no-compile",
    ]);
    install.arg("--requirement").arg(&requirements);
    if let Err(e) = run::visibly(create).and_then(|()| run::visibly(install)) {
        tools::skipped(&format!("Python clients: {e:#}"));
        return Ok(None);
    }
    std::fs::write(&stamp, wanted)?;
    Ok(Some(program))
}
