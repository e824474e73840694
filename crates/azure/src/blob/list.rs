//! Lists of containers and blobs: XML, a page at a time.

use super::properties::date;
use super::{BlobProperties, Blobs, Container};
use crate::pipeline::{Call, Client, Error};
use crate::xml::{self, Node};
use futures::stream::{self, BoxStream, StreamExt, TryStreamExt};
use http::Method;
use std::collections::HashSet;

/// A blob in a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    pub name: String,
    pub properties: BlobProperties,
}

/// What lies directly below a prefix.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Folder {
    Blob(Entry),
    /// Names that go on after the delimiter; it ends in the delimiter.
    Prefix(String),
}

/// More than this is a service that does not end.
const MAX_PAGES: usize = 100_000;

/// The elements within `inside`, over all pages. Each page names the marker of the next.
fn pages(client: Client, first: Call, inside: &'static str) -> BoxStream<'static, Result<Node, Error>> {
    let correlation = client.uuid();
    let start = (Some(String::new()), HashSet::new());
    stream::try_unfold(start, move |(marker, mut seen): (Option<String>, HashSet<String>)| {
        let (client, mut call) = (client.clone(), first.clone().correlation(&correlation));
        async move {
            let Some(marker) = marker else { return Ok(None) };
            let path = call.target.split('?').next().unwrap_or_default().to_owned();
            if !marker.is_empty() {
                call.target = format!("{}&{}", call.target, &super::query(&[("marker", &marker)])[1..]);
            }
            if seen.len() >= MAX_PAGES || !seen.insert(marker) {
                return Err(Error::Pages { path });
            }
            let answer = client.send(call).await?;
            let mut page = xml::read_as(&answer.body, "EnumerationResults").map_err(|source| Error::Xml {
                method: "GET".to_owned(),
                path,
                source,
            })?;
            let next = page.said("NextMarker");
            let list =
                page.children.iter_mut().find(|c| c.name == inside).map(|c| std::mem::take(&mut c.children));
            Ok(Some((stream::iter(list.unwrap_or_default().into_iter().map(Ok)), (next, seen))))
        }
    })
    .try_flatten()
    .boxed()
}

fn entry(node: &Node) -> Entry {
    let none = Node::default();
    let p = node.child("Properties").unwrap_or(&none);
    let metadata = node.child("Metadata").map(|m| m.children.as_slice()).unwrap_or_default();
    let properties = BlobProperties {
        // Lists leave the quotes off.
        etag: p.said("Etag").map(|e| format!("\"{}\"", e.trim_matches('"'))).unwrap_or_default(),
        size: p.child_text("Content-Length").and_then(|n| n.parse().ok()).unwrap_or(0),
        content_type: p.said("Content-Type"),
        content_encoding: p.said("Content-Encoding"),
        cache_control: p.said("Cache-Control"),
        modified: p.child_text("Last-Modified").and_then(date),
        metadata: metadata.iter().map(|n| (n.name.clone(), n.text.clone())).collect(),
    };
    Entry { name: node.child_text("Name").unwrap_or_default().to_owned(), properties }
}

impl Blobs {
    /// The names of the account's containers.
    pub fn containers(&self) -> BoxStream<'static, Result<String, Error>> {
        let call = self.call(Method::GET, "", &[("comp", "list")]);
        let name = |n: Node| n.child_text("Name").unwrap_or_default().to_owned();
        pages(self.client.clone(), call, "Containers").map_ok(name).boxed()
    }
}

impl Container {
    /// All blobs whose names begin so, with their metadata.
    pub fn list(&self, prefix: &str) -> BoxStream<'static, Result<Entry, Error>> {
        self.list_by(prefix, 5_000)
    }

    /// The same with a page size of one's own.
    pub fn list_by(&self, prefix: &str, page: u32) -> BoxStream<'static, Result<Entry, Error>> {
        let most = page.to_string();
        let mut pairs = vec![("comp", "list"), ("maxresults", most.as_str()), ("include", "metadata")];
        if !prefix.is_empty() {
            pairs.push(("prefix", prefix));
        }
        let all = pages(self.account.client.clone(), self.own(Method::GET, &pairs), "Blobs");
        all.map_ok(|n| entry(&n)).boxed()
    }

    /// What lies directly below a prefix, as if `/` made folders.
    pub fn folder(&self, prefix: &str) -> BoxStream<'static, Result<Folder, Error>> {
        let mut pairs = vec![("comp", "list"), ("delimiter", "/")];
        if !prefix.is_empty() {
            pairs.push(("prefix", prefix));
        }
        let all = pages(self.account.client.clone(), self.own(Method::GET, &pairs), "Blobs");
        all.map_ok(|n| match n.name.as_str() {
            "BlobPrefix" => Folder::Prefix(n.child_text("Name").unwrap_or_default().to_owned()),
            _ => Folder::Blob(entry(&n)),
        })
        .boxed()
    }
}
