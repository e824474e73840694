//! The part of Microsoft Graph that infrastructure tools use: applications, service principals, and what leads to
//! them.
//!
//! Objects are shown as JSON and filters judge what is shown, so a filter can name any field. The seeded owner may
//! write everything, as whoever was granted `Application.ReadWrite.All`; with `Application.ReadWrite.OwnedBy` one may
//! make applications; anybody else may change only what it owns. Users and groups do not exist: their lists are empty.

mod applications;
mod filter;
mod principals;
mod show;

use crate::entra::Caller;
use crate::seed;
use crate::state::{Principal, State};
use crate::trouble::Hidden;
use crate::wire::{Call, Reply};
use clock::Random;
use http::{Method, StatusCode};
use jiff::Timestamp;
use serde_json::{Map, Value, json};

pub const AUDIENCE: &str = "https://graph.microsoft.com";
pub const AUDIENCE_ID: &str = "00000003-0000-0000-c000-000000000000";

pub const WRITE_ALL: &str = "Application.ReadWrite.All";
pub const WRITE_OWNED: &str = "Application.ReadWrite.OwnedBy";

/// The permissions that can be granted, by name, with the ids that they have in every tenant.
pub const ROLES: [(&str, &str); 2] = [
    (WRITE_ALL, "1bfefb4e-e0b5-418b-a88f-73c46d2cc8e9"),
    (WRITE_OWNED, "18a4783c-866b-4cc7-a460-3d5e5662c884"),
];

/// What a principal may do in the directory; its tokens for Graph say the same.
pub fn roles_of(state: &State, p: &Principal) -> Vec<String> {
    match p.object_id == seed::login(state.seed).object {
        true => vec![WRITE_ALL.to_owned()],
        false => p.graph_roles.clone(),
    }
}

/// What a request is worked on with.
pub struct Cx<'a> {
    pub state: &'a mut State,
    pub call: &'a Call,
    pub caller: &'a Caller,
    pub now: Timestamp,
    pub random: &'a Random,
}

pub fn error(status: StatusCode, code: &str, message: &str) -> Reply {
    Reply::json(status, json!({"error": {"code": code, "message": message}}))
}

pub fn missing(id: &str) -> Reply {
    let message = format!(
        "Resource '{id}' does not exist or one of its queried reference-property objects are not present."
    );
    error(StatusCode::NOT_FOUND, "Request_ResourceNotFound", &message)
}

pub fn bad(message: &str) -> Reply {
    error(StatusCode::BAD_REQUEST, "Request_BadRequest", message)
}

fn denied() -> Reply {
    let message = "Insufficient privileges to complete the operation.";
    error(StatusCode::FORBIDDEN, "Authorization_RequestDenied", message)
}

impl Cx<'_> {
    /// Whether the caller may change what `owner` owns.
    pub fn may_write(&self, owner: Option<&str>) -> Result<(), Reply> {
        let all = self.has(WRITE_ALL);
        if all || owner == Some(self.caller.object_id.as_str()) { Ok(()) } else { Err(denied()) }
    }

    /// Whether the caller may make applications, which it then owns.
    pub fn may_create(&self) -> Result<(), Reply> {
        if self.has(WRITE_ALL) || self.has(WRITE_OWNED) { Ok(()) } else { Err(denied()) }
    }

    fn has(&self, role: &str) -> bool {
        let me = self.state.directory.principal(&self.caller.object_id);
        me.is_some_and(|p| roles_of(self.state, p).iter().any(|r| r == role))
    }

    pub fn body(&self) -> Result<Map<String, Value>, Reply> {
        match serde_json::from_slice(&self.call.body) {
            Ok(Value::Object(m)) => Ok(m),
            _ => Err(bad("Unable to read JSON request payload.")),
        }
    }
}

/// Answers a request; what it changed counts only if it was answered well.
pub fn handle(state: &mut State, call: &Call, caller: &Caller, now: Timestamp, random: &Random) -> Reply {
    let mut next = state.clone();
    let hidden = Hidden::take(&mut next, now);
    let cx = Cx { state: &mut next, call, caller, now, random };
    match dispatch(cx) {
        Ok(reply) => {
            hidden.put_back(&mut next.directory);
            *state = next;
            reply
        }
        Err(reply) => reply,
    }
}

fn dispatch(mut cx: Cx<'_>) -> Result<Reply, Reply> {
    let path = cx.call.path.trim_matches('/').to_owned();
    let words: Vec<&str> = path.split('/').skip(1).collect();
    let method = cx.call.method.clone();
    let first = words.first().copied().unwrap_or_default();
    // `applications(appId='x')` names one as `applications/{id}` does.
    let (collection, key) = match first.split_once('(') {
        Some((c, rest)) => (c, Some(rest.trim_end_matches(')'))),
        None => (first, None),
    };
    let rest: Vec<&str> = words.iter().skip(1).copied().collect();
    match (collection.to_ascii_lowercase().as_str(), key) {
        ("applications", Some(key)) => {
            let id = applications::by_key(&cx, key)?;
            applications::one(&mut cx, &id, &rest)
        }
        ("serviceprincipals", Some(key)) => {
            let id = principals::by_key(&cx, key)?;
            principals::one(&mut cx, &id, &rest)
        }
        ("applications", None) => match rest.split_first() {
            None | Some((&"$count", [])) => applications::all(&mut cx, !rest.is_empty()),
            Some((id, rest)) => applications::one(&mut cx, id, rest),
        },
        ("serviceprincipals", None) => match rest.split_first() {
            None | Some((&"$count", [])) => principals::all(&mut cx, !rest.is_empty()),
            Some((id, rest)) => principals::one(&mut cx, id, rest),
        },
        ("me", None) if method == Method::GET => principals::me(&cx, &rest),
        ("directoryobjects", None) if method == Method::POST && rest == ["getByIds"] => by_ids(&cx),
        ("directoryobjects", None) if method == Method::GET && rest.len() == 1 => {
            show::object(cx.state, rest[0]).map(Reply::ok).ok_or_else(|| missing(rest[0]))
        }
        ("organization", None) if method == Method::GET => {
            let organization = json!({
                "id": cx.state.tenant, "displayName": "Zaffre", "tenantType": "AAD",
                "verifiedDomains": [{"name": "zaffre.test", "isDefault": true, "isInitial": true}],
            });
            list(&cx, "organization", vec![organization], false)
        }
        ("users" | "groups", None) if method == Method::GET => match rest.first() {
            None => list(&cx, collection, Vec::new(), false),
            Some(id) => Err(missing(id)),
        },
        _ => Err(error(
            StatusCode::BAD_REQUEST,
            "BadRequest",
            &format!("Resource not found for the segment '{first}'."),
        )),
    }
}

