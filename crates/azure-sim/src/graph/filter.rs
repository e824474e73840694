//! `$filter`: the forms that clients write. `eq`, `in`, `startswith`, `any`, joined by `and` and `or`.

use serde_json::Value;

#[derive(Clone, Debug, PartialEq)]
pub enum Filter {
    Equals(String, Value),
    In(String, Vec<Value>),
    StartsWith(String, String),
    Any(String, Value),
    All(Vec<Filter>),
    Some(Vec<Filter>),
}

/// Longer ones are not filters.
const MAX_LENGTH: usize = 4096;

pub fn parse(text: &str) -> Option<Filter> {
    if text.len() > MAX_LENGTH {
        return None;
    }
    let either = split(text, " or ");
    if either.len() > 1 {
        return either.into_iter().map(parse).collect::<Option<Vec<_>>>().map(Filter::Some);
    }
    let both = split(text, " and ");
    if both.len() > 1 {
        return both.into_iter().map(parse).collect::<Option<Vec<_>>>().map(Filter::All);
    }
    one(text.trim())
}

/// Splits outside of quotes and parentheses.
fn split<'a>(text: &'a str, by: &str) -> Vec<&'a str> {
    let (mut parts, mut from, mut quoted, mut depth) = (Vec::new(), 0, false, 0_i32);
    for (i, c) in text.char_indices() {
        match c {
            '\'' => quoted = !quoted,
            '(' if !quoted => depth += 1,
            ')' if !quoted => depth -= 1,
            ' ' if !quoted
                && depth == 0
                && i >= from
                && text[i..].get(..by.len()).is_some_and(|t| t.eq_ignore_ascii_case(by)) =>
            {
                parts.push(&text[from..i]);
                from = i + by.len();
            }
            _ => {}
        }
    }
    parts.push(text.get(from..).unwrap_or_default());
    parts
}

/// A whole text in parentheses that belong together.
fn inner(text: &str) -> Option<&str> {
    let body = text.strip_prefix('(')?.strip_suffix(')')?;
    let mut depth = 0_i32;
    for c in body.chars() {
        depth += i32::from(c == '(') - i32::from(c == ')');
        if depth < 0 {
            return None;
        }
    }
    Some(body)
}

fn one(text: &str) -> Option<Filter> {
    if let Some(body) = inner(text) {
        return parse(body);
    }
    let lower = text.to_ascii_lowercase();
    if lower.starts_with("startswith(") {
        let (field, value) = text.get("startswith(".len()..)?.strip_suffix(')')?.split_once(',')?;
        return match literal(value.trim())? {
            Value::String(s) => Some(Filter::StartsWith(name(field)?, s)),
            _ => None,
        };
    }
    if let Some(at) = lower.find("/any(") {
        // `names/any(c:c eq 'x')`.
        let body = text.get(at + "/any(".len()..)?.strip_suffix(')')?;
        let (variable, condition) = body.split_once(':')?;
        let rest = condition.trim().strip_prefix(variable.trim())?.trim_start();
        let value = rest
            .get(..3)
            .filter(|w| w.eq_ignore_ascii_case("eq "))
            .and_then(|_| literal(rest.get(3..)?.trim()))?;
        return Some(Filter::Any(name(text.get(..at)?)?, value));
    }
    let (field, rest) = text.split_once(' ')?;
    let (word, value) = rest.trim_start().split_once(' ')?;
    match word.to_ascii_lowercase().as_str() {
        "eq" => Some(Filter::Equals(name(field)?, literal(value.trim())?)),
        "in" => {
            let list = inner(value.trim())?;
            let values =
                split_commas(list).into_iter().map(|v| literal(v.trim())).collect::<Option<Vec<_>>>()?;
            Some(Filter::In(name(field)?, values))
        }
        _ => None,
    }
}

fn split_commas(text: &str) -> Vec<&str> {
    let mut quoted = false;
    text.split(move |c| {
        quoted ^= c == '\'';
        c == ',' && !quoted
    })
    .collect()
}

fn name(text: &str) -> Option<String> {
    let text = text.trim();
    let legal = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '/' | '.');
    (!text.is_empty() && text.chars().all(legal)).then(|| text.to_owned())
}

fn literal(text: &str) -> Option<Value> {
    match text {
        "true" => return Some(true.into()),
        "false" => return Some(false.into()),
        "null" => return Some(Value::Null),
        _ => {}
    }
    if let Some(body) = text.strip_prefix('\'').and_then(|t| t.strip_suffix('\'')) {
        // A quote is doubled.
        let single = body.replace("''", "");
        return (!single.contains('\'')).then(|| body.replace("''", "'").into());
    }
    let guid = text.len() == 36 && text.bytes().all(|b| b.is_ascii_hexdigit() || b == b'-');
    if guid { Some(text.into()) } else { text.parse::<i64>().ok().map(Value::from) }
}

fn same(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::String(a), Value::String(b)) => a.eq_ignore_ascii_case(b),
        _ => a == b,
    }
}

/// A field by its name, whatever its casing.
fn field<'a>(object: &'a Value, name: &str) -> &'a Value {
    name.split('/').fold(object, |v, word| {
        let found = v.as_object().and_then(|m| m.iter().find(|(k, _)| k.eq_ignore_ascii_case(word)));
        found.map_or(&Value::Null, |(_, v)| v)
    })
}

impl Filter {
    pub fn fits(&self, o: &Value) -> bool {
        match self {
            Filter::Equals(f, v) => same(field(o, f), v),
            Filter::In(f, list) => list.iter().any(|v| same(field(o, f), v)),
            Filter::StartsWith(f, start) => field(o, f)
                .as_str()
                .is_some_and(|t| t.get(..start.len()).is_some_and(|head| head.eq_ignore_ascii_case(start))),
            Filter::Any(f, v) => field(o, f).as_array().is_some_and(|l| l.iter().any(|x| same(x, v))),
            Filter::All(l) => l.iter().all(|f| f.fits(o)),
            Filter::Some(l) => l.iter().any(|f| f.fits(o)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    #[test]
    fn reads_what_clients_write() {
        let o = json!({"appId": "1-a", "displayName": "it's or me", "servicePrincipalNames": ["1-a", "http://x"], "accountEnabled": true});
        let cases = [
            ("appId eq '1-A'", true),
            ("appId eq '2'", false),
            ("displayName eq 'it''s or me'", true),
            ("startswith(displayName,'IT''S')", true),
            ("startsWith(displayName, 'x')", false),
            ("servicePrincipalNames/any(c:c eq 'http://x')", true),
            ("servicePrincipalNames/any(x:x eq 'y')", false),
            ("appId eq 'no' or accountEnabled eq true", true),
            ("(appId eq '1-a') and (displayName eq 'no')", false),
            ("appId in ('x', '1-a')", true),
        ];
        for (text, want) in cases {
            assert_eq!(parse(text).map(|f| f.fits(&o)), Some(want), "{text}");
        }
        for bad in
            ["", "appId", "appId ne 'x'", "appId eq x", "appId eq 'x", "any(", "(a eq 'b'", "a eq 'b' or "]
        {
            assert_eq!(parse(bad), None, "{bad}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]
        #[test]
        fn never_panics(s in "[a-z'(),/:é ]{0,40}", t in "\\PC{0,60}") {
            let o = json!({"a": "b"});
            let _ = parse(&s).map(|f| f.fits(&o));
            let _ = parse(&t).map(|f| f.fits(&o));
        }
    }
}
