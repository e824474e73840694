//! Encryption at rest: what the API server is told, and the sidecars that ask the vault.

use super::{secret, yaml};
use crate::Error;
use crate::inject::{self, vault_volume};
use crate::pod::Pod;
use crate::scope::{AesKey, Encryption, Identity, KmsKey, Scope, Who};
use aws_lc_rs::digest::{SHA256, digest};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

pub const SECRET: &str = "kas-secret-encryption-config";
const TOKEN_DIR: &str = "/var/run/secrets/openshift/serviceaccount";
/// Where a key of the cluster's own lies in the Secret a user gave us; filled in by whoever reads it.
pub const KEY_WORD: &str = "{{key}}";

/// The name under which a key's data is stored: another key, another name.
pub fn provider_name(key: &KmsKey) -> String {
    let sum = digest(&SHA256, crate::encryption::identity(key).as_bytes());
    let hex: String = sum.as_ref().iter().take(4).map(|b| format!("{b:02x}")).collect();
    format!("azure-{hex}")
}

/// Data names the key it was encrypted with: other bytes are another key, even in a Secret of the same name.
fn key_name(key: &AesKey) -> String {
    match key.material() {
        None => key.name.clone(),
        Some(material) => {
            let sum = digest(&SHA256, material);
            let hex: String = sum.as_ref().iter().take(4).map(|b| format!("{b:02x}")).collect();
            format!("{}-{hex}", key.name)
        }
    }
}

/// The configuration, as a Secret. Keys of `aescbc` are references until they are read.
pub fn config(scope: &Scope) -> Result<Vec<Value>, Error> {
    let Some(encryption) = &scope.encryption else { return Ok(Vec::new()) };
    let (resources, mut providers) = match encryption {
        Encryption::Kms { active, backup, .. } => {
            let kms = |key: &KmsKey, which: &str| {
                json!({"kms": {"apiVersion": "v2", "name": provider_name(key), "timeout": "35s",
                    "endpoint": format!("unix:///opt/azurekms{which}.socket")}})
            };
            let mut list = vec![kms(active, "active")];
            list.extend(backup.as_ref().map(|b| kms(b, "backup")));
            let resources = json!([
                "secrets",
                "configmaps",
                "routes.route.openshift.io",
                "oauthaccesstokens.oauth.openshift.io",
                "oauthauthorizetokens.oauth.openshift.io"
            ]);
            (resources, list)
        }
        Encryption::Aescbc { active, backup } => {
            let key = |k: &AesKey| {
                let material = k.material().map(|m| STANDARD.encode(m));
                json!({"name": key_name(k), "secret": material.as_deref().unwrap_or(KEY_WORD)})
            };
            let keys: Vec<Value> = [Some(active), backup.as_ref()].into_iter().flatten().map(key).collect();
            (json!(["secrets"]), vec![json!({"aescbc": {"keys": keys}})])
        }
    };
    providers.push(json!({"identity": {}}));
    let document = json!({
        "apiVersion": "apiserver.config.k8s.io/v1", "kind": "EncryptionConfiguration",
        "resources": [{"resources": resources, "providers": providers}],
    });
    let mut objects = vec![secret(SECRET, "config.yaml", yaml(&document))];
    if matches!(encryption, Encryption::Kms { .. }) {
        // Class managed-azure-kms is the HostedCluster operator's: the pod of this one mounts it, too.
        objects.push(secret("azure-kms-config", "cloud.conf", super::pretty(&vault_access(scope))));
    }
    Ok(objects)
}

/// What the sidecars read as `azure.json`.
fn vault_access(scope: &Scope) -> Value {
    let mut conf = json!({
        "cloud": scope.azure.cloud, "tenantId": scope.azure.tenant,
        "subscriptionId": scope.azure.subscription, "resourceGroup": scope.azure.resource_group,
        "location": scope.azure.location,
    });
    match scope.identity.secret(Who::Kms) {
        Some(s) => conf["aadMSIDataPlaneIdentityPath"] = json!(format!("/mnt/certs/{}", s.name)),
        None => conf["useWorkloadIdentityExtension"] = json!(true),
    }
    conf
}

