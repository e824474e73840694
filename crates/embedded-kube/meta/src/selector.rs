//! Label and field selectors: parsed once, matched often, never recursive, bounded by the input's length.

use crate::names;
use serde_json::Value;
use std::fmt;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Op {
    In,
    NotIn,
    Equals,
    NotEquals,
    Exists,
    DoesNotExist,
    GreaterThan,
    LessThan,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Requirement {
    pub key: String,
    pub op: Op,
    pub values: Vec<String>,
}

impl Requirement {
    fn matches(&self, value: Option<&str>) -> bool {
        match (&self.op, value) {
            (Op::In | Op::Equals, Some(v)) => self.values.iter().any(|x| x == v),
            (Op::In | Op::Equals, None) => false,
            (Op::NotIn | Op::NotEquals, Some(v)) => self.values.iter().all(|x| x != v),
            (Op::NotIn | Op::NotEquals, None) => true,
            (Op::Exists, v) => v.is_some(),
            (Op::DoesNotExist, v) => v.is_none(),
            (Op::GreaterThan | Op::LessThan, None) => false,
            (op, Some(v)) => match (v.parse::<i64>(), self.values[0].parse::<i64>()) {
                (Ok(a), Ok(b)) if *op == Op::GreaterThan => a > b,
                (Ok(a), Ok(b)) => a < b,
                _ => false,
            },
        }
    }
}

/// All requirements must hold; none matches everything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LabelSelector {
    pub requirements: Vec<Requirement>,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ParseSelectorError(pub String);

/// Something between requirements is wrong.
fn astray(msg: impl Into<String>) -> ParseSelectorError {
    ParseSelectorError(msg.into())
}

/// Something in a requirement is wrong.
fn bad(msg: impl Into<String>) -> ParseSelectorError {
    let msg = format!("unable to parse requirement: {}", msg.into());
    ParseSelectorError(msg)
}

impl LabelSelector {
    pub fn is_everything(&self) -> bool {
        self.requirements.is_empty()
    }

    /// `lookup` gives a label's value.
    pub fn matches<'a>(&self, lookup: impl Fn(&str) -> Option<&'a str>) -> bool {
        self.requirements.iter().all(|r| r.matches(lookup(&r.key)))
    }

    /// Against `metadata.labels`-like JSON.
    pub fn matches_value(&self, labels: Option<&Value>) -> bool {
        self.matches(|k| labels.and_then(|l| l.get(k)).and_then(Value::as_str))
    }

    /// From the JSON form `{matchLabels, matchExpressions}`. An empty or absent selector matches everything.
    pub fn from_json(v: &Value) -> Result<LabelSelector, ParseSelectorError> {
        let mut requirements = Vec::new();
        if let Some(Value::Object(m)) = v.get("matchLabels") {
            for (k, v) in m {
                let v = v.as_str().ok_or_else(|| bad(format!("value of {k:?} is not a string")))?;
                requirements.push(requirement(k, Op::Equals, vec![v.to_owned()])?);
            }
        }
        if let Some(Value::Array(exprs)) = v.get("matchExpressions") {
            for e in exprs {
                let key = e.get("key").and_then(Value::as_str).unwrap_or_default();
                let op = match e.get("operator").and_then(Value::as_str) {
                    Some("In") => Op::In,
                    Some("NotIn") => Op::NotIn,
                    Some("Exists") => Op::Exists,
                    Some("DoesNotExist") => Op::DoesNotExist,
                    other => {
                        return Err(bad(format!(
                            "{:?} is not a valid label selector operator",
                            other.unwrap_or_default()
                        )));
                    }
                };
                let values = e
                    .get("values")
                    .and_then(Value::as_array)
                    .map(|a| a.iter().filter_map(Value::as_str).map(str::to_owned).collect())
                    .unwrap_or_default();
                requirements.push(requirement(key, op, values)?);
            }
        }
        Ok(LabelSelector { requirements })
    }
}

impl std::str::FromStr for LabelSelector {
    type Err = ParseSelectorError;

    fn from_str(s: &str) -> Result<Self, Self::Err> {
        let mut p = Parser { s, pos: 0 };
        let mut requirements = Vec::new();
        p.skip_space();
        while !p.done() {
            if matches!(p.token(), "," | "(" | ")" | "=" | "<" | ">") {
                return Err(astray(format!(
                    "found '{}', expected: !, identifier, or 'end of string'",
                    p.token()
                )));
            }
            requirements.push(p.requirement()?);
            p.skip_space();
            if p.done() {
                break;
            }
            if !p.eat(',') {
                return Err(astray(format!("found '{}', expected: ',' or 'end of string'", p.token())));
            }
            p.skip_space();
            if p.done() {
                return Err(astray("found '', expected: identifier after ','"));
            }
        }
        Ok(LabelSelector { requirements })
    }
}

