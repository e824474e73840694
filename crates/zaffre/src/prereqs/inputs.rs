//! From flags to inputs.

use super::files;
use crate::cli::prereqs::{IamArgs, InfraArgs};
use arm::ResourceId;
use landing_zone::Cluster;
use landing_zone::iam::Iam;
use landing_zone::identities::Identities;
use landing_zone::infra::Infra;
use landing_zone::roles::Assign;
use self_managed::Refused;

pub fn iam(a: &IamArgs, subscription: ResourceId) -> anyhow::Result<Iam> {
    let iam = Iam {
        cluster: Cluster::new(&a.which.name, &a.which.infra_id)?,
        subscription,
        group: a.resource_group_name.clone(),
        location: a.location.clone(),
        issuer: a.oidc_issuer_url.clone(),
        kms: a.enable_kms,
        adopt: a.adopt,
    };
    iam.check()?;
    Ok(iam)
}

/// The flavour, by the files that are given.
pub fn identities(a: &InfraArgs) -> anyhow::Result<Identities> {
    match (&a.workload_identities_file, &a.managed_identities_file, &a.data_plane_identities_file) {
        (Some(path), _, _) => Ok(Identities::Workload(files::workload_identities(path)?)),
        (None, Some(control), Some(data)) => Ok(Identities::Managed {
            control_plane: files::control_plane(control)?,
            data_plane: files::data_plane(data)?,
        }),
        _ => anyhow::bail!(
            "give --workload-identities-file, or --managed-identities-file with --data-plane-identities-file"
        ),
    }
}

fn id(flag: &str, text: Option<&String>) -> anyhow::Result<Option<ResourceId>> {
    let parsed = text.map(|t| {
        let bad = |e| Refused::value(flag, t, &format!("it is not a resource id: {e}"));
        ResourceId::parse(t).map_err(bad)
    });
    Ok(parsed.transpose()?)
}

pub fn infra(a: &InfraArgs, subscription: ResourceId, identities: Identities) -> anyhow::Result<Infra> {
    let dns = a.dns_zone_rg_name.clone().filter(|_| a.assign_identity_roles || a.assign_custom_hcp_roles);
    let off = |c: &String| c.eq_ignore_ascii_case("ImageRegistry");
    let assign = dns.map(|dns_group| Assign {
        custom: a.assign_custom_hcp_roles,
        dns_group,
        image_registry: !a.disable_cluster_capabilities.iter().any(off),
    });
    let nat = "--endpoint-access-private-nat-subnet-id";
    let infra = Infra {
        cluster: Cluster::new(&a.which.name, &a.which.infra_id)?,
        subscription,
        location: a.location.clone(),
        base_domain: a.base_domain.clone(),
        group: a.resource_group_name.clone(),
        tags: a.resource_group_tags.iter().cloned().collect(),
        vnet: id("--vnet-id", a.vnet_id.as_ref())?,
        subnet: id("--subnet-id", a.subnet_id.as_ref())?,
        security_group: id("--network-security-group-id", a.network_security_group_id.as_ref())?,
        identities,
        assign,
        nat_subnet: id(nat, a.endpoint_access_private_nat_subnet_id.as_ref())?,
        adopt: a.adopt,
    };
    infra.check()?;
    Ok(infra)
}
