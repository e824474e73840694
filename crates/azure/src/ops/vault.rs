//! Vaults that were deleted: listed, recovered, purged.

use super::handle::with_query;
use super::{Arm, ArmType, Vaults};
use crate::Deleted;
use crate::lro::Operation;
use crate::pipeline::{Call, Client, Error, Service};
use arm::ResourceId;
use arm::types::{AccessPolicy, DeletedVault, KeyVault};
use futures::stream::BoxStream;
use http::Method;
use serde_json::{Value, json};

const VERSION: &str = Vaults::ROW.api_version;

/// `DeletedVaultNotFound`, and nothing else that is not found.
fn gone(e: &Error) -> bool {
    e.has_code("DeletedVaultNotFound")
}

fn path(subscription: &str, location: &str, name: &str) -> Result<ResourceId, Error> {
    let scope = ResourceId::subscription_scope(subscription)?;
    let at = scope.provider("Microsoft.KeyVault", "locations", location)?;
    Ok(at.child("deletedVaults", name)?)
}

impl Client {
    pub fn deleted_vaults(&self, subscription: &str) -> BoxStream<'static, Result<DeletedVault, Error>> {
        let path = format!("/subscriptions/{subscription}/providers/Microsoft.KeyVault/deletedVaults");
        self.pages(Service::Arm, with_query(&path, VERSION, &[]))
    }

    pub async fn deleted_vault(
        &self,
        subscription: &str,
        location: &str,
        name: &str,
    ) -> Result<Option<DeletedVault>, Error> {
        let at = path(subscription, location, name)?;
        match self.send(Call::get(with_query(at.as_str(), VERSION, &[]))).await {
            Ok(answer) => serde_json::from_slice(&answer.body).map(Some).map_err(|source| Error::Read {
                method: "GET".to_owned(),
                path: at.to_string(),
                source,
            }),
            Err(e) if gone(&e) => Ok(None),
            Err(e) => Err(e),
        }
    }

    /// Ends a deleted vault for good, with all it held, and waits for it. Its name is free again.
    pub async fn purge_vault(
        &self,
        subscription: &str,
        location: &str,
        name: &str,
    ) -> Result<Deleted, Error> {
        let at = path(subscription, location, name)?;
        let call = Call::new(Method::POST, with_query(&format!("{at}/purge"), VERSION, &[]));
        let mut operation: Operation<Value> = match self.begin(call.repeatable()).await {
            Ok(o) => o,
            Err(e) if gone(&e) => return Ok(Deleted::Absent),
            Err(e) => return Err(e),
        };
        operation.wait_raw().await?;
        Ok(Deleted::Done)
    }
}

impl Arm<Vaults> {
    /// Takes a deletion back: what the vault held is there again, who had rights in it is not.
    pub async fn recover(&self, id: &ResourceId, location: &str, tenant: &str) -> Result<KeyVault, Error> {
        let sku = json!({"family": "A", "name": "standard"});
        let properties = json!({"createMode": "recover", "tenantId": tenant, "sku": sku});
        let body = json!({"location": location, "properties": properties});
        let body: KeyVault = serde_json::from_value(body).map_err(|source| Error::Write {
            method: "PUT".to_owned(),
            path: id.to_string(),
            source,
        })?;
        self.put(id, &body).await
    }

    /// Adds rights, for vaults that go by policies; those of others stay.
    pub async fn add_policies(
        &self,
        id: &ResourceId,
        policies: &[AccessPolicy],
    ) -> Result<Vec<AccessPolicy>, Error> {
        let target = with_query(&format!("{id}/accessPolicies/add"), VERSION, &[]);
        let body = json!({"properties": {"accessPolicies": policies}});
        let answer = self.client().send(Call::new(Method::PUT, target).body(body)).await?;
        let read = |source| Error::Read { method: "PUT".to_owned(), path: id.to_string(), source };
        // The id in the answer is none: it ends in `/accessPolicies/`.
        let mut said: Value = serde_json::from_slice(&answer.body).map_err(read)?;
        serde_json::from_value(said["properties"]["accessPolicies"].take()).map_err(read)
    }
}
