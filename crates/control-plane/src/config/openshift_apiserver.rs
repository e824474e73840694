//! OpenShift's aggregated API servers.

use super::{audit, config_map, kube_apiserver, yaml};
use crate::pod::Pod;
use crate::scope::{Etcd, Scope};
use crate::{Error, tls};
use serde_json::{Value, json};

const CERTS: &str = "/etc/kubernetes/certs";

pub fn objects(scope: &Scope) -> Result<Vec<Value>, Error> {
    Ok(vec![
        config_map("openshift-apiserver", "config.yaml", yaml(&config(scope)?)),
        audit::config(scope, "openshift-apiserver-audit")?,
    ])
}

fn etcd(scope: &Scope) -> &str {
    match &scope.etcd {
        Etcd::Managed { .. } => "https://etcd-client:2379",
        Etcd::Unmanaged { endpoint, .. } => endpoint,
    }
}

/// Where Routes get names that have none.
fn routes(scope: &Scope) -> &str {
    let own = scope.configuration["ingress"]["appsDomain"].as_str().filter(|d| !d.is_empty());
    own.unwrap_or_else(|| kube_apiserver::apps(scope))
}

fn config(scope: &Scope) -> Result<Value, Error> {
    let profile = tls::of(scope)?;
    let mut registries = json!({
        "internalRegistryHostname": if scope.capable("ImageRegistry") {
            "image-registry.openshift-image-registry.svc:5000" } else { "" },
        "externalRegistryHostnames": scope.configuration["image"]["externalRegistryHostnames"],
    });
    if let Some(allowed) = scope.configuration["image"]["allowedRegistriesForImport"].as_array() {
        registries["allowedRegistriesForImport"] = json!(allowed);
    }
    Ok(json!({
        "apiVersion": "openshiftcontrolplane.config.openshift.io/v1",
        "kind": "OpenShiftAPIServerConfig",
        "admission": {},
        "apiServerArguments": {
            "audit-log-format": ["json"],
            "audit-log-maxbackup": ["1"],
            "audit-log-maxsize": ["10"],
            "audit-log-path": ["/var/log/openshift-apiserver/audit.log"],
            "audit-policy-file": ["/etc/kubernetes/audit-config/policy.yaml"],
            "shutdown-delay-duration": ["15s"],
        },
        "imagePolicyConfig": registries,
        "kubeClientConfig": {"kubeConfig": "/etc/kubernetes/secrets/svc-kubeconfig/kubeconfig"},
        "projectConfig": {
            "projectRequestTemplate": scope.configuration["project"]["projectRequestTemplate"].as_str().unwrap_or(""),
            "projectRequestMessage": scope.configuration["project"]["projectRequestMessage"].as_str().unwrap_or(""),
        },
        "routingConfig": {"subdomain": routes(scope)},
        "servingInfo": {
            "bindAddress": "0.0.0.0:8443",
            "certFile": format!("{CERTS}/serving/tls.crt"),
            "keyFile": format!("{CERTS}/serving/tls.key"),
            "minTLSVersion": profile.minimum,
            "cipherSuites": profile.ciphers,
        },
        "storageConfig": {
            "ca": format!("{CERTS}/etcd-client-ca/ca.crt"),
            "certFile": format!("{CERTS}/etcd-client/etcd-client.crt"),
            "keyFile": format!("{CERTS}/etcd-client/etcd-client.key"),
            "urls": [etcd(scope)],
        },
    }))
}

/// The user's own authorities join what the image trusts.
pub fn adapt(scope: &Scope, pod: &mut Pod<'_>) -> Result<(), Error> {
    if let Some(name) = &scope.trust_bundle {
        pod.volume(json!({"name": "additional-trust-bundle", "configMap": {"name": name}}));
        if let Some(mut anchors) = pod.container("oas-trust-anchor-generator") {
            anchors.mount("additional-trust-bundle", "/run/extra-ca/additional");
        }
    }
    Ok(())
}

pub fn oauth_objects(scope: &Scope) -> Result<Vec<Value>, Error> {
    Ok(vec![audit::config(scope, "openshift-oauth-apiserver-audit")?])
}

pub fn adapt_oauth(scope: &Scope, pod: &mut Pod<'_>) -> Result<(), Error> {
    if let Some(timeout) = scope.configuration["oauth"]["tokenConfig"]["accessTokenInactivityTimeout"]
        .as_str()
        .filter(|t| !t.is_empty())
        && let Some(mut main) = pod.main()
    {
        main.args([format!("--accesstoken-inactivity-timeout={timeout}")]);
    }
    if let (Etcd::Unmanaged { endpoint, .. }, Some(mut main)) = (&scope.etcd, pod.main()) {
        main.args([format!("--etcd-servers={endpoint}")]);
    }
    Ok(())
}
