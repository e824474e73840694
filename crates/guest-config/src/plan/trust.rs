//! Whom the guest trusts and what it may pull: copies of what the control plane and its users hold.

use super::{Plan, config_map, secret};
use crate::facts::Facts;
use serde_json::{Value, json};

pub fn plan(f: &Facts, p: &mut Plan) {
    pull_secrets(f, p);
    bundles(f, p);
    if f.scope.kubeadmin() {
        kubeadmin(f, p);
    }
    let install = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "openshift-install", "namespace": "openshift-config"},
        "data": {"invoker": "hypershift", "version": f.scope.release.version}});
    p.keep(install);
    p.keep(config_map("kube-system", "cluster-config-v1", "install-config", &install_config(f)));
}

fn pull_secrets(f: &Facts, p: &mut Plan) {
    match f.material.secret("pull-secret", ".dockerconfigjson") {
        Some(pull) => {
            for namespace in ["openshift-config", "openshift"] {
                p.keep(secret(
                    namespace,
                    "pull-secret",
                    "kubernetes.io/dockerconfigjson",
                    &[(".dockerconfigjson", pull)],
                ));
            }
        }
        None => p.lack("Secret pull-secret (.dockerconfigjson)", "pull secrets of the guest"),
    }
}

fn bundles(f: &Facts, p: &mut Plan) {
    match f.material.text("kubelet-client-ca", "ca.crt") {
        // Who signs certificates of kubelets is who the API server believes them by, and who signs requests.
        Some(ca) => {
            for name in ["kubelet-serving-ca", "csr-controller-ca"] {
                p.keep(config_map("openshift-config-managed", name, "ca-bundle.crt", ca));
            }
        }
        None => p.lack("ConfigMap kubelet-client-ca (ca.crt)", "the guest's kubelet authorities"),
    }
    match f.material.text("root-ca", "ca.crt") {
        Some(ca) => {
            if f.scope.oauth() {
                p.keep(config_map("openshift-config-managed", "oauth-serving-cert", "ca-bundle.crt", ca));
            }
            if f.scope.capable("Ingress") {
                p.keep(config_map("openshift-config-managed", "default-ingress-cert", "ca-bundle.crt", ca));
            }
        }
        None => p.lack("ConfigMap root-ca (ca.crt)", "the guest's serving authorities"),
    }
    if let Some(user) = f.material.text("user-ca-bundle", "ca-bundle.crt") {
        p.keep(config_map("openshift-config", "user-ca-bundle", "ca-bundle.crt", user));
    } else if f.scope.trust_bundle.is_some() {
        p.lack("ConfigMap user-ca-bundle (ca-bundle.crt)", "the guest's additional trust bundle");
    }
}

fn kubeadmin(f: &Facts, p: &mut Plan) {
    let Some(k) = &f.kubeadmin else {
        p.lack("Secret kubeadmin-password (password)", "Secret kube-system/kubeadmin");
        return;
    };
    let mut object = secret("kube-system", "kubeadmin", "Opaque", &[("kubeadmin", k.hash.as_bytes())]);
    object["metadata"]["annotations"][SOURCE] = json!(k.source);
    p.keep(object);
}

/// Which password a hash was made of, without saying it.
pub const SOURCE: &str = "hypershift.openshift.io/kubeadmin-source";

/// The little of an install config that programs in the guest look for.
fn install_config(f: &Facts) -> String {
    let (s, a) = (&f.scope, &f.scope.azure);
    let document: Value = json!({
        "apiVersion": "v1",
        "baseDomain": f.base_domain,
        "controlPlane": {"name": "master", "replicas": 0, "platform": {}, "architecture": "amd64"},
        "compute": [],
        "metadata": {"name": s.name},
        "networking": {
            "networkType": s.network.kind,
            "clusterNetwork": s.network.cluster.iter().map(|c| json!({"cidr": c})).collect::<Vec<_>>(),
            "serviceNetwork": s.network.service,
            "machineNetwork": s.network.machine.iter().map(|c| json!({"cidr": c})).collect::<Vec<_>>(),
        },
        "platform": {"azure": {"region": a.location, "resourceGroupName": a.resource_group, "cloudName": a.cloud,
            "networkResourceGroupName": a.vnet.group, "virtualNetwork": a.vnet.name}},
        "fips": s.fips,
        "publish": if s.reach.private() { "Internal" } else { "External" },
        "pullSecret": "",
    });
    serde_saphyr::to_string(&document).unwrap_or_default()
}
