//! The published OpenAPI definitions, brought back from the JSON Schema dialect of their package.
//!
//! kubernetes-validate rewrites what Kubernetes publishes: types become `[type, null]`, apiVersion and kind
//! get an `enum`, IntOrString and Quantity become `oneOf`. All of that is undone here, so that what is stored
//! is the swagger dialect; ek-data derives OpenAPI v3 from it.

use super::join::GoTypes;
use super::{KUBERNETES, run};
use anyhow::{Context, Result};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;
use std::process::Command;

pub(crate) type Defs = BTreeMap<String, Value>;

/// Defaults that the Go types declare with `+default` and the published definitions leave out; without the
/// protocols, keys of associative lists could not be compared.
const DEFAULTS: [(&str, &str, &str); 32] = [
    ("core.v1.ContainerPort", "protocol", "\"TCP\""),
    ("core.v1.ServicePort", "protocol", "\"TCP\""),
    ("core.v1.RBDVolumeSource", "pool", "\"rbd\""),
    ("core.v1.RBDVolumeSource", "user", "\"admin\""),
    ("core.v1.RBDVolumeSource", "keyring", "\"/etc/ceph/keyring\""),
    ("core.v1.RBDPersistentVolumeSource", "pool", "\"rbd\""),
    ("core.v1.RBDPersistentVolumeSource", "user", "\"admin\""),
    ("core.v1.RBDPersistentVolumeSource", "keyring", "\"/etc/ceph/keyring\""),
    ("core.v1.ISCSIVolumeSource", "iscsiInterface", "\"default\""),
    ("core.v1.ISCSIPersistentVolumeSource", "iscsiInterface", "\"default\""),
    ("core.v1.AzureDiskVolumeSource", "cachingMode", "\"ReadWrite\""),
    ("core.v1.AzureDiskVolumeSource", "fsType", "\"ext4\""),
    ("core.v1.AzureDiskVolumeSource", "readOnly", "false"),
    ("core.v1.AzureDiskVolumeSource", "kind", "\"Shared\""),
    ("core.v1.ScaleIOVolumeSource", "storageMode", "\"ThinProvisioned\""),
    ("core.v1.ScaleIOVolumeSource", "fsType", "\"xfs\""),
    ("core.v1.ScaleIOPersistentVolumeSource", "storageMode", "\"ThinProvisioned\""),
    ("core.v1.ScaleIOPersistentVolumeSource", "fsType", "\"xfs\""),
    ("core.v1.FileKeySelector", "optional", "false"),
    ("core.v1.GRPCAction", "service", "\"\""),
    ("core.v1.ReplicationControllerSpec", "replicas", "1"),
    ("core.v1.ReplicationControllerSpec", "minReadySeconds", "0"),
    ("core.v1.LocalObjectReference", "name", "\"\""),
    ("resource.v1.DeviceToleration", "operator", "\"Equal\""),
    ("autoscaling.v1.ScaleSpec", "replicas", "0"),
    // These inline LocalObjectReference and its default with it.
    ("core.v1.ConfigMapKeySelector", "name", "\"\""),
    ("core.v1.ConfigMapEnvSource", "name", "\"\""),
    ("core.v1.ConfigMapProjection", "name", "\"\""),
    ("core.v1.SecretKeySelector", "name", "\"\""),
    ("core.v1.SecretEnvSource", "name", "\"\""),
    ("core.v1.SecretProjection", "name", "\"\""),
    ("core.v1.ConfigMapVolumeSource", "name", "\"\""),
];

/// Installs the package into a throw-away environment and returns its definitions and its version.
pub(crate) fn fetch(root: &Path) -> Result<(Value, String)> {
    let venv = root.join("target/tables-venv");
    let python = venv.join("bin/python");
    if !python.exists() {
        run(Command::new("python3").args(["-m", "venv"]).arg(&venv))?;
    }
    run(Command::new(&python).args(["-m", "pip", "-q", "install", "kubernetes-validate==1.37.0"]))?;
    let script = format!(
        "import kubernetes_validate as k, os, importlib.metadata as m\n\
         print(m.version('kubernetes-validate'))\n\
         print(os.path.join(os.path.dirname(k.__file__), 'kubernetes-json-schema', 'v{KUBERNETES}-local', '_definitions.json'))"
    );
    let out = run(Command::new(&python).args(["-c", &script]))?;
    let (version, path) = out.trim().split_once('\n').context("unexpected answer from python")?;
    Ok((serde_json::from_slice(&std::fs::read(path)?)?, version.to_owned()))
}

