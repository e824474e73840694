//! Names that must be found, or free.

use super::{Examination, For, Report};
use crate::identities::IDENTITIES;
use crate::survey::read;
use crate::{Cluster, Error, MadeBy};
use arm::ResourceId;
use azure::ops::{DnsNs, DnsZones, FederatedCredentials, ResourceGroups, UserAssignedIdentities};
use azure::{ArmType, Call, Client};
use futures::TryStreamExt;
use http::Method;

/// Azure's limit of federated credentials per identity.
const CREDENTIALS: usize = 20;

pub(super) async fn dns(client: &Client, x: &Examination, r: &mut Report) {
    let Some(domain) = &x.base_domain else { return };
    let zone = match crate::survey::zone(client, &x.subscription, domain, x.dns_group.as_deref()).await {
        Ok(id) => id,
        Err(e @ Error::NoZone { .. }) => {
            let fix = format!("az network dns zone create -g GROUP -n {domain}");
            return r.blocker("dns", e.to_string(), fix);
        }
        Err(e) => return r.unknown("dns", &e),
    };
    let servers = match client.arm::<DnsZones>().get(&zone).await {
        Ok(z) => z.properties.and_then(|p| p.name_servers).unwrap_or_default(),
        Err(e) => return r.unknown("dns", &e),
    };
    r.good("dns", format!("zone {zone}"));
    // Who delegates is outside of Azure, unless the parent is a zone here.
    let Some((label, parent)) = domain.split_once('.') else { return };
    match crate::survey::zone(client, &x.subscription, parent, None).await {
        Ok(parent) => {
            let Ok(id) = DnsNs::ROW.id(&parent, label) else { return };
            let set = client.arm::<DnsNs>().find(&id).await.map_err(read("the delegation"));
            let body = set.ok().flatten().and_then(|s| serde_json::to_value(s).ok()).unwrap_or_default();
            let text = body.to_string().to_lowercase();
            if servers.iter().any(|s| text.contains(&s.trim_end_matches('.').to_lowercase())) {
                r.good("delegation", format!("{parent} delegates to the zone"));
            } else {
                let fix = format!(
                    "az network dns record-set ns add-record -g {} -z {} -n {label} -d {}",
                    parent.group().unwrap_or_default(),
                    parent.name(),
                    servers.first().map_or("NAME_SERVER", String::as_str)
                );
                r.blocker("delegation", format!("{parent} does not delegate {domain} to the zone"), fix);
            }
        }
        Err(_) => r.warning(
            "delegation",
            format!("the parent domain {parent} is not in this subscription, so it cannot be seen whether it delegates to {}", servers.join(", ")),
            format!("dig +short NS {domain}"),
        ),
    }
}

pub(super) async fn names(client: &Client, x: &Examination, r: &mut Report) {
    let Some(cluster) = &x.cluster else { return };
    let groups: Vec<String> = match x.purpose {
        For::Iam => x.groups.clone(),
        _ => [None, Some("vnet"), Some("nsg")].map(|w| cluster.group(w)).to_vec(),
    };
    for name in groups {
        let Ok(id) = ResourceGroups::ROW.id(&x.subscription, &name) else { continue };
        match client.arm::<ResourceGroups>().find(&id).await {
            Ok(Some(g)) => {
                let tags = serde_json::to_value(&g.tags).unwrap_or_default();
                let ours = [MadeBy::Infra, MadeBy::Iam].iter().any(|b| cluster.marked(&tags, *b));
                if !ours && x.purpose != For::Iam {
                    let fix = format!(
                        "az group delete -n {name}, or another --infra-id, or take it over: zaffre create infra azure --adopt"
                    );
                    r.blocker(
                        "names",
                        format!("{id} exists and does not carry the mark of this cluster"),
                        fix,
                    );
                }
            }
            Ok(None) => {}
            Err(e) => return r.unknown("names", &e),
        }
    }
    if !r.0.iter().any(|f| f.check == "names") {
        r.good("names", format!("no clash for cluster {} with infra id {}", cluster.name, cluster.infra_id));
    }
}

/// Which of our identities this is, by its name.
fn row(cluster: &Cluster, id: &ResourceId) -> Option<&'static crate::identities::Identity> {
    let name = |suffix: &str| format!("{}{suffix}-{}", cluster.name, cluster.infra_id);
    IDENTITIES.iter().find(|i| id.name().eq_ignore_ascii_case(&name(i.suffix)))
}

