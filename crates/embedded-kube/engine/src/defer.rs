//! Standing aside for the real thing.
//!
//! A kube-controller-manager or kube-scheduler that is pointed at a cluster takes its Lease in `kube-system`, as
//! it would to win against another of its kind. While that Lease is held and fresh, ours of the same trade rest;
//! when it runs out, they go on where things stand. Nobody has to be told, and nobody works against anybody.

use crate::{Controller, Delta, Keys, Outcome};
use ek_meta::Status;
use ek_server::{Access, registry::table_name};
use ek_store::{ClusterId, TableName};
use futures::future::BoxFuture;
use jiff::SignedDuration;
use serde_json::Value;
use std::sync::{Arc, LazyLock};

static LEASES: LazyLock<TableName> = LazyLock::new(|| table_name("coordination.k8s.io", "leases"));

struct Deferring {
    to: &'static str,
    inner: Arc<dyn Controller>,
}

/// The controllers, which rest in clusters where somebody holds the Lease `kube-system/<to>`.
pub fn deferring(to: &'static str, controllers: Vec<Arc<dyn Controller>>) -> Vec<Arc<dyn Controller>> {
    controllers.into_iter().map(|inner| Arc::new(Deferring { to, inner }) as Arc<dyn Controller>).collect()
}

/// How long the Lease is still good for.
fn held(access: &Access, name: &str) -> Option<SignedDuration> {
    let lease = access.get(&LEASES, "kube-system", name)?;
    let spec = &lease["spec"];
    spec["holderIdentity"].as_str().filter(|h| !h.is_empty())?;
    let renewed = spec["renewTime"].as_str().and_then(|t| t.parse::<jiff::Timestamp>().ok())?;
    let until =
        renewed.checked_add(SignedDuration::from_secs(Value::as_i64(&spec["leaseDurationSeconds"])?)).ok()?;
    let left = until.duration_since(access.now());
    left.is_positive().then_some(left)
}

impl Controller for Deferring {
    fn name(&self) -> &'static str {
        self.inner.name()
    }

    fn watches(&self) -> &'static [&'static str] {
        self.inner.watches()
    }

    fn concerns(&self, access: &Access, delta: &Delta, keys: &mut Keys) {
        self.inner.concerns(access, delta, keys);
    }

    fn reconcile<'a>(&'a self, access: &'a Access, key: &'a str) -> BoxFuture<'a, Result<Outcome, Status>> {
        match held(access, self.to) {
            Some(left) => Box::pin(async move { Ok(Outcome::After(left)) }),
            None => self.inner.reconcile(access, key),
        }
    }

    fn forget(&self, cluster: &ClusterId) {
        self.inner.forget(cluster);
    }
}
