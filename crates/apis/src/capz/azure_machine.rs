//! `AzureMachine` and its template: one virtual machine.

use super::LongRunningOperation;
use crate::capi::{CapiCondition, TemplateMeta};
use crate::common::{IntOrString, Json, QUANTITY, text_enum};
use crate::schema::immutable;
use kube_derive::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use serde_with::skip_serializing_none;
use std::collections::BTreeMap;

fn linux() -> String {
    "Linux".into()
}

text_enum! {
    /// Which identities a machine carries.
    pub enum VmIdentity {
        None = "None",
        SystemAssigned = "SystemAssigned",
        UserAssigned = "UserAssigned",
    }
}

/// One virtual machine.
#[skip_serializing_none]
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "infrastructure.cluster.x-k8s.io",
    version = "v1beta1",
    kind = "AzureMachine",
    namespaced,
    doc = "One virtual machine on Azure.",
    status = "AzureMachineStatus",
    category = "cluster-api",
    label("cluster.x-k8s.io/v1beta1", "v1beta1"),
    derive = "PartialEq",
    derive = "Default",
    crates(kube_core = "::kube_core"),
    printcolumn(
        name = "Ready",
        type_ = "string",
        json_path = ".status.conditions[?(@.type=='Ready')].status"
    ),
    printcolumn(
        name = "Severity",
        type_ = "string",
        json_path = ".status.conditions[?(@.type=='Ready')].severity"
    ),
    printcolumn(
        name = "Reason",
        type_ = "string",
        json_path = ".status.conditions[?(@.type=='Ready')].reason"
    ),
    printcolumn(
        name = "State",
        type_ = "string",
        json_path = ".status.vmState",
        description = "State of the machine in Azure"
    ),
    printcolumn(
        name = "Cluster",
        type_ = "string",
        json_path = ".metadata.labels.cluster\\.x-k8s\\.io/cluster-name",
        priority = 1
    ),
    printcolumn(name = "VM ID", type_ = "string", json_path = ".spec.providerID", priority = 1),
    printcolumn(name = "VM Size", type_ = "string", json_path = ".spec.vmSize", priority = 1),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
pub struct AzureMachineSpec {
    pub vm_size: String,
    pub os_disk: VmOsDisk,
    /// Id of the machine, `azure://` and the ARM id.
    #[serde(rename = "providerID")]
    pub provider_id: Option<String>,
    /// Availability zone.
    pub failure_domain: Option<String>,
    pub image: Option<MachineImage>,
    /// Which identities the machine carries.
    #[serde(default)]
    pub identity: VmIdentity,
    pub user_assigned_identities: Option<Vec<UserAssignedIdentity>>,
    pub network_interfaces: Option<Vec<MachineInterface>>,
    #[serde(rename = "sshPublicKey")]
    pub ssh_public_key: Option<String>,
    pub additional_tags: Option<BTreeMap<String, String>>,
    pub security_profile: Option<SecurityProfile>,
    pub diagnostics: Option<MachineDiagnostics>,
    pub data_disks: Option<Vec<DataDisk>>,
    #[serde(rename = "subnetName")]
    pub subnet_name: Option<String>,
    pub accelerated_networking: Option<bool>,
    #[serde(rename = "allocatePublicIP")]
    pub allocate_public_ip: Option<bool>,
    #[serde(rename = "enableIPForwarding")]
    pub enable_ip_forwarding: Option<bool>,
    #[serde(rename = "capacityReservationGroupID")]
    pub capacity_reservation_group_id: Option<String>,
    #[serde(rename = "spotVMOptions")]
    pub spot_vm_options: Option<SpotOptions>,
    pub dns_servers: Option<Vec<String>>,
    pub disable_extension_operations: Option<bool>,
    #[serde(rename = "disableVMBootstrapExtension")]
    pub disable_vm_bootstrap_extension: Option<bool>,
    pub role_assignment_name: Option<String>,
    /// Not acted on.
    pub additional_capabilities: Option<Json>,
    /// Not acted on.
    pub system_assigned_identity_role: Option<Json>,
    /// Not acted on.
    pub vm_extensions: Option<Vec<Json>>,
}

/// The operating system's disk.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct VmOsDisk {
    #[serde(default = "linux")]
    #[schemars(required)]
    pub os_type: String,
    #[serde(rename = "diskSizeGB")]
    pub disk_size_gb: Option<i32>,
    pub managed_disk: Option<ManagedDisk>,
    pub diff_disk_settings: Option<DiffDisk>,
    /// None, ReadOnly or ReadWrite.
    #[schemars(extend("default" = "None", "enum" = ["None", "ReadOnly", "ReadWrite"]))]
    pub caching_type: Option<String>,
}

/// A disk that lives on the host.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DiffDisk {
    #[schemars(extend("enum" = ["Local"]))]
    pub option: String,
    #[schemars(extend("enum" = ["CacheDisk", "NvmeDisk", "ResourceDisk"]))]
    pub placement: Option<String>,
}

/// A disk that Azure manages.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ManagedDisk {
    pub storage_account_type: Option<String>,
    pub disk_encryption_set: Option<DiskEncryptionSet>,
    pub security_profile: Option<DiskSecurityProfile>,
}

/// A disk encryption set.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DiskEncryptionSet {
    pub id: Option<String>,
}

