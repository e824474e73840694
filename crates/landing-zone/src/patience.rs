//! What Azure takes its time over. Each of these is known, is said while it lasts, and ends.

use arm::ResourceId;
use azure::plan::{Action, Hands, Step};
use azure::{Client, Error};
use futures::future::BoxFuture;
use serde_json::{Value, json};
use std::time::Duration;

/// A wait that is worth it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wait {
    pub why: &'static str,
    /// No longer than this altogether.
    pub limit: Duration,
}

const fn wait(why: &'static str, seconds: u64) -> Option<Wait> {
    Some(Wait { why, limit: Duration::from_secs(seconds) })
}

/// Whether a refusal will pass. Throttling and busy services are the client's business and are over when they get here.
pub fn known(step: &Step, e: &Error) -> Option<Wait> {
    let code = |c: &str| e.has_code(c);
    let deletes = step.action == Action::Delete;
    if code("PrincipalNotFound") || code("FailedIdentityOperation") {
        return wait("the directory does not know the identity yet", 180);
    }
    if code("AuthorizationFailed") || code("LinkedAuthorizationFailed") {
        // The rights were checked before: the role is there, and not everywhere yet.
        return wait("the account's role has not reached every replica yet", 120);
    }
    if code("ResourceGroupBeingDeleted") {
        return wait("the group is still being deleted by an earlier run", 1200);
    }
    if code("AnotherOperationInProgress")
        || code("RetryableError")
        || code("ReferencedResourceNotProvisioned")
        || code("ConcurrentFederatedIdentityCredentialsWritesForSingleManagedIdentity")
    {
        return wait("another change of the same resource is going on", 300);
    }
    if !deletes && (code("ParentResourceNotFound") || code("ResourceGroupNotFound")) {
        return wait("what it belongs to was made, and is not seen everywhere yet", 60);
    }
    if deletes
        && (code("CannotDeleteResource")
            || code("ResourceGroupDeletionBlocked")
            || code("PublicIPAddressCannotBeDeleted")
            || e.code().is_some_and(|c| c.starts_with("InUse")))
    {
        return wait("what used it is gone, and that is not seen everywhere yet", 120);
    }
    None
}

/// A client that waits where it is worth it.
pub struct Patient<'a> {
    pub client: &'a Client,
    pub tell: &'a (dyn Fn(&ResourceId, &Wait, Duration) + Sync),
}

fn is_assignment(id: &ResourceId) -> bool {
    id.resource_type().is("Microsoft.Authorization/roleAssignments")
}

impl Patient<'_> {
    async fn once(&self, step: &Step, body: Option<Value>) -> Result<Option<Value>, Error> {
        let (Action::Change { .. }, true) = (&step.action, is_assignment(&step.id)) else {
            return match self.client.perform(step, body).await {
                // The same role for the same principal under another name: as wanted.
                Err(e) if is_assignment(&step.id) && e.has_code("RoleAssignmentExists") => Ok(None),
                other => other,
            };
        };
        // Assignments cannot be changed: an identity that was made anew has another principal.
        let gone = Step { action: Action::Delete, ..step.clone() };
        self.client.perform(&gone, None).await?;
        let properties = body.map(|mut b| b["properties"].take()).unwrap_or_default();
        let keep = |name: &str| (name.to_owned(), properties[name].clone());
        let fields = ["roleDefinitionId", "principalId", "principalType"].map(keep);
        let body = json!({"properties": Value::Object(fields.into_iter().collect())});
        let made = Step { action: Action::Create { body: body.clone() }, ..step.clone() };
        self.client.perform(&made, Some(body)).await
    }
}

impl Hands for Patient<'_> {
    fn perform<'a>(
        &'a self,
        step: &'a Step,
        body: Option<Value>,
    ) -> BoxFuture<'a, Result<Option<Value>, Error>> {
        Box::pin(async move {
            let mut waited = Duration::ZERO;
            let mut pause = Duration::from_secs(2).min(self.client.poll_default());
            loop {
                let e = match self.once(step, body.clone()).await {
                    Ok(done) => return Ok(done),
                    Err(e) => e,
                };
                let Some(w) = known(step, &e).filter(|w| waited < w.limit) else { return Err(e) };
                (self.tell)(&step.id, &w, pause);
                self.client.timing().pause.pause(pause).await;
                waited += pause;
                pause = (pause * 2).min(Duration::from_secs(15));
            }
        })
    }
}

/// Whether a data plane refuses because a role has not reached it yet.
pub fn unsettled(e: &Error) -> bool {
    e.status() == Some(403)
        && ["AuthorizationPermissionMismatch", "ForbiddenByRbac", "AuthorizationFailure", "Forbidden"]
            .iter()
            .any(|c| e.has_code(c))
}

/// A role at a new vault or account takes its time; so does its name.
const SETTLES: Duration = Duration::from_secs(300);

/// Repeats what is refused only because a role is young.
pub async fn settled<T>(
    client: &Client,
    at: &ResourceId,
    tell: &(dyn Fn(&ResourceId, &str, Duration) + Sync),
    ask: impl AsyncFn() -> Result<T, Error>,
) -> Result<T, Error> {
    let mut waited = Duration::ZERO;
    let mut pause = Duration::from_secs(2).min(client.poll_default());
    loop {
        match ask().await {
            Err(e) if unsettled(&e) && waited < SETTLES => {
                tell(at, "the role that was just given has not reached it yet", pause);
                client.timing().pause.pause(pause).await;
                waited += pause;
                pause = (pause * 2).min(Duration::from_secs(15));
            }
            other => return other,
        }
    }
}
