//! CEL values that borrow the object under validation.
//!
//! An expression usually touches a handful of fields of a large object. Converting the whole object first
//! would dominate the cost of a rule, so lists and maps stay JSON, paired with their schema node, and each
//! element becomes a value only when an expression reaches it.

use super::error::{EvalError, Res};
use super::host::Host;
use super::net::Cidr;
use super::semver::Semver;
use super::urls::Parsed;
use ek_meta::quantity::Quantity;
use ek_meta::{Node, SchemaType};
use jiff::{SignedDuration, Timestamp};
use serde_json::{Map as JsonMap, Value};
use std::collections::HashMap;
use std::fmt::Write;
use std::net::IpAddr;
use std::rc::Rc;

/// Text borrowed from the object or the program, or made by the expression.
#[derive(Clone, Debug)]
pub enum Text<'a> {
    Borrowed(&'a str),
    Shared(Rc<str>),
}

impl Text<'_> {
    pub fn as_str(&self) -> &str {
        match self {
            Text::Borrowed(s) => s,
            Text::Shared(s) => s,
        }
    }
}

#[derive(Clone, Debug)]
pub enum List<'a> {
    Shared(Rc<Vec<Val<'a>>>),
    /// The node is that of the list itself: it knows the item schema and the list type.
    Json(&'a [Value], Option<Node<'a>>),
}

#[derive(Clone, Debug)]
pub enum Map<'a> {
    Shared(Rc<MapData<'a>>),
    Json(&'a JsonMap<String, Value>, Option<Node<'a>>),
}

/// A map made by an expression: in insertion order, with an index for lookup.
#[derive(Clone, Debug, Default)]
pub struct MapData<'a> {
    pub entries: Vec<(Val<'a>, Val<'a>)>,
    index: HashMap<Key, usize>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Key {
    Bool(bool),
    Num(i128),
    Str(String),
}

fn key_of(v: &Val<'_>) -> Option<Key> {
    Some(match v {
        Val::Bool(b) => Key::Bool(*b),
        Val::Int(i) => Key::Num(i128::from(*i)),
        Val::Uint(u) => Key::Num(i128::from(*u)),
        Val::Double(d) if d.fract() == 0.0 && d.abs() < 1e18 => Key::Num(*d as i128),
        Val::Str(s) => Key::Str(s.as_str().to_owned()),
        _ => return None,
    })
}

impl<'a> MapData<'a> {
    pub fn insert(&mut self, k: Val<'a>, v: Val<'a>) -> Result<(), EvalError> {
        let key = key_of(&k).ok_or_else(|| EvalError::overload("map key", &[&k]))?;
        if self.index.contains_key(&key) {
            return Err(EvalError::DuplicateKey(k.text()?));
        }
        self.index.insert(key, self.entries.len());
        self.entries.push((k, v));
        Ok(())
    }

