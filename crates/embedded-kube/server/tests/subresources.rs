//! Status, scale, finalize, approval, binding, eviction.

use crate::api::*;
use serde_json::{Value, json};

#[tokio::test]
async fn status_and_the_rest_are_written_apart() {
    let api = start_widgets().await;
    let mut w = widget("w");
    w["status"] = json!({"phase": "Sent"});
    let made = api.post(WIDGETS, w).await.ok(201);
    assert!(made["status"].is_null(), "create takes no status");
    let at = format!("{WIDGETS}/w");
    let mut both = made.clone();
    both["spec"]["size"] = json!(9);
    both["metadata"]["labels"] = json!({"a": "b"});
    both["status"] = json!({"phase": "Ready"});
    let s = api.put(&format!("{at}/status"), both.clone()).await.ok(200);
    assert_eq!((&s["spec"]["size"], &s["status"]["phase"]), (&json!(5), &json!("Ready")));
    assert!(s["metadata"]["labels"].is_null(), "status writes leave metadata of custom resources alone");
    both["metadata"]["resourceVersion"] = s["metadata"]["resourceVersion"].clone();
    both["status"]["phase"] = json!("Other");
    let m = api.put(&at, both).await.ok(200);
    assert_eq!((&m["spec"]["size"], &m["status"]["phase"]), (&json!(9), &json!("Ready")));
    assert_eq!(api.get(&format!("{at}/status")).await.ok(200), m);
    // The same for a built-in kind.
    let mut d = deployment("d");
    d["status"] = json!({"replicas": 7});
    let made = api.post(DEPLOYMENTS, d).await.ok(201);
    assert!(made["status"]["replicas"].is_null());
    let at = format!("{DEPLOYMENTS}/d");
    let s = api
        .patch(MERGE, &format!("{at}/status"), json!({"spec": {"replicas": 9}, "status": {"replicas": 1}}))
        .await
        .ok(200);
    assert_eq!((&s["spec"]["replicas"], &s["status"]["replicas"]), (&json!(2), &json!(1)));
    let m = api.patch(MERGE, &at, json!({"spec": {"replicas": 3}, "status": {"replicas": 8}})).await.ok(200);
    assert_eq!((&m["spec"]["replicas"], &m["status"]["replicas"]), (&json!(3), &json!(1)));
}

#[tokio::test]
async fn scale_of_a_built_in_kind() {
    let api = start().await;
    let d = api.post(DEPLOYMENTS, deployment("d")).await.ok(201);
    let at = format!("{DEPLOYMENTS}/d/scale");
    let s = api.get(&at).await.ok(200);
    assert_eq!((&s["kind"], &s["apiVersion"]), (&json!("Scale"), &json!("autoscaling/v1")));
    assert_eq!(
        (&s["spec"], &s["status"]),
        (&json!({"replicas": 2}), &json!({"replicas": 0, "selector": "app=x"}))
    );
    assert_eq!(s["metadata"]["resourceVersion"], d["metadata"]["resourceVersion"]);
    let s = api
        .with("user-agent", "kubectl/v1")
        .patch(MERGE, &at, json!({"spec": {"replicas": 4}}))
        .await
        .ok(200);
    assert_eq!(s["spec"]["replicas"], 4);
    let parent = api.get(&format!("{DEPLOYMENTS}/d")).await.ok(200);
    assert_eq!(parent["spec"]["replicas"], 4);
    let fields = parent["metadata"]["managedFields"].as_array().unwrap();
    let mine = fields.iter().find(|f| f["subresource"] == "scale").unwrap();
    assert_eq!(mine["fieldsV1"], json!({"f:spec": {"f:replicas": {}}}));
    assert_eq!((&mine["manager"], &mine["apiVersion"]), (&json!("kubectl"), &json!("apps/v1")));
    let mut stale = s.clone();
    stale["metadata"]["resourceVersion"] = json!("1");
    api.put(&at, stale).await.fails(409, "Conflict");
    let mut fresh = s;
    fresh["spec"]["replicas"] = json!(1);
    api.put(&at, fresh).await.ok(200);
    let r = api.patch(MERGE, &at, json!({"spec": {"replicas": -1}})).await;
    assert!(
        r.fails(422, "Invalid")
            .contains("spec.replicas: Invalid value: -1: must be greater than or equal to 0")
    );
}

