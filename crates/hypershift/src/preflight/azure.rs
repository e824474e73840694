//! The questions, asked of Azure Resource Manager and Graph.
//!
//! Everything is read; nothing is written. A refusal of our own rights (403) is no answer, so it counts as unknown:
//! whoever installs the operator without rights to look decides to go without the look, and the conditions say so.

use super::issuer::Issuers;
use super::{Asked, Key, Preflight, Verdict};
use crate::nodepool::capacity::{List, Sold};
use arm::ResourceId;
use arm::types::{Permission, RoleAssignment, Usage};
use azure::ops::{
    ResourceGroups, RoleAssignments, RoleDefinitions, SecurityGroups, Subnets, Vaults, VirtualNetworks,
};
use azure::{Client, Error};
use futures::future::BoxFuture;
use futures::{StreamExt, TryStreamExt};
use parking_lot::Mutex;
use std::collections::BTreeMap;

/// Where a right is needed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Group,
    Network,
    /// Roles at the network reach it too.
    Subnet,
    SecurityGroup,
    /// The zone of public names, where one is named.
    Zone,
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
        Place::Subnet,
        "Microsoft.Network/virtualNetworks/subnets/join/action",
    ),
    ("ingress", "ingress", Place::Group, "Microsoft.Network/privateDnsZones/A/write"),
    ("ingress", "ingress", Place::Subnet, "Microsoft.Network/virtualNetworks/subnets/join/action"),
    ("ingress", "ingress", Place::Zone, "Microsoft.Network/dnsZones/A/write"),
    ("cpo", "controlPlaneOperator", Place::Group, "Microsoft.Resources/subscriptions/resourceGroups/read"),
    ("cpo", "controlPlaneOperator", Place::Network, "Microsoft.Network/virtualNetworks/read"),
    ("cpo", "controlPlaneOperator", Place::SecurityGroup, "Microsoft.Network/networkSecurityGroups/read"),
    ("azure-disk", "disk", Place::Group, "Microsoft.Compute/disks/write"),
    ("azure-file", "file", Place::Group, "Microsoft.Storage/storageAccounts/write"),
    ("azure-file", "file", Place::Subnet, "Microsoft.Network/virtualNetworks/subnets/join/action"),
    ("cncc", "network", Place::Group, "Microsoft.Network/networkInterfaces/write"),
    ("cncc", "network", Place::Subnet, "Microsoft.Network/virtualNetworks/subnets/join/action"),
    ("ciro", "imageRegistry", Place::Group, "Microsoft.Storage/storageAccounts/write"),
    ("capz", "nodePoolManagement", Place::Group, "Microsoft.Compute/virtualMachines/write"),
    ("capz", "nodePoolManagement", Place::Subnet, "Microsoft.Network/virtualNetworks/subnets/join/action"),
];

/// Identities that nodes of the managed flavour use: they exist, or nothing of them works.
const DATA_PLANE: &[(&str, &str)] = &[
    ("azure-diskWI", "dataPlane.diskMSIClientID"),
    ("azure-fileWI", "dataPlane.fileMSIClientID"),
    ("ciroWI", "dataPlane.imageRegistryMSIClientID"),
];

/// What API servers do with a key, as roles and as access policies call it.
const WITH_KEY: [(&str, &str); 2] = [
    ("Microsoft.KeyVault/vaults/keys/encrypt/action", "encrypt"),
    ("Microsoft.KeyVault/vaults/keys/decrypt/action", "decrypt"),
];

