//! The documents against a real server's, and against what clients look for in them.

use ek_data::{ResourceDoc, openapi_v2, openapi_v3, openapi_v3_for, publishable_v2};
use ek_meta::Gvk;
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// `operations-1.34.tsv` is taken from `api/openapi-spec/v3` of kubernetes 1.34.3 (Apache-2.0): path, method,
/// operation id, action, kind.
#[test]
fn operations_are_those_of_a_real_server() {
    let documents = [openapi_v3("", "v1"), openapi_v3("apps", "v1"), openapi_v3("policy", "v1")];
    let mut ours = Vec::new();
    for (path, item) in documents.iter().flat_map(|d| d["paths"].as_object().unwrap()) {
        for (method, op) in item.as_object().unwrap().iter().filter(|(m, _)| *m != "parameters") {
            if path.starts_with("/api/v1/watch/") {
                continue;
            }
            let text = |v: &Value| v.as_str().unwrap_or("-").to_owned();
            ours.push(
                [
                    path.clone(),
                    method.clone(),
                    text(&op["operationId"]),
                    text(&op["x-kubernetes-action"]),
                    text(&op["x-kubernetes-group-version-kind"]["kind"]),
                ]
                .join("\t"),
            );
        }
    }
    ours.sort();
    let real: Vec<&str> = include_str!("operations-1.34.tsv").lines().collect();
    for (o, r) in ours.iter().zip(&real) {
        assert_eq!(o, r);
    }
    assert_eq!(ours.len(), real.len());
}

fn dangling(document: &Value, prefix: &str, known: &Value) -> BTreeSet<String> {
    fn walk(v: &Value, out: &mut BTreeSet<String>) {
        match v {
            Value::Object(m) => {
                out.extend(m.get("$ref").and_then(Value::as_str).map(Into::into));
                m.values().for_each(|v| walk(v, out));
            }
            Value::Array(a) => a.iter().for_each(|v| walk(v, out)),
            _ => {}
        }
    }
    let mut refs = BTreeSet::new();
    walk(document, &mut refs);
    refs.into_iter().filter(|r| r.strip_prefix(prefix).is_none_or(|n| known.get(n).is_none())).collect()
}

#[test]
fn references_resolve() {
    for group in ek_data::GROUPS {
        for (version, _) in group.versions {
            let d = openapi_v3(group.name, version);
            let lost = dangling(&d, "#/components/schemas/", &d["components"]["schemas"]);
            assert!(lost.is_empty(), "{} {version}: {lost:?}", group.name);
        }
    }
    let d = openapi_v2();
    let lost = dangling(&d, "#/definitions/", &d["definitions"]);
    assert!(lost.is_empty(), "{lost:?}");
    assert_eq!(openapi_v3("example.com", "v1"), Value::Null);
}

/// kubectl decides between server-side and client-side validation by this parameter.
#[test]
fn patch_takes_field_validation() {
    let d = openapi_v3("apps", "v1");
    let patch = &d["paths"]["/apis/apps/v1/namespaces/{namespace}/deployments/{name}"]["patch"];
    let names: Vec<&str> =
        patch["parameters"].as_array().unwrap().iter().filter_map(|p| p["name"].as_str()).collect();
    assert_eq!(names, ["dryRun", "fieldManager", "fieldValidation", "force"]);
    assert_eq!(
        patch["x-kubernetes-group-version-kind"],
        json!({"group": "apps", "kind": "Deployment", "version": "v1"})
    );
    let schemas = &d["components"]["schemas"];
    assert_eq!(
        schemas["io.k8s.apimachinery.pkg.util.intstr.IntOrString"]["oneOf"],
        json!([{"type": "integer"}, {"type": "string"}])
    );
    let metadata = &schemas["io.k8s.api.apps.v1.Deployment"]["properties"]["metadata"];
    assert_eq!(metadata["default"], json!({}));
    assert_eq!(
        metadata["allOf"][0]["$ref"],
        "#/components/schemas/io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"
    );
}

#[test]
fn custom_resources_are_documented_like_built_in_ones() {
    let schema = json!({"type": "object", "properties": {"spec": {"type": "object",
        "x-kubernetes-validations": [{"rule": "true"}],
        "properties": {"cron": {"type": "string"}}}}});
    let doc = ResourceDoc::custom(
        Gvk::new("stable.example.com", "v1", "CronTab"),
        "crontabs",
        "CronTabList",
        true,
        schema,
    )
    .with_status()
    .with_scale();
    let d = openapi_v3_for("stable.example.com", "v1", &[doc]);
    let lost = dangling(&d, "#/components/schemas/", &d["components"]["schemas"]);
    assert!(lost.is_empty(), "{lost:?}");
    let object = "/apis/stable.example.com/v1/namespaces/{namespace}/crontabs/{name}";
    let patch = &d["paths"][object]["patch"];
    assert_eq!(patch["operationId"], "patchStableExampleComV1NamespacedCronTab");
    let content = patch["requestBody"]["content"].as_object().unwrap();
    assert!(!content.contains_key("application/strategic-merge-patch+json"));
    assert!(d["paths"].get(format!("{object}/scale")).is_some());
    assert!(d["paths"].get("/apis/stable.example.com/v1/watch/crontabs").is_none());
    let model = &d["components"]["schemas"]["com.example.stable.v1.CronTab"];
    assert!(model["properties"]["spec"]["x-kubernetes-validations"].is_array());
    assert!(model["properties"]["metadata"]["allOf"].is_array());
    assert_eq!(model["x-kubernetes-group-version-kind"][0]["kind"], "CronTab");
    let list = &d["components"]["schemas"]["com.example.stable.v1.CronTabList"];
    assert_eq!(list["required"], json!(["items"]));
}

#[test]
fn v2_says_only_what_v2_can() {
    let v3 = json!({
        "type": "object",
        "required": ["a", "n"],
        "properties": {
            "a": {"type": "string", "default": "x", "anyOf": [{"pattern": "a"}], "not": {"pattern": "b"}},
            "n": {"type": "object", "nullable": true, "properties": {"b": {"type": "string"}}},
            "p": {"type": "object", "x-kubernetes-preserve-unknown-fields": true, "properties": {"b": {"type": "string"}}},
            "l": {"type": "array", "x-kubernetes-preserve-unknown-fields": true, "items": {"type": "string"}},
            "i": {"x-kubernetes-int-or-string": true, "oneOf": [{"type": "integer"}, {"type": "string"}]},
            "m": {"type": "object", "additionalProperties": {"type": "string", "nullable": true}}
        }
    });
    let v2 = json!({
        "type": "object",
        "required": ["a"],
        "properties": {
            "a": {"type": "string"},
            "n": {},
            "p": {"x-kubernetes-preserve-unknown-fields": true},
            "l": {"x-kubernetes-preserve-unknown-fields": true},
            "i": {"x-kubernetes-int-or-string": true},
            "m": {"type": "object", "additionalProperties": {}}
        }
    });
    assert_eq!(publishable_v2(&v3), v2);
}
