//! Containers: made, described, opened to the public, listed, deleted.

use crate::planes::Datum;
use crate::planes::blob::service::{invalid_xml, marker, next_marker, page, xml_reply};
use crate::planes::blob::{Blob, Container, Desk, Policy, Refusal, container_key, http_date, metadata};
use crate::planes::xml::{self, Xml};
use crate::wire::Reply;
use http::StatusCode;
use std::collections::BTreeMap;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deed {
    Create,
    Get,
    Delete,
    SetMetadata,
    GetAcl,
    SetAcl,
    List,
}

pub fn deed(method: &str, comp: &str) -> Option<Deed> {
    Some(match (method, comp) {
        ("PUT", "") => Deed::Create,
        ("GET" | "HEAD", "" | "metadata") => Deed::Get,
        ("DELETE", "") => Deed::Delete,
        ("PUT", "metadata") => Deed::SetMetadata,
        ("GET" | "HEAD", "acl") => Deed::GetAcl,
        ("PUT", "acl") => Deed::SetAcl,
        ("GET", "list") => Deed::List,
        _ => return None,
    })
}

fn public(desk: &Desk<'_>) -> Result<Option<String>, Refusal> {
    let wish = match desk.ask.call.header("x-ms-blob-public-access") {
        None | Some("") => return Ok(None),
        Some(w @ ("container" | "blob")) => w.to_owned(),
        Some(_) => {
            return Err(Refusal::bad(
                "InvalidHeaderValue",
                "The value for one of the HTTP headers is not in the correct format.",
            ));
        }
    };
    let allowed = desk.record.property("allowBlobPublicAccess").and_then(serde_json::Value::as_bool);
    if allowed != Some(true) {
        return Err(Refusal::new(
            StatusCode::CONFLICT,
            "PublicAccessNotPermitted",
            "Public access is not permitted on this storage account.",
        ));
    }
    Ok(Some(wish))
}

/// What clients are told of a container.
fn headers(mut reply: Reply, c: &Container) -> Reply {
    reply = reply
        .with("etag", &c.etag)
        .with("last-modified", &http_date(c.modified))
        .with("x-ms-lease-status", "unlocked")
        .with("x-ms-lease-state", "available")
        .with("x-ms-has-immutability-policy", "false")
        .with("x-ms-has-legal-hold", "false")
        .with("x-ms-default-encryption-scope", "$account-encryption-key")
        .with("x-ms-deny-encryption-scope-override", "false");
    if let Some(p) = &c.public {
        reply = reply.with("x-ms-blob-public-access", p);
    }
    super::blobs::with_metadata(reply, &c.metadata)
}

pub fn answer(desk: &mut Desk<'_>, deed: Deed) -> Result<Reply, Refusal> {
    let key = container_key(&desk.account, &desk.at.container);
    let brief = |status, c: &Container| {
        Reply::empty(status).with("etag", &c.etag).with("last-modified", &http_date(c.modified))
    };
    match deed {
        Deed::Create => {
            if desk.container().is_ok() {
                return Err(Refusal::new(
                    StatusCode::CONFLICT,
                    "ContainerAlreadyExists",
                    "The specified container already exists.",
                ));
            }
            let (public, metadata) = (public(desk)?, metadata(desk.ask)?);
            let etag = desk.etag(&key);
            let c = Container {
                name: desk.at.container.clone(),
                etag,
                modified: desk.now,
                metadata,
                public,
                policies: Vec::new(),
            };
            let reply = brief(StatusCode::CREATED, &c);
            desk.put_container(c);
            Ok(reply)
        }
        Deed::Get => Ok(headers(Reply::empty(StatusCode::OK), desk.container()?)),
        Deed::Delete => {
            desk.container()?;
            desk.state.data.remove(&key);
            for prefix in ["bb", "bu"] {
                desk.state.data.remove_all(&format!("{prefix}/{}/{}/", desk.account, desk.at.container));
            }
            Ok(Reply::empty(StatusCode::ACCEPTED))
        }
        Deed::SetMetadata => {
            let mut c = desk.container()?.clone();
            c.metadata = metadata(desk.ask)?;
            change(desk, c, &key)
        }
        Deed::SetAcl => {
            let mut c = desk.container()?.clone();
            c.public = public(desk)?;
            c.policies = policies(desk)?;
            change(desk, c, &key)
        }
        Deed::GetAcl => {
            let c = desk.container()?;
            let mut x = Xml::document();
            x.open("SignedIdentifiers");
            for p in &c.policies {
                x.open("SignedIdentifier").leaf("Id", &p.id).open("AccessPolicy");
                x.leaf("Start", &p.start).leaf("Expiry", &p.expiry).leaf("Permission", &p.permission);
                x.close("AccessPolicy").close("SignedIdentifier");
            }
            x.close("SignedIdentifiers");
            let mut reply = xml_reply(x).with("etag", &c.etag).with("last-modified", &http_date(c.modified));
            if let Some(p) = &c.public {
                reply = reply.with("x-ms-blob-public-access", p);
            }
            Ok(reply)
        }
        Deed::List => list(desk),
    }
}

fn change(desk: &mut Desk<'_>, mut c: Container, key: &str) -> Result<Reply, Refusal> {
    c.etag = desk.etag(key);
    c.modified = desk.now;
    let reply =
        Reply::empty(StatusCode::OK).with("etag", &c.etag).with("last-modified", &http_date(c.modified));
    desk.put_container(c);
    Ok(reply)
}

