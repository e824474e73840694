//! Azure's own view of a registry: `/acr/v1`, as its tools read it.

use crate::planes::registry::distribution::{manifest, resolve, tags};
use crate::planes::registry::tokens::{Scope, admit};
use crate::planes::registry::{Desk, Refusal, Tag, name_ok, repositories};
use crate::planes::{Cx, Datum};
use crate::wire::Reply;
use http::{Method, StatusCode};
use serde_json::{Value, json};

type Done = Result<(Reply, bool), Refusal>;

fn attributes() -> Value {
    json!({"deleteEnabled": true, "writeEnabled": true, "readEnabled": true, "listEnabled": true})
}

fn unknown(what: &str) -> Refusal {
    Refusal::new(StatusCode::NOT_FOUND, "NAME_UNKNOWN", format!("{what} is not found"))
}

pub fn serve(desk: &mut Desk<'_>, cx: &mut Cx<'_>, path: &str) -> Done {
    let method = desk.ask.call.method.clone();
    if path == "_catalog" {
        admit(desk, cx, Some(&Scope::catalog()))?;
        let (shown, link) = page(desk, repositories(desk.state, &desk.registry), "/acr/v1/_catalog");
        return Ok((linked(Reply::ok(json!({"repositories": shown})), link), false));
    }
    let found = ["/_tags", "/_manifests"]
        .iter()
        .find_map(|w| path.rsplit_once(w).map(|(n, r)| (*w, n, r.trim_matches('/'))));
    let (word, name, rest) = found.unwrap_or(("", path, ""));
    if !name_ok(name) {
        return Err(Refusal::new(StatusCode::BAD_REQUEST, "NAME_INVALID", "invalid repository name"));
    }
    let action = match method {
        Method::GET => "metadata_read",
        Method::DELETE => "delete",
        _ => {
            return Err(Refusal::new(
                StatusCode::METHOD_NOT_ALLOWED,
                "UNSUPPORTED",
                "The operation is unsupported.",
            ));
        }
    };
    admit(desk, cx, Some(&Scope::repository(name, action)))?;
    if !repositories(desk.state, &desk.registry).iter().any(|r| r == name) {
        return Err(unknown(&format!("repository \"{name}\"")));
    }
    let head = |mut v: Value| {
        v["registry"] = desk.ask.host.as_str().into();
        v["imageName"] = name.into();
        v
    };
    match (word, rest, action) {
        ("", _, "metadata_read") => {
            let (manifests, tags) = (digests(desk, name), tags(desk, name));
            let times: Vec<jiff::Timestamp> = manifests
                .iter()
                .filter_map(|d| Some(manifest(desk.state, &desk.registry, name, d)?.created))
                .collect();
            let body = head(json!({
                "createdTime": times.iter().min().map(ToString::to_string), "lastUpdateTime": times.iter().max().map(ToString::to_string),
                "manifestCount": manifests.len(), "tagCount": tags.len(), "changeableAttributes": attributes(),
            }));
            Ok((Reply::ok(body), false))
        }
        ("", _, _) => {
            let (manifests, all) = (digests(desk, name), tags(desk, name));
            for kind in ["rm", "rt", "rl"] {
                let prefix = desk.key(kind, name, "");
                desk.state.data.remove_all(&prefix);
            }
            Ok((
                Reply::json(StatusCode::ACCEPTED, json!({"manifestsDeleted": manifests, "tagsDeleted": all})),
                true,
            ))
        }
        ("/_tags", "", "metadata_read") => {
            let wanted = desk.ask.call.query("digest");
            let all: Vec<String> = tags(desk, name)
                .into_iter()
                .filter(|t| wanted.is_none_or(|w| find_tag(desk, name, t).is_some_and(|x| x.digest == w)))
                .collect();
            let (shown, link) = page(desk, all, &format!("/acr/v1/{name}/_tags"));
            let list: Vec<Value> =
                shown.iter().filter_map(|t| Some(tag_shown(t, find_tag(desk, name, t)?))).collect();
            Ok((linked(Reply::ok(head(json!({"tags": list}))), link), false))
        }
        ("/_tags", t, "metadata_read") => {
            let shown = find_tag(desk, name, t).map(|x| tag_shown(t, x)).ok_or_else(|| {
                Refusal::new(StatusCode::NOT_FOUND, "TAG_UNKNOWN", "the specified tag does not exist")
            })?;
            Ok((Reply::ok(head(json!({"tag": shown}))), false))
        }
        ("/_tags", t, _) => {
            let key = desk.key("rt", name, t);
            desk.state.data.remove(&key).ok_or_else(|| {
                Refusal::new(StatusCode::NOT_FOUND, "TAG_UNKNOWN", "the specified tag does not exist")
            })?;
            Ok((Reply::empty(StatusCode::ACCEPTED), true))
        }
        (_, "", "metadata_read") => {
            let (shown, link) = page(desk, digests(desk, name), &format!("/acr/v1/{name}/_manifests"));
            let list: Vec<Value> = shown.iter().filter_map(|d| manifest_shown(desk, name, d)).collect();
            Ok((linked(Reply::ok(head(json!({"manifests": list}))), link), false))
        }
        (_, reference, "metadata_read") => {
            let shown = resolve(desk.state, &desk.registry, name, reference)
                .and_then(|d| manifest_shown(desk, name, &d));
            let shown = shown.ok_or_else(|| {
                Refusal::new(StatusCode::NOT_FOUND, "MANIFEST_UNKNOWN", "manifest is not found")
            })?;
            Ok((Reply::ok(head(json!({"manifest": shown}))), false))
        }
        _ => {
            Err(Refusal::new(StatusCode::METHOD_NOT_ALLOWED, "UNSUPPORTED", "The operation is unsupported."))
        }
    }
}

