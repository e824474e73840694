//! Whether a machine can be had: what a region sells as a size, and how many processors a subscription has left.
//!
//! Two ask this, whoever wants machines and whoever makes them, with different accounts and different words to users; what
//! Azure's lists mean is the same for both. Pure: lists come from the client.

use crate::types::{ComputeSku, Usage};

/// What a region sells as one size.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Size {
    pub name: String,
    pub family: String,
    pub cpus: u32,
    pub accelerated: bool,
    pub zones: Vec<String>,
    /// Why the subscription cannot have it here, if so.
    pub restricted: Option<String>,
    pub ephemeral: bool,
    pub encrypts: bool,
    pub premium: bool,
    /// Whether its processors are Arm64; `None`: the list does not say.
    pub arm: Option<bool>,
    /// Generations of Hyper-V machines that it can be, as `V1` and `V2`; empty: the list does not say.
    pub generations: Vec<String>,
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
            arm: sku.capability("CpuArchitectureType").map(|a| a.eq_ignore_ascii_case("Arm64")),
            generations: sku
                .capability("HyperVGenerations")
                .map(|all| all.split(',').map(|g| g.trim().to_owned()).collect())
                .unwrap_or_default(),
        })
    }
}

/// What is asked of a size beside its processors.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Wants<'a> {
    pub zone: Option<&'a str>,
    /// Boots from a disk of its host.
    pub ephemeral: bool,
    /// Encrypts at host.
    pub encrypts: bool,
    /// Type of its disk.
    pub disk: Option<&'a str>,
    /// Whether what it runs is for Arm64, if that is known.
    pub arm: Option<bool>,
    /// Generation of its image, `V1` or `V2`, if that is known.
    pub generation: Option<&'a str>,
}

/// Why a size will not do. The text has no way out in it: that is for whoever knows who asks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Lack {
    /// It is not sold, or cannot do what is asked of it.
    Size(String),
    /// It is not in this zone.
    Zone(String),
}

/// Whether this size can be a machine as it is wanted; `None`: it can.
pub fn lack(size: Option<&Size>, name: &str, wants: &Wants<'_>, location: &str) -> Option<Lack> {
    let Some(size) = size else {
        return Some(Lack::Size(format!("there is no size {name} in {location}")));
    };
    if let Some(why) = &size.restricted {
        return Some(Lack::Size(format!("the subscription cannot have {name} in {location}: {why}")));
    }
    if wants.ephemeral && !size.ephemeral {
        let text = format!("{name} cannot boot from an ephemeral disk (osDisk.persistence: Ephemeral)");
        return Some(Lack::Size(text));
    }
    if wants.encrypts && !size.encrypts {
        return Some(Lack::Size(format!("{name} cannot encrypt at host (encryptionAtHost: Enabled)")));
    }
    let processors = |arm: bool| if arm { "arm64" } else { "amd64" };
    if let (Some(wanted), Some(has)) = (wants.arm, size.arm)
        && wanted != has
    {
        let (has, wanted) = (processors(has), processors(wanted));
        return Some(Lack::Size(format!(
            "{name} has {has} processors, and the machines are to be {wanted} (arch)"
        )));
    }
    let other = |g: &&str| !size.generations.is_empty() && !size.generations.iter().any(|has| has == g);
    if let Some(wanted) = wants.generation.filter(other) {
        let has = size.generations.join(", ");
        return Some(Lack::Size(format!(
            "{name} boots images of generation {has}, and the image is of generation {wanted} (image.azureMarketplace.imageGeneration)"
        )));
    }
    let premium = |k: &&str| k.starts_with("Premium") || k.starts_with("UltraSSD");
    if let Some(disk) = wants.disk.filter(premium).filter(|_| !size.premium) {
        return Some(Lack::Size(format!("{name} cannot have disks of type {disk}")));
    }
    let zone = wants.zone.filter(|z| !z.is_empty() && !size.zones.iter().any(|has| has == z))?;
    let has = match size.zones.is_empty() {
        true => format!("{name} has no zones in {location}"),
        false => format!("{name} is in zones {} of {location}", size.zones.join(", ")),
    };
    Some(Lack::Zone(format!("zone {zone} was asked for, and {has}")))
}

/// Processors of machines that are being made and that Azure does not count yet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Promised {
    pub all: u32,
    /// Of the size's family.
    pub family: u32,
}

/// The quota that ends first for machines of a size.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Quota {
    /// As Azure calls it to people.
    pub name: String,
    pub used: i64,
    pub limit: i64,
    pub promised: u32,
}

impl Quota {
    /// Processors that are left.
    pub fn left(&self) -> i64 {
        self.limit.saturating_sub(self.used).saturating_sub(self.promised.into())
    }
}

/// The quota that ends first; `None`: none of them is in the list, so none is known to end.
pub fn tightest(size: &Size, spot: bool, usages: &[Usage], promised: Promised) -> Option<Quota> {
    let names: &[&str] = if spot { &["lowPriorityCores"] } else { &["cores", &size.family] };
    let of = |wanted: &&str| {
        let named = |u: &&Usage| {
            let name = u.name.as_ref().and_then(|n| n.value.as_deref());
            name.is_some_and(|n| n.eq_ignore_ascii_case(wanted))
        };
        let u = usages.iter().find(named)?;
        let name = u.name.as_ref().and_then(|n| n.localized_value.as_deref()).unwrap_or(wanted);
        Some(Quota {
            name: name.to_owned(),
            used: u.current_value.unwrap_or(0),
            limit: u.limit.unwrap_or(i64::MAX),
            promised: if *wanted == size.family { promised.family } else { promised.all },
        })
    };
    names.iter().filter_map(of).min_by_key(Quota::left)
}
