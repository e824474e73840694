//! Custom resources: from definition to deletion.

use crate::api::*;
use serde_json::{Value, json};

fn condition(crd: &Value, ty: &str) -> (String, String) {
    let c = crd["status"]["conditions"].as_array().unwrap().iter().find(|c| c["type"] == ty);
    let text = |c: &Value, f: &str| c[f].as_str().unwrap().to_owned();
    c.map(|c| (text(c, "status"), text(c, "reason"))).unwrap_or_default()
}

#[tokio::test]
async fn a_definition_is_served_as_soon_as_it_is_stored() {
    let api = start().await;
    let before = api.with("accept", V2).get("/apis").await;
    let crd = api.post(CRDS, widget_crd()).await.ok(201);
    let seen = api.get(&format!("{CRDS}/widgets.x.io")).await.ok(200);
    assert_eq!(crd, seen);
    assert_eq!(condition(&seen, "NamesAccepted"), ("True".into(), "NoConflicts".into()));
    assert_eq!(condition(&seen, "Established"), ("True".into(), "InitialNamesAccepted".into()));
    assert_eq!(seen["status"]["storedVersions"], json!(["v1"]));
    assert_eq!(seen["status"]["acceptedNames"]["listKind"], "WidgetList");
    assert_eq!(seen["spec"]["conversion"]["strategy"], "None");
    let after = api.with("accept", V2).get("/apis").await;
    assert_ne!(before.header("etag"), after.header("etag"));
    let groups = after.body();
    let group = groups["items"].as_array().unwrap().iter().find(|g| g["metadata"]["name"] == "x.io").unwrap();
    let res = &group["versions"][0]["resources"][0];
    assert_eq!(res["shortNames"], json!(["wd"]));
    assert_eq!(res["categories"], json!(["all"]));
    assert_eq!((&res["singularResource"], &res["scope"]), (&json!("widget"), &json!("Namespaced")));
    let subs: Vec<_> =
        res["subresources"].as_array().unwrap().iter().map(|s| s["subresource"].as_str().unwrap()).collect();
    assert_eq!(subs, ["status", "scale"]);
    let doc = api.get("/openapi/v3/apis/x.io/v1").await.ok(200);
    let schema = &doc["components"]["schemas"]["io.x.v1.Widget"];
    assert_eq!(
        schema["x-kubernetes-group-version-kind"],
        json!([{"group": "x.io", "version": "v1", "kind": "Widget"}])
    );
    assert_eq!(schema["properties"]["spec"]["properties"]["size"]["default"], 3);
    assert!(schema["properties"]["spec"]["x-kubernetes-validations"].is_array());
    assert!(api.get("/openapi/v3").await.ok(200)["paths"]["apis/x.io/v1"]["serverRelativeURL"].is_string());
    assert!(api.get("/openapi/v2").await.ok(200)["definitions"]["io.x.v1.Widget"].is_object());
    api.post(WIDGETS, widget("w")).await.ok(201);
}

const V2: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json";

