//! Everything a pod mounts is made by somebody; everything that is made says what it should.

use crate::world::{Names, managed, self_managed};
use control_plane::certificates::{BUNDLES, authorities, generated, kubeconfigs, leaves};
use control_plane::{Scope, render};
use pki::{Authority, KeyKind, Verdict};
use std::collections::BTreeSet;

/// What the HostedCluster's controller puts into the namespace.
const GIVEN: [&str; 3] = ["pull-secret", "sa-signing-key", "azure-kms-config"];

#[test]
fn whatever_is_mounted_is_made() {
    for scope in [self_managed(), managed()] {
        let rendered = render(&scope, &Names).unwrap();
        let objects: Vec<_> = rendered.iter().flat_map(|r| &r.objects).collect();
        let mut there: BTreeSet<(String, String)> = objects
            .iter()
            .map(|o| {
                (o["kind"].as_str().unwrap().to_owned(), o["metadata"]["name"].as_str().unwrap().to_owned())
            })
            .collect();
        let mut add = |kind: &str, name: &str| _ = there.insert((kind.to_owned(), name.to_owned()));
        authorities(&scope).for_each(|c| add("Secret", c.secret));
        leaves(&scope).iter().for_each(|l| add("Secret", &l.secret));
        kubeconfigs(&scope).iter().for_each(|k| add("Secret", &k.secret));
        generated(&scope).iter().for_each(|g| add("Secret", g.0));
        BUNDLES.iter().for_each(|b| add("ConfigMap", b.config_map));
        GIVEN.iter().for_each(|g| add("Secret", g));
        let mut missing = Vec::new();
        for o in &objects {
            let pod = o
                .pointer("/spec/template/spec")
                .or_else(|| o.pointer("/spec/jobTemplate/spec/template/spec"));
            let Some(pod) = pod else { continue };
            for v in pod["volumes"].as_array().into_iter().flatten() {
                for (kind, source, name) in
                    [("Secret", "secret", "secretName"), ("ConfigMap", "configMap", "name")]
                {
                    let Some(n) = v[source][name].as_str() else { continue };
                    if v[source]["optional"] != true && !there.contains(&(kind.to_owned(), n.to_owned())) {
                        missing.push(format!("{}: {kind} {n}", o["metadata"]["name"]));
                    }
                }
                if let Some(class) = v["csi"]["volumeAttributes"]["secretProviderClass"].as_str()
                    && !there.contains(&("SecretProviderClass".into(), class.into()))
                    // Written with the Deployment of the operator, which mounts it, too.
                    && class != "managed-azure-kms"
                {
                    missing.push(format!("{}: class {class}", o["metadata"]["name"]));
                }
            }
            // A container mounts only volumes that are there.
            let volumes: BTreeSet<&str> =
                pod["volumes"].as_array().into_iter().flatten().filter_map(|v| v["name"].as_str()).collect();
            let claims = o["spec"]["volumeClaimTemplates"].as_array().into_iter().flatten();
            let claims: BTreeSet<&str> = claims.filter_map(|c| c["metadata"]["name"].as_str()).collect();
            for c in
                ["containers", "initContainers"].iter().flat_map(|l| pod[*l].as_array().into_iter().flatten())
            {
                for m in c["volumeMounts"].as_array().into_iter().flatten() {
                    let name = m["name"].as_str().unwrap();
                    if !volumes.contains(name) && !claims.contains(name) {
                        missing.push(format!("{}/{}: volume {name}", o["metadata"]["name"], c["name"]));
                    }
                }
            }
            if let Some(account) = pod["serviceAccountName"].as_str()
                && !there.contains(&("ServiceAccount".into(), account.into()))
                && account != "control-plane-operator"
            {
                missing.push(format!("{}: account {account}", o["metadata"]["name"]));
            }
        }
        assert!(missing.is_empty(), "nobody makes:\n{}", missing.join("\n"));
    }
}

#[test]
fn every_certificate_can_be_issued_and_is_then_kept() {
    let now = "2026-11-16T06:00:00Z".parse().unwrap();
    let life = jiff::SignedDuration::from_hours(24 * 3650);
    let scope = managed();
    let made: Vec<(&str, Authority)> = authorities(&scope)
        .map(|c| {
            (c.secret, Authority::generate(c.common_name, "openshift", KeyKind::P256, now, life).unwrap())
        })
        .collect();
    let mut names = BTreeSet::new();
    for entry in leaves(&scope) {
        assert!(names.insert(entry.secret.clone()), "{} is there twice", entry.secret);
        let (_, by) = made.iter().find(|(n, _)| *n == entry.authority).unwrap();
        let pair = by.issue(&entry.leaf, now).unwrap();
        assert!(matches!(entry.leaf.assess(Some(&pair), by, now), Verdict::Keep { .. }), "{}", entry.secret);
    }
    for k in kubeconfigs(&scope) {
        assert!(names.contains(k.client), "{} wants the certificate {}", k.secret, k.client);
    }
    for b in BUNDLES {
        assert!(b.authorities.iter().all(|a| made.iter().any(|(n, _)| n == a)), "{}", b.config_map);
    }
}

/// Everybody the API server believes has an authority in the client bundle.
#[test]
fn whoever_calls_the_api_is_trusted() {
    let scope: Scope = self_managed();
    let clients = BUNDLES.iter().find(|b| b.config_map == "client-ca").unwrap();
    for k in kubeconfigs(&scope).iter().filter(|k| k.secret != "kas-authentication-token-webhook-config") {
        let leaf = leaves(&scope).into_iter().find(|l| l.secret == k.client).unwrap();
        assert!(clients.authorities.contains(&leaf.authority), "{} of {}", leaf.authority, k.secret);
    }
}
