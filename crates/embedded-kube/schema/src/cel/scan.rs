//! Bounds on the text before the parser sees it.
//!
//! The parser, the tree it builds and our evaluator are all recursive, so the depth of an expression is stack.
//! A linear scan over-estimates that depth: brackets nest, and so do chains of left-associative operators
//! (`a.b.c`, `1 + 1 + 1`). `&&`, `||` and `,` start a fresh chain, because the parser balances them.

use super::error::CompileError;
use cel::common::ast::{IdedExpr, SourceInfo};

/// Longest expression; real rules stay below 4 KiB.
pub(super) const MAX_LENGTH: usize = 20_000;
/// Deepest chain of operators and brackets.
pub(super) const MAX_DEPTH: usize = 250;
/// Deepest bracket nesting.
const MAX_NESTING: usize = 60;
/// Nesting the parser may handle on the caller's stack. One level costs it several kilobytes.
const INLINE_NESTING: usize = 8;
const INLINE_DEPTH: usize = 60;
const PARSER_STACK: usize = 64 << 20;

pub(super) fn parse(expr: &str) -> Result<(IdedExpr, SourceInfo), CompileError> {
    if expr.len() > MAX_LENGTH {
        return Err(CompileError::TooLong { size: expr.len(), limit: MAX_LENGTH });
    }
    let shape = scan(expr);
    if shape.depth > MAX_DEPTH {
        return Err(CompileError::TooDeep { limit: MAX_DEPTH });
    }
    if shape.nesting > MAX_NESTING {
        return Err(CompileError::TooDeep { limit: MAX_NESTING });
    }
    if shape.nesting <= INLINE_NESTING && shape.depth <= INLINE_DEPTH {
        return parse_here(expr);
    }
    std::thread::scope(|s| {
        let handle = std::thread::Builder::new()
            .stack_size(PARSER_STACK)
            .spawn_scoped(s, || parse_here(expr))
            .map_err(|e| CompileError::Parser(e.to_string()))?;
        handle.join().unwrap_or_else(|_| Err(CompileError::Parser("it failed".to_owned())))
    })
}

fn parse_here(expr: &str) -> Result<(IdedExpr, SourceInfo), CompileError> {
    // An environment without macros: `lower` expands them.
    cel::Env::default()
        .parser()
        .enable_ident_escape_syntax(true)
        .parse_with_source_info(expr)
        // The source and the marker under it are set off by a space.
        .map_err(|e| CompileError::Syntax(e.to_string().replace("\n| ", "\n | ")))
}

struct Shape {
    depth: usize,
    nesting: usize,
}

fn scan(expr: &str) -> Shape {
    let b = expr.as_bytes();
    let mut shape = Shape { depth: 0, nesting: 0 };
    let mut open: Vec<usize> = Vec::new();
    let mut chain = 0usize;
    let mut base = 0usize;
    let mut i = 0;
    while i < b.len() {
        match b[i] {
            b'"' | b'\'' => {
                i = skip_string(b, i);
                continue;
            }
            b'/' if b.get(i + 1) == Some(&b'/') => {
                while i < b.len() && b[i] != b'\n' {
                    i += 1;
                }
                continue;
            }
            b'(' | b'[' | b'{' => {
                open.push(base);
                chain += 1;
                base = chain;
                shape.nesting = shape.nesting.max(open.len());
            }
            b')' | b']' | b'}' => {
                // What follows a bracket continues the chain that opened it.
                chain = base;
                base = open.pop().unwrap_or(0);
            }
            b',' => chain = base,
            b'&' | b'|' => {
                chain = base;
                i += 1;
            }
            b'+' | b'-' | b'*' | b'/' | b'%' | b'.' | b'=' | b'<' | b'>' | b'!' | b'?' => chain += 1,
            b'i' if is_in(b, i) => chain += 1,
            _ => {}
        }
        shape.depth = shape.depth.max(chain);
        i += 1;
    }
    shape
}

/// The operator `in`, not a part of a name.
fn is_in(b: &[u8], i: usize) -> bool {
    let name = |c: Option<&u8>| c.is_some_and(|c| c.is_ascii_alphanumeric() || *c == b'_');
    b.get(i + 1) == Some(&b'n') && !name(b.get(i + 2)) && !name(i.checked_sub(1).and_then(|j| b.get(j)))
}

/// The index after the string literal at `i`. A literal left open ends with the text: the parser will say so.
fn skip_string(b: &[u8], i: usize) -> usize {
    let q = b[i];
    let raw = i > 0 && matches!(b[i - 1], b'r' | b'R');
    let triple = b.get(i + 1) == Some(&q) && b.get(i + 2) == Some(&q);
    let mut j = if triple { i + 3 } else { i + 1 };
    while j < b.len() {
        if b[j] == b'\\' && !raw {
            j += 2;
            continue;
        }
        if b[j] == q && (!triple || (b.get(j + 1) == Some(&q) && b.get(j + 2) == Some(&q))) {
            return if triple { j + 3 } else { j + 1 };
        }
        // A newline ends an unterminated plain literal, so that brackets after it still count.
        if b[j] == b'\n' && !triple {
            return j;
        }
        j += 1;
    }
    b.len()
}