/// How a component's identity is called in the spec.
fn field_of(component: &'static str) -> &'static str {
    let rows = NEEDED.iter().map(|(c, field, ..)| (*c, *field));
    rows.chain(DATA_PLANE.iter().copied()).find(|(c, _)| *c == component).map_or(component, |(_, f)| f)
}

/// More assignments than a scope can have.
const MOST: usize = 4000;

/// Asks with one account.
pub struct Arm {
    client: Client,
    issuers: Option<Issuers>,
}

/// What could not be found out.
struct Unknown {
    why: String,
    /// Because we may not look.
    refused: bool,
}

impl Unknown {
    fn id(e: arm::IdError) -> Unknown {
        Unknown { why: e.to_string(), refused: false }
    }
}

fn unknown(what: &str) -> impl Fn(Error) -> Unknown + '_ {
    move |e| Unknown {
        why: format!("{what}: {}", reconcile::chain(&e)),
        refused: matches!(e.status(), Some(401 | 403)),
    }
}

/// What roles permit, by the role.
type Roles = Mutex<BTreeMap<String, Vec<Permission>>>;

/// Where a cluster's identities work.
struct Scopes {
    group: ResourceId,
    vnet: ResourceId,
    subnet: ResourceId,
    nsg: ResourceId,
    zone: Option<ResourceId>,
}

impl Scopes {
    fn of(asked: &Asked) -> Result<Scopes, arm::IdError> {
        Ok(Scopes {
            group: ResourceId::group_scope(&asked.subscription, &asked.resource_group)?,
            vnet: ResourceId::parse(&asked.vnet)?,
            subnet: ResourceId::parse(&asked.subnet)?,
            nsg: ResourceId::parse(&asked.security_group)?,
            // Others have a mere name there; whose zone that is cannot be told.
            zone: asked.zone.as_deref().and_then(|z| ResourceId::parse(z).ok()),
        })
    }

    fn at(&self, place: Place) -> Option<&ResourceId> {
        match place {
            Place::Group => Some(&self.group),
            Place::Network => Some(&self.vnet),
            Place::Subnet => Some(&self.subnet),
            Place::SecurityGroup => Some(&self.nsg),
            Place::Zone => self.zone.as_ref(),
        }
    }
}

fn same(a: &str, b: &str) -> bool {
    let plain = |s: &str| s.replace(' ', "").to_lowercase();
    plain(a) == plain(b)
}

impl Arm {
    pub fn new(client: Client) -> Arm {
        Arm { client, issuers: None }
    }

    /// Reads what issuers of tokens publish too, as this environment reaches the internet.
    #[must_use]
    pub fn reading_issuers(mut self, env: &azure::Env) -> Arm {
        self.issuers = Issuers::new(env);
        self
    }

    /// Networks, then identities: rights at places that are not there cannot be asked for.
    async fn resources(&self, asked: &Asked) -> Verdict {
        let mut verdict = Verdict::default();
        if let Err(Unknown { why, .. }) = self.places(asked, &mut verdict).await {
            verdict.unknown.push(why);
            return verdict;
        }
        if verdict.places.is_empty()
            && let Err(Unknown { why, .. }) = self.identities(asked, &mut verdict).await
        {
            verdict.unknown.push(why);
        }
        verdict
    }

