//! Finding other people's programs.
//!
//! Tests with real clients need the clients. Each is looked for where a person would have put it, built from
//! its published module where that is possible, and otherwise missing with a `skipped:` line that says what
//! would change that: a test that silently does nothing is worse than none. What is built lands under the
//! target directory and nowhere else.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Why a tool could not be built.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("cannot prepare {path}")]
    Prepare { path: PathBuf, source: io::Error },
    #[error("cannot run {go}")]
    Go { go: PathBuf, source: io::Error },
    #[error("`go build` of {module} failed:\n{stderr}")]
    Build { module: PathBuf, stderr: String },
}

/// The root of the workspace this kit was compiled in.
pub fn workspace_root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.ancestors().nth(2).unwrap_or(here).to_owned()
}

/// Where build products go: `CARGO_TARGET_DIR`, else `target` of the workspace.
pub fn target_dir() -> PathBuf {
    match crate::env::var("CARGO_TARGET_DIR") {
        Some(dir) => workspace_root().join(dir),
        None => workspace_root().join("target"),
    }
}

/// A program by name: the variable if it is set, else the first on `PATH`.
fn locate(variable: &str, name: &str) -> Option<PathBuf> {
    if let Some(path) = crate::env::var(variable) {
        return Some(PathBuf::from(path));
    }
    let path = crate::env::var("PATH")?;
    std::env::split_paths(&path).map(|dir| dir.join(name)).find(|candidate| executable(candidate))
}

fn executable(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    path.metadata().is_ok_and(|m| m.is_file() && m.permissions().mode() & 0o111 != 0)
}

/// The Go tool, when there is one (`GO`, or `go` on `PATH`).
pub fn go() -> Option<PathBuf> {
    locate("GO", "go")
}

/// kubectl: `KUBECTL`, or on `PATH`, or built from its Go module, or missing with a message.
pub fn kubectl() -> Option<PathBuf> {
    if let Some(found) = locate("KUBECTL", "kubectl") {
        return Some(found);
    }
    let what = "kubectl (set KUBECTL, put kubectl on PATH, or install Go so it can be built)";
    go_program("kubectl", what, &kubectl_version(&workspace_root().join("interop/go/kubectl/go.mod")))
}

/// A real API server and its etcd (`KUBE_APISERVER`, `ETCD`): only where somebody says so, they are never built.
pub fn kube_apiserver() -> Option<(PathBuf, PathBuf)> {
    Some((crate::env::var("KUBE_APISERVER")?.into(), crate::env::var("ETCD")?.into()))
}

/// Linker flags that give kubectl its version. It compares itself with the server, and a build that believes
/// it is 0.0 warns about the difference in the middle of a transcript. Module v0.34.2 is release v1.34.2.
fn kubectl_version(go_mod: &Path) -> String {
    let text = std::fs::read_to_string(go_mod).unwrap_or_default();
    let version = text.lines().find_map(|line| line.trim().strip_prefix("k8s.io/kubectl v0."));
    match version {
        Some(version) => format!("-X k8s.io/component-base/version.gitVersion=v1.{version}"),
        None => String::new(),
    }
}

/// The controller-runtime program under `interop/go/manager`, built, or missing with a message.
pub fn go_manager() -> Option<PathBuf> {
    go_program("manager", "the controller-runtime manager (install Go so it can be built)", "")
}

/// The program on Azure's SDK under `interop/go/azure`, built, or missing with a message.
pub fn go_azure() -> Option<PathBuf> {
    go_program("azure", "the probe on Azure's SDK for Go (install Go so it can be built)", "")
}

/// Upstream's controllers of machines, and where their modules are.
pub struct Upstream {
    pub cluster_api: Module,
    pub provider: Module,
}

/// A program out of somebody else's module.
pub struct Module {
    pub program: PathBuf,
    /// Where the Go tool keeps the module's files, definitions among them.
    pub dir: PathBuf,
    pub version: String,
}

/// Cluster API and its provider for Azure, built from their modules. Minutes to build, so only where somebody says
/// `ZAFFRE_UPSTREAM=1`, as `cargo xtask upstream` does; otherwise missing with a message. Whoever asks for it in so many words
/// is not content with a test that did nothing, so that then a failure is one.
pub fn upstream() -> Result<Option<Upstream>, Error> {
    let what = "Cluster API and its provider for Azure";
    if crate::env::var("ZAFFRE_UPSTREAM").is_none() {
        skipped(&format!("{what} (run `cargo xtask upstream`, which builds them and runs this)"));
        return Ok(None);
    }
    let go = go().unwrap_or_else(|| PathBuf::from("go"));
    Ok(Some(Upstream {
        cluster_api: foreign(&go, "cluster-api", "sigs.k8s.io/cluster-api")?,
        provider: foreign(&go, "cluster-api-provider-azure", "sigs.k8s.io/cluster-api-provider-azure")?,
    }))
}

fn foreign(go: &Path, name: &str, package: &str) -> Result<Module, Error> {
    let (module, out) = (workspace_root().join("interop/go/capi"), target_dir().join("tools"));
    let program = go_build_package(go, &module, &out, name, "", package)?;
    let output = Command::new(go)
        .args(["list", "-mod=readonly", "-m", "-f", "{{.Dir}} {{.Version}}", package])
        .current_dir(&module)
        .env("GOWORK", "off")
        .stdin(Stdio::null())
        .output()
        .map_err(|source| Error::Go { go: go.to_owned(), source })?;
    let text = String::from_utf8_lossy(&output.stdout);
    match text.trim().rsplit_once(' ') {
        Some((dir, version)) if output.status.success() => {
            Ok(Module { program, dir: PathBuf::from(dir), version: version.to_owned() })
        }
        _ => Err(Error::Build { module, stderr: String::from_utf8_lossy(&output.stderr).into_owned() }),
    }
}

