//! Objects as numbers.
//!
//! Two hashes tell whether an object is as we left it: one of its content, for watches that carry whole objects, and
//! one of its metadata, for watches that do not. Neither covers what changes without anybody editing the object
//! (status, resourceVersion, managedFields, generation, timestamps). Both cover the uid: an object that was deleted and made
//! again by somebody else may look the same, but no field of it is ours.
//!
//! The metadata hash needs something that moves with the content: `generation`, or, for kinds that have none
//! (ConfigMaps, Secrets, RBAC…), the resourceVersion. So a change of status of such a kind (a Service) costs one
//! apply that writes nothing; content never goes unnoticed.

use crate::kind::ObjectRef;
use kube::core::DynamicObject;
use kube::core::ObjectMeta;
use serde_json::Value;
use xxhash_rust::xxh3::{Xxh3, xxh3_128_with_seed};

/// An object's place in the ledger.
pub(crate) type Slot = [u64; 2];

/// The seed makes numbers useless outside this process, so that nobody can prepare two objects that look alike.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Prints {
    pub(crate) seed: u64,
}

/// How an object looks, seen whole and by its metadata.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Look {
    pub(crate) content: u64,
    pub(crate) meta: u64,
}

impl Prints {
    pub(crate) fn slot(self, at: &ObjectRef) -> Slot {
        self.slot_of(&at.kind.group, &at.kind.kind, &at.namespace, &at.name)
    }

    pub(crate) fn slot_of(self, group: &str, kind: &str, namespace: &str, name: &str) -> Slot {
        // None of the parts can contain a zero byte, so this is one text per object.
        let mut text = Vec::with_capacity(group.len() + kind.len() + namespace.len() + name.len() + 3);
        for part in [group, kind, namespace, name] {
            text.extend_from_slice(part.as_bytes());
            text.push(0);
        }
        let h = xxh3_128_with_seed(&text, self.seed);
        [(h >> 64) as u64, h as u64]
    }

    /// A document, whatever the order of its keys.
    pub(crate) fn value(self, v: &Value) -> u64 {
        let mut h = Xxh3::with_seed(self.seed);
        write(&mut h, v);
        h.digest()
    }

    pub(crate) fn whole(self, o: &DynamicObject) -> Look {
        let named = self.named(&o.metadata);
        let mut h = Xxh3::with_seed(self.seed);
        h.update(&named.to_le_bytes());
        if let Value::Object(fields) = &o.data {
            write_fields(&mut h, fields.iter().filter(|(k, _)| *k != "status"));
        }
        Look { content: h.digest(), meta: self.moving(named, &o.metadata) }
    }

    pub(crate) fn meta(self, m: &ObjectMeta) -> u64 {
        self.moving(self.named(m), m)
    }

    fn moving(self, named: u64, m: &ObjectMeta) -> u64 {
        let mut h = Xxh3::with_seed(self.seed);
        h.update(&named.to_le_bytes());
        match m.generation.filter(|g| *g != 0) {
            Some(generation) => h.update(&generation.to_le_bytes()),
            None => text(&mut h, m.resource_version.as_deref().unwrap_or_default()),
        }
        h.digest()
    }

    fn named(self, m: &ObjectMeta) -> u64 {
        let mut h = Xxh3::with_seed(self.seed);
        text(&mut h, m.uid.as_deref().unwrap_or_default());
        h.update(&[u8::from(m.deletion_timestamp.is_some())]);
        for map in [&m.labels, &m.annotations] {
            let map = map.iter().flatten();
            h.update(&(map.clone().count() as u64).to_le_bytes());
            for (k, v) in map {
                text(&mut h, k);
                text(&mut h, v);
            }
        }
        for f in m.finalizers.iter().flatten() {
            text(&mut h, f);
        }
        for o in m.owner_references.iter().flatten() {
            h.update(&[
                2,
                u8::from(o.controller.unwrap_or_default()),
                u8::from(o.block_owner_deletion.unwrap_or_default()),
            ]);
            for t in [&o.api_version, &o.kind, &o.name, &o.uid] {
                text(&mut h, t);
            }
        }
        h.digest()
    }
}

