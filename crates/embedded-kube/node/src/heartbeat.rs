//! Nodes that say they are there: a lease renewed often, a status repeated rarely.
//!
//! One controller for all nodes of all clusters. The engine's one timer wakes it; between two beats a node
//! costs nothing.

use crate::node::{self, EMBEDDED};
use crate::stage::mix;
use crate::{Inner, tables};
use ek_engine::{ClusterId, Controller, Delta, Keys, Outcome};
use ek_meta::{Status, object};
use ek_server::{Access, parse};
use futures::future::BoxFuture;
use jiff::SignedDuration;
use serde_json::{Value, json};
use std::sync::Weak;

/// How often an unchanged status is repeated.
const REPORT: SignedDuration = SignedDuration::from_mins(5);

pub(crate) struct Heartbeat(pub(crate) Weak<Inner>);

impl Controller for Heartbeat {
    fn name(&self) -> &'static str {
        "node-heartbeat"
    }

    fn watches(&self) -> &'static [&'static str] {
        &["/nodes"]
    }

    fn concerns(&self, _: &Access, delta: &Delta, keys: &mut Keys) {
        keys.push(delta.key.clone());
    }

    fn reconcile<'a>(&'a self, access: &'a Access, key: &'a str) -> BoxFuture<'a, Result<Outcome, Status>> {
        Box::pin(self.beat(access, key.trim_start_matches('/')))
    }

    fn forget(&self, cluster: &ClusterId) {
        if let Some(inner) = self.0.upgrade() {
            inner.forget(cluster);
        }
    }

    /// Machines run on while their API server is away.
    fn closed(&self, _: &ClusterId) {}
}

impl Heartbeat {
    async fn beat(&self, access: &Access, name: &str) -> Result<Outcome, Status> {
        let Some(inner) = &self.0.upgrade() else { return Ok(Outcome::Done) };
        let Some(entry) = access.entry(&tables::NODES, "", name) else {
            inner.drop_node(access.id(), name);
            return Ok(Outcome::Done);
        };
        let node = match inner.node(access.id(), name) {
            Some(n) => n,
            // One that an earlier process kept: it goes on.
            None => match parse(&entry).filter(|n| !n["metadata"]["annotations"][EMBEDDED].is_null()) {
                Some(object) => inner.adopt(access, &object),
                None => return Ok(Outcome::Done),
            },
        };
        if node.is_lost() {
            return Ok(Outcome::Done);
        }
        let now = access.now();
        let (beat, report, seen) = {
            let times = node.times.lock();
            (times.beat, times.report, times.seen)
        };
        if beat.is_none_or(|at| at <= now) {
            self.renew(access, name, &entry.meta.uid).await?;
            let mut wait = inner.options.heartbeat;
            if beat.is_none() {
                // Nodes that begin together do not go on together.
                let share = mix(inner.options.seed, &[access.id().as_str(), name], 0) % 512;
                wait = wait * (512 + i32::try_from(share).unwrap_or(0)) / 1024;
            }
            let next = now.checked_add(wait).unwrap_or(now);
            node.times.lock().beat = Some(next);
        }
        // Unless somebody wrote to it, an unchanged node is not even read.
        if seen != entry.revision || report.is_none_or(|at| at <= now) {
            self.report(access, name, &entry, report.is_none_or(|at| at <= now)).await?;
            let mut times = node.times.lock();
            times.seen = access.entry(&tables::NODES, "", name).map_or(0, |e| e.revision);
            if report.is_none_or(|at| at <= now) {
                times.report = now.checked_add(REPORT).ok();
            }
        }
        let times = node.times.lock();
        let next = [times.beat, times.report].into_iter().flatten().min().unwrap_or(now);
        Ok(Outcome::After(next.duration_since(now).max(SignedDuration::from_millis(1))))
    }

    async fn renew(&self, access: &Access, name: &str, uid: &str) -> Result<(), Status> {
        let lease = node::lease(name, uid, access.now());
        if access.entry(&tables::LEASES, "kube-node-lease", name).is_none() {
            return access.add(&tables::LEASES, lease).await.map(|_| ());
        }
        let renewed = |l: &mut Value| {
            l["spec"]["renewTime"] = lease["spec"]["renewTime"].clone();
            l["spec"]["holderIdentity"] = json!(name);
            true
        };
        access.update(&tables::LEASES, "kube-node-lease", name, "", renewed).await.map(|_| ())
    }

    /// Says that all is well, if that is not what the object says or it has not been said for long.
    async fn report(
        &self,
        access: &Access,
        name: &str,
        entry: &ek_store::Entry,
        due: bool,
    ) -> Result<(), Status> {
        let Some(object) = parse(entry) else { return Ok(()) };
        let ready = object["status"]["conditions"].as_array().into_iter().flatten();
        let ready = ready.into_iter().any(|c| c["type"] == "Ready" && c["status"] == "True");
        if ready && !due {
            return Ok(());
        }
        let now = access.now();
        let say = |n: &mut Value| {
            let old = n["status"]["conditions"].as_array().cloned().unwrap_or_default();
            let new = node::conditions(now, &old);
            let changed = new != old;
            n["status"]["conditions"] = Value::Array(new);
            changed && !object::uid(n).is_empty()
        };
        access.update(&tables::NODES, "", name, "status", say).await.map(|_| ())
    }
}
