//! A container registry at `{name}.azurecr.io`: the OCI distribution protocol, Azure's token endpoints, and the part of
//! Azure's own `/acr/v1` that its tools read.
//!
//! A token of Entra ID is exchanged for a refresh token, that for an access token with the scopes that the caller's
//! roles allow (`pull/read`, `push/write`, `artifacts/delete`). What is uploaded counts only once its digest is
//! verified; a manifest only once everything it names is there.

mod acr;
mod distribution;
mod tokens;

use crate::planes::contents::Chunk;
use crate::planes::{Ask, Cx, Datum, record_of};
use crate::state::{Record, Secret, State};
use crate::wire::Reply;
use http::StatusCode;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::sync::Arc;

pub use distribution::import;

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Passwords {
    pub passwords: [Secret; 2],
}

/// A blob of a repository.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Layer {
    pub chunks: Vec<Chunk>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Manifest {
    pub content: Chunk,
    pub media: String,
    pub created: Timestamp,
    /// What is known of it: sizes, config, subject, platform.
    pub about: Value,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Tag {
    pub digest: String,
    pub created: Timestamp,
    pub updated: Timestamp,
}

/// An upload under way.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Session {
    pub repository: String,
    pub chunks: Vec<Chunk>,
}

/// A refusal with the codes of the OCI protocol.
#[derive(Clone, Debug)]
pub struct Refusal {
    status: StatusCode,
    code: &'static str,
    message: String,
    challenge: Option<String>,
}

impl Refusal {
    pub fn new(status: StatusCode, code: &'static str, message: impl Into<String>) -> Refusal {
        Refusal { status, code, message: message.into(), challenge: None }
    }

    pub fn message(&self) -> String {
        format!("{}: {}", self.code, self.message)
    }

    fn reply(self) -> Reply {
        let body = json!({"errors": [{"code": self.code, "message": self.message, "detail": null}]});
        let reply = Reply::json(self.status, body).with("docker-distribution-api-version", "registry/2.0");
        match self.challenge {
            Some(c) => reply.with("www-authenticate", &c),
            None => reply,
        }
    }
}

pub fn name_ok(name: &str) -> bool {
    let part = |p: &str| {
        !p.is_empty()
            && p.bytes()
                .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || matches!(b, b'.' | b'_' | b'-'))
            && p.starts_with(|c: char| c.is_ascii_alphanumeric())
            && p.ends_with(|c: char| c.is_ascii_alphanumeric())
            && !p.contains("..")
    };
    name.len() <= 255 && name.split('/').all(part)
}

pub fn tag_ok(tag: &str) -> bool {
    (1..=128).contains(&tag.len())
        && tag.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-'))
        && !tag.starts_with(['.', '-'])
}

pub fn digest_ok(digest: &str) -> bool {
    digest
        .strip_prefix("sha256:")
        .is_some_and(|h| h.len() == 64 && h.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b)))
}

/// A request with what it is about.
pub struct Desk<'a> {
    pub state: &'a mut State,
    pub ask: &'a Ask,
    /// Lower case.
    pub registry: String,
    pub record: Arc<Record>,
    pub now: Timestamp,
}

impl Desk<'_> {
    pub fn key(&self, kind: &str, repository: &str, name: &str) -> String {
        key(&self.registry, kind, repository, name)
    }
}

/// Repositories have no colon in their names, so what belongs to one is a range.
pub fn key(registry: &str, kind: &str, repository: &str, name: &str) -> String {
    format!("{kind}/{registry}/{repository}:{name}")
}

pub fn serve(state: &mut State, cx: &mut Cx<'_>, ask: &Ask) -> (Reply, bool) {
    let Some(record) = record_of(state, &ask.host).cloned() else {
        return (Refusal::new(StatusCode::NOT_FOUND, "NAME_UNKNOWN", "no such registry").reply(), false);
    };
    let registry = record.id.name().to_lowercase();
    let now = cx.now;
    let mut desk = Desk { state, ask, registry, record, now };
    let path = ask.call.path.clone();
    let result = match path.as_str() {
        "/oauth2/exchange" => tokens::exchange(&desk, cx).map(|r| (r, false)),
        "/oauth2/token" => tokens::token(&desk, cx).map(|r| (r, false)),
        p if p == "/v2" || p.starts_with("/v2/") => {
            distribution::serve(&mut desk, cx, p.trim_start_matches("/v2").trim_start_matches('/'))
        }
        p => match p.strip_prefix("/acr/v1/") {
            Some(rest) => acr::serve(&mut desk, cx, rest),
            None => Err(Refusal::new(StatusCode::NOT_FOUND, "UNSUPPORTED", "The operation is unsupported.")),
        },
    };
    match result {
        Ok((reply, wrote)) => (reply.with("docker-distribution-api-version", "registry/2.0"), wrote),
        Err(refusal) => (refusal.reply(), false),
    }
}

pub fn created(state: &mut State, record: &Record) {
    let name = record.id.name().to_lowercase();
    let passwords = [0, 1].map(|i| new_password(state, &name, i));
    state.data.put(&format!("rp/{name}"), Datum::Passwords(Box::new(Passwords { passwords })));
    state.data.set_host(&format!("{name}.azurecr.io"), record.id.key());
}

pub fn new_password(state: &mut State, registry: &str, index: usize) -> Secret {
    let key: crate::state::Key = format!("rp/{registry}/{index}").into();
    state.bump(&key);
    Secret::new(&format!("{:032x}{:020x}", state.derive(&key, "password"), state.derive(&key, "more") >> 48))
}

pub fn passwords<'a>(state: &'a State, registry: &str) -> Option<&'a Passwords> {
    match state.data.get(&format!("rp/{registry}")) {
        Some(Datum::Passwords(p)) => Some(p),
        _ => None,
    }
}

pub fn removed(state: &mut State, record: &Record) {
    let name = record.id.name().to_lowercase();
    state.data.remove(&format!("rp/{name}"));
    for kind in ["rl", "rm", "rt", "ru"] {
        state.data.remove_all(&format!("{kind}/{name}/"));
    }
    state.data.remove_host(&format!("{name}.azurecr.io"));
}

/// The repositories of a registry, in order.
pub fn repositories(state: &State, registry: &str) -> Vec<String> {
    let prefix = format!("rm/{registry}/");
    let mut all: Vec<String> = state
        .data
        .range(&prefix, None)
        .filter_map(|(k, _)| Some(k.strip_prefix(&prefix)?.split_once(':')?.0.to_owned()))
        .collect();
    all.sort();
    all.dedup();
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn names_as_the_protocol_has_them() {
        for good in ["a", "a/b-c/d.e_f", "library/ubuntu"] {
            assert!(name_ok(good), "{good}");
        }
        for bad in ["", "A", "a/", "/a", "a//b", "a/../b", "-a", "a-", "a:b", "a..b", "é"] {
            assert!(!name_ok(bad), "{bad}");
        }
        assert!(
            tag_ok("v1.0_x-Y") && !tag_ok(".x") && !tag_ok("") && !tag_ok("a/b") && !tag_ok(&"x".repeat(129))
        );
        assert!(digest_ok(&format!("sha256:{}", "0a".repeat(32))));
        assert!(
            !digest_ok("sha256:00")
                && !digest_ok(&format!("sha256:{}", "0A".repeat(32)))
                && !digest_ok("md5:x")
        );
    }

    proptest! {
        #[test]
        fn names_never_leave_their_registry(name in "[a-z/.:_\\-]{0,20}") {
            if name_ok(&name) {
                prop_assert!(!name.contains(':') && !name.contains("..") && !name.starts_with('/'));
            }
        }
    }
}
