//! `certificates.hypershift.openshift.io`: who may have a break-glass certificate, and taking it away.

use crate::common::{Condition, LocalObjectReference, Nothing, text_enum};
use crate::schema::immutable;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube_derive::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

/// Says nothing: an approval is that the object exists, under the name of the signing request.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "certificates.hypershift.openshift.io",
    version = "v1alpha1",
    kind = "CertificateSigningRequestApproval",
    namespaced,
    doc = "Approves the CertificateSigningRequest of the same name, if this namespace's signer is asked.",
    status = "CertificateSigningRequestApprovalStatus",
    shortname = "csra",
    shortname = "csras",
    derive = "PartialEq",
    derive = "Default",
    crates(kube_core = "::kube_core")
)]
#[serde(from = "Option<Nothing>")]
pub struct CertificateSigningRequestApprovalSpec {}

impl From<Option<Nothing>> for CertificateSigningRequestApprovalSpec {
    fn from(_: Option<Nothing>) -> CertificateSigningRequestApprovalSpec {
        CertificateSigningRequestApprovalSpec {}
    }
}

/// Nothing to tell.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CertificateSigningRequestApprovalStatus {}

text_enum! {
    /// Signers of break-glass certificates.
    pub enum SignerClass {
        Customer = "customer-break-glass",
        Sre = "sre-break-glass",
    }
}

/// Takes all certificates of a signer away.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "certificates.hypershift.openshift.io",
    version = "v1alpha1",
    kind = "CertificateRevocationRequest",
    namespaced,
    doc = "Takes away all certificates that a break-glass signer has issued so far.",
    status = "CertificateRevocationRequestStatus",
    shortname = "crr",
    shortname = "crrs",
    derive = "PartialEq",
    derive = "Default",
    crates(kube_core = "::kube_core")
)]
#[serde(rename_all = "camelCase")]
pub struct CertificateRevocationRequestSpec {
    /// Whose certificates.
    #[schemars(extend("x-kubernetes-validations" = immutable("signerClass", "create another CertificateRevocationRequest")))]
    pub signer_class: SignerClass,
}

/// How far the revocation is.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CertificateRevocationRequestStatus {
    /// Certificates older than this are revoked.
    pub revocation_timestamp: Option<Time>,
    /// Secret with the signer that is being replaced.
    pub previous_signer: Option<LocalObjectReference>,
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Option<Vec<Condition>>,
}
