//! Making what the managed flavour needs, and taking away what Resource Manager does not.

use super::component::{enroll, ensure};
use super::principals::{self, PARALLEL, Seen};
use super::{COMPONENTS, DATA_PLANE, Managed, SETS, wanted};
use crate::extras::{Act, Extra};
use crate::identities::{ControlPlaneIdentities, DataPlaneIdentities, IdentitiesVault, ManagedIdentity};
use crate::me::{Me, who};
use crate::names::{Cluster, MadeBy};
use crate::run::{Options, Outcome, Progress, Watch, converge};
use crate::survey::{self, Kept, Survey, Tell, read};
use crate::{Error, rights};
use arm::ResourceId;
use arm::types::DeletedVault;
use azure::Client;
use azure::graph::Application;
use azure::plan::plan;
use futures::TryStreamExt;
use futures::stream::{self, StreamExt};
use std::collections::BTreeSet;

/// How it went.
#[derive(Debug)]
pub struct Made {
    pub outcome: Outcome,
    /// What could not be done beside Resource Manager: what, and why.
    pub failed: Vec<(String, Error)>,
    /// The two files, if all went well.
    pub files: Option<(ControlPlaneIdentities, DataPlaneIdentities)>,
}

/// What was found, beside the survey.
struct Facts {
    me: Me,
    purge: Option<DeletedVault>,
}

/// A deleted vault that holds our name: ours is purged, another's is in the way.
async fn deleted(client: &Client, m: &Managed) -> Result<Option<DeletedVault>, Error> {
    let subscription = m.subscription.subscription().unwrap_or_default();
    let found = client.deleted_vault(subscription, &m.location, &m.vault).await;
    let Some(v) = found.map_err(read("the deleted vaults"))? else { return Ok(None) };
    match ours(&v, &m.mark) {
        true => Ok(Some(v)),
        false => Err(Error::VaultGone(m.vault.clone())),
    }
}

fn ours(v: &DeletedVault, mark: &Cluster) -> bool {
    let tags = v.properties.as_ref().and_then(|p| serde_json::to_value(&p.tags).ok()).unwrap_or_default();
    mark.marked(&tags, MadeBy::ManagedIdentities)
}

pub async fn survey(client: &Client, m: &Managed, tell: Tell<'_>) -> Result<Survey, Error> {
    Ok(look(client, m, tell).await?.0)
}

async fn look(client: &Client, m: &Managed, tell: Tell<'_>) -> Result<(Survey, Facts), Error> {
    let group = m.group_id()?;
    let vault = m.vault_id()?;
    let (found, me, has, purge) = futures::try_join!(
        survey::group(client, &group, tell),
        who(client),
        rights::has_data(client, &m.subscription, SETS),
        deleted(client, m),
    )?;
    let own = found.as_ref().is_none_or(|g| m.mark.marked(&g["tags"], MadeBy::ManagedIdentities));
    let mut goal = wanted(m, own, &me.tenant, (!has).then_some(&me))?;
    let (mut observed, mut absent, mut kept) = (azure::plan::Observed::new(), BTreeSet::new(), Vec::new());
    match found {
        Some(g) => drop(observed.insert(group.clone(), g)),
        None => drop(absent.insert(group.clone())),
    }
    if !own {
        kept.push(Kept { id: group, why: "an existing group of yours".to_owned() });
    }
    observed.extend(survey::rest(client, &goal, &absent).await?);
    let clash = survey::clashes(&m.mark, MadeBy::ManagedIdentities, &goal, &observed);
    if !clash.is_empty() && !m.adopt {
        return Err(Error::Clash(clash));
    }
    if !observed.contains_key(&vault) {
        absent.insert(vault.clone());
    }
    survey::assignments(client, &mut goal, &mut observed, &absent, &mut kept).await?;
    let may = goal.present.iter().all(|d| d.id.extended().is_none() || observed.contains_key(&d.id));
    let seen = principals::look(client, m, observed.contains_key(&vault) && may, tell).await?;
    let mut survey = Survey::new(goal, observed, kept);
    if purge.is_some() {
        let what = format!("deleted vault {}", m.vault);
        survey.extras.push(Extra::new(Act::Delete, what).note("purged: an earlier run deleted it"));
    }
    let now = client.timing().clock.now();
    survey.extras.extend(principals::extras(m, &seen, &me.tenant, now));
    Ok((survey, Facts { me, purge }))
}

