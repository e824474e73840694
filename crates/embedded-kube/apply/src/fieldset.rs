//! Sets of field paths: the unit in which ownership is counted.
//!
//! A set is a trie. Each entry is one path element, whether the path ending there is a member, and the
//! entries below. Entries are kept sorted by element, so set algebra is one merge of two sorted lists, the
//! wire form needs no sorting, and equal sets have equal bytes. A path can be a member and have members
//! below it: that is what the key `"."` says on the wire.

mod element;
mod wire;

pub use element::{Element, Path, compare_values};
pub use wire::FieldsError;

use std::cmp::Ordering;

/// A set of field paths.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Set {
    entries: Vec<Entry>,
}

/// One element of the trie. Invariant: it is a member or has children, and entries are sorted and unique.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) element: Element,
    pub(crate) member: bool,
    pub(crate) children: Set,
}

impl Entry {
    fn is_void(&self) -> bool {
        !self.member && self.children.is_empty()
    }
}

impl Set {
    pub const fn new() -> Set {
        Set { entries: Vec::new() }
    }

    /// A set from paths made of field names only: what strategies and ignore lists are written in.
    pub fn of_fields(paths: &[&[&str]]) -> Set {
        let mut set = Set::new();
        for path in paths {
            set.insert(&path.iter().map(|name| Element::field(name)).collect::<Vec<_>>());
        }
        set
    }

    /// Takes entries in any order; void ones are dropped. Elements must be unique.
    pub(crate) fn from_entries(mut entries: Vec<Entry>) -> Set {
        entries.retain(|e| !e.is_void());
        if !entries.is_sorted_by(|a, b| a.element < b.element) {
            entries.sort_unstable_by(|a, b| a.element.cmp(&b.element));
        }
        Set { entries }
    }

    pub(crate) fn entries(&self) -> &[Entry] {
        &self.entries
    }

    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// How many paths are members.
    pub fn len(&self) -> usize {
        self.entries.iter().map(|e| usize::from(e.member) + e.children.len()).sum()
    }

    fn find(&self, element: &Element) -> Result<usize, usize> {
        self.entries.binary_search_by(|e| e.element.cmp(element))
    }

    pub(crate) fn entry(&self, element: &Element) -> Option<&Entry> {
        self.find(element).ok().map(|i| &self.entries[i])
    }

    /// The entry of a field by name, without building an element.
    pub(crate) fn field_entry(&self, name: &str) -> Option<&Entry> {
        self.entries
            .binary_search_by(|e| match &e.element {
                Element::Field(n) => (**n).cmp(name),
                _ => Ordering::Greater,
            })
            .ok()
            .map(|i| &self.entries[i])
    }

    /// Adds a path. The empty path names the whole object, whose ownership nobody tracks.
    pub fn insert(&mut self, path: &[Element]) {
        let Some((first, rest)) = path.split_first() else { return };
        let at = match self.find(first) {
            Ok(i) => i,
            Err(i) => {
                let fresh = Entry { element: first.clone(), member: false, children: Set::new() };
                self.entries.insert(i, fresh);
                i
            }
        };
        if rest.is_empty() {
            self.entries[at].member = true;
        } else {
            self.entries[at].children.insert(rest);
        }
    }

    /// Whether exactly this path is a member.
    pub fn has(&self, path: &[Element]) -> bool {
        match path.split_first() {
            None => false,
            Some((first, rest)) => self
                .entry(first)
                .is_some_and(|e| if rest.is_empty() { e.member } else { e.children.has(rest) }),
        }
    }

    /// The members below one element, without their common first element.
    pub fn below(&self, element: &Element) -> Option<&Set> {
        self.entry(element).map(|e| &e.children).filter(|s| !s.is_empty())
    }

    pub fn union(&self, other: &Set) -> Set {
        if self.is_empty() {
            return other.clone();
        }
        if other.is_empty() {
            return self.clone();
        }
        let mut out = Vec::with_capacity(self.entries.len().max(other.entries.len()));
        for pair in zip(&self.entries, &other.entries) {
            out.push(match pair {
                (Some(a), Some(b)) => Entry {
                    element: a.element.clone(),
                    member: a.member || b.member,
                    children: a.children.union(&b.children),
                },
                (Some(one), None) | (None, Some(one)) => one.clone(),
                (None, None) => continue,
            });
        }
        Set { entries: out }
    }

    /// Members of `self` that are not members of `other`; ancestors and descendants are not considered.
    pub fn difference(&self, other: &Set) -> Set {
        let mut out = self.clone();
        out.subtract(other, false);
        out
    }

    /// As [`Set::difference`], and a member of `other` also takes away everything below it.
    pub fn recursive_difference(&self, other: &Set) -> Set {
        let mut out = self.clone();
        out.subtract(other, true);
        out
    }

    /// Takes `other` out in place: what is subtracted is mostly small, and the rest need not move.
    pub(crate) fn subtract(&mut self, other: &Set, recursive: bool) {
        let mut hollow = false;
        for b in &other.entries {
            let Ok(i) = self.find(&b.element) else { continue };
            let a = &mut self.entries[i];
            if recursive && b.member {
                a.children = Set::new();
            } else {
                a.children.subtract(&b.children, recursive);
            }
            a.member &= !b.member;
            hollow |= a.is_void();
        }
        if hollow {
            self.entries.retain(|e| !e.is_void());
        }
    }

