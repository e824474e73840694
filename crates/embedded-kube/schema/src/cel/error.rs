//! What can go wrong when compiling and when evaluating, worded as cel-go words it: these texts reach the
//! author of a rule through the API server's error.

use super::value::Val;

pub type Res<T> = Result<T, EvalError>;

/// A rule that cannot be compiled. The text starts with `ERROR: <input>:line:column:`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CompileError {
    #[error("{0}")]
    Syntax(String),
    #[error("expression code point size exceeds limit: size: {size}, limit {limit}")]
    TooLong { size: usize, limit: usize },
    #[error("expression recursion limit exceeded: {limit}")]
    TooDeep { limit: usize },
    #[error("the parser could not be started: {0}")]
    Parser(String),
}

/// An expression that has no value for these inputs.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EvalError {
    #[error("no such key: {0}")]
    NoSuchKey(String),
    #[error("no such overload: {0}")]
    NoOverload(String),
    #[error("no such attribute(s): {0}")]
    Undeclared(String),
    #[error("index out of bounds: {0}")]
    IndexOutOfBounds(String),
    #[error("division by zero")]
    DivisionByZero,
    #[error("modulus by zero")]
    ModulusByZero,
    #[error("return error for overflow")]
    Overflow,
    #[error("failed with repeated key: {0}")]
    DuplicateKey(String),
    #[error("optional.none() dereference")]
    EmptyOptional,
    #[error("{0}")]
    Function(String),
    #[error("operation cancelled: actual cost limit exceeded")]
    Budget,
}

impl EvalError {
    pub fn overload(function: &str, args: &[&Val<'_>]) -> EvalError {
        let types: Vec<&str> = args.iter().map(|v| v.type_name()).collect();
        EvalError::NoOverload(format!("{function}({})", types.join(", ")))
    }
}
