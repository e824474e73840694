//! What happened: every call with principal, action, decision and time. No bodies, no tokens.

use crate::gateway::Seen;
use crate::wire::{Call, Reply};
use http::Method;
use jiff::Timestamp;
use serde::Serialize;
use std::collections::{HashSet, VecDeque};
use std::sync::Arc;
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
    /// The fault rules that fired.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fault: Option<String>,
}

/// Older entries make room.
const MAX_ENTRIES: usize = 1 << 16;

/// An entry at rest: texts that repeat are shared, so that a full journal stays small. Its number follows from its
/// place.
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
    fault: Option<Arc<str>>,
}

/// Most scopes are the beginning of the path.
#[derive(Debug)]
enum Scope {
    OfPath(usize),
    Other(Box<str>),
}

#[derive(Debug)]
pub struct Journal {
    entries: VecDeque<Kept>,
    shared: HashSet<Arc<str>>,
    /// The number of the newest entry; a watch, so that readers may wait for the next.
    last: watch::Sender<u64>,
}

impl Default for Journal {
    fn default() -> Journal {
        Journal { entries: VecDeque::new(), shared: HashSet::new(), last: watch::Sender::new(0) }
    }
}

/// Beyond so many different texts they are not shared any more.
const MAX_SHARED: usize = 10_000;

impl Kept {
    fn shown(&self, number: u64) -> Entry {
        let text = |t: &Option<Arc<str>>| t.as_ref().map(|t| t.to_string());
        Entry {
            number,
            at: self.at.to_string(),
            method: self.method.to_string(),
            path: self.path.to_string(),
            status: self.status,
            principal: text(&self.principal),
            action: text(&self.action),
            scope: self.scope.as_ref().map(|s| match s {
                Scope::OfPath(n) => self.path.get(..*n).unwrap_or_default().to_owned(),
                Scope::Other(t) => t.to_string(),
            }),
            granted_by: text(&self.granted_by),
            error: text(&self.error),
            micros: self.micros,
            fault: text(&self.fault),
        }
    }
}

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
        let error = body.and_then(|b| match b.get("errors") {
            Some(list) => list.get(0)?.get("code")?.as_str(),
            None => b.get("error")?.get("code")?.as_str(),
        });
        // Storage says it in XML and in a header.
        let error = error.or_else(|| reply.headers.get("x-ms-error-code")?.to_str().ok());
        // Entra ID numbers its refusals.
        let number = body.and_then(|b| b.get("error_codes")?.get(0)?.as_i64()).map(|n| format!("AADSTS{n}"));
        let error = error.or(number.as_deref());
        let fault = seen.fault.as_deref();
        let [principal, action, granted_by, error, fault] =
            [seen.principal.as_deref(), seen.action.as_deref(), seen.granted_by.as_deref(), error, fault]
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
            fault,
        });
        self.last.send_modify(|n| *n += 1);
    }

    /// All entries, the newest first.
    fn backwards(&self) -> impl Iterator<Item = (u64, &Kept)> {
        (1..=self.last()).rev().zip(self.entries.iter().rev())
    }

    /// Looks at all that are kept, newest first, without making texts of them: time, status, error, whether a fault
    /// fired. Returns how many there ever were.
    pub fn each(&self, mut look: impl FnMut(Timestamp, u16, Option<&str>, bool)) -> u64 {
        for k in self.entries.iter().rev() {
            look(k.at, k.status, k.error.as_deref(), k.fault.is_some());
        }
        self.last()
    }

    pub fn entries(&self) -> Vec<Entry> {
        self.page(0, usize::MAX, |_| true)
    }

    /// Of the entries after number `after` whose principal fits, the newest `limit`, oldest first.
    pub fn page(&self, after: u64, limit: usize, fits: impl Fn(Option<&str>) -> bool) -> Vec<Entry> {
        let new = self.backwards().take_while(|(number, _)| *number > after);
        let fitting = new.filter(|(_, k)| fits(k.principal.as_deref())).take(limit);
        let mut page: Vec<Entry> = fitting.map(|(number, k)| k.shown(number)).collect();
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
