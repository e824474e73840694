//! Whether Azure would give a pool the machines that it asks for, before the first of them is asked for.
//!
//! ```text
//! size, zone, abilities ─ sold? ──┐
//! processors used, limit ─ left? ─┼─> how many the pool may have, whether it may roll, and why not
//! what other pools were just given ┘
//! ```
//!
//! Whoever makes machines has an identity that usually may not list sizes or usages; Azure would refuse the machine after
//! its network interface was made. The operator's own account may look, so the pool is held here: it has as many machines
//! as fit, and one condition says what is lacking. Only a pool that wants more than it has asks, one list of usages
//! serves a region for [`FRESH`], and a pool that was held asks again after [`AGAIN`]. Who may not look holds nobody:
//! then Azure judges.
//!
//! Rejected: a reader's credential beside the one that makes machines (every control plane's namespace would have it), and
//! holding single machines (what is not made needs no name, no token and no place in a queue).

use crate::nodepool::template;
use crate::preflight::Preflight;
use apis::hypershift::node_pool::Arch;
use apis::hypershift::node_pool_azure::{AzureNodePool, DiskPersistence, EncryptionAtHost, ImageGeneration};
use arm::offer::{self, Lack, Promised, Quota, Size, Wants};
use arm::types::Usage;
use jiff::{SignedDuration, Timestamp};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;

/// How long a list of usages is good.
const FRESH: SignedDuration = SignedDuration::from_secs(20);
/// When a pool that was held asks again.
pub const AGAIN: SignedDuration = SignedDuration::from_secs(30);
/// After usages could not be read.
const UNREAD: SignedDuration = SignedDuration::from_mins(5);
/// Machines that were promised are asked for within this long; then Azure counts them itself.
const SETTLED: SignedDuration = SignedDuration::from_secs(15);

/// Reasons, as Machines have them too.
pub const QUOTA: &str = "QuotaExceeded";
pub const SIZE: &str = "SizeNotAvailable";
pub const ZONE: &str = "SizeNotInZone";

/// What a pool asks for.
#[derive(Clone, Copy, Debug)]
pub struct Ask<'a> {
    pub azure: &'a AzureNodePool,
    pub arch: Arch,
    pub location: &'a str,
    /// How many machines it was given.
    pub have: u32,
    pub wanted: u32,
    /// How many an autoscaler may make of it.
    pub most: u32,
    /// Its machines are to be replaced.
    pub rolls: bool,
    /// There is one more of them meanwhile.
    pub surges: bool,
}

impl Ask<'_> {
    /// Whether Azure has to be asked at all.
    pub fn needs(&self) -> bool {
        self.wanted > self.have || self.most > self.have || self.rolls
    }
}

/// What is lacking.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Short {
    pub reason: &'static str,
    pub message: String,
    /// Machines that were asked for and are not made; otherwise a roll is not begun.
    pub grows: bool,
}

/// What a pool is given.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Room {
    /// As many machines at most; nothing: as many as it likes.
    pub grant: Option<u32>,
    /// As many an autoscaler may make at most, if that is fewer than the pool says.
    pub most: Option<u32>,
    /// A roll is not begun.
    pub holds: bool,
    pub short: Option<Short>,
}

fn wants(azure: &AzureNodePool, arch: Arch) -> (Wants<'_>, String) {
    let disk = serde_json::to_value(azure.os_disk.disk_storage_account_type.unwrap_or_default());
    let disk = disk.ok().and_then(|d| d.as_str().map(str::to_owned)).unwrap_or_default();
    let wants = Wants {
        zone: azure.availability_zone.as_deref(),
        ephemeral: azure.os_disk.persistence == Some(DiskPersistence::Ephemeral),
        encrypts: azure.encryption_at_host == EncryptionAtHost::Enabled,
        disk: None,
        arm: Some(arch == Arch::Arm64),
        // Of what generation an image of the user's is, only Azure knows.
        generation: template::released(azure).map(|generation| match generation {
            ImageGeneration::Gen1 => "V1",
            ImageGeneration::Gen2 => "V2",
        }),
    };
    (wants, disk)
}

/// What a size lacks for this pool, with the field and the way out.
fn lack(size: Option<&Size>, ask: &Ask<'_>) -> Option<(&'static str, String)> {
    let (wants, disk) = wants(ask.azure, ask.arch);
    let wants = Wants { disk: Some(&disk), ..wants };
    let (name, location) = (&ask.azure.vm_size, ask.location);
    Some(match offer::lack(size, name, &wants, location)? {
        Lack::Size(why) => (
            SIZE,
            format!(
                "spec.platform.azure.vmSize: {why}. What to do: choose a size that can, and that this region sells to the subscription (az vm list-skus -l {location} --size {name})"
            ),
        ),
        Lack::Zone(why) => (
            ZONE,
            format!(
                "spec.platform.azure.availabilityZone: {why}. What to do: choose another availabilityZone or another vmSize (az vm list-skus -l {location} --zone)"
            ),
        ),
    })
}

