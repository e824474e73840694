//! Looking: what is there already, with no more than one read per resource.

use crate::Error;
use crate::extras::Extra;
use crate::iam::{self, Iam};
use crate::infra::{self, Facts, Infra};
use crate::names::{Cluster, MadeBy};
use crate::roles::{self, CPO_ROLE, NODE_POOL_ROLE};
use arm::ResourceId;
use azure::ops::{
    DnsZones, ResourceGroups, RoleAssignments, RoleDefinitions, Subnets, UserAssignedIdentities,
};
use azure::plan::{Goal, Observed, observe};
use azure::{ArmType, Call, Client};
use futures::stream::{self, StreamExt, TryStreamExt};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// At most this many reads at once.
const PARALLEL: usize = 16;
/// How long a group may take to disappear.
const DELETING: u64 = 1200;

/// What is wanted beside what is there.
#[derive(Clone, Debug, Default)]
pub struct Survey {
    pub goal: Goal,
    pub observed: Observed,
    /// What is used and stays as it is, and why.
    pub kept: Vec<Kept>,
    /// Outside of Resource Manager.
    pub extras: Vec<Extra>,
}

impl Survey {
    pub fn new(goal: Goal, observed: Observed, kept: Vec<Kept>) -> Survey {
        Survey { goal, observed, kept, extras: Vec::new() }
    }
}

/// Something that is not touched.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Kept {
    pub id: ResourceId,
    pub why: String,
}

/// Tells that something is waited for.
pub type Tell<'a> = &'a (dyn Fn(&ResourceId, &str, Duration) + Sync);

pub(crate) fn read(what: impl Into<String>) -> impl FnOnce(azure::Error) -> Error {
    let what = what.into();
    move |e| Error::Read { what, source: Box::new(e) }
}

/// A group as it is; one that is on its way out is waited for.
pub async fn group(client: &Client, id: &ResourceId, tell: Tell<'_>) -> Result<Option<Value>, Error> {
    let version = ResourceGroups::ROW.api_version;
    let mut waited = Duration::ZERO;
    let pause = Duration::from_secs(5).min(client.poll_default());
    loop {
        let found = match client.send(Call::get(format!("{id}?api-version={version}"))).await {
            Ok(answer) => answer.json(),
            Err(e) if e.is_not_found() && e.has_code("ResourceGroupNotFound") => None,
            Err(e) => return Err(read(format!("group {id}"))(e)),
        };
        let leaving = found.as_ref().is_some_and(|g| g["properties"]["provisioningState"] == "Deleting");
        if !leaving {
            return Ok(found);
        }
        if waited.as_secs() > DELETING {
            return Err(Error::Deleting(id.clone(), DELETING));
        }
        tell(id, "the group is still being deleted by an earlier run", pause);
        client.timing().pause.pause(pause).await;
        waited += pause;
    }
}

async fn groups(client: &Client, ids: Vec<ResourceId>, tell: Tell<'_>) -> Result<Observed, Error> {
    let asked: Vec<_> = ids
        .into_iter()
        .map(|id| async move { group(client, &id, tell).await.map(|found| (id, found)) })
        .collect();
    let found: Vec<_> = stream::iter(asked).buffer_unordered(PARALLEL).try_collect().await?;
    Ok(found.into_iter().filter_map(|(id, g)| Some((id, g?))).collect())
}

fn group_of(id: &ResourceId) -> Option<ResourceId> {
    ResourceId::group_scope(id.subscription()?, id.group()?).ok()
}

/// Looks at what a goal wants, except groups (seen already), what is in groups that do not exist, and assignments.
pub(crate) async fn rest(
    client: &Client,
    goal: &Goal,
    absent: &BTreeSet<ResourceId>,
) -> Result<Observed, Error> {
    let asked = Goal {
        present: goal
            .present
            .iter()
            .filter(|d| {
                d.id.namespace().is_some_and(|n| n != "Microsoft.Authorization")
                    && group_of(&d.id).is_none_or(|g| !absent.contains(&g))
            })
            .cloned()
            .collect(),
        ..Goal::default()
    };
    observe(client, &asked, PARALLEL).await.map_err(Error::Look)
}

/// Resources with our names and without our mark are somebody else's.
pub(crate) fn clashes(cluster: &Cluster, by: MadeBy, goal: &Goal, observed: &Observed) -> Vec<ResourceId> {
    let marked = |d: &azure::plan::Desired| d.body.get("tags").is_some();
    let foreign = |id: &ResourceId| observed.get(id).is_some_and(|b| !cluster.marked(&b["tags"], by));
    goal.present.iter().filter(|d| marked(d) && foreign(&d.id)).map(|d| d.id.clone()).collect()
}

