//! Kinds of a guest that are neither built in nor typed.

use reconcile::{Kind, Kinds};
use std::sync::{Arc, OnceLock};

const fn config(kind: &'static str, plural: &'static str) -> Kind {
    Kind::new("config.openshift.io", "v1", kind, plural).cluster_wide()
}

const fn operator(kind: &'static str, plural: &'static str) -> Kind {
    Kind::new("operator.openshift.io", "v1", kind, plural).cluster_wide()
}

const fn oauth(kind: &'static str, plural: &'static str) -> Kind {
    Kind::new("oauth.openshift.io", "v1", kind, plural).cluster_wide()
}

pub const CLUSTER_VERSION: Kind = config("ClusterVersion", "clusterversions");
pub const MIRRORS: Kind = config("ImageDigestMirrorSet", "imagedigestmirrorsets");
pub const INGRESS_CONTROLLER: Kind =
    Kind::new("operator.openshift.io", "v1", "IngressController", "ingresscontrollers");
pub const REGISTRY: Kind =
    Kind::new("imageregistry.operator.openshift.io", "v1", "Config", "configs").cluster_wide();
pub const ROUTE: Kind = Kind::new("route.openshift.io", "v1", "Route", "routes");
pub const ACCESS_TOKENS: Kind = oauth("OAuthAccessToken", "oauthaccesstokens");
pub const AUTHORIZE_TOKENS: Kind = oauth("OAuthAuthorizeToken", "oauthauthorizetokens");
pub const DEFINITION: Kind =
    Kind::new("apiextensions.k8s.io", "v1", "CustomResourceDefinition", "customresourcedefinitions")
        .cluster_wide();
pub const SNAPSHOT: Kind = Kind::new("snapshot.storage.k8s.io", "v1", "VolumeSnapshot", "volumesnapshots");
pub const SNAPSHOT_CONTENT: Kind =
    Kind::new("snapshot.storage.k8s.io", "v1", "VolumeSnapshotContent", "volumesnapshotcontents")
        .cluster_wide();

/// In the management cluster.
pub const PLANE: Kind =
    Kind::new("hypershift.openshift.io", "v1beta1", "HostedControlPlane", "hostedcontrolplanes");

/// Typed in `apis`, definition and all.
const CONFIG: [Kind; 16] = [
    CLUSTER_VERSION,
    config("ClusterOperator", "clusteroperators"),
    config("Infrastructure", "infrastructures"),
    config("APIServer", "apiservers"),
    config("Authentication", "authentications"),
    config("Build", "builds"),
    config("DNS", "dnses"),
    config("FeatureGate", "featuregates"),
    config("Image", "images"),
    MIRRORS,
    config("Ingress", "ingresses"),
    config("Network", "networks"),
    config("OAuth", "oauths"),
    config("OperatorHub", "operatorhubs"),
    config("Proxy", "proxies"),
    config("Scheduler", "schedulers"),
];

/// Known by name only: their content is their operators' business.
pub const PLAIN: [Kind; 12] = [
    config("Project", "projects"),
    config("Console", "consoles"),
    config("ImageTagMirrorSet", "imagetagmirrorsets"),
    Kind::new("operator.openshift.io", "v1alpha1", "ImageContentSourcePolicy", "imagecontentsourcepolicies")
        .cluster_wide(),
    operator("Network", "networks"),
    operator("CloudCredential", "cloudcredentials"),
    operator("Storage", "storages"),
    operator("CSISnapshotController", "csisnapshotcontrollers"),
    operator("ClusterCSIDriver", "clustercsidrivers"),
    operator("DNS", "dnses"),
    INGRESS_CONTROLLER,
    REGISTRY,
];

/// Served by OpenShift's own API servers where those run, otherwise by definitions.
pub const AGGREGATED: [Kind; 3] = [oauth("OAuthClient", "oauthclients"), ACCESS_TOKENS, AUTHORIZE_TOKENS];

/// [`all`], once in a process: thousands of instances share it.
pub fn shared() -> Arc<Kinds> {
    static ALL: OnceLock<Arc<Kinds>> = OnceLock::new();
    ALL.get_or_init(|| Arc::new(all())).clone()
}

/// All that manifests of a guest may be of.
pub fn all() -> Kinds {
    Kinds::builtin().with(CONFIG).with(PLAIN).with(AGGREGATED).with([ROUTE])
}