/// What a pool is given of what there is. `size`: as sold, if it is; `quota`: the one that ends first, if it is known.
pub fn plan(ask: &Ask<'_>, size: Option<&Size>, quota: Option<&Quota>) -> Room {
    let grows = ask.wanted > ask.have;
    if let Some((reason, message)) = lack(size, ask) {
        let told = grows || ask.rolls;
        return Room {
            grant: Some(ask.have),
            most: Some(ask.have),
            holds: ask.rolls,
            short: told.then_some(Short { reason, message, grows }),
        };
    }
    let (Some(size), Some(quota)) = (size, quota) else { return Room::default() };
    let fits = quota.left().max(0) / i64::from(size.cpus.max(1));
    let reach = ask.have.saturating_add(u32::try_from(fits).unwrap_or(u32::MAX));
    let (lacks, holds) = (ask.wanted > reach, ask.rolls && ask.surges && fits < 1);
    let quota_text = format!(
        "in {} the subscription uses {} vCPUs of {}, {} are promised to machines that are being made, and the limit is {}",
        ask.location, quota.used, quota.name, quota.promised, quota.limit
    );
    let fix = format!(
        "ask for more vCPUs of this family (az vm list-usage -l {}, then the Quotas page of the portal), or choose a smaller size or another family in spec.platform.azure.vmSize",
        ask.location
    );
    let short = match (lacks, holds) {
        (true, _) => Some(format!(
            "spec.replicas: {} of {} machines of size {} ({} vCPUs each) can be had; {quota_text}. What to do: {fix}",
            reach, ask.wanted, size.name, size.cpus
        )),
        (false, true) => Some(format!(
            "machines are not replaced: one more of size {} needs {} vCPUs meanwhile; {quota_text}. What to do: {fix}, or set spec.management.replace.rollingUpdate to maxSurge 0 and maxUnavailable 1",
            size.name, size.cpus
        )),
        (false, false) => None,
    };
    Room {
        grant: Some(reach),
        most: (reach < ask.most).then_some(reach),
        holds,
        short: short.map(|message| Short { reason: QUOTA, message, grows: lacks }),
    }
}

/// Machines that a pool was given and Azure may not count yet.
struct Promise {
    family: String,
    cpus: u32,
    /// How many it had before.
    base: u32,
    upto: u32,
    at: Timestamp,
}

#[derive(Default)]
struct Region {
    usages: Option<Vec<Usage>>,
    until: Option<Timestamp>,
    promises: HashMap<String, Promise>,
}

impl Region {
    fn promised(&self, pool: &str, have: u32, family: &str) -> Promised {
        self.promises.iter().fold(Promised::default(), |mut sum, (who, p)| {
            // Of its own, those that it already counts among what it has.
            let upto = if who == pool { p.upto.min(have) } else { p.upto };
            let cpus = upto.saturating_sub(p.base).saturating_mul(p.cpus);
            sum.all += cpus;
            sum.family += if p.family == family { cpus } else { 0 };
            sum
        })
    }

    fn promise(&mut self, pool: &str, have: u32, upto: u32, size: &Size, now: Timestamp) {
        let base = self.promises.get(pool).map_or(have, |p| p.base.min(have));
        let promise = Promise { family: size.family.clone(), cpus: size.cpus, base, upto, at: now };
        self.promises.insert(pool.to_owned(), promise);
    }
}

/// Usages by subscription and location.
#[derive(Default)]
pub struct Rooms(Mutex<HashMap<(String, String), Arc<futures::lock::Mutex<Region>>>>);

impl Rooms {
    /// What a pool is given, and written down as given.
    pub async fn ask(
        &self,
        azure: &dyn Preflight,
        subscription: &str,
        pool: &str,
        ask: &Ask<'_>,
        size: Option<&Size>,
        now: Timestamp,
    ) -> Room {
        let Some(sold) = size.filter(|s| lack(Some(s), ask).is_none()) else { return plan(ask, size, None) };
        let location = ask.location.replace(' ', "").to_lowercase();
        let region = self.0.lock().entry((subscription.to_owned(), location.clone())).or_default().clone();
        // Who comes while it is asked waits for the same answer, and is given what is left after the one before.
        let mut region = region.lock().await;
        if region.until.is_none_or(|until| now >= until) {
            let wait = match azure.usages(subscription, &location).await {
                Ok(all) => {
                    region.usages = Some(all);
                    FRESH
                }
                Err(why) => {
                    tracing::debug!(subscription, location, why, "quotas are not known; Azure judges");
                    region.usages = None;
                    UNREAD
                }
            };
            region.until = Some(now.checked_add(wait).unwrap_or(Timestamp::MAX));
            region.promises.retain(|_, p| now.duration_since(p.at) < SETTLED);
        }
        let promised = region.promised(pool, ask.have, &sold.family);
        let quota = region.usages.as_ref().and_then(|all| offer::tightest(sold, false, all, promised));
        let room = plan(ask, size, quota.as_ref());
        let given = room.grant.map_or(ask.wanted, |most| ask.wanted.min(most));
        if given > ask.have {
            region.promise(pool, ask.have, given, sold, now);
        }
        room
    }
}

#[cfg(test)]
#[path = "room_tests.rs"]
mod tests;
