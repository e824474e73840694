//! The management cluster's network in Azure, and the load balancers that only it reaches.
//!
//! A cloud provider makes a load balancer for each Service that asks for an internal one; private links lead to it, and it
//! is found by its address. Here the address is one of the loopback range that the balancer really listens at
//! ([`crate::balancers`]), so the network of this cluster has that range, which Azure itself would not allow, and another
//! one with room for the subnets of private links.

use arm::ResourceId;
use azure::Client;
use azure::ops::{ArmType, LoadBalancers, ResourceGroups, Subnets, VirtualNetworks};
use parking_lot::Mutex;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::net::Ipv4Addr;

const GROUP: &str = "zaffre-management";
const NETWORK: &str = "zaffre-management";
/// Where [`crate::balancers`] draws addresses.
const BALANCERS: &str = "127.64.0.0/10";
const SPARE: &str = "10.224.0.0/16";
const LOCATION: &str = "westus2";

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("cannot write what {0} should be")]
    Body(&'static str, #[source] serde_json::Error),
    #[error("{what} cannot be named")]
    Id { what: &'static str, source: arm::IdError },
    #[error("cannot make {what}")]
    Make { what: &'static str, source: Box<azure::Error> },
}

/// See the module.
pub struct Intranet {
    client: Client,
    /// The group of the management cluster's own resources.
    pub group: ResourceId,
    pub network: ResourceId,
    subnet: ResourceId,
    made: Mutex<BTreeSet<Ipv4Addr>>,
}

async fn put<T: ArmType>(
    client: &Client,
    what: &'static str,
    id: &ResourceId,
    body: Value,
) -> Result<(), Error> {
    let body = serde_json::from_value(body).map_err(|e| Error::Body(what, e))?;
    let made = client.arm::<T>().put(id, &body).await;
    made.map(drop).map_err(|e| Error::Make { what, source: Box::new(e) })
}

impl Intranet {
    /// Makes the network, or takes the one that is there.
    pub async fn make(client: &Client, subscription: &str) -> Result<Intranet, Error> {
        let id = |what| move |source| Error::Id { what, source };
        let scope = ResourceId::subscription_scope(subscription).map_err(id("the subscription"))?;
        let group = ResourceGroups::ROW.id(&scope, GROUP).map_err(id("the group"))?;
        let network = VirtualNetworks::ROW.id(&group, NETWORK).map_err(id("the network"))?;
        let subnet = Subnets::ROW.id(&network, "balancers").map_err(id("the subnet"))?;
        let there = client.arm::<VirtualNetworks>().exists(&network).await;
        if !there.map_err(|e| Error::Make { what: "the network", source: Box::new(e) })? {
            put::<ResourceGroups>(client, "the group", &group, json!({"location": LOCATION})).await?;
            let body = json!({"location": LOCATION, "properties": {
                "addressSpace": {"addressPrefixes": [SPARE, BALANCERS]},
                "subnets": [{"name": "balancers", "properties": {"addressPrefix": BALANCERS}}]}});
            put::<VirtualNetworks>(client, "the network", &network, body).await?;
        }
        Ok(Intranet { client: client.clone(), group, network, subnet, made: Mutex::default() })
    }

    /// Addresses are unique, also among worlds that share an Azure; so are names that follow from them.
    fn balancer(&self, address: Ipv4Addr) -> Result<ResourceId, Error> {
        let name = format!("internal-{}", address.to_string().replace('.', "-"));
        LoadBalancers::ROW
            .id(&self.group, &name)
            .map_err(|source| Error::Id { what: "a load balancer", source })
    }

    /// Has a load balancer with this address.
    pub async fn balance(&self, address: Ipv4Addr, ports: &[u16]) -> Result<(), Error> {
        if self.made.lock().contains(&address) {
            return Ok(());
        }
        let id = self.balancer(address)?;
        let inner = |list: &str, name: &str| json!({"id": format!("{id}/{list}/{name}")});
        let rules = ports.iter().map(|p| {
            json!({"name": format!("tcp-{p}"), "properties": {
                "frontendIPConfiguration": inner("frontendIPConfigurations", "service"),
                "backendAddressPool": inner("backendAddressPools", "kubernetes"),
                "protocol": "Tcp", "frontendPort": p, "backendPort": p}})
        });
        let body = json!({"location": LOCATION, "sku": {"name": "Standard"}, "properties": {
            "frontendIPConfigurations": [{"name": "service", "properties": {
                "privateIPAddress": address.to_string(), "privateIPAllocationMethod": "Static",
                "subnet": {"id": self.subnet}}}],
            "backendAddressPools": [{"name": "kubernetes"}],
            "loadBalancingRules": rules.collect::<Vec<_>>()}});
        put::<LoadBalancers>(&self.client, "a load balancer", &id, body).await?;
        self.made.lock().insert(address);
        Ok(())
    }

    /// Has none. What still leads to it is in the way, as in Azure.
    pub async fn unbalance(&self, address: Ipv4Addr) -> Result<(), Error> {
        let gone = self.client.arm::<LoadBalancers>().delete(&self.balancer(address)?).await;
        gone.map_err(|e| Error::Make { what: "an end to a load balancer", source: Box::new(e) })?;
        self.made.lock().remove(&address);
        Ok(())
    }
}

impl std::fmt::Debug for Intranet {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Intranet").field("group", &self.group).finish_non_exhaustive()
    }
}
