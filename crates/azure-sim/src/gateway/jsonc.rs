//! The JSON that Resource Manager reads of deployments: with comments, line breaks in texts, commas too many, and names
//! without quotes. The Azure CLI sends templates so, because it does not want to change what a person wrote.

/// The same as JSON; whether it is JSON, the reader says.
pub fn strict(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 16);
    let mut rest = text.strip_prefix('\u{feff}').unwrap_or(text);
    while let Some(c) = rest.chars().next() {
        if rest.starts_with("//") {
            rest = rest.find(['\n', '\r']).map_or("", |at| &rest[at..]);
        } else if let Some(inside) = rest.strip_prefix("/*") {
            rest = inside.find("*/").map_or("", |at| &inside[at + 2..]);
        } else if c == '"' {
            let end = quoted(rest);
            for c in rest[..end].chars() {
                match c {
                    '\n' => out.push_str("\\n"),
                    '\r' => out.push_str("\\r"),
                    '\t' => out.push_str("\\t"),
                    c => out.push(c),
                }
            }
            rest = &rest[end..];
        } else if c.is_alphabetic() || c == '_' || c == '$' {
            let end = rest.find(|c: char| !(c.is_alphanumeric() || c == '_' || c == '$'));
            let (word, after) = rest.split_at(end.unwrap_or(rest.len()));
            // A name is what a colon follows; `true` and its like are not names here.
            if after.trim_start().starts_with(':') {
                out.push('"');
                out.push_str(word);
                out.push('"');
            } else {
                out.push_str(word);
            }
            rest = after;
        } else {
            if matches!(c, '}' | ']') {
                let kept = out.trim_end().len();
                if out[..kept].ends_with(',') {
                    out.truncate(kept - 1);
                }
            }
            out.push(c);
            rest = &rest[c.len_utf8()..];
        }
    }
    out
}

/// Where a quoted text ends, behind its closing quote.
fn quoted(text: &str) -> usize {
    let mut escaped = false;
    for (i, c) in text.char_indices().skip(1) {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '"' => return i + 1,
            _ => {}
        }
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::{Value, json};

    fn read(text: &str) -> Value {
        serde_json::from_str(&strict(text)).unwrap()
    }

    #[test]
    fn as_people_write_it() {
        let text = "{\"properties\": {\"mode\": \"Incremental\", template:{\r\n // why\n \"$schema\": \"https://x#\", /* and\n how */ \"n\": [1, true, null,],\n}}}";
        assert_eq!(
            read(text),
            json!({"properties": {"mode": "Incremental", "template": {"$schema": "https://x#", "n": [1, true, null]}}})
        );
        assert_eq!(read("{\"a\": \"one\ntwo // \\\" three\"}"), json!({"a": "one\ntwo // \" three"}));
    }

    proptest! {
        #[test]
        fn what_is_json_stays_what_it_is(v in "[a-z \\\\\"/*:{},\\[\\]\\n\u{e9}]{0,40}", n in any::<i32>()) {
            let given = json!({"a": v, v.clone(): [n, true, null, {"b": v}]});
            prop_assert_eq!(read(&given.to_string()), given);
        }

        #[test]
        fn junk_ends(s in "\\PC{0,80}") {
            let _ = strict(&s);
        }
    }
}
