//! The specs of OpenShift's cluster configuration, as they stand in `HostedCluster.spec.configuration` and in the
//! guest's `config.openshift.io` objects.
//!
//! What a control plane acts on is typed; the rest of each spec is carried in `other`, unread, and the schema keeps
//! it (`x-kubernetes-preserve-unknown-fields`). Thus a field that a newer release adds reaches the guest without a
//! change here. Rejected: upstream's whole structure, some four thousand lines that nothing here would read.

use crate::common::{Json, Other};
use kube_derive::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use serde_with::skip_serializing_none;

/// A Secret or ConfigMap of a namespace that the referring field implies.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct NameReference {
    /// Name of the object.
    pub name: String,
}

/// Serving, auditing and TLS of the API server.
#[skip_serializing_none]
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "config.openshift.io",
    version = "v1",
    kind = "APIServer",
    plural = "apiservers",
    status = "Json",
    doc = "Serving, auditing and TLS of the API server. The object is named `cluster`.",
    derive = "PartialEq",
    derive = "Default",
    crates(kube_core = "::kube_core")
)]
#[serde(rename_all = "camelCase")]
pub struct ApiServerSpec {
    /// Origins, as regular expressions, that browsers may call from.
    #[serde(rename = "additionalCORSAllowedOrigins")]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub additional_cors_allowed_origins: Option<Vec<String>>,
    /// What is audited.
    #[schemars(extend("default" = json!({"profile": "Default"})))]
    pub audit: Option<Audit>,
    /// ConfigMap with further client CAs, in `ca-bundle.crt`.
    #[serde(rename = "clientCA")]
    pub client_ca: Option<NameReference>,
    /// Encryption at rest as OpenShift names it; hosted clusters use secretEncryption.
    pub encryption: Option<Json>,
    /// Certificates for further names.
    pub serving_certs: Option<ServingCerts>,
    /// Versions and ciphers of TLS.
    pub tls_security_profile: Option<Json>,
    #[serde(flatten)]
    pub other: Other,
}

/// What is audited.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Audit {
    /// How much of each request.
    #[schemars(extend("default" = "Default", "enum" = ["Default", "WriteRequestBodies", "AllRequestBodies", "None"]))]
    pub profile: Option<String>,
    /// Exceptions by group of users.
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["group"]))]
    pub custom_rules: Option<Vec<AuditRule>>,
}

/// An exception for a group of users.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct AuditRule {
    #[schemars(length(min = 1))]
    pub group: String,
    #[schemars(extend("enum" = ["Default", "WriteRequestBodies", "AllRequestBodies", "None"]))]
    pub profile: String,
}

/// Certificates of the API server for further names.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ServingCerts {
    /// One entry per certificate.
    #[schemars(length(max = 32), extend("x-kubernetes-list-type" = "atomic"))]
    pub named_certificates: Option<Vec<NamedCertificate>>,
}

/// A certificate and the names it serves.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NamedCertificate {
    /// Names; unset: those of the certificate.
    #[schemars(length(max = 64), extend("x-kubernetes-list-type" = "atomic"))]
    pub names: Option<Vec<String>>,
    /// TLS Secret.
    pub serving_certificate: Option<NameReference>,
}

/// How users authenticate.
#[skip_serializing_none]
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "config.openshift.io",
    version = "v1",
    kind = "Authentication",
    plural = "authentications",
    status = "Json",
    doc = "How users authenticate. The object is named `cluster`.",
    derive = "PartialEq",
    derive = "Default",
    crates(kube_core = "::kube_core")
)]
#[serde(rename_all = "camelCase")]
pub struct AuthenticationSpec {
    /// IntegratedOAuth (also empty), None or OIDC.
    #[serde(rename = "type")]
    #[schemars(extend("enum" = ["", "None", "IntegratedOAuth", "OIDC"]))]
    pub type_: Option<String>,
    /// ConfigMap with OAuth metadata.
    pub oauth_metadata: Option<NameReference>,
    /// External issuers, with type OIDC.
    #[schemars(length(max = 1), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub oidc_providers: Option<Vec<OidcProvider>>,
    /// Issuer of service-account tokens; hosted clusters use issuerURL.
    pub service_account_issuer: Option<String>,
    /// A webhook that reviews tokens.
    pub webhook_token_authenticator: Option<Json>,
    #[serde(flatten)]
    pub other: Other,
}

