//! The operators' installation.

use crate::samples::install;
use self_managed::documents;
use self_managed::install::{Inputs, only_if_absent, removal};
use serde_json::Value;
use std::collections::BTreeSet;

pub fn inputs() -> Inputs {
    Inputs { txt_owner: "00000000-0000-0000-0000-0000000000ff".into(), ..Inputs::default() }
}

pub fn full() -> (&'static str, Inputs) {
    let line = "--managed-service ARO-HCP --aro-hcp-key-vault-users-client-id 00000000-0000-0000-0000-0000000000aa \
        --shared-ingress-image quay.example/haproxy:2.9 \
        --external-dns-provider azure --external-dns-credentials f --external-dns-domain-filter example.net \
        --private-platform Azure --azure-private-creds f --azure-pls-resource-group links --pull-secret p \
        --additional-trust-bundle b --registry-overrides quay.io=mirror.example.com --scale-from-zero-provider azure \
        --scale-from-zero-creds f --platform-monitoring All --metrics-set SRE --slos-alerts --enable-admin-rbac-generation \
        --additional-operator-env-vars A=1,B=2 \
        --hcp-egress-block-cidrs 10.0.0.0/8 --tech-preview-no-upgrade --enable-size-tagging \
        --enable-defaulting-webhook --enable-validating-webhook";
    let files = Inputs {
        pull_secret: Some(b"{}".to_vec()),
        trust_bundle: Some("-----BEGIN CERTIFICATE-----\n".into()),
        azure_private_creds: Some(b"{}".to_vec()),
        external_dns_credentials: Some(b"{}".to_vec()),
        scale_from_zero_creds: Some(b"{}".to_vec()),
        ..inputs()
    };
    (line, files)
}

#[test]
fn what_flags_become() {
    let objects = install("").objects(&inputs()).unwrap();
    testkit::golden!("install.yaml", &documents::joined(&objects.resources).unwrap());
    let (line, files) = full();
    let objects = install(line);
    let objects = objects.objects(&files).unwrap();
    testkit::golden!("install-full.yaml", &documents::joined(&objects.resources).unwrap());
    let identity = "--private-platform Azure --azure-pls-managed-identity-client-id i --azure-pls-subscription-id s \
        --azure-pls-resource-group g --development";
    let objects = install(identity).objects(&inputs()).unwrap();
    testkit::golden!("install-identity.yaml", &documents::joined(&objects.resources).unwrap());
}

#[test]
fn definitions_by_platform() {
    let names = |line: &str| -> Vec<String> {
        let objects = install(line).objects(&inputs()).unwrap();
        objects.definitions.iter().map(|d| d["metadata"]["name"].as_str().unwrap().to_owned()).collect()
    };
    let (all, none) = (names(""), names("--limit-crd-install AWS"));
    assert_eq!(names("--limit-crd-install Azure"), all);
    let gone: Vec<&String> = all.iter().filter(|n| !none.contains(n)).collect();
    assert!(
        gone.iter().any(|n| n.ends_with("infrastructure.cluster.x-k8s.io"))
            && gone.iter().all(|n| {
                n.ends_with("infrastructure.cluster.x-k8s.io")
                    || *n == "azureprivatelinkservices.hypershift.openshift.io"
            }),
        "{gone:?}"
    );
    assert!(gone.iter().any(|n| n.starts_with("azureprivatelinkservices.")), "{gone:?}");
    assert!(none.contains(&"hostedclusters.hypershift.openshift.io".to_owned()));
    assert!(!all.iter().any(|n| n.ends_with("config.openshift.io")), "OpenShift's own: {all:?}");
    let objects = install("").objects(&inputs()).unwrap();
    let others: Vec<_> = objects.definitions.iter().filter(|d| only_if_absent(d)).collect();
    assert_eq!(others.len(), 2);
}

/// The Cluster API finds kinds of other groups by the contract that their definitions say they keep.
#[test]
fn contracts_survive_our_own_label() {
    let labels = |list: &[Value], name: &str| {
        let found = list.iter().find(|d| d["metadata"]["name"] == name);
        found.unwrap_or_else(|| panic!("{name} is not there"))["metadata"]["labels"].clone()
    };
    let ours = install("").objects(&inputs()).unwrap().definitions;
    for name in [
        "hostedcontrolplanes.hypershift.openshift.io",
        "azuremachines.infrastructure.cluster.x-k8s.io",
        "azureclusters.infrastructure.cluster.x-k8s.io",
    ] {
        let found = labels(&ours, name);
        assert_eq!(found["cluster.x-k8s.io/v1beta1"], "v1beta1", "{name}: {found}");
        assert_eq!(found["app.kubernetes.io/part-of"], "zaffre", "{name}: {found}");
    }
    let plain = labels(&ours, "nodepools.hypershift.openshift.io");
    assert_eq!(plain, serde_json::json!({"app.kubernetes.io/part-of": "zaffre"}));
}

