//! `Microsoft.ContainerRegistry`.

use super::fields;
use crate::{ProvisioningState, Resource};
use serde_json::Value;

pub type ContainerRegistry = Resource<ContainerRegistryProperties>;
pub type RegistryReplication = Resource<RegistryReplicationProperties>;

fields! {
    ContainerRegistryProperties {
        login_server "loginServer": String,
        admin_user_enabled "adminUserEnabled": bool,
        anonymous_pull_enabled "anonymousPullEnabled": bool,
        data_endpoint_enabled "dataEndpointEnabled": bool,
        public_network_access "publicNetworkAccess": String,
        zone_redundancy "zoneRedundancy": String,
        policies "policies": Value,
        creation_date "creationDate": String,
        provisioning_state "provisioningState": ProvisioningState,
    }

    RegistryReplicationProperties {
        region_endpoint_enabled "regionEndpointEnabled": bool,
        zone_redundancy "zoneRedundancy": String,
        status "status": Value,
        provisioning_state "provisioningState": ProvisioningState,
    }
}
