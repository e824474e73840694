use super::*;
use serde_json::json;

const SUB: &str = "00000000-0000-0000-0000-000000000001";

fn place(spec: &AzureMachineSpec) -> Place {
    let azure = json!({"location": "westus2", "resourceGroup": "rg", "subscriptionID": SUB, "additionalTags": {"team": "a"},
        "networkSpec": {"vnet": {"name": "v", "id": format!("/subscriptions/{SUB}/resourceGroups/net/providers/Microsoft.Network/virtualNetworks/v")},
            "nodeOutboundLB": {"name": "lb", "backendPool": {"name": "pool"}}}});
    Place::of("m", spec, &serde_json::from_value(azure).unwrap(), "c", "pool").unwrap()
}

fn full() -> AzureMachineSpec {
    let des =
        format!("/subscriptions/{SUB}/resourceGroups/rg/providers/Microsoft.Compute/diskEncryptionSets/d");
    serde_json::from_value(json!({
        "vmSize": "Standard_D4s_v5", "failureDomain": "2", "additionalTags": {"x": "y"},
        "osDisk": {"osType": "Linux", "diskSizeGB": 120, "cachingType": "ReadOnly", "diffDiskSettings": {"option": "Local"},
            "managedDisk": {"storageAccountType": "Premium_LRS", "diskEncryptionSet": {"id": des}}},
        "dataDisks": [{"nameSuffix": "etc", "diskSizeGB": 8}],
        "image": {"marketplace": {"publisher": "p", "offer": "o", "sku": "s", "version": "1.2.3", "thirdPartyImage": true}},
        "identity": "UserAssigned", "userAssignedIdentities": [{"providerID": "azure:///subscriptions/s/resourceGroups/g/providers/Microsoft.ManagedIdentity/userAssignedIdentities/acr"}],
        "networkInterfaces": [{"subnetName": "nodes"}, {"subnetName": "storage", "acceleratedNetworking": false}],
        "securityProfile": {"encryptionAtHost": true, "securityType": "TrustedLaunch", "uefiSettings": {"secureBootEnabled": true, "vTpmEnabled": true}},
        "diagnostics": {"boot": {"storageAccountType": "UserManaged", "userManaged": {"storageAccountURI": "https://a.blob.core.windows.net"}}},
        "spotVMOptions": {"maxPrice": "0.5", "evictionPolicy": "Delete"},
        "sshPublicKey": "c3NoLXJzYSBBQUFB",
    }))
    .unwrap()
}

