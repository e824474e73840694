//! `spec.platform.azure` of a NodePool: the virtual machines.

use crate::common::text_enum;
use crate::schema::{fixed, member, rule, rule_at, subnet_id};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use serde_with::skip_serializing_none;

fn subnet_rules() -> Value {
    let mut rules = subnet_id("subnetID", true);
    rules.push(fixed("subnetID", "create another NodePool in the subnet you want"));
    json!(rules)
}

/// Virtual machines on Azure.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AzureNodePool {
    /// Size of the machines, such as Standard_D4s_v5.
    #[schemars(
        length(max = 255),
        regex(
            pattern = r"^(Standard_|Basic_)?[A-Z]+[0-9]+(-[0-9]+)?[abdilmptsCNP]*(_[A-Z]*[0-9]+[A-Z]*)?(_v[0-9]+)?$"
        )
    )]
    pub vm_size: String,
    /// What the machines boot from.
    pub image: VmImage,
    /// The operating system's disk.
    pub os_disk: OsDisk,
    /// Availability zone: 1, 2 or 3. Unset: none.
    #[schemars(length(max = 255), extend("x-kubernetes-validations" = json!([
        rule("self in ['1', '2', '3']", "availabilityZone must be '1', '2' or '3'; leave it out for none"),
    ])))]
    pub availability_zone: Option<String>,
    /// Whether the host encrypts caches and temporary disks.
    #[serde(default)]
    pub encryption_at_host: EncryptionAtHost,
    /// ARM id of the subnet of the machines.
    #[serde(rename = "subnetID")]
    #[schemars(length(min = 1, max = 355), extend("x-kubernetes-validations" = subnet_rules()))]
    pub subnet_id: String,
    /// Where boot diagnostics go.
    pub diagnostics: Option<Diagnostics>,
}

text_enum! {
    /// Whether the host encrypts.
    pub enum EncryptionAtHost {
        Enabled = "Enabled",
        Disabled = "Disabled",
    }
}

text_enum! {
    /// Kinds of images.
    pub enum VmImageType {
        ImageId = "ImageID",
        Marketplace = "AzureMarketplace",
    }
}

/// What machines boot from.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [
    member("type", "ImageID", "imageID"),
    rule_at(".azureMarketplace", "self.type == 'AzureMarketplace' || !has(self.azureMarketplace)",
        "azureMarketplace is forbidden unless image.type is AzureMarketplace: remove it or change image.type"),
]))]
pub struct VmImage {
    /// Which kind; decides which of the other fields counts.
    #[serde(rename = "type")]
    pub type_: VmImageType,
    /// ARM id of an image.
    #[serde(rename = "imageID")]
    #[schemars(length(max = 255))]
    pub image_id: Option<String>,
    /// An image of the marketplace. Unset, or without the four names: the one of the release.
    pub azure_marketplace: Option<MarketplaceImage>,
}

text_enum! {
    /// Generations of Hyper-V machines.
    pub enum ImageGeneration {
        Gen2 = "Gen2",
        Gen1 = "Gen1",
    }
}

/// An image of the marketplace.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("minProperties" = 1, "x-kubernetes-validations" = [
    rule("[has(self.publisher), has(self.offer), has(self.sku), has(self.version)].all(x, x) || [has(self.publisher), has(self.offer), has(self.sku), has(self.version)].all(x, !x)",
        "publisher, offer, sku and version must be set together or not at all: add the missing ones, or remove all four to use the release's image"),
]))]
pub struct MarketplaceImage {
    /// Who publishes it, such as azureopenshift.
    #[schemars(length(min = 3, max = 50), regex(pattern = r"^[a-z0-9][a-z0-9-_]{2,49}$"))]
    pub publisher: Option<String>,
    /// The offer, such as aro4.
    #[schemars(length(min = 1, max = 255))]
    pub offer: Option<String>,
    /// The plan, such as aro_420.
    #[schemars(length(min = 1, max = 255), regex(pattern = r"^[a-z0-9-_]+$"))]
    pub sku: Option<String>,
    /// X.Y.Z or latest.
    #[schemars(length(min = 1, max = 32), regex(pattern = r"^[0-9]+\.[0-9]+\.[0-9]+$|^latest$"))]
    pub version: Option<String>,
    /// Generation of the machines.
    #[serde(default)]
    pub image_generation: ImageGeneration,
}

text_enum! {
    /// Kinds of disks.
    pub enum DiskStorageAccountType {
        PremiumLrs = "Premium_LRS",
        PremiumV2Lrs = "PremiumV2_LRS",
        StandardLrs = "Standard_LRS",
        StandardSsdLrs = "StandardSSD_LRS",
    }
}

text_enum! {
    /// Whether the disk outlives a deallocation.
    pub enum DiskPersistence {
        Persistent = "Persistent",
        Ephemeral = "Ephemeral",
    }
}

/// The operating system's disk.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct OsDisk {
    /// Size in GiB. Unset: that of the image.
    #[serde(rename = "sizeGiB")]
    #[schemars(range(min = 16, max = 32767))]
    pub size_gib: Option<i32>,
    /// Kind of disk. Unset: Premium_LRS.
    pub disk_storage_account_type: Option<DiskStorageAccountType>,
    /// ARM id of a disk encryption set.
    #[serde(rename = "encryptionSetID")]
    #[schemars(length(min = 1, max = 285), extend("x-kubernetes-validations" = [
        rule("self.matches('^/subscriptions/[0-9a-fA-F-]{36}/resourceGroups/[^/]{1,90}/providers/Microsoft[.]Compute/diskEncryptionSets/[^/]{1,80}$')",
            "encryptionSetID must be /subscriptions/<uuid>/resourceGroups/<group>/providers/Microsoft.Compute/diskEncryptionSets/<name>; copy it from `az disk-encryption-set show --query id`"),
    ]))]
    pub encryption_set_id: Option<String>,
    /// Persistent, or Ephemeral on the host. Unset: Persistent.
    pub persistence: Option<DiskPersistence>,
}

text_enum! {
    /// Where boot diagnostics go.
    pub enum DiagnosticsStorage {
        Disabled = "Disabled",
        Managed = "Managed",
        UserManaged = "UserManaged",
    }
}

/// Where boot diagnostics go.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [member("storageAccountType", "UserManaged", "userManaged")]))]
pub struct Diagnostics {
    /// Disabled, an account that Azure manages, or one of yours.
    #[serde(default)]
    pub storage_account_type: DiagnosticsStorage,
    /// An account of yours.
    pub user_managed: Option<UserManagedDiagnostics>,
}

/// A storage account for boot diagnostics.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct UserManagedDiagnostics {
    /// Blob endpoint of the account.
    #[serde(rename = "storageAccountURI")]
    #[schemars(length(max = 1024), extend("x-kubernetes-validations" = [
        rule("self.startsWith('https://') && isURL(self)",
            "storageAccountURI must be an https URL such as https://account.blob.core.windows.net/"),
    ]))]
    pub storage_account_uri: String,
}