pub async fn iam(client: &Client, iam: &Iam, tell: Tell<'_>) -> Result<Survey, Error> {
    let id = iam.group_id()?;
    let found = group(client, &id, tell).await?;
    let own = found.as_ref().is_none_or(|g| iam.cluster.marked(&g["tags"], MadeBy::Iam));
    let goal = iam::wanted(iam, own)?;
    let mut observed = Observed::new();
    let mut absent = BTreeSet::new();
    match found {
        Some(g) => drop(observed.insert(id.clone(), g)),
        None => drop(absent.insert(id.clone())),
    }
    observed.extend(rest(client, &goal, &absent).await?);
    let clash = clashes(&iam.cluster, MadeBy::Iam, &goal, &observed);
    if !clash.is_empty() && !iam.adopt {
        return Err(Error::Clash(clash));
    }
    let why = "an existing group of yours".to_owned();
    let kept = if own { Vec::new() } else { vec![Kept { id, why }] };
    Ok(Survey::new(goal, observed, kept))
}

/// Object ids of the service principals. Identities of this subscription are found without Graph, which not everybody
/// may read.
async fn principals(client: &Client, infra: &Infra) -> Result<BTreeMap<String, String>, Error> {
    let Some(assign) = &infra.assign else { return Ok(BTreeMap::new()) };
    let wanted = roles::clients(&infra.identities, assign);
    let mut found = BTreeMap::new();
    let all = client.arm::<UserAssignedIdentities>().list_all(&infra.subscription).await;
    for identity in all.map_err(read("the identities of the subscription"))? {
        let Some(p) = identity.properties else { continue };
        if let (Some(c), Some(p)) = (p.client_id, p.principal_id)
            && let Some(w) = wanted.iter().find(|w| w.eq_ignore_ascii_case(&c))
        {
            found.insert(w.clone(), p);
        }
    }
    for client_id in wanted {
        if found.contains_key(&client_id) {
            continue;
        }
        let principal = client.graph().service_principal_of(&client_id).await;
        match principal.map_err(read(format!("the service principal of client id {client_id}")))? {
            Some(p) => drop(found.insert(client_id, p.id)),
            None => return Err(Error::NoPrincipal(client_id)),
        }
    }
    Ok(found)
}

/// The public zone, all pages read; the one in the named group if several have the name.
pub async fn zone(
    client: &Client,
    subscription: &ResourceId,
    domain: &str,
    group: Option<&str>,
) -> Result<ResourceId, Error> {
    let mut zones = client.arm::<DnsZones>().list(subscription);
    let mut first = None;
    while let Some(z) = zones.try_next().await.map_err(read("the DNS zones of the subscription"))? {
        let Some(id) = z.id.filter(|id| id.name().eq_ignore_ascii_case(domain)) else { continue };
        let preferred = group.is_none_or(|g| id.group().is_some_and(|of| of.eq_ignore_ascii_case(g)));
        if preferred {
            return Ok(id);
        }
        first.get_or_insert(id);
    }
    let missing = || Error::NoZone {
        domain: domain.to_owned(),
        subscription: subscription.subscription().unwrap_or_default().to_owned(),
    };
    first.ok_or_else(missing)
}

async fn node_pool_role(client: &Client, infra: &Infra) -> Result<Option<String>, Error> {
    if !infra.assign.as_ref().is_some_and(|a| a.custom) {
        return Ok(None);
    }
    // A role that does not exist would be noticed half-way.
    let cpo = RoleDefinitions::ROW.id(&infra.subscription, CPO_ROLE)?;
    let found = client.arm::<RoleDefinitions>().find(&cpo).await;
    found.map_err(read(format!("role {CPO_ROLE}")))?.ok_or(Error::NoRole(CPO_ROLE))?;
    let filter = format!("roleName eq '{NODE_POOL_ROLE}'");
    let mut found = client.arm::<RoleDefinitions>().list_with(&infra.subscription, &[("$filter", &filter)]);
    let first = found.try_next().await.map_err(read("the roles of the subscription"))?;
    let guid = first.and_then(|r| Some(r.id?.name().to_owned()));
    guid.map(Some).ok_or(Error::NoRole(NODE_POOL_ROLE))
}

