//! `FieldsV1`: the JSON form of a set.
//!
//! Each key is a kind letter, a colon and the element; the value holds what is below. `{}` alone means "this
//! path"; `"."` beside other keys means "this path too".

use super::{Element, Entry, Set};
use serde_json::{Map, Value};
use std::sync::Arc;

/// Why a `FieldsV1` value could not be read.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum FieldsError {
    #[error("fields at {0:?} are not an object")]
    NotAnObject(String),
    #[error("{0:?} is not a path element")]
    Element(String),
}

impl Set {
    /// The canonical `FieldsV1` value: keys sorted, so that its compact text is canonical too.
    pub fn to_fields_v1(&self) -> Value {
        Value::Object(self.write(false))
    }

    /// Compact canonical text.
    pub fn canonical(&self) -> String {
        self.to_fields_v1().to_string()
    }

    /// Whether `v` is exactly this set's canonical form, without building either.
    pub fn is_wire(&self, v: &Value) -> bool {
        v.as_object().is_some_and(|m| self.is_written(m, false))
    }

    fn is_written(&self, m: &Map<String, Value>, member: bool) -> bool {
        let mut rest = m.iter();
        if member && !self.is_empty() && rest.next().is_none_or(|(k, _)| k != ".") {
            return false;
        }
        rest.len() == self.entries.len()
            && rest.zip(&self.entries).all(|((key, below), e)| {
                let same = match &e.element {
                    Element::Field(name) => key.strip_prefix("f:") == Some(name),
                    other => *key == element_text(other),
                };
                same && below.as_object().is_some_and(|b| e.children.is_written(b, e.member))
            })
    }

    fn write(&self, member: bool) -> Map<String, Value> {
        let mut out = Map::with_capacity(self.entries.len() + usize::from(member));
        if member && !self.is_empty() {
            out.insert(".".to_owned(), Value::Object(Map::new()));
        }
        for e in &self.entries {
            out.insert(element_text(&e.element), Value::Object(e.children.write(e.member)));
        }
        out
    }

    /// Reads a `FieldsV1` value. Elements of unknown kinds are skipped, as a newer writer may know more.
    pub fn from_fields_v1(v: &Value) -> Result<Set, FieldsError> {
        let Value::Object(m) = v else { return Err(FieldsError::NotAnObject(String::new())) };
        read(m)
    }
}

fn read(m: &Map<String, Value>) -> Result<Set, FieldsError> {
    let mut entries = Vec::with_capacity(m.len());
    for (key, below) in m {
        if key == "." {
            continue;
        }
        let Some(element) = parse_element(key)? else { continue };
        let Value::Object(below) = below else { return Err(FieldsError::NotAnObject(key.clone())) };
        let member = below.is_empty() || below.contains_key(".");
        entries.push(Entry { element, member, children: read(below)? });
    }
    // Two spellings of one element (`1` and `1.0`, reordered keys) would break the sorted-unique invariant.
    let mut set = Set::from_entries(entries);
    set.entries.dedup_by(|b, a| {
        let same = a.element == b.element;
        if same {
            a.member |= b.member;
            a.children = a.children.union(&b.children);
        }
        same
    });
    Ok(set)
}

fn element_text(e: &Element) -> String {
    match e {
        Element::Field(name) => {
            let mut s = String::with_capacity(name.len() + 2);
            s.push_str("f:");
            s.push_str(name);
            s
        }
        Element::Key(fields) => {
            let mut s = String::from("k:{");
            for (i, (k, v)) in fields.iter().enumerate() {
                if i > 0 {
                    s.push(',');
                }
                push_json_string(&mut s, k);
                s.push(':');
                match v {
                    Value::String(text) => push_json_string(&mut s, text),
                    other => s.push_str(&other.to_string()),
                }
            }
            s.push('}');
            s
        }
        Element::Value(v) => format!("v:{v}"),
        Element::Index(i) => format!("i:{i}"),
    }
}

fn push_json_string(out: &mut String, text: &str) {
    if text.bytes().all(|b| b >= 0x20 && b != b'"' && b != b'\\') {
        out.push('"');
        out.push_str(text);
        out.push('"');
    } else {
        out.push_str(&Value::from(text).to_string());
    }
}

fn parse_element(key: &str) -> Result<Option<Element>, FieldsError> {
    let bad = || FieldsError::Element(key.to_owned());
    let Some((kind, rest)) = key.split_once(':') else { return Err(bad()) };
    Ok(Some(match kind {
        "f" => Element::field(rest),
        "k" => {
            let Ok(Value::Object(m)) = serde_json::from_str(rest) else { return Err(bad()) };
            let mut fields: Vec<(Box<str>, Value)> =
                m.into_iter().map(|(k, v)| (k.into_boxed_str(), v)).collect();
            fields.sort_by(|a, b| a.0.cmp(&b.0));
            Element::Key(fields.into())
        }
        "v" => Element::Value(Arc::new(serde_json::from_str(rest).map_err(|_| bad())?)),
        "i" => Element::Index(rest.parse().map_err(|_| bad())?),
        // One unknown letter is a kind from the future; anything else is no element at all.
        _ if kind.len() == 1 => return Ok(None),
        _ => return Err(bad()),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_text_is_canonical() {
        let v = json!({
            "v:\"b\"": {}, "i:3": {}, "f:z": {"f:y": {}, ".": {}}, "f:a": {},
            "k:{\"protocol\":\"TCP\",\"containerPort\":80}": {"f:x": {}, ".": {}},
            "k:{\"containerPort\":9,\"protocol\":\"TCP\"}": {}, "v:\"a\"": {}
        });
        assert_eq!(
            Set::from_fields_v1(&v).unwrap().canonical(),
            r#"{"f:a":{},"f:z":{".":{},"f:y":{}},"k:{\"containerPort\":9,\"protocol\":\"TCP\"}":{},"#
                .to_owned()
                + r#""k:{\"containerPort\":80,\"protocol\":\"TCP\"}":{".":{},"f:x":{}},"v:\"a\"":{},"v:\"b\"":{},"i:3":{}}"#
        );
    }

    #[test]
    fn unknown_kinds_are_skipped_and_nonsense_refused() {
        assert_eq!(Set::from_fields_v1(&json!({"q:x": {}, "f:a": {}})).unwrap(), Set::of_fields(&[&["a"]]));
        for bad in
            [json!([]), json!({"f:a": 1}), json!({"k:nope": {}}), json!({"plain": {}}), json!({"i:x": {}})]
        {
            assert!(Set::from_fields_v1(&bad).is_err(), "{bad}");
        }
        assert!(Set::from_fields_v1(&json!({".": {}})).unwrap().is_empty());
    }

    #[test]
    fn two_spellings_of_one_element_merge() {
        let s = Set::from_fields_v1(&json!({"v:1": {}, "v:1.0": {}})).unwrap();
        assert_eq!(s.len(), 1);
    }
}
