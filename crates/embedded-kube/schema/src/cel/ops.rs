//! Equality, order and arithmetic.
//!
//! Numbers compare by value across int, uint and double. Lists declared `set` or `map` compare and add as
//! sets and maps, because that is what they are to every other client of the object.

use super::Budget;
use super::error::{EvalError, Res};
use super::ir::Op;
use super::value::{List, Map, Val};
use ek_meta::{ListType, Node};
use std::cmp::Ordering;

pub(super) fn binary<'a>(op: Op, a: &Val<'a>, b: &Val<'a>, budget: &Budget) -> Res<Val<'a>> {
    match op {
        Op::Eq => equal(a, b, budget).map(Val::Bool),
        Op::Ne => equal(a, b, budget).map(|e| Val::Bool(!e)),
        Op::Lt | Op::Le | Op::Gt | Op::Ge => {
            let Some(order) = compare(a, b, budget)? else { return Ok(Val::Bool(false)) };
            Ok(Val::Bool(match op {
                Op::Lt => order.is_lt(),
                Op::Le => order.is_le(),
                Op::Gt => order.is_gt(),
                _ => order.is_ge(),
            }))
        }
        Op::In => contains(b, a, budget).map(Val::Bool),
        Op::Add | Op::Sub | Op::Mul | Op::Div | Op::Rem => arithmetic(op, a, b, budget),
    }
}

/// `needle in haystack`: list elements or map keys.
pub(super) fn contains<'a>(haystack: &Val<'a>, needle: &Val<'a>, budget: &Budget) -> Res<bool> {
    match haystack {
        Val::List(l) => {
            for v in l.iter() {
                if equal(&v, needle, budget)? {
                    return Ok(true);
                }
            }
            Ok(false)
        }
        Val::Map(m) => Ok(m.get(needle).is_some()),
        other => Err(EvalError::overload("@in", &[needle, other])),
    }
}

pub(super) fn equal<'a>(a: &Val<'a>, b: &Val<'a>, budget: &Budget) -> Res<bool> {
    budget.charge(1)?;
    Ok(match (a, b) {
        (Val::Null, Val::Null) => true,
        (Val::Bool(a), Val::Bool(b)) => a == b,
        (Val::Int(_) | Val::Uint(_) | Val::Double(_), Val::Int(_) | Val::Uint(_) | Val::Double(_)) => {
            numbers(a, b) == Some(Ordering::Equal)
        }
        (Val::Str(a), Val::Str(b)) => {
            budget.charge(a.as_str().len().min(b.as_str().len()) as u64 / 10)?;
            a.as_str() == b.as_str()
        }
        (Val::Bytes(a), Val::Bytes(b)) => a == b,
        (Val::Timestamp(a), Val::Timestamp(b)) => a == b,
        (Val::Duration(a), Val::Duration(b)) => a == b,
        (Val::List(a), Val::List(b)) => lists_equal(a, b, budget)?,
        (Val::Map(a), Val::Map(b)) => maps_equal(a, b, budget)?,
        (Val::Type(a), Val::Type(b)) => a == b,
        (Val::Optional(a), Val::Optional(b)) => match (a, b) {
            (None, None) => true,
            (Some(a), Some(b)) => equal(a, b, budget)?,
            _ => false,
        },
        (Val::Quantity(a), Val::Quantity(b)) => a == b,
        (Val::Ip(a), Val::Ip(b)) => a == b,
        (Val::Cidr(a), Val::Cidr(b)) => a == b,
        (Val::Url(a), Val::Url(b)) => a.as_str() == b.as_str(),
        (Val::Semver(a), Val::Semver(b)) => a.cmp(b).is_eq(),
        (Val::Format(a), Val::Format(b)) => a == b,
        _ => false,
    })
}

/// How a list is to be read: its type and, for maps, the keys.
fn shape<'a>(l: &List<'a>) -> (ListType, &'a [Box<str>]) {
    match l {
        List::Json(_, Some(n)) => shape_of(n),
        _ => (ListType::Unset, &[]),
    }
}

fn shape_of<'a>(n: &Node<'a>) -> (ListType, &'a [Box<str>]) {
    (n.list_type(), n.list_map_keys())
}

fn lists_equal<'a>(a: &List<'a>, b: &List<'a>, budget: &Budget) -> Res<bool> {
    if a.len() != b.len() {
        return Ok(false);
    }
    let (kind, keys) = match shape(a) {
        (ListType::Unset | ListType::Atomic, _) => shape(b),
        known => known,
    };
    match kind {
        ListType::Set | ListType::Map => {
            for x in a.iter() {
                let Some(y) = find(b, &x, kind, keys, budget)? else { return Ok(false) };
                if kind == ListType::Map && !equal(&x, &y, budget)? {
                    return Ok(false);
                }
            }
            Ok(true)
        }
        ListType::Unset | ListType::Atomic => {
            for (x, y) in a.iter().zip(b.iter()) {
                if !equal(&x, &y, budget)? {
                    return Ok(false);
                }
            }
            Ok(true)
        }
    }
}

