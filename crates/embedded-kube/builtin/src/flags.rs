//! Per-kind switches of the generic write path.
//!
//! They are accidents of history more than design (why may a Service be created by PUT but not a ConfigMap?), but
//! clients have come to rely on them, so they are transcribed as facts rather than derived.

use ek_meta::names;

/// How the generic verbs treat a kind.
#[derive(Clone, Copy, Debug, Default)]
pub struct Flags {
    /// PUT without a resourceVersion overwrites whatever is stored.
    pub unconditional_update: bool,
    /// PUT of a name that does not exist creates it.
    pub create_on_update: bool,
    /// DELETE answers with the last state of the object, not with a Status.
    pub returns_deleted: bool,
    /// Nothing can depend on objects of this kind, so the garbage collector's finalizers make no sense on it.
    pub no_dependents: bool,
}

pub fn flags(group: &str, plural: &str) -> Flags {
    let conditional = matches!(
        (group, plural),
        ("", "serviceaccounts")
            | ("policy", _)
            | ("storage.k8s.io", "volumeattachments" | "csidrivers" | "csinodes" | "csistoragecapacities")
            | ("admissionregistration.k8s.io", _)
            | ("apiextensions.k8s.io", _)
            | ("coordination.k8s.io", _)
            | ("node.k8s.io", _)
            | ("flowcontrol.apiserver.k8s.io", _)
            | ("apiregistration.k8s.io", _)
    );
    Flags {
        unconditional_update: !conditional,
        create_on_update: matches!(
            (group, plural),
            ("", "services" | "endpoints" | "events" | "limitranges")
                | ("events.k8s.io", "events")
                | ("rbac.authorization.k8s.io", _)
                | ("coordination.k8s.io", "leases")
        ),
        returns_deleted: matches!(
            (group, plural),
            (
                "",
                "pods"
                    | "podtemplates"
                    | "persistentvolumes"
                    | "persistentvolumeclaims"
                    | "resourcequotas"
                    | "serviceaccounts"
                    | "services"
            ) | (
                "storage.k8s.io",
                "storageclasses"
                    | "volumeattachments"
                    | "csidrivers"
                    | "csinodes"
                    | "volumeattributesclasses"
            ) | ("resource.k8s.io", _)
        ),
        no_dependents: plural == "events" && matches!(group, "" | "events.k8s.io"),
    }
}

/// Whether `metadata.generation` counts changes of the desired state.
pub fn has_generation(group: &str, plural: &str) -> bool {
    matches!(
        (group, plural),
        ("", "pods" | "podtemplates" | "replicationcontrollers")
            | ("apps", "deployments" | "replicasets" | "statefulsets" | "daemonsets")
            | ("batch", "jobs" | "cronjobs")
            | ("networking.k8s.io", "ingresses" | "ingressclasses" | "networkpolicies")
            | ("policy", "poddisruptionbudgets")
            | ("discovery.k8s.io", "endpointslices")
            | ("apiextensions.k8s.io", "customresourcedefinitions")
            | ("admissionregistration.k8s.io", _)
            | ("flowcontrol.apiserver.k8s.io", _)
            | ("scheduling.k8s.io", "priorityclasses")
            | ("resource.k8s.io", "deviceclasses" | "resourceslices")
    )
}

/// What clients of a kind are told with every answer.
pub fn deprecation(group: &str, plural: &str) -> Option<&'static str> {
    match (group, plural) {
        ("", "endpoints") => {
            Some("v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice")
        }
        ("", "componentstatuses") => Some("v1 ComponentStatus is deprecated in v1.19+"),
        _ => None,
    }
}

/// The rule for `metadata.name` on create.
pub fn name_rule(group: &str, plural: &str) -> fn(&str) -> Vec<String> {
    match (group, plural) {
        ("", "namespaces") => names::dns_label,
        ("", "services") => names::dns_1035_label,
        ("rbac.authorization.k8s.io", _) | ("apiregistration.k8s.io", _) => names::path_segment,
        // Both are named after what they stand for and check the name themselves.
        ("networking.k8s.io", "ipaddresses") => names::path_segment,
        _ => names::dns_subdomain,
    }
}
