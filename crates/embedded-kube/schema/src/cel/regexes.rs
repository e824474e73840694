//! Go's regular expressions in Rust's dialect.
//!
//! The two engines agree on nearly everything. Where they differ a pattern would be refused or mean something
//! else: `\d`, `\w`, `\s` and `\b` are ASCII in Go; `[` inside a class is literal; `{` that starts no
//! repetition is literal; `\Q…\E` quotes; `&&`, `--` and `~~` in a class are ordinary characters.

use regex::{Regex, RegexBuilder};
use std::borrow::Cow;

/// Compiles a Go pattern. The compiled size is bounded, so `x{1000}{1000}` is an error and not memory; the
/// bound is generous because published CRDs have patterns of several megabytes.
pub(super) fn compile(p: &str) -> Result<Regex, regex::Error> {
    build(p, 10 << 20)
}

/// For patterns computed by an expression, which are compiled again at each use.
pub(super) fn compile_dynamic(p: &str) -> Result<Regex, regex::Error> {
    build(p, 1 << 20)
}

fn build(p: &str, size: usize) -> Result<Regex, regex::Error> {
    RegexBuilder::new(&translate(p)).size_limit(size).dfa_size_limit(2 << 20).build()
}

fn translate(p: &str) -> Cow<'_, str> {
    if !p.contains(['\\', '[', '{']) {
        return Cow::Borrowed(p);
    }
    let mut out = String::with_capacity(p.len() + 16);
    let mut rest = p;
    // Inside a class, and right after its opening, where `]` is literal.
    let (mut class, mut class_start) = (false, false);
    while let Some(c) = rest.chars().next() {
        let start = std::mem::take(&mut class_start);
        if c == '\\' {
            rest = escape(rest, class, &mut out);
            continue;
        }
        let mut taken = c.len_utf8();
        match c {
            '[' if !class => {
                class = true;
                class_start = true;
                out.push('[');
                if rest[1..].starts_with('^') {
                    out.push('^');
                    taken += 1;
                }
            }
            '[' if rest.starts_with("[:") && rest.contains(":]") => {
                let end = rest.find(":]").map_or(rest.len(), |i| i + 2);
                out.push_str(&rest[..end]);
                taken = end;
            }
            '[' => out.push_str("\\["),
            ']' if class && start => out.push_str("\\]"),
            ']' => {
                class = false;
                out.push(']');
            }
            '&' | '~' if class => {
                out.push('\\');
                out.push(c);
            }
            '-' if class && rest[1..].starts_with('-') => out.push_str("\\-"),
            '{' if !class && !is_repetition(rest) => out.push_str("\\{"),
            _ => out.push(c),
        }
        rest = &rest[taken..];
    }
    Cow::Owned(out)
}

/// Writes the escape at the start of `rest` and returns what follows it.
fn escape<'r>(rest: &'r str, class: bool, out: &mut String) -> &'r str {
    let Some(c) = rest[1..].chars().next() else {
        out.push('\\');
        return "";
    };
    let tail = &rest[1 + c.len_utf8()..];
    let (inside, outside) = match c {
        'd' => ("0-9", "[0-9]"),
        'D' => ("[^0-9]", "[^0-9]"),
        'w' => ("0-9A-Za-z_", "[0-9A-Za-z_]"),
        'W' => ("[^0-9A-Za-z_]", "[^0-9A-Za-z_]"),
        's' => ("\\t\\n\\f\\r ", "[\\t\\n\\f\\r ]"),
        'S' => ("[^\\t\\n\\f\\r ]", "[^\\t\\n\\f\\r ]"),
        'b' if !class => ("", "(?-u:\\b)"),
        'B' if !class => ("", "\\B"),
        'Q' if !class => {
            let end = tail.find("\\E").unwrap_or(tail.len());
            out.push_str(&regex::escape(&tail[..end]));
            return tail[end..].strip_prefix("\\E").unwrap_or("");
        }
        _ => {
            out.push('\\');
            out.push(c);
            return tail;
        }
    };
    out.push_str(if class { inside } else { outside });
    tail
}

/// `{n}`, `{n,}` or `{n,m}`.
fn is_repetition(s: &str) -> bool {
    let Some(body) = s[1..].split_once('}').map(|(b, _)| b) else { return false };
    let digits = |d: &str| !d.is_empty() && d.bytes().all(|b| b.is_ascii_digit());
    match body.split_once(',') {
        None => digits(body),
        Some((a, b)) => digits(a) && (b.is_empty() || digits(b)),
    }
}

#[cfg(test)]
mod tests {
    use super::compile;

    #[test]
    fn go_patterns_keep_their_meaning() {
        for (pattern, yes, no) in [
            (r"^\d+$", "12", "٣"),
            (r"^[\d-]+$", "1-2", "a"),
            (r"^[[]$", "[", "x"),
            (r"^[]a]$", "]", "b"),
            (r"^[^]]$", "a", "]"),
            (r"^\{a{2}b{$", "{aab{", "{ab{"),
            (r"^[[:alpha:]]+$", "ab", "1"),
            (r"^\Qa.b\E$", "a.b", "axb"),
            (r"^[a&&b]+$", "a&b", "c"),
            (r"^[a-z0-9-_]+$", "a-_", "A"),
            (r"\bfoo\b", "a foo", "afoo"),
            (r"^[\w.]+$", "a_b.c", "a-b"),
            (r"^é$", "é", "e"),
            (r"^[\D]$", "x", "1"),
        ] {
            let re = compile(pattern).unwrap_or_else(|e| panic!("{pattern}: {e}"));
            assert!(re.is_match(yes), "{pattern} {yes}");
            assert!(!re.is_match(no), "{pattern} {no}");
        }
        // From a published CRD: several megabytes compiled.
        let hostname = r"^([a-zA-Z0-9\p{S}\p{L}]((-?[a-zA-Z0-9\p{S}\p{L}]{0,62})?)|([a-zA-Z0-9\p{S}\p{L}](([a-zA-Z0-9-\p{S}\p{L}]{0,61}[a-zA-Z0-9\p{S}\p{L}])?)(\.)){1,}([a-zA-Z\p{L}]){2,63})$";
        assert!(compile(hostname).is_ok());
        assert!(compile("(").is_err());
        assert!(compile("(?:x{1000}){1000}").is_err());
    }
}
