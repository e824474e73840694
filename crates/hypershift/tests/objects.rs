//! Everything that is written, as files.

use crate::samples;
use crate::world::release;
use apis::hypershift::HostedCluster;
use control_plane::Materials;
use control_plane::facts::Around;
use control_plane::scope::Management;
use hypershift::Machinery;
use hypershift::inputs::{self, Data, Found, Given};
use hypershift::plan::{self, Plan, project};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;

struct Nothing;

impl Materials for Nothing {
    fn data(&self, _: &str, _: &str) -> Option<BTreeMap<String, Vec<u8>>> {
        None
    }
}

/// Everything that is applied for a cluster.
pub fn all(hc: Value) -> Vec<Value> {
    with(hc, Machinery::Builtin)
}

/// The same, by whoever keeps machines.
pub fn with(hc: Value, machinery: Machinery) -> Vec<Value> {
    of_release(hc, machinery, "4.19.3")
}

fn of_release(hc: Value, machinery: Machinery, version: &str) -> Vec<Value> {
    let hc: HostedCluster = serde_json::from_value(hc).unwrap();
    let list = inputs::of(&hc);
    let mut found = Found::default();
    for i in &list {
        // Keys are made anew by each run; what is signed by them is not part of the picture.
        let keys = i.keys.iter().filter(|k| **k != "key");
        let data: Data = keys.map(|k| ((*k).to_owned(), format!("<{}>", i.name).into_bytes())).collect();
        found.0.insert(
            (i.sort, i.name.clone()),
            Given { data: Arc::new(data), type_: "Opaque".into(), placeholder: false },
        );
    }
    let plane = project::plane(&hc, &hc.spec.release.image, false).unwrap();
    let around = Around {
        release: release(version),
        management: Management { uid: Some(1234), minor: 34, ..Management::default() },
        given: Default::default(),
        vault_reader: "00000000-0000-0000-0000-0000000000aa".into(),
    };
    let scope = plan::scope(&hc, &plane, &around).unwrap();
    let objects = Plan {
        hc: &hc,
        inputs: &list,
        found: &found,
        trusted: None,
        metrics: None,
        scope: &scope,
        plane,
        endpoint: &json!({"host": "20.1.2.3", "port": 7443}),
        uid: Some(1234),
        monitored: false,
        machines: true,
        machinery,
        materials: &Nothing,
    }
    .objects();
    assert_eq!(objects.troubles, Vec::<String>::new());
    [objects.namespace, objects.inputs, objects.core, objects.operators].concat()
}

fn render(mut hc: Value, change: impl FnOnce(&mut Value)) -> String {
    change(&mut hc);
    text(&all(hc))
}

fn text(all: &[Value]) -> String {
    let documents: Vec<String> = all.iter().map(|o| serde_saphyr::to_string(o).unwrap()).collect();
    documents.join("---\n")
}

/// A manager that is told what it does not know does not start.
#[test]
fn a_manager_is_told_what_its_release_knows() {
    let checks = "--feature-gates=MachineSetPreflightChecks=false";
    let phases = ["StorageVersionMigration", "CleanupManagedFields"];
    let phases = phases.map(|p| format!("--skip-crd-migration-phases={p}"));
    for (version, known) in [("4.18.9", 0), ("4.19.3", 1), ("4.20.1", 3), ("5.0.0", 3)] {
        let all = of_release(samples::self_managed(), Machinery::External, version);
        let is = |o: &&Value| o["kind"] == "Deployment" && o["metadata"]["name"] == "cluster-api";
        let deployment = all.iter().find(is).unwrap();
        let args = &deployment["spec"]["template"]["spec"]["containers"][0]["args"];
        let more: Vec<&str> = args.as_array().unwrap().iter().skip(6).map(|a| a.as_str().unwrap()).collect();
        let all = [checks, phases[0].as_str(), phases[1].as_str()];
        assert_eq!(more, &all[..known], "{version}");
    }
}