fn go_program(name: &str, what: &str, flags: &str) -> Option<PathBuf> {
    let Some(go) = go() else {
        skipped(what);
        return None;
    };
    let (module, out) = (workspace_root().join("interop/go").join(name), target_dir().join("tools"));
    match go_build(&go, &module, &out, name, flags) {
        Ok(path) => Some(path),
        Err(e) => {
            skipped(&format!("{what}: {}", crate::chain(&e)));
            None
        }
    }
}

/// A Python with the packages of `interop/python/requirements.txt`: `ZAFFRE_PYTHON`, or the virtual environment
/// that `cargo xtask setup` makes, or missing with a message.
pub fn python() -> Option<PathBuf> {
    venv("ZAFFRE_PYTHON", "venv", "the Python client")
}

/// The same for Azure's SDK (`requirements-azure.txt`, `ZAFFRE_PYTHON_AZURE`).
pub fn python_azure() -> Option<PathBuf> {
    venv("ZAFFRE_PYTHON_AZURE", "venv-azure", "Azure's SDK for Python")
}

/// The same for the Azure CLI (`requirements-az.txt`, `ZAFFRE_PYTHON_AZ`); `az` is beside it.
pub fn python_az() -> Option<PathBuf> {
    venv("ZAFFRE_PYTHON_AZ", "venv-az", "the Azure CLI")
}

/// skopeo, a client of image registries: `SKOPEO`, or on `PATH`, or missing with a message.
pub fn skopeo() -> Option<PathBuf> {
    let found = locate("SKOPEO", "skopeo");
    if found.is_none() {
        skipped("skopeo (set SKOPEO, or install it: `cargo xtask setup` does on a Debian)");
    }
    found
}

fn venv(variable: &str, name: &str, what: &str) -> Option<PathBuf> {
    let dir = target_dir().join(name);
    // A stamp is written last: without it the installation was interrupted.
    let whole = dir.join("requirements.installed").exists();
    let program = dir.join("bin/python");
    let made = (whole && executable(&program)).then_some(program);
    let found = crate::env::var(variable).map(PathBuf::from).or(made);
    if found.is_none() {
        skipped(&format!("{what} (run `cargo xtask setup`, which makes target/{name})"));
    }
    found
}

/// Says that something was left out, on standard error so `cargo test -- --nocapture` and CI logs show it.
pub fn skipped(what: &str) {
    eprintln!("skipped: {what}");
}

/// Builds the Go main package of a directory.
///
/// Several test processes may want the same tool at once: they queue on a lock file, and the product appears
/// by rename, so nobody runs half a program. The Go tool itself decides whether anything needs doing.
pub fn go_build(go: &Path, module: &Path, out: &Path, name: &str, flags: &str) -> Result<PathBuf, Error> {
    go_build_package(go, module, out, name, flags, ".")
}

/// The same of a package that the module depends on.
fn go_build_package(
    go: &Path,
    module: &Path,
    out: &Path,
    name: &str,
    flags: &str,
    package: &str,
) -> Result<PathBuf, Error> {
    let prepare = |path: &Path| {
        let path = path.to_owned();
        move |source| Error::Prepare { path, source }
    };
    std::fs::create_dir_all(out).map_err(prepare(out))?;
    let lock = out.join(format!("{name}.lock"));
    let held = File::create(&lock).map_err(prepare(&lock))?;
    held.lock().map_err(prepare(&lock))?;

    let program = out.join(name);
    let scratch = out.join(format!("{name}.new"));
    let output = Command::new(go)
        .args(["build", "-trimpath", "-buildvcs=false", "-mod=readonly"])
        .args([&format!("-ldflags=-s -w {flags}"), "-o"])
        .arg(&scratch)
        .arg(package)
        .current_dir(module)
        .env("GOWORK", "off")
        .stdin(Stdio::null())
        .output()
        .map_err(|source| Error::Go { go: go.to_owned(), source })?;
    if !output.status.success() {
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        return Err(Error::Build { module: module.to_owned(), stderr });
    }
    std::fs::rename(&scratch, &program).map_err(prepare(&program))?;
    Ok(program)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_workspace_is_found() {
        assert!(workspace_root().join("crates/testkit/Cargo.toml").exists());
        assert!(executable(Path::new("/bin/sh")) && !executable(Path::new("/")));
        let flags = kubectl_version(&workspace_root().join("interop/go/kubectl/go.mod"));
        assert!(flags.contains("gitVersion=v1.34."), "{flags}");
    }

    #[test]
    fn a_go_program_is_built_or_the_reason_is_given() {
        let Some(go) = go() else { return skipped("go (not installed)") };
        let dir = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| std::fs::write(dir.path().join(name), text).unwrap();
        write("go.mod", "module hello\n\ngo 1.21\n");
        write("main.go", "package main\n\nfunc main() { println(\"hi\") }\n");
        let program = go_build(&go, dir.path(), &dir.path().join("out"), "hello", "").unwrap();
        assert_eq!(Command::new(program).output().unwrap().stderr, b"hi\n");
        write("main.go", "package main\n\nfunc main() { nonsense }\n");
        let error = go_build(&go, dir.path(), &dir.path().join("out"), "hello", "").unwrap_err().to_string();
        assert!(error.contains("nonsense"), "{error}");
    }
}
