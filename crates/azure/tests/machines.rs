//! Machines and private links through the client.

use crate::support::{Target, target};
use arm::ResourceId;
use azure::ops::*;
use azure::{ArmType, Deleted};
use futures::TryStreamExt;
use serde_json::{Value, json};

async fn put<T: ArmType>(t: &Target, scope: &ResourceId, name: &str, body: Value) -> (ResourceId, Value) {
    let arm = t.client.arm::<T>();
    let id = arm.id(scope, name).unwrap();
    let typed: T::Body = serde_json::from_value(body).unwrap();
    let made = arm.put(&id, &typed).await.unwrap_or_else(|e| panic!("{id}: {e:?}"));
    assert!(arm.exists(&id).await.unwrap());
    let all = arm.list_all(scope).await.unwrap();
    assert!(!all.is_empty(), "{id} is not listed");
    (id, serde_json::to_value(made).unwrap())
}

async fn gone<T: ArmType>(t: &Target, id: &ResourceId) {
    let arm = t.client.arm::<T>();
    assert_eq!(arm.delete(id).await.unwrap(), Deleted::Done, "{id}");
    assert!(arm.find(id).await.unwrap().is_none(), "{id}");
    assert_eq!(arm.delete(id).await.unwrap(), Deleted::Absent, "{id}");
}

async fn network(t: &Target, g: &ResourceId) -> ResourceId {
    let body = json!({"location": t.location, "properties": {"addressSpace": {"addressPrefixes": ["10.0.0.0/16"]}, "subnets": [
        {"name": "s", "properties": {"addressPrefix": "10.0.0.0/24"}},
        {"name": "nat", "properties": {"addressPrefix": "10.0.1.0/24", "privateLinkServiceNetworkPolicies": "Disabled"}},
    ]}});
    put::<VirtualNetworks>(t, g, "net", body).await.0
}

fn machine(location: &str, nic: &ResourceId) -> Value {
    json!({"location": location, "identity": {"type": "SystemAssigned"}, "properties": {
        "hardwareProfile": {"vmSize": "Standard_D2s_v5"},
        "storageProfile": {"imageReference": {"publisher": "Canonical", "offer": "ubuntu-24_04-lts", "sku": "server", "version": "latest"}},
        "osProfile": {"computerName": "m", "adminUsername": "zaffre", "adminPassword": "Zaffre-12345", "customData": "aGVsbG8="},
        "networkProfile": {"networkInterfaces": [{"id": nic.as_str()}]},
        "diagnosticsProfile": {"bootDiagnostics": {"enabled": true}},
    }})
}

#[tokio::test]
async fn machines() {
    let t = target().await;
    t.in_group("machines", async |g: ResourceId| {
        let net = network(&t, &g).await;
        let nic = json!({"location": t.location, "properties": {"ipConfigurations": [{"name": "c", "properties": {"subnet": {"id": format!("{net}/subnets/s")}}}]}});
        let (nic, _) = put::<NetworkInterfaces>(&t, &g, "nic", nic).await;
        let (disk, shown) = put::<Disks>(&t, &g, "data", json!({"location": t.location, "sku": {"name": "Premium_LRS"}, "properties": {"creationData": {"createOption": "Empty"}, "diskSizeGB": 32}})).await;
        assert_eq!(shown["properties"]["diskState"], "Unattached");
        let (vm, shown) = put::<VirtualMachines>(&t, &g, "m", machine(&t.location, &nic)).await;
        assert_eq!(shown["properties"]["provisioningState"], "Succeeded");
        assert!(shown["identity"]["principalId"].is_string() && !shown.to_string().contains("aGVsbG8="));
        let arm = t.client.arm::<VirtualMachines>();
        let attach = json!({"properties": {"storageProfile": {"dataDisks": [{"lun": 0, "createOption": "Attach", "managedDisk": {"id": disk.as_str()}}]}}});
        arm.patch(&vm, &attach).await.unwrap();
        let disks = t.client.arm::<Disks>();
        assert_eq!(disks.get(&disk).await.unwrap().properties.unwrap().disk_state.as_deref(), Some("Attached"));
        assert_eq!(disks.delete(&disk).await.unwrap_err().status(), Some(409));
        let (ext, _) = put::<VirtualMachineExtensions>(&t, &vm, "x", json!({"location": t.location, "properties": {"publisher": "Microsoft.ManagedServices", "type": "ApplicationHealthLinux", "typeHandlerVersion": "1.0"}})).await;
        gone::<VirtualMachineExtensions>(&t, &ext).await;
        assert_eq!(arm.instance_view(&vm).await.unwrap().power(), Some("running"));
        arm.deallocate(&vm).await.unwrap();
        assert_eq!(arm.instance_view(&vm).await.unwrap().power(), Some("deallocated"));
        arm.start(&vm).await.unwrap();
        arm.restart(&vm).await.unwrap();
        arm.power_off(&vm).await.unwrap();
        assert_eq!(arm.instance_view(&vm).await.unwrap().power(), Some("stopped"));
        assert!(arm.boot_diagnostics(&vm).await.unwrap().serial_console_log_blob_uri.is_some());
        assert!(!t.client.health(&vm).await.unwrap().availability_state.is_empty());
        gone::<VirtualMachines>(&t, &vm).await;
        gone::<Disks>(&t, &disk).await;
    })
    .await;
}