const MAX_IDS: usize = 1000;

fn by_ids(cx: &Cx<'_>) -> Result<Reply, Reply> {
    let body = cx.body()?;
    let ids =
        body.get("ids").and_then(Value::as_array).ok_or_else(|| bad("The property 'ids' is required."))?;
    if ids.len() > MAX_IDS {
        return Err(bad("Too many ids: at most 1000."));
    }
    let types: Vec<String> = body
        .get("types")
        .and_then(Value::as_array)
        .map(|l| l.iter().filter_map(Value::as_str).map(str::to_ascii_lowercase).collect())
        .unwrap_or_default();
    let wanted = |v: &Value| {
        let kind = v["@odata.type"].as_str().unwrap_or_default().rsplit('.').next().unwrap_or_default();
        types.is_empty()
            || types.contains(&kind.to_ascii_lowercase())
            || types.iter().any(|t| t == "directoryobject")
    };
    let found: Vec<Value> = ids
        .iter()
        .filter_map(Value::as_str)
        .filter_map(|i| show::object(cx.state, i))
        .filter(wanted)
        .collect();
    Ok(Reply::ok(json!({"@odata.context": context(cx, "directoryObjects"), "value": found})))
}

fn context(cx: &Cx<'_>, what: &str) -> String {
    format!("{}/v1.0/$metadata#{what}", cx.call.base)
}

const PAGE: usize = 100;
const MAX_PAGE: usize = 999;

/// A list: filtered, counted, cut into pages, reduced to what was selected. The objects are in order of their ids.
pub fn list(cx: &Cx<'_>, what: &str, objects: Vec<Value>, only_count: bool) -> Result<Reply, Reply> {
    let mut objects = objects;
    if let Some(text) = cx.call.query("$filter") {
        let filter = filter::parse(text).ok_or_else(|| {
            error(
                StatusCode::BAD_REQUEST,
                "Request_UnsupportedQuery",
                &format!("Unsupported or invalid query filter clause specified: '{text}'."),
            )
        })?;
        objects.retain(|o| filter.fits(o));
    }
    if let Some(text) = cx.call.query("$search") {
        // `"displayName:words"`.
        let (field, words) = text.trim_matches('"').split_once(':').unwrap_or(("displayName", text));
        let words = words.to_lowercase();
        objects.retain(|o| o[field].as_str().is_some_and(|v| v.to_lowercase().contains(&words)));
    }
    if only_count {
        let mut reply = Reply::empty(StatusCode::OK).with("content-type", "text/plain");
        reply.raw = Some(objects.len().to_string().into());
        return Ok(reply);
    }
    let count = objects.len();
    let top = match cx.call.query("$top").map(str::parse::<usize>) {
        None => PAGE,
        Some(Ok(n)) if (1..=MAX_PAGE).contains(&n) => n,
        Some(_) => return Err(bad("Invalid page size specified: it must be between 1 and 999.")),
    };
    if let Some(token) = cx.call.query("$skiptoken") {
        let after = arm::SkipToken::decode(token).ok_or_else(|| bad("The skip token is invalid."))?.0;
        objects.retain(|o| o["id"].as_str().is_some_and(|id| id > after.as_str()));
    }
    let more = objects.len() > top;
    objects.truncate(top);
    let mut body = json!({"@odata.context": context(cx, what)});
    if cx.call.query("$count") == Some("true") {
        body["@odata.count"] = count.into();
    }
    if let Some(last) = objects.last().and_then(|o| o["id"].as_str()).filter(|_| more) {
        let kept = cx.call.query.iter().filter(|(k, _)| !k.eq_ignore_ascii_case("$skiptoken"));
        let query = url::form_urlencoded::Serializer::new(String::new())
            .extend_pairs(kept)
            .append_pair("$skiptoken", &arm::SkipToken(last.to_owned()).encode())
            .finish();
        body["@odata.nextLink"] = format!("{}{}?{query}", cx.call.base, cx.call.path).into();
    }
    let selected: Vec<Value> = objects.into_iter().map(|o| select(cx, o)).collect();
    body["value"] = selected.into();
    Ok(Reply::ok(body))
}

/// What `$select` names of an object.
pub fn select(cx: &Cx<'_>, object: Value) -> Value {
    let Some(wanted) = cx.call.query("$select") else { return object };
    let wanted: Vec<&str> = wanted.split(',').map(str::trim).collect();
    match object {
        Value::Object(m) => Value::Object(
            m.into_iter()
                .filter(|(k, _)| {
                    k.starts_with('@') || k == "id" || wanted.iter().any(|w| w.eq_ignore_ascii_case(k))
                })
                .collect(),
        ),
        other => other,
    }
}
