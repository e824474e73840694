//! The operands.

use super::OPERAND_OF;
use ek_node::ProgramContext;
use serde_json::{Value, json};

const TOKEN_DIR: &str = "/var/run/secrets/openshift/serviceaccount";
const CERTS: &str = "/mnt/certs";

fn env<'a>(ctx: &'a ProgramContext, name: &str) -> Result<&'a str, String> {
    let value = ctx.env().get(name).filter(|v| !v.is_empty());
    value.map(String::as_str).ok_or_else(|| format!("{name} is not set"))
}

/// How an operand gets its credential.
enum Credential<'a> {
    /// Minted: image of the minter, account of the guest.
    Token {
        minter: &'a str,
        account: (&'a str, &'a str),
    },
    /// Mounted: the class.
    Vault {
        class: &'a str,
    },
    None,
}

fn deployment(
    operator: &str,
    name: &str,
    image: &str,
    mut main: Value,
    mut volumes: Vec<Value>,
    credential: &Credential<'_>,
) -> Value {
    let mut init = Vec::new();
    let mut mounts = main["volumeMounts"].as_array().cloned().unwrap_or_default();
    match credential {
        Credential::Token { minter, account: (namespace, account) } => {
            mounts.push(json!({"name": "cloud-token", "mountPath": TOKEN_DIR}));
            volumes.push(json!({"name": "cloud-token", "emptyDir": {"medium": "Memory"}}));
            volumes.push(json!({"name": "hosted-kubeconfig", "secret": {"secretName": "service-network-admin-kubeconfig"}}));
            init.push(json!({
                "name": "cloud-token-minter", "image": minter, "restartPolicy": "Always",
                "command": ["/usr/bin/control-plane-operator", "token-minter"],
                "args": [
                    format!("--service-account-namespace={namespace}"), format!("--service-account-name={account}"),
                    format!("--token-file={TOKEN_DIR}/token"), "--token-audience=openshift",
                    "--kubeconfig=/etc/hosted-kubernetes/kubeconfig",
                ],
                "terminationMessagePolicy": "FallbackToLogsOnError",
                "startupProbe": {"exec": {"command": ["test", "-f", format!("{TOKEN_DIR}/token")]}, "periodSeconds": 1, "failureThreshold": 30},
                "volumeMounts": [
                    {"name": "cloud-token", "mountPath": TOKEN_DIR},
                    {"name": "hosted-kubeconfig", "mountPath": "/etc/hosted-kubernetes"},
                ],
            }));
        }
        Credential::Vault { class } => {
            mounts.push(json!({"name": "cloud-cert", "mountPath": CERTS, "readOnly": true}));
            volumes
                .push(json!({"name": "cloud-cert", "csi": {"driver": crate::SECRETS_STORE, "readOnly": true,
                "volumeAttributes": {"secretProviderClass": class}}}));
        }
        Credential::None => {}
    }
    main["image"] = json!(image);
    main["volumeMounts"] = json!(mounts);
    main["terminationMessagePolicy"] = json!("FallbackToLogsOnError");
    let labels = json!({"app": name});
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": name, "labels": {OPERAND_OF: operator, "app": name}},
        "spec": {"replicas": 1, "selector": {"matchLabels": labels}, "template": {"metadata": {"labels": labels},
            "spec": {"automountServiceAccountToken": false, "initContainers": init, "containers": [main], "volumes": volumes}}},
    })
}

/// The disk and file drivers and their operators.
pub fn storage(ctx: &ProgramContext) -> Result<Vec<Value>, String> {
    let operator = "cluster-storage-operator";
    let namespace = "openshift-cluster-csi-drivers";
    let mut all = Vec::new();
    for (kind, upper) in [("disk", "DISK"), ("file", "FILE")] {
        let brings = format!("azure-{kind}-csi-driver-operator");
        let image = env(ctx, &format!("AZURE_{upper}_DRIVER_OPERATOR_IMAGE"))?;
        let main = json!({"name": brings});
        all.push(deployment(operator, &brings, image, main, Vec::new(), &Credential::None));
        let image = env(ctx, &format!("AZURE_{upper}_DRIVER_CONTROL_PLANE_IMAGE"))?;
        let class = ctx.env().get(&format!("ARO_HCP_SECRET_PROVIDER_CLASS_FOR_{upper}"));
        let account = format!("azure-{kind}-csi-driver-controller-sa");
        let credential = match class {
            Some(class) => Credential::Vault { class },
            None => {
                Credential::Token { minter: env(ctx, "HYPERSHIFT_IMAGE")?, account: (namespace, &account) }
            }
        };
        let main = json!({
            "name": "csi-driver",
            "args": ["--endpoint=$(CSI_ENDPOINT)", format!("--drivername={kind}.csi.azure.com"), "--run-controller=true"],
            "env": [
                {"name": "AZURE_CREDENTIAL_FILE", "value": "/etc/kubernetes/cloud.conf"},
                {"name": "CSI_ENDPOINT", "value": "unix:///var/lib/csi/sockets/pluginproxy/csi.sock"},
            ],
            "volumeMounts": [{"name": "cloud-config", "mountPath": "/etc/kubernetes"}],
        });
        let volumes = vec![
            json!({"name": "cloud-config", "secret": {"secretName": format!("azure-{kind}-csi-config")}}),
        ];
        all.push(deployment(
            operator,
            &format!("azure-{kind}-csi-driver-controller"),
            image,
            main,
            volumes,
            &credential,
        ));
    }
    Ok(all)
}

/// The cloud network config controller.
pub fn network(ctx: &ProgramContext) -> Result<Vec<Value>, String> {
    let name = "cloud-network-config-controller";
    let class = ctx.env().get("ARO_HCP_SECRET_PROVIDER_CLASS");
    let account = ("openshift-cloud-network-config-controller", name);
    let mut variables = vec![json!({"name": "CONTROLLER_NAMESPACE", "value": account.0})];
    let credential = match class {
        Some(class) => {
            let file = env(ctx, "MANAGED_AZURE_HCP_CREDENTIALS_FILE_PATH")?;
            let file = format!("{CERTS}/{}", file.trim_start_matches(&format!("{CERTS}/")));
            variables.push(json!({"name": "MANAGED_AZURE_HCP_CREDENTIALS_FILE_PATH", "value": file}));
            Credential::Vault { class }
        }
        None => Credential::Token { minter: env(ctx, "TOKEN_MINTER_IMAGE")?, account },
    };
    let main = json!({
        "name": "controller",
        "command": ["/usr/bin/cloud-network-config-controller"],
        "args": ["-platform-type=Azure", "-secret-name=cloud-network-config-controller-creds"],
        "env": variables,
        "volumeMounts": [{"name": "cloud-provider-secret", "mountPath": "/etc/secret/cloudprovider"}],
    });
    let volumes = vec![
        json!({"name": "cloud-provider-secret", "secret": {"secretName": "cloud-network-config-controller-creds"}}),
    ];
    let image = env(ctx, "CLOUD_NETWORK_CONFIG_CONTROLLER_IMAGE")?;
    Ok(vec![deployment("cluster-network-operator", name, image, main, volumes, &credential)])
}