#[test]
fn everything_a_machine_can_ask_for_is_in_its_body() {
    let spec = full();
    let place = place(&spec);
    let body = machine(&place, &spec, &Standing::Zone("2".into()), b"ignition").unwrap();
    let at = |p: &str| body.pointer(p).cloned().unwrap_or_default();
    assert_eq!(at("/zones"), json!(["2"]));
    assert_eq!(at("/plan"), json!({"publisher": "p", "product": "o", "name": "s"}));
    assert_eq!(at("/tags/team"), "a");
    assert_eq!(at("/tags/x"), "y");
    assert_eq!(at("/tags/sigs.k8s.io_cluster-api-provider-azure_cluster_c"), "owned");
    let identities = at("/identity/userAssignedIdentities");
    assert!(
        identities.as_object().unwrap().keys().next().unwrap().starts_with("/subscriptions/s/"),
        "{identities}"
    );
    let disk = at("/properties/storageProfile/osDisk");
    assert_eq!(
        (disk["name"].as_str(), disk["caching"].as_str(), disk["diskSizeGB"].as_i64()),
        (Some("m_OSDisk"), Some("ReadOnly"), Some(120))
    );
    assert_eq!(disk["diffDiskSettings"], json!({"option": "Local"}));
    assert!(
        disk["managedDisk"]["diskEncryptionSet"]["id"].as_str().unwrap().ends_with("/diskEncryptionSets/d")
    );
    assert_eq!(at("/properties/storageProfile/dataDisks/0/name"), "m_etc");
    assert_eq!(
        at("/properties/securityProfile"),
        json!({"encryptionAtHost": true, "securityType": "TrustedLaunch",
        "uefiSettings": {"secureBootEnabled": true, "vTpmEnabled": true}})
    );
    assert_eq!(
        at("/properties/diagnosticsProfile/bootDiagnostics/storageUri"),
        "https://a.blob.core.windows.net"
    );
    assert_eq!(
        (at("/properties/priority"), at("/properties/billingProfile/maxPrice")),
        (json!("Spot"), json!(0.5))
    );
    assert_eq!(at("/properties/osProfile/customData"), STANDARD.encode("ignition"));
    assert_eq!(at("/properties/osProfile/linuxConfiguration/ssh/publicKeys/0/keyData"), "ssh-rsa AAAA");
    assert_eq!(at("/properties/networkProfile/networkInterfaces").as_array().unwrap().len(), 2);
    let set = machine(&place, &spec, &Standing::Set, b"").unwrap();
    assert!(
        set.get("zones").is_none()
            && set["properties"]["availabilitySet"]["id"].as_str().unwrap().ends_with("/c_pool-as")
    );

    let first = interface(&place, 0, &spec, true);
    let p = &first["properties"];
    assert_eq!(p["enableAcceleratedNetworking"], true);
    let config = &p["ipConfigurations"][0]["properties"];
    assert!(
        config["subnet"]["id"]
            .as_str()
            .unwrap()
            .ends_with("resourceGroups/net/providers/Microsoft.Network/virtualNetworks/v/subnets/nodes")
    );
    assert!(
        config["loadBalancerBackendAddressPools"][0]["id"]
            .as_str()
            .unwrap()
            .ends_with("/loadBalancers/lb/backendAddressPools/pool")
    );
    let second = interface(&place, 1, &spec, true);
    assert_eq!(second["properties"]["enableAcceleratedNetworking"], false);
    assert!(
        second["properties"]["ipConfigurations"][0]["properties"]
            .get("loadBalancerBackendAddressPools")
            .is_none()
    );
}

#[test]
fn what_cannot_be_a_machine_is_said_before_anything_is_asked() {
    let mut spec = full();
    let place = place(&spec);
    let too_much = vec![0; MAX_BOOT + 1];
    assert_eq!(machine(&place, &spec, &Standing::Anywhere, &too_much).unwrap_err().kind, Kind::Bootstrap);
    spec.ssh_public_key = Some("not base64!".into());
    assert_eq!(machine(&place, &spec, &Standing::Anywhere, b"").unwrap_err().kind, Kind::Invalid);
    spec.image = None;
    spec.ssh_public_key = None;
    assert_eq!(machine(&place, &spec, &Standing::Anywhere, b"").unwrap_err().kind, Kind::Image);
    spec.image = serde_json::from_value(json!({"id": "/subscriptions/s/x"})).unwrap();
    let body = machine(&place, &spec, &Standing::Anywhere, b"").unwrap();
    assert_eq!(body["properties"]["storageProfile"]["imageReference"], json!({"id": "/subscriptions/s/x"}));
    assert!(body.get("plan").is_none());
}

#[test]
fn only_our_tags_make_something_ours() {
    let place = place(&full());
    let tags = |v: serde_json::Value| -> arm::Tags { serde_json::from_value(v).unwrap() };
    assert!(place.is_ours(Some(&place.tags)));
    assert!(place.is_ours(Some(&tags(json!({"sigs.k8s.io_cluster-api-provider-azure_cluster_c": "owned"})))));
    for foreign in [
        json!({}),
        json!({"sigs.k8s.io_cluster-api-provider-azure_cluster_c": "shared"}),
        json!({"sigs.k8s.io_cluster-api-provider-azure_cluster_other": "owned"}),
    ] {
        assert!(!place.is_ours(Some(&tags(foreign.clone()))), "{foreign}");
    }
    assert!(!place.is_ours(None));
}

#[test]
fn the_console_is_named_only_where_azure_keeps_it() {
    for kept in ["Managed", "UserManaged"] {
        assert!(console(&json!({"storageAccountType": kept})).starts_with("its serial console tells"));
    }
    for none in [json!({"storageAccountType": "Disabled"}), Value::Null] {
        let said = console(&none);
        assert!(said.contains("is not kept") && said.contains("spec.platform.azure.diagnostics"), "{said}");
    }
}
