//! From a HostedControlPlane to the facts that are rendered.
//!
//! What users write is read once, here; every field that cannot be used is an error that names it and the way out.

use crate::publish;
use crate::scope::{
    AesKey, Availability, Azure, Encryption, Endpoint, Endpoints, Etcd, Identity, KmsKey, Lives, Management,
    Named, Network, Pods, Publish, Reach, Release, Scope, VaultSecret, Who,
};
use apis::hypershift::HostedControlPlane;
use apis::hypershift::encryption::{AzureKmsKey, SecretEncryption};
use apis::hypershift::etcd::Etcd as EtcdSpec;
use apis::hypershift::identity::ManagedIdentity;
use apis::hypershift::platform::{AzurePlatform, PrivateType, Topology};
use apis::hypershift::services::{PublishedService, PublishingType, ServiceType};
use apis::hypershift::settings::{AvailabilityPolicy, CatalogPlacement, ForwardingMode};
use arm::ResourceId;
use jiff::SignedDuration;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::net::IpAddr;

/// What is known besides the object.
#[derive(Clone, Debug)]
pub struct Around {
    pub release: Release,
    pub management: Management,
    /// Hosts that balancers and routers were given, where the user named none, and addresses of Services.
    pub given: BTreeMap<&'static str, String>,
    /// Client id of the identity that reads the vault.
    pub vault_reader: String,
}

#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("{field} cannot be used: {why}")]
pub struct Unusable {
    pub field: String,
    pub why: String,
}

fn unusable(field: impl Into<String>, why: impl Into<String>) -> Unusable {
    Unusable { field: field.into(), why: why.into() }
}

/// Where pods of the guest find the API unless the cluster says otherwise.
const ADVERTISE: (&str, &str) = ("172.20.0.1", "fd00::1");

/// Certificates that live shorter would be issued all the time; those that live longer would outlive who signed them.
const SHORTEST: SignedDuration = SignedDuration::from_hours(1);
const LONGEST: SignedDuration = SignedDuration::from_hours(10 * 365 * 24);

/// The release that a control plane runs: its own, if it has one of its own.
pub fn image(hcp: &HostedControlPlane) -> &str {
    hcp.spec.control_plane_release_image.as_deref().unwrap_or(&hcp.spec.release_image)
}

