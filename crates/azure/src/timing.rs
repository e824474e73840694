//! Time and chance, handed in.

use clock::{Random, SharedClock};
use futures::future::BoxFuture;
use std::sync::Arc;
use std::time::Duration;

/// Waiting. Production waits; a test may move its clock instead and write down what was asked.
pub trait Pause: Send + Sync + 'static {
    fn pause(&self, time: Duration) -> BoxFuture<'_, ()>;
}

struct Real;

impl Pause for Real {
    fn pause(&self, time: Duration) -> BoxFuture<'_, ()> {
        Box::pin(tokio::time::sleep(time))
    }
}

/// What decides when things happen.
#[derive(Clone)]
pub struct Timing {
    pub clock: SharedClock,
    pub random: Random,
    pub pause: Arc<dyn Pause>,
}

impl Timing {
    /// The machine's clock and randomness.
    pub fn system() -> Timing {
        Timing { clock: clock::system(), random: Random::from_os(), pause: Arc::new(Real) }
    }

    /// Uniform in `0.0..1.0`.
    pub(crate) fn chance(&self) -> f64 {
        const STEPS: usize = 1 << 20;
        self.random.below(STEPS) as f64 / STEPS as f64
    }
}
