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

/// Where the flags of a sidecar begin: after `serve NAME` as we call it, or `control-plane-operator NAME` as OpenShift's
/// operators do.
pub fn flags_at(words: &[&str], name: &str) -> Option<usize> {
    let calls = |w: &str| w == "serve" || w.rsplit('/').next() == Some("control-plane-operator");
    words.windows(2).position(|w| calls(w[0]) && w[1] == name).map(|at| at + 2)
}

fn words(ctx: &ProgramContext, name: &str) -> Vec<String> {
    let all: Vec<&str> = ctx.command().iter().chain(ctx.args()).map(String::as_str).collect();
    let flags = flags_at(&all, name).map_or(&[][..], |at| &all[at..]);
    flags.iter().map(|w| (*w).to_owned()).collect()
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

#[cfg(test)]
mod tests {
    use super::flags_at;

    #[test]
    fn a_sidecar_answers_to_our_name_and_to_upstreams() {
        for (words, at) in [
            (&["/usr/bin/zaffre", "serve", "token-minter", "--oneshot"][..], Some(3)),
            (&["/usr/bin/control-plane-operator", "token-minter", "--oneshot"], Some(2)),
            (&["/usr/bin/control-plane-operator", "kas-bootstrap"], None),
            (&["/usr/bin/zaffre", "serve", "control-plane-operator", "--image=x"], None),
            (&["token-minter"], None),
            (&[], None),
        ] {
            assert_eq!(flags_at(words, "token-minter"), at, "{words:?}");
        }
    }
}
