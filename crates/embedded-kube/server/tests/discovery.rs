//! What is served, and how it says so.

use crate::api::*;
use serde_json::{Value, json};

fn accept(v: &str) -> String {
    format!("application/json;g=apidiscovery.k8s.io;v={v};as=APIGroupDiscoveryList")
}

#[tokio::test]
async fn aggregated_discovery() {
    let api = start().await;
    for v in ["v2", "v2beta1"] {
        for path in ["/api", "/apis"] {
            let r = api.with("accept", &format!("{},application/json", accept(v))).get(path).await;
            assert_eq!(r.header("content-type"), accept(v));
            assert_eq!(r.header("vary"), "Accept");
            let etag = r.header("etag").to_owned();
            assert!(etag.starts_with('"') && etag.ends_with('"'));
            let b = r.ok(200);
            assert_eq!(
                (&b["kind"], &b["apiVersion"]),
                (&json!("APIGroupDiscoveryList"), &json!(format!("apidiscovery.k8s.io/{v}")))
            );
            let same = api.with("accept", &accept(v)).with("if-none-match", &etag).get(path).await;
            assert_eq!((same.code, same.bytes.len()), (304, 0));
            assert_eq!(same.header("etag"), etag);
        }
    }
    let b = api.with("accept", &accept("v2")).get("/apis").await.ok(200);
    let groups: Vec<_> =
        b["items"].as_array().unwrap().iter().map(|g| g["metadata"]["name"].as_str().unwrap()).collect();
    let at = |n: &str| groups.iter().position(|g| *g == n).unwrap_or_else(|| panic!("{n} in {groups:?}"));
    assert!(at("apps") < at("batch") && at("apps") < at("apiextensions.k8s.io"));
    let apps = &b["items"][at("apps")]["versions"][0];
    assert_eq!((&apps["version"], &apps["freshness"]), (&json!("v1"), &json!("Current")));
    let d = apps["resources"].as_array().unwrap().iter().find(|r| r["resource"] == "deployments").unwrap();
    assert_eq!(d["responseKind"], json!({"group": "", "version": "", "kind": "Deployment"}));
    assert_eq!((&d["shortNames"], &d["categories"]), (&json!(["deploy"]), &json!(["all"])));
    assert_eq!(
        d["verbs"],
        json!(["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"])
    );
    let scale = d["subresources"].as_array().unwrap().iter().find(|s| s["subresource"] == "scale").unwrap();
    assert_eq!(scale["responseKind"], json!({"group": "autoscaling", "version": "v1", "kind": "Scale"}));
    let hpa = &b["items"][at("autoscaling")]["versions"];
    assert_eq!((&hpa[0]["version"], &hpa[1]["version"]), (&json!("v2"), &json!("v1")));
}

#[tokio::test]
async fn legacy_discovery() {
    let api = start().await;
    assert_eq!(api.get("/api").await.ok(200)["versions"], json!(["v1"]));
    let groups = api.with("accept", "application/json").get("/apis").await.ok(200);
    assert_eq!(groups["kind"], "APIGroupList");
    let apps = api.get("/apis/apps").await.ok(200);
    assert_eq!(
        (&apps["kind"], &apps["preferredVersion"]["groupVersion"]),
        (&json!("APIGroup"), &json!("apps/v1"))
    );
    let v1 = api.get("/api/v1").await.ok(200);
    assert_eq!((&v1["kind"], &v1["groupVersion"]), (&json!("APIResourceList"), &json!("v1")));
    let find = |n: &str| {
        v1["resources"].as_array().unwrap().iter().find(|r| r["name"] == n).cloned().unwrap_or_default()
    };
    assert_eq!(find("pods")["shortNames"], json!(["po"]));
    assert_eq!(
        (&find("pods/eviction")["group"], &find("pods/eviction")["kind"]),
        (&json!("policy"), &json!("Eviction"))
    );
    assert_eq!(find("serviceaccounts/token")["kind"], "TokenRequest");
    assert_eq!(api.get("/apis/none.io").await.code, 404);
    assert_eq!(api.get("/apis/apps/v9").await.code, 404);
}

#[tokio::test]
async fn openapi() {
    let api = start().await;
    let index = api.get("/openapi/v3").await.ok(200);
    let url = index["paths"]["apis/apps/v1"]["serverRelativeURL"].as_str().unwrap().to_owned();
    assert!(url.starts_with("/openapi/v3/apis/apps/v1?hash="));
    let r = api.get(&url).await;
    assert!(r.header("cache-control").contains("immutable"));
    let etag = r.header("etag").to_owned();
    let doc = r.ok(200);
    assert!(doc["openapi"].as_str().unwrap().starts_with("3.0"));
    let patch = &doc["paths"]["/apis/apps/v1/namespaces/{namespace}/deployments/{name}"]["patch"];
    assert_eq!(
        patch["x-kubernetes-group-version-kind"],
        json!({"group": "apps", "version": "v1", "kind": "Deployment"})
    );
    let names: Vec<&Value> = patch["parameters"].as_array().unwrap().iter().map(|p| &p["name"]).collect();
    for n in ["dryRun", "fieldManager", "fieldValidation", "force"] {
        assert!(names.iter().any(|x| *x == n), "{n} in {names:?}");
    }
    let schema = &doc["components"]["schemas"]["io.k8s.api.apps.v1.Deployment"];
    assert_eq!(
        schema["x-kubernetes-group-version-kind"],
        json!([{"group": "apps", "version": "v1", "kind": "Deployment"}])
    );
    assert_eq!(api.with("if-none-match", &etag).get(&url).await.code, 304);
    assert_eq!(api.get("/openapi/v3/apis/none/v1").await.code, 404);
    let v2 = api.get("/openapi/v2").await.ok(200);
    assert_eq!(v2["swagger"], "2.0");
    assert!(v2["definitions"]["io.k8s.api.core.v1.Pod"].is_object());
}

#[tokio::test]
async fn health_version_metrics() {
    let api = start().await;
    let v = api.get("/version").await.ok(200);
    let git = v["gitVersion"].as_str().unwrap();
    assert!(git.starts_with("v1.") && git.split('.').count() >= 3, "{git}");
    for p in ["/livez", "/readyz", "/healthz", "/livez/ping"] {
        let r = api.get(p).await;
        assert_eq!((r.code, r.text().as_str()), (200, "ok"), "{p}");
    }
    let r = api.get("/livez?verbose").await;
    assert!(
        r.text().starts_with("[+]ping ok\n") && r.text().ends_with("livez check passed\n"),
        "{}",
        r.text()
    );
    let m = api.get("/metrics").await;
    assert_eq!(m.code, 200);
    assert!(m.text().contains("apiserver_request_total"), "{}", m.text());
    assert!(api.get("/").await.ok(200)["paths"].as_array().unwrap().iter().any(|p| p == "/apis/apps/v1"));
    for p in ["/nothing", "/livez/none", "/api/v2"] {
        assert_eq!(api.get(p).await.code, 404, "{p}");
    }
}
