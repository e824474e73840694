//! `'%s: %d'.format([...])`.

use super::error::{EvalError, Res};
use super::table::{Site, text};
use super::value::Val;
use std::fmt::Write;

pub(super) fn format<'a>(site: &Site<'_>, args: &[Val<'a>]) -> Res<Val<'a>> {
    let pattern = text(site, args, 0)?;
    let Val::List(values) = &args[1] else { return site.no_overload(args) };
    let mut out = String::with_capacity(pattern.len());
    let mut next = 0usize;
    let mut chars = pattern.chars().peekable();
    while let Some(c) = chars.next() {
        if c != '%' {
            out.push(c);
            continue;
        }
        if chars.peek() == Some(&'%') {
            chars.next();
            out.push('%');
            continue;
        }
        let mut precision = None;
        if chars.peek() == Some(&'.') {
            chars.next();
            let mut p = 0usize;
            while let Some(d) = chars.peek().and_then(|c| c.to_digit(10)) {
                p = (p * 10 + d as usize).min(1000);
                chars.next();
            }
            precision = Some(p);
        }
        let Some(verb) = chars.next() else { return Err(failed("unexpected end of string")) };
        let Some(v) = values.get(next) else { return Err(failed(&format!("index {next} out of range"))) };
        next += 1;
        let before = out.len();
        write_verb(&mut out, verb, precision, &v)?;
        site.charge_text(out.len() - before)?;
    }
    site.charge_text(pattern.len())?;
    Ok(Val::str(out))
}

fn failed(msg: &str) -> EvalError {
    EvalError::Function(format!("could not parse formatting clause: {msg}"))
}

/// Writing to a string cannot fail; the results below are ignored for that reason.
fn write_verb(out: &mut String, verb: char, precision: Option<usize>, v: &Val<'_>) -> Res<()> {
    match (verb, v) {
        ('s', v) => out.push_str(&v.text()?),
        ('d', Val::Int(_) | Val::Uint(_)) => out.push_str(&v.to_string()),
        ('d', Val::Double(d)) if d.is_nan() || d.is_infinite() => out.push_str(&v.to_string()),
        ('f', v) => {
            let d = double(verb, v)?;
            let _ = write!(out, "{d:.*}", precision.unwrap_or(6));
        }
        ('e', v) => {
            let d = double(verb, v)?;
            let text = format!("{d:.*e}", precision.unwrap_or(6));
            // Exponents have a sign and two digits at least.
            match text.split_once('e') {
                Some((mantissa, exp)) => {
                    let (sign, digits) = exp.strip_prefix('-').map_or(('+', exp), |d| ('-', d));
                    let _ = write!(out, "{mantissa}e{sign}{digits:0>2}");
                }
                None => out.push_str(&text),
            }
        }
        ('b', Val::Bool(b)) => out.push(if *b { '1' } else { '0' }),
        ('b', Val::Int(i)) => {
            let _ = write!(out, "{}{:b}", if *i < 0 { "-" } else { "" }, i.unsigned_abs());
        }
        ('b', Val::Uint(u)) => {
            let _ = write!(out, "{u:b}");
        }
        ('o', Val::Int(i)) => {
            let _ = write!(out, "{}{:o}", if *i < 0 { "-" } else { "" }, i.unsigned_abs());
        }
        ('o', Val::Uint(u)) => {
            let _ = write!(out, "{u:o}");
        }
        ('x' | 'X', v) => {
            let hex = match v {
                Val::Int(i) => format!("{}{:x}", if *i < 0 { "-" } else { "" }, i.unsigned_abs()),
                Val::Uint(u) => format!("{u:x}"),
                Val::Str(s) => s.as_str().bytes().map(|b| format!("{b:02x}")).collect(),
                Val::Bytes(b) => b.iter().map(|b| format!("{b:02x}")).collect(),
                _ => return Err(unsupported(verb, v)),
            };
            out.push_str(&if verb == 'X' { hex.to_uppercase() } else { hex });
        }
        ('d' | 'b' | 'o', v) => return Err(unsupported(verb, v)),
        _ => return Err(failed(&format!("unrecognized formatting clause \"{verb}\""))),
    }
    Ok(())
}

fn unsupported(verb: char, v: &Val<'_>) -> EvalError {
    EvalError::Function(format!(
        "error during formatting: %{verb} clause cannot be used on {}",
        v.type_name()
    ))
}

fn double(verb: char, v: &Val<'_>) -> Res<f64> {
    match v {
        Val::Double(d) => Ok(*d),
        Val::Int(i) => Ok(*i as f64),
        Val::Uint(u) => Ok(*u as f64),
        _ => Err(unsupported(verb, v)),
    }
}
