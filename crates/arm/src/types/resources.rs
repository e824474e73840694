//! `Microsoft.Resources`.

use super::fields;
use crate::{ProvisioningState, Resource, Tags};

pub type ResourceGroup = Resource<ResourceGroupProperties>;
/// The tags of a scope, as a resource of their own.
pub type TagsAt = Resource<TagsAtProperties>;

fields! {
    ResourceGroupProperties { provisioning_state "provisioningState": ProvisioningState }

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
