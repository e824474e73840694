//! Strings and regular expressions. Positions count characters, not bytes.

use super::error::{EvalError, Res};
use super::lists;
use super::table::{Entry, Site, function, int, method, text};
use super::value::{List, Val};
use base64::Engine;
use regex::Regex;
use std::borrow::Cow;

pub(super) const TABLE: &[Entry] = &[
    method("contains", 1, 1, contains).returning("bool"),
    method("startsWith", 1, 1, starts_with).returning("bool"),
    method("endsWith", 1, 1, ends_with).returning("bool"),
    method("matches", 1, 1, matches).returning("bool").with_pattern(1),
    function("matches", 2, 2, matches).returning("bool").with_pattern(1),
    method("find", 1, 1, find).returning("string").with_pattern(1),
    method("findAll", 1, 2, find_all).returning("list").with_pattern(1),
    method("charAt", 1, 1, char_at).returning("string"),
    method("indexOf", 1, 2, index_of).returning("int"),
    method("lastIndexOf", 1, 2, last_index_of).returning("int"),
    method("join", 0, 1, join).returning("string"),
    method("lowerAscii", 0, 0, lower_ascii).returning("string"),
    method("upperAscii", 0, 0, upper_ascii).returning("string"),
    method("replace", 2, 3, replace).returning("string"),
    method("split", 1, 2, split).returning("list"),
    method("substring", 1, 2, substring).returning("string"),
    method("trim", 0, 0, trim).returning("string"),
    method("reverse", 0, 0, reverse),
    method("format", 1, 1, super::strfmt::format).returning("string"),
    function("strings.quote", 1, 1, quote).returning("string"),
    function("base64.encode", 1, 1, base64_encode).returning("string"),
    function("base64.decode", 1, 1, base64_decode).returning("bytes"),
];

fn regex_of<'s>(site: &'s Site<'_>, args: &[Val<'_>]) -> Res<Cow<'s, Regex>> {
    match site.regex {
        Some(r) => Ok(Cow::Borrowed(r)),
        None => {
            let p = text(site, args, 1)?;
            // Compiling costs far more than matching, and happens at every evaluation.
            site.budget.charge(5_000 + p.len() as u64)?;
            super::regexes::compile_dynamic(p)
                .map(Cow::Owned)
                .map_err(|e| EvalError::Function(format!("error parsing regexp: {e}")))
        }
    }
}