#[tokio::test]
async fn scale_of_a_custom_resource() {
    let api = start_widgets().await;
    api.post(WIDGETS, widget("w")).await.ok(201);
    let at = format!("{WIDGETS}/w");
    let status = json!({"status": {"replicas": 3, "selector": "a=b"}});
    api.patch(MERGE, &format!("{at}/status"), status).await.ok(200);
    let s = api.patch(MERGE, &format!("{at}/scale"), json!({"spec": {"replicas": 7}})).await.ok(200);
    assert_eq!(
        (&s["spec"], &s["status"]),
        (&json!({"replicas": 7}), &json!({"replicas": 3, "selector": "a=b"}))
    );
    assert_eq!(api.get(&at).await.ok(200)["spec"]["replicas"], 7);
    api.get(&format!("{at}/nothing")).await.fails(404, "NotFound");
}

#[tokio::test]
async fn a_namespace_is_finalized_by_its_own_endpoint() {
    let api = start().await;
    let mut ns = api.post("/api/v1/namespaces", json!({"metadata": {"name": "n"}})).await.ok(201);
    ns["spec"]["finalizers"] = json!(["kubernetes", "x.io/more"]);
    let kept = api.put("/api/v1/namespaces/n", ns.clone()).await.ok(200);
    assert_eq!(kept["spec"]["finalizers"], json!(["kubernetes"]), "an ordinary update does not touch them");
    ns["metadata"]["resourceVersion"] = kept["metadata"]["resourceVersion"].clone();
    let more = api.put("/api/v1/namespaces/n/finalize", ns).await.ok(200);
    assert_eq!(more["spec"]["finalizers"], json!(["kubernetes", "x.io/more"]));
}

#[tokio::test]
async fn certificate_requests_are_approved_by_their_own_endpoint() {
    let api = start().await;
    let all = "/apis/certificates.k8s.io/v1/certificatesigningrequests";
    let request = "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURSBSRVFVRVNULS0tLS0KTUlIS01ISUNBUUF3RURFT01Bd0dBMVVFQXd3RllXeHBZMlV3V1RBVEJnY3Foa2pPUFFJQkJnZ3Foa2pPUFFNQgpCd05DQUFSaVJZK2xFL1dpUHlNNmF5NzF1QTB2LzJNRkpzOWZocnZ4c2dNclRDU3pGTjFpd3dJdmVjWmN1OTVtCjQzWGJiM3gxR2hoellwV1NkWkRpc2xXcFNSZ0lvQUF3Q2dZSUtvWkl6ajBFQXdJRFNBQXdSUUloQU8zdDYrVzkKU0xyazE2YklSVm9udldyaytzUklrU0RVWTdId1NSenAwQmN4QWlCRSs5MmRvK3plK3RPYkhtSll6S3M1MXlqdgo1YlBrdVFQNnVWdERsUGo4UUE9PQotLS0tLUVORCBDRVJUSUZJQ0FURSBSRVFVRVNULS0tLS0K";
    let csr = json!({"metadata": {"name": "c"}, "spec": {"request": request, "signerName": "x.io/s",
        "usages": ["client auth"], "username": "forged"}});
    let mut broken = csr.clone();
    broken["spec"]["request"] = json!(
        "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURSBSRVFVRVNULS0tLS0KWVE9PQotLS0tLUVORCBDRVJUSUZJQ0FURSBSRVFVRVNULS0tLS0K"
    );
    assert!(api.post(all, broken).await.fails(422, "Invalid").contains("asn1: syntax error"));
    let made = api.post(all, csr).await.ok(201);
    assert_eq!(made["spec"]["username"], "system:apiserver", "who asks is who called");
    let condition = json!({"type": "Approved", "status": "True", "reason": "x", "message": "y"});
    let mut next = made.clone();
    next["status"] = json!({"conditions": [condition]});
    let a = api.put(&format!("{all}/c/approval"), next.clone()).await.ok(200);
    assert_eq!(a["status"]["conditions"][0]["type"], "Approved");
    assert!(a["status"]["conditions"][0]["lastTransitionTime"].is_string());
}

