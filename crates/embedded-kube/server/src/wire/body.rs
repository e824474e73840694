//! Request bodies: bounded, decoded to JSON values, with unknown and duplicate fields found.

use super::negotiate::{BodyType, PatchType};
use ek_meta::Status;
use serde::de::{DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};
use std::fmt;

/// No request body may be larger.
pub const MAX_BODY: usize = 3 << 20;
/// Nesting beyond this is refused for every format (serde_json's own limit is 128 for JSON).
const MAX_DEPTH: usize = 100;

/// A decoded body, and what a strict reader would refuse in it.
#[derive(Debug, Default)]
pub struct Decoded {
    pub value: Value,
    /// Paths of fields that were given more than once.
    pub duplicates: Vec<String>,
    pub oddities: Oddities,
    /// Fields are met in the order of their names, not of the document.
    pub sorted: bool,
}

/// What only some formats can get wrong, in the words of their readers.
#[derive(Debug, Default)]
pub enum Oddities {
    #[default]
    None,
    /// Keys given twice: YAML counts lines, not paths.
    Yaml(Vec<String>),
    /// Operations with fields they do not have, or have twice.
    JsonPatch(Vec<String>),
}

impl Oddities {
    /// As warnings: one each.
    pub fn each(&self) -> &[String] {
        match self {
            Oddities::None => &[],
            Oddities::Yaml(v) | Oddities::JsonPatch(v) => v,
        }
    }

    /// As parts of one refusal.
    pub fn refusals(&self) -> Vec<String> {
        match self {
            Oddities::Yaml(lines) => vec![format!("yaml: unmarshal errors:\n  {}", lines.join("\n  "))],
            other => other.each().to_vec(),
        }
    }
}

pub fn decode(body: &[u8], ty: BodyType) -> Result<Decoded, Status> {
    match ty {
        BodyType::Json => json(body),
        BodyType::Yaml => yaml(body),
        BodyType::Protobuf => {
            let value = ek_proto::decode(body)
                .map_err(|e| Status::bad_request(format!("unable to decode protobuf body: {e}")))?;
            Ok(Decoded { value, ..Decoded::default() })
        }
    }
}

/// JSON, remembering duplicate keys (the last one wins, as in Go).
pub fn json(body: &[u8]) -> Result<Decoded, Status> {
    read_json(body).map_err(|e| Status::bad_request(format!("error parsing JSON body: {e}")))
}

/// [`json`], with the error as a Go program would put it.
pub fn read_json(body: &[u8]) -> Result<Decoded, String> {
    let mut twice = false;
    let mut value = parse(body, Seed { twice: &mut twice, named: None })?;
    let mut duplicates = Vec::new();
    if twice {
        // Rare enough to read the body again, now knowing where it is.
        let mut named = Named::default();
        value = parse(body, Seed { twice: &mut twice, named: Some(&mut named) })?;
        duplicates = named.duplicates;
    }
    Ok(Decoded { value, duplicates, ..Decoded::default() })
}

fn parse(body: &[u8], seed: Seed<'_>) -> Result<Value, String> {
    let mut de = serde_json::Deserializer::from_slice(body);
    let value = seed.deserialize(&mut de).and_then(|v| de.end().map(|()| v));
    value.map_err(|e| {
        if e.is_eof() {
            return "unexpected end of JSON input".to_owned();
        }
        let line = body.split(|b| *b == b'\n').nth(e.line().saturating_sub(1)).unwrap_or_default();
        match line.get(e.column().saturating_sub(1)).filter(|b| b.is_ascii_graphic()) {
            Some(b) if e.is_syntax() => {
                format!("invalid character '{}' looking for beginning of value", char::from(*b))
            }
            _ => e.to_string(),
        }
    })
}

/// The document of a patch that is not an apply.
pub fn patch(body: &[u8], ty: PatchType) -> Result<Decoded, Status> {
    let bad = |e: String| Status::bad_request(format!("error decoding patch: {e}"));
    let mut d = read_json(body).map_err(bad)?;
    let into = match ty {
        PatchType::Json if !d.value.is_array() => "[]handlers.jsonPatchOp",
        PatchType::Merge | PatchType::Strategic if !d.value.is_object() => "map[string]interface {}",
        PatchType::Json => {
            let extra = operations_fields(&d);
            if !extra.is_empty() {
                d.oddities = Oddities::JsonPatch(extra);
            }
            d.duplicates.clear();
            return Ok(d);
        }
        _ => return Ok(d),
    };
    Err(bad(format!("json: cannot unmarshal {} into Go value of type {into}", type_name(&d.value))))
}

