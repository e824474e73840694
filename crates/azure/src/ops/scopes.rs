//! What is asked of a scope rather than of a resource.

use super::handle::with_query;
use crate::pipeline::{Call, Client, Error, Service};
use arm::types::{DnsRecordSet, Permission, PrivateDnsRecordSet, Provider};
use arm::{Resource, ResourceId};
use futures::stream::BoxStream;
use http::Method;
use serde::Deserialize;
use serde_json::Value;

const RESOURCES: &str = "2021-04-01";

/// How Azure says a resource is.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Health {
    /// `Available`, `Unavailable`, `Degraded` or `Unknown`.
    pub availability_state: String,
    #[serde(default)]
    pub summary: Option<String>,
    #[serde(default)]
    pub reason_type: Option<String>,
}

impl Client {
    /// How a resource is, as far as Azure watches its kind.
    pub async fn health(&self, id: &ResourceId) -> Result<Health, Error> {
        let path = format!("{id}/providers/Microsoft.ResourceHealth/availabilityStatuses/current");
        let answer = self.send(Call::get(with_query(&path, "2023-07-01-preview", &[]))).await?;
        let read = |source| Error::Read { method: "GET".to_owned(), path: path.clone(), source };
        let mut said: Value = serde_json::from_slice(&answer.body).map_err(read)?;
        serde_json::from_value(said["properties"].take()).map_err(read)
    }

    /// Everything that exists in a subscription or group, as far as the caller may read it; `filter` as in
    /// `resourceType eq 'Microsoft.Network/virtualNetworks'`.
    pub fn resources(
        &self,
        scope: &ResourceId,
        filter: Option<&str>,
    ) -> BoxStream<'static, Result<Resource, Error>> {
        let query: Vec<(&str, &str)> = filter.into_iter().map(|f| ("$filter", f)).collect();
        self.pages(Service::Arm, with_query(&format!("{scope}/resources"), RESOURCES, &query))
    }

    pub fn subscriptions(&self) -> BoxStream<'static, Result<Value, Error>> {
        self.pages(Service::Arm, with_query("/subscriptions", "2022-12-01", &[]))
    }

    pub fn providers(&self, subscription: &str) -> BoxStream<'static, Result<Provider, Error>> {
        self.pages(
            Service::Arm,
            with_query(&format!("/subscriptions/{subscription}/providers"), RESOURCES, &[]),
        )
    }

    pub async fn provider(&self, subscription: &str, namespace: &str) -> Result<Provider, Error> {
        let path = format!("/subscriptions/{subscription}/providers/{namespace}");
        let answer = self.send(Call::new(Method::GET, with_query(&path, RESOURCES, &[]))).await?;
        serde_json::from_slice(&answer.body).map_err(|source| Error::Read {
            method: "GET".to_owned(),
            path,
            source,
        })
    }

    /// What the caller may do at a scope.
    pub fn permissions(&self, scope: &ResourceId) -> BoxStream<'static, Result<Permission, Error>> {
        let path = format!("{scope}/providers/Microsoft.Authorization/permissions");
        self.pages(Service::Arm, with_query(&path, "2022-04-01", &[]))
    }

    /// The record sets of a public zone, of all types.
    pub fn record_sets(&self, zone: &ResourceId) -> BoxStream<'static, Result<DnsRecordSet, Error>> {
        self.pages(Service::Arm, with_query(&format!("{zone}/recordsets"), "2018-05-01", &[]))
    }

    /// The record sets of a private zone, of all types.
    pub fn private_record_sets(
        &self,
        zone: &ResourceId,
    ) -> BoxStream<'static, Result<PrivateDnsRecordSet, Error>> {
        self.pages(Service::Arm, with_query(&format!("{zone}/ALL"), "2024-06-01", &[]))
    }
}
