//! Names that follow from a HostedCluster.

use apis::hypershift::HostedCluster;

pub fn name(hc: &HostedCluster) -> &str {
    hc.metadata.name.as_deref().unwrap_or_default()
}

/// The namespace it lies in.
pub fn home(hc: &HostedCluster) -> &str {
    hc.metadata.namespace.as_deref().unwrap_or_default()
}

/// `namespace/name`, as annotations of children and keys have it.
pub fn key(hc: &HostedCluster) -> String {
    format!("{}/{}", home(hc), name(hc))
}

/// The namespace of its control plane.
pub fn namespace(hc: &HostedCluster) -> String {
    apis::naming::control_plane_namespace(home(hc), name(hc))
}

/// An annotation of ours.
pub fn annotation<'a>(hc: &'a HostedCluster, key: &str) -> Option<&'a str> {
    hc.metadata.annotations.as_ref()?.get(key).map(String::as_str)
}
