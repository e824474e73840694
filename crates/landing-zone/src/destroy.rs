//! The way back: finding what is ours by its mark or its name, from nothing but the cluster's name and infra id.

use crate::Error;
use crate::managed::{self, Gone};
use crate::names::{Cluster, MadeBy, TAG_BY, TAG_INFRA, tag};
use crate::roles;
use crate::run::{Options, Outcome, Progress, Watch, converge};
use crate::survey::{Kept, Survey, read};
use arm::ResourceId;
use azure::ops::{
    PrivateDnsLinks, PrivateDnsZones, ResourceGroups, RoleAssignments, SecurityGroups,
    UserAssignedIdentities, Vaults, VirtualNetworks,
};
use azure::plan::{Goal, Observed, observe};
use azure::{ArmType, Client};
use futures::TryStreamExt;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// The command's flags.
#[derive(Clone, Debug)]
pub struct Destroy {
    pub cluster: Cluster,
    pub subscription: ResourceId,
    /// Whose things.
    pub by: MadeBy,
    /// Somebody's own group in which the cluster lives.
    pub group: Option<String>,
    /// Keep the main group though it was made.
    pub preserve: bool,
}

/// Something found, as far as lists show it.
#[derive(Clone, Debug)]
struct Found {
    id: ResourceId,
    tags: Value,
}

fn value(v: &impl serde::Serialize) -> Value {
    serde_json::to_value(v).unwrap_or_default()
}

impl Destroy {
    fn filter(&self) -> String {
        format!("tagName eq '{TAG_INFRA}' and tagValue eq '{}'", self.cluster.infra_id)
    }

    fn ours(&self, found: &Found) -> bool {
        self.cluster.marked(&found.tags, self.by)
    }

    fn main(&self) -> Result<ResourceId, Error> {
        let name = self.group.clone().unwrap_or_else(|| self.cluster.group(None));
        Ok(ResourceGroups::ROW.id(&self.subscription, &name)?)
    }

    async fn groups(&self, client: &Client) -> Result<Vec<Found>, Error> {
        let all: Vec<_> = client
            .arm::<ResourceGroups>()
            .list_with(&self.subscription, &[("$filter", &self.filter())])
            .try_collect()
            .await
            .map_err(read("the groups of the subscription"))?;
        Ok(all.into_iter().filter_map(|g| Some(Found { tags: value(&g.tags), id: g.id? })).collect())
    }

    async fn resources(
        &self,
        client: &Client,
        at: &ResourceId,
        filter: Option<&str>,
    ) -> Result<Vec<Found>, Error> {
        let all: Vec<_> = client
            .resources(at, filter)
            .try_collect()
            .await
            .map_err(read(format!("the resources of {at}")))?;
        Ok(all.into_iter().filter_map(|r| Some(Found { tags: value(&r.tags), id: r.id? })).collect())
    }

    /// Assignments with names that we give, at any scope; and others of these principals.
    async fn assignments(
        &self,
        client: &Client,
        principals: &BTreeMap<String, String>,
    ) -> Result<(Vec<ResourceId>, Vec<Kept>), Error> {
        let mut all = client.arm::<RoleAssignments>().list(&self.subscription);
        let (mut ours, mut others) = (Vec::new(), Vec::new());
        while let Some(a) = all.try_next().await.map_err(read("the role assignments of the subscription"))? {
            let Some(id) = a.id else { continue };
            let Some(scope) = id.extended() else { continue };
            let named = |c| self.cluster.assignment(c, &scope).eq_ignore_ascii_case(id.name());
            let p = a.properties.unwrap_or_default();
            if roles::components().any(named) {
                ours.push(id);
            } else if let Some(of) = principals.get(&p.principal_id.unwrap_or_default().to_lowercase()) {
                let why = format!(
                    "somebody else gave this role to {}; it will point to nobody: az role assignment delete --ids {id}",
                    of
                );
                others.push(Kept { id, why });
            }
        }
        Ok((ours, others))
    }

    /// What the cluster made in a group that stays: things named after its infra id.
    fn cluster_made(&self, found: &Found) -> bool {
        let name = found.id.name().to_lowercase();
        let named = has_word(&name, &self.cluster.infra_id)
            || name.starts_with(&format!("{}-azurecluster.", self.cluster.name));
        named && tag(&found.tags, TAG_BY).is_none()
    }
}

