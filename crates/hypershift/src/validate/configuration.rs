//! What the spec says, taken together with the management cluster it is for.

use crate::around::Management;
use crate::naming;
use apis::hypershift::HostedCluster;
use apis::hypershift::hosted_cluster::DEFAULT_ISSUER;
use apis::hypershift::platform::{PlatformType, PrivateType};
use apis::hypershift::services::{PublishingType, ServiceType};
use apis::names::annotation;
use std::collections::BTreeMap;

/// Who has the namespace that the control plane would get.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Tenant {
    /// Nobody, or this cluster.
    Free,
    Other(String),
}

/// Whether we can run such a cluster at all.
pub fn unsupported(hc: &HostedCluster) -> Option<String> {
    let platform = hc.spec.shared.platform.type_;
    (platform != PlatformType::Azure).then(|| {
        format!("spec.platform.type is {platform}, and this operator runs clusters on Azure only: use Azure")
    })
}

pub fn problems(hc: &HostedCluster, management: &Management, tenant: &Tenant) -> Vec<String> {
    let mut out = Vec::new();
    out.extend(place(hc, tenant));
    out.extend(ids(hc));
    out.extend(hostnames(hc));
    out.extend(services(hc, management));
    out.extend(super::network::problems(&hc.spec.networking));
    out.extend(azure(hc));
    out.extend(node_ports(hc));
    out.extend(named_certificates(hc));
    out.extend(identity_providers(hc));
    out.extend(tokens(hc));
    out
}

/// The namespace is made of two names, so that two clusters may mean the same one, or one that cannot be.
fn place(hc: &HostedCluster, tenant: &Tenant) -> Option<String> {
    let namespace = naming::namespace(hc);
    if namespace.len() > 63 {
        return Some(format!(
            "the control plane's namespace would be {namespace:?}, longer than the 63 characters a namespace may have: use a shorter name"
        ));
    }
    match tenant {
        Tenant::Free => None,
        Tenant::Other(key) => Some(format!(
            "the control plane's namespace {namespace} belongs to HostedCluster {key} already: use another name or namespace"
        )),
    }
}

fn ids(hc: &HostedCluster) -> Option<String> {
    let id = hc.spec.cluster_id.as_deref()?;
    let parts: Vec<usize> = id.split('-').map(str::len).collect();
    let good = parts == [8, 4, 4, 4, 12] && id.bytes().all(|b| b.is_ascii_hexdigit() || b == b'-');
    (!good).then(|| format!("spec.clusterID {id:?} is no UUID: make one with `uuidgen`, or leave it out"))
}

/// Every published name is somebody's alone.
fn hostnames(hc: &HostedCluster) -> Vec<String> {
    let mut by_name: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for s in &hc.spec.shared.services {
        let strategy = &s.service_publishing_strategy;
        let host = [&strategy.route, &strategy.load_balancer]
            .into_iter()
            .flatten()
            .find_map(|h| h.hostname.as_ref());
        if let Some(host) = host {
            by_name.entry(host.to_lowercase()).or_default().push(s.service.to_string());
        }
    }
    if let Some(name) = hc.spec.shared.kube_api_server_dns_name.as_deref().filter(|n| !n.is_empty()) {
        by_name.entry(name.to_lowercase()).or_default().push("kubeAPIServerDNSName".to_owned());
    }
    let doubled = by_name.into_iter().filter(|(_, users)| users.len() > 1);
    doubled
        .map(|(host, users)| {
            format!(
                "spec.services: hostname {host} is used by {}: give each a name of its own",
                users.join(" and ")
            )
        })
        .collect()
}

/// What somebody outside the management cluster must reach.
const OUTSIDE: [ServiceType; 4] =
    [ServiceType::ApiServer, ServiceType::OAuthServer, ServiceType::Konnectivity, ServiceType::Ignition];

/// How a service may be published, as the definition has it.
fn ways(hc: &HostedCluster, service: ServiceType) -> &'static [PublishingType] {
    use PublishingType::{LoadBalancer, Route};
    let azure = hc.spec.shared.platform.azure.as_ref();
    let managed = azure.is_some_and(|a| a.azure_authentication_config.is_managed());
    match service {
        ServiceType::Konnectivity | ServiceType::Ignition => &[Route],
        ServiceType::OAuthServer if managed => &[Route],
        _ => &[Route, LoadBalancer],
    }
}

