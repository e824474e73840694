//! How much one machine of a size has, for an autoscaler that has none to look at: Azure's list of sizes says it.
//!
//! One list per subscription and location serves all pools, for half a day: what a size has does not depend on who buys it,
//! whether it is sold does. Only pools that scale by themselves or want more machines ask. While nobody can be asked,
//! what machines carry already stays.

use crate::preflight::Preflight;
use arm::offer::Size;
use arm::types::ComputeSku;
use jiff::{SignedDuration, Timestamp};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;

/// How long a list is good: sizes do not change, new ones come now and then.
const GOOD: SignedDuration = SignedDuration::from_hours(12);
/// After it could not be read.
const AGAIN: SignedDuration = SignedDuration::from_mins(5);

/// As the autoscaler's provider reads it.
pub const CPUS: &str = "machine.openshift.io/vCPU";
pub const MEMORY: &str = "machine.openshift.io/memoryMb";
pub const GPUS: &str = "machine.openshift.io/GPU";

/// What a machine of one size has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Capacity {
    pub cpus: u32,
    pub memory_mb: u64,
    pub gpus: u32,
    /// As nodes call it: `amd64`, `arm64`.
    pub arch: &'static str,
}

impl Capacity {
    /// From the list of SKUs; nothing for what is no size of a machine, and for one that does not say.
    pub fn of(sku: &ComputeSku) -> Option<Capacity> {
        if sku.resource_type.as_deref() != Some("virtualMachines") {
            return None;
        }
        // Azure writes 0.75 for small ones.
        let memory: f64 = sku.capability("MemoryGB")?.parse().ok()?;
        let memory = format!("{:.0}", (memory * 1024.0).clamp(0.0, 1e12)).parse().ok()?;
        let number = |name: &str| sku.capability(name).and_then(|v| v.parse::<u32>().ok());
        let arm = sku.capability("CpuArchitectureType").is_some_and(|a| a.eq_ignore_ascii_case("Arm64"));
        Some(Capacity {
            cpus: number("vCPUs")?,
            memory_mb: memory,
            gpus: number("GPUs").unwrap_or(0),
            arch: if arm { "arm64" } else { "amd64" },
        })
    }

    pub fn annotations(&self) -> [(&'static str, String); 3] {
        [(CPUS, self.cpus.to_string()), (MEMORY, self.memory_mb.to_string()), (GPUS, self.gpus.to_string())]
    }
}

/// What a location sells as one size.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sold {
    pub size: Size,
    /// Nothing: it does not say.
    pub capacity: Option<Capacity>,
}

impl Sold {
    /// From the list of SKUs, under its lower-case name; nothing for what is no size of a machine.
    pub fn of(sku: &ComputeSku, location: &str) -> Option<(String, Sold)> {
        let size = Size::read(sku, location)?;
        Some((size.name.to_lowercase(), Sold { size, capacity: Capacity::of(sku) }))
    }
}

/// Sizes by lower-case name.
pub type List = HashMap<String, Sold>;

/// What is known of a size.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Known {
    /// The pool's size is this.
    Has(Sold),
    /// The location sells no such size.
    Nothing,
    /// Nobody could be asked, and why.
    Unknown(String),
}

#[derive(Default)]
struct Place {
    list: Option<Arc<List>>,
    why: String,
    until: Option<Timestamp>,
}

/// Lists by subscription and location.
#[derive(Default)]
pub struct Sizes(Mutex<HashMap<(String, String), Arc<futures::lock::Mutex<Place>>>>);

impl Sizes {
    /// What a size is, and when to ask again if that is not known.
    pub async fn get(
        &self,
        azure: &dyn Preflight,
        subscription: &str,
        location: &str,
        size: &str,
        now: Timestamp,
    ) -> (Known, Option<SignedDuration>) {
        let location = location.replace(' ', "").to_lowercase();
        let key = (subscription.to_owned(), location.clone());
        let place = self.0.lock().entry(key).or_default().clone();
        // Who comes while it is asked waits for the same answer.
        let mut place = place.lock().await;
        if place.until.is_none_or(|until| now >= until) {
            let wait = match azure.sizes(subscription, &location).await {
                Ok(list) => {
                    (place.list, place.why) = (Some(Arc::new(list)), String::new());
                    GOOD
                }
                Err(why) => {
                    place.why = why;
                    AGAIN
                }
            };
            place.until = Some(now.checked_add(wait).unwrap_or(Timestamp::MAX));
        }
        match &place.list {
            Some(list) => match list.get(&size.to_lowercase()) {
                Some(sold) => (Known::Has(sold.clone()), None),
                None => (Known::Nothing, None),
            },
            None => (Known::Unknown(place.why.clone()), place.until.map(|u| u.duration_since(now))),
        }
    }

