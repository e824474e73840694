//! Virtual networks, security groups, addresses, load balancers, interfaces, NAT gateways, route tables.

use crate::cidr::Cidr;
use crate::kinds::addresses::{allocate, prefixes, subnet_prefixes};
use crate::kinds::network_parts as parts;
use crate::kinds::{BASE, Flow, How, Kind, Names, Prep, Rules, default, flow, properties};
use crate::state::{Record, State};
use crate::wire::Fault;
use arm::ApiVersion;
use http::StatusCode;
use serde_json::{Map, Value, json};
use std::net::IpAddr;

const SLOW_DELETE: Flow = flow(How::Async, 10, 11.0);

pub fn rows() -> Vec<Kind> {
    vec![
        Kind {
            path: "virtualNetworks",
            names: Names::Network(64),
            create: flow(How::Async, 3, 3.0),
            update: flow(How::Async, 3, 3.0),
            delete: SLOW_DELETE,
            parts: &[parts::SUBNETS, parts::PEERINGS],
            in_use: "InUseSubnetCannotBeDeleted",
            verb: "VirtualNetwork",
            rules: &VirtualNetwork,
            ..BASE
        },
        Kind {
            path: "networkSecurityGroups",
            create: flow(How::Async, 1, 4.0),
            update: flow(How::Async, 1, 4.0),
            delete: flow(How::Async, 1, 2.0),
            parts: &[parts::RULES, parts::DEFAULT_RULES],
            in_use: "InUseNetworkSecurityGroupCannotBeDeleted",
            verb: "NetworkSecurityGroup",
            rules: &SecurityGroup,
            ..BASE
        },
        Kind {
            path: "publicIPAddresses",
            create: flow(How::Async, 1, 4.0),
            update: flow(How::Async, 1, 4.0),
            delete: SLOW_DELETE,
            refs: &[parts::ADDRESS_PREFIX],
            in_use: "PublicIPAddressCannotBeDeleted",
            verb: "PublicIpAddress",
            rules: &PublicAddress,
            ..BASE
        },
        Kind {
            path: "publicIPPrefixes",
            since: "2018-07-01",
            create: flow(How::Async, 1, 4.0),
            update: flow(How::Async, 1, 4.0),
            delete: SLOW_DELETE,
            in_use: "InUsePublicIpPrefixCannotBeDeleted",
            verb: "PublicIpPrefix",
            rules: &PublicPrefix,
            ..BASE
        },
        Kind {
            path: "loadBalancers",
            create: flow(How::AsyncDone, 0, 0.0),
            update: flow(How::AsyncDone, 0, 0.0),
            delete: SLOW_DELETE,
            parts: parts::LOAD_BALANCER,
            in_use: "InUseLoadBalancerCannotBeDeleted",
            verb: "LoadBalancer",
            rules: &LoadBalancer,
            ..BASE
        },
        Kind {
            path: "networkInterfaces",
            delete: flow(How::Async, 4, 5.0),
            parts: &[parts::IP_CONFIGURATIONS],
            refs: &[parts::NIC_GROUP],
            in_use: "NicInUse",
            verb: "NetworkInterface",
            rules: &Interface,
            ..BASE
        },
        Kind {
            path: "natGateways",
            since: "2019-02-01",
            create: flow(How::Async, 10, 14.0),
            update: flow(How::Async, 10, 14.0),
            delete: SLOW_DELETE,
            refs: &[parts::NAT_ADDRESSES, parts::NAT_PREFIXES],
            in_use: "InUseNatGatewayCannotBeDeleted",
            verb: "NatGateway",
            rules: &NatGateway,
            ..BASE
        },
        Kind {
            path: "routeTables",
            create: flow(How::Async, 2, 3.0),
            update: flow(How::Async, 2, 3.0),
            delete: flow(How::Async, 2, 3.0),
            parts: &[parts::ROUTES],
            in_use: "InUseRouteTableCannotBeDeleted",
            verb: "RouteTable",
            rules: &RouteTable,
            ..BASE
        },
    ]
}

fn bad(code: &str, message: String) -> Fault {
    Fault::service(StatusCode::BAD_REQUEST, code, message)
}

/// Generated once and kept over updates.
pub(super) fn keep_guid(prep: &Prep<'_>, doc: &mut Map<String, Value>) {
    let old = prep.old.and_then(|o| o.property("resourceGuid")).and_then(Value::as_str);
    let guid = old.map_or_else(|| prep.state.guid(prep.id.key(), "resourceGuid"), str::to_owned);
    properties(doc).insert("resourceGuid".into(), guid.into());
}

