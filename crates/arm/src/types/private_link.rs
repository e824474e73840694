//! Private endpoints and private link services.

use super::{NetworkInterface, SubResource, fields};
use crate::{ProvisioningState, Resource};
use serde_json::Value;

pub type PrivateEndpoint = Resource<PrivateEndpointProperties>;
pub type PrivateDnsZoneGroup = Resource<PrivateDnsZoneGroupProperties>;
pub type PrivateLinkService = Resource<PrivateLinkServiceProperties>;
pub type PrivateLinkConnection = Resource<PrivateLinkConnectionProperties>;
pub type PrivateEndpointConnection = Resource<PrivateEndpointConnectionProperties>;

fields! {
    PrivateEndpointProperties {
        subnet "subnet": SubResource,
        /// Whole only with `$expand=networkInterfaces`; else their ids.
        network_interfaces "networkInterfaces": Vec<NetworkInterface>,
        private_link_service_connections "privateLinkServiceConnections": Vec<PrivateLinkConnection>,
        manual_private_link_service_connections "manualPrivateLinkServiceConnections": Vec<PrivateLinkConnection>,
        custom_dns_configs "customDnsConfigs": Vec<CustomDnsConfig>,
        custom_network_interface_name "customNetworkInterfaceName": String,
        provisioning_state "provisioningState": ProvisioningState,
    }

    CustomDnsConfig { fqdn "fqdn": String, ip_addresses "ipAddresses": Vec<String> }

    PrivateLinkConnectionProperties {
        /// An id, or an alias.
        private_link_service_id "privateLinkServiceId": String,
        group_ids "groupIds": Vec<String>,
        request_message "requestMessage": String,
        private_link_service_connection_state "privateLinkServiceConnectionState": ConnectionState,
        provisioning_state "provisioningState": ProvisioningState,
    }

    /// `Pending`, `Approved`, `Rejected` or `Disconnected`.
    ConnectionState { status "status": String, description "description": String, actions_required "actionsRequired": String }

    PrivateDnsZoneGroupProperties {
        private_dns_zone_configs "privateDnsZoneConfigs": Vec<Value>,
        provisioning_state "provisioningState": ProvisioningState,
    }

    PrivateLinkServiceProperties {
        alias "alias": String,
        load_balancer_frontend_ip_configurations "loadBalancerFrontendIpConfigurations": Vec<SubResource>,
        ip_configurations "ipConfigurations": Vec<Value>,
        network_interfaces "networkInterfaces": Vec<SubResource>,
        private_endpoint_connections "privateEndpointConnections": Vec<PrivateEndpointConnection>,
        visibility "visibility": Subscriptions,
        auto_approval "autoApproval": Subscriptions,
        enable_proxy_protocol "enableProxyProtocol": bool,
        fqdns "fqdns": Vec<String>,
        provisioning_state "provisioningState": ProvisioningState,
    }

    Subscriptions { subscriptions "subscriptions": Vec<String> }

    PrivateEndpointConnectionProperties {
        private_endpoint "privateEndpoint": SubResource,
        private_link_service_connection_state "privateLinkServiceConnectionState": ConnectionState,
        link_identifier "linkIdentifier": String,
        provisioning_state "provisioningState": ProvisioningState,
    }
}
