//! What the files in a release say.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// Where `image-references` is in a release image.
pub const REFERENCES: &str = "release-manifests/image-references";
/// Where the boot images are.
pub const BOOT_IMAGES: &str = "release-manifests/0000_50_installer_coreos-bootimages.yaml";

/// A release, read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Payload {
    pub version: String,
    /// Of Kubernetes.
    pub kubernetes: String,
    /// Images by component.
    pub images: BTreeMap<String, String>,
    pub boot: BootImages,
    /// Processors that its image is for, as registries name them (`amd64`, `arm64`).
    pub architectures: BTreeSet<String>,
}

/// The machine images a release's nodes start from, by architecture as the stream names it (`x86_64`, `aarch64`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BootImages(pub BTreeMap<String, Generations>);

/// A machine image in the marketplace, for each generation of virtual hardware.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Generations {
    pub gen1: Option<Marketplace>,
    pub gen2: Option<Marketplace>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Marketplace {
    pub publisher: String,
    pub offer: String,
    pub sku: String,
    pub version: String,
}

#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum PayloadError {
    #[error("it has no file {0}: this is no release image")]
    Missing(&'static str),
    #[error("{file} cannot be read: {why}")]
    Unreadable { file: &'static str, why: String },
    #[error("{file} does not say {what}")]
    Silent { file: &'static str, what: &'static str },
}

#[derive(Deserialize)]
struct ImageStream {
    metadata: Metadata,
    #[serde(default)]
    spec: Spec,
}

#[derive(Deserialize)]
struct Metadata {
    #[serde(default)]
    name: String,
    #[serde(default)]
    annotations: BTreeMap<String, String>,
}

#[derive(Default, Deserialize)]
struct Spec {
    #[serde(default)]
    tags: Vec<Tag>,
}

#[derive(Deserialize)]
struct Tag {
    name: String,
    #[serde(default)]
    annotations: Option<BTreeMap<String, String>>,
    from: Option<From>,
}

#[derive(Deserialize)]
struct From {
    #[serde(default)]
    name: String,
}

/// Component versions, as annotations carry them: `kubernetes=1.33.5,machine-os=9.6`.
const VERSIONS: &str = "io.openshift.build.versions";

impl Payload {
    /// Reads both files. What the image is for is not in them.
    pub fn read(references: Option<&[u8]>, boot: Option<&[u8]>) -> Result<Payload, PayloadError> {
        let references = references.ok_or(PayloadError::Missing(REFERENCES))?;
        let unreadable =
            |e: serde_json::Error| PayloadError::Unreadable { file: REFERENCES, why: e.to_string() };
        let stream: ImageStream = serde_json::from_slice(references).map_err(unreadable)?;
        let silent = |what| PayloadError::Silent { file: REFERENCES, what };
        if stream.metadata.name.is_empty() {
            return Err(silent("the version (metadata.name)"));
        }
        let said = |annotations: &BTreeMap<String, String>| {
            let versions = annotations.get(VERSIONS)?;
            versions.split(',').find_map(|v| v.trim().strip_prefix("kubernetes=").map(str::to_owned))
        };
        // On the stream in some releases, on a component's tag in others.
        let kubernetes = said(&stream.metadata.annotations)
            .or_else(|| stream.spec.tags.iter().filter_map(|t| t.annotations.as_ref()).find_map(said))
            .ok_or_else(|| silent("the version of Kubernetes (annotation io.openshift.build.versions)"))?;
        let images: BTreeMap<String, String> = stream
            .spec
            .tags
            .into_iter()
            .filter_map(|t| Some((t.name, t.from?.name)).filter(|(_, image)| !image.is_empty()))
            .collect();
        if images.is_empty() {
            return Err(silent("any image (spec.tags)"));
        }
        let boot = BootImages::read(boot.ok_or(PayloadError::Missing(BOOT_IMAGES))?)?;
        let architectures = BTreeSet::new();
        Ok(Payload { version: stream.metadata.name, kubernetes, images, boot, architectures })
    }
}

impl BootImages {
    /// From the ConfigMap: its `stream`, or the newest of its `streams`.
    pub fn read(text: &[u8]) -> Result<BootImages, PayloadError> {
        let file = BOOT_IMAGES;
        let unreadable = |why: String| PayloadError::Unreadable { file, why };
        let text = std::str::from_utf8(text).map_err(|e| unreadable(e.to_string()))?;
        let map: Value = serde_saphyr::from_str(text).map_err(|e| unreadable(e.to_string()))?;
        let stream = match (map["data"]["stream"].as_str(), map["data"]["streams"].as_str()) {
            (Some(one), _) => serde_json::from_str(one).map_err(|e| unreadable(e.to_string()))?,
            (None, Some(many)) => {
                let many: Value = serde_json::from_str(many).map_err(|e| unreadable(e.to_string()))?;
                newest(&many).ok_or(PayloadError::Silent { file, what: "any stream" })?
            }
            (None, None) => return Err(PayloadError::Silent { file, what: "a stream (data.stream)" }),
        };
        let architectures = stream["architectures"].as_object();
        let architectures = architectures.ok_or(PayloadError::Silent { file, what: "any architecture" })?;
        let read = |of: &Value, generation: &str| {
            let at = &of["rhel-coreos-extensions"]["marketplace"]["azure"]["no-purchase-plan"][generation];
            serde_json::from_value(at.clone()).ok()
        };
        Ok(BootImages(
            architectures
                .iter()
                .map(|(name, of)| {
                    (name.clone(), Generations { gen1: read(of, "hyperVGen1"), gen2: read(of, "hyperVGen2") })
                })
                .collect(),
        ))
    }
}

/// Of several streams by name (`rhel-9`, `rhel-10`), the first: newer ones must be asked for.
fn newest(many: &Value) -> Option<Value> {
    let by_name = many.as_object()?;
    by_name.get("rhel-9").or_else(|| by_name.values().next()).cloned()
}