fn default_sku(doc: &mut Map<String, Value>) {
    default(doc, "sku", json!({"name": "Basic"}));
    if let Some(sku) = doc.get_mut("sku").and_then(Value::as_object_mut) {
        default(sku, "tier", "Regional");
    }
}

struct VirtualNetwork;

impl Rules for VirtualNetwork {
    fn prepare(&self, prep: &Prep<'_>, doc: &mut Map<String, Value>) -> Result<(), Fault> {
        keep_guid(prep, doc);
        let p = properties(doc);
        // From this version on, a body that does not mention subnets leaves them alone.
        if !p.contains_key("subnets") && prep.version.at_least("2023-09-01") {
            let kept = prep.old.and_then(|o| o.property("subnets")).cloned();
            p.insert("subnets".into(), kept.unwrap_or_else(|| json!([])));
        }
        default(p, "subnets", json!([]));
        default(p, "virtualNetworkPeerings", json!([]));
        default(p, "enableDdosProtection", false);
        default(p, "privateEndpointVNetPolicies", "Disabled");
        check_space(p)
    }

    fn show(&self, _: &State, _: &Record, version: &ApiVersion, out: &mut Map<String, Value>) {
        if !version.at_least("2023-11-01") {
            properties(out).remove("privateEndpointVNetPolicies");
        }
    }
}

fn check_space(p: &Map<String, Value>) -> Result<(), Fault> {
    let space = prefixes(p.get("addressSpace").and_then(|a| a.get("addressPrefixes")));
    if space.is_empty() {
        return Err(bad(
            "InvalidRequestFormat",
            "Cannot parse the request: addressSpace.addressPrefixes is required.".into(),
        ));
    }
    let mut whole = Vec::new();
    for text in space {
        let c = Cidr::parse(text).ok_or_else(|| {
            bad(
                "InvalidAddressPrefixFormat",
                format!("Address prefix {text} has invalid format. It should be in CIDR notation."),
            )
        })?;
        whole.push(c);
    }
    let mut taken: Vec<(Cidr, String)> = Vec::new();
    for subnet in p.get("subnets").and_then(Value::as_array).into_iter().flatten() {
        let name = subnet["name"].as_str().unwrap_or_default();
        let own = subnet_prefixes(subnet);
        if own.is_empty() {
            return Err(bad("InvalidRequestFormat", format!("Subnet '{name}' has no address prefix.")));
        }
        for text in own {
            let c = Cidr::parse(text).ok_or_else(|| {
                bad(
                    "InvalidCIDRNotation",
                    format!("The address prefix {text} in subnet {name} has an invalid CIDR notation."),
                )
            })?;
            if !whole.iter().any(|w| w.contains(c)) {
                return Err(bad(
                    "NetcfgInvalidSubnet",
                    format!(
                        "Subnet '{name}' is not valid because its IP address range is outside the IP address range of virtual network."
                    ),
                ));
            }
            if let Some((_, other)) = taken.iter().find(|(t, n)| t.overlaps(c) && n != name) {
                return Err(bad(
                    "NetcfgSubnetRangesOverlap",
                    format!(
                        "Subnet '{name}' is not valid because its IP address range overlaps with that of an existing subnet '{other}'."
                    ),
                ));
            }
            taken.push((c, name.to_owned()));
        }
    }
    Ok(())
}

struct SecurityGroup;

/// The rules every group has, below all others.
const DEFAULT_RULES: [(&str, &str, &str, &str, &str, u32, &str); 6] = [
    (
        "AllowVnetInBound",
        "Allow inbound traffic from all VMs in VNET",
        "VirtualNetwork",
        "VirtualNetwork",
        "Allow",
        65000,
        "Inbound",
    ),
    (
        "AllowAzureLoadBalancerInBound",
        "Allow inbound traffic from azure load balancer",
        "AzureLoadBalancer",
        "*",
        "Allow",
        65001,
        "Inbound",
    ),
    ("DenyAllInBound", "Deny all inbound traffic", "*", "*", "Deny", 65500, "Inbound"),
    (
        "AllowVnetOutBound",
        "Allow outbound traffic from all VMs to all VMs in VNET",
        "VirtualNetwork",
        "VirtualNetwork",
        "Allow",
        65000,
        "Outbound",
    ),
    (
        "AllowInternetOutBound",
        "Allow outbound traffic from all VMs to Internet",
        "*",
        "Internet",
        "Allow",
        65001,
        "Outbound",
    ),
    ("DenyAllOutBound", "Deny all outbound traffic", "*", "*", "Deny", 65500, "Outbound"),
];

