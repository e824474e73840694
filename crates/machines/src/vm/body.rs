//! What Azure is sent.

use super::Place;
use super::trouble::{Kind, Trouble};
use apis::capz::azure_machine::{AzureMachineSpec, ManagedDisk, VmIdentity};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

/// Azure takes 64 KiB of what a machine boots with.
const MAX_BOOT: usize = 64 << 10;

/// A network interface. `fast` is whether the size can have accelerated networking.
pub fn interface(place: &Place, at: usize, spec: &AzureMachineSpec, fast: bool) -> Value {
    let (_, subnet) = &place.interfaces[at];
    let wish = spec.network_interfaces.as_deref().and_then(|l| l.get(at));
    let configs = wish.and_then(|w| w.private_ip_configs).unwrap_or(1).clamp(1, 64);
    let accelerated =
        wish.and_then(|w| w.accelerated_networking).or(spec.accelerated_networking).unwrap_or(fast);
    let configs: Vec<Value> = (0..configs)
        .map(|i| {
            let name = if i == 0 { "pipConfig".to_owned() } else { format!("{}-{i}", place.vm.name()) };
            let mut p =
                json!({"subnet": {"id": subnet}, "privateIPAllocationMethod": "Dynamic", "primary": i == 0});
            if let Some(pool) = place.pool.as_ref().filter(|_| at == 0 && i == 0) {
                p["loadBalancerBackendAddressPools"] = json!([{"id": pool}]);
            }
            json!({"name": name, "properties": p})
        })
        .collect();
    let mut properties = json!({"ipConfigurations": configs, "enableAcceleratedNetworking": accelerated,
        "enableIPForwarding": spec.enable_ip_forwarding.unwrap_or(false)});
    if let Some(servers) = spec.dns_servers.as_ref().filter(|s| !s.is_empty()) {
        properties["dnsSettings"] = json!({"dnsServers": servers});
    }
    json!({"location": place.location, "tags": place.tags, "properties": properties})
}

/// The set for machines that no zone can take.
pub fn availability_set(place: &Place, fault_domains: u32) -> Value {
    json!({"location": place.location, "tags": place.tags.0.iter().filter(|(k, _)| *k != "Name").collect::<std::collections::BTreeMap<_, _>>(),
        "sku": {"name": "Aligned"},
        "properties": {"platformFaultDomainCount": fault_domains, "platformUpdateDomainCount": 5}})
}

/// Where a machine stands: a zone, a set, or wherever Azure likes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Standing {
    Zone(String),
    Set,
    Anywhere,
}

/// The machine itself. `boot` is what it boots with.
pub fn machine(
    place: &Place,
    spec: &AzureMachineSpec,
    standing: &Standing,
    boot: &[u8],
) -> Result<Value, Trouble> {
    if boot.len() > MAX_BOOT {
        let message = format!("the machine would boot with {} bytes, and Azure takes {MAX_BOOT}", boot.len());
        return Err(Trouble::new(Kind::Bootstrap, message));
    }
    let interfaces: Vec<Value> = place
        .interfaces
        .iter()
        .enumerate()
        .map(|(i, (id, _))| json!({"id": id, "properties": {"primary": i == 0}}))
        .collect();
    let mut p = json!({
        "hardwareProfile": {"vmSize": spec.vm_size},
        "storageProfile": {"imageReference": image(spec)?, "osDisk": os_disk(place, spec), "dataDisks": data_disks(place, spec)},
        "osProfile": os_profile(place, spec, boot)?,
        "networkProfile": {"networkInterfaces": interfaces},
    });
    if let Some(security) = security(spec) {
        p["securityProfile"] = security;
    }
    if let Some(boot) = spec.diagnostics.as_ref().and_then(|d| d.boot.as_ref()) {
        p["diagnosticsProfile"] = match boot.storage_account_type.as_str() {
            "Disabled" => json!({"bootDiagnostics": {"enabled": false}}),
            "UserManaged" => {
                let uri = boot.user_managed.as_ref().map(|u| u.storage_account_uri.as_str());
                json!({"bootDiagnostics": {"enabled": true, "storageUri": uri}})
            }
            _ => json!({"bootDiagnostics": {"enabled": true}}),
        };
    }
    if let Some(spot) = &spec.spot_vm_options {
        p["priority"] = json!("Spot");
        p["evictionPolicy"] = json!(spot.eviction_policy.as_deref().unwrap_or("Deallocate"));
        let price = spot.max_price.as_ref().and_then(|m| m.to_string().parse::<f64>().ok()).unwrap_or(-1.0);
        p["billingProfile"] = json!({"maxPrice": price});
    }
    if let Some(group) = &spec.capacity_reservation_group_id {
        p["capacityReservation"] = json!({"capacityReservationGroup": {"id": group}});
    }
    if let Some(more) = &spec.additional_capabilities {
        p["additionalCapabilities"] = more.0.clone();
    }
    if *standing == Standing::Set {
        p["availabilitySet"] = json!({"id": place.set});
    }
    let mut body = json!({"location": place.location, "tags": place.tags, "properties": p});
    if let Standing::Zone(zone) = standing {
        body["zones"] = json!([zone]);
    }
    if let Some(identity) = identity(spec) {
        body["identity"] = identity;
    }
    if let Some(m) = spec.image.as_ref().and_then(|i| i.marketplace.as_ref()).filter(|m| m.third_party_image)
    {
        body["plan"] = json!({"publisher": m.publisher, "product": m.offer, "name": m.sku});
    }
    Ok(body)
}

