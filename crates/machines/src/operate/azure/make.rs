//! From nothing to a machine that runs.

use super::{AzureMachines, Came, Scope};
use crate::kinds;
use crate::operate::views::namespace;
use crate::operate::write::Changed;
use crate::vm::body::Standing;
use crate::vm::{Kind, Place, Trouble, body};
use arm::types::{NetworkInterface, VirtualMachine};
use arm::{ProvisioningState, ResourceId};
use azure::ops::{AvailabilitySets, NetworkInterfaces, VirtualMachines};
use azure::{Condition, Lro, Operation};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use jiff::SignedDuration;
use k8s_openapi::api::core::v1::Secret;
use kube::Api;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

/// A machine that Azure is still making after this long is said to be stuck.
const STUCK: SignedDuration = SignedDuration::from_mins(25);

pub async fn find(client: &azure::Client, place: &Place) -> Result<Option<VirtualMachine>, azure::Error> {
    client.arm::<VirtualMachines>().find(&place.vm).await
}

fn state(vm: &VirtualMachine) -> Option<ProvisioningState> {
    vm.properties.as_ref().and_then(|p| p.provisioning_state.clone())
}

fn read<T: DeserializeOwned>(body: Value) -> Result<T, Trouble> {
    serde_json::from_value(body).map_err(|e| Trouble::new(Kind::Invalid, e.to_string()))
}

/// Operations, to look at them again: by whoever comes after a restart, and before the watch has caught up.
impl AzureMachines {
    pub(super) fn remember(&self, scope: &Scope, verb: &str, lro: &Lro) -> Value {
        self.0.operations.lock().insert(slot(scope, verb), lro.clone());
        let data = STANDARD.encode(serde_json::to_vec(lro).unwrap_or_default());
        let place = &scope.place;
        json!({"type": verb, "serviceName": "virtualmachine", "name": place.vm.name(),
            "resourceGroup": place.group.name(), "data": data})
    }

    pub(super) fn recall(&self, scope: &Scope, verb: &str) -> Option<Lro> {
        if let Some(lro) = self.0.operations.lock().get(&slot(scope, verb)) {
            return Some(lro.clone());
        }
        let all = scope.seen.data["status"]["longRunningOperationStates"].as_array()?;
        let op = all.iter().find(|o| o["type"] == verb)?;
        serde_json::from_slice(&STANDARD.decode(op["data"].as_str()?).ok()?).ok()
    }

    pub(super) fn over(&self, scope: &Scope, verb: &str) {
        self.0.operations.lock().remove(&slot(scope, verb));
    }
}

fn slot(scope: &Scope, verb: &str) -> String {
    format!("{verb} {}", scope.seen.metadata.uid.as_deref().unwrap_or_default())
}

/// When to look at an operation again: as Azure says, but never more often than a twentieth of what it has taken so
/// far. Whoever waits for long learns of the end a little late, and many who wait do not take all processors.
pub(super) fn pause(
    client: &azure::Client,
    look: Option<std::time::Duration>,
    taken: SignedDuration,
) -> SignedDuration {
    let most = SignedDuration::from_secs(30);
    let said = SignedDuration::try_from(look.unwrap_or_else(|| client.poll_default())).unwrap_or(most);
    said.max((taken / 20).min(most))
}

impl AzureMachines {
    pub(super) async fn make(&self, scope: &Scope) -> Came {
        match Box::pin(self.try_make(scope)).await {
            Ok(came) => came,
            Err(t) => Came::Troubled(t),
        }
    }

    fn creating(
        &self,
        scope: &Scope,
        client: &azure::Client,
        operation: Option<Value>,
        look: Option<std::time::Duration>,
    ) -> Came {
        let since = crate::operate::views::created(&scope.seen);
        let long = self.0.clock.now().duration_since(since);
        let message = match long > STUCK {
            true => format!(
                "Azure has been making {} for {long:#}, which is unusual: see its activity log (az monitor activity-log list --resource-id {}); a health check replaces it after its nodeStartupTimeout, or delete the Machine",
                scope.place.vm.name(),
                scope.place.vm
            ),
            false => format!(
                "Azure is making {}, which is done when it has booted with its Ignition config; if this lasts: does it reach the ignition endpoint (DNS, NSG), and is its token still good? {}",
                scope.place.vm,
                body::console(&scope.seen.data["spec"]["diagnostics"]["boot"])
            ),
        };
        Came::Working { reason: "Creating", message, operation, again: pause(client, look, long) }
    }

