//! One stored resource: what the client said plus what was generated. Ids, types, etags, states, counters and
//! back-references are added when it is shown.

use crate::kinds::Kind;
use crate::state::Key;
use arm::ResourceId;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::sync::Arc;

/// Where a resource is in its life.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Phase {
    Succeeded,
    Creating,
    Updating,
    Deleting,
    Failed,
}

impl Phase {
    pub fn as_str(&self) -> &'static str {
        match self {
            Phase::Succeeded => "Succeeded",
            Phase::Creating => "Creating",
            Phase::Updating => "Updating",
            Phase::Deleting => "Deleting",
            Phase::Failed => "Failed",
        }
    }
}

#[derive(Clone, Debug)]
pub struct Record {
    pub id: ResourceId,
    pub kind: &'static Kind,
    /// Everything but `id`, `name`, `type` and `etag`.
    pub doc: Map<String, Value>,
    /// One for the whole tree, as Azure's network provider does it.
    pub etag: String,
    pub phase: Phase,
    /// The operation under way, and the part (`subnets`, `name`) it is about.
    pub busy: Option<Box<(Arc<str>, Option<(String, String)>)>>,
    /// What this record refers to.
    pub targets: Vec<Key>,
    /// Object id of who made it, and when.
    pub created_by: Arc<str>,
    pub created: Timestamp,
    pub changed_by: Arc<str>,
    pub changed: Timestamp,
    /// Made by the simulator when it started.
    pub seeded: bool,
}

/// A record is a version of a resource: another allocation is another version, so that comparing two states costs
/// what differs, not what they hold.
impl PartialEq for Record {
    fn eq(&self, other: &Record) -> bool {
        std::ptr::eq(self, other)
    }
}

impl Eq for Record {}

/// The same with no room to grow: documents grow while they are worked on, then stay.
fn fitted(v: Value) -> Value {
    match v {
        Value::Object(m) => Value::Object(fitted_map(m)),
        Value::Array(l) => {
            let mut out = Vec::with_capacity(l.len());
            out.extend(l.into_iter().map(fitted));
            Value::Array(out)
        }
        Value::String(mut s) => {
            s.shrink_to_fit();
            Value::String(s)
        }
        other => other,
    }
}

fn fitted_map(m: Map<String, Value>) -> Map<String, Value> {
    let mut out = Map::with_capacity(m.len());
    for (mut k, v) in m {
        k.shrink_to_fit();
        out.insert(k, fitted(v));
    }
    out
}

impl Record {
    /// A resource that is done, made by somebody just now.
    pub fn new(
        id: ResourceId,
        kind: &'static Kind,
        doc: Map<String, Value>,
        by: Arc<str>,
        now: Timestamp,
    ) -> Record {
        Record {
            id,
            kind,
            doc,
            etag: String::new(),
            phase: Phase::Succeeded,
            busy: None,
            targets: Vec::new(),
            created_by: by.clone(),
            created: now,
            changed_by: by,
            changed: now,
            seeded: false,
        }
    }

    /// The same, if it was made before and is only changed now.
    pub fn since(mut self, old: Option<&Record>) -> Record {
        if let Some(old) = old {
            self.created_by = old.created_by.clone();
            self.created = old.created;
        }
        self
    }

    /// Takes as little memory as it can.
    pub fn fit(&mut self) {
        self.doc = fitted_map(std::mem::take(&mut self.doc));
        self.etag.shrink_to_fit();
        self.targets.shrink_to_fit();
    }

    pub fn properties(&self) -> Option<&Map<String, Value>> {
        self.doc.get("properties").and_then(Value::as_object)
    }

    pub fn property(&self, name: &str) -> Option<&Value> {
        self.properties().and_then(|p| p.get(name))
    }

    pub fn location(&self) -> Option<&str> {
        self.doc.get("location").and_then(Value::as_str)
    }

    /// An element of an embedded list by name.
    pub fn element(&self, list: &str, name: &str) -> Option<&Value> {
        let elements = self.property(list)?.as_array()?;
        elements.iter().find(|e| e["name"].as_str().is_some_and(|n| n.eq_ignore_ascii_case(name)))
    }

    /// Whether the whole or that part is settled.
    pub fn part_phase(&self, part: Option<(&str, &str)>) -> Phase {
        match (self.busy.as_deref(), part) {
            (Some((_, Some((list, name)))), Some((l, n))) => {
                if list.eq_ignore_ascii_case(l) && name.eq_ignore_ascii_case(n) {
                    self.phase.clone()
                } else {
                    Phase::Succeeded
                }
            }
            _ => self.phase.clone(),
        }
    }
}
