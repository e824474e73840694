//! OpenShift versions, and which go together.
//!
//! OpenShift counts 4.23, 5.0, 5.1 …, where 5.x takes the place of 4.(23+x). Whoever compares minors does it by
//! [`Version::ordinal`], never by the numbers themselves.

use std::cmp::Ordering;
use std::fmt;
use std::str::FromStr;

/// The newest minor that we support.
pub const LATEST: (u32, u32) = (5, 1);
/// The oldest minor that we support.
pub const OLDEST: (u32, u32) = (4, 14);
/// Minors that nodes may be behind their cluster.
pub const MAX_SKEW: u32 = 3;
/// Ordinal of 5.0.
const FIVE: u32 = 23;

/// Why a text is no version of OpenShift.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum Error {
    #[error("{0:?} is not a version: write X.Y.Z, such as 4.20.5")]
    Shape(String),
    #[error("OpenShift {0} is not known: use a version of 4 or 5")]
    Major(String),
}

/// A version, `X.Y.Z` with an optional pre-release.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Version {
    pub major: u32,
    pub minor: u32,
    pub patch: u32,
    /// `rc.1`, `0.nightly-…`; empty for releases.
    pub pre: String,
}

impl FromStr for Version {
    type Err = Error;

    fn from_str(text: &str) -> Result<Version, Error> {
        let shape = || Error::Shape(text.chars().take(64).collect());
        let (numbers, rest) = text.split_once('-').unwrap_or((text, ""));
        let pre = rest.split('+').next().unwrap_or_default();
        let numbers = numbers.split('+').next().unwrap_or_default();
        let mut parts = numbers.split('.').map(|n| match n.as_bytes() {
            [b'0', _, ..] | [] => None,
            digits if digits.iter().all(u8::is_ascii_digit) => n.parse::<u32>().ok(),
            _ => None,
        });
        let mut next = || parts.next().flatten().ok_or_else(shape);
        let (major, minor, patch) = (next()?, next()?, next()?);
        if parts.next().is_some() || (text.contains('-') && pre.is_empty()) {
            return Err(shape());
        }
        if !matches!(major, 4 | 5) || minor > 10_000 {
            return Err(Error::Major(format!("{major}.{minor}")));
        }
        Ok(Version { major, minor, patch, pre: pre.to_owned() })
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.major, self.minor, self.patch)?;
        if self.pre.is_empty() { Ok(()) } else { write!(f, "-{}", self.pre) }
    }
}

/// The place of a minor in the one row of minors: 4.y is y, 5.x is 23+x.
pub fn ordinal(major: u32, minor: u32) -> u32 {
    if major >= 5 { minor.saturating_add(FIVE) } else { minor }
}

impl Version {
    /// See [`ordinal`].
    pub fn ordinal(&self) -> u32 {
        ordinal(self.major, self.minor)
    }

    /// Whether both are of one minor.
    pub fn same_minor(&self, other: &Version) -> bool {
        self.ordinal() == other.ordinal()
    }

    /// `X.Y`.
    pub fn stream(&self) -> String {
        format!("{}.{}", self.major, self.minor)
    }

    /// Whether we support this minor.
    pub fn supported(&self) -> bool {
        (ordinal(OLDEST.0, OLDEST.1)..=ordinal(LATEST.0, LATEST.1)).contains(&self.ordinal())
    }

    /// The minor of Kubernetes in it: 4.14 has 1.27, and so on.
    pub fn kubernetes_minor(&self) -> u32 {
        self.ordinal() + 13
    }
}

impl Ord for Version {
    fn cmp(&self, other: &Version) -> Ordering {
        let key = |v: &Version| (v.ordinal(), v.patch);
        key(self)
            .cmp(&key(other))
            .then_with(|| precedence(&self.pre, &other.pre))
            .then(self.major.cmp(&other.major))
    }
}

