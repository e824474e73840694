//! What an object is and where it is, as values.

use k8s_openapi::api as k8s;
use kube::core::{ApiResource, DynamicObject};
use kube::{Api, Client};
use serde_json::Value;
use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt;

/// A kind as the server serves it. Plurals are told and not guessed: there is no rule for `endpoints`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Kind {
    pub group: Cow<'static, str>,
    pub version: Cow<'static, str>,
    pub kind: Cow<'static, str>,
    pub plural: Cow<'static, str>,
    pub namespaced: bool,
}

impl Kind {
    /// A namespaced kind; [`Kind::cluster_wide`] for the others.
    pub const fn new(
        group: &'static str,
        version: &'static str,
        kind: &'static str,
        plural: &'static str,
    ) -> Kind {
        Kind {
            group: Cow::Borrowed(group),
            version: Cow::Borrowed(version),
            kind: Cow::Borrowed(kind),
            plural: Cow::Borrowed(plural),
            namespaced: true,
        }
    }

    #[must_use]
    pub const fn cluster_wide(mut self) -> Kind {
        self.namespaced = false;
        self
    }

    /// Of a namespaced type of `k8s-openapi`.
    pub const fn of<K: k8s_openapi::Resource<Scope = k8s_openapi::NamespaceResourceScope>>() -> Kind {
        Kind::new(K::GROUP, K::VERSION, K::KIND, K::URL_PATH_SEGMENT)
    }

    /// Of a type of `k8s-openapi` that lives in no namespace.
    pub const fn of_cluster<K: k8s_openapi::Resource<Scope = k8s_openapi::ClusterResourceScope>>() -> Kind {
        Kind::new(K::GROUP, K::VERSION, K::KIND, K::URL_PATH_SEGMENT).cluster_wide()
    }

    pub fn api_version(&self) -> Cow<'_, str> {
        match &*self.group {
            "" => Cow::Borrowed(&self.version),
            group => Cow::Owned(format!("{group}/{}", self.version)),
        }
    }

    pub(crate) fn resource(&self) -> ApiResource {
        ApiResource {
            group: self.group.to_string(),
            version: self.version.to_string(),
            api_version: self.api_version().into_owned(),
            kind: self.kind.to_string(),
            plural: self.plural.to_string(),
        }
    }

    /// Objects of the kind in a namespace; the empty one means all.
    pub fn api(&self, client: &Client, namespace: &str) -> Api<DynamicObject> {
        let resource = self.resource();
        match self.namespaced && !namespace.is_empty() {
            true => Api::namespaced_with(client.clone(), namespace, &resource),
            false => Api::all_with(client.clone(), &resource),
        }
    }

    pub(crate) fn is(&self, group: &str, kind: &str) -> bool {
        self.group == group && self.kind == kind
    }

    pub fn at(&self, namespace: impl Into<String>, name: impl Into<String>) -> ObjectRef {
        let namespace = if self.namespaced { namespace.into() } else { String::new() };
        ObjectRef { kind: self.clone(), namespace, name: name.into() }
    }
}

/// One object of a cluster. Without a namespace for kinds that live in none.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ObjectRef {
    pub kind: Kind,
    pub namespace: String,
    pub name: String,
}

impl ObjectRef {
    pub(crate) fn api(&self, client: &Client) -> Api<DynamicObject> {
        self.kind.api(client, &self.namespace)
    }
}

impl fmt::Display for ObjectRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &*self.namespace {
            "" => write!(f, "{} {}", self.kind.kind, self.name),
            namespace => write!(f, "{} {namespace}/{}", self.kind.kind, self.name),
        }
    }
}

/// Why a manifest does not say which object it is.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum Error {
    #[error("{what} has no {field}: every manifest needs apiVersion, kind and metadata.name")]
    Incomplete { what: String, field: &'static str },
    #[error("{object} has no metadata.namespace, and {kind} objects live in one")]
    Namespace { object: String, kind: String },
    #[error("{api_version} {kind} is unknown: add it with Kinds::with")]
    Unknown { api_version: String, kind: String },
}

/// The kinds that manifests may be of.
#[derive(Clone, Debug)]
pub struct Kinds(HashMap<(String, String), Kind>);

