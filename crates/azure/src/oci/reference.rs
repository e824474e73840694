//! Names of images.

use super::Digest;
use std::fmt;
use std::str::FromStr;

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("'{text}' is not the name of an image: {why}")]
pub struct ReferenceError {
    text: String,
    why: &'static str,
}

/// `host[:port]/repository[:tag][@digest]`. A digest decides; a tag beside it is for people.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Reference {
    pub host: String,
    pub repository: String,
    pub tag: Option<String>,
    pub digest: Option<Digest>,
}

pub(super) fn repository_ok(name: &str) -> bool {
    let part = |p: &str| {
        p.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || matches!(b, b'.' | b'_' | b'-'))
            && p.starts_with(|c: char| c.is_ascii_alphanumeric())
            && p.ends_with(|c: char| c.is_ascii_alphanumeric())
            && !p.contains("..")
    };
    (1..=255).contains(&name.len()) && name.split('/').all(part)
}

fn tag_ok(tag: &str) -> bool {
    (1..=128).contains(&tag.len())
        && tag.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-'))
        && !tag.starts_with(['.', '-'])
}

fn host_ok(host: &str) -> bool {
    let (name, port) = host.rsplit_once(':').map_or((host, None), |(n, p)| (n, Some(p)));
    (1..=253).contains(&name.len())
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'-'))
        && port.is_none_or(|p| p.parse::<u16>().is_ok_and(|n| n > 0))
}

impl Reference {
    /// A repository of a registry.
    pub fn repository(host: &str, repository: &str) -> Result<Reference, ReferenceError> {
        format!("{host}/{repository}").parse()
    }

    #[must_use]
    pub fn with_digest(&self, digest: &Digest) -> Reference {
        Reference { digest: Some(digest.clone()), tag: None, ..self.clone() }
    }

    #[must_use]
    pub fn with_tag(&self, tag: &str) -> Reference {
        Reference { tag: Some(tag.to_owned()), digest: None, ..self.clone() }
    }

    /// What a manifest is asked for by.
    pub fn by(&self) -> &str {
        match (&self.digest, &self.tag) {
            (Some(d), _) => d.as_str(),
            (None, Some(t)) => t,
            (None, None) => "latest",
        }
    }
}

impl FromStr for Reference {
    type Err = ReferenceError;

    /// The host cannot be left out: nothing here guesses that Docker Hub is meant.
    fn from_str(text: &str) -> Result<Reference, ReferenceError> {
        let bad = |why| ReferenceError { text: text.chars().take(200).collect(), why };
        let (rest, digest) = match text.split_once('@') {
            Some((rest, d)) => (rest, Some(d.parse().map_err(|_| bad("what follows @ is not a digest"))?)),
            None => (text, None),
        };
        let (host, rest) = rest.split_once('/').ok_or_else(|| bad("the registry's host is missing"))?;
        let (repository, tag) = match rest.rsplit_once(':') {
            Some((r, t)) => (r, Some(t.to_owned())),
            None => (rest, None),
        };
        if !host_ok(host) || !(host.contains(['.', ':']) || host == "localhost") {
            return Err(bad("what precedes the first / is not a host"));
        }
        if !repository_ok(repository) {
            return Err(bad("the repository has lower-case letters, digits and . _ - between them"));
        }
        if tag.as_deref().is_some_and(|t| !tag_ok(t)) {
            return Err(bad("the tag has up to 128 letters, digits and . _ -"));
        }
        Ok(Reference { host: host.to_lowercase(), repository: repository.to_owned(), tag, digest })
    }
}

impl fmt::Display for Reference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.host, self.repository)?;
        if let Some(t) = &self.tag {
            write!(f, ":{t}")?;
        }
        if let Some(d) = &self.digest {
            write!(f, "@{d}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn names_are_read() {
        let digest = format!("sha256:{}", "0a".repeat(32));
        for (text, host, repository, by) in [
            ("quay.io/a/b:4.17", "quay.io", "a/b", "4.17"),
            ("localhost:5000/a", "localhost:5000", "a", "latest"),
            ("X.azurecr.io/a.b/c_d", "x.azurecr.io", "a.b/c_d", "latest"),
            (&format!("quay.io/a:t@{digest}"), "quay.io", "a", &digest),
        ] {
            let r: Reference = text.parse().unwrap();
            assert_eq!((r.host.as_str(), r.repository.as_str(), r.by()), (host, repository, by), "{text}");
            assert_eq!(r.to_string().to_lowercase(), text.to_lowercase());
        }
        for bad in [
            "",
            "a",
            "ubuntu/x",
            "quay.io/",
            "quay.io/A",
            "quay.io/a/../b",
            "quay.io/a:",
            "quay.io/a@sha256:0",
            "user@quay.io/a",
            "quay.io:0/a",
            "quay.io/a?x",
            "quay.io/a:b/c",
        ] {
            assert!(bad.parse::<Reference>().is_err(), "{bad}");
        }
    }

    proptest! {
        #[test]
        fn whatever_is_read_is_written_the_same(text in "[a-z.:/@_\\-0-9]{0,40}") {
            if let Ok(r) = text.parse::<Reference>() {
                prop_assert_eq!(r.to_string(), text);
            }
        }
    }
}
