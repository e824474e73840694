//! Patches and server-side apply.

use crate::api::*;
use serde_json::{Value, json};

/// `manager operation subresource` of each entry.
fn managers(o: &Value) -> Vec<String> {
    let text = |e: &Value, f: &str| e[f].as_str().unwrap_or_default().to_owned();
    let all = o["metadata"]["managedFields"].as_array().cloned().unwrap_or_default();
    all.iter()
        .map(|e| {
            format!("{} {} {}", text(e, "manager"), text(e, "operation"), text(e, "subresource"))
                .trim()
                .to_owned()
        })
        .collect()
}

fn fields<'a>(o: &'a Value, manager: &str) -> &'a Value {
    let all = o["metadata"]["managedFields"].as_array().unwrap();
    &all.iter().find(|e| e["manager"] == manager).unwrap_or_else(|| panic!("no {manager} in {all:?}"))["fieldsV1"]
}

fn applied(data: Value) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": data})
}

#[tokio::test]
async fn json_patches() {
    let api = start().await;
    api.post(MAPS, map("a")).await.ok(201);
    let at = format!("{MAPS}/a");
    let ops = json!([{"op": "test", "path": "/data/k", "value": "v"}, {"op": "add", "path": "/data/new", "value": "1"},
        {"op": "remove", "path": "/data/k"}]);
    assert_eq!(api.patch(JSON_PATCH, &at, ops).await.ok(200)["data"], json!({"new": "1"}));
    for bad in [
        json!([{"op": "remove", "path": "/data/none"}]),
        json!([{"op": "test", "path": "/data/new", "value": "2"}]),
        json!([{"op": "replace", "path": "/none/none", "value": "2"}]),
    ] {
        let m = api.patch(JSON_PATCH, &at, bad).await.fails(422, "Invalid");
        assert!(m.starts_with("the server rejected our request due to an error in our request"), "{m}");
    }
    api.patch(JSON_PATCH, &at, json!([{"op": "jump", "path": "/x"}])).await.fails(422, "Invalid");
    for bad in [json!({"op": "add"}), json!("x")] {
        api.patch(JSON_PATCH, &at, bad).await.fails(400, "BadRequest");
    }
    let many: Vec<Value> =
        (0..10_001).map(|_| json!({"op": "test", "path": "/kind", "value": "ConfigMap"})).collect();
    assert_eq!(
        api.patch(JSON_PATCH, &at, json!(many)).await.fails(413, "RequestEntityTooLarge"),
        "The allowed maximum operations in a JSON patch is 10000, got 10001"
    );
    let gone = json!([{"op": "replace", "path": "/metadata/name", "value": "b"}]);
    api.patch(JSON_PATCH, &at, gone).await.fails(400, "BadRequest");
}

