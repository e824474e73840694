//! Our schemas against the published ones, field by field, when those are at hand.
//!
//! A difference fails unless [`ALLOWED`] names it with a reason; an entry that no longer matches anything fails too,
//! so the list stays the truth. Cluster API's published schemas are v1beta2, ours v1beta1: there only the fields
//! that both have at the same place are compared.

use crate::api::ALL;
use serde_json::{Map, Value, json};
use std::collections::BTreeSet;
use std::path::PathBuf;

/// (where, what, why). `*` at the end of a place matches what is below it.
const ALLOWED: &[(&str, &str, &str)] = &[
    ("HostedCluster.spec.configuration.*", "*", GUEST),
    ("HostedControlPlane.spec.configuration.*", "*", GUEST),
    ("HostedCluster.spec.operatorConfiguration.ingressOperator.endpointPublishingStrategy.*", "*", GUEST),
    (
        "HostedControlPlane.spec.operatorConfiguration.ingressOperator.endpointPublishingStrategy.*",
        "*",
        GUEST,
    ),
    ("HostedCluster.status.configuration.authentication", "open", GUEST),
    ("HostedControlPlane.status.configuration.authentication", "open", GUEST),
    ("HostedCluster.spec.platform.*", "open", OTHER_CLOUD),
    ("HostedControlPlane.spec.platform.*", "open", OTHER_CLOUD),
    ("NodePool.spec.platform.*", "open", OTHER_CLOUD),
    ("HostedCluster.spec.secretEncryption.kms.*", "open", OTHER_CLOUD),
    ("HostedControlPlane.spec.secretEncryption.kms.*", "open", OTHER_CLOUD),
    ("HostedCluster.status.secretEncryption.*", "open", OTHER_CLOUD),
    ("HostedControlPlane.status.secretEncryption.*", "open", OTHER_CLOUD),
    ("HostedCluster.status.platform", "open", OTHER_CLOUD),
    ("HostedControlPlane.status.platform", "open", OTHER_CLOUD),
    ("NodePool.status.platform", "open", OTHER_CLOUD),
    ("HostedCluster.spec.autoNode", "open", OTHER_CLOUD),
    ("HostedControlPlane.spec.autoNode", "open", OTHER_CLOUD),
    ("HostedCluster.status.autoNode", "open", OTHER_CLOUD),
    ("HostedControlPlane.status.autoNode", "open", OTHER_CLOUD),
    (
        "HostedCluster.status.lastSuccessfulEtcdBackupURL",
        "extra",
        "of the TechPreview variant, as HCPEtcdBackup is; the published schema is the Default one",
    ),
    ("AzureCluster.spec.*", "open", OWN_CONTROL_PLANE),
    ("AzureMachine.spec.*", "open", OWN_CONTROL_PLANE),
    ("AzureMachineTemplate.spec.template.spec.*", "open", OWN_CONTROL_PLANE),
    ("Cluster.spec.topology", "open", "managed topologies are not used by hosted clusters"),
    ("Cluster.status.failureDomains*", "*", V1BETA1),
    ("Cluster.spec.controlPlaneEndpoint.*", "*", V1BETA1),
    ("Cluster.spec.clusterNetwork.*", "minItems", V1BETA1),
    ("Cluster.spec.availabilityGates", "minItems", V1BETA1),
    ("?.spec.readinessGates", "minItems", V1BETA1),
    ("?.spec.template.spec.readinessGates", "minItems", V1BETA1),
    ("?.status.observedGeneration", "minimum", V1BETA1),
];

const GUEST: &str =
    "the guest's API server validates its configuration; here it is carried, also what newer releases add";
const OTHER_CLOUD: &str = "not Azure: accepted and carried, refused by our controllers with a condition";
const OWN_CONTROL_PLANE: &str =
    "for clusters with their own control-plane machines or images; carried unread";
const V1BETA1: &str = "v1beta1 has another shape or no such limit";

const KEYWORDS: &[&str] = &[
    "type",
    "format",
    "pattern",
    "minimum",
    "maximum",
    "minLength",
    "maxLength",
    "minItems",
    "maxItems",
    "minProperties",
    "maxProperties",
    "nullable",
    "default",
    "x-kubernetes-list-type",
    "x-kubernetes-list-map-keys",
    "x-kubernetes-map-type",
    "x-kubernetes-int-or-string",
];

