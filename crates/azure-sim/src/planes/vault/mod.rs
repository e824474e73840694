//! The data plane of Key Vault: secrets, keys and certificates at `{vault}.vault.azure.net`.
//!
//! A call without a token is answered with the challenge that names the tenant and the audience. Then the vault's own
//! choice decides: role assignments with data actions, or access policies. Deleted objects stay for the vault's
//! retention and can be recovered or purged; their names are taken until then. Keys that have to be made are made
//! before anything is locked.

mod certificates;
pub mod crypto;
mod keys;
mod objects;
mod secrets;
mod x509;

pub use crypto::Material;
pub use objects::{Holds, Object, Recovery, Sort, Version};

use crate::entra::Caller;
use crate::planes::{Ask, Cx, Datum, record_of};
use crate::state::{Phase, Record, State};
use crate::wire::Reply;
use http::{Method, StatusCode};
use serde_json::{Map, Value, json};
use std::sync::Arc;

const AUDIENCE: &str = "https://vault.azure.net";

/// A refusal, with the words of the service.
#[derive(Clone, Debug)]
pub struct Refusal {
    status: StatusCode,
    code: &'static str,
    message: String,
    inner: Option<&'static str>,
}

impl Refusal {
    pub fn new(status: StatusCode, code: &'static str, message: impl Into<String>) -> Refusal {
        Refusal { status, code, message: message.into(), inner: None }
    }

    pub fn bad(message: impl Into<String>) -> Refusal {
        Refusal::new(StatusCode::BAD_REQUEST, "BadParameter", message)
    }

    pub fn inner(mut self, code: &'static str) -> Refusal {
        self.inner = Some(code);
        self
    }

    pub fn status(&self) -> StatusCode {
        self.status
    }

    pub fn message(&self) -> &str {
        &self.message
    }

    fn reply(self) -> Reply {
        let mut error = json!({"code": self.code, "message": self.message});
        if let Some(code) = self.inner {
            error["innererror"] = json!({"code": code});
        }
        Reply::json(self.status, json!({"error": error}))
    }
}

/// What a call is about.
pub struct Room<'a> {
    pub state: &'a mut State,
    pub vault: Arc<Record>,
    /// Lower case.
    pub name: String,
    pub now: i64,
}

