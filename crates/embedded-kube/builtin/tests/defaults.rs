//! Minimal manifests, and what they come out as.

#![allow(clippy::unwrap_used, clippy::panic)] // A test that cannot go on should stop.

use ek_builtin::{bootstrap, defaults, prepare, validate};
use serde_json::{Value, json};

fn filled(group: &str, plural: &str, mut obj: Value) -> Value {
    defaults::default(group, plural, &mut obj);
    obj
}

fn created(group: &str, plural: &str, obj: Value) -> Value {
    let mut obj = filled(group, plural, obj);
    prepare::prepare(group, plural, &mut obj, None);
    obj
}

fn pod_spec() -> Value {
    json!({
        "containers": [{
            "name": "c", "image": "nginx", "resources": {},
            "terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File",
            "imagePullPolicy": "Always",
        }],
        "restartPolicy": "Always", "terminationGracePeriodSeconds": 30, "dnsPolicy": "ClusterFirst",
        "securityContext": {}, "schedulerName": "default-scheduler",
    })
}

fn template() -> Value {
    json!({"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "nginx"}]}})
}

fn full_template() -> Value {
    json!({"metadata": {"labels": {"a": "b"}}, "spec": pod_spec()})
}

#[test]
fn deployment() {
    let got = filled("apps", "deployments", json!({"spec": {"template": template()}}));
    assert_eq!(
        got,
        json!({"spec": {
            "template": full_template(),
            "replicas": 1, "revisionHistoryLimit": 10, "progressDeadlineSeconds": 600,
            "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": "25%", "maxSurge": "25%"}},
        }})
    );
    let recreate = json!({"spec": {"replicas": 0, "strategy": {"type": "Recreate"}, "template": template()}});
    let got = filled("apps", "deployments", recreate);
    assert_eq!(got["spec"]["strategy"], json!({"type": "Recreate"}));
    assert_eq!(got["spec"]["replicas"], 0);
}

#[test]
fn workloads() {
    let got = filled(
        "apps",
        "statefulsets",
        json!({"spec": {"template": template(), "volumeClaimTemplates": [
            {"metadata": {"name": "d"}, "spec": {"resources": {"requests": {"storage": "1024Mi"}}}}]}}),
    );
    assert_eq!(
        got,
        json!({"spec": {
            "template": full_template(),
            "volumeClaimTemplates": [{
                "metadata": {"name": "d"}, "apiVersion": "v1", "kind": "PersistentVolumeClaim",
                "spec": {"resources": {"requests": {"storage": "1Gi"}}, "volumeMode": "Filesystem"},
                "status": {"phase": "Pending"},
            }],
            "podManagementPolicy": "OrderedReady", "replicas": 1, "revisionHistoryLimit": 10,
            "persistentVolumeClaimRetentionPolicy": {"whenDeleted": "Retain", "whenScaled": "Retain"},
            "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": 0}},
        }})
    );
    let got = filled("apps", "daemonsets", json!({"spec": {"template": template()}}));
    assert_eq!(got["spec"]["updateStrategy"]["rollingUpdate"], json!({"maxUnavailable": 1, "maxSurge": 0}));
    let got = filled("", "replicationcontrollers", json!({"spec": {"template": template()}}));
    assert_eq!(got["spec"]["selector"], json!({"a": "b"}));
    assert_eq!(got["metadata"]["labels"], json!({"a": "b"}));
}

