//! Protobuf to JSON.
//!
//! Fields appear in the order of the wire, which for Go's encoder is the order of field numbers; what Go's
//! JSON would add is appended. Repeated messages are merged and the last scalar wins, as the format demands.

use crate::table::{Field, Kind, Presence, Shape, Special, Table};
use crate::wire::{self, Reader};
use crate::{Error, MAGIC, MAX_DEPTH, special};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Number, Value};

/// A field number the table does not know: a newer client, or rubbish.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unknown {
    pub message: &'static str,
    pub tag: u32,
}

/// An object, and what was skipped while reading it. `unknown` is without repetition and bounded.
#[derive(Clone, Debug, PartialEq)]
pub struct Decoded {
    pub value: Value,
    pub unknown: Vec<Unknown>,
}

/// Decodes a document with its envelope into the object, `apiVersion` and `kind` first.
pub fn decode(body: &[u8]) -> Result<Value, Error> {
    decode_reporting(body).map(|d| d.value)
}

/// [`decode`], also telling which fields were skipped.
pub fn decode_reporting(body: &[u8]) -> Result<Decoded, Error> {
    let mut decoder = Decoder::new(body.len());
    let value = decoder.document(body, 0)?;
    Ok(Decoded { value, unknown: decoder.unknown })
}

/// Decodes bare message bytes as the message of that name (`io.k8s.api.core.v1.Pod`).
pub fn decode_as(message: &str, raw: &[u8]) -> Result<Value, Error> {
    let index = Table::get().by_name(message).ok_or_else(|| Error::UnknownMessage(message.to_owned()))?;
    let mut out = Map::new();
    Decoder::new(raw.len()).message(index, raw, 0, &mut out)?;
    Ok(Value::Object(out))
}

const MAX_UNKNOWN: usize = 64;

pub(crate) struct Decoder {
    pub(crate) table: &'static Table,
    unknown: Vec<Unknown>,
    /// How many more values may be filled in that are not on the wire. Go's encoder writes all of them, so an
    /// honest body needs few; without a bound two bytes could buy a kilobyte.
    fill: usize,
}

/// `runtime.Unknown`: the envelope.
struct Envelope<'a> {
    api_version: &'a str,
    kind: &'a str,
    raw: &'a [u8],
    content_type: &'a str,
}

impl<'a> Envelope<'a> {
    fn read(body: &'a [u8]) -> Result<Self, Error> {
        let body = body.strip_prefix(&MAGIC).ok_or(Error::NoMagic)?;
        let mut e = Envelope { api_version: "", kind: "", raw: &[], content_type: "" };
        let mut fields = Reader::new(body);
        while let Some((tag, value)) = fields.next()? {
            match (tag, value) {
                (1, wire::Value::Bytes(b)) => {
                    let mut meta = Reader::new(b);
                    while let Some((tag, value)) = meta.next()? {
                        match (tag, value) {
                            (1, wire::Value::Bytes(b)) => e.api_version = wire::text(b)?,
                            (2, wire::Value::Bytes(b)) => e.kind = wire::text(b)?,
                            _ => {}
                        }
                    }
                }
                (2, wire::Value::Bytes(b)) => e.raw = b,
                (3, wire::Value::Bytes(b)) if !b.is_empty() => {
                    return Err(Error::Encoding(String::from_utf8_lossy(b).into_owned()));
                }
                (4, wire::Value::Bytes(b)) => e.content_type = wire::text(b)?,
                _ => {}
            }
        }
        if e.kind.is_empty() { Err(Error::NoKind) } else { Ok(e) }
    }
}

impl Decoder {
    fn new(input: usize) -> Self {
        Decoder { table: Table::get(), unknown: Vec::new(), fill: 10_000 + input / 4 }
    }

    pub(crate) fn document(&mut self, body: &[u8], depth: u32) -> Result<Value, Error> {
        let e = Envelope::read(body)?;
        // An envelope may carry JSON, as unstructured objects inside typed ones do.
        if e.content_type.starts_with("application/json") {
            return special::json(e.raw);
        }
        let index = self.table.by_kind(e.api_version, e.kind).ok_or_else(|| Error::UnknownKind {
            api_version: e.api_version.to_owned(),
            kind: e.kind.to_owned(),
        })?;
        let mut out = Map::new();
        out.insert("apiVersion".to_owned(), e.api_version.into());
        out.insert("kind".to_owned(), e.kind.into());
        self.message(index, e.raw, depth, &mut out)?;
        Ok(Value::Object(out))
    }

