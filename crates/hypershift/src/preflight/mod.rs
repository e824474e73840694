//! Azure is asked before anything is made: do the networks exist, are they where they should be, may the identities do
//! their work, will Entra know the key that tokens are signed with?
//!
//! Answers are kept by what was asked ([`Asked`]), so that a settled cluster asks nothing; they are asked again now and
//! then, and sooner when the answer was no. An Azure that does not answer makes the verdict unknown: that keeps a new
//! cluster waiting, and never touches one that runs.

pub mod azure;
mod cache;
mod issuer;

pub use cache::Verdicts;

use crate::inputs::{Found, Input, Purpose};
use crate::nodepool::capacity::List;
use crate::signing;
use apis::hypershift::HostedCluster;
use apis::hypershift::encryption::KeyVaultType;
use apis::hypershift::hosted_cluster::DEFAULT_ISSUER;
use arm::types::Usage;
use futures::future::BoxFuture;
use std::collections::BTreeMap;

/// What is asked of Azure about one cluster.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Asked {
    pub cloud: String,
    pub subscription: String,
    pub tenant: String,
    pub location: String,
    pub resource_group: String,
    pub vnet: String,
    pub subnet: String,
    pub security_group: String,
    /// The zone of the cluster's public names, if the spec names one. Where identities are managed, so are names.
    pub zone: Option<String>,
    /// Client ids by component, as `create infra azure` names them.
    pub identities: BTreeMap<&'static str, String>,
    pub kms: Option<Key>,
    /// Nothing: tokens are signed by nobody whom Entra has to know.
    pub issuer: Option<Issuer>,
}

/// Who signs tokens of workload identities, and with which key.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Issuer {
    pub url: String,
    pub kid: String,
}

impl Issuer {
    /// Of a cluster with workload identities and an issuer of its own, once its key is there.
    pub fn of(hc: &HostedCluster, inputs: &[Input], found: &Found) -> Option<Issuer> {
        let azure = hc.spec.shared.platform.azure.as_ref()?;
        let url = &hc.spec.issuer_url;
        if azure.azure_authentication_config.is_managed() || url.is_empty() || url == DEFAULT_ISSUER {
            return None;
        }
        let input = inputs.iter().find(|i| i.purpose == Purpose::SigningKey)?;
        let public = signing::public_of(found.get(input)?.data.get("key")?).ok()?;
        Some(Issuer { url: url.clone(), kid: signing::kid(&public)? })
    }
}

/// The key that data is encrypted with, and who uses it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    pub vault: String,
    pub name: String,
    pub client_id: String,
}

impl Key {
    /// Of a vault; what managed HSMs permit is no matter of Resource Manager.
    fn of(hc: &HostedCluster) -> Option<Key> {
        let kms = hc.spec.shared.secret_encryption.as_ref()?.kms.as_ref()?.azure.as_ref()?;
        if kms.key_vault_type == Some(KeyVaultType::ManagedHsm) {
            return None;
        }
        let managed = kms.kms.as_ref().and_then(|i| i.client_id.as_ref());
        let client_id = kms.workload_identity.as_ref().map(|w| &w.client_id).or(managed)?;
        Some(Key {
            vault: kms.active_key.key_vault_name.clone(),
            name: kms.active_key.key_name.clone(),
            client_id: client_id.as_str().to_owned(),
        })
    }
}

