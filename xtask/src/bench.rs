//! `xtask bench`: figures, from release builds.
//!
//! A benchmark is a binary of its own that measures, prints a table and, given `--json FILE`, writes the same
//! figures for machines. Nothing is measured here; this only knows their names.

use crate::run;
use anyhow::Result;
use std::path::Path;

/// Name on the command line, the package that measures, and what it is told.
const BENCHES: &[(&str, &str, &[&str])] = &[
    ("kube", "kube-bench", &[]),
    ("clusters", "clusters-bench", &[]),
    ("azure", "azure-bench", &[]),
    ("prereqs", "prereqs-bench", &[]),
    ("hosted", "hosted-bench", &[]),
    ("nodepools", "hosted-bench", &["--nodepools"]),
];

pub(crate) fn names() -> Vec<&'static str> {
    BENCHES.iter().map(|(name, ..)| *name).collect()
}

pub(crate) fn run(name: Option<&str>, json: Option<&Path>, rest: &[String]) -> Result<()> {
    for (bench, package, words) in BENCHES {
        if name.is_some_and(|name| name != *bench) {
            continue;
        }
        let mut cargo = run::cargo();
        cargo.args(["run", "--release", "--locked", "--package", package, "--"]).args(*words);
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