impl Rules for SecurityGroup {
    fn prepare(&self, prep: &Prep<'_>, doc: &mut Map<String, Value>) -> Result<(), Fault> {
        keep_guid(prep, doc);
        let p = properties(doc);
        for computed in ["defaultSecurityRules", "subnets", "networkInterfaces"] {
            p.remove(computed);
        }
        default(p, "securityRules", json!([]));
        let mut seen = std::collections::BTreeMap::new();
        for rule in p.get("securityRules").and_then(Value::as_array).into_iter().flatten() {
            let name = rule["name"].as_str().unwrap_or_default();
            let r = &rule["properties"];
            let priority = r["priority"].as_u64().unwrap_or(0);
            if !(100..=4096).contains(&priority) {
                return Err(bad(
                    "SecurityRuleInvalidPriority",
                    format!(
                        "Security rule has invalid Priority. Value provided: {priority} Allowed range 100-4096."
                    ),
                ));
            }
            for (field, allowed) in [("direction", ["Inbound", "Outbound"]), ("access", ["Allow", "Deny"])] {
                let given = r[field].as_str().unwrap_or_default();
                if !allowed.iter().any(|a| a.eq_ignore_ascii_case(given)) {
                    return Err(bad(
                        "InvalidRequestFormat",
                        format!("Security rule {name} has an invalid {field} '{given}'."),
                    ));
                }
            }
            let direction = r["direction"].as_str().unwrap_or_default().to_lowercase();
            if let Some(other) = seen.insert((direction, priority), name) {
                return Err(bad(
                    "SecurityRuleConflict",
                    format!(
                        "Security rule {name} conflicts with rule {other}. Rules cannot have the same Priority and Direction."
                    ),
                ));
            }
        }
        Ok(())
    }

    fn show(&self, _: &State, record: &Record, _: &ApiVersion, out: &mut Map<String, Value>) {
        let etag = out.get("etag").cloned().unwrap_or_default();
        // A rule of its own being written leaves the defaults alone.
        let phase = record.part_phase(Some(("defaultSecurityRules", "")));
        let rules: Vec<Value> = DEFAULT_RULES
            .iter()
            .map(|(name, description, from, to, access, priority, direction)| {
                json!({
                    "name": name, "id": format!("{}/defaultSecurityRules/{name}", record.id), "etag": etag,
                    "type": "Microsoft.Network/networkSecurityGroups/defaultSecurityRules",
                    "properties": {
                        "provisioningState": phase.as_str(), "description": description, "protocol": "*",
                        "sourcePortRange": "*", "destinationPortRange": "*", "sourceAddressPrefix": from,
                        "destinationAddressPrefix": to, "access": access, "priority": priority,
                        "direction": direction, "sourcePortRanges": [], "destinationPortRanges": [],
                        "sourceAddressPrefixes": [], "destinationAddressPrefixes": [],
                    },
                })
            })
            .collect();
        properties(out).insert("defaultSecurityRules".into(), rules.into());
    }
}

struct PublicAddress;

impl Rules for PublicAddress {
    fn prepare(&self, prep: &Prep<'_>, doc: &mut Map<String, Value>) -> Result<(), Fault> {
        keep_guid(prep, doc);
        default_sku(doc);
        let standard = doc["sku"]["name"].as_str() == Some("Standard");
        let place = doc.get("location").and_then(Value::as_str).unwrap_or_default().to_owned();
        let p = properties(doc);
        for computed in ["ipConfiguration", "natGateway"] {
            p.remove(computed);
        }
        default(p, "publicIPAddressVersion", "IPv4");
        default(p, "publicIPAllocationMethod", "Dynamic");
        default(p, "idleTimeoutInMinutes", 4);
        default(p, "ipTags", json!([]));
        default(p, "ddosSettings", json!({"protectionMode": "VirtualNetworkInherited"}));
        if standard && p["publicIPAllocationMethod"].as_str() != Some("Static") {
            return Err(bad(
                "PublicIPAddressWithStandardSkuMustUseStaticAllocation",
                format!("Standard sku publicIp {} must have AllocationMethod set to Static.", prep.id),
            ));
        }
        let place = place.replace(' ', "").to_lowercase();
        if let Some(dns) = p.get_mut("dnsSettings").and_then(Value::as_object_mut)
            && let Some(label) = dns.get("domainNameLabel").and_then(Value::as_str)
        {
            let fqdn = format!("{label}.{place}.cloudapp.azure.com");
            dns.insert("fqdn".into(), fqdn.into());
        }
        p.remove("ipAddress");
        if let Some(ip) = prep.old.and_then(|o| o.property("ipAddress")) {
            p.insert("ipAddress".into(), ip.clone());
        }
        Ok(())
    }

