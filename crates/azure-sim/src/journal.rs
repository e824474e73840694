//! What happened: every call with principal, action, decision and time. No bodies, no tokens.

use crate::gateway::Seen;
use crate::wire::{Call, Reply};
use http::Method;
use jiff::Timestamp;
use serde::Serialize;
use std::collections::{HashSet, VecDeque};
use std::sync::Arc;

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

/// An entry at rest: texts that repeat are shared, so that a full journal stays small.
#[derive(Debug)]
struct Kept {
    at: Timestamp,
    method: Method,
    path: Box<str>,
    status: u16,
    principal: Option<Arc<str>>,
    action: Option<Arc<str>>,
    scope: Option<Scope>,
    granted_by: Option<Arc<str>>,
    error: Option<Arc<str>>,
    micros: u64,
}

/// Most scopes are the beginning of the path.
#[derive(Debug)]
enum Scope {
    OfPath(usize),
    Other(Box<str>),
}

#[derive(Debug, Default)]
pub struct Journal {
    entries: VecDeque<Kept>,
    shared: HashSet<Arc<str>>,
}

/// Beyond so many different texts they are not shared any more.
const MAX_SHARED: usize = 10_000;

impl Journal {
    fn share(&mut self, text: &str) -> Arc<str> {
        if let Some(known) = self.shared.get(text) {
            return known.clone();
        }
        let new: Arc<str> = text.into();
        if self.shared.len() < MAX_SHARED {
            self.shared.insert(new.clone());
        }
        new
    }

    pub fn add(&mut self, call: &Call, reply: &Reply, seen: Seen, at: Timestamp, micros: u64) {
        if self.entries.len() >= MAX_ENTRIES {
            self.entries.pop_front();
        }
        let body = reply.body.as_ref();
        let error = body.and_then(|b| b.get("error")?.get("code")?.as_str());
        let [principal, action, granted_by, error] =
            [seen.principal.as_deref(), seen.action.as_deref(), seen.granted_by.as_deref(), error]
                .map(|t| t.map(|t| self.share(t)));
        let scope = seen.scope.map(|s| match call.path.starts_with(&s) {
            true => Scope::OfPath(s.len()),
            false => Scope::Other(s.into()),
        });
        self.entries.push_back(Kept {
            at,
            method: call.method.clone(),
            path: call.path.as_str().into(),
            status: reply.status.as_u16(),
            principal,
            action,
            scope,
            granted_by,
            error,
            micros,
        });
    }

    pub fn entries(&self) -> Vec<Entry> {
        let text = |t: &Option<Arc<str>>| t.as_ref().map(|t| t.to_string());
        let shown = |k: &Kept| Entry {
            at: k.at.to_string(),
            method: k.method.to_string(),
            path: k.path.to_string(),
            status: k.status,
            principal: text(&k.principal),
            action: text(&k.action),
            scope: k.scope.as_ref().map(|s| match s {
                Scope::OfPath(n) => k.path.get(..*n).unwrap_or_default().to_owned(),
                Scope::Other(t) => t.to_string(),
            }),
            granted_by: text(&k.granted_by),
            error: text(&k.error),
            micros: k.micros,
        };
        self.entries.iter().map(shown).collect()
    }
}
