//! What a guest's resources depend on, read from the management cluster.
//!
//! The control plane's own facts ([`control_plane::Scope`]) say most of it. The rest is what the control plane's
//! namespace holds ([`Material`]) and a few fields only guests care about.

use apis::common::Sensitive;
use apis::hypershift::HostedControlPlane;
use apis::hypershift::settings::AvailabilityPolicy;
use control_plane::facts::{Around, Unusable, read};
use control_plane::scope::{Management, Release, Scope};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

/// What the operator is told when it is started.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Told {
    /// Namespace and name of the HostedControlPlane.
    pub namespace: String,
    pub name: String,
    /// The release it works for.
    pub version: String,
    pub image: String,
    pub kubernetes: String,
    /// Images that run in the guest, by their key in the payload; `zaffre` is our own.
    pub images: BTreeMap<String, String>,
    /// Where nodes reach the tunnel, and users the OAuth server; empty: as the HostedControlPlane says.
    pub konnectivity: (String, u16),
    pub oauth: (String, u16),
}

/// Who serves Route, OAuthClient and the like.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Serving {
    /// Not known yet: nothing is written either way.
    #[default]
    Unknown,
    /// OpenShift's API servers, behind APIServices.
    Aggregated,
    /// Nobody but us: definitions.
    Definitions,
}

/// Contents of the control plane's namespace that the guest gets. Absent until somebody wrote them.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Material {
    pub secrets: BTreeMap<String, BTreeMap<String, Vec<u8>>>,
    pub config_maps: BTreeMap<String, BTreeMap<String, String>>,
}

/// Names only: most of it is secret.
impl fmt::Debug for Material {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = |m: Vec<&String>| m.into_iter().cloned().collect::<Vec<_>>().join(",");
        let (secrets, maps) =
            (names(self.secrets.keys().collect()), names(self.config_maps.keys().collect()));
        write!(f, "Material({secrets}; {maps})")
    }
}

impl Material {
    pub fn secret(&self, name: &str, key: &str) -> Option<&[u8]> {
        self.secrets.get(name)?.get(key).map(Vec::as_slice)
    }

    pub fn text(&self, name: &str, key: &str) -> Option<&str> {
        self.config_maps.get(name)?.get(key).map(String::as_str)
    }
}

/// Client ids of the managed flavour's identities on nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DataPlane {
    pub registry: String,
    pub disk: String,
    pub file: String,
}

/// kubeadmin's password as the OAuth server wants it, and which Secret it was made of.
#[derive(Clone, PartialEq, Eq)]
pub struct Kubeadmin {
    pub hash: String,
    pub source: String,
}

impl fmt::Debug for Kubeadmin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Kubeadmin({})", self.source)
    }
}

/// Everything the plan knows.
#[derive(Clone, Debug)]
pub struct Facts {
    pub scope: Scope,
    pub material: Material,
    pub serving: Serving,
    /// Addresses of the Services that aggregated APIs are behind, in the management cluster, by name.
    pub backends: BTreeMap<String, String>,
    pub data_plane: Option<DataPlane>,
    pub kubeadmin: Option<Kubeadmin>,
    /// Drawn at random; used only for what does not exist yet.
    pub drawn: Sensitive,
    pub channel: Option<String>,
    pub update_service: Option<String>,
    pub base_domain: String,
    pub zones: (Option<String>, Option<String>),
    /// `{source, mirrors}` of images.
    pub mirrors: Vec<Value>,
    pub infrastructure_ha: bool,
    pub network_operator: Value,
    pub ingress_strategy: Value,
    /// `hostPrefix` by range.
    pub host_prefixes: Vec<i32>,
    pub node_port_range: Option<String>,
}

/// Reads the facts of a guest.
pub fn facts(hcp: &HostedControlPlane, told: &Told, material: Material) -> Result<Facts, Unusable> {
    let endpoint = hcp.status.as_ref().and_then(|s| s.control_plane_endpoint.as_ref());
    let mut given: BTreeMap<&'static str, String> = BTreeMap::new();
    given.extend(endpoint.map(|e| ("api", e.host.clone())));
    given.extend((!told.oauth.0.is_empty()).then(|| ("oauth", told.oauth.0.clone())));
    let around = Around {
        release: Release {
            image: told.image.clone(),
            version: told.version.clone(),
            kubernetes: told.kubernetes.clone(),
            images: Arc::new(told.images.clone()),
            ours: told.images.get("zaffre").cloned().unwrap_or_default(),
            registry_overrides: String::new(),
        },
        management: Management::default(),
        given,
        vault_reader: String::new(),
    };
    let mut scope = read(hcp, &around)?;
    for (endpoint, (host, port)) in
        [(&mut scope.endpoints.konnectivity, &told.konnectivity), (&mut scope.endpoints.oauth, &told.oauth)]
    {
        if !host.is_empty() {
            (endpoint.host, endpoint.port) = (host.clone(), *port);
        }
    }
    let (spec, shared) = (&hcp.spec, &hcp.spec.shared);
    let identities = shared
        .platform
        .azure
        .as_ref()
        .and_then(|a| a.azure_authentication_config.managed_identities.as_ref());
    let data_plane = identities.map(|m| DataPlane {
        registry: m.data_plane.image_registry_msi_client_id.clone(),
        disk: m.data_plane.disk_msi_client_id.clone(),
        file: m.data_plane.file_msi_client_id.clone(),
    });
    let operators = serde_json::to_value(&shared.operator_configuration).unwrap_or_default();
    let networking = spec.networking.clone().unwrap_or_default();
    let prefix = match spec.dns.base_domain_prefix.as_deref() {
        None => format!("{}.", scope.name),
        Some("") => String::new(),
        Some(p) => format!("{p}."),
    };
    Ok(Facts {
        material,
        serving: Serving::Unknown,
        backends: BTreeMap::new(),
        data_plane,
        kubeadmin: None,
        drawn: Sensitive::default(),
        channel: spec.channel.clone().filter(|c| !c.is_empty()),
        update_service: shared.update_service.clone().filter(|c| !c.is_empty()),
        base_domain: format!("{prefix}{}", spec.dns.base_domain),
        zones: (spec.dns.public_zone_id.clone(), spec.dns.private_zone_id.clone()),
        mirrors: shared.image_content_sources.iter().flatten().map(|s| json!(s)).collect(),
        infrastructure_ha: shared.infrastructure_availability_policy == AvailabilityPolicy::HighlyAvailable,
        network_operator: operators["clusterNetworkOperator"].clone(),
        ingress_strategy: operators["ingressOperator"]["endpointPublishingStrategy"].clone(),
        host_prefixes: networking.cluster_network.iter().map(|n| n.host_prefix.unwrap_or(23)).collect(),
        node_port_range: scope.configuration["network"]["serviceNodePortRange"].as_str().map(str::to_owned),
        scope,
    })
}