/// Confidential disks.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DiskSecurityProfile {
    pub disk_encryption_set: Option<DiskEncryptionSet>,
    #[schemars(extend("enum" = ["VMGuestStateOnly", "DiskWithVMGuestState"]))]
    pub security_encryption_type: Option<String>,
}

/// A further disk.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DataDisk {
    pub name_suffix: String,
    #[serde(rename = "diskSizeGB")]
    pub disk_size_gb: i32,
    pub lun: Option<i32>,
    #[schemars(extend("enum" = ["None", "ReadOnly", "ReadWrite"]))]
    pub caching_type: Option<String>,
    pub managed_disk: Option<ManagedDisk>,
}

/// What the machine boots from; one of them.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MachineImage {
    pub id: Option<String>,
    pub marketplace: Option<MarketplaceRef>,
    /// Not acted on.
    pub compute_gallery: Option<Json>,
    /// Not acted on.
    pub shared_gallery: Option<Json>,
}

/// An image of the marketplace.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MarketplaceRef {
    #[schemars(length(min = 1))]
    pub publisher: String,
    #[schemars(length(min = 1))]
    pub offer: String,
    #[schemars(length(min = 1))]
    pub sku: String,
    #[schemars(length(min = 1))]
    pub version: String,
    #[serde(default)]
    pub third_party_image: bool,
}

/// An identity on the machine.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct UserAssignedIdentity {
    /// `azure://` and the ARM id.
    #[serde(rename = "providerID")]
    pub provider_id: String,
}

/// A network interface.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MachineInterface {
    pub subnet_name: Option<String>,
    #[serde(rename = "privateIPConfigs")]
    #[schemars(extend("format" = serde_json::Value::Null))]
    pub private_ip_configs: Option<i64>,
    pub accelerated_networking: Option<bool>,
}

/// Encryption and trusted launch.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SecurityProfile {
    pub encryption_at_host: Option<bool>,
    #[schemars(extend("enum" = ["ConfidentialVM", "TrustedLaunch"]))]
    pub security_type: Option<String>,
    pub uefi_settings: Option<UefiSettings>,
}

/// Firmware.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct UefiSettings {
    pub secure_boot_enabled: Option<bool>,
    pub v_tpm_enabled: Option<bool>,
}

/// Diagnostics.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct MachineDiagnostics {
    pub boot: Option<BootDiagnostics>,
}

/// Where boot diagnostics go.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BootDiagnostics {
    #[schemars(extend("enum" = ["Managed", "UserManaged", "Disabled"]))]
    pub storage_account_type: String,
    pub user_managed: Option<BootStorage>,
}

/// A storage account for boot diagnostics.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct BootStorage {
    #[serde(rename = "storageAccountURI")]
    #[schemars(length(max = 1024), regex(pattern = r"^https://"))]
    pub storage_account_uri: String,
}

/// A machine that Azure may take away.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SpotOptions {
    #[schemars(extend("pattern" = QUANTITY))]
    pub max_price: Option<IntOrString>,
    #[schemars(extend("enum" = ["Deallocate", "Delete"]))]
    pub eviction_policy: Option<String>,
}

/// What is known of the machine.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AzureMachineStatus {
    pub ready: Option<bool>,
    pub addresses: Option<Vec<NodeAddress>>,
    /// Creating, Succeeded, Updating, Deleting, Failed, Deleted.
    pub vm_state: Option<String>,
    pub failure_reason: Option<String>,
    pub failure_message: Option<String>,
    pub conditions: Option<Vec<CapiCondition>>,
    pub long_running_operation_states: Option<Vec<LongRunningOperation>>,
}

/// An address of the machine.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct NodeAddress {
    #[serde(rename = "type")]
    pub type_: String,
    pub address: String,
}

/// A virtual machine yet to be made. Never changed: a change is another template.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "infrastructure.cluster.x-k8s.io",
    version = "v1beta1",
    kind = "AzureMachineTemplate",
    namespaced,
    doc = "A virtual machine yet to be made. Never changed: a change is another template.",
    status = "AzureMachineTemplateStatus",
    category = "cluster-api",
    label("cluster.x-k8s.io/v1beta1", "v1beta1"),
    derive = "PartialEq",
    derive = "Default",
    crates(kube_core = "::kube_core"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
pub struct AzureMachineTemplateSpec {
    #[schemars(extend("x-kubernetes-validations" = template_rules()))]
    pub template: AzureMachineTemplateResource,
}

fn template_rules() -> serde_json::Value {
    immutable("template", "create another AzureMachineTemplate and point to it")
}

/// The machine yet to be made.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct AzureMachineTemplateResource {
    /// Labels and annotations of the machines.
    pub metadata: Option<TemplateMeta>,
    /// What the machines are.
    pub spec: AzureMachineSpec,
}

/// What the autoscaler needs to know of machines that are not there yet.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AzureMachineTemplateStatus {
    #[schemars(schema_with = "capacity_schema")]
    #[serde(default)]
    pub capacity: Option<BTreeMap<String, IntOrString>>,
    pub node_info: Option<TemplateNodeInfo>,
}

fn capacity_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    let quantity = json!({"x-kubernetes-int-or-string": true, "pattern": QUANTITY});
    schemars::json_schema!({"type": "object", "additionalProperties": quantity})
}

/// Architecture and system.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TemplateNodeInfo {
    #[schemars(extend("enum" = ["amd64", "arm64"]))]
    pub architecture: Option<String>,
    #[schemars(extend("enum" = ["linux", "windows"]))]
    pub operating_system: Option<String>,
}
