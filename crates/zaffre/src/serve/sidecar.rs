//! `zaffre serve token-minter` and `serve availability-prober`: the sidecars, on a real machine.

use crate::output;
use sidecars::{Machine, Timing, minter, prober};
use std::process::ExitCode;
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

/// Cancelled by the first signal that asks to end.
pub(super) fn until_told() -> anyhow::Result<CancellationToken> {
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    let stop = CancellationToken::new();
    let told = stop.clone();
    tokio::spawn(async move {
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
        }
        told.cancel();
    });
    Ok(stop)
}

fn exit(code: i32) -> ExitCode {
    ExitCode::from(u8::try_from(code).unwrap_or(1))
}

pub async fn token_minter(args: minter::Args) -> anyhow::Result<ExitCode> {
    let stop = until_told()?;
    Ok(exit(minter::run(&args, &Machine(output::note), &Timing::system(), &stop).await))
}

pub async fn availability_prober(args: prober::Args) -> anyhow::Result<ExitCode> {
    let stop = until_told()?;
    Ok(exit(prober::run(&args, &Machine(output::note), &stop).await))
}
