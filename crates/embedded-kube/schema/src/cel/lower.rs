//! From the parser's tree to the program: names, functions and macros are resolved here, once.

use super::error::CompileError;
use super::ir::{Ir, Literal, Member, Op};
use super::macros;
use super::table::{self, Lookup, NAMESPACES};
use cel::common::ast::{
    CallExpr, EntryExpr, Expr, IdedExpr, LiteralValue, SelectExpr, SourceInfo, operators,
};

pub(super) struct Lower<'i> {
    info: &'i SourceInfo,
    declared: Option<&'i [&'i str]>,
    /// Methods hosts have among the declared variables.
    methods: &'i [&'i str],
    pub(super) locals: Vec<String>,
    globals: Vec<Box<str>>,
}

pub(super) type Lowered = Result<Ir, CompileError>;

pub(super) fn lower(
    ast: &IdedExpr,
    info: &SourceInfo,
    declared: Option<&[&str]>,
    methods: &[&str],
) -> Result<(Ir, Vec<Box<str>>), CompileError> {
    let mut l = Lower { info, declared, methods, locals: Vec::new(), globals: Vec::new() };
    let ir = l.expr(ast)?;
    Ok((ir, l.globals))
}

const TYPES: [&str; 12] = [
    "bool",
    "bytes",
    "double",
    "int",
    "list",
    "map",
    "null_type",
    "string",
    "type",
    "uint",
    "google.protobuf.Timestamp",
    "google.protobuf.Duration",
];