/// Identities with our names: are they ours, and is there room for their credentials?
pub(super) async fn credentials(client: &Client, x: &Examination, r: &mut Report) {
    let Some(cluster) = x.cluster.as_ref().filter(|_| matches!(x.purpose, For::Iam | For::Cluster)) else {
        return;
    };
    let all = match client.arm::<UserAssignedIdentities>().list_all(&x.subscription).await {
        Ok(all) => all,
        Err(e) => return r.unknown("federated credentials", &e),
    };
    let mut good = true;
    for identity in all {
        let tags = serde_json::to_value(&identity.tags).unwrap_or_default();
        let Some(id) = identity.id else { continue };
        let Some(row) = row(cluster, &id) else { continue };
        let (name, group) = (id.name(), id.group().unwrap_or_default());
        if !cluster.marked(&tags, MadeBy::Iam) {
            let fix = format!(
                "az identity delete -n {name} -g {group}, or take it over: zaffre create iam azure --adopt"
            );
            r.blocker("names", format!("{id} exists and does not carry the mark of this cluster"), fix);
        }
        let list = match client.arm::<FederatedCredentials>().list_all(&id).await {
            Ok(list) => list,
            Err(e) => return r.unknown("federated credentials", &e),
        };
        let has = |suffix: &str| {
            let wanted = format!("{}{suffix}", cluster.name);
            list.iter().any(|c| c.id.as_ref().is_some_and(|id| id.name().eq_ignore_ascii_case(&wanted)))
        };
        let missing = row.accounts.iter().filter(|(suffix, ..)| !has(suffix)).count();
        if list.len() + missing > CREDENTIALS {
            good = false;
            let found = format!("{id} has {} of {CREDENTIALS}, and {missing} more are needed", list.len());
            let fix = format!(
                "az identity federated-credential list --identity-name {name} -g {group} -o table, then az identity federated-credential delete --identity-name {name} -g {group} -n NAME"
            );
            r.blocker("federated credentials", found, fix);
        }
    }
    if good {
        r.good(
            "federated credentials",
            format!("no identity has more than the {CREDENTIALS} that it may have"),
        );
    }
}

/// Names that nobody else in Azure may have: of a storage account, of a vault. Ours are as good as free ones.
pub(super) async fn global(client: &Client, x: &Examination, r: &mut Report) {
    if let Some(name) = &x.account {
        let by = MadeBy::OidcIssuer;
        let fix =
            format!("another --name for create oidc-issuer azure, or az storage account delete -n {name}");
        free(client, x, ("Microsoft.Storage", "storageAccounts", "2023-05-01"), name, by, fix, r).await;
    }
    if let Some(name) = &x.vault {
        let by = MadeBy::ManagedIdentities;
        let fix = format!(
            "another --key-vault-name, or az keyvault delete -n {name} and az keyvault purge -n {name}"
        );
        free(client, x, ("Microsoft.KeyVault", "vaults", "2023-07-01"), name, by, fix, r).await;
    }
}

async fn free(
    client: &Client,
    x: &Examination,
    (ns, kind, version): (&str, &str, &str),
    name: &str,
    by: MadeBy,
    fix: String,
    r: &mut Report,
) {
    let path = format!("{}/providers/{ns}/checkNameAvailability?api-version={version}", x.subscription);
    // It asks; the method is POST because the name is in a body.
    let ask = serde_json::json!({"name": name, "type": format!("{ns}/{kind}")});
    let said = match client.send(Call::new(Method::POST, path).body(ask).repeatable()).await {
        Ok(answer) => answer.json().unwrap_or_default(),
        Err(e) => return r.unknown("names", &e),
    };
    if said["nameAvailable"] == true {
        return r.good("names", format!("{kind} {name} is free"));
    }
    // What was made by an earlier run is kept by the next.
    let filter = format!("name eq '{name}' and resourceType eq '{ns}/{kind}'");
    let found: Result<Vec<_>, _> = client.resources(&x.subscription, Some(&filter)).try_collect().await;
    let mark = x.cluster.as_ref().map_or(name, |c| c.name.as_str());
    let mark = if by == MadeBy::OidcIssuer { name } else { mark };
    let ours = found.iter().flatten().any(|f| {
        let tags = serde_json::to_value(&f.tags).unwrap_or_default();
        crate::names::tag(&tags, crate::names::TAG_BY) == Some(by.as_str())
            && crate::names::tag(&tags, crate::names::TAG_NAME) == Some(mark)
    });
    if ours {
        return r.good("names", format!("{kind} {name} is ours"));
    }
    let why =
        said["message"].as_str().or_else(|| said["reason"].as_str()).unwrap_or("it is taken").to_owned();
    r.blocker("names", format!("{kind} {name}: {why}"), fix);
}
