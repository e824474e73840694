//! What every test of Zaffre shares.
//!
//! The kit exists so that the cheap way to write a test is also the strong way:
//!
//! - [`golden`]: rendered things are compared with committed files, and a change shows up in review as a diff
//!   of the thing itself rather than of an assertion about it;
//! - [`transcript`]: behaviour seen by a real client is a text file of commands and answers, which someone who
//!   knows no Rust can read, extend and add to;
//! - [`normalize`]: both are only as stable as what they compare, so uids, times and versions become names;
//! - [`adversarial`]: every multi-step workflow gets the same three unfair questions for one line: what if a
//!   step runs twice, what if it fails here, what if the process dies here;
//! - [`world`]: time and randomness a test owns;
//! - [`server`] and [`tools`]: our binary and other people's clients, started and found without sleeping.
//!
//! It may touch files, processes and the environment, and nothing in it links a server: a test of a small
//! crate must not compile the large ones. Nothing here waits for time to pass; waits are for an event with a
//! deadline behind them. Failing an assertion is a panic here, as in any test, and happens in one function.
//!
//! Rejected: `insta` and `trycmd`. The first keeps a review state machine next to the files, the second wants
//! to own the process table; both are larger than what they would replace.

pub mod adversarial;
pub mod bench;
mod env;
pub mod golden;
pub mod normalize;
mod process;
pub mod server;
mod specs;
pub mod tools;
pub mod transcript;
pub mod world;

pub use golden::Mode;
pub use normalize::Normalizer;
pub use server::Server;
pub use specs::specs;

pub use transcript::Transcript;
pub use world::TestWorld;

/// An error and all its causes on one line, because our `Display` never repeats its source.
pub(crate) fn chain(error: &(dyn std::error::Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text.push_str(": ");
        text.push_str(&cause.to_string());
        source = cause.source();
    }
    text
}

/// Fails the calling test.
#[track_caller]
#[allow(clippy::panic, reason = "a failed assertion is what a test kit is for; this is the only one")]
pub(crate) fn fail(message: &str) -> ! {
    panic!("{message}")
}
