//! What must hold for any input.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests fail by panicking")]

use ek_apply::{Set, SingleType, Writer, apply, json, strategic, typed, update};
use ek_meta::Definitions;
use proptest::prelude::*;
use serde_json::{Map, Value, json};
use std::sync::LazyLock;

static DEFS: LazyLock<Definitions> = LazyLock::new(|| {
    let v: Value = serde_json::from_str(include_str!("data/deployment.json")).unwrap();
    Definitions::parse(v.as_object().unwrap())
});

/// Any JSON over a vocabulary that hits the schema and the directives.
fn any_json() -> impl Strategy<Value = Value> {
    let word = || {
        prop::sample::select(vec![
            "a",
            "name",
            "spec",
            "template",
            "containers",
            "env",
            "metadata",
            "labels",
            "finalizers",
            "replicas",
            "ports",
            "containerPort",
            "$patch",
            "$retainKeys",
            "$setElementOrder/env",
            "$setElementOrder/finalizers",
            "$deleteFromPrimitiveList/finalizers",
            "delete",
            "replace",
            "managedFields",
            "op",
            "path",
            "value",
        ])
    };
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        (0i64..3).prop_map(Value::from),
        (0..3).prop_map(|n| Value::from(f64::from(n) / 2.0)),
        word().prop_map(Value::from),
    ];
    leaf.prop_recursive(6, 48, 5, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::Array),
            prop::collection::vec((word(), inner), 0..5).prop_map(|kv| Value::Object(
                kv.into_iter().map(|(k, v)| (k.to_owned(), v)).collect::<Map<_, _>>()
            )),
        ]
    })
}

/// Configurations that pass the schema.
fn config() -> impl Strategy<Value = Value> {
    let names = || prop::sample::subsequence(vec!["a", "b", "c", "d"], 0..4).prop_shuffle();
    let container = (names(), 0u8..3).prop_map(|(env, image)| {
        let env: Vec<Value> = env.iter().map(|n| json!({"name": n, "value": image.to_string()})).collect();
        json!({"image": image.to_string(), "env": env, "ports": [{"containerPort": image}]})
    });
    (names(), names(), names(), prop::option::of(0u32..3), prop::collection::vec(container, 4)).prop_map(
        |(labels, finalizers, pods, replicas, bodies)| {
            let labels: Map<String, Value> = labels.into_iter().map(|l| (l.to_owned(), "x".into())).collect();
            let items: Vec<Value> = pods
                .iter()
                .zip(bodies)
                .map(|(n, mut b)| {
                    b["name"] = (*n).into();
                    b
                })
                .collect();
            let mut spec = json!({"template": {"spec": {"containers": items}}});
            if let Some(r) = replicas {
                spec["replicas"] = r.into();
            }
            json!({"apiVersion": "apps/v1", "kind": "Deployment", "spec": spec,
                   "metadata": {"name": "d", "labels": labels, "finalizers": finalizers}})
        },
    )
}

