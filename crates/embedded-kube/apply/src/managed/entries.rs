//! The list on the wire and the table behind it.

use crate::fieldset::{FieldsError, Set};
use serde_json::{Map, Value};

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Operation {
    Apply,
    Update,
}

impl Operation {
    pub fn as_str(self) -> &'static str {
        match self {
            Operation::Apply => "Apply",
            Operation::Update => "Update",
        }
    }
}

/// One manager's share of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ManagedEntry {
    pub manager: String,
    pub operation: Operation,
    pub api_version: String,
    pub subresource: String,
    pub time: Option<String>,
    pub fields: Set,
}

impl ManagedEntry {
    /// Whether both entries are the same manager's. Appliers change version freely; an updater using two
    /// versions is two managers, because its set cannot be merged across them.
    pub fn same_manager(&self, other: &ManagedEntry) -> bool {
        self.manager == other.manager
            && self.operation == other.operation
            && self.subresource == other.subresource
            && (self.operation == Operation::Apply || self.api_version == other.api_version)
    }
}

/// Why a list of managed fields could not be read.
#[derive(Debug, thiserror::Error)]
pub enum DecodeError {
    #[error("managed fields are not a list of objects")]
    Shape,
    #[error("missing fieldsType in managed fields entry {0}")]
    NoFieldsType(usize),
    #[error("invalid fieldsType {1:?} in managed fields entry {0}")]
    FieldsType(usize, String),
    #[error("invalid operation type {1:?} in managed fields entry {0}")]
    Operation(usize, String),
    #[error("missing apiVersion in managed fields entry {0}")]
    ApiVersion(usize),
    #[error("invalid fields in managed fields entry {0}")]
    Fields(usize, #[source] FieldsError),
}

/// All managers of one object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Managers {
    pub entries: Vec<ManagedEntry>,
}

impl Managers {
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Reads the wire list. Two entries of one manager: the later one counts.
    pub fn decode(list: &Value) -> Result<Managers, DecodeError> {
        let Value::Array(items) = list else {
            return if list.is_null() { Ok(Managers::default()) } else { Err(DecodeError::Shape) };
        };
        Managers::decode_entries(items)
    }

    pub(crate) fn decode_entries<'v>(
        items: impl IntoIterator<Item = &'v Value>,
    ) -> Result<Managers, DecodeError> {
        let mut out = Managers::default();
        for (i, item) in items.into_iter().enumerate() {
            let entry = decode_entry(i, item.as_object().ok_or(DecodeError::Shape)?)?;
            match out.find_like(&entry) {
                Some(at) => out.entries[at] = entry,
                None => out.entries.push(entry),
            }
        }
        Ok(out)
    }

    /// Reads the wire list; an unreadable one is as good as none.
    pub fn decode_or_empty(list: Option<&Value>) -> Managers {
        list.map_or_else(Managers::default, |l| Managers::decode(l).unwrap_or_default())
    }

    /// The wire list in canonical order, or nothing if nobody manages anything.
    pub fn encode(&self) -> Option<Value> {
        self.encode_with_last(None)
    }

    /// As [`Managers::encode`]; `wire` is the form the last entry's set is known to have, which spares writing it.
    pub(crate) fn encode_with_last(&self, wire: Option<&Value>) -> Option<Value> {
        let last = self.entries.last()?;
        let fields = |e: &ManagedEntry| match wire {
            Some(wire) if std::ptr::eq(e, last) => wire.clone(),
            _ => e.fields.to_fields_v1(),
        };
        let mut order: Vec<&ManagedEntry> = self.entries.iter().collect();
        // Times are all in one zone and one precision, so their text orders as they do.
        order.sort_by(|a, b| {
            a.operation
                .cmp(&b.operation)
                .then_with(|| a.time.as_deref().unwrap_or("").cmp(b.time.as_deref().unwrap_or("")))
                .then_with(|| a.manager.cmp(&b.manager))
                .then_with(|| a.api_version.cmp(&b.api_version))
                .then_with(|| a.subresource.cmp(&b.subresource))
        });
        Some(Value::Array(order.into_iter().map(|e| encode_entry(e, fields(e))).collect()))
    }

    fn find_like(&self, entry: &ManagedEntry) -> Option<usize> {
        self.entries.iter().position(|e| e.same_manager(entry))
    }

    pub(crate) fn position(
        &self,
        manager: &str,
        operation: Operation,
        subresource: &str,
        api_version: &str,
    ) -> Option<usize> {
        self.entries.iter().position(|e| {
            e.operation == operation
                && e.manager == manager
                && e.subresource == subresource
                && (operation == Operation::Apply || e.api_version == api_version)
        })
    }

    pub(crate) fn drop_empty(&mut self) {
        self.entries.retain(|e| !e.fields.is_empty());
    }
}