impl fmt::Display for LabelSelector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, r) in self.requirements.iter().enumerate() {
            if i > 0 {
                f.write_str(",")?;
            }
            let set = || format!("({})", r.values.join(","));
            match r.op {
                Op::Equals => write!(f, "{}={}", r.key, r.values[0])?,
                Op::NotEquals => write!(f, "{}!={}", r.key, r.values[0])?,
                Op::In => write!(f, "{} in {}", r.key, set())?,
                Op::NotIn => write!(f, "{} notin {}", r.key, set())?,
                Op::Exists => f.write_str(&r.key)?,
                Op::DoesNotExist => write!(f, "!{}", r.key)?,
                Op::GreaterThan => write!(f, "{}>{}", r.key, r.values[0])?,
                Op::LessThan => write!(f, "{}<{}", r.key, r.values[0])?,
            }
        }
        Ok(())
    }
}

fn requirement(key: &str, op: Op, values: Vec<String>) -> Result<Requirement, ParseSelectorError> {
    if let Some(m) = names::qualified_name(key).into_iter().next() {
        return Err(bad(format!("<nil>: Invalid value: {key:?}: {m}")));
    }
    let n = values.len();
    let ok = match op {
        Op::In | Op::NotIn => n > 0,
        Op::Exists | Op::DoesNotExist => n == 0,
        _ => n == 1,
    };
    if !ok {
        return Err(bad(format!(
            "values: Invalid value: {values:?}: wrong number of values for the operator"
        )));
    }
    for v in &values {
        if matches!(op, Op::GreaterThan | Op::LessThan) {
            if v.parse::<i64>().is_err() {
                return Err(bad(format!(
                    "values[0]: Invalid value: {v:?}: for 'Gt', 'Lt' operators, the value must be an integer"
                )));
            }
        } else if let Some(m) = names::label_value(v).into_iter().next() {
            return Err(bad(format!("values[0][{key}]: Invalid value: {v:?}: {m}")));
        }
    }
    Ok(Requirement { key: key.to_owned(), op, values })
}

struct Parser<'a> {
    s: &'a str,
    pos: usize,
}

impl<'a> Parser<'a> {
    fn rest(&self) -> &'a str {
        &self.s[self.pos..]
    }

    fn done(&self) -> bool {
        self.pos >= self.s.len()
    }

    fn skip_space(&mut self) {
        let trimmed = self.rest().trim_start_matches([' ', '\t', '\r', '\n']);
        self.pos = self.s.len() - trimmed.len();
    }

    fn eat(&mut self, c: char) -> bool {
        let yes = self.rest().starts_with(c);
        if yes {
            self.pos += c.len_utf8();
        }
        yes
    }

    fn token(&self) -> &'a str {
        let r = self.rest();
        let end = r.find(|c: char| " \t\r\n,()=!<>".contains(c)).unwrap_or(r.len());
        if end == 0 { r.chars().next().map_or("", |c| &r[..c.len_utf8()]) } else { &r[..end] }
    }

    fn word(&mut self) -> &'a str {
        let r = self.rest();
        let end = r.find(|c: char| " \t\r\n,()=!<>".contains(c)).unwrap_or(r.len());
        self.pos += end;
        &r[..end]
    }

    fn requirement(&mut self) -> Result<Requirement, ParseSelectorError> {
        if self.eat('!') {
            self.skip_space();
            let key = self.word();
            return requirement(key, Op::DoesNotExist, Vec::new());
        }
        let key = self.word();
        self.skip_space();
        if self.done() || self.rest().starts_with(',') {
            return requirement(key, Op::Exists, Vec::new());
        }
        let op = if self.eat('=') {
            self.eat('=');
            Op::Equals
        } else if self.eat('!') {
            if !self.eat('=') {
                return Err(bad(format!("found '{}', expected: '!='", self.token())));
            }
            Op::NotEquals
        } else if self.eat('>') {
            Op::GreaterThan
        } else if self.eat('<') {
            Op::LessThan
        } else {
            match self.word() {
                "in" => Op::In,
                "notin" => Op::NotIn,
                other => {
                    return Err(bad(format!("found '{other}', expected: in, notin, =, ==, !=, gt, lt")));
                }
            }
        };
        self.skip_space();
        if !matches!(op, Op::In | Op::NotIn) {
            let value = self.word();
            if value.is_empty() && !self.done() && !self.rest().starts_with(',') {
                return Err(bad(format!("found '{}', expected: identifier", self.token())));
            }
            return requirement(key, op, vec![value.to_owned()]);
        }
        if !self.eat('(') {
            return Err(bad(format!("found '{}', expected: '('", self.token())));
        }
        let mut values = Vec::new();
        loop {
            self.skip_space();
            values.push(self.word().to_owned());
            self.skip_space();
            if self.eat(')') {
                break;
            }
            if !self.eat(',') {
                let last = values.last().is_some_and(|v| !v.is_empty());
                let expected = if last { "',' or ')'" } else { "',', ')' or identifier" };
                return Err(bad(format!("found '{}', expected: {expected}", self.token())));
            }
        }
        values.sort();
        values.dedup();
        requirement(key, op, values)
    }
}

