//! What a schema node needs at validation time beyond the schema itself.

use super::rule::{Rule, Scope};
use crate::cel;
use ek_meta::{Additional, FieldError, FieldPath, ListType, Node};
use regex::Regex;

/// Mirrors one schema node: `properties[i]` here belongs to `properties[i]` there.
#[derive(Debug, Default)]
pub(super) struct Compiled {
    pub(super) pattern: Option<Regex>,
    pub(super) properties: Vec<Compiled>,
    pub(super) items: Option<Box<Compiled>>,
    pub(super) additional: Option<Box<Compiled>>,
    pub(super) all_of: Vec<Compiled>,
    pub(super) any_of: Vec<Compiled>,
    pub(super) one_of: Vec<Compiled>,
    pub(super) not: Option<Box<Compiled>>,
    pub(super) rules: Vec<Rule>,
    /// Whether this node or one below has rules, transition rules, set or map lists, embedded resources: a
    /// pass skips subtrees that have nothing for it.
    pub(super) rules_below: bool,
    pub(super) transitions_below: bool,
    pub(super) lists_below: bool,
    pub(super) embedded_below: bool,
}

impl Compiled {
    pub(super) fn new(
        node: Node<'_>,
        scope: Scope,
        path: &FieldPath,
        errors: &mut Vec<FieldError>,
    ) -> Compiled {
        let s = node.schema;
        let child = |site, scope, path: &FieldPath, errors: &mut Vec<FieldError>| {
            Compiled::new(Node::new(site, node.defs), scope, path, errors)
        };
        let mut c = Compiled {
            lists_below: matches!(node.list_type(), ListType::Set | ListType::Map),
            embedded_below: s.embedded_resource,
            ..Compiled::default()
        };
        for (name, p) in &s.properties {
            c.properties.push(child(p, scope, &path.child("properties").key(name), errors));
        }
        if let Some(items) = &s.items {
            let below = if node.list_type() == ListType::Map { scope } else { Scope::Uncorrelatable };
            c.items = Some(Box::new(child(items, below, &path.child("items"), errors)));
        }
        if let Additional::Schema(a) = &s.additional {
            c.additional = Some(Box::new(child(a, scope, &path.child("additionalProperties"), errors)));
        }
        if let Some(r) = &s.rules {
            if let Some(p) = &r.pattern {
                match cel::pattern(p) {
                    Ok(re) => c.pattern = Some(re),
                    Err(e) => errors.push(FieldError::invalid(
                        &path.child("pattern"),
                        &**p,
                        format!("must be a valid regular expression, but isn't: {e}"),
                    )),
                }
            }
            for (name, from, to) in [
                ("allOf", &r.all_of, &mut c.all_of),
                ("anyOf", &r.any_of, &mut c.any_of),
                ("oneOf", &r.one_of, &mut c.one_of),
            ] {
                for (i, site) in from.iter().enumerate() {
                    to.push(child(site, scope, &path.child(name).index(i), errors));
                }
            }
            if let Some(not) = &r.not {
                c.not = Some(Box::new(child(not, scope, &path.child("not"), errors)));
            }
            let at = path.child("x-kubernetes-validations");
            for (i, v) in r.validations.iter().enumerate() {
                match Rule::parse(v, node, scope, &at.index(i)) {
                    Ok(rule) => c.rules.push(rule),
                    Err(mut e) => errors.append(&mut e),
                }
            }
        }
        c.summarise();
        c
    }

    fn summarise(&mut self) {
        self.rules_below = !self.rules.is_empty();
        self.transitions_below = self.rules.iter().any(|r| r.transition);
        let own = [&self.items, &self.additional];
        let mut flags = [self.rules_below, self.transitions_below, self.lists_below, self.embedded_below];
        // Rules inside allOf run too; the other combinations cannot carry any.
        let children =
            self.properties.iter().chain(own.into_iter().flatten().map(|b| &**b)).chain(&self.all_of);
        for c in children {
            flags[0] |= c.rules_below;
            flags[1] |= c.transitions_below;
            flags[2] |= c.lists_below;
            flags[3] |= c.embedded_below;
        }
        [self.rules_below, self.transitions_below, self.lists_below, self.embedded_below] = flags;
    }
}
