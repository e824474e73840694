//! What an account says about a blob.

use crate::Answer;
use jiff::Timestamp;
use std::collections::BTreeMap;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BlobProperties {
    /// With its quotes, as conditions want it.
    pub etag: String,
    /// Of the whole blob.
    pub size: u64,
    pub content_type: Option<String>,
    pub content_encoding: Option<String>,
    pub cache_control: Option<String>,
    pub modified: Option<Timestamp>,
    pub metadata: BTreeMap<String, String>,
}

pub(super) fn date(text: &str) -> Option<Timestamp> {
    jiff::fmt::rfc2822::parse(text).ok().map(|z| z.timestamp())
}

/// `bytes 0-9/100` ends in the size of the whole.
fn whole(range: &str) -> Option<u64> {
    range.rsplit_once('/')?.1.parse().ok()
}

impl BlobProperties {
    /// Of the headers of an answer.
    pub(super) fn of(answer: &Answer) -> BlobProperties {
        let text = |name: &str| answer.header(name).map(str::to_owned);
        let size = answer
            .header("content-range")
            .and_then(whole)
            .or_else(|| answer.header("content-length")?.parse().ok());
        let metadata = answer.headers.iter().filter_map(|(k, v)| {
            let name = k.as_str().strip_prefix("x-ms-meta-")?;
            Some((name.to_owned(), v.to_str().ok()?.to_owned()))
        });
        BlobProperties {
            etag: text("etag").unwrap_or_default(),
            size: size.unwrap_or(answer.body.len() as u64),
            content_type: text("content-type"),
            content_encoding: text("content-encoding"),
            cache_control: text("cache-control"),
            modified: answer.header("last-modified").and_then(date),
            metadata: metadata.collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_says_how_long_the_whole_is() {
        let mut a = Answer { body: "ab".into(), ..Answer::default() };
        assert_eq!(BlobProperties::of(&a).size, 2);
        a.headers.insert("content-range", "bytes 0-1/77".parse().unwrap());
        a.headers.insert("content-length", "2".parse().unwrap());
        a.headers.insert("x-ms-meta-k", "v".parse().unwrap());
        a.headers.insert("last-modified", "Fri, 14 Nov 2025 10:00:00 GMT".parse().unwrap());
        let p = BlobProperties::of(&a);
        assert_eq!((p.size, p.metadata["k"].as_str(), p.modified.is_some()), (77, "v", true));
    }
}
