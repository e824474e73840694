//! Resource types as data.
//!
//! A type is a row: its name, first api-version, wire pattern and measured times, embedded lists, references. A
//! [`Rules`] implementation says only what a row cannot: validation, generated fields, what is shown.
//!
//! A resource is one tree. Subnets, security rules, routes, frontends and the like live in their parent's
//! document ([`Part`]): they are also addressable, but share its etag, its lock and its operation, as the real
//! network provider has it.

mod addresses;
mod compute;
mod compute_disks;
mod compute_images;
mod compute_parts;
mod compute_sizes;
mod compute_vm;
mod compute_vm_checks;
mod compute_vm_disks;
mod compute_vm_show;
mod dns;
pub use dns::{is_record_set, merge_record};
mod identity;
mod network;
mod network_parts;
mod private_endpoint;
mod private_link;
pub mod registry;
mod shape;
mod show;
pub mod storage;
pub mod vault;

pub use compute_disks::owner as disk_owner;
pub use compute_images::{Image, MARKET};
pub use compute_parts::{HIDDEN, text as compute_text};
pub use compute_sizes::{Size, size, sizes};
pub use compute_vm::{MACHINES, Power, power};
pub use compute_vm_show::instance_view;
pub use private_link::{connection, decide, disconnect, visible_alias};
pub use shape::{Names, check as check_shape};
pub use show::{show, show_part};

use crate::state::{Edge, Key, Record, State};
use crate::wire::Fault;
use arm::{ApiVersion, ErrorDetail, ResourceId};
use jiff::Timestamp;
use serde_json::{Map, Value};
use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::LazyLock;

/// How a call is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum How {
    /// At once.
    Sync,
    /// 201 or 200 with the body in progress and `Azure-AsyncOperation`; 202 for deletes, with `Location` too.
    Async,
    /// As `Async`, but the body is already done and no `Retry-After` is given.
    AsyncDone,
    /// 202 `{}` with `Azure-AsyncOperation` and `Location`; the status is answered with 202 while it runs.
    Accepted,
    /// 200 with the body in progress and no header: the resource itself is asked until it is done.
    Body,
    /// 202 without a body, with `Location` only; it answers with the resource in the end.
    Located,
    /// 202 with the body in progress, `Azure-AsyncOperation` and `Location`.
    AcceptedBody,
}

/// A wire pattern, its first `Retry-After` and its time in seconds.
#[derive(Clone, Copy, Debug)]
pub struct Flow {
    pub how: How,
    pub retry: u32,
    pub lasts: f64,
}

const SYNC: Flow = Flow { how: How::Sync, retry: 0, lasts: 0.0 };

pub const fn flow(how: How, retry: u32, lasts: f64) -> Flow {
    Flow { how, retry, lasts }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Located {
    Regional,
    Global,
    Nowhere,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Etag {
    /// `W/"guid"`, also in the body.
    Weak,
    /// A bare guid, also in the body.
    Plain,
    None,
}

/// Where operations of the type are asked about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operations {
    /// `{subscription}/providers/{namespace}/locations/{location}/operations/{id}`.
    ByLocation,
    /// `{group}/providers/{namespace}/{prefix}OperationStatuses/{id}`.
    ByGroup(&'static str),
    /// `{subscription}/providers/{namespace}/locations/{location}/asyncoperations/{id}?monitor=true`.
    Monitor,
    /// As `ByLocation`, but the result is the status with `monitor=true`, and the status says when.
    Compute,
    /// As `Compute` at `DiskOperations`, and the status carries what came of it.
    Disks,
}

/// A reference in a document: an object with an `id`, or a list of such.
#[derive(Clone, Copy, Debug)]
pub struct Ref {
    pub at: &'static [&'static str],
    /// What the caller must be allowed to do with the target.
    pub action: &'static str,
    /// The target's property that shows the referrer, or empty.
    pub back: &'static str,
    pub one: bool,
    /// Whether the target need not be there: it is made with the referrer, or the type's rules look.
    pub loose: bool,
}

/// A list of named sub-objects inside of a document.
#[derive(Clone, Copy, Debug)]
pub struct Part {
    /// The property and the path segment.
    pub list: &'static str,
    pub verb: &'static str,
    pub create: Flow,
    pub delete: Flow,
    pub refs: &'static [Ref],
    pub parts: &'static [Part],
    pub defaults: fn(&mut Map<String, Value>),
    /// The code that refuses removing an element in use; empty if nothing refuses.
    pub in_use: &'static str,
}

/// What `prepare` may look at.
pub struct Prep<'a> {
    pub state: &'a State,
    pub id: &'a ResourceId,
    pub old: Option<&'a Record>,
    pub version: &'a ApiVersion,
    pub now: Timestamp,
}