/// Reads the facts of a control plane.
pub fn read(hcp: &HostedControlPlane, around: &Around) -> Result<Scope, Unusable> {
    let spec = &hcp.spec;
    let shared = &spec.shared;
    let azure = shared.platform.azure.as_ref();
    let azure = azure.ok_or_else(|| unusable("platform.azure", "it is missing, and we run on Azure only"))?;
    let name = hcp.metadata.name.clone().unwrap_or_default();
    let annotations = hcp.metadata.annotations.clone().unwrap_or_default();
    let reach = reach(azure, &annotations);
    let private_api = reach.private().then(|| format!("api.{name}.hypershift.local"));
    let configuration = configuration(hcp)?;
    let encryption = shared.secret_encryption.as_ref().map(encryption).transpose()?;
    // Others have no use for it.
    let routed = matches!(encryption, Some(Encryption::Kms { private: true, .. }));
    let forwarding = shared.monitoring.as_ref().and_then(|m| m.metrics_forwarding.as_ref());
    let metrics = shared.monitoring.as_ref().and_then(|m| m.metrics_set);
    Ok(Scope {
        namespace: hcp.metadata.namespace.clone().unwrap_or_default(),
        infra_id: spec.infra_id.clone(),
        cluster_id: spec.cluster_id.clone().unwrap_or_default(),
        issuer: spec.issuer_url.clone(),
        azure: place(azure)?,
        identity: identity(azure, shared.secret_encryption.as_ref(), &around.vault_reader)?,
        release: around.release.clone(),
        guest_image: spec.release_image.clone(),
        available: match shared.controller_availability_policy {
            AvailabilityPolicy::SingleReplica => Availability::Single,
            AvailabilityPolicy::HighlyAvailable => Availability::High,
        },
        network: network(hcp)?,
        endpoints: Endpoints {
            private_api,
            custom_api: shared.kube_api_server_dns_name.clone().filter(|n| !n.is_empty()),
            private_router: around.given.get("private-router").cloned().filter(|_| routed),
            aggregated: aggregated(around),
            ..endpoints(&shared.services, around, &name, &reach)?
        },
        reach,
        etcd: etcd(&spec.etcd)?,
        encryption,
        capabilities: shared.capabilities.on(),
        autoscaling: shared.autoscaling.clone().unwrap_or_default(),
        configuration,
        catalogs_here: shared.olm_catalog_placement == CatalogPlacement::Management,
        pods: Pods {
            node_selector: shared.node_selector.clone().unwrap_or_default(),
            labels: shared.labels.clone().unwrap_or_default(),
            tolerations: shared.tolerations.iter().flatten().map(|t| json!(t)).collect(),
        },
        leaves: lives(&annotations)?,
        annotations,
        metrics: metrics.unwrap_or(around.management.settings.metrics),
        management: around.management.clone(),
        authorities: BTreeMap::new(),
        forwarded: forwarding
            .filter(|f| f.mode == ForwardingMode::Forward)
            .map(|f| f.metrics_set.or(metrics).unwrap_or(around.management.settings.metrics)),
        fips: shared.fips.unwrap_or(false),
        trust_bundle: shared.additional_trust_bundle.as_ref().map(|_| "user-ca-bundle".to_owned()),
        openid: BTreeMap::new(),
        audit_webhook: shared.audit_webhook.as_ref().map(|r| r.name.clone()),
        name,
    })
}

