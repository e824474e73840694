//! One virtual machine of a pool, as Azure's machine provider is told.

use super::text::{canonical, simple_bytes};
use super::{belong, name};
use crate::around::{BootImage, Payload};
use apis::hypershift::node_pool::Arch;
use apis::hypershift::node_pool_azure::{
    AzureNodePool, DiagnosticsStorage, DiskPersistence, EncryptionAtHost, ImageGeneration, VmImageType,
};
use apis::hypershift::{HostedCluster, NodePool};
use apis::version::Version;
use serde_json::{Value, json};

/// Azure insists on a key for machines that nobody logs into: the real one is in what they boot with, and the private half
/// of this one was never kept.
const NOBODYS_KEY: &str = "c3NoLXJzYSBBQUFBQjNOemFDMXljMkVBQUFBREFRQUJBQUFCQVFDOGFrd0NWcHV4eGh2Y1ZGOTNTbTNvdHVzTjRLdHA5cjR1a2Znb3BWVno2RVZ4OG5jWElrZmtzczRNdk4xa1dqTHY2Z1Z1RnRCS2pnYlVDenpGMHdqdTJFczFFa1VOYjBiS0N5MXQzaWtyWEM3bmRTMWZJYmxyWjRxRDFrZDNxMVhTRlkxVUR2Y29MZGdqeEZiVFV6N095OTBWZnkyNVFZcHEzdm9OZEI0WnhsZDg3dGhRbHdIclErOUIvUDE4NFlKa0dqL2RmZ0VNT1hqbXBRbENGL01lU0kyYStJaGZYeGRaTUNicWJLSzlkRVZPc09PeUxTd3hBTlhYaXFpSVN4YjJFS0lIQWkvZzZoeGltZDl0NVJKTFlsSTVUcXlRTk5QS2tGR0pTTHBUNUZ3YUJzZlpMRmxWYkdDTlRUdFFZTHZNT2Z6U01DbW5uM3Zjb0ExWjZiQ2wgbm9ib2R5Cg==";
/// From this minor on, releases say which image of the marketplace is theirs.
const IMAGE_SINCE: u32 = 20;

/// Why there is no image to boot from.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoImage {
    #[error(
        "spec.platform.azure.image names no image, and release {version} is older than 4.{IMAGE_SINCE}, which is the first that names its own: set image.imageID, or publisher, offer, sku and version of image.azureMarketplace"
    )]
    TooOld { version: String },
    #[error(
        "spec.platform.azure.image names no image, and release {version} has none for {arch} {generation}: set image.imageID, or publisher, offer, sku and version of image.azureMarketplace"
    )]
    Unknown { version: String, arch: &'static str, generation: &'static str },
}

/// As release metadata calls it.
pub fn machine_arch(arch: Arch) -> &'static str {
    match arch {
        Arch::Amd64 => "x86_64",
        Arch::Arm64 => "aarch64",
        Arch::Ppc64Le => "ppc64le",
        Arch::S390X => "s390x",
    }
}

/// The generation of machines whose image the release names; `None`: the user names an image.
pub fn released(azure: &AzureNodePool) -> Option<ImageGeneration> {
    let image = &azure.image;
    let by_id = image.type_ == VmImageType::ImageId && image.image_id.is_some();
    let given = image.azure_marketplace.as_ref();
    // All four names are there, or none.
    let named = given.is_some_and(|m| m.publisher.is_some());
    (!by_id && !named).then(|| given.map(|m| m.image_generation).unwrap_or_default())
}

