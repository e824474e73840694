//! `spec.etcd`: the cluster's database, ours or somebody's.

use crate::common::{IntOrString, LocalObjectReference, QUANTITY, text_enum};
use crate::schema::{fixed, immutable, member, rule, settled};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

const REBUILD: &str = "back up, and restore into another HostedCluster";

text_enum! {
    /// Who runs etcd.
    pub enum EtcdManagementType {
        Managed = "Managed",
        Unmanaged = "Unmanaged",
    }
}

/// The cluster's etcd.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [
    member("managementType", "Managed", "managed"),
    member("managementType", "Unmanaged", "unmanaged"),
]))]
pub struct Etcd {
    /// Managed: a StatefulSet in the control-plane namespace. Unmanaged: somebody else's.
    #[schemars(extend("x-kubernetes-validations" = immutable("etcd.managementType", REBUILD)))]
    pub management_type: EtcdManagementType,
    /// Settings of a managed etcd.
    pub managed: Option<ManagedEtcd>,
    /// How to reach an unmanaged etcd.
    pub unmanaged: Option<UnmanagedEtcd>,
}

impl Default for Etcd {
    fn default() -> Etcd {
        let volume = EtcdVolume { size: Some("8Gi".into()), storage_class_name: None };
        let storage = EtcdStorage { persistent_volume: Some(volume), ..EtcdStorage::default() };
        Etcd {
            management_type: EtcdManagementType::Managed,
            managed: Some(ManagedEtcd { storage }),
            unmanaged: None,
        }
    }
}

/// Settings of a managed etcd.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ManagedEtcd {
    /// Where its data is.
    pub storage: EtcdStorage,
}

text_enum! {
    /// Kinds of storage for etcd.
    pub enum EtcdStorageType {
        PersistentVolume = "PersistentVolume",
    }
}

/// Where etcd's data is.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [settled("restoreSnapshotURL", REBUILD)]))]
pub struct EtcdStorage {
    /// Which kind; decides which of the other fields counts.
    #[serde(rename = "type")]
    pub type_: EtcdStorageType,
    /// A volume for each member.
    pub persistent_volume: Option<EtcdVolume>,
    /// A snapshot to start from.
    #[serde(rename = "restoreSnapshotURL")]
    #[schemars(length(max = 1), extend("x-kubernetes-list-type" = "set", "x-kubernetes-validations" = [
        fixed("restoreSnapshotURL", REBUILD),
        rule("self.all(u, u.startsWith('https://') || u.startsWith('s3://'))",
            "restoreSnapshotURL must start with https:// or s3://: give a signed URL of the snapshot"),
    ]))]
    pub restore_snapshot_url: Option<Vec<SnapshotUrl>>,
}

/// Where a snapshot is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
#[schemars(inline)]
pub struct SnapshotUrl(#[schemars(length(max = 1024))] pub String);

/// A volume of an etcd member.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct EtcdVolume {
    /// Storage class. Unset: the management cluster's default.
    #[schemars(length(max = 255), extend("x-kubernetes-validations" = immutable("storageClassName", REBUILD)))]
    pub storage_class_name: Option<String>,
    /// Size of the volume.
    #[schemars(extend("default" = "8Gi", "pattern" = QUANTITY, "x-kubernetes-validations" = immutable("size", REBUILD)))]
    pub size: Option<IntOrString>,
}

/// How to reach an etcd that somebody else runs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct UnmanagedEtcd {
    /// Client URL.
    #[schemars(length(max = 255), regex(pattern = r"^https://"))]
    pub endpoint: String,
    /// Client certificates.
    pub tls: EtcdTls,
}

/// Client certificates for etcd.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct EtcdTls {
    /// Secret with `etcd-client-ca.crt`, `etcd-client.crt` and `etcd-client.key`.
    pub client_secret: LocalObjectReference,
}
