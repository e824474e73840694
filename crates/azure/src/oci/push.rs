//! Writing images: blobs first, then the manifest that names them.

use super::auth::Right;
use super::exchange::Ask;
use super::pull::{fill, get};
use super::{Descriptor, Digest, Hasher, Images, OciError, Reference};
use crate::http::Arriving;
use bytes::Bytes;
use http::Method;
use std::collections::BTreeMap;
use tokio::io::AsyncRead;

/// What one request of an upload carries.
const CHUNK: usize = 4 << 20;

fn write(at: &Reference, method: Method, target: String) -> Ask<'_> {
    Ask { right: Right::Push, method, repeatable: false, ..get(at, target) }
}

fn descriptor(media: &str, digest: Digest, size: u64) -> Descriptor {
    Descriptor { media_type: media.to_owned(), digest, size, platform: None, annotations: BTreeMap::new() }
}

/// The target of the next request of an upload.
fn location(at: &Reference, answer: &Arriving) -> Result<String, OciError> {
    let lacks = || OciError::Lacks { url: at.to_string(), what: "Location" };
    answer.header("location").map(str::to_owned).ok_or_else(lacks)
}

fn with_digest(target: &str, digest: &Digest) -> String {
    let join = if target.contains('?') { '&' } else { '?' };
    format!("{target}{join}digest={digest}")
}

/// Whether it may go better next time.
fn passes(e: &OciError) -> bool {
    match e {
        OciError::Send { source, .. } => source.is_transient(),
        OciError::Refused { status, .. } => matches!(status, 500..=504),
        _ => false,
    }
}

impl Images {
    pub async fn has_blob(&self, at: &Reference, digest: &Digest) -> Result<bool, OciError> {
        let mut ask = get(at, format!("/v2/{}/blobs/{digest}", at.repository));
        ask.method = Method::HEAD;
        match self.ask(&ask).await {
            Ok(_) => Ok(true),
            Err(e) if e.is_not_found() => Ok(false),
            Err(e) => Err(e),
        }
    }

    async fn begin(&self, at: &Reference) -> Result<String, OciError> {
        let mut ask = write(at, Method::POST, format!("/v2/{}/blobs/uploads/", at.repository));
        // An upload that nobody goes on with is swept away.
        ask.repeatable = true;
        location(at, &self.ask(&ask).await?)
    }

    /// Writes a blob in one request, unless it is there.
    pub async fn push_blob(
        &self,
        at: &Reference,
        media: &str,
        content: impl Into<Bytes>,
    ) -> Result<Descriptor, OciError> {
        let content = content.into();
        let digest = Digest::of(&content);
        let made = descriptor(media, digest.clone(), content.len() as u64);
        if self.has_blob(at, &digest).await? {
            return Ok(made);
        }
        let mut tries = 0;
        loop {
            tries += 1;
            let mut ask = write(at, Method::PUT, with_digest(&self.begin(at).await?, &digest));
            ask.headers.push(("content-type", "application/octet-stream".to_owned()));
            ask.body = content.clone();
            let failed = match self.ask(&ask).await {
                Ok(_) => return Ok(made),
                Err(e) => e,
            };
            // An upload ends once, so it is begun anew, unless it turns out to have arrived.
            if !passes(&failed) || tries >= self.retry.attempts {
                return Err(failed);
            }
            if self.has_blob(at, &digest).await? {
                return Ok(made);
            }
            self.timing.pause.pause(self.retry.base).await;
        }
    }

    /// Writes a blob of everything that can be read, a piece at a time.
    pub async fn push_stream(
        &self,
        at: &Reference,
        media: &str,
        mut from: impl AsyncRead + Unpin + Send,
    ) -> Result<Descriptor, OciError> {
        let (mut hasher, mut size) = (Hasher::new(), 0_u64);
        let mut target = self.begin(at).await?;
        loop {
            let part = fill(&mut from, CHUNK).await.map_err(OciError::Source)?;
            if part.is_empty() {
                break;
            }
            hasher.update(&part);
            target = self.push_part(at, target, size, part.clone()).await?;
            size += part.len() as u64;
        }
        let digest = hasher.finish();
        let ask = write(at, Method::PUT, with_digest(&target, &digest));
        match self.ask(&ask).await {
            Ok(_) => Ok(descriptor(media, digest, size)),
            Err(e) if passes(&e) && self.has_blob(at, &digest).await? => Ok(descriptor(media, digest, size)),
            Err(e) => Err(e),
        }
    }

    /// One piece. When its answer is lost, the registry is asked how far it got: a piece must not be there twice.
    async fn push_part(
        &self,
        at: &Reference,
        target: String,
        from: u64,
        part: Bytes,
    ) -> Result<String, OciError> {
        let end = from + part.len() as u64;
        let mut tries = 0;
        loop {
            tries += 1;
            let mut ask = write(at, Method::PATCH, target.clone());
            ask.headers.push(("content-type", "application/octet-stream".to_owned()));
            ask.headers.push(("content-range", format!("{from}-{}", end - 1)));
            ask.body = part.clone();
            let failed = match self.ask(&ask).await {
                Ok(answer) => return location(at, &answer),
                Err(e) if passes(&e) && tries < self.retry.attempts => e,
                Err(e) => return Err(e),
            };
            let mut ask = write(at, Method::GET, target.clone());
            ask.repeatable = true;
            let state = self.ask(&ask).await?;
            let got = state.header("range").and_then(|r| r.rsplit_once('-')?.1.parse::<u64>().ok());
            // `0-0` is nothing, or a single byte.
            match got.map(|last| last + 1) {
                Some(n) if n == end => return location(at, &state),
                Some(n) if n == from || (from == 0 && n == 1 && end > 1) => {}
                None if from == 0 => {}
                _ => return Err(failed),
            }
        }
    }

    /// Writes a manifest under the reference's tag or digest. Everything it names must be there.
    pub async fn push_manifest(
        &self,
        at: &Reference,
        media: &str,
        content: impl Into<Bytes>,
    ) -> Result<Descriptor, OciError> {
        let content = content.into();
        let digest = Digest::of(&content);
        let made = descriptor(media, digest.clone(), content.len() as u64);
        if let Some(want) = at.digest.as_ref().filter(|d| **d != digest) {
            return Err(OciError::Corrupt { what: at.to_string(), got: digest, want: want.clone() });
        }
        let mut ask = write(at, Method::PUT, format!("/v2/{}/manifests/{}", at.repository, at.by()));
        ask.headers.push(("content-type", media.to_owned()));
        // The same content under the same name: twice is once.
        ask.repeatable = true;
        ask.body = content;
        self.ask(&ask).await?;
        Ok(made)
    }

    /// Deletes a manifest by its digest, or a tag. What is not there is deleted already.
    pub async fn delete(&self, at: &Reference) -> Result<crate::Deleted, OciError> {
        let target = format!("/v2/{}/manifests/{}", at.repository, at.by());
        let ask = Ask { right: Right::Delete, method: Method::DELETE, ..get(at, target) };
        match self.ask(&ask).await {
            Ok(_) => Ok(crate::Deleted::Done),
            Err(e) if e.is_not_found() => Ok(crate::Deleted::Absent),
            Err(e) => Err(e),
        }
    }
}