fn operations_fields(d: &Decoded) -> Vec<String> {
    let ops = d.value.as_array().map(Vec::as_slice).unwrap_or_default();
    let mut out: Vec<String> = Vec::new();
    for (i, op) in ops.iter().enumerate() {
        for k in op.as_object().into_iter().flat_map(|o| o.keys()) {
            let at = format!("[{i}].{k}");
            if !matches!(k.as_str(), "op" | "path" | "from" | "value") {
                out.push(format!("json patch unknown field {at:?}"));
            } else if d.duplicates.contains(&at) {
                out.push(format!("json patch duplicate field {at:?}"));
            }
        }
    }
    out
}

/// YAML (of which JSON is a part). One document.
pub fn yaml(body: &[u8]) -> Result<Decoded, Status> {
    read_yaml(body).map_err(|e| Status::bad_request(format!("error decoding YAML: {e}")))
}

/// [`yaml`], with the reader's own error.
pub fn read_yaml(body: &[u8]) -> Result<Decoded, String> {
    // kubectl sends apply patches as JSON under a YAML name: the fast parser reads those.
    if body.first() == Some(&b'{')
        && let Ok(d) = read_json(body)
        && d.duplicates.is_empty()
    {
        return Ok(d);
    }
    let text = std::str::from_utf8(body).map_err(|e| e.to_string())?;
    // The last of two equal keys wins, and both reach the visitor, which says so.
    let options = serde_saphyr::options! { duplicate_keys: serde_saphyr::DuplicateKeyPolicy::LastWins };
    let mut lines = Vec::new();
    let value = serde_saphyr::with_deserializer_from_str_with_options(text, options, |de| {
        Lines(&mut lines).deserialize(de)
    })
    .map_err(|e| e.to_string())?;
    if ek_meta::object::deeper_than(&value, MAX_DEPTH) {
        return Err("nested too deeply".to_owned());
    }
    let oddities = if lines.is_empty() { Oddities::None } else { Oddities::Yaml(lines) };
    Ok(Decoded { value, oddities, sorted: true, ..Decoded::default() })
}

/// What both languages have: values that are no collections.
macro_rules! scalars {
    () => {
        fn visit_bool<E>(self, v: bool) -> Result<Value, E> {
            Ok(Value::Bool(v))
        }

        fn visit_i64<E>(self, v: i64) -> Result<Value, E> {
            Ok(Value::Number(v.into()))
        }

        fn visit_u64<E>(self, v: u64) -> Result<Value, E> {
            Ok(Value::Number(v.into()))
        }

        fn visit_f64<E>(self, v: f64) -> Result<Value, E> {
            Ok(Number::from_f64(v).map_or(Value::Null, Value::Number))
        }

        fn visit_str<E>(self, v: &str) -> Result<Value, E> {
            Ok(Value::String(v.to_owned()))
        }

        fn visit_string<E>(self, v: String) -> Result<Value, E> {
            Ok(Value::String(v))
        }

        fn visit_unit<E>(self) -> Result<Value, E> {
            Ok(Value::Null)
        }
    };
}

/// Reads one YAML value, noting keys that come twice.
struct Lines<'a>(&'a mut Vec<String>);

impl<'de> DeserializeSeed<'de> for Lines<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, d: D) -> Result<Value, D::Error> {
        d.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Lines<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any YAML value")
    }

    scalars!();

    fn visit_none<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_some<D: Deserializer<'de>>(self, d: D) -> Result<Value, D::Error> {
        d.deserialize_any(self)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Value, A::Error> {
        let mut out = Vec::new();
        while let Some(v) = seq.next_element_seed(Lines(self.0))? {
            out.push(v);
        }
        Ok(Value::Array(out))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Value, A::Error> {
        let mut out = Map::new();
        while let Some(key) = map.next_key::<serde_saphyr::Spanned<String>>()? {
            if out.contains_key(&key.value) && self.0.len() < 20 {
                self.0.push(format!(
                    "line {}: key {:?} already set in map",
                    key.referenced.line(),
                    key.value
                ));
            }
            let value = map.next_value_seed(Lines(self.0))?;
            out.insert(key.value, value);
        }
        Ok(Value::Object(out))
    }
}