/// One of several ways to be in one respect.
type Way = (&'static str, fn(&mut Value));

/// Flavour × availability × reach × encryption × capabilities × release, as a digest each. A change shows in which of them it
/// is seen; what it is, the other files show.
#[test]
fn of_every_combination() {
    let dimensions: [&[Way]; 4] = [
        &[
            ("single", |o| o["spec"]["controllerAvailabilityPolicy"] = json!("SingleReplica")),
            ("ha", |o| o["spec"]["controllerAvailabilityPolicy"] = json!("HighlyAvailable")),
        ],
        &[
            ("public", |_| {}),
            ("private", |o| {
                o["spec"]["platform"]["azure"]["topology"] = json!("Private");
                o["spec"]["platform"]["azure"]["private"] = json!({"type": "PrivateLink"});
            }),
        ],
        &[
            ("plain", |o| _ = o["spec"].as_object_mut().unwrap().remove("secretEncryption")),
            ("kms", |o| {
                let identity = match o["spec"]["platform"]["azure"]["azureAuthenticationConfig"]["managedIdentities"]
                {
                    Value::Null => {
                        ("workloadIdentity", json!({"clientID": "00000000-0000-0000-0000-0000000000bb"}))
                    }
                    _ => {
                        ("kms", samples::managed()["spec"]["secretEncryption"]["kms"]["azure"]["kms"].clone())
                    }
                };
                let key = json!({"keyVaultName": "demo-kms", "keyName": "etcd", "keyVersion": "1"});
                let azure = json!({"activeKey": key, identity.0: identity.1});
                o["spec"]["secretEncryption"] =
                    json!({"type": "kms", "kms": {"provider": "Azure", "azure": azure}});
            }),
        ],
        &[
            ("whole", |_| {}),
            ("reduced", |o| {
                let all = ["ImageRegistry", "Console", "Ingress", "NodeTuning"];
                o["spec"]["capabilities"] = json!({"disabled": all});
            }),
        ],
    ];
    let mut all = vec![
        ("self-managed".to_owned(), samples::self_managed()),
        ("managed".to_owned(), samples::managed()),
    ];
    for ways in dimensions {
        let more = |(name, o): &(String, Value)| -> Vec<(String, Value)> {
            let changed = |(word, change): &Way| {
                let mut o = o.clone();
                change(&mut o);
                (format!("{name} {word}"), o)
            };
            ways.iter().map(changed).collect()
        };
        all = all.iter().flat_map(more).collect();
    }
    let mut lines = String::new();
    for (name, mut o) in all {
        for version in ["4.19.3", "4.20.1"] {
            o["spec"]["release"]["image"] = json!(release(version).image);
            let objects = of_release(o.clone(), Machinery::Builtin, version);
            let sum = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, text(&objects).as_bytes());
            let sum: String = sum.as_ref().iter().take(8).map(|b| format!("{b:02x}")).collect();
            lines.push_str(&format!("{name} {version}: {} objects, {sum}\n", objects.len()));
        }
    }
    assert_eq!(lines.lines().count(), 64);
    testkit::golden!("matrix.txt", &lines);
}

/// `install --platform-monitoring All`.
#[test]
fn a_namespace_says_whether_the_platform_looks_into_it() {
    let hc: HostedCluster = serde_json::from_value(samples::self_managed()).unwrap();
    let label = |monitored| {
        let o = plan::namespace::object(&hc, None, monitored);
        o["metadata"]["labels"]["openshift.io/cluster-monitoring"].clone()
    };
    assert_eq!((label(true), label(false)), (json!("true"), Value::Null));
}

#[test]
fn of_both_flavours() {
    testkit::golden!("self-managed.yaml", &render(samples::self_managed(), |_| {}));
    testkit::golden!("managed.yaml", &render(samples::managed(), |_| {}));
}

#[test]
fn machines_may_be_kept_by_others() {
    for (name, hc) in [("self-managed", samples::self_managed()), ("managed", samples::managed())] {
        let (ours, theirs) =
            (text(&with(hc.clone(), Machinery::Builtin)), text(&with(hc, Machinery::External)));
        let diff = similar::TextDiff::from_lines(&ours, &theirs).unified_diff().context_radius(2).to_string();
        testkit::golden!(&format!("{name}-machines-external.diff"), &diff);
    }
}

/// What a change of the spec changes, as a diff.
fn differs(from: Value, change: impl FnOnce(&mut Value)) -> String {
    let (a, b) = (render(from.clone(), |_| {}), render(from, change));
    similar::TextDiff::from_lines(&a, &b).unified_diff().context_radius(2).to_string()
}

#[test]
fn what_settings_change() {
    let everything = differs(samples::self_managed(), |o| {
        o["metadata"]["annotations"] = json!({
            "hypershift.openshift.io/restart-date": "2026-03-01", "example.com/mine": "stays",
            "hypershift.openshift.io/control-plane-operator-image": "quay.example/zaffre:mine",
            "hypershift.openshift.io/capi-provider-azure-image": "quay.example/capz:mine",
            "hypershift.openshift.io/pod-security-admission-label-override": "baseline",
            "resource-request-override.hypershift.openshift.io/control-plane-operator.control-plane-operator": "memory=1Gi",
        });
        o["metadata"]["labels"] = json!({"api.openshift.com/id": "x", "other": "y"});
        o["spec"]["additionalTrustBundle"] = json!({"name": "bundle"});
        o["spec"]["auditWebhook"] = json!({"name": "audit"});
        o["spec"]["capabilities"] = json!({"disabled": ["ImageRegistry"]});
        o["spec"]["nodeSelector"] = json!({"pool": "control"});
        o["spec"]["configuration"] = json!({
            "proxy": {"httpsProxy": "http://proxy:3128", "trustedCA": {"name": "proxy-ca"}},
            "oauth": {"identityProviders": [{"name": "a", "mappingMethod": "claim", "type": "OpenID",
                "openID": {"clientID": "x", "issuer": "https://i", "clientSecret": {"name": "oidc-secret"}, "ca": {"name": "oidc-ca"},
                    "claims": {"preferredUsername": ["email"]}}}]},
        });
        let encryption =
            json!({"type": "aescbc", "aescbc": {"activeKey": {"name": "k2"}, "backupKey": {"name": "k1"}}});
        o["spec"]["secretEncryption"] = encryption;
    });
    testkit::golden!("self-managed-everything.diff", &everything);
    let unmanaged = differs(samples::managed(), |o| {
        o["metadata"]["annotations"]["hypershift.openshift.io/disable-machine-management"] = json!("true");
        o["spec"]["etcd"] = json!({"managementType": "Unmanaged", "unmanaged": {"endpoint": "https://etcd:2379",
            "tls": {"clientSecret": {"name": "etcd-client"}}}});
    });
    testkit::golden!("managed-unmanaged-etcd.diff", &unmanaged);
}