    async fn try_make(&self, scope: &Scope) -> Result<Came, Trouble> {
        if scope.azure.data["status"]["ready"] != true {
            let message = format!("AzureCluster {} is not ready", crate::operate::views::name(&scope.azure));
            return Ok(Came::Waits("WaitingForClusterInfrastructure", message));
        }
        let client = self.client(&scope.azure).await?;
        let of = |e: azure::Error| Trouble::of(&e);
        // Begun earlier, by us or by whoever was here before a restart.
        if let Some(lro) = self.recall(scope, "PUT") {
            let mut op: Operation<VirtualMachine> = client.arm::<VirtualMachines>().resume(lro.clone());
            if !op.poll().await.map_err(of)? {
                let token = self.remember(scope, "PUT", op.token());
                return Ok(self.creating(scope, &client, Some(token), op.next_look()));
            }
            let vm = match op.wait().await.map_err(of) {
                // Operations are forgotten after a day, and whoever may not ask about one for a moment has not heard
                // its end: what is there counts.
                Err(t) if t.terminal => match find(&client, &scope.place).await.map_err(of)? {
                    Some(vm) if state(&vm) == Some(ProvisioningState::Succeeded) => vm,
                    // It is asked about again, because nobody else tells the cause if it does fail.
                    Some(vm) if matches!(state(&vm), Some(ProvisioningState::Running(_))) => {
                        let token = self.remember(scope, "PUT", &lro);
                        return Ok(self.creating(scope, &client, Some(token), None));
                    }
                    _ => {
                        self.over(scope, "PUT");
                        return Err(t);
                    }
                },
                other => other?,
            };
            self.over(scope, "PUT");
            return self.finish(scope, &client, &vm).await;
        }
        match find(&client, &scope.place).await.map_err(of)? {
            Some(vm) => self.found(scope, &client, &vm).await,
            None => self.begin(scope, &client).await,
        }
    }

    /// There is one: made by a process that died, or by another provider before us.
    async fn found(
        &self,
        scope: &Scope,
        client: &azure::Client,
        vm: &VirtualMachine,
    ) -> Result<Came, Trouble> {
        if !scope.place.is_ours(vm.tags.as_ref()) {
            let message =
                format!("a virtual machine {} exists and does not belong to this cluster", scope.place.vm);
            return Err(Trouble::new(Kind::Taken, message));
        }
        match state(vm) {
            Some(ProvisioningState::Running(_)) => Ok(self.creating(scope, client, None, None)),
            Some(ProvisioningState::Failed | ProvisioningState::Canceled) => {
                let view =
                    client.arm::<VirtualMachines>().instance_view(&scope.place.vm).await.unwrap_or_default();
                let said = view.statuses.iter().flatten().filter(|s| s.level.as_deref() == Some("Error"));
                let said: Vec<String> = said
                    .map(|s| {
                        let code = s
                            .code
                            .as_deref()
                            .unwrap_or_default()
                            .trim_start_matches("ProvisioningState/failed/");
                        format!("{code}: {}", s.message.as_deref().unwrap_or_default())
                    })
                    .collect();
                let kind = if said.iter().any(|s| s.contains("AllocationFailed")) {
                    Kind::Allocation
                } else {
                    Kind::Provisioning
                };
                let text = if said.is_empty() {
                    "the virtual machine is in state Failed".to_owned()
                } else {
                    said.join("; ")
                };
                let mut t = Trouble::new(kind, text);
                t.terminal = true;
                Err(t)
            }
            Some(ProvisioningState::Succeeded) | None => self.finish(scope, client, vm).await,
        }
    }

