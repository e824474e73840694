//! The identities of a self-managed cluster: who they are, and whose tokens they accept.

use serde::{Deserialize, Serialize};

/// What an identity's tokens are made out to.
pub const AUDIENCE: &str = "openshift";

/// One identity.
#[derive(Clone, Copy, Debug)]
pub struct Identity {
    /// As the output file calls it.
    pub key: &'static str,
    /// After the cluster's name.
    pub suffix: &'static str,
    /// Suffix of the credential's name, namespace and name of the service account.
    pub accounts: &'static [(&'static str, &'static str, &'static str)],
}

const CSI: &str = "openshift-cluster-csi-drivers";

/// In the order of the output file; `kms` is there only when it is asked for.
pub static IDENTITIES: [Identity; 9] = [
    Identity {
        key: "imageRegistry",
        suffix: "-image-registry",
        accounts: &[
            ("-image-registry-fed-id-registry", "openshift-image-registry", "registry"),
            (
                "-image-registry-fed-id-operator",
                "openshift-image-registry",
                "cluster-image-registry-operator",
            ),
        ],
    },
    Identity {
        key: "ingress",
        suffix: "-ingress",
        accounts: &[("-ingress-fed-id", "openshift-ingress-operator", "ingress-operator")],
    },
    Identity {
        key: "file",
        suffix: "-file",
        accounts: &[
            ("-file-fed-id-node", CSI, "azure-file-csi-driver-node-sa"),
            ("-file-fed-id-operator", CSI, "azure-file-csi-driver-operator"),
            ("-file-fed-id-controller", CSI, "azure-file-csi-driver-controller-sa"),
        ],
    },
    Identity {
        key: "disk",
        suffix: "-disk",
        accounts: &[
            ("-disk-fed-id-node", CSI, "azure-disk-csi-driver-node-sa"),
            ("-disk-fed-id-operator", CSI, "azure-disk-csi-driver-operator"),
            ("-disk-fed-id-controller", CSI, "azure-disk-csi-driver-controller-sa"),
        ],
    },
    Identity {
        key: "nodePoolManagement",
        suffix: "-node-pool-mgmt",
        accounts: &[("-node-pool-mgmt-fed-id", "kube-system", "capi-provider")],
    },
    Identity {
        key: "cloudProvider",
        suffix: "-cloud-provider",
        accounts: &[("-cloud-provider-fed-id", "kube-system", "azure-cloud-provider")],
    },
    Identity {
        key: "network",
        suffix: "-network",
        accounts: &[(
            "-network-fed-id",
            "openshift-cloud-network-config-controller",
            "cloud-network-config-controller",
        )],
    },
    Identity {
        key: "controlPlaneOperator",
        suffix: "-control-plane-operator",
        accounts: &[("-cpo-fed-id", "kube-system", "control-plane-operator")],
    },
    Identity { key: KMS, suffix: "-kms", accounts: &[("-kms-fed-id", "kube-system", "kms-provider")] },
];

pub const KMS: &str = "kms";

pub fn subject(namespace: &str, account: &str) -> String {
    format!("system:serviceaccount:{namespace}:{account}")
}

/// `{"clientID": "…"}`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClientId {
    #[serde(rename = "clientID")]
    pub client_id: String,
}

/// workload-identities.json.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct WorkloadIdentities {
    pub image_registry: ClientId,
    pub ingress: ClientId,
    pub file: ClientId,
    pub disk: ClientId,
    pub node_pool_management: ClientId,
    pub cloud_provider: ClientId,
    pub network: ClientId,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub control_plane_operator: Option<ClientId>,
    #[serde(default, rename = "kmsClientID", skip_serializing_if = "Option::is_none")]
    pub kms_client_id: Option<String>,
}

impl WorkloadIdentities {
    /// From a function that knows the client id of each identity.
    pub fn collect(mut find: impl FnMut(&'static str) -> Option<String>) -> Option<WorkloadIdentities> {
        let mut of = |key| find(key).map(|client_id| ClientId { client_id });
        Some(WorkloadIdentities {
            image_registry: of("imageRegistry")?,
            ingress: of("ingress")?,
            file: of("file")?,
            disk: of("disk")?,
            node_pool_management: of("nodePoolManagement")?,
            cloud_provider: of("cloudProvider")?,
            network: of("network")?,
            control_plane_operator: of("controlPlaneOperator"),
            kms_client_id: find(KMS),
        })
    }
}

/// An identity of the managed flavour: its credential is a secret in a key vault.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ManagedIdentity {
    #[serde(default, rename = "clientID")]
    pub client_id: String,
    #[serde(default)]
    pub credentials_secret_name: String,
    #[serde(default)]
    pub object_encoding: String,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct IdentitiesVault {
    pub name: String,
    #[serde(rename = "tenantID")]
    pub tenant_id: String,
}

/// The control-plane file of the managed flavour; keys it does not know are ignored.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ControlPlaneIdentities {
    pub managed_identities_key_vault: IdentitiesVault,
    pub cloud_provider: ManagedIdentity,
    pub node_pool_management: ManagedIdentity,
    pub control_plane_operator: ManagedIdentity,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image_registry: Option<ManagedIdentity>,
    pub ingress: ManagedIdentity,
    pub network: ManagedIdentity,
    pub disk: ManagedIdentity,
    pub file: ManagedIdentity,
}

/// The data-plane file of the managed flavour.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct DataPlaneIdentities {
    #[serde(rename = "imageRegistryMSIClientID")]
    pub image_registry: String,
    #[serde(rename = "diskMSIClientID")]
    pub disk: String,
    #[serde(rename = "fileMSIClientID")]
    pub file: String,
}

/// Whose identities a cluster has.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(clippy::large_enum_variant, reason = "there is one")]
pub enum Identities {
    Workload(WorkloadIdentities),
    Managed { control_plane: ControlPlaneIdentities, data_plane: DataPlaneIdentities },
}