#[tokio::test]
async fn merge_and_strategic_patches() {
    let api = start().await;
    api.post(MAPS, map("a")).await.ok(201);
    let at = format!("{MAPS}/a");
    assert_eq!(
        api.patch(MERGE, &at, json!({"data": {"k": null, "n": "1"}})).await.ok(200)["data"],
        json!({"n": "1"})
    );
    api.send("PATCH", &at, MERGE, "[]").await.fails(400, "BadRequest");
    api.send("PATCH", &at, MERGE, "{").await.fails(400, "BadRequest");
    api.patch(MERGE, &format!("{MAPS}/none"), json!({})).await.fails(404, "NotFound");
    api.post(DEPLOYMENTS, deployment("d")).await.ok(201);
    let at = format!("{DEPLOYMENTS}/d");
    let add = json!({"spec": {"template": {"spec": {"containers": [{"name": "second", "image": "j"}]}}}});
    let d = api.patch(STRATEGIC, &at, add).await.ok(200);
    let names: Vec<_> = d["spec"]["template"]["spec"]["containers"]
        .as_array()
        .unwrap()
        .iter()
        .map(|c| c["name"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(names, ["second", "c"]);
    let drop = json!({"spec": {"template": {"spec": {"containers": [{"name": "c", "$patch": "delete"}]}}}});
    let d = api.patch(STRATEGIC, &at, drop).await.ok(200);
    assert_eq!(d["spec"]["template"]["spec"]["containers"].as_array().unwrap().len(), 1);
    let bad = json!({"spec": {"template": {"spec": {"containers": [{"image": "j"}]}}}});
    api.patch(STRATEGIC, &at, bad).await.fails(500, "");
    let r = api.patch(MERGE, &format!("{at}?force=true"), json!({})).await;
    assert_eq!(
        r.fails(422, "Invalid"),
        "PatchOptions.meta.k8s.io \"\" is invalid: force: Forbidden: may not be specified for non-apply patch"
    );
    // A patch with a version insists on it.
    let stale = json!({"metadata": {"resourceVersion": "1"}, "spec": {"replicas": 9}});
    api.patch(MERGE, &at, stale).await.fails(409, "Conflict");
    api.patch(MERGE, &at, json!({"metadata": {"uid": "x"}})).await.fails(422, "Invalid");
}

#[tokio::test]
async fn every_write_says_whose_it_is() {
    let (api, clock) = start_manual().await;
    let at = format!("{MAPS}/a");
    let made = api.with("user-agent", "kubectl/v1.32 (linux)").post(MAPS, map("a")).await.ok(201);
    assert_eq!(
        made["metadata"]["managedFields"],
        json!([{"manager": "kubectl", "operation": "Update", "apiVersion": "v1", "time": "2026-01-02T03:04:05Z",
            "fieldsType": "FieldsV1", "fieldsV1": {"f:data": {".": {}, "f:k": {}}}}])
    );
    clock.advance(jiff::SignedDuration::from_secs(5));
    let p = api.patch(MERGE, &format!("{at}?fieldManager=me"), json!({"data": {"x": "1"}})).await.ok(200);
    assert_eq!(fields(&p, "me"), &json!({"f:data": {"f:x": {}}}));
    assert_eq!(p["metadata"]["managedFields"][0]["time"], "2026-01-02T03:04:05Z", "others' times stay");
    assert_eq!(p["metadata"]["managedFields"][1]["time"], "2026-01-02T03:04:10Z");
    let mut next = p.clone();
    next["data"]["k"] = json!("other");
    let p = api.put(&format!("{at}?fieldManager=me"), next).await.ok(200);
    assert_eq!(fields(&p, "me"), &json!({"f:data": {"f:k": {}, "f:x": {}}}));
    assert_eq!(fields(&p, "kubectl"), &json!({"f:data": {}}), "what another took is gone");
    let long = "m".repeat(129);
    api.patch(MERGE, &format!("{at}?fieldManager={long}"), json!({})).await.fails(422, "Invalid");
    // An empty list of managed fields clears them.
    let p = api.patch(MERGE, &at, json!({"metadata": {"managedFields": [{}]}})).await.ok(200);
    assert!(p["metadata"]["managedFields"].is_null(), "{p}");
}

#[tokio::test]
async fn apply_creates_and_repeats_without_a_trace() {
    let (api, clock) = start_manual().await;
    let at = format!("{MAPS}/a?fieldManager=me");
    let r = api.patch(APPLY, &format!("{MAPS}/a"), applied(json!({"x": "1"}))).await;
    assert_eq!(
        r.fails(422, "Invalid"),
        "PatchOptions.meta.k8s.io \"\" is invalid: fieldManager: Required value: is required for apply patch"
    );
    let made = api.patch(APPLY, &at, applied(json!({"x": "1"}))).await.ok(201);
    assert_eq!(managers(&made), ["me Apply"]);
    assert_eq!(fields(&made, "me"), &json!({"f:data": {"f:x": {}}}));
    let mut w = api.watch_from(&rv(&made)).await;
    clock.advance(jiff::SignedDuration::from_secs(60));
    let again = api.patch(APPLY, &at, applied(json!({"x": "1"}))).await.ok(200);
    assert_eq!(again, made, "not even a time changes");
    let yaml = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\ndata:\n  y: \"2\"\n";
    let next = api.send("PATCH", &at, APPLY, yaml).await.ok(200);
    assert_eq!(next["data"], json!({"y": "2"}), "what the applier dropped and nobody else has is removed");
    let e = w.next().await.unwrap();
    assert_eq!(rv(&e["object"]), rv(&next), "the repetition was no event");
    for bad in [
        json!({"kind": "ConfigMap", "data": {}}),
        json!({"apiVersion": "v1", "data": {}}),
        json!({"apiVersion": "v1", "kind": "Secret"}),
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "b"}}),
    ] {
        api.patch(APPLY, &at, bad).await.fails(400, "BadRequest");
    }
    let mut with_books = applied(json!({}));
    with_books["metadata"]["managedFields"] = json!([{"manager": "x"}]);
    assert_eq!(
        api.patch(APPLY, &at, with_books).await.fails(400, "BadRequest"),
        "metadata.managedFields must be nil"
    );
    let mut stale = applied(json!({"y": "3"}));
    stale["metadata"]["resourceVersion"] = json!("1");
    api.patch(APPLY, &at, stale.clone()).await.fails(409, "Conflict");
    api.delete(&format!("{MAPS}/a")).await.ok(200);
    stale["metadata"]["uid"] = made["metadata"]["uid"].clone();
    api.patch(APPLY, &at, stale).await.fails(409, "Conflict");
    api.patch(APPLY, &at, applied(json!({"z": "1"}))).await.ok(201);
}

