//! Data planes: what lies behind the host names that resources have.
//!
//! A vault, an account, a registry each answer at a host of their own. Whose host it is, is looked up in the state
//! (`host/…` leads to the resource), so a name exists exactly as long as its resource. A request is worked on with a
//! copy of the state; a refused one leaves nothing behind. Who may do what is decided by the evaluator that decides
//! for Resource Manager, with data actions; every call is in the journal with its principal, data action, scope and
//! the assignment that allowed it.
//!
//! What is stored lies in one ordered map: keys begin with what they belong to, so the contents of a container are a
//! range and a removed account takes its range with it. Bytes lie beside it ([`contents`]).

pub mod blob;
pub mod contents;
pub mod front_door;
pub mod registry;
pub mod vault;
mod xml;

pub use contents::{Contents, Slice, Upload};

use crate::entra::{Caller, Keys};
use crate::gateway::Seen;
use crate::profile::Pace;
use crate::state::{Key, Record, State};
use crate::trouble::Due;
use crate::wire::{Call, Reply};
use crate::world::World;
use http::{Method, StatusCode};
use imbl::OrdMap;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::ops::Bound;
use std::sync::Arc;

/// One thing that a data plane stores.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Datum {
    /// Whose a host name is.
    Host(Key),
    /// A secret, key or certificate of a vault with its versions.
    Object(Box<vault::Object>),
    AccountKeys(Box<blob::AccountKeys>),
    Service(Box<blob::Service>),
    Container(Box<blob::Container>),
    Blob(Box<blob::Blob>),
    /// Blocks that wait to be committed.
    Blocks(Box<blob::Blocks>),
    /// A small object of Resource Manager's that a provider keeps by itself.
    Doc(Box<Doc>),
    Passwords(Box<registry::Passwords>),
    Layer(Box<registry::Layer>),
    Manifest(Box<registry::Manifest>),
    Tag(Box<registry::Tag>),
    Session(Box<registry::Session>),
    FrontDoor(Box<front_door::Config>),
}

/// A version of itself: another allocation is another version.
impl PartialEq for Datum {
    fn eq(&self, other: &Datum) -> bool {
        std::ptr::eq(self, other)
    }
}

impl Eq for Datum {}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Doc {
    pub value: Value,
    pub at: Timestamp,
    pub etag: String,
}

/// Everything that data planes store.
#[derive(Clone, Debug, Default)]
pub struct Data {
    pub map: OrdMap<Arc<str>, Arc<Datum>>,
    pub contents: Contents,
}

impl Data {
    pub fn get(&self, key: &str) -> Option<&Datum> {
        self.map.get(key).map(|d| &**d)
    }

    pub fn put(&mut self, key: &str, mut datum: Datum) {
        match &mut datum {
            Datum::Blob(b) => b.chunks.iter_mut().for_each(|c| c.attach(&self.contents)),
            Datum::Blocks(b) => b.waiting.iter_mut().for_each(|(_, c)| c.attach(&self.contents)),
            Datum::Layer(l) => l.chunks.iter_mut().for_each(|c| c.attach(&self.contents)),
            Datum::Session(s) => s.chunks.iter_mut().for_each(|c| c.attach(&self.contents)),
            Datum::Manifest(m) => m.content.attach(&self.contents),
            _ => {}
        }
        self.map.insert(key.into(), Arc::new(datum));
    }

    pub fn remove(&mut self, key: &str) -> Option<Arc<Datum>> {
        self.map.remove(key)
    }

    /// All whose keys begin so, after `after` if it is given.
    pub fn range<'a>(
        &'a self,
        prefix: &str,
        after: Option<&str>,
    ) -> impl Iterator<Item = (&'a str, &'a Datum)> + use<'a> {
        let from = match after {
            Some(a) if a >= prefix => Bound::Excluded(Arc::from(a)),
            _ => Bound::Included(Arc::from(prefix)),
        };
        let prefix = prefix.to_owned();
        self.map
            .range::<_, Arc<str>>((from, Bound::Unbounded))
            .take_while(move |(k, _)| k.starts_with(&prefix))
            .map(|(k, d)| (&**k, &**d))
    }

    pub fn remove_all(&mut self, prefix: &str) {
        let gone: Vec<String> = self.range(prefix, None).map(|(k, _)| k.to_owned()).collect();
        for k in gone {
            self.map.remove(k.as_str());
        }
    }

    pub fn host(&self, host: &str) -> Option<&Key> {
        match self.get(&format!("host/{host}")) {
            Some(Datum::Host(key)) => Some(key),
            _ => None,
        }
    }

    pub fn set_host(&mut self, host: &str, key: &Key) {
        self.put(&format!("host/{host}"), Datum::Host(key.clone()));
    }

    pub fn remove_host(&mut self, host: &str) {
        self.remove(&format!("host/{host}"));
    }
}

/// Which plane a host belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Plane {
    Vault,
    Blob,
    Web,
    Registry,
    FrontDoor,
}

/// Hosts of front doors: Azure's own, and names in the zones of the simulator.
const FRONT_DOORS: [&str; 2] = [".azurefd.net", ".zaffre.test"];