fn contains<'a>(site: &Site<'_>, args: &[Val<'a>]) -> Res<Val<'a>> {
    let s = text(site, args, 0)?;
    site.charge_text(s.len())?;
    Ok(Val::Bool(s.contains(text(site, args, 1)?)))
}

fn starts_with<'a>(site: &Site<'_>, args: &[Val<'a>]) -> Res<Val<'a>> {
    Ok(Val::Bool(text(site, args, 0)?.starts_with(text(site, args, 1)?)))
}

fn ends_with<'a>(site: &Site<'_>, args: &[Val<'a>]) -> Res<Val<'a>> {
    Ok(Val::Bool(text(site, args, 0)?.ends_with(text(site, args, 1)?)))
}

fn matches<'a>(site: &Site<'_>, args: &[Val<'a>]) -> Res<Val<'a>> {
    let s = text(site, args, 0)?;
    site.charge_text(s.len())?;
    Ok(Val::Bool(regex_of(site, args)?.is_match(s)))
}

fn find<'a>(site: &Site<'_>, args: &[Val<'a>]) -> Res<Val<'a>> {
    let s = text(site, args, 0)?;
    site.charge_text(s.len())?;
    Ok(Val::str(regex_of(site, args)?.find(s).map_or("", |m| m.as_str())))
}

fn find_all<'a>(site: &Site<'_>, args: &[Val<'a>]) -> Res<Val<'a>> {
    let s = text(site, args, 0)?;
    site.budget.charge(s.len() as u64 + 1)?;
    let limit = if args.len() > 2 { int(site, args, 2)? } else { -1 };
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    let found = regex_of(site, args)?.find_iter(s).take(limit).map(|m| Val::str(m.as_str())).collect();
    Ok(Val::list(found))
}

/// Byte position of character `n`; the end counts.
fn byte_at(s: &str, n: i64) -> Option<usize> {
    let n = usize::try_from(n).ok()?;
    s.char_indices().map(|(i, _)| i).chain(std::iter::once(s.len())).nth(n)
}

fn out_of_range(n: i64) -> EvalError {
    EvalError::Function(format!("index out of range: {n}"))
}

fn char_at<'a>(site: &Site<'_>, args: &[Val<'a>]) -> Res<Val<'a>> {
    let (s, n) = (text(site, args, 0)?, int(site, args, 1)?);
    site.charge_text(s.len())?;
    let start = byte_at(s, n).ok_or_else(|| out_of_range(n))?;
    Ok(Val::str(s[start..].chars().next().map(String::from).unwrap_or_default()))
}

fn chars_before(s: &str, byte: usize) -> i64 {
    s[..byte].chars().count() as i64
}

fn index_of<'a>(site: &Site<'_>, args: &[Val<'a>]) -> Res<Val<'a>> {
    if let Val::List(_) = &args[0] {
        return lists::index_of(site, args, false);
    }
    let (s, sub) = (text(site, args, 0)?, text(site, args, 1)?);
    site.charge_text(s.len())?;
    let from = if args.len() > 2 { int(site, args, 2)? } else { 0 };
    let start = byte_at(s, from).ok_or_else(|| out_of_range(from))?;
    Ok(Val::Int(s[start..].find(sub).map_or(-1, |i| chars_before(s, start + i))))
}

fn last_index_of<'a>(site: &Site<'_>, args: &[Val<'a>]) -> Res<Val<'a>> {
    if let Val::List(_) = &args[0] {
        return lists::index_of(site, args, true);
    }
    let (s, sub) = (text(site, args, 0)?, text(site, args, 1)?);
    site.charge_text(s.len())?;
    // A match may start at the given position at the latest.
    let end = if args.len() > 2 {
        let last = int(site, args, 2)?;
        let start = byte_at(s, last).ok_or_else(|| out_of_range(last))?;
        let mut end = (start + sub.len()).min(s.len());
        while !s.is_char_boundary(end) {
            end += 1;
        }
        end
    } else {
        s.len()
    };
    Ok(Val::Int(s[..end].rfind(sub).map_or(-1, |i| chars_before(s, i))))
}

fn join<'a>(site: &Site<'_>, args: &[Val<'a>]) -> Res<Val<'a>> {
    let Val::List(l) = &args[0] else { return site.no_overload(args) };
    let sep = if args.len() > 1 { text(site, args, 1)? } else { "" };
    let mut out = String::new();
    for (i, v) in l.iter().enumerate() {
        let Val::Str(s) = &v else { return site.no_overload(args) };
        if i > 0 {
            out.push_str(sep);
        }
        out.push_str(s.as_str());
        site.charge_text(s.as_str().len() + sep.len() + 10)?;
    }
    Ok(Val::str(out))
}

fn lower_ascii<'a>(site: &Site<'_>, args: &[Val<'a>]) -> Res<Val<'a>> {
    let s = text(site, args, 0)?;
    site.charge_text(s.len())?;
    Ok(Val::str(s.to_ascii_lowercase()))
}

fn upper_ascii<'a>(site: &Site<'_>, args: &[Val<'a>]) -> Res<Val<'a>> {
    let s = text(site, args, 0)?;
    site.charge_text(s.len())?;
    Ok(Val::str(s.to_ascii_uppercase()))
}

fn replace<'a>(site: &Site<'_>, args: &[Val<'a>]) -> Res<Val<'a>> {
    let (s, from, to) = (text(site, args, 0)?, text(site, args, 1)?, text(site, args, 2)?);
    let limit = if args.len() > 3 { int(site, args, 3)? } else { -1 };
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    // The result may be as long as one replacement per character.
    site.charge_text(s.len())?;
    let count = if from.is_empty() { s.chars().count() + 1 } else { s.matches(from).count() };
    site.charge_text(count.min(limit).saturating_mul(to.len()))?;
    Ok(Val::str(s.replacen(from, to, limit)))
}

fn split<'a>(site: &Site<'_>, args: &[Val<'a>]) -> Res<Val<'a>> {
    let (s, sep) = (text(site, args, 0)?, text(site, args, 1)?);
    let limit = if args.len() > 2 { int(site, args, 2)? } else { -1 };
    site.budget.charge(s.len() as u64 + 1)?;
    if limit == 0 {
        return Ok(Val::list(Vec::new()));
    }
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    let parts: Vec<Val<'a>> = if sep.is_empty() {
        // Characters; the last part takes what is left.
        let mut parts = Vec::new();
        let mut rest = s;
        while let Some(c) = rest.chars().next() {
            if parts.len() + 1 == limit {
                parts.push(Val::str(rest));
                break;
            }
            parts.push(Val::str(&rest[..c.len_utf8()]));
            rest = &rest[c.len_utf8()..];
        }
        parts
    } else {
        s.splitn(limit, sep).map(Val::str).collect()
    };
    Ok(Val::list(parts))
}

fn substring<'a>(site: &Site<'_>, args: &[Val<'a>]) -> Res<Val<'a>> {
    let (s, from) = (text(site, args, 0)?, int(site, args, 1)?);
    site.charge_text(s.len())?;
    let start = byte_at(s, from).ok_or_else(|| out_of_range(from))?;
    let end = if args.len() > 2 {
        let to = int(site, args, 2)?;
        if to < from {
            return Err(EvalError::Function(format!("invalid substring range. start: {from}, end: {to}")));
        }
        byte_at(s, to).ok_or_else(|| out_of_range(to))?
    } else {
        s.len()
    };
    Ok(Val::str(&s[start..end]))
}

fn trim<'a>(site: &Site<'_>, args: &[Val<'a>]) -> Res<Val<'a>> {
    let s = text(site, args, 0)?;
    site.charge_text(s.len())?;
    Ok(Val::str(s.trim()))
}

fn reverse<'a>(site: &Site<'_>, args: &[Val<'a>]) -> Res<Val<'a>> {
    match &args[0] {
        Val::Str(s) => {
            site.charge_text(s.as_str().len())?;
            Ok(Val::str(s.as_str().chars().rev().collect::<String>()))
        }
        Val::List(l) => {
            site.budget.charge(l.len() as u64)?;
            let mut items: Vec<Val<'a>> = List::iter(l).collect();
            items.reverse();
            Ok(Val::list(items))
        }
        _ => site.no_overload(args),
    }
}

fn quote<'a>(site: &Site<'_>, args: &[Val<'a>]) -> Res<Val<'a>> {
    let s = text(site, args, 0)?;
    site.charge_text(s.len())?;
    let mut out = String::with_capacity(s.len() + 2);
    out.push('"');
    for c in s.chars() {
        match c {
            '\u{7}' => out.push_str("\\a"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{b}' => out.push_str("\\v"),
            '\\' => out.push_str("\\\\"),
            '"' => out.push_str("\\\""),
            c => out.push(c),
        }
    }
    out.push('"');
    Ok(Val::str(out))
}

fn base64_encode<'a>(site: &Site<'_>, args: &[Val<'a>]) -> Res<Val<'a>> {
    let Val::Bytes(b) = &args[0] else { return site.no_overload(args) };
    site.charge_text(b.len())?;
    Ok(Val::str(base64::engine::general_purpose::STANDARD.encode(b)))
}

fn base64_decode<'a>(site: &Site<'_>, args: &[Val<'a>]) -> Res<Val<'a>> {
    let s = text(site, args, 0)?;
    site.charge_text(s.len())?;
    // Padding is optional.
    base64::engine::general_purpose::STANDARD_NO_PAD
        .decode(s.trim_end_matches('='))
        .map(|b| Val::Bytes(b.into()))
        .map_err(|e| EvalError::Function(format!("illegal base64 data: {e}")))
}