async fn purge(client: &Client, v: &DeletedVault, watch: Watch<'_>) -> Result<(), Error> {
    let at = v.properties.clone().unwrap_or_default();
    let name = at.vault_id.as_ref().map(|id| id.name().to_owned()).unwrap_or_default();
    let subscription = at.vault_id.as_ref().and_then(|id| id.subscription().map(str::to_owned));
    let purged =
        client.purge_vault(&subscription.unwrap_or_default(), &at.location.unwrap_or_default(), &name).await;
    purged.map_err(|e| Error::Data { what: format!("purge vault {name}"), source: Box::new(e) })?;
    watch(Progress::Extra(&Extra::new(Act::Delete, format!("deleted vault {name}"))));
    Ok(())
}

pub async fn create(client: &Client, m: &Managed, options: Options, watch: Watch<'_>) -> Result<Made, Error> {
    m.check()?;
    let tell = |id: &ResourceId, why: &str, pause| watch(Progress::Waiting { id, why, pause });
    let enrolled = first(client, m, &tell, watch).await?;
    let look = async || {
        let (survey, facts) = look(client, m, &tell).await?;
        // The name must be free before a vault can have it; nothing else is done before rights were checked, but
        // what is purged here was deleted by us.
        if let Some(v) = &facts.purge {
            purge(client, v, watch).await?;
        }
        Ok((survey, facts))
    };
    let (outcome, facts) = converge(client, look, options, watch).await?;
    if !outcome.is_good() {
        return Ok(Made { outcome, failed: Vec::new(), files: None });
    }
    let mut seen: Seen = principals::look(client, m, true, &tell).await?;
    // Lists of the directory may be a little old.
    for part in seen.iter_mut().filter(|p| p.application.is_none()) {
        let name = m.part(part.suffix);
        part.application = enrolled.clone().filter(|a| a.display_name == name);
    }
    let all: Vec<_> = seen
        .into_iter()
        .map(|part| async {
            let name = m.part(part.suffix);
            let new = enrolled.as_ref().is_some_and(|a| a.display_name == name);
            (name, ensure(client, m, part, new, &facts.me.tenant, watch).await)
        })
        .collect();
    let done: Vec<_> = stream::iter(all).buffered(PARALLEL.min(options.parallel.max(1))).collect().await;
    let (mut failed, mut clients) = (Vec::new(), Vec::new());
    for (name, result) in done {
        match result {
            Ok(client_id) => clients.push(client_id),
            Err(e) => failed.push((name, e)),
        }
    }
    let files = match failed.is_empty() {
        true => Some(files(m, &facts.me.tenant, &clients, &outcome)?),
        false => None,
    };
    Ok(Made { outcome, failed, files })
}

/// Whether the account may make applications is known when it has made one. That comes first, and after all other
/// rights: who is refused leaves nothing behind.
async fn first(
    client: &Client,
    m: &Managed,
    tell: Tell<'_>,
    watch: Watch<'_>,
) -> Result<Option<Application>, Error> {
    let there = principals::applications(client, &m.mark).await?;
    let missing = |(_, suffix): &&(&str, &str)| !there.iter().any(|a| a.display_name == m.part(suffix));
    let Some((_, suffix)) = COMPONENTS.iter().find(missing) else { return Ok(None) };
    let (found, _) = look(client, m, tell).await?;
    let lacks = rights::missing(client, &rights::needed(&plan(&found.goal, &found.observed)?)).await?;
    if !lacks.is_empty() {
        return Err(Error::Rights(lacks));
    }
    enroll(client, m, &m.part(suffix), watch).await.map(Some)
}