impl Room<'_> {
    pub fn open(state: &mut State, vault: Arc<Record>, now: i64) -> Room<'_> {
        let name = vault.id.name().to_lowercase();
        Room { state, vault, name, now }
    }

    pub fn base(&self) -> String {
        format!("https://{}.vault.azure.net", self.name)
    }

    fn key(&self, sort: Sort, name: &str) -> String {
        format!("v/{}/{}/{}", self.name, sort.path(), name.to_lowercase())
    }

    pub fn recovery(&self) -> Recovery {
        let days = self.vault.property("softDeleteRetentionInDays").and_then(Value::as_i64).unwrap_or(90);
        let protected =
            self.vault.property("enablePurgeProtection").and_then(Value::as_bool).unwrap_or(false);
        Recovery { days, protected }
    }

    /// An object, deleted or not; one whose time is up is gone.
    fn any(&self, sort: Sort, name: &str) -> Option<&Object> {
        match self.state.data.get(&self.key(sort, name)) {
            Some(Datum::Object(o)) if o.deleted.is_none_or(|(_, until)| until > self.now) => Some(o),
            _ => None,
        }
    }

    pub fn object(&self, sort: Sort, name: &str) -> Option<&Object> {
        self.any(sort, name).filter(|o| o.deleted.is_none() && !o.versions.is_empty())
    }

    pub fn put(&mut self, object: Object) {
        let key = self.key(object.sort, &object.name);
        self.state.data.put(&key, Datum::Object(Box::new(object)));
    }

    pub fn remove(&mut self, sort: Sort, name: &str) {
        let key = self.key(sort, name);
        self.state.data.remove(&key);
    }

    pub fn missing(&self, sort: Sort, name: &str) -> Refusal {
        let (word, link) = match sort {
            Sort::Secret => ("SecretNotFound", "2125182"),
            Sort::Key => ("KeyNotFound", "2125182"),
            Sort::Certificate => ("CertificateNotFound", "2125182"),
        };
        let what = sort.word().to_lowercase();
        Refusal::new(
            StatusCode::NOT_FOUND,
            word,
            format!(
                "A {what} with (name/id) {name} was not found in this key vault. If you recently deleted this {what} you may be able to recover it using the correct recovery command. For help resolving this issue, please see https://go.microsoft.com/fwlink/?linkid={link}"
            ),
        )
    }

    /// Refuses a name that a deleted object still holds, or that a certificate holds.
    pub fn free(&self, sort: Sort, name: &str) -> Result<(), Refusal> {
        let Some(o) = self.any(sort, name) else { return Ok(()) };
        if o.deleted.is_some() {
            return Err(Refusal::new(
                StatusCode::CONFLICT,
                "Conflict",
                format!(
                    "{} {name} is currently in a deleted but recoverable state, and its name cannot be reused; in this state, the {} can only be recovered or purged.",
                    sort.word(),
                    sort.word().to_lowercase()
                ),
            )
            .inner("ObjectIsDeletedButRecoverable"));
        }
        if o.managed {
            return Err(Refusal::new(
                StatusCode::FORBIDDEN,
                "Forbidden",
                format!(
                    "Operation is not allowed on a managed {}: change its certificate.",
                    sort.word().to_lowercase()
                ),
            ));
        }
        Ok(())
    }

    /// A version id: 32 hex digits that depend on the seed and on how many there were.
    pub fn version_id(&mut self, sort: Sort, name: &str) -> String {
        let key: crate::state::Key = self.key(sort, name).into();
        self.state.bump(&key);
        self.state.guid(&key, "version").replace('-', "")
    }

    /// What clients see of a version.
    pub fn shown(&self, o: &Object, v: &Version) -> Value {
        match o.sort {
            Sort::Secret => secrets::shown(self, o, v),
            Sort::Key => keys::shown(self, o, v),
            Sort::Certificate => certificates::shown(self, o, v),
        }
    }

    fn deleted_fields(&self, o: &Object, out: &mut Value) {
        if let Some((at, until)) = o.deleted {
            out["recoveryId"] = format!("{}/deleted{}/{}", self.base(), o.sort.path(), o.name).into();
            out["deletedDate"] = at.into();
            out["scheduledPurgeDate"] = until.into();
        }
    }
}

pub fn name_ok(name: &str) -> bool {
    (1..=127).contains(&name.len()) && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-')
}

/// A key that was made before anything was locked.
pub struct Made(pub Material);

/// What a request does: the data action, the word of access policies.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Deed {
    sort: Sort,
    name: String,
    action: String,
    permission: &'static str,
}

struct Path {
    sort: Sort,
    deleted: bool,
    /// After the collection.
    words: Vec<String>,
}

fn path(ask: &Ask) -> Option<Path> {
    let mut words: Vec<String> = ask
        .raw_path
        .split('/')
        .skip(1)
        .map(|w| percent_encoding::percent_decode_str(w).decode_utf8().map(|c| c.into_owned()))
        .collect::<Result<_, _>>()
        .ok()?;
    while words.last().is_some_and(String::is_empty) {
        words.pop();
    }
    if words.is_empty() || words.len() > 6 {
        return None;
    }
    let (sort, deleted) = Sort::parse(&words.remove(0))?;
    Some(Path { sort, deleted, words })
}

