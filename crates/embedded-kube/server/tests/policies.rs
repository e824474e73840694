//! ValidatingAdmissionPolicy.

use crate::api::*;
use ek_auth::User;
use serde_json::{Value, json};

const GROUP: &str = "/apis/admissionregistration.k8s.io/v1";

async fn policy(api: &Api, spec: Value, binding: Value) {
    let mut s = json!({"matchConstraints": {"resourceRules": [{"operations": ["CREATE", "UPDATE"], "apiGroups": [""],
        "apiVersions": ["v1"], "resources": ["configmaps"]}]}});
    s.as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
    let mut b = json!({"policyName": "p", "validationActions": ["Deny"]});
    b.as_object_mut().unwrap().extend(binding.as_object().unwrap().clone());
    let _ = api.delete(&format!("{GROUP}/validatingadmissionpolicies/p")).await;
    let _ = api.delete(&format!("{GROUP}/validatingadmissionpolicybindings/b")).await;
    api.post(&format!("{GROUP}/validatingadmissionpolicies"), json!({"metadata": {"name": "p"}, "spec": s}))
        .await
        .ok(201);
    api.post(
        &format!("{GROUP}/validatingadmissionpolicybindings"),
        json!({"metadata": {"name": "b"}, "spec": b}),
    )
    .await
    .ok(201);
}

async fn try_map(api: &Api, name: &str) -> Answer {
    api.post(&format!("{MAPS}?dryRun=All"), map(name)).await
}

#[tokio::test]
async fn expressions_deny_warn_or_pass() {
    let api = start().await;
    let rule = json!({"validations": [{"expression": "object.metadata.name.startsWith('ok')"}]});
    policy(&api, rule.clone(), json!({})).await;
    try_map(&api, "ok-1").await.ok(201);
    assert_eq!(
        try_map(&api, "bad").await.fails(422, "Invalid"),
        "configmaps \"bad\" is forbidden: ValidatingAdmissionPolicy 'p' with binding 'b' denied request: failed expression: object.metadata.name.startsWith('ok')"
    );
    policy(&api, rule.clone(), json!({"validationActions": ["Warn", "Audit"]})).await;
    let r = try_map(&api, "bad").await;
    assert_eq!(
        r.warnings(),
        [
            "299 - \"Validation failed for ValidatingAdmissionPolicy 'p' with binding 'b': failed expression: object.metadata.name.startsWith('ok')\""
        ]
    );
    r.ok(201);
    let spec = json!({"variables": [{"name": "short", "expression": "size(object.metadata.name) < 4"}, {"name": "both", "expression": "variables.short && object.data.k == 'v'"}],
        "validations": [{"expression": "variables.both", "message": "plain", "messageExpression": "'too long: ' + object.metadata.name", "reason": "Forbidden"}]});
    policy(&api, spec, json!({})).await;
    try_map(&api, "abc").await.ok(201);
    let m = try_map(&api, "abcdef").await.fails(403, "Forbidden");
    assert!(m.ends_with("denied request: too long: abcdef"), "{m}");
    policy(
        &api,
        json!({"validations": [{"expression": "object.data.none == 'x'", "message": "m"}]}),
        json!({}),
    )
    .await;
    let m = try_map(&api, "a").await.fails(422, "Invalid");
    assert!(m.contains("resulted in error: no such key: none"), "{m}");
    policy(
        &api,
        json!({"failurePolicy": "Ignore", "validations": [{"expression": "object.data.none == 'x'"}]}),
        json!({}),
    )
    .await;
    try_map(&api, "a").await.ok(201);
}

#[tokio::test]
async fn conditions_and_selectors_narrow() {
    let api = start().await;
    let no = json!([{"expression": "false"}]);
    for (spec, binding, denied) in [
        (
            json!({"matchConditions": [{"name": "c", "expression": "request.userInfo.username == 'nobody'"}]}),
            json!({}),
            false,
        ),
        (
            json!({"matchConditions": [{"name": "c", "expression": "request.userInfo.username == 'system:apiserver'"}]}),
            json!({}),
            true,
        ),
        (
            json!({}),
            json!({"matchResources": {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "kube-system"}}}}),
            false,
        ),
        (json!({}), json!({"matchResources": {"objectSelector": {"matchLabels": {"a": "b"}}}}), false),
        (
            json!({"validations": [{"expression": "oldObject != null || namespaceObject.metadata.name != 'default'"}]}),
            json!({}),
            true,
        ),
    ] {
        let mut s = json!({"validations": no});
        s.as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
        policy(&api, s, binding).await;
        assert_eq!(try_map(&api, "a").await.code == 422, denied, "{spec}");
    }
}

