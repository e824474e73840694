//! The Common Expression Language as Kubernetes speaks it.
//!
//! Parsing is the `cel` crate's. Evaluation is ours, for four reasons: the API server must bound the work an
//! expression may do (the crate counts nothing), values must be read from borrowed JSON under a schema
//! (`integer` is int, `date-time` is a timestamp, a `set` list compares without order), the Kubernetes
//! function library needs opaque types, and macros the crate lacks (`cel.bind`, the two-variable ones) are
//! then ordinary nodes instead of rewrites.
//!
//! [`Program::compile`] checks length and nesting before the recursive parser sees the text, so hostile input
//! costs an error, never the stack. A [`Program`] is immutable and shared between threads; an evaluation
//! borrows it, its inputs and a [`Budget`].

mod check;
mod error;
mod eval;
mod formats;
mod host;
mod ir;
mod lists;
mod lower;
mod macros;
mod math;
mod net;
mod ops;
mod quantity;
mod regexes;
mod scan;
mod semver;
mod stdlib;
mod strfmt;
mod strings;
mod table;
mod time;
mod urls;
mod value;

pub use check::Undefined;
pub use error::{CompileError, EvalError, Res};
pub use host::{Host, Variables};
pub use time::parse_duration;
pub use value::{List, Map, MapData, Text, Val};

use ek_meta::Node;
use serde_json::Value;
use std::cell::Cell;
use std::rc::Rc;

/// Units one rule may use.
pub const RULE_BUDGET: u64 = 1_000_000;
/// Units all rules of one object may use together.
pub const OBJECT_BUDGET: u64 = 10_000_000;

/// Work left. One unit is one node evaluated; library functions charge for the size of what they read.
#[derive(Debug)]
pub struct Budget {
    left: Cell<u64>,
    start: u64,
}

impl Budget {
    pub fn new(units: u64) -> Budget {
        Budget { left: Cell::new(units), start: units }
    }

    pub fn charge(&self, units: u64) -> Res<()> {
        match self.left.get().checked_sub(units) {
            Some(left) => {
                self.left.set(left);
                Ok(())
            }
            None => {
                self.left.set(0);
                Err(EvalError::Budget)
            }
        }
    }

    pub fn used(&self) -> u64 {
        self.start - self.left.get()
    }
}

impl Default for Budget {
    fn default() -> Self {
        Budget::new(RULE_BUDGET)
    }
}

/// One variable of an expression.
#[derive(Clone)]
pub enum CelInput<'a> {
    /// Plain JSON: numbers are int if whole, strings are strings.
    Json(&'a Value),
    /// JSON under a schema.
    Typed(&'a Value, Node<'a>),
    /// Something absent or present, for `optionalOldSelf`.
    Optional(Option<(&'a Value, Node<'a>)>),
    /// Fields and methods answered by code.
    Host(Rc<dyn Host<'a> + 'a>),
    Val(Val<'a>),
}

impl<'a> From<CelInput<'a>> for Val<'a> {
    fn from(i: CelInput<'a>) -> Val<'a> {
        match i {
            CelInput::Json(v) => Val::from_json(v, None),
            CelInput::Typed(v, n) => Val::from_json(v, Some(n)),
            CelInput::Optional(o) => Val::Optional(o.map(|(v, n)| Rc::new(Val::from_json(v, Some(n))))),
            CelInput::Host(h) => Val::Host(h),
            CelInput::Val(v) => v,
        }
    }
}

/// A compiled expression.
#[derive(Debug)]
pub struct Program {
    source: Box<str>,
    ir: ir::Ir,
    globals: Vec<Box<str>>,
}

impl Program {
    /// Compiles an expression over any variables. Unknown functions are errors; unknown methods are left to
    /// hosts.
    pub fn compile(expr: &str) -> Result<Program, CompileError> {
        Program::compile_with(expr, None)
    }

    /// As [`Program::compile`], and when `declared` is given only these variables may be used, and no host
    /// methods.
    pub fn compile_with(expr: &str, declared: Option<&[&str]>) -> Result<Program, CompileError> {
        Program::compile_scoped(expr, declared, &[])
    }

    /// As [`Program::compile_with`], where hosts among the variables have these methods.
    pub fn compile_scoped(
        expr: &str,
        declared: Option<&[&str]>,
        methods: &[&str],
    ) -> Result<Program, CompileError> {
        let (ast, info) = scan::parse(expr)?;
        let (ir, globals) = lower::lower(&ast, &info, declared, methods)?;
        Ok(Program { source: expr.into(), ir, globals })
    }

    pub fn source(&self) -> &str {
        &self.source
    }

    /// Whether the expression mentions this variable.
    pub fn uses(&self, variable: &str) -> bool {
        self.globals.iter().any(|g| **g == *variable)
    }

    pub fn variables(&self) -> impl Iterator<Item = &str> {
        self.globals.iter().map(|g| &**g)
    }

    /// The type the expression has whatever its inputs are, if that is plain from its outermost operation.
    pub fn static_type(&self) -> Option<&'static str> {
        self.ir.static_type()
    }

    /// Fields read from the given variables that their schemas do not declare.
    pub fn undefined_fields(&self, typed: &[(&str, Node<'_>)]) -> Vec<Undefined> {
        check::undefined(self, typed)
    }

    /// Evaluates over values.
    pub fn run<'a>(&'a self, globals: &[(&'a str, Val<'a>)], budget: &Budget) -> Res<Val<'a>> {
        eval::run(&self.ir, &self.globals, globals, budget)
    }

    /// Evaluates within the budget of one rule.
    pub fn evaluate<'a>(&'a self, vars: &[(&'a str, CelInput<'a>)]) -> Res<Val<'a>> {
        self.evaluate_within(vars, &Budget::default())
    }

    pub fn evaluate_within<'a>(&'a self, vars: &[(&'a str, CelInput<'a>)], budget: &Budget) -> Res<Val<'a>> {
        let globals: Vec<(&'a str, Val<'a>)> = vars.iter().map(|(n, i)| (*n, i.clone().into())).collect();
        self.run(&globals, budget)
    }

    /// Evaluates a condition.
    pub fn evaluate_bool<'a>(&'a self, vars: &[(&'a str, CelInput<'a>)]) -> Res<bool> {
        match self.evaluate(vars)? {
            Val::Bool(b) => Ok(b),
            other => Err(EvalError::Function(format!("expected a bool result, got {}", other.type_name()))),
        }
    }

    /// Evaluates over untyped JSON to JSON: match conditions, claim mappings.
    pub fn evaluate_json<'a>(&'a self, vars: &[(&'a str, &'a Value)]) -> Res<Value> {
        let globals: Vec<(&'a str, Val<'a>)> =
            vars.iter().map(|(n, v)| (*n, Val::from_json(v, None))).collect();
        self.run(&globals, &Budget::default())?.to_json()
    }
}

/// The property name behind an identifier: `__dash__` and its like stand for what CEL cannot spell.
pub fn unescape(ident: &str) -> Option<String> {
    lower::unescape(ident)
}

/// What Go's `ParseRequestURI` takes.
pub(crate) fn is_request_uri(s: &str) -> bool {
    urls::parse(s).is_some()
}

/// Compiles a regular expression of Go's dialect, with bounded size.
pub(crate) fn pattern(p: &str) -> Result<regex::Regex, regex::Error> {
    regexes::compile(p)
}
