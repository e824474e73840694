//! The questions, asked of Azure Resource Manager and Graph.
//!
//! Everything is read; nothing is written. A refusal of our own rights (403) is no answer, so it counts as unknown:
//! whoever installs the operator without rights to look decides to go without the look, and the conditions say so.

use super::{Asked, Preflight, Verdict};
use crate::nodepool::capacity::{List, Sold};
use arm::ResourceId;
use arm::types::{Permission, RoleAssignment, Usage};
use azure::ops::{
    ResourceGroups, RoleAssignments, RoleDefinitions, SecurityGroups, Subnets, VirtualNetworks,
};
use azure::{Client, Error};
use futures::future::BoxFuture;
use futures::{StreamExt, TryStreamExt};
use std::collections::BTreeMap;

/// Where a right is needed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Group,
    Network,
    SecurityGroup,
}

/// What each component will do first, where. Not all that it may ever do: what shows that its role is there.
const NEEDED: &[(&str, &str, Place, &str)] = &[
    ("cloud-provider", "cloudProvider", Place::Group, "Microsoft.Network/loadBalancers/write"),
    (
        "cloud-provider",
        "cloudProvider",
        Place::SecurityGroup,
        "Microsoft.Network/networkSecurityGroups/write",
    ),
    (
        "cloud-provider",
        "cloudProvider",
        Place::Network,
        "Microsoft.Network/virtualNetworks/subnets/join/action",
    ),
    ("ingress", "ingress", Place::Group, "Microsoft.Network/privateDnsZones/A/write"),
    ("azure-disk", "disk", Place::Group, "Microsoft.Compute/disks/write"),
    ("azure-file", "file", Place::Group, "Microsoft.Storage/storageAccounts/write"),
    ("azure-file", "file", Place::Network, "Microsoft.Network/virtualNetworks/subnets/join/action"),
    ("cncc", "network", Place::Group, "Microsoft.Network/networkInterfaces/write"),
    ("cncc", "network", Place::Network, "Microsoft.Network/virtualNetworks/subnets/join/action"),
    ("ciro", "imageRegistry", Place::Group, "Microsoft.Storage/storageAccounts/write"),
    ("capz", "nodePoolManagement", Place::Group, "Microsoft.Compute/virtualMachines/write"),
    ("capz", "nodePoolManagement", Place::Network, "Microsoft.Network/virtualNetworks/subnets/join/action"),
];

/// More assignments than a scope can have.
const MOST: usize = 4000;

/// Asks with one account.
pub struct Arm {
    client: Client,
}

/// What could not be found out.
struct Unknown(String);

fn unknown(what: &str) -> impl Fn(Error) -> Unknown + '_ {
    move |e| Unknown(format!("{what}: {}", reconcile::chain(&e)))
}

fn same(a: &str, b: &str) -> bool {
    let plain = |s: &str| s.replace(' ', "").to_lowercase();
    plain(a) == plain(b)
}

impl Arm {
    pub fn new(client: Client) -> Arm {
        Arm { client }
    }

