//! Pods, and the templates that make them.

use super::{quantity, resources};
use crate::json::{Obj, absent, child, each, ensure, fill, fill_zero, text, zero};
use serde_json::{Value, json};

/// A pod that exists, as opposed to one a template describes: some defaults wait until here, because a template
/// is compared for changes and must not gain fields when a new release adds defaults to pods.
pub(super) fn pod(m: &mut Obj) {
    let Some(spec) = ensure(m, "spec") else { return };
    pod_spec(spec);
    for key in ["containers", "initContainers"] {
        each(spec, key, |c| {
            if let Some(r) = child(c, "resources") {
                requests_from_limits(r);
            }
        });
    }
    if let Some(r) = child(spec, "resources") {
        super::quantities(r, "limits");
        super::quantities(r, "requests");
        requests_from_limits(r);
    }
    fill(spec, "enableServiceLinks", true);
    if spec.get("hostNetwork") == Some(&Value::Bool(true)) {
        for key in ["containers", "initContainers"] {
            each(spec, key, |c| each(c, "ports", host_port));
        }
    }
}

/// On the host's network, a container's port is the host's.
fn host_port(p: &mut Obj) {
    if zero(p, "hostPort")
        && let Some(port) = p.get("containerPort").cloned()
    {
        p.insert("hostPort".into(), port);
    }
}

fn requests_from_limits(r: &mut Obj) {
    let Some(Value::Object(limits)) = r.get("limits") else { return };
    if limits.is_empty() {
        return;
    }
    let missing: Vec<(String, Value)> = limits
        .iter()
        .filter(|(k, _)| r.get("requests").and_then(|q| q.get(k.as_str())).is_none())
        .map(|(k, v)| (k.clone(), v.clone()))
        .collect();
    if missing.is_empty() {
        return;
    }
    if let Some(requests) = ensure(r, "requests") {
        requests.extend(missing);
    }
}

/// `template` of a workload.
pub(super) fn template_of(m: &mut Obj) {
    let Some(t) = ensure(m, "template") else { return };
    ensure(t, "metadata");
    if let Some(spec) = ensure(t, "spec") {
        pod_spec(spec);
    }
}

pub(super) fn pod_spec(spec: &mut Obj) {
    for key in ["containers", "initContainers", "ephemeralContainers"] {
        each(spec, key, container);
    }
    each(spec, "volumes", volume);
    fill_zero(spec, "restartPolicy", "Always");
    fill(spec, "terminationGracePeriodSeconds", 30);
    fill_zero(spec, "dnsPolicy", "ClusterFirst");
    ensure(spec, "securityContext");
    fill_zero(spec, "schedulerName", "default-scheduler");
    if let Some(overhead) = child(spec, "overhead") {
        overhead.values_mut().for_each(quantity);
    }
    mirror_service_account(spec);
}

/// The old name of the field is kept equal to the new one, which wins.
fn mirror_service_account(spec: &mut Obj) {
    let (new, old) = (text(spec, "serviceAccountName"), text(spec, "serviceAccount"));
    if new == old {
        return;
    }
    if new.is_empty() {
        let v = Value::from(old);
        spec.insert("serviceAccountName".into(), v);
    } else {
        let v = Value::from(new);
        spec.insert("serviceAccount".into(), v);
    }
}

fn container(c: &mut Obj) {
    resources(c);
    each(c, "ports", |p| fill_zero(p, "protocol", "TCP"));
    each(c, "env", |e| {
        let Some(from) = child(e, "valueFrom") else { return };
        if let Some(f) = child(from, "fieldRef") {
            fill_zero(f, "apiVersion", "v1");
        }
        if let Some(d) = child(from, "resourceFieldRef").and_then(|f| f.get_mut("divisor")) {
            quantity(d);
        }
    });
    for key in ["livenessProbe", "readinessProbe", "startupProbe"] {
        if let Some(p) = child(c, key) {
            probe(p);
        }
    }
    if let Some(l) = child(c, "lifecycle") {
        for key in ["postStart", "preStop"] {
            if let Some(h) = child(l, key) {
                http_get(h);
            }
        }
    }
    fill_zero(c, "terminationMessagePath", "/dev/termination-log");
    fill_zero(c, "terminationMessagePolicy", "File");
    if zero(c, "imagePullPolicy") {
        let policy = pull_policy(text(c, "image"));
        c.insert("imagePullPolicy".into(), policy.into());
    }
}