    async fn places(&self, asked: &Asked, verdict: &mut Verdict) -> Result<(), Unknown> {
        let field = |f: &str| format!("spec.platform.azure.{f}");
        let group =
            ResourceId::group_scope(&asked.subscription, &asked.resource_group).map_err(Unknown::id)?;
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
        let vnet = ResourceId::parse(&asked.vnet).map_err(Unknown::id)?;
        match self.client.arm::<VirtualNetworks>().find(&vnet).await.map_err(unknown("the network"))? {
            None => verdict.places.push(missing(&field("vnetID"), &asked.vnet, "virtual network")),
            Some(v) => {
                located(&field("vnetID"), v.location.as_deref(), asked, verdict);
                let subnet = ResourceId::parse(&asked.subnet).map_err(Unknown::id)?;
                let found =
                    self.client.arm::<Subnets>().find(&subnet).await.map_err(unknown("the subnet"))?;
                match found {
                    None => verdict.places.push(missing(&field("subnetID"), &asked.subnet, "subnet")),
                    Some(s) => {
                        let has = s.properties.and_then(|p| p.network_security_group).and_then(|g| g.id);
                        guarded(has.as_ref().map(ResourceId::as_str), asked, verdict);
                    }
                }
            }
        }
        let id = ResourceId::parse(&asked.security_group).map_err(Unknown::id)?;
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

    /// Roles of a principal that reach a scope, as what they permit. They are listed at `above`, which is that scope or
    /// one over it.
    async fn permitted(
        &self,
        principal: &str,
        above: &ResourceId,
        scope: &ResourceId,
        roles: &Roles,
    ) -> Result<Vec<Permission>, Unknown> {
        let filter = format!("principalId eq '{principal}'");
        let stream = self.client.arm::<RoleAssignments>().list_with(above, &[("$filter", &filter)]);
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
            let known = roles.lock().get(&role).cloned();
            let permissions = match known {
                Some(known) => known,
                None => {
                    let id = ResourceId::parse(&role).map_err(Unknown::id)?;
                    let definition = self.client.arm::<RoleDefinitions>().find(&id).await;
                    let definition = definition.map_err(unknown("a role"))?;
                    let found =
                        definition.and_then(|d| d.properties).and_then(|p| p.permissions).unwrap_or_default();
                    roles.lock().insert(role, found.clone());
                    found
                }
            };
            all.extend(permissions);
        }
        Ok(all)
    }

    /// What is wrong with the identity of one component.
    async fn identity(
        &self,
        asked: &Asked,
        scopes: &Scopes,
        roles: &Roles,
        component: &'static str,
        client_id: &str,
    ) -> Result<Vec<String>, Unknown> {
        let field = field_of(component);
        let Some(principal) = self.principal(client_id).await? else {
            return Ok(vec![nobody(field, client_id, asked)]);
        };
        let mut out = Vec::new();
        for (_, _, place, action) in NEEDED.iter().filter(|(c, ..)| *c == component) {
            let Some(scope) = scopes.at(*place) else { continue };
            let have = match self.permitted(&principal, scope, scope, roles).await {
                // Zones are often others': whoever may not look there goes without the look.
                Err(e) if e.refused && *place == Place::Zone => continue,
                have => have?,
            };
            if !allows(&have, action) {
                out.push(format!(
                    "the identity {field} (client id {client_id}) may not do {action} at {scope}: give it its role with `zaffre create infra azure … --assign-identity-roles`, or `az role assignment create --assignee {client_id} --role <role> --scope {scope}`"
                ));
            }
        }
        Ok(out)
    }

    /// Whether the key that data is encrypted with lets its user encrypt and decrypt. A vault that we cannot see is not judged.
    async fn key(&self, asked: &Asked, roles: &Roles, key: &Key) -> Result<Vec<String>, Unknown> {
        const FIELD: &str = "of spec.secretEncryption.kms.azure";
        let client_id = &key.client_id;
        let Some(principal) = self.principal(client_id).await? else {
            return Ok(vec![nobody(FIELD, client_id, asked)]);
        };
        let subscription = ResourceId::subscription_scope(&asked.subscription).map_err(Unknown::id)?;
        let all = self.client.arm::<Vaults>().list_all(&subscription).await;
        let all = all.map_err(unknown("the vaults"))?;
        let named =
            |name: &Option<String>| name.as_deref().is_some_and(|n| n.eq_ignore_ascii_case(&key.vault));
        let Some(vault) = all.into_iter().find(|v| named(&v.name)) else { return Ok(Vec::new()) };
        let (Some(at), Some(properties)) = (vault.id, vault.properties) else { return Ok(Vec::new()) };
        let lacks: Vec<&str> = if properties.enable_rbac_authorization == Some(true) {
            let scope = at.child("keys", &key.name).map_err(Unknown::id)?;
            let have = self.permitted(&principal, &at, &scope, roles).await?;
            WITH_KEY.iter().filter(|(action, _)| !allows_data(&have, action)).map(|(_, verb)| *verb).collect()
        } else {
            let policies = properties.access_policies.into_iter().flatten();
            let mine = policies.filter(|p| p.object_id.as_deref() == Some(principal.as_str()));
            let verbs: Vec<String> =
                mine.filter_map(|p| p.permissions?.keys).flatten().map(|v| v.to_lowercase()).collect();
            let has = |verb: &str| verbs.iter().any(|v| v == verb || v == "all");
            WITH_KEY.iter().map(|(_, verb)| *verb).filter(|verb| !has(verb)).collect()
        };
        if lacks.is_empty() {
            return Ok(Vec::new());
        }
        let fix = match properties.enable_rbac_authorization == Some(true) {
            true => format!(
                "az role assignment create --assignee {client_id} --role 'Key Vault Crypto User' --scope {at}"
            ),
            false => format!(
                "az keyvault set-policy --name {} --spn {client_id} --key-permissions encrypt decrypt",
                key.vault
            ),
        };
        Ok(vec![format!(
            "the identity {FIELD} (client id {client_id}) may not {} with key {} of vault {}, and API servers would not start: let it with `{fix}`",
            lacks.join(" and "),
            key.name,
            key.vault
        )])
    }