/// What Go's decoder calls the type of a JSON value.
pub fn type_name(v: &Value) -> &'static str {
    match v {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

/// The names of duplicate fields.
#[derive(Default)]
struct Named {
    duplicates: Vec<String>,
    /// Path of the value being read; maintained with truncation, so it costs one buffer.
    path: String,
}

/// Reads one value. Says whether a field came twice; which one, only when asked for names.
struct Seed<'a> {
    twice: &'a mut bool,
    named: Option<&'a mut Named>,
}

impl Seed<'_> {
    /// For a value inside this one.
    fn inner(&mut self) -> Seed<'_> {
        Seed { twice: self.twice, named: self.named.as_deref_mut() }
    }

    fn path_len(&self) -> usize {
        self.named.as_ref().map_or(0, |n| n.path.len())
    }

    fn cut_path(&mut self, len: usize) {
        if let Some(n) = &mut self.named {
            n.path.truncate(len);
        }
    }
}

impl<'de> DeserializeSeed<'de> for Seed<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, d: D) -> Result<Value, D::Error> {
        d.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Seed<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any JSON value")
    }

    scalars!();

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut seq: A) -> Result<Value, A::Error> {
        let mut out = Vec::new();
        let len = self.path_len();
        loop {
            self.cut_path(len);
            if let Some(n) = &mut self.named {
                use std::fmt::Write;
                let _ = write!(n.path, "[{}]", out.len());
            }
            match seq.next_element_seed(self.inner())? {
                Some(v) => out.push(v),
                None => break,
            }
        }
        self.cut_path(len);
        Ok(Value::Array(out))
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut map: A) -> Result<Value, A::Error> {
        let mut out = Map::new();
        let len = self.path_len();
        while let Some(key) = map.next_key::<String>()? {
            if let Some(n) = &mut self.named {
                n.path.truncate(len);
                if len > 0 {
                    n.path.push('.');
                }
                n.path.push_str(&key);
                if out.contains_key(&key) && n.duplicates.len() < 20 && !n.duplicates.contains(&n.path) {
                    n.duplicates.push(n.path.clone());
                }
            }
            let value = map.next_value_seed(self.inner())?;
            *self.twice |= out.insert(key, value).is_some();
        }
        self.cut_path(len);
        Ok(Value::Object(out))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn duplicates_are_found_with_their_path() {
        let d = json(br#"{"a":1,"b":{"c":[{"d":1,"d":2}]},"a":3}"#).unwrap();
        assert_eq!(d.value["a"], 3);
        assert_eq!(d.duplicates, ["b.c[0].d", "a"]);
    }

    #[test]
    fn yaml_counts_lines() {
        let d = yaml(b"a: 1\nb:\n  c: x\n  c: yes\n").unwrap();
        assert_eq!(d.value, serde_json::json!({"a": 1, "b": {"c": true}}));
        assert_eq!(
            d.oddities.refusals(),
            ["yaml: unmarshal errors:\n  line 4: key \"c\" already set in map"]
        );
        let twice = br#"{"a":1,"a":2}"#;
        assert_eq!(yaml(twice).unwrap().oddities.each(), ["line 1: key \"a\" already set in map"]);
    }

    #[test]
    fn operations_have_four_fields() {
        let d = patch(br#"[{"op":"add","foo":1},{"value":1,"value":2}]"#, PatchType::Json).unwrap();
        let want = ["json patch unknown field \"[0].foo\"", "json patch duplicate field \"[1].value\""];
        assert_eq!(d.oddities.each(), want);
        let e = patch(b"{", PatchType::Merge).unwrap_err();
        assert_eq!(e.message, "error decoding patch: unexpected end of JSON input");
    }

    #[test]
    fn hostile_bodies_are_errors() {
        let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
        for bad in [&b"{"[..], b"\xff\xfe", b"{\"a\":1}x", b"", deep.as_bytes()] {
            assert_eq!(json(bad).unwrap_err().code, 400);
        }
        assert_eq!(yaml(b"a: [").unwrap_err().code, 400);
        assert_eq!(yaml(b"\xff").unwrap_err().code, 400);
        assert_eq!(yaml(b"a: 1\nb: [x]").unwrap().value, serde_json::json!({"a": 1, "b": ["x"]}));
    }
}