#[tokio::test]
async fn binding_places_a_pod_once() {
    let api = start().await;
    api.post(PODS, pod("p")).await.ok(201);
    let at = format!("{PODS}/p/binding");
    let binding = json!({"kind": "Binding", "apiVersion": "v1", "metadata": {"name": "p", "annotations": {"x.io/a": "1"}},
        "target": {"kind": "Node", "name": "n1"}});
    let r = api.post(&at, binding.clone()).await.ok(201);
    assert_eq!((&r["kind"], &r["status"], &r["code"]), (&json!("Status"), &json!("Success"), &json!(201)));
    let p = api.get(&format!("{PODS}/p")).await.ok(200);
    assert_eq!(p["spec"]["nodeName"], "n1");
    assert_eq!(p["metadata"]["annotations"]["x.io/a"], "1");
    let scheduled =
        p["status"]["conditions"].as_array().unwrap().iter().find(|c| c["type"] == "PodScheduled").unwrap();
    assert_eq!(scheduled["status"], "True");
    assert_eq!(
        api.post(&at, binding).await.fails(409, "Conflict"),
        "Operation cannot be fulfilled on pods/binding \"p\": pod p is already assigned to node \"n1\""
    );
    api.post(PODS, pod("q")).await.ok(201);
    let bind = |target: Value| json!({"target": target});
    let m = api.post(&format!("{PODS}/q/binding"), bind(json!({}))).await.fails(500, "");
    assert_eq!(m, "target.name: Required value");
    let m = api
        .post(&format!("{PODS}/q/binding"), bind(json!({"kind": "Pod", "name": "n"})))
        .await
        .fails(500, "");
    assert!(m.starts_with("target.kind: Unsupported value: \"Pod\""), "{m}");
    let old = json!({"metadata": {"name": "q"}, "target": {"name": "n2"}});
    api.post("/api/v1/namespaces/default/bindings", old).await.ok(201);
    assert_eq!(api.get(&format!("{PODS}/q")).await.ok(200)["spec"]["nodeName"], "n2");
}

