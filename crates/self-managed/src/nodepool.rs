//! Node pools: machines of one size, in one subnet, with one release.

use crate::flags::{Refused, duration, is_label};
use apis::version::{MAX_SKEW, SkewError, Version, check_skew};
use clap::{Args as ClapArgs, ValueEnum};
use serde_json::{Value, json};

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Arch {
    Amd64,
    Arm64,
}

impl Arch {
    pub fn as_str(self) -> &'static str {
        match self {
            Arch::Amd64 => "amd64",
            Arch::Arm64 => "arm64",
        }
    }

    /// What machines are when nobody says.
    pub fn default_size(self) -> &'static str {
        match self {
            Arch::Amd64 => "Standard_D4s_v5",
            Arch::Arm64 => "Standard_D4ps_v5",
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "PascalCase")]
pub enum UpgradeType {
    Replace,
    InPlace,
}

impl UpgradeType {
    pub fn as_str(self) -> &'static str {
        match self {
            UpgradeType::Replace => "Replace",
            UpgradeType::InPlace => "InPlace",
        }
    }
}

/// What the machines of a pool are.
#[derive(Clone, Debug, Default, PartialEq, Eq, ClapArgs)]
pub struct Machines {
    /// Size of the machines; Standard_D4s_v5 by default, Standard_D4ps_v5 on arm64
    #[arg(long, value_name = "SIZE")]
    pub instance_type: Option<String>,
    /// Zone of the machines: 1, 2 or 3
    #[arg(long, value_name = "ZONE", value_parser = ["1", "2", "3"])]
    pub availability_zone: Option<String>,
    /// Subnet of the machines (resource id); by default the cluster's
    #[arg(long, value_name = "ID")]
    pub nodepool_subnet_id: Option<String>,
    /// Size of the OS disk in GiB
    #[arg(long, value_name = "GIB", default_value_t = 120, value_parser = clap::value_parser!(i32).range(16..=32767))]
    pub root_disk_size: i32,
    /// Performance of the OS disk: Premium_LRS, PremiumV2_LRS, Standard_LRS or StandardSSD_LRS
    #[arg(long, value_name = "TYPE", default_value = "Premium_LRS", value_parser = ["Premium_LRS", "PremiumV2_LRS", "Standard_LRS", "StandardSSD_LRS"])]
    pub disk_storage_account_type: String,
    /// Keep the OS disk on the host: faster, and gone with the machine
    #[arg(long)]
    pub enable_ephemeral_disk: bool,
    /// Disk encryption set (resource id) whose key encrypts the OS disk
    #[arg(long, value_name = "ID")]
    pub disk_encryption_set_id: Option<String>,
    /// Encrypt temporary disks and caches on the host: Enabled or Disabled
    #[arg(long, value_name = "STATE", value_parser = ["Enabled", "Disabled"])]
    pub encryption_at_host: Option<String>,
    /// Where boot diagnostics go: Disabled, Managed or UserManaged
    #[arg(long, value_name = "TYPE", value_parser = ["Disabled", "Managed", "UserManaged"])]
    pub diagnostics_storage_account_type: Option<String>,
    /// Blob endpoint of your own account for boot diagnostics
    #[arg(long, value_name = "URI")]
    pub diagnostics_storage_account_uri: Option<String>,
    /// Generation of the marketplace image: Gen1 or Gen2
    #[arg(long, value_name = "GENERATION", value_parser = ["Gen1", "Gen2"])]
    pub image_generation: Option<String>,
    /// Marketplace image: publisher (all four --marketplace flags, or none)
    #[arg(long, value_name = "NAME")]
    pub marketplace_publisher: Option<String>,
    /// Marketplace image: offer
    #[arg(long, value_name = "NAME")]
    pub marketplace_offer: Option<String>,
    /// Marketplace image: SKU
    #[arg(long, value_name = "NAME")]
    pub marketplace_sku: Option<String>,
    /// Marketplace image: version
    #[arg(long, value_name = "VERSION")]
    pub marketplace_version: Option<String>,
}

/// Which machines, where, how many.
pub(crate) struct Pool<'a> {
    pub name: &'a str,
    pub namespace: &'a str,
    pub cluster: &'a str,
    pub replicas: i32,
    pub release: &'a str,
    pub arch: Arch,
    pub upgrade: UpgradeType,
    pub auto_repair: bool,
    pub drain: &'a str,
    pub detach: &'a str,
    pub zone: Option<&'a str>,
    pub subnet: &'a str,
    pub boot_image: &'a str,
    pub paused: Option<&'a str>,
}

