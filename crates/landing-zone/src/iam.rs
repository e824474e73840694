//! `create iam azure`: identities of a self-managed cluster, and the service accounts that may use them.

use crate::Error;
use crate::identities::{AUDIENCE, IDENTITIES, KMS, WorkloadIdentities, subject};
use crate::names::{Cluster, MadeBy};
use arm::ResourceId;
use azure::ArmType;
use azure::ops::{FederatedCredentials, ResourceGroups, UserAssignedIdentities};
use azure::plan::{Desired, Goal};
use serde_json::{Value, json};

/// The command's flags.
#[derive(Clone, Debug)]
pub struct Iam {
    pub cluster: Cluster,
    pub subscription: ResourceId,
    pub group: String,
    pub location: String,
    pub issuer: String,
    pub kms: bool,
    /// Take over what has our names and not our mark.
    pub adopt: bool,
}

/// Tokens carry it, and it is asked for their keys.
pub(crate) fn check_issuer(issuer: &str) -> Result<(), Error> {
    let rest = issuer.strip_prefix("https://").unwrap_or_default();
    let bad = rest.is_empty()
        || issuer.len() > 600
        || rest.starts_with('/')
        || rest.contains(['?', '#', ' ', '@'])
        || rest.chars().any(char::is_control);
    match bad {
        true => Err(Error::Issuer(issuer.chars().take(100).collect())),
        false => Ok(()),
    }
}

impl Iam {
    pub fn check(&self) -> Result<(), Error> {
        check_issuer(&self.issuer)?;
        self.group_id().map(drop)
    }

    pub fn group_id(&self) -> Result<ResourceId, Error> {
        Ok(ResourceGroups::ROW.id(&self.subscription, &self.group)?)
    }

    /// The id of the identity with this key.
    pub fn identity(&self, suffix: &str) -> Result<ResourceId, Error> {
        let name = format!("{}{suffix}-{}", self.cluster.name, self.cluster.infra_id);
        Ok(UserAssignedIdentities::ROW.id(&self.group_id()?, &name)?)
    }
}

/// What should be. `own_group`: the group is absent or was made by an earlier run; somebody else's stays as it is.
pub fn wanted(iam: &Iam, own_group: bool) -> Result<Goal, Error> {
    let tags = iam.cluster.tags(MadeBy::Iam);
    let mut goal = Goal::default();
    if own_group {
        goal = goal.present(Desired::new(iam.group_id()?, json!({"location": iam.location, "tags": tags})));
    }
    for identity in IDENTITIES.iter().filter(|i| iam.kms || i.key != KMS) {
        let id = iam.identity(identity.suffix)?;
        goal = goal.present(Desired::new(id.clone(), json!({"location": iam.location, "tags": tags})));
        for (suffix, namespace, account) in identity.accounts {
            let credential = FederatedCredentials::ROW.id(&id, &format!("{}{suffix}", iam.cluster.name))?;
            goal = goal.present(Desired::new(
                credential,
                json!({"properties": {
                    "issuer": iam.issuer, "subject": subject(namespace, account), "audiences": [AUDIENCE],
                }}),
            ));
        }
    }
    Ok(goal)
}

/// The output file, from what the identities look like afterwards.
pub fn identities(
    iam: &Iam,
    look: impl Fn(&ResourceId) -> Option<Value>,
) -> Result<WorkloadIdentities, Error> {
    let find = |key: &'static str| {
        let row = IDENTITIES.iter().find(|i| i.key == key).filter(|_| iam.kms || key != KMS)?;
        let body = look(&iam.identity(row.suffix).ok()?)?;
        body.pointer("/properties/clientId")?.as_str().map(str::to_owned)
    };
    WorkloadIdentities::collect(find).ok_or_else(|| Error::Incomplete("a client id".to_owned()))
}
