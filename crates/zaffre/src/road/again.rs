//! Questions that are asked again when the answer was none: an API server that restarts, or has too much to do.

use crate::output;
use reconcile::Backoff;
use std::time::Duration;

/// How often, and how long in between.
#[derive(Clone, Copy, Debug)]
pub struct Tries {
    pub most: u32,
    pub backoff: Backoff,
    /// Whether somebody looks on who wants to know why nothing happens.
    pub told: bool,
}

impl Tries {
    /// For what a person waits for: five, after 1, 2, 4 and 8 seconds.
    pub const fn of_a_person() -> Tries {
        let backoff = Backoff { first: Duration::from_secs(1), last: Duration::from_secs(8) };
        Tries { most: 5, backoff, told: true }
    }

    /// For one of many reads: three, soon.
    pub const fn of_many() -> Tries {
        let backoff = Backoff { first: Duration::from_millis(500), last: Duration::from_secs(2) };
        Tries { most: 3, backoff, told: false }
    }

    pub async fn ask<T>(self, question: impl AsyncFn() -> kube::Result<T>) -> kube::Result<T> {
        let mut failures = 0;
        loop {
            failures += 1;
            match question().await {
                Err(e) if failures < self.most && is_passing(&e) => {
                    let pause = self.backoff.wait(failures);
                    if self.told {
                        output::note(&format!("again    in {pause:?}: {e}"));
                    }
                    tokio::time::sleep(pause).await;
                }
                answer => return answer,
            }
        }
    }
}

/// Whether it may be otherwise in a moment.
fn is_passing(e: &kube::Error) -> bool {
    match e {
        kube::Error::Api(s) => matches!(s.code, 408 | 429 | 500 | 502..=504),
        kube::Error::HyperError(_) | kube::Error::Service(_) | kube::Error::ReadEvents(_) => true,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    fn status(code: u16) -> kube::Error {
        kube::Error::Api(Box::new(kube::core::Status { code, ..Default::default() }))
    }

    async fn asked(codes: &[u16]) -> (usize, Result<usize, u16>) {
        let backoff = Backoff { first: Duration::ZERO, last: Duration::ZERO };
        let tries = Tries { most: 5, backoff, told: false };
        let count = Cell::new(0);
        let answer = tries
            .ask(async || {
                let n = count.replace(count.get() + 1);
                codes.get(n).map_or(Ok(n), |code| Err(status(*code)))
            })
            .await;
        let answer = answer.map_err(|e| match e {
            kube::Error::Api(s) => s.code,
            _ => 0,
        });
        (count.get(), answer)
    }

    #[tokio::test]
    async fn what_passes_is_asked_again_and_nothing_else() {
        assert_eq!(asked(&[503, 429]).await, (3, Ok(2)));
        assert_eq!(asked(&[503, 403]).await, (2, Err(403)));
        assert_eq!(asked(&[500; 9]).await, (5, Err(500)));
        let tries = Tries::of_a_person();
        let waits: Vec<u64> = (1..tries.most).map(|n| tries.backoff.wait(n).as_secs()).collect();
        assert_eq!(waits, [1, 2, 4, 8]);
    }
}
