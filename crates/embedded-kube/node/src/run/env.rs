//! A container's environment and arguments, as its spec asks for them.

use super::Blocked;
use crate::tables;
use base64::Engine;
use ek_meta::object;
use ek_server::Access;
use serde_json::Value;
use std::collections::BTreeMap;

pub(crate) type Env = BTreeMap<String, String>;

fn config_error(message: String) -> Blocked {
    Blocked { reason: "CreateContainerConfigError", message }
}

/// The data of a Secret or ConfigMap; `None` if there is none of that name.
pub(crate) fn data(access: &Access, secret: bool, ns: &str, name: &str) -> Option<BTreeMap<String, Vec<u8>>> {
    let table = if secret { &tables::SECRETS } else { &tables::CONFIG_MAPS };
    let object = access.look(table, ns, name)?;
    let decode = |v: &Value| {
        base64::engine::general_purpose::STANDARD.decode(v.as_str().unwrap_or_default()).unwrap_or_default()
    };
    let mut all = BTreeMap::new();
    for (k, v) in object["data"].as_object().into_iter().flatten() {
        let bytes = if secret { decode(v) } else { v.as_str().unwrap_or_default().into() };
        all.insert(k.clone(), bytes);
    }
    for (k, v) in object["binaryData"].as_object().into_iter().flatten() {
        all.insert(k.clone(), decode(v));
    }
    Some(all)
}

pub(crate) fn build(
    access: &Access,
    pod: &Value,
    container: &Value,
    pod_ip: &str,
    host_ip: &str,
) -> Result<Env, Blocked> {
    let ns = object::namespace(pod);
    let mut env = Env::new();
    for from in container["envFrom"].as_array().into_iter().flatten() {
        let prefix = from["prefix"].as_str().unwrap_or_default();
        for (field, secret, what) in [("secretRef", true, "secret"), ("configMapRef", false, "configmap")] {
            let r = &from[field];
            let Some(name) = r["name"].as_str() else { continue };
            match data(access, secret, ns, name) {
                Some(d) => env.extend(
                    d.into_iter()
                        .map(|(k, v)| (format!("{prefix}{k}"), String::from_utf8_lossy(&v).into_owned())),
                ),
                None if r["optional"] == true => {}
                None => return Err(config_error(format!("{what} {name:?} not found"))),
            }
        }
    }
    for e in container["env"].as_array().into_iter().flatten() {
        let Some(name) = e["name"].as_str() else { continue };
        let value = match &e["valueFrom"] {
            Value::Null => Some(expand(e["value"].as_str().unwrap_or_default(), &env)),
            from => value_from(access, pod, container, from, (pod_ip, host_ip))?,
        };
        if let Some(v) = value {
            env.insert(name.to_owned(), v);
        }
    }
    env.entry("HOSTNAME".into()).or_insert_with(|| object::name(pod).to_owned());
    Ok(env)
}

fn value_from(
    access: &Access,
    pod: &Value,
    container: &Value,
    from: &Value,
    ips: (&str, &str),
) -> Result<Option<String>, Blocked> {
    let ns = object::namespace(pod);
    for (field, secret, what) in [("secretKeyRef", true, "secret"), ("configMapKeyRef", false, "configmap")] {
        let r = &from[field];
        let (Some(name), Some(key)) = (r["name"].as_str(), r["key"].as_str()) else { continue };
        let optional = r["optional"] == true;
        return match data(access, secret, ns, name) {
            None if optional => Ok(None),
            None => Err(config_error(format!("{what} {name:?} not found"))),
            Some(mut d) => match d.remove(key) {
                Some(v) => Ok(Some(String::from_utf8_lossy(&v).into_owned())),
                None if optional => Ok(None),
                None => {
                    let of = if secret { "Secret" } else { "ConfigMap" };
                    Err(config_error(format!("couldn't find key {key} in {of} {ns}/{name}")))
                }
            },
        };
    }
    if let Some(path) = from["fieldRef"]["fieldPath"].as_str() {
        return Ok(Some(field(pod, path, ips)));
    }
    if let Some(r) = from["resourceFieldRef"]["resource"].as_str() {
        return Ok(Some(resource(pod, container, &from["resourceFieldRef"], r)));
    }
    Ok(None)
}

