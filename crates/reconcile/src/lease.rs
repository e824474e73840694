//! Only one of us works: leader election on a `coordination.k8s.io` Lease.
//!
//! The holder renews; whoever sees the Lease unrenewed for its whole duration, *by their own clock since they first saw
//! that renewal*, takes it. Nobody compares their clock with another's. The holder gives up well before others may
//! take over (renewal deadline < duration), so there are never two. A holder that stops on purpose releases the Lease,
//! and those who wait are told by a watch in that moment; they do not poll.
//!
//! Work is handed a token that is cancelled when leadership is lost; it then has what is left of the lease to end by
//! itself before it is dropped.

use crate::metrics::{LEADER, Metrics};
use crate::wait::{after, until};
use clock::SharedClock;
use futures::{FutureExt, StreamExt};
use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use kube::api::{Api, ObjectMeta, PostParams};
use kube::runtime::watcher::watch_object;
use kube::{Client, Resource};
use std::pin::pin;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// How long each thing may take. The defaults are those of the operators whose place we take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timing {
    /// Others wait this long after a renewal.
    pub duration: Duration,
    /// A holder that could not renew for this long is no longer one. Less than `duration`.
    pub deadline: Duration,
    /// From one renewal to the next. Less than `deadline`.
    pub retry: Duration,
}

impl Default for Timing {
    fn default() -> Timing {
        let s = Duration::from_secs;
        Timing { duration: s(60), deadline: s(40), retry: s(15) }
    }
}

/// How leading ended.
#[derive(Debug, PartialEq, Eq)]
pub enum Led<T> {
    /// The work was done, and the Lease released.
    Finished(T),
    /// The Lease was lost. The work ended in time, or was dropped.
    Lost(Option<T>),
    /// Stopped before it was our turn.
    Never,
}

/// A contender for one Lease.
#[derive(Clone)]
pub struct Elector {
    leases: Api<Lease>,
    name: String,
    identity: String,
    timing: Timing,
    clock: SharedClock,
    metrics: Metrics,
}

/// A renewal as we saw it.
#[derive(Clone, Debug)]
struct Seen {
    lease: Lease,
    at: Timestamp,
}

fn spec(lease: &Lease) -> LeaseSpec {
    lease.spec.clone().unwrap_or_default()
}

fn holder(spec: &LeaseSpec) -> &str {
    spec.holder_identity.as_deref().unwrap_or_default()
}

impl Elector {
    /// `identity` must be unlike any other's: a pod name and something random.
    pub fn new(client: &Client, namespace: &str, name: &str, identity: &str, clock: SharedClock) -> Elector {
        Elector {
            leases: Api::namespaced(client.clone(), namespace),
            name: name.to_owned(),
            identity: identity.to_owned(),
            timing: Timing::default(),
            clock,
            metrics: Metrics::default(),
        }
    }

    #[must_use]
    pub fn timing(mut self, timing: Timing) -> Elector {
        self.timing = timing;
        self
    }

    #[must_use]
    pub fn with_metrics(mut self, metrics: &Metrics) -> Elector {
        self.metrics = metrics.clone();
        self
    }

    /// Waits for its turn, works, and gives the Lease back. `work` is told to stop when `stop` says so or the Lease is
    /// lost.
    pub async fn lead<T, F: Future<Output = T>>(
        &self,
        stop: &CancellationToken,
        work: impl FnOnce(CancellationToken) -> F,
    ) -> Led<T> {
        let mut held = tokio::select! {
            () = stop.cancelled() => return Led::Never,
            held = self.acquire() => held,
        };
        tracing::info!(lease = self.name, identity = self.identity, "leading");
        self.metrics.set(&LEADER, &[&self.name], 1);
        let told = stop.child_token();
        let mut work = pin!(work(told.clone()).fuse());
        let lost = {
            let mut renewing = pin!(self.renew_while_possible(&mut held));
            tokio::select! {
                done = &mut work => Some(done),
                () = &mut renewing => None,
            }
        };
        self.metrics.set(&LEADER, &[&self.name], 0);
        if let Some(done) = lost {
            self.release(held.lease).await;
            return Led::Finished(done);
        }
        tracing::warn!(lease = self.name, identity = self.identity, "lost the lease");
        told.cancel();
        let grace = self.timing.duration.saturating_sub(self.timing.deadline) / 2;
        Led::Lost(tokio::time::timeout(grace, work).await.ok())
    }

    /// Until it is ours.
    async fn acquire(&self) -> Seen {
        let mut seen: Option<Seen> = None;
        let mut news = pin!(watch_object(self.leases.clone(), &self.name));
        let mut known = false;
        loop {
            if !known {
                match self.read().await {
                    Ok(lease) => self.note(&mut seen, lease),
                    Err(e) => {
                        tracing::debug!(lease = self.name, error = %e, "cannot read the lease");
                        tokio::time::sleep(self.timing.retry).await;
                        continue;
                    }
                }
            }
            let free_at = seen.as_ref().and_then(|s| self.free_at(s));
            if free_at.is_none_or(|at| at <= self.clock.now()) {
                known = false;
                match self.take(seen.as_ref().map(|s| &s.lease)).await {
                    Ok(lease) => return Seen { lease, at: self.clock.now() },
                    // Somebody was quicker: what they wrote is what we wait by.
                    Err(kube::Error::Api(s)) if s.code == 409 => {}
                    Err(e) => {
                        tracing::debug!(lease = self.name, error = %e, "cannot take the lease");
                        tokio::time::sleep(self.timing.retry).await;
                    }
                }
                continue;
            }
            // Wakes when the lease runs out, and when it changes: a release is news.
            known = true;
            tokio::select! {
                () = until(&self.clock, free_at) => {}
                event = news.next() => match event {
                    Some(Ok(lease)) => self.note(&mut seen, lease),
                    Some(Err(e)) => {
                        tracing::debug!(lease = self.name, error = %e, "cannot watch the lease");
                        tokio::time::sleep(self.timing.retry).await;
                    }
                    None => known = false,
                },
            }
        }
    }

