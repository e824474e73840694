//! Server-side apply.

use super::conflict::Conflict;
use super::entries::{ManagedEntry, Managers, Operation};
use super::update::{Versions, record};
use super::{BOOKS, Types, Writer, last_applied, managed_fields, put_managed_fields, recordable};
use crate::fieldset::{Element, Entry, Set};
use crate::typed::{self, Diff};
use ek_meta::Node;
use serde_json::{Map, Value};
use std::borrow::Cow;
use std::collections::BTreeMap;

/// Whose fields an object's existing content becomes when somebody applies to it for the first time.
const BEFORE_FIRST_APPLY: &str = "before-first-apply";

/// What an apply leads to.
#[derive(Clone, Debug, PartialEq)]
pub struct Applied<'a> {
    /// The object to store, with its managed fields; the live object itself if nothing changed, which is the
    /// common case of controllers that apply on every round.
    pub object: Cow<'a, Value>,
    /// Whether it differs from the live object in any byte.
    pub changed: bool,
}

#[derive(Debug, thiserror::Error)]
pub enum ApplyError {
    #[error("{}", super::conflict_message(.0))]
    Conflicts(Vec<Conflict>),
    #[error("metadata.managedFields must be nil")]
    ManagedFields,
    /// Fields that are not declared, items that are not identified or that occur twice.
    #[error("failed to create typed patch object ({namespace}/{name}; {api_version}, Kind={kind}): {}", list(.errors))]
    Invalid { namespace: String, name: String, api_version: String, kind: String, errors: Vec<String> },
}

/// A version as errors show it: the core group is there, though empty.
pub fn group_version(api_version: &str) -> String {
    if api_version.contains('/') { api_version.to_owned() } else { format!("/{api_version}") }
}

fn list(errors: &[String]) -> String {
    match errors {
        [one] => one.clone(),
        many => format!("errors:\n  {}", many.join("\n  ")),
    }
}

/// Merges `config`, the whole intent of one manager, into `live`. `reset` names what the endpoint ignores:
/// it is neither merged nor owned.
pub fn apply<'a>(
    types: &dyn Types,
    live: Option<&'a Value>,
    config: &Value,
    writer: &Writer<'_>,
    force: bool,
    reset: &Set,
) -> Result<Applied<'a>, ApplyError> {
    match managed_fields(config) {
        None | Some(Value::Null) => {}
        Some(Value::Array(a)) if a.is_empty() => {}
        Some(_) => return Err(ApplyError::ManagedFields),
    }
    let node = types.node(writer.api_version);
    let claimed = typed::read(config, node).map_err(|errors| invalid(config, writer, errors))?;
    let claimed = recordable(claimed, reset);
    let said = config;
    let config = heard(config, reset, node);
    let ignored = matches!(config, Cow::Owned(_)) && live.is_some_and(|l| !typed::covers(l, said, node));
    let attempt = Attempt { types, live, config: &config, claimed, writer, reset, node, ignored };
    if let Some(live) = live.filter(|live| attempt.is_satisfied(live)) {
        return Ok(Applied { object: Cow::Borrowed(live), changed: false });
    }
    match attempt.run(force) {
        Ok(applied) => Ok(applied),
        Err(conflicts) => {
            // kubectl moving from client-side to server-side apply: fields its own annotation proves are its
            // own are no conflict, whoever the books name.
            let allowed = live
                .filter(|_| writer.manager == last_applied::KUBECTL)
                .and_then(|live| last_applied::own_fields(live, node))
                .unwrap_or_default();
            let left: Vec<Conflict> = conflicts
                .iter()
                .flat_map(|(entry, set)| {
                    let paths = set.difference(&allowed).paths();
                    paths.into_iter().map(|p| Conflict::new(entry, p.to_string()))
                })
                .collect();
            if !left.is_empty() {
                return Err(ApplyError::Conflicts(left));
            }
            attempt.run(true).map_err(|_| ApplyError::Conflicts(left))
        }
    }
}

