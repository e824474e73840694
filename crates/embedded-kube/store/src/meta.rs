//! The side record kept beside an object's bytes, so that selectors, garbage collection and watch dispatch
//! never parse the body.

use serde::Deserialize;
use std::borrow::Cow;
use std::collections::BTreeMap;

/// An owner reference, reduced to what the garbage collector's graph needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owner {
    pub uid: Box<str>,
    pub block_deletion: bool,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Meta {
    pub uid: Box<str>,
    /// Sorted by key.
    pub labels: Box<[(Box<str>, Box<str>)]>,
    pub owners: Box<[Owner]>,
    pub has_finalizers: bool,
    pub deleting: bool,
    /// Stamp of the schema the bytes were written under; readers with another stamp re-default. 0 after
    /// recovery: unknown.
    pub schema_stamp: u64,
}

impl Meta {
    pub fn label(&self, key: &str) -> Option<&str> {
        self.labels.binary_search_by(|(k, _)| (**k).cmp(key)).ok().map(|i| &*self.labels[i].1)
    }

    /// Reads the side record out of stored bytes; what recovery does for each object.
    pub fn from_bytes(bytes: &[u8]) -> Result<Meta, serde_json::Error> {
        #[derive(Deserialize)]
        struct Doc<'a> {
            #[serde(borrow)]
            metadata: Metadata<'a>,
        }
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Metadata<'a> {
            #[serde(borrow, default)]
            uid: Cow<'a, str>,
            #[serde(borrow, default)]
            labels: Option<BTreeMap<Cow<'a, str>, Cow<'a, str>>>,
            #[serde(borrow, default)]
            owner_references: Option<Vec<OwnerReference<'a>>>,
            #[serde(borrow, default)]
            finalizers: Option<Vec<Cow<'a, str>>>,
            #[serde(default)]
            deletion_timestamp: Option<serde::de::IgnoredAny>,
        }
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct OwnerReference<'a> {
            #[serde(borrow, default)]
            uid: Cow<'a, str>,
            #[serde(default)]
            block_owner_deletion: Option<bool>,
        }
        let doc: Doc<'_> = serde_json::from_slice(bytes)?;
        let m = doc.metadata;
        Ok(Meta {
            uid: (&*m.uid).into(),
            labels: m.labels.into_iter().flatten().map(|(k, v)| ((&*k).into(), (&*v).into())).collect(),
            owners: (m.owner_references.into_iter().flatten())
                .map(|o| Owner {
                    uid: (&*o.uid).into(),
                    block_deletion: o.block_owner_deletion.unwrap_or(false),
                })
                .collect(),
            has_finalizers: m.finalizers.is_some_and(|f| !f.is_empty()),
            deleting: m.deletion_timestamp.is_some(),
            schema_stamp: 0,
        })
    }
}
