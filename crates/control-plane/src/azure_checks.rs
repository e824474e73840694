//! What Azure itself says of a cluster, asked with the control plane's own identity.

use crate::operate::Verdict;
use crate::scope::{KmsKey, Scope};
use apis::conditions::reason;
use arm::ResourceId;
use azure::Client;
use azure::ops::{ResourceGroups, SecurityGroups, VirtualNetworks};
use azure::vault::Algorithm;

/// Azure writes names of regions in two ways: `East US` and `eastus`.
fn region(text: &str) -> String {
    text.chars().filter(|c| !c.is_whitespace()).collect::<String>().to_lowercase()
}

fn failed(what: &str, e: &azure::Error) -> Verdict {
    let told = reconcile::chain(e).to_string();
    match e.refused().map(|r| r.status) {
        Some(401 | 403) => Verdict::Bad {
            reason: reason::INVALID_AZURE_CREDENTIALS,
            message: format!(
                "the control plane operator's identity may not read {what}: {told}; give it its role there"
            ),
        },
        _ => Verdict::Unknown(format!("cannot read {what}: {told}")),
    }
}

/// Whether the groups and networks of a cluster are there, and where the cluster is.
pub async fn locations(client: &Client, scope: &Scope) -> Verdict {
    let a = &scope.azure;
    let ids = (|| {
        let group = |name: &str| ResourceId::group_scope(&a.subscription, name);
        let vnet = group(&a.vnet.group)?.provider("Microsoft.Network", "virtualNetworks", &a.vnet.name)?;
        let nsg = group(&a.security_group.group)?;
        let nsg = nsg.provider("Microsoft.Network", "networkSecurityGroups", &a.security_group.name)?;
        Ok::<_, arm::IdError>((group(&a.resource_group)?, vnet, nsg))
    })();
    let (group, vnet, nsg) = match ids {
        Ok(ids) => ids,
        Err(e) => return Verdict::Unknown(format!("cannot tell the ids of networks: {e}")),
    };
    let (group_arm, vnet_arm, nsg_arm) =
        (client.arm::<ResourceGroups>(), client.arm::<VirtualNetworks>(), client.arm::<SecurityGroups>());
    let (g, v, n) = futures::join!(group_arm.find(&group), vnet_arm.find(&vnet), nsg_arm.find(&nsg));
    let named = [
        (
            "resource group",
            "platform.azure.resourceGroup",
            &group,
            g.map(|o| o.map(|o| o.location.unwrap_or_default())),
        ),
        (
            "virtual network",
            "platform.azure.vnetID",
            &vnet,
            v.map(|o| o.map(|o| o.location.unwrap_or_default())),
        ),
        (
            "network security group",
            "platform.azure.securityGroupID",
            &nsg,
            n.map(|o| o.map(|o| o.location.unwrap_or_default())),
        ),
    ];
    for (what, field, id, found) in named {
        let bad = |message: String| Verdict::Bad { reason: reason::INVALID_CONFIGURATION, message };
        match found {
            Err(e) => return failed(&format!("{what} {id}", id = id.as_str()), &e),
            Ok(None) => {
                return bad(format!(
                    "{field} cannot be used: there is no {what} {}: make it, or name one that exists",
                    id.as_str()
                ));
            }
            Ok(Some(location)) if region(&location) != region(&a.location) => {
                return bad(format!(
                    "{field} cannot be used: {} is in {location}, and the cluster (platform.azure.location) in {}: use a {what} of {}",
                    id.as_str(),
                    a.location,
                    a.location
                ));
            }
            Ok(Some(_)) => {}
        }
    }
    Verdict::Good
}

/// Whether a key encrypts: it is asked to, once, with a word that means nothing.
pub async fn key(client: &Client, key: &KmsKey) -> Verdict {
    let vault = match key.managed_hsm {
        true => client.managed_hsm(&key.vault),
        false => client.vault(&key.vault),
    };
    let vault = match vault {
        Ok(vault) => vault,
        Err(e) => return Verdict::Bad { reason: reason::AZURE_ERROR, message: e.to_string() },
    };
    let used = vault.keys().encrypt(&key.name, &key.version, Algorithm::RsaOaep256, b"zaffre").await;
    let Err(e) = used else { return Verdict::Good };
    let told = reconcile::chain(&e).to_string();
    // An HSM has roles of its own.
    let (holder, role) = match key.managed_hsm {
        true => ("managed HSM", "Managed HSM Crypto User"),
        false => ("vault", "Key Vault Crypto User"),
    };
    let at = format!("key {} (version {}) of {holder} {}", key.name, key.version, key.vault);
    match e.refused().map(|r| r.status) {
        Some(401 | 403) => Verdict::Bad {
            reason: reason::INVALID_AZURE_CREDENTIALS,
            message: format!("the KMS identity may not encrypt with {at}: {told}; give it {role} there"),
        },
        // Away is not wrong: nobody has to name another key.
        Some(_) if !e.is_transient() => Verdict::Bad {
            reason: reason::AZURE_ERROR,
            message: format!("{at} does not encrypt: {told}; name one that is enabled and of RSA"),
        },
        _ => Verdict::Unknown(format!("cannot ask {at}: {told}")),
    }
}
