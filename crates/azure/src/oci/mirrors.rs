//! Where else an image may be had.
//!
//! Two customs meet here. Overrides replace a place outright (`--registry-overrides a=b`). Mirrors, as
//! `ImageDigestMirrorSet` and `ImageTagMirrorSet` have them, are looked at first, in order, and the place itself last, unless it
//! may not be asked at all.

use super::{Reference, ReferenceError};

/// Mirrors of a place: a host, or a host and the beginning of a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mirror {
    pub source: String,
    pub mirrors: Vec<String>,
    /// Do not fall back to the place itself.
    pub never_source: bool,
    /// For references without a digest too. What a tag means, a mirror may see differently.
    pub tags: bool,
}

#[derive(Clone, Debug, Default)]
pub struct Mirrors {
    mirrors: Vec<Mirror>,
    overrides: Vec<(String, String)>,
}

/// The reference at another place, if it lies below `from`.
fn moved(at: &Reference, from: &str, to: &str) -> Option<Result<Reference, ReferenceError>> {
    let whole = format!("{}/{}", at.host, at.repository);
    let rest = whole.strip_prefix(from.trim_end_matches('/'))?;
    if !rest.is_empty() && !rest.starts_with('/') {
        return None;
    }
    let there: Result<Reference, _> = format!("{}{rest}", to.trim_end_matches('/')).parse();
    Some(there.map(|r| Reference { tag: at.tag.clone(), digest: at.digest.clone(), ..r }))
}

impl Mirrors {
    #[must_use]
    pub fn mirror(mut self, mirror: Mirror) -> Mirrors {
        self.mirrors.push(mirror);
        self
    }

    /// `from` is never asked; `to` is.
    #[must_use]
    pub fn replace(mut self, from: &str, to: &str) -> Mirrors {
        self.overrides.push((from.to_owned(), to.to_owned()));
        self
    }

    /// Where to ask for a reference, in order. The most exact rule counts.
    pub fn places(&self, at: &Reference) -> Result<Vec<Reference>, ReferenceError> {
        let longest = |a: &&(String, String), b: &&(String, String)| a.0.len().cmp(&b.0.len());
        let replaced = self.overrides.iter().filter(|(f, t)| moved(at, f, t).is_some()).max_by(longest);
        let at = match replaced.and_then(|(f, t)| moved(at, f, t)) {
            Some(there) => there?,
            None => at.clone(),
        };
        let fits =
            |m: &&Mirror| (m.tags || at.digest.is_some()) && moved(&at, &m.source, &m.source).is_some();
        let Some(rule) = self.mirrors.iter().filter(fits).max_by_key(|m| m.source.len()) else {
            return Ok(vec![at]);
        };
        let mut all: Vec<Reference> =
            rule.mirrors.iter().filter_map(|m| moved(&at, &rule.source, m)).collect::<Result<_, _>>()?;
        if !rule.never_source || all.is_empty() {
            all.push(at);
        }
        Ok(all)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_most_exact_rule_counts_and_the_source_comes_last() {
        let digest = format!("@sha256:{}", "0a".repeat(32));
        let rule = |source: &str, mirrors: &[&str], never_source, tags| Mirror {
            source: source.to_owned(),
            mirrors: mirrors.iter().map(|m| (*m).to_owned()).collect(),
            never_source,
            tags,
        };
        let all = Mirrors::default()
            .mirror(rule("quay.io", &["m.test/quay"], false, true))
            .mirror(rule("quay.io/ocp/release", &["a.test/r", "b.test:5000/r"], true, false))
            .replace("registry.ci", "x.azurecr.io/ci")
            .replace("old.test", "quay.io");
        let of = |text: &str| -> Vec<String> {
            all.places(&text.parse().unwrap()).unwrap().iter().map(ToString::to_string).collect()
        };
        assert_eq!(of("quay.io/a:1"), ["m.test/quay/a:1", "quay.io/a:1"]);
        let exact = of(&format!("quay.io/ocp/release{digest}"));
        assert_eq!(exact, [format!("a.test/r{digest}"), format!("b.test:5000/r{digest}")]);
        assert_eq!(of("quay.io/ocp/release:4"), ["m.test/quay/ocp/release:4", "quay.io/ocp/release:4"]);
        assert_eq!(of(&format!("quay.io/ocp/release-x{digest}")).len(), 2);
        assert_eq!(of("old.test/a:1"), ["m.test/quay/a:1", "quay.io/a:1"]);
        assert_eq!(of("registry.cib/a:1"), ["registry.cib/a:1"]);
        assert_eq!(of("other.test/a"), ["other.test/a"]);
    }
}