/// The published schemas, or nothing with a word about it.
pub fn published() -> Option<PathBuf> {
    testkit::specs("crds")
}

/// The parts `spec` and `status` of a kind's published schema.
pub fn schema(dir: &std::path::Path, group: &str, kind: &str) -> Option<Value> {
    let text = std::fs::read_to_string(dir.join(format!("{group}_{kind}.json"))).ok()?;
    let file: Value = serde_json::from_str(&text).unwrap();
    Some(file["versions"][0]["schema"].clone())
}

struct Difference {
    place: String,
    what: String,
    text: String,
}

struct Comparison {
    found: Vec<Difference>,
    shared_only: bool,
}

impl Comparison {
    fn add(&mut self, place: &str, what: &str, text: String) {
        self.found.push(Difference { place: place.into(), what: what.into(), text });
    }

    fn nodes(&mut self, place: &str, theirs: &Value, ours: &Value) {
        let keeps = |v: &Value| v["x-kubernetes-preserve-unknown-fields"] == true;
        let open = keeps(ours) && !keeps(theirs);
        if open {
            self.add(place, "open", "ours carries what it does not name".into());
            if ours.get("properties").is_none() {
                return;
            }
        }
        for key in KEYWORDS {
            let (t, o) = (&theirs[*key], &ours[*key]);
            if !same(key, t, o) {
                self.add(place, key, format!("published {t}, ours {o}"));
            }
        }
        for key in ["required", "enum"] {
            let set = |v: &Value| -> BTreeSet<String> {
                v[key].as_array().into_iter().flatten().map(Value::to_string).collect()
            };
            let (mut t, mut o) = (set(theirs), set(ours));
            if key == "required" {
                // Defaults come before validation: with one, required or not is the same.
                for (name, _) in theirs["properties"]
                    .as_object()
                    .into_iter()
                    .flatten()
                    .filter(|(_, p)| p.get("default").is_some())
                {
                    t.remove(&json!(name).to_string());
                    o.remove(&json!(name).to_string());
                }
            }
            let differ = if self.shared_only && key == "required" { false } else { t != o };
            if differ {
                self.add(place, key, format!("published {t:?}, ours {o:?}"));
            }
        }
        let empty = Map::new();
        let (theirs_p, ours_p) = (
            theirs["properties"].as_object().unwrap_or(&empty),
            ours["properties"].as_object().unwrap_or(&empty),
        );
        for (name, t) in theirs_p {
            match ours_p.get(name) {
                Some(o) => self.nodes(&format!("{place}.{name}"), t, o),
                None if self.shared_only || open => {}
                None => self.add(&format!("{place}.{name}"), "missing", "ours does not name it".into()),
            }
        }
        for name in ours_p.keys().filter(|n| !theirs_p.contains_key(*n) && !self.shared_only) {
            self.found.push(Difference {
                place: format!("{place}.{name}"),
                what: "extra".into(),
                text: "only ours has it".into(),
            });
        }
        for (child, mark) in [("items", "[]"), ("additionalProperties", "{}")] {
            match (&theirs[child], &ours[child]) {
                (Value::Object(_), Value::Object(_)) => {
                    self.nodes(&format!("{place}{mark}"), &theirs[child], &ours[child])
                }
                (Value::Object(_), _) => {
                    self.add(&format!("{place}{mark}"), "missing", "ours does not name it".into())
                }
                (_, Value::Object(_)) => {
                    self.add(&format!("{place}{mark}"), "extra", "only ours has it".into())
                }
                _ => {}
            }
        }
    }
}