impl Lower<'_> {
    /// An error at a node, laid out as cel-go lays it out.
    pub(super) fn error(&self, id: u64, msg: impl AsRef<str>) -> CompileError {
        let offset = self.info.offset_for(id).map_or(0, |(start, _)| start as usize);
        CompileError::Syntax(located(&self.info.source, offset, msg.as_ref()))
    }

    fn offset(&self, id: u64) -> u32 {
        self.info.offset_for(id).map_or(0, |(start, _)| start)
    }

    pub(super) fn boxed(&mut self, a: &IdedExpr, b: &IdedExpr) -> Result<Box<(Ir, Ir)>, CompileError> {
        Ok(Box::new((self.expr(a)?, self.expr(b)?)))
    }

    pub(super) fn expr(&mut self, e: &IdedExpr) -> Lowered {
        match &e.expr {
            Expr::Unspecified => Err(self.error(e.id, "unspecified expression")),
            Expr::Literal(l) => Ok(Ir::Literal(literal(l))),
            Expr::Ident(name) => self.ident(e.id, name),
            Expr::Select(s) => self.select(e.id, s),
            Expr::Call(c) => self.call(e.id, c),
            Expr::List(l) => {
                let mut items = Vec::with_capacity(l.elements.len());
                for (i, item) in l.elements.iter().enumerate() {
                    items.push((self.expr(item)?, l.optional_indices.contains(&i)));
                }
                Ok(Ir::List(items))
            }
            Expr::Map(m) => {
                let mut entries = Vec::with_capacity(m.entries.len());
                for entry in &m.entries {
                    let EntryExpr::MapEntry(entry) = &entry.expr else {
                        return Err(self.error(e.id, "unexpected struct field in map"));
                    };
                    entries.push((self.expr(&entry.key)?, self.expr(&entry.value)?, entry.optional));
                }
                Ok(Ir::Map(entries))
            }
            Expr::Struct(s) => {
                Err(self.error(e.id, format!("undeclared reference to '{}' (in container '')", s.type_name)))
            }
            Expr::Comprehension(_) => Err(self.error(e.id, "unexpected comprehension")),
        }
    }

    pub(super) fn is_local(&self, name: &str) -> bool {
        self.locals.iter().any(|l| l == name)
    }

    fn ident(&mut self, id: u64, name: &str) -> Lowered {
        // A leading dot asks for the root scope; there is no other one for variables.
        let name = name.strip_prefix('.').unwrap_or(name);
        if let Some(i) = self.locals.iter().rposition(|l| l == name) {
            return Ok(Ir::Local(i));
        }
        let declared = self.declared.is_some_and(|d| d.contains(&name));
        if !declared && let Some(t) = TYPES.iter().find(|t| **t == name) {
            return Ok(Ir::Literal(Literal::Type(t)));
        }
        if self.declared.is_some() && !declared {
            return Err(self.error(id, format!("undeclared reference to '{name}' (in container '')")));
        }
        let i = self.globals.iter().position(|g| **g == *name).unwrap_or_else(|| {
            self.globals.push(name.into());
            self.globals.len() - 1
        });
        Ok(Ir::Global(i))
    }

    fn member(&mut self, id: u64, operand: &IdedExpr, field: &str) -> Result<Box<Member>, CompileError> {
        Ok(Box::new(Member {
            operand: self.expr(operand)?,
            field: field.into(),
            unescaped: unescape(field).map(Into::into),
            at: self.offset(id),
        }))
    }

    fn select(&mut self, id: u64, s: &SelectExpr) -> Lowered {
        if let Some(t) = TYPES.iter().find(|t| t.contains('.') && dotted(s).as_deref() == Some(**t)) {
            return Ok(Ir::Literal(Literal::Type(t)));
        }
        let member = self.member(id, &s.operand, &s.field)?;
        Ok(if s.test { Ir::Has(member) } else { Ir::Select(member) })
    }

    fn call(&mut self, id: u64, c: &CallExpr) -> Lowered {
        if c.target.is_none()
            && let Some(op) = self.operator(id, c)?
        {
            return Ok(op);
        }
        if let Some(ir) = macros::expand(self, id, c)? {
            return Ok(ir);
        }
        match &c.target {
            None => self.resolve(id, &c.func_name, false, &c.args.iter().collect::<Vec<_>>()),
            Some(target) => {
                if let Expr::Ident(ns) = &target.expr
                    && NAMESPACES.contains(&ns.as_str())
                    && !self.is_local(ns)
                {
                    let name = format!("{ns}.{}", c.func_name);
                    let args: Vec<&IdedExpr> = c.args.iter().collect();
                    if !matches!(table::lookup(&name, false, args.len()), Lookup::Unknown) {
                        return self.resolve(id, &name, false, &args);
                    }
                }
                let args: Vec<&IdedExpr> = std::iter::once(&**target).chain(&c.args).collect();
                self.resolve(id, &c.func_name, true, &args)
            }
        }
    }

    fn operator(&mut self, id: u64, c: &CallExpr) -> Result<Option<Ir>, CompileError> {
        let binary = |name: &str| {
            Some(match name {
                operators::ADD => Op::Add,
                operators::SUBSTRACT => Op::Sub,
                operators::MULTIPLY => Op::Mul,
                operators::DIVIDE => Op::Div,
                operators::MODULO => Op::Rem,
                operators::EQUALS => Op::Eq,
                operators::NOT_EQUALS => Op::Ne,
                operators::LESS => Op::Lt,
                operators::LESS_EQUALS => Op::Le,
                operators::GREATER => Op::Gt,
                operators::GREATER_EQUALS => Op::Ge,
                operators::IN => Op::In,
                _ => return None,
            })
        };
        let a = c.args.as_slice();
        Ok(Some(match (c.func_name.as_str(), a) {
            (operators::LOGICAL_AND, _) => Ir::And(self.all(a)?),
            (operators::LOGICAL_OR, _) => Ir::Or(self.all(a)?),
            (operators::LOGICAL_NOT, [x]) => Ir::Not(Box::new(self.expr(x)?)),
            (operators::NEGATE, [x]) => Ir::Neg(Box::new(self.expr(x)?)),
            (operators::CONDITIONAL, [x, y, z]) => {
                Ir::Cond(Box::new((self.expr(x)?, self.expr(y)?, self.expr(z)?)))
            }
            (operators::INDEX, [x, y]) => Ir::Index(self.boxed(x, y)?),
            (operators::OPT_INDEX, [x, y]) => Ir::OptIndex(self.boxed(x, y)?),
            (operators::OPT_SELECT, [x, y]) => match &y.expr {
                Expr::Literal(LiteralValue::String(s)) => Ir::OptSelect(self.member(id, x, s.inner())?),
                _ => return Err(self.error(y.id, "unsupported optional field selection")),
            },
            (name, [x, y]) => match binary(name) {
                Some(op) => Ir::Binary(op, self.boxed(x, y)?),
                None => return Ok(None),
            },
            _ => return Ok(None),
        }))
    }

    fn all(&mut self, args: &[IdedExpr]) -> Result<Vec<Ir>, CompileError> {
        args.iter().map(|a| self.expr(a)).collect()
    }

    fn resolve(&mut self, id: u64, name: &str, is_method: bool, args: &[&IdedExpr]) -> Lowered {
        let found = table::lookup(name, is_method, args.len());
        let irs = args.iter().map(|a| self.expr(a)).collect::<Result<Vec<_>, _>>()?;
        match found {
            Lookup::Found(entry) => {
                let regex = match entry.pattern.and_then(|i| irs.get(i)) {
                    Some(Ir::Literal(Literal::Str(p))) => {
                        let compiled = super::pattern(p)
                            .map_err(|e| self.error(id, format!("error parsing regexp: {e}")))?;
                        Some(Box::new(compiled))
                    }
                    _ => None,
                };
                Ok(Ir::Call { entry, args: irs, regex })
            }
            // Hosts have methods of their own; a closed set of variables only those that are named.
            _ if is_method && (self.declared.is_none() || self.methods.contains(&name)) => {
                Ok(Ir::HostCall { name: name.into(), args: irs })
            }
            Lookup::WrongArity => {
                let types: Vec<&str> = irs.iter().map(|i| i.static_type().unwrap_or("dyn")).collect();
                let signature = match types.split_first() {
                    Some((receiver, rest)) if is_method => format!("{receiver}.({})", rest.join(", ")),
                    _ => format!("({})", types.join(", ")),
                };
                Err(self
                    .error(id, format!("found no matching overload for '{name}' applied to '{signature}'")))
            }
            Lookup::Unknown => {
                Err(self.error(id, format!("undeclared reference to '{name}' (in container '')")))
            }
        }
    }
}

