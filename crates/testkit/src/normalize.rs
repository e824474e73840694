//! What differs between two honest runs becomes a name.
//!
//! A golden file may only hold what the code decides. Uids, times, resource versions, ports, ages and
//! temporary directories are decided elsewhere, so they turn into placeholders. Identity survives: the same
//! uid is `<uid-1>` everywhere in one document or transcript, because that two objects carry the *same* uid is
//! often the very thing a reader wants to see. That is why a [`Normalizer`] has memory and is passed by `&mut`.
//!
//! Resource version 0 is left alone: it is not a version but a request ("any").
//!
//! kubectl pads its tables by the width of what is in them, so a hidden difference in width (`9s`, `10s`) moves
//! every later column. Tables are recognised by their upper-case heading and their gaps collapse to the
//! separator width. Ages are replaced only in columns that hold ages.

use regex::{Captures, Regex};
use std::collections::HashMap;
use std::path::Path;
use std::sync::LazyLock;

#[allow(clippy::expect_used, reason = "literal patterns; the unit tests compile every one of them")]
fn pattern(text: &str) -> Regex {
    Regex::new(text).expect("a pattern of this file")
}

macro_rules! patterns {
    ($($name:ident = $text:expr;)*) => { $(static $name: LazyLock<Regex> = LazyLock::new(|| pattern($text));)* };
}

patterns! {
    UID = r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b";
    RFC3339 = r"\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d:\d\d)";
    // `kubectl describe` prints times the way HTTP headers do.
    RFC1123 = r"\b(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun), \d\d [A-Z][a-z]{2} \d{4} \d\d:\d\d:\d\d (?:[+-]\d{4}|GMT)";
    // JSON and YAML members, escaped JSON inside an annotation, and query strings.
    RV_MEMBER = r#"(resourceVersion\\?"?\s*:\s*\\?["']?)[1-9]\d*"#;
    RV_QUERY = r"(resourceVersion=)[1-9]\d*";
    // kubectl 1.34 says where it deleted from, earlier ones do not; transcripts must hold with either.
    DELETED = r#"(?m)^(\S+ "[^"\n]+" (?:force )?deleted) from \S+ namespace"#;
    PORT = r"(127\.0\.0\.1|localhost|\[::1\]):\d{2,5}\b";
    // The pattern of the `tempfile` crate, for directories nobody registered.
    TEMP = r"/[A-Za-z0-9_./-]*/\.tmp[A-Za-z0-9]{6}\b";
    DURATION = r"\b(?:\d+(?:ms|y|d|h|m|s))+\b";
    AGE_CELL = r"^(?:\d+(?:ms|y|d|h|m|s))+(?: ago)?(?: \(x\d+ over (?:\d+(?:ms|y|d|h|m|s))+\))?$";
    DESCRIBE_AGE = r"^(\s*Age:\s+)(?:\d+(?:ms|y|d|h|m|s))+$";
    HEADING_CELL = r"^[A-Z][A-Z0-9 _()/%.:-]*$";
    GAP = r" {2,}";
}

/// What kubectl puts between two columns.
const SEPARATOR: &str = "   ";
const AGE_COLUMNS: &[&str] = &["AGE", "LAST SEEN", "FIRST SEEN", "DURATION", "LAST SCHEDULE"];
const VERSION_COLUMNS: &[&str] = &["RV", "RESOURCEVERSION", "RESOURCE VERSION"];
const DESCRIBE_EVENTS: &[&str] = &["Type", "Reason", "Age", "From", "Message"];

/// Replaces what a run decides by chance. One per document or transcript.
#[derive(Clone, Default)]
pub struct Normalizer {
    uids: HashMap<String, usize>,
    literals: Vec<(String, String)>,
    prefixes: Vec<Regex>,
    patterns: Vec<(Regex, String)>,
}

impl Normalizer {
    pub fn new() -> Normalizer {
        Normalizer::default()
    }

    /// Replaces an exact text wherever it appears, such as a server's URL.
    pub fn literal(mut self, from: impl Into<String>, to: impl Into<String>) -> Normalizer {
        let from = from.into();
        if !from.is_empty() {
            self.literals.push((from, to.into()));
            // Longest first, so a directory does not eat the start of one inside it.
            self.literals.sort_by_key(|(from, _)| std::cmp::Reverse(from.len()));
        }
        self
    }

    /// Replaces a directory by a name; also under its canonical path, which is what many programs print.
    pub fn dir(self, dir: &Path, name: &str) -> Normalizer {
        let canonical = dir.canonicalize().ok().filter(|c| c != dir);
        let this = self.literal(dir.display().to_string(), name);
        match canonical {
            Some(canonical) => this.literal(canonical.display().to_string(), name),
            None => this,
        }
    }

    /// Names made by `generateName` with this prefix lose their random end.
    pub fn generated(mut self, prefix: &str) -> Normalizer {
        // The alphabet Kubernetes draws suffixes from: no vowels, nothing easily misread.
        self.prefixes
            .push(pattern(&format!("({})[bcdfghjklmnpqrstvwxz2456789]{{5}}\\b", regex::escape(prefix))));
        self
    }

