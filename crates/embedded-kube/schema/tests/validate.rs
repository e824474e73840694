//! Validation: each keyword with its text, list types, ratcheting, rules.

use ek_schema::Validator;
use proptest::prelude::*;
use serde_json::{Value, json};

fn texts(v: &Validator, new: &Value, old: Option<&Value>) -> Vec<String> {
    v.validate(new, old).iter().map(ToString::to_string).collect()
}

/// Errors of `x` under one property schema.
fn errors(schema: Value, x: Value) -> Vec<String> {
    errors_on(schema, x, None)
}

fn spec_of(schema: Value) -> Validator {
    let root =
        json!({"type": "object", "properties": {"spec": {"type": "object", "properties": {"x": schema}}}});
    Validator::compile(&root).expect("the schema compiles")
}

fn errors_on(schema: Value, x: Value, old: Option<Value>) -> Vec<String> {
    let old = old.map(|o| json!({"spec": {"x": o}}));
    texts(&spec_of(schema), &json!({"spec": {"x": x}}), old.as_ref())
}

#[test]
fn keywords_and_their_texts() {
    let cases: Vec<(Value, Value, &str)> = vec![
        (
            json!({"type": "integer"}),
            json!("a"),
            r#"spec.x: Invalid value: "string": spec.x in body must be of type integer: "string""#,
        ),
        (
            json!({"type": "integer"}),
            json!(1.5),
            r#"spec.x: Invalid value: "number": spec.x in body must be of type integer: "number""#,
        ),
        (
            json!({"type": "string"}),
            json!(1),
            r#"spec.x: Invalid value: "integer": spec.x in body must be of type string: "integer""#,
        ),
        (
            json!({"type": "string"}),
            json!(null),
            r#"spec.x: Invalid value: "null": spec.x in body must be of type string: "null""#,
        ),
        (
            json!({"type": "boolean"}),
            json!([]),
            r#"spec.x: Invalid value: "array": spec.x in body must be of type boolean: "array""#,
        ),
        (
            json!({"type": "array", "items": {"type": "string"}}),
            json!({}),
            r#"spec.x: Invalid value: "object": spec.x in body must be of type array: "object""#,
        ),
        (
            json!({"x-kubernetes-int-or-string": true}),
            json!(true),
            r#"spec.x: Invalid value: "boolean": spec.x in body must be of type integer,string: "boolean""#,
        ),
        (
            json!({"type": "integer", "maximum": 10}),
            json!(11),
            "spec.x: Invalid value: 11: spec.x in body should be less than or equal to 10",
        ),
        (
            json!({"type": "integer", "maximum": 10, "exclusiveMaximum": true}),
            json!(10),
            "spec.x: Invalid value: 10: spec.x in body should be less than 10",
        ),
        (
            json!({"type": "number", "minimum": 1.5}),
            json!(1),
            "spec.x: Invalid value: 1: spec.x in body should be greater than or equal to 1.5",
        ),
        (
            json!({"type": "integer", "minimum": 1, "exclusiveMinimum": true}),
            json!(1),
            "spec.x: Invalid value: 1: spec.x in body should be greater than 1",
        ),
        (
            json!({"type": "integer", "multipleOf": 3}),
            json!(4),
            "spec.x: Invalid value: 4: spec.x in body should be a multiple of 3",
        ),
        (
            json!({"type": "integer", "format": "int32"}),
            json!(3_000_000_000i64),
            r#"<nil>: Invalid value: "": Checked value must be of type integer with format int32 in spec.x"#,
        ),
        (
            json!({"type": "string", "maxLength": 5}),
            json!("abcdef"),
            "spec.x: Too long: may not be more than 5 bytes",
        ),
        (
            json!({"type": "string", "minLength": 2}),
            json!("a"),
            r#"spec.x: Invalid value: "a": spec.x in body should be at least 2 chars long"#,
        ),
        (
            json!({"type": "string", "pattern": "^[a-z]$"}),
            json!("A"),
            r#"spec.x: Invalid value: "A": spec.x in body should match '^[a-z]$'"#,
        ),
        (
            json!({"type": "string", "format": "ipv4"}),
            json!("x"),
            r#"spec.x: Invalid value: "x": spec.x in body must be of type ipv4: "x""#,
        ),
        (
            json!({"type": "string", "enum": ["a", "b"]}),
            json!("c"),
            r#"spec.x: Unsupported value: "c": supported values: "a", "b""#,
        ),
        (
            json!({"type": "integer", "enum": [1, 2]}),
            json!(3),
            r#"spec.x: Unsupported value: 3: supported values: "1", "2""#,
        ),
        (
            json!({"type": "array", "maxItems": 2, "items": {"type": "integer"}}),
            json!([1, 2, 3]),
            "spec.x: Too many: 3: must have at most 2 items",
        ),
        (
            json!({"type": "array", "minItems": 1, "items": {"type": "integer"}}),
            json!([]),
            "spec.x: Invalid value: 0: spec.x in body should have at least 1 items",
        ),
        (
            json!({"type": "array", "items": {"type": "integer"}}),
            json!([1, "a"]),
            r#"spec.x[1]: Invalid value: "string": spec.x[1] in body must be of type integer: "string""#,
        ),
        (
            json!({"type": "object", "additionalProperties": {"type": "string"}}),
            json!({"k": 1}),
            r#"spec.x.k: Invalid value: "integer": spec.x.k in body must be of type string: "integer""#,
        ),
        (
            json!({"type": "object", "maxProperties": 1, "additionalProperties": {"type": "string"}}),
            json!({"a": "", "b": ""}),
            "spec.x: Too many: 2: must have at most 1 items",
        ),
        (
            json!({"type": "object", "minProperties": 1, "additionalProperties": {"type": "string"}}),
            json!({}),
            "spec.x: Invalid value: {}: spec.x in body should have at least 1 properties",
        ),
        (
            json!({"type": "object", "required": ["name"], "properties": {"name": {"type": "string"}}}),
            json!({}),
            "spec.x.name: Required value",
        ),
        (
            json!({"type": "integer", "not": {"minimum": 5}}),
            json!(7),
            r#"<nil>: Invalid value: "": "spec.x" must not validate the schema (not)"#,
        ),
        (
            json!({"type": "integer", "oneOf": [{"minimum": 1}, {"minimum": 2}]}),
            json!(3),
            r#"<nil>: Invalid value: "": "spec.x" must validate one and only one schema (oneOf). Found 2 valid alternatives"#,
        ),
        (
            json!({"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}}),
            json!(["a", "b", "a"]),
            r#"spec.x[2]: Duplicate value: "a""#,
        ),
        (
            json!({"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["n", "p"],
            "items": {"type": "object", "properties": {"n": {"type": "string"}, "p": {"type": "string", "default": "TCP"}}}}),
            json!([{"n": "a"}, {"n": "a", "p": "UDP"}, {"n": "a", "p": "TCP"}]),
            r#"spec.x[2]: Duplicate value: {"n":"a","p":"TCP"}"#,
        ),
    ];
    for (schema, x, want) in cases {
        assert_eq!(errors(schema.clone(), x), [want], "{schema}");
    }
    assert_eq!(
        errors(json!({"type": "integer", "anyOf": [{"minimum": 5}, {"maximum": 1}]}), json!(3)),
        [
            r#"<nil>: Invalid value: "": "spec.x" must validate at least one schema (anyOf)"#,
            "spec.x: Invalid value: 3: spec.x in body should be greater than or equal to 5"
        ]
    );
    assert_eq!(
        errors(json!({"type": "integer", "oneOf": [{"minimum": 5}]}), json!(3))[0],
        r#"<nil>: Invalid value: "": "spec.x" must validate one and only one schema (oneOf). Found none valid"#
    );
    assert_eq!(
        errors(json!({"type": "integer", "allOf": [{"minimum": 5}, {"maximum": 9}]}), json!(3)),
        [
            "spec.x: Invalid value: 3: spec.x in body should be greater than or equal to 5",
            r#"<nil>: Invalid value: "": "spec.x" must validate all the schemas (allOf)"#
        ]
    );
}

#[test]
fn valid_values_are_silent() {
    for (schema, x) in [
        (json!({"type": "integer"}), json!(1.0)),
        (json!({"type": "number"}), json!(1)),
        (json!({"type": "string", "nullable": true}), json!(null)),
        (json!({"x-kubernetes-int-or-string": true}), json!("50%")),
        (json!({"x-kubernetes-int-or-string": true, "pattern": "^[0-9]+%$"}), json!(5)),
        (json!({"x-kubernetes-preserve-unknown-fields": true}), json!({"a": [1]})),
        (json!({"type": "string", "maxLength": 2}), json!("éé")),
        (json!({"type": "string", "format": "password"}), json!("x")),
    ] {
        assert!(errors(schema.clone(), x).is_empty(), "{schema}");
    }
}

#[test]
fn embedded_resources_name_their_kind() {
    let schema = json!({"type": "object", "x-kubernetes-embedded-resource": true, "x-kubernetes-preserve-unknown-fields": true});
    assert_eq!(
        errors(schema.clone(), json!({})),
        ["spec.x.apiVersion: Required value", "spec.x.kind: Required value"]
    );
    assert!(
        errors(schema.clone(), json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}}))
            .is_empty()
    );
    assert_eq!(
        errors(schema, json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"labels": {"a": 1}}})),
        ["spec.x.metadata.labels[a]: Invalid value: 1: must be a string"]
    );
}

