//! Certificates from a vault, mounted by the secrets-store driver.

use crate::component::Credential;
use crate::pod::Pod;
use crate::scope::{Identity, Scope, Who};
use serde_json::{Value, json};

const DIRECTORY: &str = "/mnt/certs";

/// Where a mounted credential is.
pub fn path(scope: &Scope, who: Who) -> Option<String> {
    Some(format!("{DIRECTORY}/{}", scope.identity.secret(who)?.name))
}

pub fn add(scope: &Scope, credential: &Credential, pod: &mut Pod<'_>) {
    let Some(path) = path(scope, credential.who) else { return };
    pod.volume(vault_volume(credential.volume, credential.class));
    let Some(mut main) = pod.main() else { return };
    main.mount(credential.volume, DIRECTORY);
    if let Some(name) = credential.path_variable {
        main.env(name, path);
    }
}

pub fn vault_volume(name: &str, class: &str) -> Value {
    json!({"name": name, "csi": {
        "driver": "secrets-store.csi.k8s.io", "readOnly": true,
        "volumeAttributes": {"secretProviderClass": class},
    }})
}

/// What the driver is to fetch for somebody; nothing where tokens are minted.
pub fn provider_class(scope: &Scope, name: &str, who: Who) -> Option<Value> {
    let Identity::Managed { vault, tenant, reader, secrets } = &scope.identity else { return None };
    let secret = secrets.get(&who)?;
    let objects = format!(
        "array:\n  - |\n    objectName: {}\n    objectEncoding: {}\n    objectType: secret\n",
        secret.name, secret.encoding
    );
    Some(json!({
        "apiVersion": "secrets-store.csi.x-k8s.io/v1",
        "kind": "SecretProviderClass",
        "metadata": {"name": name},
        "spec": {"provider": "azure", "parameters": {
            "usePodIdentity": "false",
            "useVMManagedIdentity": "true",
            "userAssignedIdentityID": reader,
            "keyvaultName": vault,
            "tenantId": tenant,
            "objects": objects,
        }},
    }))
}