fn literal(l: &LiteralValue) -> Literal {
    match l {
        LiteralValue::Boolean(b) => Literal::Bool(*b.inner()),
        LiteralValue::Bytes(b) => Literal::Bytes(b.inner().into()),
        LiteralValue::Double(d) => Literal::Double(*d.inner()),
        LiteralValue::Int(i) => Literal::Int(*i.inner()),
        LiteralValue::Null => Literal::Null,
        LiteralValue::String(s) => Literal::Str(s.inner().into()),
        LiteralValue::UInt(u) => Literal::Uint(*u.inner()),
    }
}

/// `a.b.c` as text, for the few names that contain dots.
fn dotted(s: &SelectExpr) -> Option<String> {
    if s.test {
        return None;
    }
    match &s.operand.expr {
        Expr::Ident(i) => Some(format!("{i}.{}", s.field)),
        Expr::Select(inner) => Some(format!("{}.{}", dotted(inner)?, s.field)),
        _ => None,
    }
}

/// `ERROR: <input>:line:column: msg` with the line and a mark below it.
pub(super) fn located(source: &str, offset: usize, msg: &str) -> String {
    let mut rest = offset;
    for (n, line) in source.split('\n').enumerate() {
        if rest <= line.len() {
            let column = line.char_indices().take_while(|(i, _)| *i < rest).count();
            let mark = format!("{}^", ".".repeat(column));
            return format!("ERROR: <input>:{}:{}: {msg}\n | {line}\n | {mark}", n + 1, column + 1);
        }
        rest -= line.len() + 1;
    }
    format!("ERROR: <input>:1:1: {msg}")
}

/// CEL keywords a property name may collide with.
const KEYWORDS: [&str; 21] = [
    "true",
    "false",
    "null",
    "in",
    "as",
    "break",
    "const",
    "continue",
    "else",
    "for",
    "function",
    "if",
    "import",
    "let",
    "loop",
    "package",
    "namespace",
    "return",
    "var",
    "void",
    "while",
];

/// Undoes the escaping of property names. `None` if nothing is escaped.
pub(super) fn unescape(ident: &str) -> Option<String> {
    if !ident.contains("__") {
        return None;
    }
    if let Some(word) = ident.strip_prefix("__").and_then(|s| s.strip_suffix("__"))
        && KEYWORDS.contains(&word)
    {
        return Some(word.to_owned());
    }
    let mut out = String::with_capacity(ident.len());
    let mut rest = ident;
    while let Some(c) = rest.chars().next() {
        let replaced = [("__underscores__", "__"), ("__dot__", "."), ("__dash__", "-"), ("__slash__", "/")]
            .iter()
            .find_map(|(code, plain)| rest.strip_prefix(code).map(|tail| (*plain, tail)));
        match replaced {
            Some((plain, tail)) => {
                out.push_str(plain);
                rest = tail;
            }
            None => {
                out.push(c);
                rest = &rest[c.len_utf8()..];
            }
        }
    }
    (out != ident).then_some(out)
}