fn deed(method: &Method, p: &Path) -> Option<Deed> {
    let words: Vec<String> = p.words.iter().map(|w| w.to_lowercase()).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let name = p.words.first().cloned().unwrap_or_default();
    let of = |verb: &str, permission| {
        Some(Deed {
            sort: p.sort,
            name: name.clone(),
            action: format!("Microsoft.KeyVault/vaults/{}/{verb}", p.sort.path()),
            permission,
        })
    };
    let (read, list) = match p.sort {
        Sort::Secret => ("getSecret/action", "readMetadata/action"),
        _ => ("read", "read"),
    };
    match (method.as_str(), p.deleted, words.as_slice()) {
        ("GET", _, []) => of(list, "list"),
        ("GET", true, [_]) => of(list, "get"),
        ("POST", true, [_, "recover"]) => of("recover/action", "recover"),
        ("DELETE", true, [_]) => of("purge/action", "purge"),
        (_, true, _) => None,
        ("GET", _, [_, "versions"]) => of(list, "list"),
        ("POST", _, ["restore"]) => of("restore/action", "restore"),
        ("POST", _, [_, "backup"]) => of("backup/action", "backup"),
        ("DELETE", _, [_]) => of("delete", "delete"),
        ("PUT", _, [_]) if p.sort == Sort::Secret => of("setSecret/action", "set"),
        ("PUT", _, [_]) if p.sort == Sort::Key => of("import/action", "import"),
        ("PATCH", _, [_] | [_, _]) if p.sort == Sort::Secret => of("update/action", "set"),
        ("PATCH", _, [_] | [_, _]) => of("update/action", "update"),
        ("POST", _, [_, "create"]) if p.sort != Sort::Secret => of("create/action", "create"),
        ("POST", _, [_, "import"]) if p.sort == Sort::Certificate => of("import/action", "import"),
        ("GET", _, [_, "pending"] | [_, "policy"]) if p.sort == Sort::Certificate => of("read", "get"),
        ("DELETE", _, [_, "pending"]) if p.sort == Sort::Certificate => of("delete", "delete"),
        ("POST", _, [_, "pending", "merge"]) if p.sort == Sort::Certificate => of("create/action", "create"),
        ("POST", _, [_, "rotate"]) if p.sort == Sort::Key => of("rotate/action", "rotate"),
        (_, _, [_, "rotationpolicy"]) if p.sort == Sort::Key => {
            let (verb, permission) = match method.as_str() {
                "GET" => ("read", "getrotationpolicy"),
                "PUT" => ("write", "setrotationpolicy"),
                _ => return None,
            };
            let action = format!("Microsoft.KeyVault/vaults/keyrotationpolicies/{verb}");
            Some(Deed { sort: p.sort, name, action, permission })
        }
        ("POST", _, [_, _, verb]) if p.sort == Sort::Key => match *verb {
            "encrypt" => of("encrypt/action", "encrypt"),
            "decrypt" => of("decrypt/action", "decrypt"),
            "sign" => of("sign/action", "sign"),
            "verify" => of("verify/action", "verify"),
            "wrapkey" => of("wrap/action", "wrapKey"),
            "unwrapkey" => of("unwrap/action", "unwrapKey"),
            _ => None,
        },
        ("GET", _, [_] | [_, _]) => of(read, "get"),
        _ => None,
    }
}

fn challenge(state: &State, why: &str) -> Reply {
    let tenant = &state.tenant;
    let header = format!(
        "Bearer authorization=\"https://login.microsoftonline.com/{tenant}\", resource=\"{AUDIENCE}\""
    );
    let body = json!({"error": {"code": "Unauthorized", "message": why}});
    Reply::json(StatusCode::UNAUTHORIZED, body).with("www-authenticate", &header)
}

