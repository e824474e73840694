//! There and back again.

#![allow(clippy::unwrap_used, clippy::panic)] // A test that cannot go on should stop.

use ek_builtin::convert::{convert, is_rename_only};
use serde_json::json;

#[test]
fn events() {
    let core = json!({
        "apiVersion": "v1", "kind": "Event", "metadata": {"name": "e"},
        "reason": "R", "involvedObject": {"kind": "Pod"}, "message": "m", "source": {"component": "c"},
        "firstTimestamp": "a", "lastTimestamp": "b", "count": 2, "reportingComponent": "rc",
    });
    let mut new = core.clone();
    convert(&mut new, "events.k8s.io/v1");
    assert_eq!(
        new,
        json!({
            "apiVersion": "events.k8s.io/v1", "kind": "Event", "metadata": {"name": "e"},
            "reason": "R", "regarding": {"kind": "Pod"}, "note": "m", "deprecatedSource": {"component": "c"},
            "deprecatedFirstTimestamp": "a", "deprecatedLastTimestamp": "b", "deprecatedCount": 2,
            "reportingController": "rc",
        })
    );
    convert(&mut new, "v1");
    assert_eq!(new, core);
}

#[test]
fn autoscalers() {
    let cpu = json!({"type": "Resource", "resource":
        {"name": "cpu", "target": {"averageUtilization": 50, "type": "Utilization"}}});
    let pods = json!({"type": "Pods", "pods": {"metric": {"name": "rps"},
        "target": {"averageValue": "10", "type": "AverageValue"}}});
    let external = json!({"type": "External", "external": {"metric": {"name": "q", "selector": {"matchLabels": {"a": "b"}}},
        "target": {"value": "30", "type": "Value"}}});
    let on = json!({"type": "Object", "object": {"describedObject": {"kind": "Ingress", "name": "i"},
        "metric": {"name": "hits"}, "target": {"value": "1k", "type": "Value"}}});
    let v2 = json!({
        "apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler", "metadata": {"name": "h"},
        "spec": {"minReplicas": 1, "maxReplicas": 3, "metrics": [cpu, pods, external, on],
                 "behavior": {"scaleUp": {"stabilizationWindowSeconds": 0, "selectPolicy": "Max",
                     "policies": [{"type": "Pods", "value": 4, "periodSeconds": 15}]},
                  "scaleDown": {"selectPolicy": "Max",
                     "policies": [{"type": "Percent", "value": 100, "periodSeconds": 15}]}}},
        "status": {"currentReplicas": 1,
            "currentMetrics": [{"type": "Resource", "resource": {"name": "cpu", "current": {"averageUtilization": 7}}}],
            "conditions": [{"type": "AbleToScale", "status": "True"}]},
    });
    let mut obj = v2.clone();
    convert(&mut obj, "autoscaling/v1");
    assert_eq!(obj["spec"]["targetCPUUtilizationPercentage"], 50);
    assert_eq!(obj["spec"].get("metrics"), None);
    assert_eq!(obj["status"]["currentCPUUtilizationPercentage"], 7);
    let annotation = |k: &str| {
        obj["metadata"]["annotations"][format!("autoscaling.alpha.kubernetes.io/{k}")].as_str().unwrap()
    };
    assert!(
        annotation("metrics")
            .starts_with(r#"[{"type":"Pods","pods":{"targetAverageValue":"10","metricName":"rps"}}"#)
    );
    assert!(annotation("behavior").starts_with(r#"{"ScaleUp":{"StabilizationWindowSeconds":0"#));
    convert(&mut obj, "autoscaling/v2");
    assert_eq!(obj, v2);
}

#[test]
fn an_old_autoscaler_gets_the_default_metric() {
    let mut obj = json!({"apiVersion": "autoscaling/v1", "kind": "HorizontalPodAutoscaler", "spec": {"maxReplicas": 2}});
    convert(&mut obj, "autoscaling/v2");
    assert_eq!(obj["spec"]["metrics"][0]["resource"]["target"]["averageUtilization"], 80);
}

#[test]
fn most_kinds_are_only_renamed() {
    assert!(is_rename_only("apps/v1", "apps/v1"));
    assert!(is_rename_only("apps/v1", "apps/v1beta1"));
    assert!(!is_rename_only("v1", "events.k8s.io/v1"));
    assert!(!is_rename_only("autoscaling/v2", "autoscaling/v1"));
    let mut obj = json!({"apiVersion": "apps/v1beta1", "kind": "Deployment"});
    convert(&mut obj, "apps/v1");
    assert_eq!(obj, json!({"apiVersion": "apps/v1", "kind": "Deployment"}));
}