/// What a row cannot say.
pub trait Rules: Send + Sync {
    /// Actions that linking needs and that depend on what is linked to, with the target of each.
    fn links(&self, _doc: &Map<String, Value>) -> Vec<(Cow<'static, str>, String)> {
        Vec::new()
    }

    /// Validates, sets defaults, generates. `doc` has `properties`.
    fn prepare(&self, _: &Prep<'_>, _doc: &mut Map<String, Value>) -> Result<(), Fault> {
        Ok(())
    }

    /// What appears when provisioning ends.
    fn settled(&self, _: &State, _: &mut Record) {}

    /// Computed fields, and fields that older versions do not have.
    fn show(&self, _: &State, _: &Record, _: &ApiVersion, _out: &mut Map<String, Value>) {}

    /// Refuses a delete beyond references.
    fn may_delete(&self, _: &State, _: &Record) -> Result<(), Fault> {
        Ok(())
    }

    /// An error that shows only when the operation ends.
    fn fails_late(&self, _: &State, _: &ResourceId, _doc: &Map<String, Value>) -> Option<ErrorDetail> {
        None
    }

    /// Another wire pattern than the row's, because of what is written.
    fn flow(&self, _doc: &Map<String, Value>) -> Option<Flow> {
        None
    }

    /// What else a create makes.
    fn created(&self, _: &mut State, _: &Record, _: Timestamp) {}

    /// Whether `PATCH` merges the whole document instead of tags only.
    fn patches(&self) -> bool {
        false
    }

    /// What `$expand` adds.
    fn expand(&self, _: &State, _: &Record, _: &ApiVersion, _what: &str, _out: &mut Map<String, Value>) {}

    /// How the answer to a write differs from what is shown later.
    fn answered(&self, _out: &mut Map<String, Value>) {}

    /// The document after a `PATCH`; `None` if only tags can be patched.
    fn patched(&self, _: &Record, _change: &Map<String, Value>) -> Option<Map<String, Value>> {
        None
    }

    /// The provider's own words for what is missing.
    fn missing(&self, _: &ResourceId) -> Option<Fault> {
        None
    }

    /// What else changes when a write is over, well or not.
    fn after(&self, _: &mut State, _: &Key, _: Timestamp) {}

    /// What an action does when it is over.
    fn acted(&self, _: &mut State, _: &Key, _action: &str, _: Timestamp) {}

    /// What else goes when a resource is gone.
    fn removed(&self, _: &mut State, _: &Record, _: Timestamp) {}

    /// Whether somebody outside ends a create; until when at most, and what is said if nobody does.
    fn awaits(&self, _: &State) -> Option<(f64, ErrorDetail)> {
        None
    }

    /// The id that is shown and stored, if the provider spells it its own way.
    fn spell(&self, id: &ResourceId) -> ResourceId {
        id.clone()
    }
}

struct NoRules;

impl Rules for NoRules {}

pub struct Kind {
    number: usize,
    pub namespace: &'static str,
    pub path: &'static str,
    pub since: &'static str,
    pub located: Located,
    pub create: Flow,
    pub update: Flow,
    pub delete: Flow,
    pub etag: Etag,
    pub operations: Operations,
    pub parts: &'static [Part],
    pub refs: &'static [Ref],
    pub in_use: &'static str,
    pub verb: &'static str,
    pub rules: &'static dyn Rules,
    /// What its names may be.
    pub names: Names,
    /// Whether the resource shows a `provisioningState`.
    pub stateful: bool,
    /// Whether the type shows `tags` when there are none.
    pub always_tags: bool,
    /// Whether it has a time-out of its own on the `resources` list (top-level, tracked).
    pub tracked: bool,
    /// The status of a create that is answered with a body.
    pub made: u16,
}

