//! Templates: would they be accepted, what would they change.

use super::{Arm, Deployments};
use crate::pipeline::Error;
use arm::types::Deployment;
use arm::{ErrorDetail, ResourceId};
use serde::Deserialize;
use serde_json::Value;

/// What a deployment would do.
#[derive(Clone, Debug, Deserialize)]
pub struct WhatIf {
    pub status: String,
    #[serde(default)]
    properties: Changes,
    #[serde(default)]
    pub error: Option<ErrorDetail>,
}

#[derive(Clone, Debug, Default, Deserialize)]
struct Changes {
    #[serde(default)]
    changes: Vec<WhatIfChange>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct WhatIfChange {
    pub resource_id: String,
    /// `Create`, `Modify`, `Delete`, `NoChange`, `Ignore`, `Deploy`, `Unsupported`.
    pub change_type: String,
    #[serde(default)]
    pub before: Value,
    #[serde(default)]
    pub after: Value,
    /// Per property, where there was something before.
    #[serde(default)]
    pub delta: Value,
}

impl WhatIf {
    pub fn changes(&self) -> &[WhatIfChange] {
        &self.properties.changes
    }
}

fn body(id: &ResourceId, verb: &str, what: &Deployment) -> Result<Value, Error> {
    serde_json::to_value(what).map_err(|source| Error::Write {
        method: "POST".to_owned(),
        path: format!("{id}/{verb}"),
        source,
    })
}

impl Arm<Deployments> {
    /// Whether it would be accepted; a template that would not is refused with what is wrong with it.
    pub async fn validate(&self, id: &ResourceId, what: &Deployment) -> Result<Deployment, Error> {
        self.action(id, "validate", Some(body(id, "validate", what)?)).await
    }

    /// What it would change. Nothing is changed.
    pub async fn what_if(&self, id: &ResourceId, what: &Deployment) -> Result<WhatIf, Error> {
        let said: WhatIf = self.action(id, "whatIf", Some(body(id, "whatIf", what)?)).await?;
        match said.error {
            Some(detail) => Err(Error::Operation { path: format!("{id}/whatIf"), detail: Box::new(detail) }),
            None => Ok(said),
        }
    }
}
