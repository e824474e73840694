//! The Deployments that this operator writes itself: the operator of the control plane, and who keeps machines: our own
//! controllers, or Cluster API with its provider for Azure. They are components like the others; only who applies them differs.

use super::belong;
use crate::around::Machinery;
use crate::naming;
use apis::hypershift::HostedCluster;
use apis::names::{annotation, finalizer};
use control_plane::component::{Component, Credential};
use control_plane::config::operators::shared_classes;
use control_plane::inject::token::{CLOUD_TOKEN, variables};
use control_plane::inject::{provider_class, vault_volume};
use control_plane::pod::Pod;
use control_plane::scope::{Encryption, Identity, Scope, Who};
use control_plane::{Error, Materials, render, table};
use serde_json::{Value, json};

macro_rules! asset {
    ($name:literal) => {
        include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/assets/", $name, ".yaml"))
    };
}

/// They need no guest, and speak to the management cluster.
const PLAIN: Component = Component { needs_api: false, management: true, ..table::PLAIN };

static OPERATOR: Component = Component {
    name: "control-plane-operator",
    workload: asset!("control-plane-operator"),
    objects: Some(asset!("control-plane-operator.objects")),
    adapt: operator_identity,
    ..PLAIN
};

static MACHINES: Component = Component {
    name: "cluster-api",
    workload: asset!("cluster-api"),
    objects: Some(asset!("cluster-api.objects")),
    shape: keep_for_machines,
    adapt: manager_of_release,
    ..PLAIN
};

static PROVIDER: Component = Component {
    name: "capi-provider",
    workload: asset!("capi-provider"),
    objects: Some(asset!("capi-provider.objects")),
    shape: keep_for_machines,
    identity: Some(Credential {
        who: Who::NodePoolManagement,
        account: ("kube-system", "capi-provider"),
        class: "managed-azure-nodepool-management",
        volume: "nodepool-management-cert",
        path_variable: None,
        api_token: false,
    }),
    ..PLAIN
};

/// The same in one, by ourselves: it stands in the provider's place, with the provider's identity.
static BUILTIN: Component =
    Component { workload: asset!("machines"), objects: Some(asset!("machines.objects")), ..PROVIDER };

/// Flags that not every release's manager knows, by the minor since which it does. Checks before machines are made read a
/// control plane of another kind than ours, and definitions are of the whole cluster: who keeps the machines of one
/// namespace has no right to change them, and would try for ever.
const SINCE: [(u32, &str); 3] = [
    (19, "--feature-gates=MachineSetPreflightChecks=false"),
    (20, "--skip-crd-migration-phases=StorageVersionMigration"),
    (20, "--skip-crd-migration-phases=CleanupManagedFields"),
];

fn manager_of_release(scope: &Scope, pod: &mut Pod<'_>) -> Result<(), Error> {
    let minor = scope.release.minor();
    if let Some(mut main) = pod.main() {
        main.args(SINCE.iter().filter(|(since, _)| minor >= *since).map(|(_, flag)| (*flag).to_owned()));
    }
    Ok(())
}

/// Both must outlive the machines they take away, whoever deletes what.
fn keep_for_machines(_: &Scope, workload: &mut Value) {
    workload["metadata"]["finalizers"] = json!([finalizer::COMPONENT]);
}

