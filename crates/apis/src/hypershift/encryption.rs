//! Encryption of secrets at rest: `spec.secretEncryption` and the progress of key rotation.

use super::identity::{ClientId, ManagedIdentity};
use crate::common::{Json, LocalObjectReference, text_enum};
use crate::schema::{member, rule, rule_at};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use serde_with::skip_serializing_none;

text_enum! {
    /// Who holds the key.
    pub enum SecretEncryptionType {
        Kms = "kms",
        AesCbc = "aescbc",
    }
}

/// How secrets are encrypted in etcd.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(extend("x-kubernetes-validations" = [member("type", "kms", "kms"), member("type", "aescbc", "aescbc")]))]
pub struct SecretEncryption {
    /// kms: a key of a key management service. aescbc: a key of a Secret.
    #[serde(rename = "type")]
    pub type_: SecretEncryptionType,
    /// Settings of the key management service.
    pub kms: Option<Kms>,
    /// Keys in Secrets.
    pub aescbc: Option<AesCbc>,
}

/// Keys in Secrets of the HostedCluster's namespace.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AesCbc {
    /// Secret whose key `key` holds 32 raw bytes.
    pub active_key: LocalObjectReference,
    /// The key before, for reading what it wrote.
    pub backup_key: Option<LocalObjectReference>,
}

text_enum! {
    /// Key management services.
    pub enum KmsProvider {
        IbmCloud = "IBMCloud",
        Aws = "AWS",
        Azure = "Azure",
    }
}

/// A key management service.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(extend("x-kubernetes-validations" = [member("provider", "Azure", "azure")]))]
pub struct Kms {
    /// Which service; decides which of the other fields counts.
    pub provider: KmsProvider,
    /// Azure Key Vault or Managed HSM.
    pub azure: Option<AzureKms>,
    /// Not acted on.
    pub aws: Option<Json>,
    /// Not acted on.
    pub ibmcloud: Option<Json>,
}

text_enum! {
    /// What holds the key.
    pub enum KeyVaultType {
        KeyVault = "KeyVault",
        ManagedHsm = "ManagedHSM",
    }
}

text_enum! {
    /// From where the vault can be reached.
    pub enum KeyVaultAccess {
        Public = "Public",
        Private = "Private",
        Unset = "",
    }
}

fn azure_kms_rules() -> Value {
    let kept = |field: &str| {
        rule_at(
            &format!(".{field}"),
            &format!("has(self.{field}) == has(oldSelf.{field})"),
            &format!(
                "{field} is immutable: the identity that reaches the vault cannot change between kms and workloadIdentity"
            ),
        )
    };
    json!([
        rule(
            "has(self.kms) != has(self.workloadIdentity)",
            "exactly one of kms (ManagedIdentities) and workloadIdentity (WorkloadIdentities) must be set: set the one of the cluster's flavour"
        ),
        kept("kms"),
        kept("workloadIdentity"),
        rule_at(
            ".backupKey",
            "!has(self.backupKey) || self.backupKey.keyVaultName == self.activeKey.keyVaultName",
            "backupKey.keyVaultName must equal activeKey.keyVaultName: both keys live in one vault"
        ),
        rule_at(
            ".keyVaultType",
            "(has(self.keyVaultType) ? self.keyVaultType : 'KeyVault') == (has(oldSelf.keyVaultType) ? oldSelf.keyVaultType : 'KeyVault')",
            "keyVaultType is immutable: create another HostedCluster to change between KeyVault and ManagedHSM"
        ),
    ])
}

/// A key in Azure.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = azure_kms_rules()))]
pub struct AzureKms {
    /// The key that encrypts.
    pub active_key: AzureKmsKey,
    /// The key before, for reading what it wrote.
    pub backup_key: Option<AzureKmsKey>,
    /// The identity that uses the key, with ManagedIdentities.
    pub kms: Option<ManagedIdentity>,
    /// The identity that uses the key, with WorkloadIdentities.
    pub workload_identity: Option<KmsWorkloadIdentity>,
    /// What holds the key. Unset means KeyVault. ManagedHSM needs release 4.22.
    pub key_vault_type: Option<KeyVaultType>,
    /// From where the vault can be reached.
    pub key_vault_access: Option<KeyVaultAccess>,
}

/// The identity that uses the key.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct KmsWorkloadIdentity {
    /// Client id of the identity.
    #[serde(rename = "clientID")]
    pub client_id: ClientId,
}

/// A version of a key of a vault.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AzureKmsKey {
    /// Name of the vault or HSM, not its URL.
    #[schemars(length(min = 1, max = 255))]
    pub key_vault_name: String,
    /// Name of the key.
    #[schemars(length(min = 1, max = 255))]
    pub key_name: String,
    /// Version of the key.
    #[schemars(length(min = 1, max = 255))]
    pub key_version: String,
}

text_enum! {
    /// Where a key of the status comes from.
    pub enum KeyProvider {
        Azure = "Azure",
        Aws = "AWS",
        IbmCloud = "IBMCloud",
        AesCbc = "AESCBC",
    }
}

/// What is known of encryption and its rotation.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("minProperties" = 1))]
pub struct SecretEncryptionStatus {
    /// The key that all data is encrypted with.
    pub active_key: Option<KeyStatus>,
    /// The key that data moves to.
    pub target_key: Option<KeyStatus>,
    /// Rotations, newest first.
    #[schemars(length(min = 1, max = 5), extend("x-kubernetes-list-type" = "atomic"))]
    pub history: Option<Vec<KeyRotation>>,
}

/// One key.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct KeyStatus {
    /// Where the key comes from.
    pub provider: KeyProvider,
    /// A key in Azure.
    pub azure: Option<AzureKmsKey>,
    /// A key in a Secret.
    pub aescbc: Option<AesCbcKeyStatus>,
    /// Not acted on.
    pub aws: Option<Json>,
    /// Not acted on.
    pub ibm_cloud: Option<Json>,
}

/// A key in a Secret, known by the hash of its bytes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AesCbcKeyStatus {
    #[schemars(length(min = 1, max = 64))]
    pub data_hash: String,
    pub secret: SecretName,
}

/// A Secret of the same namespace.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SecretName {
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
}

text_enum! {
    /// How far a rotation is.
    pub enum RotationState {
        ReadOnlyDeploy = "ReadOnlyDeploy",
        WritePromote = "WritePromote",
        Migrating = "Migrating",
        Completed = "Completed",
        Interrupted = "Interrupted",
    }
}

/// One rotation from a key to another.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct KeyRotation {
    pub from: KeyFingerprint,
    pub to: KeyFingerprint,
    pub state: RotationState,
    pub started_time: Time,
    pub completion_time: Option<Time>,
}

/// A key without saying what it is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct KeyFingerprint {
    pub provider: KeyProvider,
    #[schemars(length(min = 1, max = 64))]
    pub fingerprint: String,
}
