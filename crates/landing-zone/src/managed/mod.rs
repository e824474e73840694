//! `create managed-identities azure`: what clusters of the managed flavour (ARO HCP) share.
//!
//! A key vault; for each component of a control plane an application whose certificate is kept there, as the
//! credential service of managed identities hands certificates out; for the nodes three managed identities with
//! federated credentials; and the two files that cluster commands read.
//!
//! A certificate is registered with its application before it is stored, and the one in use stays registered until
//! the next renewal: what is in the vault works at every moment. Applications carry our mark as tags; vaults that were
//! deleted by us are purged, so that their name is free for the next run.

mod certificate;
mod component;
mod principals;
mod run;

pub use certificate::{CertificateError, new_key};
pub use principals::{Part, Seen};
pub use run::{Gone, Made, create, gone, survey};

use crate::Error;
use crate::identities::{AUDIENCE, subject};
use crate::me::Me;
use crate::names::{Cluster, MadeBy};
use crate::roles;
use arm::ResourceId;
use azure::ArmType;
use azure::ops::{FederatedCredentials, ResourceGroups, RoleAssignments, UserAssignedIdentities, Vaults};
use azure::plan::{Desired, Goal};
use serde_json::json;

/// Key Vault Secrets Officer.
const OFFICER: &str = "b86a8fe4-44ce-4948-aee5-eccb2c155cd7";
pub(crate) const SETS: &str = "Microsoft.KeyVault/vaults/secrets/setSecret/action";

/// How the secret's bytes are written in the vault; who mounts it is told by the same word.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Encoding {
    #[default]
    Utf8,
    Hex,
    Base64,
}

impl Encoding {
    pub fn as_str(self) -> &'static str {
        match self {
            Encoding::Utf8 => "utf-8",
            Encoding::Hex => "hex",
            Encoding::Base64 => "base64",
        }
    }
}

/// The components of a control plane: key in the file, and suffix of name and secret.
pub static COMPONENTS: [(&str, &str); 8] = [
    ("controlPlaneOperator", "cpo"),
    ("nodePoolManagement", "nodepool-mgmt"),
    ("cloudProvider", "cloud-provider"),
    ("disk", "disk"),
    ("file", "file"),
    ("ingress", "ingress"),
    ("network", "network"),
    ("imageRegistry", "image-registry"),
];

const CSI: &str = "openshift-cluster-csi-drivers";
const REGISTRY: &str = "openshift-image-registry";

/// An identity of the nodes: suffix, and the service accounts that use it.
type DataPlane = (&'static str, &'static [(&'static str, &'static str, &'static str)]);

pub static DATA_PLANE: [DataPlane; 3] = [
    (
        "dp-image-registry",
        &[
            ("-image-registry-fed-id-registry", REGISTRY, "registry"),
            ("-image-registry-fed-id-operator", REGISTRY, "cluster-image-registry-operator"),
        ],
    ),
    ("dp-disk", &[("-disk-fed-id-node", CSI, "azure-disk-csi-driver-node-sa")]),
    ("dp-file", &[("-file-fed-id-node", CSI, "azure-file-csi-driver-node-sa")]),
];

/// The command's flags.
#[derive(Clone, Debug)]
pub struct Managed {
    pub mark: Cluster,
    pub subscription: ResourceId,
    pub group: String,
    pub location: String,
    pub vault: String,
    pub issuer: String,
    pub encoding: Encoding,
    /// Of certificates, in days.
    pub validity: u16,
    /// Renew what ends within so many days; `None`: only what has ended.
    pub renew: Option<u16>,
    pub adopt: bool,
    /// Where keys of certificates come from: [`new_key`].
    pub make: fn() -> Result<rcgen::KeyPair, rcgen::Error>,
}

fn is_vault(name: &str) -> bool {
    (3..=24).contains(&name.len())
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-')
        && name.as_bytes().first().is_some_and(u8::is_ascii_alphabetic)
        && !name.ends_with('-')
        && !name.contains("--")
}

impl Managed {
    pub fn check(&self) -> Result<(), Error> {
        if !is_vault(&self.vault) {
            return Err(Error::VaultName(self.vault.chars().take(80).collect()));
        }
        crate::iam::check_issuer(&self.issuer)?;
        self.vault_id().map(drop)
    }

    pub fn group_id(&self) -> Result<ResourceId, Error> {
        Ok(ResourceGroups::ROW.id(&self.subscription, &self.group)?)
    }

    pub fn vault_id(&self) -> Result<ResourceId, Error> {
        Ok(Vaults::ROW.id(&self.group_id()?, &self.vault)?)
    }

    pub fn identity(&self, suffix: &str) -> Result<ResourceId, Error> {
        Ok(UserAssignedIdentities::ROW.id(&self.group_id()?, &format!("{}-{suffix}", self.mark.name))?)
    }

    /// Of an application and of its secret.
    pub fn part(&self, suffix: &str) -> String {
        format!("{}-{suffix}", self.mark.name)
    }
}

/// What should be in Resource Manager. `me` is given the role for secrets, unless it has it from elsewhere.
pub fn wanted(m: &Managed, own_group: bool, tenant: &str, me: Option<&Me>) -> Result<Goal, Error> {
    let tags = m.mark.tags(MadeBy::ManagedIdentities);
    let place = &m.location;
    let mut goal = Goal::default();
    if own_group {
        goal = goal.present(Desired::new(m.group_id()?, json!({"location": place, "tags": tags})));
    }
    let vault = m.vault_id()?;
    let body = json!({"location": place, "tags": tags, "properties": {"tenantId": tenant,
        "sku": {"family": "A", "name": "standard"}, "enableRbacAuthorization": true}});
    goal = goal.present(Desired::new(vault.clone(), body));
    if let Some(me) = me {
        let name = m.mark.own_assignment(&me.object, &vault);
        let role = json!({"properties": {"roleDefinitionId": roles::definition(&m.subscription, OFFICER),
            "principalId": me.object, "principalType": me.kind}});
        goal = goal.present(Desired::new(RoleAssignments::ROW.id(&vault, &name)?, role));
    }
    for (suffix, accounts) in DATA_PLANE {
        let id = m.identity(suffix)?;
        goal = goal.present(Desired::new(id.clone(), json!({"location": place, "tags": tags})));
        for (credential, namespace, account) in accounts {
            let body = json!({"properties": {"issuer": m.issuer, "subject": subject(namespace, account),
                "audiences": [AUDIENCE]}});
            let id = FederatedCredentials::ROW.id(&id, &format!("{}{credential}", m.mark.name))?;
            goal = goal.present(Desired::new(id, body));
        }
    }
    Ok(goal)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_vaults() {
        for good in ["abc", "a-b-3", "Vault24", &"v".repeat(24)] {
            assert!(is_vault(good), "{good}");
        }
        for bad in ["", "ab", "3ab", "a--b", "ab-", "a_b", &"v".repeat(25)] {
            assert!(!is_vault(bad), "{bad}");
        }
    }
}
