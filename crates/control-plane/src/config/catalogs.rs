//! Catalogs of operators, which are no part of a release.
//!
//! Where the management cluster imports images by itself, one ImageStream follows all catalogs, and a trigger on each
//! Deployment moves it to what was imported last. From then on the image is the trigger's to change, not ours.

use crate::Error;
use crate::pod::Pod;
use crate::scope::Scope;
use serde_json::{Value, json};

/// The annotation by which a Deployment follows tags of an ImageStream.
pub const TRIGGERS: &str = "image.openshift.io/triggers";
const STREAM: &str = "catalogs";
const CATALOGS: [&str; 3] = ["certified-operators", "community-operators", "redhat-operators"];

/// The image that the cluster's annotations name for a catalog.
fn named<'a>(scope: &'a Scope, catalog: &str) -> Option<&'a str> {
    scope.annotation(&format!("{catalog}-catalog-image")).filter(|i| !i.is_empty())
}

/// Catalogs are published by minor version.
fn published(scope: &Scope, catalog: &str) -> String {
    let name = catalog.trim_end_matches('s');
    let version: Vec<&str> = scope.release.version.split('.').take(2).collect();
    format!("registry.redhat.io/redhat/{name}-index:v{}", version.join("."))
}

/// What a catalog's pods run: what somebody named, a tag of the stream, or what is published.
pub fn image(scope: &Scope, catalog: &str) -> String {
    match named(scope, catalog) {
        Some(image) => image.to_owned(),
        None if scope.management.image_streams => format!("{STREAM}:{catalog}"),
        None => published(scope, catalog),
    }
}

/// The stream of all catalogs that nobody named an image for.
pub fn stream(scope: &Scope) -> Result<Vec<Value>, Error> {
    let followed = CATALOGS.iter().filter(|c| named(scope, c).is_none());
    let tags: Vec<Value> = followed
        .map(|c| {
            json!({"name": c, "from": {"kind": "DockerImage", "name": published(scope, c)},
                "importPolicy": {"scheduled": true, "importMode": "PreserveOriginal"},
                "referencePolicy": {"type": "Local"}})
        })
        .collect();
    if tags.is_empty() || !scope.management.image_streams {
        return Ok(Vec::new());
    }
    // Pods name tags; `local` is what lets them.
    Ok(vec![
        json!({"apiVersion": "image.openshift.io/v1", "kind": "ImageStream", "metadata": {"name": STREAM},
        "spec": {"lookupPolicy": {"local": true}, "tags": tags}}),
    ])
}

/// Makes a catalog's Deployment follow its tag.
pub fn follow(scope: &Scope, workload: &mut Value) {
    let name = workload["metadata"]["name"].as_str().unwrap_or_default();
    let Some(catalog) = name.strip_suffix("-catalog").map(str::to_owned) else { return };
    if !scope.management.image_streams || named(scope, &catalog).is_some() {
        return;
    }
    let trigger = |list: &str, container: &str| {
        json!({"from": {"kind": "ImageStreamTag", "name": format!("{STREAM}:{catalog}")},
            "fieldPath": format!("spec.template.spec.{list}[?(@.name==\"{container}\")].image")})
    };
    let triggers = json!([trigger("initContainers", "extract-content"), trigger("containers", "registry")]);
    workload["metadata"]["annotations"][TRIGGERS] = json!(triggers.to_string());
    if let Some(mut pod) = Pod::of(workload) {
        // Until the trigger has seen the tag, pods resolve it themselves.
        pod.annotate("alpha.image.policy.openshift.io/resolve-names", "*");
    }
}

/// Leaves a workload the image that its trigger put there.
pub fn keep(workload: &mut Value, image: &str) {
    let Some(mut pod) = Pod::of(workload) else { return };
    for container in pod.containers() {
        let tag = container.get("image").and_then(Value::as_str).is_some_and(|i| i.starts_with("catalogs:"));
        if tag {
            container.insert("image".into(), json!(image));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_trigger_put_there_stays_and_other_images_are_ours() {
        let mut workload = json!({"kind": "Deployment", "spec": {"template": {"spec": {
            "initContainers": [{"name": "extract-utilities", "image": "quay.example/olm@sha256:1"},
                {"name": "extract-content", "image": "catalogs:redhat-operators"}],
            "containers": [{"name": "registry", "image": "catalogs:redhat-operators"}]}}}});
        keep(&mut workload, "registry.example/index@sha256:2");
        let spec = &workload["spec"]["template"]["spec"];
        assert_eq!(spec["initContainers"][0]["image"], "quay.example/olm@sha256:1");
        assert_eq!(spec["initContainers"][1]["image"], "registry.example/index@sha256:2");
        assert_eq!(spec["containers"][0]["image"], "registry.example/index@sha256:2");
    }
}
