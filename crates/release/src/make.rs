//! Building a release image: two files in one layer, pushed to a registry.

use crate::payload::{BOOT_IMAGES, Generations, Payload, REFERENCES};
use azure::oci::{Descriptor, Digest, Images, OciError, Platform, Reference};
use serde_json::{Value, json};
use std::io;

const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
const INDEX: &str = "application/vnd.oci.image.index.v1+json";
const CONFIG: &str = "application/vnd.oci.image.config.v1+json";
const LAYER: &str = "application/vnd.oci.image.layer.v1.tar+gzip";

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("cannot pack the release {version}")]
    Pack { version: String, source: io::Error },
    #[error("cannot push the release {version}")]
    Push { version: String, source: OciError },
}

/// An archive of files; the same files give the same bytes.
pub fn archive(files: &[(&str, &[u8])]) -> io::Result<Vec<u8>> {
    let mut builder = tar::Builder::new(Vec::new());
    for (name, content) in files {
        let mut header = tar::Header::new_gnu();
        header.set_size(content.len() as u64);
        header.set_mode(0o644);
        header.set_mtime(0);
        builder.append_data(&mut header, name, *content)?;
    }
    builder.into_inner()
}

pub fn compress(bytes: &[u8]) -> io::Result<Vec<u8>> {
    use io::Write;
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(bytes)?;
    encoder.finish()
}

fn references(payload: &Payload) -> Value {
    let tags: Vec<Value> = payload
        .images
        .iter()
        .map(|(name, image)| json!({"name": name, "from": {"kind": "DockerImage", "name": image}}))
        .collect();
    json!({
        "kind": "ImageStream", "apiVersion": "image.openshift.io/v1",
        "metadata": {"name": payload.version, "annotations": {
            "io.openshift.build.versions": format!("kubernetes={}", payload.kubernetes)}},
        "spec": {"lookupPolicy": {"local": false}, "tags": tags},
    })
}

fn boot(payload: &Payload) -> Value {
    let of = |g: &Generations| json!({"hyperVGen1": g.gen1, "hyperVGen2": g.gen2});
    let architectures: serde_json::Map<String, Value> = payload
        .boot
        .0
        .iter()
        .map(|(name, g)| {
            let plan =
                json!({"rhel-coreos-extensions": {"marketplace": {"azure": {"no-purchase-plan": of(g)}}}});
            (name.clone(), plan)
        })
        .collect();
    let stream = json!({"stream": "rhcos", "architectures": architectures});
    json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "coreos-bootimages", "namespace": "openshift-machine-config-operator"},
        "data": {"stream": stream.to_string()},
    })
}

/// Builds and pushes a release; returns its digest. One for several processors is an index, with an image for each.
pub async fn push(images: &Images, at: &Reference, payload: &Payload) -> Result<Digest, Error> {
    let version = &payload.version;
    let packed = |source| Error::Pack { version: version.clone(), source };
    let pushed = |source| Error::Push { version: version.clone(), source };
    let (references, boot) = (references(payload).to_string(), boot(payload).to_string());
    let plain =
        archive(&[(REFERENCES, references.as_bytes()), (BOOT_IMAGES, boot.as_bytes())]).map_err(packed)?;
    let layer = compress(&plain).map_err(packed)?;
    let layer: Descriptor = images.push_blob(at, LAYER, layer).await.map_err(pushed)?;
    let mut parts = Vec::new();
    for architecture in &payload.architectures {
        let config = json!({
            "architecture": architecture, "os": "linux",
            "config": {"Labels": {"io.openshift.release": version}},
            "rootfs": {"type": "layers", "diff_ids": [Digest::of(&plain)]},
        });
        let config = images.push_blob(at, CONFIG, config.to_string()).await.map_err(pushed)?;
        let manifest =
            json!({"schemaVersion": 2, "mediaType": MANIFEST, "config": config, "layers": [layer]})
                .to_string();
        if payload.architectures.len() == 1 {
            return Ok(images.push_manifest(at, MANIFEST, manifest).await.map_err(pushed)?.digest);
        }
        let under = at.with_digest(&Digest::of(manifest.as_bytes()));
        let part = images.push_manifest(&under, MANIFEST, manifest).await.map_err(pushed)?;
        parts.push(Descriptor { platform: Some(Platform::linux(architecture)), ..part });
    }
    let index = json!({"schemaVersion": 2, "mediaType": INDEX, "manifests": parts});
    Ok(images.push_manifest(at, INDEX, index.to_string()).await.map_err(pushed)?.digest)
}