/// Whether the vault lets the caller do it.
fn permit(room: &Room<'_>, cx: &mut Cx<'_>, caller: &Caller, deed: &Deed) -> Result<(), Refusal> {
    let vault = &room.vault;
    let scope = match deed.name.as_str() {
        "" => vault.id.as_str().to_owned(),
        name => format!("{}/{}/{name}", vault.id, deed.sort.path()),
    };
    let place = vault.location().unwrap_or_default();
    let who = format!(
        "appid={};oid={};iss=https://sts.windows.net/{}/",
        caller.client_id, caller.object_id, caller.tenant
    );
    if vault.property("enableRbacAuthorization").and_then(Value::as_bool) == Some(true) {
        if cx.allowed(room.state, caller, &deed.action, &scope, true) {
            return Ok(());
        }
        return Err(Refusal::new(
            StatusCode::FORBIDDEN,
            "Forbidden",
            format!(
                "Caller is not authorized to perform action on resource.\r\nIf role assignments, deny assignments or role definitions were changed recently, please observe propagation time.\r\nCaller: {who}\r\nAction: '{}'\r\nResource: '{scope}'\r\nAssignment: (not found)\r\nDenyAssignmentId: null\r\nDecisionReason: null \r\nVault: {};location={place}\r\n",
                deed.action, room.name
            ),
        )
        .inner("ForbiddenByRbac"));
    }
    let policies = vault.property("accessPolicies").and_then(Value::as_array);
    let granted = policies.into_iter().flatten().any(|p| {
        let is = |field: &str, want: &str| p[field].as_str().is_some_and(|v| v.eq_ignore_ascii_case(want));
        let app = p["applicationId"].as_str().is_none_or(|a| a.eq_ignore_ascii_case(&caller.client_id));
        let list = p["permissions"][deed.sort.path()].as_array();
        let has = |v: &Value| {
            v.as_str()
                .is_some_and(|v| v.eq_ignore_ascii_case(deed.permission) || v.eq_ignore_ascii_case("all"))
        };
        is("objectId", &caller.object_id) && app && list.into_iter().flatten().any(has)
    });
    cx.note(&deed.action, &scope, granted.then(|| format!("{}/accessPolicies", vault.id)));
    if granted {
        return Ok(());
    }
    Err(Refusal::new(
        StatusCode::FORBIDDEN,
        "Forbidden",
        format!(
            "The user, group or application '{who}' does not have {} {} permission on key vault '{};location={place}'. For help resolving this issue, please see https://go.microsoft.com/fwlink/?linkid=2125287",
            deed.sort.path(), deed.permission, room.name
        ),
    )
    .inner("AccessDenied"))
}

/// Everything before the deed itself.
fn admit<'a>(state: &'a mut State, cx: &mut Cx<'_>, ask: &Ask) -> Result<(Room<'a>, Path, Deed), Reply> {
    let Some(record) = record_of(state, &ask.host).cloned() else {
        return Err(Refusal::new(StatusCode::NOT_FOUND, "VaultNotFound", "The vault was not found.").reply());
    };
    if record.phase == Phase::Deleting || !record.kind.path.eq_ignore_ascii_case("vaults") {
        let why = format!("The vault '{}' was deleted.", ask.name());
        return Err(Refusal::new(StatusCode::NOT_FOUND, "VaultNotFound", why).reply());
    }
    let Some(caller) = cx.bearer(state, ask, &[AUDIENCE]) else {
        let why = match ask.call.header("authorization") {
            None => "AKV10000: Request is missing a Bearer or PoP token.",
            Some(_) => {
                "AKV10022: Invalid audience, issuer, lifetime or signature of the token. Expected https://vault.azure.net."
            }
        };
        return Err(challenge(state, why));
    };
    let version = ask.call.query("api-version").unwrap_or_default();
    if !(version.starts_with("7.") || version.starts_with("2016-10-01") || version.starts_with("20")) {
        let why = format!(
            "The specified version ({version}) is not recognized. Consider using the latest supported version (2025-07-01)."
        );
        return Err(Refusal::bad(why).reply());
    }
    let unknown = || {
        Refusal::new(
            StatusCode::BAD_REQUEST,
            "BadParameter",
            format!("Method {} does not allow operation ''", ask.call.method),
        )
        .reply()
    };
    let p = path(ask).ok_or_else(unknown)?;
    let deed = deed(&ask.call.method, &p).ok_or_else(unknown)?;
    let now = cx.now.as_second();
    let room = Room::open(state, record, now);
    permit(&room, cx, &caller, &deed).map_err(Refusal::reply)?;
    if !deed.name.is_empty() && !name_ok(&deed.name) {
        let why = format!(
            "The request URI contains an invalid name: {}",
            deed.name.chars().take(130).collect::<String>()
        );
        return Err(Refusal::bad(why).reply());
    }
    Ok((room, p, deed))
}

/// Makes the key that a request will need, if it is allowed at all.
pub fn make(state: &mut State, cx: &mut Cx<'_>, ask: &Ask) -> Option<Made> {
    if ask.call.method != Method::POST {
        return None;
    }
    let (mut room, p, _) = admit(state, cx, ask).ok()?;
    let body = body(ask).ok()?;
    let wanted = match (p.sort, p.words.get(1).map(|w| w.to_lowercase()).as_deref()) {
        (Sort::Key, Some("create")) => keys::wanted(&body).ok()?,
        (Sort::Key, Some("rotate")) => keys::kind_of(&room, p.words.first()?)?,
        (Sort::Certificate, Some("create")) => certificates::wanted(&mut room, p.words.first()?, &body)?,
        _ => return None,
    };
    Material::generate(wanted).ok().map(Made)
}