#[test]
fn pod() {
    let got = created(
        "",
        "pods",
        json!({"spec": {
            "hostNetwork": true,
            "serviceAccountName": "sa",
            "containers": [{
                "name": "c", "image": "r:5000/x:v1",
                "ports": [{"containerPort": 80}],
                "resources": {"limits": {"cpu": 0.5, "memory": "1Gi"}},
                "livenessProbe": {"httpGet": {"port": 80}, "periodSeconds": 0},
                "env": [{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}],
            }],
            "volumes": [
                {"name": "e"},
                {"name": "s", "secret": {"secretName": "s"}},
                {"name": "h", "hostPath": {"path": "/"}},
                {"name": "p", "projected": {"sources": [{"serviceAccountToken": {"path": "t"}}]}},
            ],
        }, "status": {"phase": "Running"}}),
    );
    assert_eq!(
        got,
        json!({"spec": {
            "hostNetwork": true,
            "serviceAccountName": "sa", "serviceAccount": "sa",
            "containers": [{
                "name": "c", "image": "r:5000/x:v1",
                "ports": [{"containerPort": 80, "protocol": "TCP", "hostPort": 80}],
                "resources": {"limits": {"cpu": "500m", "memory": "1Gi"},
                              "requests": {"cpu": "500m", "memory": "1Gi"}},
                "livenessProbe": {"httpGet": {"port": 80, "path": "/", "scheme": "HTTP"}, "periodSeconds": 10,
                                  "timeoutSeconds": 1, "successThreshold": 1, "failureThreshold": 3},
                "env": [{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name", "apiVersion": "v1"}}}],
                "terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File",
                "imagePullPolicy": "IfNotPresent",
            }],
            "volumes": [
                {"name": "e", "emptyDir": {}},
                {"name": "s", "secret": {"secretName": "s", "defaultMode": 420}},
                {"name": "h", "hostPath": {"path": "/", "type": ""}},
                {"name": "p", "projected": {"defaultMode": 420,
                    "sources": [{"serviceAccountToken": {"path": "t", "expirationSeconds": 3600}}]}},
            ],
            "restartPolicy": "Always", "terminationGracePeriodSeconds": 30, "dnsPolicy": "ClusterFirst",
            "securityContext": {}, "schedulerName": "default-scheduler", "enableServiceLinks": true,
        }, "status": {"phase": "Pending", "qosClass": "Guaranteed"}})
    );
}

#[test]
fn pull_policy_follows_the_tag() {
    for (image, want) in [
        ("nginx", "Always"),
        ("nginx:latest", "Always"),
        ("nginx:1", "IfNotPresent"),
        ("host:5000/nginx", "Always"),
        ("nginx@sha256:abc", "IfNotPresent"),
        ("nginx:latest@sha256:abc", "Always"),
        ("", "IfNotPresent"),
    ] {
        let pod = filled("", "pods", json!({"spec": {"containers": [{"name": "c", "image": image}]}}));
        assert_eq!(pod["spec"]["containers"][0]["imagePullPolicy"], want, "{image}");
    }
}

#[test]
fn quality_of_service() {
    for (resources, want) in [
        (json!({}), "BestEffort"),
        (json!({"requests": {"cpu": "1"}}), "Burstable"),
        (json!({"limits": {"cpu": "1"}}), "Burstable"),
        (json!({"limits": {"cpu": "1", "memory": "1Gi"}}), "Guaranteed"),
        (json!({"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "500m"}}), "Burstable"),
    ] {
        let pod = json!({"spec": {"containers": [{"name": "c", "image": "i", "resources": resources}]}});
        assert_eq!(created("", "pods", pod)["status"]["qosClass"], want, "{resources}");
    }
}

#[test]
fn job() {
    let got = created(
        "batch",
        "jobs",
        json!({"metadata": {"name": "j", "uid": "u"}, "spec": {"template": {"spec": {"containers": []}}}}),
    );
    let labels = json!({
        "controller-uid": "u", "batch.kubernetes.io/controller-uid": "u",
        "job-name": "j", "batch.kubernetes.io/job-name": "j",
    });
    assert_eq!(got["spec"]["template"]["metadata"]["labels"], labels);
    assert_eq!(got["spec"]["selector"], json!({"matchLabels": {"batch.kubernetes.io/controller-uid": "u"}}));
    for (k, v) in [("completions", json!(1)), ("parallelism", json!(1)), ("backoffLimit", json!(6))] {
        assert_eq!(got["spec"][k], v, "{k}");
    }
    assert_eq!(got["spec"]["completionMode"], "NonIndexed");
    assert_eq!(got["spec"]["podReplacementPolicy"], "TerminatingOrFailed");
    assert_eq!(got["status"], json!({}));
}

#[test]
fn services() {
    let svc = json!({"spec": {"clusterIP": "10.0.0.1", "ports": [{"port": 80}]}});
    assert_eq!(
        created("", "services", svc),
        json!({"spec": {
            "clusterIP": "10.0.0.1",
            "ports": [{"port": 80, "protocol": "TCP", "targetPort": 80}],
            "sessionAffinity": "None", "type": "ClusterIP", "internalTrafficPolicy": "Cluster",
            "clusterIPs": ["10.0.0.1"], "ipFamilyPolicy": "SingleStack", "ipFamilies": ["IPv4"],
        }, "status": {"loadBalancer": {}}})
    );
    let lb = filled("", "services", json!({"spec": {"type": "LoadBalancer", "sessionAffinity": "ClientIP"}}));
    assert_eq!(lb["spec"]["externalTrafficPolicy"], "Cluster");
    assert_eq!(lb["spec"]["allocateLoadBalancerNodePorts"], true);
    assert_eq!(lb["spec"]["sessionAffinityConfig"]["clientIP"]["timeoutSeconds"], 10800);
    let headless = created("", "services", json!({"spec": {"clusterIP": "None"}}));
    assert_eq!(headless["spec"]["ipFamilies"], json!(["IPv4", "IPv6"]));
    assert_eq!(headless["spec"]["ipFamilyPolicy"], "RequireDualStack");
}

#[test]
fn a_service_keeps_what_was_allocated() {
    let old = json!({"spec": {
        "type": "NodePort", "clusterIP": "10.0.0.1", "clusterIPs": ["10.0.0.1"],
        "ports": [{"port": 80, "protocol": "TCP", "nodePort": 30001}],
    }});
    let mut new = filled("", "services", json!({"spec": {"type": "NodePort", "ports": [{"port": 80}]}}));
    prepare::prepare("", "services", &mut new, Some(&old));
    assert_eq!(new["spec"]["clusterIP"], "10.0.0.1");
    assert_eq!(new["spec"]["ports"][0]["nodePort"], 30001);
    let mut down = old.clone();
    down["spec"]["type"] = json!("ClusterIP");
    prepare::prepare("", "services", &mut down, Some(&old));
    assert_eq!(down["spec"]["ports"][0].get("nodePort"), None);
    let mut name = old.clone();
    name["spec"]["type"] = json!("ExternalName");
    prepare::prepare("", "services", &mut name, Some(&old));
    assert_eq!(name["spec"].get("clusterIP"), None);
}

#[test]
fn the_rest() {
    let cases = [
        ("", "secrets", json!({}), json!({"type": "Opaque"})),
        (
            "",
            "namespaces",
            json!({"metadata": {"name": "n"}}),
            json!({"metadata": {"name": "n", "labels": {"kubernetes.io/metadata.name": "n"}}}),
        ),
        (
            "storage.k8s.io",
            "storageclasses",
            json!({}),
            json!({"reclaimPolicy": "Delete", "volumeBindingMode": "Immediate"}),
        ),
        (
            "networking.k8s.io",
            "networkpolicies",
            json!({"spec": {"podSelector": {}, "egress": [{"ports": [{"port": 1}]}]}}),
            json!({"spec": {"podSelector": {}, "egress": [{"ports": [{"port": 1, "protocol": "TCP"}]}],
                            "policyTypes": ["Ingress", "Egress"]}}),
        ),
        (
            "rbac.authorization.k8s.io",
            "rolebindings",
            json!({"roleRef": {"kind": "Role", "name": "r"}, "subjects": [{"kind": "User", "name": "u"},
                   {"kind": "ServiceAccount", "name": "s"}]}),
            json!({"roleRef": {"kind": "Role", "name": "r", "apiGroup": "rbac.authorization.k8s.io"},
                   "subjects": [{"kind": "User", "name": "u", "apiGroup": "rbac.authorization.k8s.io"},
                   {"kind": "ServiceAccount", "name": "s"}]}),
        ),
        (
            "admissionregistration.k8s.io",
            "mutatingwebhookconfigurations",
            json!({"webhooks": [{"name": "a.b.c", "clientConfig": {"service": {"name": "s"}}, "rules": [{}]}]}),
            json!({"webhooks": [{"name": "a.b.c", "clientConfig": {"service": {"name": "s", "port": 443}},
                "rules": [{"scope": "*"}], "failurePolicy": "Fail", "matchPolicy": "Equivalent",
                "namespaceSelector": {}, "objectSelector": {}, "timeoutSeconds": 10,
                "reinvocationPolicy": "Never"}]}),
        ),
        (
            "",
            "limitranges",
            json!({"spec": {"limits": [{"type": "Container", "max": {"cpu": "1"}, "min": {"memory": "1Mi"}}]}}),
            json!({"spec": {"limits": [{"type": "Container", "max": {"cpu": "1"}, "min": {"memory": "1Mi"},
                "default": {"cpu": "1"}, "defaultRequest": {"cpu": "1", "memory": "1Mi"}}]}}),
        ),
        (
            "autoscaling",
            "horizontalpodautoscalers",
            json!({"spec": {"maxReplicas": 2}}),
            json!({"spec": {"maxReplicas": 2, "minReplicas": 1, "metrics": [{"type": "Resource", "resource":
                {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 80}}}]}}),
        ),
        (
            "scheduling.k8s.io",
            "priorityclasses",
            json!({"value": 1, "description": null}),
            json!({"value": 1, "preemptionPolicy": "PreemptLowerPriority"}),
        ),
    ];
    for (group, plural, input, want) in cases {
        assert_eq!(filled(group, plural, input), want, "{group}/{plural}");
    }
}

#[test]
fn secret_text_becomes_data() {
    let secret = json!({"stringData": {"a": "x"}, "data": {"a": "old", "b": "Yg=="}});
    let filled = filled("", "secrets", secret);
    assert_eq!(filled, json!({"data": {"a": "eA==", "b": "Yg=="}, "type": "Opaque"}));
}

#[test]
fn a_namespace_starts_active_and_held() {
    let got =
        created("", "namespaces", json!({"metadata": {"name": "n"}, "status": {"phase": "Terminating"}}));
    assert_eq!(got["spec"]["finalizers"], json!(["kubernetes"]));
    assert_eq!(got["status"], json!({"phase": "Active"}));
}

#[test]
fn bootstrap_objects_are_valid() {
    let all = bootstrap::objects();
    assert_eq!(all.len(), 4 + 1 + 2 + 8 + 13);
    for o in all {
        let api_version = o["apiVersion"].as_str().unwrap();
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        let r = ek_data::resources::resource_of_kind(group, version, o["kind"].as_str().unwrap()).unwrap();
        let o = created(r.group, r.plural, o);
        let errors = validate::validate(r.group, r.plural, &o, None, "");
        assert!(errors.is_empty(), "{o}: {}", errors[0]);
    }
}
