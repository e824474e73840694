//! `HCPEtcdBackup`: one snapshot of a cluster's etcd, taken when the object is made.

use crate::common::{Condition, LocalObjectReference, text_enum};
use crate::schema::{fixed, member, rule};
use kube_derive::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

const ANOTHER: &str = "make another HCPEtcdBackup";

/// A snapshot of a control plane's etcd, and where it is to be put.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "hypershift.openshift.io",
    version = "v1beta1",
    kind = "HCPEtcdBackup",
    namespaced,
    doc = "A snapshot of a control plane's etcd.",
    plural = "hcpetcdbackups",
    status = "HCPEtcdBackupStatus",
    derive = "PartialEq",
    derive = "Default",
    crates(kube_core = "::kube_core"),
    printcolumn(
        name = "Completed",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"BackupCompleted\")].status",
        description = "Whether the snapshot is stored"
    ),
    printcolumn(
        name = "Reason",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"BackupCompleted\")].reason",
        description = "Why, or why not"
    ),
    printcolumn(
        name = "URL",
        type_ = "string",
        json_path = ".status.snapshotURL",
        description = "Where the snapshot is"
    ),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
pub struct HCPEtcdBackupSpec {
    /// Where the snapshot is put.
    pub storage: BackupStorage,
}

text_enum! {
    /// Kinds of storage for snapshots.
    pub enum BackupStorageType {
        AzureBlob = "AzureBlob",
    }
}

/// Where a snapshot is put.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [
    member("storageType", "AzureBlob", "azureBlob"),
    fixed("storage", ANOTHER),
]))]
pub struct BackupStorage {
    /// Which kind; decides which of the other fields counts.
    pub storage_type: BackupStorageType,
    /// A container of an Azure storage account.
    pub azure_blob: Option<AzureBlobStorage>,
}

/// A container of an Azure storage account.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AzureBlobStorage {
    /// Name of the account, not its URL.
    #[schemars(length(min = 3, max = 24), regex(pattern = r"^[a-z0-9]+$"))]
    pub storage_account: String,
    /// Name of the container; it must exist.
    #[schemars(length(min = 3, max = 63), regex(pattern = r"^[a-z0-9](-?[a-z0-9])*$"))]
    pub container: String,
    /// What names of snapshots begin with.
    #[schemars(length(max = 512), extend("x-kubernetes-validations" = [
        rule("!self.startsWith('/') && !self.endsWith('/')", "keyPrefix must neither begin nor end with a slash"),
    ]))]
    pub key_prefix: Option<String>,
    /// Secret of the control-plane namespace with the variables of a credential (`AZURE_TENANT_ID`, `AZURE_CLIENT_ID` and
    /// `AZURE_CLIENT_SECRET`, for example). Unset: the control plane operator's own identity.
    pub credentials: Option<LocalObjectReference>,
}

/// What became of a snapshot.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HCPEtcdBackupStatus {
    /// Where the snapshot is.
    #[serde(rename = "snapshotURL")]
    #[schemars(length(max = 1024))]
    pub snapshot_url: Option<String>,
    /// `BackupCompleted`.
    #[schemars(length(max = 10), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Option<Vec<Condition>>,
}
