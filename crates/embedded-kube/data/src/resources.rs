//! The resources a Kubernetes 1.34 server serves by default, as its discovery prints them.
//!
//! Transcribed from the discovery documents in the kubernetes 1.34.3 repository (`api/discovery`), GA versions
//! only, and edited by hand from here on. `tests/discovery.rs` compares it with the same documents, so it guards
//! against slips in editing; whether a live server answers alike is for the interop tests to say. Order is the
//! order of discovery: groups by priority, then resources by plural name.

/// One resource: what a plural in a path stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Resource {
    pub group: &'static str,
    pub version: &'static str,
    pub kind: &'static str,
    pub plural: &'static str,
    pub namespaced: bool,
    pub verbs: &'static [&'static str],
    pub short_names: &'static [&'static str],
    pub categories: &'static [&'static str],
    pub subresources: &'static [Subresource],
}

/// What hangs below an object. An empty `group` and `version` (both) or `kind` means the parent's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Subresource {
    pub name: &'static str,
    group: &'static str,
    version: &'static str,
    kind: &'static str,
    pub verbs: &'static [&'static str],
}

/// A group with its place in discovery. Higher priorities come first; the first version is the preferred one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Group {
    pub name: &'static str,
    pub priority: u32,
    /// Each with its priority within the group.
    pub versions: &'static [(&'static str, u32)],
}

impl Resource {
    /// Every built-in singular is the kind in lower case.
    pub fn singular(&self) -> String {
        self.kind.to_ascii_lowercase()
    }

    pub fn gvk(&self) -> ek_meta::Gvk {
        ek_meta::Gvk::new(self.group, self.version, self.kind)
    }

    /// `apps/v1`, or `v1`.
    pub fn api_version(&self) -> String {
        ek_meta::GroupVersion::new(self.group, self.version).to_string()
    }

    pub fn subresource(&self, name: &str) -> Option<&'static Subresource> {
        self.subresources.iter().find(|s| s.name == name)
    }

    const fn verbs(self, verbs: &'static [&'static str]) -> Self {
        Resource { verbs, ..self }
    }
    const fn short(self, short_names: &'static [&'static str]) -> Self {
        Resource { short_names, ..self }
    }
    const fn categories(self, categories: &'static [&'static str]) -> Self {
        Resource { categories, ..self }
    }
    const fn subs(self, subresources: &'static [Subresource]) -> Self {
        Resource { subresources, ..self }
    }
}

impl Subresource {
    /// The kind of the body; discovery's `responseKind`.
    pub fn gvk(&self, parent: &Resource) -> ek_meta::Gvk {
        let or = |own: &'static str, parents: &'static str| if own.is_empty() { parents } else { own };
        ek_meta::Gvk::new(
            or(self.group, parent.group),
            or(self.version, parent.version),
            or(self.kind, parent.kind),
        )
    }

    /// A connection to something that runs, not an object: exec, attach, portforward, proxy.
    pub fn is_connect(&self) -> bool {
        self.kind.ends_with("Options")
    }
}

/// A built-in resource by the names in its path.
pub fn resource(group: &str, version: &str, plural: &str) -> Option<&'static Resource> {
    RESOURCES.iter().find(|r| r.group == group && r.version == version && r.plural == plural)
}

/// A built-in resource by its kind.
pub fn resource_of_kind(group: &str, version: &str, kind: &str) -> Option<&'static Resource> {
    RESOURCES.iter().find(|r| r.group == group && r.version == version && r.kind == kind)
}

