//! Discovery: what is served, in the aggregated and in the legacy form.

use crate::registry::{Group, Registry, Resource, Version};
use crate::wire::negotiate::{self, DiscoveryFormat};
use crate::wire::respond::{self, Body, Reply};
use ek_meta::Status;
use ek_meta::gvk::GroupVersion;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, ETAG, HeaderValue, IF_NONE_MATCH, VARY};
use http::{HeaderMap, StatusCode};
use serde_json::{Value, json};

/// Answers `/api`, `/apis`, `/apis/g`, `/api/v1`, `/apis/g/v`; `None` when the path is none of these.
pub fn answer(
    registry: &Registry,
    path: &str,
    headers: &HeaderMap,
    address: &str,
) -> Option<Result<Reply, Status>> {
    let parts: Vec<&str> = path.trim_matches('/').split('/').collect();
    match parts.as_slice() {
        ["api"] | ["apis"] => Some(root(registry, parts[0] == "api", headers, address)),
        ["api", "v1"] => {
            Some(Ok(respond::json(200, &resource_list(registry.group_version("", "v1")?, "", "v1"))))
        }
        ["apis", g] if !g.is_empty() => Some(Ok(respond::json(200, &api_group(registry.group(g)?)))),
        ["apis", g, v] if !g.is_empty() => {
            Some(Ok(respond::json(200, &resource_list(registry.group_version(g, v)?, g, v))))
        }
        _ => None,
    }
}

fn root(registry: &Registry, core: bool, headers: &HeaderMap, address: &str) -> Result<Reply, Status> {
    let format = negotiate::discovery(headers)?;
    let (version, content_type) = match format {
        DiscoveryFormat::Legacy => {
            let body = if core {
                json!({"kind": "APIVersions", "versions": ["v1"],
                    "serverAddressByClientCIDRs": [{"clientCIDR": "0.0.0.0/0", "serverAddress": address}]})
            } else {
                let groups: Vec<Value> =
                    registry.groups.iter().filter(|g| !g.name.is_empty()).map(listed_group).collect();
                json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": groups})
            };
            return Ok(respond::json(200, &body));
        }
        DiscoveryFormat::V2 => ("v2", "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"),
        DiscoveryFormat::V2beta1 => {
            ("v2beta1", "application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList")
        }
    };
    let etag = format!("\"{:016X}{}{version}\"", registry.etag, if core { "C" } else { "G" });
    let mut reply = if headers.get(IF_NONE_MATCH).is_some_and(|v| v.as_bytes() == etag.as_bytes()) {
        let mut r = respond::json(200, &Value::Null);
        *r.status_mut() = StatusCode::NOT_MODIFIED;
        *r.body_mut() = Body::empty();
        r
    } else {
        let items: Vec<Value> =
            (registry.groups.iter()).filter(|g| g.name.is_empty() == core).map(aggregated_group).collect();
        respond::json(
            200,
            &json!({
                "kind": "APIGroupDiscoveryList", "apiVersion": format!("apidiscovery.k8s.io/{version}"),
                "metadata": {}, "items": items
            }),
        )
    };
    let h = reply.headers_mut();
    h.insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    h.insert(VARY, HeaderValue::from_static("Accept"));
    h.insert(CACHE_CONTROL, HeaderValue::from_static("public"));
    if let Ok(v) = HeaderValue::from_str(&etag) {
        h.insert(ETAG, v);
    }
    Ok(reply)
}

fn aggregated_group(g: &Group) -> Value {
    let mut meta = json!({});
    if !g.name.is_empty() {
        meta["name"] = json!(g.name);
    }
    let versions: Vec<Value> = g
        .versions
        .iter()
        .map(|v| {
            let resources: Vec<Value> = v.resources.iter().map(|r| aggregated_resource(r)).collect();
            json!({"version": v.name, "resources": resources, "freshness": "Current"})
        })
        .collect();
    json!({"metadata": meta, "versions": versions})
}

fn aggregated_resource(r: &Resource) -> Value {
    // Of built-in kinds, those of the same group and version do not repeat it.
    let kind = |group: &str, version: &str, kind: &str| {
        let same = !r.is_custom() && group == r.group && version == r.version;
        let (group, version) = if same { ("", "") } else { (group, version) };
        json!({"group": group, "version": version, "kind": kind})
    };
    let mut out = json!({
        "resource": r.plural,
        "responseKind": kind(&r.group, &r.version, &r.kind),
        "scope": if r.namespaced { "Namespaced" } else { "Cluster" },
        "singularResource": r.singular,
        "verbs": r.verbs,
    });
    if !r.short_names.is_empty() {
        out["shortNames"] = json!(r.short_names);
    }
    if !r.categories.is_empty() {
        out["categories"] = json!(r.categories);
    }
    if !r.subresources.is_empty() {
        let subs: Vec<Value> = r
            .subresources
            .iter()
            .map(|s| {
                json!({
                    "subresource": s.name,
                    "responseKind": kind(&s.response.group, &s.response.version, &s.response.kind),
                    "verbs": s.verbs,
                })
            })
            .collect();
        out["subresources"] = json!(subs);
    }
    out
}

fn api_group(g: &Group) -> Value {
    let mut out = listed_group(g);
    out["kind"] = "APIGroup".into();
    out["apiVersion"] = "v1".into();
    out
}

fn listed_group(g: &Group) -> Value {
    let version = |v: &Version| json!({"groupVersion": GroupVersion::new(&*g.name, &*v.name).to_string(), "version": v.name});
    let versions: Vec<Value> = g.versions.iter().map(version).collect();
    json!({
        "name": g.name, "versions": versions, "preferredVersion": versions.first(),
    })
}

fn resource_list(v: &Version, group: &str, version: &str) -> Value {
    let mut resources = Vec::new();
    for r in &v.resources {
        let mut out = json!({
            "name": r.plural, "singularName": r.singular, "namespaced": r.namespaced, "kind": r.kind, "verbs": r.verbs
        });
        if !r.short_names.is_empty() {
            out["shortNames"] = json!(r.short_names);
        }
        if !r.categories.is_empty() {
            out["categories"] = json!(r.categories);
        }
        let stored = !matches!(r.group.as_str(), "authentication.k8s.io" | "authorization.k8s.io")
            && !matches!((r.group.as_str(), r.plural.as_str()), ("", "bindings" | "componentstatuses"));
        if stored {
            out["storageVersionHash"] = json!(storage_hash(r));
        }
        resources.push(out);
        for s in &r.subresources {
            let mut sub = json!({
                "name": format!("{}/{}", r.plural, s.name), "singularName": "", "namespaced": r.namespaced,
                "kind": s.response.kind, "verbs": s.verbs
            });
            if s.response.group != r.group || s.response.version != r.version {
                sub["group"] = json!(s.response.group);
                sub["version"] = json!(s.response.version);
            }
            resources.push(sub);
        }
    }
    let mut list = json!({"kind": "APIResourceList", "apiVersion": "v1"});
    if group.is_empty() {
        // The oldest list is older than its own version.
        list = json!({"kind": "APIResourceList"});
    }
    list["groupVersion"] = json!(GroupVersion::new(group, version).to_string());
    list["resources"] = json!(resources);
    list
}

/// Opaque to clients; equal for versions that share a store.
fn storage_hash(r: &Resource) -> String {
    use base64::Engine;
    let h = xxhash_rust::xxh3::xxh3_64(format!("{}/{}", r.storage_api_version, r.kind).as_bytes());
    base64::engine::general_purpose::STANDARD.encode(h.to_be_bytes())
}
