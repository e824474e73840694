//! `Microsoft.Resources`.

use super::{SubResource, fields};
use crate::{ProvisioningState, Resource, Tags};
use serde_json::Value;

pub type ResourceGroup = Resource<ResourceGroupProperties>;
pub type Deployment = Resource<DeploymentProperties>;
/// The tags of a scope, as a resource of their own.
pub type TagsAt = Resource<TagsAtProperties>;

fields! {
    ResourceGroupProperties { provisioning_state "provisioningState": ProvisioningState }

    DeploymentProperties {
        /// `Incremental` or `Complete`.
        mode "mode": String,
        /// Written, never read.
        template "template": Value,
        parameters "parameters": Value,
        outputs "outputs": Value,
        output_resources "outputResources": Vec<SubResource>,
        error "error": Value,
        provisioning_state "provisioningState": ProvisioningState,
    }

    TagsAtProperties { tags "tags": Tags }

    /// A resource provider as a subscription sees it.
    Provider {
        id "id": String,
        namespace "namespace": String,
        registration_state "registrationState": String,
        resource_types "resourceTypes": Vec<ProviderType>,
    }

    ProviderType {
        resource_type "resourceType": String,
        locations "locations": Vec<String>,
        api_versions "apiVersions": Vec<String>,
    }
}