fn spelled(ways: &[PublishingType]) -> String {
    ways.iter().map(ToString::to_string).collect::<Vec<_>>().join(" or ")
}

fn services(hc: &HostedCluster, management: &Management) -> Vec<String> {
    let mut out = Vec::new();
    let mut seen = Vec::new();
    for (i, s) in hc.spec.shared.services.iter().enumerate() {
        if seen.contains(&s.service) {
            out.push(format!("spec.services[{i}]: {} is there twice: remove one", s.service));
        }
        seen.push(s.service);
        let type_ = s.service_publishing_strategy.type_;
        let ways = ways(hc, s.service);
        if OUTSIDE.contains(&s.service) && !ways.contains(&type_) {
            out.push(format!(
                "spec.services[{i}].servicePublishingStrategy.type: {} cannot be published by {type_} on Azure: use {}",
                s.service,
                spelled(ways)
            ));
        }
        if type_ == PublishingType::Route && !management.routes {
            out.push(format!(
                "spec.services[{i}]: {} is published by Route, and this management cluster serves none: install the definition of route.openshift.io (`zaffre install` does)",
                s.service
            ));
        }
    }
    for which in OUTSIDE.into_iter().filter(|w| !seen.contains(w)) {
        out.push(format!(
            "spec.services has no entry for {which}: add one that is published by {}",
            spelled(ways(hc, which))
        ));
    }
    out
}

/// Ids of Azure, as far as their text goes.
fn azure(hc: &HostedCluster) -> Vec<String> {
    let Some(azure) = &hc.spec.shared.platform.azure else { return Vec::new() };
    let mut out = Vec::new();
    let vnet = apis::azure_ids::vnet("spec.platform.azure.vnetID", &azure.vnet_id);
    match &vnet {
        Ok(vnet) => {
            if let Err(e) = apis::azure_ids::subnet_of("spec.platform.azure.subnetID", &azure.subnet_id, vnet)
            {
                out.push(e.to_string());
            }
        }
        Err(e) => out.push(e.to_string()),
    }
    let field = "spec.platform.azure.securityGroupID";
    let group = apis::azure_ids::security_group(field, &azure.security_group_id);
    for (field, id) in [("spec.platform.azure.vnetID", &vnet), (field, &group)] {
        let foreign = id.as_ref().ok().and_then(|id| id.subscription());
        if let Some(other) = foreign.filter(|s| !s.eq_ignore_ascii_case(&azure.subscription_id)) {
            out.push(format!(
                "{field} lies in subscription {other}, and spec.platform.azure.subscriptionID is {}: use a network of that subscription",
                azure.subscription_id
            ));
        }
    }
    out.extend(group.err().map(|e| e.to_string()));
    let annotated = naming::annotation(hc, annotation::SWIFT_POD_NETWORK_INSTANCE).is_some();
    if azure.topology().is_private() && azure.private.is_none() && !annotated {
        out.push(format!(
            "spec.platform.azure.topology is {} and spec.platform.azure.private is missing: set private.type to PrivateLink or Swift",
            azure.topology()
        ));
    }
    let managed = azure.azure_authentication_config.is_managed();
    let swift = azure.private.as_ref().is_some_and(|p| p.type_ == PrivateType::Swift);
    if !managed && swift {
        out.push("spec.platform.azure.private.type is Swift, which only clusters with ManagedIdentities have: use PrivateLink".to_owned());
    }
    out.extend(vault_identity(hc, managed));
    out
}

/// Who reaches the vault must be of the cluster's flavour: the other's credential is never there.
fn vault_identity(hc: &HostedCluster, managed: bool) -> Option<String> {
    let azure = hc.spec.shared.secret_encryption.as_ref()?.kms.as_ref()?.azure.as_ref()?;
    let (wrong, right, flavour) = match managed {
        true => ("workloadIdentity", "kms", "ManagedIdentities"),
        false => ("kms", "workloadIdentity", "WorkloadIdentities"),
    };
    let fits = if managed { azure.workload_identity.is_none() } else { azure.kms.is_none() };
    (!fits).then(|| {
        format!(
            "spec.secretEncryption.kms.azure.{wrong} is not for a cluster with {flavour}: make the cluster again with {right} in its place, which cannot be changed later"
        )
    })
}

