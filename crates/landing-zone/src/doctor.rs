//! What would go wrong, said before it does, each finding with the command that mends it.

use crate::Error;
use crate::rights::{self, Needed};
use crate::survey::read;
use arm::ResourceId;
use azure::ArmType;
use azure::Client;
use azure::credential::TokenRequest;
use azure::ops::{
    DnsNs, DnsZones, FederatedCredentials, PublicIpAddresses, ResourceGroups, UserAssignedIdentities,
};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use futures::TryStreamExt;
use serde::Serialize;
use serde_json::Value;
use std::collections::BTreeSet;

/// How bad it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    Good,
    /// Worth a look; nothing stops.
    Warning,
    Blocker,
}

/// One thing that was looked at.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    pub level: Level,
    pub check: &'static str,
    pub found: String,
    /// The command that mends it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fix: Option<String>,
}

/// For which commands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum For {
    Infra,
    Iam,
    Cluster,
    Managed,
}

/// What is asked.
#[derive(Clone, Debug)]
pub struct Examination {
    pub subscription: ResourceId,
    pub purpose: For,
    pub location: String,
    pub base_domain: Option<String>,
    /// Groups that the commands are to use, if they exist already.
    pub groups: Vec<String>,
    pub dns_group: Option<String>,
    pub cluster: Option<crate::Cluster>,
}

/// Azure's limit of federated credentials per identity.
const CREDENTIALS: usize = 20;

struct Report(Vec<Finding>);

impl Report {
    fn add(&mut self, level: Level, check: &'static str, found: impl Into<String>, fix: Option<String>) {
        self.0.push(Finding { level, check, found: found.into(), fix });
    }

    fn good(&mut self, check: &'static str, found: impl Into<String>) {
        self.add(Level::Good, check, found, None);
    }

    fn blocker(&mut self, check: &'static str, found: impl Into<String>, fix: impl Into<String>) {
        self.add(Level::Blocker, check, found, Some(fix.into()));
    }

    fn warning(&mut self, check: &'static str, found: impl Into<String>, fix: impl Into<String>) {
        self.add(Level::Warning, check, found, Some(fix.into()));
    }

    /// A question that could not be asked is not an answer.
    fn unknown(&mut self, check: &'static str, e: &dyn std::fmt::Display) {
        let fix = "run zaffre doctor azure again; with -v it says what was asked".to_owned();
        self.add(Level::Warning, check, format!("cannot tell: {e}"), Some(fix));
    }
}

/// Who a token is made out to: its claims are read, not trusted; Azure checks the signature.
fn claims(token: &str) -> Value {
    let part = token.split('.').nth(1).unwrap_or_default();
    let bytes = URL_SAFE_NO_PAD.decode(part.trim_end_matches('=')).unwrap_or_default();
    serde_json::from_slice(&bytes).unwrap_or_default()
}

/// What each purpose writes, by provider.
fn providers(purpose: For) -> &'static [&'static str] {
    match purpose {
        For::Iam => &["Microsoft.ManagedIdentity"],
        For::Infra => &["Microsoft.Network", "Microsoft.Authorization"],
        For::Cluster => &[
            "Microsoft.Network",
            "Microsoft.Authorization",
            "Microsoft.ManagedIdentity",
            "Microsoft.Compute",
            "Microsoft.Storage",
        ],
        For::Managed => &[
            "Microsoft.Network",
            "Microsoft.Authorization",
            "Microsoft.ManagedIdentity",
            "Microsoft.KeyVault",
        ],
    }
}

/// Actions that the commands of a purpose need.
fn actions(purpose: For) -> Vec<String> {
    let network = [
        "virtualNetworks",
        "networkSecurityGroups",
        "publicIPAddresses",
        "loadBalancers",
        "privateDnsZones",
        "privateDnsZones/virtualNetworkLinks",
    ];
    let both = |kind: String| [format!("{kind}/write"), format!("{kind}/delete")];
    let mut all: Vec<String> = both("Microsoft.Resources/subscriptions/resourceGroups".to_owned()).to_vec();
    if purpose != For::Iam {
        all.extend(network.iter().flat_map(|k| both(format!("Microsoft.Network/{k}"))));
        for k in ["virtualNetworks", "networkSecurityGroups", "publicIPAddresses"] {
            all.push(format!("Microsoft.Network/{k}/join/action"));
        }
        all.extend(both("Microsoft.Authorization/roleAssignments".to_owned()));
    }
    if purpose != For::Infra {
        let identity = "Microsoft.ManagedIdentity/userAssignedIdentities";
        all.extend(both(identity.to_owned()));
        all.extend(both(format!("{identity}/federatedIdentityCredentials")));
    }
    if purpose == For::Managed {
        all.extend(both("Microsoft.KeyVault/vaults".to_owned()));
    }
    all
}

