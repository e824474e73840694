//! The service of an account: its properties, its containers, delegation keys.

use crate::planes::blob::access::Who;
use crate::planes::blob::{Container, Desk, Refusal, container_key, etag, keys, sas};
use crate::planes::xml::{self, Node, Xml};
use crate::planes::{Cx, Datum};
use crate::state::State;
use crate::wire::Reply;
use http::StatusCode;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deed {
    List,
    Get,
    Set,
    Stats,
    Info,
    DelegationKey,
}

pub fn deed(method: &str, restype: &str, comp: &str) -> Option<Deed> {
    Some(match (method, restype, comp) {
        ("GET", "", "list") => Deed::List,
        ("GET", "service", "properties") => Deed::Get,
        ("PUT", "service", "properties") => Deed::Set,
        ("GET", "service", "stats") => Deed::Stats,
        ("GET" | "HEAD", "account", "properties") => Deed::Info,
        ("POST", "service", "userdelegationkey") => Deed::DelegationKey,
        _ => return None,
    })
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Service {
    pub website: bool,
    pub index: String,
    pub error: String,
    /// Days that deleted blobs are kept: told back, not done.
    pub retention: Option<u32>,
    pub cors: Vec<BTreeMap<String, String>>,
}

pub fn service(state: &State, account: &str) -> Service {
    match state.data.get(&format!("bs/{account}")) {
        Some(Datum::Service(s)) => (**s).clone(),
        _ => Service::default(),
    }
}

pub fn answer(desk: &mut Desk<'_>, cx: &Cx<'_>, deed: Deed) -> Result<Reply, Refusal> {
    match deed {
        Deed::List => list(desk),
        Deed::Get => Ok(get(desk)),
        Deed::Set => set(desk),
        Deed::Info => Ok(Reply::empty(StatusCode::OK)
            .with("x-ms-sku-name", "Standard_LRS")
            .with("x-ms-account-kind", "StorageV2")
            .with("x-ms-is-hns-enabled", "false")),
        Deed::Stats => {
            let mut x = Xml::document();
            x.open("StorageServiceStats")
                .open("GeoReplication")
                .leaf("Status", "unavailable")
                .leaf("LastSyncTime", "");
            x.close("GeoReplication").close("StorageServiceStats");
            Ok(xml_reply(x))
        }
        Deed::DelegationKey => delegation(desk, cx),
    }
}

pub fn xml_reply(x: Xml) -> Reply {
    let mut reply = Reply::empty(StatusCode::OK).with("content-type", "application/xml");
    reply.raw = Some(x.done().into());
    reply
}

pub fn invalid_xml(_: xml::XmlError) -> Refusal {
    Refusal::bad("InvalidXmlDocument", "XML specified is not syntactically valid.")
}

fn get(desk: &Desk<'_>) -> Reply {
    let s = service(desk.state, &desk.account);
    let mut x = Xml::document();
    x.open("StorageServiceProperties");
    x.open("Logging")
        .leaf("Version", "1.0")
        .leaf("Read", "false")
        .leaf("Write", "false")
        .leaf("Delete", "false");
    x.open("RetentionPolicy").leaf("Enabled", "false").close("RetentionPolicy").close("Logging");
    for metrics in ["HourMetrics", "MinuteMetrics"] {
        x.open(metrics).leaf("Version", "1.0").leaf("Enabled", "false");
        x.open("RetentionPolicy").leaf("Enabled", "false").close("RetentionPolicy").close(metrics);
    }
    x.open("Cors");
    for rule in &s.cors {
        x.open("CorsRule");
        for (k, v) in rule {
            x.leaf(k, v);
        }
        x.close("CorsRule");
    }
    x.close("Cors");
    x.open("DeleteRetentionPolicy").leaf("Enabled", if s.retention.is_some() { "true" } else { "false" });
    if let Some(days) = s.retention {
        x.leaf("Days", &days.to_string());
    }
    x.close("DeleteRetentionPolicy");
    x.open("StaticWebsite").leaf("Enabled", if s.website { "true" } else { "false" });
    if s.website && !s.index.is_empty() {
        x.leaf("IndexDocument", &s.index);
    }
    if s.website && !s.error.is_empty() {
        x.leaf("ErrorDocument404Path", &s.error);
    }
    x.close("StaticWebsite").close("StorageServiceProperties");
    xml_reply(x)
}

fn set(desk: &mut Desk<'_>) -> Result<Reply, Refusal> {
    let doc = xml::read(&desk.ask.call.body).map_err(invalid_xml)?;
    if doc.name != "StorageServiceProperties" {
        return Err(Refusal::bad(
            "InvalidXmlNodeValue",
            "The value for one of the XML nodes is not in the correct format.",
        ));
    }
    // What a document does not mention stays.
    let mut s = service(desk.state, &desk.account);
    let node = |n: &Node, name: &str| n.child_text(name).unwrap_or_default().to_owned();
    let truth = |text: &str| match text {
        "true" => Ok(true),
        "false" => Ok(false),
        _ => Err(Refusal::bad(
            "InvalidXmlNodeValue",
            "The value for one of the XML nodes is not in the correct format.",
        )),
    };
    if let Some(w) = doc.child("StaticWebsite") {
        s.website = truth(&node(w, "Enabled"))?;
        s.index = if s.website { node(w, "IndexDocument") } else { String::new() };
        s.error = if s.website { node(w, "ErrorDocument404Path") } else { String::new() };
        if s.index.contains('/') || s.index.len() > 255 || s.error.len() > 255 {
            return Err(Refusal::bad(
                "InvalidXmlNodeValue",
                "The value for one of the XML nodes is not in the correct format.",
            ));
        }
    }
    if let Some(d) = doc.child("DeleteRetentionPolicy") {
        s.retention = match truth(&node(d, "Enabled"))? {
            true => {
                Some(node(d, "Days").parse().ok().filter(|n| (1..=365).contains(n)).ok_or_else(|| {
                    Refusal::bad(
                        "InvalidXmlNodeValue",
                        "The value for one of the XML nodes is not in the correct format.",
                    )
                })?)
            }
            false => None,
        };
    }
    if let Some(cors) = doc.child("Cors") {
        if cors.children.len() > 5 {
            return Err(Refusal::bad("InvalidXmlDocument", "XML specified is not syntactically valid."));
        }
        s.cors = cors
            .children
            .iter()
            .map(|r| r.children.iter().map(|c| (c.name.clone(), c.text.clone())).collect())
            .collect();
    }
    if s.website {
        ensure_web(desk.state, &desk.account, desk.now);
    }
    desk.state.data.put(&format!("bs/{}", desk.account), Datum::Service(Box::new(s)));
    Ok(Reply::empty(StatusCode::ACCEPTED))
}

/// Switching the website on makes its container.
fn ensure_web(state: &mut State, account: &str, now: Timestamp) {
    let key = container_key(account, "$web");
    if state.data.get(&key).is_none() {
        let etag = etag(state, &key);
        let c = Container {
            name: "$web".into(),
            etag,
            modified: now,
            metadata: BTreeMap::new(),
            public: None,
            policies: Vec::new(),
        };
        state.data.put(&key, Datum::Container(Box::new(c)));
    }
}

/// How many are shown at once.
pub fn page(desk: &Desk<'_>) -> Result<usize, Refusal> {
    match desk.ask.call.query("maxresults") {
        None => Ok(5000),
        Some(n) => match n.parse::<usize>() {
            Ok(n) if n > 0 => Ok(n.min(5000)),
            _ => Err(Refusal::bad(
                "OutOfRangeQueryParameterValue",
                "One of the query parameters specified in the request URI is outside the permissible range.",
            )),
        },
    }
}

pub fn marker(desk: &Desk<'_>) -> Result<Option<String>, Refusal> {
    use base64::Engine;
    match desk.ask.call.query("marker").filter(|m| !m.is_empty()) {
        None => Ok(None),
        Some(m) => base64::engine::general_purpose::URL_SAFE_NO_PAD
            .decode(m)
            .ok()
            .and_then(|b| String::from_utf8(b).ok())
            .map(Some)
            .ok_or_else(|| {
                Refusal::bad(
                    "InvalidQueryParameterValue",
                    "Value for one of the query parameters specified in the request URI is invalid.",
                )
            }),
    }
}

pub fn next_marker(key: &str) -> String {
    use base64::Engine;
    base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(key)
}

fn list(desk: &Desk<'_>) -> Result<Reply, Refusal> {
    let most = page(desk)?;
    let prefix = desk.ask.call.query("prefix").unwrap_or_default();
    let from = format!("bc/{}/", desk.account);
    let after = marker(desk)?.map(|m| format!("{from}{m}"));
    let metadata = desk.ask.call.query("include").is_some_and(|i| i.contains("metadata"));
    let system = desk.ask.call.query("include").is_some_and(|i| i.contains("system"));
    let mut x = Xml::document();
    let endpoint = format!("https://{}/", desk.ask.host);
    x.open_with("EnumerationResults", &[("ServiceEndpoint", &endpoint)]);
    if !prefix.is_empty() {
        x.leaf("Prefix", prefix);
    }
    if let Some(m) = desk.ask.call.query("marker").filter(|m| !m.is_empty()) {
        x.leaf("Marker", m);
    }
    if desk.ask.call.query("maxresults").is_some() {
        x.leaf("MaxResults", &most.to_string());
    }
    x.open("Containers");
    let mut last = None;
    let mut all =
        desk.state.data.range(&format!("{from}{prefix}"), after.as_deref()).filter_map(|(_, d)| match d {
            Datum::Container(c) if system || !c.name.starts_with("$logs") => Some(c),
            _ => None,
        });
    for c in all.by_ref().take(most) {
        x.open("Container").leaf("Name", &c.name).open("Properties");
        x.leaf("Last-Modified", &super::http_date(c.modified)).leaf("Etag", &c.etag);
        x.leaf("LeaseStatus", "unlocked").leaf("LeaseState", "available");
        if let Some(p) = &c.public {
            x.leaf("PublicAccess", p);
        }
        x.leaf("DefaultEncryptionScope", "$account-encryption-key")
            .leaf("DenyEncryptionScopeOverride", "false");
        x.leaf("HasImmutabilityPolicy", "false").leaf("HasLegalHold", "false").close("Properties");
        if metadata && !c.metadata.is_empty() {
            x.open("Metadata");
            for (k, v) in &c.metadata {
                x.leaf(k, v);
            }
            x.close("Metadata");
        }
        x.close("Container");
        last = Some(c.name.clone());
    }
    let more = all.next().is_some();
    x.close("Containers")
        .leaf("NextMarker", &last.filter(|_| more).map(|l| next_marker(&l)).unwrap_or_default());
    x.close("EnumerationResults");
    Ok(xml_reply(x))
}

fn delegation(desk: &Desk<'_>, cx: &Cx<'_>) -> Result<Reply, Refusal> {
    // Only tokens get here: nobody else has an identity to delegate.
    let Who::Bearer(caller) = &desk.who else {
        return Err(Refusal::new(
            StatusCode::FORBIDDEN,
            "AuthenticationFailed",
            "Only authentication scheme Bearer is supported",
        ));
    };
    let doc = xml::read(&desk.ask.call.body).map_err(invalid_xml)?;
    let bad = || {
        Refusal::bad(
            "InvalidXmlNodeValue",
            "The value for one of the XML nodes is not in the correct format.",
        )
    };
    let expiry = doc.child_text("Expiry").unwrap_or_default();
    let until = sas::time(expiry).ok_or_else(bad)?;
    let start = match doc.child_text("Start").unwrap_or_default() {
        "" => cx.now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
        s => s.to_owned(),
    };
    let from = sas::time(&start).ok_or_else(bad)?;
    if until <= from || until.duration_since(cx.now).as_hours() > 7 * 24 {
        return Err(bad());
    }
    let version = desk.ask.call.header("x-ms-version").unwrap_or("2024-11-04");
    let fields = [caller.object_id.as_str(), caller.tenant.as_str(), &start, expiry, "b", version];
    let key = keys(desk.state, &desk.account)
        .and_then(|k| sas::delegation_key(k.keys[0].expose(), &fields))
        .ok_or_else(bad)?;
    let mut x = Xml::document();
    x.open("UserDelegationKey");
    for (name, value) in
        ["SignedOid", "SignedTid", "SignedStart", "SignedExpiry", "SignedService", "SignedVersion"]
            .iter()
            .zip(fields)
    {
        x.leaf(name, value);
    }
    x.leaf("Value", &key).close("UserDelegationKey");
    Ok(xml_reply(x))
}

pub fn has_website(state: &State, account: &str) -> bool {
    service(state, account).website
}
