//! What fields hold, by name: the network provider uses a name for one thing only, whatever contains it.
//!
//! A field of the wrong type is refused before anything looks at it, so rules can read what they find. Fields that
//! are not listed may hold anything.

use crate::kinds::Kind;
use crate::wire::{Cause, Fault};
use arm::{ErrorDetail, code};
use http::StatusCode;
use serde_json::{Map, Value};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Holds {
    Flag,
    Number,
    Text,
    Texts,
    Object,
    Objects,
}

const FLAGS: [&str; 15] = [
    "enableDdosProtection",
    "enableVmProtection",
    "enableIPForwarding",
    "enableAcceleratedNetworking",
    "enableFloatingIP",
    "enableTcpReset",
    "disableOutboundSnat",
    "disableBgpRoutePropagation",
    "primary",
    "registrationEnabled",
    "allowVirtualNetworkAccess",
    "allowForwardedTraffic",
    "allowGatewayTransit",
    "useRemoteGateways",
    "disableTcpStateTracking",
];
const NUMBERS: [&str; 13] = [
    "priority",
    "idleTimeoutInMinutes",
    "frontendPort",
    "backendPort",
    "port",
    "intervalInSeconds",
    "numberOfProbes",
    "probeThreshold",
    "frontendPortRangeStart",
    "frontendPortRangeEnd",
    "allocatedOutboundPorts",
    "prefixLength",
    "ttl",
];
const TEXTS_ONE: [&str; 28] = [
    "addressPrefix",
    "privateIPAddress",
    "privateIPAllocationMethod",
    "privateIPAddressVersion",
    "publicIPAllocationMethod",
    "publicIPAddressVersion",
    "protocol",
    "sourcePortRange",
    "destinationPortRange",
    "sourceAddressPrefix",
    "destinationAddressPrefix",
    "access",
    "direction",
    "description",
    "nextHopType",
    "nextHopIpAddress",
    "requestPath",
    "loadDistribution",
    "privateEndpointNetworkPolicies",
    "privateLinkServiceNetworkPolicies",
    "issuer",
    "subject",
    "cname",
    "ipv4Address",
    "ipv6Address",
    "domainNameLabel",
    "serviceName",
    "level",
];
const TEXTS: [&str; 9] = [
    "addressPrefixes",
    "dnsServers",
    "sourcePortRanges",
    "destinationPortRanges",
    "sourceAddressPrefixes",
    "destinationAddressPrefixes",
    "audiences",
    "zones",
    "appliedDnsServers",
];
const OBJECTS_ONE: [&str; 16] = [
    "addressSpace",
    "dhcpOptions",
    "networkSecurityGroup",
    "routeTable",
    "natGateway",
    "subnet",
    "publicIPAddress",
    "publicIPPrefix",
    "frontendIPConfiguration",
    "backendAddressPool",
    "probe",
    "virtualNetwork",
    "remoteVirtualNetwork",
    "dnsSettings",
    "ddosSettings",
    "cnameRecord",
];
const OBJECTS: [&str; 26] = [
    "subnets",
    "virtualNetworkPeerings",
    "securityRules",
    "routes",
    "frontendIPConfigurations",
    "backendAddressPools",
    "loadBalancingRules",
    "probes",
    "inboundNatRules",
    "inboundNatPools",
    "outboundRules",
    "ipConfigurations",
    "loadBalancerBackendAddressPools",
    "loadBalancerInboundNatRules",
    "publicIpAddresses",
    "publicIpPrefixes",
    "delegations",
    "serviceEndpoints",
    "ipTags",
    "aRecords",
    "aaaaRecords",
    "mxRecords",
    "txtRecords",
    "srvRecords",
    "ptrRecords",
    "loadBalancerBackendAddresses",
];

