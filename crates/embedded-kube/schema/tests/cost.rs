//! How long one object takes: a measurement, not a test.

use ek_schema::Validator;
use serde_json::{Value, json};
use std::time::Instant;

/// Run with `--release -- --ignored --nocapture`.
#[test]
#[ignore = "a measurement"]
fn cost_of_one_object() {
    let item = json!({"type": "object", "required": ["name"], "properties": {
        "name": {"type": "string", "maxLength": 63, "pattern": "^[a-z0-9-]+$"},
        "port": {"type": "integer", "format": "int32", "minimum": 1, "maximum": 65535},
        "protocol": {"type": "string", "enum": ["TCP", "UDP"]},
        "labels": {"type": "object", "additionalProperties": {"type": "string"}}}});
    let mut schema = json!({"type": "object", "properties": {"spec": {"type": "object", "properties": {
        "ports": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"], "items": item}}}}});
    let ports: Vec<Value> = (0..50)
        .map(|i| {
            json!({"name": format!("port-number-{i}"), "port": 8000 + i, "protocol": "TCP",
            "labels": {"app": "something", "tier": "backend"}})
        })
        .collect();
    let object = json!({"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": "x"}, "spec": {"ports": ports}});
    let bytes = object.to_string().len();
    let time = |v: &Validator, what: &str| {
        let n = 2000;
        let start = Instant::now();
        for _ in 0..n {
            assert!(v.validate(&object, None).is_empty());
        }
        println!("{what}: {bytes} bytes in {:?}", start.elapsed() / n);
    };
    time(&Validator::compile(&schema).unwrap(), "keywords");
    schema["properties"]["spec"]["x-kubernetes-validations"] =
        json!([{"rule": "self.ports.all(p, p.port > 100 && p.name.startsWith('port'))"}]);
    time(&Validator::compile(&schema).unwrap(), "with one rule over 50 items");
    let start = Instant::now();
    let _ = Validator::compile(&schema);
    println!("compile: {:?}", start.elapsed());
}
