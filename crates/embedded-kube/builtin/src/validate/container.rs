//! One container.

use super::path::{Errors, Path};
use super::{exceeds, port_name, port_or_name, quantities, quantity};
use crate::json::{bool_of, int_of, is_zero, list, str_of};
use ek_meta::names;
use serde_json::Value;

pub(super) struct Pod<'a> {
    pub(super) volumes: Vec<&'a str>,
    pub(super) host_network: bool,
}

/// `names` collects container names, which all lists of one pod share.
pub(super) fn containers<'a>(
    e: &mut Errors,
    p: &Path<'_>,
    all: &'a [Value],
    pod: &Pod<'_>,
    names: &mut Vec<&'a str>,
) {
    for (i, c) in all.iter().enumerate() {
        let p = p.index(i);
        let name = e.need(&p, c, "name");
        if !name.is_empty() {
            e.named(&p.child("name"), name, names::dns_label);
            if names.contains(&name) {
                e.duplicate(&p.child("name"), name);
            }
            names.push(name);
        }
        container(e, &p, c, pod);
    }
}

fn container(e: &mut Errors, p: &Path<'_>, c: &Value, pod: &Pod<'_>) {
    let image = str_of(c, "image");
    if image.is_empty() {
        e.required(&p.child("image"), "");
    } else if image.trim() != image {
        e.invalid(&p.child("image"), image, "must not have leading or trailing whitespace");
    }
    e.one_of(&p.child("imagePullPolicy"), c.get("imagePullPolicy"), &["Always", "IfNotPresent", "Never"]);
    e.one_of(
        &p.child("terminationMessagePolicy"),
        c.get("terminationMessagePolicy"),
        &["FallbackToLogsOnError", "File"],
    );
    ports(e, &p.child("ports"), list(c, "ports"), pod.host_network);
    env(e, &p.child("env"), list(c, "env"));
    mounts(e, &p.child("volumeMounts"), list(c, "volumeMounts"), pod);
    if let Some(r) = c.get("resources") {
        resources(e, &p.child("resources"), r);
    }
    for key in ["livenessProbe", "readinessProbe", "startupProbe"] {
        if let Some(probe) = c.get(key).filter(|v| v.is_object()) {
            let p = p.child(key);
            handler(e, &p, probe);
            e.not_negative(
                &p,
                probe,
                &[
                    "initialDelaySeconds",
                    "timeoutSeconds",
                    "periodSeconds",
                    "successThreshold",
                    "failureThreshold",
                ],
            );
            let once = int_of(probe, "successThreshold").filter(|n| *n != 1 && key != "readinessProbe");
            if let Some(n) = once {
                e.invalid(&p.child("successThreshold"), n, "must be 1");
            }
        }
    }
    if let Some(l) = c.get("lifecycle") {
        let p = p.child("lifecycle");
        for key in ["postStart", "preStop"] {
            if let Some(h) = l.get(key).filter(|v| v.is_object()) {
                handler(e, &p.child(key), h);
            }
        }
    }
}

fn ports(e: &mut Errors, p: &Path<'_>, all: &[Value], host_network: bool) {
    for (i, port) in all.iter().enumerate() {
        let p = p.index(i);
        let name = str_of(port, "name");
        if !name.is_empty() {
            e.named(&p.child("name"), name, port_name);
            if all.iter().take(i).any(|o| str_of(o, "name") == name) {
                e.duplicate(&p.child("name"), name);
            }
        }
        match int_of(port, "containerPort").unwrap_or_default() {
            0 => e.required(&p.child("containerPort"), ""),
            n => e.port(&p.child("containerPort"), n),
        }
        match int_of(port, "hostPort").unwrap_or_default() {
            0 => {}
            n => {
                e.port(&p.child("hostPort"), n);
                if host_network && Some(n) != int_of(port, "containerPort") {
                    e.invalid(
                        &p.child("hostPort"),
                        n,
                        "must match `containerPort` when `hostNetwork` is true",
                    );
                }
            }
        }
        e.one_of(&p.child("protocol"), port.get("protocol"), &["SCTP", "TCP", "UDP"]);
    }
}

fn env(e: &mut Errors, p: &Path<'_>, all: &[Value]) {
    for (i, v) in all.iter().enumerate() {
        let p = p.index(i);
        let name = e.need(&p, v, "name");
        // Any printable ASCII but `=` since 1.34.
        if !name.is_empty() && !name.bytes().all(|b| (0x20..0x7f).contains(&b) && b != b'=') {
            e.invalid(&p.child("name"), name, "a valid environment variable name must consist only of printable ASCII characters other than '='");
        }
        let Some(Value::Object(from)) = v.get("valueFrom") else { continue };
        let p = p.child("valueFrom");
        let sources = from.values().filter(|s| !s.is_null()).count();
        match sources {
            0 => e.invalid(
                &p,
                "",
                "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`",
            ),
            _ if !str_of(v, "value").is_empty() => {
                e.invalid(&p, "", "may not be specified when `value` is not empty");
            }
            1 => {}
            _ => e.invalid(&p, "", "may not have more than one field specified at a time"),
        }
        for key in ["configMapKeyRef", "secretKeyRef"] {
            if let Some(r) = from.get(key).filter(|r| r.is_object()) {
                e.need(&p.child(key), r, "key");
            }
        }
        if let Some(r) = from.get("fieldRef").filter(|r| r.is_object()) {
            e.need(&p.child("fieldRef"), r, "fieldPath");
        }
        if let Some(r) = from.get("resourceFieldRef").filter(|r| r.is_object()) {
            e.need(&p.child("resourceFieldRef"), r, "resource");
        }
    }
}