fn image(spec: &AzureMachineSpec) -> Result<Value, Trouble> {
    let image = spec.image.as_ref();
    if let Some(id) = image.and_then(|i| i.id.as_deref()) {
        return Ok(json!({"id": id}));
    }
    if let Some(m) = image.and_then(|i| i.marketplace.as_ref()) {
        return Ok(json!({"publisher": m.publisher, "offer": m.offer, "sku": m.sku, "version": m.version}));
    }
    // A gallery, by its parts.
    if let Some(g) = image.and_then(|i| i.compute_gallery.as_ref()) {
        let text = |k: &str| g.0[k].as_str().unwrap_or_default();
        let (sub, group) = (text("subscriptionID"), text("resourceGroup"));
        let tail =
            format!("galleries/{}/images/{}/versions/{}", text("gallery"), text("name"), text("version"));
        return Ok(match sub.is_empty() || group.is_empty() {
            true => json!({"communityGalleryImageId": format!("/CommunityGalleries/{}/Images/{}/Versions/{}",
                text("gallery"), text("name"), text("version"))}),
            false => {
                json!({"id": format!("/subscriptions/{sub}/resourceGroups/{group}/providers/Microsoft.Compute/{tail}")})
            }
        });
    }
    Err(Trouble::new(
        Kind::Image,
        "the machine names no image: neither image.id nor image.marketplace is set",
    ))
}

fn managed(disk: Option<&ManagedDisk>) -> Value {
    let mut out = json!({});
    let Some(disk) = disk else { return out };
    if let Some(kind) = &disk.storage_account_type {
        out["storageAccountType"] = json!(kind);
    }
    if let Some(id) = disk.disk_encryption_set.as_ref().and_then(|s| s.id.as_deref()) {
        out["diskEncryptionSet"] = json!({"id": id});
    }
    if let Some(s) = &disk.security_profile {
        let set = s.disk_encryption_set.as_ref().and_then(|s| s.id.as_deref());
        out["securityProfile"] = json!({"securityEncryptionType": s.security_encryption_type});
        if let Some(id) = set {
            out["securityProfile"]["diskEncryptionSet"] = json!({"id": id});
        }
    }
    out
}

/// How to read what a machine says while it boots, if Azure keeps that; otherwise how to have it kept. `boot` is the
/// AzureMachine's `spec.diagnostics.boot`.
pub fn console(boot: &Value) -> &'static str {
    match boot["storageAccountType"].as_str() {
        None | Some("" | "Disabled") => {
            "its serial console would tell why, and is not kept: set spec.platform.azure.diagnostics.storageAccountType of the NodePool to Managed, and of machines that are made then it is read with az vm boot-diagnostics get-boot-log"
        }
        Some(_) => "its serial console tells why (az vm boot-diagnostics get-boot-log)",
    }
}

