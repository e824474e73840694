//! Whether a machine can be had before Azure is asked to make it: size, zone, abilities, quota.
//!
//! Azure would refuse most of this itself, but after the network interface was made, in words about one machine, and for
//! quotas only when the last processor is gone. Asking first costs two reads per region and minute, whatever the number
//! of machines.

use super::body::Standing;
use super::trouble::{Kind, Trouble};
use apis::capz::azure_machine::AzureMachineSpec;
use arm::types::{ComputeSku, Usage};

/// What a region sells as one size.
#[derive(Clone, Debug, PartialEq)]
pub struct Size {
    pub name: String,
    pub family: String,
    pub cpus: u32,
    pub accelerated: bool,
    pub zones: Vec<String>,
    /// Why the subscription cannot have it here, if so.
    restricted: Option<String>,
    ephemeral: bool,
    encrypts: bool,
    premium: bool,
}

impl Size {
    /// From the list of SKUs; nothing for what is no size of a machine.
    pub fn read(sku: &ComputeSku, location: &str) -> Option<Size> {
        if sku.resource_type.as_deref() != Some("virtualMachines") {
            return None;
        }
        let yes = |c: &str| sku.capability(c).is_some_and(|v| v.eq_ignore_ascii_case("true"));
        let here = sku.location_info.iter().flatten();
        let here = here.filter(|l| l.location.as_deref().is_some_and(|x| x.eq_ignore_ascii_case(location)));
        let mut zones: Vec<String> = here.flat_map(|l| l.zones.clone().unwrap_or_default()).collect();
        let mut restricted = None;
        for r in sku.restrictions.iter().flatten() {
            match r.kind.as_deref() {
                Some("Zone") => {
                    let info = r.other.get("restrictionInfo").and_then(|i| i["zones"].as_array());
                    let gone: Vec<&str> = info.into_iter().flatten().filter_map(|z| z.as_str()).collect();
                    zones.retain(|z| !gone.contains(&z.as_str()));
                }
                _ => restricted = Some(r.reason_code.clone().unwrap_or_else(|| "restricted".into())),
            }
        }
        zones.sort();
        Some(Size {
            name: sku.name.clone()?,
            family: sku.family.clone().unwrap_or_default(),
            cpus: sku.capability("vCPUs").and_then(|v| v.parse().ok()).unwrap_or(0),
            accelerated: yes("AcceleratedNetworkingEnabled"),
            zones,
            restricted,
            ephemeral: yes("EphemeralOSDiskSupported"),
            encrypts: yes("EncryptionAtHostSupported"),
            premium: yes("PremiumIO"),
        })
    }
}

/// Whether this size can be the machine that is asked for; where it will stand.
pub fn check(
    size: Option<&Size>,
    spec: &AzureMachineSpec,
    location: &str,
    cluster_has_zones: bool,
) -> Result<Standing, Trouble> {
    let name = &spec.vm_size;
    let no = |kind, message: String| Err(Trouble::new(kind, message));
    let Some(size) = size else {
        return no(Kind::Size, format!("there is no size {name} in {location}"));
    };
    if let Some(why) = &size.restricted {
        return no(Kind::Size, format!("the subscription cannot have {name} in {location}: {why}"));
    }
    if spec.os_disk.diff_disk_settings.is_some() && !size.ephemeral {
        return no(
            Kind::Size,
            format!("{name} cannot boot from an ephemeral disk (osDisk.persistence: Ephemeral)"),
        );
    }
    let security = spec.security_profile.as_ref();
    if security.and_then(|s| s.encryption_at_host).unwrap_or(false) && !size.encrypts {
        return no(Kind::Size, format!("{name} cannot encrypt at host (encryptionAtHost: Enabled)"));
    }
    let premium = |k: &str| k.starts_with("Premium") || k.starts_with("UltraSSD");
    let disk = spec.os_disk.managed_disk.as_ref().and_then(|d| d.storage_account_type.as_deref());
    if disk.is_some_and(premium) && !size.premium {
        return no(Kind::Size, format!("{name} cannot have disks of type {}", disk.unwrap_or_default()));
    }
    match spec.failure_domain.as_deref().filter(|z| !z.is_empty()) {
        Some(zone) if size.zones.iter().any(|z| z == zone) => Ok(Standing::Zone(zone.to_owned())),
        Some(zone) => {
            let has = match size.zones.is_empty() {
                true => format!("{name} has no zones in {location}"),
                false => format!("{name} is in zones {} of {location}", size.zones.join(", ")),
            };
            no(Kind::Zone, format!("zone {zone} was asked for, and {has}"))
        }
        // Spot machines and reserved capacity go without a set; so does everything where zones could be had.
        None if spec.spot_vm_options.is_some() || cluster_has_zones || !size.zones.is_empty() => {
            Ok(Standing::Anywhere)
        }
        None => Ok(Standing::Set),
    }
}

/// Processors of machines that are being made and that Azure does not count yet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Promised {
    pub all: u32,
    /// Of the size's family.
    pub family: u32,
}

/// Whether the subscription may have so many more processors of a size.
pub fn within_quota(
    size: &Size,
    spot: bool,
    usages: &[Usage],
    promised: Promised,
    location: &str,
) -> Result<(), Trouble> {
    let names: &[&str] = if spot { &["lowPriorityCores"] } else { &["cores", &size.family] };
    for wanted in names {
        let named = |u: &&Usage| {
            let name = u.name.as_ref().and_then(|n| n.value.as_deref());
            name.is_some_and(|n| n.eq_ignore_ascii_case(wanted))
        };
        let Some(u) = usages.iter().find(named) else { continue };
        let (used, limit) = (u.current_value.unwrap_or(0), u.limit.unwrap_or(i64::MAX));
        let promised = if *wanted == size.family { promised.family } else { promised.all };
        let needed = i64::from(promised) + i64::from(size.cpus);
        if used.saturating_add(needed) > limit {
            let what = u.name.as_ref().and_then(|n| n.localized_value.as_deref()).unwrap_or(wanted);
            return Err(Trouble::new(
                Kind::Quota,
                format!(
                    "one more {} needs {} vCPUs in {location}; of {what} the subscription uses {used}, {promised} are promised to machines that are being made, and the limit is {limit}",
                    size.name, size.cpus
                ),
            ));
        }
    }
    Ok(())
}

#[cfg(test)]
#[path = "offer_tests.rs"]
mod tests;
