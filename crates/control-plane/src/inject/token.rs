//! Tokens of the guest's service accounts, kept fresh in a file: what Azure exchanges for its own, and what the guest's
//! API takes where no kubeconfig is mounted.

use super::ADMIN;
use crate::component::Credential;
use crate::pod::Pod;
use crate::scope::Scope;
use serde_json::{Value, json};

/// Where programs look for the token they exchange at Entra.
pub const CLOUD_TOKEN: &str = "/var/run/secrets/openshift/serviceaccount/token";
const CLOUD_DIR: &str = "/var/run/secrets/openshift/serviceaccount";
const API_DIR: &str = "/var/run/secrets/kubernetes.io/serviceaccount";
/// What federated credentials name as audience.
const AUDIENCE: &str = "openshift";

/// A sidecar that mints a token into a volume.
pub struct Minter<'a> {
    pub name: &'a str,
    pub volume: &'a str,
    pub account: (&'a str, &'a str),
    pub audience: &'a str,
    /// It stands in the API server's own pod: it asks that one, which may not be ready without the token, and cannot be
    /// waited for by it.
    pub beside_api: bool,
}

/// Adds the sidecar: a native one (an initial container that stays) where the management cluster knows them, so that
/// the token is there before the program starts; a plain one elsewhere.
pub fn minter(scope: &Scope, pod: &mut Pod<'_>, minter: &Minter<'_>) {
    let kubeconfig = match minter.beside_api {
        true => pod.secret_volume("localhost-kubeconfig", "localhost-kubeconfig"),
        false => pod.secret_volume(ADMIN, "minter-kubeconfig"),
    };
    pod.volume(json!({"name": minter.volume, "emptyDir": {"medium": "Memory"}}));
    let (namespace, account) = minter.account;
    let mut container = json!({
        "name": minter.name,
        "image": "zaffre",
        "command": ["/usr/bin/zaffre", "serve", "token-minter"],
        "args": [
            format!("--token-audience={}", minter.audience),
            format!("--service-account-namespace={namespace}"),
            format!("--service-account-name={account}"),
            format!("--token-file={CLOUD_TOKEN}"),
            "--kubeconfig=/etc/kubernetes/kubeconfig",
        ],
        "volumeMounts": [
            {"name": minter.volume, "mountPath": CLOUD_DIR},
            {"name": kubeconfig, "mountPath": "/etc/kubernetes"},
        ],
        "resources": {"requests": {"cpu": "10m", "memory": "30Mi"}},
    });
    if scope.management.minor >= 29 && !minter.beside_api {
        container["restartPolicy"] = json!("Always");
        container["startupProbe"] = json!({
            "exec": {"command": ["test", "-f", CLOUD_TOKEN]}, "periodSeconds": 1, "failureThreshold": 30,
        });
        pod.add_init(container, false);
    } else {
        pod.add_container(container);
    }
}

/// The token for Azure, and the variables that the SDKs read.
pub fn add_cloud(scope: &Scope, credential: &Credential, pod: &mut Pod<'_>) {
    let Some(client) = scope.identity.client_id(credential.who).map(str::to_owned) else { return };
    minter(
        scope,
        pod,
        &Minter {
            name: "cloud-token-minter",
            volume: "cloud-token",
            account: credential.account,
            audience: AUDIENCE,
            beside_api: false,
        },
    );
    let Some(mut main) = pod.main() else { return };
    main.mount("cloud-token", CLOUD_DIR);
    for (name, value) in variables(scope, &client) {
        main.env(name, value);
    }
}

/// What the Azure SDKs read for workload identity.
pub fn variables(scope: &Scope, client: &str) -> [(&'static str, String); 3] {
    [
        ("AZURE_CLIENT_ID", client.to_owned()),
        ("AZURE_TENANT_ID", scope.azure.tenant.clone()),
        ("AZURE_FEDERATED_TOKEN_FILE", CLOUD_TOKEN.to_owned()),
    ]
}

/// The token for the guest's API, where client libraries look for it.
pub fn add_api(scope: &Scope, credential: &Credential, pod: &mut Pod<'_>) {
    minter(
        scope,
        pod,
        &Minter {
            name: "apiserver-token-minter",
            volume: "apiserver-token",
            account: credential.account,
            audience: &scope.issuer,
            beside_api: false,
        },
    );
    if let Some(mut main) = pod.main() {
        main.mount("apiserver-token", API_DIR);
    }
}

/// The variables of a sidecar as a list, for containers built elsewhere.
pub fn env(scope: &Scope, client: &str) -> Value {
    variables(scope, client).map(|(name, value)| json!({"name": name, "value": value})).into_iter().collect()
}
