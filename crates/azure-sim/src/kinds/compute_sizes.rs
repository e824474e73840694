//! The machine sizes there are: families as data, sizes by rule.
//!
//! Families that OpenShift runs on, and a few others that tests of choosers need: Arm, GPUs, no premium disks, a family
//! that a region does not have. Processors and memory follow the names; local disks, disk counts, interfaces and which
//! region lacks what are plausible, written from memory and not checked against Azure.

use std::collections::HashMap;
use std::sync::LazyLock;

/// A family: its name, how its sizes are called (`{}` is the number of processors), and what they share.
struct Family {
    family: &'static str,
    name: &'static str,
    cpus: &'static [u32],
    /// GiB per processor.
    memory: f64,
    arm: bool,
    premium: bool,
    generations: &'static str,
    /// GiB of local disk per processor.
    local: u32,
    /// Processors per GPU; 0 for none.
    gpu_every: u32,
    accelerated: bool,
    zonal: bool,
}

const COMMON: Family = Family {
    family: "",
    name: "",
    cpus: &[],
    memory: 4.0,
    arm: false,
    premium: true,
    generations: "V1,V2",
    local: 0,
    gpu_every: 0,
    accelerated: true,
    zonal: true,
};

const LADDER: &[u32] = &[2, 4, 8, 16, 32, 48, 64, 96];

const FAMILIES: &[Family] = &[
    Family {
        family: "standardBSFamily",
        name: "Standard_B{}ms",
        cpus: &[2, 4, 8, 12, 16, 20],
        local: 8,
        accelerated: false,
        ..COMMON
    },
    Family {
        family: "standardBSFamily",
        name: "Standard_B{}s",
        cpus: &[1, 2],
        memory: 2.0,
        local: 4,
        accelerated: false,
        ..COMMON
    },
    Family {
        family: "standardDv2Family",
        name: "Standard_D{}_v2",
        cpus: &[1, 2, 3, 4, 5],
        memory: 3.5,
        premium: false,
        generations: "V1",
        local: 50,
        accelerated: false,
        zonal: false,
        ..COMMON
    },
    Family {
        family: "standardDSv2Family",
        name: "Standard_DS{}_v2",
        cpus: &[1, 2, 3, 4, 5],
        memory: 3.5,
        local: 7,
        ..COMMON
    },
    Family {
        family: "standardDSv3Family",
        name: "Standard_D{}s_v3",
        cpus: &[2, 4, 8, 16, 32, 48, 64],
        local: 8,
        ..COMMON
    },
    Family {
        family: "standardDSv4Family",
        name: "Standard_D{}s_v4",
        cpus: &[2, 4, 8, 16, 32, 48, 64],
        ..COMMON
    },
    Family { family: "standardDSv5Family", name: "Standard_D{}s_v5", cpus: LADDER, ..COMMON },
    Family { family: "standardDDSv5Family", name: "Standard_D{}ds_v5", cpus: LADDER, local: 37, ..COMMON },
    Family { family: "standardDASv5Family", name: "Standard_D{}as_v5", cpus: LADDER, ..COMMON },
    Family { family: "standardDADSv5Family", name: "Standard_D{}ads_v5", cpus: LADDER, local: 37, ..COMMON },
    Family {
        family: "standardDPSv5Family",
        name: "Standard_D{}ps_v5",
        cpus: &[2, 4, 8, 16, 32, 48, 64],
        arm: true,
        generations: "V2",
        ..COMMON
    },
    Family {
        family: "standardDPDSv5Family",
        name: "Standard_D{}pds_v5",
        cpus: &[2, 4, 8, 16, 32, 48, 64],
        arm: true,
        generations: "V2",
        local: 37,
        ..COMMON
    },
    Family {
        family: "standardDPSv6Family",
        name: "Standard_D{}ps_v6",
        cpus: &[2, 4, 8, 16, 32, 48, 64, 96],
        arm: true,
        generations: "V2",
        ..COMMON
    },
    Family {
        family: "standardDSv6Family",
        name: "Standard_D{}s_v6",
        cpus: LADDER,
        generations: "V2",
        ..COMMON
    },
    Family {
        family: "standardESv3Family",
        name: "Standard_E{}s_v3",
        cpus: &[2, 4, 8, 16, 32, 48, 64],
        memory: 8.0,
        local: 16,
        ..COMMON
    },
    Family { family: "standardESv5Family", name: "Standard_E{}s_v5", cpus: LADDER, memory: 8.0, ..COMMON },
    Family {
        family: "standardEDSv5Family",
        name: "Standard_E{}ds_v5",
        cpus: LADDER,
        memory: 8.0,
        local: 37,
        ..COMMON
    },
    Family { family: "standardEASv5Family", name: "Standard_E{}as_v5", cpus: LADDER, memory: 8.0, ..COMMON },
    Family {
        family: "standardFSv2Family",
        name: "Standard_F{}s_v2",
        cpus: &[2, 4, 8, 16, 32, 48, 64, 72],
        memory: 2.0,
        local: 8,
        ..COMMON
    },
    Family {
        family: "standardLSv3Family",
        name: "Standard_L{}s_v3",
        cpus: &[8, 16, 32, 48, 64, 80],
        memory: 8.0,
        local: 10,
        ..COMMON
    },
    Family {
        family: "Standard NCASv3_T4 Family",
        name: "Standard_NC{}as_T4_v3",
        cpus: &[4, 8, 16, 64],
        memory: 7.0,
        local: 44,
        gpu_every: 16,
        ..COMMON
    },
    Family {
        family: "standardNCADSA100v4Family",
        name: "Standard_NC{}ads_A100_v4",
        cpus: &[24, 48, 96],
        memory: 9.0,
        local: 40,
        gpu_every: 24,
        ..COMMON
    },
    Family {
        family: "standardMSFamily",
        name: "Standard_M{}ms",
        cpus: &[8, 16, 32, 64, 128],
        memory: 28.0,
        local: 30,
        ..COMMON
    },
];

