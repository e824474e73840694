//! How components authenticate to Azure.
//!
//! Two flavours, one union: **managed identities** (ARO HCP: the resource provider writes short-lived certificate
//! credentials into a Key Vault, a CSI driver mounts them) and **workload identities** (self-managed: a token minter
//! writes projected service-account tokens that Entra federates). The flavour of a cluster is read here and nowhere else.

use crate::common::text_enum;
use crate::schema::member;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

/// A client id as Entra writes it.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
#[schemars(inline)]
pub struct ClientId(
    #[schemars(
        length(min = 36, max = 36),
        regex(pattern = r"^[0-9a-fA-F]{8}-([0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}$")
    )]
    pub String,
);

impl ClientId {
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl From<&str> for ClientId {
    fn from(text: &str) -> ClientId {
        ClientId(text.to_owned())
    }
}

text_enum! {
    /// The two flavours.
    pub enum AzureAuthenticationType {
        ManagedIdentities = "ManagedIdentities",
        WorkloadIdentities = "WorkloadIdentities",
    }
}

/// The identities of the cluster's components.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [
    member("azureAuthenticationConfigType", "ManagedIdentities", "managedIdentities"),
    member("azureAuthenticationConfigType", "WorkloadIdentities", "workloadIdentities"),
]))]
pub struct AzureAuthentication {
    /// ManagedIdentities: credentials come from a Key Vault (ARO HCP).
    /// WorkloadIdentities: tokens of the hosted cluster are federated (self-managed).
    pub azure_authentication_config_type: AzureAuthenticationType,
    /// Identities with credentials in a Key Vault.
    pub managed_identities: Option<ManagedIdentities>,
    /// Identities that trust the hosted cluster's issuer.
    pub workload_identities: Option<WorkloadIdentities>,
}

impl AzureAuthentication {
    /// Whether this is a cluster of the managed service.
    pub fn is_managed(&self) -> bool {
        self.azure_authentication_config_type == AzureAuthenticationType::ManagedIdentities
    }
}

/// The managed identities of a cluster.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ManagedIdentities {
    /// Components that run on the management cluster.
    pub control_plane: ControlPlaneIdentities,
    /// Components that run on the worker nodes.
    pub data_plane: DataPlaneIdentities,
}

/// Managed identities of the components on the management cluster.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ControlPlaneIdentities {
    /// The vault that holds the credentials.
    pub managed_identities_key_vault: IdentityKeyVault,
    /// The cloud controller manager.
    pub cloud_provider: ManagedIdentity,
    /// The machine provider.
    pub node_pool_management: ManagedIdentity,
    /// The control plane operator.
    pub control_plane_operator: ManagedIdentity,
    /// The ingress operator.
    pub ingress: ManagedIdentity,
    /// The network operator.
    pub network: ManagedIdentity,
    /// The Azure Disk driver.
    pub disk: ManagedIdentity,
    /// The Azure File driver.
    pub file: ManagedIdentity,
    /// The image registry operator. Unset when that capability is off.
    pub image_registry: Option<ManagedIdentity>,
}

/// A Key Vault, by name and tenant.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct IdentityKeyVault {
    /// Name of the vault, not its URL.
    #[schemars(length(max = 255))]
    pub name: String,
    /// The tenant of the vault.
    #[serde(rename = "tenantID")]
    #[schemars(length(max = 255))]
    pub tenant_id: String,
}

text_enum! {
    /// How the secret's text is encoded in the vault.
    pub enum ObjectEncoding {
        Utf8 = "utf-8",
        Hex = "hex",
        Base64 = "base64",
    }
}

/// A managed identity and the vault secret with its credentials.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ManagedIdentity {
    /// Client id of the identity.
    #[serde(rename = "clientID")]
    pub client_id: Option<ClientId>,
    /// Name of the secret in the vault: credentials JSON of the identity's data plane.
    #[schemars(length(min = 1, max = 127), regex(pattern = r"^[a-zA-Z0-9-]+$"))]
    pub credentials_secret_name: String,
    /// Encoding of that secret.
    pub object_encoding: ObjectEncoding,
}

/// Client ids of the components on the worker nodes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct DataPlaneIdentities {
    /// Of the image registry.
    #[serde(rename = "imageRegistryMSIClientID")]
    #[schemars(length(max = 255))]
    pub image_registry_msi_client_id: String,
    /// Of the Azure Disk driver.
    #[serde(rename = "diskMSIClientID")]
    #[schemars(length(max = 255))]
    pub disk_msi_client_id: String,
    /// Of the Azure File driver.
    #[serde(rename = "fileMSIClientID")]
    #[schemars(length(max = 255))]
    pub file_msi_client_id: String,
}

/// The workload identities of a self-managed cluster.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WorkloadIdentities {
    /// The image registry operator.
    pub image_registry: WorkloadIdentity,
    /// The ingress operator.
    pub ingress: WorkloadIdentity,
    /// The Azure File driver.
    pub file: WorkloadIdentity,
    /// The Azure Disk driver.
    pub disk: WorkloadIdentity,
    /// The machine provider.
    pub node_pool_management: WorkloadIdentity,
    /// The cloud controller manager.
    pub cloud_provider: WorkloadIdentity,
    /// The network operator.
    pub network: WorkloadIdentity,
    /// The control plane operator. Required with PrivateLink.
    pub control_plane_operator: Option<WorkloadIdentity>,
}

/// An identity that trusts the hosted cluster's issuer.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct WorkloadIdentity {
    /// Client id of the identity.
    #[serde(rename = "clientID")]
    pub client_id: ClientId,
}