/// Whether a name has a word in it that ends where it does: `a-prod` and `prod_1` have `prod`, `product` does not.
fn has_word(name: &str, word: &str) -> bool {
    let edge = |c: Option<char>| c.is_none_or(|c| !c.is_ascii_alphanumeric());
    name.match_indices(word)
        .any(|(at, _)| edge(name[..at].chars().next_back()) && edge(name[at + word.len()..].chars().next()))
}

/// Deletes a group, and forgets what is inside of it.
fn delete_group(goal: &mut Goal, id: &ResourceId) {
    goal.absent.retain(|(a, _)| !id.contains(a));
    goal.absent.push((id.clone(), None));
}

fn covered(goal: &Goal, id: &ResourceId) -> bool {
    goal.absent.iter().any(|(a, _)| a.contains(id))
}

/// The newest version in which a provider knows a type.
async fn version_of(client: &Client, id: &ResourceId) -> Result<Option<arm::ApiVersion>, Error> {
    if azure::ops::TYPES.iter().any(|r| id.resource_type().is(r.kind)) {
        return Ok(None);
    }
    let (sub, ns) = (id.subscription().unwrap_or_default(), id.namespace().unwrap_or_default());
    let provider = client.provider(sub, ns).await.map_err(read(format!("provider {ns}")))?;
    let kind = id.resource_type();
    let word = kind.as_str().split_once('/').map_or("", |(_, w)| w);
    let types = provider.resource_types.unwrap_or_default();
    let row =
        types.into_iter().find(|t| t.resource_type.as_deref().is_some_and(|t| t.eq_ignore_ascii_case(word)));
    Ok(row.and_then(|t| t.api_versions?.iter().find_map(|v| v.parse().ok())))
}

async fn infra(client: &Client, d: &Destroy, goal: &mut Goal, kept: &mut Vec<Kept>) -> Result<(), Error> {
    let filter = d.filter();
    let (groups, mut resources) =
        futures::try_join!(d.groups(client), d.resources(client, &d.subscription, Some(&filter)))?;
    let main = d.main()?;
    let names = [None, Some("vnet"), Some("nsg")];
    let names = names.map(|w| ResourceGroups::ROW.id(&d.subscription, &d.cluster.group(w)));
    for g in &groups {
        if !d.ours(g) {
            continue;
        }
        if d.preserve && g.id == main {
            kept.push(Kept { id: g.id.clone(), why: "--preserve-resource-group".to_owned() });
        } else {
            goal.absent.push((g.id.clone(), None));
        }
    }
    let names: Vec<ResourceId> = names.into_iter().collect::<Result<_, _>>()?;
    let mut unmarked = names.clone();
    unmarked.push(main.clone());
    unmarked.sort();
    unmarked.dedup();
    for id in unmarked.iter().filter(|id| !groups.iter().any(|g| g.id == **id && d.ours(g))) {
        if client.arm::<ResourceGroups>().find(id).await.map_err(read(format!("group {id}")))?.is_some() {
            let why = if d.group.is_some() && *id == main {
                "yours; what was made in it is deleted".to_owned()
            } else {
                format!("has our name but not our mark (tag {TAG_INFRA}): az group delete -n {}", id.name())
            };
            kept.push(Kept { id: id.clone(), why });
        }
    }
    if !covered(goal, &main) && kept.iter().any(|k| k.id == main) && (d.preserve || d.group.is_some()) {
        for found in d.resources(client, &main, None).await? {
            if d.cluster_made(&found) && !resources.iter().any(|r| r.id == found.id) {
                goal.absent.push((found.id.clone(), version_of(client, &found.id).await?));
            }
        }
    }
    // The link in the main group holds the network, a subnet holds the security group. Where nothing else does, these
    // few go first and then the groups at once; otherwise one group after the other.
    let inside = if covered(goal, &main) { d.resources(client, &main, None).await? } else { Vec::new() };
    let mut zones: Vec<ResourceId> = Vec::new();
    if inside.iter().all(|r| d.ours(r)) {
        let is = |r: &Found, kind: &str| d.ours(r) && r.id.resource_type().is(kind);
        let holds = |r: &&Found| is(r, VirtualNetworks::ROW.kind) || is(r, SecurityGroups::ROW.kind);
        goal.absent.extend(resources.iter().filter(holds).map(|r| (r.id.clone(), None)));
        zones.extend(inside.iter().filter(|r| is(r, PrivateDnsZones::ROW.kind)).map(|r| r.id.clone()));
    } else {
        goal.deletes.extend(names.windows(2).map(|w| (w[0].clone(), w[1].clone())));
    }
    resources.retain(|r| !covered(goal, &r.id));
    for r in resources {
        if d.ours(&r) {
            goal.absent.push((r.id, None));
        } else {
            let by = tag(&r.tags, TAG_BY).unwrap_or("another command");
            kept.push(Kept {
                id: r.id,
                why: format!("made by create {by} azure: zaffre destroy {by} azure"),
            });
        }
    }
    // Links are not always listed as resources, and their zone cannot go before them.
    let is_zone = |id: &&ResourceId| id.resource_type().is(PrivateDnsZones::ROW.kind);
    zones.extend(goal.absent.iter().map(|(id, _)| id).filter(is_zone).cloned());
    for zone in zones {
        let links = client.arm::<PrivateDnsLinks>().list_all(&zone).await;
        for link in links.map_err(read(format!("the links of {zone}")))?.into_iter().filter_map(|l| l.id) {
            if !goal.absent.iter().any(|(id, _)| *id == link) {
                goal.absent.push((link, None));
            }
        }
    }
    Ok(())
}