/// The operator starts before the guest's API does, because it starts that: its token is minted beside it whenever the API
/// is there, with a kubeconfig that is read and not mounted, and nothing waits for it.
fn operator_identity(scope: &Scope, pod: &mut Pod<'_>) -> Result<(), Error> {
    let blocked = &scope.management.blocked;
    if let Some(mut main) = pod.main().filter(|_| !blocked.is_empty()) {
        main.args([format!("--hcp-egress-block-cidrs={}", blocked.join(","))]);
    }
    if let Some(mut main) = pod.main() {
        let settings = &scope.management.settings;
        main.env("METRICS_SET", settings.metrics.as_str());
        main.env("CERT_ROTATION_SCALE", &settings.certificate_day);
    }
    match &scope.identity {
        Identity::Managed { reader, .. } => {
            pod.volume(vault_volume("cpo-cert", "managed-azure-cpo"));
            let kms = matches!(scope.encryption, Some(Encryption::Kms { .. }))
                && scope.identity.secret(Who::Kms).is_some();
            if kms {
                pod.volume(vault_volume("kms-cert", "managed-azure-kms"));
            }
            if let Some(mut main) = pod.main() {
                main.mount("cpo-cert", "/mnt/certs");
                main.env("ARO_HCP_KEY_VAULT_USER_CLIENT_ID", reader);
                if let Some(secret) = scope.identity.secret(Who::ControlPlaneOperator) {
                    main.args([format!("--azure-credential=/mnt/certs/{}", secret.name)]);
                }
                if kms {
                    main.mount("kms-cert", "/mnt/kms");
                }
                if let Some(secret) = scope.identity.secret(Who::Kms).filter(|_| kms) {
                    main.args([format!("--kms-credential=/mnt/kms/{}", secret.name)]);
                }
            }
        }
        Identity::Workload(_) => {
            let Some(client) = scope.identity.client_id(Who::ControlPlaneOperator) else { return Ok(()) };
            let directory = CLOUD_TOKEN.trim_end_matches("/token");
            pod.volume(json!({"name": "cloud-token", "emptyDir": {"medium": "Memory"}}));
            if let Some(mut main) = pod.main() {
                main.mount("cloud-token", directory);
                for (name, value) in variables(scope, client) {
                    main.env(name, value);
                }
            }
            pod.add_container(json!({
                "name": "cloud-token-minter",
                "image": "zaffre",
                "command": ["/usr/bin/zaffre", "serve", "token-minter"],
                "args": [
                    "--token-audience=openshift",
                    "--service-account-namespace=kube-system",
                    "--service-account-name=control-plane-operator",
                    format!("--token-file={CLOUD_TOKEN}"),
                    format!("--kubeconfig-secret-namespace={}", scope.namespace),
                    "--kubeconfig-secret-name=service-network-admin-kubeconfig",
                ],
                "volumeMounts": [{"name": "cloud-token", "mountPath": directory}],
                "resources": {"requests": {"cpu": "10m", "memory": "30Mi"}},
            }));
        }
    }
    Ok(())
}

/// Classes that those pods mount; nothing where tokens are minted.
pub fn classes(hc: &HostedCluster, scope: &Scope) -> Vec<Value> {
    let mut all = shared_classes(scope);
    if matches!(scope.encryption, Some(Encryption::Kms { .. })) {
        all.extend(provider_class(scope, "managed-azure-kms", Who::Kms));
    }
    all.into_iter().map(|o| belong(hc, o)).collect()
}

/// The scope with the images that annotations choose.
fn chosen(hc: &HostedCluster, scope: &Scope) -> Scope {
    let mut scope = scope.clone();
    for (key, image) in [
        (annotation::CAPI_MANAGER_IMAGE, "cluster-capi-controllers"),
        (annotation::CAPI_PROVIDER_AZURE_IMAGE, "azure-cluster-api-controllers"),
    ] {
        if let Some(chosen) = naming::annotation(hc, key) {
            std::sync::Arc::make_mut(&mut scope.release.images).insert(image.to_owned(), chosen.to_owned());
        }
    }
    scope
}

/// The operator of the control plane, and what it needs.
pub fn operator(hc: &HostedCluster, scope: &Scope, materials: &dyn Materials) -> Result<Vec<Value>, Error> {
    let mut scope = scope.clone();
    if let Some(image) = naming::annotation(hc, annotation::CONTROL_PLANE_OPERATOR_IMAGE) {
        scope.release.ours = image.to_owned();
    }
    let rendered = render::one(&scope, &OPERATOR, materials)?;
    Ok(rendered.objects.into_iter().map(|o| belong(hc, o)).collect())
}

/// Cluster API and its provider, or we in their place.
pub fn machines(
    hc: &HostedCluster,
    scope: &Scope,
    machinery: Machinery,
    materials: &dyn Materials,
) -> Result<Vec<Value>, Error> {
    let scope = chosen(hc, scope);
    let mut all = Vec::new();
    let components: &[&Component] = match machinery {
        Machinery::Builtin => &[&BUILTIN],
        Machinery::External => &[&MACHINES, &PROVIDER],
    };
    for component in components {
        let rendered = render::one(&scope, component, materials)?;
        all.extend(rendered.objects.into_iter().map(|o| belong(hc, o)));
    }
    Ok(all)
}