#[tokio::test]
async fn bad_definitions_are_refused() {
    let api = start().await;
    let bad = async |change: &dyn Fn(&mut Value)| -> String {
        let mut c = widget_crd();
        change(&mut c);
        api.post(CRDS, c).await.fails(422, "Invalid")
    };
    let m = bad(&|c| c["metadata"]["name"] = json!("other.x.io")).await;
    assert!(
        m.contains(
            "metadata.name: Invalid value: \"other.x.io\": must be spec.names.plural+\".\"+spec.group"
        ),
        "{m}"
    );
    let m = bad(&|c| c["spec"]["versions"][0]["storage"] = json!(false)).await;
    assert!(m.contains("must have exactly one version marked as storage version"), "{m}");
    let m = bad(&|c| {
        c["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
            .as_object_mut()
            .unwrap()
            .remove("type")
            .map_or((), drop)
    })
    .await;
    assert!(m.contains("type: Required value"), "{m}");
    let m = bad(&|c| c["spec"]["versions"][0]["schema"] = Value::Null).await;
    assert!(m.contains("schema"), "{m}");
    let m = bad(&|c| {
        c["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["x-kubernetes-validations"][0]["rule"] = json!("self.(");
    })
    .await;
    assert!(m.contains("rule: Invalid value"), "{m}");
    let m = bad(&|c| c["spec"]["group"] = json!("x.k8s.io")).await;
    assert!(m.contains("metadata.name") || m.contains("api-approved"), "{m}");
    let m = bad(&|c| c["spec"]["scope"] = json!("Global")).await;
    assert!(m.contains("spec.scope: Unsupported value: \"Global\""), "{m}");
}

#[tokio::test]
async fn names_that_are_taken_wait_until_they_are_free() {
    let api = start_widgets().await;
    let mut other = widget_crd();
    other["metadata"]["name"] = json!("gadgets.x.io");
    other["spec"]["names"] = json!({"plural": "gadgets", "kind": "Gadget", "shortNames": ["wd"]});
    let c = api.post(CRDS, other).await.ok(201);
    assert_eq!(condition(&c, "NamesAccepted"), ("False".into(), "ShortNamesConflict".into()));
    assert_eq!(condition(&c, "Established"), ("False".into(), "NotAccepted".into()));
    assert_eq!(api.get("/apis/x.io/v1/gadgets").await.code, 404);
    api.delete(&format!("{CRDS}/widgets.x.io")).await.ok(200);
    let c = api.until(CRDS, "gadgets.x.io", |_, o| condition(o, "Established").0 == "True").await;
    assert_eq!(condition(&c, "NamesAccepted").0, "True");
    api.get("/apis/x.io/v1/gadgets").await.ok(200);
}

#[tokio::test]
async fn schemas_prune_default_and_validate() {
    let api = start_widgets().await;
    let w = api.post(WIDGETS, json!({"kind": "Widget", "apiVersion": "x.io/v1", "metadata": {"name": "a"}, "spec": {"extra": 1}})).await.ok(201);
    assert_eq!(w["spec"], json!({"size": 3}));
    let mut w = widget("b");
    w["spec"]["size"] = json!(0);
    let r = api.post(WIDGETS, w.clone()).await;
    assert_eq!(r.body()["details"]["causes"][0]["field"], "spec.size");
    assert_eq!(
        r.fails(422, "Invalid"),
        "Widget.x.io \"b\" is invalid: spec.size: Invalid value: 0: spec.size in body should be greater than or equal to 1"
    );
    w["spec"]["size"] = json!("five");
    assert_eq!(
        api.post(WIDGETS, w).await.fails(422, "Invalid"),
        "Widget.x.io \"b\" is invalid: [spec.size: Invalid value: \"string\": spec.size in body must be of type integer: \"string\", <nil>: Invalid value: null: some validation rules were not checked because the object was invalid; correct the existing errors to complete validation]"
    );
    let mut w = widget("b");
    w["spec"]["color"] = json!("beige");
    let m = api.post(WIDGETS, w).await.fails(422, "Invalid");
    assert_eq!(m, "Widget.x.io \"b\" is invalid: spec: Invalid value: \"object\": beige is no color");
}

#[tokio::test]
async fn a_changed_schema_is_seen_on_reads_and_spares_what_was_there() {
    let api = start_widgets().await;
    let mut w = widget("a");
    w["spec"]["color"] = json!("red");
    let made = api.post(WIDGETS, w).await.ok(201);
    let at = format!("{CRDS}/widgets.x.io");
    let schema = "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties";
    api.patch(JSON_PATCH, &at, json!([
        {"op": "add", "path": format!("{schema}/shade"), "value": {"type": "string", "default": "dark"}},
        {"op": "replace", "path": format!("{schema}/size"), "value": {"type": "integer", "minimum": 100}},
        {"op": "remove", "path": format!("{schema}/color")},
        {"op": "remove", "path": "/spec/versions/0/selectableFields"},
        {"op": "remove", "path": "/spec/versions/0/schema/openAPIV3Schema/properties/spec/x-kubernetes-validations"}]))
    .await
    .ok(200);
    let read = api.get(&format!("{WIDGETS}/a")).await.ok(200);
    assert_eq!(read["spec"], json!({"size": 5, "shade": "dark"}), "defaulted and pruned on the way out");
    assert_eq!(rv(&read), rv(&made));
    let list = api.get(WIDGETS).await.ok(200);
    assert_eq!(list["items"][0]["spec"], read["spec"]);
    let first = api.watch(&format!("{WIDGETS}?watch=1")).await.next().await.unwrap();
    assert_eq!(first["object"]["spec"], read["spec"]);
    // A value that has become invalid may stay, but not be written anew.
    api.patch(MERGE, &format!("{WIDGETS}/a"), json!({"metadata": {"labels": {"x": "y"}}})).await.ok(200);
    api.patch(MERGE, &format!("{WIDGETS}/a"), json!({"spec": {"size": 6}})).await.fails(422, "Invalid");
    api.patch(MERGE, &format!("{WIDGETS}/a"), json!({"spec": {"size": 600}})).await.ok(200);
}

#[tokio::test]
async fn versions_without_conversion_differ_in_name_only() {
    let api = start().await;
    let mut crd = widget_crd();
    let mut beta = crd["spec"]["versions"][0].clone();
    beta["name"] = json!("v1beta1");
    beta["storage"] = json!(false);
    beta["deprecated"] = json!(true);
    crd["spec"]["versions"].as_array_mut().unwrap().push(beta);
    api.post(CRDS, crd.clone()).await.ok(201);
    let old = "/apis/x.io/v1beta1/namespaces/default/widgets";
    let mut w = widget("a");
    w["apiVersion"] = json!("x.io/v1beta1");
    let r = api.post(old, w).await;
    assert_eq!(r.warnings(), ["299 - \"x.io/v1beta1 Widget is deprecated\""]);
    assert_eq!(r.ok(201)["apiVersion"], "x.io/v1beta1");
    assert_eq!(api.get(&format!("{WIDGETS}/a")).await.ok(200)["apiVersion"], "x.io/v1");
    let list = api.get(old).await.ok(200);
    assert_eq!(
        (&list["apiVersion"], &list["items"][0]["apiVersion"]),
        (&json!("x.io/v1beta1"), &json!("x.io/v1beta1"))
    );
    let mut watch = api.watch(&format!("{old}?watch=1")).await;
    assert_eq!(watch.next().await.unwrap()["object"]["apiVersion"], "x.io/v1beta1");
    // Changing the storage version adds to what is stored.
    let mut next = api.get(&format!("{CRDS}/widgets.x.io")).await.ok(200);
    next["spec"]["versions"][0]["storage"] = json!(false);
    next["spec"]["versions"][1]["storage"] = json!(true);
    let next = api.put(&format!("{CRDS}/widgets.x.io"), next).await.ok(200);
    assert_eq!(next["status"]["storedVersions"], json!(["v1", "v1beta1"]));
    assert_eq!(api.get(&format!("{WIDGETS}/a")).await.ok(200)["spec"]["size"], 5);
    let mut gone = next.clone();
    gone["spec"]["versions"].as_array_mut().unwrap().remove(0);
    let m = api.put(&format!("{CRDS}/widgets.x.io"), gone).await.fails(422, "Invalid");
    assert!(m.contains("status.storedVersions[0]: Invalid value: \"v1\": missing from spec.versions"), "{m}");
}

#[tokio::test]
async fn a_deleted_definition_takes_its_instances_along() {
    let api = start_widgets().await;
    api.post(WIDGETS, widget("free")).await.ok(201);
    let mut held = widget("held");
    held["metadata"]["finalizers"] = json!(["x.io/hold"]);
    api.post(WIDGETS, held).await.ok(201);
    let mut instances = api.watch(&format!("{WIDGETS}?watch=1")).await;
    assert_eq!(instances.names(2).await, ["ADDED free", "ADDED held"]);
    let dying = api.delete(&format!("{CRDS}/widgets.x.io")).await.ok(200);
    assert_eq!(dying["metadata"]["finalizers"], json!(["customresourcecleanup.apiextensions.k8s.io"]));
    assert_eq!(condition(&dying, "Terminating").0, "True");
    let r = api.post(WIDGETS, widget("late")).await;
    assert_eq!(
        r.fails(405, "MethodNotAllowed"),
        "create not allowed while custom resource definition is terminating"
    );
    let mut seen = instances.names(2).await;
    seen.sort();
    assert_eq!(seen, ["DELETED free", "MODIFIED held"]);
    let mut w = api.watch(&format!("{CRDS}?watch=1&fieldSelector=metadata.name%3Dwidgets.x.io")).await;
    api.patch(MERGE, &format!("{WIDGETS}/held"), json!({"metadata": {"finalizers": null}})).await.ok(200);
    assert_eq!(instances.names(1).await, ["DELETED held"]);
    while w.next().await.unwrap()["type"] != "DELETED" {}
    assert_eq!(api.get(WIDGETS).await.code, 404);
    // The same name again starts empty.
    api.post(CRDS, widget_crd()).await.ok(201);
    assert!(names(&api.get(WIDGETS).await.ok(200)).is_empty());
}

#[tokio::test]
async fn strategic_patches_need_a_built_in_kind() {
    let api = start_widgets().await;
    api.post(WIDGETS, widget("a")).await.ok(201);
    assert_eq!(
        api.patch(STRATEGIC, &format!("{WIDGETS}/a"), json!({})).await.fails(415, "UnsupportedMediaType"),
        "the body of the request was in an unknown format - accepted media types include: application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml"
    );
}
