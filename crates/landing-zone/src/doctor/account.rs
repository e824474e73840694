//! Who asks, what that one may do, and where.

use super::{Examination, For, Report};
use crate::me::claims;
use crate::rights::{self, Needed};
use arm::ResourceId;
use azure::credential::TokenRequest;
use azure::ops::ResourceGroups;
use azure::{ArmType, Client};
use futures::TryStreamExt;
use serde_json::Value;
use std::collections::BTreeSet;

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
        all.push("Microsoft.KeyVault/locations/deletedVaults/purge/action".to_owned());
    }
    if purpose == For::Cluster {
        all.extend(both("Microsoft.Storage/storageAccounts".to_owned()));
        all.push("Microsoft.Storage/storageAccounts/blobServices/containers/write".to_owned());
    }
    all
}

pub(super) async fn who(client: &Client, r: &mut Report) -> Option<String> {
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

pub(super) async fn permissions(client: &Client, x: &Examination, who: Option<&str>, r: &mut Report) {
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

/// Permissions of Graph, and roles of the directory by their template, that let an account make applications.
const MAKES: [&str; 2] = ["Application.ReadWrite.OwnedBy", "Application.ReadWrite.All"];
const ADMINISTERS: [&str; 4] = [
    // Global Administrator, Application Administrator, Cloud Application Administrator, Application Developer.
    "62e90394-69f5-4237-9190-012177145e10",
    "9b895d92-2cd3-44c7-9d02-a6ac2d5ea5c3",
    "158c047a-c907-4556-b7ef-446551a6b5f7",
    "cf1c38e5-3621-4004-a7cb-879624dced7c",
];

fn has(claim: &Value, any: &[&str]) -> bool {
    claim.as_array().into_iter().flatten().filter_map(Value::as_str).any(|c| any.contains(&c))
}

/// Whether applications can be made. Graph cannot be asked; what it is going to look at is in the token for it.
pub(super) async fn directory(client: &Client, r: &mut Report) {
    let scope = format!("{}/.default", client.cloud().graph_audience);
    let token = match client.credential().token(&TokenRequest::new(scope)).await {
        Ok(token) => token,
        Err(e) => return r.unknown("directory", &e),
    };
    let c = claims(token.secret.expose());
    if has(&c["roles"], &MAKES) || has(&c["wids"], &ADMINISTERS) {
        return r.good("directory", "the account may make applications");
    }
    let app = c["appid"].as_str().or_else(|| c["azp"].as_str()).unwrap_or("CLIENT_ID");
    let fix = crate::error::consent(app);
    // What people may do is up to the tenant's settings, which the token does not tell.
    if c["scp"].is_string() {
        let found = "whether people may register applications is a setting of the tenant";
        return r.warning("directory", found, "az rest --url https://graph.microsoft.com/v1.0/policies/authorizationPolicy shows allowedToCreateApps");
    }
    let found = format!("the account may not make applications: it lacks {} of Microsoft Graph", MAKES[0]);
    r.blocker("directory", found, fix);
}

pub(super) async fn registration(client: &Client, x: &Examination, r: &mut Report) {
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

pub(super) async fn region(client: &Client, x: &Examination, r: &mut Report) {
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
