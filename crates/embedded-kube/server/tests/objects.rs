//! Create, get, update: identity, versions, generation.

use crate::api::*;
use serde_json::json;

#[tokio::test]
async fn a_created_object_has_what_the_server_sets() {
    let (api, _) = start_manual().await;
    let mut sent = map("a");
    sent["metadata"]["uid"] = json!("mine");
    sent["metadata"]["creationTimestamp"] = json!("1999-01-01T00:00:00Z");
    sent["metadata"]["generation"] = json!(7);
    let got = api.post(MAPS, sent).await.ok(201);
    assert_eq!(got["metadata"]["creationTimestamp"], "2026-01-02T03:04:05Z");
    assert_ne!(got["metadata"]["uid"], "mine");
    assert_eq!(got["metadata"]["namespace"], "default");
    assert!(got["metadata"]["generation"].is_null());
    rv(&got).parse::<u64>().unwrap();
    assert_eq!(api.get(&format!("{MAPS}/a")).await.ok(200), got);
    assert_eq!(api.get(MAPS).await.ok(200)["items"].as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn names_are_unique_and_missing_ones_are_said() {
    let api = start().await;
    api.post(MAPS, map("a")).await.ok(201);
    let r = api.post(MAPS, map("a")).await;
    assert_eq!(
        r.body()["details"],
        json!({"name": "a", "kind": "configmaps"}),
        "details name the resource, not the Kind"
    );
    assert_eq!(r.fails(409, "AlreadyExists"), "configmaps \"a\" already exists");
    let r = api.get(&format!("{DEPLOYMENTS}/x")).await;
    assert_eq!(r.body()["details"], json!({"name": "x", "group": "apps", "kind": "deployments"}));
    assert_eq!(r.fails(404, "NotFound"), "deployments.apps \"x\" not found");
    let r = api.post(MAPS, map("A_b")).await;
    assert_eq!(r.body()["details"]["kind"], "ConfigMap");
    assert_eq!(r.body()["details"]["causes"][0]["reason"], "FieldValueInvalid");
    assert!(r.fails(422, "Invalid").starts_with(
        "ConfigMap \"A_b\" is invalid: metadata.name: Invalid value: \"A_b\": a lowercase RFC 1123 subdomain"
    ));
    let r = api.post(MAPS, json!({"metadata": {}})).await;
    assert_eq!(
        r.fails(422, "Invalid"),
        "ConfigMap \"\" is invalid: metadata.name: Required value: name or generateName is required"
    );
}

#[tokio::test]
async fn generated_names_end_in_five_characters_without_vowels() {
    let api = start().await;
    let o = api.post(MAPS, json!({"metadata": {"generateName": "base-"}})).await.ok(201);
    let name = o["metadata"]["name"].as_str().unwrap();
    let suffix = name.strip_prefix("base-").unwrap();
    assert_eq!(suffix.len(), 5);
    assert!(suffix.chars().all(|c| "bcdfghjklmnpqrstvwxz2456789".contains(c)), "{suffix}");
    let long = "x".repeat(80);
    let o = api.post(MAPS, json!({"metadata": {"generateName": long}})).await.ok(201);
    assert_eq!(o["metadata"]["name"].as_str().unwrap().len(), 63);
}

#[tokio::test]
async fn the_body_must_fit_the_url() {
    let api = start().await;
    let mut m = map("a");
    m["metadata"]["namespace"] = json!("other");
    assert_eq!(
        api.post(MAPS, m).await.fails(400, "BadRequest"),
        "the namespace of the provided object does not match the namespace sent on the request"
    );
    let mut m = map("a");
    m["apiVersion"] = json!("v2");
    assert_eq!(
        api.post(MAPS, m).await.fails(400, "BadRequest"),
        "ConfigMap in version \"v2\" cannot be handled as a ConfigMap: no kind \"ConfigMap\" is registered for version \"v2\" in scheme \"pkg/runtime/scheme.go:110\""
    );
    let mut m = map("a");
    m["kind"] = json!("Secret");
    api.post(MAPS, m).await.fails(400, "BadRequest");
    api.post(MAPS, map("a")).await.ok(201);
    assert_eq!(
        api.put(&format!("{MAPS}/a"), map("b")).await.fails(400, "BadRequest"),
        "the name of the object (b) does not match the name on the URL (a)"
    );
    let mut m = map("z");
    m["metadata"]["resourceVersion"] = json!("1");
    let r = api.post(MAPS, m).await;
    assert_eq!(
        (r.code, r.message().as_str()),
        (500, "resourceVersion should not be set on objects to be created")
    );
}

#[tokio::test]
async fn a_stale_update_is_refused_and_a_fresh_one_is_not() {
    let api = start().await;
    let first = api.post(MAPS, map("a")).await.ok(201);
    let mut next = first.clone();
    next["data"]["k"] = json!("2");
    let second = api.put(&format!("{MAPS}/a"), next.clone()).await.ok(200);
    assert_ne!(rv(&first), rv(&second));
    assert_eq!(
        api.put(&format!("{MAPS}/a"), next).await.fails(409, "Conflict"),
        "Operation cannot be fulfilled on configmaps \"a\": the object has been modified; please apply your changes to the latest version and try again"
    );
    let mut other = map("a");
    other["metadata"]["uid"] = json!("other");
    let uid = first["metadata"]["uid"].as_str().unwrap();
    assert_eq!(
        api.put(&format!("{MAPS}/a"), other).await.fails(409, "Conflict"),
        format!(
            "Operation cannot be fulfilled on configmaps \"a\": Precondition failed: UID in precondition: other, UID in object meta: {uid}"
        )
    );
    // Most built-in kinds may be updated without a version.
    api.put(&format!("{MAPS}/a"), map("a")).await.ok(200);
    api.put(&format!("{MAPS}/none"), map("none")).await.fails(404, "NotFound");
}

#[tokio::test]
async fn custom_resources_must_name_the_version_they_update() {
    let api = start_widgets().await;
    api.post(WIDGETS, widget("a")).await.ok(201);
    let r = api.put(&format!("{WIDGETS}/a"), widget("a")).await;
    assert_eq!(r.body()["details"]["causes"][0]["field"], "metadata.resourceVersion");
    assert_eq!(
        r.fails(422, "Invalid"),
        "widgets.x.io \"a\" is invalid: metadata.resourceVersion: Invalid value: 0: must be specified for an update"
    );
    api.put(&format!("{WIDGETS}/none"), widget("none")).await.fails(404, "NotFound");
}

#[tokio::test]
async fn an_update_that_changes_nothing_is_no_event() {
    let api = start().await;
    let first = api.post(MAPS, map("a")).await.ok(201);
    let mut w = api.watch(&format!("{MAPS}?watch=1&resourceVersion={}", rv(&first))).await;
    let same = api.put(&format!("{MAPS}/a"), first.clone()).await.ok(200);
    assert_eq!(rv(&same), rv(&first));
    let same = api.patch(MERGE, &format!("{MAPS}/a"), json!({"data": {"k": "v"}})).await.ok(200);
    assert_eq!(rv(&same), rv(&first));
    api.post(MAPS, map("b")).await.ok(201);
    assert_eq!(w.names(1).await, ["ADDED b"]);
}

#[tokio::test]
async fn generation_counts_changes_of_what_is_desired() {
    let api = start_widgets().await;
    let d = api.post(DEPLOYMENTS, deployment("d")).await.ok(201);
    assert_eq!(d["metadata"]["generation"], 1);
    let at = format!("{DEPLOYMENTS}/d");
    let d = api.patch(MERGE, &at, json!({"metadata": {"labels": {"a": "b"}}})).await.ok(200);
    assert_eq!(d["metadata"]["generation"], 1, "metadata does not count");
    let d = api.patch(MERGE, &at, json!({"spec": {"replicas": 5}})).await.ok(200);
    assert_eq!(d["metadata"]["generation"], 2);
    let d = api.patch(MERGE, &format!("{at}/status"), json!({"status": {"replicas": 1}})).await.ok(200);
    assert_eq!(d["metadata"]["generation"], 2, "status does not count");
    let w = api.post(WIDGETS, widget("w")).await.ok(201);
    assert_eq!(w["metadata"]["generation"], 1);
    let at = format!("{WIDGETS}/w");
    let w = api.patch(MERGE, &at, json!({"spec": {"size": 6}})).await.ok(200);
    assert_eq!(w["metadata"]["generation"], 2);
    let w = api.patch(MERGE, &format!("{at}/status"), json!({"status": {"phase": "x"}})).await.ok(200);
    assert_eq!(w["metadata"]["generation"], 2);
}

#[tokio::test]
async fn a_dry_run_checks_everything_and_writes_nothing() {
    let api = start().await;
    let r = api.post(&format!("{MAPS}?dryRun=All"), map("a")).await.ok(201);
    assert!(r["metadata"]["resourceVersion"].is_null());
    assert!(r["metadata"]["uid"].is_string());
    api.get(&format!("{MAPS}/a")).await.fails(404, "NotFound");
    api.post(&format!("{MAPS}?dryRun=All"), map("A")).await.fails(422, "Invalid");
    let first = api.post(MAPS, map("a")).await.ok(201);
    api.post(&format!("{MAPS}?dryRun=All"), map("a")).await.fails(409, "AlreadyExists");
    let r = api.patch(MERGE, &format!("{MAPS}/a?dryRun=All"), json!({"data": {"k": "2"}})).await.ok(200);
    assert_eq!((&r["data"]["k"], rv(&r)), (&json!("2"), rv(&first)));
    api.delete(&format!("{MAPS}/a?dryRun=All")).await.ok(200);
    api.delete_with(&format!("{MAPS}/a"), json!({"dryRun": ["All"]})).await.ok(200);
    assert_eq!(api.get(&format!("{MAPS}/a")).await.ok(200), first);
    assert_eq!(
        api.post(&format!("{MAPS}?dryRun=Some"), map("b")).await.fails(422, "Invalid"),
        "CreateOptions.meta.k8s.io \"\" is invalid: dryRun: Unsupported value: [\"Some\"]: supported values: \"All\""
    );
}

#[tokio::test]
async fn selectors_stay_as_they_are() {
    let api = start().await;
    api.post(DEPLOYMENTS, deployment("d")).await.ok(201);
    let next = json!({"spec": {"selector": {"matchLabels": {"b": "c"}}, "template": {"metadata": {"labels": {"b": "c"}}}}});
    let r = api.patch(MERGE, &format!("{DEPLOYMENTS}/d"), next).await;
    assert!(r.fails(422, "Invalid").contains("field is immutable"));
}

#[tokio::test]
async fn what_is_fixed_stays_fixed() {
    let api = start().await;
    let mut m = map("fixed");
    m["immutable"] = json!(true);
    api.post(MAPS, m).await.ok(201);
    let r = api.patch(MERGE, &format!("{MAPS}/fixed"), json!({"data": {"k": "2"}})).await;
    assert_eq!(
        r.fails(422, "Invalid"),
        "ConfigMap \"fixed\" is invalid: data: Forbidden: field is immutable when `immutable` is set"
    );
}

#[tokio::test]
async fn cluster_scoped_and_namespaced_paths_do_not_mix() {
    let api = start().await;
    for path in ["/api/v1/namespaces/default/nodes", "/api/v1/configmaps/a", "/api/v1/nothings"] {
        let text = api.get(path).await.fails(404, "NotFound");
        assert_eq!(text, "the server could not find the requested resource", "{path}");
    }
    let r = api.get("/apis/none.io/v1/x").await;
    assert_eq!((r.code, r.text().as_str()), (404, "404 page not found\n"));
    assert!(r.header("content-type").starts_with("text/plain"));
    let r = api.post("/api/v1/configmaps", map("a")).await;
    assert_eq!(
        r.fails(405, "MethodNotAllowed"),
        "the server does not allow this method on the requested resource"
    );
    api.post("/api/v1/namespaces/nowhere/configmaps", map("a")).await.fails(404, "NotFound");
}

#[tokio::test]
async fn one_object_in_two_versions_of_a_built_in_kind() {
    let api = start().await;
    let v = |n: &str| format!("/apis/autoscaling/{n}/namespaces/default/horizontalpodautoscalers");
    let hpa = json!({"apiVersion": "autoscaling/v1", "kind": "HorizontalPodAutoscaler", "metadata": {"name": "h"},
        "spec": {"maxReplicas": 3, "targetCPUUtilizationPercentage": 70,
            "scaleTargetRef": {"kind": "Deployment", "name": "d", "apiVersion": "apps/v1"}}});
    let made = api.post(&v("v1"), hpa).await.ok(201);
    assert_eq!(
        (&made["apiVersion"], &made["spec"]["targetCPUUtilizationPercentage"]),
        (&json!("autoscaling/v1"), &json!(70))
    );
    let two = api.get(&format!("{}/h", v("v2"))).await.ok(200);
    assert_eq!(two["apiVersion"], "autoscaling/v2");
    assert_eq!(
        two["spec"]["metrics"],
        json!([{"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 70}}}])
    );
    let mut w = api.watch(&format!("{}?watch=1", v("v1"))).await;
    assert_eq!(w.next().await.unwrap()["object"]["apiVersion"], "autoscaling/v1");
    api.patch(MERGE, &format!("{}/h", v("v2")), json!({"spec": {"maxReplicas": 9}})).await.ok(200);
    assert_eq!(w.next().await.unwrap()["object"]["spec"]["maxReplicas"], 9);
    let events = "/apis/events.k8s.io/v1/namespaces/default/events";
    let event = json!({"metadata": {"name": "e"}, "eventTime": "2026-01-02T03:04:05.000000Z", "action": "a", "reason": "r", "type": "Normal",
        "note": "text", "reportingController": "x.io/c", "reportingInstance": "i", "regarding": {"kind": "Pod", "name": "p", "namespace": "default"}});
    api.post(events, event).await.ok(201);
    let core = api.get("/api/v1/namespaces/default/events/e").await.ok(200);
    assert_eq!(
        (&core["message"], &core["involvedObject"]["name"], &core["reportingComponent"]),
        (&json!("text"), &json!("p"), &json!("x.io/c"))
    );
}

#[tokio::test]
async fn leases_and_others_are_created_by_update() {
    let api = start().await;
    let at = "/apis/coordination.k8s.io/v1/namespaces/default/leases/l";
    let lease = json!({"metadata": {"name": "l"}, "spec": {"holderIdentity": "me"}});
    let r = api.put(at, lease).await;
    assert_eq!(r.code, 201, "{}", r.text());
    assert_eq!(api.get(at).await.ok(200)["spec"]["holderIdentity"], "me");
    api.put(&format!("{MAPS}/none"), map("none")).await.fails(404, "NotFound");
}