    /// Replaces whatever matches a regular expression.
    pub fn pattern(mut self, regex: &str, to: &str) -> Normalizer {
        self.patterns.push((pattern(regex), to.to_owned()));
        self
    }

    /// The text with placeholders. Uids keep their numbers from call to call.
    pub fn apply(&mut self, text: &str) -> String {
        let mut text = text.to_owned();
        for (from, to) in &self.literals {
            text = text.replace(from, to);
        }
        text = TEMP.replace_all(&text, "<tmp>").into_owned();
        let uids = &mut self.uids;
        text = UID
            .replace_all(&text, |found: &Captures<'_>| {
                let next = uids.len() + 1;
                format!("<uid-{}>", uids.entry(found[0].to_owned()).or_insert(next))
            })
            .into_owned();
        text = RFC3339.replace_all(&text, "<time>").into_owned();
        text = RFC1123.replace_all(&text, "<time>").into_owned();
        text = RV_MEMBER.replace_all(&text, "${1}<rv>").into_owned();
        text = RV_QUERY.replace_all(&text, "${1}<rv>").into_owned();
        text = DELETED.replace_all(&text, "${1}").into_owned();
        text = PORT.replace_all(&text, "${1}:<port>").into_owned();
        for prefix in &self.prefixes {
            text = prefix.replace_all(&text, "${1}<random>").into_owned();
        }
        for (regex, to) in &self.patterns {
            text = regex.replace_all(&text, to).into_owned();
        }
        tables(&text)
    }

    /// A value as indented JSON with placeholders.
    pub fn json<T: serde::Serialize>(&mut self, value: &T) -> Result<String, serde_json::Error> {
        Ok(self.apply(&serde_json::to_string_pretty(value)?))
    }
}

/// The columns of the table we are inside of.
struct Heading {
    columns: usize,
    ages: Vec<usize>,
    versions: Vec<usize>,
    separator: &'static str,
}

impl Heading {
    fn of(line: &str) -> Option<Heading> {
        let cells: Vec<&str> = GAP.split(line.trim()).collect();
        let at = |names: &[&str]| {
            let named = |(i, cell): (usize, &&str)| names.contains(cell).then_some(i);
            cells.iter().enumerate().filter_map(named).collect()
        };
        if cells == DESCRIBE_EVENTS {
            return Some(Heading { columns: 5, ages: vec![2], versions: vec![], separator: "  " });
        }
        let upper =
            cells.len() > 1 && !line.starts_with(' ') && cells.iter().all(|c| HEADING_CELL.is_match(c));
        upper.then(|| Heading {
            columns: cells.len(),
            ages: at(AGE_COLUMNS),
            versions: at(VERSION_COLUMNS),
            separator: SEPARATOR,
        })
    }

    fn row(&self, line: &str) -> String {
        let body = line.trim_start();
        let indent = &line[..line.len() - body.len()];
        let cells: Vec<&str> = GAP.split(body.trim_end()).collect();
        // An empty cell leaves no trace once gaps collapse, so a short row is matched by shape instead of place.
        let whole = cells.len() == self.columns;
        let cell = |(i, cell): (usize, &&str)| {
            let may_be_age = !self.ages.is_empty() && (!whole || self.ages.contains(&i));
            if may_be_age && AGE_CELL.is_match(cell) {
                DURATION.replace_all(cell, "<age>").into_owned()
            } else if whole && self.versions.contains(&i) && cell.bytes().all(|b| b.is_ascii_digit()) {
                "<rv>".to_owned()
            } else {
                (*cell).to_owned()
            }
        };
        let cells: Vec<String> = cells.iter().enumerate().map(cell).collect();
        format!("{indent}{}", cells.join(self.separator))
    }
}

