//! `create infra azure`: groups, network, private DNS, the load balancer of the nodes' way out, and roles.

use crate::Error;
use crate::identities::Identities;
use crate::names::{Cluster, MadeBy};
use crate::roles::{self, Assign, Place};
use arm::ResourceId;
use azure::ArmType;
use azure::ops::{
    LoadBalancers, PrivateDnsLinks, PrivateDnsZones, PublicIpAddresses, ResourceGroups, RoleAssignments,
    SecurityGroups, Subnets, VirtualNetworks,
};
use azure::plan::{Desired, Goal};
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, BTreeSet};

/// The command's flags.
#[derive(Clone, Debug)]
pub struct Infra {
    pub cluster: Cluster,
    pub subscription: ResourceId,
    pub location: String,
    pub base_domain: String,
    /// Somebody's own group, for everything; `None` for three groups that are made.
    pub group: Option<String>,
    pub tags: BTreeMap<String, String>,
    pub vnet: Option<ResourceId>,
    pub subnet: Option<ResourceId>,
    pub security_group: Option<ResourceId>,
    pub identities: Identities,
    pub assign: Option<Assign>,
    /// Somebody's own subnet for the private link service of a private cluster, told on to whoever makes the cluster. It
    /// lies in the management cluster's network, as the load balancer before which the service stands; where none is
    /// named, the operator makes it there. One in the network that is made here would be refused by Azure.
    pub nat_subnet: Option<ResourceId>,
    pub adopt: bool,
}

/// What had to be looked up.
#[derive(Clone, Debug, Default)]
pub struct Facts {
    pub zone: Option<ResourceId>,
    /// Object id of the service principal of each client id.
    pub principals: BTreeMap<String, String>,
    /// GUID of [`roles::NODE_POOL_ROLE`].
    pub node_pool_role: Option<String>,
}

/// Where everything is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    pub main: ResourceId,
    pub security_group: ResourceId,
    pub vnet: ResourceId,
    pub subnet: ResourceId,
    pub nat_subnet: Option<ResourceId>,
    pub private_zone: ResourceId,
    pub link: ResourceId,
    pub public_ip: ResourceId,
    pub load_balancer: ResourceId,
}

fn kind(flag: &'static str, id: &ResourceId, kind: &'static str, example: &'static str) -> Result<(), Error> {
    match id.resource_type().is(kind) && id.group().is_some() {
        true => Ok(()),
        false => Err(Error::Id { flag, value: id.to_string(), kind, example }),
    }
}

const NET: &str = "/subscriptions/…/resourceGroups/…/providers/Microsoft.Network/virtualNetworks/NAME";
const SUBNET: &str =
    "/subscriptions/…/resourceGroups/…/providers/Microsoft.Network/virtualNetworks/…/subnets/NAME";
const NSG: &str = "/subscriptions/…/resourceGroups/…/providers/Microsoft.Network/networkSecurityGroups/NAME";

/// Labels of letters, digits and dashes.
fn is_domain(d: &str) -> bool {
    let label = |l: &str| {
        (1..=63).contains(&l.len())
            && l.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-')
            && !l.starts_with('-')
            && !l.ends_with('-')
    };
    d.len() <= 200 && d.contains('.') && d.split('.').all(label)
}

impl Infra {
    pub fn check(&self) -> Result<(), Error> {
        if !is_domain(&self.base_domain) {
            return Err(Error::Domain(self.base_domain.chars().take(100).collect()));
        }
        match (&self.vnet, &self.subnet) {
            (Some(_), None) => return Err(Error::SubnetMissing),
            (None, Some(_)) => return Err(Error::Needs { flag: "--subnet-id", needs: "--vnet-id" }),
            (Some(vnet), Some(subnet)) => {
                kind("--vnet-id", vnet, VirtualNetworks::ROW.kind, NET)?;
                kind("--subnet-id", subnet, Subnets::ROW.kind, SUBNET)?;
                if subnet.parent().as_ref() != Some(vnet) {
                    return Err(Error::SubnetElsewhere { subnet: subnet.clone(), vnet: vnet.clone() });
                }
            }
            (None, None) => {}
        }
        if let Some(nsg) = &self.security_group {
            kind("--network-security-group-id", nsg, SecurityGroups::ROW.kind, NSG)?;
        }
        if let Some(nat) = &self.nat_subnet {
            kind("--endpoint-access-private-nat-subnet-id", nat, Subnets::ROW.kind, SUBNET)?;
        }
        let mut tags = self.tags.clone();
        let own = self.cluster.tags(MadeBy::Infra);
        tags.extend(own.iter().map(|(k, v)| (k.clone(), v.as_str().unwrap_or_default().to_owned())));
        arm::Tags(tags).check().map_err(Error::Tags)?;
        self.layout().map(drop)
    }