/// The element of `l` that is the same set element, or has the same keys, as `x`.
fn find<'a>(
    l: &List<'a>,
    x: &Val<'a>,
    kind: ListType,
    keys: &[Box<str>],
    budget: &Budget,
) -> Res<Option<Val<'a>>> {
    for y in l.iter() {
        let same = match (kind, x, &y) {
            (ListType::Map, Val::Map(p), Val::Map(q)) => {
                let mut same = true;
                for k in keys {
                    budget.charge(1)?;
                    same &= match (p.get_str(k), q.get_str(k)) {
                        (None, None) => true,
                        (Some(p), Some(q)) => equal(&p, &q, budget)?,
                        _ => false,
                    };
                }
                same
            }
            _ => equal(x, &y, budget)?,
        };
        if same {
            return Ok(Some(y));
        }
    }
    Ok(None)
}

fn maps_equal<'a>(a: &Map<'a>, b: &Map<'a>, budget: &Budget) -> Res<bool> {
    if a.len() != b.len() {
        return Ok(false);
    }
    for (k, v) in a.iter() {
        match b.get(&k) {
            Some(w) if equal(&v, &w, budget)? => {}
            _ => return Ok(false),
        }
    }
    Ok(true)
}

fn numbers(a: &Val<'_>, b: &Val<'_>) -> Option<Ordering> {
    let whole = |v: &Val<'_>| match v {
        Val::Int(i) => Some(i128::from(*i)),
        Val::Uint(u) => Some(i128::from(*u)),
        _ => None,
    };
    match (whole(a), whole(b), a, b) {
        (Some(x), Some(y), ..) => Some(x.cmp(&y)),
        (_, _, Val::Double(x), Val::Double(y)) => x.partial_cmp(y),
        (Some(x), _, _, Val::Double(y)) => mixed(x, *y),
        (_, Some(y), Val::Double(x), _) => mixed(y, *x).map(Ordering::reverse),
        _ => None,
    }
}

/// A whole number against a double, exactly: doubles beyond 2^53 would round in a cast.
fn mixed(i: i128, d: f64) -> Option<Ordering> {
    if d.is_nan() {
        return None;
    }
    if d.abs() >= 1e30 {
        return Some(if d > 0.0 { Ordering::Less } else { Ordering::Greater });
    }
    let floor = d.floor();
    Some(i.cmp(&(floor as i128)).then(if d > floor { Ordering::Less } else { Ordering::Equal }))
}

/// Order of two values. `None` is a comparison with NaN, which is neither.
pub(super) fn compare<'a>(a: &Val<'a>, b: &Val<'a>, budget: &Budget) -> Res<Option<Ordering>> {
    budget.charge(1)?;
    Ok(match (a, b) {
        (Val::Bool(a), Val::Bool(b)) => Some(a.cmp(b)),
        (Val::Int(_) | Val::Uint(_) | Val::Double(_), Val::Int(_) | Val::Uint(_) | Val::Double(_)) => {
            numbers(a, b)
        }
        (Val::Str(a), Val::Str(b)) => {
            budget.charge(a.as_str().len().min(b.as_str().len()) as u64 / 10)?;
            Some(a.as_str().cmp(b.as_str()))
        }
        (Val::Bytes(a), Val::Bytes(b)) => Some(a.cmp(b)),
        (Val::Timestamp(a), Val::Timestamp(b)) => Some(a.cmp(b)),
        (Val::Duration(a), Val::Duration(b)) => Some(a.cmp(b)),
        (Val::Quantity(a), Val::Quantity(b)) => Some(a.cmp(b)),
        (Val::Semver(a), Val::Semver(b)) => Some(a.cmp(b)),
        _ => return Err(EvalError::overload("_<_", &[a, b])),
    })
}

/// Whole numbers of either sign, which have no trait in common: `None` when the result does not fit.
macro_rules! checked {
    ($op:ident, $x:ident, $y:ident) => {
        match $op {
            Op::Add => $x.checked_add(*$y),
            Op::Sub => $x.checked_sub(*$y),
            Op::Mul => $x.checked_mul(*$y),
            Op::Div if *$y == 0 => return Err(EvalError::DivisionByZero),
            Op::Rem if *$y == 0 => return Err(EvalError::ModulusByZero),
            Op::Div => $x.checked_div(*$y),
            _ => $x.checked_rem(*$y),
        }
    };
}