    pub(crate) fn object(&mut self, index: u16, bytes: &[u8], depth: u32) -> Result<Value, Error> {
        let mut out = Map::new();
        self.message(index, bytes, depth, &mut out)?;
        Ok(Value::Object(out))
    }

    fn message(
        &mut self,
        index: u16,
        bytes: &[u8],
        depth: u32,
        out: &mut Map<String, Value>,
    ) -> Result<(), Error> {
        if depth > MAX_DEPTH {
            return Err(Error::Depth);
        }
        let table = self.table;
        let message = table.message(index);
        let mut fields = Reader::new(bytes);
        while let Some((tag, value)) = fields.next()? {
            let Some(field) = message.field(tag) else {
                let unknown = Unknown { message: message.name, tag };
                if self.unknown.len() < MAX_UNKNOWN && !self.unknown.contains(&unknown) {
                    self.unknown.push(unknown);
                }
                continue;
            };
            self.field(field, value, depth, out)?.ok_or_else(|| Error::WireType {
                message: message.name,
                tag,
                wire: value.wire_type(),
            })?;
        }
        self.fill(&message.fields, depth, out)
    }

    /// `Ok(None)` means that the wire type does not fit the field.
    fn field(
        &mut self,
        field: &Field,
        value: wire::Value<'_>,
        depth: u32,
        out: &mut Map<String, Value>,
    ) -> Result<Option<()>, Error> {
        match (field.shape, value) {
            (Shape::One, wire::Value::Bytes(b)) if field.name.is_empty() => {
                if let Kind::Message(i) = field.kind {
                    self.message(i, b, depth + 1, out)?;
                }
            }
            (Shape::One, wire::Value::Bytes(b)) if let Kind::Message(i) = field.kind => {
                // A message that comes in pieces is merged.
                let slot = out.entry(field.name).or_insert_with(|| Value::Object(Map::new()));
                if let Value::Object(inner) = slot {
                    self.message(i, b, depth + 1, inner)?;
                }
            }
            (Shape::One, _) => {
                let Some(v) = self.single(field.kind, value, depth)? else { return Ok(None) };
                if dropped(field, &v) {
                    if out.contains_key(field.name) {
                        out.shift_remove(field.name);
                    }
                } else {
                    out.insert(field.name.to_owned(), v);
                }
            }
            (Shape::Repeated, _) => {
                let slot = out.entry(field.name).or_insert_with(|| Value::Array(Vec::new()));
                let Value::Array(list) = slot else { return Ok(None) };
                match (field.kind, value) {
                    (Kind::Int32 | Kind::Int64 | Kind::Bool, wire::Value::Bytes(packed)) => {
                        let mut r = Reader::new(packed);
                        while !r.is_empty() {
                            list.extend(integer(field.kind, r.varint()?));
                        }
                    }
                    _ => {
                        let Some(v) = self.single(field.kind, value, depth)? else { return Ok(None) };
                        list.push(v);
                    }
                }
            }
            (Shape::Map, wire::Value::Bytes(entry)) => {
                let Some((key, v)) = self.entry(field.kind, entry, depth)? else { return Ok(None) };
                let slot = out.entry(field.name).or_insert_with(|| Value::Object(Map::new()));
                let Value::Object(map) = slot else { return Ok(None) };
                map.insert(key.to_owned(), v);
            }
            (Shape::Map, _) => return Ok(None),
        }
        Ok(Some(()))
    }