fn page(desk: &Desk<'_>, all: Vec<String>, path: &str) -> (Vec<String>, Option<String>) {
    let most =
        desk.ask.call.query("n").and_then(|n| n.parse::<usize>().ok()).filter(|n| *n > 0).unwrap_or(100);
    let last = desk.ask.call.query("last").unwrap_or_default();
    let mut rest = all.into_iter().filter(|n| n.as_str() > last);
    let shown: Vec<String> = rest.by_ref().take(most).collect();
    let link = match (rest.next(), shown.last()) {
        (Some(_), Some(end)) => {
            let end = percent_encoding::utf8_percent_encode(end, percent_encoding::NON_ALPHANUMERIC);
            Some(format!("<{path}?last={end}&n={most}&orderby=>; rel=\"next\""))
        }
        _ => None,
    };
    (shown, link)
}

fn linked(reply: Reply, link: Option<String>) -> Reply {
    match link {
        Some(l) => reply.with("link", &l),
        None => reply,
    }
}

fn digests(desk: &Desk<'_>, name: &str) -> Vec<String> {
    let prefix = desk.key("rm", name, "");
    desk.state
        .data
        .range(&prefix, None)
        .filter_map(|(k, _)| k.strip_prefix(&prefix).map(str::to_owned))
        .collect()
}

fn find_tag<'a>(desk: &'a Desk<'_>, name: &str, tag: &str) -> Option<&'a Tag> {
    match desk.state.data.get(&desk.key("rt", name, tag)) {
        Some(Datum::Tag(t)) => Some(t),
        _ => None,
    }
}

fn tag_shown(name: &str, t: &Tag) -> Value {
    json!({
        "name": name, "digest": t.digest, "createdTime": t.created.to_string(), "lastUpdateTime": t.updated.to_string(),
        "signed": false, "changeableAttributes": attributes(),
    })
}

fn manifest_shown(desk: &Desk<'_>, name: &str, digest: &str) -> Option<Value> {
    let m = manifest(desk.state, &desk.registry, name, digest)?;
    let tags: Vec<String> = tags(desk, name)
        .into_iter()
        .filter(|t| find_tag(desk, name, t).is_some_and(|x| x.digest == digest))
        .collect();
    Some(json!({
        "digest": digest, "imageSize": m.about["imageSize"], "createdTime": m.created.to_string(), "lastUpdateTime": m.created.to_string(),
        "mediaType": m.media, "configMediaType": m.about["configMediaType"], "tags": tags, "changeableAttributes": attributes(),
    }))
}
