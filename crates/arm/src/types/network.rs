//! `Microsoft.Network`, except DNS.

use super::{SubResource, fields};
use crate::{ProvisioningState, Resource};
use serde_json::Value;

pub type VirtualNetwork = Resource<VirtualNetworkProperties>;
pub type Subnet = Resource<SubnetProperties>;
pub type SecurityGroup = Resource<SecurityGroupProperties>;
pub type SecurityRule = Resource<SecurityRuleProperties>;
pub type PublicIpAddress = Resource<PublicIpProperties>;
pub type LoadBalancer = Resource<LoadBalancerProperties>;
pub type FrontendIp = Resource<FrontendIpProperties>;
pub type BackendPool = Resource<BackendPoolProperties>;
pub type LoadBalancingRule = Resource<LoadBalancingRuleProperties>;
pub type Probe = Resource<ProbeProperties>;
pub type OutboundRule = Resource<OutboundRuleProperties>;
pub type NetworkInterface = Resource<NetworkInterfaceProperties>;
pub type IpConfiguration = Resource<IpConfigurationProperties>;
pub type NatGateway = Resource<NatGatewayProperties>;
pub type RouteTable = Resource<RouteTableProperties>;
pub type Route = Resource<RouteProperties>;

fields! {
    AddressSpace { address_prefixes "addressPrefixes": Vec<String> }

    VirtualNetworkProperties {
        address_space "addressSpace": AddressSpace,
        /// Absent in a PUT, versions before 2023-09-01 remove all subnets and later ones keep them.
        subnets "subnets": Vec<Subnet>,
        dhcp_options "dhcpOptions": Value,
        enable_ddos_protection "enableDdosProtection": bool,
        resource_guid "resourceGuid": String,
        provisioning_state "provisioningState": ProvisioningState,
    }

    SubnetProperties {
        address_prefix "addressPrefix": String,
        address_prefixes "addressPrefixes": Vec<String>,
        network_security_group "networkSecurityGroup": SubResource,
        route_table "routeTable": SubResource,
        nat_gateway "natGateway": SubResource,
        service_endpoints "serviceEndpoints": Vec<Value>,
        delegations "delegations": Vec<Value>,
        private_endpoint_network_policies "privateEndpointNetworkPolicies": String,
        private_link_service_network_policies "privateLinkServiceNetworkPolicies": String,
        default_outbound_access "defaultOutboundAccess": bool,
        ip_configurations "ipConfigurations": Vec<SubResource>,
        private_endpoints "privateEndpoints": Vec<SubResource>,
        provisioning_state "provisioningState": ProvisioningState,
    }

    SecurityGroupProperties {
        security_rules "securityRules": Vec<SecurityRule>,
        default_security_rules "defaultSecurityRules": Vec<SecurityRule>,
        subnets "subnets": Vec<SubResource>,
        network_interfaces "networkInterfaces": Vec<SubResource>,
        resource_guid "resourceGuid": String,
        provisioning_state "provisioningState": ProvisioningState,
    }

    SecurityRuleProperties {
        description "description": String,
        protocol "protocol": String,
        source_port_range "sourcePortRange": String,
        source_port_ranges "sourcePortRanges": Vec<String>,
        destination_port_range "destinationPortRange": String,
        destination_port_ranges "destinationPortRanges": Vec<String>,
        source_address_prefix "sourceAddressPrefix": String,
        source_address_prefixes "sourceAddressPrefixes": Vec<String>,
        destination_address_prefix "destinationAddressPrefix": String,
        destination_address_prefixes "destinationAddressPrefixes": Vec<String>,
        access "access": String,
        priority "priority": u32,
        direction "direction": String,
        provisioning_state "provisioningState": ProvisioningState,
    }

    PublicIpProperties {
        allocation "publicIPAllocationMethod": String,
        version "publicIPAddressVersion": String,
        ip_address "ipAddress": String,
        idle_timeout_in_minutes "idleTimeoutInMinutes": u32,
        dns_settings "dnsSettings": Value,
        /// Who uses it.
        ip_configuration "ipConfiguration": SubResource,
        nat_gateway "natGateway": SubResource,
        resource_guid "resourceGuid": String,
        provisioning_state "provisioningState": ProvisioningState,
    }

    LoadBalancerProperties {
        frontends "frontendIPConfigurations": Vec<FrontendIp>,
        backend_pools "backendAddressPools": Vec<BackendPool>,
        rules "loadBalancingRules": Vec<LoadBalancingRule>,
        probes "probes": Vec<Probe>,
        inbound_nat_rules "inboundNatRules": Vec<Value>,
        outbound_rules "outboundRules": Vec<OutboundRule>,
        resource_guid "resourceGuid": String,
        provisioning_state "provisioningState": ProvisioningState,
    }

    FrontendIpProperties {
        private_ip_address "privateIPAddress": String,
        private_ip_allocation "privateIPAllocationMethod": String,
        subnet "subnet": SubResource,
        public_ip_address "publicIPAddress": SubResource,
        provisioning_state "provisioningState": ProvisioningState,
    }

    BackendPoolProperties {
        backend_ip_configurations "backendIPConfigurations": Vec<SubResource>,
        load_balancing_rules "loadBalancingRules": Vec<SubResource>,
        provisioning_state "provisioningState": ProvisioningState,
    }

    LoadBalancingRuleProperties {
        frontend "frontendIPConfiguration": SubResource,
        backend_pool "backendAddressPool": SubResource,
        probe "probe": SubResource,
        protocol "protocol": String,
        frontend_port "frontendPort": u32,
        backend_port "backendPort": u32,
        idle_timeout_in_minutes "idleTimeoutInMinutes": u32,
        enable_floating_ip "enableFloatingIP": bool,
        disable_outbound_snat "disableOutboundSnat": bool,
        load_distribution "loadDistribution": String,
        provisioning_state "provisioningState": ProvisioningState,
    }

    ProbeProperties {
        protocol "protocol": String,
        port "port": u32,
        request_path "requestPath": String,
        interval_in_seconds "intervalInSeconds": u32,
        number_of_probes "numberOfProbes": u32,
        provisioning_state "provisioningState": ProvisioningState,
    }

    OutboundRuleProperties {
        frontends "frontendIPConfigurations": Vec<SubResource>,
        backend_pool "backendAddressPool": SubResource,
        protocol "protocol": String,
        allocated_outbound_ports "allocatedOutboundPorts": u32,
        idle_timeout_in_minutes "idleTimeoutInMinutes": u32,
        provisioning_state "provisioningState": ProvisioningState,
    }

    NetworkInterfaceProperties {
        ip_configurations "ipConfigurations": Vec<IpConfiguration>,
        network_security_group "networkSecurityGroup": SubResource,
        enable_accelerated_networking "enableAcceleratedNetworking": bool,
        enable_ip_forwarding "enableIPForwarding": bool,
        virtual_machine "virtualMachine": SubResource,
        mac_address "macAddress": String,
        primary "primary": bool,
        provisioning_state "provisioningState": ProvisioningState,
    }

    IpConfigurationProperties {
        private_ip_address "privateIPAddress": String,
        private_ip_allocation "privateIPAllocationMethod": String,
        private_ip_version "privateIPAddressVersion": String,
        subnet "subnet": SubResource,
        public_ip_address "publicIPAddress": SubResource,
        backend_pools "loadBalancerBackendAddressPools": Vec<SubResource>,
        primary "primary": bool,
        provisioning_state "provisioningState": ProvisioningState,
    }

    NatGatewayProperties {
        public_ip_addresses "publicIpAddresses": Vec<SubResource>,
        public_ip_prefixes "publicIpPrefixes": Vec<SubResource>,
        idle_timeout_in_minutes "idleTimeoutInMinutes": u32,
        subnets "subnets": Vec<SubResource>,
        provisioning_state "provisioningState": ProvisioningState,
    }

    RouteTableProperties {
        routes "routes": Vec<Route>,
        disable_bgp_route_propagation "disableBgpRoutePropagation": bool,
        subnets "subnets": Vec<SubResource>,
        provisioning_state "provisioningState": ProvisioningState,
    }

    RouteProperties {
        address_prefix "addressPrefix": String,
        next_hop_type "nextHopType": String,
        next_hop_ip_address "nextHopIpAddress": String,
        provisioning_state "provisioningState": ProvisioningState,
    }
}
