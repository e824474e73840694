//! `zaffre`: the one binary. It parses flags, composes the rooms, and prints what happened.

mod azure;
mod cli;
mod demo;
mod living;
mod output;
mod serve;

use clap::Parser;
use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let cli = cli::Cli::parse();
    output::logging(cli.verbose);
    match run(cli) {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            output::error(&e);
            ExitCode::FAILURE
        }
    }
}

fn run(cli: cli::Cli) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let result = match cli.command {
        cli::Command::Serve(cli::Serve { what }) => match what {
            cli::ServeWhat::Kube(args) => runtime.block_on(serve::kube(args)),
            cli::ServeWhat::Azure(args) => runtime.block_on(serve::azure::run(args)),
        },
        cli::Command::Azure(args) => runtime.block_on(azure::run(args)),
        cli::Command::Demo(args) => runtime.block_on(demo::run(args)),
        cli::Command::Completion { shell } => cli::completion(shell),
        cli::Command::Version { output } => output::version(output),
    };
    // Background work of a finished command is not waited for.
    runtime.shutdown_background();
    result
}