    fn settled(&self, state: &State, record: &mut Record) {
        let key = record.id.key().clone();
        let p = properties(&mut record.doc);
        if p["publicIPAllocationMethod"].as_str() != Some("Static") || p.contains_key("ipAddress") {
            return;
        }
        let n = state.derive(&key, "ipAddress").to_be_bytes();
        // 20.0.0.0/8 is where Azure's addresses are; 2603:1000::/24 for version 6.
        let ip = match p["publicIPAddressVersion"].as_str() {
            Some("IPv6") => {
                let mut b = n;
                b[..4].copy_from_slice(&[0x26, 0x03, 0x10, 0x00]);
                IpAddr::from(b)
            }
            _ => IpAddr::from([20, n[0], n[1], n[2].clamp(1, 254)]),
        };
        p.insert("ipAddress".into(), ip.to_string().into());
    }

    fn show(&self, _: &State, _: &Record, version: &ApiVersion, out: &mut Map<String, Value>) {
        if !version.at_least("2022-01-01") {
            properties(out).remove("ddosSettings");
        }
    }
}

struct PublicPrefix;

impl Rules for PublicPrefix {
    fn prepare(&self, prep: &Prep<'_>, doc: &mut Map<String, Value>) -> Result<(), Fault> {
        keep_guid(prep, doc);
        default(doc, "sku", json!({"name": "Standard"}));
        default_sku(doc);
        let p = properties(doc);
        p.remove("publicIPAddresses");
        default(p, "publicIPAddressVersion", "IPv4");
        default(p, "ipTags", json!([]));
        let allowed = if p["publicIPAddressVersion"].as_str() == Some("IPv6") { 124..=127 } else { 28..=31 };
        let length = p.get("prefixLength").and_then(Value::as_i64).unwrap_or(0);
        if !allowed.contains(&length) {
            return Err(bad(
                "PublicIpPrefixLengthInvalid",
                format!(
                    "Prefix length {length} is not valid: it must be between {} and {}.",
                    allowed.start(),
                    allowed.end()
                ),
            ));
        }
        p.remove("ipPrefix");
        if let Some(old) = prep.old {
            if old.property("prefixLength").and_then(Value::as_i64) != Some(length) {
                return Err(bad(
                    "PublicIpPrefixUpdateNotAllowed",
                    "The length of a public IP prefix cannot be changed.".into(),
                ));
            }
            if let Some(ip) = old.property("ipPrefix") {
                p.insert("ipPrefix".into(), ip.clone());
            }
        }
        Ok(())
    }

    fn settled(&self, state: &State, record: &mut Record) {
        let key = record.id.key().clone();
        let p = properties(&mut record.doc);
        if p.contains_key("ipPrefix") {
            return;
        }
        let n = state.derive(&key, "ipPrefix").to_be_bytes();
        let length = p.get("prefixLength").and_then(Value::as_i64).unwrap_or(28);
        let text = match p["publicIPAddressVersion"].as_str() {
            Some("IPv6") => format!("2603:1030:{:x}:{:x}::/{length}", u16::from(n[0]), u16::from(n[1])),
            _ => format!("20.{}.{}.{}/{length}", n[0], n[1], n[2] & 0xf0),
        };
        p.insert("ipPrefix".into(), text.into());
    }
}

struct LoadBalancer;

impl Rules for LoadBalancer {
    fn prepare(&self, prep: &Prep<'_>, doc: &mut Map<String, Value>) -> Result<(), Fault> {
        keep_guid(prep, doc);
        default_sku(doc);
        let p = properties(doc);
        for part in parts::LOAD_BALANCER {
            default(p, part.list, json!([]));
        }
        for f in p.get_mut("frontendIPConfigurations").and_then(Value::as_array_mut).into_iter().flatten() {
            let inside = f["properties"]["subnet"].is_object();
            if let Some(q) = f.get_mut("properties").and_then(Value::as_object_mut).filter(|_| inside) {
                default(q, "privateIPAddressVersion", "IPv4");
            }
        }
        allocate(prep, p, "frontendIPConfigurations")
    }