/// In discovery order; the core group, which has a discovery of its own, first.
pub static GROUPS: &[Group] = &[
    Group { name: "", priority: 18000, versions: &[("v1", 1)] },
    Group { name: "apiregistration.k8s.io", priority: 20000, versions: &[("v1", 18)] },
    Group { name: "apps", priority: 17800, versions: &[("v1", 15)] },
    Group { name: "events.k8s.io", priority: 17750, versions: &[("v1", 15)] },
    Group { name: "authentication.k8s.io", priority: 17700, versions: &[("v1", 15)] },
    Group { name: "authorization.k8s.io", priority: 17600, versions: &[("v1", 15)] },
    Group { name: "autoscaling", priority: 17500, versions: &[("v2", 30), ("v1", 15)] },
    Group { name: "batch", priority: 17400, versions: &[("v1", 15)] },
    Group { name: "certificates.k8s.io", priority: 17300, versions: &[("v1", 15)] },
    Group { name: "networking.k8s.io", priority: 17200, versions: &[("v1", 15)] },
    Group { name: "policy", priority: 17100, versions: &[("v1", 15)] },
    Group { name: "rbac.authorization.k8s.io", priority: 17000, versions: &[("v1", 15)] },
    Group { name: "storage.k8s.io", priority: 16800, versions: &[("v1", 15)] },
    Group { name: "admissionregistration.k8s.io", priority: 16700, versions: &[("v1", 15)] },
    Group { name: "apiextensions.k8s.io", priority: 16700, versions: &[("v1", 15)] },
    Group { name: "scheduling.k8s.io", priority: 16600, versions: &[("v1", 15)] },
    Group { name: "coordination.k8s.io", priority: 16500, versions: &[("v1", 15)] },
    Group { name: "node.k8s.io", priority: 16300, versions: &[("v1", 15)] },
    Group { name: "discovery.k8s.io", priority: 16200, versions: &[("v1", 15)] },
    Group { name: "resource.k8s.io", priority: 16200, versions: &[("v1", 21)] },
    Group { name: "flowcontrol.apiserver.k8s.io", priority: 16100, versions: &[("v1", 21)] },
];

const NS: bool = true;
const CLUSTER: bool = false;
const CRUD: &[&str] = &["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"];
const GPU: &[&str] = &["get", "patch", "update"];
const CREATE: &[&str] = &["create"];
const STREAM: &[&str] = &["create", "get"];
const PROXY: &[&str] = &["create", "delete", "get", "patch", "update"];

const STATUS: Subresource = own("status", "", GPU);
const SCALE: Subresource =
    Subresource { name: "scale", group: "autoscaling", version: "v1", kind: "Scale", verbs: GPU };

const fn own(name: &'static str, kind: &'static str, verbs: &'static [&'static str]) -> Subresource {
    Subresource { name, group: "", version: "", kind, verbs }
}

const fn create(
    name: &'static str,
    group: &'static str,
    version: &'static str,
    kind: &'static str,
) -> Subresource {
    Subresource { name, group, version, kind, verbs: CREATE }
}

const fn res(
    group: &'static str,
    version: &'static str,
    kind: &'static str,
    plural: &'static str,
    namespaced: bool,
) -> Resource {
    Resource {
        group,
        version,
        kind,
        plural,
        namespaced,
        verbs: CRUD,
        short_names: &[],
        categories: &[],
        subresources: &[],
    }
}

const ALL: &[&str] = &["all"];
const EXTENSIONS: &[&str] = &["api-extensions"];
const APIREGISTRATION: &str = "apiregistration.k8s.io";
const APPS: &str = "apps";
const EVENTS: &str = "events.k8s.io";
const AUTHENTICATION: &str = "authentication.k8s.io";
const AUTHORIZATION: &str = "authorization.k8s.io";
const BATCH: &str = "batch";
const CERTIFICATES: &str = "certificates.k8s.io";
const NETWORKING: &str = "networking.k8s.io";
const RBAC: &str = "rbac.authorization.k8s.io";
const STORAGE: &str = "storage.k8s.io";
const ADMISSIONREGISTRATION: &str = "admissionregistration.k8s.io";
const APIEXTENSIONS: &str = "apiextensions.k8s.io";
const SCHEDULING: &str = "scheduling.k8s.io";
const COORDINATION: &str = "coordination.k8s.io";
const NODE: &str = "node.k8s.io";
const DISCOVERY: &str = "discovery.k8s.io";
const RESOURCE: &str = "resource.k8s.io";
const FLOWCONTROL: &str = "flowcontrol.apiserver.k8s.io";

