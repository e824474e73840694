//! Texts that people and tools match on.

#![allow(clippy::unwrap_used, clippy::panic)] // A test that cannot go on should stop.

use ek_builtin::{defaults, prepare, validate};
use serde_json::{Value, json};

fn errors(group: &str, plural: &str, mut obj: Value) -> Vec<String> {
    defaults::default(group, plural, &mut obj);
    prepare::prepare(group, plural, &mut obj, None);
    validate::validate(group, plural, &obj, None, "").iter().map(ToString::to_string).collect()
}

/// Errors of changing a valid object.
fn update(group: &str, plural: &str, mut old: Value, change: impl Fn(&mut Value)) -> Vec<String> {
    defaults::default(group, plural, &mut old);
    prepare::prepare(group, plural, &mut old, None);
    assert_eq!(errors(group, plural, old.clone()), [""; 0], "{group}/{plural} to begin with");
    let mut new = old.clone();
    change(&mut new);
    defaults::default(group, plural, &mut new);
    prepare::prepare(group, plural, &mut new, Some(&old));
    validate::validate(group, plural, &new, Some(&old), "").iter().map(ToString::to_string).collect()
}

fn set(path: &'static str, v: Value) -> impl Fn(&mut Value) {
    move |o| {
        let (parent, last) = path.rsplit_once('/').unwrap();
        o.pointer_mut(parent).unwrap_or_else(|| panic!("{path}"))[last] = v.clone();
    }
}

fn with(mut o: Value, path: &'static str, v: Value) -> Value {
    set(path, v)(&mut o);
    o
}

fn deployment() -> Value {
    json!({"metadata": {"name": "d"}, "spec": {
        "selector": {"matchLabels": {"a": "b"}},
        "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}},
    }})
}