fn node_ports(hc: &HostedCluster) -> Option<String> {
    let network = hc.spec.shared.configuration.as_ref()?.network.as_ref()?;
    let range = network.service_node_port_range.as_deref().filter(|r| !r.is_empty())?;
    let ends =
        range.split_once('-').and_then(|(a, b)| Some((a.parse::<u16>().ok()?, b.parse::<u16>().ok()?)));
    let field = "spec.configuration.network.serviceNodePortRange";
    match ends {
        Some((a, b)) if a > 0 && a <= b => None,
        _ => Some(format!("{field} {range:?} is no range of ports: write one such as 30000-32767")),
    }
}

/// Names the API server answers to inside; a certificate of the user for one would lock everybody out.
const INTERNAL: [&str; 10] = [
    "localhost",
    "kubernetes",
    "kubernetes.default",
    "kubernetes.default.svc",
    "kubernetes.default.svc.cluster.local",
    "openshift",
    "openshift.default",
    "openshift.default.svc",
    "openshift.default.svc.cluster.local",
    "kube-apiserver",
];

/// Whether the control plane itself serves this name of the API, so that a certificate of the user must not: those it is
/// reached by inside, and the published one, whose certificate is its own. `kubeAPIServerDNSName` is the user's.
pub(super) fn taken(hc: &HostedCluster, name: &str) -> bool {
    let api = hc.spec.shared.services.iter().find(|s| s.service == ServiceType::ApiServer);
    let strategy = api.map(|s| &s.service_publishing_strategy);
    let hosts = strategy.into_iter().flat_map(|s| [&s.route, &s.load_balancer]).flatten();
    let published = hosts.filter_map(|h| h.hostname.as_deref()).any(|h| h.eq_ignore_ascii_case(name));
    published || INTERNAL.iter().any(|i| i.eq_ignore_ascii_case(name))
}

/// Whether the user answers for names alone.
pub(super) fn names_unchecked(hc: &HostedCluster) -> bool {
    naming::annotation(hc, annotation::SKIP_KAS_CONFLICT_SAN_VALIDATION).is_some()
}

fn named_certificates(hc: &HostedCluster) -> Vec<String> {
    if names_unchecked(hc) {
        return Vec::new();
    }
    let api = hc.spec.shared.configuration.as_ref().and_then(|c| c.api_server.as_ref());
    let certs = api.and_then(|a| a.serving_certs.as_ref()).and_then(|s| s.named_certificates.as_ref());
    let mut out = Vec::new();
    for (i, cert) in certs.into_iter().flatten().enumerate() {
        for name in cert.names.iter().flatten().filter(|n| taken(hc, n)) {
            out.push(format!(
                "spec.configuration.apiServer.servingCerts.namedCertificates[{i}].names has {name}, by which the control plane itself serves the API: remove it, or serve a name of your own (spec.kubeAPIServerDNSName)"
            ));
        }
    }
    out
}

fn identity_providers(hc: &HostedCluster) -> Vec<String> {
    let Some(auth) = hc.spec.shared.configuration.as_ref().and_then(|c| c.authentication.as_ref()) else {
        return Vec::new();
    };
    let at = "spec.configuration.authentication";
    let mut out = Vec::new();
    let oidc = auth.type_.as_deref() == Some("OIDC");
    let providers = auth.oidc_providers.as_deref().unwrap_or_default();
    if oidc && providers.is_empty() {
        out.push(format!(
            "{at}.type is OIDC and oidcProviders is empty: add the provider, or change the type"
        ));
    }
    if !oidc && !providers.is_empty() {
        out.push(format!(
            "{at}.oidcProviders is set and type is not OIDC: set type to OIDC, or remove the providers"
        ));
    }
    for (i, p) in providers.iter().enumerate() {
        let issuer = p.other.get("issuer");
        let url = issuer.and_then(|i| i["issuerURL"].as_str()).unwrap_or_default();
        if !url.starts_with("https://") {
            out.push(format!("{at}.oidcProviders[{i}].issuer.issuerURL {url:?} must be an https:// URL"));
        }
        if issuer.and_then(|i| i["audiences"].as_array()).is_none_or(Vec::is_empty) {
            out.push(format!(
                "{at}.oidcProviders[{i}].issuer.audiences is empty: name the audience of your tokens"
            ));
        }
    }
    out
}

