//! The envelope every resource comes in. What it does not name it keeps, in order: reading and writing back an
//! envelope loses nothing, whatever Azure adds.

use crate::{ProvisioningState, ResourceId};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// Tags, at most 50, names compared without regard to case.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Tags(pub BTreeMap<String, String>);

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TagsError {
    #[error("a resource has at most 50 tags")]
    TooMany,
    #[error("tag name '{0}' is empty, too long or contains a character that is not allowed")]
    Name(String),
    #[error("the value of tag '{0}' is longer than 256 characters")]
    Value(String),
    #[error("tag name '{0}' appears twice, in different casing")]
    Twice(String),
}

impl Tags {
    pub fn check(&self) -> Result<(), TagsError> {
        if self.0.len() > 50 {
            return Err(TagsError::TooMany);
        }
        let mut seen = std::collections::BTreeSet::new();
        for (name, value) in &self.0 {
            let bad = |c: char| matches!(c, '<' | '>' | '%' | '&' | '\\' | '?' | '/') || c.is_control();
            if name.is_empty() || name.chars().count() > 512 || name.contains(bad) {
                return Err(TagsError::Name(name.chars().take(64).collect()));
            }
            if value.chars().count() > 256 {
                return Err(TagsError::Value(name.clone()));
            }
            if !seen.insert(name.to_lowercase()) {
                return Err(TagsError::Twice(name.clone()));
            }
        }
        Ok(())
    }
}

/// Who made and last changed a resource. Resource providers get it in the `x-ms-arm-resource-system-data` header.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct SystemData {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub created_by: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub created_by_type: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub created_at: Option<jiff::Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_modified_by: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_modified_by_type: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_modified_at: Option<jiff::Timestamp>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Sku {
    pub name: String,
    #[serde(flatten)]
    pub other: Map<String, Value>,
}

/// `identity` of a resource: which managed identities it carries.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Identity {
    #[serde(rename = "type")]
    pub kind: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user_assigned_identities: Option<Map<String, Value>>,
    #[serde(flatten)]
    pub other: Map<String, Value>,
}

/// A resource whose properties are `P`; with the default, any resource at all.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Resource<P = Map<String, Value>> {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<ResourceId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    #[serde(default, rename = "type", skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub location: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tags: Option<Tags>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub etag: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub identity: Option<Identity>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sku: Option<Sku>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub system_data: Option<SystemData>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub properties: Option<P>,
    #[serde(flatten)]
    pub other: Map<String, Value>,
}

impl Resource {
    pub fn provisioning_state(&self) -> Option<ProvisioningState> {
        let s = self.properties.as_ref()?.get("provisioningState")?.as_str()?;
        Some(ProvisioningState::from(s.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn loses_nothing() {
        let v = json!({
            "id": "/subscriptions/s/resourceGroups/g/providers/A.B/c/d", "name": "d", "type": "A.B/c",
            "location": "westus2", "tags": {"b": "1", "a": "2"}, "etag": "W/\"x\"",
            "identity": {"type": "UserAssigned", "userAssignedIdentities": {"/x": {}}, "principalId": "p"},
            "sku": {"name": "Standard", "tier": "Regional"},
            "systemData": {"createdBy": "me", "createdAt": "2024-01-02T03:04:05Z"},
            "properties": {"provisioningState": "Succeeded", "novel": [1, {"x": null}]},
            "zones": ["1"], "extendedLocation": {"name": "e"}
        });
        let r: Resource = serde_json::from_value(v.clone()).unwrap();
        assert_eq!(r.provisioning_state(), Some(ProvisioningState::Succeeded));
        assert_eq!(serde_json::to_value(&r).unwrap(), v);
    }

    #[test]
    fn tags_have_limits() {
        let tags = |n: usize| Tags((0..n).map(|i| (format!("t{i}"), String::new())).collect());
        assert_eq!(tags(50).check(), Ok(()));
        assert_eq!(tags(51).check(), Err(TagsError::TooMany));
        let one = |k: &str, v: &str| Tags([(k.to_owned(), v.to_owned())].into()).check();
        assert!(one("a?b", "").is_err() && one("", "").is_err() && one("a", &"x".repeat(257)).is_err());
        let twice = Tags([("A".into(), String::new()), ("a".into(), String::new())].into());
        assert_eq!(twice.check(), Err(TagsError::Twice("a".into())));
    }
}
