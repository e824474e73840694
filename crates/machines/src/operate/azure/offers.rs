//! What regions sell, and what is in resource groups: asked once, for all machines.

use crate::text::after;
use crate::vm::body::Standing;
use crate::vm::offer::{self, Promised, Size};
use crate::vm::{Place, Trouble, trouble};
use apis::capz::azure_machine::AzureMachineSpec;
use arm::types::Usage;
use arm::{ProvisioningState, ResourceId};
use azure::ops::VirtualMachines;
use futures::TryStreamExt;
use jiff::{SignedDuration, Timestamp};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;

/// How long a list of sizes is good; what a region sells changes rarely.
const SIZES: SignedDuration = SignedDuration::from_hours(1);
/// A size that is not in the list is looked for again after this.
const MISSED: SignedDuration = SignedDuration::from_mins(1);
/// How long usages are good. What was promised since they were read is counted beside them.
const USAGES: SignedDuration = SignedDuration::from_secs(20);

#[derive(Default)]
struct Region {
    sizes: HashMap<String, Size>,
    sizes_at: Option<Timestamp>,
    usages: Vec<Usage>,
    usages_at: Option<Timestamp>,
    /// Machine by family and processors.
    promised: HashMap<Arc<str>, (String, u32)>,
}

fn old(at: Option<Timestamp>, by: SignedDuration, now: Timestamp) -> bool {
    at.is_none_or(|at| now >= after(at, by))
}

/// What the identity may not read is not checked: Azure will say what it thinks when the machine is made.
fn unread(e: &azure::Error) -> bool {
    trouble::Trouble::of(e).kind == trouble::Kind::Denied
}

/// Regions by subscription and name.
#[derive(Default)]
pub struct Offers(Mutex<HashMap<(String, String), Arc<tokio::sync::Mutex<Region>>>>);

/// What was found out about a machine that can be had.
#[derive(Clone, Debug)]
pub struct Offer {
    pub standing: Standing,
    pub accelerated: bool,
}

impl Offers {
    /// Whether a machine can be had, before anything of it is made.
    pub async fn check(
        &self,
        client: &azure::Client,
        place: &Place,
        spec: &AzureMachineSpec,
        cluster_has_zones: bool,
        now: Timestamp,
    ) -> Result<Offer, Trouble> {
        let key = (place.subscription().to_owned(), place.location.to_lowercase());
        let region = self.0.lock().entry(key).or_default().clone();
        let mut region = region.lock().await;
        let wanted = spec.vm_size.to_lowercase();
        let missed = !region.sizes.contains_key(&wanted) && old(region.sizes_at, MISSED, now);
        if old(region.sizes_at, SIZES, now) || missed {
            let all: Result<Vec<_>, _> =
                client.compute_skus(place.subscription(), &place.location).try_collect().await;
            match all {
                Ok(all) => {
                    let sizes = all.iter().filter_map(|s| Size::read(s, &place.location));
                    region.sizes = sizes.map(|s| (s.name.to_lowercase(), s)).collect();
                    region.sizes_at = Some(now);
                }
                Err(e) if unread(&e) => {
                    let standing = spec.failure_domain.clone().map_or(Standing::Anywhere, Standing::Zone);
                    return Ok(Offer { standing, accelerated: false });
                }
                Err(e) => return Err(Trouble::of(&e)),
            }
        }
        let size = region.sizes.get(&wanted).cloned();
        let standing = offer::check(size.as_ref(), spec, &place.location, cluster_has_zones)?;
        let Some(size) = size else { return Ok(Offer { standing, accelerated: false }) };
        if old(region.usages_at, USAGES, now) {
            let all: Result<Vec<_>, _> =
                client.compute_usages(place.subscription(), &place.location).try_collect().await;
            match all {
                Ok(all) => {
                    (region.usages, region.usages_at) = (all, Some(now));
                    region.promised.clear();
                }
                Err(e) if unread(&e) => (region.usages, region.usages_at) = (Vec::new(), Some(now)),
                Err(e) => return Err(Trouble::of(&e)),
            }
        }
        let others = region.promised.iter().filter(|(id, _)| *id != place.vm.key()).map(|(_, p)| p);
        let promised = others.fold(Promised::default(), |mut p, (family, cpus)| {
            p.all += cpus;
            p.family += if *family == size.family { *cpus } else { 0 };
            p
        });
        offer::within_quota(
            &size,
            spec.spot_vm_options.is_some(),
            &region.usages,
            promised,
            &place.location,
        )?;
        region.promised.insert(place.vm.key().clone(), (size.family.clone(), size.cpus));
        Ok(Offer { standing, accelerated: size.accelerated })
    }
}

/// Machines of a resource group, by lower-case name, and their states.
#[derive(Default)]
struct Group {
    at: Option<Timestamp>,
    machines: HashMap<String, String>,
}

/// What is in resource groups: one list for all machines of a group.
#[derive(Default)]
pub struct Census(Mutex<HashMap<Arc<str>, Arc<tokio::sync::Mutex<Group>>>>);

impl Census {
    /// The state of a machine as a list says that is not older than `at_most`; nothing if it is not in the list.
    pub async fn state(
        &self,
        client: &azure::Client,
        group: &ResourceId,
        name: &str,
        at_most: SignedDuration,
        now: Timestamp,
    ) -> Result<Option<String>, azure::Error> {
        let slot = self.0.lock().entry(group.key().clone()).or_default().clone();
        let mut slot = slot.lock().await;
        if old(slot.at, at_most, now) {
            let all = match client.arm::<VirtualMachines>().list_all(group).await {
                Ok(all) => all,
                // The whole group is gone.
                Err(e) if e.is_not_found() => Vec::new(),
                Err(e) => return Err(e),
            };
            let state = |vm: &arm::types::VirtualMachine| {
                let state = vm.properties.as_ref().and_then(|p| p.provisioning_state.as_ref());
                state.map_or("Succeeded", ProvisioningState::as_str).to_owned()
            };
            slot.machines =
                all.iter().filter_map(|vm| Some((vm.name.as_deref()?.to_lowercase(), state(vm)))).collect();
            slot.at = Some(now);
        }
        Ok(slot.machines.get(&name.to_lowercase()).cloned())
    }
}