/// The served definitions: those Go's scheme reaches, in the swagger dialect.
pub(crate) fn clean(mut source: Value, go: &GoTypes) -> Result<Defs> {
    let Value::Object(all) = source["$defs"].take() else { anyhow::bail!("no $defs in the definitions") };
    let mut keep: Vec<String> = all.keys().filter(|n| wanted(n, go)).cloned().collect();
    let mut out = Defs::new();
    while let Some(name) = keep.pop() {
        if out.contains_key(&name) {
            continue;
        }
        let mut def =
            all.get(&name).with_context(|| format!("{name} is referred to but not defined"))?.clone();
        collect_refs(&def, &mut keep);
        rewrite(&mut def);
        out.insert(name, def);
    }
    correct(&mut out)?;
    Ok(out)
}

fn wanted(name: &str, go: &GoTypes) -> bool {
    let package = name.rsplit_once('.').map_or("", |p| p.0);
    let served = go.0.keys().any(|k| k.rsplit_once('.').is_some_and(|(p, _)| p == package));
    served || name.starts_with("io.k8s.apimachinery.")
}

fn collect_refs(v: &Value, out: &mut Vec<String>) {
    match v {
        Value::Object(m) => {
            if let Some(r) = m.get("$ref").and_then(Value::as_str) {
                out.extend(r.rsplit('/').next().map(Into::into));
            }
            m.values().for_each(|v| collect_refs(v, out));
        }
        Value::Array(a) => a.iter().for_each(|v| collect_refs(v, out)),
        _ => {}
    }
}

fn rewrite(schema: &mut Value) {
    let Some(m) = schema.as_object_mut() else { return };
    let single = match m.get("type") {
        Some(Value::Array(types)) => types.iter().find(|t| *t != "null").cloned(),
        _ => None,
    };
    if let Some(t) = single {
        m.insert("type".into(), t);
    }
    if let Some(Value::String(r)) = m.get_mut("$ref") {
        *r = r.replace("#/$defs/", "#/definitions/");
    }
    if let Some(Value::Object(properties)) = m.get_mut("properties") {
        for key in ["apiVersion", "kind"] {
            if let Some(Value::Object(p)) = properties.get_mut(key) {
                p.remove("enum");
            }
        }
        properties.values_mut().for_each(rewrite);
        sort(properties);
    }
    for key in ["items", "additionalProperties"] {
        m.get_mut(key).into_iter().for_each(rewrite);
    }
    sort(m);
}

fn sort(m: &mut Map<String, Value>) {
    m.sort_keys();
}

fn correct(defs: &mut Defs) -> Result<()> {
    for (name, ty, format) in [
        ("io.k8s.apimachinery.pkg.api.resource.Quantity", "string", None),
        ("io.k8s.apimachinery.pkg.util.intstr.IntOrString", "string", Some("int-or-string")),
    ] {
        let def = defs
            .get_mut(name)
            .and_then(Value::as_object_mut)
            .with_context(|| format!("{name} is missing"))?;
        def.remove("oneOf");
        def.insert("type".into(), json!(ty));
        if let Some(f) = format {
            def.insert("format".into(), json!(f));
        }
        sort(def);
    }
    for (ty, field, default) in DEFAULTS {
        let name = format!("io.k8s.api.{ty}");
        let property = defs
            .get_mut(&name)
            .and_then(|d| d.pointer_mut(&format!("/properties/{field}")))
            .and_then(Value::as_object_mut)
            .with_context(|| format!("{name} has no {field}"))?;
        property.insert("default".into(), serde_json::from_str(default)?);
        sort(property);
    }
    Ok(())
}

/// `apiVersion<TAB>kind<TAB>definition`, sorted. DeleteOptions and WatchEvent belong to every group: left out.
pub(crate) fn kinds(defs: &Defs) -> String {
    let mut rows = BTreeMap::new();
    for (name, def) in defs {
        let Some(list) = def["x-kubernetes-group-version-kind"].as_array() else { continue };
        for gvk in list.iter().filter(|_| list.len() == 1) {
            let part = |k: &str| gvk[k].as_str().unwrap_or_default();
            let group = part("group");
            let slash = if group.is_empty() { "" } else { "/" };
            rows.insert((format!("{group}{slash}{}", part("version")), part("kind")), name);
        }
    }
    let mut out = String::new();
    for ((api_version, kind), name) in rows {
        writeln!(out, "{api_version}\t{kind}\t{name}").unwrap_or_default();
    }
    out
}
