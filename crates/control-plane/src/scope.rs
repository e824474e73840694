//! The facts of one hosted cluster that its control plane depends on.
//!
//! They come from the HostedControlPlane, its release and the management cluster, read and validated elsewhere.

pub use crate::config::providers::OpenId;
pub use apis::hypershift::settings::{Autoscaling, Capabilities, MetricsSet};
use apis::openshift::cluster_version;
use aws_lc_rs::digest::{SHA256, digest};
use jiff::SignedDuration;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

/// Everything rendering knows.
#[derive(Clone, Debug)]
pub struct Scope {
    pub name: String,
    /// Of the control plane.
    pub namespace: String,
    pub infra_id: String,
    pub cluster_id: String,
    /// Issuer of service-account tokens.
    pub issuer: String,
    pub azure: Azure,
    pub identity: Identity,
    /// What the control plane runs.
    pub release: Release,
    /// The release image of the guest itself, which is another while `controlPlaneRelease` is ahead of it.
    pub guest_image: String,
    pub available: Availability,
    pub network: Network,
    pub endpoints: Endpoints,
    pub reach: Reach,
    pub etcd: Etcd,
    pub encryption: Option<Encryption>,
    /// Capabilities that are on, by their names (`ImageRegistry`, `Console`, …), whether the release knows them or not: what
    /// became optional later was always there before.
    pub capabilities: BTreeSet<&'static str>,
    /// What the cluster autoscaler may do.
    pub autoscaling: Autoscaling,
    /// The `spec.configuration` of the cluster: OpenShift's own config kinds.
    pub configuration: Value,
    /// What issuers of OpenID tokens that the configuration names say of themselves, or why not.
    pub openid: BTreeMap<String, Result<OpenId, String>>,
    /// Authorities of issuers whose tokens the API server takes directly, in PEM, by the ConfigMap they lie in.
    pub authorities: BTreeMap<String, String>,
    /// Catalogs run beside the control plane and not in the guest.
    pub catalogs_here: bool,
    pub pods: Pods,
    pub annotations: BTreeMap<String, String>,
    pub leaves: Lives,
    pub management: Management,
    /// How much of it the management cluster's monitoring scrapes.
    pub metrics: MetricsSet,
    /// How much of it the guest's monitoring sees, if any.
    pub forwarded: Option<MetricsSet>,
    pub fips: bool,
    /// Names of Secrets or ConfigMaps a user gave us.
    pub trust_bundle: Option<String>,
    pub audit_webhook: Option<String>,
}

/// Where in Azure.
#[derive(Clone, Debug)]
pub struct Azure {
    pub cloud: String,
    pub tenant: String,
    pub subscription: String,
    pub resource_group: String,
    pub location: String,
    pub vnet: Named,
    pub subnet: String,
    pub security_group: Named,
    /// The identity that machines pull from Azure's registries with.
    pub registry_identity: Option<String>,
}

/// A resource and the group it is in.
#[derive(Clone, Debug)]
pub struct Named {
    pub name: String,
    pub group: String,
}

/// How components prove to Azure who they are. Decided by the cluster alone, never by the process.
#[derive(Clone, Debug)]
pub enum Identity {
    /// Self-managed: minted tokens, exchanged by federation. Client ids by component.
    Workload(BTreeMap<Who, String>),
    /// ARO HCP: certificates in a vault, mounted by a CSI driver.
    Managed { vault: String, tenant: String, reader: String, secrets: BTreeMap<Who, VaultSecret> },
}

/// Who needs an identity.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Who {
    CloudProvider,
    NodePoolManagement,
    ControlPlaneOperator,
    Ingress,
    Network,
    Disk,
    File,
    ImageRegistry,
    Kms,
}

/// A credential in the vault.
#[derive(Clone, Debug)]
pub struct VaultSecret {
    pub name: String,
    pub encoding: String,
    pub client_id: String,
}

impl Identity {
    pub fn managed(&self) -> bool {
        matches!(self, Identity::Managed { .. })
    }

    pub fn client_id(&self, who: Who) -> Option<&str> {
        match self {
            Identity::Workload(ids) => ids.get(&who).map(String::as_str),
            Identity::Managed { secrets, .. } => secrets.get(&who).map(|s| s.client_id.as_str()),
        }
    }

    pub fn secret(&self, who: Who) -> Option<&VaultSecret> {
        match self {
            Identity::Workload(_) => None,
            Identity::Managed { secrets, .. } => secrets.get(&who),
        }
    }
}

/// What is installed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Release {
    pub image: String,
    pub version: String,
    pub kubernetes: String,
    /// Images by their key in the payload; shared by all control planes of a version.
    pub images: Arc<BTreeMap<String, String>>,
    /// The image with our own programs.
    pub ours: String,
    /// `source=mirror,…` as the programs take it.
    pub registry_overrides: String,
}

