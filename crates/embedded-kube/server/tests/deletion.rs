//! Deletion: finalizers, grace, propagation, preconditions, namespaces.

use crate::api::*;
use serde_json::json;

#[tokio::test]
async fn a_plain_deletion_answers_with_a_status_and_a_new_version() {
    let api = start().await;
    let a = api.post(MAPS, map("a")).await.ok(201);
    let mut w = api.watch(&format!("{MAPS}?watch=1&resourceVersion={}", rv(&a))).await;
    let r = api.delete(&format!("{MAPS}/a")).await.ok(200);
    assert_eq!((&r["kind"], &r["status"]), (&json!("Status"), &json!("Success")));
    assert_eq!(r["details"], json!({"name": "a", "kind": "configmaps", "uid": a["metadata"]["uid"]}));
    let e = w.next().await.unwrap();
    assert_eq!(e["type"], "DELETED");
    assert_eq!(e["object"]["data"], a["data"]);
    let (new, old): (u64, u64) = (rv(&e["object"]).parse().unwrap(), rv(&a).parse().unwrap());
    assert!(new > old, "a deletion has a version of its own");
    api.delete(&format!("{MAPS}/a")).await.fails(404, "NotFound");
}

#[tokio::test]
async fn preconditions_name_the_object_that_is_meant() {
    let api = start().await;
    let a = api.post(MAPS, map("a")).await.ok(201);
    let at = format!("{MAPS}/a");
    let uid = a["metadata"]["uid"].as_str().unwrap();
    assert_eq!(
        api.delete_with(&at, json!({"preconditions": {"uid": "u"}})).await.fails(409, "Conflict"),
        format!(
            "Operation cannot be fulfilled on ConfigMap \"a\": the UID in the precondition (u) does not match the UID in record ({uid}). The object might have been deleted and then recreated"
        )
    );
    assert_eq!(
        api.delete_with(&at, json!({"preconditions": {"resourceVersion": "1"}})).await.fails(409, "Conflict"),
        format!(
            "Operation cannot be fulfilled on ConfigMap \"a\": the ResourceVersion in the precondition (1) does not match the ResourceVersion in record ({}). The object might have been modified",
            rv(&a)
        )
    );
    api.delete_with(&at, json!({"preconditions": {"uid": uid, "resourceVersion": rv(&a)}})).await.ok(200);
}

#[tokio::test]
async fn finalizers_hold_an_object_until_the_last_is_gone() {
    let (api, clock) = start_manual().await;
    let mut m = map("a");
    m["metadata"]["finalizers"] = json!(["x.io/a", "x.io/b"]);
    let first = api.post(MAPS, m).await.ok(201);
    let mut w = api.watch(&format!("{MAPS}?watch=1&resourceVersion={}", rv(&first))).await;
    let at = format!("{MAPS}/a");
    let held = api.delete(&at).await.ok(200);
    assert_eq!(held["kind"], "ConfigMap");
    assert_eq!(held["metadata"]["deletionTimestamp"], "2026-01-02T03:04:05Z");
    assert_eq!(held["metadata"]["deletionGracePeriodSeconds"], 0);
    clock.advance(jiff::SignedDuration::from_secs(60));
    let again = api.delete(&at).await.ok(200);
    assert_eq!(rv(&again), rv(&held), "asking again changes nothing");
    let r = api.patch(MERGE, &at, json!({"metadata": {"finalizers": ["x.io/a", "x.io/b", "x.io/c"]}})).await;
    assert_eq!(
        r.fails(422, "Invalid"),
        "ConfigMap \"a\" is invalid: metadata.finalizers: Forbidden: no new finalizers can be added if the object is being deleted, found new finalizers []string{\"x.io/c\"}"
    );
    api.patch(MERGE, &at, json!({"metadata": {"finalizers": ["x.io/b"]}})).await.ok(200);
    api.post(MAPS, map("a")).await.fails(409, "AlreadyExists");
    // Changing the rest and dropping the last finalizer in one write completes the deletion.
    let last =
        api.patch(MERGE, &at, json!({"metadata": {"finalizers": null}, "data": {"k": "last"}})).await.ok(200);
    assert_eq!(last["data"]["k"], "last");
    api.get(&at).await.fails(404, "NotFound");
    let events = w.take(3).await;
    let types: Vec<_> = events.iter().map(|e| e["type"].as_str().unwrap()).collect();
    assert_eq!(types, ["MODIFIED", "MODIFIED", "DELETED"]);
    let (a, b): (u64, u64) =
        (rv(&events[1]["object"]).parse().unwrap(), rv(&events[2]["object"]).parse().unwrap());
    assert!(b > a);
    assert_eq!(events[2]["object"]["data"]["k"], "last");
    api.post(MAPS, map("a")).await.ok(201);
}

