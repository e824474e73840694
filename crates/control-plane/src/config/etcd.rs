//! etcd: its members, their disks, and what they begin from.

use crate::pod::Pod;
use crate::scope::{Etcd, Scope};
use crate::{Error, tls};
use serde_json::{Value, json};

/// Members by name, TLS, and the snapshot to begin from.
pub fn adapt(scope: &Scope, pod: &mut Pod<'_>) -> Result<(), Error> {
    let profile = tls::of(scope)?;
    let members = crate::defaults::etcd_members(scope);
    let member = |i: u32| format!("etcd-{i}=https://etcd-{i}.etcd-discovery.{}.svc:2380", scope.namespace);
    let initial: Vec<String> = (0..members).map(member).collect();
    if let Some(mut main) = pod.main() {
        main.env("ETCD_INITIAL_CLUSTER", initial.join(","));
        main.env("ETCD_TLS_MIN_VERSION", profile.etcd_minimum());
        if !profile.ciphers.is_empty() {
            main.env("ETCD_CIPHER_SUITES", profile.ciphers.join(","));
        }
    }
    if let Some(mut metrics) = pod.container("etcd-metrics") {
        metrics.args([format!("--tls-min-version={}", profile.etcd_minimum())]);
    }
    if let Some(mut health) = pod.container("healthz") {
        health.args([format!("--listen-tls-min-version={}", profile.etcd_minimum())]);
        health.args(profile.cipher_flag("--listen-cipher-suites"));
    }
    if members > 1 {
        pod.add_container(defragmenter());
    }
    let Etcd::Managed { restore, .. } = &scope.etcd else { return Ok(()) };
    if let Some(url) = restore {
        pod.add_init(restorer(scope, url), false);
    }
    Ok(())
}

/// The disk of a member. Disks outlive the StatefulSet: nobody loses data by a deletion that is repaired.
pub fn volume(scope: &Scope, workload: &mut Value) {
    let Etcd::Managed { size, class, .. } = &scope.etcd else { return };
    workload["spec"]["persistentVolumeClaimRetentionPolicy"] =
        json!({"whenDeleted": "Retain", "whenScaled": "Retain"});
    let claim = &mut workload["spec"]["volumeClaimTemplates"][0]["spec"];
    claim["resources"] = json!({"requests": {"storage": size}});
    if let Some(class) = class {
        claim["storageClassName"] = json!(class);
    }
}

/// The defragmenters of several members agree by a Lease which of them works; one member has none.
pub fn objects(scope: &Scope) -> Result<Vec<Value>, Error> {
    if crate::defaults::etcd_members(scope) < 2 {
        return Ok(Vec::new());
    }
    let (group, name) = ("rbac.authorization.k8s.io", "etcd-defrag-controller");
    Ok(vec![
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": {"name": name},
            "rules": [
                {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["*"]},
                {"apiGroups": [""], "resources": ["events"], "verbs": ["create", "patch", "update"]},
            ],
        }),
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding", "metadata": {"name": name},
            "roleRef": {"apiGroup": group, "kind": "Role", "name": name},
            "subjects": [{"kind": "ServiceAccount", "name": "etcd"}],
        }),
    ])
}

/// Frees what deleted objects held, one member after the other.
fn defragmenter() -> Value {
    json!({
        "name": "etcd-defrag",
        "image": "controlplane-operator",
        "command": ["/usr/bin/control-plane-operator", "etcd-defrag-controller", "--namespace", "$(NAMESPACE)"],
        "env": [{"name": "NAMESPACE", "valueFrom": {"fieldRef": {"fieldPath": "metadata.namespace"}}}],
        "volumeMounts": [
            {"name": "client-tls", "mountPath": "/etc/etcd/tls/client"},
            {"name": "etcd-ca", "mountPath": "/etc/etcd/tls/etcd-ca"},
        ],
        "resources": {"requests": {"cpu": "10m", "memory": "50Mi"}},
    })
}

/// Fills an empty disk from a snapshot; does nothing to one with data, nor to that of a member that came late: it has
/// joined the others, which give it theirs.
fn restorer(scope: &Scope, url: &str) -> Value {
    let script = "set -euo pipefail\nif [[ -d /var/lib/data/member || $(cat /etc/etcd/clusterstate/state) == existing ]]; then exit 0; fi\ncurl -fsSL --retry 5 \"${RESTORE_URL_ETCD}\" -o /var/lib/snapshot.db\netcdutl snapshot restore /var/lib/snapshot.db --data-dir=/var/lib/data --name=\"${HOSTNAME}\" \\\n  --initial-cluster=\"${ETCD_INITIAL_CLUSTER}\" --initial-cluster-token=etcd-cluster \\\n  --initial-advertise-peer-urls=\"https://${HOSTNAME}.etcd-discovery.${NAMESPACE}.svc:2380\"\nrm /var/lib/snapshot.db\n";
    let members: Vec<String> = (0..crate::defaults::etcd_members(scope))
        .map(|i| format!("etcd-{i}=https://etcd-{i}.etcd-discovery.{}.svc:2380", scope.namespace))
        .collect();
    json!({
        "name": "etcd-init",
        "image": "etcd",
        "command": ["/bin/bash"],
        "args": ["-c", script],
        "env": [
            {"name": "RESTORE_URL_ETCD", "value": url},
            {"name": "ETCD_INITIAL_CLUSTER", "value": members.join(",")},
            {"name": "NAMESPACE", "valueFrom": {"fieldRef": {"fieldPath": "metadata.namespace"}}},
        ],
        "volumeMounts": [
            {"name": "data", "mountPath": "/var/lib"},
            {"name": "cluster-state", "mountPath": "/etc/etcd/clusterstate"},
        ],
    })
}
