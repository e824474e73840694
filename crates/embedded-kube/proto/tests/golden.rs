//! The judge: objects encoded by Go, next to the JSON Go writes for them (`interop/go/protofixtures`).
//!
//! `PROTO_FIXTURES=<dir>` points the same tests at a larger set than the committed one.

#![allow(clippy::unwrap_used)] // Helpers of tests are tests too.

use base64::Engine as _;
use serde_json::Value;

struct Fixture {
    name: String,
    proto: Vec<u8>,
    json: Value,
}

#[allow(clippy::disallowed_methods)] // A test may be told where its fixtures are.
fn fixtures() -> Vec<Fixture> {
    let dir = std::env::var("PROTO_FIXTURES")
        .unwrap_or_else(|_| concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures").to_owned());
    let mut out = Vec::new();
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        for line in std::fs::read_to_string(&path).unwrap().lines() {
            let cells: Vec<&str> = line.split('\t').collect();
            out.push(Fixture {
                name: format!("{} {} {}", path.file_stem().unwrap().display(), cells[0], cells[1]),
                proto: base64::engine::general_purpose::STANDARD.decode(cells[2]).unwrap(),
                json: serde_json::from_str(cells[3]).unwrap(),
            });
        }
    }
    assert!(out.len() > 50, "only {} fixtures", out.len());
    out
}

/// The first place where two values differ.
fn difference(path: &str, got: &Value, want: &Value) -> Option<String> {
    match (got, want) {
        (Value::Object(a), Value::Object(b)) => a
            .keys()
            .chain(b.keys().filter(|k| !a.contains_key(*k)))
            .find_map(|k| match (a.get(k), b.get(k)) {
                (Some(x), Some(y)) => difference(&format!("{path}.{k}"), x, y),
                (x, y) => Some(format!("{path}.{k}: got {x:?}, want {y:?}")),
            }),
        (Value::Array(a), Value::Array(b)) if a.len() == b.len() => {
            a.iter().zip(b).enumerate().find_map(|(i, (x, y))| difference(&format!("{path}[{i}]"), x, y))
        }
        _ if got == want => None,
        _ => Some(format!("{path}: got {got}, want {want}")),
    }
}

fn report(failures: &[String]) {
    assert!(
        failures.is_empty(),
        "{} failures:\n{}",
        failures.len(),
        failures[..failures.len().min(30)].join("\n")
    );
}

#[test]
fn decoding_gives_the_json_go_gives() {
    let mut failures = Vec::new();
    for f in fixtures() {
        match ek_proto::decode_reporting(&f.proto) {
            Ok(d) => {
                failures.extend(difference("", &d.value, &f.json).map(|d| format!("{}: {d}", f.name)));
                failures.extend(d.unknown.first().map(|u| format!("{}: unknown field {u:?}", f.name)));
            }
            Err(e) => failures.push(format!("{}: {e}", f.name)),
        }
    }
    report(&failures);
}

#[test]
fn api_version_and_kind_come_first() {
    for f in fixtures() {
        let v = ek_proto::decode(&f.proto).unwrap();
        let keys: Vec<&String> = v.as_object().unwrap().keys().take(2).collect();
        assert_eq!(keys, ["apiVersion", "kind"], "{}", f.name);
    }
}

/// A null behind a pointer (a RawExtension without content) is the one thing that encoding forgets.
fn without_null(v: &Value) -> Value {
    match v {
        Value::Object(m) => m
            .iter()
            .filter(|(_, v)| !v.is_null())
            .map(|(k, v)| (k.clone(), without_null(v)))
            .collect::<serde_json::Map<_, _>>()
            .into(),
        Value::Array(a) => a.iter().map(without_null).collect(),
        _ => v.clone(),
    }
}

#[test]
fn encoding_is_the_inverse() {
    let mut failures = Vec::new();
    for f in fixtures() {
        match ek_proto::encode(&f.json).and_then(|b| ek_proto::decode(&b)) {
            Ok(v) => failures.extend(
                difference("", &without_null(&v), &without_null(&f.json)).map(|d| format!("{}: {d}", f.name)),
            ),
            Err(e) => failures.push(format!("{}: {e}", f.name)),
        }
    }
    report(&failures);
}
