//! Whatever JSON arrives, nothing panics, and doing it twice changes nothing more.

#![allow(clippy::unwrap_used, clippy::panic)] // A test that cannot go on should stop.

use ek_builtin::{convert, defaults, flags, has_generation, name_rule, prepare, printers, validate};
use ek_data::resources::RESOURCES;
use proptest::prelude::*;
use serde_json::{Map, Value, json};

/// Names that lead into the code, so that arbitrary values land where they are read.
const KEYS: &[&str] = &[
    "metadata",
    "name",
    "namespace",
    "labels",
    "annotations",
    "uid",
    "spec",
    "status",
    "template",
    "containers",
    "initContainers",
    "volumes",
    "ports",
    "env",
    "resources",
    "limits",
    "requests",
    "selector",
    "matchLabels",
    "matchExpressions",
    "values",
    "strategy",
    "rollingUpdate",
    "updateStrategy",
    "type",
    "replicas",
    "rules",
    "subjects",
    "roleRef",
    "webhooks",
    "clientConfig",
    "service",
    "data",
    "stringData",
    "binaryData",
    "conditions",
    "jobTemplate",
    "schedule",
    "metrics",
    "behavior",
    "clusterIP",
    "clusterIPs",
    "containerStatuses",
    "state",
    "terminated",
    "waiting",
    "restartCount",
    "involvedObject",
    "series",
    "port",
    "cpu",
    "image",
    "livenessProbe",
    "httpGet",
    "volumeMounts",
    "resource",
    "target",
    "devices",
    "exactly",
    "subsets",
    "addresses",
    "endpoints",
];

fn leaf() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        prop_oneof![Just(0i64), Just(-1), Just(i64::MAX), Just(i64::MIN), any::<i64>()].prop_map(Value::from),
        prop::sample::select(
            &["", "None", "Always", "1Gi", "a/b:c@d", "é", "*/5 * * * *", "Resource", "ClientIP"][..]
        )
        .prop_map(Value::from),
        "[ -~]{0,8}".prop_map(Value::from),
    ]
}

fn any_json() -> impl Strategy<Value = Value> {
    leaf().prop_recursive(5, 60, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::vec((prop::sample::select(KEYS), inner), 0..6).prop_map(|pairs| {
                Value::Object(pairs.into_iter().map(|(k, v)| (k.to_owned(), v)).collect::<Map<_, _>>())
            }),
        ]
    })
}

fn object() -> impl Strategy<Value = Value> {
    prop::collection::vec((prop::sample::select(KEYS), any_json()), 0..8)
        .prop_map(|pairs| Value::Object(pairs.into_iter().map(|(k, v)| (k.to_owned(), v)).collect()))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_json_makes_any_kind_panic(a in prop_oneof![object(), any_json()], b in object()) {
        let now: jiff::Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
        for r in RESOURCES {
            let (g, p) = (r.group, r.plural);
            let mut obj = a.clone();
            if let Some(m) = obj.as_object_mut() {
                m.insert("apiVersion".into(), json!(r.api_version()));
                m.insert("kind".into(), json!(r.kind));
            }
            let raw = obj.clone();
            validate::validate(g, p, &raw, Some(&b), "");
            printers::row(g, p, &raw, now);
            defaults::default(g, p, &mut obj);
            let once = obj.clone();
            defaults::default(g, p, &mut obj);
            prop_assert_eq!(&once, &obj, "defaults of {}/{} are not idempotent", g, p);
            prepare::prepare(g, p, &mut obj, None);
            let once = obj.clone();
            prepare::prepare(g, p, &mut obj, None);
            prop_assert_eq!(&once, &obj, "preparing {}/{} is not idempotent", g, p);
            prepare::reset_on_create(g, p, &mut obj);
            prop_assert_eq!(&once, &obj, "resetting {}/{} disagrees with preparing it", g, p);
            validate::validate(g, p, &obj, None, "");
            let mut update = obj.clone();
            prepare::prepare(g, p, &mut update, Some(&b));
            validate::validate(g, p, &update, Some(&b), "");
            let row = printers::row(g, p, &obj, now);
            prop_assert_eq!(row.map(|r| r.len()), printers::columns(g, p).map(<[_]>::len), "{}/{}", g, p);
            printers::row_conditions(g, p, &obj);
            for to in ["v1", "events.k8s.io/v1", "autoscaling/v1", "autoscaling/v2"] {
                convert::convert(&mut obj, to);
            }
            flags(g, p);
            has_generation(g, p);
            name_rule(g, p)("x");
        }
    }
}