    async fn begin(&self, scope: &Scope, client: &azure::Client) -> Result<Came, Trouble> {
        let (place, spec) = (&scope.place, &scope.spec);
        let of = |e: azure::Error| Trouble::of(&e);
        let boot = match self.boot(scope).await? {
            Ok(boot) => boot,
            Err(came) => return Ok(came),
        };
        let now = self.0.clock.now();
        let offer = self.0.offers.check(client, place, spec, scope.has_zones, now).await?;
        // Before the first call: what cannot be a machine leaves no interface behind.
        let machine = body::machine(place, spec, &offer.standing, &boot)?;
        if offer.standing == Standing::Set {
            let set = read(body::availability_set(place, 2))?;
            client.arm::<AvailabilitySets>().put(&place.set, &set).await.map_err(of)?;
        }
        let nics = client.arm::<NetworkInterfaces>();
        for (i, (id, _)) in place.interfaces.iter().enumerate() {
            let there = nics.find(id).await.map_err(of)?;
            match there {
                Some(nic) if !place.is_ours(nic.tags.as_ref()) => {
                    let message =
                        format!("a network interface {id} exists and does not belong to this cluster");
                    return Err(Trouble::new(Kind::Taken, message));
                }
                // An interface that is as it should be is not written again; only its being there counts.
                Some(nic)
                    if nic.properties.as_ref().and_then(|p| p.provisioning_state.clone())
                        == Some(ProvisioningState::Succeeded) => {}
                _ => {
                    let nic: NetworkInterface = read(body::interface(place, i, spec, offer.accelerated))?;
                    nics.put(id, &nic).await.map_err(of)?;
                }
            }
        }
        let body: VirtualMachine = read(machine)?;
        let op = client
            .arm::<VirtualMachines>()
            .begin_put(&place.vm, &body, &Condition::Always)
            .await
            .map_err(of)?;
        if op.is_done() {
            let vm = op.wait().await.map_err(of)?;
            return self.finish(scope, client, &vm).await;
        }
        let token = self.remember(scope, "PUT", op.token());
        Ok(self.creating(scope, client, Some(token), op.next_look()))
    }

    /// What it boots with, or why that is not there yet.
    async fn boot(&self, scope: &Scope) -> Result<Result<Vec<u8>, Came>, Trouble> {
        let machine = scope.machine.as_ref();
        let name = machine.and_then(|m| m.data["spec"]["bootstrap"]["dataSecretName"].as_str());
        let Some(name) = name.filter(|n| !n.is_empty()) else {
            return Ok(Err(Came::Waits(
                "WaitingForBootstrapData",
                "the Machine names no Secret to boot with yet".into(),
            )));
        };
        let ns = namespace(&scope.seen);
        let secrets: Api<Secret> = Api::namespaced(self.0.applier.client().clone(), ns);
        let key = format!("{ns}/{}", crate::operate::views::name(&scope.seen));
        // Before the look: what comes after it is told.
        self.0.boots.wait((ns.to_owned(), name.to_owned()), key);
        let found = secrets.get_opt(name).await;
        let found = found
            .map_err(|e| Trouble::new(Kind::Bootstrap, format!("cannot read Secret {ns}/{name}: {e}")))?;
        let Some(secret) = found else {
            return Ok(Err(Came::Waits(
                "WaitingForBootstrapData",
                format!("there is no Secret {ns}/{name} to boot with"),
            )));
        };
        self.0.boots.come(&(ns.to_owned(), name.to_owned()));
        match secret.data.and_then(|mut d| d.remove("value")).filter(|v| !v.0.is_empty()) {
            Some(value) => Ok(Ok(value.0)),
            None => Err(Trouble::new(Kind::Bootstrap, format!("Secret {ns}/{name} has no key value"))),
        }
    }

    /// It runs: says where, and what it is called.
    async fn finish(
        &self,
        scope: &Scope,
        client: &azure::Client,
        vm: &VirtualMachine,
    ) -> Result<Came, Trouble> {
        let place = &scope.place;
        let id = vm.id.clone().unwrap_or_else(|| place.vm.clone());
        let mut fresh = None;
        if scope.spec.provider_id.is_none() {
            // As Azure names it: nodes carry that spelling.
            let id = format!("azure://{}", canonical(&id, place));
            let kind = kinds::AZURE_MACHINE;
            match self.0.change(&kind, &scope.seen, |o| o["spec"]["providerID"] = json!(id)).await {
                Ok(Changed::Overtaken) => return Ok(self.creating(scope, client, None, None)),
                Ok(Changed::Written(live)) => fresh = Some(live),
                Ok(Changed::Same) => {}
                Err(e) => return Err(Trouble::new(Kind::Other, reconcile::chain(&e).to_string())),
            }
        }
        let mut addresses = vec![json!({"type": "InternalDNS", "address": place.vm.name()})];
        for (nic, _) in &place.interfaces {
            let nic = client.arm::<NetworkInterfaces>().get(nic).await.map_err(|e| Trouble::of(&e))?;
            let configs = nic.properties.and_then(|p| p.ip_configurations).unwrap_or_default();
            let ips = configs.into_iter().filter_map(|c| c.properties?.private_ip_address);
            addresses.extend(ips.map(|ip| json!({"type": "InternalIP", "address": ip})));
        }
        Ok(Came::Ready { addresses: json!(addresses), fresh })
    }
}

/// The id under the name that we gave, whatever casing an answer has.
fn canonical(id: &ResourceId, place: &Place) -> String {
    if id == &place.vm { place.vm.to_string() } else { id.to_string() }
}
