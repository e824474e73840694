//! What an AzurePrivateLinkService says, and the names that follow from it.

use apis::hypershift::private_link::AzurePrivateLinkServiceSpec;
use apis::names::{finalizer, label};
use arm::{IdError, ResourceId};
use azure::ops::{
    ArmType, PrivateDnsA, PrivateDnsLinks, PrivateDnsZones, PrivateEndpoints, PrivateLinkServices,
};
use kube::core::DynamicObject;

/// The Service that a control plane's router is published by. The other one is `oauth-openshift`.
pub const ROUTER: &str = "private-router";

/// On the object: the subnet that was made for it, written down before it is made.
pub const NAT_SUBNET: &str = "zaffre.io/nat-subnet";

/// The mark on what is ours in Azure: the cluster's infra id. The same as on what `create infra` makes.
pub const TAG: &str = "zaffre.io_infra-id";

/// On a zone that any cluster of the group may use; whoever leaves it empty removes it.
pub const TAG_SHARED: &str = "zaffre.io_made-by";
pub const SHARED: &str = "private-link";

/// Why an object cannot be worked on.
#[derive(Debug, thiserror::Error)]
pub enum Unreadable {
    #[error("spec cannot be read")]
    Spec(#[source] serde_json::Error),
    #[error(
        "{0} is missing: the operator of the control plane writes it; delete the object to have it made anew"
    )]
    Missing(&'static str),
    #[error("{field} leads to no id of Azure")]
    Id { field: &'static str, source: IdError },
}

/// One private way.
#[derive(Clone, Debug)]
pub struct Link {
    pub namespace: String,
    /// As the Service that it leads to.
    pub name: String,
    /// The HostedControlPlane that it belongs to.
    pub plane: String,
    pub infra_id: String,
    pub cluster_id: String,
    pub spec: AzurePrivateLinkServiceSpec,
    /// A subnet that was made, or is about to be.
    pub made_subnet: Option<String>,
    pub going: bool,
    /// The endpoint may be there.
    pub has_endpoint: bool,
}

fn id(field: &'static str) -> impl Fn(IdError) -> Unreadable {
    move |source| Unreadable::Id { field, source }
}

fn has(o: &DynamicObject, finalizer: &str) -> bool {
    o.metadata.finalizers.iter().flatten().any(|f| f == finalizer)
}

impl Link {
    pub fn read(o: &DynamicObject) -> Result<Link, Unreadable> {
        let m = &o.metadata;
        let of = |key: &'static str| {
            m.labels.as_ref().and_then(|l| l.get(key)).cloned().ok_or(Unreadable::Missing(key))
        };
        let plane = m.owner_references.iter().flatten().find(|r| r.kind == "HostedControlPlane");
        Ok(Link {
            namespace: m.namespace.clone().unwrap_or_default(),
            name: m.name.clone().unwrap_or_default(),
            plane: plane.ok_or(Unreadable::Missing("the owner, a HostedControlPlane,"))?.name.clone(),
            infra_id: of(label::INFRA_ID)?,
            cluster_id: of(label::CLUSTER_ID)?,
            spec: serde_json::from_value(o.data["spec"].clone()).map_err(Unreadable::Spec)?,
            made_subnet: m.annotations.as_ref().and_then(|a| a.get(NAT_SUBNET)).cloned(),
            going: m.deletion_timestamp.is_some(),
            has_endpoint: has(o, finalizer::PRIVATE_ENDPOINT),
        })
    }

    fn is_router(&self) -> bool {
        self.name == ROUTER
    }

    /// The private link service, in the management side's group.
    pub fn service(&self, group: &ResourceId) -> Result<ResourceId, Unreadable> {
        let name = match self.is_router() {
            true => format!("pls-{}", self.cluster_id),
            false => format!("pls-{}-{}", self.name, self.cluster_id),
        };
        PrivateLinkServices::ROW.id(group, &name).map_err(id("metadata.name"))
    }

    /// The NAT subnet that is made when none is named. Links of one cluster share it.
    pub fn nat_subnet(&self) -> String {
        format!("{}-pls-nat", self.infra_id)
    }

    /// The guest's resource group.
    pub fn group(&self) -> Result<ResourceId, Unreadable> {
        ResourceId::group_scope(&self.spec.subscription_id, &self.spec.resource_group_name)
            .map_err(id("spec.resourceGroupName"))
    }

    pub fn endpoint(&self) -> Result<ResourceId, Unreadable> {
        PrivateEndpoints::ROW.id(&self.group()?, &format!("{}-pe", self.name)).map_err(id("metadata.name"))
    }

    /// The zones that lead to the endpoint.
    pub fn zones(&self) -> Result<Vec<Zone>, Unreadable> {
        let group = self.group()?;
        let mut all = Vec::new();
        if self.is_router() {
            let name = format!("{}.hypershift.local", self.plane);
            let link = format!("{}-vnet-link", self.name);
            all.push(Zone::new(&group, name, link, &["api", "*.apps"], true)?);
        }
        if let Some(domain) = &self.spec.base_domain {
            let (api, oauth) = (format!("api-{}", self.plane), format!("oauth-{}", self.plane));
            let link = format!("{}-basedomain-vnet-link", self.name);
            let records: &[&str] = if self.is_router() { &[&api, &oauth] } else { &[&oauth] };
            all.push(Zone::new(&group, domain.clone(), link, records, false)?);
        }
        Ok(all)
    }
}

/// A private zone, our link of it to the guest's network, and our records in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Zone {
    pub id: ResourceId,
    pub name: String,
    pub link: ResourceId,
    pub records: Vec<ResourceId>,
    /// Nobody else's: `<hcp>.hypershift.local`.
    pub own: bool,
}

impl Zone {
    fn new(
        group: &ResourceId,
        name: String,
        link: String,
        records: &[&str],
        own: bool,
    ) -> Result<Zone, Unreadable> {
        let field = if own { "metadata.ownerReferences" } else { "spec.baseDomain" };
        let zone = PrivateDnsZones::ROW.id(group, &name).map_err(id(field))?;
        Ok(Zone {
            link: PrivateDnsLinks::ROW.id(&zone, &link).map_err(id(field))?,
            records: records
                .iter()
                .map(|r| PrivateDnsA::ROW.id(&zone, r))
                .collect::<Result<_, _>>()
                .map_err(id(field))?,
            id: zone,
            name,
            own,
        })
    }

    /// Without the records that another link of the same cluster looks after.
    #[must_use]
    pub fn without(mut self, others: &[ResourceId]) -> Zone {
        self.records.retain(|r| !others.contains(r));
        self
    }
}

#[cfg(test)]
#[path = "link_tests.rs"]
pub(crate) mod tests;