/// Returns the identities' principals.
async fn iam(
    client: &Client,
    d: &Destroy,
    goal: &mut Goal,
    kept: &mut Vec<Kept>,
) -> Result<BTreeMap<String, String>, Error> {
    let identities = async {
        let all = client.arm::<UserAssignedIdentities>().list_all(&d.subscription).await;
        all.map_err(read("the identities of the subscription"))
    };
    let (groups, identities) = futures::try_join!(d.groups(client), identities)?;
    let mut principals = BTreeMap::new();
    let mut ours = BTreeSet::new();
    for i in identities {
        let found = match i.id {
            Some(id) => Found { id, tags: value(&i.tags) },
            None => continue,
        };
        let suffix = format!("-{}", d.cluster.infra_id);
        let named = found.id.name().starts_with(&d.cluster.name) && found.id.name().ends_with(&suffix);
        if d.ours(&found) {
            if let Some(p) = i.properties.and_then(|p| p.principal_id) {
                principals.insert(p.to_lowercase(), found.id.name().to_owned());
            }
            ours.insert(found.id.clone());
            goal.absent.push((found.id, None));
        } else if named {
            let why = format!(
                "has our name but not our mark (tag {TAG_INFRA}): az identity delete --ids {}",
                found.id
            );
            kept.push(Kept { id: found.id, why });
        }
    }
    for g in groups.iter().filter(|g| d.ours(g)) {
        let inside = d.resources(client, &g.id, None).await?;
        let others = inside.iter().filter(|r| !ours.contains(&r.id)).count();
        if others == 0 {
            delete_group(goal, &g.id);
        } else {
            kept.push(Kept { id: g.id.clone(), why: format!("{others} resource(s) of others are in it") });
        }
    }
    if let Some(name) = &d.group {
        let id = ResourceGroups::ROW.id(&d.subscription, name)?;
        let ours = groups.iter().any(|g| g.id == id && d.ours(g));
        if !ours
            && client.arm::<ResourceGroups>().find(&id).await.map_err(read(format!("group {id}")))?.is_some()
        {
            kept.push(Kept { id, why: "yours (--resource-group-name)".to_owned() });
        }
    }
    Ok(principals)
}

