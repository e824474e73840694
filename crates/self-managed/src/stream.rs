//! Release streams: names under which releases keep appearing, such as `4-stable-multi`.
//!
//! A release controller answers for each architecture at a host of its own; where nobody reaches it, the tags of a
//! repository (a mirror) say which releases there are. Either way the newest that we support is taken, and never a
//! candidate. Streams that are not stable have nothing but what comes before releases: nightlies, previews.

use apis::version::Version;
use serde_json::Value;

/// Where streams are looked up unless somebody says otherwise; `{arch}` is filled in.
pub const SOURCE: &str = "https://{arch}.ocp.releases.ci.openshift.org";
/// How a source that is a repository begins.
pub const REPOSITORY: &str = "oci://";

#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum Error {
    #[error("--release-stream {0:?} is no stream: it has letters, digits, . and -, such as 4-stable-multi")]
    Name(String),
    #[error("the answer for stream {0} is not what a release controller says (no list of tags)")]
    Answer(String),
    #[error(
        "stream {stream} has no release that is supported ({seen} seen, {oldest} to {latest} are supported): name one with --release-image"
    )]
    Nothing { stream: String, seen: usize, oldest: String, latest: String },
}

/// What a stream's name says of architecture and version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stream {
    name: String,
    arch: &'static str,
    major: Option<u32>,
    minor: Option<u32>,
}

const ARCHES: [&str; 5] = ["multi", "arm64", "ppc64le", "s390x", "amd64"];

impl Stream {
    /// `arch` is that of the nodes: of a stream for one architecture that does not name it.
    pub fn parse(name: &str, arch: &str) -> Result<Stream, Error> {
        let good = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
        if name.is_empty() || name.len() > 100 || !name.chars().all(good) || name.starts_with(['.', '-']) {
            return Err(Error::Name(name.chars().take(100).collect()));
        }
        let named = ARCHES.iter().find(|a| name.ends_with(&format!("-{a}")));
        let given = ARCHES.iter().find(|a| **a == arch);
        let mut numbers = name.split('-').next().unwrap_or_default().split('.');
        let mut number = || numbers.next().and_then(|n| n.parse().ok());
        let (major, minor) = (number(), number());
        Ok(Stream { name: name.to_owned(), arch: named.or(given).copied().unwrap_or("amd64"), major, minor })
    }

    /// Where a release controller tells of it.
    pub fn url(&self, source: &str) -> String {
        let at = source.trim_end_matches('/').replace("{arch}", self.arch);
        format!("{at}/api/v1/releasestream/{}/tags", self.name)
    }

    fn wants(&self, v: &Version) -> bool {
        let finished = if self.name.contains("stable") { v.pre.is_empty() } else { !v.pre.starts_with("rc") };
        finished
            && v.supported()
            && self.major.is_none_or(|m| m == v.major)
            && self.minor.is_none_or(|m| m == v.minor)
    }

    fn nothing(&self, seen: usize) -> Error {
        let all = apis::version::supported();
        let end = |v: Option<&String>| v.cloned().unwrap_or_default();
        Error::Nothing { stream: self.name.clone(), seen, oldest: end(all.last()), latest: end(all.first()) }
    }

    /// The newest of what a release controller said: its version and image.
    pub fn newest(&self, answer: &Value) -> Result<(Version, String), Error> {
        let tags = answer["tags"].as_array().ok_or_else(|| Error::Answer(self.name.clone()))?;
        let read = |t: &Value| {
            let version: Version = t["name"].as_str()?.parse().ok()?;
            let image = t["pullSpec"].as_str().filter(|i| !i.is_empty())?;
            // Who has no phase was accepted.
            let accepted = t["phase"].as_str().is_none_or(|p| p == "Accepted");
            (accepted && self.wants(&version)).then(|| (version, image.to_owned()))
        };
        tags.iter().filter_map(read).max_by(|a, b| a.0.cmp(&b.0)).ok_or_else(|| self.nothing(tags.len()))
    }

