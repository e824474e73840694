//! `xtask bench`: figures, from release builds.
//!
//! A benchmark is a binary of its own that measures, prints a table and, given `--json FILE`, writes the same
//! figures for machines. Nothing is measured here; this only knows their names.

use crate::run;
use anyhow::Result;
use std::path::Path;

/// Name on the command line, and the package that measures.
const BENCHES: &[(&str, &str)] = &[
    ("kube", "kube-bench"),
    ("clusters", "clusters-bench"),
    ("azure", "azure-bench"),
    ("prereqs", "prereqs-bench"),
    ("hosted", "hosted-bench"),
];

pub(crate) fn names() -> Vec<&'static str> {
    BENCHES.iter().map(|(name, _)| *name).collect()
}

pub(crate) fn run(name: Option<&str>, json: Option<&Path>, rest: &[String]) -> Result<()> {
    for (bench, package) in BENCHES {
        if name.is_some_and(|name| name != *bench) {
            continue;
        }
        let mut cargo = run::cargo();
        cargo.args(["run", "--release", "--locked", "--package", package, "--"]);
        if let Some(json) = json {
            // The benchmark runs at the root; the file was named from here.
            cargo.arg("--json").arg(std::path::absolute(json)?);
        }
        run::visibly({
            cargo.args(rest);
            cargo
        })?;
    }
    Ok(())
}