/// What carries the mark, and groups of ours in which there is nothing else. Returns the identities' principals.
async fn marked(
    client: &Client,
    d: &Destroy,
    goal: &mut Goal,
    kept: &mut Vec<Kept>,
) -> Result<BTreeMap<String, String>, Error> {
    let filter = d.filter();
    let (groups, resources) =
        futures::try_join!(d.groups(client), d.resources(client, &d.subscription, Some(&filter)))?;
    let ours: Vec<ResourceId> = resources.into_iter().filter(|r| d.ours(r)).map(|r| r.id).collect();
    let mut principals = BTreeMap::new();
    for id in ours.iter().filter(|id| id.resource_type().is(UserAssignedIdentities::ROW.kind)) {
        let found = client.arm::<UserAssignedIdentities>().find(id).await;
        let found = found.map_err(read(format!("identity {id}")))?;
        if let Some(p) = found.and_then(|i| i.properties?.principal_id) {
            principals.insert(p.to_lowercase(), id.name().to_owned());
        }
    }
    goal.absent.extend(ours.iter().map(|id| (id.clone(), None)));
    for g in groups.iter().filter(|g| d.ours(g)) {
        let inside = d.resources(client, &g.id, None).await?;
        match inside.iter().filter(|r| !ours.contains(&r.id)).count() {
            0 => delete_group(goal, &g.id),
            others => {
                kept.push(Kept {
                    id: g.id.clone(),
                    why: format!("{others} resource(s) of others are in it"),
                });
            }
        }
    }
    Ok(principals)
}

/// What would go, and what stays.
pub async fn survey(client: &Client, d: &Destroy) -> Result<Survey, Error> {
    Ok(look(client, d).await?.0)
}

async fn look(client: &Client, d: &Destroy) -> Result<(Survey, Option<Gone>), Error> {
    let (mut goal, mut kept) = (Goal::default(), Vec::new());
    let mut principals = match d.by {
        MadeBy::Infra => {
            infra(client, d, &mut goal, &mut kept).await?;
            BTreeMap::new()
        }
        MadeBy::Iam => iam(client, d, &mut goal, &mut kept).await?,
        MadeBy::OidcIssuer | MadeBy::ManagedIdentities => marked(client, d, &mut goal, &mut kept).await?,
    };
    let gone = match d.by {
        MadeBy::ManagedIdentities => Some(managed::gone(client, &d.cluster, &d.subscription).await?),
        _ => None,
    };
    let apps = gone.iter().flat_map(|g| &g.principals);
    principals.extend(apps.map(|(object, name)| (object.clone(), name.clone())));
    let (assignments, others) = d.assignments(client, &principals).await?;
    kept.extend(others);
    // Those at a group that goes, go with it.
    let explicit: Vec<ResourceId> = assignments.into_iter().filter(|a| !covered(&goal, a)).collect();
    let mut observed: Observed = explicit.iter().map(|a| (a.clone(), Value::Null)).collect();
    let seen = observe(client, &goal, 16).await.map_err(Error::Look)?;
    observed.extend(seen);
    goal.absent.extend(explicit.into_iter().map(|a| (a, None)));
    kept.sort_by(|a, b| a.id.cmp(&b.id));
    kept.dedup();
    let mut survey = Survey::new(goal, observed, kept);
    if let Some(gone) = &gone {
        let is_vault = |id: &&ResourceId| id.resource_type().is(Vaults::ROW.kind);
        let there: Vec<&ResourceId> = survey.observed.keys().filter(is_vault).collect();
        survey.extras = gone.extras(&there);
    }
    Ok((survey, gone))
}

/// How the way back went.
#[derive(Debug)]
pub struct Destroyed {
    pub outcome: Outcome,
    /// What could not be taken away beside Resource Manager.
    pub failed: Vec<(String, Error)>,
}

pub async fn destroy(
    client: &Client,
    d: &Destroy,
    options: Options,
    watch: Watch<'_>,
) -> Result<Destroyed, Error> {
    let look = async || look(client, d).await;
    let (outcome, gone) = converge(client, look, options, &|p: Progress<'_>| watch(p)).await?;
    let failed = match gone {
        Some(_) if outcome.is_good() => {
            // Vaults that were just deleted are among the deleted ones now.
            managed::gone(client, &d.cluster, &d.subscription).await?.delete(client, watch).await
        }
        _ => Vec::new(),
    };
    Ok(Destroyed { outcome, failed })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_infra_id_is_not_a_part_of_a_word() {
        for (name, expected) in [
            ("demo-x2b4c", true),
            ("own-demo-x2b4c", true),
            ("demo-x2b4c_pool-as", true),
            ("demo-x2b4c-internal", true),
            ("demo-x2b4c1", false),
            ("mydemo-x2b4c", false),
            ("mydemo-x2b4c-demo-x2b4c", true),
            ("demo", false),
        ] {
            assert_eq!(has_word(name, "demo-x2b4c"), expected, "{name}");
        }
        assert!(!has_word("database", "a"));
    }
}