    async fn read(&self) -> Result<Option<Lease>, kube::Error> {
        self.leases.get_opt(&self.name).await
    }

    fn note(&self, seen: &mut Option<Seen>, lease: Option<Lease>) {
        *seen = lease.map(|lease| match seen.take() {
            // Nothing new: it counts from when it was first seen.
            Some(s) if s.lease.meta().resource_version == lease.meta().resource_version => s,
            _ => Seen { lease, at: self.clock.now() },
        });
    }

    /// When others may take it; nothing if it is free.
    fn free_at(&self, seen: &Seen) -> Option<Timestamp> {
        let spec = spec(&seen.lease);
        if holder(&spec).is_empty() || holder(&spec) == self.identity {
            return None;
        }
        let seconds = u64::try_from(spec.lease_duration_seconds.unwrap_or(0)).unwrap_or(0);
        Some(after(seen.at, Duration::from_secs(seconds)))
    }

    /// Writes ourselves into the Lease as it was seen, or makes it. A conflict means that somebody was quicker.
    async fn take(&self, lease: Option<&Lease>) -> Result<Lease, kube::Error> {
        let now = MicroTime(self.clock.now());
        let old = lease.map(spec).unwrap_or_default();
        let changes_hands = holder(&old) != self.identity;
        let transitions = old.lease_transitions.unwrap_or(0) + i32::from(changes_hands && lease.is_some());
        let new = LeaseSpec {
            holder_identity: Some(self.identity.clone()),
            lease_duration_seconds: Some(i32::try_from(self.timing.duration.as_secs()).unwrap_or(i32::MAX)),
            acquire_time: if changes_hands { Some(now.clone()) } else { old.acquire_time },
            renew_time: Some(now),
            lease_transitions: Some(transitions),
            ..LeaseSpec::default()
        };
        self.write(lease, new).await
    }

    async fn write(&self, lease: Option<&Lease>, spec: LeaseSpec) -> Result<Lease, kube::Error> {
        let params = PostParams::default();
        match lease {
            Some(lease) => {
                let lease = Lease { metadata: lease.metadata.clone(), spec: Some(spec) };
                self.leases.replace(&self.name, &params, &lease).await
            }
            None => {
                let metadata = ObjectMeta { name: Some(self.name.clone()), ..ObjectMeta::default() };
                self.leases.create(&params, &Lease { metadata, spec: Some(spec) }).await
            }
        }
    }

    /// Renews; returns when it could not for too long, or when somebody else has it.
    async fn renew_while_possible(&self, held: &mut Seen) {
        loop {
            tokio::time::sleep(self.timing.retry).await;
            let deadline = after(held.at, self.timing.deadline);
            loop {
                let tried = tokio::select! {
                    () = until(&self.clock, Some(deadline)) => return,
                    tried = self.renew(held) => tried,
                };
                match tried {
                    Ok(true) => break,
                    Ok(false) => return,
                    Err(e) => {
                        tracing::debug!(lease = self.name, error = %e, "cannot renew the lease");
                        tokio::select! {
                            () = until(&self.clock, Some(deadline)) => return,
                            () = tokio::time::sleep(self.timing.retry / 5) => {}
                        }
                    }
                }
            }
        }
    }

    /// Whether it is still ours.
    async fn renew(&self, held: &mut Seen) -> Result<bool, kube::Error> {
        // Counted from before the request: the others may see it that early.
        let at = self.clock.now();
        let renewed = match self.take(Some(&held.lease)).await {
            Err(kube::Error::Api(s)) if s.code == 409 || s.code == 404 => match self.read().await? {
                // Somebody put a label on it, or an answer got lost.
                Some(lease) if holder(&spec(&lease)) == self.identity => self.take(Some(&lease)).await?,
                Some(_) => return Ok(false),
                None => self.take(None).await?,
            },
            other => other?,
        };
        *held = Seen { lease: renewed, at };
        Ok(true)
    }

    /// Gives it back: the next may have it at once. If that fails, it runs out by itself.
    async fn release(&self, lease: Lease) {
        let mut spec = spec(&lease);
        (spec.holder_identity, spec.lease_duration_seconds) = (Some(String::new()), Some(1));
        spec.renew_time = Some(MicroTime(self.clock.now()));
        let write = self.write(Some(&lease), spec);
        match tokio::time::timeout(self.timing.retry, write).await {
            Ok(Ok(_)) => {}
            Ok(Err(e)) => tracing::debug!(lease = self.name, error = %e, "cannot release the lease"),
            Err(_) => tracing::debug!(lease = self.name, "no answer to the release of the lease"),
        }
    }
}
