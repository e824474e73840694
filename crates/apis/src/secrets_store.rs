//! `SecretProviderClass`, `secrets-store.csi.x-k8s.io/v1`: what the CSI driver mounts from a Key Vault.

use kube_derive::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;
use std::collections::BTreeMap;

/// What to mount, and from where.
#[skip_serializing_none]
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "secrets-store.csi.x-k8s.io",
    version = "v1",
    kind = "SecretProviderClass",
    namespaced,
    doc = "What the secrets-store driver mounts, and from where.",
    plural = "secretproviderclasses",
    status = "SecretProviderClassStatus",
    derive = "PartialEq",
    derive = "Default",
    crates(kube_core = "::kube_core")
)]
#[serde(rename_all = "camelCase")]
pub struct SecretProviderClassSpec {
    /// `azure`.
    pub provider: Option<String>,
    /// Settings of the provider.
    pub parameters: Option<BTreeMap<String, String>>,
    /// Secrets that are written from what is mounted.
    pub secret_objects: Option<Vec<SecretObject>>,
}

/// A Secret that is written from what is mounted.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SecretObject {
    pub secret_name: Option<String>,
    #[serde(rename = "type")]
    pub type_: Option<String>,
    pub labels: Option<BTreeMap<String, String>>,
    pub annotations: Option<BTreeMap<String, String>>,
    pub data: Option<Vec<SecretObjectData>>,
}

/// A key of such a Secret.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SecretObjectData {
    pub object_name: Option<String>,
    pub key: Option<String>,
}

/// Who mounts it.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SecretProviderClassStatus {
    pub by_pod: Option<Vec<ByPod>>,
}

/// A pod that mounts it.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ByPod {
    pub id: Option<String>,
    pub namespace: Option<String>,
}