fn invalid(config: &Value, writer: &Writer<'_>, errors: Vec<String>) -> ApplyError {
    let text = |path: &[&str]| ek_meta::object::str_at(config, path).unwrap_or_default().to_owned();
    ApplyError::Invalid {
        namespace: text(&["metadata", "namespace"]),
        name: text(&["metadata", "name"]),
        api_version: group_version(writer.api_version),
        kind: text(&["kind"]),
        errors,
    }
}

/// The part of the configuration this endpoint listens to, without an empty list of managed fields.
fn heard<'a>(config: &'a Value, reset: &Set, node: Option<Node<'_>>) -> Cow<'a, Value> {
    let mentions = |e: &Entry| !matches!(&e.element, Element::Field(name) if config.get(&**name).is_none());
    if managed_fields(config).is_none() && !reset.entries().iter().any(mentions) {
        return Cow::Borrowed(config);
    }
    let mut config = config.clone();
    typed::remove_items(&mut config, reset, node);
    super::take_managed_fields(&mut config);
    Cow::Owned(config)
}

/// What each other manager would lose.
type Losses = Vec<(ManagedEntry, Set)>;

/// What this manager applied last time.
enum Last<'l> {
    Nothing,
    /// The same paths as now, as the books have them; only values may differ.
    Same(&'l Map<String, Value>),
    Other(ManagedEntry),
}

struct Attempt<'a, 'l> {
    types: &'a dyn Types,
    live: Option<&'l Value>,
    config: &'a Value,
    claimed: Set,
    writer: &'a Writer<'a>,
    reset: &'a Set,
    node: Option<Node<'a>>,
    /// It would change something the endpoint does not listen to.
    ignored: bool,
}

