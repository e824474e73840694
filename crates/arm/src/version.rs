//! API versions: dates, sometimes with a suffix. Behaviour depends on their order.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("'{0}' is not an api-version: YYYY-MM-DD, optionally followed by a suffix such as -preview")]
pub struct VersionError(String);

/// `2024-05-01` or `2024-05-01-preview`. A preview comes before the release of the same day.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct ApiVersion {
    text: String,
}

impl ApiVersion {
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// The day, without the suffix. Days order as text.
    pub fn date(&self) -> &str {
        self.text.get(..10).unwrap_or(&self.text)
    }

    pub fn is_preview(&self) -> bool {
        self.text.len() > 10
    }

    /// Whether this version is of that day or later, previews of the day included.
    pub fn at_least(&self, date: &str) -> bool {
        self.date() >= date
    }
}

impl FromStr for ApiVersion {
    type Err = VersionError;

    fn from_str(s: &str) -> Result<ApiVersion, VersionError> {
        let bad = || VersionError(s.chars().take(64).collect());
        let b = s.as_bytes();
        if b.len() < 10 || b.len() > 40 || !s.is_ascii() {
            return Err(bad());
        }
        let number = |r: std::ops::Range<usize>| s.get(r).and_then(|t| t.parse::<u16>().ok());
        let digits = |r: std::ops::Range<usize>| b[r].iter().all(u8::is_ascii_digit);
        let dated = digits(0..4) && b[4] == b'-' && digits(5..7) && b[7] == b'-' && digits(8..10);
        let real = number(5..7).is_some_and(|m| (1..=12).contains(&m))
            && number(8..10).is_some_and(|d| (1..=31).contains(&d));
        let suffix = b.len() == 10
            || (b[10] == b'-'
                && b.len() > 11
                && b[11..].iter().all(|c| c.is_ascii_alphanumeric() || *c == b'.'));
        if !dated || !real || !suffix {
            return Err(bad());
        }
        Ok(ApiVersion { text: s.to_ascii_lowercase() })
    }
}

impl PartialOrd for ApiVersion {
    fn partial_cmp(&self, other: &ApiVersion) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for ApiVersion {
    fn cmp(&self, other: &ApiVersion) -> std::cmp::Ordering {
        self.date()
            .cmp(other.date())
            .then_with(|| other.is_preview().cmp(&self.is_preview()))
            .then_with(|| self.text.cmp(&other.text))
    }
}

impl fmt::Display for ApiVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl TryFrom<String> for ApiVersion {
    type Error = VersionError;

    fn try_from(s: String) -> Result<ApiVersion, VersionError> {
        s.parse()
    }
}

impl From<ApiVersion> for String {
    fn from(v: ApiVersion) -> String {
        v.text
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn orders_by_day_and_previews_first() {
        let v = |s: &str| s.parse::<ApiVersion>().unwrap();
        assert!(v("2023-09-01-preview") < v("2023-09-01"));
        assert!(v("2023-09-01") < v("2024-01-01-preview"));
        assert!(v("2023-09-01-PREVIEW").at_least("2023-09-01"));
        assert_eq!(v("2023-09-01-PREVIEW").as_str(), "2023-09-01-preview");
        for bad in [
            "",
            "2023",
            "2023-9-01",
            "2023-13-01",
            "2023-01-00",
            "2023-01-01preview",
            "2023-01-01-",
            "é023-01-01",
        ] {
            assert!(bad.parse::<ApiVersion>().is_err(), "{bad}");
        }
    }

    proptest! {
        #[test]
        fn never_panics(s in "\\PC{0,50}") {
            let _ = s.parse::<ApiVersion>();
        }
    }
}
