//! Rows as `kubectl get -o wide` would print them.

#![allow(clippy::unwrap_used, clippy::panic)] // A test that cannot go on should stop.

use ek_builtin::printers::{columns, row, row_conditions};
use serde_json::{Value, json};

fn now() -> jiff::Timestamp {
    "2026-01-01T01:00:00Z".parse().unwrap()
}

fn print(group: &str, plural: &str, mut obj: Value) -> String {
    if obj.get("metadata").is_none() {
        obj["metadata"] = json!({});
    }
    obj["metadata"]["name"] = json!("n");
    obj["metadata"]["creationTimestamp"] = json!("2026-01-01T00:00:00Z");
    let cells = row(group, plural, &obj, now()).unwrap();
    assert_eq!(cells.len(), columns(group, plural).unwrap().len());
    let text = |v: &Value| v.as_str().map_or_else(|| v.to_string(), str::to_owned);
    cells.iter().map(text).collect::<Vec<_>>().join(" | ")
}

fn status_of(pod: Value) -> String {
    let cells: Vec<String> = print("", "pods", pod).split(" | ").map(str::to_owned).collect();
    cells[1..4].join(" ")
}

#[test]
fn pods() {
    let spec = json!({"containers": [{"name": "a"}, {"name": "b"}], "initContainers": [{"name": "i"}]});
    let running = json!({"ready": true, "state": {"running": {}}});
    let cases = [
        (json!({"phase": "Pending"}), "0/2 Pending 0"),
        (json!({"phase": "Running", "containerStatuses": [running, running]}), "2/2 Running 0"),
        (
            json!({"phase": "Pending", "initContainerStatuses": [{"state": {"running": {}}}]}),
            "0/2 Init:0/1 0",
        ),
        (
            json!({"phase": "Pending", "initContainerStatuses": [
                {"restartCount": 2, "state": {"waiting": {"reason": "CrashLoopBackOff"}}}]}),
            "0/2 Init:CrashLoopBackOff 2",
        ),
        (
            json!({"phase": "Pending", "initContainerStatuses": [{"state": {"terminated": {"exitCode": 3}}}]}),
            "0/2 Init:ExitCode:3 0",
        ),
        (
            json!({"phase": "Running", "containerStatuses": [running, {
                "restartCount": 5, "state": {"waiting": {"reason": "CrashLoopBackOff"}},
                "lastState": {"terminated": {"finishedAt": "2026-01-01T00:55:00Z"}}}]}),
            "1/2 CrashLoopBackOff 5 (5m ago)",
        ),
        (
            json!({"phase": "Succeeded", "containerStatuses": [
                {"state": {"terminated": {"exitCode": 0, "reason": "Completed"}}}]}),
            "0/2 Completed 0",
        ),
        (json!({"phase": "Failed", "reason": "Evicted"}), "0/2 Evicted 0"),
        (
            json!({"phase": "Pending", "conditions": [{"type": "PodScheduled", "reason": "SchedulingGated"}]}),
            "0/2 SchedulingGated 0",
        ),
    ];
    for (status, want) in cases {
        assert_eq!(status_of(json!({"spec": spec, "status": status})), want, "{status}");
    }
    let going = json!({"metadata": {"deletionTimestamp": "x"}, "spec": spec, "status": {"phase": "Running"}});
    assert_eq!(status_of(going), "0/2 Terminating 0");
    let wide = json!({"spec": {"nodeName": "m", "readinessGates": [{"conditionType": "g"}]},
        "status": {"phase": "Running", "podIPs": [{"ip": "10.1.1.1"}]}});
    assert_eq!(print("", "pods", wide), "n | 0/0 | Running | 0 | 60m | 10.1.1.1 | m | <none> | 0/1");
}

#[test]
fn finished_pods_say_so() {
    let of = |phase: &str| row_conditions("", "pods", &json!({"status": {"phase": phase}}));
    assert_eq!(of("Running"), None);
    assert_eq!(of("Succeeded").unwrap()[0]["message"], "The pod has completed successfully.");
    assert_eq!(of("Failed").unwrap()[0]["reason"], "Failed");
}

