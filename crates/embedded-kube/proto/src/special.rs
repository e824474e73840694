//! The messages with a JSON form of their own, in both directions.

use crate::decode::Decoder;
use crate::encode::{Encoder, expect};
use crate::table::Special;
use crate::wire::{self, Reader};
use crate::{Error, MAGIC, MAX_DEPTH};
use ek_meta::time;
use jiff::Timestamp;
use serde_json::Value;

/// Go's zero time, the first second of year 1, which it writes as null.
const GO_ZERO: i64 = -62_135_596_800;

pub(crate) fn json(raw: &[u8]) -> Result<Value, Error> {
    serde_json::from_slice(raw).map_err(|e| Error::Json(e.to_string()))
}

/// The fields of the special messages all have numbers 1 to 3 and one of two forms.
#[derive(Default)]
struct Parts<'a> {
    ints: [u64; 4],
    bytes: [Option<&'a [u8]>; 4],
    /// All values of field 2 (1 for lists of strings) where it repeats.
    list: Vec<&'a [u8]>,
}

impl<'a> Parts<'a> {
    fn read(bytes: &'a [u8], repeated: u32) -> Result<Self, Error> {
        let mut p = Parts::default();
        let mut fields = Reader::new(bytes);
        while let Some((tag, value)) = fields.next()? {
            let i = tag as usize;
            match value {
                wire::Value::Bytes(b) if tag == repeated => p.list.push(b),
                wire::Value::Bytes(b) if i < p.bytes.len() => p.bytes[i] = Some(b),
                wire::Value::Varint(v) if i < p.ints.len() => p.ints[i] = v,
                _ => {}
            }
        }
        Ok(p)
    }

    fn strings(&self) -> Result<Value, Error> {
        self.list.iter().map(|b| Ok(Value::from(wire::text(b)?))).collect()
    }
}

pub(crate) fn decode(d: &mut Decoder, what: Special, bytes: &[u8], depth: u32) -> Result<Value, Error> {
    if depth > MAX_DEPTH {
        return Err(Error::Depth);
    }
    let repeated = match what {
        Special::Strings => 1,
        Special::SchemaOrArray | Special::SchemaOrStrings => 2,
        _ => 0,
    };
    let p = Parts::read(bytes, repeated)?;
    let text = |i: usize| wire::text(p.bytes[i].unwrap_or_default());
    let props = d.table.schema_props;
    Ok(match what {
        Special::Time | Special::MicroTime => {
            let (seconds, nanos) = (p.ints[1] as i64, p.ints[2] as i32);
            if (seconds == 0 && nanos == 0) || seconds == GO_ZERO {
                return Ok(Value::Null);
            }
            let nanos = if what == Special::Time { 0 } else { nanos };
            let t = Timestamp::new(seconds, nanos).map_err(|_| Error::Time)?;
            if what == Special::Time { time::rfc3339(t) } else { time::rfc3339_micro(t) }.into()
        }
        Special::Quantity => match text(1)? {
            "" => "0".into(),
            q => q.into(),
        },
        Special::IntOrString if p.ints[1] == 0 => (p.ints[2] as i32).into(),
        Special::IntOrString => text(3)?.into(),
        Special::Raw => match p.bytes[1] {
            None | Some([]) => Value::Null,
            Some(doc) if doc.starts_with(&MAGIC) => d.document(doc, depth + 1)?,
            Some(doc) => json(doc)?,
        },
        Special::Strings => p.strings()?,
        Special::SchemaOrBool => match p.bytes[2] {
            Some(schema) => d.object(props, schema, depth + 1)?,
            None => (p.ints[1] != 0).into(),
        },
        Special::SchemaOrArray if !p.list.is_empty() => {
            let list: Result<Vec<_>, _> = p.list.iter().map(|b| d.object(props, b, depth + 1)).collect();
            list?.into()
        }
        Special::SchemaOrStrings if !p.list.is_empty() => p.strings()?,
        Special::SchemaOrArray | Special::SchemaOrStrings => match p.bytes[1] {
            Some(schema) => d.object(props, schema, depth + 1)?,
            None => Value::Null,
        },
    })
}

/// Writes the fields of the message, last first; the caller closes it.
pub(crate) fn encode(e: &mut Encoder, what: Special, v: &Value, name: &str, depth: u32) -> Result<(), Error> {
    if v.is_null() {
        return Ok(());
    }
    let w = &mut e.writer;
    let list = |v: &Value| v.as_array().cloned().unwrap_or_default();
    match what {
        Special::Time | Special::MicroTime => {
            let t = v.as_str().and_then(time::parse).ok_or_else(|| expect(name, "a time"))?;
            // A time before 1970 has a negative fraction in jiff and a positive one in protobuf.
            let nanos = if what == Special::Time { 0 } else { t.subsec_nanosecond() };
            let floor = i64::from(t.subsec_nanosecond() < 0);
            let nanos = if nanos < 0 { nanos + 1_000_000_000 } else { nanos };
            w.varint_field(2, nanos as u64);
            w.varint_field(1, (t.as_second() - floor) as u64);
        }
        Special::Quantity => match v {
            Value::String(s) => w.bytes_field(1, s.as_bytes()),
            Value::Number(n) => w.bytes_field(1, n.to_string().as_bytes()),
            _ => return Err(expect(name, "a quantity")),
        },
        Special::IntOrString => match v {
            Value::String(s) => {
                w.bytes_field(3, s.as_bytes());
                w.varint_field(1, 1);
            }
            _ => {
                let n = v.as_i64().and_then(|n| i32::try_from(n).ok());
                w.varint_field(2, i64::from(n.ok_or_else(|| expect(name, "an integer or a string"))?) as u64);
            }
        },
        Special::Raw => {
            let text = serde_json::to_vec(v).map_err(|e| Error::Json(e.to_string()))?;
            w.bytes_field(1, &text);
        }
        Special::Strings => {
            for s in list(v).iter().rev() {
                w.bytes_field(1, s.as_str().ok_or_else(|| expect(name, "strings"))?.as_bytes());
            }
        }
        Special::SchemaOrBool => {
            if v.is_object() {
                e.schema(2, v, name, depth)?;
            }
            e.writer.varint_field(1, u64::from(v.as_bool().unwrap_or(true)));
        }
        Special::SchemaOrArray | Special::SchemaOrStrings => {
            for s in list(v).iter().rev() {
                match s {
                    Value::String(s) => e.writer.bytes_field(2, s.as_bytes()),
                    s => e.schema(2, s, name, depth)?,
                }
            }
            if v.is_object() {
                e.schema(1, v, name, depth)?;
            }
        }
    }
    Ok(())
}