/// What a subscription may not have: a family prefix and the regions that lack it.
const RESTRICTED: &[(&str, &[&str])] = &[
    ("standardMSFamily", &["westus2", "northeurope"]),
    ("standardNCADSA100v4Family", &["uksouth", "centralus"]),
];

/// Regions without zones.
const UNZONED: &[&str] = &["westus", "northcentralus", "westcentralus", "canadaeast", "ukwest"];

#[derive(Clone, Debug)]
pub struct Size {
    pub name: String,
    pub family: &'static str,
    /// What the name says after the family's letter.
    pub cpus: u32,
    pub memory: f64,
    pub arm: bool,
    pub premium: bool,
    pub generations: &'static str,
    pub local: u32,
    pub gpus: u32,
    pub accelerated: bool,
    zonal: bool,
}

impl Size {
    pub fn disks(&self) -> u32 {
        (self.cpus * 2).clamp(2, 32).next_power_of_two().min(if self.cpus > 16 {
            32
        } else {
            self.cpus.max(1) * 2
        })
    }

    pub fn interfaces(&self) -> u32 {
        (self.cpus / 2).clamp(2, 8)
    }

    /// The zones it can be had in.
    pub fn zones(&self, location: &str) -> &'static [&'static str] {
        if self.zonal && !UNZONED.contains(&location) { &["1", "2", "3"] } else { &[] }
    }

    pub fn restricted(&self, location: &str) -> bool {
        RESTRICTED.iter().any(|(f, places)| *f == self.family && places.contains(&location))
    }

    pub fn ultra(&self) -> bool {
        self.zonal && self.premium && self.accelerated
    }

    /// What a list of SKUs says it can do.
    pub fn capabilities(&self) -> Vec<(&'static str, String)> {
        let flag = |b: bool| if b { "True".to_owned() } else { "False".to_owned() };
        let mut all = vec![
            ("MaxResourceVolumeMB", (self.local * self.cpus * 1024).to_string()),
            ("OSVhdSizeMB", "1047552".into()),
            ("vCPUs", self.cpus.to_string()),
            ("MemoryPreservingMaintenanceSupported", flag(self.gpus == 0)),
            ("HyperVGenerations", self.generations.into()),
            ("MemoryGB", self.memory.to_string()),
            ("MaxDataDiskCount", self.disks().to_string()),
            ("CpuArchitectureType", if self.arm { "Arm64".into() } else { "x64".into() }),
            ("LowPriorityCapable", "True".into()),
            ("PremiumIO", flag(self.premium)),
            ("VMDeploymentTypes", "IaaS".into()),
            ("vCPUsAvailable", self.cpus.to_string()),
            ("ACUs", "195".into()),
            ("vCPUsPerCore", if self.arm { "1".into() } else { "2".into() }),
            ("EphemeralOSDiskSupported", flag(self.local > 0 && self.premium)),
            ("EncryptionAtHostSupported", flag(self.premium)),
            ("AcceleratedNetworkingEnabled", flag(self.accelerated)),
            ("RdmaEnabled", "False".into()),
            ("MaxNetworkInterfaces", self.interfaces().to_string()),
            ("UltraSSDAvailable", flag(self.ultra())),
        ];
        if self.gpus > 0 {
            all.push(("GPUs", self.gpus.to_string()));
        }
        all
    }
}