    /// What was found out before, without asking. Nothing: nobody has asked, or somebody is just asking.
    pub fn known(&self, subscription: &str, location: &str, size: &str) -> Option<Known> {
        let key = (subscription.to_owned(), location.replace(' ', "").to_lowercase());
        let place = self.0.lock().get(&key)?.clone();
        let list = place.try_lock()?.list.clone()?;
        Some(list.get(&size.to_lowercase()).map_or(Known::Nothing, |c| Known::Has(c.clone())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::preflight::{Asked, Verdict};
    use futures::future::BoxFuture;
    use serde_json::json;
    use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

    fn sku(name: &str, more: &[(&str, &str)]) -> ComputeSku {
        let all = [&[("vCPUs", "4"), ("MemoryGB", "0.75")], more].concat();
        let all: Vec<_> = all.iter().map(|(k, v)| json!({"name": k, "value": v})).collect();
        serde_json::from_value(json!({"name": name, "resourceType": "virtualMachines", "capabilities": all}))
            .unwrap()
    }

    #[test]
    fn sizes_say_what_machines_have() {
        let x = sku("Standard_X", &[("GPUs", "2"), ("CpuArchitectureType", "Arm64")]);
        let (name, sold) = Sold::of(&x, "westus2").unwrap();
        assert_eq!((name.as_str(), sold.size.cpus), ("standard_x", 4));
        let c = sold.capacity.unwrap();
        assert_eq!(c, Capacity { cpus: 4, memory_mb: 768, gpus: 2, arch: "arm64" });
        assert_eq!(c.annotations()[1], (MEMORY, "768".to_owned()));
        let disk = serde_json::from_value(json!({"name": "P10", "resourceType": "disks"})).unwrap();
        assert_eq!(Sold::of(&disk, "westus2"), None);
    }

    #[derive(Default)]
    struct Azure {
        asked: AtomicUsize,
        away: AtomicBool,
    }

    impl Preflight for Azure {
        fn ask<'a>(&'a self, _: &'a Asked) -> BoxFuture<'a, Verdict> {
            Box::pin(async { Verdict::default() })
        }

        fn group_gone<'a>(&'a self, _: &'a Asked) -> BoxFuture<'a, bool> {
            Box::pin(async { false })
        }

        fn sizes<'a>(&'a self, _: &'a str, location: &'a str) -> BoxFuture<'a, Result<List, String>> {
            self.asked.fetch_add(1, Ordering::SeqCst);
            let away = self.away.load(Ordering::SeqCst);
            Box::pin(async move {
                match away {
                    true => Err("Azure is away".to_owned()),
                    false => Ok([Sold::of(&sku("Standard_X", &[]), location).unwrap()].into()),
                }
            })
        }
    }

    #[tokio::test]
    async fn one_list_serves_a_location() {
        let (azure, sizes) = (Azure::default(), Sizes::default());
        let now = Timestamp::from_second(1_000_000).unwrap();
        let later = |by: SignedDuration| now.checked_add(by).unwrap();
        let asked = || azure.asked.load(Ordering::SeqCst);
        azure.away.store(true, Ordering::SeqCst);
        let (known, again) = sizes.get(&azure, "s", "westus2", "standard_x", now).await;
        assert_eq!((known, again), (Known::Unknown("Azure is away".into()), Some(AGAIN)));
        azure.away.store(false, Ordering::SeqCst);
        // It is not asked again before its time, whoever wants to know.
        let (known, _) = sizes.get(&azure, "s", "westus2", "standard_x", now).await;
        assert!(matches!(known, Known::Unknown(_)));
        assert_eq!(asked(), 1);
        for (location, size) in
            [("westus2", "Standard_X"), ("West US 2", "standard_x"), ("westus2", "Standard_Y")]
        {
            let (known, again) = sizes.get(&azure, "s", location, size, later(AGAIN)).await;
            assert_eq!((matches!(known, Known::Has(_)), again), (size != "Standard_Y", None), "{location}");
        }
        assert_eq!(asked(), 2);
        assert!(matches!(sizes.known("s", "West US 2", "standard_x"), Some(Known::Has(_))));
        assert_eq!(sizes.known("s", "eastus", "standard_x"), None);
        assert_eq!(sizes.known("other", "westus2", "standard_x"), None);
        // Another subscription may be sold less.
        sizes.get(&azure, "other", "westus2", "standard_x", later(AGAIN)).await;
        assert_eq!(asked(), 3);
        // What is known stays so while Azure is away.
        azure.away.store(true, Ordering::SeqCst);
        let (known, _) = sizes.get(&azure, "s", "westus2", "standard_x", later(GOOD + AGAIN)).await;
        assert!(matches!(known, Known::Has(_)));
        assert_eq!(asked(), 4);
    }
}