#[rustfmt::skip] // One line per resource reads as the table it is.
pub static RESOURCES: &[Resource] = &[
    res("", "v1", "Binding", "bindings", NS).verbs(CREATE),
    res("", "v1", "ComponentStatus", "componentstatuses", CLUSTER).verbs(&["get", "list"]).short(&["cs"]),
    res("", "v1", "ConfigMap", "configmaps", NS).short(&["cm"]),
    res("", "v1", "Endpoints", "endpoints", NS).short(&["ep"]),
    res("", "v1", "Event", "events", NS).short(&["ev"]),
    res("", "v1", "LimitRange", "limitranges", NS).short(&["limits"]),
    res("", "v1", "Namespace", "namespaces", CLUSTER).verbs(&["create", "delete", "get", "list", "patch", "update", "watch"]).short(&["ns"]).subs(&[
        own("finalize", "", &["update"]),
        STATUS,
    ]),
    res("", "v1", "Node", "nodes", CLUSTER).short(&["no"]).subs(&[own("proxy", "NodeProxyOptions", PROXY), STATUS]),
    res("", "v1", "PersistentVolumeClaim", "persistentvolumeclaims", NS).short(&["pvc"]).subs(&[STATUS]),
    res("", "v1", "PersistentVolume", "persistentvolumes", CLUSTER).short(&["pv"]).subs(&[STATUS]),
    res("", "v1", "Pod", "pods", NS).short(&["po"]).categories(ALL).subs(&[
        own("attach", "PodAttachOptions", STREAM),
        own("binding", "Binding", CREATE),
        own("ephemeralcontainers", "", GPU),
        create("eviction", "policy", "v1", "Eviction"),
        own("exec", "PodExecOptions", STREAM),
        own("log", "", &["get"]),
        own("portforward", "PodPortForwardOptions", STREAM),
        own("proxy", "PodProxyOptions", PROXY),
        own("resize", "", GPU),
        STATUS,
    ]),
    res("", "v1", "PodTemplate", "podtemplates", NS),
    res("", "v1", "ReplicationController", "replicationcontrollers", NS).short(&["rc"]).categories(ALL).subs(&[SCALE, STATUS]),
    res("", "v1", "ResourceQuota", "resourcequotas", NS).short(&["quota"]).subs(&[STATUS]),
    res("", "v1", "Secret", "secrets", NS),
    res("", "v1", "ServiceAccount", "serviceaccounts", NS).short(&["sa"]).subs(&[create("token", "authentication.k8s.io", "v1", "TokenRequest")]),
    res("", "v1", "Service", "services", NS).short(&["svc"]).categories(ALL).subs(&[own("proxy", "ServiceProxyOptions", PROXY), STATUS]),
    res(APIREGISTRATION, "v1", "APIService", "apiservices", CLUSTER).categories(EXTENSIONS).subs(&[STATUS]),
    res(APPS, "v1", "ControllerRevision", "controllerrevisions", NS),
    res(APPS, "v1", "DaemonSet", "daemonsets", NS).short(&["ds"]).categories(ALL).subs(&[STATUS]),
    res(APPS, "v1", "Deployment", "deployments", NS).short(&["deploy"]).categories(ALL).subs(&[SCALE, STATUS]),
    res(APPS, "v1", "ReplicaSet", "replicasets", NS).short(&["rs"]).categories(ALL).subs(&[SCALE, STATUS]),
    res(APPS, "v1", "StatefulSet", "statefulsets", NS).short(&["sts"]).categories(ALL).subs(&[SCALE, STATUS]),
    res(EVENTS, "v1", "Event", "events", NS).short(&["ev"]),
    res(AUTHENTICATION, "v1", "SelfSubjectReview", "selfsubjectreviews", CLUSTER).verbs(CREATE),
    res(AUTHENTICATION, "v1", "TokenReview", "tokenreviews", CLUSTER).verbs(CREATE),
    res(AUTHORIZATION, "v1", "LocalSubjectAccessReview", "localsubjectaccessreviews", NS).verbs(CREATE),
    res(AUTHORIZATION, "v1", "SelfSubjectAccessReview", "selfsubjectaccessreviews", CLUSTER).verbs(CREATE),
    res(AUTHORIZATION, "v1", "SelfSubjectRulesReview", "selfsubjectrulesreviews", CLUSTER).verbs(CREATE),
    res(AUTHORIZATION, "v1", "SubjectAccessReview", "subjectaccessreviews", CLUSTER).verbs(CREATE),
    res("autoscaling", "v2", "HorizontalPodAutoscaler", "horizontalpodautoscalers", NS).short(&["hpa"]).categories(ALL).subs(&[STATUS]),
    res("autoscaling", "v1", "HorizontalPodAutoscaler", "horizontalpodautoscalers", NS).short(&["hpa"]).categories(ALL).subs(&[STATUS]),
    res(BATCH, "v1", "CronJob", "cronjobs", NS).short(&["cj"]).categories(ALL).subs(&[STATUS]),
    res(BATCH, "v1", "Job", "jobs", NS).categories(ALL).subs(&[STATUS]),
    res(CERTIFICATES, "v1", "CertificateSigningRequest", "certificatesigningrequests", CLUSTER).short(&["csr"]).subs(&[own("approval", "", GPU), STATUS]),
    res(NETWORKING, "v1", "IngressClass", "ingressclasses", CLUSTER),
    res(NETWORKING, "v1", "Ingress", "ingresses", NS).short(&["ing"]).subs(&[STATUS]),
    res(NETWORKING, "v1", "IPAddress", "ipaddresses", CLUSTER).short(&["ip"]),
    res(NETWORKING, "v1", "NetworkPolicy", "networkpolicies", NS).short(&["netpol"]),
    res(NETWORKING, "v1", "ServiceCIDR", "servicecidrs", CLUSTER).subs(&[STATUS]),
    res("policy", "v1", "PodDisruptionBudget", "poddisruptionbudgets", NS).short(&["pdb"]).subs(&[STATUS]),
    res(RBAC, "v1", "ClusterRoleBinding", "clusterrolebindings", CLUSTER),
    res(RBAC, "v1", "ClusterRole", "clusterroles", CLUSTER),
    res(RBAC, "v1", "RoleBinding", "rolebindings", NS),
    res(RBAC, "v1", "Role", "roles", NS),
    res(STORAGE, "v1", "CSIDriver", "csidrivers", CLUSTER),
    res(STORAGE, "v1", "CSINode", "csinodes", CLUSTER),
    res(STORAGE, "v1", "CSIStorageCapacity", "csistoragecapacities", NS),
    res(STORAGE, "v1", "StorageClass", "storageclasses", CLUSTER).short(&["sc"]),
    res(STORAGE, "v1", "VolumeAttachment", "volumeattachments", CLUSTER).subs(&[STATUS]),
    res(STORAGE, "v1", "VolumeAttributesClass", "volumeattributesclasses", CLUSTER).short(&["vac"]),
    res(ADMISSIONREGISTRATION, "v1", "MutatingWebhookConfiguration", "mutatingwebhookconfigurations", CLUSTER).categories(EXTENSIONS),
    res(ADMISSIONREGISTRATION, "v1", "ValidatingAdmissionPolicy", "validatingadmissionpolicies", CLUSTER).categories(EXTENSIONS).subs(&[STATUS]),
    res(ADMISSIONREGISTRATION, "v1", "ValidatingAdmissionPolicyBinding", "validatingadmissionpolicybindings", CLUSTER).categories(EXTENSIONS),
    res(ADMISSIONREGISTRATION, "v1", "ValidatingWebhookConfiguration", "validatingwebhookconfigurations", CLUSTER).categories(EXTENSIONS),
    res(APIEXTENSIONS, "v1", "CustomResourceDefinition", "customresourcedefinitions", CLUSTER).short(&["crd", "crds"]).categories(EXTENSIONS).subs(&[
        STATUS,
    ]),
    res(SCHEDULING, "v1", "PriorityClass", "priorityclasses", CLUSTER).short(&["pc"]),
    res(COORDINATION, "v1", "Lease", "leases", NS),
    res(NODE, "v1", "RuntimeClass", "runtimeclasses", CLUSTER),
    res(DISCOVERY, "v1", "EndpointSlice", "endpointslices", NS),
    res(RESOURCE, "v1", "DeviceClass", "deviceclasses", CLUSTER),
    res(RESOURCE, "v1", "ResourceClaim", "resourceclaims", NS).subs(&[STATUS]),
    res(RESOURCE, "v1", "ResourceClaimTemplate", "resourceclaimtemplates", NS),
    res(RESOURCE, "v1", "ResourceSlice", "resourceslices", CLUSTER),
    res(FLOWCONTROL, "v1", "FlowSchema", "flowschemas", CLUSTER).subs(&[STATUS]),
    res(FLOWCONTROL, "v1", "PriorityLevelConfiguration", "prioritylevelconfigurations", CLUSTER).subs(&[STATUS]),
];