impl Machines {
    pub fn check(&self) -> Result<(), Refused> {
        let market = [
            ("--marketplace-publisher", &self.marketplace_publisher),
            ("--marketplace-offer", &self.marketplace_offer),
            ("--marketplace-sku", &self.marketplace_sku),
            ("--marketplace-version", &self.marketplace_version),
        ];
        let given = market.iter().find(|(_, v)| v.is_some());
        let absent = market.iter().find(|(_, v)| v.is_none());
        if let (Some((flag, _)), Some((other, _))) = (given, absent) {
            return Err(Refused::needs(
                flag,
                other,
                "an image is named by all four --marketplace flags, or by none",
            ));
        }
        match (self.diagnostics_storage_account_type.as_deref(), &self.diagnostics_storage_account_uri) {
            (Some("UserManaged"), None) => Err(Refused::needs(
                "--diagnostics-storage-account-type UserManaged",
                "--diagnostics-storage-account-uri",
                "give the account's blob endpoint, such as https://ACCOUNT.blob.core.windows.net/, or use Managed",
            )),
            (Some("UserManaged"), Some(uri)) if !uri.starts_with("https://") => {
                Err(Refused::value("--diagnostics-storage-account-uri", uri, "it begins with https://"))
            }
            (Some("UserManaged"), _) | (_, None) => Ok(()),
            (_, Some(_)) => Err(Refused::needs(
                "--diagnostics-storage-account-uri",
                "--diagnostics-storage-account-type UserManaged",
                "only an account of yours has an address to give",
            )),
        }
    }

    fn image(&self, boot_image: &str) -> Value {
        let mut market = serde_json::Map::new();
        let mut set = |key: &str, value: &Option<String>| {
            if let Some(v) = value {
                market.insert(key.to_owned(), json!(v));
            }
        };
        set("imageGeneration", &self.image_generation);
        set("offer", &self.marketplace_offer);
        set("publisher", &self.marketplace_publisher);
        set("sku", &self.marketplace_sku);
        set("version", &self.marketplace_version);
        if market.is_empty() && !boot_image.is_empty() {
            return json!({"imageID": boot_image, "type": "ImageID"});
        }
        json!({"azureMarketplace": market, "type": "AzureMarketplace"})
    }

    fn platform(&self, pool: &Pool<'_>) -> Value {
        let mut disk =
            json!({"diskStorageAccountType": self.disk_storage_account_type, "sizeGiB": self.root_disk_size});
        if let Some(id) = &self.disk_encryption_set_id {
            disk["encryptionSetID"] = json!(id);
        }
        if self.enable_ephemeral_disk {
            disk["persistence"] = json!("Ephemeral");
        }
        let mut azure = json!({
            "image": self.image(pool.boot_image),
            "osDisk": disk,
            "subnetID": pool.subnet,
            "vmSize": self.instance_type.as_deref().unwrap_or_else(|| pool.arch.default_size()),
        });
        if let Some(zone) = pool.zone {
            azure["availabilityZone"] = json!(zone);
        }
        if let Some(state) = &self.encryption_at_host {
            azure["encryptionAtHost"] = json!(state);
        }
        if let Some(kind) = &self.diagnostics_storage_account_type {
            azure["diagnostics"] = json!({"storageAccountType": kind});
            if let Some(uri) = &self.diagnostics_storage_account_uri {
                azure["diagnostics"]["userManaged"] = json!({"storageAccountURI": uri});
            }
        }
        json!({"azure": azure, "type": "Azure"})
    }

    pub(crate) fn object(&self, pool: &Pool<'_>) -> Value {
        let mut management = json!({"autoRepair": pool.auto_repair, "upgradeType": pool.upgrade.as_str()});
        match pool.upgrade {
            UpgradeType::Replace => {
                management["replace"] = json!({"rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}, "strategy": "RollingUpdate"});
            }
            UpgradeType::InPlace => management["inPlace"] = json!({"maxUnavailable": 1}),
        }
        let mut out = json!({
            "apiVersion": "hypershift.openshift.io/v1beta1",
            "kind": "NodePool",
            "metadata": {"name": pool.name, "namespace": pool.namespace},
            "spec": {
                "arch": pool.arch.as_str(),
                "clusterName": pool.cluster,
                "management": management,
                "nodeDrainTimeout": pool.drain,
                "nodeVolumeDetachTimeout": pool.detach,
                "platform": self.platform(pool),
                "release": {"image": pool.release},
                "replicas": pool.replicas,
            },
        });
        if let Some(until) = pool.paused {
            out["spec"]["pausedUntil"] = json!(until);
        }
        out
    }
}

/// A node pool for a hosted cluster on Azure
///
/// The cluster must exist; its release is used when none is given. With --render the object is printed and nothing is
/// changed.
#[derive(Clone, Debug, ClapArgs)]
#[command(after_help = "Examples:\n  \
        zaffre create nodepool azure --cluster-name demo --name demo-gpu --replicas 2 \\\n    \
        --instance-type Standard_NC4as_T4_v3 --nodepool-subnet-id \"$SUBNET\"\n  \
        zaffre create nodepool azure --cluster-name demo --name extra --nodepool-subnet-id \"$SUBNET\" --render")]