/// An external issuer of user tokens.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct OidcProvider {
    #[schemars(length(min = 1))]
    pub name: String,
    #[serde(flatten)]
    pub other: Other,
}

/// Which features are on.
#[skip_serializing_none]
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "config.openshift.io",
    version = "v1",
    kind = "FeatureGate",
    plural = "featuregates",
    status = "Json",
    doc = "Which features are on. The object is named `cluster`.",
    derive = "PartialEq",
    derive = "Default",
    crates(kube_core = "::kube_core")
)]
#[serde(rename_all = "camelCase")]
pub struct FeatureGateSpec {
    /// A named set; empty is the default one.
    #[schemars(extend("enum" = ["CustomNoUpgrade", "DevPreviewNoUpgrade", "TechPreviewNoUpgrade", "OKD", ""]))]
    pub feature_set: Option<String>,
    /// Single features, with CustomNoUpgrade.
    #[schemars(extend("nullable" = true))]
    pub custom_no_upgrade: Option<CustomFeatures>,
    #[serde(flatten)]
    pub other: Other,
}

/// Single features.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CustomFeatures {
    pub enabled: Option<Vec<String>>,
    pub disabled: Option<Vec<String>>,
}

/// Registries that images may come from.
#[skip_serializing_none]
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "config.openshift.io",
    version = "v1",
    kind = "Image",
    plural = "images",
    status = "Json",
    doc = "Registries that images may come from. The object is named `cluster`.",
    derive = "PartialEq",
    derive = "Default",
    crates(kube_core = "::kube_core")
)]
#[serde(rename_all = "camelCase")]
pub struct ImageSpec {
    /// ConfigMap with CAs of registries.
    #[serde(rename = "additionalTrustedCA")]
    pub additional_trusted_ca: Option<NameReference>,
    /// Where image streams may import from.
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub allowed_registries_for_import: Option<Vec<Json>>,
    /// Host names of the internal registry.
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub external_registry_hostnames: Option<Vec<String>>,
    /// What nodes may pull from.
    pub registry_sources: Option<RegistrySources>,
    #[serde(flatten)]
    pub other: Other,
}

/// What nodes may pull from.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RegistrySources {
    #[schemars(length(max = 1024), extend("x-kubernetes-list-type" = "atomic"))]
    pub insecure_registries: Option<Vec<String>>,
    #[schemars(length(max = 1024), extend("x-kubernetes-list-type" = "atomic"))]
    pub blocked_registries: Option<Vec<String>>,
    #[schemars(length(max = 1024), extend("x-kubernetes-list-type" = "atomic"))]
    pub allowed_registries: Option<Vec<String>>,
    #[schemars(length(min = 1), extend("x-kubernetes-list-type" = "set"))]
    pub container_runtime_search_registries: Option<Vec<String>>,
}

/// Domains of routes.
#[skip_serializing_none]
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "config.openshift.io",
    version = "v1",
    kind = "Ingress",
    plural = "ingresses",
    status = "Json",
    doc = "Domains of routes. The object is named `cluster`.",
    derive = "PartialEq",
    derive = "Default",
    crates(kube_core = "::kube_core")
)]
#[serde(rename_all = "camelCase")]
pub struct IngressSpec {
    /// Domain of routes without a host.
    pub domain: Option<String>,
    /// Domain of the users' routes, if another.
    pub apps_domain: Option<String>,
    /// Hosts and certificates of platform components.
    #[schemars(length(max = 250), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["namespace", "name"]))]
    pub component_routes: Option<Vec<ComponentRoute>>,
    /// Kind of load balancer.
    pub load_balancer: Option<Json>,
    #[serde(rename = "requiredHSTSPolicies")]
    pub required_hsts_policies: Option<Vec<Json>>,
    #[serde(flatten)]
    pub other: Other,
}

/// Host and certificate of a platform component.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ComponentRoute {
    #[schemars(length(min = 1, max = 63))]
    pub namespace: String,
    #[schemars(length(min = 1, max = 256))]
    pub name: String,
    pub hostname: String,
    pub serving_cert_key_pair_secret: Option<NameReference>,
}