async fn who(client: &Client, r: &mut Report) -> Option<String> {
    let scope = format!("{}/.default", client.cloud().arm_audience);
    match client.credential().token(&TokenRequest::new(scope)).await {
        Ok(token) => {
            let c = claims(token.secret.expose());
            let object = c["oid"].as_str().map(str::to_owned);
            let app = c["appid"].as_str().or_else(|| c["azp"].as_str()).unwrap_or("unknown");
            let name = object.as_deref().unwrap_or("unknown");
            r.good("account", format!("object {name}, application {app}, cloud {}", client.cloud().name));
            object
        }
        Err(e) => {
            let said = std::iter::successors(Some(&e as &dyn std::error::Error), |e| e.source())
                .map(ToString::to_string)
                .collect::<Vec<_>>()
                .join(": ");
            r.blocker("account", said, "give --azure-creds FILE, or az login");
            None
        }
    }
}

async fn permissions(client: &Client, x: &Examination, who: Option<&str>, r: &mut Report) {
    let mut needed = Needed::new();
    let needs: BTreeSet<String> = actions(x.purpose).into_iter().collect();
    needed.insert(x.subscription.clone(), needs);
    if let (Some(g), true) = (&x.dns_group, x.purpose != For::Iam)
        && let Ok(id) = ResourceGroups::ROW.id(&x.subscription, g)
    {
        needed.insert(id, ["Microsoft.Authorization/roleAssignments/write".to_owned()].into());
    }
    let missing = match rights::missing(client, &needed).await {
        Ok(m) => m,
        Err(e) => return r.unknown("permissions", &e),
    };
    if missing.is_empty() {
        let n: usize = needed.values().map(BTreeSet::len).sum();
        return r.good("permissions", format!("all {n} actions are allowed"));
    }
    let roles: BTreeSet<(&ResourceId, &str)> = missing.iter().map(|m| (&m.scope, m.role())).collect();
    for (scope, role) in roles {
        let lacks: Vec<&str> = missing
            .iter()
            .filter(|m| m.scope == *scope && m.role() == role)
            .map(|m| m.action.as_str())
            .collect();
        let fix = format!(
            "az role assignment create --assignee-object-id {} --assignee-principal-type ServicePrincipal --role '{role}' --scope {scope}",
            who.unwrap_or("OBJECT_ID")
        );
        r.blocker("permissions", format!("not allowed at {scope}: {}", lacks.join(", ")), fix);
    }
}

async fn registration(client: &Client, x: &Examination, r: &mut Report) {
    let subscription = x.subscription.subscription().unwrap_or_default();
    let all: Result<Vec<_>, _> = client.providers(subscription).try_collect().await;
    let all = match all {
        Ok(all) => all,
        Err(e) => return r.unknown("providers", &e),
    };
    let mut good = Vec::new();
    for ns in providers(x.purpose) {
        let found = all.iter().find(|p| p.namespace.as_deref().is_some_and(|n| n.eq_ignore_ascii_case(ns)));
        let state = found.and_then(|p| p.registration_state.as_deref()).unwrap_or("unknown");
        if state == "Registered" {
            good.push(*ns);
        } else {
            // The client registers what is missing when it meets it, if it may.
            r.warning(
                "providers",
                format!("{ns} is {state}"),
                format!("az provider register --wait -n {ns}"),
            );
        }
    }
    if !good.is_empty() {
        r.good("providers", format!("registered: {}", good.join(", ")));
    }
}

async fn region(client: &Client, x: &Examination, r: &mut Report) {
    let list = format!("{}/locations?api-version=2022-12-01", x.subscription);
    match client.send(azure::Call::get(list)).await {
        Err(e) => r.unknown("region", &e),
        Ok(answer) => {
            let body = answer.json().unwrap_or_default();
            let mut names = body["value"].as_array().into_iter().flatten().filter_map(|l| l["name"].as_str());
            if names.any(|n| n.eq_ignore_ascii_case(&x.location)) {
                r.good("region", format!("{} is open to the subscription", x.location));
            } else {
                let found = format!("{} is not a region of the subscription", x.location);
                r.blocker("region", found, "az account list-locations -o table, then --location");
            }
        }
    }
}