fn policies(desk: &Desk<'_>) -> Result<Vec<Policy>, Refusal> {
    let body = &desk.ask.call.body;
    if body.iter().all(u8::is_ascii_whitespace) {
        return Ok(Vec::new());
    }
    let doc = xml::read(body).map_err(invalid_xml)?;
    if doc.name != "SignedIdentifiers" || doc.children.len() > 5 {
        return Err(Refusal::bad("InvalidXmlDocument", "XML specified is not syntactically valid."));
    }
    Ok(doc
        .children
        .iter()
        .map(|n| {
            let p = n.child("AccessPolicy");
            let text = |name: &str| p.and_then(|p| p.child_text(name)).unwrap_or_default().to_owned();
            Policy {
                id: n.child_text("Id").unwrap_or_default().to_owned(),
                start: text("Start"),
                expiry: text("Expiry"),
                permission: text("Permission"),
            }
        })
        .collect())
}

fn list(desk: &Desk<'_>) -> Result<Reply, Refusal> {
    desk.container()?;
    let most = page(desk)?;
    let query = |name: &str| desk.ask.call.query(name).unwrap_or_default();
    let (prefix, delimiter) = (query("prefix"), query("delimiter"));
    let include = query("include").to_ascii_lowercase();
    let from = format!("bb/{}/{}/", desk.account, desk.at.container);
    let mut after = marker(desk)?.map(|m| format!("{from}{m}"));
    let mut x = Xml::document();
    let endpoint = format!("https://{}/", desk.ask.host);
    x.open_with(
        "EnumerationResults",
        &[("ServiceEndpoint", &endpoint), ("ContainerName", &desk.at.container)],
    );
    for (name, value) in [("Prefix", prefix), ("Marker", query("marker")), ("Delimiter", delimiter)] {
        if !value.is_empty() {
            x.leaf(name, value);
        }
    }
    if !query("maxresults").is_empty() {
        x.leaf("MaxResults", &most.to_string());
    }
    x.open("Blobs");
    let (mut count, mut next) = (0, String::new());
    let start = format!("{from}{prefix}");
    'all: loop {
        let mut jump = None;
        for (key, datum) in desk.state.data.range(&start, after.as_deref()) {
            let (Some(name), Datum::Blob(b)) = (key.strip_prefix(&from), datum) else { continue };
            if count >= most {
                // Where the last one shown ends.
                break 'all;
            }
            let rest = name.get(prefix.len()..).unwrap_or_default();
            let cut = if delimiter.is_empty() { None } else { rest.find(delimiter) };
            count += 1;
            if let Some(at) = cut {
                let folder = &name[..prefix.len() + at + delimiter.len()];
                x.open("BlobPrefix").leaf("Name", folder).close("BlobPrefix");
                // Everything in it is shown by that: go on after it.
                let beyond = format!("{folder}\u{10ffff}");
                next = next_marker(&beyond);
                jump = Some(format!("{from}{beyond}"));
                break;
            }
            item(&mut x, b, &include, desk);
            next = next_marker(name);
        }
        match jump {
            Some(j) => after = Some(j),
            None => {
                next.clear();
                break;
            }
        }
    }
    x.close("Blobs").leaf("NextMarker", &next).close("EnumerationResults");
    Ok(xml_reply(x))
}

fn item(x: &mut Xml, b: &Blob, include: &str, desk: &Desk<'_>) {
    let p = &b.properties;
    x.open("Blob").leaf("Name", &b.name).open("Properties");
    x.leaf("Creation-Time", &http_date(b.created)).leaf("Last-Modified", &http_date(b.modified));
    x.leaf("Etag", b.etag.trim_matches('"')).leaf("Content-Length", &b.len().to_string());
    x.leaf("Content-Type", &p.content_type).leaf("Content-Encoding", &p.encoding);
    x.leaf("Content-Language", &p.language).leaf("Content-CRC64", "");
    x.leaf("Content-MD5", p.md5.as_deref().unwrap_or_default()).leaf("Cache-Control", &p.cache_control);
    x.leaf("Content-Disposition", &p.disposition).leaf("BlobType", "BlockBlob");
    x.leaf("AccessTier", b.tier.as_deref().unwrap_or("Hot"));
    if b.tier.is_none() {
        x.leaf("AccessTierInferred", "true");
    }
    let (status, state) = super::lease::words(b.lease.as_ref(), desk.now);
    x.leaf("LeaseStatus", status).leaf("LeaseState", state).leaf("ServerEncrypted", "true");
    if !b.tags.is_empty() {
        x.leaf("TagCount", &b.tags.len().to_string());
    }
    x.close("Properties");
    let mut map = |name: &str, map: &BTreeMap<String, String>| {
        x.open(name);
        for (k, v) in map {
            x.leaf(k, v);
        }
        x.close(name);
    };
    if include.contains("metadata") {
        map("Metadata", &b.metadata);
    }
    if include.contains("tags") && !b.tags.is_empty() {
        x.open("Tags").open("TagSet");
        for (k, v) in &b.tags {
            x.open("Tag").leaf("Key", k).leaf("Value", v).close("Tag");
        }
        x.close("TagSet").close("Tags");
    }
    x.leaf("OrMetadata", "").close("Blob");
}
