//! Validation of custom resources, in the words of kube-apiserver.
//!
//! Three passes, as upstream: values against keywords, uniqueness of set and map lists (with embedded
//! resources), then CEL rules, which run only if nothing they could trip over is wrong already. The old object
//! walks along: a value that did not change is not judged again (ratcheting), so that tightening a schema does
//! not lock objects that exist. List items are matched to old ones by key if the list is a map; otherwise a
//! changed list is new throughout.
//!
//! A [`Validator`] is compiled once per CRD version. Its [`Compiled`](compiled::Compiled) tree mirrors the
//! schema tree node by node and holds what is costly to build: patterns and programs.

mod compiled;
mod correlate;
mod embedded;
mod keywords;
mod lists;
mod path;
mod rule;
mod rules;

pub use rule::{Rule, Scope, check_choices};

use compiled::Compiled;
use ek_meta::field::ErrorKind;
use ek_meta::{Definitions, FieldError, FieldPath, Node, Schema};
use path::Path;
use serde_json::Value;

#[derive(Debug)]
pub struct Validator {
    schema: Schema,
    compiled: Compiled,
}

impl Validator {
    /// Compiles patterns and rules; what does not compile is reported under `properties[...]` paths.
    pub fn compile(openapi_v3_schema: &Value) -> Result<Validator, Vec<FieldError>> {
        let schema = Schema::parse(openapi_v3_schema, &|_| None);
        let mut errors = Vec::new();
        let node = Node::new(&schema, Definitions::empty());
        let compiled = Compiled::new(node, Scope::Correlatable, &FieldPath::root(), &mut errors);
        if errors.is_empty() { Ok(Validator { schema, compiled }) } else { Err(errors) }
    }

    /// The schema, for pruning, defaulting and merging.
    pub fn node(&self) -> Node<'_> {
        Node::new(&self.schema, Definitions::empty())
    }

    /// Everything wrong with `new`, given what it replaces.
    pub fn validate(&self, new: &Value, old: Option<&Value>) -> Vec<FieldError> {
        let mut errors = Vec::new();
        let root = Path::root();
        keywords::Keywords { errors: &mut errors }.value(&self.compiled, &self.schema, new, old, &root);
        let mut unique = Vec::new();
        if self.compiled.lists_below {
            lists::check(&self.compiled, &self.schema, new, old, &root, &mut unique);
        }
        if self.compiled.embedded_below {
            embedded::check(&self.compiled, &self.schema, new, old, &root, &mut unique);
        }
        errors.append(&mut unique);
        if !self.compiled.rules_below {
            return errors;
        }
        if errors.iter().any(blocks_rules) {
            errors.push(FieldError::invalid(&FieldPath::new("<nil>"), Value::Null, UNCHECKED));
            return errors;
        }
        errors.extend(rules::run(&self.compiled, self.node(), new, old));
        errors
    }
}

const UNCHECKED: &str = "some validation rules were not checked because the object was invalid; correct the existing errors to complete validation";

/// Rules assume that types, presence and sizes are as declared.
fn blocks_rules(e: &FieldError) -> bool {
    matches!(
        e.kind,
        ErrorKind::NotSupported
            | ErrorKind::Required
            | ErrorKind::TypeInvalid
            | ErrorKind::TooLong
            | ErrorKind::TooMany
    )
}
