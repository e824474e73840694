//! Blobs, one at a time.

use super::{BlobProperties, Container, conditional, short};
use crate::pipeline::{Call, Error};
use crate::{Answer, Condition, Deleted};
use bytes::{Bytes, BytesMut};
use http::{HeaderName, HeaderValue, Method};
use std::collections::BTreeMap;

/// A download is asked for in parts of this size.
const PART: u64 = 8 << 20;
/// The most that one request may write; more goes by blocks.
const AT_ONCE: usize = 64 << 20;

/// How a blob is written.
#[derive(Clone, Debug, Default)]
pub struct PutOptions {
    pub content_type: Option<String>,
    pub cache_control: Option<String>,
    pub metadata: BTreeMap<String, String>,
    pub on: Condition,
}

impl PutOptions {
    pub fn of_type(content_type: &str) -> PutOptions {
        PutOptions { content_type: Some(content_type.to_owned()), ..PutOptions::default() }
    }

    #[must_use]
    pub fn on(mut self, on: Condition) -> PutOptions {
        self.on = on;
        self
    }

    /// The headers that describe the blob, for the request that makes it.
    pub(super) fn describe(&self, mut call: Call) -> Result<Call, Error> {
        if let Some(v) = &self.content_type {
            call = call.header("x-ms-blob-content-type", v);
        }
        if let Some(v) = &self.cache_control {
            call = call.header("x-ms-blob-cache-control", v);
        }
        for (k, v) in &self.metadata {
            let bad = |_| Error::Name {
                what: "metadata of a blob",
                name: short(k),
                why: "names and values are plain ASCII",
            };
            let name = HeaderName::from_bytes(format!("x-ms-meta-{k}").as_bytes()).map_err(|_| bad(()))?;
            call.headers.insert(name, HeaderValue::from_str(v).map_err(|_| bad(()))?);
        }
        Ok(conditional(call, &self.on))
    }
}

/// What a write made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Written {
    pub etag: String,
}

#[derive(Clone, Debug)]
pub struct Blob {
    pub properties: BlobProperties,
    pub content: Bytes,
}

fn name_why(name: &str) -> Option<&'static str> {
    if name.is_empty() || name.chars().count() > 1024 {
        return Some("blobs have names of 1 to 1024 characters");
    }
    if name.chars().any(char::is_control) {
        return Some("it has a control character");
    }
    if name.replace('\\', "/").split('/').any(|step| matches!(step, "." | "..")) {
        return Some("a step of it is '.' or '..', which no path keeps");
    }
    None
}

impl Container {
    pub(super) fn blob(&self, method: Method, name: &str, pairs: &[(&str, &str)]) -> Result<Call, Error> {
        if let Some(why) = name_why(name) {
            return Err(Error::Name { what: "a blob", name: short(name), why });
        }
        Ok(self.account.call(method, &format!("{}/{name}", self.name), pairs))
    }

    /// Writes a whole blob in one request.
    pub async fn put(
        &self,
        name: &str,
        content: impl Into<Bytes>,
        options: &PutOptions,
    ) -> Result<Written, Error> {
        let content = content.into();
        if content.len() > AT_ONCE {
            let (size, limit) = (content.len() as u64, AT_ONCE as u64);
            return Err(Error::TooLong { path: format!("{}/{name}", self.name), size, limit });
        }
        let call = self.blob(Method::PUT, name, &[])?.header("x-ms-blob-type", "BlockBlob").content(content);
        written(&self.account.send(options.describe(call)?).await?)
    }

    /// Reads a whole blob that has at most `limit` bytes.
    pub async fn get(&self, name: &str, limit: u64) -> Result<Blob, Error> {
        self.read(name, limit, None).await?.ok_or_else(|| Error::Lacks {
            method: "GET".to_owned(),
            path: format!("/{}/{name}", self.name),
            what: "a body: nobody asked whether it changed",
        })
    }

    /// The same, but `None` if it still has the etag.
    pub async fn get_if_changed(&self, name: &str, limit: u64, etag: &str) -> Result<Option<Blob>, Error> {
        self.read(name, limit, Some(etag)).await
    }

