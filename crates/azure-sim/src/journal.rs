//! What happened: every call with principal, action, decision and time. No bodies, no tokens.

use crate::gateway::Seen;
use crate::wire::{Call, Reply};
use jiff::Timestamp;
use serde::Serialize;
use std::collections::VecDeque;
use tokio::sync::watch;

#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Entry {
    /// Counts from 1 and is never used twice: readers go on after the last one they saw.
    pub number: u64,
    pub at: String,
    pub method: String,
    pub path: String,
    pub status: u16,
    pub principal: Option<String>,
    pub action: Option<String>,
    pub scope: Option<String>,
    pub granted_by: Option<String>,
    pub error: Option<String>,
    pub micros: u64,
}

/// Older entries make room.
const MAX_ENTRIES: usize = 100_000;

#[derive(Debug)]
pub struct Journal {
    entries: VecDeque<Entry>,
    /// The number of the newest entry; a watch, so that readers may wait for the next.
    last: watch::Sender<u64>,
}

impl Default for Journal {
    fn default() -> Journal {
        Journal { entries: VecDeque::new(), last: watch::Sender::new(0) }
    }
}

impl Journal {
    pub fn add(&mut self, call: &Call, reply: &Reply, seen: Seen, at: Timestamp, micros: u64) {
        if self.entries.len() >= MAX_ENTRIES {
            self.entries.pop_front();
        }
        let body = reply.body.as_ref();
        let error = body.and_then(|b| b.get("error")?.get("code")?.as_str()).map(str::to_owned);
        let number = *self.last.borrow() + 1;
        self.entries.push_back(Entry {
            number,
            at: at.to_string(),
            method: call.method.to_string(),
            path: call.path.clone(),
            status: reply.status.as_u16(),
            principal: seen.principal,
            action: seen.action,
            scope: seen.scope,
            granted_by: seen.granted_by,
            error,
            micros,
        });
        self.last.send_replace(number);
    }

    pub fn entries(&self) -> Vec<Entry> {
        self.entries.iter().cloned().collect()
    }

    /// Of the entries after number `after` that fit, the newest `limit`, oldest first.
    pub fn page(&self, after: u64, limit: usize, fits: impl Fn(&Entry) -> bool) -> Vec<Entry> {
        let newest_first = self.entries.iter().rev().take_while(|e| e.number > after);
        let mut page: Vec<Entry> = newest_first.filter(|e| fits(e)).take(limit).cloned().collect();
        page.reverse();
        page
    }

    pub fn last(&self) -> u64 {
        *self.last.borrow()
    }

    pub fn watch(&self) -> watch::Receiver<u64> {
        self.last.subscribe()
    }
}