    /// All identities at once: each answer takes Azure a while.
    async fn identities(&self, asked: &Asked, verdict: &mut Verdict) -> Result<(), Unknown> {
        let scopes = Scopes::of(asked).map_err(Unknown::id)?;
        let roles = Roles::default();
        let each = asked.identities.iter().map(|(c, id)| self.identity(asked, &scopes, &roles, c, id));
        let key = async {
            match &asked.kms {
                Some(key) => match self.key(asked, &roles, key).await {
                    Err(e) if e.refused => Ok(Vec::new()),
                    found => found,
                },
                None => Ok(Vec::new()),
            }
        };
        let (each, key) = futures::join!(futures::future::join_all(each), key);
        for found in each.into_iter().chain([key]) {
            verdict.identities.extend(found?);
        }
        Ok(())
    }
}

fn nobody(field: &str, client_id: &str, asked: &Asked) -> String {
    format!(
        "the identity {field} has client id {client_id}, and tenant {} has no such principal: correct the id, or create it with `zaffre create iam azure`",
        asked.tenant
    )
}

/// Rules for load balancers are written into the named security group: traffic must pass it.
fn guarded(has: Option<&str>, asked: &Asked, verdict: &mut Verdict) {
    let (subnet, named) = (&asked.subnet, &asked.security_group);
    let attach = format!("az network vnet subnet update --ids {subnet} --network-security-group {named}");
    match has {
        Some(has) if has.eq_ignore_ascii_case(named) => {}
        Some(other) => verdict.places.push(format!(
            "spec.platform.azure.securityGroupID is {named}, and the subnet {subnet} has {other}: what is opened for load balancers would be opened where no traffic passes; name the subnet's own group, or give the subnet this one with `{attach}`"
        )),
        None => verdict.notes.push(format!(
            "the subnet {subnet} has no security group: load balancers of the cluster reach nodes only if their network interfaces have one; give the subnet the cluster's with `{attach}`"
        )),
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

/// The same for what lies inside of a resource.
fn allows_data(permissions: &[Permission], action: &str) -> bool {
    let any = |l: &Option<Vec<String>>| l.iter().flatten().any(|p| covers(p, action));
    permissions.iter().any(|p| any(&p.data_actions) && !any(&p.not_data_actions))
}

impl Preflight for Arm {
    fn ask<'a>(&'a self, asked: &'a Asked) -> BoxFuture<'a, Verdict> {
        Box::pin(async move {
            let mut read = Verdict::default();
            let issuer = async {
                if let (Some(issuers), Some(issuer)) = (&self.issuers, &asked.issuer) {
                    issuers.judge(issuer, &mut read).await;
                }
            };
            let (mut verdict, ()) = futures::join!(self.resources(asked), issuer);
            verdict.places.extend(read.places);
            verdict.unread = read.unread;
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
