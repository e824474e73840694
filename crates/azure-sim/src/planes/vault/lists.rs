//! Lists, a page at a time.

use crate::planes::vault::objects::{Holds, Object, Sort, Version};
use crate::planes::vault::{Refusal, Room, x509};
use crate::planes::{Ask, Datum};
use crate::wire::Reply;
use serde_json::{Value, json};

/// Objects of a collection, a page at a time.
pub fn list(room: &Room<'_>, ask: &Ask, sort: Sort, deleted: bool) -> Result<Reply, Refusal> {
    let most = page_size(ask)?;
    let prefix = format!("v/{}/{}/", room.name, sort.path());
    let after = ask.call.query("$skiptoken").map(|t| format!("{prefix}{t}"));
    let mut all = room.state.data.range(&prefix, after.as_deref()).filter_map(|(k, d)| match d {
        Datum::Object(o)
            if o.deleted.is_some() == deleted
                && o.deleted.is_none_or(|(_, until)| until > room.now)
                && !o.versions.is_empty() =>
        {
            Some((k, o))
        }
        _ => None,
    });
    let mut value = Vec::new();
    let mut last = None;
    for (k, o) in all.by_ref().take(most) {
        let Some(v) = o.versions.last() else { continue };
        let mut item = item(room, o, v, false);
        room.deleted_fields(o, &mut item);
        value.push(item);
        last = k.strip_prefix(&prefix);
    }
    let more = all.next().is_some();
    let path = format!("{}{}", if deleted { "deleted" } else { "" }, sort.path());
    let next = last.filter(|_| more).map(|token| next_link(room, ask, &path, token));
    Ok(Reply::ok(json!({"value": value, "nextLink": next})))
}

fn page_size(ask: &Ask) -> Result<usize, Refusal> {
    match ask.call.query("maxresults") {
        None => Ok(25),
        Some(n) => {
            n.parse().ok().filter(|n| (1..=25).contains(n)).ok_or_else(|| {
                Refusal::bad(format!("Invalid value for maxresults: {n}. It is from 1 to 25."))
            })
        }
    }
}

fn next_link(room: &Room<'_>, ask: &Ask, path: &str, token: &str) -> String {
    let mut q = url::form_urlencoded::Serializer::new(String::new());
    q.append_pair("api-version", ask.call.query("api-version").unwrap_or("7.4"));
    q.append_pair("$skiptoken", token);
    if let Some(n) = ask.call.query("maxresults") {
        q.append_pair("maxresults", n);
    }
    format!("{}/{path}?{}", room.base(), q.finish())
}

/// A version without what is secret.
fn item(room: &Room<'_>, o: &Object, v: &Version, with_version: bool) -> Value {
    let mut id = format!("{}/{}/{}", room.base(), o.sort.path(), o.name);
    if with_version {
        id = format!("{id}/{}", v.id);
    }
    let field = if o.sort == Sort::Key { "kid" } else { "id" };
    let mut out = json!({field: id, "attributes": v.attributes.json(room.recovery(), o.sort)});
    if let Some(tags) = &v.tags {
        out["tags"] = json!(tags);
    }
    if o.managed {
        out["managed"] = true.into();
    }
    match &v.holds {
        Holds::Secret { content_type: Some(c), .. } => out["contentType"] = c.as_str().into(),
        Holds::Certificate(issued) => {
            out["x5t"] = x509::thumbprint(issued).into();
            out["subject"] = x509::subject(issued).into();
        }
        _ => {}
    }
    out
}

pub fn versions(room: &Room<'_>, ask: &Ask, sort: Sort, name: &str) -> Result<Reply, Refusal> {
    let most = page_size(ask)?;
    let Some(o) = room.object(sort, name) else {
        return Ok(Reply::ok(json!({"value": [], "nextLink": null})));
    };
    let after = ask.call.query("$skiptoken");
    let from = after.and_then(|t| o.versions.iter().position(|v| v.id == t)).map_or(0, |i| i + 1);
    let page: Vec<Value> = o.versions.iter().skip(from).take(most).map(|v| item(room, o, v, true)).collect();
    let last =
        o.versions.get(from + page.len().saturating_sub(1)).filter(|_| from + page.len() < o.versions.len());
    let path = format!("{}/{name}/versions", sort.path());
    let next = last.map(|v| next_link(room, ask, &path, &v.id));
    Ok(Reply::ok(json!({"value": page, "nextLink": next})))
}
