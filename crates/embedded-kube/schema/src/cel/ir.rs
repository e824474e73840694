//! The program as evaluated: names resolved, functions found, literal patterns compiled.

use super::table::Entry;
use regex::Regex;

#[derive(Clone, Debug)]
pub(super) enum Literal {
    Null,
    Bool(bool),
    Int(i64),
    Uint(u64),
    Double(f64),
    Str(Box<str>),
    Bytes(Box<[u8]>),
    Type(&'static str),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Op {
    Add,
    Sub,
    Mul,
    Div,
    Rem,
    Eq,
    Ne,
    Lt,
    Le,
    Gt,
    Ge,
    In,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fold {
    All,
    Exists,
    ExistsOne,
    Map,
    Filter,
    TransformMap,
    TransformMapEntry,
    SortBy,
}

#[derive(Debug)]
pub(super) struct Member {
    pub operand: Ir,
    pub field: Box<str>,
    /// The property name the identifier stands for, where it differs.
    pub unescaped: Option<Box<str>>,
    /// Byte offset in the source, for errors.
    pub at: u32,
}

#[derive(Debug)]
pub(super) struct FoldIr {
    pub kind: Fold,
    pub range: Ir,
    /// Binds index/key and value instead of value/key.
    pub two: bool,
    pub filter: Option<Ir>,
    pub body: Ir,
}

#[derive(Debug)]
pub(super) enum Ir {
    Literal(Literal),
    /// Position in the stack of bound variables, from the bottom.
    Local(usize),
    /// Index into the program's list of variable names.
    Global(usize),
    Select(Box<Member>),
    Has(Box<Member>),
    OptSelect(Box<Member>),
    Index(Box<(Ir, Ir)>),
    OptIndex(Box<(Ir, Ir)>),
    And(Vec<Ir>),
    Or(Vec<Ir>),
    Not(Box<Ir>),
    Neg(Box<Ir>),
    Cond(Box<(Ir, Ir, Ir)>),
    Binary(Op, Box<(Ir, Ir)>),
    Call {
        entry: &'static Entry,
        args: Vec<Ir>,
        regex: Option<Box<Regex>>,
    },
    /// A method only hosts have.
    HostCall {
        name: Box<str>,
        args: Vec<Ir>,
    },
    /// Elements, each with whether it is optional (`[?x]`).
    List(Vec<(Ir, bool)>),
    Map(Vec<(Ir, Ir, bool)>),
    Fold(Box<FoldIr>),
    /// `cel.bind(x, value, body)`.
    Bind(Box<(Ir, Ir)>),
    /// `opt.optMap(x, body)`; the flag is `optFlatMap`.
    OptMap(Box<(Ir, Ir)>, bool),
    /// `opt.or(other)`, lazily; the flag is `orValue`.
    Or2(Box<(Ir, Ir)>, bool),
}

impl Ir {
    /// The type that is plain without knowing any input.
    pub(super) fn static_type(&self) -> Option<&'static str> {
        Some(match self {
            Ir::Literal(Literal::Null) => "null_type",
            Ir::Literal(Literal::Bool(_)) => "bool",
            Ir::Literal(Literal::Int(_)) => "int",
            Ir::Literal(Literal::Uint(_)) => "uint",
            Ir::Literal(Literal::Double(_)) => "double",
            Ir::Literal(Literal::Str(_)) => "string",
            Ir::Literal(Literal::Bytes(_)) => "bytes",
            Ir::Literal(Literal::Type(_)) => "type",
            Ir::Has(_) | Ir::And(_) | Ir::Or(_) | Ir::Not(_) => "bool",
            Ir::OptSelect(_) | Ir::OptIndex(_) => "optional_type",
            Ir::Binary(op, args) => match op {
                Op::Eq | Op::Ne | Op::Lt | Op::Le | Op::Gt | Op::Ge | Op::In => "bool",
                _ => return args.0.static_type().or_else(|| args.1.static_type()),
            },
            Ir::Cond(c) => return c.1.static_type().or_else(|| c.2.static_type()),
            Ir::List(_) => "list",
            Ir::Map(_) => "map",
            Ir::Fold(f) => match f.kind {
                Fold::All | Fold::Exists | Fold::ExistsOne => "bool",
                Fold::Map | Fold::Filter | Fold::SortBy => "list",
                Fold::TransformMap | Fold::TransformMapEntry => "map",
            },
            Ir::Bind(b) => return b.1.static_type(),
            Ir::Call { entry, .. } => return entry.returns,
            _ => return None,
        })
    }
}
