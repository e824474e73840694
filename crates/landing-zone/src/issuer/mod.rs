//! `create oidc-issuer azure`: the public place where the keys of a cluster's service-account tokens are found.
//!
//! A storage account with one public container that holds a discovery document and a list of keys. Private keys are
//! files; they are on disk before their public half is published, and no published key is withdrawn but by
//! `--retire-old`. Everything is decided from what is there ([`documents::decide`]), so a killed run goes on.
//!
//! Blobs are written with a token, not with the account's key: whoever runs the command is given the role for that at
//! the account, unless it may write blobs already. The role goes with the account.

mod documents;
mod files;
mod keys;
mod publish;

pub use documents::{DISCOVERY, Decision, KEYS};
pub use files::{KeyDir, read as read_key};
pub use keys::{KeyError, SigningKey};
pub use publish::{Keys, Published, create, survey};

use crate::Error;
use crate::me::Me;
use crate::names::{Cluster, MadeBy};
use crate::roles;
use arm::ResourceId;
use azure::ops::{BlobContainers, BlobServices, ResourceGroups, RoleAssignments, StorageAccounts};
use azure::plan::{Desired, Goal};
use azure::{ArmType, Client};
use serde_json::json;

/// Storage Blob Data Contributor.
const WRITER: &str = "ba92f5b4-2d11-453d-a403-e96b0029c9fe";
pub(crate) const WRITES: &str = "Microsoft.Storage/storageAccounts/blobServices/containers/blobs/write";

/// What is to happen with the keys.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Rotation {
    #[default]
    Keep,
    Rotate,
    RetireOld,
}

/// The command's flags.
#[derive(Clone, Debug)]
pub struct Issuer {
    /// Of the account and of its container.
    pub mark: Cluster,
    pub subscription: ResourceId,
    pub group: String,
    pub location: String,
    pub adopt: bool,
}

impl Issuer {
    pub fn new(name: &str, subscription: ResourceId, group: &str, location: &str) -> Result<Issuer, Error> {
        if !is_account(name) {
            return Err(Error::AccountName(name.chars().take(80).collect()));
        }
        let (mark, group, location) = (Cluster::shared(name)?, group.to_owned(), location.to_owned());
        let issuer = Issuer { mark, subscription, group, location, adopt: false };
        issuer.account().map(|_| issuer)
    }

    pub fn name(&self) -> &str {
        &self.mark.name
    }

    pub fn group_id(&self) -> Result<ResourceId, Error> {
        Ok(ResourceGroups::ROW.id(&self.subscription, &self.group)?)
    }

    pub fn account(&self) -> Result<ResourceId, Error> {
        Ok(StorageAccounts::ROW.id(&self.group_id()?, self.name())?)
    }

    pub fn container(&self) -> Result<ResourceId, Error> {
        let service = BlobServices::ROW.id(&self.account()?, "default")?;
        Ok(BlobContainers::ROW.id(&service, self.name())?)
    }

    /// What tokens carry as their issuer.
    pub fn url(&self, client: &Client) -> Result<String, Error> {
        let blobs = client.blobs(self.name()).map_err(|e| Error::Data {
            what: format!("name the blobs of {}", self.name()),
            source: Box::new(e),
        })?;
        Ok(format!("{}/{}", blobs.endpoint(), self.name()))
    }
}

pub(crate) fn is_account(name: &str) -> bool {
    (3..=24).contains(&name.len()) && name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit())
}

/// What should be. `me` is given the role for blobs, unless it has it from elsewhere.
pub fn wanted(issuer: &Issuer, own_group: bool, me: Option<&Me>) -> Result<Goal, Error> {
    let tags = issuer.mark.tags(MadeBy::OidcIssuer);
    let place = &issuer.location;
    let account = issuer.account()?;
    let mut goal = Goal::default();
    if own_group {
        goal = goal.present(Desired::new(issuer.group_id()?, json!({"location": place, "tags": tags})));
    }
    let body = json!({"location": place, "tags": tags, "kind": "StorageV2", "sku": {"name": "Standard_LRS"},
        "properties": {"allowBlobPublicAccess": true, "minimumTlsVersion": "TLS1_2", "supportsHttpsTrafficOnly": true}});
    let open = json!({"properties": {"publicAccess": "Container"}});
    goal = goal
        .present(Desired::new(account.clone(), body))
        .present(Desired::new(issuer.container()?, open).after(account.clone()));
    if let Some(me) = me {
        let name = issuer.mark.own_assignment(&me.object, &account);
        let role = json!({"properties": {"roleDefinitionId": roles::definition(&issuer.subscription, WRITER),
            "principalId": me.object, "principalType": me.kind}});
        goal = goal.present(Desired::new(RoleAssignments::ROW.id(&account, &name)?, role));
    }
    Ok(goal)
}