fn arithmetic<'a>(op: Op, a: &Val<'a>, b: &Val<'a>, budget: &Budget) -> Res<Val<'a>> {
    let overflow = EvalError::Overflow;
    match (a, b) {
        (Val::Int(x), Val::Int(y)) => checked!(op, x, y).map(Val::Int).ok_or(overflow),
        (Val::Uint(x), Val::Uint(y)) => checked!(op, x, y).map(Val::Uint).ok_or(overflow),
        (Val::Double(x), Val::Double(y)) => match op {
            Op::Add => Ok(Val::Double(x + y)),
            Op::Sub => Ok(Val::Double(x - y)),
            Op::Mul => Ok(Val::Double(x * y)),
            Op::Div => Ok(Val::Double(x / y)),
            _ => Err(EvalError::overload("_%_", &[a, b])),
        },
        (Val::Str(x), Val::Str(y)) if op == Op::Add => {
            budget.charge((x.as_str().len() + y.as_str().len()) as u64 / 10)?;
            Ok(Val::str(format!("{}{}", x.as_str(), y.as_str())))
        }
        (Val::Bytes(x), Val::Bytes(y)) if op == Op::Add => {
            budget.charge((x.len() + y.len()) as u64 / 10)?;
            Ok(Val::Bytes([&**x, &**y].concat().into()))
        }
        (Val::List(x), Val::List(y)) if op == Op::Add => concat(x, y, budget),
        (Val::Timestamp(t), Val::Duration(d)) => match op {
            Op::Add => t.checked_add(*d).map(Val::Timestamp).map_err(|_| overflow),
            Op::Sub => t.checked_sub(*d).map(Val::Timestamp).map_err(|_| overflow),
            _ => Err(EvalError::overload("arithmetic", &[a, b])),
        },
        (Val::Duration(d), Val::Timestamp(t)) if op == Op::Add => {
            t.checked_add(*d).map(Val::Timestamp).map_err(|_| overflow)
        }
        (Val::Timestamp(t), Val::Timestamp(u)) if op == Op::Sub => Ok(Val::Duration(t.duration_since(*u))),
        (Val::Duration(d), Val::Duration(e)) => match op {
            Op::Add => d.checked_add(*e).map(Val::Duration).ok_or(overflow),
            Op::Sub => d.checked_sub(*e).map(Val::Duration).ok_or(overflow),
            _ => Err(EvalError::overload("arithmetic", &[a, b])),
        },
        _ => {
            let name = match op {
                Op::Add => "_+_",
                Op::Sub => "_-_",
                Op::Mul => "_*_",
                Op::Div => "_/_",
                _ => "_%_",
            };
            Err(EvalError::overload(name, &[a, b]))
        }
    }
}

/// Lists append; sets keep each element once; map lists replace by key.
fn concat<'a>(x: &List<'a>, y: &List<'a>, budget: &Budget) -> Res<Val<'a>> {
    budget.charge((x.len() + y.len()) as u64)?;
    let (kind, keys) = shape(x);
    let mut out: Vec<Val<'a>> = x.iter().collect();
    if !matches!(kind, ListType::Set | ListType::Map) {
        out.extend(y.iter());
        return Ok(Val::list(out));
    }
    for item in y.iter() {
        let mut place = None;
        for (i, have) in out.iter().enumerate() {
            let one = List::Shared(std::rc::Rc::new(vec![have.clone()]));
            if find(&one, &item, kind, keys, budget)?.is_some() {
                place = Some(i);
                break;
            }
        }
        match place {
            Some(i) if kind == ListType::Map => out[i] = item,
            Some(_) => {}
            None => out.push(item),
        }
    }
    Ok(Val::list(out))
}

/// Sorts `[key, value]` pairs by key and keeps the values.
pub(super) fn sort_pairs<'a>(pairs: Vec<Val<'a>>, budget: &Budget) -> Res<Val<'a>> {
    let mut split = Vec::with_capacity(pairs.len());
    for p in pairs {
        if let Val::List(l) = &p
            && let (Some(k), Some(v)) = (l.get(0), l.get(1))
        {
            split.push((k, v));
        }
    }
    sort(&mut split, |p| &p.0, budget)?;
    Ok(Val::list(split.into_iter().map(|(_, v)| v).collect()))
}

/// Stable sort that reports the first pair without an order.
pub(super) fn sort<'a, T>(items: &mut [T], key: impl Fn(&T) -> &Val<'a>, budget: &Budget) -> Res<()> {
    let n = items.len() as u64;
    budget.charge(n * u64::from(64 - n.leading_zeros()))?;
    for w in items.windows(2) {
        // NaN has no place in an order, and the sort below insists on one.
        if compare(key(&w[0]), key(&w[1]), budget)?.is_none() {
            return Err(EvalError::overload("sort", &[key(&w[0]), key(&w[1])]));
        }
    }
    // Elements of one comparable type compare with each other; the rest keep their places.
    let free = Budget::new(u64::MAX);
    items.sort_by(|a, b| compare(key(a), key(b), &free).ok().flatten().unwrap_or(Ordering::Equal));
    Ok(())
}