    async fn places(&self, asked: &Asked, verdict: &mut Verdict) -> Result<(), Unknown> {
        let field = |f: &str| format!("spec.platform.azure.{f}");
        let bad = |e: arm::IdError| Unknown(e.to_string());
        let group = ResourceId::group_scope(&asked.subscription, &asked.resource_group).map_err(bad)?;
        match self.client.arm::<ResourceGroups>().find(&group).await.map_err(unknown("the resource group"))? {
            None => verdict.places.push(format!(
                "{} {} does not exist in subscription {}: create it with `az group create -n {} -l {} --subscription {}`",
                field("resourceGroup"),
                asked.resource_group,
                asked.subscription,
                asked.resource_group,
                asked.location,
                asked.subscription
            )),
            Some(g) => located(&field("resourceGroup"), g.location.as_deref(), asked, verdict),
        }
        let vnet = ResourceId::parse(&asked.vnet).map_err(bad)?;
        match self.client.arm::<VirtualNetworks>().find(&vnet).await.map_err(unknown("the network"))? {
            None => verdict.places.push(missing(&field("vnetID"), &asked.vnet, "virtual network")),
            Some(v) => {
                located(&field("vnetID"), v.location.as_deref(), asked, verdict);
                let subnet = ResourceId::parse(&asked.subnet).map_err(bad)?;
                let found =
                    self.client.arm::<Subnets>().find(&subnet).await.map_err(unknown("the subnet"))?;
                if found.is_none() {
                    verdict.places.push(missing(&field("subnetID"), &asked.subnet, "subnet"));
                }
            }
        }
        let id = ResourceId::parse(&asked.security_group).map_err(bad)?;
        match self.client.arm::<SecurityGroups>().find(&id).await.map_err(unknown("the security group"))? {
            None => {
                verdict.places.push(missing(
                    &field("securityGroupID"),
                    &asked.security_group,
                    "security group",
                ));
            }
            Some(g) => located(&field("securityGroupID"), g.location.as_deref(), asked, verdict),
        }
        Ok(())
    }

    /// The principal behind a client id; nothing if there is none.
    async fn principal(&self, client_id: &str) -> Result<Option<String>, Unknown> {
        let found = self.client.graph().service_principal_of(client_id).await;
        Ok(found.map_err(unknown("the directory"))?.map(|p| p.id))
    }

    /// Roles of a principal that reach a scope, as what they permit.
    async fn permitted(
        &self,
        principal: &str,
        scope: &ResourceId,
        roles: &mut BTreeMap<String, Vec<Permission>>,
    ) -> Result<Vec<Permission>, Unknown> {
        let filter = format!("principalId eq '{principal}'");
        let stream = self.client.arm::<RoleAssignments>().list_with(scope, &[("$filter", &filter)]);
        let mut stream = stream.take(MOST);
        let mut all = Vec::new();
        while let Some(next) = stream.next().await {
            let assignment: RoleAssignment = next.map_err(unknown("role assignments"))?;
            let Some(properties) = assignment.properties else { continue };
            // Those below the scope are listed too, and do not reach it.
            let at = properties.scope.as_deref().and_then(|s| ResourceId::parse(s).ok());
            if at.is_some_and(|at| !at.contains(scope)) {
                continue;
            }
            let Some(role) = properties.role_definition_id else { continue };
            let role = role.to_string();
            if !roles.contains_key(&role) {
                let id = ResourceId::parse(&role).map_err(|e| Unknown(e.to_string()))?;
                let definition = self.client.arm::<RoleDefinitions>().find(&id).await;
                let definition = definition.map_err(unknown("a role"))?;
                let permissions =
                    definition.and_then(|d| d.properties).and_then(|p| p.permissions).unwrap_or_default();
                roles.insert(role.clone(), permissions);
            }
            all.extend(roles.get(&role).into_iter().flatten().cloned());
        }
        Ok(all)
    }

    async fn identities(&self, asked: &Asked, verdict: &mut Verdict) -> Result<(), Unknown> {
        let bad = |e: arm::IdError| Unknown(e.to_string());
        let group = ResourceId::group_scope(&asked.subscription, &asked.resource_group).map_err(bad)?;
        let vnet = ResourceId::parse(&asked.vnet).map_err(bad)?;
        let nsg = ResourceId::parse(&asked.security_group).map_err(bad)?;
        let mut roles = BTreeMap::new();
        for (component, client_id) in &asked.identities {
            let rows: Vec<_> = NEEDED.iter().filter(|(c, ..)| c == component).collect();
            let Some(principal) = self.principal(client_id).await? else {
                let field = rows.first().map_or(*component, |(_, field, ..)| field);
                verdict.identities.push(format!(
                    "the identity {field} has client id {client_id}, and tenant {} has no such principal: correct the id, or create it with `zaffre create iam azure`",
                    asked.tenant
                ));
                continue;
            };
            for (_, field, place, action) in rows {
                let scope = match place {
                    Place::Group => &group,
                    Place::Network => &vnet,
                    Place::SecurityGroup => &nsg,
                };
                let have = self.permitted(&principal, scope, &mut roles).await?;
                if !allows(&have, action) {
                    verdict.identities.push(format!(
                        "the identity {field} (client id {client_id}) may not do {action} at {scope}: give it its role with `zaffre create infra azure … --assign-identity-roles`, or `az role assignment create --assignee {client_id} --role <role> --scope {scope}`"
                    ));
                }
            }
        }
        Ok(())
    }
}