/// Federation needs an issuer that Entra can reach, and the key that it publishes.
fn tokens(hc: &HostedCluster) -> Vec<String> {
    let mut out = Vec::new();
    let own_issuer = !hc.spec.issuer_url.is_empty() && hc.spec.issuer_url != DEFAULT_ISSUER;
    let key = hc.spec.shared.service_account_signing_key.is_some();
    if key && !own_issuer {
        out.push(
            "spec.serviceAccountSigningKey is set and spec.issuerURL is not: set it to the issuer that publishes the key"
                .to_owned(),
        );
    }
    let azure = hc.spec.shared.platform.azure.as_ref();
    let federated = azure.is_some_and(|a| !a.azure_authentication_config.is_managed());
    if federated && own_issuer && !key {
        out.push(format!(
            "spec.issuerURL is {} and spec.serviceAccountSigningKey is missing: tokens would be signed by a key that this issuer does not publish; name the Secret with its private key",
            hc.spec.issuer_url
        ));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use apis::hypershift::encryption::{AzureKms, Kms, KmsWorkloadIdentity, SecretEncryption};
    use apis::hypershift::identity::{AzureAuthenticationType, ManagedIdentity};
    use apis::hypershift::platform::AzurePlatform;

    fn cluster(flavour: AzureAuthenticationType) -> HostedCluster {
        let mut hc = HostedCluster::default();
        let mut azure = AzurePlatform::default();
        azure.azure_authentication_config.azure_authentication_config_type = flavour;
        hc.spec.shared.platform.azure = Some(azure);
        hc
    }

    #[test]
    fn a_vault_is_reached_by_an_identity_of_the_clusters_flavour() {
        use AzureAuthenticationType::{ManagedIdentities, WorkloadIdentities};
        let managed = AzureKms { kms: Some(ManagedIdentity::default()), ..AzureKms::default() };
        let workload =
            AzureKms { workload_identity: Some(KmsWorkloadIdentity::default()), ..AzureKms::default() };
        for (flavour, kms, wrong) in [
            (ManagedIdentities, &managed, None),
            (
                ManagedIdentities,
                &workload,
                Some("kms.azure.workloadIdentity is not for a cluster with Managed"),
            ),
            (WorkloadIdentities, &workload, None),
            (
                WorkloadIdentities,
                &managed,
                Some("kms.azure.kms is not for a cluster with WorkloadIdentities"),
            ),
        ] {
            let mut hc = cluster(flavour);
            let kms = Kms { azure: Some(kms.clone()), ..Kms::default() };
            hc.spec.shared.secret_encryption =
                Some(SecretEncryption { kms: Some(kms), ..SecretEncryption::default() });
            let said: Vec<String> =
                azure(&hc).into_iter().filter(|m| m.contains("secretEncryption")).collect();
            assert_eq!(said.len(), usize::from(wrong.is_some()), "{said:?}");
            assert!(wrong.is_none_or(|w| said[0].contains(w)), "{said:?}");
        }
    }

    #[test]
    fn only_what_the_definition_accepts_is_advised() {
        let management = Management { openshift: false, minor: 34, routes: true };
        let told = |flavour| services(&cluster(flavour), &management).join("\n");
        let said = told(AzureAuthenticationType::WorkloadIdentities);
        for (service, ways) in [
            ("APIServer", "Route or LoadBalancer"),
            ("OAuthServer", "Route or LoadBalancer"),
            ("Konnectivity", "Route"),
            ("Ignition", "Route"),
        ] {
            let line = format!("no entry for {service}: add one that is published by {ways}");
            assert!(said.lines().any(|l| l.ends_with(&line)), "{line:?} is not in {said}");
        }
        let said = told(AzureAuthenticationType::ManagedIdentities);
        assert!(
            said.lines().any(|l| l.ends_with("OAuthServer: add one that is published by Route")),
            "{said}"
        );
    }
}
