//! Path elements: one step from a value to something inside it, and how steps order and print.
//!
//! The order is part of the wire format (field names, then associative keys, then set values, then indices;
//! each sorted), because field sets are stored as text and compared byte for byte by whoever watches.

use serde_json::{Number, Value};
use std::cmp::Ordering;
use std::fmt;
use std::sync::Arc;

/// One step of a path. Contents are shared, so that set algebra copies pointers and not text.
#[derive(Clone, Debug)]
pub enum Element {
    /// A member of an object.
    Field(Arc<str>),
    /// An item of an associative list, by its key fields sorted by name.
    Key(Arc<[(Box<str>, Value)]>),
    /// An item of a set, by its value.
    Value(Arc<Value>),
    /// An item of a list, by position. Nothing produces these; old data may hold them.
    Index(i64),
}

impl Element {
    pub fn field(name: &str) -> Element {
        Element::Field(Arc::from(name))
    }

    pub fn key<'a>(fields: impl IntoIterator<Item = (&'a str, Value)>) -> Element {
        let mut fields: Vec<(Box<str>, Value)> = fields.into_iter().map(|(k, v)| (k.into(), v)).collect();
        fields.sort_by(|a, b| a.0.cmp(&b.0));
        Element::Key(fields.into())
    }

    pub fn value(v: &Value) -> Element {
        Element::Value(Arc::new(v.clone()))
    }

    fn rank(&self) -> u8 {
        match self {
            Element::Field(_) => 0,
            Element::Key(_) => 1,
            Element::Value(_) => 2,
            Element::Index(_) => 3,
        }
    }
}

impl Ord for Element {
    fn cmp(&self, other: &Self) -> Ordering {
        match (self, other) {
            (Element::Field(a), Element::Field(b)) => a.cmp(b),
            (Element::Key(a), Element::Key(b)) => compare_keys(a, b),
            (Element::Value(a), Element::Value(b)) => compare_values(a, b),
            (Element::Index(a), Element::Index(b)) => a.cmp(b),
            _ => self.rank().cmp(&other.rank()),
        }
    }
}

impl PartialOrd for Element {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Element {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Element {}

fn compare_keys(a: &[(Box<str>, Value)], b: &[(Box<str>, Value)]) -> Ordering {
    for ((ka, va), (kb, vb)) in a.iter().zip(b) {
        let step = ka.cmp(kb).then_with(|| compare_values(va, vb));
        if step != Ordering::Equal {
            return step;
        }
    }
    a.len().cmp(&b.len())
}

/// Exact, also between integers and floats: rounding one to the other would make the order intransitive.
fn compare_numbers(a: &Number, b: &Number) -> Ordering {
    // Whole part, fraction, and the float itself for magnitudes where the whole part saturates.
    fn parts(n: &Number) -> (i128, f64, f64) {
        if let Some(i) = n.as_i64() {
            return (i128::from(i), 0.0, 0.0);
        }
        if let Some(u) = n.as_u64() {
            return (i128::from(u), 0.0, 0.0);
        }
        let f = n.as_f64().unwrap_or(0.0);
        if f.abs() > 1e30 { (f as i128, 0.0, f) } else { (f.floor() as i128, f - f.floor(), 0.0) }
    }
    let (wa, fa, xa) = parts(a);
    let (wb, fb, xb) = parts(b);
    wa.cmp(&wb).then(fa.total_cmp(&fb)).then(xa.total_cmp(&xb))
}

/// A total order on JSON values in which `1` and `1.0` are equal: numbers, strings, booleans, lists,
/// objects, null.
pub fn compare_values(a: &Value, b: &Value) -> Ordering {
    fn rank(v: &Value) -> u8 {
        match v {
            Value::Number(_) => 0,
            Value::String(_) => 1,
            Value::Bool(_) => 2,
            Value::Array(_) => 3,
            Value::Object(_) => 4,
            Value::Null => 5,
        }
    }
    match (a, b) {
        (Value::Number(x), Value::Number(y)) => compare_numbers(x, y),
        (Value::String(x), Value::String(y)) => x.cmp(y),
        (Value::Bool(x), Value::Bool(y)) => x.cmp(y),
        (Value::Array(x), Value::Array(y)) => {
            for (p, q) in x.iter().zip(y) {
                let step = compare_values(p, q);
                if step != Ordering::Equal {
                    return step;
                }
            }
            x.len().cmp(&y.len())
        }
        (Value::Object(x), Value::Object(y)) => {
            let mut kx: Vec<_> = x.iter().collect();
            let mut ky: Vec<_> = y.iter().collect();
            kx.sort_unstable_by(|p, q| p.0.cmp(q.0));
            ky.sort_unstable_by(|p, q| p.0.cmp(q.0));
            for ((p, vp), (q, vq)) in kx.iter().zip(&ky) {
                let step = p.cmp(q).then_with(|| compare_values(vp, vq));
                if step != Ordering::Equal {
                    return step;
                }
            }
            kx.len().cmp(&ky.len())
        }
        _ => rank(a).cmp(&rank(b)),
    }
}

/// Prints as conflicts do: `.spec`, `[name="nginx"]`, `[="v"]`, `[0]`.
impl fmt::Display for Element {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Element::Field(name) => write!(f, ".{name}"),
            Element::Key(fields) => {
                f.write_str("[")?;
                for (i, (k, v)) in fields.iter().enumerate() {
                    let comma = if i == 0 { "" } else { "," };
                    write!(f, "{comma}{k}={v}")?;
                }
                f.write_str("]")
            }
            Element::Value(v) => write!(f, "[={v}]"),
            Element::Index(i) => write!(f, "[{i}]"),
        }
    }
}

/// A full path from the object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Path(pub Vec<Element>);

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|e| e.fmt(f))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn numbers_compare_across_representations() {
        assert_eq!(compare_values(&json!(1), &json!(1.0)), Ordering::Equal);
        assert_eq!(compare_values(&json!(u64::MAX), &json!(1)), Ordering::Greater);
        assert_eq!(compare_values(&json!({"b": 1, "a": 2}), &json!({"a": 2, "b": 1})), Ordering::Equal);
        assert_eq!(compare_values(&json!("a"), &json!(9)), Ordering::Greater);
        assert_eq!(compare_values(&json!(null), &json!({})), Ordering::Greater);
    }

    #[test]
    fn paths_print_like_conflicts() {
        let p = Path(vec![
            Element::field("spec"),
            Element::key([("protocol", json!("TCP")), ("containerPort", json!(80))]),
            Element::value(&json!("x")),
            Element::Index(3),
        ]);
        assert_eq!(p.to_string(), ".spec[containerPort=80,protocol=\"TCP\"][=\"x\"][3]");
    }
}