pub fn serve(state: &mut State, cx: &mut Cx<'_>, ask: &Ask, made: Option<&Made>) -> (Reply, bool) {
    let (mut room, p, deed) = match admit(state, cx, ask) {
        Ok(x) => x,
        Err(reply) => return (headers(reply), false),
    };
    certificates::settle(&mut room);
    let reads = ask.call.method == Method::GET
        || matches!(
            deed.permission,
            "encrypt" | "decrypt" | "sign" | "verify" | "wrapKey" | "unwrapKey" | "backup"
        );
    let result = answer(&mut room, cx, ask, &p, made);
    match result {
        Ok(reply) => (headers(reply), !reads),
        Err(refusal) => (headers(refusal.reply()), false),
    }
}

fn headers(reply: Reply) -> Reply {
    reply
        .with("cache-control", "no-cache")
        .with("x-ms-keyvault-service-version", "1.9.2484.1")
        .with("x-ms-keyvault-network-info", "conn_type=Ipv4;addr=127.0.0.1;act_addr_fam=InterNetwork;")
        .with("strict-transport-security", "max-age=31536000;includeSubDomains")
        .with("x-content-type-options", "nosniff")
}

fn body(ask: &Ask) -> Result<Value, Refusal> {
    if ask.call.body.iter().all(u8::is_ascii_whitespace) {
        return Ok(json!({}));
    }
    let v: Value = serde_json::from_slice(&ask.call.body)
        .map_err(|_| Refusal::bad("The request body could not be parsed as JSON."))?;
    match v.is_object() {
        true => Ok(v),
        false => Err(Refusal::bad("The request body must be a JSON object.")),
    }
}

pub(in crate::planes) fn tags(body: &Value) -> Result<Option<Map<String, Value>>, Refusal> {
    match &body["tags"] {
        Value::Null => Ok(None),
        Value::Object(m) if m.len() <= 15 && m.values().all(Value::is_string) => Ok(Some(m.clone())),
        _ => Err(Refusal::bad("Property tags has invalid value: at most 15 names with text.")),
    }
}

fn answer(
    room: &mut Room<'_>,
    cx: &Cx<'_>,
    ask: &Ask,
    p: &Path,
    made: Option<&Made>,
) -> Result<Reply, Refusal> {
    let body = match ask.call.method {
        Method::GET | Method::DELETE => json!({}),
        _ => body(ask)?,
    };
    let words: Vec<&str> = p.words.iter().map(String::as_str).collect();
    let lower: Vec<String> = p.words.iter().map(|w| w.to_lowercase()).collect();
    let lower: Vec<&str> = lower.iter().map(String::as_str).collect();
    match (ask.call.method.as_str(), p.deleted, lower.as_slice()) {
        ("GET", deleted, []) => list(room, ask, p.sort, deleted),
        ("GET", true, [_]) => get_deleted(room, p.sort, words[0]),
        ("POST", true, [_, "recover"]) => recover(room, p.sort, words[0]),
        ("DELETE", true, [_]) => purge(room, p.sort, words[0]),
        ("GET", false, [_, "versions"]) => versions(room, ask, p.sort, words[0]),
        ("DELETE", false, [_]) => delete(room, p.sort, words[0]),
        ("POST", false, [_, "backup"]) => backup(room, p.sort, words[0]),
        ("POST", false, ["restore"]) => restore(room, p.sort, &body),
        _ => match p.sort {
            Sort::Secret => secrets::answer(room, &ask.call.method, &words, &body),
            Sort::Key => keys::answer(room, &ask.call.method, &words, &body, made),
            Sort::Certificate => certificates::answer(room, cx, &ask.call.method, &words, &body, made),
        },
    }
}

