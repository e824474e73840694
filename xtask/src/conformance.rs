//! `xtask conformance`: Kubernetes' own specs for API machinery against a server of ours.
//!
//! Not part of CI: the test binary takes Go ten minutes to build, and one spec waits five for history to end. Specs
//! that need a container image of theirs to run (webhook servers, an aggregated API server) are left out; everything
//! else marked as conformance must pass.

use crate::run;
use anyhow::{Context, Result, bail};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use testkit::tools;

const FOCUS: &str = r"\[sig-api-machinery\].*\[Conformance\]";
/// They start a program of their own image behind a Service.
const NEED_IMAGES: &str = "AdmissionWebhook|ConversionWebhook|Aggregator|FieldSelectors";

/// Ends with the chore, however that ends.
struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

pub(crate) fn run(binary: Option<PathBuf>, focus: Option<&str>) -> Result<()> {
    let root = tools::workspace_root();
    let kubectl = tools::kubectl().context("kubectl is missing: run `cargo xtask setup`")?;
    let binary = match binary {
        Some(b) => b,
        None => build(&root)?,
    };
    let mut zaffre = run::cargo();
    zaffre.args(["build", "--locked", "--package", "zaffre"]);
    run::visibly(zaffre)?;

    let scratch = tempfile::tempdir().context("cannot make a directory for the kubeconfig")?;
    let kubeconfig = scratch.path().join("kubeconfig");
    let mut serve = Command::new(root.join("target/debug/zaffre"));
    serve.args([
        "serve",
        "kube",
        "--in-memory",
        "--listen",
        "127.0.0.1:0",
        "--nodes",
        "3",
        "--kubeconfig-out",
    ]);
    serve.arg(&kubeconfig).current_dir(scratch.path()).stdout(Stdio::piped());
    let mut server = Server(serve.spawn().context("cannot start the server")?);
    let mut first = String::new();
    let output = server.0.stdout.take().context("the server has no output")?;
    BufReader::new(output).read_line(&mut first).context("cannot read what the server says")?;
    if !first.starts_with("ready ") {
        bail!("the server did not start: {first}");
    }
    specs(&binary, &kubeconfig, &kubectl, focus.unwrap_or(FOCUS))
}

fn build(root: &Path) -> Result<PathBuf> {
    let binary = root.join("target/tools/conformance.test");
    let stamp = "-X k8s.io/component-base/version.gitVersion=v1.34.3 -X k8s.io/component-base/version.gitMajor=1 -X k8s.io/component-base/version.gitMinor=34";
    let mut go = Command::new("go");
    go.args(["test", "-c", "-ldflags", stamp, "-o"]).arg(&binary).arg(".");
    go.current_dir(root.join("interop/go/conformance"));
    run::visibly(go).context("the specs are Go: install go 1.24 or later")?;
    Ok(binary)
}

fn specs(binary: &Path, kubeconfig: &Path, kubectl: &Path, focus: &str) -> Result<()> {
    let mut specs = Command::new(binary);
    specs.args(["--provider=skeleton", "--ginkgo.timeout=1h", "--dump-logs-on-failure=false"]);
    specs.arg(format!("--kubeconfig={}", kubeconfig.display()));
    specs.arg(format!("--kubectl-path={}", kubectl.display()));
    specs.arg(format!("--ginkgo.focus={focus}")).arg(format!("--ginkgo.skip={NEED_IMAGES}"));
    if let Some(place) = kubeconfig.parent() {
        specs.current_dir(place);
    }
    run::visibly(specs)
}
