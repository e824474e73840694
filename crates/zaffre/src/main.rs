//! `zaffre`: the one binary. It parses flags, composes the rooms, and prints what happened.

mod azure;
mod cli;
mod demo;
mod down;
mod explain;
mod living;
mod output;
mod pages;
mod prereqs;
mod reach;
mod road;
mod serve;
mod up;

use clap::Parser;
use self_managed::{Refused, stream};
use std::ffi::OsString;
use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// What clap ends with when it cannot follow the flags.
const USAGE: u8 = 2;

fn main() -> ExitCode {
    let words = cli::names::words(std::env::args_os());
    let cli = match cli::Cli::try_parse_from(&words) {
        Ok(cli) => cli,
        Err(e) => return refused(&e, &words),
    };
    output::logging(cli.verbose);
    pages::choose(&cli.command);
    match run(cli) {
        Ok(code) => code,
        Err(e) => {
            output::error(&e);
            if is_of_flags(&e) { ExitCode::from(USAGE) } else { ExitCode::FAILURE }
        }
    }
}

/// Whether flags cannot be followed, or not together: that ends as what clap refuses.
fn is_of_flags(e: &anyhow::Error) -> bool {
    let stream = |e: &stream::Error| matches!(e, stream::Error::Name(_));
    e.is::<Refused>()
        || e.downcast_ref::<landing_zone::Error>().is_some_and(landing_zone::Error::is_of_flags)
        || e.downcast_ref::<stream::Error>().is_some_and(stream)
}

/// What the parser does not take; where a rule on flags was broken, with the way out.
fn refused(e: &clap::Error, words: &[OsString]) -> ExitCode {
    let words: Vec<String> = words.iter().map(|w| w.to_string_lossy().into_owned()).collect();
    match cli::fixes::explained(e, &words) {
        Some(why) => {
            output::error(&why.into());
            ExitCode::from(USAGE)
        }
        None => e.exit(),
    }
}

fn run(cli: cli::Cli) -> anyhow::Result<ExitCode> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let done = |r: anyhow::Result<()>| r.map(|()| ExitCode::SUCCESS);
    let result = match cli.command {
        cli::Command::Install(args) => done(runtime.block_on(road::install(args))),
        cli::Command::Uninstall(args) => done(runtime.block_on(road::uninstall(args))),
        cli::Command::Status(args) => done(runtime.block_on(road::status(args))),
        cli::Command::Upgrade(what) => runtime.block_on(road::upgrade(what)),
        cli::Command::Dump(cli::road::Dump::Cluster(args)) => runtime.block_on(road::dump(args)),
        cli::Command::Create(what) => runtime.block_on(prereqs::create(what, false)),
        cli::Command::Destroy(what) => runtime.block_on(prereqs::destroy(what, false)),
        cli::Command::Plan(cli::prereqs::Change::Create(what)) => {
            runtime.block_on(prereqs::create(what, true))
        }
        cli::Command::Plan(cli::prereqs::Change::Destroy(what)) => {
            runtime.block_on(prereqs::destroy(what, true))
        }
        cli::Command::Doctor(what) => runtime.block_on(prereqs::doctor(what)),
        cli::Command::Up(args) => done(runtime.block_on(up::run(args))),
        cli::Command::Down(args) => done(runtime.block_on(down::run(args))),
        cli::Command::Explain(what) => done(runtime.block_on(explain::run(what))),
        cli::Command::Serve(cli::Serve { what }) => runtime.block_on(serve::run(what)),
        cli::Command::Azure(args) => done(runtime.block_on(azure::run(args))),
        cli::Command::Demo(args) => done(runtime.block_on(demo::run(args))),
        cli::Command::Completion { shell } => done(cli::completion(shell)),
        cli::Command::Man { out } => done(cli::man(&out)),
        cli::Command::Version(args) => done(runtime.block_on(road::version(args))),
    };
    // Background work of a finished command is not waited for.
    runtime.shutdown_background();
    result
}