#[tokio::test]
async fn images_sets_and_sizes() {
    let t = target().await;
    t.in_group("images", async |g: ResourceId| {
        let l = &t.location;
        let empty = json!({"location": l, "properties": {"creationData": {"createOption": "Empty"}, "diskSizeGB": 32}});
        let (snapshot, _) = put::<Snapshots>(&t, &g, "snap", empty).await;
        let image = json!({"location": l, "properties": {"hyperVGeneration": "V2", "storageProfile": {"osDisk": {"osState": "Generalized", "osType": "Linux", "snapshot": {"id": snapshot.as_str()}}}}});
        let (image, _) = put::<Images>(&t, &g, "img", image).await;
        let (gallery, _) = put::<Galleries>(&t, &g, "gallery", json!({"location": l})).await;
        let definition = json!({"location": l, "properties": {"osType": "Linux", "osState": "Generalized", "hyperVGeneration": "V2", "identifier": {"publisher": "p", "offer": "o", "sku": "s"}}});
        let (definition, _) = put::<GalleryImages>(&t, &gallery, "def", definition).await;
        let version = json!({"location": l, "properties": {"storageProfile": {"osDiskImage": {"source": {"id": snapshot.as_str()}}}}});
        let (version, _) = put::<GalleryImageVersions>(&t, &definition, "1.0.0", version).await;
        let (set, _) = put::<AvailabilitySets>(&t, &g, "set", json!({"location": l, "sku": {"name": "Aligned"}, "properties": {"platformFaultDomainCount": 2, "platformUpdateDomainCount": 5}})).await;
        gone::<AvailabilitySets>(&t, &set).await;
        gone::<GalleryImageVersions>(&t, &version).await;
        gone::<GalleryImages>(&t, &definition).await;
        gone::<Galleries>(&t, &gallery).await;
        gone::<Images>(&t, &image).await;
        gone::<Snapshots>(&t, &snapshot).await;
        let skus: Vec<_> = t.client.compute_skus(t.subscription_id(), l).try_collect().await.unwrap();
        let one = skus.iter().find(|s| s.name.as_deref() == Some("Standard_D2s_v5")).unwrap();
        assert_eq!((one.capability("vCPUs"), one.capability("MemoryGB"), one.capability("CpuArchitectureType")), (Some("2"), Some("8"), Some("x64")));
        let usages: Vec<_> = t.client.compute_usages(t.subscription_id(), l).try_collect().await.unwrap();
        assert!(usages.iter().any(|u| u.name.as_ref().and_then(|n| n.value.as_deref()) == Some("cores") && u.limit.is_some()));
    })
    .await;
}

#[tokio::test]
async fn private_links() {
    let t = target().await;
    t.in_group("private", async |g: ResourceId| {
        let l = &t.location;
        let net = network(&t, &g).await;
        let balancer = json!({"location": l, "sku": {"name": "Standard"}, "properties": {"frontendIPConfigurations": [{"name": "f", "properties": {"subnet": {"id": format!("{net}/subnets/s")}}}]}});
        let (balancer, _) = put::<LoadBalancers>(&t, &g, "lb", balancer).await;
        let service = json!({"location": l, "properties": {
            "loadBalancerFrontendIpConfigurations": [{"id": format!("{balancer}/frontendIPConfigurations/f")}],
            "ipConfigurations": [{"name": "c", "properties": {"subnet": {"id": format!("{net}/subnets/nat")}}}],
        }});
        let (service, shown) = put::<PrivateLinkServices>(&t, &g, "pls", service).await;
        let alias = shown["properties"]["alias"].as_str().unwrap();
        let endpoint = json!({"location": l, "properties": {"subnet": {"id": format!("{net}/subnets/s")}, "manualPrivateLinkServiceConnections": [{"name": "c", "properties": {"privateLinkServiceId": alias, "requestMessage": "please"}}]}});
        let (endpoint, _) = put::<PrivateEndpoints>(&t, &g, "pe", endpoint).await;
        let arm = t.client.arm::<PrivateEndpoints>();
        let whole = arm.get_with(&endpoint, &[("$expand", "networkInterfaces")]).await.unwrap().properties.unwrap();
        let nic = whole.network_interfaces.unwrap().remove(0);
        assert!(nic.properties.unwrap().ip_configurations.unwrap()[0].properties.as_ref().unwrap().private_ip_address.is_some());
        let connections = t.client.arm::<PrivateEndpointConnections>();
        let mut one = connections.list_all(&service).await.unwrap().remove(0);
        let id = connections.id(&service, one.name.as_deref().unwrap()).unwrap();
        let state = one.properties.as_mut().unwrap().private_link_service_connection_state.as_mut().unwrap();
        assert_eq!(state.status.as_deref(), Some("Pending"));
        state.status = Some("Approved".to_owned());
        connections.put(&id, &one).await.unwrap();
        let now = arm.get(&endpoint).await.unwrap().properties.unwrap().manual_private_link_service_connections.unwrap().remove(0);
        assert_eq!(now.properties.unwrap().private_link_service_connection_state.unwrap().status.as_deref(), Some("Approved"));
        assert_eq!(t.client.arm::<PrivateLinkServices>().delete(&service).await.unwrap_err().status(), Some(400));
        let (zone, _) = put::<PrivateDnsZones>(&t, &g, "x.test", json!({"location": "global"})).await;
        let group = json!({"properties": {"privateDnsZoneConfigs": [{"name": "c", "properties": {"privateDnsZoneId": zone.as_str()}}]}});
        let (group, _) = put::<PrivateDnsZoneGroups>(&t, &endpoint, "default", group).await;
        gone::<PrivateDnsZoneGroups>(&t, &group).await;
        gone::<PrivateEndpoints>(&t, &endpoint).await;
        gone::<PrivateLinkServices>(&t, &service).await;
        gone::<PrivateDnsZones>(&t, &zone).await;
    })
    .await;
}
