//! The operators' installation: definitions, rights, the operator itself, and what was asked for beside it.

mod access;
mod args;
mod check;
mod definitions;
mod dns;
mod handover;
mod monitoring;
mod operator;
mod removal;
mod webhooks;

pub use args::{Args, MetricsSet, Monitoring, Outputs, PrivatePlatform, Scope};
pub use definitions::{is_of_machines, only_if_absent};
pub use handover::{handover, is_handed_over};
pub use removal::{Removal, removal};

use crate::documents::sorted;
use crate::flags::Refused;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use std::fmt;

/// Field manager of what is installed.
pub const MANAGER: &str = "hypershift";
/// Where the front of all clusters of the managed flavour is.
pub const SHARED_INGRESS: &str = "hypershift-sharedingress";
const SHARED_ROLE: &str = "sharedingress-config-generator";
/// Authorities that --additional-trust-bundle brings.
const USER_BUNDLE: &str = "user-ca-bundle";
/// Authorities of the management cluster; OpenShift fills it.
const TRUSTED: &str = "openshift-config-managed-trusted-ca-bundle";
/// Where both have them.
const BUNDLE: &str = "ca-bundle.crt";
/// Pods of hosted control planes: the dearer, the later they go when nodes run full. The third says whether others are
/// sent away to make room.
const PRIORITIES: [(&str, i32, bool); 4] = [
    ("hypershift-control-plane", 100_000_000, true),
    ("hypershift-etcd", 100_002_000, true),
    ("hypershift-api-critical", 100_001_000, false),
    ("hypershift-operator", 100_003_000, true),
];

/// What the files that flags name hold.
#[derive(Clone, Default)]
pub struct Inputs {
    pub pull_secret: Option<Vec<u8>>,
    pub trust_bundle: Option<String>,
    pub azure_private_creds: Option<Vec<u8>>,
    pub external_dns_credentials: Option<Vec<u8>>,
    pub scale_from_zero_creds: Option<Vec<u8>>,
    /// Image of the operator as --image-refs has it.
    pub image: Option<String>,
    /// Says whose the DNS records are when the flag does not.
    pub txt_owner: String,
}

impl fmt::Debug for Inputs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Inputs")
    }
}

/// What is applied, in two parts with a wait between them.
#[derive(Clone, Debug, Default)]
pub struct Objects {
    pub definitions: Vec<Value>,
    pub resources: Vec<Value>,
    /// What others must have defined before: ours would be in the way of theirs, which are complete.
    pub expected: Vec<Value>,
}

impl Args {
    pub fn objects(&self, inputs: &Inputs) -> Result<Objects, Refused> {
        self.check()?;
        let (definitions, expected) = self.definitions();
        let definitions = definitions.into_iter().map(sorted).collect();
        let mut all = priorities();
        all.push(self.home());
        all.extend(self.access());
        all.extend(self.webhooks());
        all.extend(self.secrets(inputs));
        all.extend(self.bundles(inputs));
        all.extend(self.external_dns(inputs));
        all.extend(self.operator(inputs));
        all.extend(self.monitoring());
        all.extend(self.shared_ingress());
        Ok(Objects { definitions, resources: all.into_iter().map(sorted).collect(), expected })
    }

    pub(crate) fn is_aro(&self) -> bool {
        self.managed_service.as_deref() == Some("ARO-HCP")
    }

    fn home(&self) -> Value {
        let mut labels = json!({
            "hypershift.openshift.io/component": "operator",
            "hypershift.openshift.io/monitoring": "true",
        });
        if self.monitors() {
            labels["openshift.io/cluster-monitoring"] = json!("true");
        }
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": self.namespace, "labels": labels}})
    }

    fn secrets(&self, inputs: &Inputs) -> Vec<Value> {
        let secret = |name: &str, kind: &str, key: &str, data: &[u8]| {
            json!({"apiVersion": "v1", "kind": "Secret", "type": kind, "data": {key: STANDARD.encode(data)},
                "metadata": {"name": name, "namespace": self.namespace}})
        };
        let mut all = Vec::new();
        if let Some(data) = &inputs.pull_secret {
            all.push(secret("pull-secret", "kubernetes.io/dockerconfigjson", ".dockerconfigjson", data));
        }
        if let Some(data) = &inputs.azure_private_creds {
            all.push(secret(operator::AZURE_CREDENTIALS, "Opaque", &self.azure_private_secret_key, data));
        }
        if let Some(data) = &inputs.scale_from_zero_creds {
            all.push(secret(operator::SCALE_CREDENTIALS, "Opaque", &self.scale_from_zero_secret_key, data));
        }
        all
    }

    fn bundles(&self, inputs: &Inputs) -> Vec<Value> {
        let mut all = Vec::new();
        if let Some(bundle) = &inputs.trust_bundle {
            all.push(json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {BUNDLE: bundle},
                "metadata": {"name": USER_BUNDLE, "namespace": self.namespace}}));
        }
        // OpenShift fills it with what the management cluster trusts.
        all.push(json!({"apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": TRUSTED, "namespace": self.namespace,
                "labels": {"config.openshift.io/inject-trusted-cabundle": "true"}}}));
        all
    }

    /// One front for all clusters of the managed flavour.
    fn shared_ingress(&self) -> Vec<Value> {
        if !self.is_aro() {
            return Vec::new();
        }
        let (name, role) = (SHARED_INGRESS, SHARED_ROLE);
        vec![
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name,
                "labels": {"hypershift.openshift.io/component": "sharedingress"}}}),
            access::cluster_role(role, json!([])),
            access::cluster_binding(role, role, "router", name),
        ]
    }
}

fn priorities() -> Vec<Value> {
    let class = |(name, value, preempts): (&str, i32, bool)| {
        let mut out = json!({"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": name},
            "value": value, "globalDefault": false, "description": "Pods of hosted control planes"});
        if !preempts {
            out["preemptionPolicy"] = json!("Never");
        }
        out
    };
    PRIORITIES.into_iter().map(class).collect()
}
