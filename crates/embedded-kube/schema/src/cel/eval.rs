//! The evaluator: a bounded walk over the program.

use super::Budget;
use super::error::{EvalError, Res};
use super::ir::{Fold, FoldIr, Ir, Literal, Member, Op};
use super::ops;
use super::table::Site;
use super::value::{Map, MapData, Text, Val};
use std::rc::Rc;

struct Eval<'a, 'e> {
    names: &'a [Box<str>],
    globals: &'e [(&'a str, Val<'a>)],
    locals: Vec<Val<'a>>,
    budget: &'e Budget,
}

pub(super) fn run<'a>(
    ir: &'a Ir,
    names: &'a [Box<str>],
    globals: &[(&'a str, Val<'a>)],
    budget: &Budget,
) -> Res<Val<'a>> {
    Eval { names, globals, locals: Vec::new(), budget }.eval(ir)
}

impl<'a> Eval<'a, '_> {
    fn eval(&mut self, ir: &'a Ir) -> Res<Val<'a>> {
        self.budget.charge(1)?;
        match ir {
            Ir::Literal(l) => Ok(literal(l)),
            Ir::Local(i) => self.locals.get(*i).cloned().ok_or_else(|| EvalError::Undeclared(i.to_string())),
            Ir::Global(i) => self.global(*i),
            Ir::Select(m) => self.select(m),
            Ir::Has(m) => self.has(m),
            Ir::OptSelect(m) => self.opt_select(m),
            Ir::Index(b) => self.index(&b.0, &b.1),
            Ir::OptIndex(b) => self.opt_index(&b.0, &b.1),
            Ir::And(terms) => self.junction(terms, false),
            Ir::Or(terms) => self.junction(terms, true),
            Ir::Not(x) => match self.eval(x)? {
                Val::Bool(b) => Ok(Val::Bool(!b)),
                v => Err(EvalError::overload("!_", &[&v])),
            },
            Ir::Neg(x) => match self.eval(x)? {
                Val::Int(i) => i.checked_neg().map(Val::Int).ok_or(EvalError::Overflow),
                Val::Double(d) => Ok(Val::Double(-d)),
                Val::Duration(d) => d.checked_neg().map(Val::Duration).ok_or(EvalError::Overflow),
                v => Err(EvalError::overload("-_", &[&v])),
            },
            Ir::Cond(c) => match self.eval(&c.0)? {
                Val::Bool(true) => self.eval(&c.1),
                Val::Bool(false) => self.eval(&c.2),
                v => Err(EvalError::overload("_?_:_", &[&v])),
            },
            Ir::Binary(op, b) => self.binary(*op, &b.0, &b.1),
            Ir::Call { entry, args, regex } => {
                let args = args.iter().map(|a| self.eval(a)).collect::<Res<Vec<_>>>()?;
                if entry.method
                    && let Some(Val::Host(h)) = args.first()
                    && let Some(r) = h.call(entry.name, &args[1..], self.budget)
                {
                    return r;
                }
                let site = Site { budget: self.budget, name: entry.name, regex: regex.as_deref() };
                (entry.call)(&site, &args)
            }
            Ir::HostCall { name, args } => {
                let args = args.iter().map(|a| self.eval(a)).collect::<Res<Vec<_>>>()?;
                let answer = match args.first() {
                    Some(Val::Host(h)) => h.call(name, &args[1..], self.budget),
                    _ => None,
                };
                answer.unwrap_or_else(|| Err(EvalError::overload(name, &args.iter().collect::<Vec<_>>())))
            }
            Ir::List(items) => self.list(items),
            Ir::Map(entries) => self.map(entries),
            Ir::Fold(f) => self.fold(f),
            Ir::Bind(b) => {
                let v = self.eval(&b.0)?;
                self.with(v, &b.1)
            }
            Ir::OptMap(b, flat) => match self.eval(&b.0)? {
                Val::Optional(None) => Ok(Val::Optional(None)),
                Val::Optional(Some(v)) => {
                    let out = self.with((*v).clone(), &b.1)?;
                    Ok(if *flat { out } else { Val::some(out) })
                }
                v => Err(EvalError::overload("optMap", &[&v])),
            },
            Ir::Or2(b, value) => match self.eval(&b.0)? {
                Val::Optional(None) => self.eval(&b.1),
                Val::Optional(Some(v)) if *value => Ok((*v).clone()),
                v @ Val::Optional(_) => Ok(v),
                v => Err(EvalError::overload("or", &[&v])),
            },
        }
    }

    fn with(&mut self, v: Val<'a>, body: &'a Ir) -> Res<Val<'a>> {
        self.locals.push(v);
        let out = self.eval(body);
        self.locals.pop();
        out
    }

    fn global(&self, i: usize) -> Res<Val<'a>> {
        let name: &str = self.names.get(i).map_or("", |n| n);
        let found = self.globals.iter().find(|(n, _)| *n == name);
        found.map(|(_, v)| v.clone()).ok_or_else(|| EvalError::Undeclared(name.to_owned()))
    }

    /// Field of a map or host; `None` if absent.
    fn field(&self, operand: &Val<'a>, m: &Member) -> Res<Option<Val<'a>>> {
        match operand {
            Val::Map(map) => Ok(map
                .get_str(&m.field)
                .or_else(|| m.unescaped.as_deref().and_then(|name| map.get_str(name)))),
            Val::Host(h) => h.field(&m.field, self.budget).transpose(),
            other => Err(EvalError::overload("select", &[other])),
        }
    }

    fn select(&mut self, m: &'a Member) -> Res<Val<'a>> {
        let operand = self.eval(&m.operand)?;
        if let Val::Optional(o) = &operand {
            // Selection through an optional stays optional.
            let Some(v) = o else { return Ok(Val::Optional(None)) };
            return Ok(Val::Optional(self.field(v, m)?.map(Rc::new)));
        }
        self.field(&operand, m)?.ok_or_else(|| EvalError::NoSuchKey(m.field.to_string()))
    }

    fn has(&mut self, m: &'a Member) -> Res<Val<'a>> {
        let operand = self.eval(&m.operand)?;
        let found = match &operand {
            Val::Optional(None) => None,
            Val::Optional(Some(v)) => self.field(v, m)?,
            v => self.field(v, m)?,
        };
        Ok(Val::Bool(found.is_some()))
    }

    fn opt_select(&mut self, m: &'a Member) -> Res<Val<'a>> {
        let operand = self.eval(&m.operand)?;
        let found = match &operand {
            Val::Optional(None) => None,
            Val::Optional(Some(v)) => self.field(v, m)?,
            v => self.field(v, m)?,
        };
        Ok(Val::Optional(found.map(Rc::new)))
    }

    fn index(&mut self, a: &'a Ir, i: &'a Ir) -> Res<Val<'a>> {
        let (a, i) = (self.eval(a)?, self.eval(i)?);
        if let Val::Optional(o) = &a {
            let Some(v) = o else { return Ok(Val::Optional(None)) };
            return Ok(Val::Optional(at(v, &i)?.map(Rc::new)));
        }
        match at(&a, &i)? {
            Some(v) => Ok(v),
            None if matches!(a, Val::List(_)) => Err(EvalError::IndexOutOfBounds(i.text()?)),
            None => Err(EvalError::NoSuchKey(i.text()?)),
        }
    }

    fn opt_index(&mut self, a: &'a Ir, i: &'a Ir) -> Res<Val<'a>> {
        let (a, i) = (self.eval(a)?, self.eval(i)?);
        let found = match &a {
            Val::Optional(None) => None,
            Val::Optional(Some(v)) => at(v, &i)?,
            v => at(v, &i)?,
        };
        Ok(Val::Optional(found.map(Rc::new)))
    }

    /// `&&` and `||`: one deciding term wins over errors in the others, whatever their order.
    fn junction(&mut self, terms: &'a [Ir], decisive: bool) -> Res<Val<'a>> {
        let mut failed = None;
        for t in terms {
            match self.eval(t) {
                Ok(Val::Bool(b)) if b == decisive => return Ok(Val::Bool(b)),
                Ok(Val::Bool(_)) => {}
                Ok(v) => {
                    let op = if decisive { "_||_" } else { "_&&_" };
                    failed.get_or_insert_with(|| EvalError::overload(op, &[&v]));
                }
                Err(EvalError::Budget) => return Err(EvalError::Budget),
                Err(e) => {
                    failed.get_or_insert(e);
                }
            }
        }
        failed.map_or(Ok(Val::Bool(!decisive)), Err)
    }

    fn binary(&mut self, op: Op, a: &'a Ir, b: &'a Ir) -> Res<Val<'a>> {
        let (a, b) = (self.eval(a)?, self.eval(b)?);
        ops::binary(op, &a, &b, self.budget)
    }

    fn list(&mut self, items: &'a [(Ir, bool)]) -> Res<Val<'a>> {
        let mut out = Vec::with_capacity(items.len());
        for (item, optional) in items {
            match (self.eval(item)?, optional) {
                (Val::Optional(None), true) => {}
                (Val::Optional(Some(v)), true) => out.push((*v).clone()),
                (v, true) => return Err(EvalError::overload("[?_]", &[&v])),
                (v, false) => out.push(v),
            }
        }
        Ok(Val::list(out))
    }

    fn map(&mut self, entries: &'a [(Ir, Ir, bool)]) -> Res<Val<'a>> {
        let mut out = MapData::default();
        for (k, v, optional) in entries {
            let key = self.eval(k)?;
            match (self.eval(v)?, optional) {
                (Val::Optional(None), true) => {}
                (Val::Optional(Some(v)), true) => out.insert(key, (*v).clone())?,
                (v, true) => return Err(EvalError::overload("{?_}", &[&v])),
                (v, false) => out.insert(key, v)?,
            }
        }
        Ok(Val::Map(Map::Shared(Rc::new(out))))
    }

    fn fold(&mut self, f: &'a FoldIr) -> Res<Val<'a>> {
        let range = self.eval(&f.range)?;
        let depth = self.locals.len();
        let out = match &range {
            Val::List(l) => {
                let two = f.two;
                let items = l.iter().enumerate().map(move |(i, v)| match two {
                    true => (Val::Int(i as i64), Some(v)),
                    false => (v, None),
                });
                self.fold_items(f, items)
            }
            Val::Map(m) => {
                let two = f.two;
                self.fold_items(f, m.iter().map(move |(k, v)| (k, two.then_some(v))))
            }
            other => Err(EvalError::overload("comprehension range", &[other])),
        };
        self.locals.truncate(depth);
        out
    }

    fn fold_items(
        &mut self,
        f: &'a FoldIr,
        items: impl Iterator<Item = (Val<'a>, Option<Val<'a>>)>,
    ) -> Res<Val<'a>> {
        let depth = self.locals.len();
        let mut failed: Option<EvalError> = None;
        let mut matched = 0usize;
        let mut out = Vec::new();
        let mut map = MapData::default();
        for (first, second) in items {
            self.budget.charge(1)?;
            self.locals.truncate(depth);
            self.locals.push(first);
            self.locals.extend(second);
            if let Some(filter) = &f.filter
                && !truth(self.eval(filter)?)?
            {
                continue;
            }
            let body = self.eval(&f.body);
            match f.kind {
                Fold::All | Fold::Exists => match body.and_then(truth) {
                    Ok(b) if b == (f.kind == Fold::Exists) => return Ok(Val::Bool(b)),
                    Ok(_) => {}
                    Err(EvalError::Budget) => return Err(EvalError::Budget),
                    Err(e) => {
                        failed.get_or_insert(e);
                    }
                },
                Fold::ExistsOne => matched += usize::from(truth(body?)?),
                Fold::Map => out.push(body?),
                Fold::Filter => {
                    if truth(body?)? {
                        out.push(self.locals[depth].clone());
                    }
                }
                Fold::TransformMap => map.insert(self.locals[depth].clone(), body?)?,
                Fold::TransformMapEntry => match body? {
                    Val::Map(entry) => {
                        for (k, v) in entry.iter() {
                            map.insert(k, v)?;
                        }
                    }
                    v => return Err(EvalError::overload("transformMapEntry", &[&v])),
                },
                Fold::SortBy => {
                    let key = body?;
                    out.push(Val::list(vec![key, self.locals[depth].clone()]));
                }
            }
        }
        match f.kind {
            Fold::All | Fold::Exists => failed.map_or(Ok(Val::Bool(f.kind == Fold::All)), Err),
            Fold::ExistsOne => Ok(Val::Bool(matched == 1)),
            Fold::Map | Fold::Filter => Ok(Val::list(out)),
            Fold::TransformMap | Fold::TransformMapEntry => Ok(Val::Map(Map::Shared(Rc::new(map)))),
            Fold::SortBy => ops::sort_pairs(out, self.budget),
        }
    }
}

fn truth(v: Val<'_>) -> Res<bool> {
    match v {
        Val::Bool(b) => Ok(b),
        v => Err(EvalError::overload("predicate", &[&v])),
    }
}

/// The element at an index or key; `None` if there is none.
fn at<'a>(a: &Val<'a>, i: &Val<'a>) -> Res<Option<Val<'a>>> {
    match (a, i) {
        (Val::List(l), i) => Ok(position(i)?.and_then(|i| l.get(i))),
        (Val::Map(m), k) => Ok(m.get(k)),
        _ => Err(EvalError::overload("_[_]", &[a, i])),
    }
}

fn position(i: &Val<'_>) -> Res<Option<usize>> {
    match i {
        Val::Int(i) => Ok(usize::try_from(*i).ok()),
        Val::Uint(i) => Ok(usize::try_from(*i).ok()),
        Val::Double(d) if d.fract() == 0.0 && *d >= 0.0 => Ok(Some(*d as usize)),
        v => Err(EvalError::overload("_[_]", &[v])),
    }
}

fn literal(l: &Literal) -> Val<'_> {
    match l {
        Literal::Null => Val::Null,
        Literal::Bool(b) => Val::Bool(*b),
        Literal::Int(i) => Val::Int(*i),
        Literal::Uint(u) => Val::Uint(*u),
        Literal::Double(d) => Val::Double(*d),
        Literal::Str(s) => Val::Str(Text::Borrowed(s)),
        Literal::Bytes(b) => Val::Bytes(Rc::from(&**b)),
        Literal::Type(t) => Val::Type(Rc::from(*t)),
    }
}