#[tokio::test]
async fn conflicts_name_the_other_and_force_takes() {
    let api = start().await;
    let at = format!("{MAPS}/a?fieldManager");
    api.patch(APPLY, &format!("{at}=one"), applied(json!({"x": "1", "y": "1"}))).await.ok(201);
    let r = api.patch(APPLY, &format!("{at}=two"), applied(json!({"x": "2", "y": "2"}))).await;
    assert_eq!(
        r.body()["details"]["causes"],
        json!([{"reason": "FieldManagerConflict", "message": "conflict with \"one\"", "field": ".data.x"},
            {"reason": "FieldManagerConflict", "message": "conflict with \"one\"", "field": ".data.y"}])
    );
    assert_eq!(
        r.fails(409, "Conflict"),
        "Apply failed with 2 conflicts: conflicts with \"one\":\n- .data.x\n- .data.y"
    );
    // Agreement is no conflict.
    let both = api.patch(APPLY, &format!("{at}=two"), applied(json!({"x": "1"}))).await.ok(200);
    assert_eq!(managers(&both), ["two Apply", "one Apply"]);
    let taken = api.patch(APPLY, &format!("{at}=two&force=true"), applied(json!({"x": "2"}))).await.ok(200);
    assert_eq!((&taken["data"]["x"], fields(&taken, "one")), (&json!("2"), &json!({"f:data": {"f:y": {}}})));
    // An updater takes without asking; the applier then has a conflict with it.
    api.patch(MERGE, &format!("{at}=hand"), json!({"data": {"y": "9"}})).await.ok(200);
    let m = api.patch(APPLY, &format!("{at}=one"), applied(json!({"y": "1"}))).await.fails(409, "Conflict");
    assert!(m.starts_with("Apply failed with 1 conflict: conflict with \"hand\" using v1"), "{m}");
    assert!(m.ends_with(": .data.y"), "{m}");
}

#[tokio::test]
async fn status_is_applied_apart() {
    let api = start_widgets().await;
    let w = |part: Value| {
        let mut o = json!({"apiVersion": "x.io/v1", "kind": "Widget", "metadata": {"name": "w"}});
        o.as_object_mut().unwrap().extend(part.as_object().unwrap().clone());
        o
    };
    let at = format!("{WIDGETS}/w");
    api.patch(APPLY, &format!("{at}/status?fieldManager=c"), w(json!({"status": {"phase": "x"}})))
        .await
        .fails(404, "NotFound");
    let made = api
        .patch(
            APPLY,
            &format!("{at}?fieldManager=me"),
            w(json!({"spec": {"size": 7}, "status": {"phase": "ignored"}})),
        )
        .await
        .ok(201);
    assert!(made["status"].is_null());
    assert_eq!(fields(&made, "me"), &json!({"f:spec": {"f:size": {}}}));
    let s = api
        .patch(
            APPLY,
            &format!("{at}/status?fieldManager=c"),
            w(json!({"spec": {"size": 9}, "status": {"phase": "Ready"}})),
        )
        .await
        .ok(200);
    assert_eq!((&s["spec"]["size"], &s["status"]["phase"]), (&json!(7), &json!("Ready")));
    let mut m = managers(&s);
    m.sort();
    assert_eq!(m, ["c Apply status", "me Apply"]);
    assert_eq!(fields(&s, "c"), &json!({"f:status": {"f:phase": {}}}));
}

