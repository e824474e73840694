//! The data plane of Key Vault: secrets, keys and certificates at `{vault}.vault.azure.net`.
//!
//! A call without a token is answered with the challenge that names the tenant and the audience. Then the vault's own
//! choice decides: role assignments with data actions, or access policies. Deleted objects stay for the vault's
//! retention and can be recovered or purged; their names are taken until then. Keys that have to be made are made
//! before anything is locked.

mod certificates;
pub mod crypto;
mod deleted;
mod keys;
mod lists;
mod objects;
mod room;
mod secrets;
mod x509;

pub use crypto::Material;
pub use objects::{Object, Sort};

pub use room::{Refusal, Room, name_ok};

use crate::entra::Caller;
use crate::planes::{Ask, Cx, Datum, record_of};
use crate::state::{Phase, State};
use crate::wire::Reply;
use deleted::{backup, delete, get_deleted, purge, recover, restore};
use http::{Method, StatusCode};
use lists::{list, versions};
use serde_json::{Map, Value, json};

const AUDIENCE: &str = "https://vault.azure.net";

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