fn files(
    m: &Managed,
    tenant: &str,
    clients: &[String],
    outcome: &Outcome,
) -> Result<(ControlPlaneIdentities, DataPlaneIdentities), Error> {
    let of = |key: &str| {
        let at = COMPONENTS.iter().position(|(k, _)| *k == key).unwrap_or_default();
        ManagedIdentity {
            client_id: clients.get(at).cloned().unwrap_or_default(),
            credentials_secret_name: m.part(COMPONENTS[at].1),
            object_encoding: m.encoding.as_str().to_owned(),
        }
    };
    let control_plane = ControlPlaneIdentities {
        managed_identities_key_vault: IdentitiesVault { name: m.vault.clone(), tenant_id: tenant.to_owned() },
        cloud_provider: of("cloudProvider"),
        node_pool_management: of("nodePoolManagement"),
        control_plane_operator: of("controlPlaneOperator"),
        image_registry: Some(of("imageRegistry")),
        ingress: of("ingress"),
        network: of("network"),
        disk: of("disk"),
        file: of("file"),
    };
    let client_id = |suffix: &str| {
        let body = outcome.look(&m.identity(suffix)?);
        let id = body.as_ref().and_then(|b| b.pointer("/properties/clientId")?.as_str().map(str::to_owned));
        id.ok_or_else(|| Error::Incomplete(format!("the client id of {suffix}")))
    };
    let [registry, disk, file] = DATA_PLANE.map(|(suffix, _)| client_id(suffix));
    let data_plane = DataPlaneIdentities { image_registry: registry?, disk: disk?, file: file? };
    Ok((control_plane, data_plane))
}

/// What is left beside Resource Manager, for the way back: applications and deleted vaults with our mark.
pub struct Gone {
    applications: Vec<Application>,
    vaults: Vec<DeletedVault>,
    /// Object ids of their principals, and their names.
    pub principals: Vec<(String, String)>,
}

impl Gone {
    /// `vaults` that are about to be deleted will have to be purged.
    pub fn extras(&self, vaults: &[&ResourceId]) -> Vec<Extra> {
        let apps = self.applications.iter().map(|a| format!("application {}", a.display_name));
        let names = self.vaults.iter().filter_map(|v| v.properties.as_ref()?.vault_id.as_ref());
        let mut vaults: BTreeSet<String> = vaults.iter().map(|v| v.name().to_owned()).collect();
        vaults.extend(names.map(|v| v.name().to_owned()));
        let purged = vaults.iter().map(|v| format!("deleted vault {v}"));
        apps.chain(purged).map(|what| Extra::new(Act::Delete, what)).collect()
    }

    pub async fn delete(&self, client: &Client, watch: Watch<'_>) -> Vec<(String, Error)> {
        let mut failed = Vec::new();
        for v in &self.vaults {
            if let Err(e) = purge(client, v, watch).await {
                failed.push((format!("deleted vault {}", v.name.clone().unwrap_or_default()), e));
            }
        }
        for app in &self.applications {
            let what = format!("application {}", app.display_name);
            match client.graph().delete_application(&app.id).await {
                Ok(()) => watch(Progress::Extra(&Extra::new(Act::Delete, what))),
                Err(e) => failed.push((
                    what.clone(),
                    Error::Data { what: format!("delete {what}"), source: Box::new(e) },
                )),
            }
        }
        failed
    }
}

/// Looks for it.
pub async fn gone(client: &Client, mark: &Cluster, subscription: &ResourceId) -> Result<Gone, Error> {
    let vaults = async {
        let all: Vec<DeletedVault> = client
            .deleted_vaults(subscription.subscription().unwrap_or_default())
            .try_collect()
            .await
            .map_err(read("the deleted vaults"))?;
        Ok(all.into_iter().filter(|v| ours(v, mark)).collect::<Vec<_>>())
    };
    let (applications, vaults) = futures::try_join!(principals::applications(client, mark), vaults)?;
    let mut principals = Vec::new();
    for a in &applications {
        let found = client.graph().service_principal_of(&a.app_id).await;
        if let Some(p) = found.map_err(read(format!("the service principal of {}", a.display_name)))? {
            principals.push((p.id.to_lowercase(), a.display_name.clone()));
        }
    }
    Ok(Gone { applications, vaults, principals })
}