#[tokio::test]
async fn kubectl_moves_from_client_side_to_server_side_apply() {
    let api = start().await;
    let at = format!("{MAPS}/a");
    let last = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"annotations": {}, "name": "a", "namespace": "default"}, "data": {"k": "v", "old": "1"}});
    let mut csa = map("a");
    csa["data"]["old"] = json!("1");
    csa["metadata"]["annotations"] =
        json!({"kubectl.kubernetes.io/last-applied-configuration": format!("{last}\n")});
    api.post(&format!("{MAPS}?fieldManager=kubectl-client-side-apply&fieldValidation=Strict"), csa)
        .await
        .ok(201);
    // One: apply. Fields the annotation proves to be kubectl's own are no conflict.
    let config = applied(json!({"k": "new"}));
    let one = api
        .patch(APPLY, &format!("{at}?fieldManager=kubectl&fieldValidation=Strict"), config.clone())
        .await
        .ok(200);
    assert_eq!(one["data"]["k"], "new");
    assert_eq!(one["data"]["old"], "1", "still owned by the client-side manager");
    // Two: the annotation is kept by a manager of its own.
    let note = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a",
        "annotations": {"kubectl.kubernetes.io/last-applied-configuration": last.to_string()}}});
    let two =
        api.patch(APPLY, &format!("{at}?fieldManager=kubectl-last-applied&force=true"), note).await.ok(200);
    // Three: the books are rewritten by hand, under their version.
    let mut books = two["metadata"]["managedFields"].as_array().unwrap().clone();
    let csa = books.iter().position(|e| e["manager"] == "kubectl-client-side-apply").unwrap();
    let gone = books.remove(csa);
    let own = books.iter_mut().find(|e| e["manager"] == "kubectl").unwrap();
    own["fieldsV1"]["f:data"]["f:old"] = json!({});
    assert_eq!(gone["fieldsV1"]["f:data"]["f:old"], json!({}));
    let three = json!([{"op": "replace", "path": "/metadata/managedFields", "value": books},
        {"op": "replace", "path": "/metadata/resourceVersion", "value": rv(&two)}]);
    let three = api.patch(JSON_PATCH, &at, three).await.ok(200);
    let mut m = managers(&three);
    m.sort();
    assert_eq!(m, ["kubectl Apply", "kubectl-last-applied Apply"]);
    // Four: apply again; what is no longer in the file goes.
    let four =
        api.patch(APPLY, &format!("{at}?fieldManager=kubectl&fieldValidation=Strict"), config).await.ok(200);
    assert_eq!(four["data"], json!({"k": "new"}));
}

