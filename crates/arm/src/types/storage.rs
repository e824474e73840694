//! `Microsoft.Storage`.

use super::fields;
use crate::{ProvisioningState, Resource};
use serde_json::Value;

pub type StorageAccount = Resource<StorageAccountProperties>;
/// The settings of a service of an account; its only name is `default`.
pub type StorageService = Resource<StorageServiceProperties>;
pub type BlobContainer = Resource<BlobContainerProperties>;
pub type FileShare = Resource<FileShareProperties>;

fields! {
    StorageAccountProperties {
        access_tier "accessTier": String,
        allow_blob_public_access "allowBlobPublicAccess": bool,
        allow_shared_key_access "allowSharedKeyAccess": bool,
        allow_cross_tenant_replication "allowCrossTenantReplication": bool,
        minimum_tls_version "minimumTlsVersion": String,
        supports_https_traffic_only "supportsHttpsTrafficOnly": bool,
        public_network_access "publicNetworkAccess": String,
        network_acls "networkAcls": Value,
        encryption "encryption": Value,
        primary_endpoints "primaryEndpoints": StorageEndpoints,
        primary_location "primaryLocation": String,
        provisioning_state "provisioningState": ProvisioningState,
    }

    StorageEndpoints {
        blob "blob": String,
        web "web": String,
        file "file": String,
        queue "queue": String,
        table "table": String,
        dfs "dfs": String,
    }

    StorageServiceProperties {
        delete_retention_policy "deleteRetentionPolicy": Value,
        container_delete_retention_policy "containerDeleteRetentionPolicy": Value,
        is_versioning_enabled "isVersioningEnabled": bool,
        cors "cors": Value,
    }

    BlobContainerProperties {
        /// `None`, `Blob` or `Container`.
        public_access "publicAccess": String,
        metadata "metadata": Value,
        etag "etag": String,
        lease_state "leaseState": String,
    }

    FileShareProperties {
        share_quota "shareQuota": i64,
        enabled_protocols "enabledProtocols": String,
        access_tier "accessTier": String,
    }
}
