//! Plain writes: create, replace, patch.

use super::entries::{ManagedEntry, Managers, Operation};
use super::{BOOKS, Types, Writer, managed_fields, put_managed_fields, recordable, take_managed_fields};
use crate::fieldset::Set;
use crate::typed::{self, Diff};
use serde_json::{Map, Value};
use std::collections::HashMap;

/// How many updaters one object remembers; older ones share a bucket.
const MAX_UPDATERS: usize = 10;
const ANCIENT: &str = "ancient-changes";

/// Records a write that is not an apply: `new` is about to replace `live`, and gets the managed fields that
/// go with it. `reset` names what the endpoint ignores (status on the main endpoint, all but status on the
/// status endpoint): changes there will be undone by the caller and belong to nobody.
pub fn update(types: &dyn Types, live: Option<&Value>, new: &mut Value, writer: &Writer<'_>, reset: &Set) {
    write(types, live, &Value::Object(Map::new()), new, writer, reset);
}

/// Records a creation. `blank` is what an object of the kind has before anybody wrote it: nobody owns that.
pub fn create(types: &dyn Types, blank: &Value, new: &mut Value, writer: &Writer<'_>, reset: &Set) {
    write(types, None, blank, new, writer, reset);
}

fn write(
    types: &dyn Types,
    live: Option<&Value>,
    blank: &Value,
    new: &mut Value,
    writer: &Writer<'_>,
    reset: &Set,
) {
    let sent = take_managed_fields(new);
    let live_fields = live.and_then(managed_fields);
    let keeps = !writer.subresource.is_empty() || sent.is_none() || sent.as_ref() == live_fields;
    let old = live.unwrap_or(blank);
    let diff = typed::compare(old, new, types.node(writer.api_version)).without(&BOOKS).without(reset);
    // Nothing was changed, in the object or its books: their bytes stay too.
    if live.is_some() && keeps && diff.is_empty() {
        put_managed_fields(new, live_fields.cloned());
        return;
    }
    let mut managers = if keeps { Managers::decode_or_empty(live_fields) } else { base(sent, live_fields) };
    // An object nobody tracks stays so until somebody applies to it.
    if live.is_some() && managers.is_empty() {
        return;
    }
    let touched = charge(types, (old, new), diff, &mut managers, writer, reset) | cap(&mut managers);
    let fields = if touched || !keeps { managers.encode() } else { live_fields.cloned() };
    put_managed_fields(new, fields);
}

/// The books to continue when the client sent some. A readable list edits the books; an empty list, or a
/// list of one empty entry, throws them away; nonsense must not lose them.
fn base(sent: Option<Value>, live: Option<&Value>) -> Managers {
    let sent = sent.unwrap_or(Value::Null);
    let is_reset = match sent.as_array().map(Vec::as_slice) {
        Some([]) => true,
        Some([only]) => only.as_object().is_some_and(Map::is_empty),
        _ => false,
    };
    if is_reset {
        return Managers::default();
    }
    match Managers::decode(&sent) {
        Ok(managers) if !managers.is_empty() => managers,
        _ => Managers::decode_or_empty(live),
    }
}

/// Moves ownership of everything that differs between `live` (nothing, if absent) and `new` to the writer.
pub(super) fn record(
    types: &dyn Types,
    live: Option<&Value>,
    new: &Value,
    managers: &mut Managers,
    writer: &Writer<'_>,
    reset: &Set,
) {
    let nothing = Value::Object(Map::new());
    let old = live.unwrap_or(&nothing);
    let diff = typed::compare(old, new, types.node(writer.api_version)).without(&BOOKS).without(reset);
    charge(types, (old, new), diff, managers, writer, reset);
}