    fn made_group(&self, word: Option<&str>) -> Result<ResourceId, Error> {
        let name = self.group.clone().unwrap_or_else(|| self.cluster.group(word));
        Ok(ResourceGroups::ROW.id(&self.subscription, &name)?)
    }

    pub fn layout(&self) -> Result<Layout, Error> {
        let c = &self.cluster;
        let main = self.made_group(None)?;
        let security_group = match &self.security_group {
            Some(id) => id.clone(),
            None => SecurityGroups::ROW
                .id(&self.made_group(Some("nsg"))?, &format!("{}-{}-nsg", c.name, c.infra_id))?,
        };
        let vnet = match &self.vnet {
            Some(id) => id.clone(),
            None => VirtualNetworks::ROW
                .id(&self.made_group(Some("vnet"))?, &format!("{}-{}", c.name, c.infra_id))?,
        };
        let subnet = match &self.subnet {
            Some(id) => id.clone(),
            None => Subnets::ROW.id(&vnet, "default")?,
        };
        let private_zone = PrivateDnsZones::ROW.id(&main, &format!("{}.{}", c.name, self.base_domain))?;
        let link = PrivateDnsLinks::ROW.id(&private_zone, &format!("{}-{}", c.name, c.infra_id))?;
        let public_ip = PublicIpAddresses::ROW.id(&main, &c.infra_id)?;
        let load_balancer = LoadBalancers::ROW.id(&main, &c.infra_id)?;
        Ok(Layout {
            main,
            security_group,
            vnet,
            subnet,
            nat_subnet: self.nat_subnet.clone(),
            private_zone,
            link,
            public_ip,
            load_balancer,
        })
    }

    /// Groups that are made, in the order in which they must go.
    pub fn own_groups(&self) -> Result<Vec<ResourceId>, Error> {
        if self.group.is_some() {
            return Ok(Vec::new());
        }
        let mut all = vec![self.made_group(None)?];
        if self.vnet.is_none() {
            all.push(self.made_group(Some("vnet"))?);
        }
        if self.security_group.is_none() {
            all.push(self.made_group(Some("nsg"))?);
        }
        Ok(all)
    }
}

/// What should be.
pub fn wanted(infra: &Infra, facts: &Facts) -> Result<Goal, Error> {
    let at = infra.layout()?;
    let tags = infra.cluster.tags(MadeBy::Infra);
    let place = &infra.location;
    let mut goal = Goal::default();
    for group in infra.own_groups()? {
        // The user's tags go on groups only, as they always did.
        let mut tags = tags.clone();
        tags.extend(infra.tags.iter().map(|(k, v)| (k.clone(), Value::from(v.as_str()))));
        goal = goal.present(Desired::new(group, json!({"location": place, "tags": tags})));
    }
    if infra.security_group.is_none() {
        goal =
            goal.present(Desired::new(at.security_group.clone(), json!({"location": place, "tags": tags})));
    }
    if infra.vnet.is_none() {
        goal = goal.present(Desired::new(at.vnet.clone(), network(infra, &at, &tags)));
    }
    let zone = json!({"location": "global", "tags": tags});
    let link = json!({"location": "global", "tags": tags, "properties": {
        "virtualNetwork": {"id": at.vnet}, "registrationEnabled": false}});
    let address = json!({"location": place, "tags": tags, "sku": {"name": "Standard"}, "properties": {
        "publicIPAllocationMethod": "Static", "publicIPAddressVersion": "IPv4", "idleTimeoutInMinutes": 4}});
    goal = goal
        .present(Desired::new(at.private_zone.clone(), zone))
        .present(Desired::new(at.link.clone(), link))
        .present(Desired::new(at.public_ip.clone(), address))
        .present(Desired::new(at.load_balancer.clone(), balancer(infra, &at, &tags)?));
    for assignment in assignments(infra, facts, &at)? {
        goal = goal.present(assignment);
    }
    Ok(goal)
}

