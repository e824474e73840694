//! What a CRD schema may be, case by case.

use ek_meta::FieldPath;
use ek_schema::structural::{check, is_structural};
use serde_json::{Value, json};

fn errors(v: &Value) -> Vec<String> {
    check(v, &FieldPath::new("schema")).iter().map(ToString::to_string).collect()
}

/// Errors of one property `x`.
fn of(x: Value) -> Vec<String> {
    errors(&json!({"type": "object", "properties": {"x": x}}))
        .into_iter()
        .map(|e| e.replace("schema.properties[x]", "x"))
        .collect()
}

#[test]
fn good_schemas() {
    for s in [
        json!({"type": "object"}),
        json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true}),
        json!({"type": "object", "properties": {"metadata": {"type": "object", "properties": {"name": {"type": "string", "maxLength": 5}}}}}),
        json!({"type": "object", "properties": {
            "ios": {"x-kubernetes-int-or-string": true, "anyOf": [{"type": "integer"}, {"type": "string"}], "pattern": "^x"},
            "any": {"x-kubernetes-preserve-unknown-fields": true},
            "emb": {"type": "object", "x-kubernetes-embedded-resource": true, "x-kubernetes-preserve-unknown-fields": true},
            "list": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["a", "b"],
                "items": {"type": "object", "required": ["a"], "properties": {"a": {"type": "string"}, "b": {"type": "string", "default": "x"}}}},
            "set": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
            "one": {"type": "object", "properties": {"a": {"type": "string"}}, "oneOf": [{"required": ["a"]}, {"properties": {"a": {"maxLength": 3}}}]},
            "def": {"type": "object", "default": {"a": 1}, "properties": {"a": {"type": "integer", "default": 2}}},
            "map": {"type": "object", "additionalProperties": {"type": "string"}}
        }, "x-kubernetes-validations": [{"rule": "self.metadata.name == 'x' || has(self.any)"}]}),
    ] {
        assert_eq!(errors(&s), Vec::<String>::new(), "{s}");
        assert!(is_structural(&s));
    }
}