impl PartialOrd for Version {
    fn partial_cmp(&self, other: &Version) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// Semantic versioning's order of pre-releases: none is highest, numbers before words.
fn precedence(a: &str, b: &str) -> Ordering {
    match (a.is_empty(), b.is_empty()) {
        (true, true) => return Ordering::Equal,
        (true, false) => return Ordering::Greater,
        (false, true) => return Ordering::Less,
        (false, false) => {}
    }
    let number = |s: &str| s.parse::<u64>().ok();
    let (mut a, mut b) = (a.split('.'), b.split('.'));
    loop {
        let order = match (a.next(), b.next()) {
            (None, None) => return Ordering::Equal,
            (None, Some(_)) => Ordering::Less,
            (Some(_), None) => Ordering::Greater,
            (Some(x), Some(y)) => match (number(x), number(y)) {
                (Some(x), Some(y)) => x.cmp(&y),
                (Some(_), None) => Ordering::Less,
                (None, Some(_)) => Ordering::Greater,
                (None, None) => x.cmp(y),
            },
        };
        if order != Ordering::Equal {
            return order;
        }
    }
}

/// Why nodes of a version do not fit a cluster.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum SkewError {
    #[error("nodes of {nodes} are newer than the cluster, {cluster}: upgrade the HostedCluster first")]
    Newer { nodes: Version, cluster: Version },
    #[error(
        "nodes of {nodes} are {behind} minors behind the cluster, {cluster}; {MAX_SKEW} are supported: upgrade the NodePool"
    )]
    TooOld { nodes: Version, cluster: Version, behind: u32 },
}

/// Whether nodes of a version may belong to a cluster.
pub fn check_skew(nodes: &Version, cluster: &Version) -> Result<(), SkewError> {
    if nodes > cluster {
        return Err(SkewError::Newer { nodes: nodes.clone(), cluster: cluster.clone() });
    }
    let behind = cluster.ordinal() - nodes.ordinal();
    if behind > MAX_SKEW {
        return Err(SkewError::TooOld { nodes: nodes.clone(), cluster: cluster.clone(), behind });
    }
    Ok(())
}

/// The minors that we support, newest first, as the `supported-versions` ConfigMap lists them.
pub fn supported() -> Vec<String> {
    let fives = (0..=LATEST.1).rev().map(|x| format!("5.{x}"));
    fives.chain((OLDEST.1..=FIVE).rev().map(|y| format!("4.{y}"))).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    fn v(text: &str) -> Version {
        text.parse().unwrap()
    }

    #[test]
    fn five_follows_four_twenty_two() {
        assert!(v("4.22.9") < v("5.0.0") && v("4.23.1") < v("5.1.0") && v("4.23.9").same_minor(&v("5.0.0")));
        assert_eq!(
            (v("4.14.0").kubernetes_minor(), v("5.0.0").kubernetes_minor(), v("5.1.0").kubernetes_minor()),
            (27, 36, 37)
        );
        assert_eq!(supported()[..4], ["5.1", "5.0", "4.23", "4.22"]);
        assert_eq!(supported().last().unwrap(), "4.14");
        assert!(
            v("4.14.0").supported()
                && v("5.1.9").supported()
                && !v("4.13.9").supported()
                && !v("5.2.0").supported()
        );
    }

    #[test]
    fn order_is_that_of_semantic_versions() {
        let mut list =
            ["4.20.0", "4.20.0-rc.1", "4.20.0-ec.2", "4.20.0-rc.10", "4.20.0-0.nightly", "4.19.30", "4.20.1"]
                .map(v);
        list.sort();
        let texts: Vec<String> = list.iter().map(Version::to_string).collect();
        assert_eq!(
            texts,
            ["4.19.30", "4.20.0-0.nightly", "4.20.0-ec.2", "4.20.0-rc.1", "4.20.0-rc.10", "4.20.0", "4.20.1"]
        );
    }

    #[test]
    fn what_is_no_version_is_said_so() {
        for bad in ["", "4", "4.20", "4.20.x", "4.20.5.1", "v4.20.5", "4.020.1", "4.20.5-", "４.20.1"] {
            assert!(matches!(bad.parse::<Version>(), Err(Error::Shape(_))), "{bad}");
        }
        assert_eq!("6.0.0".parse::<Version>(), Err(Error::Major("6.0".into())));
    }

    #[test]
    fn nodes_may_be_three_minors_behind_and_never_ahead() {
        assert_eq!(check_skew(&v("4.20.0"), &v("5.0.3")), Ok(()));
        assert!(matches!(check_skew(&v("4.20.0"), &v("5.1.3")), Err(SkewError::TooOld { behind: 4, .. })));
        assert!(matches!(check_skew(&v("4.20.6"), &v("4.20.5")), Err(SkewError::Newer { .. })));
    }
}
