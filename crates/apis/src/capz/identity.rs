//! `AzureClusterIdentity`: who makes the machines.

use crate::capi::CapiCondition;
use crate::common::{LabelSelector, text_enum};
use kube_derive::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

text_enum! {
    /// Ways to authenticate to Azure.
    pub enum IdentityType {
        WorkloadIdentity = "WorkloadIdentity",
        UserAssignedIdentityCredential = "UserAssignedIdentityCredential",
        ServicePrincipal = "ServicePrincipal",
        ServicePrincipalCertificate = "ServicePrincipalCertificate",
        ManualServicePrincipal = "ManualServicePrincipal",
        UserAssignedMsi = "UserAssignedMSI",
    }
}

/// Who makes the machines of a cluster.
#[skip_serializing_none]
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "infrastructure.cluster.x-k8s.io",
    version = "v1beta1",
    kind = "AzureClusterIdentity",
    namespaced,
    doc = "Who makes the machines of a cluster on Azure.",
    plural = "azureclusteridentities",
    status = "AzureClusterIdentityStatus",
    category = "cluster-api",
    label("cluster.x-k8s.io/v1beta1", "v1beta1"),
    derive = "PartialEq",
    derive = "Default",
    crates(kube_core = "::kube_core"),
    printcolumn(
        name = "Type",
        type_ = "string",
        json_path = ".spec.type",
        description = "How it authenticates"
    ),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
pub struct AzureClusterIdentitySpec {
    /// How it authenticates.
    #[serde(rename = "type")]
    pub type_: IdentityType,
    #[serde(rename = "clientID")]
    pub client_id: String,
    #[serde(rename = "tenantID")]
    pub tenant_id: String,
    /// ARM id of a user-assigned identity.
    #[serde(rename = "resourceID")]
    pub resource_id: Option<String>,
    /// Secret with the client secret.
    pub client_secret: Option<SecretReference>,
    /// File with a certificate.
    pub cert_path: Option<String>,
    /// File with the credentials of a user-assigned identity.
    pub user_assigned_identity_credentials_path: Option<String>,
    /// public, usgovernment or china.
    pub user_assigned_identity_credentials_cloud_type: Option<String>,
    /// Namespaces whose clusters may use it.
    pub allowed_namespaces: Option<AllowedNamespaces>,
}

/// A Secret of any namespace.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(extend("x-kubernetes-map-type" = "atomic"))]
pub struct SecretReference {
    pub name: Option<String>,
    pub namespace: Option<String>,
}

/// Namespaces, by name or by label.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AllowedNamespaces {
    pub list: Option<Vec<String>>,
    pub selector: Option<LabelSelector>,
}

/// What is known of the identity.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct AzureClusterIdentityStatus {
    pub conditions: Option<Vec<CapiCondition>>,
}