fn os_disk(place: &Place, spec: &AzureMachineSpec) -> Value {
    let disk = &spec.os_disk;
    let mut out = json!({"name": place.os_disk.name(), "osType": disk.os_type, "createOption": "FromImage",
        "managedDisk": managed(disk.managed_disk.as_ref()), "caching": disk.caching_type.as_deref().unwrap_or("None")});
    if let Some(size) = disk.disk_size_gb {
        out["diskSizeGB"] = json!(size);
    }
    if let Some(diff) = &disk.diff_disk_settings {
        out["diffDiskSettings"] = json!({"option": diff.option});
        if let Some(place) = &diff.placement {
            out["diffDiskSettings"]["placement"] = json!(place);
        }
        // Local disks can be cached for reading and nothing else.
        out["caching"] = json!("ReadOnly");
    }
    out
}

fn data_disks(place: &Place, spec: &AzureMachineSpec) -> Vec<Value> {
    let disks = spec.data_disks.iter().flatten().zip(&place.data_disks).enumerate();
    disks
        .map(|(i, (d, id))| {
            json!({"name": id.name(), "lun": d.lun.unwrap_or_else(|| i32::try_from(i).unwrap_or(0)), "createOption": "Empty",
                "diskSizeGB": d.disk_size_gb, "caching": d.caching_type.as_deref().unwrap_or("None"),
                "managedDisk": managed(d.managed_disk.as_ref())})
        })
        .collect()
}

fn os_profile(place: &Place, spec: &AzureMachineSpec, boot: &[u8]) -> Result<Value, Trouble> {
    let mut linux = json!({"disablePasswordAuthentication": true});
    // The template carries the key in base64, as its provider upstream wants it.
    if let Some(key) = spec.ssh_public_key.as_deref().filter(|k| !k.is_empty()) {
        let key = STANDARD.decode(key).ok().and_then(|b| String::from_utf8(b).ok());
        let key =
            key.ok_or_else(|| Trouble::new(Kind::Invalid, "sshPublicKey is not base64 of a public key"))?;
        linux["ssh"] = json!({"publicKeys": [{"path": "/home/capi/.ssh/authorized_keys", "keyData": key}]});
    }
    Ok(json!({"computerName": place.vm.name(), "adminUsername": "capi", "customData": STANDARD.encode(boot),
        "linuxConfiguration": linux,
        "allowExtensionOperations": !spec.disable_extension_operations.unwrap_or(false)}))
}

fn security(spec: &AzureMachineSpec) -> Option<Value> {
    let s = spec.security_profile.as_ref()?;
    let mut out = json!({});
    if let Some(on) = s.encryption_at_host {
        out["encryptionAtHost"] = json!(on);
    }
    if let Some(kind) = &s.security_type {
        out["securityType"] = json!(kind);
    }
    if let Some(uefi) = &s.uefi_settings {
        out["uefiSettings"] = json!({"secureBootEnabled": uefi.secure_boot_enabled.unwrap_or(false),
            "vTpmEnabled": uefi.v_tpm_enabled.unwrap_or(false)});
    }
    Some(out)
}

fn identity(spec: &AzureMachineSpec) -> Option<Value> {
    match spec.identity {
        VmIdentity::None => None,
        VmIdentity::SystemAssigned => Some(json!({"type": "SystemAssigned"})),
        VmIdentity::UserAssigned => {
            let ids = spec.user_assigned_identities.iter().flatten();
            let ids = ids.map(|i| (i.provider_id.trim_start_matches("azure://").to_owned(), json!({})));
            Some(
                json!({"type": "UserAssigned", "userAssignedIdentities": ids.collect::<serde_json::Map<_, _>>()}),
            )
        }
    }
}

#[cfg(test)]
#[path = "body_tests.rs"]
mod tests;
