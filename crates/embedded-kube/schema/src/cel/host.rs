//! Objects the embedding server lends to expressions.
//!
//! `variables.x` of an admission policy is computed on first use, and `authorizer.group('').check('get')`
//! asks the server. Neither is data, so both are hosts: objects whose fields and methods are answered by
//! Rust code.

use super::error::{EvalError, Res};
use super::value::Val;
use super::{Budget, Program};
use std::cell::RefCell;
use std::collections::HashMap;
use std::fmt;
use std::rc::Rc;

pub trait Host<'a> {
    fn type_name(&self) -> &str;

    /// Field `name`, or `None` if there is no such field.
    fn field(&self, name: &str, budget: &Budget) -> Option<Res<Val<'a>>>;

    /// Method `name`, or `None` if there is no such method.
    fn call(&self, name: &str, args: &[Val<'a>], budget: &Budget) -> Option<Res<Val<'a>>> {
        let _ = (name, args, budget);
        None
    }
}

impl<'a> fmt::Debug for dyn Host<'a> + 'a {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.type_name())
    }
}

/// Named expressions, each evaluated at most once and only when used. One may use another.
#[derive(Clone)]
pub struct Variables<'a>(Rc<Inner<'a>>);

struct Inner<'a> {
    programs: &'a [(String, Program)],
    globals: Vec<(&'a str, Val<'a>)>,
    /// `None` marks a variable under evaluation: using itself is an error, not endless recursion.
    cache: RefCell<HashMap<usize, Option<Res<Val<'a>>>>>,
}

impl<'a> Variables<'a> {
    pub fn new(programs: &'a [(String, Program)], globals: Vec<(&'a str, Val<'a>)>) -> Variables<'a> {
        Variables(Rc::new(Inner { programs, globals, cache: RefCell::default() }))
    }
}

impl<'a> Host<'a> for Variables<'a> {
    fn type_name(&self) -> &str {
        "kubernetes.variables"
    }

    fn field(&self, name: &str, budget: &Budget) -> Option<Res<Val<'a>>> {
        let i = self.0.programs.iter().position(|(n, _)| n == name)?;
        if let Some(known) = self.0.cache.borrow().get(&i) {
            let cycle = || Err(EvalError::Function(format!("variable {name} refers to itself")));
            return Some(known.clone().unwrap_or_else(cycle));
        }
        self.0.cache.borrow_mut().insert(i, None);
        let mut globals = self.0.globals.clone();
        globals.push(("variables", Val::Host(Rc::new(self.clone()))));
        let value = self.0.programs[i].1.run(&globals, budget);
        self.0.cache.borrow_mut().insert(i, Some(value.clone()));
        Some(value)
    }
}
