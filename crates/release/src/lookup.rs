//! One lookup per digest.

use crate::archive::{self, Found};
use crate::payload::{BOOT_IMAGES, Payload, PayloadError, REFERENCES};
use azure::oci::{Digest, Image, Images, OciError, Platform, Reference, ReferenceError, Shape};
use parking_lot::Mutex;
use serde::Deserialize;
use std::collections::{BTreeSet, HashMap, VecDeque};
use std::sync::Arc;
use tokio::sync::OnceCell;

/// A layer of a release is some thirty megabytes; the base image's are larger, but those come last.
const MAX_LAYER: u64 = 1 << 30;
/// Larger ones are no configurations of images.
const MAX_CONFIG: u64 = 4 << 20;
/// Releases that are kept: more than a region ever runs at once.
const KEPT: usize = 64;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("{0}")]
    Name(#[from] ReferenceError),
    #[error("cannot fetch the release image {image}")]
    Fetch { image: String, source: OciError },
    #[error("a layer of the release image {image} cannot be read")]
    Layer { image: String, source: std::io::Error },
    #[error("{image} is not a release")]
    Payload { image: String, source: PayloadError },
}

impl Error {
    /// Whether asking again will not help: it is known that there is no such release.
    pub fn is_final(&self) -> bool {
        match self {
            Error::Fetch { source, .. } => source.is_not_found(),
            Error::Name(_) | Error::Layer { .. } | Error::Payload { .. } => true,
        }
    }
}

type Cell = Arc<OnceCell<Arc<Payload>>>;

#[derive(Default)]
struct Kept {
    by_digest: HashMap<Digest, Cell>,
    /// The longest unused first.
    order: VecDeque<Digest>,
}

/// Releases, looked up once each. Clones share what they know.
#[derive(Clone, Default)]
pub struct Releases(Arc<Mutex<Kept>>);

impl Releases {
    pub fn new() -> Releases {
        Releases::default()
    }

    fn cell(&self, digest: &Digest) -> Cell {
        let mut kept = self.0.lock();
        kept.order.retain(|d| d != digest);
        kept.order.push_back(digest.clone());
        let cell = kept.by_digest.entry(digest.clone()).or_default().clone();
        while kept.order.len() > KEPT {
            if let Some(old) = kept.order.pop_front() {
                kept.by_digest.remove(&old);
            }
        }
        cell
    }

    /// What a release image holds. Everybody who asks for one digest waits for one fetch; a failure is not kept.
    pub async fn payload(&self, images: &Images, image: &str) -> Result<Arc<Payload>, Error> {
        let at: Reference = image.parse()?;
        let failed = |source| Error::Fetch { image: image.to_owned(), source };
        // A tag may move, so it is asked each time; that is one small request.
        let digest = match &at.digest {
            Some(d) => d.clone(),
            None => images.resolve(&at).await.map_err(failed)?,
        };
        let at = at.with_digest(&digest);
        let cell = self.cell(&digest);
        let payload =
            cell.get_or_try_init(|| async { fetch(images, &at, image).await.map(Arc::new) }).await?;
        Ok(payload.clone())
    }

    /// How many are kept.
    pub fn len(&self) -> usize {
        self.0.lock().by_digest.len()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

async fn fetch(images: &Images, at: &Reference, image: &str) -> Result<Payload, Error> {
    let failed = |source| Error::Fetch { image: image.to_owned(), source };
    let (architectures, manifest) = open(images, at).await.map_err(failed)?;
    let mut found: [Option<Found>; 2] = [None, None];
    for layer in manifest.layers.iter().rev() {
        let bytes = images.blob(at, layer, MAX_LAYER).await.map_err(failed)?;
        // Unpacking thirty megabytes would keep a thread from everybody else.
        let read =
            tokio::task::spawn_blocking(move || archive::find(&bytes, [REFERENCES, BOOT_IMAGES])).await;
        let read = read.unwrap_or_else(|e| Err(std::io::Error::other(e)));
        let here = read.map_err(|source| Error::Layer { image: image.to_owned(), source })?;
        for (slot, new) in found.iter_mut().zip(here) {
            if slot.is_none() {
                *slot = new;
            }
        }
        if found.iter().all(Option::is_some) {
            break;
        }
    }
    let content = |f: &Option<Found>| match f {
        Some(Found::Content(c)) => Some(c.clone()),
        _ => None,
    };
    let (references, boot) = (content(&found[0]), content(&found[1]));
    let payload = Payload::read(references.as_deref(), boot.as_deref())
        .map_err(|source| Error::Payload { image: image.to_owned(), source })?;
    Ok(Payload { architectures, ..payload })
}

/// Which processors a release is for, and its image for one of them: all of them name the same images.
async fn open(images: &Images, at: &Reference) -> Result<(BTreeSet<String>, Image), OciError> {
    let index = match images.manifest(at).await?.shape {
        Shape::Image(image) => {
            let config = images.blob(at, &image.config, MAX_CONFIG).await?;
            let config: Config = serde_json::from_slice(&config).unwrap_or_default();
            return Ok((config.architecture.into_iter().filter(|a| !a.is_empty()).collect(), image));
        }
        Shape::Index(index) => index,
    };
    let platforms = index.manifests.iter().filter_map(|d| d.platform.as_ref()).filter(|p| p.os == "linux");
    let architectures: BTreeSet<String> = platforms.map(|p| p.architecture.clone()).collect();
    let one =
        if architectures.contains("amd64") { "amd64" } else { architectures.first().map_or("amd64", |a| a) };
    let (_, image) = images.image(at, &Platform::linux(one)).await?;
    Ok((architectures, image))
}

/// What an image says of itself.
#[derive(Default, Deserialize)]
struct Config {
    #[serde(default)]
    architecture: Option<String>,
}
