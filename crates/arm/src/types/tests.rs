use super::*;
use crate::Resource;
use serde_json::json;

#[test]
fn keeps_what_it_does_not_know_and_nulls() {
    let v = json!({
        "id": "/subscriptions/s/resourceGroups/g/providers/Microsoft.Network/virtualNetworks/v", "zones": ["1"],
        "properties": {
            "novel": {"x": [1, null]}, "dhcpOptions": null, "provisioningState": "Juggling",
            "addressSpace": {"addressPrefixes": ["10.0.0.0/8"], "ipamPoolPrefixAllocations": []},
            "subnets": [{"name": "a", "properties": {"addressPrefix": "10.0.0.0/24", "purpose": "test", "natGateway": {"id": "/subscriptions/s/resourceGroups/g/providers/Microsoft.Network/natGateways/n", "etag": "?"}}}],
        },
    });
    let mut net: VirtualNetwork = serde_json::from_value(v.clone()).unwrap();
    assert_eq!(serde_json::to_value(&net).unwrap(), v);
    let p = net.properties.as_mut().unwrap();
    p.dhcp_options = Some(json!({"dnsServers": []}));
    let out = serde_json::to_string(&net).unwrap();
    assert_eq!(out.matches("dhcpOptions").count(), 1, "{out}");
}

#[test]
fn a_wrong_kind_names_the_field() {
    let bad = json!({"properties": {"subnets": [{"properties": {"addressPrefix": 7}}]}});
    let e = serde_json::from_value::<VirtualNetwork>(bad).unwrap_err().to_string();
    assert!(e.contains("subnets: addressPrefix: "), "{e}");
}

/// Every recorded resource of a known type survives being read and written.
#[test]
fn recorded_resources_survive() {
    let dir = std::path::Path::new("/work/shared/specs/azure/recorded");
    if !dir.is_dir() {
        println!("skipped: no recordings here");
        return;
    }
    fn twice<P: serde::Serialize + DeserializeOwned + Default>(v: &Value) -> Value {
        let r: Resource<P> = serde_json::from_value(v.clone()).unwrap_or_else(|e| panic!("{e}: {v}"));
        serde_json::to_value(&r).unwrap()
    }
    let mut seen = std::collections::BTreeMap::<String, usize>::new();
    for entry in std::fs::read_dir(dir).unwrap() {
        let text = std::fs::read_to_string(entry.unwrap().path()).unwrap();
        for line in text.lines() {
            let exchange: Value = serde_json::from_str(line).unwrap();
            let v = &exchange["response"];
            let Some(kind) = v["type"].as_str().map(str::to_lowercase) else { continue };
            let back = match kind.as_str() {
                "microsoft.network/virtualnetworks" => twice::<VirtualNetworkProperties>(v),
                "microsoft.network/virtualnetworks/subnets" => twice::<SubnetProperties>(v),
                "microsoft.network/networksecuritygroups" => twice::<SecurityGroupProperties>(v),
                "microsoft.network/networksecuritygroups/securityrules" => twice::<SecurityRuleProperties>(v),
                "microsoft.network/publicipaddresses" => twice::<PublicIpProperties>(v),
                "microsoft.network/loadbalancers" => twice::<LoadBalancerProperties>(v),
                "microsoft.network/networkinterfaces" => twice::<NetworkInterfaceProperties>(v),
                "microsoft.network/natgateways" => twice::<NatGatewayProperties>(v),
                "microsoft.network/routetables" => twice::<RouteTableProperties>(v),
                "microsoft.network/routetables/routes" => twice::<RouteProperties>(v),
                "microsoft.network/dnszones" => twice::<DnsZoneProperties>(v),
                "microsoft.network/privatednszones" => twice::<PrivateDnsZoneProperties>(v),
                "microsoft.network/privatednszones/virtualnetworklinks" => {
                    twice::<PrivateDnsLinkProperties>(v)
                }
                k if k.starts_with("microsoft.network/dnszones/") => twice::<DnsRecordSetProperties>(v),
                k if k.starts_with("microsoft.network/privatednszones/") => {
                    twice::<PrivateDnsRecordSetProperties>(v)
                }
                "microsoft.managedidentity/userassignedidentities" => {
                    twice::<UserAssignedIdentityProperties>(v)
                }
                "microsoft.authorization/roleassignments" => twice::<RoleAssignmentProperties>(v),
                "microsoft.authorization/roledefinitions" => twice::<RoleDefinitionProperties>(v),
                "microsoft.compute/virtualmachines" => twice::<VirtualMachineProperties>(v),
                "microsoft.compute/disks" | "microsoft.compute/snapshots" => twice::<DiskProperties>(v),
                "microsoft.network/privateendpoints" => twice::<PrivateEndpointProperties>(v),
                "microsoft.network/privatelinkservices" => twice::<PrivateLinkServiceProperties>(v),
                "microsoft.storage/storageaccounts" => twice::<StorageAccountProperties>(v),
                "microsoft.keyvault/vaults" => twice::<KeyVaultProperties>(v),
                "microsoft.keyvault/deletedvaults" => twice::<DeletedVaultProperties>(v),
                "microsoft.containerregistry/registries" => twice::<ContainerRegistryProperties>(v),
                "microsoft.resources/deployments" => twice::<DeploymentProperties>(v),
                "microsoft.resources/resourcegroups" => twice::<ResourceGroupProperties>(v),
                _ => continue,
            };
            assert_eq!(&back, v);
            *seen.entry(kind).or_default() += 1;
        }
    }
    println!("{seen:?}");
    assert!(seen.len() > 10, "{seen:?}");
}
