//! The vocabulary of Azure Resource Manager.
//!
//! Resource ids, error bodies, api-versions, long-running operations, pages, system data and the resource
//! envelope: the words that the client, the simulator and the resource providers share, so that drift between
//! them is a compile error. Nothing here does IO or reads a clock. [`types`] has the resource types we work with, [`offer`]
//! what lists of sizes and usages mean for a machine.
//!
//! Rejected: one struct per segment of an id (every consumer wants the text back, in the casing it came in),
//! and bodies that are closed (Azure adds fields weekly; [`Resource`] and [`types`] keep what they do not know).

mod error;
mod id;
mod lro;
pub mod offer;
mod page;
mod resource;
pub mod types;
mod version;

pub use error::{ErrorBody, ErrorDetail, code};
pub use id::{IdError, ResourceId, ResourceType, Scope};
pub use lro::{OperationStatus, Polling, Progress, ProvisioningState};
pub use page::{Page, SkipToken};
pub use resource::{Identity, Resource, Sku, SystemData, Tags, TagsError};
pub use version::{ApiVersion, VersionError};