/// One `field=value` or `field!=value`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldTerm {
    pub field: String,
    pub value: String,
    pub negated: bool,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FieldSelector {
    pub terms: Vec<FieldTerm>,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("invalid selector: '{0}'; can't understand '{1}'")]
pub struct ParseFieldSelectorError(String, String);

impl FieldSelector {
    pub fn is_everything(&self) -> bool {
        self.terms.is_empty()
    }

    /// `lookup` gives a field's string form; an absent field is the empty string.
    pub fn matches<'a>(&self, lookup: impl Fn(&str) -> Option<&'a str>) -> bool {
        self.terms.iter().all(|t| (lookup(&t.field).unwrap_or_default() == t.value) != t.negated)
    }

    /// The one value that `field` must have, when the selector says so.
    pub fn exact(&self, field: &str) -> Option<&str> {
        self.terms.iter().find(|t| !t.negated && t.field == field).map(|t| t.value.as_str())
    }
}

impl std::str::FromStr for FieldSelector {
    type Err = ParseFieldSelectorError;

    fn from_str(s: &str) -> Result<Self, Self::Err> {
        let mut terms = Vec::new();
        for part in split_unescaped(s) {
            if part.is_empty() {
                continue;
            }
            let err = || ParseFieldSelectorError(s.to_owned(), part.to_owned());
            let eq = find_unescaped(part, '=').ok_or_else(err)?;
            let (mut field, mut value) = (&part[..eq], &part[eq + 1..]);
            let negated = field.ends_with('!');
            if negated {
                field = &field[..field.len() - 1];
            } else if value.starts_with('=') {
                value = &value[1..];
            }
            terms.push(FieldTerm {
                field: field.to_owned(),
                value: unescape(value).ok_or_else(err)?,
                negated,
            });
        }
        Ok(FieldSelector { terms })
    }
}

fn find_unescaped(s: &str, what: char) -> Option<usize> {
    let mut escaped = false;
    for (i, c) in s.char_indices() {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            c if c == what => return Some(i),
            _ => {}
        }
    }
    None
}

fn split_unescaped(s: &str) -> Vec<&str> {
    let mut out = Vec::new();
    let mut rest = s;
    while let Some(i) = find_unescaped(rest, ',') {
        out.push(&rest[..i]);
        rest = &rest[i + 1..];
    }
    out.push(rest);
    out
}

/// `\\`, `\,` and `\=` stand for themselves; nothing else may be escaped or left bare.
fn unescape(s: &str) -> Option<String> {
    let mut out = String::with_capacity(s.len());
    let mut chars = s.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => match chars.next() {
                Some(c @ ('\\' | ',' | '=')) => out.push(c),
                _ => return None,
            },
            '=' => return None,
            c => out.push(c),
        }
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn m(sel: &str, labels: &Value) -> bool {
        sel.parse::<LabelSelector>().unwrap().matches_value(Some(labels))
    }

    #[test]
    fn label_selectors() {
        let l = json!({"app": "web", "tier": "1"});
        for yes in [
            "",
            "app",
            "app=web",
            "app==web",
            "app in (web, db)",
            "!x",
            "x notin (y)",
            "x!=y",
            "tier>0",
            "app=web,tier<2",
        ] {
            assert!(m(yes, &l), "{yes}");
        }
        for no in ["x", "app=db", "app notin (web)", "!app", "app!=web", "tier>1", "x in (a)", "x=a"] {
            assert!(!m(no, &l), "{no}");
        }
        for bad in
            ["app in", "app in (", "app in ()x", "a b", ",", "a,", "-a=b", "a=b=c", "a>x", "(a)", "a!b"]
        {
            assert!(bad.parse::<LabelSelector>().is_err(), "{bad}");
        }
    }

    #[test]
    fn field_selectors() {
        let s: FieldSelector = "metadata.name=a,spec.x!=b\\,c".parse().unwrap();
        assert_eq!(s.exact("metadata.name"), Some("a"));
        assert!(s.matches(|f| (f == "metadata.name").then_some("a")));
        assert!(!s.matches(|f| Some(if f == "metadata.name" { "a" } else { "b,c" })));
        assert!("a".parse::<FieldSelector>().is_err());
        assert!("a=b=c".parse::<FieldSelector>().is_err());
    }
}
