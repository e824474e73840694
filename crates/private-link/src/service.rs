//! The management side: what a private link service is made of. Pure.

use crate::cidr;
use crate::link::{Link, TAG, Unreadable};
use crate::trouble::Trouble;
use apis::conditions::reason;
use arm::ResourceId;
use arm::types::{LoadBalancer, PrivateLinkService, Subnet, VirtualNetwork};
use azure::ops::{ArmType, Subnets};
use azure::plan::{Desired, Goal};
use serde_json::{Value, json};

/// Addresses of a NAT subnet: 16, of which Azure keeps five.
const NAT_BITS: u32 = 28;

/// A load balancer, by one of its frontends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Front {
    pub balancer: ResourceId,
    pub frontend: ResourceId,
    /// The network that it is in.
    pub network: ResourceId,
}

/// The frontend with this private address.
pub fn front(balancers: &[LoadBalancer], address: &str) -> Option<Front> {
    balancers.iter().find_map(|b| {
        let frontends = b.properties.as_ref()?.frontends.as_ref()?;
        let found = frontends
            .iter()
            .find(|f| f.properties.as_ref().and_then(|p| p.private_ip_address.as_deref()) == Some(address))?;
        let subnet = found.properties.as_ref()?.subnet.as_ref()?.id.clone()?;
        Some(Front { balancer: b.id.clone()?, frontend: found.id.clone()?, network: subnet.parent()? })
    })
}

/// No load balancer has the address.
pub fn no_front(link: &Link, group: &ResourceId, address: Option<&str>) -> Trouble {
    let at = format!("{}/{}", link.namespace, link.name);
    match address {
        None => Trouble::soon(
            reason::ILB_LOOKUP_FAILED,
            format!(
                "Service {at} has no address yet; the management cluster's cloud provider gives it: see `kubectl describe service -n {} {}`",
                link.namespace, link.name
            ),
        ),
        Some(ip) => Trouble::soon(
            reason::ILB_LOOKUP_FAILED,
            format!(
                "no load balancer in {group} has the frontend address {ip} of Service {at}: is this the group in which the management cluster's cloud provider makes load balancers (--azure-pls-resource-group; on AKS MC_…)?"
            ),
        ),
    }
}

/// Where addresses are translated: the subnet that is named, the one that was made before, or one that is to be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Nat {
    pub id: ResourceId,
    /// Of one of our own, the range.
    pub prefix: Option<String>,
}

fn ranges(subnet: &Subnet) -> Vec<&str> {
    let Some(p) = &subnet.properties else { return Vec::new() };
    let more = p.address_prefixes.iter().flatten().map(String::as_str);
    p.address_prefix.as_deref().into_iter().chain(more).collect()
}

/// Chooses it. `network` is that of the load balancer: Azure takes no other.
pub fn nat(link: &Link, front: &Front, network: &VirtualNetwork) -> Result<Nat, Trouble> {
    let failed = |why: String| Trouble::new(reason::NAT_SUBNET_CREATION_FAILED, why);
    if let Some(named) = &link.spec.nat_subnet_id {
        let id =
            ResourceId::parse(named).map_err(|e| failed(format!("natSubnetID {named:?} is no id: {e}")))?;
        if !front.network.contains(&id) {
            return Err(failed(format!(
                "natSubnetID {named} is not in the load balancer's network {}: name a subnet of that network, or none to have one made",
                front.network
            )));
        }
        return Ok(Nat { id, prefix: None });
    }
    let name = link.nat_subnet();
    let id = Subnets::ROW.id(&front.network, &name).map_err(|e| failed(e.to_string()))?;
    let p = network.properties.as_ref();
    let all: Vec<&Subnet> = p.and_then(|p| p.subnets.as_ref()).into_iter().flatten().collect();
    let same = all.iter().find(|s| s.name.as_deref().is_some_and(|n| n.eq_ignore_ascii_case(&name)));
    let before = same.and_then(|s| ranges(s).first().map(|r| (*r).to_owned()));
    let spaces = p.and_then(|p| p.address_space.as_ref()).and_then(|a| a.address_prefixes.as_ref());
    let spaces = spaces.into_iter().flatten().map(String::as_str);
    let found = before.or_else(|| cidr::free(spaces, all.iter().flat_map(|s| ranges(s)), NAT_BITS));
    let prefix = found.ok_or_else(|| {
        failed(format!(
            "network {} has no room for a subnet of /{NAT_BITS}: add an address range to it, or name a subnet of its own in platform.azure.private.privateLink.natSubnetID",
            front.network
        ))
    })?;
    Ok(Nat { id, prefix: Some(prefix) })
}

/// Subscriptions whose endpoints are let in: the guest's, and those that were added.
pub fn allowed(link: &Link) -> Vec<String> {
    let guest = ResourceId::parse(&link.spec.guest_subnet_id).ok();
    let guest = guest.as_ref().and_then(ResourceId::subscription).unwrap_or(&link.spec.subscription_id);
    let more = link.spec.additional_allowed_subscriptions.iter().flatten().map(|s| s.0.as_str());
    let mut all: Vec<String> = std::iter::once(guest).chain(more).map(str::to_owned).collect();
    all.sort_unstable();
    all.dedup_by(|a, b| a.eq_ignore_ascii_case(b));
    all
}

/// What should be.
pub fn goal(link: &Link, group: &ResourceId, front: &Front, nat: &Nat) -> Result<Goal, Unreadable> {
    let mut goal = Goal::default();
    if let Some(prefix) = &nat.prefix {
        goal = goal.present(Desired::new(
            nat.id.clone(),
            json!({"properties": {"addressPrefix": prefix, "privateLinkServiceNetworkPolicies": "Disabled"}}),
        ));
    }
    let subscriptions = allowed(link);
    let body = json!({
        "location": link.spec.location,
        "tags": {TAG: link.infra_id},
        "properties": {
            "loadBalancerFrontendIpConfigurations": [{"id": front.frontend}],
            "ipConfigurations": [{"name": "nat", "properties": {
                "primary": true, "privateIPAllocationMethod": "Dynamic", "privateIPAddressVersion": "IPv4",
                "subnet": {"id": nat.id}}}],
            "visibility": {"subscriptions": subscriptions},
            "autoApproval": {"subscriptions": subscriptions},
        },
    });
    Ok(goal.present(Desired::new(link.service(group)?, body)))
}

/// What was made, for the status.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Made {
    pub balancer: String,
    pub service: String,
    pub alias: String,
}

/// Reads it from what Azure has.
pub fn made(front: &Front, service: &Value) -> Option<Made> {
    let service: PrivateLinkService = serde_json::from_value(service.clone()).ok()?;
    Some(Made {
        balancer: front.balancer.to_string(),
        service: service.id?.to_string(),
        alias: service.properties?.alias?,
    })
}

#[cfg(test)]
#[path = "service_tests.rs"]
mod tests;
