//! What the payload of a release brings into a guest, as far as anybody here waits for it.
//!
//! The real version operator applies some eight hundred manifests. The payloads of this world have no manifests, so
//! [`apply`] stands in for them: kinds of operators (by name only), and the rights that operators of the control plane
//! have in the guest.

use futures::{StreamExt, TryStreamExt};
use kube::Client;
use kube::api::{Api, DynamicObject, PostParams};
use kube::core::{ApiResource, GroupVersionKind};
use serde_json::{Value, json};

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("cannot create {kind} {name}")]
    Create { kind: String, name: String, source: Box<kube::Error> },
    #[error("a manifest of the payload cannot be read")]
    Read(#[from] serde_json::Error),
}

/// Group, version, kind, plural, namespaced.
const KINDS: [(&str, &str, &str, &str, bool); 10] = [
    ("network.operator.openshift.io", "v1", "EgressRouter", "egressrouters", true),
    ("network.operator.openshift.io", "v1", "OperatorPKI", "operatorpkis", true),
    ("operators.coreos.com", "v1alpha1", "CatalogSource", "catalogsources", true),
    ("operators.coreos.com", "v1alpha1", "ClusterServiceVersion", "clusterserviceversions", true),
    ("operators.coreos.com", "v1alpha1", "InstallPlan", "installplans", true),
    ("operators.coreos.com", "v1alpha1", "Subscription", "subscriptions", true),
    ("operators.coreos.com", "v1", "OLMConfig", "olmconfigs", false),
    ("operators.coreos.com", "v1", "Operator", "operators", false),
    ("operators.coreos.com", "v1", "OperatorGroup", "operatorgroups", true),
    ("operators.coreos.com", "v2", "OperatorCondition", "operatorconditions", true),
];

/// Namespace, account, and what it may do everywhere: groups, resources, verbs. No rules: everything.
type Rights = (&'static str, &'static str, &'static [(&'static str, &'static str, &'static str)]);

const LOOK: &str = "get,list,watch";
const KEEP: &str = "get,list,watch,create,update,patch,delete";

const OPERATORS: [Rights; 4] = [
    ("openshift-network-operator", "cluster-network-operator", &[]),
    (
        "openshift-dns-operator",
        "dns-operator",
        &[
            ("", "pods", LOOK),
            ("", "services,namespaces,configmaps", KEEP),
            ("operator.openshift.io", "*", KEEP),
        ],
    ),
    (
        "openshift-ingress-operator",
        "ingress-operator",
        &[
            ("", "pods,namespaces,secrets,services,configmaps", KEEP),
            ("operator.openshift.io,route.openshift.io,config.openshift.io", "*", KEEP),
        ],
    ),
    (
        "openshift-image-registry",
        "cluster-image-registry-operator",
        &[
            ("", "secrets,configmaps,services,serviceaccounts,namespaces", KEEP),
            ("imageregistry.operator.openshift.io,config.openshift.io", "*", KEEP),
        ],
    ),
];

fn list(text: &str) -> Vec<&str> {
    text.split(',').collect()
}

fn definition(kind: &(&str, &str, &str, &str, bool)) -> Value {
    let (group, version, kind, plural, namespaced) = kind;
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{plural}.{group}")},
        "spec": {
            "group": group, "scope": if *namespaced { "Namespaced" } else { "Cluster" },
            "names": {"kind": kind, "listKind": format!("{kind}List"), "plural": plural, "singular": kind.to_lowercase()},
            "versions": [{"name": version, "served": true, "storage": true, "subresources": {"status": {}},
                "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}],
        },
    })
}

fn manifests() -> Vec<Value> {
    const GROUP: &str = "rbac.authorization.k8s.io";
    let mut all: Vec<Value> = KINDS.iter().map(definition).collect();
    for (namespace, account, rules) in OPERATORS {
        all.push(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}));
        let role = if rules.is_empty() { "cluster-admin" } else { account };
        if !rules.is_empty() {
            let rule = |(groups, resources, verbs): &(&str, &str, &str)| json!({"apiGroups": list(groups), "resources": list(resources), "verbs": list(verbs)});
            let rules: Vec<Value> = rules.iter().map(rule).collect();
            all.push(json!({"apiVersion": format!("{GROUP}/v1"), "kind": "ClusterRole", "metadata": {"name": role}, "rules": rules}));
        }
        all.push(json!({"apiVersion": format!("{GROUP}/v1"), "kind": "ClusterRoleBinding", "metadata": {"name": account},
            "roleRef": {"apiGroup": GROUP, "kind": "ClusterRole", "name": role},
            "subjects": [{"kind": "ServiceAccount", "name": account, "namespace": namespace}]}));
    }
    all
}

/// How many manifests are applied at once.
const TOGETHER: usize = 8;

/// Creates what is not there; what is there is left as it is. None of it depends on another being there.
pub async fn apply(admin: &Client) -> Result<(), Error> {
    let all = manifests().into_iter().map(|m| create(admin, m));
    futures::stream::iter(all).buffer_unordered(TOGETHER).try_collect().await
}

async fn create(admin: &Client, manifest: Value) -> Result<(), Error> {
    let text = |field: &str| manifest[field].as_str().unwrap_or_default().to_owned();
    let (version, kind) = (text("apiVersion"), text("kind"));
    let (group, version) = version.rsplit_once('/').unwrap_or(("", &version));
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, &kind));
    let api: Api<DynamicObject> = Api::all_with(admin.clone(), &resource);
    let name = manifest["metadata"]["name"].as_str().unwrap_or_default().to_owned();
    match api.create(&PostParams::default(), &serde_json::from_value(manifest)?).await {
        Ok(_) => Ok(()),
        Err(kube::Error::Api(s)) if s.code == 409 => Ok(()),
        Err(e) => Err(Error::Create { kind, name, source: Box::new(e) }),
    }
}
