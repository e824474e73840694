//! `xtask bench`: figures, from release builds.
//!
//! A benchmark is a binary of its own that measures, prints a table and, given `--json FILE`, writes the same
//! figures for machines. Nothing is measured here; this only knows their names, and how long the demo may take.

use crate::run;
use anyhow::{Context, Result, bail};
use serde_json::Value;
use std::path::Path;
use std::process::Command;
use testkit::tools;

const PRODUCT: &str = "zaffre";

/// `zaffre demo` is somebody's first half minute with us: it measures itself.
const DEMO: &str = "demo";
const DEMO_SECONDS: f64 = 30.0;

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
    BENCHES.iter().map(|(name, ..)| *name).chain([DEMO]).collect()
}

pub(crate) fn run(name: Option<&str>, json: Option<&Path>, rest: &[String]) -> Result<()> {
    for (bench, package, words) in BENCHES {
        if name.is_some_and(|name| name != *bench) {
            continue;
        }
        // Beside the product, so that both have the same features of what they share: alone, it would be compiled again.
        let mut cargo = run::cargo();
        cargo.args(["build", "--release", "--locked", "--package", PRODUCT, "--package", package]);
        run::visibly(cargo)?;
        let mut measure = Command::new(tools::target_dir().join("release").join(package));
        measure.current_dir(tools::workspace_root()).args(*words);
        if let Some(json) = json {
            // The benchmark runs at the root; the file was named from here.
            measure.arg("--json").arg(std::path::absolute(json)?);
        }
        measure.args(rest);
        run::visibly(measure)?;
    }
    if name.is_none_or(|name| name == DEMO) { demo(json) } else { Ok(()) }
}

fn demo(json: Option<&Path>) -> Result<()> {
    let mut cargo = run::cargo();
    cargo.args(["run", "--release", "--locked", "--package", PRODUCT, "--", "demo", "-o", "json"]);
    let text = run::output(cargo)?;
    if let Some(path) = json {
        std::fs::write(path, &text).with_context(|| format!("cannot write {}", path.display()))?;
    }
    let seconds = road(&serde_json::from_str(&text).context("the demo's steps are no JSON")?)?;
    println!("  the road of `zaffre demo`: {seconds:.1} s");
    Ok(())
}

/// When the last step of the demo was done; an error if that is too late.
fn road(report: &Value) -> Result<f64> {
    let last = report["steps"].as_array().and_then(|steps| steps.last());
    let done = last.and_then(|step| step["milliseconds"].as_f64()).context("the demo tells no steps")?;
    let seconds = done / 1000.0;
    if seconds > DEMO_SECONDS {
        bail!("the road of `zaffre demo` took {seconds:.1} s: more than {DEMO_SECONDS} s is too much");
    }
    Ok(seconds)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_demo_that_takes_too_long_is_an_error() {
        let took = |ms: f64| road(&json!({"steps": [{"milliseconds": 5.0}, {"milliseconds": ms}]}));
        assert_eq!(took(14_000.0).unwrap(), 14.0);
        assert!(took(30_100.0).unwrap_err().to_string().contains("30.1 s"));
        assert!(road(&json!({"steps": []})).is_err(), "nothing was walked");
    }
}
