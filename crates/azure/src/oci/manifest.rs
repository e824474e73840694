//! Manifests: images, and indexes of images.

use super::{Digest, OciError};
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;

pub const INDEX: [&str; 2] =
    ["application/vnd.oci.image.index.v1+json", "application/vnd.docker.distribution.manifest.list.v2+json"];
pub const IMAGE: [&str; 2] =
    ["application/vnd.oci.image.manifest.v1+json", "application/vnd.docker.distribution.manifest.v2+json"];
/// Larger ones are no manifests.
pub const MAX: u64 = 4 << 20;

/// What something is, and how to have it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Descriptor {
    pub media_type: String,
    pub digest: Digest,
    pub size: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub platform: Option<Platform>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Platform {
    #[serde(default)]
    pub os: String,
    #[serde(default)]
    pub architecture: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub variant: Option<String>,
}

impl Platform {
    /// As registries name architectures: `amd64`, `arm64`.
    pub fn linux(architecture: &str) -> Platform {
        Platform { os: "linux".to_owned(), architecture: architecture.to_owned(), variant: None }
    }

    fn suits(&self, wanted: &Platform) -> bool {
        self.os == wanted.os
            && self.architecture == wanted.architecture
            && (wanted.variant.is_none() || self.variant == wanted.variant)
    }
}

impl fmt::Display for Platform {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.os, self.architecture)?;
        self.variant.as_ref().map_or(Ok(()), |v| write!(f, "/{v}"))
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Image {
    pub schema_version: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub media_type: Option<String>,
    pub config: Descriptor,
    /// The lowest first.
    pub layers: Vec<Descriptor>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Index {
    pub schema_version: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub media_type: Option<String>,
    pub manifests: Vec<Descriptor>,
}

impl Index {
    /// The image for a platform. What belongs to no platform (signatures, attestations) is passed over.
    pub fn choose(&self, wanted: &Platform) -> Option<&Descriptor> {
        self.manifests.iter().find(|d| d.platform.as_ref().is_some_and(|p| p.suits(wanted)))
    }

    pub(super) fn platforms(&self) -> String {
        let all: Vec<String> =
            self.manifests.iter().filter_map(|d| Some(d.platform.as_ref()?.to_string())).collect();
        if all.is_empty() { "none".to_owned() } else { all.join(", ") }
    }
}

#[derive(Clone, Debug, PartialEq)]
pub enum Shape {
    Image(Image),
    Index(Index),
}

/// A manifest with the bytes that its digest is of.
#[derive(Clone, Debug)]
pub struct Manifest {
    pub digest: Digest,
    pub media_type: String,
    pub bytes: Bytes,
    pub shape: Shape,
}

impl Manifest {
    /// Reads what a registry said is of this type; what the manifest says of itself counts more.
    pub(super) fn read(what: &str, said: &str, digest: Digest, bytes: Bytes) -> Result<Manifest, OciError> {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Kind {
            #[serde(default)]
            media_type: Option<String>,
            #[serde(default)]
            manifests: Option<serde::de::IgnoredAny>,
            #[serde(default)]
            layers: Option<serde::de::IgnoredAny>,
        }
        let read = |source| OciError::Read { url: what.to_owned(), source };
        let kind: Kind = serde_json::from_slice(&bytes).map_err(read)?;
        let said = said.split(';').next().unwrap_or_default().trim();
        let media = kind.media_type.unwrap_or_else(|| said.to_owned());
        // Which is safe to take it for: never both.
        let (index, image) = (INDEX.contains(&media.as_str()), IMAGE.contains(&media.as_str()));
        let shape = match (index, image, kind.manifests.is_some(), kind.layers.is_some()) {
            (true, _, true, false) => Shape::Index(serde_json::from_slice(&bytes).map_err(read)?),
            (_, true, false, true) => Shape::Image(serde_json::from_slice(&bytes).map_err(read)?),
            _ => {
                return Err(OciError::Media {
                    what: what.to_owned(),
                    media: media.chars().take(100).collect(),
                });
            }
        };
        Ok(Manifest { digest, media_type: media, bytes, shape })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn read(said: &str, v: serde_json::Value) -> Result<Manifest, OciError> {
        let bytes = Bytes::from(v.to_string());
        Manifest::read("x", said, Digest::of(&bytes), bytes)
    }

    #[test]
    fn platforms_are_chosen() {
        let d = |n: u8, p: serde_json::Value| json!({"mediaType": IMAGE[0], "size": 1, "digest": format!("sha256:{}", format!("{n:02x}").repeat(32)), "platform": p});
        let index = json!({"schemaVersion": 2, "mediaType": INDEX[0], "manifests": [
            d(1, json!({"os": "unknown", "architecture": "unknown"})), d(2, json!(null)),
            d(3, json!({"os": "linux", "architecture": "arm64", "variant": "v8"})), d(4, json!({"os": "linux", "architecture": "amd64"})),
        ]});
        let Shape::Index(index) = read("", index).unwrap().shape else { panic!("an index") };
        let chosen = |p: &Platform| index.choose(p).map(|d| d.digest.as_str()[7..9].to_owned());
        assert_eq!(chosen(&Platform::linux("amd64")).as_deref(), Some("04"));
        assert_eq!(chosen(&Platform::linux("arm64")).as_deref(), Some("03"));
        assert_eq!(chosen(&Platform { variant: Some("v7".to_owned()), ..Platform::linux("arm64") }), None);
        assert_eq!(chosen(&Platform::linux("s390x")), None);
        assert!(index.platforms().contains("linux/arm64/v8"));
    }

    #[test]
    fn nothing_is_two_things() {
        let both = json!({"schemaVersion": 2, "mediaType": INDEX[0], "manifests": [], "layers": []});
        assert!(matches!(read(INDEX[0], both), Err(OciError::Media { .. })));
        assert!(matches!(read("text/html", json!({})), Err(OciError::Media { .. })));
        let lies = json!({"schemaVersion": 2, "mediaType": IMAGE[0], "manifests": []});
        assert!(matches!(read(INDEX[0], lies), Err(OciError::Media { .. })));
    }
}