/// Quotas where the provider answers; not every cloud serves them to everybody.
async fn quota(client: &Client, x: &Examination, r: &mut Report) {
    let (ns, name, need, version) = match x.purpose {
        For::Infra => ("Microsoft.Network", "PublicIPAddresses", 2, PublicIpAddresses::ROW.api_version),
        For::Cluster => ("Microsoft.Compute", "cores", 8, "2024-03-01"),
        For::Iam | For::Managed => return,
    };
    let path =
        format!("{}/providers/{ns}/locations/{}/usages?api-version={version}", x.subscription, x.location);
    let body = match client.send(azure::Call::get(path)).await {
        Ok(answer) => answer.json().unwrap_or_default(),
        Err(e) if e.is_not_found() => return,
        Err(e) => return r.unknown("quota", &e),
    };
    let usages = body["value"].as_array().cloned().unwrap_or_default();
    let of = |u: &&Value| u["name"]["value"].as_str().is_some_and(|n| n.eq_ignore_ascii_case(name));
    let Some(u) = usages.iter().find(of) else { return };
    let (used, limit) = (u["currentValue"].as_u64().unwrap_or(0), u["limit"].as_u64().unwrap_or(u64::MAX));
    if used.saturating_add(need) > limit {
        let fix = format!("ask for more: az quota update, or choose another --location than {}", x.location);
        r.blocker("quota", format!("{name}: {used} of {limit} are used, {need} more are needed"), fix);
    } else {
        r.good("quota", format!("{name}: {used} of {limit} are used"));
    }
}

async fn dns(client: &Client, x: &Examination, r: &mut Report) {
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

async fn names(client: &Client, x: &Examination, r: &mut Report) {
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
                let ours =
                    [crate::MadeBy::Infra, crate::MadeBy::Iam].iter().any(|b| cluster.marked(&tags, *b));
                if !ours && x.purpose != For::Iam {
                    let fix = "another --infra-id, or --adopt".to_owned();
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

/// Identities of the cluster that are nearly full: other issuers used them before.
async fn credentials(client: &Client, x: &Examination, r: &mut Report) {
    let Some(cluster) = x.cluster.as_ref().filter(|_| x.purpose != For::Infra) else { return };
    let all = match client.arm::<UserAssignedIdentities>().list_all(&x.subscription).await {
        Ok(all) => all,
        Err(e) => return r.unknown("federated credentials", &e),
    };
    let suffix = format!("-{}", cluster.infra_id);
    let ours = all.into_iter().filter_map(|i| i.id).filter(|i| i.name().ends_with(&suffix));
    let mut full = false;
    for id in ours {
        match client.arm::<FederatedCredentials>().list_all(&id).await {
            Ok(list) if list.len() + 3 > CREDENTIALS => {
                full = true;
                let fix = format!(
                    "az identity federated-credential list --identity-name {} -g {}, and delete what is not needed",
                    id.name(),
                    id.group().unwrap_or_default()
                );
                r.blocker("federated credentials", format!("{id} has {} of {CREDENTIALS}", list.len()), fix);
            }
            Ok(_) => {}
            Err(e) => return r.unknown("federated credentials", &e),
        }
    }
    if !full {
        r.good("federated credentials", format!("no identity is near the limit of {CREDENTIALS}"));
    }
}

/// Looks at everything; what cannot be looked at is said to be unknown.
pub async fn examine(client: &Client, x: &Examination) -> Vec<Finding> {
    let mut r = Report(Vec::new());
    let me = who(client, &mut r).await;
    if r.0.iter().any(|f| f.level == Level::Blocker) {
        return r.0;
    }
    permissions(client, x, me.as_deref(), &mut r).await;
    registration(client, x, &mut r).await;
    region(client, x, &mut r).await;
    quota(client, x, &mut r).await;
    if x.purpose != For::Iam {
        dns(client, x, &mut r).await;
    }
    names(client, x, &mut r).await;
    credentials(client, x, &mut r).await;
    r.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn claims_are_read_without_padding() {
        // {"oid":"o?>~"} has characters of the URL alphabet.
        assert_eq!(claims("x.eyJvaWQiOiJvPz5-In0.y")["oid"], "o?>~");
        assert_eq!(claims("rubbish"), Value::Null);
    }
}