/// Objects of a collection, a page at a time.
fn list(room: &Room<'_>, ask: &Ask, sort: Sort, deleted: bool) -> Result<Reply, Refusal> {
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

fn versions(room: &Room<'_>, ask: &Ask, sort: Sort, name: &str) -> Result<Reply, Refusal> {
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

fn deleted_shown(room: &Room<'_>, o: &Object) -> Value {
    let mut out = o.versions.last().map_or_else(|| json!({}), |v| room.shown(o, v));
    if let Some(m) = out.as_object_mut() {
        m.remove("value");
    }
    room.deleted_fields(o, &mut out);
    out
}

/// The certificate's key and secret share its fate.
fn bound(sort: Sort) -> &'static [Sort] {
    match sort {
        Sort::Certificate => &[Sort::Certificate, Sort::Key, Sort::Secret],
        Sort::Key => &[Sort::Key],
        Sort::Secret => &[Sort::Secret],
    }
}

fn delete(room: &mut Room<'_>, sort: Sort, name: &str) -> Result<Reply, Refusal> {
    let found = room.object(sort, name).ok_or_else(|| room.missing(sort, name))?;
    if found.managed {
        room.free(sort, name)?;
    }
    let until = room.now + room.recovery().days * 86_400;
    let mut shown = Value::Null;
    for s in bound(sort) {
        let Some(mut o) = room.object(*s, name).cloned() else { continue };
        o.deleted = Some((room.now, until));
        o.pending = None;
        if *s == sort {
            shown = deleted_shown(room, &o);
        }
        room.put(o);
    }
    Ok(Reply::ok(shown))
}

fn deleted<'a>(room: &'a Room<'_>, sort: Sort, name: &str) -> Result<&'a Object, Refusal> {
    room.any(sort, name).filter(|o| o.deleted.is_some()).ok_or_else(|| {
        Refusal::new(
            StatusCode::NOT_FOUND,
            match sort {
                Sort::Secret => "SecretNotFound",
                Sort::Key => "KeyNotFound",
                Sort::Certificate => "CertificateNotFound",
            },
            format!("Deleted {} not found: {name}", sort.word()),
        )
    })
}

fn get_deleted(room: &Room<'_>, sort: Sort, name: &str) -> Result<Reply, Refusal> {
    Ok(Reply::ok(deleted_shown(room, deleted(room, sort, name)?)))
}

fn recover(room: &mut Room<'_>, sort: Sort, name: &str) -> Result<Reply, Refusal> {
    deleted(room, sort, name)?;
    let mut shown = Value::Null;
    for s in bound(sort) {
        let Some(mut o) = room.any(*s, name).cloned() else { continue };
        o.deleted = None;
        if *s == sort {
            shown = o.versions.last().map_or(Value::Null, |v| room.shown(&o, v));
            if let Some(m) = shown.as_object_mut() {
                m.remove("value");
            }
        }
        room.put(o);
    }
    Ok(Reply::ok(shown))
}

fn purge(room: &mut Room<'_>, sort: Sort, name: &str) -> Result<Reply, Refusal> {
    deleted(room, sort, name)?;
    if room.recovery().protected {
        return Err(Refusal::new(
            StatusCode::FORBIDDEN,
            "Forbidden",
            "Operation \"purge\" is not allowed because purge protection is enabled for this vault. Key Vault service will automatically purge it after the retention period has passed.",
        )
        .inner("ForbiddenByPolicy"));
    }
    for s in bound(sort) {
        room.remove(*s, name);
    }
    Ok(Reply::empty(StatusCode::NO_CONTENT))
}

/// A backup is good in any vault of this simulator's world; it holds the private parts, sealed against reading only
/// by being opaque.
fn backup(room: &Room<'_>, sort: Sort, name: &str) -> Result<Reply, Refusal> {
    use base64::Engine;
    let o = room.object(sort, name).ok_or_else(|| room.missing(sort, name))?;
    let bytes = serde_json::to_vec(o).unwrap_or_default();
    let text = base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(bytes);
    Ok(Reply::ok(json!({"value": text})))
}

fn restore(room: &mut Room<'_>, sort: Sort, body: &Value) -> Result<Reply, Refusal> {
    use base64::Engine;
    let bad = || Refusal::bad("Backup blob contains invalid or corrupt data.");
    let bytes = base64::engine::general_purpose::URL_SAFE_NO_PAD
        .decode(body["value"].as_str().unwrap_or_default())
        .map_err(|_| bad())?;
    let o: Object = serde_json::from_slice(&bytes).map_err(|_| bad())?;
    if o.sort != sort || !name_ok(&o.name) || o.versions.is_empty() {
        return Err(bad());
    }
    if room.any(sort, &o.name).is_some() {
        return Err(Refusal::new(
            StatusCode::CONFLICT,
            "Conflict",
            format!("{} '{}' already exists in this vault.", sort.word(), o.name),
        ));
    }
    let shown = o.versions.last().map_or(Value::Null, |v| room.shown(&o, v));
    room.put(o);
    Ok(Reply::ok(shown))
}

/// Ends every issuance that waits; for those who drive time by hand.
pub fn finish(state: &mut State) -> usize {
    let due: Vec<(String, Object)> = state
        .data
        .range("v/", None)
        .filter_map(|(k, d)| match d {
            Datum::Object(o) if o.pending.as_ref().is_some_and(|p| !p.done && p.issued.is_some()) => {
                Some((k.to_owned(), (**o).clone()))
            }
            _ => None,
        })
        .collect();
    for (key, mut o) in due.iter().cloned() {
        if let Some(p) = &mut o.pending {
            p.due = Some(0);
        }
        state.data.put(&key, Datum::Object(Box::new(o)));
    }
    due.len()
}

pub use keys::{create_by_arm as create_key_by_arm, shown_by_arm as key_shown_by_arm};
pub use secrets::{set_by_arm as set_secret_by_arm, shown_by_arm as secret_shown_by_arm};

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn asked(method: &str, raw_path: &str) -> Option<Deed> {
        let call = crate::wire::Call {
            method: method.parse().unwrap(),
            path: raw_path.into(),
            query: Vec::new(),
            headers: http::HeaderMap::new(),
            body: bytes::Bytes::new(),
            base: String::new(),
        };
        let ask = Ask {
            plane: crate::planes::Plane::Vault,
            host: "v.vault.azure.net".into(),
            raw_path: raw_path.into(),
            raw_query: String::new(),
            call,
            upload: None,
        };
        deed(&method.parse().unwrap(), &path(&ask)?)
    }

    #[test]
    fn deeds_have_their_actions() {
        let cases = [
            ("GET", "/secrets/", "secrets/readMetadata/action", "list"),
            ("GET", "/secrets/a/", "secrets/getSecret/action", "get"),
            ("GET", "/secrets/a/0123", "secrets/getSecret/action", "get"),
            ("PUT", "/secrets/a", "secrets/setSecret/action", "set"),
            ("POST", "/keys/k//encrypt", "keys/encrypt/action", "encrypt"),
            ("POST", "/keys/k/v/wrapkey", "keys/wrap/action", "wrapKey"),
            ("POST", "/certificates/c/create", "certificates/create/action", "create"),
            ("GET", "/certificates/c/pending", "certificates/read", "get"),
            ("DELETE", "/deletedkeys/k", "keys/purge/action", "purge"),
            ("POST", "/deletedsecrets/s/recover", "secrets/recover/action", "recover"),
            ("GET", "/keys/k/rotationpolicy", "keyrotationpolicies/read", "getrotationpolicy"),
        ];
        for (method, path, action, permission) in cases {
            let d = asked(method, path).unwrap();
            assert_eq!(d.action, format!("Microsoft.KeyVault/vaults/{action}"), "{method} {path}");
            assert_eq!(d.permission, permission, "{method} {path}");
        }
        for (method, path) in
            [("POST", "/secrets/a/create"), ("PUT", "/certificates/c"), ("GET", "/x"), ("GET", "/")]
        {
            assert_eq!(asked(method, path), None, "{method} {path}");
        }
    }

    proptest! {
        #[test]
        fn paths_never_panic(method in "GET|PUT|POST|PATCH|DELETE", path in "(/(secrets|keys|certificates|deletedkeys|a|%2f|%ff|\\.\\.|create||versions)){0,8}") {
            let _ = asked(&method, &path);
        }
    }
}