#[tokio::test]
async fn lists_are_merged_by_key() {
    let api = start().await;
    let d = |containers: Value| {
        json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"},
        "spec": {"selector": {"matchLabels": {"app": "x"}}, "template": {"metadata": {"labels": {"app": "x"}}, "spec": {"containers": containers}}}})
    };
    let at = format!("{DEPLOYMENTS}/d?fieldManager");
    api.patch(APPLY, &format!("{at}=one"), d(json!([{"name": "a", "image": "i"}]))).await.ok(201);
    let both = api.patch(APPLY, &format!("{at}=two"), d(json!([{"name": "b", "image": "j"}]))).await.ok(200);
    assert_eq!(both["spec"]["template"]["spec"]["containers"].as_array().unwrap().len(), 2);
    assert_eq!(
        fields(&both, "two")["f:spec"]["f:template"]["f:spec"]["f:containers"],
        json!({"k:{\"name\":\"b\"}": {".": {}, "f:image": {}, "f:name": {}}})
    );
    let twice = d(json!([{"name": "c", "image": "j"}, {"name": "c", "image": "k"}]));
    let m = api.patch(APPLY, &format!("{at}=two"), twice).await.fails(500, "");
    assert!(m.starts_with("failed to create typed patch object (/d; apps/v1, Kind=Deployment): "), "{m}");
    let mut odd = d(json!([{"name": "b", "image": "j"}]));
    odd["spec"]["nonsense"] = json!(1);
    for strictness in ["Strict", "Warn", "Ignore"] {
        let uri = format!("{at}=two&fieldValidation={strictness}");
        assert_eq!(
            api.patch(APPLY, &uri, odd.clone()).await.fails(500, ""),
            "failed to create typed patch object (/d; apps/v1, Kind=Deployment): .spec.nonsense: field not declared in schema"
        );
    }
    // What `kubectl create --dry-run -o yaml` writes can be applied.
    let mut dumped = d(json!([{"name": "b", "image": "j", "resources": {}}]));
    dumped["metadata"]["creationTimestamp"] = json!(null);
    dumped["spec"]["template"]["metadata"]["creationTimestamp"] = json!(null);
    dumped["spec"]["strategy"] = json!({});
    dumped["status"] = json!({});
    let got = api.patch(APPLY, &format!("{at}=two"), dumped).await.ok(200);
    assert!(got["spec"]["template"]["metadata"].get("creationTimestamp").is_none());
}

#[tokio::test]
async fn scale_can_be_applied() {
    let api = start().await;
    api.post(DEPLOYMENTS, deployment("d")).await.ok(201);
    let scale = json!({"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": "d"}, "spec": {"replicas": 5}});
    let at = format!("{DEPLOYMENTS}/d/scale?fieldManager=scaler&force=true");
    assert_eq!(api.patch(APPLY, &at, scale).await.ok(200)["spec"]["replicas"], 5);
    let d = api.get(&format!("{DEPLOYMENTS}/d")).await.ok(200);
    assert_eq!(fields(&d, "scaler"), &json!({"f:spec": {"f:replicas": {}}}));
    // Whoever applies the parent with another number now has a conflict.
    let mut whole = deployment("d");
    whole["spec"]["replicas"] = json!(1);
    let m = api.patch(APPLY, &format!("{DEPLOYMENTS}/d?fieldManager=me"), whole).await.fails(409, "Conflict");
    assert!(
        m.contains("conflict with \"scaler\" with subresource \"scale\"") && m.contains(".spec.replicas"),
        "{m}"
    );
}

#[tokio::test]
async fn a_new_version_of_the_file_moves_ownership_between_managers() {
    let api = start().await;
    let at = format!("{MAPS}/a?fieldManager");
    api.patch(APPLY, &format!("{at}=one"), applied(json!({"x": "1", "y": "1"}))).await.ok(201);
    api.patch(APPLY, &format!("{at}=two"), applied(json!({"y": "1"}))).await.ok(200);
    let left = api.patch(APPLY, &format!("{at}=one"), applied(json!({"x": "1"}))).await.ok(200);
    assert_eq!(left["data"], json!({"x": "1", "y": "1"}), "another still wants it");
    let gone = api.patch(APPLY, &format!("{at}=two"), applied(json!({}))).await.ok(200);
    assert_eq!(gone["data"], json!({"x": "1"}));
    // A dry run changes neither object nor books.
    let before = api.get(&format!("{MAPS}/a")).await.ok(200);
    let tried = api.patch(APPLY, &format!("{at}=one&dryRun=All"), applied(json!({"z": "1"}))).await.ok(200);
    assert_eq!(tried["data"], json!({"z": "1"}));
    assert_eq!(api.get(&format!("{MAPS}/a")).await.ok(200), before);
    let r = api
        .patch(
            APPLY,
            &format!("{MAPS}/fresh?fieldManager=one&dryRun=All"),
            json!({"apiVersion": "v1", "kind": "ConfigMap"}),
        )
        .await;
    assert_eq!(r.code, 201);
    api.get(&format!("{MAPS}/fresh")).await.fails(404, "NotFound");
}
