//! Uploads of any length: blocks, then the list that makes them a blob.
//!
//! Blocks are written a few at a time, each repeatable; nothing is seen of them until the list is written, so an upload
//! that breaks leaves the old blob as it was. What was begun and not listed is swept away by the service.

use super::blobs::written;
use super::{Container, PutOptions, Written, short};
use crate::pipeline::Error;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::{Bytes, BytesMut};
use futures::stream::TryStreamExt;
use http::Method;
use tokio::io::{AsyncRead, AsyncReadExt};

/// A list has at most so many.
const MAX_BLOCKS: usize = 50_000;

#[derive(Clone, Debug)]
pub struct UploadOptions {
    pub blob: PutOptions,
    /// Bytes of a block; at most this times `at_once` is held in memory.
    pub block: usize,
    pub at_once: usize,
}

impl Default for UploadOptions {
    fn default() -> UploadOptions {
        UploadOptions { blob: PutOptions::default(), block: 4 << 20, at_once: 4 }
    }
}

/// Ids of one blob's blocks have one length.
fn block_id(upload: &str, number: usize) -> String {
    STANDARD.encode(format!("{upload}-{number:08}"))
}

async fn next_block(from: &mut (impl AsyncRead + Unpin), size: usize) -> std::io::Result<Bytes> {
    let mut block = BytesMut::with_capacity(size);
    while block.len() < size {
        let left = size - block.len();
        if (&mut *from).take(left as u64).read_buf(&mut block).await? == 0 {
            break;
        }
    }
    Ok(block.freeze())
}

impl Container {
    /// Writes a blob of everything that can be read.
    pub async fn upload(
        &self,
        name: &str,
        from: impl AsyncRead + Unpin + Send,
        options: &UploadOptions,
    ) -> Result<Written, Error> {
        let size = options.block.clamp(1, 64 << 20);
        // Blocks of two uploads of one blob must not be taken for each other.
        let upload = self.account.client.uuid();
        let path = format!("{}/{}", self.name, short(name));
        let blocks = futures::stream::try_unfold((from, 0_usize), |(mut from, number)| {
            let path = path.clone();
            async move {
                let block = next_block(&mut from, size).await;
                let block = block.map_err(|source| Error::Source { path: path.clone(), source })?;
                if block.is_empty() {
                    return Ok(None);
                }
                if number >= MAX_BLOCKS {
                    let limit = (MAX_BLOCKS * size) as u64;
                    return Err(Error::TooLong { path, size: limit + 1, limit });
                }
                Ok(Some(((number, block), (from, number + 1))))
            }
        });
        let sent = blocks.map_ok(|(number, block)| {
            let id = block_id(&upload, number);
            async move {
                let call = self.blob(Method::PUT, name, &[("comp", "block"), ("blockid", &id)])?;
                self.account.send(call.content(block)).await?;
                Ok(id)
            }
        });
        let ids: Vec<String> = sent.try_buffered(options.at_once.clamp(1, 32)).try_collect().await?;
        let mut list = String::from("<?xml version=\"1.0\" encoding=\"utf-8\"?><BlockList>");
        for id in &ids {
            list.push_str(&format!("<Latest>{id}</Latest>"));
        }
        list.push_str("</BlockList>");
        let call = self
            .blob(Method::PUT, name, &[("comp", "blocklist")])?
            .header("content-type", "application/xml")
            .content(list.into());
        written(&self.account.send(options.blob.describe(call)?).await?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn blocks_are_full_but_the_last() {
        let mut from: &[u8] = b"abcdefg";
        let mut seen = Vec::new();
        loop {
            let b = next_block(&mut from, 3).await.unwrap();
            if b.is_empty() {
                break;
            }
            seen.push(b);
        }
        assert_eq!(seen, ["abc", "def", "g"]);
        assert_eq!(block_id("u", 1).len(), block_id("u", 49_999).len());
    }
}
