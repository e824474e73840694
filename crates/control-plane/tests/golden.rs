//! Golden objects: two clusters in full, others as what differs from one of them, and of every combination a digest.

use crate::world::{Names, managed, release, self_managed};
use apis::hypershift::settings::Capability;
use control_plane::scope::*;
use control_plane::{Scope, policies, publish, render};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use testkit::golden::Set;

fn yaml(objects: &[Value]) -> String {
    objects.iter().map(|o| format!("---\n{}", serde_saphyr::to_string(o).unwrap())).collect()
}

/// All files of a cluster by name.
fn files(scope: &Scope) -> BTreeMap<String, String> {
    let rendered = render(scope, &Names).unwrap();
    let mut files: BTreeMap<String, String> =
        rendered.iter().map(|r| (format!("{}.yaml", r.name), yaml(&r.objects))).collect();
    files.insert("network-policies.yaml".into(), yaml(&policies(scope)));
    files.insert("published.yaml".into(), yaml(&publish::objects(scope)));
    files
}

/// What differs between two clusters, file by file.
fn difference(base: &BTreeMap<String, String>, other: &BTreeMap<String, String>) -> String {
    let mut out = String::new();
    let empty = String::new();
    let names: std::collections::BTreeSet<&String> = base.keys().chain(other.keys()).collect();
    for name in names {
        match (base.get(name), other.get(name)) {
            (Some(_), None) => out.push_str(&format!("=== {name}: not there\n")),
            (a, Some(b)) if a != Some(b) => {
                let a = a.unwrap_or(&empty);
                if a.is_empty() {
                    // A whole component more: its names are enough, its text is in the other base.
                    let objects = b.matches("\nkind: ").count();
                    out.push_str(&format!("=== {name}: added, {objects} objects\n"));
                    continue;
                }
                out.push_str(&format!("=== {name}\n"));
                let diff = similar::TextDiff::from_lines(a.as_str(), b.as_str());
                out.push_str(&diff.unified_diff().context_radius(1).to_string());
            }
            _ => {}
        }
    }
    out
}

#[test]
fn every_object_of_every_flavour() {
    let mut set = Set::new(
        std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden"),
        testkit::Mode::from_env(),
    );
    let own = files(&self_managed());
    let aro = files(&managed());
    for (directory, files) in [("self-managed", &own), ("managed", &aro)] {
        for (name, text) in files {
            set.text(&format!("{directory}/{name}"), text);
        }
    }
    for (name, scope) in variants() {
        let base = if scope.identity.managed() { &aro } else { &own };
        set.text(&format!("{name}.diff"), &difference(base, &files(&scope)));
    }
    set.text("matrix.txt", &matrix());
    set.assert();
}

/// Without what users may do without, and what others run here.
fn reduced() -> BTreeSet<&'static str> {
    let off = [Capability::ImageRegistry, Capability::Console, Capability::Ingress, Capability::NodeTuning];
    Capabilities { disabled: Some(off.into()), ..Capabilities::default() }.on()
}

/// What a combination is called, and what becomes of it.
fn line(name: &str, scope: &Scope) -> String {
    let files = files(scope);
    let objects: usize = files.values().map(|text| text.matches("\nkind: ").count()).sum();
    let mut all = aws_lc_rs::digest::Context::new(&aws_lc_rs::digest::SHA256);
    for (name, text) in &files {
        all.update(format!("{name} {}\n{text}", text.len()).as_bytes());
    }
    let digest: String = all.finish().as_ref().iter().take(8).map(|b| format!("{b:02x}")).collect();
    format!("{name}: {} files, {objects} objects, {digest}\n", files.len())
}

