//! The standard functions: size, conversions, types, optionals.

use super::error::{EvalError, Res};
use super::table::{Entry, Site, function, method};
use super::value::Val;
use std::rc::Rc;

pub(super) const TABLE: &[Entry] = &[
    function("size", 1, 1, size).returning("int"),
    method("size", 0, 0, size).returning("int"),
    function("type", 1, 1, type_of).returning("type"),
    function("dyn", 1, 1, identity),
    function("bool", 1, 1, to_bool).returning("bool"),
    function("int", 1, 1, to_int).returning("int"),
    function("uint", 1, 1, to_uint).returning("uint"),
    function("double", 1, 1, to_double).returning("double"),
    function("string", 1, 1, to_string).returning("string"),
    function("bytes", 1, 1, to_bytes).returning("bytes"),
    function("optional.of", 1, 1, optional_of).returning("optional_type"),
    function("optional.none", 0, 0, optional_none).returning("optional_type"),
    function("optional.ofNonZeroValue", 1, 1, optional_of_non_zero).returning("optional_type"),
    method("hasValue", 0, 0, has_value).returning("bool"),
    method("value", 0, 0, value),
];

fn identity<'a>(_: &Site<'_>, args: &[Val<'a>]) -> Res<Val<'a>> {
    Ok(args[0].clone())
}

pub(super) fn size<'a>(site: &Site<'_>, args: &[Val<'a>]) -> Res<Val<'a>> {
    let n = match &args[0] {
        Val::Str(s) => {
            site.charge_text(s.as_str().len())?;
            s.as_str().chars().count()
        }
        Val::Bytes(b) => b.len(),
        Val::List(l) => l.len(),
        Val::Map(m) => m.len(),
        _ => return site.no_overload(args),
    };
    Ok(Val::Int(n as i64))
}

fn type_of<'a>(_: &Site<'_>, args: &[Val<'a>]) -> Res<Val<'a>> {
    Ok(Val::Type(Rc::from(args[0].type_name())))
}

fn bad<'a>(what: &str, v: &Val<'_>) -> Res<Val<'a>> {
    Err(EvalError::Function(format!("type conversion error from '{v}' to '{what}'")))
}

fn to_bool<'a>(site: &Site<'_>, args: &[Val<'a>]) -> Res<Val<'a>> {
    match &args[0] {
        Val::Bool(b) => Ok(Val::Bool(*b)),
        Val::Str(s) => match s.as_str() {
            "1" | "t" | "T" | "true" | "TRUE" | "True" => Ok(Val::Bool(true)),
            "0" | "f" | "F" | "false" | "FALSE" | "False" => Ok(Val::Bool(false)),
            _ => bad("bool", &args[0]),
        },
        _ => site.no_overload(args),
    }
}

fn to_int<'a>(site: &Site<'_>, args: &[Val<'a>]) -> Res<Val<'a>> {
    match &args[0] {
        Val::Int(i) => Ok(Val::Int(*i)),
        Val::Uint(u) => i64::try_from(*u).map(Val::Int).map_err(|_| EvalError::Overflow),
        Val::Double(d) if d.is_finite() && d.abs() < 9.223_372_036_854_775e18 => Ok(Val::Int(*d as i64)),
        Val::Double(_) => Err(EvalError::Overflow),
        Val::Str(s) => s.as_str().parse().map(Val::Int).or_else(|_| bad("int", &args[0])),
        Val::Timestamp(t) => Ok(Val::Int(t.as_second())),
        Val::Duration(d) => i64::try_from(d.as_nanos()).map(Val::Int).map_err(|_| EvalError::Overflow),
        _ => site.no_overload(args),
    }
}

fn to_uint<'a>(site: &Site<'_>, args: &[Val<'a>]) -> Res<Val<'a>> {
    match &args[0] {
        Val::Uint(u) => Ok(Val::Uint(*u)),
        Val::Int(i) => u64::try_from(*i).map(Val::Uint).map_err(|_| EvalError::Overflow),
        Val::Double(d) if *d >= 0.0 && *d < 1.844_674_407_370_955e19 => Ok(Val::Uint(*d as u64)),
        Val::Double(_) => Err(EvalError::Overflow),
        Val::Str(s) => s.as_str().parse().map(Val::Uint).or_else(|_| bad("uint", &args[0])),
        _ => site.no_overload(args),
    }
}

fn to_double<'a>(site: &Site<'_>, args: &[Val<'a>]) -> Res<Val<'a>> {
    match &args[0] {
        Val::Double(d) => Ok(Val::Double(*d)),
        Val::Int(i) => Ok(Val::Double(*i as f64)),
        Val::Uint(u) => Ok(Val::Double(*u as f64)),
        Val::Str(s) => s.as_str().parse().map(Val::Double).or_else(|_| bad("double", &args[0])),
        _ => site.no_overload(args),
    }
}

fn to_string<'a>(site: &Site<'_>, args: &[Val<'a>]) -> Res<Val<'a>> {
    match &args[0] {
        s @ Val::Str(_) => Ok(s.clone()),
        Val::Bytes(b) => match std::str::from_utf8(b) {
            Ok(s) => Ok(Val::str(s)),
            Err(_) => Err(EvalError::Function("invalid UTF-8 in bytes, cannot convert to string".into())),
        },
        Val::Null
        | Val::List(_)
        | Val::Map(_)
        | Val::Type(_)
        | Val::Optional(_)
        | Val::Format(_)
        | Val::Host(_) => site.no_overload(args),
        other => Ok(Val::str(other.to_string())),
    }
}

fn to_bytes<'a>(site: &Site<'_>, args: &[Val<'a>]) -> Res<Val<'a>> {
    match &args[0] {
        b @ Val::Bytes(_) => Ok(b.clone()),
        Val::Str(s) => Ok(Val::Bytes(s.as_str().as_bytes().into())),
        _ => site.no_overload(args),
    }
}

fn optional_of<'a>(_: &Site<'_>, args: &[Val<'a>]) -> Res<Val<'a>> {
    Ok(Val::some(args[0].clone()))
}

fn optional_none<'a>(_: &Site<'_>, _: &[Val<'a>]) -> Res<Val<'a>> {
    Ok(Val::Optional(None))
}

fn optional_of_non_zero<'a>(_: &Site<'_>, args: &[Val<'a>]) -> Res<Val<'a>> {
    let zero = match &args[0] {
        Val::Null | Val::Bool(false) | Val::Int(0) | Val::Uint(0) | Val::Optional(None) => true,
        Val::Double(d) => *d == 0.0,
        Val::Str(s) => s.as_str().is_empty(),
        Val::Bytes(b) => b.is_empty(),
        Val::List(l) => l.is_empty(),
        Val::Map(m) => m.is_empty(),
        _ => false,
    };
    Ok(if zero { Val::Optional(None) } else { Val::some(args[0].clone()) })
}

fn has_value<'a>(site: &Site<'_>, args: &[Val<'a>]) -> Res<Val<'a>> {
    match &args[0] {
        Val::Optional(o) => Ok(Val::Bool(o.is_some())),
        _ => site.no_overload(args),
    }
}

fn value<'a>(site: &Site<'_>, args: &[Val<'a>]) -> Res<Val<'a>> {
    match &args[0] {
        Val::Optional(Some(v)) => Ok((**v).clone()),
        Val::Optional(None) => Err(EvalError::EmptyOptional),
        _ => site.no_overload(args),
    }
}