fn of(f: &Family, cpus: u32) -> Size {
    // The second generations are numbered, not counted.
    let numbered = f.name.ends_with("_v2") && f.name.contains('D');
    let count = if numbered { 1 << (cpus - 1) } else { cpus };
    let memory = match f.name {
        "Standard_B{}s" => {
            if cpus == 1 {
                1.0
            } else {
                4.0
            }
        }
        _ => f64::from(count) * f.memory,
    };
    Size {
        name: f.name.replace("{}", &cpus.to_string()),
        family: f.family,
        cpus: count,
        memory,
        arm: f.arm,
        premium: f.premium,
        generations: f.generations,
        local: f.local,
        gpus: if f.gpu_every == 0 { 0 } else { count.div_ceil(f.gpu_every) },
        accelerated: f.accelerated && count > 1,
        zonal: f.zonal,
    }
}

static SIZES: LazyLock<Vec<Size>> =
    LazyLock::new(|| FAMILIES.iter().flat_map(|f| f.cpus.iter().map(|c| of(f, *c))).collect());

static BY_NAME: LazyLock<HashMap<String, &'static Size>> =
    LazyLock::new(|| SIZES.iter().map(|s| (s.name.to_lowercase(), s)).collect());

/// All sizes.
pub fn sizes() -> &'static [Size] {
    &SIZES
}

pub fn size(name: &str) -> Option<&'static Size> {
    BY_NAME.get(&name.to_lowercase()).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_what_their_names_say() {
        let of = |n: &str| {
            let s = size(n).unwrap();
            (s.cpus, s.memory)
        };
        assert_eq!(of("Standard_D4s_v5"), (4, 16.0));
        assert_eq!(of("standard_d1_v2"), (1, 3.5));
        assert_eq!(of("Standard_DS3_v2"), (4, 14.0));
        assert_eq!(of("Standard_B2s"), (2, 4.0));
        assert_eq!(size("Standard_NC24ads_A100_v4").unwrap().gpus, 1);
        assert_eq!(size("Standard_D8s_v3").unwrap().disks(), 16);
        assert!(size("Standard_D8ps_v5").unwrap().arm && size("Standard_Nothing").is_none());
        let names: std::collections::BTreeSet<&str> = sizes().iter().map(|s| s.name.as_str()).collect();
        assert_eq!(names.len(), sizes().len(), "a name twice");
    }
}
