//! The function table: every library lists its functions here, so that compiling can tell a misspelt name or
//! a wrong number of arguments from a call.

use super::Budget;
use super::error::{EvalError, Res};
use super::value::Val;
use regex::Regex;

/// What a function may use besides its arguments.
pub(super) struct Site<'s> {
    pub budget: &'s Budget,
    pub name: &'static str,
    /// The pattern argument, compiled with the program because it is a literal.
    pub regex: Option<&'s Regex>,
}

impl Site<'_> {
    /// Strings cost a tenth of a unit per byte.
    pub(super) fn charge_text(&self, bytes: usize) -> Res<()> {
        self.budget.charge(bytes as u64 / 10)
    }

    pub(super) fn no_overload<T>(&self, args: &[Val<'_>]) -> Res<T> {
        Err(EvalError::overload(self.name, &args.iter().collect::<Vec<_>>()))
    }
}

pub(super) type Builtin = for<'a> fn(&Site<'_>, &[Val<'a>]) -> Res<Val<'a>>;

/// One function. A method's receiver is its first argument and counts.
#[derive(Debug)]
pub(super) struct Entry {
    pub name: &'static str,
    pub method: bool,
    pub min: usize,
    pub max: usize,
    pub call: Builtin,
    /// The result type, when it is always the same.
    pub returns: Option<&'static str>,
    /// Which argument is a pattern.
    pub pattern: Option<usize>,
}

pub(super) const fn function(name: &'static str, min: usize, max: usize, call: Builtin) -> Entry {
    Entry { name, method: false, min, max, call, returns: None, pattern: None }
}

/// `min` and `max` do not count the receiver.
pub(super) const fn method(name: &'static str, min: usize, max: usize, call: Builtin) -> Entry {
    Entry { name, method: true, min: min + 1, max: max + 1, call, returns: None, pattern: None }
}

impl Entry {
    pub(super) const fn returning(mut self, ty: &'static str) -> Entry {
        self.returns = Some(ty);
        self
    }

    pub(super) const fn with_pattern(mut self, arg: usize) -> Entry {
        self.pattern = Some(arg);
        self
    }
}

const TABLES: [&[Entry]; 10] = [
    super::stdlib::TABLE,
    super::strings::TABLE,
    super::lists::TABLE,
    super::math::TABLE,
    super::net::TABLE,
    super::urls::TABLE,
    super::quantity::TABLE,
    super::semver::TABLE,
    super::formats::TABLE,
    super::time::TABLE,
];

pub(super) enum Lookup {
    Found(&'static Entry),
    WrongArity,
    Unknown,
}

/// Finds a function by name and number of arguments (receiver included).
pub(super) fn lookup(name: &str, is_method: bool, args: usize) -> Lookup {
    let mut known = false;
    for e in TABLES.iter().flat_map(|t| t.iter()) {
        if e.name == name && e.method == is_method {
            if (e.min..=e.max).contains(&args) {
                return Lookup::Found(e);
            }
            known = true;
        }
    }
    if known { Lookup::WrongArity } else { Lookup::Unknown }
}

/// Names that start a qualified function (`sets.contains`).
pub(super) const NAMESPACES: [&str; 10] =
    ["sets", "optional", "math", "strings", "format", "ip", "cidr", "base64", "regex", "lists"];

/// Shared by libraries whose methods take text.
pub(super) fn text<'v>(site: &Site<'_>, args: &'v [Val<'_>], i: usize) -> Res<&'v str> {
    match args.get(i) {
        Some(Val::Str(s)) => Ok(s.as_str()),
        _ => site.no_overload(args),
    }
}

pub(super) fn int(site: &Site<'_>, args: &[Val<'_>], i: usize) -> Res<i64> {
    match args.get(i) {
        Some(Val::Int(n)) => Ok(*n),
        _ => site.no_overload(args),
    }
}