    fn entry<'a>(
        &mut self,
        kind: Kind,
        entry: &'a [u8],
        depth: u32,
    ) -> Result<Option<(&'a str, Value)>, Error> {
        let (mut key, mut found) = ("", None);
        let mut fields = Reader::new(entry);
        while let Some((tag, value)) = fields.next()? {
            match (tag, value) {
                (1, wire::Value::Bytes(b)) => key = wire::text(b)?,
                (2, _) => match self.single(kind, value, depth)? {
                    Some(v) => found = Some(v),
                    None => return Ok(None),
                },
                _ => {}
            }
        }
        let value = match (found, kind) {
            (Some(v), _) => v,
            // Unlike a missing field, a missing map value is an empty list of bytes, not null.
            (None, Kind::Bytes) => "".into(),
            (None, _) => self.zero(kind, depth)?,
        };
        Ok(Some((key, value)))
    }

    fn single(&mut self, kind: Kind, value: wire::Value<'_>, depth: u32) -> Result<Option<Value>, Error> {
        Ok(Some(match (kind, value) {
            (Kind::Bool | Kind::Int32 | Kind::Int64, wire::Value::Varint(v)) => match integer(kind, v) {
                Some(v) => v,
                None => return Ok(None),
            },
            (Kind::Double, wire::Value::Fixed64(bits)) => double(f64::from_bits(bits)),
            (Kind::Text, wire::Value::Bytes(b)) => wire::text(b)?.into(),
            (Kind::Bytes, wire::Value::Bytes(b)) => STANDARD.encode(b).into(),
            (Kind::Message(i), wire::Value::Bytes(b)) => self.object(i, b, depth + 1)?,
            (Kind::Special(s), wire::Value::Bytes(b)) => special::decode(self, s, b, depth + 1)?,
            _ => return Ok(None),
        }))
    }

    /// Adds what Go's JSON shows although it was not sent.
    fn fill(&mut self, fields: &[Field], depth: u32, out: &mut Map<String, Value>) -> Result<(), Error> {
        for field in fields {
            match field.kind {
                _ if matches!(field.presence, Presence::Set | Presence::DropZero) => {}
                Kind::Message(i) if field.name.is_empty() => {
                    let inner = &self.table.message(i).fields;
                    self.fill(inner, depth, out)?;
                }
                _ if out.contains_key(field.name) => {}
                kind => {
                    self.fill = self.fill.checked_sub(1).ok_or(Error::Budget)?;
                    let zero = match (field.shape, field.presence) {
                        (Shape::One, Presence::Always) => self.zero(kind, depth)?,
                        _ => Value::Null,
                    };
                    out.insert(field.name.to_owned(), zero);
                }
            }
        }
        Ok(())
    }

    fn zero(&mut self, kind: Kind, depth: u32) -> Result<Value, Error> {
        Ok(match kind {
            Kind::Bool => false.into(),
            Kind::Int32 | Kind::Int64 | Kind::Double => 0.into(),
            Kind::Text => "".into(),
            Kind::Bytes => Value::Null,
            Kind::Message(i) => self.object(i, &[], depth + 1)?,
            Kind::Special(Special::Strings) => Value::Null,
            Kind::Special(s) => special::decode(self, s, &[], depth + 1)?,
        })
    }
}

fn integer(kind: Kind, v: u64) -> Option<Value> {
    match kind {
        Kind::Bool => Some((v != 0).into()),
        Kind::Int32 => Some((v as i32).into()),
        Kind::Int64 => Some((v as i64).into()),
        _ => None,
    }
}

/// Go writes a whole number without a fraction, so it must come out as an integer. What JSON cannot express
/// (not a number, infinite) becomes null.
fn double(v: f64) -> Value {
    if v.fract() == 0.0 && v.abs() < 9e15 {
        return (v as i64).into();
    }
    Number::from_f64(v).map_or(Value::Null, Value::Number)
}

/// Bytes are a list to Go: `omitempty` drops them when empty, pointer or not.
fn dropped(field: &Field, v: &Value) -> bool {
    match (field.presence, field.kind) {
        (Presence::DropZero, _) => match v {
            Value::Null => true,
            Value::Bool(b) => !b,
            Value::Number(n) => n.as_f64() == Some(0.0),
            Value::String(s) => s.is_empty(),
            Value::Array(_) | Value::Object(_) => false,
        },
        (Presence::Set, Kind::Bytes) => v.as_str() == Some(""),
        _ => false,
    }
}