fn text(h: &mut Xxh3, s: &str) {
    h.update(&(s.len() as u64).to_le_bytes());
    h.update(s.as_bytes());
}

fn write(h: &mut Xxh3, v: &Value) {
    match v {
        Value::Null => h.update(b"n"),
        Value::Bool(b) => h.update(&[b'b', u8::from(*b)]),
        Value::Number(n) => {
            h.update(b"#");
            text(h, &n.to_string());
        }
        Value::String(s) => {
            h.update(b"s");
            text(h, s);
        }
        Value::Array(items) => {
            h.update(b"[");
            h.update(&(items.len() as u64).to_le_bytes());
            items.iter().for_each(|i| write(h, i));
        }
        Value::Object(fields) => write_fields(h, fields.iter()),
    }
}

fn write_fields<'a>(h: &mut Xxh3, fields: impl Iterator<Item = (&'a String, &'a Value)>) {
    let mut fields: Vec<_> = fields.collect();
    fields.sort_unstable_by_key(|(k, _)| *k);
    h.update(b"{");
    h.update(&(fields.len() as u64).to_le_bytes());
    for (k, v) in fields {
        text(h, k);
        write(h, v);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    const P: Prints = Prints { seed: 7 };

    fn object(v: Value) -> DynamicObject {
        serde_json::from_value(v).unwrap()
    }

    #[test]
    fn what_nobody_edits_does_not_count() {
        let base = json!({"apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": {"name": "a", "uid": "1", "generation": 1, "resourceVersion": "5", "labels": {"x": "y"}},
            "spec": {"replicas": 1}, "status": {"replicas": 0}});
        let look = P.whole(&object(base.clone()));
        let with = |pointer: &str, v: Value| {
            let mut o = base.clone();
            let (parent, last) = pointer.rsplit_once('/').unwrap();
            o.pointer_mut(parent).unwrap()[last] = v;
            P.whole(&object(o))
        };
        assert_eq!(with("/status/replicas", json!(1)), look);
        assert_eq!(with("/metadata/resourceVersion", json!("6")), look);
        assert_eq!(with("/metadata/managedFields", json!([{"manager": "x"}])), look);
        assert_eq!(with("/metadata/generation", json!(2)).content, look.content);
        assert_ne!(with("/metadata/generation", json!(2)).meta, look.meta);
        for (pointer, v) in [
            ("/spec/replicas", json!(2)),
            ("/metadata/labels", json!({"x": "z"})),
            ("/metadata/annotations", json!({"x": "y"})),
            ("/metadata/uid", json!("2")),
            ("/metadata/finalizers", json!(["f"])),
            ("/metadata/deletionTimestamp", json!("2026-01-01T00:00:00Z")),
        ] {
            assert_ne!(with(pointer, v).content, look.content, "{pointer}");
        }
        let partial = object(json!({"metadata": base["metadata"]}));
        assert_eq!(
            P.meta(&partial.metadata),
            look.meta,
            "metadata alone looks the same as within the object"
        );
    }

    fn json() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            "[a-c]{0,3}".prop_map(Value::from),
        ];
        leaf.prop_recursive(3, 24, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::vec(("[a-c]{1,2}", inner), 0..4)
                    .prop_map(|f| Value::Object(f.into_iter().collect())),
            ]
        })
    }

    fn reversed(v: &Value) -> Value {
        match v {
            Value::Object(f) => {
                Value::Object(f.iter().rev().map(|(k, v)| (k.clone(), reversed(v))).collect())
            }
            Value::Array(a) => Value::Array(a.iter().map(reversed).collect()),
            other => other.clone(),
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(256))]
        #[test]
        fn order_of_keys_does_not_count_and_all_else_does(a in json(), b in json()) {
            prop_assert_eq!(P.value(&a), P.value(&reversed(&a)));
            prop_assert_eq!(P.value(&a) == P.value(&b), a == b);
        }
    }
}
