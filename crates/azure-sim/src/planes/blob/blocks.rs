//! Blobs in pieces: blocks that wait, and the list that commits them.

use crate::planes::Datum;
use crate::planes::blob::blobs::{check_md5, fresh, may_write, properties, written};
use crate::planes::blob::service::{invalid_xml, xml_reply};
use crate::planes::blob::{Blocks, Desk, Refusal, blocks_key, http_date, lease};
use crate::planes::contents::Chunk;
use crate::planes::xml::{self, Xml};
use crate::wire::Reply;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::StatusCode;
use std::collections::BTreeMap;

const MAX_BLOCKS: usize = 50_000;

pub fn waiting(desk: &Desk<'_>) -> Blocks {
    match desk.state.data.get(&blocks_key(&desk.account, &desk.at.container, &desk.at.blob)) {
        Some(Datum::Blocks(b)) => (**b).clone(),
        _ => Blocks::default(),
    }
}

pub fn put_block(desk: &mut Desk<'_>) -> Result<Reply, Refusal> {
    desk.container()?;
    lease::check(desk, desk.blob())?;
    if desk.ask.call.header("x-ms-copy-source").is_some() {
        return Err(Refusal::bad(
            "UnsupportedHeader",
            "One of the HTTP headers specified in the request is not supported: the simulator copies whole blobs only.",
        ));
    }
    let id = desk.ask.call.query("blockid").unwrap_or_default().to_owned();
    let decoded = STANDARD.decode(&id).ok().filter(|b| (1..=64).contains(&b.len()));
    if decoded.is_none() {
        return Err(Refusal::bad(
            "InvalidQueryParameterValue",
            "Value for one of the query parameters specified in the request URI is invalid.",
        ));
    }
    let upload = desk.ask.upload.as_ref().filter(|u| u.len() > 0).ok_or_else(|| {
        Refusal::bad(
            "InvalidHeaderValue",
            "The value for one of the HTTP headers is not in the correct format: a block is not empty.",
        )
    })?;
    check_md5(desk.ask, &upload.md5)?;
    let mut blocks = waiting(desk);
    // Ids of one blob have one length.
    if blocks.waiting.first().is_some_and(|(other, _)| other.len() != id.len()) {
        return Err(Refusal::bad("InvalidBlobOrBlock", "The specified blob or block content is invalid."));
    }
    blocks.waiting.retain(|(other, _)| *other != id);
    if blocks.waiting.len() >= 2 * MAX_BLOCKS {
        return Err(Refusal::new(
            StatusCode::CONFLICT,
            "BlockCountExceedsLimit",
            "The committed block count cannot exceed the maximum limit of 50,000 blocks.",
        ));
    }
    blocks.waiting.push((id, Chunk::of(&upload.content)));
    let md5 = STANDARD.encode(upload.md5);
    let key = blocks_key(&desk.account, &desk.at.container, &desk.at.blob);
    desk.state.data.put(&key, Datum::Blocks(Box::new(blocks)));
    Ok(Reply::empty(StatusCode::CREATED)
        .with("content-md5", &md5)
        .with("x-ms-request-server-encrypted", "true"))
}

pub fn commit(desk: &mut Desk<'_>) -> Result<Reply, Refusal> {
    may_write(desk)?;
    let doc = xml::read(&desk.ask.call.body).map_err(invalid_xml)?;
    if doc.name != "BlockList" {
        return Err(invalid_xml(xml::XmlError::Malformed));
    }
    if doc.children.len() > MAX_BLOCKS {
        return Err(Refusal::bad(
            "BlockListTooLong",
            "The block list may not contain more than 50,000 blocks.",
        ));
    }
    let waiting = waiting(desk);
    let fresh_blocks: BTreeMap<&str, &Chunk> =
        waiting.waiting.iter().map(|(id, c)| (id.as_str(), c)).collect();
    let old: BTreeMap<String, Chunk> = desk
        .blob()
        .map(|b| b.blocks.iter().map(|(id, _)| id.clone()).zip(b.chunks.iter().cloned()).collect())
        .unwrap_or_default();
    let mut chunks = Vec::with_capacity(doc.children.len());
    let mut blocks = Vec::with_capacity(doc.children.len());
    for n in &doc.children {
        let id = n.text.trim();
        let found = match n.name.as_str() {
            "Uncommitted" => fresh_blocks.get(id).copied(),
            "Committed" => old.get(id),
            "Latest" => fresh_blocks.get(id).copied().or_else(|| old.get(id)),
            _ => return Err(invalid_xml(xml::XmlError::Malformed)),
        };
        let chunk =
            found.ok_or_else(|| Refusal::bad("InvalidBlockList", "The specified block list is invalid."))?;
        blocks.push((id.to_owned(), chunk.len()));
        chunks.push(chunk.clone());
    }
    let mut p = properties(desk.ask);
    if p.content_type.is_empty() {
        p.content_type = "application/octet-stream".to_owned();
    }
    p.md5 = desk.ask.call.header("x-ms-blob-content-md5").map(str::to_owned);
    let b = fresh(desk, chunks, blocks, p)?;
    let reply = written(&b);
    let key = blocks_key(&desk.account, &desk.at.container, &desk.at.blob);
    desk.state.data.remove(&key);
    desk.put_blob(b);
    Ok(reply)
}

pub fn block_list(desk: &Desk<'_>) -> Result<Reply, Refusal> {
    desk.container()?;
    let kind = desk.ask.call.query("blocklisttype").unwrap_or("committed").to_ascii_lowercase();
    let (blob, waiting) = (desk.blob(), waiting(desk));
    if blob.is_none() && waiting.waiting.is_empty() {
        desk.need_blob()?;
    }
    let mut x = Xml::document();
    x.open("BlockList");
    let mut part = |name: &str, blocks: &mut dyn Iterator<Item = (&str, u64)>| {
        x.open(name);
        for (id, len) in blocks {
            x.open("Block").leaf("Name", id).leaf("Size", &len.to_string()).close("Block");
        }
        x.close(name);
    };
    if kind != "uncommitted" {
        let blocks = blob.map(|b| b.blocks.as_slice()).unwrap_or_default();
        part("CommittedBlocks", &mut blocks.iter().map(|(i, n)| (i.as_str(), *n)));
    }
    if kind != "committed" {
        part("UncommittedBlocks", &mut waiting.waiting.iter().map(|(i, c)| (i.as_str(), c.len())));
    }
    x.close("BlockList");
    let mut reply = xml_reply(x);
    if let Some(b) = blob {
        reply = reply
            .with("etag", &b.etag)
            .with("last-modified", &http_date(b.modified))
            .with("x-ms-blob-content-length", &b.len().to_string());
    }
    Ok(reply)
}
