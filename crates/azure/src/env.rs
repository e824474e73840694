//! The process environment as a value.
//!
//! Credentials and clouds are configured by well-known variables. They are read once, here, into a map that tests
//! can make themselves; nothing below asks the process.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt;

/// Variables by name. Empty values count as absent, as the official clients have it.
#[derive(Clone, Default)]
pub struct Env(BTreeMap<String, String>);

impl Env {
    /// What the process was started with. Values that are not Unicode are left out.
    pub fn of_process() -> Env {
        let text = |(k, v): (OsString, OsString)| Some((k.into_string().ok()?, v.into_string().ok()?));
        Env(std::env::vars_os().filter_map(text).collect())
    }

    pub fn new<K: Into<String>, V: Into<String>>(pairs: impl IntoIterator<Item = (K, V)>) -> Env {
        Env(pairs.into_iter().map(|(k, v)| (k.into(), v.into())).collect())
    }

    /// Reads the `export NAME='value'` lines that the simulator writes.
    pub fn parse(lines: &str) -> Env {
        let pair = |l: &str| {
            let (k, v) = l.trim().strip_prefix("export ")?.split_once('=')?;
            let v = v.strip_prefix('\'').and_then(|v| v.strip_suffix('\'')).unwrap_or(v);
            Some((k.to_owned(), v.replace("'\\''", "'")))
        };
        Env(lines.lines().filter_map(pair).collect())
    }

    #[must_use]
    pub fn with(mut self, name: &str, value: impl Into<String>) -> Env {
        self.0.insert(name.to_owned(), value.into());
        self
    }

    #[must_use]
    pub fn without(mut self, name: &str) -> Env {
        self.0.remove(name);
        self
    }

    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str).filter(|v| !v.is_empty())
    }

    /// The first of several spellings that is set.
    pub fn any(&self, names: &[&str]) -> Option<&str> {
        names.iter().find_map(|n| self.get(n))
    }
}

/// Names only: values may be secrets.
impl fmt::Debug for Env {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_export_lines_and_hides_values() {
        let env = Env::parse("export A='x'\\''y'\nexport B='b'\nrubbish\nexport C=''\n");
        assert_eq!((env.get("A"), env.get("B"), env.get("C")), (Some("x'y"), Some("b"), None));
        assert_eq!(env.any(&["Z", "B"]), Some("b"));
        assert!(!format!("{env:?}").contains("x'y"));
    }
}