impl Asked {
    /// From a cluster's spec; nothing if it is not on Azure.
    pub fn of(hc: &HostedCluster) -> Option<Asked> {
        let azure = hc.spec.shared.platform.azure.as_ref()?;
        let config = &azure.azure_authentication_config;
        let mut identities = BTreeMap::new();
        if let Some(w) = config.workload_identities.as_ref().filter(|_| !config.is_managed()) {
            let mut add = |who, id: &str| identities.insert(who, id.to_owned());
            add("cloud-provider", w.cloud_provider.client_id.as_str());
            add("ingress", w.ingress.client_id.as_str());
            add("azure-file", w.file.client_id.as_str());
            add("azure-disk", w.disk.client_id.as_str());
            add("cncc", w.network.client_id.as_str());
            add("ciro", w.image_registry.client_id.as_str());
            add("capz", w.node_pool_management.client_id.as_str());
            if let Some(c) = &w.control_plane_operator {
                add("cpo", c.client_id.as_str());
            }
        }
        if let Some(m) = config.managed_identities.as_ref().filter(|_| config.is_managed()) {
            let c = &m.control_plane;
            let all = [
                ("cloud-provider", Some(&c.cloud_provider)),
                ("ingress", Some(&c.ingress)),
                ("azure-file", Some(&c.file)),
                ("azure-disk", Some(&c.disk)),
                ("cncc", Some(&c.network)),
                ("ciro", c.image_registry.as_ref()),
                ("capz", Some(&c.node_pool_management)),
                ("cpo", Some(&c.control_plane_operator)),
            ];
            for (who, identity) in all {
                if let Some(id) = identity.and_then(|i| i.client_id.as_ref()) {
                    identities.insert(who, id.as_str().to_owned());
                }
            }
            let d = &m.data_plane;
            let all = [
                ("azure-diskWI", &d.disk_msi_client_id),
                ("azure-fileWI", &d.file_msi_client_id),
                ("ciroWI", &d.image_registry_msi_client_id),
            ];
            for (who, id) in all.into_iter().filter(|(_, id)| !id.is_empty()) {
                identities.insert(who, id.clone());
            }
        }
        Some(Asked {
            cloud: azure.cloud.to_string(),
            subscription: azure.subscription_id.clone(),
            tenant: azure.tenant_id.clone(),
            location: azure.location.clone(),
            resource_group: azure.resource_group.clone(),
            vnet: azure.vnet_id.clone(),
            subnet: azure.subnet_id.clone(),
            security_group: azure.security_group_id.clone(),
            zone: hc
                .spec
                .dns
                .as_ref()
                .filter(|_| !config.is_managed())
                .and_then(|d| d.public_zone_id.clone()),
            identities,
            kms: Key::of(hc),
            issuer: None,
        })
    }
}

/// What Azure said.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Verdict {
    /// Networks and groups that are wrong; each names the field and the fix.
    pub places: Vec<String>,
    /// Identities that are missing or may not do their work.
    pub identities: Vec<String>,
    /// What could not be found out, and why.
    pub unknown: Vec<String>,
    /// What is allowed, and worth a word.
    pub notes: Vec<String>,
    /// Why the issuer of tokens could not be read. Nobody waits for that.
    pub unread: Option<String>,
}

impl Verdict {
    /// Whether nothing keeps the cluster from being begun.
    pub fn good(&self) -> bool {
        self.places.is_empty() && self.identities.is_empty() && self.unknown.is_empty()
    }
}

/// Whoever asks Azure.
pub trait Preflight: Send + Sync + 'static {
    fn ask<'a>(&'a self, asked: &'a Asked) -> BoxFuture<'a, Verdict>;

    /// Whether the resource group is gone, for sure.
    fn group_gone<'a>(&'a self, asked: &'a Asked) -> BoxFuture<'a, bool>;

    /// What machines of each size have that a location sells; why nobody can say.
    fn sizes<'a>(
        &'a self,
        _subscription: &'a str,
        _location: &'a str,
    ) -> BoxFuture<'a, Result<List, String>> {
        Box::pin(async { Err("Azure is not asked for its sizes".to_owned()) })
    }

    /// How many processors a subscription uses in a location, and how many it may; why nobody can say.
    fn usages<'a>(
        &'a self,
        _subscription: &'a str,
        _location: &'a str,
    ) -> BoxFuture<'a, Result<Vec<Usage>, String>> {
        Box::pin(async { Err("Azure is not asked for its quotas".to_owned()) })
    }
}
