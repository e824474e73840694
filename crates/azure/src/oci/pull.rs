//! Reading images.

use super::auth::Right;
use super::error::Everywhere;
use super::exchange::Ask;
use super::manifest::{IMAGE, INDEX, MAX};
use super::{Descriptor, Digest, Image, Images, Manifest, OciError, Platform, Reference, Shape};
use crate::HttpError;
use crate::http::Arriving;
use bytes::{Bytes, BytesMut};
use http::Method;
use serde::Deserialize;
use tokio::io::{AsyncWrite, AsyncWriteExt};

/// More than this is a registry that does not end.
const MAX_PAGES: usize = 1_000;

pub(super) fn get(at: &Reference, target: String) -> Ask<'_> {
    Ask {
        host: &at.host,
        repository: &at.repository,
        right: Right::Pull,
        method: Method::GET,
        target,
        headers: Vec::new(),
        body: Bytes::new(),
        repeatable: true,
    }
}

fn lost(method: &str, url: &str, source: HttpError) -> OciError {
    OciError::Send { method: method.to_owned(), url: url.to_owned(), attempts: 1, source }
}

impl Images {
    /// Tries each place that may have it.
    async fn anywhere<T>(
        &self,
        at: &Reference,
        mut ask: impl AsyncFnMut(Reference) -> Result<T, OciError>,
    ) -> Result<T, OciError> {
        let places = self
            .mirrors
            .places(at)
            .map_err(|e| OciError::Foreign { url: at.to_string(), to: e.to_string() })?;
        let mut tried = Vec::new();
        for place in places {
            let name = place.to_string();
            match ask(place).await {
                Ok(done) => return Ok(done),
                Err(e) if e.elsewhere() => tried.push((name, e)),
                Err(e) => return Err(e),
            }
        }
        match tried.len() {
            1 => Err(tried.remove(0).1),
            _ => Err(OciError::Everywhere(Everywhere { what: at.to_string(), tried })),
        }
    }

    /// The manifest that a tag or digest names, whatever it is.
    pub async fn manifest(&self, at: &Reference) -> Result<Manifest, OciError> {
        self.anywhere(at, async |at| self.manifest_at(&at).await).await
    }

    async fn manifest_at(&self, at: &Reference) -> Result<Manifest, OciError> {
        let what = at.to_string();
        let mut ask = get(at, format!("/v2/{}/manifests/{}", at.repository, at.by()));
        ask.headers = IMAGE.iter().chain(&INDEX).map(|t| ("accept", (*t).to_owned())).collect();
        let answer = self.ask(&ask).await?;
        let media = answer.header("content-type").unwrap_or_default().to_owned();
        let bytes = answer.whole(MAX as usize).await.map_err(|e| match e {
            HttpError::TooLarge { .. } => OciError::TooLong { what: what.clone(), size: MAX + 1, limit: MAX },
            e => lost("GET", &what, e),
        })?;
        let digest = match &at.digest {
            Some(want) => {
                let mut hasher = want.hasher();
                hasher.update(&bytes);
                let got = hasher.finish();
                if got != *want {
                    return Err(OciError::Corrupt { what, got, want: want.clone() });
                }
                got
            }
            None => Digest::of(&bytes),
        };
        Manifest::read(&what, &media, digest, bytes)
    }

    /// The digest that a tag stands for now, without reading what it names.
    pub async fn resolve(&self, at: &Reference) -> Result<Digest, OciError> {
        self.anywhere(at, async |at| {
            let mut ask = get(&at, format!("/v2/{}/manifests/{}", at.repository, at.by()));
            ask.method = Method::HEAD;
            ask.headers = IMAGE.iter().chain(&INDEX).map(|t| ("accept", (*t).to_owned())).collect();
            let answer = self.ask(&ask).await?;
            match answer.header("docker-content-digest") {
                Some(d) => Ok(d.parse()?),
                // Not all registries say; then it is found out.
                None => Ok(self.manifest_at(&at).await?.digest),
            }
        })
        .await
    }

    /// The image for a platform, through an index if there is one; with the digest of the image itself.
    pub async fn image(&self, at: &Reference, platform: &Platform) -> Result<(Digest, Image), OciError> {
        let top = self.manifest(at).await?;
        let index = match top.shape {
            Shape::Image(image) => return Ok((top.digest, image)),
            Shape::Index(index) => index,
        };
        let what = at.to_string();
        let Some(chosen) = index.choose(platform) else {
            return Err(OciError::Platform { what, platform: platform.to_string(), have: index.platforms() });
        };
        let below = self.manifest(&at.with_digest(&chosen.digest)).await?;
        match below.shape {
            Shape::Image(image) => Ok((below.digest, image)),
            // An index of indexes: nobody makes them, and it could be one without end.
            Shape::Index(_) => Err(OciError::Media { what, media: below.media_type }),
        }
    }

    /// A small blob: the configuration of an image, say.
    pub async fn blob(&self, at: &Reference, what: &Descriptor, limit: u64) -> Result<Bytes, OciError> {
        if what.size > limit {
            return Err(OciError::TooLong { what: what.digest.to_string(), size: what.size, limit });
        }
        let at = at.with_digest(&what.digest);
        // Held back until it is known to be right, so a place that has it wrong is passed over.
        self.anywhere(&at, async |at| {
            let (mut all, mut progress) = (Vec::new(), Progress::new(what));
            self.blob_from(&at, what, &mut all, &mut progress).await?;
            progress.check(&at, what)?;
            Ok(all.into())
        })
        .await
    }

