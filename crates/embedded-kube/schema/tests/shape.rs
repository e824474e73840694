//! Pruning, defaulting and the decoding check.

use ek_meta::{Definitions, Node, Schema};
use ek_schema::{check_types, default, prune};
use serde_json::{Value, json};

fn schema(v: Value) -> Schema {
    Schema::parse(&v, &|_| None)
}

fn pruned(s: Value, mut v: Value, root: bool) -> (Value, Vec<String>) {
    let s = schema(s);
    let dropped = prune(&mut v, Node::new(&s, Definitions::empty()), root);
    (v, dropped)
}

fn defaulted(s: Value, mut v: Value) -> Value {
    let s = schema(s);
    default(&mut v, Node::new(&s, Definitions::empty()));
    v
}

#[test]
fn unknown_fields_go_and_are_named() {
    let s = json!({"type": "object", "properties": {"spec": {"type": "object", "properties": {
        "a": {"type": "string"},
        "list": {"type": "array", "items": {"type": "object", "properties": {"b": {"type": "string"}}}},
        "map": {"type": "object", "additionalProperties": {"type": "object", "properties": {"c": {"type": "string"}}}},
        "none": {"type": "object"},
        "raw": {"type": "object", "x-kubernetes-preserve-unknown-fields": true,
                "properties": {"strict": {"type": "object", "properties": {"d": {"type": "string"}}}}},
        "any": {"type": "object", "additionalProperties": true},
        "emb": {"type": "object", "x-kubernetes-embedded-resource": true, "properties": {"spec": {"type": "object"}}},
        "ios": {"x-kubernetes-int-or-string": true}
    }}}});
    let v = json!({"apiVersion": "v1", "kind": "K", "metadata": {"name": "n", "labels": {"l": "v"}, "bogus": 1}, "status": {},
        "spec": {"a": "x", "zz": 1, "list": [{"b": "x"}, {"b": "x", "no": 1}], "map": {"k": {"c": "", "no": 1}},
        "none": {"x": 1}, "raw": {"free": {"x": 1}, "strict": {"d": "", "no": 1}}, "any": {"x": {"y": 1}},
        "emb": {"apiVersion": "v1", "kind": "P", "metadata": {"name": "p"}, "spec": {"x": 1}, "status": {}}, "ios": "5"}});
    let (got, dropped) = pruned(s, v, true);
    assert_eq!(
        got,
        json!({"apiVersion": "v1", "kind": "K", "metadata": {"name": "n", "labels": {"l": "v"}},
        "spec": {"a": "x", "list": [{"b": "x"}, {"b": "x"}], "map": {"k": {"c": ""}},
        "none": {}, "raw": {"free": {"x": 1}, "strict": {"d": ""}}, "any": {"x": {"y": 1}},
        "emb": {"apiVersion": "v1", "kind": "P", "metadata": {"name": "p"}, "spec": {}}, "ios": "5"}})
    );
    assert_eq!(
        dropped,
        [
            "metadata.bogus",
            "status",
            "spec.zz",
            "spec.list[1].no",
            "spec.map.k.no",
            "spec.none.x",
            "spec.raw.strict.no",
            "spec.emb.spec.x",
            "spec.emb.status"
        ]
    );
}

#[test]
fn reports_are_limited_pruning_is_not() {
    let v = Value::Object((0..500).map(|i| (format!("k{i}"), json!(1))).collect());
    let (got, dropped) = pruned(json!({"type": "object"}), v, false);
    assert_eq!(got, json!({}));
    assert_eq!(dropped.len(), ek_schema::prune::MAX_REPORTED);
}

fn builtin() -> Definitions {
    let defs = json!({
        "io.k8s.apimachinery.pkg.api.resource.Quantity": {"type": "string"},
        "Raw": {"type": "object"},
        "Meta": {"type": "object", "properties": {"name": {"type": "string"}, "creationTimestamp": {"type": "string", "format": "date-time"}}},
        "Spec": {"type": "object", "properties": {
            "replicas": {"type": "integer", "format": "int32"}, "big": {"type": "integer", "format": "int64"},
            "port": {"type": "string", "format": "int-or-string"}, "on": {"type": "boolean"},
            "cpu": {"$ref": "#/definitions/io.k8s.apimachinery.pkg.api.resource.Quantity"},
            "labels": {"type": "object", "additionalProperties": {"type": "string"}},
            "names": {"type": "array", "items": {"type": "string"}}, "raw": {"$ref": "#/definitions/Raw"}}},
        "Thing": {"type": "object", "properties": {"apiVersion": {"type": "string"}, "kind": {"type": "string"},
            "metadata": {"$ref": "#/definitions/Meta"}, "spec": {"$ref": "#/definitions/Spec"}}}});
    Definitions::parse(defs.as_object().expect("an object"))
}