fn writer(manager: &str) -> Writer<'_> {
    Writer { manager, subresource: "", api_version: "apps/v1", now: "2024-01-01T00:00:00Z" }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn applying_twice_is_applying_once(steps in prop::collection::vec((config(), 0..3usize), 1..5)) {
        let none = Set::new();
        let types = SingleType(DEFS.node("Deployment"));
        let mut live: Option<Value> = None;
        for (config, who) in steps {
            let w = Writer { now: "2024-01-01T00:00:01Z", ..writer(["x", "y", "z"][who]) };
            let once = apply(&types, live.as_ref(), &config, &w, true, &none).unwrap();
            let later = Writer { now: "2025-01-01T00:00:00Z", ..w };
            let twice = apply(&types, Some(&once.object), &config, &later, false, &none).unwrap();
            prop_assert!(!twice.changed);
            prop_assert_eq!(once.object.to_string(), twice.object.to_string());
            // The applier got what it asked for.
            let set = typed::to_fieldset(&config, types.0);
            let diff = typed::compare(&config, &twice.object, types.0);
            prop_assert!(!set.intersects(&diff.modified) && !set.intersects(&diff.removed));
            live = Some(twice.object.into_owned());
        }
    }

    #[test]
    fn writing_back_changes_nothing(a in config(), b in config()) {
        let none = Set::new();
        for node in [DEFS.node("Deployment"), None] {
            let types = SingleType(node);
            let mut live = apply(&types, None, &a, &writer("a"), false, &none).unwrap().object.into_owned();
            let mut new = b.clone();
            update(&types, Some(&live), &mut new, &writer("u"), &none);
            live = new.clone();
            update(&types, Some(&live), &mut new, &writer("v"), &none);
            prop_assert_eq!(new.to_string(), live.to_string());
        }
    }

    #[test]
    fn field_sets_survive_the_wire(v in any_json()) {
        for node in [DEFS.node("Deployment"), None] {
            let set = typed::to_fieldset(&v, node);
            let wire = set.to_fields_v1();
            let again = Set::from_fields_v1(&wire).unwrap();
            prop_assert_eq!(&again, &set);
            prop_assert_eq!(again.canonical(), wire.to_string());
            let paths: Set = set.paths().into_iter().collect();
            prop_assert_eq!(paths, set);
        }
    }

    #[test]
    fn set_algebra_is_consistent(a in any_json(), b in any_json()) {
        let (a, b) = (typed::to_fieldset(&a, None), typed::to_fieldset(&b, None));
        let (both, either) = (a.intersection(&b), a.union(&b));
        prop_assert_eq!(a.len() + b.len(), both.len() + either.len());
        prop_assert_eq!(a.intersects(&b), !both.is_empty());
        prop_assert!(either.difference(&a).difference(&b).is_empty());
        prop_assert_eq!(a.difference(&b).union(&both), a);
    }

    #[test]
    fn comparing_is_symmetric(a in any_json(), b in any_json()) {
        let node = DEFS.node("Deployment");
        let (there, back) = (typed::compare(&a, &b, node), typed::compare(&b, &a, node));
        prop_assert_eq!(&there.added, &back.removed);
        prop_assert_eq!(&there.removed, &back.added);
        prop_assert_eq!(&there.modified, &back.modified);
        prop_assert!(typed::compare(&a, &a, node).is_empty());
    }

    #[test]
    fn nothing_panics(doc in any_json(), patch in any_json(), op in "add|remove|replace|move|copy|test") {
        for node in [DEFS.node("Deployment"), None] {
            let _ = strategic::merge(doc.clone(), &patch, node);
            let merged = typed::merge(&doc, &patch, node);
            prop_assert_eq!(typed::merge(&merged, &patch, node), merged);
            let mut rest = doc.clone();
            let set = typed::to_fieldset(&patch, node);
            typed::remove_items(&mut rest, &set, node);
            let _ = typed::extract(&doc, &set, node);
            let _ = apply(&SingleType(node), Some(&doc), &patch, &writer("m"), true, &Set::new());
            let mut new = patch.clone();
            update(&SingleType(node), Some(&doc), &mut new, &writer("m"), &Set::new());
            let _ = Set::from_fields_v1(&patch);
        }
        let _ = json::json_patch(doc.clone(), &patch);
        let path = if patch.is_array() { "/a/0" } else { "/spec/template" };
        let ops = json!([{"op": op, "path": path, "from": "/metadata", "value": &patch}]);
        let _ = json::json_patch(doc.clone(), &ops);
        prop_assert_eq!(json::merge_patch(json::merge_patch(doc.clone(), &patch), &patch), json::merge_patch(doc, &patch));
    }
}

/// As deep as the parser reads, on a small stack.
#[test]
fn deep_documents_are_walked() {
    let text = format!("{}1{}", "{\"a\":".repeat(126), "}".repeat(126));
    let deep: Value = serde_json::from_str(&text).unwrap();
    let types = SingleType(None);
    let one = apply(&types, None, &deep, &writer("m"), false, &Set::new()).unwrap();
    let two = apply(&types, Some(&one.object), &deep, &writer("m"), false, &Set::new()).unwrap();
    assert!(!two.changed);
    strategic::merge(deep.clone(), &deep, None).unwrap();
    json::merge_patch(deep.clone(), &deep);
}
