//! What the platform's Prometheus is told.

use super::access::{OPERATOR, role_with_binding};
use super::args::Args;
use serde_json::{Value, json};

impl Args {
    pub(super) fn monitoring(&self) -> Vec<Value> {
        if !self.monitors() {
            return Vec::new();
        }
        let home = self.namespace.as_str();
        let rules = json!([{"apiGroups": [""], "resources": ["services", "endpoints", "pods"], "verbs": ["get", "list", "watch"]}]);
        let subject = json!([{"kind": "ServiceAccount", "name": "prometheus-k8s", "namespace": "openshift-monitoring"}]);
        let mut all: Vec<Value> = role_with_binding(home, "prometheus", rules, subject).into();
        all.push(json!({"apiVersion": "monitoring.coreos.com/v1", "kind": "ServiceMonitor",
            "metadata": {"name": OPERATOR, "namespace": home},
            "spec": {"jobLabel": "component", "selector": {"matchLabels": {"name": OPERATOR}},
                "endpoints": [{"port": "metrics", "interval": "30s"}]}}));
        let count = |expression: &str, record: &str| json!({"expr": expression, "record": record});
        let mut groups = vec![json!({"name": "hypershift.rules", "rules": [
            count("max by (platform) (hypershift_hostedclusters)", "platform:hypershift_hostedclusters:max"),
            count(
                "max by (condition) (hypershift_hostedclusters_failure_conditions)",
                "condition:hypershift_hostedclusters_failure_conditions:max",
            ),
        ]})];
        if self.slos_alerts {
            groups.push(json!({"name": "hypershift.alerts", "rules": [{
                "alert": "HostedClusterUnavailable",
                "expr": "hypershift_hostedclusters_failure_conditions{condition=\"Available\"} > 0",
                "for": "15m",
                "labels": {"severity": "critical"},
                "annotations": {"summary": "A hosted cluster's API has not answered for 15 minutes",
                    "description": "kubectl get hostedclusters -A says which, zaffre explain hostedcluster why."},
            }]}));
        }
        all.push(json!({"apiVersion": "monitoring.coreos.com/v1", "kind": "PrometheusRule",
            "metadata": {"name": "metrics", "namespace": home}, "spec": {"groups": groups}}));
        all
    }
}
