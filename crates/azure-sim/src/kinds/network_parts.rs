//! The embedded lists of the network types and their defaults.

use crate::kinds::{Flow, How, Part, Ref, SYNC, default, flow, properties};
use serde_json::{Map, Value, json};

const QUICK: Flow = flow(How::Async, 1, 2.0);
const QUICK_DELETE: Flow = flow(How::Async, 1, 2.0);
const SLOW_DELETE: Flow = flow(How::Async, 10, 11.0);
const DONE: Flow = flow(How::AsyncDone, 0, 0.0);

const fn inner(list: &'static str) -> Part {
    Part { list, verb: "", create: SYNC, delete: SYNC, refs: &[], parts: &[], defaults: nothing, in_use: "" }
}

fn nothing(_: &mut Map<String, Value>) {}

const fn link(at: &'static [&'static str], action: &'static str, back: &'static str, one: bool) -> Ref {
    Ref { at, action, back, one, loose: false }
}

const SUBNET_JOIN: &str = "Microsoft.Network/virtualNetworks/subnets/join/action";
const ADDRESS_JOIN: &str = "Microsoft.Network/publicIPAddresses/join/action";
pub const GROUP_JOIN: &str = "Microsoft.Network/networkSecurityGroups/join/action";
const POOL_JOIN: &str = "Microsoft.Network/loadBalancers/backendAddressPools/join/action";
const NAT_RULE_JOIN: &str = "Microsoft.Network/loadBalancers/inboundNatRules/join/action";

pub const SUBNETS: Part = Part {
    verb: "Subnet",
    create: flow(How::Async, 3, 2.0),
    delete: SLOW_DELETE,
    refs: &[
        link(&["properties", "networkSecurityGroup"], GROUP_JOIN, "subnets", false),
        link(&["properties", "routeTable"], "Microsoft.Network/routeTables/join/action", "subnets", false),
        link(&["properties", "natGateway"], "Microsoft.Network/natGateways/join/action", "subnets", false),
    ],
    parts: &[Part { defaults: delegation, ..inner("delegations") }],
    defaults: subnet,
    in_use: "InUseSubnetCannotBeDeleted",
    ..inner("subnets")
};

fn subnet(e: &mut Map<String, Value>) {
    let p = properties(e);
    default(p, "delegations", json!([]));
    default(p, "privateEndpointNetworkPolicies", "Disabled");
    default(p, "privateLinkServiceNetworkPolicies", "Enabled");
    // Back-references are ours to show.
    p.remove("ipConfigurations");
    p.remove("privateEndpoints");
}

fn delegation(e: &mut Map<String, Value>) {
    default(properties(e), "actions", json!([SUBNET_JOIN]));
}

pub const PEERINGS: Part = Part {
    verb: "VirtualNetworkPeering",
    create: QUICK,
    delete: QUICK_DELETE,
    defaults: peering,
    ..inner("virtualNetworkPeerings")
};

fn peering(e: &mut Map<String, Value>) {
    let p = properties(e);
    default(p, "peeringState", "Initiated");
    default(p, "peeringSyncLevel", "RemoteNotInSync");
    for flag in
        ["allowVirtualNetworkAccess", "allowForwardedTraffic", "allowGatewayTransit", "useRemoteGateways"]
    {
        default(p, flag, flag == "allowVirtualNetworkAccess");
    }
}

pub const RULES: Part = Part {
    verb: "SecurityRule",
    create: QUICK,
    delete: QUICK_DELETE,
    defaults: rule,
    ..inner("securityRules")
};

fn rule(e: &mut Map<String, Value>) {
    let p = properties(e);
    for list in
        ["sourcePortRanges", "destinationPortRanges", "sourceAddressPrefixes", "destinationAddressPrefixes"]
    {
        default(p, list, json!([]));
    }
}

/// Those every group has; shown, never written.
pub const DEFAULT_RULES: Part = inner("defaultSecurityRules");

pub const ROUTES: Part = Part {
    verb: "Route",
    create: flow(How::Async, 2, 3.0),
    delete: flow(How::Async, 2, 3.0),
    defaults: route,
    ..inner("routes")
};

fn route(e: &mut Map<String, Value>) {
    default(properties(e), "hasBgpOverride", false);
}

const FRONTEND: &[&str] = &["properties", "frontendIPConfiguration"];