fn pod() -> Value {
    json!({"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}})
}

fn service() -> Value {
    json!({"metadata": {"name": "s"}, "spec": {"clusterIP": "10.0.0.1", "ports": [{"port": 80}]}})
}

fn claim() -> Value {
    json!({"spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}})
}

fn job() -> Value {
    json!({"metadata": {"name": "j", "uid": "u"}, "spec": {
        "template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}}})
}

fn webhook() -> Value {
    json!({"webhooks": [{"name": "a.b.c", "sideEffects": "None", "admissionReviewVersions": ["v1"],
        "clientConfig": {"url": "https://x"},
        "rules": [{"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"]}]}]})
}

#[test]
fn creating() {
    let rbac = "rbac.authorization.k8s.io";
    let cases: Vec<(&str, &str, Value, &str)> = vec![
        (
            "apps",
            "deployments",
            with(deployment(), "/spec/template/metadata/labels", json!({"a": "c"})),
            "spec.template.metadata.labels: Invalid value: {\"a\":\"c\"}: `selector` does not match template `labels`",
        ),
        (
            "apps",
            "deployments",
            with(deployment(), "/spec/template/spec/restartPolicy", json!("Never")),
            "spec.template.spec.restartPolicy: Unsupported value: \"Never\": supported values: \"Always\"",
        ),
        (
            "apps",
            "deployments",
            with(deployment(), "/spec/replicas", json!(-1)),
            "spec.replicas: Invalid value: -1: must be greater than or equal to 0",
        ),
        (
            "apps",
            "deployments",
            with(
                deployment(),
                "/spec/strategy",
                json!({"rollingUpdate": {"maxSurge": 0, "maxUnavailable": 0}}),
            ),
            "spec.strategy.rollingUpdate.maxUnavailable: Invalid value: 0: may not be 0 when `maxSurge` is 0",
        ),
        ("", "pods", with(pod(), "/spec/containers", json!([])), "spec.containers: Required value"),
        (
            "",
            "pods",
            with(pod(), "/spec/containers", json!([{"name": "c"}])),
            "spec.containers[0].image: Required value",
        ),
        (
            "",
            "pods",
            with(pod(), "/spec/containers/0/volumeMounts", json!([{"name": "x", "mountPath": "/x"}])),
            "spec.containers[0].volumeMounts[0].name: Not found: \"x\"",
        ),
        (
            "",
            "pods",
            with(pod(), "/spec/initContainers", json!([{"name": "c", "image": "i"}])),
            "spec.initContainers[0].name: Duplicate value: \"c\"",
        ),
        (
            "",
            "pods",
            with(pod(), "/spec/containers/0/ports", json!([{"containerPort": 70000}])),
            "spec.containers[0].ports[0].containerPort: Invalid value: 70000: must be between 1 and 65535, inclusive",
        ),
        (
            "",
            "pods",
            with(pod(), "/spec/containers/0/livenessProbe", json!({})),
            "spec.containers[0].livenessProbe: Required value: must specify a handler type",
        ),
        (
            "",
            "pods",
            with(
                pod(),
                "/spec/containers/0/resources",
                json!({"requests": {"cpu": "2"}, "limits": {"cpu": "1"}}),
            ),
            "spec.containers[0].resources.requests: Invalid value: \"2\": must be less than or equal to cpu limit of 1",
        ),
        ("", "services", with(service(), "/spec/ports", json!([])), "spec.ports: Required value"),
        (
            "",
            "services",
            with(service(), "/spec/ports", json!([{"port": 1, "name": "a"}, {"port": 2}])),
            "spec.ports[1].name: Required value",
        ),
        (
            "",
            "services",
            with(service(), "/spec/type", json!("X")),
            "spec.type: Unsupported value: \"X\": supported values: \"ClusterIP\", \"ExternalName\", \"LoadBalancer\", \"NodePort\"",
        ),
        (
            "",
            "secrets",
            json!({"type": "kubernetes.io/tls", "data": {"tls.crt": ""}}),
            "data[tls.key]: Required value",
        ),
        ("", "secrets", json!({"type": "kubernetes.io/ssh-auth"}), "data[ssh-privatekey]: Required value"),
        (
            "",
            "persistentvolumeclaims",
            with(claim(), "/spec/accessModes", json!([])),
            "spec.accessModes: Required value: at least 1 access mode is required",
        ),
        (
            "",
            "persistentvolumeclaims",
            with(claim(), "/spec/resources", json!({})),
            "spec.resources[storage]: Required value",
        ),
        (
            "batch",
            "jobs",
            with(job(), "/spec/template/spec/restartPolicy", json!("Always")),
            "spec.template.spec.restartPolicy: Required value: valid values: \"OnFailure\", \"Never\"",
        ),
        (
            "batch",
            "jobs",
            with(job(), "/spec/backoffLimit", json!(-1)),
            "spec.backoffLimit: Invalid value: -1: must be greater than or equal to 0",
        ),
        (
            "autoscaling",
            "horizontalpodautoscalers",
            json!({"spec": {"maxReplicas": 1, "minReplicas": 2, "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "D", "name": "d"}}}),
            "spec.maxReplicas: Invalid value: 1: must be greater than or equal to `minReplicas`",
        ),
        (
            "policy",
            "poddisruptionbudgets",
            json!({"spec": {"minAvailable": 1, "maxUnavailable": 1}}),
            "spec: Invalid value: {\"MinAvailable\":1,\"Selector\":null,\"MaxUnavailable\":1,\"UnhealthyPodEvictionPolicy\":null}: minAvailable and maxUnavailable cannot be both set",
        ),
        (
            rbac,
            "roles",
            json!({"rules": [{"apiGroups": [""], "resources": ["pods"]}]}),
            "rules[0].verbs: Required value: verbs must contain at least one value",
        ),
        (
            rbac,
            "roles",
            json!({"rules": [{"verbs": ["get"], "nonResourceURLs": ["/x"]}]}),
            "rules[0].nonResourceURLs: Invalid value: [\"/x\"]: namespaced rules cannot apply to non-resource URLs",
        ),
        (
            rbac,
            "clusterrolebindings",
            json!({"roleRef": {"kind": "Role", "name": "r"}}),
            "roleRef.kind: Unsupported value: \"Role\": supported values: \"ClusterRole\"",
        ),
        (
            "coordination.k8s.io",
            "leases",
            json!({"spec": {"leaseDurationSeconds": 0}}),
            "spec.leaseDurationSeconds: Invalid value: 0: must be greater than 0",
        ),
        (
            "admissionregistration.k8s.io",
            "validatingwebhookconfigurations",
            with(webhook(), "/webhooks/0/name", json!("a.b")),
            "webhooks[0].name: Invalid value: \"a.b\": should be a domain with at least three segments separated by dots",
        ),
        (
            "admissionregistration.k8s.io",
            "validatingwebhookconfigurations",
            with(webhook(), "/webhooks/0/timeoutSeconds", json!(31)),
            "webhooks[0].timeoutSeconds: Invalid value: 31: the timeout value must be between 1 and 30 seconds",
        ),
        (
            "admissionregistration.k8s.io",
            "validatingwebhookconfigurations",
            with(webhook(), "/webhooks/0/clientConfig", json!({})),
            "webhooks[0].clientConfig: Required value: exactly one of url or service is required",
        ),
        (
            "scheduling.k8s.io",
            "priorityclasses",
            json!({"metadata": {"name": "x"}, "value": 1_000_000_001}),
            "value: Forbidden: maximum allowed value of a user defined priority is 1000000000",
        ),
        (
            "",
            "events",
            json!({"metadata": {"namespace": "a"}, "involvedObject": {"namespace": "b"}}),
            "involvedObject.namespace: Invalid value: \"b\": does not match event.namespace",
        ),
        ("storage.k8s.io", "storageclasses", json!({}), "provisioner: Required value"),
        ("discovery.k8s.io", "endpointslices", json!({}), "addressType: Required value"),
        (
            "networking.k8s.io",
            "ingresses",
            json!({"spec": {"rules": [{"http": {"paths": [{"path": "/", "backend":
                {"service": {"name": "s", "port": {"number": 80}}}}]}}]}}),
            "spec.rules[0].http.paths[0].pathType: Required value: pathType must be specified",
        ),
    ];
    for (group, plural, obj, want) in cases {
        let got = errors(group, plural, obj);
        assert_eq!(got, [want], "{group}/{plural}");
    }
}

#[test]
fn no_selector_selects_nothing() {
    assert_eq!(
        errors("apps", "deployments", with(deployment(), "/spec/selector", Value::Null)),
        [
            "spec.selector: Required value",
            "spec.template.metadata.labels: Invalid value: {\"a\":\"b\"}: `selector` does not match template `labels`"
        ]
    );
    assert_eq!(
        errors("apps", "deployments", with(deployment(), "/spec/selector", json!({}))),
        ["spec.selector: Invalid value: {}: empty selector is invalid for deployment"]
    );
}

#[test]
fn config_map_keys_are_checked() {
    let got = errors("", "configmaps", json!({"data": {"a b": ""}}));
    assert!(
        got[0].starts_with("data[a b]: Invalid value: \"a b\": a valid config key must consist of"),
        "{got:?}"
    );
    let got = errors("", "configmaps", json!({"data": {"a": "x".repeat(1024 * 1024 + 1)}}));
    assert!(got[0].ends_with("Too long: may not be more than 1048576 bytes"), "{got:?}");
}

#[test]
fn schedules() {
    let cron = |s: &str| {
        let obj = json!({"spec": {"schedule": s, "jobTemplate": {"spec": {"template":
            {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}}}}});
        errors("batch", "cronjobs", obj)
    };
    for good in ["* * * * *", "*/5 0-4 1,15 jan-mar MON", "@daily", "@every 1h", "0 0 * * 7"] {
        assert_eq!(cron(good), [""; 0], "{good}");
    }
    for bad in
        ["", "* * * *", "60 * * * *", "*/0 * * * *", "x * * * *", "@never", "TZ=UTC * * * * *", "5-1 * * * *"]
    {
        assert_eq!(cron(bad).len(), 1, "{bad}");
    }
}

#[test]
fn claims_of_a_stateful_set_count_as_volumes() {
    let mut sts = deployment();
    sts["spec"]["template"]["spec"]["containers"][0]["volumeMounts"] =
        json!([{"name": "d", "mountPath": "/d"}, {"name": "e", "mountPath": "/e"}]);
    sts["spec"]["volumeClaimTemplates"] = json!([{"metadata": {"name": "d"}, "spec": claim()["spec"]}]);
    assert_eq!(
        errors("apps", "statefulsets", sts),
        ["spec.template.spec.containers[0].volumeMounts[1].name: Not found: \"e\""]
    );
}

/// Group, plural, a valid object, a change to it, what is said about that.
type Case = (&'static str, &'static str, Value, Box<dyn Fn(&mut Value)>, &'static str);

#[test]
fn what_may_not_change() {
    let role = json!({"roleRef": {"kind": "Role", "name": "r"}});
    let cases: Vec<Case> = vec![
        (
            "apps",
            "deployments",
            deployment(),
            Box::new(|o| {
                o["spec"]["selector"]["matchLabels"] = json!({"x": "y"});
                o["spec"]["template"]["metadata"]["labels"] = json!({"x": "y"});
            }),
            "spec.selector: Invalid value: {\"matchLabels\":{\"x\":\"y\"}}: field is immutable",
        ),
        (
            "",
            "services",
            service(),
            Box::new(set("/spec/clusterIP", json!("10.0.0.2"))),
            "spec.clusterIPs[0]: Invalid value: [\"10.0.0.2\"]: may not change once set",
        ),
        (
            "",
            "secrets",
            json!({"type": "Opaque"}),
            Box::new(|o| o["type"] = json!("x")),
            "type: Invalid value: \"x\": field is immutable",
        ),
        (
            "",
            "configmaps",
            json!({"immutable": true, "data": {"a": "b"}}),
            Box::new(|o| o["data"]["a"] = json!("c")),
            "data: Forbidden: field is immutable when `immutable` is set",
        ),
        (
            "rbac.authorization.k8s.io",
            "rolebindings",
            role,
            Box::new(set("/roleRef/name", json!("other"))),
            "roleRef: Invalid value: {\"APIGroup\":\"rbac.authorization.k8s.io\",\"Kind\":\"Role\",\"Name\":\"other\"}: cannot change roleRef",
        ),
        (
            "",
            "persistentvolumeclaims",
            claim(),
            Box::new(set("/spec/accessModes", json!(["ReadWriteMany"]))),
            "spec: Forbidden: spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims",
        ),
        (
            "scheduling.k8s.io",
            "priorityclasses",
            json!({"metadata": {"name": "x"}, "value": 1}),
            Box::new(|o| o["value"] = json!(2)),
            "value: Forbidden: may not be changed in an update.",
        ),
        (
            "storage.k8s.io",
            "storageclasses",
            json!({"provisioner": "a.b/c"}),
            Box::new(|o| o["parameters"] = json!({"a": "b"})),
            "parameters: Forbidden: updates to parameters are forbidden.",
        ),
    ];
    for (group, plural, old, change, want) in cases {
        assert_eq!(update(group, plural, old, change), [want], "{group}/{plural}");
    }
    let got = update("batch", "jobs", job(), set("/spec/template/spec/containers/0/image", json!("x")));
    assert!(got[0].starts_with("spec.template: Invalid value: {"), "{got:?}");
    assert!(got[0].ends_with(": field is immutable"), "{got:?}");
}

#[test]
fn pods_may_change_little() {
    let image = set("/spec/containers/0/image", json!("other"));
    assert_eq!(update("", "pods", pod(), image), [""; 0]);
    let got = update("", "pods", pod(), set("/spec/hostname", json!("h")));
    assert!(got[0].starts_with(
        "spec: Forbidden: pod updates may not change fields other than `spec.containers[*].image`,"
    ));
    let got = update("", "pods", pod(), |o| {
        let c = json!({"name": "d", "image": "i"});
        o["spec"]["containers"].as_array_mut().unwrap().push(c);
    });
    assert_eq!(got, ["spec.containers: Forbidden: pod updates may not add or remove containers"]);
}

#[test]
fn status_is_not_checked() {
    assert!(validate::validate("", "pods", &json!({}), None, "status").is_empty());
}