pub struct Args {
    /// Name of the pool
    #[arg(long, value_name = "NAME", default_value = "example")]
    pub name: String,
    /// Namespace of the cluster
    #[arg(long, value_name = "NAME", default_value = "clusters")]
    pub namespace: String,
    /// The cluster
    #[arg(long, value_name = "NAME", default_value = "example")]
    pub cluster_name: String,
    /// How many machines
    #[arg(long, visible_alias = "node-count", value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(i32).range(0..))]
    pub replicas: i32,
    /// Release of the nodes; by default the cluster's
    #[arg(long, value_name = "IMAGE")]
    pub release_image: Option<String>,
    /// Take the newest release of this stream, such as 4-stable-multi
    #[arg(long, value_name = "STREAM")]
    pub release_stream: Option<String>,
    /// How nodes change their version
    #[arg(long, value_enum, value_name = "TYPE", default_value_t = UpgradeType::Replace, ignore_case = true)]
    pub node_upgrade_type: UpgradeType,
    /// Architecture of the machines
    #[arg(long, value_enum, value_name = "ARCH", default_value_t = Arch::Amd64)]
    pub arch: Arch,
    /// Replace machines whose node is unhealthy
    #[arg(long)]
    pub auto_repair: bool,
    /// How long pods may take to leave a node; 0s for as long as they need
    #[arg(long, value_name = "DURATION", default_value = "0s", value_parser = duration)]
    pub node_drain_timeout: String,
    /// How long volumes may take to leave a node; 0s for as long as they need
    #[arg(long, value_name = "DURATION", default_value = "0s", value_parser = duration)]
    pub node_volume_detach_timeout: String,
    #[command(flatten)]
    pub machines: Machines,
    /// Print the object, change nothing
    #[arg(long)]
    pub render: bool,
}

/// What is known of the cluster that a pool is for, and of the release that is to be its.
#[derive(Clone, Debug, Default)]
pub struct Owner {
    pub name: String,
    /// `spec.platform.type`.
    pub platform: String,
    /// The newest version that it has completed; none while it is made.
    pub completed: Option<Version>,
    /// Version of the pool's own release; none if it has the cluster's, or cannot be read from here.
    pub nodes: Option<Version>,
    pub release: String,
    pub subnet: String,
    /// As its status says: Multi, AMD64, ARM64; empty when it does not say yet.
    pub payload_arch: String,
}

impl Args {
    pub fn check(&self) -> Result<(), Refused> {
        if !is_label(&self.name) {
            let fix = "machines and labels are named after it: use up to 63 lower-case letters, digits and -, with a letter or digit at both ends";
            return Err(Refused::value("--name", &self.name, fix));
        }
        if self.release_image.is_some() && self.release_stream.is_some() {
            let fix = "name an image, or the stream whose newest release is taken";
            return Err(Refused::together("--release-image", "--release-stream", fix));
        }
        self.machines.check()
    }

    /// Nodes are never newer than what their cluster has reached, nor more than three minors older.
    fn skew(&self, owner: &Owner) -> Result<(), Refused> {
        let (Some(nodes), Some(cluster)) = (&owner.nodes, &owner.completed) else { return Ok(()) };
        let name = &owner.name;
        let fix = match check_skew(nodes, cluster) {
            Ok(()) => return Ok(()),
            Err(SkewError::Newer { .. }) => format!(
                "it is newer than {name}, which has completed {cluster}: `zaffre upgrade cluster {name} -n {} --to {nodes} --wait` first, or leave the flag out",
                self.namespace
            ),
            Err(SkewError::TooOld { behind, .. }) => format!(
                "it is {behind} minors behind {name}, {cluster}, and {MAX_SKEW} are supported: name a release of {} or one within {MAX_SKEW} minors",
                cluster.stream()
            ),
        };
        Err(Refused::value("--release-image", &nodes.to_string(), &fix))
    }

    /// The object, for a cluster that is there.
    pub fn object(&self, owner: &Owner) -> Result<Value, Refused> {
        self.check()?;
        if owner.platform != "Azure" {
            return Err(Refused::value(
                "--cluster-name",
                &owner.name,
                &format!(
                    "its platform is {:?} (spec.platform.type), and its machines are no machines of Azure: name a cluster on Azure",
                    owner.platform
                ),
            ));
        }
        self.skew(owner)?;
        let payload = owner.payload_arch.as_str();
        if !matches!(payload, "" | "Multi") && !payload.eq_ignore_ascii_case(self.arch.as_str()) {
            return Err(Refused::value(
                "--arch",
                self.arch.as_str(),
                &format!("the cluster's release is built for {payload}: use that, or a multi-arch release"),
            ));
        }
        Ok(self.machines.object(&Pool {
            name: &self.name,
            namespace: &self.namespace,
            cluster: &self.cluster_name,
            replicas: self.replicas,
            release: self.release_image.as_deref().unwrap_or(&owner.release),
            arch: self.arch,
            upgrade: self.node_upgrade_type,
            auto_repair: self.auto_repair,
            drain: &self.node_drain_timeout,
            detach: &self.node_volume_detach_timeout,
            zone: self.machines.availability_zone.as_deref(),
            subnet: self.machines.nodepool_subnet_id.as_deref().unwrap_or(&owner.subnet),
            boot_image: "",
            paused: None,
        }))
    }
}
