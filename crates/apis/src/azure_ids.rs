//! The ARM ids that a HostedCluster and a NodePool name, checked and taken apart.
//!
//! The definitions check the shape of subnet ids with CEL; virtual networks and security groups are only limited in
//! length there, as upstream has it. Whoever uses them reads them here first.

use arm::{IdError, ResourceId};

/// Why a text is not the id that a field wants.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum Error {
    #[error("{field} {text:?} is not an ARM id: copy it from `az … show --query id`")]
    Parse {
        field: &'static str,
        text: String,
        #[source]
        source: IdError,
    },
    #[error("{field} {text:?} is not the id of a {wanted}: copy it from `az … show --query id`")]
    Type { field: &'static str, text: String, wanted: &'static str },
    #[error("{field} {text:?} lies outside the virtual network {vnet:?}: choose a subnet of it")]
    Outside { field: &'static str, text: String, vnet: String },
}

fn read(field: &'static str, text: &str, wanted: &'static str) -> Result<ResourceId, Error> {
    let id = ResourceId::parse(text).map_err(|source| Error::Parse { field, text: shown(text), source })?;
    let in_group = id.subscription().is_some() && id.group().is_some();
    if !in_group || !id.resource_type().is(wanted) || id.is_extension() {
        return Err(Error::Type { field, text: shown(text), wanted });
    }
    Ok(id)
}

/// Enough of a text to recognise it.
fn shown(text: &str) -> String {
    text.chars().take(400).collect()
}

/// A virtual network.
pub fn vnet(field: &'static str, text: &str) -> Result<ResourceId, Error> {
    read(field, text, "Microsoft.Network/virtualNetworks")
}

/// A network security group.
pub fn security_group(field: &'static str, text: &str) -> Result<ResourceId, Error> {
    read(field, text, "Microsoft.Network/networkSecurityGroups")
}

/// A disk encryption set.
pub fn disk_encryption_set(field: &'static str, text: &str) -> Result<ResourceId, Error> {
    read(field, text, "Microsoft.Compute/diskEncryptionSets")
}

/// A user-assigned identity.
pub fn user_assigned_identity(field: &'static str, text: &str) -> Result<ResourceId, Error> {
    read(field, text, "Microsoft.ManagedIdentity/userAssignedIdentities")
}

/// A subnet and the network it is part of.
#[derive(Clone, Debug, PartialEq)]
pub struct Subnet {
    pub id: ResourceId,
    pub vnet: ResourceId,
}

impl Subnet {
    pub fn name(&self) -> &str {
        self.id.name()
    }
}

/// A subnet.
pub fn subnet(field: &'static str, text: &str) -> Result<Subnet, Error> {
    const WANTED: &str = "Microsoft.Network/virtualNetworks/subnets";
    let id = read(field, text, WANTED)?;
    let vnet = id.parent().ok_or_else(|| Error::Type { field, text: shown(text), wanted: WANTED })?;
    Ok(Subnet { id, vnet })
}

/// A subnet of a given network.
pub fn subnet_of(field: &'static str, text: &str, vnet: &ResourceId) -> Result<Subnet, Error> {
    let subnet = subnet(field, text)?;
    if subnet.vnet.key() != vnet.key() {
        return Err(Error::Outside { field, text: shown(text), vnet: vnet.as_str().to_owned() });
    }
    Ok(subnet)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    const VNET: &str = "/subscriptions/s/resourceGroups/net/providers/Microsoft.Network/virtualNetworks/vnet";

    #[test]
    fn types_are_checked_without_case() {
        assert_eq!(vnet("vnetID", &VNET.to_lowercase()).unwrap().name(), "vnet");
        let error = security_group("securityGroupID", VNET).unwrap_err();
        assert!(
            error.to_string().starts_with("securityGroupID")
                && error.to_string().contains("networkSecurityGroups"),
            "{error}"
        );
        assert!(matches!(vnet("vnetID", "vnet"), Err(Error::Parse { .. })));
        assert!(matches!(vnet("vnetID", &format!("{VNET}/subnets/a")), Err(Error::Type { .. })));
    }

    #[test]
    fn a_subnet_knows_its_network() {
        let text = format!("{VNET}/subnets/workers");
        let network =
            vnet("vnetID", &VNET.to_uppercase().replace("/SUBSCRIPTIONS/", "/subscriptions/")).unwrap();
        assert_eq!(subnet_of("subnetID", &text, &network).unwrap().name(), "workers");
        let other = vnet("vnetID", &VNET.replace("/vnet", "/other")).unwrap();
        assert!(matches!(subnet_of("subnetID", &text, &other), Err(Error::Outside { .. })));
    }
}