fn holds(name: &str) -> Option<Holds> {
    let in_list = |l: &[&str]| l.iter().any(|n| n.eq_ignore_ascii_case(name));
    Some(match () {
        () if in_list(&FLAGS) => Holds::Flag,
        () if in_list(&NUMBERS) => Holds::Number,
        () if in_list(&TEXTS_ONE) => Holds::Text,
        () if in_list(&TEXTS) => Holds::Texts,
        () if in_list(&OBJECTS_ONE) => Holds::Object,
        () if in_list(&OBJECTS) => Holds::Objects,
        () => return None,
    })
}

fn fits(what: Holds, v: &Value) -> bool {
    match what {
        Holds::Flag => v.is_boolean(),
        Holds::Number => v.is_i64() || v.is_u64(),
        Holds::Text => v.is_string(),
        Holds::Texts => v.as_array().is_some_and(|l| l.iter().all(Value::is_string)),
        Holds::Object => v.is_object(),
        Holds::Objects => v.as_array().is_some_and(|l| l.iter().all(Value::is_object)),
    }
}

/// Refuses fields of the wrong type, naming the first.
pub fn check(kind: &Kind, doc: &Map<String, Value>) -> Result<(), Fault> {
    walk(doc, if kind.namespace == "Microsoft.Compute" { compute } else { holds }, "", 0)
}

/// The compute provider's fields: some have names that the network provider uses for something else.
fn compute(name: &str) -> Option<Holds> {
    let is = |l: &[&str]| l.iter().any(|n| n.eq_ignore_ascii_case(name));
    Some(match () {
        () if is(&[
            "primary",
            "enabled",
            "provisionVMAgent",
            "toBeDetached",
            "incremental",
            "burstingEnabled",
        ]) =>
        {
            Holds::Flag
        }
        () if is(&[
            "lun",
            "diskSizeGB",
            "platformFaultDomainCount",
            "platformUpdateDomainCount",
            "diskIOPSReadWrite",
            "diskMBpsReadWrite",
        ]) =>
        {
            Holds::Number
        }
        () if is(&[
            "vmSize",
            "adminUsername",
            "adminPassword",
            "computerName",
            "customData",
            "userData",
            "createOption",
            "deleteOption",
            "publisher",
            "offer",
            "exactVersion",
            "storageAccountType",
            "caching",
            "osType",
            "typeHandlerVersion",
            "keyUrl",
            "tier",
        ]) =>
        {
            Holds::Text
        }
        () if is(&["zones"]) => Holds::Texts,
        () if is(&[
            "hardwareProfile",
            "storageProfile",
            "osProfile",
            "networkProfile",
            "diagnosticsProfile",
            "bootDiagnostics",
            "securityProfile",
            "imageReference",
            "osDisk",
            "managedDisk",
            "availabilitySet",
            "creationData",
            "activeKey",
            "sourceVault",
            "linuxConfiguration",
            "windowsConfiguration",
            "userAssignedIdentities",
            "diskEncryptionSet",
            "publishingProfile",
        ]) =>
        {
            Holds::Object
        }
        () if is(&["dataDisks", "networkInterfaces", "targetRegions", "publicKeys"]) => Holds::Objects,
        () => return None,
    })
}

/// Deeper documents are not Azure's.
const MAX_DEPTH: usize = 24;

fn walk(
    doc: &Map<String, Value>,
    holds: fn(&str) -> Option<Holds>,
    at: &str,
    depth: usize,
) -> Result<(), Fault> {
    for (name, value) in doc {
        // Tags and metadata are the client's own.
        let own = name == "metadata"
            || name.eq_ignore_ascii_case("settings")
            || name.eq_ignore_ascii_case("protectedSettings");
        if value.is_null() || (depth == 0 && name == "tags") || own {
            continue;
        }
        let path = if at.is_empty() { name.clone() } else { format!("{at}.{name}") };
        if depth >= MAX_DEPTH || (depth > 0 && holds(name).is_some_and(|h| !fits(h, value))) {
            return Err(cannot_parse(&path, value));
        }
        match value {
            Value::Object(m) => walk(m, holds, &path, depth + 1)?,
            Value::Array(l) => {
                for (i, e) in l.iter().enumerate() {
                    if let Value::Object(m) = e {
                        walk(m, holds, &format!("{path}[{i}]"), depth + 1)?;
                    }
                }
            }
            _ => {}
        }
    }
    Ok(())
}

