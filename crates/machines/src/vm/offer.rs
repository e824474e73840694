//! Whether a machine can be had before Azure is asked to make it: size, zone, abilities, quota.
//!
//! Azure would refuse most of this itself, but after the network interface was made, in words about one machine, and for
//! quotas only when the last processor is gone. Asking first costs two reads per region and minute, whatever the number
//! of machines.

use super::body::Standing;
use super::trouble::{Kind, Trouble};
use apis::capz::azure_machine::AzureMachineSpec;
use arm::offer::{Lack, Wants, lack, tightest};
use arm::types::Usage;

pub use arm::offer::{Promised, Size};

/// Whether this size can be the machine that is asked for; where it will stand.
pub fn check(
    size: Option<&Size>,
    spec: &AzureMachineSpec,
    location: &str,
    cluster_has_zones: bool,
) -> Result<Standing, Trouble> {
    let security = spec.security_profile.as_ref();
    let zone = spec.failure_domain.as_deref().filter(|z| !z.is_empty());
    let wants = Wants {
        zone,
        ephemeral: spec.os_disk.diff_disk_settings.is_some(),
        encrypts: security.and_then(|s| s.encryption_at_host).unwrap_or(false),
        disk: spec.os_disk.managed_disk.as_ref().and_then(|d| d.storage_account_type.as_deref()),
        // An AzureMachine does not say what its image is for.
        ..Wants::default()
    };
    match lack(size, &spec.vm_size, &wants, location) {
        Some(Lack::Size(why)) => return Err(Trouble::new(Kind::Size, why)),
        Some(Lack::Zone(why)) => return Err(Trouble::new(Kind::Zone, why)),
        None => {}
    }
    let zoned = size.is_some_and(|s| !s.zones.is_empty());
    Ok(match zone {
        Some(zone) => Standing::Zone(zone.to_owned()),
        // Spot machines and reserved capacity go without a set; so does everything where zones could be had.
        None if spec.spot_vm_options.is_some() || cluster_has_zones || zoned => Standing::Anywhere,
        None => Standing::Set,
    })
}

/// Whether the subscription may have so many more processors of a size.
pub fn within_quota(
    size: &Size,
    spot: bool,
    usages: &[Usage],
    promised: Promised,
    location: &str,
) -> Result<(), Trouble> {
    match tightest(size, spot, usages, promised) {
        Some(q) if q.left() < i64::from(size.cpus) => Err(Trouble::new(
            Kind::Quota,
            format!(
                "one more {} needs {} vCPUs in {location}; of {} the subscription uses {}, {} are promised to machines that are being made, and the limit is {}",
                size.name, size.cpus, q.name, q.used, q.promised, q.limit
            ),
        )),
        _ => Ok(()),
    }
}

#[cfg(test)]
#[path = "offer_tests.rs"]
mod tests;
