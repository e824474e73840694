//! Input nobody meant well: it may be refused, it may never panic, hang or grow.

#![allow(clippy::unwrap_used)] // Helpers of tests are tests too.

use base64::Engine as _;
use ek_proto::{Error, MAGIC, decode, decode_as, decode_reporting, encode};
use proptest::prelude::*;
use serde_json::json;
use std::sync::LazyLock;

static FIXTURES: LazyLock<Vec<Vec<u8>>> = LazyLock::new(|| {
    let dir = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures");
    let files = std::fs::read_dir(dir).unwrap().map(|f| std::fs::read_to_string(f.unwrap().path()).unwrap());
    let mut out: Vec<Vec<u8>> = files
        .flat_map(|text| {
            let decode =
                |l: &str| base64::engine::general_purpose::STANDARD.decode(l.split('\t').nth(2).unwrap());
            text.lines().map(|l| decode(l).unwrap()).collect::<Vec<_>>()
        })
        .collect();
    out.sort();
    out
});

fn field(tag: u8, bytes: &[u8]) -> Vec<u8> {
    let mut out = vec![tag << 3 | 2];
    let mut n = bytes.len();
    while n >= 0x80 {
        out.push(n as u8 | 0x80);
        n >>= 7;
    }
    out.push(n as u8);
    out.extend_from_slice(bytes);
    out
}

fn document(api_version: &str, kind: &str, raw: &[u8]) -> Vec<u8> {
    let meta = [field(1, api_version.as_bytes()), field(2, kind.as_bytes())].concat();
    [MAGIC.to_vec(), field(1, &meta), field(2, raw)].concat()
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(512) })]

    #[test]
    fn random_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
        let _ = decode(&bytes);
        let _ = decode(&[&MAGIC[..], &bytes].concat());
        let _ = decode(&document("v1", "Pod", &bytes));
        let _ = decode(&document("apiextensions.k8s.io/v1", "CustomResourceDefinition", &bytes));
        let _ = decode_as("io.k8s.api.core.v1.PodSpec", &bytes);
    }

    #[test]
    fn mutated_objects_never_panic(
        which in any::<prop::sample::Index>(),
        changes in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8),
        cut in any::<prop::sample::Index>(),
        truncate in any::<bool>(),
    ) {
        let mut bytes = which.get(&FIXTURES).clone();
        for (at, value) in changes {
            let i = at.index(bytes.len());
            bytes[i] = value;
        }
        if truncate {
            bytes.truncate(cut.index(bytes.len()));
        }
        if let Ok(d) = decode_reporting(&bytes) {
            // What can be read can be written, unless a raw part smuggled in a value of another type.
            let _ = encode(&d.value);
            prop_assert!(d.unknown.len() <= 64);
        }
    }
}

#[test]
fn envelopes_are_checked() {
    assert_eq!(decode(b"{}"), Err(Error::NoMagic));
    assert_eq!(decode(b""), Err(Error::NoMagic));
    assert_eq!(decode(&MAGIC), Err(Error::NoKind));
    let unknown = Error::UnknownKind { api_version: "example.com/v1".into(), kind: "Foo".into() };
    assert_eq!(decode(&document("example.com/v1", "Foo", b"")), Err(unknown));
    assert_eq!(encode(&json!({"apiVersion": "v1"})), Err(Error::NoKind));
    let gzip = [document("v1", "Pod", b""), field(3, b"gzip")].concat();
    assert_eq!(decode(&gzip), Err(Error::Encoding("gzip".into())));
    let inner = [document("x/v1", "Foo", br#"{"a":1}"#), field(4, b"application/json")].concat();
    assert_eq!(decode(&inner), Ok(json!({"a": 1})));
}

#[test]
fn wrong_types_and_text_are_errors() {
    // metadata as a number, name not UTF-8, a string as fixed64.
    assert!(matches!(
        decode(&document("v1", "Pod", b"\x08\x01")),
        Err(Error::WireType { tag: 1, wire: 0, .. })
    ));
    assert_eq!(decode(&document("v1", "Pod", &field(1, &field(1, b"\xff")))), Err(Error::Utf8));
    let name = [&[1 << 3 | 1][..], &[0; 8]].concat();
    assert!(matches!(decode(&document("v1", "Pod", &field(1, &name))), Err(Error::WireType { wire: 1, .. })));
}

#[test]
fn nesting_is_bounded() {
    let props = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaProps";
    // `not` (28) holds a schema: key 28 << 3 | 2 takes two bytes.
    let nest = |n: usize| {
        (0..n).fold(Vec::new(), |inner: Vec<u8>, _| {
            let body = field(1, &inner);
            [&[0xe2, 0x01][..], &body[1..]].concat()
        })
    };
    assert!(decode_as(props, &nest(50)).is_ok());
    assert_eq!(decode_as(props, &nest(5000)), Err(Error::Depth));
    let mut v = json!({});
    for _ in 0..200 {
        v = json!({ "not": v });
    }
    assert_eq!(ek_proto::encode_as(props, &v), Err(Error::Depth));
}

/// Two bytes per container must not buy a whole default container each without end.
#[test]
fn defaults_are_paid_for() {
    let containers = [0x12u8, 0x00].repeat(500_000);
    assert_eq!(decode(&document("v1", "Pod", &field(2, &containers))), Err(Error::Budget));
    // A sparse object of an encoder that leaves zeros out, as Rust's do, is fine.
    let pod = decode(&document("v1", "Pod", &field(2, &field(2, &field(1, b"c"))))).unwrap();
    assert_eq!(pod["spec"]["containers"], json!([{"name": "c", "resources": {}}]));
}

#[test]
fn unknown_fields_are_reported_once() {
    let raw = [b"\xf8\x07\x01".to_vec(), b"\xf8\x07\x02".to_vec(), field(15, b"x")].concat();
    let d = decode_reporting(&document("v1", "ConfigMap", &raw)).unwrap();
    let tags: Vec<u32> = d.unknown.iter().map(|u| u.tag).collect();
    assert_eq!(tags, [127, 15]);
    assert_eq!(d.value, json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {}}));
}

#[test]
fn pieces_are_merged_and_packed_numbers_read() {
    let raw = [field(1, &field(1, b"a")), field(1, &field(3, b"ns")), field(1, &field(1, b"b"))].concat();
    let v = decode(&document("v1", "ConfigMap", &raw)).unwrap();
    assert_eq!(v["metadata"], json!({"name": "b", "namespace": "ns"}));
    let packed = decode_as("io.k8s.api.core.v1.PodSecurityContext", &field(4, &[1, 0x80, 1])).unwrap();
    assert_eq!(packed["supplementalGroups"], json!([1, 128]));
}

#[test]
fn watch_frames_are_length_delimited() {
    let frame = ek_proto::encode_watch_event(
        "ADDED",
        &json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}}),
    )
    .unwrap();
    let (len, rest) = frame.split_at(4);
    assert_eq!(u32::from_be_bytes(len.try_into().unwrap()) as usize, rest.len());
    assert_eq!(&rest[..7], b"\x0a\x05ADDED");
    assert!(rest.windows(4).any(|w| w == MAGIC));
}