/// How long certificates live: `certificate-validity` is a duration, `certificate-renewal` the part of it that is left when
/// they are issued again.
fn lives(annotations: &BTreeMap<String, String>) -> Result<Lives, Unusable> {
    let of = |name: &str| {
        let field = format!("hypershift.openshift.io/{name}");
        annotations.get(&field).map(|text| (format!("annotation {field}"), text.as_str()))
    };
    let mut lives = Lives::default();
    if let Some((field, text)) = of("certificate-validity") {
        let life = text.parse::<SignedDuration>().ok().filter(|l| (SHORTEST..=LONGEST).contains(l));
        let life = life.ok_or_else(|| {
            unusable(field, format!("{text:?} is no duration between an hour and ten years, such as 2400h"))
        })?;
        // Shorter ones are not renewed a month before they end.
        lives = Lives { life, renew_before: lives.renew_before.min(life / 3) };
    }
    if let Some((field, text)) = of("certificate-renewal") {
        let part = text.parse::<f64>().ok().filter(|p| *p > 0.0 && *p < 1.0);
        let part = part
            .ok_or_else(|| unusable(field, format!("{text:?} is no number between 0 and 1, such as 0.3")))?;
        lives.renew_before = lives.life.mul_f64(part);
    }
    Ok(lives)
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

/// The user's configuration, with the domain that applications get if none was named.
fn configuration(hcp: &HostedControlPlane) -> Result<Value, Unusable> {
    let mut document = match &hcp.spec.shared.configuration {
        None => json!({}),
        Some(c) => serde_json::to_value(c).map_err(|e| unusable("configuration", e.to_string()))?,
    };
    if document["ingress"]["domain"].as_str().is_none_or(str::is_empty) {
        let prefix = match hcp.spec.dns.base_domain_prefix.as_deref() {
            None => format!("{}.", hcp.metadata.name.as_deref().unwrap_or_default()),
            Some("") => String::new(),
            Some(p) => format!("{p}."),
        };
        document["ingress"]["domain"] = json!(format!("apps.{prefix}{}", hcp.spec.dns.base_domain));
    }
    Ok(document)
}

fn id(field: &str, text: &str, kind: &str) -> Result<ResourceId, Unusable> {
    let id = ResourceId::parse(text).map_err(|e| unusable(field, e.to_string()))?;
    if !id.resource_type().is(kind) {
        return Err(unusable(
            field,
            format!("{text:?} names a {}, not a {kind}", id.resource_type().as_str()),
        ));
    }
    Ok(id)
}

fn named(field: &str, id: &ResourceId) -> Result<Named, Unusable> {
    let group = id.group().ok_or_else(|| unusable(field, "it has no resource group"))?;
    Ok(Named { name: id.name().to_owned(), group: group.to_owned() })
}

fn place(azure: &AzurePlatform) -> Result<Azure, Unusable> {
    let at = |field: &str| format!("platform.azure.{field}");
    let vnet = id(&at("vnetID"), &azure.vnet_id, "Microsoft.Network/virtualNetworks")?;
    let subnet = id(&at("subnetID"), &azure.subnet_id, "Microsoft.Network/virtualNetworks/subnets")?;
    if !vnet.contains(&subnet) {
        return Err(unusable(
            at("subnetID"),
            format!("{:?} is not a subnet of vnetID {:?}", azure.subnet_id, azure.vnet_id),
        ));
    }
    let group =
        id(&at("securityGroupID"), &azure.security_group_id, "Microsoft.Network/networkSecurityGroups")?;
    let registry = azure.container_registry.as_ref();
    let registry = registry.and_then(|r| r.credentials.managed_identity.as_ref());
    Ok(Azure {
        cloud: text(&json!(azure.cloud)),
        tenant: azure.tenant_id.clone(),
        subscription: azure.subscription_id.clone(),
        resource_group: azure.resource_group.clone(),
        location: azure.location.clone(),
        vnet: named(&at("vnetID"), &vnet)?,
        subnet: subnet.name().to_owned(),
        security_group: named(&at("securityGroupID"), &group)?,
        registry_identity: registry.map(|identity| identity.resource_id.clone()),
    })
}

fn reach(azure: &AzurePlatform, annotations: &BTreeMap<String, String>) -> Reach {
    let annotated = annotations.get("hypershift.openshift.io/swift-pod-network-instance").cloned();
    let swift =
        azure.private.as_ref().filter(|p| p.type_ == PrivateType::Swift).and_then(|p| p.swift.as_ref());
    let managed = azure.azure_authentication_config.is_managed();
    if let Some(instance) =
        swift.map(|s| s.pod_network_instance.clone()).or_else(|| annotated.filter(|_| managed))
    {
        return Reach::Swift(instance);
    }
    match azure.topology() {
        Topology::Public => Reach::Public,
        Topology::PublicAndPrivate => Reach::PublicAndPrivate,
        Topology::Private => Reach::Private,
    }
}

fn identity(
    azure: &AzurePlatform,
    encryption: Option<&SecretEncryption>,
    reader: &str,
) -> Result<Identity, Unusable> {
    let field = "platform.azure.azureAuthenticationConfig";
    let config = &azure.azure_authentication_config;
    let kms = encryption.and_then(|e| e.kms.as_ref()).and_then(|k| k.azure.as_ref());
    if config.is_managed() {
        let all = config.managed_identities.as_ref();
        let all = &all.ok_or_else(|| unusable(field, "managedIdentities is missing"))?.control_plane;
        let secret = |m: &ManagedIdentity| VaultSecret {
            name: m.credentials_secret_name.clone(),
            encoding: text(&json!(m.object_encoding)),
            client_id: m.client_id.as_ref().map(|c| c.as_str().to_owned()).unwrap_or_default(),
        };
        let mut secrets: BTreeMap<Who, VaultSecret> = [
            (Who::CloudProvider, &all.cloud_provider),
            (Who::NodePoolManagement, &all.node_pool_management),
            (Who::ControlPlaneOperator, &all.control_plane_operator),
            (Who::Ingress, &all.ingress),
            (Who::Network, &all.network),
            (Who::Disk, &all.disk),
            (Who::File, &all.file),
        ]
        .map(|(who, m)| (who, secret(m)))
        .into();
        secrets.extend(all.image_registry.as_ref().map(|m| (Who::ImageRegistry, secret(m))));
        secrets.extend(kms.and_then(|k| k.kms.as_ref()).map(|m| (Who::Kms, secret(m))));
        let vault = &all.managed_identities_key_vault;
        return Ok(Identity::Managed {
            vault: vault.name.clone(),
            tenant: vault.tenant_id.clone(),
            reader: reader.to_owned(),
            secrets,
        });
    }
    let all = config.workload_identities.as_ref();
    let all = all.ok_or_else(|| unusable(field, "workloadIdentities is missing"))?;
    let mut ids: BTreeMap<Who, String> = [
        (Who::CloudProvider, &all.cloud_provider),
        (Who::NodePoolManagement, &all.node_pool_management),
        (Who::Ingress, &all.ingress),
        (Who::Network, &all.network),
        (Who::Disk, &all.disk),
        (Who::File, &all.file),
        (Who::ImageRegistry, &all.image_registry),
    ]
    .map(|(who, w)| (who, w.client_id.as_str().to_owned()))
    .into();
    let operator = all.control_plane_operator.as_ref();
    ids.extend(operator.map(|w| (Who::ControlPlaneOperator, w.client_id.as_str().to_owned())));
    let kms = kms.and_then(|k| k.workload_identity.as_ref());
    ids.extend(kms.map(|w| (Who::Kms, w.client_id.as_str().to_owned())));
    Ok(Identity::Workload(ids))
}

fn network(hcp: &HostedControlPlane) -> Result<Network, Unusable> {
    let networking = hcp.spec.networking.clone().unwrap_or_default();
    let api = networking.api_server.clone().unwrap_or_default();
    let service: Vec<String> = networking.service_network.iter().map(|n| n.cidr.0.clone()).collect();
    let six = service.first().is_some_and(|s| s.contains(':'));
    let advertise = api.advertise_address.as_deref().unwrap_or(if six { ADVERTISE.1 } else { ADVERTISE.0 });
    let address: IpAddr = advertise.parse().map_err(|_| {
        unusable("networking.apiServer.advertiseAddress", format!("{advertise:?} is no IP address"))
    })?;
    let port = api.port.unwrap_or(6443);
    Ok(Network {
        kind: text(&json!(networking.network_type)),
        cluster: networking.cluster_network.iter().map(|n| n.cidr.0.clone()).collect(),
        service,
        machine: networking.machine_network.iter().flatten().map(|n| n.cidr.0.clone()).collect(),
        advertise: address,
        api_port: u16::try_from(port)
            .ok()
            .filter(|p| *p > 0)
            .ok_or_else(|| unusable("networking.apiServer.port", format!("{port} is no port")))?,
        allocate_node_cidrs: networking.allocate_node_cidrs.is_some_and(|a| text(&json!(a)) == "Enabled"),
        allowed: api.allowed_cidr_blocks.iter().flatten().map(|c| c.0.clone()).collect(),
    })
}

/// The private zone of a cluster leads to its private router; what users gave no name is reached by one of that zone, where
/// there is such a zone. The API and logins have other names outside of it, unless there is no outside.
fn endpoints(
    services: &[PublishedService],
    around: &Around,
    cluster: &str,
    reach: &Reach,
) -> Result<Endpoints, Unusable> {
    let local = |name: &str| match (reach.hidden(), name) {
        (true, "api") => Some(format!("api.{cluster}.hypershift.local")),
        (true, "oauth") => Some(format!("oauth.apps.{cluster}.hypershift.local")),
        (_, "konnectivity" | "ignition") if reach.private() => {
            Some(format!("{name}-server.apps.{cluster}.hypershift.local"))
        }
        _ => None,
    };
    let one = |which: ServiceType, key: &'static str, balancer_port: u16| -> Result<Endpoint, Unusable> {
        let label = text(&json!(which));
        let field = format!("services[{label}].servicePublishingStrategy");
        let Some(found) = services.iter().find(|s| s.service == which) else {
            return Err(unusable(field, format!("there is no entry for {label}: add one")));
        };
        let strategy = &found.service_publishing_strategy;
        let (publish, host, port) = match strategy.type_ {
            PublishingType::Route => (Publish::Route, strategy.route.as_ref(), 443),
            PublishingType::LoadBalancer => {
                (Publish::LoadBalancer, strategy.load_balancer.as_ref(), balancer_port)
            }
            other => {
                let other = text(&json!(other));
                return Err(unusable(
                    format!("{field}.type"),
                    format!("{other} is not possible on Azure: use Route or LoadBalancer"),
                ));
            }
        };
        let host = host.and_then(|h| h.hostname.clone()).or_else(|| around.given.get(key).cloned());
        let host = host.or_else(|| local(key).filter(|_| publish == Publish::Route));
        Ok(Endpoint { host: host.unwrap_or_default(), port, publish })
    };
    Ok(Endpoints {
        api: one(ServiceType::ApiServer, "api", 7443)?,
        oauth: one(ServiceType::OAuthServer, "oauth", 6443)?,
        konnectivity: one(ServiceType::Konnectivity, "konnectivity", 8091)?,
        ignition: one(ServiceType::Ignition, "ignition", 443)?,
        ..Endpoints::default()
    })
}

