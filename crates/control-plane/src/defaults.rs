//! What every pod of a control plane has in common.

use crate::component::{self, Component, Replicas};
use crate::pod::Pod;
use crate::scope::{Etcd, Scope};
use crate::{Error, Materials};
use aws_lc_rs::digest::{Context, SHA256};
use serde_json::{Value, json};

const PREFIX: &str = "hypershift.openshift.io";
/// A client bundle changes without anybody having to restart: programs read it again.
const NOT_HASHED: [&str; 1] = ["client-ca"];

/// Completes a workload: images, labels, placement, security, replicas.
pub fn complete(scope: &Scope, component: &Component, workload: &mut Value) -> Result<(), Error> {
    let replicas = component.replicas(scope);
    if matches!(workload["kind"].as_str(), Some("Deployment" | "StatefulSet")) {
        workload["spec"]["replicas"] = json!(replicas);
    }
    if workload["kind"] == "Deployment" {
        workload["spec"]["strategy"] = strategy(component, replicas);
    }
    let mut pod = Pod::of(workload).ok_or_else(|| Error::Manifest {
        component: component.name.to_owned(),
        what: "the pod template".to_owned(),
    })?;
    foreign_etcd(scope, &mut pod);
    images(scope, component, &mut pod)?;
    labels(scope, component, &mut pod);
    place(scope, component, &mut pod, replicas);
    secure(scope, component, &mut pod);
    requests(scope, component, &mut pod);
    Ok(())
}

/// An etcd that somebody else runs is spoken to with what they gave for it, and nobody here waits for it.
fn foreign_etcd(scope: &Scope, pod: &mut Pod<'_>) {
    let Etcd::Unmanaged { client_secret, .. } = &scope.etcd else { return };
    pod.remove_container("wait-for-etcd");
    let volumes = pod.spec().get_mut("volumes").and_then(Value::as_array_mut);
    for volume in volumes.into_iter().flatten() {
        if volume["secret"]["secretName"] == "etcd-client-tls" {
            volume["secret"]["secretName"] = json!(client_secret);
        } else if volume["configMap"]["name"] == "etcd-ca" {
            let items = json!([{"key": "etcd-client-ca.crt", "path": "ca.crt"}]);
            *volume =
                json!({"name": volume["name"], "secret": {"secretName": client_secret, "items": items}});
        }
    }
}

fn strategy(component: &Component, replicas: u32) -> Value {
    let (surge, unavailable) = match (replicas, component.serves_requests) {
        (3.., _) => (0, 1),
        (2, true) => (1, 1),
        _ => (1, 0),
    };
    json!({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": surge, "maxUnavailable": unavailable}})
}

fn images(scope: &Scope, component: &Component, pod: &mut Pod<'_>) -> Result<(), Error> {
    for container in pod.containers() {
        let key = container.get("image").and_then(Value::as_str).unwrap_or_default().to_owned();
        // A release image itself was named as a word and is one already.
        if key == scope.release.image || key == scope.guest_image {
            continue;
        }
        let image = component::image(scope, &key).ok_or_else(|| Error::Image {
            component: component.name.to_owned(),
            key: key.clone(),
            version: scope.release.version.clone(),
        })?;
        container.insert("image".into(), json!(image));
        container.entry("imagePullPolicy").or_insert_with(|| json!("IfNotPresent"));
        container.entry("terminationMessagePolicy").or_insert_with(|| json!("FallbackToLogsOnError"));
    }
    Ok(())
}

fn labels(scope: &Scope, component: &Component, pod: &mut Pod<'_>) {
    for (key, value) in &scope.pods.labels {
        pod.label(key, value);
    }
    pod.label(&format!("{PREFIX}/control-plane-component"), component.name);
    pod.label(&format!("{PREFIX}/hosted-control-plane"), &scope.namespace);
    if component.management {
        pod.label(&format!("{PREFIX}/need-management-kas-access"), "true");
    }
    if component.serves_requests {
        pod.label(&format!("{PREFIX}/request-serving-component"), "true");
    }
    if let Some(date) = scope.annotation("restart-date") {
        pod.annotate(&format!("{PREFIX}/restart-date"), date);
    }
}

fn place(scope: &Scope, component: &Component, pod: &mut Pod<'_>, replicas: u32) {
    let mut tolerations = vec![
        json!({"key": format!("{PREFIX}/control-plane"), "operator": "Equal", "value": "true", "effect": "NoSchedule"}),
        json!({"key": format!("{PREFIX}/cluster"), "operator": "Equal", "value": scope.namespace, "effect": "NoSchedule"}),
    ];
    let isolated = component.isolated(scope);
    if isolated {
        tolerations.push(
            json!({"key": format!("{PREFIX}/request-serving-component"), "operator": "Equal", "value": "true",
            "effect": "NoSchedule"}),
        );
    }
    tolerations.extend(scope.pods.tolerations.iter().cloned());
    let prefer = |weight: u32, key: &str, value: &str| {
        json!({"weight": weight, "preference": {"matchExpressions": [
            {"key": format!("{PREFIX}/{key}"), "operator": "In", "values": [value]}]}})
    };
    let together = json!({"weight": 100, "podAffinityTerm": {
        "labelSelector": {"matchLabels": {format!("{PREFIX}/hosted-control-plane"): scope.namespace}},
        "topologyKey": "kubernetes.io/hostname"}});
    let mut affinity = json!({
        "nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [
            prefer(50, "control-plane", "true"), prefer(100, "cluster", &scope.namespace)]},
        "podAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [together]},
    });
    if isolated {
        let must = |key: &str, value: &str| json!({"key": key, "operator": "In", "values": [value]});
        let mut all = vec![
            must(&format!("{PREFIX}/request-serving-component"), "true"),
            must(&format!("{PREFIX}/cluster"), &scope.namespace),
        ];
        let more = scope.annotation("request-serving-node-additional-selector").unwrap_or_default();
        all.extend(more.split(',').filter_map(|p| p.split_once('=')).map(|(k, v)| must(k.trim(), v.trim())));
        affinity["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"] =
            json!({"nodeSelectorTerms": [{"matchExpressions": all}]});
    }
    if replicas > 1 {
        let apart = |topology: &str| json!({"labelSelector": {"matchLabels": {"app": component.name}}, "topologyKey": topology});
        affinity["podAntiAffinity"] = json!({"requiredDuringSchedulingIgnoredDuringExecution": [
            apart("topology.kubernetes.io/zone"), apart("kubernetes.io/hostname")]});
    }
    let class = component.tier.priority_class(scope);
    let spec = pod.spec();
    spec.insert("priorityClassName".into(), json!(class));
    spec.insert("tolerations".into(), json!(tolerations));
    spec.insert("affinity".into(), affinity);
    if !scope.pods.node_selector.is_empty() {
        spec.insert("nodeSelector".into(), json!(scope.pods.node_selector));
    }
}

