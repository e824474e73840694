//! Small configurations of operators.

use super::{azure, config_map, yaml};
use crate::inject::provider_class;
use crate::pod::Pod;
use crate::scope::{Scope, Who};
use crate::{Error, tls};
use serde_json::{Value, json};

/// What operators built on OpenShift's library take: how they serve and how they elect.
pub fn generic(scope: &Scope, name: &str) -> Result<Value, Error> {
    let profile = tls::of(scope)?;
    let document = json!({
        "apiVersion": "operator.openshift.io/v1alpha1", "kind": "GenericOperatorConfig",
        "leaderElection": {"leaseDuration": "60s", "renewDeadline": "40s", "retryPeriod": "15s"},
        "servingInfo": {"minTLSVersion": profile.minimum, "cipherSuites": profile.ciphers},
    });
    Ok(config_map(name, "config.yaml", yaml(&document)))
}

pub fn pki(scope: &Scope) -> Result<Vec<Value>, Error> {
    Ok(vec![generic(scope, "control-plane-pki-operator-config")?])
}

pub fn snapshots(scope: &Scope) -> Result<Vec<Value>, Error> {
    Ok(vec![generic(scope, "csi-snapshot-controller-operator-config")?])
}

pub fn image_registry(scope: &Scope) -> Result<Vec<Value>, Error> {
    let mut objects = vec![generic(scope, "image-registry-controller-config")?];
    objects.extend(azure::class(scope, "managed-azure-image-registry", Who::ImageRegistry));
    Ok(objects)
}

pub fn ingress(scope: &Scope) -> Result<Vec<Value>, Error> {
    Ok(azure::class(scope, "managed-azure-ingress", Who::Ingress))
}

pub fn network(scope: &Scope) -> Result<Vec<Value>, Error> {
    Ok(azure::class(scope, "managed-azure-network", Who::Network))
}

/// Operands of these operators mount the vault themselves; they are told which class and which file.
pub fn adapt_network(scope: &Scope, pod: &mut Pod<'_>) -> Result<(), Error> {
    let reach = scope.endpoints.private_api.clone();
    let Some(mut main) = pod.main() else { return Ok(()) };
    if let Some(secret) = scope.identity.secret(Who::Network) {
        main.env("ARO_HCP_SECRET_PROVIDER_CLASS", "managed-azure-network");
        main.env("MANAGED_AZURE_HCP_CREDENTIALS_FILE_PATH", &secret.name);
    }
    if reach.is_none() {
        // Without a private name, operands use the public one.
        main.env("APISERVER_OVERRIDE_HOST", &scope.endpoints.api.host);
        main.env("APISERVER_OVERRIDE_PORT", scope.endpoints.api.port.to_string());
    }
    Ok(())
}

pub fn adapt_storage(scope: &Scope, pod: &mut Pod<'_>) -> Result<(), Error> {
    if scope.identity.managed()
        && let Some(mut main) = pod.main()
    {
        main.env("ARO_HCP_SECRET_PROVIDER_CLASS_FOR_DISK", "managed-azure-disk-csi");
        main.env("ARO_HCP_SECRET_PROVIDER_CLASS_FOR_FILE", "managed-azure-file-csi");
    }
    Ok(())
}

pub fn machine_approver(_: &Scope) -> Result<Vec<Value>, Error> {
    let document = json!({"nodeClientCert": {"disabled": false}});
    Ok(vec![config_map("machine-approver-config", "config.yaml", yaml(&document))])
}

pub fn collect_profiles(_: &Scope) -> Result<Vec<Value>, Error> {
    Ok(vec![config_map("olm-collect-profiles", "pprof-config.yaml", yaml(&json!({"disabled": false})))])
}

/// Every control plane collects at its own minute, so that they do not all do it at once.
pub fn collect_at(namespace: &str) -> String {
    let sum = namespace.bytes().fold(0u32, |h, b| h.wrapping_mul(31).wrapping_add(u32::from(b)));
    format!("{} {} * * *", sum % 60, (sum / 60) % 24)
}

/// The config operator acts for the cluster as it is, not for the process it was started by.
pub fn adapt_config(scope: &Scope, pod: &mut Pod<'_>) -> Result<(), Error> {
    if scope.identity.managed()
        && let Some(mut main) = pod.main()
    {
        main.env("MANAGED_SERVICE", "ARO-HCP");
    }
    Ok(())
}

/// Classes that belong to no component of the table but to what the HostedCluster's operator runs.
pub fn shared_classes(scope: &Scope) -> Vec<Value> {
    [
        ("managed-azure-cpo", Who::ControlPlaneOperator),
        ("managed-azure-nodepool-management", Who::NodePoolManagement),
    ]
    .into_iter()
    .filter_map(|(name, who)| provider_class(scope, name, who))
    .collect()
}

/// The addresses that aggregated APIs are reached at through this agent.
pub fn adapt_konnectivity_agent(_: &Scope, pod: &mut Pod<'_>) -> Result<(), Error> {
    if let Some(mut main) = pod.main() {
        let identifiers = ["openshift-apiserver", "openshift-oauth-apiserver", "packageserver"];
        let text: Vec<String> = identifiers.iter().map(|s| format!("host={s}")).collect();
        main.args(["--agent-identifiers".to_owned(), text.join("&")]);
    }
    Ok(())
}