/// Charges a known difference to the writer. Returns whether the books changed.
fn charge(
    types: &dyn Types,
    (old, new): (&Value, &Value),
    diff: Diff,
    managers: &mut Managers,
    writer: &Writer<'_>,
    reset: &Set,
) -> bool {
    let taken = recordable(diff.added.union(&diff.modified), reset);
    let mut versions = Versions::new(types, (old, new), writer.api_version, diff, reset);
    let mut touched = !taken.is_empty();
    managers.entries.retain_mut(|e| match versions.diff(&e.api_version) {
        Some(diff) => {
            touched |= lose(&mut e.fields, diff);
            true
        }
        None => {
            touched = true;
            false
        }
    });
    managers.drop_empty();
    if taken.is_empty() {
        return touched;
    }
    let time = Some(writer.now.to_owned());
    match managers.position(writer.manager, Operation::Update, writer.subresource, writer.api_version) {
        Some(i) => {
            let e = &mut managers.entries[i];
            e.fields = e.fields.union(&taken);
            e.time = time;
        }
        None => managers.entries.push(ManagedEntry {
            manager: writer.manager.to_owned(),
            operation: Operation::Update,
            api_version: writer.api_version.to_owned(),
            subresource: writer.subresource.to_owned(),
            time,
            fields: taken,
        }),
    }
    touched
}

fn lose(fields: &mut Set, diff: &Diff) -> bool {
    let mut lost = false;
    for gone in [&diff.added, &diff.modified, &diff.removed] {
        if fields.intersects(gone) {
            fields.subtract(gone, false);
            lost = true;
        }
    }
    lost
}

/// The difference between two objects, in every version some manager's set is written in.
pub(super) struct Versions<'a> {
    types: &'a dyn Types,
    old: &'a Value,
    new: &'a Value,
    own: &'a str,
    own_diff: Diff,
    reset: &'a Set,
    others: HashMap<String, Option<Diff>>,
}

impl<'a> Versions<'a> {
    pub(super) fn new(
        types: &'a dyn Types,
        (old, new): (&'a Value, &'a Value),
        own: &'a str,
        own_diff: Diff,
        reset: &'a Set,
    ) -> Self {
        Versions { types, old, new, own, own_diff, reset, others: HashMap::new() }
    }

    /// `None` if the version is gone, and with it every claim made in it.
    pub(super) fn diff(&mut self, api_version: &str) -> Option<&Diff> {
        if api_version == self.own {
            return Some(&self.own_diff);
        }
        if !self.others.contains_key(api_version) {
            let diff =
                self.types.convert(self.old, api_version).zip(self.types.convert(self.new, api_version));
            let diff =
                diff.map(|(a, b)| typed::compare(&a, &b, self.types.node(api_version)).without(self.reset));
            self.others.insert(api_version.to_owned(), diff);
        }
        self.others.get(api_version).and_then(Option::as_ref)
    }
}

/// Folds the oldest updaters, per version, into one bucket until few enough are left.
fn cap(managers: &mut Managers) -> bool {
    let mut updaters: Vec<usize> =
        (0..managers.entries.len()).filter(|i| managers.entries[*i].operation == Operation::Update).collect();
    let mut excess = updaters.len().saturating_sub(MAX_UPDATERS);
    if excess == 0 {
        return false;
    }
    updaters.sort_by(|a, b| {
        let (a, b) = (&managers.entries[*a], &managers.entries[*b]);
        let time = |e: &ManagedEntry| e.time.clone().unwrap_or_default();
        time(a)
            .cmp(&time(b))
            .then_with(|| a.manager.cmp(&b.manager))
            .then_with(|| a.subresource.cmp(&b.subresource))
    });
    // The first entry seen of each version becomes the bucket once a second one joins it.
    let mut buckets: HashMap<String, usize> = HashMap::new();
    let mut folded = vec![false; managers.entries.len()];
    for i in updaters {
        if excess == 0 {
            break;
        }
        let version = managers.entries[i].api_version.clone();
        let Some(&bucket) = buckets.get(&version) else {
            buckets.insert(version, i);
            continue;
        };
        let fields = managers.entries[i].fields.union(&managers.entries[bucket].fields);
        let time = managers.entries[i].time.clone();
        managers.entries[bucket] = ManagedEntry {
            manager: ANCIENT.to_owned(),
            operation: Operation::Update,
            api_version: version,
            subresource: String::new(),
            time,
            fields,
        };
        folded[i] = true;
        excess -= 1;
    }
    let mut folded = folded.into_iter();
    managers.entries.retain(|_| !folded.next().unwrap_or(false));
    true
}
