//! Request bodies: bounded, decoded to JSON values, with unknown and duplicate fields found.

use super::negotiate::BodyType;
use ek_meta::Status;
use serde::de::{DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};
use std::fmt;

/// No request body may be larger.
pub const MAX_BODY: usize = 3 << 20;
/// Nesting beyond this is refused for every format (serde_json's own limit is 128 for JSON).
const MAX_DEPTH: usize = 100;

/// A decoded body and the paths of fields that were given more than once.
#[derive(Debug)]
pub struct Decoded {
    pub value: Value,
    pub duplicates: Vec<String>,
}

pub fn decode(body: &[u8], ty: BodyType) -> Result<Decoded, Status> {
    match ty {
        BodyType::Json => json(body),
        BodyType::Yaml => yaml(body),
        BodyType::Protobuf => {
            let value = ek_proto::decode(body)
                .map_err(|e| Status::bad_request(format!("unable to decode protobuf body: {e}")))?;
            Ok(Decoded { value, duplicates: Vec::new() })
        }
    }
}

/// JSON, remembering duplicate keys (the last one wins, as in Go).
pub fn json(body: &[u8]) -> Result<Decoded, Status> {
    let mut twice = false;
    let mut value = parse(body, Seed { twice: &mut twice, named: None })?;
    let mut duplicates = Vec::new();
    if twice {
        // Rare enough to read the body again, now knowing where it is.
        let mut named = Named::default();
        value = parse(body, Seed { twice: &mut twice, named: Some(&mut named) })?;
        duplicates = named.duplicates;
    }
    Ok(Decoded { value, duplicates })
}

fn parse(body: &[u8], seed: Seed<'_>) -> Result<Value, Status> {
    let mut de = serde_json::Deserializer::from_slice(body);
    let value = seed.deserialize(&mut de).and_then(|v| de.end().map(|()| v));
    value.map_err(|e| Status::bad_request(format!("error parsing JSON body: {e}")))
}

/// YAML (of which JSON is a part). One document.
pub fn yaml(body: &[u8]) -> Result<Decoded, Status> {
    // kubectl sends apply patches as JSON under a YAML name: the fast parser reads those.
    if body.first() == Some(&b'{')
        && let Ok(d) = json(body)
    {
        return Ok(d);
    }
    let bad = |e: &dyn fmt::Display| Status::bad_request(format!("error decoding YAML: {e}"));
    let text = std::str::from_utf8(body).map_err(|e| bad(&e))?;
    let value: Value = serde_saphyr::from_str(text).map_err(|e| bad(&e))?;
    if ek_meta::object::deeper_than(&value, MAX_DEPTH) {
        return Err(bad(&"nested too deeply"));
    }
    Ok(Decoded { value, duplicates: Vec::new() })
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