    pub fn get(&self, k: &Val<'a>) -> Option<&Val<'a>> {
        let key = key_of(k)?;
        self.index.get(&key).map(|i| &self.entries[*i].1)
    }
}

#[derive(Clone, Debug)]
pub enum Val<'a> {
    Null,
    Bool(bool),
    Int(i64),
    Uint(u64),
    Double(f64),
    Str(Text<'a>),
    Bytes(Rc<[u8]>),
    Timestamp(Timestamp),
    Duration(SignedDuration),
    List(List<'a>),
    Map(Map<'a>),
    Type(Rc<str>),
    Optional(Option<Rc<Val<'a>>>),
    Quantity(Quantity),
    Ip(IpAddr),
    Cidr(Cidr),
    Url(Rc<Parsed>),
    Semver(Rc<Semver>),
    /// A named format of the `format` library.
    Format(&'static str),
    Host(Rc<dyn Host<'a> + 'a>),
}

impl<'a> Val<'a> {
    pub fn str(s: impl Into<Rc<str>>) -> Val<'a> {
        Val::Str(Text::Shared(s.into()))
    }

    pub fn list(items: Vec<Val<'a>>) -> Val<'a> {
        Val::List(List::Shared(Rc::new(items)))
    }

    pub fn some(v: Val<'a>) -> Val<'a> {
        Val::Optional(Some(Rc::new(v)))
    }

    /// Converts one JSON value under its schema; structures stay borrowed.
    pub fn from_json(v: &'a Value, node: Option<Node<'a>>) -> Val<'a> {
        match v {
            Value::Null => Val::Null,
            Value::Bool(b) => Val::Bool(*b),
            Value::Number(n) => {
                let double = node.is_some_and(|n| n.schema.ty == Some(SchemaType::Number));
                match (n.as_i64(), n.as_u64()) {
                    (Some(i), _) if !double => Val::Int(i),
                    (None, Some(u)) if !double => Val::Uint(u),
                    _ => {
                        let f = n.as_f64().unwrap_or(f64::NAN);
                        let integer = node.is_some_and(|n| n.schema.ty == Some(SchemaType::Integer));
                        if integer && f.fract() == 0.0 && f.abs() < 9.2e18 {
                            Val::Int(f as i64)
                        } else {
                            Val::Double(f)
                        }
                    }
                }
            }
            Value::String(s) => {
                let format = node
                    .filter(|n| n.schema.ty == Some(SchemaType::String))
                    .and_then(|n| n.schema.format.as_deref());
                format
                    .and_then(|f| super::time::typed_string(f, s))
                    .unwrap_or(Val::Str(Text::Borrowed(s.as_str())))
            }
            Value::Array(a) => Val::List(List::Json(a, node)),
            Value::Object(o) => Val::Map(Map::Json(o, node)),
        }
    }

    pub fn type_name(&self) -> &str {
        match self {
            Val::Null => "null_type",
            Val::Bool(_) => "bool",
            Val::Int(_) => "int",
            Val::Uint(_) => "uint",
            Val::Double(_) => "double",
            Val::Str(_) => "string",
            Val::Bytes(_) => "bytes",
            Val::Timestamp(_) => "google.protobuf.Timestamp",
            Val::Duration(_) => "google.protobuf.Duration",
            Val::List(_) => "list",
            Val::Map(_) => "map",
            Val::Type(_) => "type",
            Val::Optional(_) => "optional_type",
            Val::Quantity(_) => "kubernetes.Quantity",
            Val::Ip(_) => "net.IP",
            Val::Cidr(_) => "net.CIDR",
            Val::Url(_) => "kubernetes.URL",
            Val::Semver(_) => "kubernetes.Semver",
            Val::Format(_) => "kubernetes.NamedFormat",
            Val::Host(h) => h.type_name(),
        }
    }

    /// The JSON form; what has no JSON form of its own is written as its text.
    ///
    /// Values are shared, so a small expression can denote an enormous tree (`[a, a]` of `[b, b]` of …):
    /// writing it out is bounded.
    pub fn to_json(&self) -> Res<Value> {
        let mut left = MAX_WRITTEN;
        self.json_within(&mut left)
    }

    fn json_within(&self, left: &mut usize) -> Res<Value> {
        *left = left.checked_sub(1).ok_or(EvalError::Budget)?;
        Ok(match self {
            Val::Null => Value::Null,
            Val::Bool(b) => Value::Bool(*b),
            Val::Int(i) => Value::from(*i),
            Val::Uint(u) => Value::from(*u),
            Val::Double(d) => Value::from(*d),
            Val::List(List::Json(a, _)) => {
                *left = left.checked_sub(a.len()).ok_or(EvalError::Budget)?;
                Value::Array(a.to_vec())
            }
            Val::List(l) => Value::Array(l.iter().map(|v| v.json_within(left)).collect::<Res<_>>()?),
            Val::Map(Map::Json(o, _)) => {
                *left = left.checked_sub(o.len()).ok_or(EvalError::Budget)?;
                Value::Object((*o).clone())
            }
            Val::Map(Map::Shared(m)) => {
                let mut out = JsonMap::new();
                for (k, v) in &m.entries {
                    out.insert(k.text()?, v.json_within(left)?);
                }
                Value::Object(out)
            }
            Val::Optional(None) => Value::Null,
            Val::Optional(Some(v)) => v.json_within(left)?,
            Val::Host(_) | Val::Format(_) => {
                return Err(EvalError::Function(format!("a {} has no JSON form", self.type_name())));
            }
            other => {
                let text = other.text()?;
                *left = left.checked_sub(text.len() / 16).ok_or(EvalError::Budget)?;
                Value::String(text)
            }
        })
    }

    /// The text of any value, bounded as [`Val::to_json`] is.
    pub fn text(&self) -> Res<String> {
        let mut out = Bounded { text: String::new(), left: MAX_WRITTEN };
        write!(out, "{self}").map_err(|_| EvalError::Budget)?;
        Ok(out.text)
    }
}

/// Nodes of a JSON result, bytes of a text.
const MAX_WRITTEN: usize = 1 << 20;

/// A string that refuses to grow without end.
struct Bounded {
    text: String,
    left: usize,
}

impl Write for Bounded {
    fn write_str(&mut self, s: &str) -> std::fmt::Result {
        self.left = self.left.checked_sub(s.len()).ok_or(std::fmt::Error)?;
        self.text.push_str(s);
        Ok(())
    }
}

impl<'a> List<'a> {
    pub fn len(&self) -> usize {
        match self {
            List::Shared(v) => v.len(),
            List::Json(a, _) => a.len(),
        }
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub fn get(&self, i: usize) -> Option<Val<'a>> {
        match self {
            List::Shared(v) => v.get(i).cloned(),
            List::Json(a, node) => a.get(i).map(|v| Val::from_json(v, node.and_then(|n| n.items()))),
        }
    }

    pub fn iter(&self) -> impl Iterator<Item = Val<'a>> + '_ {
        (0..self.len()).filter_map(|i| self.get(i))
    }
}

impl<'a> Map<'a> {
    pub fn len(&self) -> usize {
        match self {
            Map::Shared(m) => m.entries.len(),
            Map::Json(o, _) => o.len(),
        }
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub fn get(&self, k: &Val<'a>) -> Option<Val<'a>> {
        match self {
            Map::Shared(m) => m.get(k).cloned(),
            Map::Json(..) => match k {
                Val::Str(s) => self.get_str(s.as_str()),
                _ => None,
            },
        }
    }

    pub fn get_str(&self, k: &str) -> Option<Val<'a>> {
        match self {
            Map::Shared(m) => m.index.get(&Key::Str(k.to_owned())).map(|i| m.entries[*i].1.clone()),
            Map::Json(o, node) => o.get(k).map(|v| Val::from_json(v, node.and_then(|n| n.field(k)))),
        }
    }

    pub fn iter(&self) -> Box<dyn Iterator<Item = (Val<'a>, Val<'a>)> + '_> {
        match self {
            Map::Shared(m) => Box::new(m.entries.iter().cloned()),
            Map::Json(o, node) => {
                let o: &'a JsonMap<String, Value> = o;
                let node = *node;
                Box::new(o.iter().map(move |(k, v)| {
                    let value = Val::from_json(v, node.and_then(|n| n.field(k)));
                    (Val::Str(Text::Borrowed(k.as_str())), value)
                }))
            }
        }
    }
}

/// The text `string()` and `format` give; for strings, the text itself.
impl std::fmt::Display for Val<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Val::Null => f.write_str("null"),
            Val::Bool(b) => write!(f, "{b}"),
            Val::Int(i) => write!(f, "{i}"),
            Val::Uint(u) => write!(f, "{u}"),
            Val::Double(d) => f.write_str(&super::time::double_text(*d)),
            Val::Str(s) => f.write_str(s.as_str()),
            Val::Bytes(b) => f.write_str(&String::from_utf8_lossy(b)),
            Val::Timestamp(t) => write!(f, "{t}"),
            Val::Duration(d) => f.write_str(&super::time::duration_text(*d)),
            Val::List(l) => {
                f.write_str("[")?;
                for (i, v) in l.iter().enumerate() {
                    if i > 0 {
                        f.write_str(", ")?;
                    }
                    write!(f, "{v}")?;
                }
                f.write_str("]")
            }
            Val::Map(m) => {
                f.write_str("{")?;
                for (i, (k, v)) in m.iter().enumerate() {
                    if i > 0 {
                        f.write_str(", ")?;
                    }
                    write!(f, "{k}: {v}")?;
                }
                f.write_str("}")
            }
            Val::Type(t) => f.write_str(t),
            Val::Optional(None) => f.write_str("optional.none()"),
            Val::Optional(Some(v)) => write!(f, "optional({v})"),
            Val::Quantity(q) => write!(f, "{q}"),
            Val::Ip(ip) => write!(f, "{ip}"),
            Val::Cidr(c) => write!(f, "{c}"),
            Val::Url(u) => f.write_str(u.as_str()),
            Val::Semver(v) => write!(f, "{v}"),
            Val::Format(name) => f.write_str(name),
            Val::Host(h) => f.write_str(h.type_name()),
        }
    }
}
