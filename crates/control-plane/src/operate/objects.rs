//! Last touches on objects before they are applied.

use super::progress::{Rollout, Turn, VERSION};
use crate::certificates::plan::{Kind, Write};
use crate::scope::Scope;
use apis::hypershift::component::ComponentResource;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use clock::Random;
use kube::core::DynamicObject;
use reconcile::conditions::{Conditions, Finding, Status};
use serde_json::{Map, Value, json};

/// Everything of a control plane carries its namespace under this label, which is what watches select by.
pub const PLANE: &str = "hypershift.openshift.io/hosted-control-plane";

/// The version a workload was rendered for.
pub fn mark(scope: &Scope, object: &mut Value) {
    if matches!(object["kind"].as_str(), Some("Deployment" | "StatefulSet" | "Job" | "CronJob")) {
        object["metadata"]["annotations"][VERSION] = json!(scope.release.version);
    }
}

/// Owner, label, and text turned into data: what the API server would do with `stringData` nobody could compare.
pub fn finish(object: &mut Value, owner: &DynamicObject) {
    let namespace = object["metadata"]["namespace"].clone();
    object["metadata"]["labels"][PLANE] = namespace;
    if let Some(Value::Object(text)) = object.as_object_mut().and_then(|o| o.remove("stringData")) {
        let data: Map<String, Value> = text
            .into_iter()
            .map(|(k, v)| (k, json!(STANDARD.encode(v.as_str().unwrap_or_default()))))
            .collect();
        object["data"] = Value::Object(data);
    }
    reconcile::own(object, &super::KINDS.plane(), owner);
}

/// A planned Secret or ConfigMap as an object.
pub fn secret_of(scope: &Scope, w: &Write) -> Value {
    let labels: Map<String, Value> = w.labels.iter().map(|(k, v)| ((*k).to_owned(), json!(v))).collect();
    let metadata = json!({"name": w.name, "namespace": scope.namespace, "labels": labels});
    match w.kind {
        Kind::Secret => {
            let data: Map<String, Value> =
                w.data.iter().map(|(k, v)| (k.clone(), json!(STANDARD.encode(v)))).collect();
            json!({"apiVersion": "v1", "kind": "Secret", "type": "Opaque", "metadata": metadata, "data": data})
        }
        Kind::ConfigMap => {
            let data: Map<String, Value> =
                w.data.iter().map(|(k, v)| (k.clone(), json!(String::from_utf8_lossy(v)))).collect();
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data})
        }
    }
}

pub fn text_secret(scope: &Scope, name: &str, key: &str, text: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Secret", "type": "Opaque",
        "metadata": {"name": name, "namespace": scope.namespace}, "stringData": {key: text}})
}

/// Random text as its reader wants it: passwords in groups, session secrets as a document.
pub fn random_text(random: &Random, key: &str, length: usize) -> String {
    const LETTERS: &[u8] = b"ABCDEFGHIJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz23456789";
    let word =
        |n: usize| -> String { (0..n).map(|_| char::from(LETTERS[random.below(LETTERS.len())])).collect() };
    if key == "password" {
        // 23 characters: five, a dash, and so on, as kubeadmin's password always looks.
        return [word(5), word(5), word(5), word(5)].join("-");
    }
    let secrets = json!({"kind": "SessionSecrets", "apiVersion": "v1",
        "secrets": [{"authentication": word(length * 2), "encryption": word(length)}]});
    secrets.to_string()
}

/// How an object is listed among those of its component.
pub fn resource(object: &Value) -> ComponentResource {
    let text = |v: &Value| v.as_str().unwrap_or_default().to_owned();
    let version = text(&object["apiVersion"]);
    let group = version.split_once('/').map_or("", |(group, _)| group).to_owned();
    ComponentResource { group, kind: text(&object["kind"]), name: text(&object["metadata"]["name"]) }
}

/// What is known of a component.
#[derive(Clone, Copy, Debug)]
pub struct Standing<'a> {
    pub turn: Turn,
    pub rollout: &'a Rollout,
    /// Whom it waits for.
    pub after: &'a [&'static str],
    /// Why it could not be made.
    pub error: Option<&'a str>,
    /// What is wrong with its pods.
    pub trouble: Option<&'a str>,
}

/// What a ControlPlaneComponent says. `resources` are not known of one that has to wait.
pub fn component_status(
    o: &DynamicObject,
    standing: &Standing<'_>,
    resources: Option<&[ComponentResource]>,
    version: &str,
    now: jiff::Timestamp,
) -> Value {
    let Standing { turn, rollout: r, after, error, trouble } = *standing;
    let mut status = o.data.get("status").cloned().filter(Value::is_object).unwrap_or_else(|| json!({}));
    let mut all = Conditions::of(&status);
    let because = trouble.map(|t| format!("; {t}")).unwrap_or_default();
    let available = match r.available {
        true => Finding::new("Available", Status::True, "AsExpected", "it runs"),
        false if !r.there => Finding::new("Available", Status::False, "NotFound", "it is not deployed yet"),
        false => Finding::new(
            "Available",
            Status::False,
            "WaitingForAvailable",
            format!("{} of {} replicas are ready{because}", r.ready, r.wanted),
        ),
    };
    let rolled = r.there && r.complete && r.version == version;
    let done = rolled && r.lacks.is_empty();
    let rollout = match (turn, done, error) {
        (Turn::Waits, ..) => Finding::new(
            "RolloutComplete",
            Status::False,
            "WaitingForDependencies",
            format!("others come first: {}", after.join(", ")),
        ),
        (_, _, Some(error)) => Finding::new("RolloutComplete", Status::False, "ReconciliationError", error),
        (_, true, None) => {
            Finding::new("RolloutComplete", Status::True, "AsExpected", "all replicas are the wanted ones")
        }
        (_, false, None) if rolled => Finding::new(
            "RolloutComplete",
            Status::False,
            "WaitingForOperands",
            format!(
                "it runs, and the Deployments that it makes are not all there: {}{because}",
                r.lacks.join(", ")
            ),
        ),
        (_, false, None) => Finding::new(
            "RolloutComplete",
            Status::False,
            "WaitingForRolloutComplete",
            format!("{} of {} replicas are ready{because}", r.ready, r.wanted),
        ),
    };
    for finding in [available, rollout] {
        all.set(finding, o.metadata.generation, now);
    }
    if done {
        status["version"] = json!(version);
    }
    if let Some(list) = resources {
        status["resources"] = json!(list);
    }
    status["conditions"] = all.to_value();
    status
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    #[test]
    fn who_waits_says_for_whom_and_who_cannot_be_made_says_why() {
        let o: DynamicObject = serde_json::from_value(json!({"metadata": {"name": "x"}})).unwrap();
        let said = |standing: &Standing<'_>| {
            let status = component_status(&o, standing, None, "4.20.1", jiff::Timestamp::UNIX_EPOCH);
            let all = Conditions::of(&status);
            let c = all.get("RolloutComplete").unwrap();
            format!("{}: {}", c.reason, c.message)
        };
        let rollout = Rollout::default();
        let standing =
            Standing { turn: Turn::Now, rollout: &rollout, after: &[], error: None, trouble: None };
        assert_eq!(said(&standing), "WaitingForRolloutComplete: 0 of 0 replicas are ready");
        assert_eq!(said(&Standing { error: Some("no image"), ..standing }), "ReconciliationError: no image");
        let waits = Standing { turn: Turn::Waits, after: &["etcd", "kube-apiserver"], ..standing };
        assert_eq!(said(&waits), "WaitingForDependencies: others come first: etcd, kube-apiserver");
    }
}