fn missing(field: &str, id: &str, kind: &str) -> String {
    format!(
        "{field} {id} does not exist: create the {kind}, or correct the id (`az resource show --ids {id}`)"
    )
}

fn located(field: &str, location: Option<&str>, asked: &Asked, verdict: &mut Verdict) {
    let Some(location) = location.filter(|l| !same(l, &asked.location)) else { return };
    verdict.places.push(format!(
        "{field} is in {location}, and spec.platform.azure.location is {}: use one in the cluster's own location",
        asked.location
    ));
}

/// Whether a pattern of a role covers an action: `*` is any run of characters, case does not matter.
fn covers(pattern: &str, action: &str) -> bool {
    let (pattern, action) = (pattern.to_lowercase(), action.to_lowercase());
    let mut parts = pattern.split('*');
    let Some(mut rest) = action.strip_prefix(parts.next().unwrap_or_default()) else { return false };
    let mut parts: Vec<&str> = parts.collect();
    let Some(last) = parts.pop() else { return rest.is_empty() };
    for p in parts {
        let Some(at) = rest.find(p) else { return false };
        rest = &rest[at + p.len()..];
    }
    rest.len() >= last.len() && rest.ends_with(last)
}

fn allows(permissions: &[Permission], action: &str) -> bool {
    let any = |l: &Option<Vec<String>>| l.iter().flatten().any(|p| covers(p, action));
    permissions.iter().any(|p| any(&p.actions) && !any(&p.not_actions))
}

impl Preflight for Arm {
    fn ask<'a>(&'a self, asked: &'a Asked) -> BoxFuture<'a, Verdict> {
        Box::pin(async move {
            let mut verdict = Verdict::default();
            if let Err(Unknown(why)) = self.places(asked, &mut verdict).await {
                verdict.unknown.push(why);
                return verdict;
            }
            // Rights at places that are not there cannot be asked for.
            if verdict.places.is_empty()
                && let Err(Unknown(why)) = self.identities(asked, &mut verdict).await
            {
                verdict.unknown.push(why);
            }
            verdict
        })
    }

    fn group_gone<'a>(&'a self, asked: &'a Asked) -> BoxFuture<'a, bool> {
        Box::pin(async move {
            let Ok(group) = ResourceId::group_scope(&asked.subscription, &asked.resource_group) else {
                return false;
            };
            matches!(self.client.arm::<ResourceGroups>().find(&group).await, Ok(None))
        })
    }

    fn sizes<'a>(&'a self, subscription: &'a str, location: &'a str) -> BoxFuture<'a, Result<List, String>> {
        Box::pin(async move {
            let mut all = self.client.compute_skus(subscription, location);
            let mut list = List::new();
            while let Some(sku) = all.next().await {
                let sku = sku.map_err(|e| format!("the sizes of {location}: {}", reconcile::chain(&e)))?;
                list.extend(Sold::of(&sku, location));
            }
            Ok(list)
        })
    }

    fn usages<'a>(
        &'a self,
        subscription: &'a str,
        location: &'a str,
    ) -> BoxFuture<'a, Result<Vec<Usage>, String>> {
        Box::pin(async move {
            let all: Result<Vec<Usage>, Error> =
                self.client.compute_usages(subscription, location).try_collect().await;
            all.map_err(|e| format!("the quotas of {location}: {}", reconcile::chain(&e)))
        })
    }
}