fn cannot_parse(path: &str, value: &Value) -> Fault {
    let shown: String = value.to_string().chars().take(80).collect();
    let detail = ErrorDetail::new(code::INVALID_REQUEST_FORMAT, "Cannot parse the request.").with_detail(
        ErrorDetail::new("InvalidJson", format!("Error converting value {shown}. Path '{path}'.")),
    );
    Fault::new(StatusCode::BAD_REQUEST, Cause::Unsaid, detail)
}

/// How long names may be and what they are made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Names {
    /// Word characters, `.`, `-`; up to so many.
    Network(usize),
    /// Letters, digits, `-`, `_`; up to 128.
    Identity,
    /// The type's own rules say.
    Own,
}

impl Names {
    pub fn check(self, name: &str) -> Result<(), Fault> {
        match self {
            Names::Own => Ok(()),
            Names::Network(most) => {
                let word = |c: char| c.is_alphanumeric() || c == '_';
                let legal = name.chars().all(|c| word(c) || matches!(c, '.' | '-'));
                let ends = name.starts_with(word) && name.ends_with(word);
                if legal && ends && name.chars().count() <= most {
                    return Ok(());
                }
                Err(Fault::service(
                    StatusCode::BAD_REQUEST,
                    "InvalidResourceName",
                    format!(
                        "Resource name {name} is invalid. The name can be up to {most} characters long. It must begin with a word character, and it must end with a word character or with '_'. The name may contain word characters or '.', '-', '_'."
                    ),
                ))
            }
            Names::Identity => {
                let legal = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
                if name.len() <= 128
                    && name.chars().all(legal)
                    && name.starts_with(|c: char| c.is_ascii_alphanumeric())
                {
                    return Ok(());
                }
                Err(Fault::plain(
                    StatusCode::BAD_REQUEST,
                    "BadRequest",
                    format!(
                        "The resource name '{name}' is invalid: it begins with a letter or number and contains letters, numbers, hyphens and underscores, up to 128."
                    ),
                ))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_first_wrong_field_is_named() {
        let ask = |v: Value| match v {
            Value::Object(m) => {
                walk(&m, holds, "", 0).err().map(|f| f.detail.details.unwrap()[0].message.clone())
            }
            _ => None,
        };
        assert_eq!(
            ask(
                json!({"properties": {"addressSpace": {"addressPrefixes": ["10.0.0.0/8"]}}, "tags": {"priority": "high"}})
            ),
            None
        );
        let wrong =
            ask(json!({"properties": {"subnets": [{"name": "a", "properties": {"addressPrefix": 5}}]}}))
                .unwrap();
        assert!(wrong.contains("'properties.subnets[0].properties.addressPrefix'"), "{wrong}");
        for bad in [
            json!({"properties": {"subnets": {}}}),
            json!({"properties": {"securityRules": [1]}}),
            json!({"properties": {"enableDdosProtection": "yes"}}),
            json!({"properties": {"TTL": "60"}}),
            json!({"properties": {"priority": 1.5}}),
        ] {
            assert!(ask(bad.clone()).is_some(), "{bad}");
        }
    }

    #[test]
    fn names_are_words() {
        for good in ["a", "a-b.c_", "_x", "9"] {
            assert!(Names::Network(80).check(good).is_ok(), "{good}");
        }
        for bad in ["-a", "a-", "a b", "a/b", "a.", &"x".repeat(81)] {
            assert!(Names::Network(80).check(bad).is_err(), "{bad}");
        }
        assert!(Names::Identity.check("a.b").is_err() && Names::Identity.check("a_b-1").is_ok());
    }
}