#[test]
fn violations_and_their_texts() {
    let cases: Vec<(Value, &str)> = vec![
        (json!({}), "x.type: Required value: must not be empty for specified object fields"),
        (
            json!({"type": "array", "items": {}}),
            "x.items.type: Required value: must not be empty for specified array items",
        ),
        (json!({"type": "array"}), "x.items: Required value: must be specified"),
        (
            json!({"type": "null"}),
            "x.type: Forbidden: type cannot be set to null, use nullable as an alternative",
        ),
        (
            json!({"type": "text"}),
            r#"x.type: Unsupported value: "text": supported values: "array", "boolean", "integer", "number", "object", "string""#,
        ),
        (json!({"type": "string", "$ref": "#/a"}), "x.$ref: Forbidden: $ref is not supported"),
        (
            json!({"type": "object", "patternProperties": {}}),
            "x.patternProperties: Forbidden: patternProperties is not supported",
        ),
        (
            json!({"type": "object", "properties": {}, "additionalProperties": false}),
            "x.additionalProperties: Forbidden: additionalProperties cannot be set to false",
        ),
        (
            json!({"type": "object", "properties": {"a": {"type": "string"}}, "additionalProperties": true}),
            "x.additionalProperties: Forbidden: additionalProperties and properties are mutual exclusive",
        ),
        (
            json!({"type": "array", "uniqueItems": true, "items": {"type": "string"}}),
            "x.uniqueItems: Forbidden: uniqueItems cannot be set to true since the runtime complexity becomes quadratic",
        ),
        (
            json!({"type": "string", "x-kubernetes-int-or-string": true}),
            "x.type: Forbidden: must be empty if x-kubernetes-int-or-string is specified",
        ),
        (
            json!({"type": "string", "anyOf": [{"type": "string"}]}),
            "x.anyOf[0].type: Forbidden: must be empty to be structural",
        ),
        (
            json!({"type": "string", "allOf": [{"default": "a"}]}),
            "x.allOf[0].default: Forbidden: must be undefined to be structural",
        ),
        (
            json!({"type": "string", "not": {"nullable": true}}),
            "x.not.nullable: Forbidden: must be false to be structural",
        ),
        (
            json!({"type": "object", "anyOf": [{"properties": {"a": {"minLength": 1}}}]}),
            "x.properties[a]: Required value: because it is defined in x.anyOf[0].properties[a]",
        ),
        (
            json!({"type": "object", "x-kubernetes-preserve-unknown-fields": false}),
            "x.x-kubernetes-preserve-unknown-fields: Invalid value: false: must be true or undefined",
        ),
        (
            json!({"type": "string", "x-kubernetes-embedded-resource": true, "x-kubernetes-preserve-unknown-fields": true}),
            r#"x.type: Invalid value: "string": must be object if x-kubernetes-embedded-resource is true"#,
        ),
        (
            json!({"type": "object", "x-kubernetes-embedded-resource": true}),
            "x.properties: Required value: must not be empty if x-kubernetes-embedded-resource is true without x-kubernetes-preserve-unknown-fields",
        ),
        (
            json!({"type": "string", "x-kubernetes-list-type": "set"}),
            r#"x.type: Invalid value: "string": must be array if x-kubernetes-list-type is specified"#,
        ),
        (
            json!({"type": "array", "items": {"type": "string"}, "x-kubernetes-list-map-keys": ["a"]}),
            "x.x-kubernetes-list-type: Required value: must be map if x-kubernetes-list-map-keys is non-empty",
        ),
        (
            json!({"type": "array", "items": {"type": "object"}, "x-kubernetes-list-type": "map"}),
            "x.x-kubernetes-list-map-keys: Required value: must not be empty if x-kubernetes-list-type is map",
        ),
        (
            json!({"type": "array", "items": {"type": "object"}, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["a"]}),
            r#"x.x-kubernetes-list-map-keys: Invalid value: ["a"]: entries must all be names of item properties"#,
        ),
        (
            json!({"type": "array", "items": {"type": "object", "properties": {"a": {"type": "string"}}}, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["a"]}),
            "x.items.properties[a].default: Required value: this property is in x-kubernetes-list-map-keys, so it must have a default or be a required property",
        ),
        (
            json!({"type": "array", "items": {"type": "object"}, "x-kubernetes-list-type": "set"}),
            r#"x.items.x-kubernetes-map-type: Invalid value: null: must be atomic as item of a list with x-kubernetes-list-type=set"#,
        ),
        (
            json!({"type": "object", "x-kubernetes-map-type": "odd"}),
            r#"x.x-kubernetes-map-type: Unsupported value: "odd": supported values: "atomic", "granular""#,
        ),
        (
            json!({"type": "integer", "default": "a"}),
            r#"x.default: Invalid value: "string":  in body must be of type integer: "string""#,
        ),
        (
            json!({"type": "object", "default": {"a": 1}}),
            r#"x.default: Invalid value: {"a":1}: must not have unknown fields"#,
        ),
    ];
    for (x, want) in cases {
        assert_eq!(of(x.clone()), [want], "{x}");
    }
    for (x, want) in [
        (
            json!({"type": "string", "pattern": "("}),
            "x.pattern: Invalid value: \"(\": must be a valid regular expression, but isn't: ",
        ),
        (
            json!({"type": "integer", "x-kubernetes-validations": [{"rule": "self >"}]}),
            "x.x-kubernetes-validations[0].rule: Invalid value: \"self >\": compilation failed: ERROR: <input>:1:7:",
        ),
        (
            json!({"type": "object", "properties": {"a": {"type": "integer"}}, "x-kubernetes-validations": [{"rule": "self.b > 1"}]}),
            "undefined field 'b'",
        ),
    ] {
        let got = of(x.clone());
        assert!(got.len() == 1 && got[0].contains(want), "{x}: {got:?}");
    }
}

#[test]
fn roots() {
    for (s, want) in [
        (json!({}), "schema.type: Required value: must not be empty at the root"),
        (json!({"type": "string"}), r#"schema.type: Invalid value: "string": must be object at the root"#),
        (
            json!({"type": "object", "nullable": true}),
            "schema.nullable: Forbidden: nullable cannot be true at the root",
        ),
        (
            json!({"type": "object", "properties": {"metadata": {"type": "object", "properties": {"labels": {"type": "object"}}}}}),
            "schema.properties[metadata]: Forbidden: must not specify anything other than name and generateName, but metadata is implicitly specified",
        ),
        (
            json!({"type": "object", "properties": {"kind": {"type": "integer"}}}),
            r#"schema.properties[kind].type: Invalid value: "integer": must be string"#,
        ),
        (json!(null), "schema: Required value"),
    ] {
        assert_eq!(errors(&s), [want], "{s}");
    }
    assert!(!is_structural(&json!({"type": "object", "properties": {"x": {}}})));
    // Refused, yet structural: the condition is about shape alone.
    let bad_pattern = json!({"type": "object", "properties": {"x": {"type": "string", "pattern": "("}}});
    assert!(is_structural(&bad_pattern) && !errors(&bad_pattern).is_empty());
}
