//! The marketplace: a few publishers' images. Publishers and offers exist; SKUs and versions other than the recorded
//! `18.04.202401161` are made up in their form.

/// One offer's image: publisher, offer, SKU, operating system, generation, disk in GiB, versions (oldest first).
#[derive(Clone, Copy, Debug)]
pub struct Image {
    pub publisher: &'static str,
    pub offer: &'static str,
    pub sku: &'static str,
    pub system: &'static str,
    pub generation: &'static str,
    pub disk: u32,
    pub arm: bool,
    pub versions: &'static [&'static str],
}

const LINUX: Image = Image {
    publisher: "",
    offer: "",
    sku: "",
    system: "Linux",
    generation: "V1",
    disk: 30,
    arm: false,
    versions: &[],
};

const ARO: Image = Image { publisher: "azureopenshift", offer: "aro4", generation: "V2", disk: 16, ..LINUX };

pub const MARKET: &[Image] = &[
    Image {
        publisher: "Canonical",
        offer: "UbuntuServer",
        sku: "18.04-LTS",
        versions: &["18.04.202306070", "18.04.202401161"],
        ..LINUX
    },
    Image {
        publisher: "Canonical",
        offer: "0001-com-ubuntu-server-jammy",
        sku: "22_04-lts",
        versions: &["22.04.202506200", "22.04.202608100"],
        ..LINUX
    },
    Image {
        publisher: "Canonical",
        offer: "0001-com-ubuntu-server-jammy",
        sku: "22_04-lts-gen2",
        generation: "V2",
        versions: &["22.04.202506200", "22.04.202608100"],
        ..LINUX
    },
    Image {
        publisher: "Canonical",
        offer: "ubuntu-24_04-lts",
        sku: "server",
        generation: "V2",
        versions: &["24.04.202601120", "24.04.202608080"],
        ..LINUX
    },
    Image {
        publisher: "Canonical",
        offer: "ubuntu-24_04-lts",
        sku: "server-arm64",
        generation: "V2",
        arm: true,
        versions: &["24.04.202608080"],
        ..LINUX
    },
    Image {
        publisher: "Debian",
        offer: "debian-12",
        sku: "12-gen2",
        generation: "V2",
        versions: &["0.20250703.2162", "0.20260714.2438"],
        ..LINUX
    },
    Image {
        publisher: "RedHat",
        offer: "RHEL",
        sku: "9-lvm-gen2",
        generation: "V2",
        disk: 64,
        versions: &["9.4.2024081415", "9.6.2026051218"],
        ..LINUX
    },
    Image {
        publisher: "RedHat",
        offer: "RHEL",
        sku: "8-lvm-gen2",
        generation: "V2",
        disk: 64,
        versions: &["8.10.2025112714"],
        ..LINUX
    },
    Image {
        publisher: "RedHat",
        offer: "rh-ocp-worker",
        sku: "rh-ocp-worker",
        versions: &["413.92.2023101700"],
        disk: 16,
        ..LINUX
    },
    Image {
        publisher: "MicrosoftCBLMariner",
        offer: "azure-linux-3",
        sku: "azure-linux-3-gen2",
        generation: "V2",
        versions: &["3.20260701.01"],
        ..LINUX
    },
    Image { sku: "aro_415", versions: &["415.92.20240227"], generation: "V1", ..ARO },
    Image { sku: "415-v2", versions: &["415.92.20240227"], ..ARO },
    Image { sku: "416-v2", versions: &["416.94.20240701"], ..ARO },
    Image { sku: "417-v2", versions: &["417.94.20240701"], ..ARO },
    Image { sku: "418-v2", versions: &["418.94.20250122"], ..ARO },
    Image { sku: "419-v2", versions: &["419.6.20250523"], ..ARO },
    Image { sku: "420-v2", versions: &["9.6.20250523", "9.6.20251015"], ..ARO },
    Image { sku: "aro_420-arm", versions: &["9.6.20251015"], arm: true, ..ARO },
    Image { sku: "421-v2", versions: &["9.6.20260301"], ..ARO },
    Image { sku: "aro_421-arm", versions: &["9.6.20260301"], arm: true, ..ARO },
];

impl Image {
    pub fn find(publisher: &str, offer: &str, sku: &str) -> Option<&'static Image> {
        let same = |a: &str, b: &str| a.eq_ignore_ascii_case(b);
        MARKET.iter().find(|i| same(i.publisher, publisher) && same(i.offer, offer) && same(i.sku, sku))
    }

    /// The version that is meant.
    pub fn exact(&self, version: &str) -> Option<&'static str> {
        match version.eq_ignore_ascii_case("latest") || version.is_empty() {
            true => self.versions.last().copied(),
            false => self.versions.iter().find(|v| **v == version).copied(),
        }
    }
}