fn mounts(e: &mut Errors, p: &Path<'_>, all: &[Value], pod: &Pod<'_>) {
    for (i, m) in all.iter().enumerate() {
        let p = p.index(i);
        let name = e.need(&p, m, "name");
        if !name.is_empty() && !pod.volumes.contains(&name) {
            e.not_found(&p.child("name"), name);
        }
        let path = e.need(&p, m, "mountPath");
        if !path.is_empty() && all.iter().take(i).any(|o| str_of(o, "mountPath") == path) {
            e.invalid(&p.child("mountPath"), path, "must be unique");
        }
        let sub = str_of(m, "subPath");
        if sub.starts_with('/') {
            e.invalid(&p.child("subPath"), sub, "must be a relative path");
        } else if sub.split('/').any(|s| s == "..") {
            e.invalid(&p.child("subPath"), sub, "must not contain '..'");
        }
    }
}

pub(super) fn resources(e: &mut Errors, p: &Path<'_>, r: &Value) {
    let before = e.0.len();
    quantities(e, p, r, "limits");
    quantities(e, p, r, "requests");
    for key in ["limits", "requests"] {
        let p = p.child(key);
        for name in r.get(key).and_then(Value::as_object).into_iter().flat_map(|m| m.keys()) {
            resource_name(e, &p.key(name), name);
        }
    }
    if e.0.len() > before {
        return;
    }
    let (Some(Value::Object(requests)), Some(limits)) = (r.get("requests"), r.get("limits")) else { return };
    for (name, request) in requests {
        let Some(limit) = limits.get(name.as_str()) else { continue };
        if exceeds(request, limit) {
            let shown = quantity(limit).map_or_else(String::new, |q| q.to_string());
            e.invalid(
                &p.child("requests"),
                request.clone(),
                format!("must be less than or equal to {name} limit of {shown}"),
            );
        }
    }
}

/// What the system counts itself.
fn is_own_resource(name: &str) -> bool {
    matches!(name, "cpu" | "memory" | "ephemeral-storage") || name.starts_with("hugepages-")
}

fn resource_name(e: &mut Errors, p: &Path<'_>, name: &str) {
    if is_own_resource(name) {
        return;
    }
    let wrong = names::qualified_name(name);
    if !wrong.is_empty() {
        wrong.into_iter().for_each(|m| e.invalid(p, name, m));
    } else if !name.contains('/') {
        if !super::policy::is_standard_resource(name) {
            e.invalid(p, name, "must be a standard resource type or fully qualified");
        }
        e.invalid(p, name, "must be a standard resource for containers");
    }
}

const HANDLERS: [&str; 5] = ["exec", "httpGet", "tcpSocket", "grpc", "sleep"];

fn handler(e: &mut Errors, p: &Path<'_>, h: &Value) {
    let mut seen = 0;
    // By what is there rather than by name: lookups are what checking costs.
    for (key, x) in h.as_object().into_iter().flatten() {
        let key = key.as_str();
        if !HANDLERS.contains(&key) || !x.is_object() {
            continue;
        }
        let p = p.child(key);
        if seen > 0 {
            e.forbidden(&p, "may not specify more than 1 handler type");
            continue;
        }
        seen += 1;
        match key {
            "exec" if is_zero(x.get("command").unwrap_or(&Value::Null)) => {
                e.required(&p.child("command"), "")
            }
            "httpGet" => {
                if str_of(x, "path").is_empty() {
                    e.required(&p.child("path"), "");
                }
                port_or_name(e, &p.child("port"), x.get("port"));
                e.one_of(&p.child("scheme"), x.get("scheme"), &["HTTP", "HTTPS"]);
            }
            "tcpSocket" => port_or_name(e, &p.child("port"), x.get("port")),
            "grpc" => e.port(&p.child("port"), int_of(x, "port").unwrap_or_default()),
            _ => {}
        }
    }
    if seen == 0 {
        e.required(p, "must specify a handler type");
    }
}

/// What ephemeral containers may not have.
pub(super) fn ephemeral(e: &mut Errors, p: &Path<'_>, all: &[Value]) {
    for (i, c) in all.iter().enumerate() {
        let p = p.index(i);
        for key in ["ports", "livenessProbe", "readinessProbe", "startupProbe", "lifecycle"] {
            if !is_zero(c.get(key).unwrap_or(&Value::Null)) {
                e.forbidden(&p.child(key), "cannot be set for an Ephemeral Container");
            }
        }
        if bool_of(c, "stdinOnce") && !bool_of(c, "stdin") {
            e.invalid(&p.child("stdinOnce"), true, "requires `stdin`");
        }
    }
}
