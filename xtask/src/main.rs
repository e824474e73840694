//! Chores of the workspace: `cargo xtask <chore>`.
//!
//! Whatever a person or a machine does to this repository besides editing it has one name here, so that the
//! README, CI and a newcomer's shell history say the same thing. Chores are plain programs: they print what
//! they run, and they may fail with a sentence that says what to do.

#![allow(clippy::print_stdout, reason = "a chore talks to the person who runs it")]

mod bench;
mod ci;
mod conformance;
mod deps;
mod golden;
mod run;
mod setup;
mod tables;

use clap::{Parser, Subcommand};
use std::path::PathBuf;
use std::process::ExitCode;

/// Chores of the Zaffre workspace.
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
struct Arguments {
    #[command(subcommand)]
    chore: Chore,
}

#[derive(Subcommand)]
enum Chore {
    /// Everything a change must pass, cheapest first.
    Ci,
    /// Run a benchmark in release mode; without a name, all of them.
    Bench {
        /// Which one.
        #[arg(value_parser = bench::names())]
        name: Option<String>,
        /// Also write the figures to this file.
        #[arg(long, value_name = "FILE")]
        json: Option<PathBuf>,
        /// Passed on to the benchmark.
        #[arg(last = true)]
        rest: Vec<String>,
    },
    /// Compare all golden files and transcripts, or rewrite them.
    Golden {
        /// Rewrite instead of compare; then read `git diff`.
        #[arg(long)]
        update: bool,
    },
    /// Kubernetes' own specs for API machinery against a server of ours; not part of CI.
    Conformance {
        /// A test binary built before, instead of building one.
        #[arg(long, value_name = "FILE")]
        binary: Option<PathBuf>,
        /// Other specs than those of API machinery that are marked as conformance (a regular expression).
        #[arg(long, value_name = "REGEX")]
        focus: Option<String>,
    },
    /// Check that every crate inherits what the workspace decides.
    Deps,
    /// Install what the tests with real clients need: packages, target/venv, target/tools.
    Setup,
    /// Regenerate the committed tables of ek-data.
    Tables,
    /// Cluster API's and its Azure provider's own controllers against a world of ours; not part of CI.
    Upstream,
}

fn main() -> ExitCode {
    let result = match Arguments::parse().chore {
        Chore::Ci => ci::run(),
        Chore::Bench { name, json, rest } => bench::run(name.as_deref(), json.as_deref(), &rest),
        Chore::Golden { update } => golden::run(update),
        Chore::Conformance { binary, focus } => conformance::run(binary, focus.as_deref()),
        Chore::Deps => deps::run(),
        Chore::Setup => setup::run().map(drop),
        Chore::Tables => tables::generate(),
        Chore::Upstream => upstream(),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            // The chain of reasons is for the person; a backtrace of the chore would bury it.
            eprintln!("error: {e:#}");
            ExitCode::FAILURE
        }
    }
}

/// Go takes minutes to build them, hence not part of CI.
fn upstream() -> anyhow::Result<()> {
    let mut test = run::cargo();
    test.args(["test", "--locked", "--package", "world", "--test", "main", "upstream", "--", "--nocapture"]);
    test.env("ZAFFRE_UPSTREAM", "1");
    run::visibly(test)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_sound() {
        Arguments::command().debug_assert();
        assert!(
            Arguments::try_parse_from(["x", "bench", "kube", "--json", "f", "--", "--objects", "5"]).is_ok()
        );
        assert!(Arguments::try_parse_from(["x", "bench", "nonsense"]).is_err());
    }
}