fn probe(p: &mut Obj) {
    http_get(p);
    if let Some(g) = child(p, "grpc") {
        fill(g, "service", "");
    }
    fill_zero(p, "timeoutSeconds", 1);
    fill_zero(p, "periodSeconds", 10);
    fill_zero(p, "successThreshold", 1);
    fill_zero(p, "failureThreshold", 3);
}

fn http_get(handler: &mut Obj) {
    if let Some(h) = child(handler, "httpGet") {
        fill_zero(h, "path", "/");
        fill_zero(h, "scheme", "HTTP");
    }
}

/// An image that may change under its name is pulled each time: one tagged `latest`, or not pinned at all.
pub(super) fn pull_policy(image: &str) -> &'static str {
    let (name, digest) = image.split_once('@').map_or((image, false), |(n, _)| (n, true));
    let last = name.rsplit('/').next().unwrap_or_default();
    let tag = last.split_once(':').map(|(_, t)| t);
    let moves = match tag {
        Some(t) => t == "latest",
        None => !digest && !name.is_empty(),
    };
    if moves { "Always" } else { "IfNotPresent" }
}

const SOURCES_WITH_MODE: [&str; 4] = ["secret", "configMap", "downwardAPI", "projected"];

fn volume(v: &mut Obj) {
    // A volume that says nothing is an empty directory.
    if v.iter().all(|(k, v)| k == "name" || v.is_null()) {
        v.insert("emptyDir".into(), json!({}));
        return;
    }
    for key in SOURCES_WITH_MODE {
        if let Some(s) = child(v, key) {
            fill(s, "defaultMode", 420);
        }
    }
    if let Some(s) = child(v, "downwardAPI") {
        each(s, "items", downward_item);
    }
    if let Some(p) = child(v, "projected") {
        each(p, "sources", |s| {
            if let Some(d) = child(s, "downwardAPI") {
                each(d, "items", downward_item);
            }
            if let Some(t) = child(s, "serviceAccountToken") {
                fill(t, "expirationSeconds", 3600);
            }
        });
    }
    source(v);
    if let Some(e) = child(v, "emptyDir")
        && let Some(limit) = e.get_mut("sizeLimit")
    {
        quantity(limit);
    }
    if let Some(i) = child(v, "image")
        && zero(i, "pullPolicy")
    {
        let policy = pull_policy(text(i, "reference"));
        i.insert("pullPolicy".into(), policy.into());
    }
    if let Some(t) = child(v, "ephemeral").and_then(|e| child(e, "volumeClaimTemplate")) {
        ensure(t, "metadata");
        if let Some(spec) = ensure(t, "spec") {
            super::storage::claim_spec(spec);
        }
    }
}

/// Sources that persistent volumes share with pods.
pub(super) fn source(v: &mut Obj) {
    if let Some(h) = child(v, "hostPath")
        && absent(h, "type")
    {
        h.insert("type".into(), "".into());
    }
    if let Some(i) = child(v, "iscsi") {
        fill_zero(i, "iscsiInterface", "default");
    }
    if let Some(r) = child(v, "rbd") {
        fill_zero(r, "pool", "rbd");
        fill_zero(r, "user", "admin");
        fill_zero(r, "keyring", "/etc/ceph/keyring");
    }
    if let Some(a) = child(v, "azureDisk") {
        fill(a, "cachingMode", "ReadWrite");
        fill(a, "kind", "Shared");
        fill(a, "fsType", "ext4");
        fill(a, "readOnly", false);
    }
    if let Some(s) = child(v, "scaleIO") {
        fill_zero(s, "storageMode", "ThinProvisioned");
        fill_zero(s, "fsType", "xfs");
    }
}

fn downward_item(i: &mut Obj) {
    if let Some(f) = child(i, "fieldRef") {
        fill_zero(f, "apiVersion", "v1");
    }
}
