//! Calls that bind variables or do not evaluate all their arguments.

use super::error::CompileError;
use super::ir::{Fold, FoldIr, Ir};
use super::lower::Lower;
use cel::common::ast::{CallExpr, Expr, IdedExpr, SelectExpr};

pub(super) fn expand(l: &mut Lower<'_>, id: u64, c: &CallExpr) -> Result<Option<Ir>, CompileError> {
    let Some(target) = &c.target else {
        return match (c.func_name.as_str(), c.args.as_slice()) {
            ("has", [arg]) => match &arg.expr {
                Expr::Select(s) if !s.test => {
                    let tested = IdedExpr {
                        id: arg.id,
                        expr: Expr::Select(SelectExpr {
                            operand: s.operand.clone(),
                            field: s.field.clone(),
                            test: true,
                        }),
                    };
                    l.expr(&tested).map(Some)
                }
                _ => Err(l.error(arg.id, "invalid argument to has() macro")),
            },
            _ => Ok(None),
        };
    };
    let args = c.args.as_slice();
    if let Expr::Ident(ns) = &target.expr
        && ns == "cel"
        && c.func_name == "bind"
        && !l.is_local("cel")
        && let [var, init, body] = args
    {
        let var = variable(l, var)?;
        let init = l.expr(init)?;
        let body = scoped(l, &[var], body)?;
        return Ok(Some(Ir::Bind(Box::new((init, body)))));
    }
    match (c.func_name.as_str(), args) {
        ("or" | "orValue", [other]) => Ok(Some(Ir::Or2(l.boxed(target, other)?, c.func_name == "orValue"))),
        ("optMap" | "optFlatMap", [var, body]) => {
            let opt = l.expr(target)?;
            let var = variable(l, var)?;
            let body = scoped(l, &[var], body)?;
            Ok(Some(Ir::OptMap(Box::new((opt, body)), c.func_name == "optFlatMap")))
        }
        _ => fold(l, id, target, &c.func_name, args),
    }
}

fn fold(
    l: &mut Lower<'_>,
    id: u64,
    target: &IdedExpr,
    name: &str,
    args: &[IdedExpr],
) -> Result<Option<Ir>, CompileError> {
    let (kind, vars, filter, body) = match (name, args) {
        ("all", [v, p]) => (Fold::All, vec![v], None, p),
        ("all", [i, v, p]) => (Fold::All, vec![i, v], None, p),
        ("exists", [v, p]) => (Fold::Exists, vec![v], None, p),
        ("exists", [i, v, p]) => (Fold::Exists, vec![i, v], None, p),
        ("exists_one" | "existsOne", [v, p]) => (Fold::ExistsOne, vec![v], None, p),
        ("exists_one" | "existsOne", [i, v, p]) => (Fold::ExistsOne, vec![i, v], None, p),
        ("map", [v, t]) => (Fold::Map, vec![v], None, t),
        ("map", [v, p, t]) => (Fold::Map, vec![v], Some(p), t),
        ("filter", [v, p]) => (Fold::Filter, vec![v], None, p),
        ("transformList", [i, v, t]) => (Fold::Map, vec![i, v], None, t),
        ("transformList", [i, v, p, t]) => (Fold::Map, vec![i, v], Some(p), t),
        ("transformMap", [k, v, t]) => (Fold::TransformMap, vec![k, v], None, t),
        ("transformMap", [k, v, p, t]) => (Fold::TransformMap, vec![k, v], Some(p), t),
        ("transformMapEntry", [k, v, t]) => (Fold::TransformMapEntry, vec![k, v], None, t),
        ("transformMapEntry", [k, v, p, t]) => (Fold::TransformMapEntry, vec![k, v], Some(p), t),
        ("sortBy", [v, t]) => (Fold::SortBy, vec![v], None, t),
        _ => return Ok(None),
    };
    let range = l.expr(target)?;
    let mut names = Vec::with_capacity(2);
    for v in vars {
        let name = variable(l, v)?;
        if names.contains(&name) {
            return Err(l.error(id, format!("duplicate iteration variable name: {name}")));
        }
        names.push(name);
    }
    let filter = filter.map(|f| scoped(l, &names, f)).transpose()?;
    let body = scoped(l, &names, body)?;
    Ok(Some(Ir::Fold(Box::new(FoldIr { kind, range, two: names.len() == 2, filter, body }))))
}

fn variable(l: &Lower<'_>, e: &IdedExpr) -> Result<String, CompileError> {
    match &e.expr {
        Expr::Ident(name) => Ok(name.clone()),
        _ => Err(l.error(e.id, "argument must be a simple name")),
    }
}

fn scoped(l: &mut Lower<'_>, names: &[String], body: &IdedExpr) -> Result<Ir, CompileError> {
    let depth = l.locals.len();
    l.locals.extend_from_slice(names);
    let out = l.expr(body);
    l.locals.truncate(depth);
    out
}
