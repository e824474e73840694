//! Admission: what is filled in and what is checked before an object is stored.

use super::access::OPERATOR;
use super::args::Args;
use serde_json::{Value, json};

const NAME: &str = "hypershift.openshift.io";

impl Args {
    fn webhook(&self, resource: &str, verb: &str, operations: &[&str]) -> Value {
        let kind = resource.trim_end_matches('s');
        json!({
            "name": format!("{resource}.{verb}.{NAME}"),
            "admissionReviewVersions": ["v1"],
            "sideEffects": "None",
            "failurePolicy": "Fail",
            "matchPolicy": "Equivalent",
            "timeoutSeconds": 15,
            "clientConfig": {"service": {"name": OPERATOR, "namespace": self.namespace, "port": 443,
                "path": format!("/{verb}-hypershift-openshift-io-v1beta1-{kind}")}},
            "rules": [{"apiGroups": [NAME], "apiVersions": ["v1beta1"], "operations": operations, "resources": [resource],
                "scope": "*"}],
        })
    }

    fn configuration(&self, kind: &str, webhooks: &[Value]) -> Value {
        json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": kind, "webhooks": webhooks,
            "metadata": {"name": NAME, "annotations": {"service.beta.openshift.io/inject-cabundle": "true"}}})
    }

    pub(super) fn webhooks(&self) -> Vec<Value> {
        let both = ["hostedclusters", "nodepools"];
        let mut all = Vec::new();
        if self.enable_defaulting_webhook {
            let hooks = both.map(|r| self.webhook(r, "mutate", &["CREATE"]));
            all.push(self.configuration("MutatingWebhookConfiguration", &hooks));
        }
        if self.enable_validating_webhook {
            let hooks = both.map(|r| self.webhook(r, "validate", &["CREATE", "UPDATE"]));
            all.push(self.configuration("ValidatingWebhookConfiguration", &hooks));
        }
        all
    }
}
