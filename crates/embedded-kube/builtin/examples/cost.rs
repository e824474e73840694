//! What defaulting and validating cost: `cargo run --release -p ek-builtin --example cost`.
//!
//! Budgets: a 1 KB config map under 3 µs, a 6 KB deployment under 30 µs.

use ek_builtin::{defaults, prepare, validate};
use serde_json::{Value, json};
use std::hint::black_box;
use std::time::Instant;

const ROUNDS: u32 = 2000;

/// Median nanoseconds of filling in and of checking. Copies are made outside the clock, one at a time: a server's
/// object is warm in the cache, for it was parsed a moment ago.
fn cost(group: &str, plural: &str, obj: &Value) -> (u128, u128) {
    let (mut fill, mut check) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        let mut o = obj.clone();
        let start = Instant::now();
        defaults::default(group, plural, &mut o);
        prepare::prepare(group, plural, &mut o, None);
        fill.push(start.elapsed().as_nanos());
        let start = Instant::now();
        let errors = black_box(validate::validate(group, plural, &o, None, ""));
        check.push(start.elapsed().as_nanos());
        assert!(errors.is_empty(), "{}", errors[0]);
    }
    fill.sort_unstable();
    check.sort_unstable();
    (fill[fill.len() / 2], check[check.len() / 2])
}

fn main() {
    let map = json!({"metadata": {"name": "m"}, "data": {"a": "x".repeat(450), "b": "y".repeat(450)}});
    let container = |i: usize| {
        json!({
            "name": format!("c{i}"), "image": "registry.example.com/team/app:v1.2.3", "args": ["--one=1", "--two=2"],
            "ports": [{"containerPort": 8080, "name": "http"}, {"containerPort": 8443, "name": "https"}],
            "env": (0..6).map(|n| json!({"name": format!("NAME_{n}"), "value": "some value"})).collect::<Vec<_>>(),
            "resources": {"requests": {"cpu": "100m", "memory": "64Mi"}, "limits": {"cpu": "1", "memory": "1Gi"}},
            "livenessProbe": {"httpGet": {"path": "/healthz", "port": "http"}},
            "readinessProbe": {"httpGet": {"path": "/readyz", "port": "http"}},
            "volumeMounts": [{"name": "v0", "mountPath": "/a"}, {"name": "v1", "mountPath": "/b"}],
        })
    };
    let volumes: Vec<Value> =
        (0..4).map(|i| json!({"name": format!("v{i}"), "configMap": {"name": "some-config"}})).collect();
    let deployment = json!({"metadata": {"name": "d"}, "spec": {
        "selector": {"matchLabels": {"app": "x"}},
        "template": {"metadata": {"labels": {"app": "x"}},
            "spec": {"containers": (0..6).map(container).collect::<Vec<_>>(), "volumes": volumes}},
    }});
    let mut out = String::new();
    for (group, plural, obj) in [("", "configmaps", &map), ("apps", "deployments", &deployment)] {
        cost(group, plural, obj);
        let size = obj.to_string().len();
        let (fill, check) = cost(group, plural, obj);
        out.push_str(&format!("{plural} of {size} bytes: {fill} ns to fill in, {check} ns to check\n"));
    }
    std::io::Write::write_all(&mut std::io::stdout(), out.as_bytes()).unwrap_or_default();
}