#[test]
fn unchanged_values_are_not_judged_again() {
    let s = json!({"type": "object", "properties": {"a": {"type": "integer", "maximum": 1}, "b": {"type": "integer"}}});
    assert!(errors_on(s.clone(), json!({"a": 5, "b": 2}), Some(json!({"a": 5, "b": 1}))).is_empty());
    assert_eq!(errors_on(s, json!({"a": 6}), Some(json!({"a": 5}))).len(), 1);
    let list = |kind: Value| {
        let mut s = json!({"type": "array", "items": {"type": "object",
            "properties": {"k": {"type": "string"}, "v": {"type": "integer", "maximum": 1}}}});
        for (k, v) in kind.as_object().unwrap() {
            s[k] = v.clone();
        }
        s
    };
    let map = list(json!({"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"]}));
    let old = json!([{"k": "a", "v": 5}]);
    let new = json!([{"k": "b", "v": 1}, {"k": "a", "v": 5}]);
    assert!(errors_on(map, new.clone(), Some(old.clone())).is_empty());
    assert_eq!(errors_on(list(json!({})), new, Some(old.clone())).len(), 1);
    assert!(errors_on(list(json!({})), old.clone(), Some(old)).is_empty());
    let set = json!({"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}});
    assert!(errors_on(set.clone(), json!(["a", "a"]), Some(json!(["a", "a"]))).is_empty());
    assert_eq!(errors_on(set, json!(["a", "a"]), Some(json!(["a"]))).len(), 1);
}

fn ruled(rule: Value) -> Value {
    json!({"type": "object", "properties": {
        "min": {"type": "integer"}, "max": {"type": "integer"}, "name": {"type": "string"},
        "labels": {"type": "object", "additionalProperties": {"type": "string"}}},
        "x-kubernetes-validations": [rule]})
}

#[test]
fn rules_report_as_upstream() {
    let bad = json!({"min": 2, "max": 1});
    let cases: Vec<(Value, &str)> = vec![
        (
            json!({"rule": "self.min <= self.max"}),
            r#"spec.x: Invalid value: "object": failed rule: self.min <= self.max"#,
        ),
        (
            json!({"rule": "self.min <= self.max", "message": "min above max"}),
            r#"spec.x: Invalid value: "object": min above max"#,
        ),
        (
            json!({"rule": "self.min <= self.max", "message": "m", "messageExpression": "'min %d above max'.format([self.min])"}),
            r#"spec.x: Invalid value: "object": min 2 above max"#,
        ),
        (
            json!({"rule": "self.min <= self.max", "message": "m", "messageExpression": "self.name"}),
            r#"spec.x: Invalid value: "object": m"#,
        ),
        (
            json!({"rule": "self.min <= self.max", "message": "m", "reason": "FieldValueForbidden"}),
            "spec.x: Forbidden: m",
        ),
        (
            json!({"rule": "self.min <= self.max", "message": "m", "reason": "FieldValueRequired", "fieldPath": ".max"}),
            "spec.x.max: Required value: m",
        ),
        (
            json!({"rule": "self.min <= self.max", "message": "m", "reason": "FieldValueDuplicate", "fieldPath": ".labels['a.b']"}),
            r#"spec.x.labels[a.b]: Duplicate value: "object": m"#,
        ),
        (
            json!({"rule": "self.name == 'a'"}),
            r#"spec.x: Invalid value: "object": no such key: name evaluating rule: self.name == 'a'"#,
        ),
        (
            json!({"rule": "self.min / 0 == 1", "message": "m"}),
            r#"spec.x: Invalid value: "object": division by zero evaluating rule: m"#,
        ),
        (
            json!({"rule": "self.min < 'a'"}),
            r#"spec.x: Invalid value: "object": 'no such overload: _<_(int, string)': call arguments did not match a supported operator, function or macro signature for rule: self.min < 'a'"#,
        ),
    ];
    for (rule, want) in cases {
        assert_eq!(errors(ruled(rule.clone()), bad.clone()), [want], "{rule}");
    }
    let scalar =
        json!({"type": "integer", "x-kubernetes-validations": [{"rule": "self > 5", "message": "small"}]});
    assert_eq!(errors(scalar, json!(3)), [r#"spec.x: Invalid value: "integer": small"#]);
    let in_map = json!({"type": "object", "additionalProperties": {"type": "integer", "x-kubernetes-validations": [{"rule": "self > 5", "message": "small"}]}});
    assert_eq!(errors(in_map, json!({"k": 3})), [r#"spec.x[k]: Invalid value: "integer": small"#]);
    let in_list = json!({"type": "array", "items": {"type": "string", "x-kubernetes-validations": [{"rule": "self != 'b'", "message": "no b"}]}});
    assert_eq!(errors(in_list, json!(["a", "b"])), [r#"spec.x[1]: Invalid value: "string": no b"#]);
}

#[test]
fn rules_wait_for_a_sound_object() {
    let got = errors(ruled(json!({"rule": "self.min <= self.max"})), json!({"min": "x", "max": 1}));
    assert_eq!(got.len(), 2);
    assert_eq!(
        got[1],
        r#"<nil>: Invalid value: null: some validation rules were not checked because the object was invalid; correct the existing errors to complete validation"#
    );
}

#[test]
fn transitions() {
    let immutable = json!({"type": "string", "x-kubernetes-validations": [{"rule": "self == oldSelf", "message": "immutable"}]});
    assert!(errors(immutable.clone(), json!("a")).is_empty());
    assert!(errors_on(immutable.clone(), json!("a"), Some(json!("a"))).is_empty());
    assert_eq!(
        errors_on(immutable, json!("b"), Some(json!("a"))),
        [r#"spec.x: Invalid value: "string": immutable"#]
    );

    let optional = json!({"type": "string", "x-kubernetes-validations": [
        {"rule": "oldSelf.hasValue() || self == 'new'", "optionalOldSelf": true, "message": "start with new"}]});
    assert_eq!(errors(optional.clone(), json!("x")), [r#"spec.x: Invalid value: "string": start with new"#]);
    assert!(errors(optional.clone(), json!("new")).is_empty());
    assert!(errors_on(optional, json!("x"), Some(json!("y"))).is_empty());

    // A rule without oldSelf is ratcheted; one with it runs even when nothing changed.
    let both = json!({"type": "integer", "x-kubernetes-validations": [{"rule": "self < 5"}, {"rule": "oldSelf < 5", "message": "was"}]});
    assert_eq!(errors_on(both, json!(7), Some(json!(7))), ["spec.x: Invalid value: \"integer\": was"]);

    // By key, in a map list.
    let list = json!({"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"],
        "items": {"type": "object", "properties": {"k": {"type": "string"}, "v": {"type": "integer",
            "x-kubernetes-validations": [{"rule": "self >= oldSelf", "message": "down"}]}}}});
    assert_eq!(
        errors_on(list, json!([{"k": "b", "v": 0}, {"k": "a", "v": 1}]), Some(json!([{"k": "a", "v": 2}]))),
        ["spec.x[1].v: Invalid value: \"integer\": down"]
    );
}

#[test]
fn rules_have_a_budget() {
    let s = json!({"type": "array", "items": {"type": "integer"}, "x-kubernetes-validations": [
        {"rule": "self.all(a, self.all(b, self.all(c, a + b + c >= 0)))", "message": "m"}, {"rule": "true"}]});
    let got = errors(s, json!((0..500).collect::<Vec<_>>()));
    assert_eq!(
        got,
        [
            r#"spec.x: Invalid value: "array": 'operation cancelled: actual cost limit exceeded': no further validation rules will be run due to call cost exceeds limit for rule: m"#
        ]
    );
}

#[test]
fn bad_rules_do_not_compile() {
    let compile = |rule: Value| {
        let root = json!({"type": "object", "properties": {"spec": ruled(rule)}});
        Validator::compile(&root)
            .err()
            .map(|e| e.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))
    };
    for (rule, want) in [
        (
            json!({"rule": "self.nope == 1"}),
            "properties[spec].x-kubernetes-validations[0].rule: Invalid value: \"self.nope == 1\": compilation failed: ERROR: <input>:1:5: undefined field 'nope'",
        ),
        (json!({"rule": "self.min +"}), "compilation failed: ERROR: <input>:1:11"),
        (json!({"rule": "object.min == 1"}), "undeclared reference to 'object'"),
        (json!({"rule": ""}), "rule: Required value: rule is not specified"),
        (json!({"rule": "self.min + 1"}), "cel expression must evaluate to a bool"),
        (json!({"rule": "true", "message": "a\nb"}), "message must not contain line breaks"),
        (json!({"rule": "true &&\ntrue"}), "message must be specified if rule contains line breaks"),
        (json!({"rule": "true", "reason": "Because"}), "reason: Unsupported value: \"Because\""),
        (
            json!({"rule": "true", "fieldPath": ".nope"}),
            "fieldPath must be a valid path: does not refer to a valid field: nope",
        ),
        (json!({"rule": "true", "messageExpression": "1"}), "messageExpression must evaluate to a string"),
        (json!({"rule": "true", "messageExpression": "("}), "messageExpression compilation failed: "),
        (json!({"rule": "true", "optionalOldSelf": true}), "may not be set if oldSelf is not used in rule"),
    ] {
        let got = compile(rule.clone()).unwrap_or_default();
        assert!(got.contains(want), "{rule}: {got}");
    }
    assert_eq!(
        compile(
            json!({"rule": "self.labels.all(k, k.size() < 3) && self.labels['a'] == 'b' && has(self.labels.c)"})
        ),
        None
    );
    let uncorrelatable = json!({"type": "array", "items": {"type": "string", "x-kubernetes-validations": [{"rule": "self == oldSelf"}]}});
    let e = Validator::compile(&uncorrelatable).err().unwrap();
    assert!(e[0].detail.contains("oldSelf cannot be used on the uncorrelatable portion"), "{}", e[0]);
    assert!(Validator::compile(&json!({"type": "string", "pattern": "("})).is_err());
}

#[test]
fn root_rules_see_metadata() {
    let root = json!({"type": "object", "properties": {"metadata": {"type": "object"}, "spec": {"type": "object"}},
        "x-kubernetes-validations": [{"rule": "self.metadata.name.startsWith('a') && self.kind == 'Foo'", "message": "a only"}]});
    let v = Validator::compile(&root).unwrap();
    assert!(texts(&v, &json!({"kind": "Foo", "metadata": {"name": "abc"}}), None).is_empty());
    assert_eq!(
        texts(&v, &json!({"kind": "Foo", "metadata": {"name": "b"}}), None),
        [r#"<nil>: Invalid value: "object": a only"#]
    );
}

fn arb_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        "[a-e]{0,3}".prop_map(Value::from),
        any::<String>().prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 32, 5, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map("[a-e]", inner, 0..4)
                .prop_map(|m| Value::Object(m.into_iter().collect())),
        ]
    })
}

fn arb_schema() -> impl Strategy<Value = Value> {
    let types = prop::sample::select(vec!["object", "array", "string", "integer", "number", "boolean"]);
    let leaf = (types, any::<bool>(), arb_json(), 0..6u8).prop_map(|(t, nullable, default, kind)| {
        let mut s = json!({"type": t, "nullable": nullable});
        match kind {
            0 => s["default"] = default,
            1 => s["enum"] = json!([default]),
            2 => s["x-kubernetes-preserve-unknown-fields"] = json!(true),
            3 => s["x-kubernetes-validations"] = json!([{"rule": "self == self"}]),
            4 => s["pattern"] = json!("^[a-c]*$"),
            _ => s["format"] = json!("date-time"),
        }
        s
    });
    leaf.prop_recursive(4, 24, 4, |inner| {
        prop_oneof![
            prop::collection::btree_map("[a-e]", inner.clone(), 0..4)
                .prop_map(|m| json!({"type": "object", "properties": m, "required": ["a"]})),
            inner.clone().prop_map(|s| json!({"type": "object", "additionalProperties": s})),
            (inner.clone(), prop::sample::select(vec!["set", "map", "atomic"])).prop_map(|(s, t)| json!({
                "type": "array", "items": s, "x-kubernetes-list-type": t, "x-kubernetes-list-map-keys": ["a"]})),
            prop::collection::vec(inner, 1..3).prop_map(|s| json!({"anyOf": s, "oneOf": s, "x-kubernetes-int-or-string": true})),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn any_json_under_any_schema(schema in arb_schema(), new in arb_json(), old in arb_json()) {
        let path = ek_meta::FieldPath::root();
        let _ = ek_schema::structural::check(&schema, &path);
        if let Ok(v) = Validator::compile(&schema) {
            v.validate(&new, None);
            v.validate(&new, Some(&old));
            prop_assert!(v.validate(&new, Some(&new)).is_empty());

            let mut once = new.clone();
            ek_schema::prune(&mut once, v.node(), true);
            let mut twice = once.clone();
            prop_assert!(ek_schema::prune(&mut twice, v.node(), true).is_empty());
            prop_assert_eq!(&once, &twice);

            let mut once = new.clone();
            ek_schema::default(&mut once, v.node());
            let mut twice = once.clone();
            ek_schema::default(&mut twice, v.node());
            prop_assert_eq!(&once, &twice);
            let _ = ek_schema::check_types(&new, v.node());
        }
    }

    #[test]
    fn structural_check_takes_any_json(v in arb_json()) {
        let _ = ek_schema::structural::check(&v, &ek_meta::FieldPath::root());
        let _ = Validator::compile(&v);
    }
}

/// One validator serves every request thread.
#[test]
fn compiled_artefacts_are_shared() {
    fn shared<T: Send + Sync>() {}
    shared::<Validator>();
    shared::<ek_schema::cel::Program>();
}
