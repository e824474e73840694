//! Cluster API's Azure kinds, `infrastructure.cluster.x-k8s.io/v1beta1`.
//!
//! What a hosted cluster needs of them is typed: workers in a network that exists. What only clusters with their own
//! control-plane machines use (bastions, API load balancers, cloud-provider overrides) is carried unread.

/// The version of the provider whose definitions and controllers these kinds were run with (`cargo xtask upstream`).
pub const UPSTREAM: &str = "v1.21.0";

pub mod azure_cluster;
pub mod azure_machine;
pub mod identity;

pub use azure_cluster::{AzureCluster, AzureClusterSpec, AzureClusterStatus};
pub use azure_machine::{
    AzureMachine, AzureMachineSpec, AzureMachineStatus, AzureMachineTemplate, AzureMachineTemplateSpec,
};
pub use identity::{AzureClusterIdentity, AzureClusterIdentitySpec, AzureClusterIdentityStatus};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

/// An operation of Azure that is still running: enough to ask again after a restart.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LongRunningOperation {
    #[serde(rename = "type")]
    pub type_: String,
    pub service_name: String,
    pub name: String,
    pub resource_group: Option<String>,
    /// Base64 of what is needed to ask again.
    pub data: String,
}