    /// The newest of a repository's tags: `4.20.1`, or `4.20.1-multi` as releases are called; its version and tag.
    pub fn newest_tag(&self, tags: &[String]) -> Result<(Version, String), Error> {
        let endings = ["-multi", "-x86_64", "-aarch64", "-ppc64le", "-s390x"];
        let own = match self.arch {
            "amd64" => "-x86_64",
            "arm64" => "-aarch64",
            "multi" => "-multi",
            "ppc64le" => "-ppc64le",
            _ => "-s390x",
        };
        let read = |tag: &String| {
            let ending = endings.iter().find(|e| tag.ends_with(*e));
            let bare = ending.map_or(tag.as_str(), |e| tag.trim_end_matches(e));
            let version: Version = bare.parse().ok()?;
            let fits = ending.is_none_or(|e| *e == own || *e == "-multi");
            // Of several names of one version, the most exact.
            let rank = u8::from(ending == Some(&own));
            (fits && self.wants(&version)).then(|| (version, rank, tag.clone()))
        };
        let found = tags.iter().filter_map(read).max_by(|a, b| (&a.0, a.1).cmp(&(&b.0, b.1)));
        found.map(|(v, _, tag)| (v, tag)).ok_or_else(|| self.nothing(tags.len()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn stream(name: &str) -> Stream {
        Stream::parse(name, "amd64").unwrap()
    }

    #[test]
    fn each_architecture_has_its_own_host() {
        let at = |name: &str, arch: &str| Stream::parse(name, arch).unwrap().url(SOURCE);
        assert_eq!(
            at("4-stable-multi", "amd64"),
            "https://multi.ocp.releases.ci.openshift.org/api/v1/releasestream/4-stable-multi/tags"
        );
        assert!(
            at("4-stable", "arm64").starts_with("https://arm64.")
                && at("4-stable", "").starts_with("https://amd64.")
        );
        assert_eq!(
            stream("4-stable").url("http://mirror/"),
            "http://mirror/api/v1/releasestream/4-stable/tags"
        );
        for bad in ["", "../x", "a b", "-x", "é"] {
            assert_eq!(Stream::parse(bad, "amd64"), Err(Error::Name(bad.into())));
        }
    }

    #[test]
    fn the_newest_that_is_supported_and_no_candidate() {
        let tag = |name: &str, phase: &str| json!({"name": name, "phase": phase, "pullSpec": format!("r.example/x:{name}")});
        let answer = json!({"name": "4-stable-multi", "tags": [tag("4.21.0-rc.1", "Accepted"), tag("4.20.9", "Accepted"),
            tag("4.20.10", "Accepted"), tag("4.20.11", "Rejected"), tag("4.13.50", "Accepted"), tag("5.0.1", "Accepted"), json!({"name": 1})]});
        assert_eq!(
            stream("4-stable-multi").newest(&answer).unwrap(),
            ("4.20.10".parse().unwrap(), "r.example/x:4.20.10".into())
        );
        assert_eq!(stream("5-stable").newest(&answer).unwrap().1, "r.example/x:5.0.1");
        assert_eq!(stream("x").newest(&json!([])), Err(Error::Answer("x".into())));
        let said = stream("4.18.0-0.nightly").newest(&answer).unwrap_err().to_string();
        assert!(said.contains("7 seen, 4.14 to 5.1") && said.contains("--release-image"), "{said}");
    }

    #[test]
    fn streams_before_releases_have_no_candidates_either() {
        let tag = |name: &str| json!({"name": name, "phase": "Accepted", "pullSpec": format!("r.example/x:{name}")});
        let nightly = json!({"tags": [tag("4.20.0-0.nightly-2026-01-02-030405"), tag("4.20.0-0.nightly-2026-01-01-030405")]});
        let found = stream("4.20.0-0.nightly").newest(&nightly).unwrap().1;
        assert_eq!(found, "r.example/x:4.20.0-0.nightly-2026-01-02-030405");
        assert!(
            stream("4.20.0-0.ci").newest(&json!({"tags": [tag("4.20.0-0.ci-2026-01-02-030405")]})).is_ok()
        );
        let preview = json!({"tags": [tag("4.21.0-ec.2"), tag("4.21.0-rc.0"), tag("4.21.0-ec.10")]});
        assert_eq!(stream("4-dev-preview").newest(&preview).unwrap().1, "r.example/x:4.21.0-ec.10");
        assert!(stream("4-stable").newest(&preview).is_err());
    }

    #[test]
    fn tags_of_a_mirror_do_as_well() {
        let tags = ["4.20.1", "4.21.0-x86_64", "4.21.0-multi", "4.21.1-aarch64", "4.22.0-rc.0", "latest"]
            .map(str::to_owned);
        assert_eq!(stream("4-stable-multi").newest_tag(&tags).unwrap().1, "4.21.0-multi");
        assert_eq!(stream("4-stable").newest_tag(&tags).unwrap().1, "4.21.0-x86_64");
        assert_eq!(
            Stream::parse("4-stable", "arm64").unwrap().newest_tag(&tags).unwrap().1,
            "4.21.1-aarch64"
        );
        assert_eq!(stream("4.20-stable").newest_tag(&tags).unwrap().1, "4.20.1");
    }
}
