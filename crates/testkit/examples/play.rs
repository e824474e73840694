//! Plays transcripts against whatever the environment points at, such as a real cluster in `KUBECONFIG`:
//!
//! ```text
//! ZAFFRE_GOLDEN=update cargo run -p testkit --example play -- crates/zaffre/tests/transcripts/crd.txt
//! ```
//!
//! That is how one finds out what the real thing answers before teaching ours to say the same.

use std::process::ExitCode;
use testkit::Transcript;

fn main() -> ExitCode {
    let mut failed = false;
    for path in std::env::args().skip(1) {
        match Transcript::new(&path).execute() {
            Ok(()) => eprintln!("ok {path}"),
            Err(e) => {
                failed = true;
                let mut cause: Option<&dyn std::error::Error> = Some(&e);
                while let Some(e) = cause {
                    eprintln!("{e}");
                    cause = e.source();
                }
            }
        }
    }
    if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}
