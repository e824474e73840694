//! Events live an hour.
//!
//! A key is the minute in which something said now will be old: however many events there are, one timer per
//! minute waits for them, and bodies are read only when it rings.

use crate::objects::{seconds_after, until, when};
use crate::{MANAGER, tables};
use ek_engine::{Controller, Delta, Keys, Outcome, split};
use ek_meta::Status;
use ek_server::{Access, Deletion, parse};
use futures::future::BoxFuture;
use jiff::Timestamp;

const LIFE: i64 = 3600;

pub struct OldEvents;

impl Controller for OldEvents {
    fn name(&self) -> &'static str {
        "event-ttl"
    }

    fn watches(&self) -> &'static [&'static str] {
        &["/events"]
    }

    fn concerns(&self, access: &Access, delta: &Delta, keys: &mut Keys) {
        if delta.current.is_some() {
            keys.push(((access.now().as_second() + LIFE) / 60 + 1).to_string());
        }
    }

    fn reconcile<'a>(&'a self, access: &'a Access, key: &'a str) -> BoxFuture<'a, Result<Outcome, Status>> {
        Box::pin(async move {
            let now = access.now();
            let at = key.parse::<i64>().ok().and_then(|m| Timestamp::from_second(m * 60).ok()).unwrap_or(now);
            if at > now {
                return Ok(Outcome::After(until(now, at)));
            }
            let access = access.manager(MANAGER);
            for (key, entry) in &access.table(&tables::EVENTS).objects {
                let Some(event) = parse(entry) else { continue };
                let times = [
                    "/lastTimestamp",
                    "/series/lastObservedTime",
                    "/eventTime",
                    "/metadata/creationTimestamp",
                ];
                let last = times.iter().filter_map(|t| when(&event, t)).max();
                if last.is_none_or(|t| seconds_after(t, LIFE) <= now) {
                    let (namespace, name) = split(key);
                    let how = Deletion { uid: Some(&entry.meta.uid), ..Deletion::default() };
                    access.delete(&tables::EVENTS, namespace, name, how).await?;
                }
            }
            Ok(Outcome::Done)
        })
    }
}