    pub fn intersection(&self, other: &Set) -> Set {
        if self.is_empty() || other.is_empty() {
            return Set::new();
        }
        let mut out = Vec::new();
        for pair in zip(&self.entries, &other.entries) {
            if let (Some(a), Some(b)) = pair {
                let member = a.member && b.member;
                let children = a.children.intersection(&b.children);
                if member || !children.is_empty() {
                    out.push(Entry { element: a.element.clone(), member, children });
                }
            }
        }
        Set { entries: out }
    }

    /// Whether the sets share a member, without building the intersection.
    pub fn intersects(&self, other: &Set) -> bool {
        zip(&self.entries, &other.entries).any(|pair| match pair {
            (Some(a), Some(b)) => (a.member && b.member) || a.children.intersects(&b.children),
            _ => false,
        })
    }

    /// Members that have no members below them.
    pub fn leaves(&self) -> Set {
        let entries = self
            .entries
            .iter()
            .map(|e| Entry {
                element: e.element.clone(),
                member: e.member && e.children.is_empty(),
                children: e.children.leaves(),
            })
            .collect();
        Set { entries }
    }

    /// All members, in order; the members of one level before those below any of them.
    pub fn paths(&self) -> Vec<Path> {
        let mut out = Vec::with_capacity(self.len());
        self.collect(&mut Vec::new(), &mut out);
        out
    }

    fn collect(&self, prefix: &mut Vec<Element>, out: &mut Vec<Path>) {
        for e in self.entries.iter().filter(|e| e.member) {
            prefix.push(e.element.clone());
            out.push(Path(prefix.clone()));
            prefix.pop();
        }
        for e in &self.entries {
            prefix.push(e.element.clone());
            e.children.collect(prefix, out);
            prefix.pop();
        }
    }
}

impl FromIterator<Path> for Set {
    fn from_iter<I: IntoIterator<Item = Path>>(paths: I) -> Set {
        let mut set = Set::new();
        for p in paths {
            set.insert(&p.0);
        }
        set
    }
}

/// Walks two sorted entry lists side by side, pairing equal elements.
fn zip<'a>(
    a: &'a [Entry],
    b: &'a [Entry],
) -> impl Iterator<Item = (Option<&'a Entry>, Option<&'a Entry>)> + use<'a> {
    let (mut i, mut j) = (0, 0);
    std::iter::from_fn(move || {
        let pair = match (a.get(i), b.get(j)) {
            (None, None) => return None,
            (Some(x), Some(y)) => match x.element.cmp(&y.element) {
                Ordering::Less => (Some(x), None),
                Ordering::Greater => (None, Some(y)),
                Ordering::Equal => (Some(x), Some(y)),
            },
            other => other,
        };
        i += usize::from(pair.0.is_some());
        j += usize::from(pair.1.is_some());
        Some(pair)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn set(v: serde_json::Value) -> Set {
        Set::from_fields_v1(&v).unwrap()
    }

    #[test]
    fn algebra_is_over_members_not_ancestors() {
        let a = set(json!({"f:a": {".": {}, "f:b": {}, "f:c": {}}, "f:d": {}}));
        let b = set(json!({"f:a": {"f:b": {}}, "f:e": {}}));
        assert_eq!(a.union(&b), set(json!({"f:a": {".": {}, "f:b": {}, "f:c": {}}, "f:d": {}, "f:e": {}})));
        assert_eq!(a.difference(&b), set(json!({"f:a": {".": {}, "f:c": {}}, "f:d": {}})));
        assert_eq!(a.intersection(&b), set(json!({"f:a": {"f:b": {}}})));
        assert_eq!(
            a.difference(&set(json!({"f:a": {}}))),
            set(json!({"f:a": {"f:b": {}, "f:c": {}}, "f:d": {}}))
        );
        assert_eq!(a.recursive_difference(&set(json!({"f:a": {}}))), set(json!({"f:d": {}})));
        assert_eq!(a.leaves(), set(json!({"f:a": {"f:b": {}, "f:c": {}}, "f:d": {}})));
        assert!(a.intersects(&b) && !a.intersects(&set(json!({"f:x": {}}))));
        assert_eq!(a.len(), 4);
    }

    #[test]
    fn membership_and_insertion() {
        let f = Element::field;
        let mut s = Set::new();
        s.insert(&[f("a"), f("b")]);
        assert!(s.has(&[f("a"), f("b")]) && !s.has(&[f("a")]) && !s.has(&[]));
        s.insert(&[f("a")]);
        assert!(s.has(&[f("a")]));
        s.insert(&[]);
        assert_eq!(s.len(), 2);
        assert_eq!(s.below(&f("a")), Some(&Set::of_fields(&[&["b"]])));
        let again: Set = s.paths().into_iter().collect();
        assert_eq!(again, s);
    }
}