/// One of several ways to be in one respect.
type Way = (&'static str, fn(Scope) -> Scope);

/// Flavour × availability × reach × encryption × capabilities × release. A change shows in which of them it is seen.
fn matrix() -> String {
    let mut combinations: Vec<(String, Scope)> =
        vec![("self-managed".into(), self_managed()), ("managed".into(), managed())];
    let dimensions: [&[Way]; 5] = [
        &[
            ("single", |s| Scope { available: Availability::Single, ..s }),
            ("ha", |s| Scope { available: Availability::High, ..s }),
        ],
        &[
            ("public", |s| Scope {
                endpoints: Endpoints { private_api: None, ..s.endpoints.clone() },
                reach: Reach::Public,
                ..s
            }),
            ("private", |s| private(Reach::Private, s)),
        ],
        &[("plain", |s| Scope { encryption: None, ..s }), ("kms", |s| Scope { encryption: kms(false), ..s })],
        &[("whole", |s| s), ("reduced", |s| Scope { capabilities: reduced(), ..s })],
        &[("4.19.3", |s| at(s, "4.19.3")), ("4.20.1", |s| at(s, "4.20.1"))],
    ];
    for dimension in dimensions {
        let more = |(name, scope): &(String, Scope)| {
            dimension
                .iter()
                .map(|(word, change)| (format!("{name} {word}"), change(scope.clone())))
                .collect::<Vec<_>>()
        };
        combinations = combinations.iter().flat_map(more).collect();
    }
    assert_eq!(combinations.len(), 64);
    combinations.iter().map(|(name, scope)| line(name, scope)).collect()
}

fn at(scope: Scope, version: &str) -> Scope {
    Scope { release: release(version), guest_image: release(version).image, ..scope }
}

fn kms(backup: bool) -> Option<Encryption> {
    let key = |version: &str| KmsKey {
        vault: "demo-kms".into(),
        name: "etcd".into(),
        version: version.into(),
        managed_hsm: false,
    };
    Some(Encryption::Kms { active: key("2"), backup: backup.then(|| key("1")), private: false })
}

fn private(reach: Reach, s: Scope) -> Scope {
    Scope {
        endpoints: Endpoints { private_api: Some("api.demo.hypershift.local".into()), ..s.endpoints.clone() },
        reach,
        ..s
    }
}

fn variants() -> Vec<(&'static str, Scope)> {
    vec![
        ("self-managed-ha", Scope { available: Availability::High, ..self_managed() }),
        ("self-managed-private", private(Reach::Private, self_managed())),
        ("self-managed-public-and-private", private(Reach::PublicAndPrivate, self_managed())),
        ("self-managed-kms", Scope { encryption: kms(false), ..self_managed() }),
        ("self-managed-kms-rotation", Scope { encryption: kms(true), ..self_managed() }),
        (
            "self-managed-aescbc",
            Scope {
                encryption: Some(Encryption::Aescbc { active: AesKey::named("key-1"), backup: None }),
                ..self_managed()
            },
        ),
        ("self-managed-capabilities", Scope { capabilities: reduced(), ..self_managed() }),
        ("self-managed-next-release", at(self_managed(), "4.20.1")),
        (
            "self-managed-oidc",
            Scope {
                configuration: json!({"authentication": {"type": "OIDC", "oidcProviders": [{
                    "name": "entra", "issuer": {"issuerURL": "https://login.example.com/t/v2.0", "audiences": ["app"],
                        "discoveryURL": "https://login.example.com/t/.well-known/openid-configuration",
                        "issuerCertificateAuthority": {"name": "entra-ca"}},
                    "claimMappings": {"username": {"claim": "email"}, "groups": {"claim": "groups", "prefix": "entra:"},
                        "uid": {"expression": "claims.oid"},
                        "extra": [{"key": "example.com/tenant", "valueExpression": "claims.tid"}]},
                    "claimValidationRules": [{"type": "RequiredClaim", "requiredClaim": {"claim": "tid", "requiredValue": "t"}},
                        {"type": "CEL", "cel": {"expression": "claims.email_verified == true", "message": "verify your address"}}],
                    "userValidationRules": [{"expression": "!user.username.startsWith('system:')", "message": "reserved"}]}]},
                    "apiServer": {"audit": {"profile": "WriteRequestBodies"}, "tlsSecurityProfile": {"type": "Modern", "modern": {}}}}),
                authorities: [("entra-ca".to_owned(), "-----BEGIN CERTIFICATE-----\nentra\n".to_owned())]
                    .into(),
                ..self_managed()
            },
        ),
        (
            "self-managed-unmanaged-etcd",
            Scope {
                etcd: Etcd::Unmanaged {
                    endpoint: "https://etcd.example.com:2379".into(),
                    client_secret: "etcd-tls".into(),
                },
                ..self_managed()
            },
        ),
        (
            "self-managed-restored",
            Scope {
                etcd: Etcd::Managed {
                    size: "16Gi".into(),
                    class: Some("managed-premium".into()),
                    restore: Some("https://demo.blob.core.windows.net/backups/1.db?sig=x".into()),
                },
                ..self_managed()
            },
        ),
        (
            "self-managed-old-management",
            Scope {
                management: Management {
                    openshift: true,
                    uid: None,
                    image_streams: false,
                    minor: 28,
                    blocked: vec!["10.0.0.1/32".into()],
                    ..Management::default()
                },
                ..self_managed()
            },
        ),
        (
            "self-managed-oauth-balancer",
            Scope {
                endpoints: Endpoints {
                    oauth: Endpoint { publish: Publish::LoadBalancer, ..self_managed().endpoints.oauth },
                    ..self_managed().endpoints
                },
                ..self_managed()
            },
        ),
        (
            "self-managed-image-streams",
            Scope {
                management: Management { image_streams: true, ..self_managed().management },
                annotations: [(
                    "hypershift.openshift.io/community-operators-catalog-image".to_owned(),
                    "mirror.example/community@sha256:1".to_owned(),
                )]
                .into(),
                ..self_managed()
            },
        ),
        (
            "managed-dedicated",
            Scope {
                annotations: [
                    ("topology", "dedicated-request-serving-components"),
                    ("request-serving-node-additional-selector", "pool=api, zone = 1"),
                ]
                .map(|(k, v)| (format!("hypershift.openshift.io/{k}"), v.to_owned()))
                .into(),
                ..managed()
            },
        ),
        ("managed-single", Scope { available: Availability::Single, ..managed() }),
        (
            "managed-public",
            Scope {
                reach: Reach::Public,
                endpoints: Endpoints { private_api: None, ..managed().endpoints },
                ..managed()
            },
        ),
        ("managed-no-kms", Scope { encryption: None, ..managed() }),
    ]
}
