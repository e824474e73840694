//! `xtask ci`: everything a change must pass, cheapest first, one script for people and machines.
//!
//! The order is by cost, so a misplaced brace is reported in seconds and a failing transcript only when all
//! else is well. The first failure ends the run with what to do about it. What is optional (cargo-deny, a
//! checkout with git) says `skipped` instead of vanishing. What tests need of others is fetched and built while our own
//! code compiles: much of it is waiting, for a network and for one processor.
//!
//! Tests run with a temporary directory of their own under `target/`, which must be empty afterwards, and
//! must leave `git status` as they found it: litter is a bug that only shows on the hundredth run.

use crate::{deps, run, setup};
use anyhow::{Context, Result, anyhow, bail};
use std::path::PathBuf;
use std::process::Command;
use std::thread::JoinHandle;
use std::time::Instant;
use testkit::tools;

/// Where committed expectations live, as git understands paths.
const GOLDENS: &[&str] =
    &[":(glob)**/tests/golden/**", ":(glob)**/tests/transcripts/**", ":(glob)**/tests/living/**"];

struct Run {
    /// What tests need of others, on its way.
    clients: Option<JoinHandle<Result<setup::Clients>>>,
    /// `git status` before anything ran; `None` outside a checkout.
    before: Option<String>,
    temp: PathBuf,
}

type Step = (&'static str, fn(&mut Run) -> Result<()>, &'static str);

/// Name, what it does, and what to do when it fails.
const STEPS: &[Step] = &[
    ("format", format, "run `cargo fmt --all`"),
    ("manifests", |_| deps::run(), "make the manifests inherit from the workspace as said above"),
    ("setup", setup, "see the message above"),
    ("deny", deny, "a banned or unlicensed dependency came in; deny.toml has the reasons"),
    ("clippy", clippy, "fix the warning, or allow it narrowly with a reason"),
    ("build", build, "fix the build; with --locked, commit Cargo.lock if a manifest changed"),
    ("test", test, "rerun one with `cargo test -p CRATE NAME`; for goldens, `cargo xtask golden --update`"),
    ("goldens", goldens, "commit or revert the golden files above"),
    ("litter", litter, "make the test clean up what it leaves behind"),
];

pub(crate) fn run() -> Result<()> {
    let begin = Instant::now();
    let mut state = Run { clients: None, before: status().ok(), temp: tools::target_dir().join("ci-tmp") };
    for (i, (name, step, advice)) in STEPS.iter().enumerate() {
        println!("[{}/{}] {name}", i + 1, STEPS.len());
        let began = Instant::now();
        let result = step(&mut state);
        println!("[{}/{}] {name}: {:.1} s", i + 1, STEPS.len(), began.elapsed().as_secs_f64());
        if result.is_err()
            && let Some(begun) = state.clients.take_if(|begun| !begun.is_finished())
        {
            println!("  {name} failed, as is said below; what was begun for the tests ends first");
            let _ = begun.join();
        }
        result.with_context(|| format!("ci: {name} failed; {advice}"))?;
    }
    println!("ci: all steps passed in {:.0} s", begin.elapsed().as_secs_f64());
    Ok(())
}

fn cargo(arguments: &[&str]) -> Command {
    let mut command = run::cargo();
    command.args(arguments);
    command
}

fn format(_: &mut Run) -> Result<()> {
    run::visibly(cargo(&["fmt", "--all", "--", "--check"]))
}

/// Packages of the distribution first, because everything may need them; the rest goes on beside the steps that compile.
fn setup(run: &mut Run) -> Result<()> {
    setup::packages();
    run.clients = Some(std::thread::spawn(setup::clients));
    Ok(())
}

fn deny(_: &mut Run) -> Result<()> {
    if !run::succeeds("cargo-deny", &["--version"]) {
        println!("  skipped: cargo-deny is not installed (cargo install cargo-deny --locked)");
        return Ok(());
    }
    // Advisories are not asked for: news from outside must not fail a change that did not cause them.
    run::visibly(cargo(&["deny", "--workspace", "check", "bans", "licenses", "sources"]))
}

fn clippy(_: &mut Run) -> Result<()> {
    run::visibly(cargo(&["clippy", "--workspace", "--all-targets", "--locked", "--", "-D", "warnings"]))
}

/// Tests and all: what is built for them has other features than what is built without, so building that first would
/// be building nearly everything twice.
fn build(_: &mut Run) -> Result<()> {
    run::visibly(cargo(&["test", "--workspace", "--locked", "--no-run"]))
}

fn test(run: &mut Run) -> Result<()> {
    let waited = run.clients.take().map(JoinHandle::join).context("nothing was set up")?;
    let clients =
        waited.map_err(|_| anyhow!("what tests need could not be set up: see the panic above"))??;
    if run.temp.exists() {
        std::fs::remove_dir_all(&run.temp)?;
    }
    std::fs::create_dir_all(&run.temp)?;
    // All that fails is said at once: another run costs half an hour.
    let mut test = cargo(&["test", "--workspace", "--locked", "--no-fail-fast"]);
    test.env_remove("ZAFFRE_GOLDEN").env_remove("ZAFFRE_TRANSCRIPT").env("TMPDIR", &run.temp);
    clients.tell(&mut test);
    run::visibly(test)
}

fn git(arguments: &[&str]) -> Command {
    let mut command = Command::new("git");
    command.current_dir(tools::workspace_root()).args(arguments);
    command
}

fn status() -> Result<String> {
    run::output(git(&["status", "--porcelain", "--untracked-files=all"]))
}

fn goldens(run: &mut Run) -> Result<()> {
    if run.before.is_none() {
        println!("  skipped: not a git checkout");
        return Ok(());
    }
    let mut diff = git(&["diff", "--exit-code", "--"]);
    diff.args(GOLDENS);
    run::visibly(diff)?;
    let mut untracked = git(&["ls-files", "--others", "--exclude-standard", "--"]);
    untracked.args(GOLDENS);
    let untracked = run::output(untracked)?;
    if !untracked.is_empty() {
        bail!("golden files that are not committed:\n{untracked}");
    }
    Ok(())
}

fn litter(run: &mut Run) -> Result<()> {
    let left: Vec<String> = std::fs::read_dir(&run.temp)?
        .map(|entry| entry.map(|e| e.path().display().to_string()))
        .collect::<std::io::Result<_>>()?;
    if !left.is_empty() {
        bail!("tests left temporary files:\n{}", left.join("\n"));
    }
    std::fs::remove_dir(&run.temp)?;
    match &run.before {
        Some(before) if *before != status()? => bail!("the run changed the checkout:\n{}", status()?),
        _ => Ok(()),
    }
}
