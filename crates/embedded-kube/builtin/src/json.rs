//! Small verbs on JSON values, forgiving of shape.

use serde_json::{Map, Value};

pub(crate) type Obj = Map<String, Value>;

/// A member that is an object.
pub(crate) fn child<'a>(m: &'a mut Obj, key: &str) -> Option<&'a mut Obj> {
    m.get_mut(key).and_then(Value::as_object_mut)
}

/// Follows members that are objects.
pub(crate) fn descend<'a>(m: &'a mut Obj, path: &[&str]) -> Option<&'a mut Obj> {
    path.iter().try_fold(m, |m, k| child(m, k))
}

/// A member that is an object, created when absent or null; `None` only when it has another shape.
pub(crate) fn ensure<'a>(m: &'a mut Obj, key: &str) -> Option<&'a mut Obj> {
    let v = m.entry(key).or_insert(Value::Null);
    if v.is_null() {
        *v = Value::Object(Map::new());
    }
    v.as_object_mut()
}

/// Every object in a member that is a list.
pub(crate) fn each(m: &mut Obj, key: &str, mut f: impl FnMut(&mut Obj)) {
    if let Some(Value::Array(a)) = m.get_mut(key) {
        a.iter_mut().filter_map(Value::as_object_mut).for_each(&mut f);
    }
}

/// Absent and null are the same to Go.
pub(crate) fn absent(m: &Obj, key: &str) -> bool {
    m.get(key).is_none_or(Value::is_null)
}

/// Absent, or Go's zero value of its type: what a non-pointer field cannot tell apart from absent.
pub(crate) fn zero(m: &Obj, key: &str) -> bool {
    m.get(key).is_none_or(is_zero)
}

pub(crate) fn is_zero(v: &Value) -> bool {
    match v {
        Value::Null => true,
        Value::Bool(b) => !b,
        Value::Number(n) => n.as_f64() == Some(0.0),
        Value::String(s) => s.is_empty(),
        Value::Array(a) => a.is_empty(),
        Value::Object(m) => m.is_empty(),
    }
}

/// Default of a pointer field.
pub(crate) fn fill(m: &mut Obj, key: &str, v: impl Into<Value>) {
    if absent(m, key) {
        m.insert(key.to_owned(), v.into());
    }
}

/// Default of a plain field, where an explicit zero counts as absent.
pub(crate) fn fill_zero(m: &mut Obj, key: &str, v: impl Into<Value>) {
    if zero(m, key) {
        m.insert(key.to_owned(), v.into());
    }
}

pub(crate) fn text<'a>(m: &'a Obj, key: &str) -> &'a str {
    m.get(key).and_then(Value::as_str).unwrap_or_default()
}

/// A list member, empty when it is none.
pub(crate) fn list<'a>(v: &'a Value, key: &str) -> &'a [Value] {
    v.get(key).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

pub(crate) fn str_of<'a>(v: &'a Value, key: &str) -> &'a str {
    v.get(key).and_then(Value::as_str).unwrap_or_default()
}

pub(crate) fn int_of(v: &Value, key: &str) -> Option<i64> {
    v.get(key).and_then(Value::as_i64)
}

pub(crate) fn bool_of(v: &Value, key: &str) -> bool {
    v.get(key).and_then(Value::as_bool).unwrap_or_default()
}

/// Splits a quantity as nearly all are written, `100m` or `64Mi`: a whole number and one suffix. Exact decimals
/// cost a hundred times more to parse and print, and an object holds dozens.
pub(crate) fn simple_quantity(s: &str) -> Option<(u64, &str)> {
    let end = s.bytes().position(|b| !b.is_ascii_digit()).unwrap_or(s.len());
    // Eighteen digits fit any suffix check below without overflow.
    if end == 0 || end > 18 || (end > 1 && s.starts_with('0')) {
        return None;
    }
    let (digits, suffix) = s.split_at(end);
    let known = matches!(
        suffix,
        "" | "n" | "u" | "m" | "k" | "M" | "G" | "T" | "P" | "E" | "Ki" | "Mi" | "Gi" | "Ti" | "Pi" | "Ei"
    );
    if !known { None } else { digits.parse().ok().map(|n| (n, suffix)) }
}

/// Whether a simple quantity has no larger suffix that says the same.
pub(crate) fn is_canonical(s: &str) -> bool {
    match simple_quantity(s) {
        Some((0, suffix)) => suffix.is_empty(),
        Some((n, suffix)) if suffix.ends_with('i') => !n.is_multiple_of(1024),
        Some((n, _)) => !n.is_multiple_of(1000),
        None => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ek_meta::quantity::Quantity;

    /// The short cut may only say yes where the exact arithmetic agrees.
    #[test]
    fn canonical_means_canonical() {
        let mut yes = 0;
        for n in [
            "0",
            "1",
            "5",
            "10",
            "100",
            "999",
            "1000",
            "1023",
            "1024",
            "1500",
            "2048",
            "64000",
            "01",
            "123456789",
        ] {
            for suffix in ["", "n", "u", "m", "k", "M", "G", "Ki", "Mi", "Gi", "Ti", "e3", "x"] {
                let s = format!("{n}{suffix}");
                if is_canonical(&s) {
                    yes += 1;
                    assert_eq!(s.parse::<Quantity>().map(|q| q.to_string()).as_deref(), Ok(s.as_str()));
                }
            }
        }
        assert!(yes > 60, "{yes}");
    }
}
