//! Every rule of the definitions refuses its bad example, with a message that names the field and the way out.
//!
//! The tables are (what is changed, what the message must say). The last test asks that no rule is without a row:
//! each message of each definition must have been seen.

use crate::api::{ALL, Api, collection, start};
use crate::rule_table::{CREATE, Case, UPDATE};
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// Sets what `change` says (JSON pointer, JSON text); `null` removes.
fn apply(object: &mut Value, change: &[(&str, &str)]) {
    for (pointer, text) in change {
        let value: Value = serde_json::from_str(text).unwrap_or_else(|e| panic!("{text}: {e}"));
        let (parent, last) = pointer.rsplit_once('/').unwrap();
        let parent = object.pointer_mut(parent).unwrap_or_else(|| panic!("nothing at {parent}"));
        match parent {
            Value::Array(items) if value.is_null() => drop(items.remove(last.parse().unwrap())),
            Value::Object(map) if value.is_null() => {
                drop(map.remove(last).unwrap_or_else(|| panic!("no {pointer} to remove")))
            }
            Value::Array(items) => items[last.parse::<usize>().unwrap()] = value,
            other => other[last] = value,
        }
    }
}

#[derive(Default)]
struct Outcome {
    seen: String,
    wrong: Vec<String>,
}

fn refused(case: &Case, answer: &crate::api::Answer, outcome: &mut Outcome) {
    let (code, said) = (answer.code, answer.message());
    if code != 422 || !said.contains(case.says) {
        let Case { setup, change, says, .. } = case;
        outcome.wrong.push(format!("{setup:?} then {change:?}\n  wanted: {says}\n  said: {code} {said}"));
    }
    outcome.seen.push_str(said);
    outcome.seen.push('\n');
}

async fn creations(api: &Api, outcome: &mut Outcome) {
    for case in CREATE {
        let mut object = (case.base)();
        apply(&mut object, case.setup);
        let good = api.post(&format!("{}?dryRun=All", collection(&object)), &object).await;
        if good.code != 201 {
            outcome.wrong.push(format!("{:?} must be good: {}", case.setup, good.message()));
        }
        apply(&mut object, case.change);
        refused(case, &api.post(&collection(&object), &object).await, outcome);
    }
}

async fn updates(api: &Api, outcome: &mut Outcome) {
    for (i, case) in UPDATE.iter().enumerate() {
        let mut object = (case.base)();
        object["metadata"]["name"] = json!(format!("u{i}"));
        apply(&mut object, case.setup);
        let stored = api.post(&collection(&object), &object).await;
        assert!(stored.code == 201, "{:?} must be good: {}", case.setup, stored.message());
        let mut changed = stored.body;
        let uri = format!("{}/u{i}", collection(&object));
        let same = api.put(&uri, &changed).await;
        assert!(same.code == 200, "no change must be good: {}", same.message());
        apply(&mut changed, case.change);
        refused(case, &api.put(&uri, &changed).await, outcome);
    }
}

#[tokio::test]
async fn every_rule_refuses_its_bad_example_and_says_what_to_do() {
    let api = start().await;
    let mut outcome = Outcome::default();
    creations(&api, &mut outcome).await;
    updates(&api, &mut outcome).await;
    assert!(outcome.wrong.is_empty(), "{}", outcome.wrong.join("\n"));
    let mut untested = BTreeSet::new();
    for crd in ALL.iter() {
        messages(&serde_json::to_value(crd).unwrap(), &mut |m| {
            if !outcome.seen.contains(m) {
                untested.insert(m.to_owned());
            }
        });
    }
    assert!(
        untested.is_empty(),
        "{} rules have no row:\n{}",
        untested.len(),
        untested.into_iter().collect::<Vec<_>>().join("\n")
    );
}

fn messages(node: &Value, each: &mut dyn FnMut(&str)) {
    match node {
        Value::Object(map) => {
            if let Some(rules) = map.get("x-kubernetes-validations").and_then(Value::as_array) {
                rules.iter().for_each(|r| each(r["message"].as_str().expect("every rule has a message")));
            }
            map.values().for_each(|v| messages(v, each));
        }
        Value::Array(items) => items.iter().for_each(|v| messages(v, each)),
        _ => {}
    }
}

#[tokio::test]
async fn what_may_change_can() {
    let api = start().await;
    let mut hc = crate::samples::full_hosted_cluster();
    hc["spec"]["dns"]["baseDomain"] = json!("");
    let mut stored = api.post(&collection(&hc), &hc).await.ok();
    apply(
        &mut stored,
        &[
            ("/spec/release/image", r#""quay.io/openshift-release-dev/ocp-release:4.20.6-multi""#),
            ("/spec/controlPlaneRelease", r#"{"image": "quay.io/r:4.20.7"}"#),
            ("/spec/platform/azure/topology", r#""Private""#),
            ("/spec/dns/baseDomain", r#""example.com""#),
            (
                "/spec/secretEncryption/kms/azure/backupKey",
                r#"{"keyVaultName": "kv", "keyName": "etcd", "keyVersion": "0"}"#,
            ),
            ("/spec/networking/apiServer/allowedCIDRBlocks", r#"["198.51.100.0/24"]"#),
            ("/spec/pausedUntil", "null"),
            ("/spec/infrastructureAvailabilityPolicy", r#""HighlyAvailable""#),
            ("/spec/autoscaling", "null"),
        ],
    );
    api.put("/apis/hypershift.openshift.io/v1beta1/namespaces/clusters/hostedclusters/sample", &stored)
        .await
        .ok();
    let np = crate::samples::node_pool();
    let mut stored = api.post(&collection(&np), &np).await.ok();
    apply(
        &mut stored,
        &[
            ("/spec/replicas", "null"),
            ("/spec/autoScaling", r#"{"min": 0, "max": 5}"#),
            ("/spec/platform/azure/vmSize", r#""Standard_D8s_v5""#),
        ],
    );
    api.put("/apis/hypershift.openshift.io/v1beta1/namespaces/clusters/nodepools/sample", &stored).await.ok();
}
