//! JSON to protobuf.
//!
//! Only what is in the object is written: a Go reader gives absent fields their zero value, which is what the
//! JSON said too. Fields the table does not know have no number and are left out, as Go would; null is absent.

use crate::table::{Field, Kind, Shape, Table};
use crate::wire::Writer;
use crate::{Error, MAGIC, MAX_DEPTH, special};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value};

/// Encodes an object that has `apiVersion` and `kind`, with the envelope.
pub fn encode(value: &Value) -> Result<Vec<u8>, Error> {
    let mut e = Encoder::new();
    e.document(value)?;
    Ok(e.writer.finish())
}

/// Encodes bare message bytes as the message of that name.
pub fn encode_as(message: &str, value: &Value) -> Result<Vec<u8>, Error> {
    let mut e = Encoder::new();
    let index = e.table.by_name(message).ok_or_else(|| Error::UnknownMessage(message.to_owned()))?;
    e.message(index, value, "", 0)?;
    Ok(e.writer.finish())
}

/// One frame of a protobuf watch stream: a big-endian length, then `WatchEvent{type, object}` without an
/// envelope, the object with one.
pub fn encode_watch_event(event_type: &str, object: &Value) -> Result<Vec<u8>, Error> {
    let mut e = Encoder::new();
    e.document(object)?;
    e.writer.close(1, 0);
    e.writer.close(2, 0);
    e.writer.bytes_field(1, event_type.as_bytes());
    let len = u32::try_from(e.writer.len()).map_err(|_| Error::Truncated)?;
    e.writer.raw(&len.to_be_bytes());
    Ok(e.writer.finish())
}

pub(crate) fn expect(field: &str, expected: &'static str) -> Error {
    Error::Type { field: field.to_owned(), expected }
}

pub(crate) struct Encoder {
    table: &'static Table,
    pub(crate) writer: Writer,
}

impl Encoder {
    fn new() -> Self {
        Encoder { table: Table::get(), writer: Writer::default() }
    }

    fn document(&mut self, value: &Value) -> Result<(), Error> {
        let text = |k: &str| value.get(k).and_then(Value::as_str).unwrap_or_default();
        let (api_version, kind) = (text("apiVersion"), text("kind"));
        if kind.is_empty() {
            return Err(Error::NoKind);
        }
        let index = self.table.by_kind(api_version, kind).ok_or_else(|| Error::UnknownKind {
            api_version: api_version.to_owned(),
            kind: kind.to_owned(),
        })?;
        let start = self.writer.len();
        self.message(index, value, kind, 0)?;
        self.writer.close(2, start);
        let start = self.writer.len();
        self.writer.bytes_field(2, kind.as_bytes());
        self.writer.bytes_field(1, api_version.as_bytes());
        self.writer.close(1, start);
        self.writer.raw(&MAGIC);
        Ok(())
    }

    pub(crate) fn schema(&mut self, tag: u32, v: &Value, name: &str, depth: u32) -> Result<(), Error> {
        let start = self.writer.len();
        self.message(self.table.schema_props, v, name, depth + 1)?;
        self.writer.close(tag, start);
        Ok(())
    }

    fn message(&mut self, index: u16, value: &Value, name: &str, depth: u32) -> Result<(), Error> {
        if depth > MAX_DEPTH {
            return Err(Error::Depth);
        }
        match value {
            Value::Null => Ok(()),
            Value::Object(object) => self.fields(index, object, depth),
            _ => Err(expect(name, "an object")),
        }
    }

    fn fields(&mut self, index: u16, object: &Map<String, Value>, depth: u32) -> Result<(), Error> {
        let table = self.table;
        for field in table.message(index).fields.iter().rev() {
            if field.name.is_empty() {
                if let Kind::Message(i) = field.kind {
                    let start = self.writer.len();
                    self.fields(i, object, depth + 1)?;
                    self.writer.close(field.tag, start);
                }
                continue;
            }
            match object.get(field.name) {
                None | Some(Value::Null) => {}
                Some(v) => self.field(field, v, depth)?,
            }
        }
        Ok(())
    }

    fn field(&mut self, field: &Field, v: &Value, depth: u32) -> Result<(), Error> {
        match (field.shape, v) {
            (Shape::One, _) => self.single(field.kind, field.tag, v, field.name, depth),
            (Shape::Repeated, Value::Array(list)) => {
                list.iter().rev().try_for_each(|v| self.single(field.kind, field.tag, v, field.name, depth))
            }
            (Shape::Map, Value::Object(map)) => {
                for (key, v) in map.iter().rev() {
                    let start = self.writer.len();
                    self.single(field.kind, 2, v, field.name, depth)?;
                    self.writer.bytes_field(1, key.as_bytes());
                    self.writer.close(field.tag, start);
                }
                Ok(())
            }
            (Shape::Repeated, _) => Err(expect(field.name, "a list")),
            (Shape::Map, _) => Err(expect(field.name, "an object")),
        }
    }

    fn single(&mut self, kind: Kind, tag: u32, v: &Value, name: &str, depth: u32) -> Result<(), Error> {
        let w = &mut self.writer;
        match kind {
            Kind::Bool => {
                w.varint_field(tag, v.as_bool().ok_or_else(|| expect(name, "true or false"))?.into());
            }
            Kind::Int32 | Kind::Int64 => w.varint_field(tag, whole(v, name)? as u64),
            Kind::Double => w.double_field(tag, v.as_f64().ok_or_else(|| expect(name, "a number"))?),
            Kind::Text => w.bytes_field(tag, v.as_str().ok_or_else(|| expect(name, "a string"))?.as_bytes()),
            Kind::Bytes => {
                let bytes = v.as_str().and_then(|s| STANDARD.decode(s).ok());
                w.bytes_field(tag, &bytes.ok_or_else(|| expect(name, "base64"))?);
            }
            Kind::Message(i) => {
                let start = w.len();
                self.message(i, v, name, depth + 1)?;
                self.writer.close(tag, start);
            }
            Kind::Special(s) => {
                let start = w.len();
                special::encode(self, s, v, name, depth + 1)?;
                self.writer.close(tag, start);
            }
        }
        Ok(())
    }
}

/// JSON clients may write `3.0`.
fn whole(v: &Value, name: &str) -> Result<i64, Error> {
    let from_float = |f: f64| (f.fract() == 0.0 && f.abs() < 9e15).then_some(f as i64);
    v.as_i64().or_else(|| v.as_f64().and_then(from_float)).ok_or_else(|| expect(name, "an integer"))
}