#[test]
fn the_rest() {
    let template =
        json!({"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    let sel = json!({"matchLabels": {"a": "b"}});
    let cases: Vec<(&str, &str, Value, &str)> = vec![
        (
            "apps",
            "deployments",
            json!({"spec": {"replicas": 3, "selector": sel, "template": template},
                   "status": {"readyReplicas": 2, "updatedReplicas": 3, "availableReplicas": 1}}),
            "n | 2/3 | 3 | 1 | 60m | c | i | a=b",
        ),
        (
            "apps",
            "statefulsets",
            json!({"spec": {"replicas": 1, "template": template}}),
            "n | 0/1 | 60m | c | i",
        ),
        (
            "apps",
            "daemonsets",
            json!({"spec": {"selector": sel, "template": template}, "status": {"desiredNumberScheduled": 2}}),
            "n | 2 | 0 | 0 | 0 | 0 | <none> | 60m | c | i | a=b",
        ),
        (
            "batch",
            "jobs",
            json!({"spec": {"completions": 1, "selector": sel, "template": template},
                   "status": {"succeeded": 1, "startTime": "2026-01-01T00:00:00Z",
                              "completionTime": "2026-01-01T00:00:07Z",
                              "conditions": [{"type": "Complete", "status": "True"}]}}),
            "n | Complete | 1/1 | 7s | 60m | c | i | a=b",
        ),
        (
            "batch",
            "cronjobs",
            json!({"spec": {"schedule": "* * * * *", "suspend": false,
                            "jobTemplate": {"spec": {"template": template}}}}),
            "n | * * * * * | <none> | False | 0 | <none> | 60m | c | i | <none>",
        ),
        (
            "",
            "services",
            json!({"spec": {"type": "LoadBalancer", "clusterIP": "10.0.0.1", "selector": {"b": "2", "a": "1"},
                   "ports": [{"port": 80, "nodePort": 30080, "protocol": "TCP"}, {"port": 53, "protocol": "UDP"}]}}),
            "n | LoadBalancer | 10.0.0.1 | <pending> | 80:30080/TCP,53/UDP | 60m | a=1,b=2",
        ),
        (
            "",
            "endpoints",
            json!({"subsets": [{"addresses": [{"ip": "1.1.1.1"}, {"ip": "1.1.1.2"}],
                                "ports": [{"port": 1}, {"port": 2}]}]}),
            "n | 1.1.1.1:1,1.1.1.2:1,1.1.1.1:2 + 1 more... | 60m",
        ),
        (
            "",
            "nodes",
            json!({"metadata": {"labels": {"node-role.kubernetes.io/control-plane": ""}},
                   "spec": {"unschedulable": true},
                   "status": {"conditions": [{"type": "Ready", "status": "True"}],
                              "addresses": [{"type": "InternalIP", "address": "10.0.0.9"}],
                              "nodeInfo": {"kubeletVersion": "v1.34.0"}}}),
            "n | Ready,SchedulingDisabled | control-plane | 60m | v1.34.0 | 10.0.0.9 | <none> | <unknown> | <unknown> | <unknown>",
        ),
        (
            "",
            "events",
            json!({"involvedObject": {"kind": "Pod", "name": "p", "fieldPath": "spec"}, "type": "Normal",
                   "reason": "Started", "message": " hi ", "count": 3, "source": {"component": "kubelet", "host": "h"},
                   "firstTimestamp": "2026-01-01T00:00:00Z", "lastTimestamp": "2026-01-01T00:59:00Z"}),
            "60s | Normal | Started | pod/p | spec | kubelet, h | hi | 60m | 3 | n",
        ),
        (
            "events.k8s.io",
            "events",
            json!({"regarding": {"kind": "Pod", "name": "p"}, "note": "hi", "reportingController": "c",
                   "eventTime": "2026-01-01T00:59:30.000000Z", "type": "Warning", "reason": "R"}),
            "30s | Warning | R | pod/p |  | c | hi | 30s | 1 | n",
        ),
        (
            "",
            "persistentvolumeclaims",
            json!({"spec": {"volumeName": "v", "storageClassName": "fast", "volumeMode": "Filesystem"},
                   "status": {"phase": "Bound", "capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"]}}),
            "n | Bound | v | 1Gi | RWO | fast | <unset> | 60m | Filesystem",
        ),
        (
            "autoscaling",
            "horizontalpodautoscalers",
            json!({"apiVersion": "autoscaling/v2", "spec": {"scaleTargetRef": {"kind": "Deployment", "name": "d"},
                   "minReplicas": 1, "maxReplicas": 5, "metrics": [{"type": "Resource", "resource":
                   {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 80}}}]}}),
            "n | Deployment/d | cpu: <unknown>/80% | 1 | 5 | 0 | 60m",
        ),
        (
            "rbac.authorization.k8s.io",
            "rolebindings",
            json!({"roleRef": {"kind": "Role", "name": "r"}, "subjects": [
                {"kind": "ServiceAccount", "namespace": "x", "name": "y"}, {"kind": "User", "name": "u"}]}),
            "n | Role/r | 60m | u |  | x/y",
        ),
        (
            "certificates.k8s.io",
            "certificatesigningrequests",
            json!({"spec": {"signerName": "a.b/c", "username": "u", "expirationSeconds": 600},
                   "status": {"conditions": [{"type": "Approved"}], "certificate": "x"}}),
            "n | 60m | a.b/c | u | 10m | Approved,Issued",
        ),
        (
            "",
            "resourcequotas",
            json!({"status": {"hard": {"pods": "5", "limits.cpu": "2"}, "used": {"pods": "1"}}}),
            "n | pods: 1/5 | limits.cpu: 0/2 | 60m",
        ),
        (
            "storage.k8s.io",
            "storageclasses",
            json!({"metadata": {"annotations": {"storageclass.kubernetes.io/is-default-class": "true"}},
                   "provisioner": "p", "reclaimPolicy": "Delete", "volumeBindingMode": "Immediate"}),
            "n (default) | p | Delete | Immediate | false | 60m",
        ),
        ("apiextensions.k8s.io", "customresourcedefinitions", json!({}), "n | 2026-01-01T00:00:00Z"),
        ("", "configmaps", json!({"data": {"a": ""}, "binaryData": {"b": ""}}), "n | 2 | 60m"),
    ];
    for (group, plural, obj, want) in cases {
        assert_eq!(print(group, plural, obj), want, "{group}/{plural}");
    }
}