#[tokio::test]
async fn deletion_cannot_be_faked_in_metadata() {
    let api = start().await;
    let mut m = map("a");
    m["metadata"]["deletionTimestamp"] = json!("2030-01-01T00:00:00Z");
    let got = api.post(MAPS, m).await.ok(201);
    assert!(got["metadata"]["deletionTimestamp"].is_null());
    let at = format!("{MAPS}/a");
    let time = json!({"metadata": {"creationTimestamp": "2030-01-01T00:00:00Z"}});
    let kept = api.patch(MERGE, &at, time).await.ok(200);
    assert_eq!(kept, got, "when it was created is not asked");
    for field in ["deletionTimestamp"] {
        let m = api
            .patch(MERGE, &at, json!({"metadata": {field: "2030-01-01T00:00:00Z"}}))
            .await
            .fails(422, "Invalid");
        assert!(
            m.contains(&format!(
                "metadata.{field}: Invalid value: \"2030-01-01T00:00:00Z\": field is immutable"
            )),
            "{m}"
        );
    }
    // Left out is not changed.
    let got = api.patch(MERGE, &at, json!({"metadata": {"creationTimestamp": null}})).await.ok(200);
    assert!(got["metadata"]["creationTimestamp"].is_string());
}

#[tokio::test]
async fn pods_on_nodes_go_in_two_steps() {
    let (api, _) = start_manual().await;
    let mut p = pod("p");
    p["spec"]["nodeName"] = json!("n");
    api.post(PODS, p.clone()).await.ok(201);
    let at = format!("{PODS}/p");
    let dying = api.delete(&at).await.ok(200);
    assert_eq!(dying["metadata"]["deletionGracePeriodSeconds"], 30);
    assert_eq!(dying["metadata"]["deletionTimestamp"], "2026-01-02T03:04:35Z");
    // The kubelet confirms by deleting without grace.
    let shorter = api.delete_with(&at, json!({"gracePeriodSeconds": 5})).await.ok(200);
    assert_eq!(shorter["metadata"]["deletionTimestamp"], "2026-01-02T03:04:10Z");
    let longer = api.delete_with(&at, json!({"gracePeriodSeconds": 50})).await.ok(200);
    assert_eq!(longer["metadata"]["deletionTimestamp"], "2026-01-02T03:04:10Z", "only ever sooner");
    api.delete_with(&at, json!({"gracePeriodSeconds": 0})).await.ok(200);
    api.get(&at).await.fails(404, "NotFound");
    // A pod on no node has nobody to wait for.
    api.post(PODS, pod("q")).await.ok(201);
    api.delete(&format!("{PODS}/q")).await.ok(200);
    api.get(&format!("{PODS}/q")).await.fails(404, "NotFound");
}

#[tokio::test]
async fn propagation_is_written_as_finalizers() {
    let api = start().await;
    for (policy, finalizer) in [("Orphan", "orphan"), ("Foreground", "foregroundDeletion")] {
        api.post(DEPLOYMENTS, deployment("d")).await.ok(201);
        let at = format!("{DEPLOYMENTS}/d");
        let d = api.delete_with(&at, json!({"propagationPolicy": policy})).await.ok(200);
        assert_eq!(d["metadata"]["finalizers"], json!([finalizer]));
        api.patch(MERGE, &at, json!({"metadata": {"finalizers": []}})).await.ok(200);
        api.get(&at).await.fails(404, "NotFound");
    }
    api.post(DEPLOYMENTS, deployment("d")).await.ok(201);
    let at = format!("{DEPLOYMENTS}/d");
    let r = api.delete_with(&at, json!({"orphanDependents": true, "propagationPolicy": "Background"})).await;
    assert_eq!(
        r.fails(422, "Invalid"),
        "DeleteOptions.meta.k8s.io \"\" is invalid: propagationPolicy: Invalid value: \"Background\": orphanDependents and deletionPropagation cannot be both set"
    );
    let r = api.delete(&format!("{at}?propagationPolicy=Sideways")).await;
    assert!(r.fails(422, "Invalid").contains("propagationPolicy: Unsupported value: \"Sideways\""));
    api.delete_with(&at, json!({"orphanDependents": true})).await.ok(200);
    assert_eq!(api.get(&at).await.ok(200)["metadata"]["finalizers"], json!(["orphan"]));
}

#[tokio::test]
async fn delete_collection_takes_what_is_selected() {
    let api = start().await;
    for (n, v) in [("a", "1"), ("b", "1"), ("c", "2")] {
        api.post(MAPS, labelled(n, json!({"v": v}))).await.ok(201);
    }
    let list = api.delete(&format!("{MAPS}?labelSelector=v%3D1")).await.ok(200);
    assert_eq!(
        (&list["kind"], names(&list)),
        (&json!("ConfigMapList"), vec!["a".to_owned(), "b".to_owned()])
    );
    assert_eq!(names(&api.get(MAPS).await.ok(200)), ["c"]);
}

