//! Finds fields an expression reads that the schema does not declare.
//!
//! Not a type checker: it follows the schema through selections, indexes and comprehensions and gives up,
//! silently, wherever a value's schema is not plain. What it does report is certain.

use super::Program;
use super::ir::{Fold, FoldIr, Ir, Literal, Member};
use super::lower::located;
use ek_meta::{Additional, Node, SchemaType};

/// One undeclared field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Undefined {
    pub field: String,
    /// Worded and located as a compile error.
    pub message: String,
}

/// What is known of a value: its schema, or nothing.
type Known<'n> = Option<Node<'n>>;

struct Check<'p, 'n> {
    program: &'p Program,
    typed: &'p [(&'p str, Node<'n>)],
    locals: Vec<Known<'n>>,
    out: Vec<Undefined>,
}

pub(super) fn undefined(program: &Program, typed: &[(&str, Node<'_>)]) -> Vec<Undefined> {
    let mut c = Check { program, typed, locals: Vec::new(), out: Vec::new() };
    c.visit(&program.ir);
    c.out
}

/// Whether every readable field is declared: not so for islands, maps and untyped values.
fn closed(n: &Node<'_>) -> bool {
    let s = n.schema;
    s.ty == Some(SchemaType::Object) && !s.preserve_unknown && matches!(s.additional, Additional::None)
}

const IMPLICIT: [&str; 3] = ["apiVersion", "kind", "metadata"];

impl<'n> Check<'_, 'n> {
    fn member(&mut self, m: &Member) -> Known<'n> {
        let operand = self.visit(&m.operand)?;
        let name = m.unescaped.as_deref().unwrap_or(&m.field);
        let resource = operand.schema.embedded_resource || self.is_root(&operand);
        // The metadata of a resource has fields no schema declares.
        if resource && IMPLICIT.contains(&name) {
            return None;
        }
        if let Some(found) = operand.field(name).or_else(|| operand.field(&m.field)) {
            return Some(found);
        }
        let implicit =
            IMPLICIT.contains(&name) && (operand.schema.embedded_resource || self.is_root(&operand));
        if closed(&operand) && !implicit {
            let msg = format!("undefined field '{}'", m.field);
            self.out.push(Undefined {
                field: m.field.to_string(),
                message: located(&self.program.source, m.at as usize, &msg),
            });
        }
        None
    }

    /// Whether this is the whole of a variable, which may be a resource.
    fn is_root(&self, n: &Node<'_>) -> bool {
        self.typed.iter().any(|(_, t)| std::ptr::eq(t.schema, n.schema))
    }

    fn visit(&mut self, ir: &Ir) -> Known<'n> {
        match ir {
            Ir::Literal(_) => None,
            Ir::Local(i) => self.locals.get(*i).copied().flatten(),
            Ir::Global(i) => {
                let name = self.program.globals.get(*i)?;
                self.typed.iter().find(|(n, _)| *n == &**name).map(|(_, node)| *node)
            }
            Ir::Select(m) | Ir::OptSelect(m) => self.member(m),
            Ir::Has(m) => {
                self.member(m);
                None
            }
            Ir::Index(b) | Ir::OptIndex(b) => {
                let operand = self.visit(&b.0);
                self.visit(&b.1);
                let operand = operand?;
                match &b.1 {
                    Ir::Literal(Literal::Str(k)) => operand.field(k),
                    _ if operand.schema.ty == Some(SchemaType::Array) => operand.items(),
                    _ => value_of(operand),
                }
            }
            Ir::And(v) | Ir::Or(v) => self.each(v),
            Ir::Not(x) | Ir::Neg(x) => {
                self.visit(x);
                None
            }
            Ir::Cond(c) => {
                self.visit(&c.0);
                let a = self.visit(&c.1);
                let b = self.visit(&c.2);
                // Both branches must agree for the schema to be known.
                a.filter(|a| b.is_some_and(|b| std::ptr::eq(a.schema, b.schema)))
            }
            Ir::Binary(_, b) => {
                self.visit(&b.0);
                self.visit(&b.1);
                None
            }
            Ir::Call { entry, args, .. } => {
                let first = args.first().and_then(|a| self.visit(a));
                for a in args.iter().skip(1) {
                    self.visit(a);
                }
                // Optionals are transparent here.
                if entry.name == "value" { first } else { None }
            }
            Ir::HostCall { args, .. } => self.each(args),
            Ir::List(items) => {
                for (i, _) in items {
                    self.visit(i);
                }
                None
            }
            Ir::Map(entries) => {
                for (k, v, _) in entries {
                    self.visit(k);
                    self.visit(v);
                }
                None
            }
            Ir::Fold(f) => self.fold(f),
            Ir::Bind(b) | Ir::OptMap(b, _) => {
                let v = self.visit(&b.0);
                self.locals.push(v);
                let out = self.visit(&b.1);
                self.locals.pop();
                out
            }
            Ir::Or2(b, _) => {
                self.visit(&b.0);
                self.visit(&b.1);
                None
            }
        }
    }

    fn each(&mut self, v: &[Ir]) -> Known<'n> {
        for i in v {
            self.visit(i);
        }
        None
    }

    fn fold(&mut self, f: &FoldIr) -> Known<'n> {
        let range = self.visit(&f.range);
        let depth = self.locals.len();
        let array = range.is_some_and(|r| r.schema.ty == Some(SchemaType::Array));
        let element = range.and_then(|r| if array { r.items() } else { value_of(r) });
        match (f.two, array) {
            (true, _) => self.locals.extend([None, element]),
            (false, true) => self.locals.push(element),
            (false, false) => self.locals.push(None),
        }
        if let Some(filter) = &f.filter {
            self.visit(filter);
        }
        self.visit(&f.body);
        self.locals.truncate(depth);
        // A filtered or sorted list has the schema of its source.
        if array && matches!(f.kind, Fold::Filter | Fold::SortBy) { range } else { None }
    }
}

fn value_of(n: Node<'_>) -> Option<Node<'_>> {
    match &n.schema.additional {
        Additional::Schema(s) => Some(Node::new(s, n.defs)),
        _ => None,
    }
}