/// Adds to the API server what its encryption needs.
pub fn adapt(scope: &Scope, pod: &mut Pod<'_>) {
    let Some(encryption) = &scope.encryption else { return };
    pod.volume(json!({"name": SECRET, "secret": {"secretName": SECRET}}));
    if let Some(mut api) = pod.container("kube-apiserver") {
        api.args([
            "--encryption-provider-config=/etc/kubernetes/secret-encryption/config.yaml".to_owned(),
            "--encryption-provider-config-automatic-reload=false".to_owned(),
        ]);
        api.mount(SECRET, "/etc/kubernetes/secret-encryption");
    }
    let Encryption::Kms { active, backup, .. } = encryption else { return };
    let private = private_vaults(scope);
    if let Some(ip) = scope.endpoints.private_router.as_ref().filter(|_| !private.is_empty()) {
        pod.spec().insert("hostAliases".into(), json!([{"ip": ip, "hostnames": private}]));
    }
    pod.volume(json!({"name": "kms-socket", "emptyDir": {}}));
    pod.volume(json!({"name": "azure-kms-credentials", "secret": {
        "secretName": "azure-kms-config", "items": [{"key": "cloud.conf", "path": "azure.json"}]}}));
    if let Some(mut api) = pod.container("kube-apiserver") {
        api.mount("kms-socket", "/opt");
    }
    let client = scope.identity.client_id(Who::Kms).map(str::to_owned);
    match &scope.identity {
        Identity::Managed { .. } => pod.volume(vault_volume("kms-cert", "managed-azure-kms")),
        Identity::Workload(_) => inject::minter(
            scope,
            pod,
            &inject::token::Minter {
                name: "azure-kms-token-minter",
                volume: "azure-kms-cloud-token",
                account: ("kube-system", "kms-provider"),
                audience: "openshift",
                beside_api: true,
            },
        ),
    }
    pod.add_container(sidecar(scope, active, "active", 8787, 8095, client.as_deref()));
    if let Some(backup) = backup {
        pod.add_container(sidecar(scope, backup, "backup", 8788, 8096, client.as_deref()));
    }
}

/// Vaults that only the guest's network reaches. The private router is in it, and passes on what asks for them.
pub fn private_vaults(scope: &Scope) -> Vec<String> {
    let Some(Encryption::Kms { active, backup, private: true }) = &scope.encryption else {
        return Vec::new();
    };
    let mut names: Vec<String> = std::iter::once(active).chain(backup).map(|k| host(scope, k)).collect();
    names.dedup();
    if scope.reach.private() { names } else { Vec::new() }
}

/// The name of a vault or of a managed HSM, in its cloud.
fn host(scope: &Scope, key: &KmsKey) -> String {
    let domain = match scope.azure.cloud.as_str() {
        "AzureUSGovernmentCloud" => "usgovcloudapi.net",
        "AzureChinaCloud" => "azure.cn",
        "AzureGermanCloud" => "microsoftazure.de",
        "AzureBleuCloud" => "sovcloud-api.fr",
        _ => "azure.net",
    };
    format!("{}.{}.{domain}", key.vault, if key.managed_hsm { "managedhsm" } else { "vault" })
}

fn sidecar(
    scope: &Scope,
    key: &KmsKey,
    which: &str,
    health: u16,
    metrics: u16,
    client: Option<&str>,
) -> Value {
    let mut mounts = vec![
        json!({"name": "azure-kms-credentials", "mountPath": "/etc/kubernetes"}),
        json!({"name": "kms-socket", "mountPath": "/opt"}),
    ];
    let mut args = vec![
        format!("--keyvault-name={}", key.vault),
        format!("--key-name={}", key.name),
        format!("--key-version={}", key.version),
        format!("--listen-addr=unix:///opt/azurekms{which}.socket"),
        format!("--healthz-port={health}"),
        format!("--metrics-addr={metrics}"),
        "--healthz-path=/healthz".to_owned(),
        "--config-file-path=/etc/kubernetes/azure.json".to_owned(),
        "-v=1".to_owned(),
    ];
    if key.managed_hsm {
        args.push("--managed-hsm=true".to_owned());
    }
    let mut container = json!({
        "name": format!("azure-kms-provider-{which}"),
        "image": "azure-kms-encryption-provider",
        "args": args,
        "ports": [{"name": if which == "active" { "http" } else { "http-backup" }, "containerPort": health}],
        "livenessProbe": {
            "httpGet": {"scheme": "HTTP", "port": health, "path": "/healthz"},
            "initialDelaySeconds": 120, "periodSeconds": 300, "timeoutSeconds": 160, "failureThreshold": 3,
        },
        "resources": {"requests": {"cpu": "10m", "memory": "10Mi"}},
    });
    match &scope.identity {
        Identity::Managed { .. } => mounts.push(json!({"name": "kms-cert", "mountPath": "/mnt/certs"})),
        Identity::Workload(_) => {
            mounts.push(json!({"name": "azure-kms-cloud-token", "mountPath": TOKEN_DIR}));
            container["env"] = inject::token::env(scope, client.unwrap_or_default());
        }
    }
    container["volumeMounts"] = json!(mounts);
    container
}