pub const LOAD_BALANCER: &[Part] = &[
    Part {
        refs: &[
            link(&["properties", "publicIPAddress"], ADDRESS_JOIN, "ipConfiguration", true),
            link(&["properties", "subnet"], SUBNET_JOIN, "ipConfigurations", false),
        ],
        defaults: frontend,
        ..inner("frontendIPConfigurations")
    },
    Part {
        verb: "LoadBalancerBackendAddressPool",
        create: DONE,
        delete: SLOW_DELETE,
        defaults: pool,
        ..inner("backendAddressPools")
    },
    Part {
        refs: &[
            link(FRONTEND, "", "loadBalancingRules", false),
            link(&["properties", "backendAddressPool"], "", "loadBalancingRules", false),
            link(&["properties", "probe"], "", "loadBalancingRules", false),
        ],
        defaults: balancing,
        ..inner("loadBalancingRules")
    },
    Part { defaults: probe, ..inner("probes") },
    Part {
        verb: "InboundNatRule",
        create: DONE,
        delete: SLOW_DELETE,
        refs: &[link(FRONTEND, "", "inboundNatRules", false)],
        defaults: nat,
        ..inner("inboundNatRules")
    },
    Part {
        refs: &[
            link(&["properties", "frontendIPConfigurations"], "", "outboundRules", false),
            link(&["properties", "backendAddressPool"], "", "outboundRules", false),
        ],
        defaults: outbound,
        ..inner("outboundRules")
    },
    Part { refs: &[link(FRONTEND, "", "inboundNatPools", false)], defaults: nat, ..inner("inboundNatPools") },
];

fn frontend(e: &mut Map<String, Value>) {
    let p = properties(e);
    default(p, "privateIPAllocationMethod", "Dynamic");
    for back in ["loadBalancingRules", "inboundNatRules", "outboundRules", "inboundNatPools"] {
        p.remove(back);
    }
}

fn pool(e: &mut Map<String, Value>) {
    let p = properties(e);
    default(p, "loadBalancerBackendAddresses", json!([]));
    for back in ["loadBalancingRules", "backendIPConfigurations", "outboundRules"] {
        p.remove(back);
    }
}

fn balancing(e: &mut Map<String, Value>) {
    let p = properties(e);
    default(p, "idleTimeoutInMinutes", 4);
    default(p, "enableFloatingIP", false);
    default(p, "enableDestinationServiceEndpoint", false);
    default(p, "enableTcpReset", false);
    default(p, "allowBackendPortConflict", false);
    default(p, "loadDistribution", "Default");
    default(p, "disableOutboundSnat", false);
    if let Some(pool) = p.get("backendAddressPool").cloned() {
        default(p, "backendAddressPools", json!([pool]));
    }
}

fn probe(e: &mut Map<String, Value>) {
    let p = properties(e);
    default(p, "probeThreshold", 1);
    default(p, "numberOfProbes", 2);
    default(p, "intervalInSeconds", 15);
    p.remove("loadBalancingRules");
}

fn nat(e: &mut Map<String, Value>) {
    let p = properties(e);
    default(p, "enableFloatingIP", false);
    default(p, "idleTimeoutInMinutes", 4);
    default(p, "protocol", "Tcp");
    default(p, "enableDestinationServiceEndpoint", false);
    default(p, "enableTcpReset", false);
    default(p, "allowBackendPortConflict", false);
}

fn outbound(e: &mut Map<String, Value>) {
    let p = properties(e);
    default(p, "allocatedOutboundPorts", 0);
    default(p, "enableTcpReset", false);
    default(p, "idleTimeoutInMinutes", 4);
}

pub const IP_CONFIGURATIONS: Part = Part {
    refs: &[
        link(&["properties", "subnet"], SUBNET_JOIN, "ipConfigurations", false),
        link(&["properties", "publicIPAddress"], ADDRESS_JOIN, "ipConfiguration", true),
        link(&["properties", "loadBalancerBackendAddressPools"], POOL_JOIN, "backendIPConfigurations", false),
        link(&["properties", "loadBalancerInboundNatRules"], NAT_RULE_JOIN, "backendIPConfiguration", true),
    ],
    defaults: ip_configuration,
    ..inner("ipConfigurations")
};

fn ip_configuration(e: &mut Map<String, Value>) {
    let p = properties(e);
    default(p, "privateIPAllocationMethod", "Dynamic");
    default(p, "privateIPAddressVersion", "IPv4");
}

/// What a NAT gateway takes.
pub const NAT_ADDRESSES: Ref = link(&["properties", "publicIpAddresses"], ADDRESS_JOIN, "natGateway", true);
const PREFIX_JOIN: &str = "Microsoft.Network/publicIPPrefixes/join/action";
pub const NAT_PREFIXES: Ref = link(&["properties", "publicIpPrefixes"], PREFIX_JOIN, "natGateway", true);
/// What an address is taken from.
pub const ADDRESS_PREFIX: Ref =
    link(&["properties", "publicIPPrefix"], PREFIX_JOIN, "publicIPAddresses", false);
/// What a NIC takes.
pub const NIC_GROUP: Ref =
    link(&["properties", "networkSecurityGroup"], GROUP_JOIN, "networkInterfaces", false);
