//! What machines can be told, and what compute can be asked, beside its resources.

use super::{Arm, VirtualMachines};
use crate::pipeline::{Client, Error, Service};
use arm::ResourceId;
use arm::types::{ComputeSku, InstanceView, Usage, VirtualMachine};
use futures::stream::BoxStream;
use serde::Deserialize;
use serde_json::Value;

/// Of sizes and what they can do.
const SKUS: &str = "2021-07-01";
const USAGES: &str = "2024-03-01";

/// Where a machine's console can be read; the links are good for a while.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BootDiagnostics {
    pub console_screenshot_blob_uri: Option<String>,
    pub serial_console_log_blob_uri: Option<String>,
}

impl Arm<VirtualMachines> {
    /// Starts it, and waits until it runs.
    pub async fn start(&self, id: &ResourceId) -> Result<(), Error> {
        self.tell(id, "start").await
    }

    /// Stops it; its host is kept, and paid for.
    pub async fn power_off(&self, id: &ResourceId) -> Result<(), Error> {
        self.tell(id, "powerOff").await
    }

    /// Stops it and gives its host back.
    pub async fn deallocate(&self, id: &ResourceId) -> Result<(), Error> {
        self.tell(id, "deallocate").await
    }

    pub async fn restart(&self, id: &ResourceId) -> Result<(), Error> {
        self.tell(id, "restart").await
    }

    /// Moves it to another host.
    pub async fn redeploy(&self, id: &ResourceId) -> Result<(), Error> {
        self.tell(id, "redeploy").await
    }

    /// Says that its disk can be made an image of. It cannot be started again.
    pub async fn generalize(&self, id: &ResourceId) -> Result<(), Error> {
        self.tell(id, "generalize").await
    }

    async fn tell(&self, id: &ResourceId, action: &str) -> Result<(), Error> {
        let _: Value = self.action(id, action, None).await?;
        Ok(())
    }

    /// How it is, rather than what it is.
    pub async fn instance_view(&self, id: &ResourceId) -> Result<InstanceView, Error> {
        let vm: VirtualMachine = self.get_with(id, &[("$expand", "instanceView")]).await?;
        Ok(vm.properties.and_then(|p| p.instance_view).unwrap_or_default())
    }

    pub async fn boot_diagnostics(&self, id: &ResourceId) -> Result<BootDiagnostics, Error> {
        self.action(id, "retrieveBootDiagnosticsData", None).await
    }
}

impl Client {
    /// What a region offers.
    pub fn compute_skus(
        &self,
        subscription: &str,
        location: &str,
    ) -> BoxStream<'static, Result<ComputeSku, Error>> {
        let path = format!("/subscriptions/{subscription}/providers/Microsoft.Compute/skus");
        let filter = format!("location eq '{location}'");
        self.pages(Service::Arm, super::handle::with_query(&path, SKUS, &[("$filter", &filter)]))
    }

    /// How much compute a subscription uses in a region, and how much it may.
    pub fn compute_usages(
        &self,
        subscription: &str,
        location: &str,
    ) -> BoxStream<'static, Result<Usage, Error>> {
        let path =
            format!("/subscriptions/{subscription}/providers/Microsoft.Compute/locations/{location}/usages");
        self.pages(Service::Arm, super::handle::with_query(&path, USAGES, &[]))
    }
}