fn aggregated(around: &Around) -> BTreeMap<&'static str, IpAddr> {
    let address = |service: &'static str| Some((service, around.given.get(service)?.parse().ok()?));
    publish::AGGREGATED.into_iter().filter_map(|(service, _)| address(service)).collect()
}

fn etcd(spec: &EtcdSpec) -> Result<Etcd, Unusable> {
    if let Some(u) = &spec.unmanaged {
        return Ok(Etcd::Unmanaged {
            endpoint: u.endpoint.clone(),
            client_secret: u.tls.client_secret.name.clone(),
        });
    }
    let managed = spec.managed.as_ref().ok_or_else(|| unusable("etcd.managed", "it is missing"))?;
    let volume = managed.storage.persistent_volume.as_ref();
    let size = volume.and_then(|v| v.size.as_ref()).map(|s| json!(s));
    let size = size.map(|s| s.as_str().map_or_else(|| s.to_string(), str::to_owned));
    Ok(Etcd::Managed {
        size: size.unwrap_or_else(|| "8Gi".to_owned()),
        class: volume.and_then(|v| v.storage_class_name.clone()),
        restore: managed.storage.restore_snapshot_url.iter().flatten().next().map(|u| u.0.clone()),
    })
}

fn encryption(spec: &SecretEncryption) -> Result<Encryption, Unusable> {
    if let Some(aes) = &spec.aescbc {
        let name = |r: &apis::common::LocalObjectReference| AesKey::named(&r.name);
        return Ok(Encryption::Aescbc {
            active: name(&aes.active_key),
            backup: aes.backup_key.as_ref().map(name),
        });
    }
    let kms = spec.kms.as_ref().and_then(|k| k.azure.as_ref());
    let kms =
        kms.ok_or_else(|| unusable("secretEncryption.kms.azure", "it is missing, and we run on Azure only"))?;
    let hsm = kms.key_vault_type.is_some_and(|t| text(&json!(t)) == "ManagedHSM");
    let key = |k: &AzureKmsKey| KmsKey {
        vault: k.key_vault_name.clone(),
        name: k.key_name.clone(),
        version: k.key_version.clone(),
        managed_hsm: hsm,
    };
    Ok(Encryption::Kms {
        active: key(&kms.active_key),
        backup: kms.backup_key.as_ref().map(key),
        private: kms.key_vault_access.is_some_and(|a| text(&json!(a)) == "Private"),
    })
}