impl std::fmt::Debug for Kind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.namespace, self.path)
    }
}

const BASE: Kind = Kind {
    number: 0,
    namespace: "Microsoft.Network",
    path: "",
    since: "2015-05-01",
    located: Located::Regional,
    create: SYNC,
    update: SYNC,
    delete: SYNC,
    etag: Etag::Weak,
    operations: Operations::ByLocation,
    parts: &[],
    refs: &[],
    in_use: "",
    verb: "",
    rules: &NoRules,
    names: Names::Network(80),
    stateful: true,
    always_tags: false,
    tracked: true,
    made: 201,
};

impl Kind {
    pub fn index(&self) -> usize {
        self.number
    }

    pub fn full(&self) -> String {
        format!("{}/{}", self.namespace, self.path)
    }

    pub fn part(&self, list: &str) -> Option<&'static Part> {
        self.parts.iter().find(|p| p.list.eq_ignore_ascii_case(list))
    }

    /// Whether a child of another record.
    pub fn nested(&self) -> bool {
        self.path.contains('/')
    }
}

/// All rows.
pub static TABLE: LazyLock<Vec<Kind>> = LazyLock::new(|| {
    let mut rows = vec![groups(), deployments(), locks(), assignments(), definitions(), proxied()];
    rows.extend(network::rows());
    rows.extend(dns::rows());
    rows.extend(identity::rows());
    rows.extend(vault::rows());
    rows.extend(storage::rows());
    rows.extend(registry::rows());
    rows.extend(compute::rows());
    rows.extend(private_endpoint::rows());
    rows.extend(private_link::rows());
    for (i, r) in rows.iter_mut().enumerate() {
        r.number = i;
    }
    rows
});

static BY_NAME: LazyLock<HashMap<String, &'static Kind>> =
    LazyLock::new(|| TABLE.iter().map(|k| (k.full().to_lowercase(), k)).collect());

/// The row of a full type name.
pub fn kind(full: &str) -> Option<&'static Kind> {
    BY_NAME.get(&full.to_lowercase()).copied()
}

/// The row that a remembered record was of.
pub fn stored_kind(full: &str) -> Option<&'static Kind> {
    match full {
        PROXIED => Some(proxied_kind()),
        _ => kind(full),
    }
}

/// The row of everything that providers elsewhere hold. No request names it.
const PROXIED: &str = "/";

pub fn proxied_kind() -> &'static Kind {
    kind(PROXIED).unwrap_or(&TABLE[0])
}

pub fn is_proxied(kind: &Kind) -> bool {
    kind.namespace.is_empty()
}

fn proxied() -> Kind {
    Kind { namespace: "", path: "", etag: Etag::None, ..BASE }
}

/// The row of a full type name that may be that of a part.
pub fn resolve(full: &str) -> Option<(&'static Kind, Option<&'static Part>)> {
    if let Some(k) = kind(full) {
        return Some((k, None));
    }
    let (parent, list) = full.rsplit_once('/')?;
    let k = kind(parent)?;
    Some((k, Some(k.part(list)?)))
}

const GROUPS: &str = "Microsoft.Resources/resourceGroups";
pub const DEPLOYMENTS: &str = "Microsoft.Resources/deployments";
pub const LOCKS: &str = "Microsoft.Authorization/locks";
pub const ASSIGNMENTS: &str = "Microsoft.Authorization/roleAssignments";
pub const DEFINITIONS: &str = "Microsoft.Authorization/roleDefinitions";

/// The rows of types that the gateway itself answers for.
pub fn group_kind() -> &'static Kind {
    kind(GROUPS).unwrap_or(&TABLE[0])
}

fn groups() -> Kind {
    Kind {
        namespace: "Microsoft.Resources",
        path: "resourceGroups",
        etag: Etag::None,
        tracked: false,
        ..BASE
    }
}

fn deployments() -> Kind {
    Kind {
        namespace: "Microsoft.Resources",
        path: "deployments",
        located: Located::Nowhere,
        etag: Etag::None,
        tracked: false,
        ..BASE
    }
}

fn authorization(path: &'static str) -> Kind {
    Kind {
        namespace: "Microsoft.Authorization",
        path,
        located: Located::Nowhere,
        etag: Etag::None,
        names: Names::Own,
        stateful: false,
        tracked: false,
        ..BASE
    }
}

