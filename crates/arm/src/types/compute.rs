//! `Microsoft.Compute`.

use super::{SubResource, fields};
use crate::{ProvisioningState, Resource};
use serde_json::Value;

pub type VirtualMachine = Resource<VirtualMachineProperties>;
pub type VirtualMachineExtension = Resource<ExtensionProperties>;
pub type Disk = Resource<DiskProperties>;
pub type Snapshot = Resource<DiskProperties>;
pub type Image = Resource<ImageProperties>;
pub type Gallery = Resource<GalleryProperties>;
pub type GalleryImage = Resource<GalleryImageProperties>;
pub type GalleryImageVersion = Resource<GalleryImageVersionProperties>;
pub type DiskEncryptionSet = Resource<DiskEncryptionSetProperties>;
pub type AvailabilitySet = Resource<AvailabilitySetProperties>;

fields! {
    VirtualMachineProperties {
        vm_id "vmId": String,
        hardware_profile "hardwareProfile": HardwareProfile,
        storage_profile "storageProfile": StorageProfile,
        os_profile "osProfile": OsProfile,
        network_profile "networkProfile": NetworkProfile,
        security_profile "securityProfile": Value,
        diagnostics_profile "diagnosticsProfile": Value,
        availability_set "availabilitySet": SubResource,
        /// Shown only when it is asked for, with `$expand=instanceView`.
        instance_view "instanceView": InstanceView,
        time_created "timeCreated": String,
        provisioning_state "provisioningState": ProvisioningState,
    }

    HardwareProfile { vm_size "vmSize": String }

    StorageProfile {
        image_reference "imageReference": ImageReference,
        os_disk "osDisk": MachineDisk,
        data_disks "dataDisks": Vec<MachineDisk>,
    }

    ImageReference {
        id "id": String,
        publisher "publisher": String,
        offer "offer": String,
        sku "sku": String,
        version "version": String,
        exact_version "exactVersion": String,
    }

    /// A disk as its machine has it.
    MachineDisk {
        name "name": String,
        lun "lun": i64,
        create_option "createOption": String,
        delete_option "deleteOption": String,
        caching "caching": String,
        os_type "osType": String,
        disk_size_gb "diskSizeGB": i64,
        managed_disk "managedDisk": ManagedDisk,
        to_be_detached "toBeDetached": bool,
    }

    ManagedDisk {
        id "id": String,
        storage_account_type "storageAccountType": String,
        disk_encryption_set "diskEncryptionSet": SubResource,
    }

    /// Passwords and custom data are written, never read.
    OsProfile {
        computer_name "computerName": String,
        admin_username "adminUsername": String,
        linux_configuration "linuxConfiguration": Value,
        allow_extension_operations "allowExtensionOperations": bool,
    }

    NetworkProfile { network_interfaces "networkInterfaces": Vec<MachineInterface> }

    MachineInterface { id "id": String, properties "properties": MachineInterfaceProperties }

    MachineInterfaceProperties { primary "primary": bool, delete_option "deleteOption": String }

    InstanceView {
        computer_name "computerName": String,
        statuses "statuses": Vec<InstanceStatus>,
        disks "disks": Vec<Value>,
    }

    InstanceStatus { code "code": String, level "level": String, display_status "displayStatus": String, message "message": String }

    ExtensionProperties {
        publisher "publisher": String,
        kind "type": String,
        type_handler_version "typeHandlerVersion": String,
        auto_upgrade_minor_version "autoUpgradeMinorVersion": bool,
        settings "settings": Value,
        provisioning_state "provisioningState": ProvisioningState,
    }

    DiskProperties {
        creation_data "creationData": Value,
        disk_size_gb "diskSizeGB": i64,
        disk_state "diskState": String,
        os_type "osType": String,
        encryption "encryption": Value,
        network_access_policy "networkAccessPolicy": String,
        tier "tier": String,
        unique_id "uniqueId": String,
        provisioning_state "provisioningState": ProvisioningState,
    }

    ImageProperties {
        storage_profile "storageProfile": Value,
        source_virtual_machine "sourceVirtualMachine": SubResource,
        hyper_v_generation "hyperVGeneration": String,
        provisioning_state "provisioningState": ProvisioningState,
    }

    GalleryProperties {
        description "description": String,
        identifier "identifier": Value,
        provisioning_state "provisioningState": ProvisioningState,
    }

    GalleryImageProperties {
        os_type "osType": String,
        os_state "osState": String,
        hyper_v_generation "hyperVGeneration": String,
        identifier "identifier": Value,
        architecture "architecture": String,
        provisioning_state "provisioningState": ProvisioningState,
    }

    GalleryImageVersionProperties {
        publishing_profile "publishingProfile": Value,
        storage_profile "storageProfile": Value,
        provisioning_state "provisioningState": ProvisioningState,
    }

    DiskEncryptionSetProperties {
        active_key "activeKey": Value,
        encryption_type "encryptionType": String,
        provisioning_state "provisioningState": ProvisioningState,
    }

    AvailabilitySetProperties {
        platform_fault_domain_count "platformFaultDomainCount": i64,
        platform_update_domain_count "platformUpdateDomainCount": i64,
        virtual_machines "virtualMachines": Vec<SubResource>,
    }

    /// One of `Microsoft.Compute/skus`: what can be had, where, and what it can do.
    ComputeSku {
        resource_type "resourceType": String,
        name "name": String,
        family "family": String,
        locations "locations": Vec<String>,
        location_info "locationInfo": Vec<SkuLocation>,
        capabilities "capabilities": Vec<SkuCapability>,
        restrictions "restrictions": Vec<SkuRestriction>,
    }

    SkuLocation { location "location": String, zones "zones": Vec<String> }

    SkuCapability { name "name": String, value "value": String }

    SkuRestriction { kind "type": String, reason_code "reasonCode": String, values "values": Vec<String> }

    /// How much of something is used, and how much there may be.
    Usage { name "name": UsageName, current_value "currentValue": i64, limit "limit": i64 }

    UsageName { value "value": String, localized_value "localizedValue": String }
}

impl ComputeSku {
    /// A capability by name.
    pub fn capability(&self, name: &str) -> Option<&str> {
        let all = self.capabilities.iter().flatten();
        all.filter(|c| c.name.as_deref().is_some_and(|n| n.eq_ignore_ascii_case(name)))
            .find_map(|c| c.value.as_deref())
    }
}

impl InstanceView {
    /// `running`, `stopped`, `deallocated`.
    pub fn power(&self) -> Option<&str> {
        self.statuses.iter().flatten().find_map(|s| s.code.as_deref()?.strip_prefix("PowerState/"))
    }
}
