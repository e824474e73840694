//! What is asked of a scope rather than of a resource.

use super::handle::with_query;
use crate::pipeline::{Call, Client, Error, Service};
use arm::types::{DnsRecordSet, Permission, PrivateDnsRecordSet, Provider};
use arm::{Resource, ResourceId};
use futures::stream::BoxStream;
use http::Method;
use serde_json::Value;

const RESOURCES: &str = "2021-04-01";

impl Client {
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
