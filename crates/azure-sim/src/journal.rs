//! What happened: every call with principal, action, decision and time. No bodies, no tokens.

use crate::gateway::Seen;
use crate::wire::{Call, Reply};
use jiff::Timestamp;
use serde::Serialize;
use std::collections::VecDeque;

#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Entry {
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

#[derive(Debug, Default)]
pub struct Journal(VecDeque<Entry>);

impl Journal {
    pub fn add(&mut self, call: &Call, reply: &Reply, seen: Seen, at: Timestamp, micros: u64) {
        if self.0.len() >= MAX_ENTRIES {
            self.0.pop_front();
        }
        let body = reply.body.as_ref();
        let error = body.and_then(|b| b.get("error")?.get("code")?.as_str()).map(str::to_owned);
        self.0.push_back(Entry {
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
    }

    pub fn entries(&self) -> Vec<Entry> {
        self.0.iter().cloned().collect()
    }
}
