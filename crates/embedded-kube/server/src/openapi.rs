//! OpenAPI documents over HTTP: an index with content hashes, one v3 document per group and version, and one
//! v2 document for all.
//!
//! Documents are built when asked for. Those of built-in groups are the same for every cluster, so they are
//! kept once per process; a custom group's document lives as long as its CRDs do.

use crate::cluster::Cluster;
use crate::registry::{Registry, Version};
use crate::wire::params::Params;
use crate::wire::respond::{self, Reply};
use bytes::Bytes;
use ek_data::ResourceDoc;
use ek_meta::Status;
use http::HeaderMap;
use http::header::{ACCEPT, CACHE_CONTROL, CONTENT_TYPE, ETAG, HeaderValue, IF_NONE_MATCH, VARY};
use parking_lot::Mutex;
use serde_json::{Map, Value, json};
use std::collections::HashMap;
use std::sync::LazyLock;
use xxhash_rust::xxh3::xxh3_64;

/// Documents of custom groups, by path and hash.
#[derive(Default)]
pub struct Cache {
    documents: Mutex<HashMap<String, (u64, Bytes)>>,
}

static BUILTIN: LazyLock<Mutex<HashMap<String, Bytes>>> = LazyLock::new(Mutex::default);

fn gv_path(group: &str, version: &str) -> String {
    if group.is_empty() { format!("api/{version}") } else { format!("apis/{group}/{version}") }
}

/// Equal documents have equal hashes: a built-in one follows from the binary, a custom one from its schemas.
fn hash(group: &str, v: &Version) -> u64 {
    let mut text = format!("{}|{group}/{}|", env!("CARGO_PKG_VERSION"), v.name);
    for r in v.resources.iter().filter(|r| r.is_custom()) {
        let names: Vec<&str> = r.subresources.iter().map(|s| s.name.as_str()).collect();
        text.push_str(&format!("{}:{}:{}:{}:{names:?};", r.plural, r.kind, r.namespaced, r.stamp()));
    }
    xxh3_64(text.as_bytes())
}

pub fn answer(
    cluster: &Cluster,
    registry: &Registry,
    path: &str,
    base: &str,
    params: &Params,
    headers: &HeaderMap,
) -> Option<Result<Reply, Status>> {
    match path {
        "/openapi/v2" => Some(v2(cluster, registry, headers)),
        "/openapi/v3" | "/openapi/v3/" => Some(Ok(index(registry, base))),
        _ => {
            let rest = path.strip_prefix("/openapi/v3/")?.trim_end_matches('/');
            let parts: Vec<&str> = rest.split('/').collect();
            let (group, version) = match parts.as_slice() {
                ["api", v] => ("", *v),
                ["apis", g, v] => (*g, *v),
                _ => return None,
            };
            let v = registry.group_version(group, version)?;
            Some(Ok(v3(cluster, group, v, params, headers)))
        }
    }
}

fn index(registry: &Registry, base: &str) -> Reply {
    let mut paths = Map::new();
    for g in &registry.groups {
        for v in &g.versions {
            let p = gv_path(&g.name, &v.name);
            let url = format!("{base}/openapi/v3/{p}?hash={:016X}", hash(&g.name, v));
            paths.insert(p, json!({"serverRelativeURL": url}));
        }
    }
    respond::json(200, &json!({"paths": paths}))
}

fn v3(cluster: &Cluster, group: &str, v: &Version, params: &Params, headers: &HeaderMap) -> Reply {
    let hash = hash(group, v);
    let etag = format!("\"{hash:016X}\"");
    let mut reply = if headers.get(IF_NONE_MATCH).is_some_and(|h| h.as_bytes() == etag.as_bytes()) {
        let mut r = respond::json(200, &Value::Null);
        *r.status_mut() = http::StatusCode::NOT_MODIFIED;
        *r.body_mut() = respond::Body::empty();
        r
    } else {
        respond::bytes(200, crate::wire::negotiate::Encoding::Json, v3_bytes(cluster, group, v, hash))
    };
    let h = reply.headers_mut();
    if let Ok(e) = HeaderValue::from_str(&etag) {
        h.insert(ETAG, e);
    }
    h.insert(VARY, HeaderValue::from_static("Accept"));
    // A URL that carries the hash names one content for ever.
    if params.get("hash").is_some_and(|q| q.eq_ignore_ascii_case(etag.trim_matches('"'))) {
        h.insert(CACHE_CONTROL, HeaderValue::from_static("public, immutable"));
    }
    reply
}

fn v3_bytes(cluster: &Cluster, group: &str, v: &Version, hash: u64) -> Bytes {
    let key = gv_path(group, &v.name);
    if !v.resources.iter().any(|r| r.is_custom()) {
        if let Some(b) = BUILTIN.lock().get(&key) {
            return b.clone();
        }
        let made = Bytes::from(ek_data::openapi_v3(group, &v.name).to_string());
        BUILTIN.lock().insert(key, made.clone());
        return made;
    }
    if let Some((h, b)) = cluster.openapi.documents.lock().get(&key)
        && *h == hash
    {
        return b.clone();
    }
    let made = Bytes::from(ek_data::openapi_v3_for(group, &v.name, &docs(v)).to_string());
    cluster.openapi.documents.lock().insert(key, (hash, made.clone()));
    made
}

fn docs(v: &Version) -> Vec<ResourceDoc> {
    (v.resources.iter())
        .filter_map(|r| {
            let c = r.custom.as_ref()?;
            let schema = c.schema.clone().unwrap_or(Value::Null);
            let mut d = ResourceDoc::custom(r.gvk(), &r.plural, &r.list_kind, r.namespaced, schema);
            if c.has_status {
                d = d.with_status();
            }
            if c.scale.is_some() {
                d = d.with_scale();
            }
            Some(d)
        })
        .collect()
}

fn v2(cluster: &Cluster, registry: &Registry, headers: &HeaderMap) -> Result<Reply, Status> {
    let wants = headers.get(ACCEPT).and_then(|v| v.to_str().ok()).unwrap_or("*/*");
    if !wants.contains("json") && !wants.contains("*/*") {
        return Err(Status::not_acceptable("application/json"));
    }
    let custom: Vec<(String, &Version)> = (registry.groups.iter())
        .flat_map(|g| g.versions.iter().map(move |v| (g.name.clone(), v)))
        .filter(|(_, v)| v.resources.iter().any(|r| r.is_custom()))
        .collect();
    let stamp =
        xxh3_64(custom.iter().map(|(g, v)| format!("{:x};", hash(g, v))).collect::<String>().as_bytes());
    let cached =
        cluster.openapi.documents.lock().get("v2").filter(|(h, _)| *h == stamp).map(|(_, b)| b.clone());
    let bytes = cached.unwrap_or_else(|| {
        let mut doc = ek_data::openapi_v2();
        for (g, v) in &custom {
            let d = docs(v);
            if let Some(p) = doc["paths"].as_object_mut() {
                p.extend(ek_data::openapi_v2_paths_for(g, &v.name, &d));
            }
            if let Some(p) = doc["definitions"].as_object_mut() {
                p.extend(ek_data::openapi_v2_definitions_for(&d));
            }
        }
        let made = Bytes::from(doc.to_string());
        cluster.openapi.documents.lock().insert("v2".into(), (stamp, made.clone()));
        made
    });
    let mut r = respond::bytes(200, crate::wire::negotiate::Encoding::Json, bytes);
    r.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    if let Ok(e) = HeaderValue::from_str(&format!("\"{stamp:016X}\"")) {
        r.headers_mut().insert(ETAG, e);
    }
    Ok(r)
}
