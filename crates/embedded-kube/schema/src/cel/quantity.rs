//! Resource quantities, and the comparisons they share with versions.

use super::error::{EvalError, Res};
use super::table::{Entry, Site, function, method, text};
use super::value::Val;
use ek_meta::quantity::Quantity;
use std::cmp::Ordering;

pub(super) const TABLE: &[Entry] = &[
    function("isQuantity", 1, 1, is_quantity).returning("bool"),
    function("quantity", 1, 1, quantity).returning("kubernetes.Quantity"),
    method("sign", 0, 0, sign).returning("int"),
    method("isGreaterThan", 1, 1, greater).returning("bool"),
    method("isLessThan", 1, 1, less).returning("bool"),
    method("compareTo", 1, 1, compare_to).returning("int"),
    method("add", 1, 1, add).returning("kubernetes.Quantity"),
    method("sub", 1, 1, sub).returning("kubernetes.Quantity"),
    method("isInteger", 0, 0, is_integer).returning("bool"),
    method("asInteger", 0, 0, as_integer).returning("int"),
    method("asApproximateFloat", 0, 0, as_float).returning("double"),
];

fn is_quantity<'a>(site: &Site<'_>, args: &[Val<'a>]) -> Res<Val<'a>> {
    Ok(Val::Bool(text(site, args, 0)?.parse::<Quantity>().is_ok()))
}

fn quantity<'a>(site: &Site<'_>, args: &[Val<'a>]) -> Res<Val<'a>> {
    let s = text(site, args, 0)?;
    s.parse()
        .map(Val::Quantity)
        .map_err(|e: ek_meta::quantity::ParseQuantityError| EvalError::Function(e.to_string()))
}

fn order(site: &Site<'_>, args: &[Val<'_>]) -> Res<Ordering> {
    match (&args[0], &args[1]) {
        (Val::Quantity(a), Val::Quantity(b)) => Ok(a.cmp(b)),
        (Val::Semver(a), Val::Semver(b)) => Ok(a.cmp(b)),
        _ => site.no_overload(args),
    }
}

fn greater<'a>(site: &Site<'_>, args: &[Val<'a>]) -> Res<Val<'a>> {
    Ok(Val::Bool(order(site, args)?.is_gt()))
}

fn less<'a>(site: &Site<'_>, args: &[Val<'a>]) -> Res<Val<'a>> {
    Ok(Val::Bool(order(site, args)?.is_lt()))
}

fn compare_to<'a>(site: &Site<'_>, args: &[Val<'a>]) -> Res<Val<'a>> {
    Ok(Val::Int(order(site, args)? as i64))
}

/// The other operand of a sum: a quantity or an int.
fn operands(site: &Site<'_>, args: &[Val<'_>]) -> Res<(Quantity, Quantity)> {
    match (&args[0], &args[1]) {
        (Val::Quantity(a), Val::Quantity(b)) => Ok((*a, *b)),
        (Val::Quantity(a), Val::Int(b)) => Ok((*a, Quantity::from_int(*b))),
        _ => site.no_overload(args),
    }
}

fn add<'a>(site: &Site<'_>, args: &[Val<'a>]) -> Res<Val<'a>> {
    let (a, b) = operands(site, args)?;
    Ok(Val::Quantity(a + b))
}

fn sub<'a>(site: &Site<'_>, args: &[Val<'a>]) -> Res<Val<'a>> {
    let (a, b) = operands(site, args)?;
    Ok(Val::Quantity(a - b))
}

fn receiver(site: &Site<'_>, args: &[Val<'_>]) -> Res<Quantity> {
    match &args[0] {
        Val::Quantity(q) => Ok(*q),
        _ => site.no_overload(args),
    }
}

fn sign<'a>(site: &Site<'_>, args: &[Val<'a>]) -> Res<Val<'a>> {
    Ok(Val::Int(receiver(site, args)?.sign()))
}

fn is_integer<'a>(site: &Site<'_>, args: &[Val<'a>]) -> Res<Val<'a>> {
    Ok(Val::Bool(receiver(site, args)?.as_i64().is_some()))
}

fn as_integer<'a>(site: &Site<'_>, args: &[Val<'a>]) -> Res<Val<'a>> {
    receiver(site, args)?
        .as_i64()
        .map(Val::Int)
        .ok_or_else(|| EvalError::Function("cannot convert value to integer".to_owned()))
}

fn as_float<'a>(site: &Site<'_>, args: &[Val<'a>]) -> Res<Val<'a>> {
    Ok(Val::Double(receiver(site, args)?.as_f64()))
}