/// Networks of the guest.
#[skip_serializing_none]
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "config.openshift.io",
    version = "v1",
    kind = "Network",
    plural = "networks",
    status = "Json",
    doc = "Networks of the guest. The object is named `cluster`.",
    derive = "PartialEq",
    derive = "Default",
    crates(kube_core = "::kube_core")
)]
#[serde(rename_all = "camelCase")]
pub struct NetworkSpec {
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub cluster_network: Option<Vec<Json>>,
    #[serde(rename = "externalIP")]
    pub external_ip: Option<Json>,
    pub network_diagnostics: Option<Json>,
    pub network_type: Option<String>,
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub service_network: Option<Vec<String>>,
    /// Ports of NodePort services, such as 30000-32767.
    pub service_node_port_range: Option<String>,
    #[serde(flatten)]
    pub other: Other,
}

/// Identity providers of the built-in OAuth server.
#[skip_serializing_none]
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "config.openshift.io",
    version = "v1",
    kind = "OAuth",
    plural = "oauths",
    status = "Json",
    doc = "Identity providers of the built-in OAuth server. The object is named `cluster`.",
    derive = "PartialEq",
    derive = "Default",
    crates(kube_core = "::kube_core")
)]
#[serde(rename_all = "camelCase")]
pub struct OAuthSpec {
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub identity_providers: Option<Vec<Json>>,
    /// Secrets with the texts of login pages.
    pub templates: Option<Json>,
    /// Lifetimes of tokens.
    pub token_config: Option<Json>,
    #[serde(flatten)]
    pub other: Other,
}

/// Sources of operators.
#[skip_serializing_none]
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "config.openshift.io",
    version = "v1",
    kind = "OperatorHub",
    plural = "operatorhubs",
    status = "Json",
    doc = "Sources of operators. The object is named `cluster`.",
    derive = "PartialEq",
    derive = "Default",
    crates(kube_core = "::kube_core")
)]
#[serde(rename_all = "camelCase")]
pub struct OperatorHubSpec {
    pub disable_all_default_sources: Option<bool>,
    pub sources: Option<Vec<Json>>,
    #[serde(flatten)]
    pub other: Other,
}

/// The proxy that the cluster goes out through.
#[skip_serializing_none]
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "config.openshift.io",
    version = "v1",
    kind = "Proxy",
    plural = "proxies",
    status = "Json",
    doc = "The proxy that the cluster goes out through. The object is named `cluster`.",
    derive = "PartialEq",
    derive = "Default",
    crates(kube_core = "::kube_core")
)]
#[serde(rename_all = "camelCase")]
pub struct ProxySpec {
    pub http_proxy: Option<String>,
    pub https_proxy: Option<String>,
    /// Names and ranges that are reached directly, with commas between.
    pub no_proxy: Option<String>,
    pub readiness_endpoints: Option<Vec<String>>,
    /// ConfigMap with CAs, in `ca-bundle.crt`.
    #[serde(rename = "trustedCA")]
    pub trusted_ca: Option<NameReference>,
    #[serde(flatten)]
    pub other: Other,
}

/// The guest's scheduler.
#[skip_serializing_none]
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "config.openshift.io",
    version = "v1",
    kind = "Scheduler",
    plural = "schedulers",
    status = "Json",
    doc = "The guest's scheduler. The object is named `cluster`.",
    derive = "PartialEq",
    derive = "Default",
    crates(kube_core = "::kube_core")
)]
#[serde(rename_all = "camelCase")]
pub struct SchedulerSpec {
    pub default_node_selector: Option<String>,
    pub masters_schedulable: Option<bool>,
    pub policy: Option<NameReference>,
    #[schemars(extend("enum" = ["", "LowNodeUtilization", "HighNodeUtilization", "NoScoring"]))]
    pub profile: Option<String>,
    pub profile_customizations: Option<Json>,
    #[serde(flatten)]
    pub other: Other,
}

/// OpenShift configuration of a hosted cluster.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClusterConfiguration {
    /// API server.
    pub api_server: Option<ApiServerSpec>,
    /// How users authenticate.
    pub authentication: Option<AuthenticationSpec>,
    /// Which features are on.
    pub feature_gate: Option<FeatureGateSpec>,
    /// Registries.
    pub image: Option<ImageSpec>,
    /// Domains of routes.
    pub ingress: Option<IngressSpec>,
    /// Networks.
    pub network: Option<NetworkSpec>,
    /// Identity providers.
    pub oauth: Option<OAuthSpec>,
    /// Sources of operators.
    pub operatorhub: Option<OperatorHubSpec>,
    /// Proxy.
    pub proxy: Option<ProxySpec>,
    /// Scheduler.
    pub scheduler: Option<SchedulerSpec>,
}