#[tokio::test]
async fn evictions_obey_the_budget_and_use_it_up() {
    let api = start().await;
    let budgets = "/apis/policy/v1/namespaces/default/poddisruptionbudgets";
    let budget = json!({"metadata": {"name": "b"}, "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "x"}}}});
    api.post(budgets, budget).await.ok(201);
    for p in ["p", "q"] {
        let mut o = pod(p);
        o["spec"]["nodeName"] = json!("n");
        api.post(PODS, o).await.ok(201);
        let running = json!({"status": {"phase": "Running"}});
        api.patch(MERGE, &format!("{PODS}/{p}/status"), running).await.ok(200);
    }
    let evict = |p: &str| {
        (
            format!("{PODS}/{p}/eviction"),
            json!({"kind": "Eviction", "apiVersion": "policy/v1", "metadata": {"name": p}}),
        )
    };
    let allow = |n: i64| {
        json!({"status": {"observedGeneration": 1, "disruptionsAllowed": n, "currentHealthy": 2,
        "desiredHealthy": 2, "expectedPods": 2}})
    };
    api.patch(MERGE, &format!("{budgets}/b/status"), allow(0)).await.ok(200);
    let (at, e) = evict("p");
    let r = api.post(&at, e.clone()).await;
    assert_eq!(
        r.body()["details"]["causes"],
        json!([{"reason": "DisruptionBudget", "message": "The disruption budget b needs 2 healthy pods and has 2 currently"}])
    );
    assert_eq!(r.header("retry-after"), "", "clients would retry by themselves, each for minutes");
    assert_eq!(
        r.fails(429, "TooManyRequests"),
        "Cannot evict pod as it would violate the pod's disruption budget."
    );
    api.patch(MERGE, &format!("{budgets}/b/status"), allow(1)).await.ok(200);
    api.post(&format!("{at}?dryRun=All"), e.clone()).await.ok(201);
    assert!(api.get(&format!("{PODS}/p")).await.ok(200)["metadata"]["deletionTimestamp"].is_null());
    assert_eq!(api.post(&at, e).await.ok(201)["status"], "Success");
    assert!(api.get(&format!("{PODS}/p")).await.ok(200)["metadata"]["deletionTimestamp"].is_string());
    let b = api.get(&format!("{budgets}/b")).await.ok(200);
    assert_eq!(b["status"]["disruptionsAllowed"], 0);
    assert!(b["status"]["disruptedPods"]["p"].is_string());
    let (at, e) = evict("q");
    api.post(&at, e).await.fails(429, "TooManyRequests");
    let (_, wrong) = evict("other");
    api.post(&at, wrong).await.fails(400, "BadRequest");
}

#[tokio::test]
async fn logs_and_exec_say_why_not() {
    let api = start().await;
    api.post(PODS, pod("p")).await.ok(201);
    let r: Value = api.get(&format!("{PODS}/p/log")).await.ok(400);
    assert_eq!(r["message"], "pod p does not have a host assigned");
    let mut on_a_node = pod("q");
    on_a_node["spec"]["nodeName"] = json!("n");
    api.post(PODS, on_a_node).await.ok(201);
    let r = api.get(&format!("{PODS}/q/log")).await.ok(400);
    assert!(r["message"].as_str().unwrap().ends_with("is waiting to start: ContainerCreating"), "{r}");
    let name = api.get(&format!("{PODS}/q")).await.ok(200)["spec"]["containers"][0]["name"].clone();
    let ran = json!({"status": {"containerStatuses": [{"name": name, "state": {"running": {}}}]}});
    api.patch(crate::api::MERGE, &format!("{PODS}/q/status"), ran).await.ok(200);
    let r = api.get(&format!("{PODS}/q/log")).await.ok(501);
    assert!(r["message"].as_str().unwrap().contains("node runtime"), "{r}");
    api.get(&format!("{PODS}/q/exec?command=ls&stdout=true")).await.fails(400, "BadRequest");
}

/// `manager operation subresource time?` of whoever owns the replicas.
fn owners(parent: &Value) -> Vec<String> {
    let entries = parent["metadata"]["managedFields"].as_array().unwrap();
    let text = |e: &Value, k: &str| e[k].as_str().unwrap_or("-").to_owned();
    (entries.iter())
        .filter(|e| !e["fieldsV1"]["f:spec"]["f:replicas"].is_null())
        .map(|e| {
            let time = if e["time"].is_null() { "untimed" } else { "timed" };
            format!("{} {} {} {time}", text(e, "manager"), text(e, "operation"), text(e, "subresource"))
        })
        .collect()
}

fn scale(name: &str, replicas: i64) -> Value {
    json!({"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": name}, "spec": {"replicas": replicas}})
}

#[tokio::test]
async fn a_scale_is_applied() {
    let api = start().await;
    api.post(&format!("{DEPLOYMENTS}?fieldManager=maker"), deployment("d")).await.ok(201);
    let parent = format!("{DEPLOYMENTS}/d");
    let at = format!("{parent}/scale?fieldManager=hpa");
    let m = api.patch(APPLY, &at, scale("d", 5)).await.fails(409, "Conflict");
    assert_eq!(
        m,
        "Apply failed with 1 conflict: conflict with \"maker\" using autoscaling/v1: .spec.replicas"
    );
    api.patch(APPLY, &at, scale("d", 2)).await.ok(200);
    let shared = api.get(&parent).await.ok(200);
    assert_eq!(owners(&shared), ["hpa Apply scale untimed", "maker Update - untimed"]);
    assert_eq!(shared["metadata"]["generation"], 1);
    let s = api.patch(APPLY, &format!("{at}&force=true"), scale("d", 5)).await.ok(200);
    assert_eq!((&s["kind"], &s["spec"]["replicas"]), (&json!("Scale"), &json!(5)));
    let forced = api.get(&parent).await.ok(200);
    assert_eq!(owners(&forced), ["hpa Apply scale untimed"]);
    api.patch(APPLY, &at, scale("d", 5)).await.ok(200);
    assert_eq!(api.get(&parent).await.ok(200), forced, "saying it again changes nothing");
    // The applier of the whole object now has a conflict with the scale.
    let mut whole = deployment("d");
    whole["spec"]["replicas"] = json!(3);
    let m = api.patch(APPLY, &format!("{parent}?fieldManager=app"), whole).await.fails(409, "Conflict");
    assert!(m.contains("conflict with \"hpa\" with subresource \"scale\": .spec.replicas"), "{m}");
    // It takes a manager, the right kind, and a number that makes sense.
    api.patch(APPLY, &format!("{parent}/scale"), scale("d", 1)).await.fails(422, "Invalid");
    let wrong = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"}});
    api.patch(APPLY, &at, wrong).await.fails(400, "BadRequest");
    api.patch(APPLY, &at, scale("d", -1)).await.fails(422, "Invalid");
    let mut odd = scale("d", 5);
    odd["spec"]["foo"] = json!(1);
    let m = api.patch(APPLY, &at, odd).await.fails(500, "");
    assert!(m.ends_with("(/d; autoscaling/v1, Kind=Scale): .spec.foo: field not declared in schema"), "{m}");
    api.put(&format!("{parent}/scale"), deployment("d")).await.fails(400, "BadRequest");
    api.patch(MERGE, &format!("{parent}/scale"), json!({"spec": {"replicas": "x"}}))
        .await
        .fails(422, "Invalid");
}

#[tokio::test]
async fn who_sends_labels_with_a_status_owns_them() {
    let api = start_widgets().await;
    api.post(WIDGETS, widget("w")).await.ok(201);
    let at = format!("{WIDGETS}/w/status?fieldManager=ctl");
    let both = json!({"metadata": {"labels": {"l": "m"}}, "status": {"phase": "x"}});
    let w = api.patch(MERGE, &at, both).await.ok(200);
    assert!(w["metadata"]["labels"].is_null(), "only status is taken");
    let entries = w["metadata"]["managedFields"].as_array().unwrap();
    let mine = entries.iter().find(|e| e["manager"] == "ctl").unwrap();
    assert_eq!(mine["fieldsV1"]["f:metadata"], json!({"f:labels": {".": {}, "f:l": {}}}));
    assert_eq!(mine["fieldsV1"]["f:status"]["f:phase"], json!({}));
}

#[tokio::test]
async fn raw_data_is_owned_as_a_whole() {
    let api = start().await;
    let revision = |data: Value| json!({"apiVersion": "apps/v1", "kind": "ControllerRevision", "metadata": {"name": "r"}, "revision": 1, "data": data});
    let uri = "/apis/apps/v1/namespaces/default/controllerrevisions";
    let made = api.post(uri, revision(json!({"spec": {"a": 1}}))).await.ok(201);
    assert_eq!(made["metadata"]["managedFields"][0]["fieldsV1"]["f:data"], json!({}));
    let r = api.patch(APPLY, &format!("{uri}/r?fieldManager=app"), revision(json!({"spec": {"b": 1}}))).await;
    assert!(r.fails(409, "Conflict").ends_with(": .data"));
}

#[tokio::test]
async fn a_resize_changes_resources_only() {
    let api = start().await;
    let mut p = pod("p");
    p["spec"]["containers"][0]["resources"] = json!({"requests": {"cpu": "1"}});
    let made = api.post(PODS, p).await.ok(201);
    let name = made["spec"]["containers"][0]["name"].clone();
    let at = format!("{PODS}/p/resize?fieldManager=sizer");
    let with = |c: Value| {
        let mut c = c;
        c["name"] = name.clone();
        json!({"spec": {"containers": [c]}})
    };
    let two = json!({"image": "other", "resources": {"requests": {"cpu": "2"}}});
    let r = api.patch(STRATEGIC, &at, with(two)).await.ok(200);
    let c = &r["spec"]["containers"][0];
    assert_eq!(c["resources"]["requests"]["cpu"], "2");
    assert_eq!(c["image"], made["spec"]["containers"][0]["image"], "the rest is not taken");
    for (resources, why) in [
        (json!({"requests": {"ephemeral-storage": "1"}}), "only cpu and memory resources are mutable"),
        (json!({"limits": {"cpu": "1"}}), "must be less than or equal to cpu limit of 1"),
        (json!({"limits": {"cpu": "2", "memory": "1Gi"}}), "Pod QOS Class may not change"),
    ] {
        let m = api.patch(STRATEGIC, &at, with(json!({"resources": resources}))).await.fails(422, "Invalid");
        assert!(m.contains(why), "{m}");
    }
    let more = json!({"spec": {"containers": [{"name": "more", "image": "i"}]}});
    let m = api.patch(STRATEGIC, &at, more).await.fails(422, "Invalid");
    assert!(m.contains("containers may not be added or removed on resize"), "{m}");
}
