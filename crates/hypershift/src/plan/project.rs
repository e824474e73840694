//! From a HostedCluster to its HostedControlPlane: the same words, with the names of copies in place of originals.

use crate::naming;
use apis::hypershift::HostedCluster;
use apis::names::{annotation, finalizer, label};
use serde_json::{Map, Value, json};

/// Annotations that reach the control plane, and leave it when they leave the cluster.
pub const MIRRORED: &[&str] = &[
    annotation::DISABLE_PKI_RECONCILIATION,
    annotation::DISABLE_PROFILING,
    annotation::DISABLE_MACHINE_MANAGEMENT,
    annotation::DISABLE_IGNITION_SERVER,
    annotation::IMAGE_OVERRIDES,
    annotation::CONTROL_PLANE_OPERATOR_IMAGE,
    annotation::CONTROL_PLANE_OPERATOR_IMAGE_LABELS,
    annotation::CAPI_PROVIDER_AZURE_IMAGE,
    annotation::CAPI_MANAGER_IMAGE,
    annotation::CLUSTER_AUTOSCALER_IMAGE,
    annotation::RESTART_DATE,
    annotation::CLEANUP_CLOUD_RESOURCES,
    annotation::POD_SECURITY_ADMISSION_LABEL_OVERRIDE,
    annotation::TOPOLOGY,
    annotation::SWIFT_POD_NETWORK_INSTANCE,
    annotation::AZURE_LOAD_BALANCER_HEALTH_PROBE_MODE,
    annotation::SHARED_LOAD_BALANCER_HEALTH_PROBE_PATH,
    annotation::SHARED_LOAD_BALANCER_HEALTH_PROBE_PORT,
    annotation::MACHINE_HEALTH_CHECK_TIMEOUT,
    annotation::MACHINE_HEALTH_CHECK_NODE_STARTUP_TIMEOUT,
    annotation::MACHINE_HEALTH_CHECK_MAX_UNHEALTHY,
    annotation::KUBE_APISERVER_GOGC,
    annotation::KUBE_APISERVER_GOMEMLIMIT,
    annotation::KUBE_APISERVER_MAX_REQUESTS_INFLIGHT,
    annotation::KUBE_APISERVER_MAX_MUTATING_REQUESTS_INFLIGHT,
    annotation::KUBE_APISERVER_VERBOSITY_LEVEL,
    annotation::KUBE_APISERVER_GOAWAY_CHANCE,
    annotation::KUBE_APISERVER_SERVICE_ACCOUNT_TOKEN_MAX_EXPIRATION,
    annotation::CONTROL_PLANE_PRIORITY_CLASS,
    annotation::API_CRITICAL_PRIORITY_CLASS,
    annotation::ETCD_PRIORITY_CLASS,
    annotation::SKIP_KAS_CONFLICT_SAN_VALIDATION,
    annotation::SKIP_RELEASE_IMAGE_VALIDATION,
    annotation::RESTORED_FROM_BACKUP,
    annotation::AZURE_RESOURCE_ID,
    // Ours: which authorities are to be made anew, and what is to be backed up.
    "hypershift.openshift.io/rotate-authorities",
    "hypershift.openshift.io/rotate-authorities-overlap",
    "hypershift.openshift.io/etcd-backup",
    // Of components, which read them.
    "hypershift.openshift.io/certificate-renewal",
    "hypershift.openshift.io/certificate-validity",
    "hypershift.openshift.io/certified-operators-catalog-image",
    "hypershift.openshift.io/community-operators-catalog-image",
    "hypershift.openshift.io/ingress-controller-load-balancer-scope",
    "hypershift.openshift.io/private-ingress-controller",
    "hypershift.openshift.io/redhat-marketplace-catalog-image",
    "hypershift.openshift.io/redhat-operators-catalog-image",
    "hypershift.openshift.io/request-serving-node-additional-selector",
    // Of nobody here (docs/differences.md); harmless, and there for whoever else looks.
    "oauth.hypershift.openshift.io/login-url-override",
    "hypershift.openshift.io/debug-deployments",
    "hypershift.openshift.io/ensureexists-pullsecret-reconcile",
    "hypershift.openshift.io/konnectivity-agent-image",
    "hypershift.openshift.io/konnectivity-server-image",
    "hypershift.openshift.io/management-platform",
    "hypershift.openshift.io/olm-catalogs-is-registry-overrides",
    "hypershift.openshift.io/portieris-image",
];