    /// Writes a blob as it arrives, no more than its descriptor says. It counts only when this returns well: only then
    /// its digest is known.
    pub async fn blob_to(
        &self,
        at: &Reference,
        what: &Descriptor,
        to: &mut (impl AsyncWrite + Unpin + Send),
    ) -> Result<(), OciError> {
        let at = at.with_digest(&what.digest);
        let mut progress = Progress::new(what);
        // A place that breaks off in the middle is taken up by the next: it is the same content, or it is none.
        self.anywhere(&at, async |at| self.blob_from(&at, what, to, &mut progress).await).await?;
        progress.check(&at, what)?;
        to.flush().await.map_err(|source| OciError::Write { what: at.to_string(), source })
    }

    async fn blob_from(
        &self,
        at: &Reference,
        what: &Descriptor,
        to: &mut (impl AsyncWrite + Unpin + Send),
        progress: &mut Progress,
    ) -> Result<(), OciError> {
        let url = format!("{}/{}@{}", at.host, at.repository, what.digest);
        let mut breaks = 0;
        loop {
            let mut ask = get(at, format!("/v2/{}/blobs/{}", at.repository, what.digest));
            if progress.written > 0 {
                ask.headers.push(("range", format!("bytes={}-", progress.written)));
            }
            let answer = self.ask(&ask).await?;
            match self.copy(answer, &url, what, to, progress).await {
                Err(OciError::Send { source, .. })
                    if source.is_transient() && breaks < self.retry.attempts =>
                {
                    breaks += 1;
                    tracing::debug!(url, written = progress.written, error = %source, "a blob broke off; going on");
                    self.timing.pause.pause(self.retry.base).await;
                }
                other => return other,
            }
        }
    }

    async fn copy(
        &self,
        mut answer: Arriving,
        url: &str,
        what: &Descriptor,
        to: &mut (impl AsyncWrite + Unpin + Send),
        progress: &mut Progress,
    ) -> Result<(), OciError> {
        // Who does not know ranges begins at the beginning.
        let mut skip = if answer.status.as_u16() == 206 { 0 } else { progress.written };
        while let Some(part) = answer.chunk().await.map_err(|e| lost("GET", url, e))? {
            let known = skip.min(part.len() as u64);
            skip -= known;
            let fresh = part.slice(known as usize..);
            if fresh.is_empty() {
                continue;
            }
            if progress.written + fresh.len() as u64 > what.size {
                let got = progress.written + fresh.len() as u64;
                return Err(OciError::Size { what: url.to_owned(), got, want: what.size });
            }
            progress.hasher.update(&fresh);
            progress.written += fresh.len() as u64;
            to.write_all(&fresh).await.map_err(|source| OciError::Write { what: url.to_owned(), source })?;
        }
        match progress.written == what.size {
            true => Ok(()),
            false => Err(OciError::Size { what: url.to_owned(), got: progress.written, want: what.size }),
        }
    }

    /// The tags of a repository, all pages.
    pub async fn tags(&self, at: &Reference) -> Result<Vec<String>, OciError> {
        self.anywhere(at, async |at| self.tags_at(&at).await).await
    }

    async fn tags_at(&self, at: &Reference) -> Result<Vec<String>, OciError> {
        #[derive(Deserialize)]
        struct Page {
            #[serde(default)]
            tags: Option<Vec<String>>,
        }
        let mut all = Vec::new();
        let mut next = Some(format!("/v2/{}/tags/list?n=500", at.repository));
        for _ in 0..MAX_PAGES {
            let Some(target) = next.take() else { return Ok(all) };
            let answer = self.ask(&get(at, target)).await?;
            next = answer.header("link").and_then(next_link);
            let body = answer.whole(MAX as usize).await.map_err(|e| lost("GET", &at.to_string(), e))?;
            let page: Page = serde_json::from_slice(&body)
                .map_err(|source| OciError::Read { url: at.to_string(), source })?;
            all.extend(page.tags.unwrap_or_default());
        }
        Err(OciError::Redirects { url: at.to_string() })
    }
}

struct Progress {
    written: u64,
    hasher: super::Hasher,
}

impl Progress {
    fn new(what: &Descriptor) -> Progress {
        Progress { written: 0, hasher: what.digest.hasher() }
    }

    fn check(self, at: &Reference, what: &Descriptor) -> Result<(), OciError> {
        let got = self.hasher.finish();
        match got == what.digest {
            true => Ok(()),
            false => Err(OciError::Corrupt { what: at.to_string(), got, want: what.digest.clone() }),
        }
    }
}

/// `</v2/…?last=x>; rel="next"`.
fn next_link(header: &str) -> Option<String> {
    let (url, rest) = header.trim().strip_prefix('<')?.split_once('>')?;
    rest.contains("next").then(|| url.to_owned())
}

/// What can be read of a stream until it has this many bytes or ends.
pub(super) async fn fill(
    from: &mut (impl tokio::io::AsyncRead + Unpin),
    size: usize,
) -> std::io::Result<Bytes> {
    use tokio::io::AsyncReadExt;
    let mut part = BytesMut::with_capacity(size);
    while part.len() < size {
        let left = (size - part.len()) as u64;
        if (&mut *from).take(left).read_buf(&mut part).await? == 0 {
            break;
        }
    }
    Ok(part.freeze())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_lead_on() {
        assert_eq!(
            next_link("</v2/a/tags/list?last=x&n=5>; rel=\"next\"").as_deref(),
            Some("/v2/a/tags/list?last=x&n=5")
        );
        assert_eq!(next_link("</x>; rel=\"prev\""), None);
        assert_eq!(next_link("rubbish"), None);
    }
}
