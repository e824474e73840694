//! ClusterOperators as they are, as far as they matter.

use kube::core::DynamicObject;
use reconcile::conditions::{Conditions, Status};
use serde_json::Value;
use std::collections::BTreeSet;

/// One ClusterOperator.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Look {
    pub conditions: Conditions,
    /// Of operand `operator`.
    pub version: Option<String>,
    /// Types of conditions that somebody else reports. What somebody reports is not ours to say.
    pub foreign: BTreeSet<String>,
    /// Somebody else reports the version.
    pub version_is_foreign: bool,
}

impl Look {
    pub fn of(o: &DynamicObject, manager: &str) -> Look {
        let status = &o.data["status"];
        let versions = status["versions"].as_array().into_iter().flatten();
        let version = versions.filter(|v| v["name"] == "operator").find_map(|v| v["version"].as_str());
        let mut look = Look {
            conditions: Conditions::of(status),
            version: version.map(str::to_owned),
            ..Look::default()
        };
        for entry in o.metadata.managed_fields.iter().flatten() {
            if entry.manager.as_deref() == Some(manager) {
                continue;
            }
            let Some(fields) = &entry.fields_v1 else { continue };
            let status = &fields.0["f:status"];
            let owned = |list: &str| keys(&status[list]).collect::<Vec<_>>();
            look.foreign
                .extend(owned("f:conditions").iter().filter_map(|k| Some(k["type"].as_str()?.to_owned())));
            look.version_is_foreign |= owned("f:versions").iter().any(|k| k["name"] == "operator");
        }
        look
    }

    pub fn is(&self, kind: &str) -> bool {
        self.conditions.is_true(kind)
    }

    /// It is at a version, works and does not complain.
    pub fn is_at(&self, version: &str) -> bool {
        self.version.as_deref() == Some(version) && self.is("Available") && !self.is("Degraded")
    }

    /// Why it must not be upgraded to another minor version.
    pub fn objection(&self) -> Option<(String, String)> {
        let c = self.conditions.get("Upgradeable").filter(|c| c.status == Status::False)?;
        Some((c.reason.clone(), c.message.clone()))
    }
}

/// Keys of a keyed list, as managedFields write them: `k:{"type":"Available"}`.
fn keys(list: &Value) -> impl Iterator<Item = Value> {
    let names = list.as_object().into_iter().flat_map(|o| o.keys());
    names.filter_map(|k| serde_json::from_str(k.strip_prefix("k:")?).ok())
}
