//! external-dns: publishes the names of clusters in a zone of the platform's.

use super::Inputs;
use super::access::{cluster_binding, cluster_role};
use super::args::Args;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

pub(super) const NAME: &str = "external-dns";
const CREDENTIALS: &str = "external-dns-credentials";

impl Args {
    pub(super) fn external_dns(&self, inputs: &Inputs) -> Vec<Value> {
        let (Some(provider), Some(domain)) = (&self.external_dns_provider, &self.external_dns_domain_filter)
        else {
            return Vec::new();
        };
        let home = self.namespace.as_str();
        let metadata = json!({"name": NAME, "namespace": home});
        let rules = json!([
            {"apiGroups": [""], "resources": ["endpoints", "services", "nodes", "pods"], "verbs": ["get", "list", "watch"]},
            {"apiGroups": ["discovery.k8s.io"], "resources": ["endpointslices"], "verbs": ["get", "list", "watch"]},
            {"apiGroups": ["route.openshift.io"], "resources": ["routes"], "verbs": ["get", "list", "watch"]},
        ]);
        let mut all = vec![
            json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata}),
            cluster_role(NAME, rules),
            cluster_binding(NAME, NAME, NAME, home),
        ];
        if let Some(data) = &inputs.external_dns_credentials {
            all.push(json!({"apiVersion": "v1", "kind": "Secret", "type": "Opaque", "data": {"credentials": STANDARD.encode(data)},
                "metadata": {"name": CREDENTIALS, "namespace": home}}));
        }
        let owner = self.external_dns_txt_owner_id.as_deref().unwrap_or(&inputs.txt_owner);
        let secret = self.external_dns_secret.as_deref().unwrap_or(CREDENTIALS);
        let args = json!([
            "--source=service",
            "--source=openshift-route",
            format!("--domain-filter={domain}"),
            format!("--provider={provider}"),
            "--registry=txt",
            "--txt-suffix=-external-dns",
            format!("--txt-owner-id={owner}"),
            "--label-filter=hypershift.openshift.io/route-visibility!=private",
            format!("--interval={}", self.external_dns_interval),
            "--txt-cache-interval=1h",
            "--azure-config-file=/etc/provider/credentials",
        ]);
        let labels = json!({"name": NAME, "app": NAME, "hypershift.openshift.io/operator-component": NAME});
        all.push(json!({
            "apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata,
            "spec": {
                "replicas": 1,
                "selector": {"matchLabels": {"name": NAME}},
                "strategy": {"type": "Recreate"},
                "template": {"metadata": {"labels": labels}, "spec": {
                    "serviceAccountName": NAME,
                    "priorityClassName": "hypershift-operator",
                    "containers": [{
                        "name": NAME,
                        "image": self.external_dns_image,
                        "imagePullPolicy": "IfNotPresent",
                        "command": ["/external-dns"],
                        "args": args,
                        "env": [{"name": "AZURE_SDK_MAX_RETRIES", "value": "5"}],
                        "ports": [{"name": "metrics", "containerPort": 7979, "protocol": "TCP"}],
                        "livenessProbe": {"httpGet": {"path": "/healthz", "port": 7979, "scheme": "HTTP"},
                            "initialDelaySeconds": 60, "periodSeconds": 60, "failureThreshold": 5, "timeoutSeconds": 5},
                        "resources": {"requests": {"cpu": "5m", "memory": "20Mi"}},
                        "securityContext": {"allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]}},
                        "volumeMounts": [{"name": "credentials", "mountPath": "/etc/provider", "readOnly": true}],
                    }],
                    "volumes": [{"name": "credentials", "secret": {"secretName": secret}}],
                }},
            },
        }));
        if self.monitors() {
            all.push(
                json!({"apiVersion": "monitoring.coreos.com/v1", "kind": "PodMonitor", "metadata": metadata,
                "spec": {"jobLabel": "component", "selector": {"matchLabels": {"name": NAME}},
                    "podMetricsEndpoints": [{"port": "metrics", "interval": "30s"}]}}),
            );
        }
        all
    }
}
