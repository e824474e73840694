//! Semantic versions. Build metadata does not take part in the order.

use super::error::{EvalError, Res};
use super::table::{Entry, Site, function, method, text};
use super::value::Val;
use std::cmp::Ordering;
use std::fmt;
use std::rc::Rc;

pub(super) const TABLE: &[Entry] = &[
    function("isSemver", 1, 2, is_semver).returning("bool"),
    function("semver", 1, 2, semver).returning("kubernetes.Semver"),
    method("major", 0, 0, part).returning("int"),
    method("minor", 0, 0, part).returning("int"),
    method("patch", 0, 0, part).returning("int"),
];

#[derive(Clone, Debug)]
pub struct Semver {
    numbers: [u64; 3],
    pre: Vec<Box<str>>,
    build: Box<str>,
}

impl fmt::Display for Semver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.numbers[0], self.numbers[1], self.numbers[2])?;
        if !self.pre.is_empty() {
            write!(f, "-{}", self.pre.join("."))?;
        }
        if !self.build.is_empty() {
            write!(f, "+{}", self.build)?;
        }
        Ok(())
    }
}

impl Semver {
    pub(super) fn cmp(&self, o: &Semver) -> Ordering {
        self.numbers.cmp(&o.numbers).then_with(|| match (self.pre.is_empty(), o.pre.is_empty()) {
            (true, true) => Ordering::Equal,
            // A release is above its pre-releases.
            (true, false) => Ordering::Greater,
            (false, true) => Ordering::Less,
            (false, false) => {
                let by_part = self.pre.iter().zip(&o.pre).map(|(a, b)| pre_part(a, b));
                by_part.into_iter().find(|o| o.is_ne()).unwrap_or_else(|| self.pre.len().cmp(&o.pre.len()))
            }
        })
    }
}

/// Numeric identifiers are below others and compare as numbers.
fn pre_part(a: &str, b: &str) -> Ordering {
    match (a.parse::<u64>(), b.parse::<u64>()) {
        (Ok(a), Ok(b)) => a.cmp(&b),
        (Ok(_), Err(_)) => Ordering::Less,
        (Err(_), Ok(_)) => Ordering::Greater,
        (Err(_), Err(_)) => a.cmp(b),
    }
}

fn number(s: &str) -> Option<u64> {
    let canonical =
        !s.is_empty() && s.bytes().all(|b| b.is_ascii_digit()) && (s == "0" || !s.starts_with('0'));
    if canonical { s.parse().ok() } else { None }
}

fn parse(s: &str) -> Option<Semver> {
    let (rest, build) = s.split_once('+').map_or((s, None), |(r, b)| (r, Some(b)));
    let (core, pre) = rest.split_once('-').map_or((rest, None), |(c, p)| (c, Some(p)));
    let ident = |p: &str| !p.is_empty() && p.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-');
    let mut parts = core.split('.');
    let numbers = [number(parts.next()?)?, number(parts.next()?)?, number(parts.next()?)?];
    if parts.next().is_some() {
        return None;
    }
    let pre: Vec<Box<str>> = pre.map(|p| p.split('.').map(Into::into).collect()).unwrap_or_default();
    let padded = |p: &str| p.len() > 1 && p.starts_with('0') && p.bytes().all(|b| b.is_ascii_digit());
    if !pre.iter().all(|p| ident(p) && !padded(p)) || build.is_some_and(|b| !b.split('.').all(ident)) {
        return None;
    }
    Some(Semver { numbers, pre, build: build.unwrap_or("").into() })
}

/// Tolerates a leading `v`, missing numbers and leading zeros.
fn normalise(s: &str) -> String {
    let s = s.strip_prefix('v').unwrap_or(s);
    let split = s.find(['-', '+']).unwrap_or(s.len());
    let (core, tail) = s.split_at(split);
    let mut parts: Vec<&str> = core
        .split('.')
        .map(|p| match p.trim_start_matches('0') {
            "" if !p.is_empty() => "0",
            t => t,
        })
        .collect();
    while parts.len() < 3 {
        parts.push("0");
    }
    format!("{}{tail}", parts.join("."))
}

fn parsed(site: &Site<'_>, args: &[Val<'_>]) -> Res<Option<Semver>> {
    let s = text(site, args, 0)?;
    site.charge_text(s.len())?;
    match args.get(1) {
        None | Some(Val::Bool(false)) => Ok(parse(s)),
        Some(Val::Bool(true)) => Ok(parse(&normalise(s))),
        Some(_) => site.no_overload(args),
    }
}

fn is_semver<'a>(site: &Site<'_>, args: &[Val<'a>]) -> Res<Val<'a>> {
    Ok(Val::Bool(parsed(site, args)?.is_some()))
}

fn semver<'a>(site: &Site<'_>, args: &[Val<'a>]) -> Res<Val<'a>> {
    match parsed(site, args)? {
        Some(v) => Ok(Val::Semver(Rc::new(v))),
        None => Err(EvalError::Function("invalid semantic version".to_owned())),
    }
}

fn part<'a>(site: &Site<'_>, args: &[Val<'a>]) -> Res<Val<'a>> {
    let Val::Semver(v) = &args[0] else { return site.no_overload(args) };
    let i = match site.name {
        "major" => 0,
        "minor" => 1,
        _ => 2,
    };
    Ok(Val::Int(i64::try_from(v.numbers[i]).unwrap_or(i64::MAX)))
}
