//! The guest's side of Azure: credentials for what runs on nodes, the cloud's configuration, and the webhook that gives
//! pods of users a federated token.

use super::{CLOUD, Mode, Plan, config_map, secret};
use crate::facts::Facts;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use control_plane::scope::Who;
use serde_json::json;

const TOKEN: &str = "/var/run/secrets/openshift/serviceaccount/token";

/// A client id nobody has: the ingress operator of the managed flavour runs beside the control plane and takes its
/// credential from the vault, but wants the Secret.
const NOBODY: &str = "4cfb1d83-c9c1-4c5f-8a1e-2b0a3c6f0d11";

pub fn plan(f: &Facts, p: &mut Plan) {
    match f.material.text("azure-cloud-config", "cloud.conf") {
        Some(conf) => p.keep(config_map("openshift-config", "cloud-provider-config", "config", conf)),
        None => p.lack(
            "ConfigMap azure-cloud-config (cloud.conf)",
            "ConfigMap openshift-config/cloud-provider-config",
        ),
    }
    credentials(f, p);
    p.asset(f, &CLOUD, Mode::Keep);
    webhook(f, p);
}

/// Who reads a credential, and where.
const PLACES: [(Who, &str, &str, Option<&str>); 5] = [
    (Who::Ingress, "openshift-ingress-operator", "cloud-credentials", Some("Ingress")),
    (Who::ImageRegistry, "openshift-image-registry", "installer-cloud-credentials", Some("ImageRegistry")),
    (Who::Disk, "openshift-cluster-csi-drivers", "azure-disk-credentials", None),
    (Who::File, "openshift-cluster-csi-drivers", "azure-file-credentials", None),
    (Who::Network, "openshift-cloud-network-config-controller", "cloud-credentials", None),
];

/// Client ids, never keys: tokens are federated in both flavours.
fn credentials(f: &Facts, p: &mut Plan) {
    let (s, a) = (&f.scope, &f.scope.azure);
    let prefix = format!("{}-{}", s.name, s.infra_id);
    for (who, namespace, name, capability) in PLACES {
        if capability.is_some_and(|c| !s.capable(c)) {
            continue;
        }
        let client = match (&f.data_plane, who) {
            (None, _) => s.identity.client_id(who).unwrap_or_default(),
            (Some(d), Who::ImageRegistry) => d.registry.as_str(),
            (Some(d), Who::Disk) => d.disk.as_str(),
            (Some(d), Who::File) => d.file.as_str(),
            (Some(_), Who::Ingress) => NOBODY,
            // Network runs beside the control plane only.
            (Some(_), _) => continue,
        };
        if client.is_empty() {
            p.lack(&format!("a client id of {who:?}"), &format!("Secret {namespace}/{name}"));
            continue;
        }
        let data = [
            ("azure_client_id", client),
            ("azure_federated_token_file", TOKEN),
            ("azure_region", a.location.as_str()),
            ("azure_resource_prefix", prefix.as_str()),
            ("azure_resourcegroup", a.resource_group.as_str()),
            ("azure_subscription_id", a.subscription.as_str()),
            ("azure_tenant_id", a.tenant.as_str()),
        ];
        p.keep(secret(namespace, name, "Opaque", &data.map(|(k, v)| (k, v.as_bytes()))));
    }
}

/// It runs beside the API server, which is why the guest calls a loopback address. Ignored when it is away: a pod without
/// its token fails where it needs it, a cluster without pods fails everywhere.
fn webhook(f: &Facts, p: &mut Plan) {
    let name = "azure-workload-identity-webhook";
    let Some(ca) = f.material.text("root-ca", "ca.crt") else {
        p.lack("ConfigMap root-ca (ca.crt)", &format!("MutatingWebhookConfiguration {name}"));
        return;
    };
    p.keep(json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "MutatingWebhookConfiguration",
        "metadata": {"name": name},
        "webhooks": [{
            "name": "pod-identity-webhook.azure.mutate.io",
            "admissionReviewVersions": ["v1", "v1beta1"],
            "clientConfig": {"url": "https://127.0.0.1:9443/mutate-v1-pod", "caBundle": STANDARD.encode(ca)},
            "failurePolicy": "Ignore", "matchPolicy": "Equivalent", "reinvocationPolicy": "IfNeeded", "sideEffects": "None",
            "timeoutSeconds": 10,
            "objectSelector": {"matchLabels": {"azure.workload.identity/use": "true"}},
            "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"], "scope": "Namespaced"}],
        }],
    }));
}
