//! The files that cluster commands read: formats as scripts expect them.

use crate::Error;
use crate::identities::{DataPlaneIdentities, Identities, WorkloadIdentities};
use crate::infra::{Facts, Infra};
use serde_json::{Map, Value, json};

/// workload-identities.json: two spaces, fixed order, no newline at the end.
pub fn workload_identities(w: &WorkloadIdentities) -> String {
    serde_json::to_string_pretty(w).unwrap_or_default()
}

/// All objects in the order of their keys.
fn sorted(v: Value) -> Value {
    match v {
        Value::Object(m) => {
            let mut pairs: Vec<(String, Value)> = m.into_iter().map(|(k, v)| (k, sorted(v))).collect();
            pairs.sort_by(|a, b| a.0.cmp(&b.0));
            Value::Object(pairs.into_iter().collect())
        }
        Value::Array(l) => Value::Array(l.into_iter().map(sorted).collect()),
        other => other,
    }
}

/// The infrastructure: YAML with sorted keys.
pub fn infra(infra: &Infra, facts: &Facts) -> Result<String, Error> {
    let zone = facts.zone.as_ref().ok_or_else(|| Error::Incomplete("the public zone".to_owned()))?;
    text(infra, zone.as_str())
}

/// The same before anybody was asked: all but the public zone follows from the flags.
pub fn foreseen_infra(infra: &Infra) -> Result<String, Error> {
    text(infra, "")
}

fn text(infra: &Infra, zone: &str) -> Result<String, Error> {
    let at = infra.layout()?;
    let mut out = Map::new();
    let mut set = |k: &str, v: Value| drop(out.insert(k.to_owned(), v));
    set("baseDomain", infra.base_domain.as_str().into());
    set("bootImageID", "".into());
    set("infraID", infra.cluster.infra_id.as_str().into());
    set("privateZoneID", at.private_zone.as_str().into());
    set("publicZoneID", zone.into());
    set("region", infra.location.as_str().into());
    set("resourceGroupName", at.main.name().into());
    set("securityGroupID", at.security_group.as_str().into());
    set("subnetID", at.subnet.as_str().into());
    set("vnetID", at.vnet.as_str().into());
    if let Some(nat) = &at.nat_subnet {
        set("natSubnetID", nat.as_str().into());
    }
    match &infra.identities {
        Identities::Workload(w) => {
            let mut object = serde_json::to_value(w).unwrap_or_default();
            let kms = object.as_object_mut().and_then(|o| o.remove("kmsClientID"));
            set("controlPlaneMIs", Value::Null);
            set("dataPlaneIdentities", json!(DataPlaneIdentities::default()));
            set("workloadIdentities", object);
            if let Some(kms) = kms {
                set("kmsClientID", kms);
            }
        }
        Identities::Managed { control_plane, data_plane } => {
            set("controlPlaneMIs", json!({"controlPlane": control_plane, "dataPlane": data_plane}));
            set("dataPlaneIdentities", json!(data_plane));
            set("workloadIdentities", Value::Null);
        }
    }
    let mut text = String::new();
    yaml(&sorted(Value::Object(out)), 0, &mut text);
    Ok(text)
}

/// A line per value, whatever its length: scripts read these files with grep and awk.
fn yaml(v: &Value, depth: usize, out: &mut String) {
    for (k, v) in v.as_object().into_iter().flatten() {
        out.push_str(&"  ".repeat(depth));
        out.push_str(k);
        out.push(':');
        match v {
            Value::Object(m) if !m.is_empty() => {
                out.push('\n');
                yaml(v, depth + 1, out);
                continue;
            }
            Value::String(s) if plain(s) => out.push_str(&format!(" {s}")),
            // JSON is YAML.
            other => out.push_str(&format!(" {other}")),
        }
        out.push('\n');
    }
}

/// Whether a string needs no quotes: it cannot be read as anything but itself.
fn plain(s: &str) -> bool {
    let first = s.bytes().next().is_some_and(|b| b.is_ascii_alphanumeric() || b == b'/');
    let word = ["true", "false", "null", "yes", "no", "on", "off", "y", "n"];
    first
        && s.bytes().all(|b| b.is_ascii_alphanumeric() || b"/._-".contains(&b))
        && s.bytes().any(|b| b.is_ascii_alphabetic())
        && s.parse::<f64>().is_err()
        && !s.starts_with("0x")
        && !word.iter().any(|w| s.eq_ignore_ascii_case(w))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_stay_strings() {
        let v = json!({"a": "", "b": "1e5", "c": "yes", "d": "x: y", "e": null, "f": "/a/b", "g": {"h": "12"}, "i": "0x1f"});
        let mut text = String::new();
        yaml(&v, 0, &mut text);
        let back: Value = serde_saphyr::from_str(&text).unwrap();
        assert_eq!(back, v, "{text}");
        assert!(text.contains("f: /a/b\n") && text.contains("a: \"\"\n"));
    }
}