impl Plane {
    pub fn of(host: &str) -> Option<Plane> {
        let label = |suffix: &str| {
            host.strip_suffix(suffix).is_some_and(|n| {
                (2..=63).contains(&n.len()) && n.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-')
            })
        };
        if label(".vault.azure.net") {
            return Some(Plane::Vault);
        }
        if label(".blob.core.windows.net") {
            return Some(Plane::Blob);
        }
        if label(".azurecr.io") {
            return Some(Plane::Registry);
        }
        if let Some((name, zone)) = host.strip_suffix(".web.core.windows.net").and_then(|h| h.split_once('.'))
            && zone.strip_prefix('z').is_some_and(|n| n.len() <= 2 && n.parse::<u8>().is_ok())
            && !name.is_empty()
            && name.bytes().all(|b| b.is_ascii_alphanumeric())
        {
            return Some(Plane::Web);
        }
        let dotted = host.len() <= 253
            && host.split('.').all(|l| {
                !l.is_empty() && l.len() <= 63 && l.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-')
            });
        (dotted && FRONT_DOORS.iter().any(|s| host.ends_with(s))).then_some(Plane::FrontDoor)
    }

    /// The name that a certificate for the host is made for: hosts are many, their domains few.
    pub fn certificate_name(self, host: &str) -> String {
        match (self, host.split_once('.')) {
            (Plane::FrontDoor, _) | (_, None) => host.to_owned(),
            (_, Some((_, domain))) => format!("*.{domain}"),
        }
    }
}

/// A request to a data plane.
#[derive(Debug)]
pub struct Ask {
    pub plane: Plane,
    /// Lower case, without port.
    pub host: String,
    /// As the client wrote it.
    pub raw_path: String,
    pub raw_query: String,
    pub call: Call,
    /// The body, if it is one that is stored.
    pub upload: Option<Upload>,
}

impl Ask {
    /// The first label of the host.
    pub fn name(&self) -> &str {
        self.host.split('.').next().unwrap_or_default()
    }

    /// Whether the body of such a request is stored rather than read.
    pub fn stores(plane: Plane, method: &Method, path: &str, query: &str) -> bool {
        match plane {
            Plane::Blob => {
                let comp = query.split('&').find_map(|p| p.strip_prefix("comp="));
                *method == Method::PUT && !query.contains("restype=") && matches!(comp, None | Some("block"))
            }
            Plane::Registry => {
                path.contains("/blobs/uploads")
                    && matches!(*method, Method::PUT | Method::PATCH | Method::POST)
            }
            _ => false,
        }
    }
}

/// What a plane works with beside the request and the state.
pub struct Cx<'a> {
    pub keys: &'a Keys,
    pub now: Timestamp,
    pub profile: Pace,
    pub seen: Seen,
    pub random: &'a dyn Fn() -> String,
    /// What is to go wrong with the request.
    pub due: &'a Due,
}

impl Cx<'_> {
    /// The bearer of a token for one of the audiences.
    pub fn bearer(&mut self, state: &State, ask: &Ask, audiences: &[&str]) -> Option<Caller> {
        let header = ask.call.header("authorization");
        let caller = self.keys.authenticate_for(header, &state.tenant, audiences, self.now)?;
        self.seen.principal = Some(caller.object_id.clone());
        Some(caller)
    }

    /// Whether a role gives the data action at the scope; written down either way.
    pub fn allowed(&mut self, state: &State, caller: &Caller, action: &str, scope: &str, data: bool) -> bool {
        let by = state.assignments.allowed(&caller.object_id, action, &scope.to_lowercase(), data);
        self.note(action, scope, by.map(|a| a.id.to_string()));
        by.is_some()
    }

    /// What was needed and what granted it, for the journal.
    pub fn note(&mut self, action: &str, scope: &str, granted_by: Option<String>) {
        self.seen.action = Some(action.to_owned());
        self.seen.scope = Some(scope.to_owned());
        self.seen.granted_by = granted_by;
    }
}

/// The record that a host leads to.
pub fn record_of<'a>(state: &'a State, host: &str) -> Option<&'a Arc<Record>> {
    state.get(state.data.host(host)?)
}

fn nobody(host: &str) -> Reply {
    let message = format!("No such host is known: '{host}'. In Azure the name would not resolve.");
    Reply::json(StatusCode::NOT_FOUND, json!({"error": {"code": "HostNotFound", "message": message}}))
}

fn serve(state: &mut State, cx: &mut Cx<'_>, ask: &Ask, made: Option<&vault::Made>) -> (Reply, bool) {
    match ask.plane {
        Plane::Vault => vault::serve(state, cx, ask, made),
        Plane::Blob => blob::serve(state, cx, ask),
        Plane::Web => (blob::web(state, ask), false),
        Plane::Registry => registry::serve(state, cx, ask),
        Plane::FrontDoor => (front_door::serve(state, ask), false),
    }
}

impl World {
    /// Answers for a data plane.
    pub fn plane(&self, ask: &Ask) -> Reply {
        self.plane_under(ask, &Due::default())
    }

