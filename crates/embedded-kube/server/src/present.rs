//! Objects in the shape a client asked for: whole, as metadata only, or as rows of a table.

use crate::registry::Resource;
use crate::wire::negotiate::{MetaVersion, Shape};
use ek_meta::object::{at, str_at};
use ek_meta::time;
use jiff::Timestamp;
use serde_json::{Map, Value, json};

/// What rows carry of their object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum IncludeObject {
    None,
    Metadata,
    Object,
}

impl IncludeObject {
    pub fn parse(p: Option<&str>) -> Result<IncludeObject, ek_meta::Status> {
        match p {
            None | Some("Metadata") => Ok(IncludeObject::Metadata),
            Some("None") => Ok(IncludeObject::None),
            Some("Object") => Ok(IncludeObject::Object),
            Some(other) => Err(ek_meta::Status::bad_request(format!(
                "Unable to convert to Table as requested: includeObject: Invalid value: {other:?}: must be 'Metadata', 'Object', 'None', or empty"
            ))),
        }
    }
}

/// Only identity and metadata, under the meta group.
pub fn partial(obj: &Value, v: MetaVersion) -> Value {
    json!({
        "kind": "PartialObjectMetadata",
        "apiVersion": v.api_version(),
        "metadata": obj.get("metadata").cloned().unwrap_or_else(|| json!({})),
    })
}

/// Column definitions of a resource, as a Table has them.
pub fn columns(res: &Resource) -> Vec<Value> {
    let column = |name: &str, ty: &str, format: &str, description: &str, priority: i64| json!({"name": name, "type": ty, "format": format, "description": description, "priority": priority});
    let name = column("Name", "string", "name", NAME_DESCRIPTION, 0);
    match &res.custom {
        Some(c) => std::iter::once(name)
            .chain(c.columns.iter().map(|c| column(&c.name, &c.ty, &c.format, &c.description, c.priority)))
            .collect(),
        None => match ek_builtin::printers::columns(&res.group, &res.plural) {
            Some(cols) => cols
                .iter()
                .map(|c| column(c.name, c.ty, c.format, c.description, i64::from(c.priority)))
                .collect(),
            None => vec![name, column("Created At", "date", "", CREATED_DESCRIPTION, 0)],
        },
    }
}

const NAME_DESCRIPTION: &str = "Name must be unique within a namespace. Is required when creating resources, although some resources may allow a client to request the generation of an appropriate name automatically. Name is primarily intended for creation idempotence and configuration definition. Cannot be updated. More info: https://kubernetes.io/docs/concepts/overview/working-with-objects/names#names";
const CREATED_DESCRIPTION: &str =
    "CreationTimestamp is a timestamp representing the server time when this object was created.";

fn cells(res: &Resource, obj: &Value, now: Timestamp) -> Vec<Value> {
    let name = || json!(ek_meta::object::name(obj));
    match &res.custom {
        Some(c) => {
            std::iter::once(name()).chain(c.columns.iter().map(|c| custom_cell(c, obj, now))).collect()
        }
        None => ek_builtin::printers::row(&res.group, &res.plural, obj, now).unwrap_or_else(|| {
            vec![name(), json!(str_at(obj, &["metadata", "creationTimestamp"]).unwrap_or_default())]
        }),
    }
}

fn custom_cell(c: &crate::crd::Column, obj: &Value, now: Timestamp) -> Value {
    let found = c.path.find(obj);
    let Some(first) = found.first().copied() else { return Value::Null };
    match (c.ty.as_str(), first) {
        ("date", Value::String(s)) => match time::parse(s) {
            Some(t) => json!(time::human_duration(now.as_second() - t.as_second())),
            None => json!("<invalid>"),
        },
        ("integer", Value::Number(n)) => n.as_i64().map_or_else(|| json!(n), |i| json!(i)),
        ("number", Value::Number(n)) => json!(n),
        ("boolean", Value::Bool(b)) => json!(b),
        ("string", Value::String(s)) => json!(s),
        ("string", v) if found.len() == 1 => json!(v.to_string()),
        ("string", _) => {
            let text = |v: &Value| v.as_str().map_or_else(|| v.to_string(), str::to_owned);
            json!(found.iter().map(|v| text(v)).collect::<Vec<_>>().join(","))
        }
        _ => Value::Null,
    }
}

pub fn row(res: &Resource, obj: &Value, v: MetaVersion, include: IncludeObject, now: Timestamp) -> Value {
    let mut row = Map::new();
    row.insert("cells".into(), Value::Array(cells(res, obj, now)));
    if let Some(conditions) = ek_builtin::printers::row_conditions(&res.group, &res.plural, obj) {
        row.insert("conditions".into(), conditions);
    }
    match include {
        IncludeObject::None => {
            row.insert("object".into(), Value::Null);
        }
        IncludeObject::Metadata => {
            row.insert("object".into(), partial(obj, v));
        }
        IncludeObject::Object => {
            row.insert("object".into(), obj.clone());
        }
    }
    Value::Object(row)
}

/// A table of the given rows. `columns` is `None` in all but the first event of a watch.
pub fn table(v: MetaVersion, list_meta: Value, columns: Option<Vec<Value>>, rows: Vec<Value>) -> Value {
    json!({
        "kind": "Table",
        "apiVersion": v.api_version(),
        "metadata": list_meta,
        "columnDefinitions": columns,
        "rows": rows,
    })
}

/// One object in the given shape.
pub fn object(res: &Resource, obj: Value, shape: Shape, include: IncludeObject, now: Timestamp) -> Value {
    match shape {
        Shape::Object => obj,
        Shape::Partial(v) => partial(&obj, v),
        Shape::Table(v) => {
            let rv = at(&obj, &["metadata", "resourceVersion"]).cloned().unwrap_or_else(|| json!(""));
            let meta = json!({"resourceVersion": rv});
            table(v, meta, Some(columns(res)), vec![row(res, &obj, v, include, now)])
        }
    }
}
