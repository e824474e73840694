//! What an account is asked beside its resource.

use super::{Arm, StorageAccounts};
use crate::Secret;
use crate::pipeline::Error;
use arm::ResourceId;
use serde::Deserialize;
use serde_json::json;

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StorageKey {
    pub key_name: String,
    pub value: Secret,
}

#[derive(Deserialize)]
struct StorageKeys {
    keys: Vec<StorageKey>,
}

impl Arm<StorageAccounts> {
    /// For those who cannot do without; our own clients use tokens.
    pub async fn keys(&self, id: &ResourceId) -> Result<Vec<StorageKey>, Error> {
        Ok(self.action::<StorageKeys>(id, "listKeys", None).await?.keys)
    }

    /// Makes a key anew; what was signed with the old one ends.
    pub async fn regenerate_key(&self, id: &ResourceId, name: &str) -> Result<Vec<StorageKey>, Error> {
        let body = json!({"keyName": name});
        Ok(self.action::<StorageKeys>(id, "regenerateKey", Some(body)).await?.keys)
    }
}
