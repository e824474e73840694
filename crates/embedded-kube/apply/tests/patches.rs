//! Strategic merge, JSON patch and merge patch, case by case.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests fail by panicking")]

use ek_apply::json::{json_patch, merge_patch};
use ek_apply::strategic;
use ek_meta::Definitions;
use serde_json::{Value, json};

fn defs() -> Definitions {
    let v: Value = serde_json::from_str(include_str!("data/deployment.json")).unwrap();
    Definitions::parse(v.as_object().unwrap())
}

fn pod(v: Value) -> Value {
    json!({"spec": {"template": {"spec": v}}})
}

fn env(v: Value) -> Value {
    pod(json!({"containers": [{"name": "c", "env": v}]}))
}

fn run(original: &Value, patch: &Value) -> Result<Value, String> {
    let d = defs();
    strategic::merge(original.clone(), patch, d.node("Deployment")).map_err(|e| e.to_string())
}

#[test]
fn strategic_maps() {
    for (original, patch, want) in [
        (
            json!({"spec": {"replicas": 1}}),
            json!({"spec": {"replicas": 2}}),
            json!({"spec": {"replicas": 2}}),
        ),
        (
            json!({"spec": {"replicas": 1, "paused": true}}),
            json!({"spec": {"paused": null}}),
            json!({"spec": {"replicas": 1}}),
        ),
        (
            json!({}),
            json!({"spec": {"paused": null, "args": [null, 1]}}),
            json!({"spec": {"args": [null, 1]}}),
        ),
        (
            json!({"metadata": {"labels": {"a": "1"}}}),
            json!({"metadata": {"labels": {"b": "2"}}}),
            json!({"metadata": {"labels": {"a": "1", "b": "2"}}}),
        ),
        (
            json!({"metadata": {"labels": {"a": "1"}}}),
            json!({"metadata": {"labels": {"$patch": "replace", "b": "2"}}}),
            json!({"metadata": {"labels": {"b": "2"}}}),
        ),
        (
            json!({"metadata": {"labels": {"a": "1"}}}),
            json!({"metadata": {"labels": {"$patch": "delete"}}}),
            json!({"metadata": {"labels": {}}}),
        ),
        (
            json!({"metadata": {"labels": {"a": "1"}}}),
            json!({"metadata": {"labels": {"$patch": "merge", "b": "2"}}}),
            json!({"metadata": {"labels": {"a": "1", "b": "2"}}}),
        ),
        (json!({"a": 1}), json!({"$patch": "replace", "b": 2}), json!({"b": 2})),
        // A value of another kind replaces.
        (
            json!({"spec": {"args": {"a": 1}}}),
            json!({"spec": {"args": ["x"]}}),
            json!({"spec": {"args": ["x"]}}),
        ),
        // Lists without a strategy are replaced, also unknown ones.
        (
            json!({"spec": {"args": ["a"]}, "x": [1]}),
            json!({"spec": {"args": ["b"]}, "x": [2]}),
            json!({"spec": {"args": ["b"]}, "x": [2]}),
        ),
        // retainKeys: switching a union.
        (
            json!({"spec": {"strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1}}}}),
            json!({"spec": {"strategy": {"$retainKeys": ["type"], "type": "Recreate"}}}),
            json!({"spec": {"strategy": {"type": "Recreate"}}}),
        ),
        (
            json!({"spec": {"strategy": {"rollingUpdate": {"maxSurge": 1}}}}),
            json!({"spec": {"strategy": {"$retainKeys": ["type"], "type": "Recreate", "rollingUpdate": null}}}),
            json!({"spec": {"strategy": {"type": "Recreate"}}}),
        ),
        // Directives do not survive where nothing was.
        (
            json!({}),
            json!({"spec": {"strategy": {"$retainKeys": ["type"], "type": "Recreate"}}}),
            json!({"spec": {"strategy": {"type": "Recreate"}}}),
        ),
    ] {
        assert_eq!(run(&original, &patch), Ok(want), "{original} + {patch}");
    }
}

#[test]
fn strategic_lists() {
    for (original, patch, want) in [
        // By key, in place; new items at the end.
        (
            env(json!([{"name": "A", "value": "1"}, {"name": "B", "value": "2"}])),
            env(json!([{"name": "B", "value": "3"}, {"name": "C"}])),
            env(json!([{"name": "A", "value": "1"}, {"name": "B", "value": "3"}, {"name": "C"}])),
        ),
        (
            env(json!([{"name": "A"}, {"name": "B"}])),
            env(json!([{"name": "A", "$patch": "delete"}])),
            env(json!([{"name": "B"}])),
        ),
        (
            env(json!([{"name": "A"}, {"name": "B"}])),
            env(json!([{"$patch": "replace"}, {"name": "C"}])),
            env(json!([{"name": "C"}])),
        ),
        (env(json!([{"name": "A"}])), env(json!([{"$patch": "replace"}])), env(json!([]))),
        (
            env(json!([{"name": "A", "value": "x"}])),
            env(json!([{"name": "A", "value": null, "valueFrom": {"fieldRef": {"fieldPath": "p"}}}])),
            env(json!([{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "p"}}}])),
        ),
        (env(json!([])), env(json!([{"name": "A", "value": null}])), env(json!([{"name": "A"}]))),
        // The patch's order counts for what it names.
        (
            env(json!([{"name": "A"}, {"name": "B"}, {"name": "C"}])),
            env(json!([{"name": "C"}, {"name": "A"}])),
            env(json!([{"name": "B"}, {"name": "C"}, {"name": "A"}])),
        ),
        // Scalars.
        (
            json!({"metadata": {"finalizers": ["a", "b"]}}),
            json!({"metadata": {"finalizers": ["c", "b"]}}),
            json!({"metadata": {"finalizers": ["c", "a", "b"]}}),
        ),
        (
            json!({"metadata": {"finalizers": ["a", "b"]}}),
            json!({"metadata": {"$deleteFromPrimitiveList/finalizers": ["a"]}}),
            json!({"metadata": {"finalizers": ["b"]}}),
        ),
        (
            json!({"metadata": {"finalizers": ["a", "b"]}}),
            json!({"metadata": {"$deleteFromPrimitiveList/finalizers": ["a"], "$setElementOrder/finalizers": ["c", "b"], "finalizers": ["c"]}}),
            json!({"metadata": {"finalizers": ["c", "b"]}}),
        ),
        (
            json!({"metadata": {}}),
            json!({"metadata": {"$deleteFromPrimitiveList/finalizers": ["a"]}}),
            json!({"metadata": {}}),
        ),
        // Another merge key than apply's.
        (
            pod(json!({"containers": [{"name": "c", "ports": [{"containerPort": 80, "protocol": "TCP"}]}]})),
            pod(json!({"containers": [{"name": "c", "ports": [{"containerPort": 80, "protocol": "UDP"}]}]})),
            pod(json!({"containers": [{"name": "c", "ports": [{"containerPort": 80, "protocol": "UDP"}]}]})),
        ),
    ] {
        assert_eq!(
            run(&original, &patch).map(|v| v.to_string()),
            Ok(want.to_string()),
            "{original} + {patch}"
        );
    }
}

#[test]
fn strategic_element_order() {
    let names = |n: &[&str]| Value::Array(n.iter().map(|n| json!({"name": n})).collect());
    for (original, patch, order, want) in [
        (&["a", "b", "c"][..], None, &["c", "b", "a"][..], &["c", "b", "a"][..]),
        (&["a", "s", "b"], None, &["b", "a"], &["s", "b", "a"]),
        (&["a", "s", "b"], None, &["a", "b"], &["a", "s", "b"]),
        (&["a", "b"], Some(&["n"][..]), &["n", "a", "b"], &["n", "a", "b"]),
        (&["s", "a"], Some(&["n"]), &["a", "n"], &["s", "a", "n"]),
    ] {
        let mut c = json!({"name": "c", "$setElementOrder/env": names(order)});
        if let Some(p) = patch {
            c["env"] = names(p);
        }
        let got = run(&env(names(original)), &pod(json!({"containers": [c]}))).unwrap();
        assert_eq!(got, env(names(want)), "{original:?} {patch:?} {order:?}");
    }
}

#[test]
fn strategic_errors() {
    for (original, patch, want) in [
        (
            env(json!([{"name": "A"}])),
            env(json!([{"value": "x", "valueFrom": {"a": [1, null]}}])),
            "map: map[value:x valueFrom:map[a:[1 <nil>]]] does not contain declared merge key: name",
        ),
        (
            env(json!([{"name": "A"}])),
            env(json!([{"$patch": "delete"}])),
            "map: map[$patch:delete] does not contain declared merge key: name",
        ),
        (
            env(json!([{"name": "A"}])),
            env(json!([{"$patch": "merge", "name": "A"}])),
            "merging lists cannot yet be specified in the patch",
        ),
        (json!({}), json!({"$patch": "explode"}), "unknown patch type: explode in map: map[$patch:explode]"),
        (
            json!({}),
            json!({"spec": {"x": 1}, "$retainKeys": ["y"]}),
            "patch content doesn't match retainKeys list",
        ),
        (json!({}), json!({"$retainKeys": 1}), "invalid patch format of retainKeys"),
        (json!({}), json!({"$setElementOrder/a": 1}), "invalid patch format of setElementOrder list"),
        (json!({}), json!({"$deleteFromPrimitiveList/a": [{}]}), "invalid patch format of primitive list"),
        (env(json!([{"name": "A"}])), env(json!([[1]])), "lists of lists are not supported"),
        (env(json!([{"name": "A"}])), env(json!([1])), "list with items of different types: 1"),
        (
            json!({"metadata": {"finalizers": ["a"]}}),
            json!({"metadata": {"$setElementOrder/finalizers": ["a"], "finalizers": ["b"]}}),
            "The order in patch list:\n[b]\n doesn't match $setElementOrder/ list:\n[a]\n",
        ),
    ] {
        assert_eq!(run(&original, &patch), Err(want.to_owned()), "{original} + {patch}");
    }
    assert!(strategic::merge(json!({}), &json!([]), None).is_err());
}

#[test]
fn strategic_without_schema_merges_maps_and_replaces_lists() {
    let got = strategic::merge(
        json!({"a": {"b": 1}, "l": [{"name": 1}]}),
        &json!({"a": {"c": 2}, "l": [{"name": 2}]}),
        None,
    );
    assert_eq!(got.unwrap(), json!({"a": {"b": 1, "c": 2}, "l": [{"name": 2}]}));
}

#[test]
fn json_patches() {
    let doc = json!({"a": {"b": [1, 2, 3]}, "n": null, "x/y": {"~": 1}});
    let on = |ops: Value| json_patch(doc.clone(), &ops).map_err(|e| e.to_string());
    let at = |v: Value, p: &str| v.pointer(p).cloned();
    for (op, pointer, want) in [
        (json!({"op": "add", "path": "/a/c", "value": 1}), "/a/c", Some(json!(1))),
        (json!({"op": "add", "path": "/a/b/-", "value": 4}), "/a/b", Some(json!([1, 2, 3, 4]))),
        (json!({"op": "add", "path": "/a/b/0", "value": 0}), "/a/b", Some(json!([0, 1, 2, 3]))),
        (json!({"op": "add", "path": "/a/b/3", "value": 4}), "/a/b", Some(json!([1, 2, 3, 4]))),
        (json!({"op": "add", "path": "/a/b/-1", "value": 4}), "/a/b", Some(json!([1, 2, 3, 4]))),
        (json!({"op": "add", "path": "/x~1y/~0", "value": 2}), "/x~1y/~0", Some(json!(2))),
        (json!({"op": "remove", "path": "/a/b/1"}), "/a/b", Some(json!([1, 3]))),
        (json!({"op": "remove", "path": "/a/b/-1"}), "/a/b", Some(json!([1, 2]))),
        (json!({"op": "remove", "path": "/a"}), "/a", None),
        (json!({"op": "replace", "path": "/a/b/0", "value": 9}), "/a/b", Some(json!([9, 2, 3]))),
        (json!({"op": "replace", "path": "/a", "value": null}), "/a", Some(json!(null))),
        (json!({"op": "replace", "path": "/a/new", "value": 1}), "/a/new", Some(json!(1))),
        (json!({"op": "copy", "from": "/a/no", "path": "/c"}), "/c", Some(json!(null))),
        (json!({"op": "move", "from": "/a/b", "path": "/c"}), "/c", Some(json!([1, 2, 3]))),
        (json!({"op": "copy", "from": "/a/b/0", "path": "/a/b/-"}), "/a/b", Some(json!([1, 2, 3, 1]))),
        (json!({"op": "test", "path": "/a/b/0", "value": 1.0}), "/a/b/0", Some(json!(1))),
        (json!({"op": "test", "path": "/n", "value": null}), "/n", Some(json!(null))),
        (json!({"op": "test", "path": "/missing", "value": null}), "/missing", None),
    ] {
        assert_eq!(on(json!([op])).map(|v| at(v, pointer)), Ok(want), "{op}");
    }
    for (op, want) in [
        (json!({"op": "test", "path": "/a/b/0", "value": 2}), "testing value /a/b/0 failed: test failed"),
        (json!({"op": "test", "path": "/missing", "value": 1}), "testing value /missing failed: test failed"),
        (
            json!({"op": "remove", "path": "/zz"}),
            "error in remove for path: '/zz': Unable to remove nonexistent key: zz: missing value",
        ),
        (
            json!({"op": "remove", "path": "/a/b/7"}),
            "error in remove for path: '/a/b/7': Unable to access invalid index: 7: invalid index referenced",
        ),
        (
            json!({"op": "remove", "path": "/p/q"}),
            "remove operation does not apply: doc is missing path: \"/p/q\": missing value",
        ),
        (
            json!({"op": "replace", "path": "/p/q", "value": 1}),
            "replace operation does not apply: doc is missing path: /p/q: missing value",
        ),
        (
            json!({"op": "add", "path": "/p/q", "value": 1}),
            "add operation does not apply: doc is missing path: \"/p/q\": missing value",
        ),
        (
            json!({"op": "add", "path": "/a/b/9", "value": 1}),
            "error in add for path: '/a/b/9': Unable to access invalid index: 9: invalid index referenced",
        ),
        (
            json!({"op": "copy", "from": "/zz/zz", "path": "/a"}),
            "copy operation does not apply: doc is missing path: \"/zz/zz\": missing value",
        ),
        (json!({"op": "frob", "path": "/a"}), "Unexpected kind: frob"),
        (json!({"op": "remove"}), "remove operation has no path: missing value"),
        (json!(1), "json patch operation must be an object"),
    ] {
        assert_eq!(on(json!([op])), Err(want.to_owned()));
    }
}

#[test]
fn json_patch_is_bounded() {
    let many = Value::Array(vec![json!({"op": "test", "path": "/x", "value": null}); 10_001]);
    assert_eq!(
        json_patch(json!({}), &many).unwrap_err().to_string(),
        "The allowed maximum operations in a JSON patch is 10000, got 10001"
    );
    // Doubling by copy stops on size, deepening on depth.
    let grow = Value::Array(vec![json!({"op": "copy", "from": "/a", "path": "/a/-"}); 64]);
    assert!(json_patch(json!({"a": ["x".repeat(1000)]}), &grow).is_err());
    let sizes = Value::Array(vec![json!({"op": "copy", "from": "/a/0", "path": "/a/-"}); 9_999]);
    let err = json_patch(json!({"a": ["x".repeat(1000)]}), &sizes).unwrap_err().to_string();
    assert!(err.starts_with("Unable to complete the copy"), "{err}");
    let deep: Vec<Value> =
        (1..200).map(|n| json!({"op": "add", "path": "/a".repeat(n), "value": {}})).collect();
    let err = json_patch(json!({}), &Value::Array(deep)).unwrap_err().to_string();
    assert!(err.ends_with("nests deeper than 120 levels"), "{err}");
}

#[test]
fn merge_patches() {
    for (doc, patch, want) in [
        (json!({"a": "b"}), json!({"a": "c"}), json!({"a": "c"})),
        (json!({"a": "b", "b": "c"}), json!({"a": null}), json!({"b": "c"})),
        (json!({"a": {"b": "c"}}), json!({"a": {"b": "d", "c": null}}), json!({"a": {"b": "d"}})),
        (json!({"a": [1]}), json!({"a": [2]}), json!({"a": [2]})),
        (json!([1]), json!({"a": {"bb": {"ccc": null}}}), json!({"a": {"bb": {}}})),
        (json!({"a": "foo"}), json!("bar"), json!("bar")),
        (json!({"e": null}), json!({"a": 1}), json!({"e": null, "a": 1})),
    ] {
        assert_eq!(merge_patch(doc.clone(), &patch), want, "{doc} + {patch}");
    }
}