/// A field of the pod, as the downward API names it.
pub(crate) fn field(pod: &Value, path: &str, (pod_ip, host_ip): (&str, &str)) -> String {
    let text = |v: &Value| v.as_str().unwrap_or_default().to_owned();
    match path {
        "status.podIP" | "status.podIPs" => pod_ip.to_owned(),
        "status.hostIP" | "status.hostIPs" => host_ip.to_owned(),
        "metadata.labels" | "metadata.annotations" => {
            let map = &pod["metadata"][path.trim_start_matches("metadata.")];
            let lines = map.as_object().into_iter().flatten();
            lines.map(|(k, v)| format!("{k}={:?}\n", v.as_str().unwrap_or_default())).collect()
        }
        _ => {
            if let Some((map, key)) = path.strip_suffix("']").and_then(|p| p.split_once("['")) {
                return text(&pod["metadata"][map.trim_start_matches("metadata.")][key]);
            }
            text(pod.pointer(&format!("/{}", path.replace('.', "/"))).unwrap_or(&Value::Null))
        }
    }
}

/// A limit or request of a container, in units of its divisor.
pub(crate) fn resource(pod: &Value, container: &Value, r: &Value, name: &str) -> String {
    let container = match r["containerName"].as_str() {
        Some(other) => (pod["spec"]["containers"].as_array().into_iter().flatten())
            .find(|c| c["name"] == other)
            .unwrap_or(container),
        None => container,
    };
    let (list, what) = name.split_once('.').unwrap_or(("limits", name));
    let quantity = |v: &Value| v.as_str().unwrap_or("0").parse::<ek_meta::quantity::Quantity>().ok();
    let value = quantity(&container["resources"][list][what]).map_or(0.0, |q| q.as_f64());
    let divisor = quantity(&r["divisor"]).map_or(0.0, |q| q.as_f64());
    format!("{}", (value / if divisor > 0.0 { divisor } else { 1.0 }).ceil())
}

/// `$(NAME)` becomes its value, `$$` a dollar; what is unknown stays.
pub(crate) fn expand(text: &str, env: &Env) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('$') {
        out.push_str(&rest[..at]);
        rest = &rest[at + 1..];
        if let Some(after) = rest.strip_prefix('$') {
            out.push('$');
            rest = after;
        } else if let Some((name, after)) = rest.strip_prefix('(').and_then(|r| r.split_once(')')) {
            match env.get(name) {
                Some(v) => out.push_str(v),
                None => {
                    out.push_str("$(");
                    out.push_str(name);
                    out.push(')');
                }
            }
            rest = after;
        } else {
            out.push('$');
        }
    }
    out + rest
}

/// `command` or `args`, expanded.
pub(crate) fn words(list: &Value, env: &Env) -> Vec<String> {
    list.as_array().into_iter().flatten().filter_map(Value::as_str).map(|w| expand(w, env)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn references_expand_and_dollars_escape() {
        let env: Env = [("A".to_owned(), "1".to_owned())].into();
        assert_eq!(expand("x$(A)y$$(A)$(B)$", &env), "x1y$(A)$(B)$");
    }

    #[test]
    fn the_downward_api() {
        let pod = json!({"metadata": {"name": "p", "labels": {"a": "b"}, "annotations": {"x/y": "z"}},
            "spec": {"nodeName": "n", "containers": [{"name": "c", "resources": {"limits": {"memory": "64Mi", "cpu": "250m"}}}]}});
        let ips = ("10.0.0.1", "1.2.3.4");
        assert_eq!(field(&pod, "metadata.name", ips), "p");
        assert_eq!(field(&pod, "metadata.annotations['x/y']", ips), "z");
        assert_eq!(field(&pod, "metadata.labels", ips), "a=\"b\"\n");
        assert_eq!(field(&pod, "spec.nodeName", ips), "n");
        assert_eq!(field(&pod, "status.podIP", ips), "10.0.0.1");
        let c = &pod["spec"]["containers"][0];
        assert_eq!(resource(&pod, c, &json!({"divisor": "1Mi"}), "limits.memory"), "64");
        assert_eq!(resource(&pod, c, &json!({}), "limits.cpu"), "1");
    }
}