/// Nothing writes to its own image, nothing has rights it does not use.
fn secure(scope: &Scope, component: &Component, pod: &mut Pod<'_>) {
    let scratch = "tmp-dir";
    pod.volume(json!({"name": scratch, "emptyDir": {}}));
    for container in pod.containers() {
        container.insert(
            "securityContext".into(),
            json!({
                "readOnlyRootFilesystem": true,
                "allowPrivilegeEscalation": false,
                "capabilities": {"drop": ["ALL"]},
            }),
        );
        let mounts = container.entry("volumeMounts").or_insert_with(|| json!([]));
        let Some(mounts) = mounts.as_array_mut() else { continue };
        if !mounts.iter().any(|m| m["mountPath"] == "/tmp") {
            mounts.push(json!({"name": scratch, "mountPath": "/tmp"}));
        }
    }
    let spec = pod.spec();
    // Who does not talk to the management cluster has no token for it, but where its manifest says so.
    spec.entry("automountServiceAccountToken").or_insert(json!(component.management));
    spec.insert("imagePullSecrets".into(), json!([{"name": "pull-secret"}]));
    let mut context = json!({"runAsNonRoot": true, "seccompProfile": {"type": "RuntimeDefault"}});
    if let Some(uid) = scope.management.uid.filter(|_| !scope.management.openshift) {
        context["runAsUser"] = json!(uid);
        context["fsGroup"] = json!(uid);
    }
    spec.insert("securityContext".into(), context);
    for volume in spec.get_mut("volumes").and_then(Value::as_array_mut).into_iter().flatten() {
        if let Some(secret) = volume.get_mut("secret").and_then(Value::as_object_mut) {
            secret.entry("defaultMode").or_insert(json!(0o640));
        }
    }
}

/// Requests that the cluster's annotations change: `<prefix>/<workload>.<container>: cpu=1,memory=2Gi`.
fn requests(scope: &Scope, component: &Component, pod: &mut Pod<'_>) {
    for container in pod.containers() {
        let name = container.get("name").and_then(Value::as_str).unwrap_or_default();
        let key = format!("resource-request-override.{PREFIX}/{}.{name}", component.name);
        let Some(wanted) = scope.annotations.get(&key) else { continue };
        let resources = container.entry("resources").or_insert_with(|| json!({}));
        for (resource, amount) in wanted.split(',').filter_map(|p| p.split_once('=')) {
            resources["requests"][resource.trim()] = json!(amount.trim());
        }
    }
}

/// Marks a pod with a hash of all it mounts, names and keys included, so that it is replaced when that changes. Says what
/// went into it.
pub fn hash(pod: &mut Pod<'_>, materials: &dyn Materials) -> Vec<(&'static str, String)> {
    let mut mounted: Vec<(&'static str, String)> = Vec::new();
    for volume in pod.spec().get("volumes").and_then(Value::as_array).into_iter().flatten() {
        if let Some(name) = volume["secret"]["secretName"].as_str() {
            mounted.push(("Secret", name.to_owned()));
        }
        if let Some(name) = volume["configMap"]["name"].as_str() {
            mounted.push(("ConfigMap", name.to_owned()));
        }
    }
    mounted.retain(|(_, name)| !NOT_HASHED.contains(&name.as_str()));
    mounted.sort();
    mounted.dedup();
    let mut digest = Context::new(&SHA256);
    // Each part with its length: no two contents run into the same bytes.
    let mut feed = |bytes: &[u8]| {
        digest.update(&u64::try_from(bytes.len()).unwrap_or(u64::MAX).to_be_bytes());
        digest.update(bytes);
    };
    for (kind, name) in &mounted {
        feed(kind.as_bytes());
        feed(name.as_bytes());
        for (key, value) in materials.data(kind, name).into_iter().flatten() {
            feed(key.as_bytes());
            feed(&value);
        }
    }
    let digest = digest.finish();
    let text: String = digest.as_ref().iter().take(16).map(|b| format!("{b:02x}")).collect();
    pod.annotate(&format!("component.{PREFIX}/config-hash"), &text);
    mounted
}

/// Three members keep a quorum, and only an odd number is of use.
pub fn etcd_members(scope: &Scope) -> u32 {
    Replicas::Three.of(scope)
}
