//! `Microsoft.KeyVault`.

use super::fields;
use crate::{ProvisioningState, Resource, ResourceId, Sku, Tags};
use serde_json::Value;

pub type KeyVault = Resource<KeyVaultProperties>;
/// What is left of a vault that was deleted.
pub type DeletedVault = Resource<DeletedVaultProperties>;

fields! {
    KeyVaultProperties {
        tenant_id "tenantId": String,
        sku "sku": Sku,
        vault_uri "vaultUri": String,
        /// Roles decide; else access policies do.
        enable_rbac_authorization "enableRbacAuthorization": bool,
        access_policies "accessPolicies": Vec<AccessPolicy>,
        enable_soft_delete "enableSoftDelete": bool,
        soft_delete_retention_in_days "softDeleteRetentionInDays": i64,
        /// Once true it stays true.
        enable_purge_protection "enablePurgeProtection": bool,
        enabled_for_disk_encryption "enabledForDiskEncryption": bool,
        public_network_access "publicNetworkAccess": String,
        network_acls "networkAcls": Value,
        /// `recover` makes what was deleted; written, never read.
        create_mode "createMode": String,
        provisioning_state "provisioningState": ProvisioningState,
    }

    AccessPolicy {
        tenant_id "tenantId": String,
        object_id "objectId": String,
        application_id "applicationId": String,
        permissions "permissions": VaultPermissions,
    }

    VaultPermissions {
        keys "keys": Vec<String>,
        secrets "secrets": Vec<String>,
        certificates "certificates": Vec<String>,
    }

    DeletedVaultProperties {
        vault_id "vaultId": ResourceId,
        location "location": String,
        tags "tags": Tags,
        deletion_date "deletionDate": String,
        scheduled_purge_date "scheduledPurgeDate": String,
        purge_protection_enabled "purgeProtectionEnabled": bool,
    }
}