    /// The same, with what is to go wrong.
    pub(crate) fn plane_under(&self, ask: &Ask, due: &Due) -> Reply {
        let now = self.now();
        let random = || self.uuid();
        let seen = Seen { fault: due.text(), ..Seen::default() };
        let mut cx = Cx { keys: &self.keys, now, profile: self.pace(), seen, random: &random, due };
        // Worked on beside the world: reading, or making a key, keeps nobody waiting.
        let reads = matches!(ask.call.method, Method::GET | Method::HEAD);
        let stale = due.stale.filter(|_| reads).and_then(|how| self.earlier(how, now));
        let mut copy = match stale {
            Some((then, _)) => then,
            None => self.look(State::clone),
        };
        copy.settle(now);
        if ask.plane != Plane::FrontDoor && record_of(&copy, &ask.host).is_none() {
            let web = ask.plane == Plane::Web && blob::account_of_web(&copy, &ask.host).is_some();
            if !web {
                return nobody(&ask.host);
            }
        }
        let made = match ask.plane {
            Plane::Vault => vault::make(&mut copy, &mut cx, ask),
            _ => None,
        };
        let (mut reply, wrote) = serve(&mut copy, &mut cx, ask, made.as_ref());
        if wrote {
            // Once more, with what others did meanwhile; only this counts.
            let written = self.change(|state| {
                state.settle(now);
                let mut next = state.clone();
                let (again, _) = serve(&mut next, &mut cx, ask, made.as_ref());
                if again.status.is_success() {
                    self.keep_earlier(state, now);
                    *state = next;
                }
                reply = again;
            });
            if let Err(error) = written {
                tracing::error!(%error, "a request was refused: it cannot be remembered");
                reply = Reply::json(
                    StatusCode::SERVICE_UNAVAILABLE,
                    json!({"error": {"code": "ServiceUnavailable", "message": "The simulator cannot write to its data directory."}}),
                );
            }
        }
        let seen = std::mem::take(&mut cx.seen);
        self.note_call(&ask.call, &format!("https://{}{}", ask.host, ask.call.path), &reply, seen, now);
        reply
    }

    /// Asks a data plane by URL, without sockets; `None` if no plane has such a host.
    pub fn ask_plane(
        &self,
        method: &Method,
        url: &str,
        headers: http::HeaderMap,
        body: bytes::Bytes,
    ) -> Option<Reply> {
        let (host, target) =
            url.strip_prefix("https://")?.split_at_checked(url[8..].find('/').unwrap_or(url.len() - 8))?;
        let host = host.to_ascii_lowercase();
        let plane = Plane::of(&host)?;
        let (raw_path, raw_query) = target.split_once('?').unwrap_or((target, ""));
        let stores = Ask::stores(plane, method, raw_path, raw_query);
        let upload = if stores { Some(self.contents().put(&body).ok()?) } else { None };
        let call = Call {
            method: method.clone(),
            path: percent_encoding::percent_decode_str(raw_path).decode_utf8_lossy().into_owned(),
            query: url::form_urlencoded::parse(raw_query.as_bytes()).into_owned().collect(),
            headers,
            body: if stores { bytes::Bytes::new() } else { body },
            base: format!("https://{host}"),
        };
        let (raw_path, raw_query) = (raw_path.to_owned(), raw_query.to_owned());
        Some(self.plane(&Ask { plane, host, raw_path, raw_query, call, upload }))
    }

    /// What the simulator itself publishes at a URL: from an account, its website or a front door.
    pub fn published(&self, url: &url::Url) -> Option<Reply> {
        let host = url.host_str()?.to_ascii_lowercase();
        let plane = Plane::of(&host)?;
        if url.scheme() != "https" || url.port().is_some() || matches!(plane, Plane::Vault | Plane::Registry)
        {
            return None;
        }
        self.ask_plane(&Method::GET, url.as_str(), http::HeaderMap::new(), bytes::Bytes::new())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn hosts_belong_to_planes() {
        let cases = [
            ("kv-1.vault.azure.net", Some(Plane::Vault)),
            ("acct.blob.core.windows.net", Some(Plane::Blob)),
            ("acct.z5.web.core.windows.net", Some(Plane::Web)),
            ("reg.azurecr.io", Some(Plane::Registry)),
            ("x.azurefd.net", Some(Plane::FrontDoor)),
            ("westus2.oic.example.zaffre.test", Some(Plane::FrontDoor)),
            ("a.b.vault.azure.net", None),
            ("vault.azure.net", None),
            (".vault.azure.net", None),
            ("acct.5.web.core.windows.net", None),
            ("evil.test", None),
            ("x..zaffre.test", None),
        ];
        for (host, want) in cases {
            assert_eq!(Plane::of(host), want, "{host}");
        }
        assert_eq!(Plane::Web.certificate_name("a.z5.web.core.windows.net"), "*.z5.web.core.windows.net");
    }

    proptest! {
        #[test]
        fn never_panics(host in "[a-z.\\-0-9é]{0,40}(\\.vault\\.azure\\.net|\\.web\\.core\\.windows\\.net|\\.azurefd\\.net)?") {
            if let Some(p) = Plane::of(&host) {
                let _ = p.certificate_name(&host);
            }
        }
    }
}
