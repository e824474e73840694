//! Where a program runs.

use clock::{Random, SharedClock};
use futures::future::BoxFuture;
use jiff::Timestamp;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// The surroundings of a program. [`Machine`] is a real one; a simulated node has its own.
pub trait Place: Send + Sync + 'static {
    /// Where a path of the container really is; `None` if there is no such place.
    fn path(&self, path: &str) -> Option<PathBuf>;

    /// Where a host name leads. `Ok(None)` leaves it to the resolver; an error says why nobody is there.
    fn route(&self, host: &str, port: u16) -> Result<Option<SocketAddr>, String>;

    /// A client of the cluster that the pod is in, as the pod's service account.
    fn here(&self) -> BoxFuture<'_, Result<kube::Client, String>>;

    /// Writes a line to the log.
    fn say(&self, line: &str);

    /// Done when names may lead elsewhere than they did when this was called. On a machine nobody says.
    fn moved(&self) -> BoxFuture<'static, ()> {
        Box::pin(std::future::pending())
    }

    /// Told after a file was replaced; on a machine whoever cares looks for itself.
    fn replaced(&self, _path: &str) {}
}

/// Time and chance.
#[derive(Clone)]
pub struct Timing {
    pub clock: SharedClock,
    pub random: Random,
    /// The clock is looked at this often while waiting for it: machines sleep, clocks are set.
    pub look: Duration,
}

impl Timing {
    pub fn system() -> Timing {
        Timing { clock: clock::system(), random: Random::from_os(), look: Duration::from_secs(15) }
    }

    /// Waits until the clock shows this, or for word to stop; whether it was the clock.
    pub async fn until(&self, at: Timestamp, stop: &CancellationToken) -> bool {
        loop {
            let left = at.duration_since(self.clock.now());
            let Ok(left) = Duration::try_from(left) else { return !stop.is_cancelled() };
            if left.is_zero() {
                return !stop.is_cancelled();
            }
            tokio::select! {
                () = stop.cancelled() => return false,
                () = tokio::time::sleep(left.min(self.look)) => {}
            }
        }
    }
}

/// A real machine: paths are paths, names are resolved, the account is the one that is mounted.
pub struct Machine<S>(pub S);

impl<S: Fn(&str) + Send + Sync + 'static> Place for Machine<S> {
    fn path(&self, path: &str) -> Option<PathBuf> {
        Some(PathBuf::from(path))
    }

    fn route(&self, _: &str, _: u16) -> Result<Option<SocketAddr>, String> {
        Ok(None)
    }

    fn here(&self) -> BoxFuture<'_, Result<kube::Client, String>> {
        Box::pin(async {
            let config = kube::Config::incluster().map_err(|e| crate::chain(&e))?;
            kube::Client::try_from(config).map_err(|e| crate::chain(&e))
        })
    }

    fn say(&self, line: &str) {
        (self.0)(line);
    }
}