#[test]
fn built_in_kinds_prune_by_their_definitions() {
    let defs = builtin();
    let mut v = json!({"apiVersion": "v1", "kind": "Thing", "metadata": {"name": "a", "x": 1}, "spec": {"raw": {"any": {"thing": 1}}, "y": 1}});
    let dropped = prune(&mut v, defs.node("Thing").unwrap(), false);
    assert_eq!(dropped, ["metadata.x", "spec.y"]);
    assert_eq!(v["spec"], json!({"raw": {"any": {"thing": 1}}}));
}

#[test]
fn decoding_fails_as_go_does() {
    let defs = builtin();
    let node = defs.node("Thing").unwrap();
    for (spec, want) in [
        (
            json!({"replicas": "3"}),
            "json: cannot unmarshal string into Go struct field Spec.spec.replicas of type int32",
        ),
        (
            json!({"replicas": 1.5}),
            "json: cannot unmarshal number 1.5 into Go struct field Spec.spec.replicas of type int32",
        ),
        (
            json!({"replicas": 3_000_000_000i64}),
            "json: cannot unmarshal number 3000000000 into Go struct field Spec.spec.replicas of type int32",
        ),
        (
            json!({"big": true}),
            "json: cannot unmarshal bool into Go struct field Spec.spec.big of type int64",
        ),
        (
            json!({"on": "true"}),
            "json: cannot unmarshal string into Go struct field Spec.spec.on of type bool",
        ),
        (
            json!({"labels": {"a": 1}}),
            "json: cannot unmarshal number into Go struct field Spec.spec.labels of type string",
        ),
        (
            json!({"labels": []}),
            "json: cannot unmarshal array into Go struct field Spec.spec.labels of type map[string]string",
        ),
        (
            json!({"names": [1]}),
            "json: cannot unmarshal number into Go struct field Spec.spec.names of type string",
        ),
        (
            json!({"port": true}),
            "json: cannot unmarshal bool into Go struct field Spec.spec.port of type intstr.IntOrString",
        ),
        (
            json!({"cpu": true}),
            "json: cannot unmarshal bool into Go struct field Spec.spec.cpu of type resource.Quantity",
        ),
    ] {
        let e = check_types(&json!({"spec": spec}), node).unwrap_err();
        assert_eq!(e.to_string(), want);
    }
    let fine = json!({"metadata": {"creationTimestamp": null}, "spec": {"replicas": 3, "big": 1e3, "port": 80, "on": true, "cpu": 1, "labels": {"a": "b"}, "raw": [1]}});
    assert_eq!(check_types(&fine, node), Ok(()));
    assert_eq!(check_types(&json!({"spec": {"port": "http", "cpu": "1"}}), node), Ok(()));
}

#[test]
fn defaults_fill_what_is_absent() {
    let s = json!({"type": "object", "properties": {
        "a": {"type": "integer", "default": 1},
        "n": {"type": "integer", "default": 2, "nullable": true},
        "plain": {"type": "string"},
        "free": {"type": "string", "nullable": true},
        "o": {"type": "object", "default": {}, "properties": {"x": {"type": "string", "default": "d"}}},
        "p": {"type": "object", "properties": {"x": {"type": "string", "default": "d"}}},
        "l": {"type": "array", "items": {"type": "object", "properties": {"x": {"type": "string", "default": "d"}}}},
        "li": {"type": "array", "items": {"type": "integer", "default": 7}},
        "m": {"type": "object", "additionalProperties": {"type": "object", "properties": {"x": {"type": "string", "default": "d"}}}},
        "mi": {"type": "object", "additionalProperties": {"type": "integer", "default": 8}}}});
    for (v, want) in [
        (json!({}), json!({"a": 1, "n": 2, "o": {"x": "d"}})),
        (
            json!({"a": null, "n": null, "plain": null, "free": null, "o": {"x": null}}),
            json!({"a": 1, "n": null, "free": null, "o": {"x": "d"}}),
        ),
        (
            json!({"a": 5, "n": 6, "o": {"x": "y"}, "p": {}}),
            json!({"a": 5, "n": 6, "o": {"x": "y"}, "p": {"x": "d"}}),
        ),
        (
            json!({"a": 1, "n": 1, "o": {}, "l": [{}, {"x": "y"}], "li": [1, null]}),
            json!({"a": 1, "n": 1, "o": {"x": "d"}, "l": [{"x": "d"}, {"x": "y"}], "li": [1, 7]}),
        ),
        (
            json!({"a": 1, "n": 1, "o": {}, "m": {"k": {}}, "mi": {"k": null}}),
            json!({"a": 1, "n": 1, "o": {"x": "d"}, "m": {"k": {"x": "d"}}, "mi": {"k": 8}}),
        ),
    ] {
        assert_eq!(defaulted(s.clone(), v.clone()), want, "{v}");
    }
}