/// Assignments at the scopes of a goal: one read per scope. Those that give what is wanted under another name are
/// taken for ours' twin: nothing is to be made.
pub(crate) async fn assignments(
    client: &Client,
    goal: &mut Goal,
    observed: &mut Observed,
    absent: &BTreeSet<ResourceId>,
    kept: &mut Vec<Kept>,
) -> Result<(), Error> {
    let is = |id: &ResourceId| id.resource_type().is(RoleAssignments::ROW.kind);
    let scopes: BTreeSet<ResourceId> = goal
        .present
        .iter()
        .filter(|d| is(&d.id))
        .filter_map(|d| d.id.extended())
        .filter(|s| !absent.contains(s))
        .collect();
    let asked: Vec<_> = scopes
        .into_iter()
        .map(|s| async move {
            let list = client.arm::<RoleAssignments>().list_with(&s, &[("$filter", "atScope()")]);
            list.try_collect::<Vec<_>>().await.map_err(read(format!("the role assignments at {s}")))
        })
        .collect();
    let all: Vec<Vec<_>> = stream::iter(asked).buffer_unordered(PARALLEL).try_collect().await?;
    let mut twins: BTreeMap<(ResourceId, String, String), ResourceId> = BTreeMap::new();
    for a in all.into_iter().flatten() {
        let Ok(body) = serde_json::to_value(&a) else { continue };
        let Some(id) = a.id else { continue };
        if let Some(key) = triple(&id, &body) {
            twins.insert(key, id.clone());
        }
        observed.insert(id, body);
    }
    goal.present.retain(|d| {
        let twin = is(&d.id).then(|| triple(&d.id, &d.body)).flatten().and_then(|k| twins.get(&k));
        match twin {
            Some(id) if *id != d.id => {
                let why = "gives the same role to the same identity already".to_owned();
                kept.push(Kept { id: id.clone(), why });
                false
            }
            _ => true,
        }
    });
    Ok(())
}

/// Scope, role and principal of an assignment.
fn triple(id: &ResourceId, body: &Value) -> Option<(ResourceId, String, String)> {
    let p = &body["properties"];
    let role = p["roleDefinitionId"].as_str()?.rsplit('/').next()?.to_lowercase();
    Some((id.extended()?, role, p["principalId"].as_str()?.to_lowercase()))
}

/// Somebody's own network must be there.
async fn given(client: &Client, infra: &Infra) -> Result<Vec<Kept>, Error> {
    let mut asked: Vec<(&'static str, &ResourceId)> = Vec::new();
    asked.extend(infra.vnet.iter().map(|id| ("--vnet-id", id)));
    asked.extend(infra.subnet.iter().map(|id| ("--subnet-id", id)));
    asked.extend(infra.security_group.iter().map(|id| ("--network-security-group-id", id)));
    asked.extend(infra.nat_subnet.iter().map(|id| ("--endpoint-access-private-nat-subnet-id", id)));
    let mut kept = Vec::new();
    for (flag, id) in asked {
        let version = Subnets::ROW.api_version;
        match client.send(Call::get(format!("{id}?api-version={version}"))).await {
            Ok(_) => kept.push(Kept { id: id.clone(), why: format!("yours ({flag})") }),
            Err(e) if e.is_not_found() => return Err(Error::NotThere { flag, id: id.clone() }),
            Err(e) => return Err(read(format!("{flag} {id}"))(e)),
        }
    }
    Ok(kept)
}

pub async fn infra(client: &Client, infra: &Infra, tell: Tell<'_>) -> Result<(Survey, Facts), Error> {
    let dns_group = infra.assign.as_ref().map(|a| a.dns_group.as_str());
    let own = infra.own_groups()?;
    let main = infra.layout()?.main;
    let mut ids = own.clone();
    if own.is_empty() {
        ids.push(main.clone());
    }
    let (zone, principals, role, mut kept, mut observed) = futures::try_join!(
        zone(client, &infra.subscription, &infra.base_domain, dns_group),
        principals(client, infra),
        node_pool_role(client, infra),
        given(client, infra),
        groups(client, ids, tell),
    )?;
    if own.is_empty() {
        if !observed.contains_key(&main) {
            return Err(Error::NoGroup(main.name().to_owned()));
        }
        kept.push(Kept { id: main, why: "yours (--resource-group-name)".to_owned() });
    }
    kept.push(Kept { id: zone.clone(), why: format!("the public zone of {}", infra.base_domain) });
    let facts = Facts { zone: Some(zone), principals, node_pool_role: role };
    let mut goal = infra::wanted(infra, &facts)?;
    let absent: BTreeSet<ResourceId> = own.into_iter().filter(|g| !observed.contains_key(g)).collect();
    observed.extend(rest(client, &goal, &absent).await?);
    assignments(client, &mut goal, &mut observed, &absent, &mut kept).await?;
    let clash = clashes(&infra.cluster, MadeBy::Infra, &goal, &observed);
    if !clash.is_empty() && !infra.adopt {
        return Err(Error::Clash(clash));
    }
    Ok((Survey::new(goal, observed, kept), facts))
}