/// Annotations of which the beginning decides.
pub const MIRRORED_PREFIXES: &[&str] =
    &[annotation::IDP_OVERRIDES_PREFIX, annotation::RESOURCE_REQUEST_OVERRIDE_PREFIX];

/// What the control plane's annotations are to be. All of them are ours: one that is not listed any more is removed.
pub fn annotations(hc: &HostedCluster, autoscaled: bool) -> Map<String, Value> {
    let mirrored =
        |k: &str| MIRRORED.contains(&k) || MIRRORED_PREFIXES.iter().any(|prefix| k.starts_with(prefix));
    let given = hc.metadata.annotations.iter().flatten();
    let mut all: Map<String, Value> =
        given.filter(|(k, _)| mirrored(k)).map(|(k, v)| (k.clone(), json!(v))).collect();
    all.insert(annotation::HOSTED_CLUSTER.into(), json!(naming::key(hc)));
    if !autoscaled {
        all.insert(annotation::DISABLE_CLUSTER_AUTOSCALER.into(), json!("true"));
    }
    all
}

/// Labels that reach the control plane.
pub fn labels(hc: &HostedCluster) -> Map<String, Value> {
    let given = hc.metadata.labels.iter().flatten();
    given
        .filter(|(k, _)| k.starts_with(label::API_OPENSHIFT_PREFIX))
        .map(|(k, v)| (k.clone(), json!(v)))
        .collect()
}

/// The control plane of a cluster. `image` is the release it runs.
pub fn plane(hc: &HostedCluster, image: &str, autoscaled: bool) -> Result<Value, serde_json::Error> {
    let spec = &hc.spec;
    let mut out = serde_json::to_value(&spec.shared)?;
    out["releaseImage"] = json!(image);
    if let Some(release) = &spec.control_plane_release {
        out["controlPlaneReleaseImage"] = json!(release.image);
    }
    out["clusterID"] = json!(spec.cluster_id);
    out["infraID"] = json!(spec.infra_id);
    out["dns"] = serde_json::to_value(spec.dns.clone().unwrap_or_default())?;
    out["etcd"] = serde_json::to_value(&spec.etcd)?;
    out["networking"] = serde_json::to_value(&spec.networking)?;
    out["issuerURL"] = json!(spec.issuer_url);
    out["pullSecret"] = json!({"name": "pull-secret"});
    out["sshKey"] = json!({"name": if spec.ssh_key.is_some() { "ssh-key" } else { "" }});
    out["kubeconfig"] = json!({"name": "admin-kubeconfig", "key": "kubeconfig"});
    for (field, value) in [("channel", &spec.channel), ("pausedUntil", &spec.paused_until)] {
        if let Some(text) = value {
            out[field] = json!(text);
        }
    }
    if spec.shared.additional_trust_bundle.is_some() {
        out["additionalTrustBundle"] = json!({"name": "user-ca-bundle"});
    }
    if spec.shared.service_account_signing_key.is_some() {
        out["serviceAccountSigningKey"] = json!({"name": "sa-signing-key"});
    }
    Ok(json!({
        "apiVersion": "hypershift.openshift.io/v1beta1", "kind": "HostedControlPlane",
        "metadata": {
            "name": hc.metadata.name, "namespace": naming::namespace(hc),
            "annotations": annotations(hc, autoscaled), "labels": labels(hc),
            // The control plane stays while its guest takes away what it made in Azure.
            "finalizers": [finalizer::HYPERSHIFT],
        },
        "spec": out,
    }))
}