impl Release {
    /// Major and minor, with 5.x counted on from 4.23.
    pub fn minor(&self) -> u32 {
        cluster_version::minor(&self.version)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Availability {
    Single,
    High,
}

#[derive(Clone, Debug)]
pub struct Network {
    pub kind: String,
    pub cluster: Vec<String>,
    pub service: Vec<String>,
    pub machine: Vec<String>,
    /// Where pods in the guest find the API, outside of all ranges.
    pub advertise: IpAddr,
    pub api_port: u16,
    pub allocate_node_cidrs: bool,
    /// Who may call the API; everybody if empty.
    pub allowed: Vec<String>,
}

#[derive(Clone, Debug, Default)]
pub struct Endpoints {
    pub api: Endpoint,
    pub oauth: Endpoint,
    pub konnectivity: Endpoint,
    pub ignition: Endpoint,
    /// Where the API is from inside the management cluster, if it is private.
    pub private_api: Option<String>,
    /// A further name of the API, which a user gave it (`kubeAPIServerDNSName`).
    pub custom_api: Option<String>,
    /// Where the private router is, inside the management cluster.
    pub private_router: Option<String>,
    /// Where Services of aggregated APIs are, inside the management cluster, as far as they were given an address.
    pub aggregated: BTreeMap<&'static str, IpAddr>,
}

#[derive(Clone, Debug, Default)]
pub struct Endpoint {
    pub host: String,
    pub port: u16,
    pub publish: Publish,
}

/// How an endpoint is reached from outside.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Publish {
    /// By name, through a router.
    #[default]
    Route,
    /// At an address of its own.
    LoadBalancer,
}

/// Who may reach the cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reach {
    Public,
    PublicAndPrivate,
    Private,
    /// Private, by a network instance the router joins.
    Swift(String),
}

impl Reach {
    pub fn private(&self) -> bool {
        *self != Reach::Public
    }

    /// Nobody outside of its own network may reach it. (A network instance is one way in; there may be others.)
    pub fn hidden(&self) -> bool {
        *self == Reach::Private
    }
}

#[derive(Clone, Debug)]
pub enum Etcd {
    Managed { size: String, class: Option<String>, restore: Option<String> },
    Unmanaged { endpoint: String, client_secret: String },
}

/// How secrets are encrypted at rest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Encryption {
    /// The active key writes; the other can be read as well.
    Kms {
        active: KmsKey,
        backup: Option<KmsKey>,
        private: bool,
    },
    Aescbc {
        active: AesKey,
        backup: Option<AesKey>,
    },
}

/// A key of the cluster's own, in a Secret a user gave us.
#[derive(Clone, PartialEq, Eq)]
pub struct AesKey {
    pub name: String,
    material: Option<Vec<u8>>,
}

impl AesKey {
    /// Not read yet.
    pub fn named(name: &str) -> AesKey {
        AesKey { name: name.to_owned(), material: None }
    }

    pub fn with(name: &str, material: Vec<u8>) -> AesKey {
        AesKey { name: name.to_owned(), material: Some(material) }
    }

    pub fn material(&self) -> Option<&[u8]> {
        self.material.as_deref()
    }
}

/// The name, and of the key only what tells it from another.
impl std::fmt::Debug for AesKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let sum = self.material.as_deref().map(|m| digest(&SHA256, m));
        f.debug_tuple("AesKey").field(&self.name).field(&sum.as_ref().map(AsRef::as_ref)).finish()
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KmsKey {
    pub vault: String,
    pub name: String,
    pub version: String,
    pub managed_hsm: bool,
}

/// How long certificates live, and how long before their end they are issued again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lives {
    pub life: SignedDuration,
    pub renew_before: SignedDuration,
}

const DAY: SignedDuration = SignedDuration::from_hours(24);

impl Default for Lives {
    fn default() -> Lives {
        Lives { life: DAY * 365, renew_before: DAY * 30 }
    }
}

/// What users may say about all pods.
#[derive(Clone, Debug, Default)]
pub struct Pods {
    pub node_selector: BTreeMap<String, String>,
    pub labels: BTreeMap<String, String>,
    pub tolerations: Vec<Value>,
}

/// What is known of the cluster everything runs in.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Management {
    /// OpenShift picks user ids itself and has Routes.
    pub openshift: bool,
    /// The user that pods of this namespace run as, elsewhere.
    pub uid: Option<i64>,
    /// It imports images by itself (`image.openshift.io`); the operator sees that from what is served.
    pub image_streams: bool,
    /// Minor version of its Kubernetes.
    pub minor: u32,
    /// Networks (CIDRs) that routers must not reach: where its own API is.
    pub blocked: Vec<String>,
    pub settings: Settings,
}

/// What whoever installed the operator chose for every control plane.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// How much is scraped of clusters that do not say it themselves.
    pub metrics: MetricsSet,
    /// A day in the lives of certificates for emergencies, as Go writes durations.
    pub certificate_day: String,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings { metrics: MetricsSet::Telemetry, certificate_day: "24h0m0s".to_owned() }
    }
}

impl Scope {
    pub fn ha(&self) -> bool {
        self.available == Availability::High
    }

    pub fn annotation(&self, key: &str) -> Option<&str> {
        self.annotations.get(&format!("hypershift.openshift.io/{key}")).map(String::as_str)
    }

    /// Logins go through OpenShift's own OAuth server.
    pub fn oauth(&self) -> bool {
        !matches!(self.configuration["authentication"]["type"].as_str(), Some("OIDC" | "None"))
    }

    /// There is an administrator with a password: until a user says how people log in.
    pub fn kubeadmin(&self) -> bool {
        self.oauth() && self.configuration["oauth"].is_null()
    }

    /// The Secret with the certificate that a user gave us for a name, if there is one.
    pub fn named_certificate(&self, host: &str) -> Option<&str> {
        let all = self.configuration["apiServer"]["servingCerts"]["namedCertificates"].as_array();
        let parent = host.split_once('.').map(|(_, parent)| format!("*.{parent}"));
        let serves = |c: &&Value| {
            let mut names = c["names"].as_array().into_iter().flatten().filter_map(Value::as_str);
            names.any(|n| n.eq_ignore_ascii_case(host) || parent.as_deref() == Some(n))
        };
        all.into_iter().flatten().find(serves)?["servingCertificate"]["name"].as_str()
    }

    pub fn capable(&self, capability: &str) -> bool {
        self.capabilities.contains(capability)
    }
}
