//! JSON patch (RFC 6902) and JSON merge patch (RFC 7386), as Kubernetes clients know them.
//!
//! The reference behaviour is a Go library with habits of its own, and clients rely on them: negative
//! indices count from the end, `test` for null holds where there is nothing, and the error texts are what
//! people search for. So the few operations are written here and not taken from a library with other
//! habits.
//!
//! A small patch must not buy a large document: the number of operations, what `copy` may add, and how deep
//! the result may nest are all bounded. Depth matters beyond this crate, because everything stored is read
//! back by a parser with a recursion limit.

use ek_meta::object::deeper_than;
use serde_json::{Map, Value};
use std::borrow::Cow;

const MAX_OPERATIONS: usize = 10_000;
/// Bytes all `copy` operations of one patch may add together.
const MAX_COPIED: usize = 3 * 1024 * 1024;
/// Just under what the JSON parser reads, with room for a list or event around the object.
const MAX_DEPTH: usize = 120;

#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum PatchError {
    #[error("The allowed maximum operations in a JSON patch is {MAX_OPERATIONS}, got {0}")]
    TooMany(usize),
    /// The patch is no list of operations.
    #[error("{0}")]
    Malformed(String),
    #[error("Unexpected kind: {0}")]
    Kind(String),
    #[error("testing value {0} failed: test failed")]
    TestFailed(String),
    #[error("{0}: missing value")]
    Missing(String),
    #[error("{0}: invalid index referenced")]
    Index(String),
    #[error(
        "Unable to complete the copy, the accumulated size increase of copy is {0}, exceeding the limit {MAX_COPIED}"
    )]
    CopyTooLarge(usize),
    #[error("{0} nests deeper than {MAX_DEPTH} levels")]
    TooDeep(String),
}

/// Applies a JSON patch. All operations succeed or the document is as before.
pub fn json_patch(mut doc: Value, ops: &Value) -> Result<Value, PatchError> {
    let Value::Array(ops) = ops else {
        return Err(PatchError::Malformed("json patch must be an array of operations".to_owned()));
    };
    if ops.len() > MAX_OPERATIONS {
        return Err(PatchError::TooMany(ops.len()));
    }
    let mut copied = 0;
    for op in ops {
        step(&mut doc, op, &mut copied)?;
    }
    Ok(doc)
}

fn step(doc: &mut Value, op: &Value, copied: &mut usize) -> Result<(), PatchError> {
    let malformed = |what: &str| PatchError::Malformed(what.to_owned());
    let op = op.as_object().ok_or_else(|| malformed("json patch operation must be an object"))?;
    let text = |k: &str| op.get(k).and_then(Value::as_str);
    let kind = text("op").unwrap_or("unknown");
    let path =
        || text("path").ok_or_else(|| malformed(&format!("{kind} operation has no path: missing value")));
    let from =
        || text("from").ok_or_else(|| malformed(&format!("{kind} operation has no from: missing value")));
    let value = || op.get("value").cloned().unwrap_or(Value::Null);
    match kind {
        "add" => {
            if op.get("value").is_none() {
                return Err(malformed("add operation has no value: missing value"));
            }
            add(doc, "add", path()?, value())
        }
        "remove" => remove(doc, "remove", path()?).map(drop),
        "replace" => replace(doc, path()?, value()),
        "move" => {
            let (path, from) = (path()?, from()?);
            let value = remove(doc, "move", from)?;
            add(doc, "move", path, value)
        }
        "copy" => {
            let (path, from) = (path()?, from()?);
            let value = match find(doc, from) {
                Some(v) => v.clone(),
                // A field its object does not have is null to the library that defines this.
                None => match parent(doc, "copy", from)? {
                    (Value::Object(_), _) => Value::Null,
                    (_, token) => return Err(bad_index("copy", from, &token)),
                },
            };
            *copied += value.to_string().len();
            if *copied > MAX_COPIED {
                return Err(PatchError::CopyTooLarge(*copied));
            }
            add(doc, "copy", path, value)
        }
        "test" => {
            let path = path()?;
            let want = op.get("value").unwrap_or(&Value::Null);
            let holds = match find(doc, path) {
                Some(found) => found == want || numbers_equal(found, want),
                None => want.is_null(),
            };
            if holds { Ok(()) } else { Err(PatchError::TestFailed(path.to_owned())) }
        }
        other => Err(PatchError::Kind(other.to_owned())),
    }
}

fn numbers_equal(a: &Value, b: &Value) -> bool {
    a.is_number() && b.is_number() && a.as_f64() == b.as_f64()
}

/// Pointer tokens, unescaped. A pointer must start with a slash; the empty one is the document.
fn tokens(path: &str) -> impl Iterator<Item = Cow<'_, str>> {
    path.split('/').skip(1).map(|t| {
        if t.contains('~') { Cow::Owned(t.replace("~1", "/").replace("~0", "~")) } else { Cow::Borrowed(t) }
    })
}

/// A position among `len` items; negative ones count from the end.
fn position(token: &str, len: usize) -> Option<usize> {
    let i: i64 = token.parse().ok()?;
    let i = if i < 0 { i.checked_add(i64::try_from(len).ok()?)? } else { i };
    usize::try_from(i).ok()
}