fn tables(text: &str) -> String {
    let mut heading: Option<Heading> = None;
    let mut out = String::with_capacity(text.len());
    for line in text.split_inclusive('\n') {
        let (body, end) = line.strip_suffix('\n').map_or((line, ""), |body| (body, "\n"));
        if body.trim().is_empty() {
            heading = None;
        } else if let Some(next) = Heading::of(body) {
            heading = Some(next);
        }
        match &heading {
            Some(heading) => out.push_str(&heading.row(body)),
            None => out.push_str(&DESCRIBE_AGE.replace(body, "${1}<age>")),
        }
        out.push_str(end);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn normal(text: &str) -> String {
        Normalizer::new().apply(text)
    }

    #[test]
    fn a_uid_keeps_its_name_across_calls() {
        let (a, b) = ("0f3a6f2e-89a1-4c55-9a5e-0123456789ab", "ffffffff-89a1-4c55-9a5e-0123456789ab");
        let mut n = Normalizer::new();
        assert_eq!(n.apply(&format!("{a} {b} {a}")), "<uid-1> <uid-2> <uid-1>");
        assert_eq!(n.apply(&format!("uid: {b}")), "uid: <uid-2>");
        assert_eq!(
            normal("sha256:0f3a6f2e89a14c559a5e0123456789ab"),
            "sha256:0f3a6f2e89a14c559a5e0123456789ab"
        );
    }

    #[test]
    fn times_of_every_spelling() {
        assert_eq!(normal("a: 2026-01-02T03:04:05Z"), "a: <time>");
        assert_eq!(normal(r#""2026-01-02T03:04:05.123456Z""#), r#""<time>""#);
        assert_eq!(normal("2026-01-02T03:04:05+02:00"), "<time>");
        assert_eq!(normal("Mon, 02 Jan 2006 15:04:05 +0000"), "<time>");
        assert_eq!(normal("2026-01-02"), "2026-01-02");
    }

    #[test]
    fn versions_in_json_yaml_annotations_and_queries_but_not_zero() {
        assert_eq!(normal(r#"{"resourceVersion":"123"}"#), r#"{"resourceVersion":"<rv>"}"#);
        assert_eq!(normal(r#""resourceVersion": "123","#), r#""resourceVersion": "<rv>","#);
        assert_eq!(normal("  resourceVersion: \"42\"\n"), "  resourceVersion: \"<rv>\"\n");
        assert_eq!(normal(r#"{\"resourceVersion\":\"9\"}"#), r#"{\"resourceVersion\":\"<rv>\"}"#);
        assert_eq!(normal("?watch=true&resourceVersion=77"), "?watch=true&resourceVersion=<rv>");
        assert_eq!(normal("?resourceVersion=0&limit=500"), "?resourceVersion=0&limit=500");
        assert_eq!(normal(r#""replicas": "123""#), r#""replicas": "123""#);
    }

    #[test]
    fn ports_and_directories() {
        let mut n =
            Normalizer::new().dir(Path::new("/data/run"), "<data>").literal("/data/run/inner", "<inner>");
        let text =
            "https://127.0.0.1:45123/api http://localhost:80 10.0.0.1:443 /data/run/x /data/run/inner/y";
        let want = "https://127.0.0.1:<port>/api http://localhost:<port> 10.0.0.1:443 <data>/x <inner>/y";
        assert_eq!(n.apply(text), want);
        assert_eq!(normal("/tmp/.tmpAb12Cd/kubeconfig"), "<tmp>/kubeconfig");
    }

    #[test]
    fn ages_only_where_ages_are() {
        let narrow = "NAME   READY   AGE\n5s     1/1     9s\nb      0/1     2m3s\n";
        let wide = "NAME    READY   AGE\n5s      1/1     10s\nb       0/1     1h\n";
        let want = "NAME   READY   AGE\n5s   1/1   <age>\nb   0/1   <age>\n";
        assert_eq!(normal(narrow), want);
        assert_eq!(normal(wide), want, "widths must not leak");
        assert_eq!(normal("timeout after 5s\n"), "timeout after 5s\n");
        assert_eq!(normal("NAME   AGE\na      5s\n\nwaited 5s\n"), "NAME   AGE\na   <age>\n\nwaited 5s\n");
    }

    #[test]
    fn events_and_short_rows() {
        let text =
            "LAST SEEN            TYPE     REASON\n5s (x3 over 2m1s)    Normal   Made\n3d     Normal\n";
        let want = "LAST SEEN   TYPE   REASON\n<age> (x3 over <age>)   Normal   Made\n<age>   Normal\n";
        assert_eq!(normal(text), want);
        let describe = "Age:          12s\nEvents:\n  Type    Reason  Age   From     Message\n  ----    ------  ----  ----     -------\n  Normal  Made    7s    widgets  done in 5s\n";
        let want = "Age:          <age>\nEvents:\n  Type  Reason  Age  From  Message\n  ----  ------  ----  ----  -------\n  Normal  Made  <age>  widgets  done in 5s\n";
        assert_eq!(normal(describe), want);
    }

    #[test]
    fn version_columns_and_generated_names() {
        assert_eq!(normal("NAME   RV\na      17\n42     9\n"), "NAME   RV\na   <rv>\n42   <rv>\n");
        let mut n = Normalizer::new().generated("job-");
        assert_eq!(
            n.apply("pod/job-x7k2b created, job-alpha kept"),
            "pod/job-<random> created, job-alpha kept"
        );
    }

    #[test]
    fn kubectl_of_any_version_deletes_in_the_same_words() {
        let want = "pod \"a\" deleted\n";
        assert_eq!(normal("pod \"a\" deleted from blue namespace\n"), want);
        assert_eq!(normal(want), want);
    }

    #[test]
    fn normalising_twice_changes_nothing() {
        let text = "NAME   AGE\na      5s\nuid: 0f3a6f2e-89a1-4c55-9a5e-0123456789ab 127.0.0.1:4000\n";
        let once = normal(text);
        assert_eq!(normal(&once), once);
    }

    #[test]
    fn json_values_are_indented_first() {
        let value = serde_json::json!({"metadata": {"resourceVersion": "5", "creationTimestamp": "2026-01-02T03:04:05Z"}});
        let text = Normalizer::new().json(&value).unwrap();
        assert!(text.contains("\"resourceVersion\": \"<rv>\"") && text.contains("\"<time>\""), "{text}");
    }
}
