//! Field paths that cost nothing until something is wrong, and the list of what is.
//!
//! Nearly every object is valid, so paths are chains of borrowed segments on the stack; text is made for errors
//! only.

use crate::json::is_zero;
use ek_meta::{FieldError, FieldPath};
use serde_json::Value;

#[derive(Clone, Copy)]
enum Segment<'a> {
    Root,
    Child(&'a str),
    Index(usize),
    Key(&'a str),
}

#[derive(Clone, Copy)]
pub(super) struct Path<'a> {
    parent: Option<&'a Path<'a>>,
    segment: Segment<'a>,
}

impl<'a> Path<'a> {
    pub(super) const ROOT: Path<'static> = Path { parent: None, segment: Segment::Root };

    pub(super) fn child(&'a self, name: &'a str) -> Path<'a> {
        Path { parent: Some(self), segment: Segment::Child(name) }
    }

    pub(super) fn index(&'a self, i: usize) -> Path<'a> {
        Path { parent: Some(self), segment: Segment::Index(i) }
    }

    pub(super) fn key(&'a self, key: &'a str) -> Path<'a> {
        Path { parent: Some(self), segment: Segment::Key(key) }
    }

    pub(super) fn text(&self) -> FieldPath {
        let parent = self.parent.map_or_else(FieldPath::root, Path::text);
        match self.segment {
            Segment::Root => parent,
            Segment::Child(name) => parent.child(name),
            Segment::Index(i) => parent.index(i),
            Segment::Key(k) => parent.key(k),
        }
    }
}

pub(super) const NEGATIVE: &str = "must be greater than or equal to 0";
pub(super) const IMMUTABLE: &str = "field is immutable";
pub(super) const PORT: &str = "must be between 1 and 65535, inclusive";

/// What is wrong so far.
#[derive(Default)]
pub(super) struct Errors(pub(super) Vec<FieldError>);

impl Errors {
    pub(super) fn required(&mut self, p: &Path<'_>, detail: &str) {
        self.0.push(FieldError::required(&p.text(), detail));
    }

    pub(super) fn invalid(&mut self, p: &Path<'_>, v: impl Into<Value>, detail: impl Into<String>) {
        self.0.push(FieldError::invalid(&p.text(), v, detail));
    }

    pub(super) fn forbidden(&mut self, p: &Path<'_>, detail: &str) {
        self.0.push(FieldError::forbidden(&p.text(), detail));
    }

    pub(super) fn duplicate(&mut self, p: &Path<'_>, v: impl Into<Value>) {
        self.0.push(FieldError::duplicate(&p.text(), v));
    }

    pub(super) fn not_found(&mut self, p: &Path<'_>, v: impl Into<Value>) {
        self.0.push(FieldError::not_found(&p.text(), v));
    }

    pub(super) fn not_supported(&mut self, p: &Path<'_>, v: &str, supported: &[&str]) {
        self.0.push(FieldError::not_supported(&p.text(), v, supported));
    }

    pub(super) fn too_long(&mut self, p: &Path<'_>, max: usize) {
        self.0.push(FieldError::too_long(&p.text(), max));
    }

    /// One of a fixed set of words, when it is there.
    pub(super) fn one_of(&mut self, p: &Path<'_>, v: Option<&Value>, supported: &[&str]) {
        if let Some(s) = v.and_then(Value::as_str)
            && !supported.contains(&s)
        {
            self.not_supported(p, s, supported);
        }
    }

    /// A string that must be there; returns it when it is.
    pub(super) fn need<'v>(&mut self, p: &Path<'_>, v: &'v Value, key: &str) -> &'v str {
        let s = v.get(key).and_then(Value::as_str).unwrap_or_default();
        if s.is_empty() {
            self.required(&p.child(key), "");
        }
        s
    }

    /// A string with rules of its own, when it is not empty.
    pub(super) fn named(&mut self, p: &Path<'_>, s: &str, rule: fn(&str) -> Vec<String>) {
        for m in rule(s) {
            self.invalid(p, s, m);
        }
    }

    pub(super) fn not_negative(&mut self, p: &Path<'_>, v: &Value, keys: &[&str]) {
        for (key, v) in v.as_object().into_iter().flatten() {
            if let Some(n) = v.as_i64().filter(|n| *n < 0)
                && keys.contains(&key.as_str())
            {
                self.invalid(&p.child(key), n, NEGATIVE);
            }
        }
    }

    pub(super) fn port(&mut self, p: &Path<'_>, n: i64) {
        if !(1..=65535).contains(&n) {
            self.invalid(p, n, PORT);
        }
    }

    /// A field that keeps its first value.
    pub(super) fn fixed(&mut self, p: &Path<'_>, new: &Value, old: &Value, key: &str) {
        let (n, o) = (new.get(key).unwrap_or(&Value::Null), old.get(key).unwrap_or(&Value::Null));
        if n != o && !(is_zero(n) && is_zero(o)) {
            self.invalid(&p.child(key), n.clone(), IMMUTABLE);
        }
    }
}
