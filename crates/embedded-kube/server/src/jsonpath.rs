//! The JSONPath dialect of printer columns and selectable fields: fields, indices, wildcards, and filters
//! that compare one field with a literal.

use serde_json::Value;

#[derive(Clone, Debug, PartialEq)]
enum Step {
    Field(String),
    Index(i64),
    All,
    /// `[?(@.a.b == 'x')]`
    Filter {
        path: Vec<String>,
        negated: bool,
        equals: Value,
    },
    /// `[?(@.a)]`
    Has(Vec<String>),
}

#[derive(Clone, Debug, PartialEq)]
pub struct JsonPath(Vec<Step>);

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message} at {at} in {path:?}")]
pub struct ParseError {
    path: String,
    at: usize,
    message: &'static str,
}

impl JsonPath {
    pub fn parse(path: &str) -> Result<JsonPath, ParseError> {
        let err = |at, message| ParseError { path: path.to_owned(), at, message };
        let s: Vec<char> = path.chars().collect();
        let mut steps = Vec::new();
        let mut i = 0;
        while i < s.len() {
            match s[i] {
                '.' => {
                    i += 1;
                    let mut name = String::new();
                    while i < s.len() && s[i] != '.' && s[i] != '[' {
                        if s[i] == '\\' && i + 1 < s.len() {
                            i += 1;
                        }
                        name.push(s[i]);
                        i += 1;
                    }
                    match name.as_str() {
                        "" if i < s.len() && s[i] == '[' => {}
                        "" => return Err(err(i, "empty field name")),
                        "*" => steps.push(Step::All),
                        _ => steps.push(Step::Field(name)),
                    }
                }
                '[' => {
                    let end = closing(&s, i).ok_or_else(|| err(i, "unterminated '['"))?;
                    let inner: String = s[i + 1..end].iter().collect();
                    steps.push(bracket(inner.trim()).ok_or_else(|| err(i, "unsupported subscript"))?);
                    i = end + 1;
                }
                _ => return Err(err(i, "expected '.' or '['")),
            }
        }
        Ok(JsonPath(steps))
    }

    /// Everything the path reaches; missing fields reach nothing.
    pub fn find<'a>(&self, v: &'a Value) -> Vec<&'a Value> {
        let mut found = vec![v];
        for step in &self.0 {
            let mut next = Vec::new();
            for v in found {
                match step {
                    Step::Field(f) => next.extend(v.get(f)),
                    Step::Index(i) => {
                        if let Value::Array(a) = v {
                            let at = if *i < 0 { a.len() as i64 + i } else { *i };
                            next.extend(usize::try_from(at).ok().and_then(|at| a.get(at)));
                        }
                    }
                    Step::All => match v {
                        Value::Array(a) => next.extend(a),
                        Value::Object(m) => next.extend(m.values()),
                        _ => {}
                    },
                    Step::Filter { path, negated, equals } => {
                        if let Value::Array(a) = v {
                            next.extend(a.iter().filter(|x| {
                                let hit = path.iter().try_fold(*x, |x, k| x.get(k));
                                hit.is_some_and(|h| (h == equals) != *negated)
                            }));
                        }
                    }
                    Step::Has(path) => {
                        if let Value::Array(a) = v {
                            next.extend(
                                a.iter().filter(|x| path.iter().try_fold(*x, |x, k| x.get(k)).is_some()),
                            );
                        }
                    }
                }
            }
            found = next;
        }
        found
    }

    /// The plain field names, when the path has nothing else: what a selectable field must be.
    pub fn plain_fields(&self) -> Option<Vec<&str>> {
        self.0
            .iter()
            .map(|s| match s {
                Step::Field(f) => Some(f.as_str()),
                _ => None,
            })
            .collect()
    }
}

fn closing(s: &[char], open: usize) -> Option<usize> {
    let mut quote = None;
    let mut depth = 0;
    for (i, c) in s.iter().enumerate().skip(open) {
        match (quote, *c) {
            (Some(q), c) if c == q => quote = None,
            (Some(_), _) => {}
            (None, '\'' | '"') => quote = Some(*c),
            (None, '[') => depth += 1,
            (None, ']') => {
                depth -= 1;
                if depth == 0 {
                    return Some(i);
                }
            }
            _ => {}
        }
    }
    None
}

fn unquote(s: &str) -> Option<&str> {
    let s = s.trim();
    ['\'', '"'].into_iter().find_map(|q| s.strip_prefix(q)?.strip_suffix(q))
}

fn bracket(inner: &str) -> Option<Step> {
    if inner == "*" {
        return Some(Step::All);
    }
    if let Ok(i) = inner.parse::<i64>() {
        return Some(Step::Index(i));
    }
    if let Some(name) = unquote(inner) {
        return Some(Step::Field(name.to_owned()));
    }
    let filter = inner.strip_prefix("?(")?.strip_suffix(')')?.trim();
    let path = |p: &str| -> Option<Vec<String>> {
        let p = p.trim().strip_prefix("@.")?;
        Some(p.split('.').map(str::to_owned).collect())
    };
    for (op, negated) in [("==", false), ("!=", true)] {
        if let Some((left, right)) = filter.split_once(op) {
            let right = right.trim();
            let equals = match unquote(right) {
                Some(s) => Value::String(s.to_owned()),
                None => serde_json::from_str(right).ok()?,
            };
            return Some(Step::Filter { path: path(left)?, negated, equals });
        }
    }
    Some(Step::Has(path(filter)?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_dialect_of_printer_columns() {
        let v = json!({"metadata": {"labels": {"a.b/c": "L"}}, "spec": {"n": [1, 2]},
            "status": {"conditions": [{"type": "Ready", "status": "True"}, {"type": "X", "status": "False"}]}});
        let get = |p: &str| JsonPath::parse(p).unwrap().find(&v).into_iter().cloned().collect::<Vec<_>>();
        assert_eq!(get(".spec.n[1]"), [json!(2)]);
        assert_eq!(get(".spec.n[-1]"), [json!(2)]);
        assert_eq!(get(".spec.n[*]"), [json!(1), json!(2)]);
        assert_eq!(get(".status.conditions[?(@.type==\"Ready\")].status"), [json!("True")]);
        assert_eq!(get(".status.conditions[?(@.type=='X')].status"), [json!("False")]);
        assert_eq!(get(".metadata.labels.a\\.b/c"), [json!("L")]);
        assert_eq!(get(".metadata.labels['a.b/c']"), [json!("L")]);
        assert!(get(".nope.x").is_empty());
        for bad in ["x", ".a[", ".a..b", ".a[?]"] {
            assert!(JsonPath::parse(bad).is_err(), "{bad}");
        }
    }
}
