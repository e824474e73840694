//! Azure is asked before anything is made: do the networks exist, are they where they should be, may the identities do
//! their work?
//!
//! Answers are kept by what was asked ([`Asked`]), so that a settled cluster asks nothing; they are asked again now and
//! then, and sooner when the answer was no. An Azure that does not answer makes the verdict unknown: that keeps a new
//! cluster waiting, and never touches one that runs.

pub mod azure;
mod cache;

pub use cache::Verdicts;

use crate::nodepool::capacity::List;
use apis::hypershift::HostedCluster;
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
    /// Client ids by component, as `create infra azure` names them.
    pub identities: BTreeMap<&'static str, String>,
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
            identities,
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
}

impl Verdict {
    pub fn good(&self) -> bool {
        *self == Verdict::default()
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
