//! The `math` library.

use super::error::{EvalError, Res};
use super::ops;
use super::table::{Entry, Site, function};
use super::value::Val;

pub(super) const TABLE: &[Entry] = &[
    function("math.greatest", 1, 32, greatest),
    function("math.least", 1, 32, least),
    function("math.abs", 1, 1, abs),
    function("math.sign", 1, 1, sign),
    function("math.ceil", 1, 1, round).returning("double"),
    function("math.floor", 1, 1, round).returning("double"),
    function("math.round", 1, 1, round).returning("double"),
    function("math.trunc", 1, 1, round).returning("double"),
    function("math.isNaN", 1, 1, class).returning("bool"),
    function("math.isInf", 1, 1, class).returning("bool"),
    function("math.isFinite", 1, 1, class).returning("bool"),
];

fn pick<'a>(site: &Site<'_>, args: &[Val<'a>], less: bool) -> Res<Val<'a>> {
    let items: Vec<Val<'a>> = match args {
        [Val::List(l)] => l.iter().collect(),
        _ => args.to_vec(),
    };
    let mut items = items.into_iter();
    let Some(mut best) = items.next() else { return site.no_overload(args) };
    if !matches!(best, Val::Int(_) | Val::Uint(_) | Val::Double(_)) {
        return site.no_overload(args);
    }
    for v in items {
        let order = ops::compare(&v, &best, site.budget)?;
        if order.is_some_and(|o| if less { o.is_lt() } else { o.is_gt() }) {
            best = v;
        }
    }
    Ok(best)
}

fn greatest<'a>(site: &Site<'_>, args: &[Val<'a>]) -> Res<Val<'a>> {
    pick(site, args, false)
}

fn least<'a>(site: &Site<'_>, args: &[Val<'a>]) -> Res<Val<'a>> {
    pick(site, args, true)
}

fn abs<'a>(site: &Site<'_>, args: &[Val<'a>]) -> Res<Val<'a>> {
    match &args[0] {
        Val::Int(i) => i.checked_abs().map(Val::Int).ok_or(EvalError::Overflow),
        Val::Uint(u) => Ok(Val::Uint(*u)),
        Val::Double(d) => Ok(Val::Double(d.abs())),
        _ => site.no_overload(args),
    }
}

fn sign<'a>(site: &Site<'_>, args: &[Val<'a>]) -> Res<Val<'a>> {
    match &args[0] {
        Val::Int(i) => Ok(Val::Int(i.signum())),
        Val::Uint(u) => Ok(Val::Uint(u64::from(*u > 0))),
        Val::Double(d) if *d == 0.0 || d.is_nan() => Ok(Val::Double(*d)),
        Val::Double(d) => Ok(Val::Double(d.signum())),
        _ => site.no_overload(args),
    }
}

fn round<'a>(site: &Site<'_>, args: &[Val<'a>]) -> Res<Val<'a>> {
    let Val::Double(d) = &args[0] else { return site.no_overload(args) };
    Ok(Val::Double(match site.name {
        "math.ceil" => d.ceil(),
        "math.floor" => d.floor(),
        "math.round" => d.round(),
        _ => d.trunc(),
    }))
}

fn class<'a>(site: &Site<'_>, args: &[Val<'a>]) -> Res<Val<'a>> {
    let Val::Double(d) = &args[0] else { return site.no_overload(args) };
    Ok(Val::Bool(match site.name {
        "math.isNaN" => d.is_nan(),
        "math.isInf" => d.is_infinite(),
        _ => d.is_finite(),
    }))
}