#[test]
fn definitions_of_machines_are_theirs_who_keep_them() {
    let names = |list: &[Value]| -> BTreeSet<String> {
        list.iter().map(|d| d["metadata"]["name"].as_str().unwrap().to_owned()).collect()
    };
    let ours = install("").objects(&inputs()).unwrap();
    assert!(ours.expected.is_empty());
    let external = install("--machines external").objects(&inputs()).unwrap();
    let expected = names(&external.expected);
    testkit::golden!(
        "install-expected.txt",
        &(expected.iter().cloned().collect::<Vec<_>>().join("\n") + "\n")
    );
    let without = names(&external.definitions);
    assert!(without.is_disjoint(&expected));
    assert_eq!(&without | &expected, names(&ours.definitions));
    assert!(without.contains("nodepools.hypershift.openshift.io"));
    // Where no machine is Azure's, nobody must bring Azure's kinds.
    let limited = install("--machines external --limit-crd-install AWS").objects(&inputs()).unwrap();
    let limited = names(&limited.expected);
    assert!(limited.contains("machines.cluster.x-k8s.io") && limited.is_subset(&expected));
    assert!(!limited.iter().any(|n| n.ends_with("infrastructure.cluster.x-k8s.io")), "{limited:?}");
    // A template of ours says who keeps machines.
    let operator = external.resources.iter().find(|o| o["kind"] == "Deployment").unwrap().to_string();
    assert!(operator.contains("--machines=external"));
}

#[test]
fn flags_that_do_not_fit_together() {
    for (line, first, second) in [
        ("--hypershift-image a --image-refs b", "--hypershift-image", "--image-refs"),
        ("--enable-audit-log-persistence", "--enable-audit-log-persistence", "leave it out"),
        ("--rhobs-monitoring=true", "--rhobs-monitoring", "--platform-monitoring"),
        ("--enable-standalone-karpenter-operator", "--enable-standalone-karpenter-operator", "NodePools"),
        ("--cvo-prometheus-url https://p", "https://p", "leave it out"),
        ("--limit-crd-install moon", "--limit-crd-install", "azure"),
        ("--cert-rotation-scale 48h", "--cert-rotation-scale", "24h"),
        (
            "--azure-private-creds a --azure-private-secret b",
            "--azure-private-creds",
            "--azure-private-secret",
        ),
        (
            "--azure-private-creds a --azure-pls-managed-identity-client-id b",
            "--azure-private-creds",
            "--azure-pls-managed-identity-client-id",
        ),
        ("--private-platform Azure", "--private-platform", "--azure-pls-managed-identity-client-id"),
        (
            "--private-platform Azure --azure-private-creds a",
            "--private-platform",
            "--azure-pls-resource-group",
        ),
        (
            "--private-platform Azure --azure-pls-managed-identity-client-id a --azure-pls-resource-group g",
            "--azure-pls-managed-identity-client-id",
            "--azure-pls-subscription-id",
        ),
        ("--external-dns-provider azure", "--external-dns-provider", "--external-dns-credentials"),
        (
            "--external-dns-provider azure --external-dns-credentials a --external-dns-secret b",
            "--external-dns-credentials",
            "--external-dns-secret",
        ),
        (
            "--external-dns-provider azure --external-dns-secret b",
            "--external-dns-provider",
            "--external-dns-domain-filter",
        ),
        ("--external-dns-domain-filter d", "--external-dns-domain-filter", "--external-dns-provider"),
        (
            "--scale-from-zero-creds a --scale-from-zero-secret b",
            "--scale-from-zero-creds",
            "--scale-from-zero-secret",
        ),
        ("--scale-from-zero-creds a", "--scale-from-zero-creds", "--scale-from-zero-provider"),
        ("--shared-ingress-image i", "--shared-ingress-image", "--managed-service ARO-HCP"),
        ("--scale-from-zero-provider azure", "--scale-from-zero-provider", "--scale-from-zero-creds"),
    ] {
        let said = install(line).check().expect_err(line).to_string();
        assert!(said.contains(first) && said.contains(second), "{line}: {said}");
    }
    let scripts = "--enable-cpo-overrides --enable-uwm-telemetry-remote-write=true --exclude-etcd \
        --enable-cvo-management-cluster-metrics-access --enable-audit-log-persistence=false --rhobs-monitoring=false";
    install(scripts).check().expect("scripts say these, and nothing depends on them");
    let aro = "--managed-service ARO-HCP --private-platform Azure";
    install(aro).check().expect("the managed flavour brings its own credentials");
}

/// Everything that an installation leaves outside of the operators' namespace.
fn outside(objects: &[Value]) -> BTreeSet<(String, String)> {
    let text = |v: &Value| v.as_str().unwrap_or_default().to_owned();
    let out = objects.iter().filter(|o| o["metadata"]["namespace"] != "hypershift");
    out.map(|o| (text(&o["kind"]), text(&o["metadata"]["name"]))).collect()
}

#[test]
fn the_way_back_knows_what_any_flags_brought() {
    let (all, definitions) = removal("hypershift").unwrap();
    let (line, files) = full();
    let full = install(line).objects(&files).unwrap();
    let gone: Vec<Value> = all.iter().map(|r| r.object.clone()).collect();
    assert_eq!(outside(&gone), outside(&full.resources));
    assert_eq!(definitions.len(), full.definitions.len());
    let kinds: Vec<&str> = all.iter().filter_map(|r| r.object["kind"].as_str()).collect();
    assert!(kinds[..2].iter().all(|k| k.ends_with("WebhookConfiguration")), "{kinds:?}");
    let names = |wanted: fn(&self_managed::install::Removal) -> bool| -> BTreeSet<&str> {
        all.iter().filter(|r| wanted(r)).filter_map(|r| r.object["metadata"]["name"].as_str()).collect()
    };
    assert_eq!(names(|r| r.common_name), ["external-dns"].into());
    assert!(names(|r| r.for_clusters).contains("hypershift-sharedingress"));
    assert_eq!(names(|r| r.for_clusters).len(), 6);
}