fn network(infra: &Infra, at: &Layout, tags: &Map<String, Value>) -> Value {
    let subnets = [json!({"name": "default", "properties": {
        "addressPrefix": "10.0.0.0/24", "networkSecurityGroup": {"id": at.security_group}}})];
    json!({"location": infra.location, "tags": tags, "properties": {
        "addressSpace": {"addressPrefixes": ["10.0.0.0/16"]}, "subnets": subnets}})
}

/// The way out for nodes: one address, one rule.
fn balancer(infra: &Infra, at: &Layout, tags: &Map<String, Value>) -> Result<Value, Error> {
    let name = &infra.cluster.infra_id;
    let part = |kind: &str| at.load_balancer.child(kind, name);
    let (frontend, pool) = (part("frontendIPConfigurations")?, part("backendAddressPools")?);
    Ok(json!({"location": infra.location, "tags": tags, "sku": {"name": "Standard"}, "properties": {
        "frontendIPConfigurations": [{"name": name, "properties": {"publicIPAddress": {"id": at.public_ip}}}],
        "backendAddressPools": [{"name": name}],
        "probes": [{"name": name, "properties": {
            "protocol": "Http", "port": 30595, "requestPath": "/healthz", "intervalInSeconds": 5, "numberOfProbes": 2}}],
        "outboundRules": [{"name": name, "properties": {
            "protocol": "All", "allocatedOutboundPorts": 1024, "enableTcpReset": true, "idleTimeoutInMinutes": 4,
            "frontendIPConfigurations": [{"id": frontend}], "backendAddressPool": {"id": pool}}}],
    }}))
}

/// The scope of a role: a group.
fn scope(infra: &Infra, at: &Layout, assign: &Assign, place: Place) -> Result<ResourceId, Error> {
    let group_of = |id: &ResourceId| {
        let group = id.group().unwrap_or_default();
        ResourceId::group_scope(id.subscription().unwrap_or_default(), group)
    };
    Ok(match place {
        Place::Main => at.main.clone(),
        Place::SecurityGroup => group_of(&at.security_group)?,
        Place::Network => group_of(&at.vnet)?,
        Place::Dns => ResourceGroups::ROW.id(&infra.subscription, &assign.dns_group)?,
    })
}

fn assignments(infra: &Infra, facts: &Facts, at: &Layout) -> Result<Vec<Desired>, Error> {
    let Some(assign) = &infra.assign else { return Ok(Vec::new()) };
    let mut out = Vec::new();
    let mut seen = BTreeSet::new();
    for grant in roles::grants(&infra.identities, assign, facts.node_pool_role.as_deref()) {
        let scope = scope(infra, at, assign, grant.place)?;
        let principal = facts
            .principals
            .get(&grant.client_id)
            .ok_or_else(|| Error::NoPrincipal(grant.client_id.clone()))?;
        // One identity may be two components, and two places one group; a role is given once.
        if !seen.insert((scope.key().clone(), grant.role.to_lowercase(), principal.clone())) {
            continue;
        }
        let name = infra.cluster.assignment(grant.component, &scope);
        out.push(Desired::new(
            RoleAssignments::ROW.id(&scope, &name)?,
            json!({"properties": {
                "roleDefinitionId": roles::definition(&infra.subscription, &grant.role),
                // Without the type, a principal made a moment ago may not be found.
                "principalId": principal, "principalType": "ServicePrincipal",
            }}),
        ));
    }
    Ok(out)
}
