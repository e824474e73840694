//! Lists and sets.

use super::error::{EvalError, Res};
use super::ops;
use super::table::{Entry, Site, function, int, method};
use super::value::{List, Val};

pub(super) const TABLE: &[Entry] = &[
    method("isSorted", 0, 0, is_sorted).returning("bool"),
    method("sum", 0, 0, sum),
    method("min", 0, 0, min),
    method("max", 0, 0, max),
    method("distinct", 0, 0, distinct).returning("list"),
    method("flatten", 0, 1, flatten).returning("list"),
    method("slice", 2, 2, slice).returning("list"),
    method("sort", 0, 0, sort).returning("list"),
    method("first", 0, 0, first).returning("optional_type"),
    method("last", 0, 0, last).returning("optional_type"),
    function("lists.range", 1, 1, range).returning("list"),
    function("sets.contains", 2, 2, sets_contains).returning("bool"),
    function("sets.equivalent", 2, 2, sets_equivalent).returning("bool"),
    function("sets.intersects", 2, 2, sets_intersects).returning("bool"),
];

fn list<'v, 'a>(site: &Site<'_>, args: &'v [Val<'a>], i: usize) -> Res<&'v List<'a>> {
    match args.get(i) {
        Some(Val::List(l)) => {
            site.budget.charge(l.len() as u64)?;
            Ok(l)
        }
        _ => site.no_overload(args),
    }
}

fn is_sorted<'a>(site: &Site<'_>, args: &[Val<'a>]) -> Res<Val<'a>> {
    let items: Vec<Val<'a>> = list(site, args, 0)?.iter().collect();
    for w in items.windows(2) {
        if ops::compare(&w[0], &w[1], site.budget)?.is_none_or(|o| o.is_gt()) {
            return Ok(Val::Bool(false));
        }
    }
    Ok(Val::Bool(true))
}

fn sum<'a>(site: &Site<'_>, args: &[Val<'a>]) -> Res<Val<'a>> {
    let mut items = list(site, args, 0)?.iter();
    // The sum of nothing is the int zero: the element type is not known any more.
    let Some(mut total) = items.next() else { return Ok(Val::Int(0)) };
    if !matches!(total, Val::Int(_) | Val::Uint(_) | Val::Double(_) | Val::Duration(_)) {
        return site.no_overload(args);
    }
    for v in items {
        total = ops::binary(super::ir::Op::Add, &total, &v, site.budget)?;
    }
    Ok(total)
}

fn extreme<'a>(site: &Site<'_>, args: &[Val<'a>], want_less: bool) -> Res<Val<'a>> {
    let mut items = list(site, args, 0)?.iter();
    let Some(mut best) = items.next() else {
        return Err(EvalError::Function(format!("{} called on empty list", site.name)));
    };
    for v in items {
        let order = ops::compare(&v, &best, site.budget)?;
        if order.is_some_and(|o| if want_less { o.is_lt() } else { o.is_gt() }) {
            best = v;
        }
    }
    Ok(best)
}

fn min<'a>(site: &Site<'_>, args: &[Val<'a>]) -> Res<Val<'a>> {
    extreme(site, args, true)
}

fn max<'a>(site: &Site<'_>, args: &[Val<'a>]) -> Res<Val<'a>> {
    extreme(site, args, false)
}

/// Position of an element; `last` searches from the end. Strings are handled in `strings`.
pub(super) fn index_of<'a>(site: &Site<'_>, args: &[Val<'a>], last: bool) -> Res<Val<'a>> {
    if args.len() != 2 {
        return site.no_overload(args);
    }
    let l = list(site, args, 0)?;
    let mut found = -1;
    for (i, v) in l.iter().enumerate() {
        if ops::equal(&v, &args[1], site.budget)? {
            found = i as i64;
            if !last {
                break;
            }
        }
    }
    Ok(Val::Int(found))
}

fn distinct<'a>(site: &Site<'_>, args: &[Val<'a>]) -> Res<Val<'a>> {
    let mut out: Vec<Val<'a>> = Vec::new();
    'items: for v in list(site, args, 0)?.iter() {
        for have in &out {
            if ops::equal(have, &v, site.budget)? {
                continue 'items;
            }
        }
        out.push(v);
    }
    Ok(Val::list(out))
}

fn flatten<'a>(site: &Site<'_>, args: &[Val<'a>]) -> Res<Val<'a>> {
    let depth = if args.len() > 1 { int(site, args, 1)? } else { 1 };
    if depth < 0 {
        return Err(EvalError::Function("level must be non-negative".into()));
    }
    let mut items: Vec<Val<'a>> = list(site, args, 0)?.iter().collect();
    for _ in 0..depth {
        let mut changed = false;
        let mut next = Vec::with_capacity(items.len());
        for v in items {
            site.budget.charge(1)?;
            match v {
                Val::List(inner) => {
                    changed = true;
                    site.budget.charge(inner.len() as u64)?;
                    next.extend(inner.iter());
                }
                v => next.push(v),
            }
        }
        items = next;
        if !changed {
            break;
        }
    }
    Ok(Val::list(items))
}

fn slice<'a>(site: &Site<'_>, args: &[Val<'a>]) -> Res<Val<'a>> {
    let l = list(site, args, 0)?;
    let (from, to) = (int(site, args, 1)?, int(site, args, 2)?);
    if from < 0 || to < 0 {
        return Err(EvalError::Function(format!(
            "cannot slice({from}, {to}), negative indexes not supported"
        )));
    }
    if from > to {
        return Err(EvalError::Function(format!(
            "cannot slice({from}, {to}), start index must be less than or equal to end index"
        )));
    }
    if to > l.len() as i64 {
        return Err(EvalError::Function(format!("cannot slice({from}, {to}), list is length {}", l.len())));
    }
    Ok(Val::list((from..to).filter_map(|i| l.get(i as usize)).collect()))
}

fn sort<'a>(site: &Site<'_>, args: &[Val<'a>]) -> Res<Val<'a>> {
    let mut items: Vec<Val<'a>> = list(site, args, 0)?.iter().collect();
    ops::sort(&mut items, |v| v, site.budget)?;
    Ok(Val::list(items))
}

fn first<'a>(site: &Site<'_>, args: &[Val<'a>]) -> Res<Val<'a>> {
    Ok(list(site, args, 0)?.get(0).map_or(Val::Optional(None), Val::some))
}

fn last<'a>(site: &Site<'_>, args: &[Val<'a>]) -> Res<Val<'a>> {
    let l = list(site, args, 0)?;
    Ok(l.len().checked_sub(1).and_then(|i| l.get(i)).map_or(Val::Optional(None), Val::some))
}

fn range<'a>(site: &Site<'_>, args: &[Val<'a>]) -> Res<Val<'a>> {
    let n = int(site, args, 0)?.max(0);
    site.budget.charge(n as u64)?;
    Ok(Val::list((0..n).map(Val::Int).collect()))
}

/// Every element of `b` is in `a`.
fn covers<'a>(site: &Site<'_>, a: &Val<'a>, b: &List<'a>) -> Res<bool> {
    for v in b.iter() {
        if !ops::contains(a, &v, site.budget)? {
            return Ok(false);
        }
    }
    Ok(true)
}

fn sets_contains<'a>(site: &Site<'_>, args: &[Val<'a>]) -> Res<Val<'a>> {
    list(site, args, 0)?;
    Ok(Val::Bool(covers(site, &args[0], list(site, args, 1)?)?))
}

fn sets_equivalent<'a>(site: &Site<'_>, args: &[Val<'a>]) -> Res<Val<'a>> {
    let (a, b) = (list(site, args, 0)?, list(site, args, 1)?);
    Ok(Val::Bool(covers(site, &args[0], b)? && covers(site, &args[1], a)?))
}

fn sets_intersects<'a>(site: &Site<'_>, args: &[Val<'a>]) -> Res<Val<'a>> {
    list(site, args, 0)?;
    for v in list(site, args, 1)?.iter() {
        if ops::contains(&args[0], &v, site.budget)? {
            return Ok(Val::Bool(true));
        }
    }
    Ok(Val::Bool(false))
}
