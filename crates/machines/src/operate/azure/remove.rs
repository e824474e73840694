//! From a machine that runs, or any part of one, to nothing.
//!
//! Machine, then interfaces, then disks: an interface that could be deleted proves that no machine holds it, even if a
//! read was older than a machine that a dying process had just asked for.

use super::make::pause;
use super::{AzureMachines, Came, Scope};
use crate::kinds::{self, finalizer};
use crate::operate::views::{Seen, name, namespace};
use crate::vm::{Kind, Place, Trouble};
use arm::{ProvisioningState, ResourceId, Tags};
use azure::ops::{ArmType, AvailabilitySets, Disks, NetworkInterfaces, VirtualMachines};
use azure::{Condition, Operation};
use futures::future::try_join_all;
use jiff::SignedDuration;
use reconcile::{Failure, Outcome};
use serde_json::Value;

impl AzureMachines {
    pub(super) async fn remove(
        &self,
        seen: &Seen,
        scope: Result<Scope, Box<Came>>,
    ) -> Result<Outcome, Failure> {
        let at = kinds::AZURE_MACHINE.at(namespace(seen), name(seen));
        let ours = seen.metadata.finalizers.iter().flatten().any(|f| f == finalizer::AZURE_MACHINE);
        if !ours {
            return Ok(Outcome::Done);
        }
        let scope = match scope {
            Ok(scope) => scope,
            // Nobody knows any more where it was, and whether it was: somebody has to look.
            Err(came) => {
                let why = match *came {
                    Came::Waits(_, message) => message,
                    Came::Troubled(t) => t.message,
                    _ => String::new(),
                };
                let message = format!(
                    "it cannot be told where the machine is: {why}; give the object back, or delete what is left by hand and remove the finalizer {}",
                    finalizer::AZURE_MACHINE
                );
                return self.end(seen, Came::Troubled(Trouble::new(Kind::Other, message))).await;
            }
        };
        match Box::pin(self.unmake(&scope)).await {
            Ok(None) => {
                ["PUT", "DELETE"].iter().for_each(|verb| self.over(&scope, verb));
                self.0.applier.remove_finalizer(&at, seen, finalizer::AZURE_MACHINE).await?;
                Ok(Outcome::Done)
            }
            Ok(Some(came)) => self.end(seen, came).await,
            Err(t) => self.end(seen, Came::Troubled(t)).await,
        }
    }

    /// The next thing to go; nothing when all is gone.
    async fn unmake(&self, scope: &Scope) -> Result<Option<Came>, Trouble> {
        let client = self.client(&scope.azure).await?;
        let place = &scope.place;
        if let Some(came) = self.unmake_machine(scope, &client).await? {
            return Ok(Some(came));
        }
        let nics = place.interfaces.iter();
        try_join_all(nics.map(|(id, _)| drop_one::<NetworkInterfaces>(&client, scope, id))).await?;
        let disks = std::iter::once(&place.os_disk).chain(&place.data_disks);
        try_join_all(disks.map(|id| drop_one::<Disks>(&client, scope, id))).await?;
        if scope.spec.failure_domain.is_none() {
            self.unmake_set(&client, place).await?;
        }
        Ok(None)
    }

    async fn unmake_machine(&self, scope: &Scope, client: &azure::Client) -> Result<Option<Came>, Trouble> {
        let place = &scope.place;
        let machines = client.arm::<VirtualMachines>();
        let going = |operation: Option<Value>, look: Option<std::time::Duration>| {
            let begun = scope.seen.metadata.deletion_timestamp.as_ref().map(crate::text::time);
            let taken = begun.map(|at| self.0.clock.now().duration_since(at)).unwrap_or_default();
            Some(Came::Working {
                reason: "Deleting",
                message: format!("Azure is deleting {}", place.vm),
                operation,
                again: pause(client, look, taken),
            })
        };
        let of = |e: azure::Error| Trouble::of(&e);
        if let Some(lro) = self.recall(scope, "DELETE") {
            let mut op: Operation<Value> = client.resume(lro);
            match op.poll().await {
                Ok(false) => {
                    let token = self.remember(scope, "DELETE", op.token());
                    return Ok(going(Some(token), op.next_look()));
                }
                // However it ended, what is there decides.
                Ok(true) => {}
                Err(e) if e.is_transient() => return Err(of(e)),
                Err(_) => {}
            }
            self.over(scope, "DELETE");
        }
        let Some(vm) = machines.find(&place.vm).await.map_err(of)? else { return Ok(None) };
        if !is_ours(scope, vm.tags.as_ref()) {
            // Of this name, but not ours: it never was made.
            return Ok(None);
        }
        let state = vm.properties.as_ref().and_then(|p| p.provisioning_state.clone());
        if matches!(&state, Some(ProvisioningState::Running(s)) if s.eq_ignore_ascii_case("Deleting")) {
            return Ok(going(None, None));
        }
        match machines.begin_delete(&place.vm, &Condition::Always).await {
            Ok(op) if op.is_done() => Ok(None),
            Ok(op) => {
                let token = self.remember(scope, "DELETE", op.token());
                Ok(going(Some(token), op.next_look()))
            }
            Err(e) if e.is_not_found() => Ok(None),
            Err(e) => Err(of(e)),
        }
    }

    /// The set goes with its last machine.
    async fn unmake_set(&self, client: &azure::Client, place: &Place) -> Result<(), Trouble> {
        let sets = client.arm::<AvailabilitySets>();
        let Some(set) = sets.find(&place.set).await.map_err(|e| Trouble::of(&e))? else { return Ok(()) };
        let used = set.properties.and_then(|p| p.virtual_machines).is_some_and(|m| !m.is_empty());
        if used || !place.is_ours(set.tags.as_ref()) {
            return Ok(());
        }
        match sets.delete(&place.set).await {
            // Somebody moved in meanwhile.
            Err(e) if e.status() == Some(409) => Ok(()),
            other => other.map(|_| ()).map_err(|e| Trouble::of(&e)),
        }
    }
}

/// Whether a machine or a part of it is to go. Tags may be lost, and what has lost them would be paid for ever after; only
/// what was never ours has neither them nor our word for it.
fn is_ours(scope: &Scope, tags: Option<&Tags>) -> bool {
    scope.place.is_ours(tags) || scope.place.is_named(scope.spec.provider_id.as_deref())
}

/// Tags of any resource.
trait Tagged {
    fn tags(&self) -> Option<&Tags>;
}

impl<P> Tagged for arm::Resource<P> {
    fn tags(&self) -> Option<&Tags> {
        self.tags.as_ref()
    }
}

/// Deletes a part of a machine, if it is there and ours. Azure gives disks the tags of their machine.
async fn drop_one<T: ArmType>(client: &azure::Client, scope: &Scope, id: &ResourceId) -> Result<(), Trouble>
where
    T::Body: Tagged,
{
    let arm = client.arm::<T>();
    let Some(part) = arm.find(id).await.map_err(|e| Trouble::of(&e))? else { return Ok(()) };
    if !is_ours(scope, part.tags()) {
        return Ok(());
    }
    match arm.delete(id).await {
        Ok(_) => Ok(()),
        Err(e) => {
            let mut t = Trouble::of(&e);
            // Held by a machine that is still going, or that came up after a read said that there is none.
            if e.has_code("NicInUse") || e.status() == Some(409) {
                t.wait = Some(SignedDuration::from_secs(5));
            }
            Err(t)
        }
    }
}
