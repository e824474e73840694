//! What the API server asks the operator before it stores something, if that is wanted.

use super::access::{OPERATOR, READ, rule};
use super::args::Args;
use serde_json::{Value, json};

/// What both configurations are called. They carry the group's name, as upstream's do: there is one operator in a cluster.
const NAME: &str = "hypershift.openshift.io";
/// Where the operator listens; its Service has it at 443.
pub(super) const PORT: u16 = 9443;
const KINDS: [&str; 2] = ["hostedcluster", "nodepool"];

/// The operator writes its own authority into them.
pub(super) fn rules() -> [Value; 2] {
    let group = &["admissionregistration.k8s.io"];
    let kinds = &["mutatingwebhookconfigurations", "validatingwebhookconfigurations"];
    let mut patch = rule(group, kinds, &["patch"]);
    patch["resourceNames"] = json!([NAME]);
    [rule(group, kinds, READ), patch]
}

impl Args {
    pub(super) fn has_webhooks(&self) -> bool {
        self.enable_defaulting_webhook || self.enable_validating_webhook
    }

    pub(super) fn webhooks(&self) -> Vec<Value> {
        let mut all = Vec::new();
        if self.enable_defaulting_webhook {
            all.push(self.configuration("MutatingWebhookConfiguration", "mutate", &["CREATE"]));
        }
        if self.enable_validating_webhook {
            all.push(self.configuration("ValidatingWebhookConfiguration", "validate", &["CREATE", "UPDATE"]));
        }
        all
    }

    fn configuration(&self, kind: &str, verb: &str, operations: &[&str]) -> Value {
        let hook = |one: &str| {
            let path = format!("/{verb}-hypershift-openshift-io-v1beta1-{one}");
            json!({
                "name": format!("{one}s.{NAME}"),
                "admissionReviewVersions": ["v1"],
                "sideEffects": "None",
                "failurePolicy": "Fail",
                "timeoutSeconds": 15,
                "rules": [{"apiGroups": [NAME], "apiVersions": ["v1beta1"], "operations": operations,
                    "resources": [format!("{one}s")], "scope": "Namespaced"}],
                "clientConfig": {"service": {"namespace": self.namespace, "name": OPERATOR, "port": 443, "path": path}},
            })
        };
        json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": kind, "metadata": {"name": NAME},
            "webhooks": KINDS.map(hook)})
    }
}