    /// The same as `get`, but what is not there is `None`.
    pub async fn find(&self, name: &str, limit: u64) -> Result<Option<Blob>, Error> {
        match self.get(name, limit).await {
            Ok(blob) => Ok(Some(blob)),
            Err(e) if e.has_code("BlobNotFound") => Ok(None),
            Err(e) => Err(e),
        }
    }

    async fn read(&self, name: &str, limit: u64, unless: Option<&str>) -> Result<Option<Blob>, Error> {
        let mut call = self.blob(Method::GET, name, &[])?;
        if let Some(etag) = unless {
            call = call.header("if-none-match", etag);
        }
        let first = self.account.send(call.clone().header("x-ms-range", &range(0, PART))).await;
        let first = match first {
            // Of nothing there is no part.
            Err(e) if e.has_code("InvalidRange") => self.account.send(call).await?,
            other => other?,
        };
        if first.status == http::StatusCode::NOT_MODIFIED {
            return Ok(None);
        }
        let properties = BlobProperties::of(&first);
        if properties.size > limit {
            let path = format!("{}/{name}", self.name);
            return Err(Error::TooLong { path, size: properties.size, limit });
        }
        let content = self.rest(name, &properties, first).await?;
        Ok(Some(Blob { properties, content }))
    }

    /// What follows the first part, as long as it is of the same blob.
    async fn rest(&self, name: &str, p: &BlobProperties, first: Answer) -> Result<Bytes, Error> {
        if first.body.len() as u64 >= p.size {
            return Ok(first.body);
        }
        let mut content = BytesMut::from(&first.body[..]);
        while (content.len() as u64) < p.size {
            let call = self
                .blob(Method::GET, name, &[])?
                .header("x-ms-range", &range(content.len() as u64, PART))
                .header("if-match", &p.etag);
            let part = self.account.send(call).await?.body;
            if part.is_empty() || (content.len() + part.len()) as u64 > p.size {
                let path = format!("/{}/{name}", self.name);
                return Err(Error::Lacks { method: "GET".to_owned(), path, what: "the bytes asked for" });
            }
            content.extend_from_slice(&part);
        }
        Ok(content.freeze())
    }

    /// What is known about a blob; `None` if it is not there.
    pub async fn head(&self, name: &str) -> Result<Option<BlobProperties>, Error> {
        match self.account.send(self.blob(Method::HEAD, name, &[])?).await {
            Ok(answer) => Ok(Some(BlobProperties::of(&answer))),
            // An answer to HEAD has no body that says what is missing; a header does.
            Err(e) if e.has_code("BlobNotFound") => Ok(None),
            Err(e) => Err(e),
        }
    }

    pub async fn delete_blob(&self, name: &str, on: &Condition) -> Result<Deleted, Error> {
        match self.account.send(conditional(self.blob(Method::DELETE, name, &[])?, on)).await {
            Ok(_) => Ok(Deleted::Done),
            Err(e) if e.has_code("BlobNotFound") => Ok(Deleted::Absent),
            Err(e) => Err(e),
        }
    }
}

fn range(from: u64, most: u64) -> String {
    format!("bytes={from}-{}", from + most - 1)
}

pub(super) fn written(answer: &Answer) -> Result<Written, Error> {
    match answer.header("etag") {
        Some(etag) => Ok(Written { etag: etag.to_owned() }),
        None => Err(Error::Lacks { method: "PUT".to_owned(), path: "a blob".to_owned(), what: "an etag" }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_no_path_keeps() {
        for good in ["a", ".well-known/openid-configuration", "a b/ü%2e", "..a", "a//b", "x?y#z"] {
            assert_eq!(name_why(good), None, "{good}");
        }
        for bad in ["", "..", "a/../b", "a/./b", "a\\..\\b", "a\nb", &"x".repeat(1025)] {
            assert!(name_why(bad).is_some(), "{bad}");
        }
    }
}
