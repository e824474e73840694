//! `xtask tables`: the committed tables of ek-data, from package registries.
//!
//! Three public sources each know a part of what the server needs, and none knows all of it:
//!
//! - PyPI `kubernetes-validate` has the published OpenAPI definitions with descriptions and extensions;
//! - crate `k8s-pb` has the protobuf field numbers and types;
//! - `gojson.tsv`, printed by `interop/go/protofixtures gojson` from the Go types, knows what decides the
//!   JSON form of a decoded message: pointer or not, omitted when empty or not, inlined or not.
//!
//! The join checks them against each other and fails on any disagreement, so a table that was written is a
//! table the sources agree on. Output is deterministic: everything is sorted, and deflate has no clock.

mod definitions;
mod join;
mod prost;

use anyhow::{Context, Result, bail};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The Kubernetes release whose definitions are taken.
pub(crate) const KUBERNETES: &str = "1.34.0";
/// Go modules `gojson.tsv` was printed from.
const GO_MODULES: &str = "k8s.io/{api,apimachinery,apiextensions-apiserver,kube-aggregator} v0.34.3";

pub(crate) fn generate() -> Result<()> {
    let root = workspace_root()?;
    let out = root.join("crates/embedded-kube/data/tables");
    let go = join::GoTypes::parse(include_str!("gojson.tsv"))?;

    let (source, validate_version) = definitions::fetch(&root)?;
    let defs = definitions::clean(source, &go)?;
    let (pb_source, pb_version) = pb_source(&root)?;
    let messages = prost::parse_tree(&pb_source)?;
    let table = join::table(&messages, &go, &defs)?;

    let text = serde_json::to_vec(&defs)?;
    let packed = miniz_oxide::deflate::compress_to_vec_zlib(&text, 10);
    std::fs::create_dir_all(&out)?;
    std::fs::write(out.join("definitions.json.z"), &packed)?;
    std::fs::write(out.join("kinds.tsv"), definitions::kinds(&defs))?;
    std::fs::write(out.join("protobuf.tsv"), &table)?;
    std::fs::write(out.join("SOURCES.md"), sources(&validate_version, &pb_version))?;
    eprintln!(
        "{} definitions ({} bytes, {} packed), protobuf table {} bytes",
        defs.len(),
        text.len(),
        packed.len(),
        table.len()
    );
    Ok(())
}

fn sources(validate: &str, pb: &str) -> String {
    format!(
        "# Where these tables come from\n\n\
         Written by `cargo xtask tables`; do not edit. All sources are Apache-2.0.\n\n\
         | file | made from |\n|---|---|\n\
         | definitions.json.z | PyPI kubernetes-validate {validate}, definitions of Kubernetes {KUBERNETES}: the served kinds and all they refer to |\n\
         | kinds.tsv | the `x-kubernetes-group-version-kind` of the same |\n\
         | protobuf.tsv | crate k8s-pb {pb} (field numbers), joined with the definitions (JSON names) and xtask/src/tables/gojson.tsv (presence; {GO_MODULES}) |\n"
    )
}

fn workspace_root() -> Result<PathBuf> {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().map(Into::into).context("xtask has no parent directory")
}

/// Where cargo unpacked k8s-pb, and its version.
fn pb_source(root: &Path) -> Result<(PathBuf, String)> {
    let text = run(Command::new("cargo").current_dir(root).args([
        "metadata",
        "--format-version=1",
        "--features=xtask/protobuf-source",
    ]))?;
    let meta: serde_json::Value = serde_json::from_str(&text)?;
    let package = meta["packages"]
        .as_array()
        .and_then(|ps| ps.iter().find(|p| p["name"] == "k8s-pb"))
        .context("k8s-pb is not in the dependency graph")?;
    let manifest = package["manifest_path"].as_str().context("no manifest path")?;
    let dir = Path::new(manifest).parent().context("no parent")?.join("src");
    Ok((dir, package["version"].as_str().unwrap_or_default().to_owned()))
}

pub(crate) fn run(command: &mut Command) -> Result<String> {
    let out = command.output().with_context(|| format!("running {command:?}"))?;
    if !out.status.success() {
        bail!("{command:?} failed: {}", String::from_utf8_lossy(&out.stderr));
    }
    Ok(String::from_utf8(out.stdout)?)
}
