//! Open files: every program listens, every client has a socket, and a hosted cluster has some dozens of both.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Raises what this process may have open to the most that it may ask for; how many that is, `None` for any number. What
/// cannot be raised stays as it is.
pub fn raise_limit() -> Option<u64> {
    let now = getrlimit(Resource::Nofile);
    if now.current == now.maximum {
        return now.current;
    }
    let most = Rlimit { current: now.maximum, maximum: now.maximum };
    match setrlimit(Resource::Nofile, most) {
        Ok(()) => now.maximum,
        Err(e) => {
            tracing::debug!(error = %e, "the number of open files stays limited");
            now.current
        }
    }
}
