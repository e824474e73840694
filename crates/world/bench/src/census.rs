//! Who writes what and who runs how often, counted from what servers and controllers say under the target `census`.

use anyhow::Context;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::{Arc, Mutex, PoisonError};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

/// What the management cluster is called.
const MANAGEMENT: &str = "main";

type Counts = Arc<Mutex<BTreeMap<String, u64>>>;

/// Counts while it is there.
pub struct Census(Counts);

impl Census {
    pub fn begin() -> anyhow::Result<Census> {
        let counts = Counts::default();
        tracing::subscriber::set_global_default(Listener(counts.clone()))
            .context("somebody listens already")?;
        Ok(Census(counts))
    }

    pub fn clear(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    /// To standard error, the most frequent first.
    pub fn print(&self) {
        let counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut all: Vec<_> = counts.iter().collect();
        all.sort_by(|a, b| b.1.cmp(a.1).then(a.0.cmp(b.0)));
        for (what, n) in all {
            eprintln!("{n:>6} {what}");
        }
    }
}

struct Listener(Counts);

/// The fields that tell kinds of events apart; names of objects and keys do not.
#[derive(Default)]
struct Kind(String);

impl Kind {
    fn add(&mut self, field: &Field, text: std::fmt::Arguments<'_>) {
        let space = if self.0.is_empty() { "" } else { " " };
        let _ = match field.name() {
            "name" | "key" => Ok(()),
            // All guests are one.
            "cluster" if text.to_string() == MANAGEMENT => Ok(()),
            "cluster" => write!(self.0, "{space}guest"),
            _ => write!(self.0, "{space}{text}"),
        };
    }
}

impl Visit for Kind {
    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        self.add(field, format_args!("{value:?}"));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.add(field, format_args!("{value}"));
    }
}

impl Subscriber for Listener {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target() == "census"
    }

    fn event(&self, event: &Event<'_>) {
        let mut kind = Kind::default();
        event.record(&mut kind);
        *self.0.lock().unwrap_or_else(PoisonError::into_inner).entry(kind.0).or_default() += 1;
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}
