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
    let at = infra.layout()?;
    let zone = facts.zone.as_ref().ok_or_else(|| Error::Incomplete("the public zone".to_owned()))?;
    let mut out = Map::new();
    let mut set = |k: &str, v: Value| drop(out.insert(k.to_owned(), v));
    set("baseDomain", infra.base_domain.as_str().into());
    set("bootImageID", "".into());
    set("infraID", infra.cluster.infra_id.as_str().into());
    set("privateZoneID", at.private_zone.as_str().into());
    set("publicZoneID", zone.as_str().into());
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
    serde_saphyr::to_string(&sorted(Value::Object(out))).map_err(|e| Error::Yaml(e.to_string()))
}
