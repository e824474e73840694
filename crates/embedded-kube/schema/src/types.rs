//! The type errors Go's JSON decoder would give for a built-in kind.
//!
//! Built-in kinds have no schema validation upstream: a wrong type fails in decoding, with a text that names
//! the Go struct and the whole path of the field in it. We have definitions instead of Go types; their names
//! end in the struct's.

use ek_meta::{Additional, Node, Schema, SchemaType};
use serde_json::Value;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TypeMismatch {
    /// `string`, `number`, `bool`, `object`, `array`, or `number 1.5`.
    pub found: String,
    /// `DeploymentSpec.spec.replicas`: the innermost struct, then the path. List positions do not appear.
    pub field: String,
    /// The Go type.
    pub expected: &'static str,
    /// The decoder of the type says itself what is wrong.
    pub why: Option<String>,
}

impl std::fmt::Display for TypeMismatch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let TypeMismatch { found, field, expected, why } = self;
        match why {
            Some(why) => f.write_str(why),
            None => {
                write!(f, "json: cannot unmarshal {found} into Go struct field {field} of type {expected}")
            }
        }
    }
}

impl std::error::Error for TypeMismatch {}

/// Checks that `value` could be decoded into the type `node` describes. Null decodes into anything.
pub fn check_types(value: &Value, node: Node<'_>) -> Result<(), TypeMismatch> {
    let quantity = node.defs.node(QUANTITY).map(|n| n.schema);
    let mut at = At { path: Vec::new(), owners: Vec::new() };
    check(value, node, quantity, &mut at).map_err(|mut e| {
        let owner = at.owners.iter().rev().find_map(|n| n.defs.name_of(n.schema));
        if let Some(name) = owner.and_then(|n| n.rsplit('.').next()) {
            e.field = format!("{name}.{}", e.field);
        }
        e
    })
}

/// The published definition of quantities is a plain string; numbers decode into it as well.
const QUANTITY: &str = "io.k8s.apimachinery.pkg.api.resource.Quantity";

/// Where the walk is. On an error both stacks stay as they were there.
struct At<'v, 'n> {
    path: Vec<&'v str>,
    owners: Vec<Node<'n>>,
}

fn check<'v, 'n>(
    v: &'v Value,
    node: Node<'n>,
    quantity: Option<&Schema>,
    at: &mut At<'v, 'n>,
) -> Result<(), TypeMismatch> {
    let s = node.schema;
    if v.is_null() || s.preserve_unknown {
        return Ok(());
    }
    let is_quantity = quantity.is_some_and(|q| std::ptr::eq(q, s));
    let format = if is_quantity { "quantity" } else { format_of(node) };
    if s.int_or_string || format == "int-or-string" {
        return match v {
            Value::Number(n) if n.is_i64() => Ok(()),
            Value::String(_) => Ok(()),
            _ => Err(mismatch(v, &at.path, "intstr.IntOrString")),
        };
    }
    let Some(ty) = s.ty else { return Ok(()) };
    match (ty, v) {
        (SchemaType::Object, Value::Object(o)) => {
            at.owners.push(node);
            for (k, child) in o {
                let Some(field) = node.field(k) else { continue };
                // Keys of a map are no fields, and are not named.
                let declared = node.property(k).is_some();
                if declared {
                    at.path.push(k);
                }
                check(child, field, quantity, at)?;
                if declared {
                    at.path.pop();
                }
            }
            at.owners.pop();
            Ok(())
        }
        (SchemaType::Object, _) if s.properties.is_empty() && matches!(s.additional, Additional::None) => {
            // Raw JSON.
            Ok(())
        }
        (SchemaType::Array, Value::Array(items)) => match node.items() {
            Some(item) => items.iter().try_for_each(|v| check(v, item, quantity, at)),
            None => Ok(()),
        },
        (SchemaType::String, Value::String(s)) => match unreadable(s, format) {
            Some(why) => Err(TypeMismatch { why: Some(why), ..mismatch(v, &at.path, go_type(ty, format)) }),
            None => Ok(()),
        },
        (SchemaType::String, Value::Number(_)) if format == "quantity" => Ok(()),
        (SchemaType::Boolean, Value::Bool(_)) => Ok(()),
        (SchemaType::Number, Value::Number(_)) => Ok(()),
        (SchemaType::Integer, Value::Number(n)) => integer(n, format, v, &at.path),
        (SchemaType::Object, v) => Err(mismatch(v, &at.path, map_type(node))),
        (ty, v) => Err(mismatch(v, &at.path, go_type(ty, format))),
    }
}

fn map_type(node: Node<'_>) -> &'static str {
    match &node.schema.additional {
        Additional::Schema(s) if s.ty == Some(SchemaType::String) => match s.format.as_deref() {
            Some("byte") => "map[string][]uint8",
            _ => "map[string]string",
        },
        _ => "map[string]interface {}",
    }
}

/// Why a decoder cannot read a text of this format.
fn unreadable(s: &str, format: &str) -> Option<String> {
    match format {
        "byte" => {
            use base64::Engine;
            // Line breaks are allowed anywhere.
            let plain: Vec<u8> = s.bytes().filter(|b| !matches!(b, b'\r' | b'\n')).collect();
            let e = base64::engine::general_purpose::STANDARD.decode(&plain).err()?;
            let at = match e {
                base64::DecodeError::InvalidByte(at, _) => at,
                _ => plain.len() / 4 * 4,
            };
            Some(format!("illegal base64 data at input byte {at}"))
        }
        "date-time" if !s.is_empty() && s.parse::<jiff::Timestamp>().is_err() => Some(format!(
            "parsing time {s:?} as \"2006-01-02T15:04:05Z07:00\": cannot parse {s:?} as \"2006\""
        )),
        _ => None,
    }
}

fn format_of<'n>(node: Node<'n>) -> &'n str {
    node.schema.format.as_deref().or(node.site.format.as_deref()).unwrap_or("")
}

fn integer(n: &serde_json::Number, format: &str, v: &Value, path: &[&str]) -> Result<(), TypeMismatch> {
    let expected = go_type(SchemaType::Integer, format);
    let whole = n.as_i64().or_else(|| {
        // `1.0` and `1e3` are integers to the lenient decoder.
        n.as_f64().filter(|f| f.fract() == 0.0 && f.abs() < 9.2e18).map(|f| f as i64)
    });
    let fits = match (whole, format) {
        (Some(i), "int32") => i32::try_from(i).is_ok(),
        (Some(_), _) => true,
        (None, _) => false,
    };
    if fits {
        return Ok(());
    }
    let mut e = mismatch(v, path, expected);
    e.found = format!("number {n}");
    Err(e)
}

fn go_type(ty: SchemaType, format: &str) -> &'static str {
    match (ty, format) {
        (SchemaType::Integer, "int32") => "int32",
        (SchemaType::Integer, _) => "int64",
        (SchemaType::Number, _) => "float64",
        (SchemaType::Boolean, _) => "bool",
        (SchemaType::String, "byte") => "[]uint8",
        (SchemaType::String, "date-time") => "time.Time",
        (SchemaType::String, "quantity") => "resource.Quantity",
        (SchemaType::String, _) => "string",
        (SchemaType::Array, _) => "[]interface {}",
        (SchemaType::Object, _) => "map[string]interface {}",
    }
}

fn mismatch(v: &Value, path: &[&str], expected: &'static str) -> TypeMismatch {
    let found = match v {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    };
    TypeMismatch { found: found.to_owned(), field: path.join("."), expected, why: None }
}