impl<'l> Attempt<'_, 'l> {
    /// The live object already is what is asked for and the books already say so. Decided without building
    /// anything, for the many applies that come only to make sure.
    fn is_satisfied(&self, live: &Value) -> bool {
        let entries = managed_fields(live).and_then(Value::as_array);
        let Some(own) = entries.and_then(|list| list.iter().find(|e| self.is_own(e))) else { return false };
        own.get("apiVersion").and_then(Value::as_str) == Some(self.writer.api_version)
            && own.get("fieldsV1").is_some_and(|f| self.claimed.is_wire(f))
            && typed::covers(live, self.config, self.node)
            && !last_applied::refresh_due(live, self.writer.manager)
    }

    /// Whether an entry of the books is the one this manager applies under.
    fn is_own(&self, e: &Value) -> bool {
        let text = |k: &str| e.get(k).and_then(Value::as_str).unwrap_or("");
        text("manager") == self.writer.manager
            && text("operation") == "Apply"
            && text("subresource") == self.writer.subresource
    }

    /// The books of an object to which the manager applies the same paths as before: everybody else's entry
    /// read, its own left as it is. `None` where it takes a closer look.
    fn same_paths(&self, live: &'l Value) -> Option<(Managers, Last<'l>)> {
        let list = managed_fields(live)?.as_array()?;
        let one_version =
            |e: &Value| e.get("apiVersion").and_then(Value::as_str) == Some(self.writer.api_version);
        let at = list.iter().position(|e| self.is_own(e))?;
        let own = list[at].as_object()?;
        let same = list.iter().all(one_version)
            && own.get("fieldsType").and_then(Value::as_str) == Some("FieldsV1")
            && own.get("fieldsV1").is_some_and(|f| self.claimed.is_wire(f))
            && !list[at + 1..].iter().any(|e| self.is_own(e));
        if !same {
            return None;
        }
        let others = list.iter().enumerate().filter(|(i, _)| *i != at).map(|(_, e)| e);
        Some((Managers::decode_entries(others).ok()?, Last::Same(own)))
    }

    fn books(&self, live: &'l Value) -> (Managers, Last<'l>) {
        if let Some(books) = self.same_paths(live) {
            return books;
        }
        let writer = self.writer;
        let mut managers = Managers::decode_or_empty(managed_fields(live));
        let own = managers.position(writer.manager, Operation::Apply, writer.subresource, writer.api_version);
        let last = own.map_or(Last::Nothing, |i| Last::Other(managers.entries.remove(i)));
        (managers, last)
    }

    fn run(&self, force: bool) -> Result<Applied<'l>, Losses> {
        let writer = self.writer;
        let claimed = &self.claimed;
        let Some(live) = self.live else {
            let mut object = self.config.clone();
            let mut managers = Managers::default();
            managers.entries.push(self.entry(Some(writer.now.to_owned())));
            managers.drop_empty();
            put_managed_fields(&mut object, managers.encode());
            return Ok(Applied { object: Cow::Owned(object), changed: true });
        };

        let (mut managers, last) = self.books(live);
        let first = managers.is_empty() && matches!(last, Last::Nothing);
        if first {
            let before = Writer { manager: BEFORE_FIRST_APPLY, ..*writer };
            record(self.types, None, live, &mut managers, &before, self.reset);
        }

        let mut merged = without_books(live);
        typed::merge_into(&mut merged, self.config, self.node);
        if let Last::Other(last) = &last {
            merged = self.prune(merged, &managers, last, claimed);
        }

        let diff = typed::compare(live, &merged, self.node).without(&BOOKS).without(self.reset);
        let changes_value = !diff.is_empty() || !same_but_books(live, &merged);
        let takes = self.settle(&mut managers, live, &merged, diff, force)?;

        let same_claim = match &last {
            Last::Same(_) => true,
            Last::Other(l) => l.fields == *claimed && l.api_version == writer.api_version,
            Last::Nothing => claimed.is_empty(),
        };
        let annotated = last_applied::refresh(&mut merged, self.config, writer.manager);
        if !changes_value && !annotated && same_claim && !takes && !first {
            return Ok(Applied { object: Cow::Borrowed(live), changed: false });
        }
        let (time, wire) = match last {
            Last::Same(own) => {
                (own.get("time").and_then(Value::as_str).map(str::to_owned), own.get("fieldsV1"))
            }
            Last::Other(last) => (last.time, None),
            Last::Nothing => (None, None),
        };
        // Time says when a value was last changed: to claim what is already so does not count.
        let time = if changes_value || self.ignored { Some(writer.now.to_owned()) } else { time };
        managers.drop_empty();
        if !claimed.is_empty() {
            managers.entries.push(self.entry(time));
        }
        put_managed_fields(&mut merged, managers.encode_with_last(wire));
        Ok(Applied { object: Cow::Owned(merged), changed: true })
    }

    fn entry(&self, time: Option<String>) -> ManagedEntry {
        ManagedEntry {
            manager: self.writer.manager.to_owned(),
            operation: Operation::Apply,
            api_version: self.writer.api_version.to_owned(),
            subresource: self.writer.subresource.to_owned(),
            time,
            fields: self.claimed.clone(),
        }
    }

    /// Weighs the change against everyone else's claims: taken fields are conflicts unless forced, removed
    /// fields are simply no longer theirs. Returns whether anyone lost anything.
    fn settle(
        &self,
        managers: &mut Managers,
        live: &Value,
        merged: &Value,
        diff: Diff,
        force: bool,
    ) -> Result<bool, Losses> {
        let same_version = managers.entries.iter().all(|e| e.api_version == self.writer.api_version);
        if diff.is_empty() && same_version {
            return Ok(false);
        }
        let mut touched = false;
        let mut versions =
            Versions::new(self.types, (live, merged), self.writer.api_version, diff, self.reset);
        let mut losses = Losses::new();
        managers.entries.retain_mut(|e| {
            let Some(diff) = versions.diff(&e.api_version) else {
                touched = true;
                return false;
            };
            let taken = e.fields.intersection(&diff.modified).union(&e.fields.intersection(&diff.added));
            let before = (!taken.is_empty()).then(|| e.clone());
            if !taken.is_empty() || e.fields.intersects(&diff.removed) {
                e.fields.subtract(&taken, false);
                e.fields.subtract(&diff.removed, false);
                touched = true;
            }
            losses.extend(before.map(|b| (b, taken)));
            true
        });
        if force || losses.is_empty() { Ok(touched) } else { Err(losses) }
    }

    /// Removes what this manager applied before, mentions no more, and nobody else holds.
    fn prune(&self, mut merged: Value, others: &Managers, last: &ManagedEntry, claimed: &Set) -> Value {
        let own = self.writer.api_version;
        let one_version = last.api_version == own && others.entries.iter().all(|e| e.api_version == own);
        if !one_version {
            return self.prune_across(&merged, others, last, claimed).unwrap_or(merged);
        }
        if last.fields.difference(claimed).is_empty() {
            return merged;
        }
        // Containers count as held while anyone holds something inside them.
        let mut gone = typed::with_named_fields(&last.fields, self.node)
            .difference(&typed::with_named_fields(claimed, self.node));
        for e in &others.entries {
            gone = gone.difference(&typed::with_named_fields(&e.fields, self.node));
        }
        typed::remove_items(&mut merged, &gone, self.node);
        merged
    }

    /// The same when sets are written in several versions. Sets do not convert, objects do: what is held is
    /// put back version by version, and only what the old claim covers is removed in the end. `None` if the
    /// version of the old claim is gone; then so is the claim.
    fn prune_across(
        &self,
        merged: &Value,
        others: &Managers,
        last: &ManagedEntry,
        claimed: &Set,
    ) -> Option<Value> {
        let convert = |v: &Value, version: &str| self.types.convert(v, version);
        let node = |version: &str| self.types.node(version);
        let named = |v: &Value, version: &str| {
            typed::with_named_fields(&typed::to_fieldset(v, node(version)), node(version))
        };
        let home = last.api_version.as_str();
        let whole = convert(merged, home)?;
        let claim = typed::with_named_fields(&last.fields, node(home));
        let mut pruned = whole.clone();
        typed::remove_items(&mut pruned, &claim, node(home));

        let mut held: BTreeMap<&str, Set> = BTreeMap::new();
        let all = others.entries.iter().map(|e| (e.api_version.as_str(), &e.fields));
        for (version, fields) in all.chain([(self.writer.api_version, claimed)]) {
            let slot = held.entry(version).or_default();
            *slot = slot.union(fields);
        }
        for (version, fields) in held {
            let (Some(mut there), Some(cut)) = (convert(&whole, version), convert(&pruned, version)) else {
                continue;
            };
            let keep = named(&cut, version).union(&typed::with_named_fields(&fields, node(version)));
            let drop = named(&there, version).difference(&keep);
            typed::remove_items(&mut there, &drop, node(version));
            pruned = convert(&there, home)?;
        }
        let gone = named(&whole, home).difference(&named(&pruned, home)).intersection(&claim);
        let mut out = whole;
        typed::remove_items(&mut out, &gone, node(home));
        convert(&out, self.writer.api_version)
    }
}

/// A copy without the managed fields, which are often the larger half.
fn without_books(live: &Value) -> Value {
    let Value::Object(root) = live else { return live.clone() };
    let mut out = Map::with_capacity(root.len());
    for (k, v) in root {
        let copy = match v {
            Value::Object(meta) if k == "metadata" => {
                let fields = meta.iter().filter(|(name, _)| *name != "managedFields");
                Value::Object(fields.map(|(name, v)| (name.clone(), v.clone())).collect())
            }
            other => other.clone(),
        };
        out.insert(k.clone(), copy);
    }
    Value::Object(out)
}

fn same_but_books(live: &Value, merged: &Value) -> bool {
    let (Some(a), Some(b)) = (live.as_object(), merged.as_object()) else { return live == merged };
    a.len() == b.len()
        && a.iter().all(|(k, v)| match (k.as_str(), v.as_object(), b.get(k)) {
            ("metadata", Some(m), Some(Value::Object(n))) => {
                let own = m.iter().filter(|(name, _)| *name != "managedFields");
                own.clone().count() == n.len() && { own }.all(|(name, v)| n.get(name) == Some(v))
            }
            (_, _, other) => other == Some(v),
        })
}