fn decode_entry(i: usize, m: &Map<String, Value>) -> Result<ManagedEntry, DecodeError> {
    let text = |k: &str| m.get(k).and_then(Value::as_str).unwrap_or("");
    match text("fieldsType") {
        "FieldsV1" => {}
        "" => return Err(DecodeError::NoFieldsType(i)),
        other => return Err(DecodeError::FieldsType(i, other.to_owned())),
    }
    let operation = match text("operation") {
        "Apply" => Operation::Apply,
        "Update" => Operation::Update,
        other => return Err(DecodeError::Operation(i, other.to_owned())),
    };
    if text("apiVersion").is_empty() {
        return Err(DecodeError::ApiVersion(i));
    }
    let fields = match m.get("fieldsV1") {
        None | Some(Value::Null) => Set::new(),
        Some(v) => Set::from_fields_v1(v).map_err(|e| DecodeError::Fields(i, e))?,
    };
    Ok(ManagedEntry {
        manager: text("manager").to_owned(),
        operation,
        api_version: text("apiVersion").to_owned(),
        subresource: text("subresource").to_owned(),
        time: m.get("time").and_then(Value::as_str).map(canonical_time),
        fields,
    })
}

/// Clients in other languages write the same instant with an offset; books that say the same must stay the
/// same, or sending an object back unchanged would be a change.
fn canonical_time(t: &str) -> String {
    if t.len() == 20 && t.ends_with('Z') {
        return t.to_owned();
    }
    ek_meta::time::parse(t).map_or_else(|| t.to_owned(), ek_meta::time::rfc3339)
}

fn encode_entry(e: &ManagedEntry, fields: Value) -> Value {
    let mut m = Map::with_capacity(7);
    m.insert("manager".into(), e.manager.as_str().into());
    m.insert("operation".into(), e.operation.as_str().into());
    m.insert("apiVersion".into(), e.api_version.as_str().into());
    if let Some(t) = &e.time {
        m.insert("time".into(), t.as_str().into());
    }
    m.insert("fieldsType".into(), "FieldsV1".into());
    m.insert("fieldsV1".into(), fields);
    if !e.subresource.is_empty() {
        m.insert("subresource".into(), e.subresource.as_str().into());
    }
    Value::Object(m)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_list_is_ordered_and_round_trips() {
        let entry = |m: &str, op: &str, t: &str, sub: &str| {
            let mut e = json!({"manager": m, "operation": op, "apiVersion": "v1", "time": t,
                "fieldsType": "FieldsV1", "fieldsV1": {"f:a": {}}});
            if !sub.is_empty() {
                e["subresource"] = sub.into();
            }
            e
        };
        let (t1, t2) = ("2024-01-01T00:00:00Z", "2024-01-02T00:00:00Z");
        let given = json!([
            entry("z", "Update", t1, ""),
            entry("a", "Update", t2, "status"),
            entry("a", "Update", t2, ""),
            entry("b", "Apply", t2, ""),
            entry("c", "Apply", t1, "")
        ]);
        let want = json!([
            entry("c", "Apply", t1, ""),
            entry("b", "Apply", t2, ""),
            entry("z", "Update", t1, ""),
            entry("a", "Update", t2, ""),
            entry("a", "Update", t2, "status")
        ]);
        assert_eq!(Managers::decode(&given).unwrap().encode().unwrap().to_string(), want.to_string());
    }

    #[test]
    fn unreadable_lists_are_told_apart() {
        let ok = json!({"operation": "Update", "apiVersion": "v1", "fieldsType": "FieldsV1"});
        let mut cases = vec![(json!({}), "managed fields are not a list of objects")];
        for (key, value, want) in [
            ("fieldsType", "", "missing fieldsType in managed fields entry 0"),
            ("fieldsType", "V2", "invalid fieldsType \"V2\" in managed fields entry 0"),
            ("operation", "X", "invalid operation type \"X\" in managed fields entry 0"),
            ("apiVersion", "", "missing apiVersion in managed fields entry 0"),
            ("fieldsV1", "x", "invalid fields in managed fields entry 0"),
        ] {
            let mut e = ok.clone();
            e[key] = value.into();
            cases.push((json!([e]), want));
        }
        for (list, want) in cases {
            assert_eq!(Managers::decode(&list).unwrap_err().to_string(), want);
            assert!(Managers::decode_or_empty(Some(&list)).is_empty());
        }
        assert!(Managers::decode(&json!([ok])).is_ok());
    }
}