/// The image of a pool: what the user names, or what the release does.
pub fn image(azure: &AzureNodePool, arch: Arch, payload: &Payload) -> Result<Value, NoImage> {
    let image = &azure.image;
    if let (VmImageType::ImageId, Some(id)) = (image.type_, &image.image_id) {
        return Ok(json!({"id": id}));
    }
    let given = image.azure_marketplace.clone().unwrap_or_default();
    if let (Some(publisher), Some(offer), Some(sku), Some(version)) =
        (&given.publisher, &given.offer, &given.sku, &given.version)
    {
        return Ok(
            json!({"marketplace": {"publisher": publisher, "offer": offer, "sku": sku, "version": version}}),
        );
    }
    let version = payload.release.version.clone();
    if version.parse::<Version>().is_ok_and(|v| v.ordinal() < IMAGE_SINCE) {
        return Err(NoImage::TooOld { version });
    }
    let (first, arch) = (given.image_generation == ImageGeneration::Gen1, machine_arch(arch));
    let generation = if first { "Gen1" } else { "Gen2" };
    match payload.boot.iter().find(|b| b.arch == arch && b.first_generation == first) {
        Some(BootImage { publisher, offer, sku, version, .. }) => Ok(
            json!({"marketplace": {"publisher": publisher, "offer": offer, "sku": sku, "version": version}}),
        ),
        None => Err(NoImage::Unknown { version, arch, generation }),
    }
}

/// `spec.template.spec` of the AzureMachineTemplate.
pub fn machine(hc: &HostedCluster, azure: &AzureNodePool, image: Value) -> Value {
    let disk = &azure.os_disk;
    let mut managed = json!({"storageAccountType": disk.disk_storage_account_type.unwrap_or_default()});
    if let Some(id) = &disk.encryption_set_id {
        managed["diskEncryptionSet"] = json!({"id": id});
    }
    let mut os_disk = json!({"osType": "Linux", "managedDisk": managed});
    if let Some(size) = disk.size_gib {
        os_disk["diskSizeGB"] = json!(size);
    }
    if disk.persistence == Some(DiskPersistence::Ephemeral) {
        os_disk["cachingType"] = json!("ReadOnly");
        os_disk["diffDiskSettings"] = json!({"option": "Local"});
    }
    let subnet = azure.subnet_id.rsplit('/').next().unwrap_or_default();
    let mut spec = json!({
        "vmSize": azure.vm_size,
        "osDisk": os_disk,
        "image": image,
        "networkInterfaces": [{"subnetName": subnet}],
        "sshPublicKey": NOBODYS_KEY,
    });
    if let Some(zone) = &azure.availability_zone {
        spec["failureDomain"] = json!(zone);
    }
    if azure.encryption_at_host == EncryptionAtHost::Enabled {
        spec["securityProfile"] = json!({"encryptionAtHost": true});
    }
    if let Some(diagnostics) = &azure.diagnostics {
        let mut boot = json!({"storageAccountType": diagnostics.storage_account_type});
        if let (DiagnosticsStorage::UserManaged, Some(own)) =
            (diagnostics.storage_account_type, &diagnostics.user_managed)
        {
            boot["userManaged"] = json!({"storageAccountURI": own.storage_account_uri});
        }
        spec["diagnostics"] = json!({"boot": boot});
    }
    let platform = hc.spec.shared.platform.azure.as_ref();
    let registry = platform.and_then(|p| p.container_registry.as_ref());
    if let Some(identity) = registry.and_then(|r| r.credentials.managed_identity.as_ref()) {
        spec["identity"] = json!("UserAssigned");
        spec["userAssignedIdentities"] = json!([{"providerID": format!("azure://{}", identity.resource_id)}]);
    }
    spec
}

/// The template, under a name that follows from what it says: another machine has another template.
pub fn object(hc: &HostedCluster, np: &NodePool, mut machine: Value) -> Value {
    let name = format!("{}-{}", name(np), simple_bytes(canonical(&machine).as_bytes()));
    // The images have no agent of Azure's: an extension, and upstream's provider would add one to see whether the machine
    // has booted, is never installed. No part of the name, because it is no reason to roll machines that run.
    machine["disableExtensionOperations"] = json!(true);
    belong(
        hc,
        np,
        json!({"apiVersion": "infrastructure.cluster.x-k8s.io/v1beta1", "kind": "AzureMachineTemplate",
            "metadata": {"name": name},
            "spec": {"template": {"spec": machine}}}),
    )
}