#[tokio::test]
async fn parameters_come_from_objects() {
    let api = start().await;
    let mut limits = map("limits");
    limits["data"] = json!({"max": "3"});
    let kube = "/api/v1/namespaces/kube-system/configmaps";
    let spec = json!({"paramKind": {"apiVersion": "v1", "kind": "ConfigMap"}, "validations": [{"expression": "size(object.metadata.name) <= int(params.data.max)"}]});
    let reference = |more: Value| {
        let mut r = json!({"namespace": "kube-system", "parameterNotFoundAction": "Deny"});
        r.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        json!({"paramRef": r})
    };
    policy(&api, spec.clone(), reference(json!({"name": "limits"}))).await;
    let m = try_map(&api, "a").await.fails(422, "Invalid");
    assert!(m.contains("no params found for policy binding with `Deny` parameterNotFoundAction"), "{m}");
    policy(&api, spec.clone(), reference(json!({"name": "limits", "parameterNotFoundAction": "Allow"})))
        .await;
    try_map(&api, "a").await.ok(201);
    let mut made = limits.clone();
    made["metadata"]["labels"] = json!({"role": "limits"});
    made["metadata"]["name"] = json!("lim");
    // The limits themselves are config maps: made before the policy that would refuse them.
    let _ = api.delete(&format!("{GROUP}/validatingadmissionpolicybindings/b")).await;
    api.post(kube, made).await.ok(201);
    for by in [json!({"name": "lim"}), json!({"selector": {"matchLabels": {"role": "limits"}}})] {
        policy(&api, spec.clone(), reference(by)).await;
        try_map(&api, "abc").await.ok(201);
        try_map(&api, "abcd").await.fails(422, "Invalid");
    }
}

#[tokio::test]
async fn expressions_may_ask_what_the_caller_may() {
    let api = start().await;
    let spec = json!({"validations": [{"expression": "authorizer.group('').resource('secrets').namespace('default').check('get').allowed()", "message": "no secrets for you"}]});
    policy(&api, spec, json!({})).await;
    try_map(&api, "a").await.ok(201);
    let rules = json!([{"verbs": ["create"], "apiGroups": [""], "resources": ["configmaps"]}]);
    api.post(
        "/apis/rbac.authorization.k8s.io/v1/clusterroles",
        json!({"metadata": {"name": "r"}, "rules": rules}),
    )
    .await
    .ok(201);
    api.post(
        "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
        json!({"metadata": {"name": "r"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "r"},
        "subjects": [{"kind": "User", "name": "alice", "apiGroup": "rbac.authorization.k8s.io"}]}),
    )
    .await
    .ok(201);
    let m = try_map(&api.as_user(User::new("alice", &[])), "a").await.fails(422, "Invalid");
    assert!(m.ends_with("no secrets for you"), "{m}");
}

#[tokio::test]
async fn a_policy_has_a_status_when_it_is_stored() {
    let api = start().await;
    policy(&api, json!({"validations": [{"expression": "true"}]}), json!({})).await;
    let p = api.get(&format!("{GROUP}/validatingadmissionpolicies/p")).await.ok(200);
    assert_eq!(p["status"]["observedGeneration"], 1);
    assert_eq!(p["status"]["typeChecking"], json!({}));
}

#[tokio::test]
async fn audited_failures_reach_the_audit_log() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("audit.log");
    let api =
        start_with(ek_server::Config { audit_log: Some(path.clone()), ..ek_server::Config::memory() }).await;
    let rule = json!({"validations": [{"expression": "true"}, {"expression": "object.metadata.name == 'ok'", "message": "no"}],
        "auditAnnotations": [{"key": "who", "valueExpression": "'name ' + object.metadata.name"}]});
    policy(&api, rule, json!({"validationActions": ["Audit"]})).await;
    api.post(MAPS, map("bad")).await.ok(201);
    api.server.stop().await;
    let text = std::fs::read_to_string(path).unwrap();
    let line = text.lines().rfind(|l| l.contains("configmaps")).unwrap();
    let event: Value = serde_json::from_str(line).unwrap();
    let told = &event["annotations"];
    assert_eq!(told["p/who"], "name bad");
    let failures: Value =
        serde_json::from_str(told["validation.policy.admission.k8s.io/validation_failure"].as_str().unwrap())
            .unwrap();
    assert_eq!(
        failures,
        json!([{"message": "no", "policy": "p", "binding": "b", "expressionIndex": "1", "validationActions": ["Audit"]}])
    );
}
