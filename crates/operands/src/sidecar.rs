//! Our own sidecars as programs: the container's words, read as the command line reads them.

use crate::place::PodPlace;
use crate::rings::Rings;
use ek_node::{Program, ProgramContext};
use futures::future::BoxFuture;
use sidecars::{Timing, minter, parse, prober};

pub struct TokenMinter {
    pub timing: Timing,
    pub rings: Rings,
}

/// The words after `serve NAME`.
fn words(ctx: &ProgramContext, name: &str) -> Vec<String> {
    let all: Vec<String> = ctx.command().iter().chain(ctx.args()).cloned().collect();
    let at = all.windows(2).position(|w| w[0] == "serve" && w[1] == name);
    at.map_or_else(Vec::new, |at| all[at + 2..].to_vec())
}

/// What programs do that are called the wrong way.
fn misused(ctx: &ProgramContext, why: impl std::fmt::Display) -> i32 {
    ctx.log(format!("error: {why}"));
    2
}

impl Program for TokenMinter {
    fn run(&self, ctx: ProgramContext) -> BoxFuture<'static, i32> {
        let (timing, rings) = (self.timing.clone(), self.rings.clone());
        Box::pin(async move {
            let args: minter::Args = match parse("token-minter", &words(&ctx, "token-minter")) {
                Ok(a) => a,
                Err(e) => return misused(&ctx, e),
            };
            let place = PodPlace { ctx: ctx.clone(), rings: Some(rings) };
            minter::run(&args, &place, &timing, ctx.stopping()).await
        })
    }
}

pub struct AvailabilityProber;

impl Program for AvailabilityProber {
    fn run(&self, ctx: ProgramContext) -> BoxFuture<'static, i32> {
        Box::pin(async move {
            let words = words(&ctx, "availability-prober");
            let args: prober::Args = match parse("availability-prober", &words) {
                Ok(a) => a,
                Err(e) => return misused(&ctx, e),
            };
            prober::run(&args, &PodPlace::new(&ctx), ctx.stopping()).await
        })
    }
}