#[tokio::test]
async fn a_namespace_goes_when_its_contents_are_gone() {
    let api = start_widgets().await;
    let ns = json!({"metadata": {"name": "n"}});
    let made = api.post("/api/v1/namespaces", ns).await.ok(201);
    assert_eq!(made["spec"]["finalizers"], json!(["kubernetes"]));
    assert_eq!(made["status"]["phase"], "Active");
    assert_eq!(made["metadata"]["labels"]["kubernetes.io/metadata.name"], "n");
    let inside = "/api/v1/namespaces/n/configmaps";
    let mut held = map("held");
    held["metadata"]["finalizers"] = json!(["x.io/hold"]);
    api.post(inside, held).await.ok(201);
    api.post(inside, map("free")).await.ok(201);
    api.post("/apis/x.io/v1/namespaces/n/widgets", widget("w")).await.ok(201);
    let gone = api.delete("/api/v1/namespaces/n").await.ok(200);
    assert_eq!(gone["status"]["phase"], "Terminating");
    let r = api.post(inside, map("late")).await;
    assert_eq!(
        r.body()["details"]["causes"][0],
        json!({"reason": "NamespaceTerminating", "message": "namespace n is being terminated", "field": "metadata.namespace"})
    );
    assert_eq!(
        r.fails(403, "Forbidden"),
        "configmaps \"late\" is forbidden: unable to create new content in namespace n because it is being terminated"
    );
    let waiting = api
        .until("/api/v1/namespaces", "n", |_, o| {
            let c = o["status"]["conditions"].as_array().cloned().unwrap_or_default();
            c.iter().any(|c| c["type"] == "NamespaceFinalizersRemaining" && c["status"] == "True")
        })
        .await;
    let text = waiting["status"]["conditions"].to_string();
    assert!(text.contains("x.io/hold in 1 resource instances"), "{text}");
    assert!(text.contains("configmaps. has 1 resource instances"), "{text}");
    let mut w = api
        .watch(&format!(
            "/api/v1/namespaces?watch=1&resourceVersion={}&fieldSelector=metadata.name%3Dn",
            rv(&waiting)
        ))
        .await;
    api.patch(MERGE, &format!("{inside}/held"), json!({"metadata": {"finalizers": null}})).await.ok(200);
    while w.next().await.unwrap()["type"] != "DELETED" {}
    api.get("/api/v1/namespaces/n").await.fails(404, "NotFound");
    api.get("/apis/x.io/v1/namespaces/n/widgets/w").await.fails(404, "NotFound");
    assert_eq!(
        api.delete("/api/v1/namespaces/default").await.fails(403, "Forbidden"),
        "namespaces \"default\" is forbidden: this namespace may not be deleted"
    );
}

#[tokio::test]
async fn a_namespace_loses_its_pods_first_and_says_who_refuses() {
    const GROUP: &str = "/apis/admissionregistration.k8s.io/v1";
    const POLICIES: &str = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies";
    let api = start().await;
    api.post("/api/v1/namespaces", json!({"metadata": {"name": "going"}})).await.ok(201);
    let maps = "/api/v1/namespaces/going/configmaps";
    api.post(maps, map("kept")).await.ok(201);
    let pod = json!({"metadata": {"name": "p", "finalizers": ["x.io/a"]}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    api.post("/api/v1/namespaces/going/pods", pod).await.ok(201);
    let spec = json!({"validations": [{"expression": "false", "message": "maps are for ever"}], "matchConstraints": {"resourceRules": [
        {"operations": ["DELETE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"]}]}});
    api.post(POLICIES, json!({"metadata": {"name": "p"}, "spec": spec})).await.ok(201);
    let binding =
        json!({"metadata": {"name": "b"}, "spec": {"policyName": "p", "validationActions": ["Deny"]}});
    api.post(&format!("{GROUP}/validatingadmissionpolicybindings"), binding).await.ok(201);

    let before = api.get("/api/v1/namespaces/going").await.ok(200);
    let watch = format!(
        "/api/v1/namespaces?watch=1&fieldSelector=metadata.name%3Dgoing&resourceVersion={}",
        rv(&before)
    );
    let mut w = api.watch(&watch).await;
    api.delete("/api/v1/namespaces/going").await.ok(200);
    let message = |ns: &serde_json::Value, ty: &str| {
        let c = ns["status"]["conditions"].as_array()?.iter().find(|c| c["type"] == ty)?.clone();
        (c["status"] == "True").then(|| c["message"].as_str().unwrap_or_default().to_owned())
    };
    loop {
        let e = w.next().await.unwrap();
        if let Some(m) = message(&e["object"], "NamespaceContentRemaining") {
            assert_eq!(
                m, "Some resources are remaining: pods. has 1 resource instances",
                "nothing but the pod is touched"
            );
            break;
        }
    }
    let map_now = api.get(&format!("{maps}/kept")).await.ok(200);
    assert!(map_now["metadata"]["deletionTimestamp"].is_null());
    let unpin = json!({"metadata": {"finalizers": null}});
    api.patch(MERGE, "/api/v1/namespaces/going/pods/p", unpin).await.ok(200);
    loop {
        let e = w.next().await.unwrap();
        if let Some(m) = message(&e["object"], "NamespaceDeletionContentFailure") {
            assert!(m.contains("1 remaining: ") && m.contains("maps are for ever"), "{m}");
            break;
        }
    }
    api.delete(&format!("{GROUP}/validatingadmissionpolicybindings/b")).await.ok(200);
    while w.next().await.unwrap()["type"] != "DELETED" {}
}