impl Kinds {
    /// The built-in kinds that operators write.
    pub fn builtin() -> Kinds {
        Kinds(HashMap::new()).with([
            Kind::of_cluster::<k8s::core::v1::Namespace>(),
            Kind::of_cluster::<k8s::core::v1::PersistentVolume>(),
            Kind::of_cluster::<k8s::rbac::v1::ClusterRole>(),
            Kind::of_cluster::<k8s::rbac::v1::ClusterRoleBinding>(),
            Kind::of_cluster::<k8s::storage::v1::StorageClass>(),
            Kind::of_cluster::<k8s::storage::v1::CSIDriver>(),
            Kind::of_cluster::<k8s::scheduling::v1::PriorityClass>(),
            Kind::of_cluster::<k8s::node::v1::RuntimeClass>(),
            Kind::of_cluster::<k8s::networking::v1::IngressClass>(),
            Kind::of_cluster::<k8s::admissionregistration::v1::MutatingWebhookConfiguration>(),
            Kind::of_cluster::<k8s::admissionregistration::v1::ValidatingWebhookConfiguration>(),
            Kind::of_cluster::<k8s::admissionregistration::v1::ValidatingAdmissionPolicy>(),
            Kind::of_cluster::<k8s::admissionregistration::v1::ValidatingAdmissionPolicyBinding>(),
            Kind::new("apiextensions.k8s.io", "v1", "CustomResourceDefinition", "customresourcedefinitions")
                .cluster_wide(),
            Kind::new("apiregistration.k8s.io", "v1", "APIService", "apiservices").cluster_wide(),
            Kind::of::<k8s::core::v1::ConfigMap>(),
            Kind::of::<k8s::core::v1::Secret>(),
            Kind::of::<k8s::core::v1::Service>(),
            Kind::of::<k8s::core::v1::ServiceAccount>(),
            Kind::of::<k8s::core::v1::Endpoints>(),
            Kind::of::<k8s::core::v1::Pod>(),
            Kind::of::<k8s::core::v1::PersistentVolumeClaim>(),
            Kind::of::<k8s::core::v1::LimitRange>(),
            Kind::of::<k8s::core::v1::ResourceQuota>(),
            Kind::of::<k8s::apps::v1::Deployment>(),
            Kind::of::<k8s::apps::v1::StatefulSet>(),
            Kind::of::<k8s::apps::v1::DaemonSet>(),
            Kind::of::<k8s::apps::v1::ReplicaSet>(),
            Kind::of::<k8s::batch::v1::Job>(),
            Kind::of::<k8s::batch::v1::CronJob>(),
            Kind::of::<k8s::rbac::v1::Role>(),
            Kind::of::<k8s::rbac::v1::RoleBinding>(),
            Kind::of::<k8s::policy::v1::PodDisruptionBudget>(),
            Kind::of::<k8s::networking::v1::NetworkPolicy>(),
            Kind::of::<k8s::networking::v1::Ingress>(),
            Kind::of::<k8s::discovery::v1::EndpointSlice>(),
            Kind::of::<k8s::autoscaling::v2::HorizontalPodAutoscaler>(),
            Kind::of::<k8s::coordination::v1::Lease>(),
        ])
    }

    #[must_use]
    pub fn with(mut self, kinds: impl IntoIterator<Item = Kind>) -> Kinds {
        for k in kinds {
            self.0.insert((k.api_version().into_owned(), k.kind.to_string()), k);
        }
        self
    }

    pub fn find(&self, api_version: &str, kind: &str) -> Result<&Kind, Error> {
        self.0
            .get(&(api_version.to_owned(), kind.to_owned()))
            .ok_or_else(|| Error::Unknown { api_version: api_version.to_owned(), kind: kind.to_owned() })
    }

    /// Which object a manifest is.
    pub fn locate(&self, manifest: &Value) -> Result<ObjectRef, Error> {
        let text = |v: &Value| v.as_str().filter(|s| !s.is_empty()).map(str::to_owned);
        let name = text(&manifest["metadata"]["name"]);
        let what = || {
            let kind = manifest["kind"].as_str().unwrap_or("manifest");
            format!("{kind} {}", name.as_deref().unwrap_or("without a name"))
        };
        let missing = |field| move || Error::Incomplete { what: what(), field };
        let api_version = text(&manifest["apiVersion"]).ok_or_else(missing("apiVersion"))?;
        let kind = text(&manifest["kind"]).ok_or_else(missing("kind"))?;
        let named = name.clone().ok_or_else(missing("metadata.name"))?;
        let kind = self.find(&api_version, &kind)?;
        let namespace = text(&manifest["metadata"]["namespace"]).unwrap_or_default();
        if kind.namespaced && namespace.is_empty() {
            return Err(Error::Namespace { object: what(), kind: kind.kind.to_string() });
        }
        Ok(kind.at(namespace, named))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn manifests_are_located_or_told_what_they_lack() {
        let kinds = Kinds::builtin();
        let at = |v: Value| kinds.locate(&v).map(|r| r.to_string()).map_err(|e| e.to_string());
        let meta = json!({"name": "a", "namespace": "n"});
        assert_eq!(
            at(json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": meta})),
            Ok("Deployment n/a".into())
        );
        assert_eq!(
            at(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": meta})),
            Ok("Namespace a".into()),
            "a namespace lives in none"
        );
        assert_eq!(
            at(json!({"kind": "Pod", "metadata": {"name": "a"}})),
            Err("Pod a has no apiVersion: every manifest needs apiVersion, kind and metadata.name".into())
        );
        assert_eq!(
            at(json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}})),
            Err("Pod a has no metadata.namespace, and Pod objects live in one".into())
        );
        assert_eq!(
            at(json!({"apiVersion": "x/v1", "kind": "Pod", "metadata": meta})),
            Err("x/v1 Pod is unknown: add it with Kinds::with".into())
        );
        assert_eq!(kinds.find("v1", "Endpoints").unwrap().plural, "endpoints");
    }
}
