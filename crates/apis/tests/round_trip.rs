//! Objects survive the type and back: every field that the schema allows is kept, and only defaults are added.
//!
//! Objects are drawn from a schema: the published ones where they are at hand (so that a field which our types
//! forgot shows), and our own for every kind. Strings need not match patterns, which only makes the claim wider.

use crate::api::ALL;
use crate::published::{published, schema};
use clock::Random;
use proptest::prelude::*;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

fn through<T: DeserializeOwned + Serialize>(object: &Value) -> Result<Value, serde_json::Error> {
    serde_json::to_value(serde_json::from_value::<T>(object.clone())?)
}

/// The object after reading and writing it with the type of its kind.
fn typed(kind: &str, object: &Value) -> Result<Value, serde_json::Error> {
    macro_rules! kinds {
        ($($module:ident :: {$($name:ident),+ $(,)?})+) => {
            match kind { $($(stringify!($name) => through::<apis::$module::$name>(object),)+)+ _ => panic!("no type for {kind}") }
        };
    }
    kinds! {
        hypershift::{HostedCluster, NodePool, HostedControlPlane, ControlPlaneComponent, AzurePrivateLinkService,
            HCPEtcdBackup, CertificateSigningRequestApproval, CertificateRevocationRequest}
        capi::{Cluster, MachineDeployment, MachineSet, Machine, MachineHealthCheck}
        capz::{AzureCluster, AzureClusterIdentity, AzureMachine, AzureMachineTemplate}
        openshift::{Route, ClusterVersion, ClusterOperator, Infrastructure, APIServer, Authentication, Build, DNS, FeatureGate,
            Image, ImageDigestMirrorSet, Ingress, Network, OAuth, OperatorHub, Proxy, Scheduler}
        scheduling::{ClusterSizingConfiguration}
        secrets_store::{SecretProviderClass}
    }
}

/// An object that the schema allows. `density` is the chance, in ten, that an optional field is there.
fn draw(node: &Value, random: &Random, density: usize) -> Value {
    if node["nullable"] == true && random.below(6) == 0 {
        return Value::Null;
    }
    if node["x-kubernetes-int-or-string"] == true {
        return if random.below(2) == 0 { json!(random.below(9)) } else { json!("5Gi") };
    }
    if let Some(values) = node["enum"].as_array() {
        return values[random.below(values.len())].clone();
    }
    match node["type"].as_str() {
        Some("object") => draw_object(node, random, density),
        Some("array") => {
            let least = node["minItems"].as_u64().unwrap_or(0) as usize;
            (0..least.max(random.below(3))).map(|_| draw(&node["items"], random, density)).collect()
        }
        Some("integer") => {
            let least = node["minimum"].as_f64().unwrap_or(-5.0) as i64;
            let most = node["maximum"].as_f64().map_or(least + 9, |m| m as i64);
            json!(least + random.below((most - least + 1).clamp(1, 1000) as usize) as i64)
        }
        Some("number") => json!(0.5),
        Some("boolean") => json!(random.below(2) == 0),
        Some("string") if node["format"] == "date-time" => {
            json!(format!("2026-01-02T03:04:0{}Z", random.below(10)))
        }
        Some("string") => json!(["", "a", "Å · \"quoted\"", "https://example.com/x?y=z"][random.below(4)]),
        _ => json!({"anything": ["at", {"all": 1}]}),
    }
}

fn draw_object(node: &Value, random: &Random, density: usize) -> Value {
    let mut object = Map::new();
    let required = node["required"].as_array().cloned().unwrap_or_default();
    for (name, child) in node["properties"].as_object().into_iter().flatten() {
        let must = required.iter().any(|r| r == name) && child.get("default").is_none();
        if must || random.below(10) < density {
            object.insert(name.clone(), draw(child, random, density));
        }
    }
    if node["additionalProperties"].is_object() {
        for i in 0..random.below(3) {
            object.insert(
                format!("key-{i}.example.com/x"),
                draw(&node["additionalProperties"], random, density),
            );
        }
    }
    if node["x-kubernetes-preserve-unknown-fields"] == true {
        object.insert("unheardOf".into(), json!({"of": [1, "two", null]}));
    }
    Value::Object(object)
}

/// What went missing, changed, or came without being a default.
fn losses(place: &str, node: &Value, before: &Value, after: &Value, wrong: &mut Vec<String>) {
    match (before, after) {
        (Value::Object(b), Value::Object(a)) => {
            for (key, value) in b {
                let at = format!("{place}.{key}");
                let child = node["properties"].get(key).unwrap_or_else(|| &node["additionalProperties"]);
                match a.get(key) {
                    Some(kept) => losses(&at, child, value, kept, wrong),
                    // To a server, null and absent are the same.
                    None if value.is_null() => {}
                    None => wrong.push(format!("{at} is lost")),
                }
            }
            for (key, value) in a.iter().filter(|(k, _)| !b.contains_key(*k)) {
                let child = &node["properties"][key.as_str()];
                let fine =
                    child.get("default") == Some(value) || (child["nullable"] == true && value.is_null());
                if !fine {
                    wrong.push(format!("{place}.{key} came as {value}, which is no default"));
                }
            }
        }
        (Value::Array(b), Value::Array(a)) if a.len() == b.len() => {
            for (i, (b, a)) in b.iter().zip(a).enumerate() {
                losses(&format!("{place}[{i}]"), &node["items"], b, a, wrong);
            }
        }
        _ if before == after => {}
        _ => wrong.push(format!("{place} was {before} and became {after}")),
    }
}