    fn flow(&self, doc: &Map<String, Value>) -> Option<Flow> {
        // A frontend inside of a network takes a while; a public one is there at once.
        let frontends = doc.get("properties").and_then(|p| p.get("frontendIPConfigurations"));
        let inside = frontends
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
            .any(|f| f["properties"]["subnet"].is_object());
        inside.then_some(flow(How::Async, 3, 4.0))
    }
}

struct Interface;

impl Rules for Interface {
    fn prepare(&self, prep: &Prep<'_>, doc: &mut Map<String, Value>) -> Result<(), Fault> {
        keep_guid(prep, doc);
        let p = properties(doc);
        let configurations = p.get("ipConfigurations").and_then(Value::as_array).map_or(0, Vec::len);
        if configurations == 0 {
            return Err(bad(
                "NetworkInterfaceMustHaveAtLeastOneIpConfiguration",
                format!("Network interface {} must have at least one IP configuration.", prep.id),
            ));
        }
        if let Some(list) = p.get_mut("ipConfigurations").and_then(Value::as_array_mut) {
            let explicit = list.iter().any(|c| c["properties"]["primary"].as_bool() == Some(true));
            for (i, c) in list.iter_mut().enumerate() {
                if c["properties"]["subnet"]["id"].as_str().is_none() {
                    return Err(bad(
                        "SubnetIsRequired",
                        format!("A subnet is required for IP configuration {}.", c["name"]),
                    ));
                }
                if let Some(q) = c.get_mut("properties").and_then(Value::as_object_mut) {
                    default(q, "primary", i == 0 && !explicit);
                }
            }
        }
        allocate(prep, p, "ipConfigurations")?;
        let suffix =
            format!("{:025x}.ax.internal.cloudapp.net", prep.state.derive(prep.id.key(), "suffix") >> 28);
        let dns = p.entry("dnsSettings").or_insert_with(|| json!({}));
        if let Some(dns) = dns.as_object_mut() {
            default(dns, "dnsServers", json!([]));
            default(dns, "appliedDnsServers", json!([]));
            let old =
                prep.old.and_then(|o| o.property("dnsSettings")?.get("internalDomainNameSuffix").cloned());
            dns.insert("internalDomainNameSuffix".into(), old.unwrap_or_else(|| suffix.into()));
        }
        default(p, "enableAcceleratedNetworking", false);
        default(p, "vnetEncryptionSupported", false);
        default(p, "enableIPForwarding", false);
        default(p, "disableTcpStateTracking", false);
        default(p, "hostedWorkloads", json!([]));
        default(p, "tapConfigurations", json!([]));
        default(p, "nicType", "Standard");
        for computed in ["virtualMachine", "macAddress", "privateEndpoint", "privateLinkService"] {
            match prep.old.and_then(|o| o.property(computed)) {
                Some(v) => p.insert(computed.to_owned(), v.clone()),
                None => p.remove(computed),
            };
        }
        Ok(())
    }

    fn show(&self, state: &State, record: &Record, version: &ApiVersion, out: &mut Map<String, Value>) {
        // A machine gives its interface an address on the wire.
        if out.get("properties").is_some_and(|p| p.get("virtualMachine").is_some()) {
            let b = super::compute_parts::stable(state, record.id.key(), "mac").to_be_bytes();
            let mac = format!("00-0D-3A-{:02X}-{:02X}-{:02X}", b[0], b[1], b[2]);
            properties(out).insert("macAddress".into(), mac.into());
        }
        if version.at_least("2022-01-01") {
            default(out, "kind", "Regular");
            let p = properties(out);
            default(p, "allowPort25Out", true);
            default(p, "auxiliaryMode", "None");
        }
        if version.at_least("2022-11-01") {
            default(properties(out), "auxiliarySku", "None");
        } else {
            properties(out).remove("disableTcpStateTracking");
        }
    }
}

struct NatGateway;

impl Rules for NatGateway {
    fn prepare(&self, prep: &Prep<'_>, doc: &mut Map<String, Value>) -> Result<(), Fault> {
        keep_guid(prep, doc);
        default(doc, "sku", json!({"name": "Standard"}));
        default_sku(doc);
        let p = properties(doc);
        p.remove("subnets");
        default(p, "idleTimeoutInMinutes", 4);
        default(p, "type", "Public");
        Ok(())
    }
}

struct RouteTable;

impl Rules for RouteTable {
    fn prepare(&self, prep: &Prep<'_>, doc: &mut Map<String, Value>) -> Result<(), Fault> {
        keep_guid(prep, doc);
        let p = properties(doc);
        p.remove("subnets");
        default(p, "disableBgpRoutePropagation", false);
        default(p, "routes", json!([]));
        Ok(())
    }
}