fn child<'a>(v: &'a Value, token: &str) -> Option<&'a Value> {
    match v {
        Value::Object(m) => m.get(token),
        Value::Array(a) => position(token, a.len()).and_then(|i| a.get(i)),
        _ => None,
    }
}

fn find<'a>(doc: &'a Value, path: &str) -> Option<&'a Value> {
    if !path.is_empty() && !path.starts_with('/') {
        return None;
    }
    tokens(path).try_fold(doc, |v, t| child(v, &t))
}

/// The container a pointer leads into, and the last token.
fn parent<'a, 'p>(
    doc: &'a mut Value,
    kind: &str,
    path: &'p str,
) -> Result<(&'a mut Value, Cow<'p, str>), PatchError> {
    let missing = || {
        // The library quotes the path for some operations and not for others.
        let shown = if kind == "replace" { path.to_owned() } else { format!("\"{path}\"") };
        PatchError::Missing(format!("{kind} operation does not apply: doc is missing path: {shown}"))
    };
    if !path.starts_with('/') {
        return Err(missing());
    }
    let mut at = doc;
    let mut tokens = tokens(path).peekable();
    while let Some(token) = tokens.next() {
        if tokens.peek().is_none() {
            return if at.is_object() || at.is_array() { Ok((at, token)) } else { Err(missing()) };
        }
        at = match at {
            Value::Object(m) => m.get_mut(&*token),
            Value::Array(a) => position(&token, a.len()).and_then(|i| a.get_mut(i)),
            _ => None,
        }
        .ok_or_else(missing)?;
    }
    Err(missing())
}

fn add(doc: &mut Value, kind: &str, path: &str, value: Value) -> Result<(), PatchError> {
    let levels = path.matches('/').count();
    if levels > MAX_DEPTH || deeper_than(&value, MAX_DEPTH - levels) {
        return Err(PatchError::TooDeep(path.to_owned()));
    }
    let (container, token) = parent(doc, kind, path)?;
    match container {
        Value::Object(m) => {
            m.insert(token.into_owned(), value);
        }
        Value::Array(a) if token == "-" => a.push(value),
        Value::Array(a) => {
            // Counting from the end, an insertion has one more place to go to than there are items.
            let at = position(&token, a.len() + 1)
                .filter(|i| *i <= a.len())
                .ok_or_else(|| bad_index(kind, path, &token))?;
            a.insert(at, value);
        }
        _ => {}
    }
    Ok(())
}

fn bad_index(kind: &str, path: &str, token: &str) -> PatchError {
    PatchError::Index(format!("error in {kind} for path: '{path}': Unable to access invalid index: {token}"))
}

fn remove(doc: &mut Value, kind: &str, path: &str) -> Result<Value, PatchError> {
    let (container, token) = parent(doc, kind, path)?;
    match container {
        Value::Object(m) => m.shift_remove(&*token).ok_or_else(|| {
            PatchError::Missing(format!(
                "error in {kind} for path: '{path}': Unable to remove nonexistent key: {token}"
            ))
        }),
        Value::Array(a) => {
            let at = position(&token, a.len())
                .filter(|i| *i < a.len())
                .ok_or_else(|| bad_index(kind, path, &token))?;
            Ok(a.remove(at))
        }
        _ => Ok(Value::Null),
    }
}

fn replace(doc: &mut Value, path: &str, value: Value) -> Result<(), PatchError> {
    let levels = path.matches('/').count();
    if levels > MAX_DEPTH || deeper_than(&value, MAX_DEPTH - levels) {
        return Err(PatchError::TooDeep(path.to_owned()));
    }
    let (container, token) = parent(doc, "replace", path)?;
    let slot = match container {
        // Unlike the standard, the library upstream uses replaces what is not there.
        Value::Object(m) => Some(m.entry(token.into_owned()).or_insert(Value::Null)),
        Value::Array(a) => position(&token, a.len()).and_then(|i| a.get_mut(i)),
        _ => None,
    };
    let missing =
        || PatchError::Missing(format!("replace operation does not apply: doc is missing key: {path}"));
    *slot.ok_or_else(missing)? = value;
    Ok(())
}

/// Applies a merge patch: objects merge, null deletes, anything else replaces.
pub fn merge_patch(mut doc: Value, patch: &Value) -> Value {
    merge_into(&mut doc, patch);
    doc
}

fn merge_into(doc: &mut Value, patch: &Value) {
    let Value::Object(p) = patch else {
        *doc = patch.clone();
        return;
    };
    if !doc.is_object() {
        *doc = Value::Object(Map::new());
    }
    let Value::Object(d) = doc else { return };
    for (k, v) in p {
        if v.is_null() {
            d.shift_remove(k);
        } else if let Some(inside) = d.get_mut(k) {
            merge_into(inside, v);
        } else {
            let mut fresh = Value::Null;
            merge_into(&mut fresh, v);
            d.insert(k.clone(), fresh);
        }
    }
}
