//! The facts that assets may name: `{{word}}`, a closed list.

use crate::config::{features, version};
use crate::scope::Scope;
use crate::{Error, component};
use serde_json::Value;

/// Replaces the words in every string of a document. An environment variable whose image the release does not have is
/// left out; a container without its image is an error.
pub fn fill(scope: &Scope, place: &str, document: &mut Value) -> Result<(), Error> {
    match document {
        Value::String(s) if s.contains("{{") => *s = text(scope, place, s)?,
        Value::Array(items) => {
            items.retain(|item| !absent(scope, item));
            for item in items {
                fill(scope, place, item)?;
            }
        }
        Value::Object(map) => {
            for (_, value) in map.iter_mut() {
                fill(scope, place, value)?;
            }
        }
        _ => {}
    }
    Ok(())
}

/// An environment variable that would name an image this release does not have.
fn absent(scope: &Scope, item: &Value) -> bool {
    let Some(value) = item["value"].as_str() else { return false };
    let key = value.strip_prefix("{{image:").and_then(|v| v.strip_suffix("}}"));
    key.is_some_and(|key| component::image(scope, key).is_none())
}

fn text(scope: &Scope, place: &str, raw: &str) -> Result<String, Error> {
    let mut out = String::with_capacity(raw.len());
    let mut rest = raw;
    while let Some((before, after)) = rest.split_once("{{") {
        let Some((name, tail)) = after.split_once("}}") else { break };
        out.push_str(before);
        let value = word(scope, name)
            .ok_or_else(|| Error::Word { place: place.to_owned(), word: name.to_owned() })?;
        out.push_str(&value);
        rest = tail;
    }
    out.push_str(rest);
    Ok(out)
}

fn word(scope: &Scope, name: &str) -> Option<String> {
    if let Some(key) = name.strip_prefix("image:") {
        return component::image(scope, key);
    }
    let e = &scope.endpoints;
    Some(match name {
        "name" => scope.name.clone(),
        "namespace" => scope.namespace.clone(),
        "infraID" => scope.infra_id.clone(),
        "clusterID" => scope.cluster_id.clone(),
        "issuer" => scope.issuer.clone(),
        "release.image" => scope.release.image.clone(),
        "guest.image" => scope.guest_image.clone(),
        "release.version" => scope.release.version.clone(),
        "release.kubernetes" => scope.release.kubernetes.clone(),
        "registry.overrides" => scope.release.registry_overrides.clone(),
        "certificate.day" => scope.management.settings.certificate_day.clone(),
        "network.cluster" => scope.network.cluster.join(","),
        "network.service" => scope.network.service.join(","),
        "konnectivity.host" => e.konnectivity.host.clone(),
        "konnectivity.port" => e.konnectivity.port.to_string(),
        "oauth.host" => e.oauth.host.clone(),
        "oauth.port" => e.oauth.port.to_string(),
        "azure.tenant" => scope.azure.tenant.clone(),
        "azure.cloud" => scope.azure.cloud.clone(),
        "feature-gate.yaml" => features::document(scope),
        "feature-set" => features::set(scope).to_owned(),
        "cluster-version.json" => version::document(scope),
        "cvo.dropped" => version::dropped(scope),
        _ => return None,
    })
}
