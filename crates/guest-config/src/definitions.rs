//! What a guest must have before anything else can be written: definitions of OpenShift's kinds, and our own rights.
//!
//! With real images the API server's `bootstrap` container applies what the payload renders. [`bootstrap`] is what that
//! container must achieve for *us*: the kinds we write and the binding that lets us. Where a payload brought its own
//! definitions these are left alone: they are newer than ours, and the payload's to keep.

use crate::kinds::{AGGREGATED, PLAIN};
use futures::{FutureExt, StreamExt, TryStreamExt};
use kube::Client;
use reconcile::{Applier, ApplyError, Kind, Ledger};
use serde_json::{Value, json};
use std::sync::OnceLock;

/// The config operator's name in the guest, by its certificate.
pub const USER: &str = "system:hosted-cluster-config";

/// A definition that says nothing about content.
fn plain(kind: &Kind) -> Value {
    let singular = kind.kind.to_lowercase();
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{}.{}", kind.plural, kind.group)},
        "spec": {
            "group": kind.group, "scope": if kind.namespaced { "Namespaced" } else { "Cluster" },
            "names": {"kind": kind.kind, "listKind": format!("{}List", kind.kind), "plural": kind.plural, "singular": singular},
            "versions": [{
                "name": kind.version, "served": true, "storage": true, "subresources": {"status": {}},
                "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}},
            }],
        },
    })
}

/// Tokens are kept by name alone and have no status.
fn record(kind: &Kind) -> Value {
    let mut definition = plain(kind);
    if let Some(version) = definition["spec"]["versions"][0].as_object_mut() {
        version.remove("subresources");
    }
    definition
}

fn is_route(definition: &Value) -> bool {
    definition["spec"]["group"] == "route.openshift.io"
}

/// Definitions of the kinds that no aggregated API serves.
pub fn always() -> &'static [Value] {
    static ALL: OnceLock<Vec<Value>> = OnceLock::new();
    ALL.get_or_init(|| {
        let typed = apis::openshift_crds().into_iter().filter_map(|c| serde_json::to_value(c).ok());
        typed.filter(|d| !is_route(d)).chain(PLAIN.iter().map(plain)).collect()
    })
}

/// Definitions in place of an API server that is not there.
pub fn instead() -> &'static [Value] {
    static ALL: OnceLock<Vec<Value>> = OnceLock::new();
    ALL.get_or_init(|| {
        let typed = apis::openshift_crds().into_iter().filter_map(|c| serde_json::to_value(c).ok());
        typed.filter(is_route).chain(AGGREGATED.iter().map(record)).collect()
    })
}

/// What lets the config operator work: the binding that the API server's `bootstrap` container applies with real images.
fn rights() -> [Value; 1] {
    [json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
        "metadata": {"name": "hcco-cluster-admin"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": USER}],
    })]
}

/// How many definitions are made at once.
const TOGETHER: usize = 8;

/// Does for a new guest what the API server's `bootstrap` container does; `admin` is an administrator of the guest.
/// Safe to run again.
pub async fn bootstrap(admin: &Client, random: &clock::Random) -> Result<(), ApplyError> {
    let ledger = Ledger::new("kas-bootstrap", random);
    let applier = Applier::new(admin.clone(), crate::kinds::shared(), ledger);
    let mut made = Vec::new();
    for definition in always() {
        let desired = applier.desired(definition.clone())?;
        let applier = &applier;
        let create = async move {
            let at = desired.at().clone();
            applier.create_once(&at, || Ok(desired)).await.map(drop)
        };
        made.push(create.boxed());
    }
    futures::stream::iter(made).buffer_unordered(TOGETHER).try_collect::<()>().await?;
    for object in rights() {
        applier.apply(&applier.desired(object)?).await?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    /// What the availability prober of this very operator waits for, as published.
    const AWAITED: [&str; 19] = [
        "configs.imageregistry.operator.openshift.io",
        "infrastructures.config.openshift.io",
        "dnses.config.openshift.io",
        "ingresses.config.openshift.io",
        "networks.config.openshift.io",
        "proxies.config.openshift.io",
        "builds.config.openshift.io",
        "images.config.openshift.io",
        "projects.config.openshift.io",
        "clusterversions.config.openshift.io",
        "featuregates.config.openshift.io",
        "clusteroperators.config.openshift.io",
        "operatorhubs.config.openshift.io",
        "networks.operator.openshift.io",
        "cloudcredentials.operator.openshift.io",
        "storages.operator.openshift.io",
        "csisnapshotcontrollers.operator.openshift.io",
        "clustercsidrivers.operator.openshift.io",
        "ingresscontrollers.operator.openshift.io",
    ];

    #[test]
    fn everything_that_is_waited_for_is_defined_once() {
        let names: Vec<&str> =
            always().iter().chain(instead()).map(|d| d["metadata"]["name"].as_str().unwrap()).collect();
        for name in AWAITED {
            assert!(names.contains(&name), "{name} is not defined");
        }
        let mut once = names.clone();
        once.sort_unstable();
        once.dedup();
        assert_eq!(once.len(), names.len());
    }
}