/// v1beta2 keeps the conditions and counters of v1beta1 under `deprecated`; v1beta1 those of v1beta2 under `v1beta2`.
/// References are other types altogether, and no object had to have a property.
fn as_v1beta1(mut schema: Value) -> Value {
    let status = schema["status"]["properties"].as_object_mut().unwrap();
    let newer = status.remove("conditions").unwrap();
    status.insert("v1beta2".into(), json!({"type": "object", "properties": {"conditions": newer}}));
    let older = status.remove("deprecated").unwrap();
    status.extend(older["properties"]["v1beta1"]["properties"].as_object().unwrap().clone());
    fn older_words(node: &mut Value) {
        if let Some(object) = node.as_object_mut() {
            object.remove("minProperties");
            object.retain(|name, _| !name.ends_with("Ref"));
        }
        match node {
            Value::Object(o) => o.values_mut().for_each(older_words),
            Value::Array(a) => a.iter_mut().for_each(older_words),
            _ => {}
        }
    }
    older_words(&mut schema);
    schema
}

fn same(key: &str, a: &Value, b: &Value) -> bool {
    match (a.as_f64(), b.as_f64()) {
        (Some(a), Some(b)) => a == b,
        // Atomic is what a list without a type is.
        _ if key == "x-kubernetes-list-type" => {
            let plain = |v: &Value| v.as_str().unwrap_or("atomic").to_owned();
            plain(a) == plain(b)
        }
        _ => a == b,
    }
}

#[test]
fn our_schemas_say_what_the_published_ones_say() {
    let Some(dir) = published() else { return };
    let mut used = vec![false; ALLOWED.len()];
    let mut wrong = Vec::new();
    let mut compared = 0;
    for crd in ALL.iter() {
        let crd = serde_json::to_value(crd).unwrap();
        let (group, kind) =
            (crd["spec"]["group"].as_str().unwrap(), crd["spec"]["names"]["kind"].as_str().unwrap());
        let Some(theirs) = schema(&dir, group, kind) else { continue };
        compared += 1;
        let theirs = if group == "cluster.x-k8s.io" { as_v1beta1(theirs) } else { theirs };
        let ours = &crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"];
        let mut comparison = Comparison { found: Vec::new(), shared_only: group == "cluster.x-k8s.io" };
        for part in ["spec", "status"] {
            comparison.nodes(&format!("{kind}.{part}"), &theirs[part], &ours[part]);
        }
        for d in comparison.found {
            // What is ours to know must be known: nothing of Azure's may be carried unread.
            assert!(d.what != "open" || !d.place.contains(".azure"), "{} is open", d.place);
            match ALLOWED
                .iter()
                .position(|(place, what, _)| matches(place, &d.place) && (*what == "*" || *what == d.what))
            {
                Some(i) => used[i] = true,
                None => wrong.push(format!("{} {}: {}", d.place, d.what, d.text)),
            }
        }
    }
    wrong.extend(ALLOWED.iter().zip(&used).filter(|(_, used)| !**used).map(|((place, what, _), _)| {
        format!("nothing differs any more at {place} {what}: remove it from the list")
    }));
    assert!(compared >= 14, "only {compared} kinds were compared");
    assert!(wrong.is_empty(), "{} differences:\n{}", wrong.len(), wrong.join("\n"));
}

fn matches(pattern: &str, place: &str) -> bool {
    let pattern = pattern.strip_prefix("?.").map(|rest| (true, rest)).unwrap_or((false, pattern));
    let place = if pattern.0 { place.split_once('.').map_or(place, |(_, rest)| rest) } else { place };
    match pattern.1.strip_suffix('*') {
        Some(prefix) => place.starts_with(prefix),
        None => place == pattern.1,
    }
}

#[test]
fn published_names_are_ours() {
    let Some(dir) = published() else { return };
    for crd in ALL.iter() {
        let crd = serde_json::to_value(crd).unwrap();
        let spec = &crd["spec"];
        let (group, kind) = (spec["group"].as_str().unwrap(), spec["names"]["kind"].as_str().unwrap());
        let Ok(text) = std::fs::read_to_string(dir.join(format!("{group}_{kind}.json"))) else { continue };
        let file: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(
            (&file["plural"], &file["scope"], &file["shortNames"]),
            (&spec["names"]["plural"], &spec["scope"], &spec["names"]["shortNames"]),
            "{kind}"
        );
        assert_eq!(file["versions"][0]["subresources"], spec["versions"][0]["subresources"], "{kind}");
    }
}