fn locks() -> Kind {
    authorization("locks")
}

fn assignments() -> Kind {
    authorization("roleAssignments")
}

fn definitions() -> Kind {
    authorization("roleDefinitions")
}

/// All references of a document.
pub fn edges(kind: &Kind, id: &ResourceId, doc: &Map<String, Value>) -> Vec<Edge> {
    let mut out = Vec::new();
    collect(&mut out, kind.refs, id.as_str(), doc);
    in_parts(&mut out, kind.parts, id.as_str(), doc);
    out
}

fn in_parts(out: &mut Vec<Edge>, parts: &[Part], id: &str, doc: &Map<String, Value>) {
    for part in parts {
        let list = doc.get("properties").and_then(|p| p.get(part.list)).and_then(Value::as_array);
        for element in list.into_iter().flatten().filter_map(Value::as_object) {
            let name = element.get("name").and_then(Value::as_str).unwrap_or_default();
            let id = format!("{id}/{}/{name}", part.list);
            collect(out, part.refs, &id, element);
            in_parts(out, part.parts, &id, element);
        }
    }
}

fn collect(out: &mut Vec<Edge>, refs: &[Ref], source: &str, doc: &Map<String, Value>) {
    for r in refs {
        let Some((first, rest)) = r.at.split_first() else { continue };
        let Some(found) = doc.get(*first) else { continue };
        referred(found, rest, &mut |target| {
            out.push(Edge {
                target: target.trim_end_matches('/').to_lowercase().into(),
                source: source.to_lowercase().into(),
                back: r.back,
                one: r.one,
                loose: r.loose,
                text: source.into(),
            });
        });
    }
}

/// The ids at a place: of objects that have one or of texts that are one; lists are gone through.
fn referred(v: &Value, path: &[&str], found: &mut dyn FnMut(&str)) {
    match (v, path.split_first()) {
        (Value::Array(list), _) => list.iter().for_each(|e| referred(e, path, found)),
        (Value::Object(m), Some((first, rest))) => {
            if let Some(next) = m.get(*first) {
                referred(next, rest, found);
            }
        }
        (Value::Object(m), None) => {
            if let Some(id) = m.get("id").and_then(Value::as_str) {
                found(id);
            }
        }
        (Value::String(id), None) if id.starts_with('/') => found(id),
        _ => {}
    }
}

/// The action that linking to `target` needs, if the row names one, or the type's rules.
pub fn link_actions(
    kind: &Kind,
    id: &ResourceId,
    doc: &Map<String, Value>,
) -> Vec<(Cow<'static, str>, String)> {
    let mut out = kind.rules.links(doc);
    let mut of = |refs: &'static [Ref], doc: &Map<String, Value>| {
        for r in refs.iter().filter(|r| !r.action.is_empty()) {
            let mut edges = Vec::new();
            collect(&mut edges, std::slice::from_ref(r), id.as_str(), doc);
            out.extend(edges.into_iter().map(|e| (r.action.into(), e.target.to_string())));
        }
    };
    of(kind.refs, doc);
    for part in kind.parts {
        let list = doc.get("properties").and_then(|p| p.get(part.list)).and_then(Value::as_array);
        for element in list.into_iter().flatten().filter_map(Value::as_object) {
            of(part.refs, element);
        }
    }
    out
}

pub fn targets(edges: &[Edge]) -> Vec<Key> {
    let mut t: Vec<Key> = edges.iter().map(|e| e.target.clone()).collect();
    t.sort();
    t.dedup();
    t
}

/// The properties of a document, made if absent.
pub fn properties(doc: &mut Map<String, Value>) -> &mut Map<String, Value> {
    let p = doc.entry("properties").or_insert_with(|| Value::Object(Map::new()));
    if !p.is_object() {
        *p = Value::Object(Map::new());
    }
    match p {
        Value::Object(m) => m,
        // Made an object just above.
        _ => unreachable!("properties is an object"),
    }
}

pub fn default(doc: &mut Map<String, Value>, name: &str, value: impl Into<Value>) {
    if doc.get(name).is_none_or(Value::is_null) {
        doc.insert(name.to_owned(), value.into());
    }
}