fn survives(api_version: &str, kind: &str, schema: &Value, seed: u64, density: usize) {
    let random = Random::seeded(seed);
    let mut object =
        json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": "a", "labels": {"x": "y"}}});
    object["spec"] = draw(&schema["spec"], &random, density);
    if schema["status"].is_object() {
        object["status"] = draw(&schema["status"], &random, density);
    }
    let after = typed(kind, &object).unwrap_or_else(|e| panic!("{kind} cannot be read: {e}\n{object:#}"));
    let whole = json!({"properties": schema});
    let mut wrong = Vec::new();
    losses(kind, &whole, &object, &after, &mut wrong);
    assert!(wrong.is_empty(), "{}\n{object:#}", wrong.join("\n"));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn objects_of_the_published_schemas_survive(seed: u64, density in 2usize..=10) {
        let Some(dir) = published() else { return Ok(()) };
        for crd in ALL.iter().filter(|c| c.spec.group != "cluster.x-k8s.io") {
            let names = &crd.spec.names;
            if let Some(schema) = schema(&dir, &crd.spec.group, &names.kind) {
                let api_version = format!("{}/{}", crd.spec.group, crd.spec.versions[0].name);
                survives(&api_version, &names.kind, &schema, seed, density);
            }
        }
    }

    #[test]
    fn objects_of_our_schemas_survive(seed: u64, density in 2usize..=10) {
        for (crd, schema) in ALL.iter().zip(OURS.iter()) {
            let api_version = format!("{}/{}", crd.spec.group, crd.spec.versions[0].name);
            survives(&api_version, &crd.spec.names.kind, schema, seed, density);
        }
    }

    #[test]
    fn an_edit_changes_what_it_says_and_keeps_the_unknown(replicas in 0i32..100, note in "[a-z]{1,8}") {
        let mut stored = crate::samples::node_pool();
        stored["spec"]["fromTheFuture"] = json!({"note": note});
        stored["spec"]["platform"]["azure"]["alsoNew"] = json!([note]);
        stored["spec"]["taints"] = json!([{"key": "a", "effect": "NoSchedule", "new": note}, {"key": "b", "effect": "NoSchedule"}]);
        let patch = apis::edit::edit(&stored, |np: &mut apis::hypershift::NodePool| {
            np.spec.replicas = Some(replicas);
            if let Some(taint) = np.spec.taints.as_mut().and_then(|t| t.first_mut()) {
                taint.value = Some(note.clone());
            }
        }).unwrap().unwrap();
        let mut wanted = stored.clone();
        wanted["spec"]["replicas"] = json!(replicas);
        wanted["spec"]["taints"][0]["value"] = json!(note);
        apis::edit::apply(&mut stored, &patch);
        prop_assert_eq!(stored, wanted);
        prop_assert!(patch["spec"].get("fromTheFuture").is_none() && patch["spec"].get("platform").is_none());
    }
}

static OURS: std::sync::LazyLock<Vec<Value>> = std::sync::LazyLock::new(|| {
    let parts = |c| {
        serde_json::to_value(c).unwrap()["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]
            .clone()
    };
    ALL.iter().map(parts).collect()
});

#[test]
fn what_changes_nothing_sends_nothing() {
    let stored = crate::samples::full_hosted_cluster();
    let patch = apis::edit::edit(&stored, |_: &mut apis::hypershift::HostedCluster| {}).unwrap();
    assert_eq!(patch, None);
    let removed =
        apis::edit::edit(&stored, |hc: &mut apis::hypershift::HostedCluster| hc.spec.paused_until = None)
            .unwrap();
    assert_eq!(removed, Some(json!({"spec": {"pausedUntil": null}})));
}

#[test]
fn a_loss_would_be_noticed() {
    let node = json!({"properties": {"a": {"default": 1}, "b": {}, "c": {}}});
    let said = |before: Value, after: Value| {
        let mut wrong = Vec::new();
        losses("x", &node, &before, &after, &mut wrong);
        wrong
    };
    assert_eq!(said(json!({"b": [{"d": 1}]}), json!({"b": [{}]})), ["x.b[0].d is lost"]);
    assert_eq!(said(json!({"b": 1}), json!({"b": 2})), ["x.b was 1 and became 2"]);
    assert_eq!(said(json!({}), json!({"c": ""})), ["x.c came as \"\", which is no default"]);
    assert!(said(json!({"b": null}), json!({"a": 1})).is_empty());
}
