//! Whether the public endpoint of a cluster is open, or shut, as its topology says.
//!
//! Clusters whose pods stand in the customer's network (Swift) may go from public to private and back. What is asked for is
//! not what is: until the last replica of the router has the configuration, a name leads where it led before.

use super::{API, Way, Ways};
use apis::hypershift::HostedCluster;
use apis::hypershift::platform::{PrivateType, Topology};
use apis::names::annotation;
use kube::core::DynamicObject;
use std::collections::BTreeSet;

/// How a cluster stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exposed {
    /// Every replica of the router leads to it.
    Open,
    /// None does, and none should.
    Shut,
    /// Some do not do what they should yet.
    Converging,
}

/// Whether a cluster is one whose public endpoint comes and goes.
pub fn swift(hc: &HostedCluster) -> bool {
    let Some(azure) = &hc.spec.shared.platform.azure else { return false };
    let said = azure.private.as_ref().is_some_and(|p| p.type_ == PrivateType::Swift);
    let annotated = crate::naming::annotation(hc, annotation::SWIFT_POD_NETWORK_INSTANCE).is_some();
    azure.azure_authentication_config.is_managed() && (said || annotated)
}

/// What the router's Deployment says of its replicas.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rolled {
    /// Hash of the configuration that they are to have.
    pub hash: String,
    /// All have it, and no older one is left.
    pub complete: bool,
}

impl Rolled {
    pub fn of(o: &DynamicObject) -> Option<Rolled> {
        if o.metadata.name.as_deref() != Some(super::ROUTER) {
            return None;
        }
        let (spec, status) = (&o.data["spec"], &o.data["status"]);
        let hash = spec["template"]["metadata"]["annotations"][super::HASH].as_str()?.to_owned();
        let count = |field: &str| status[field].as_u64().unwrap_or(0);
        let wanted = spec["replicas"].as_u64().unwrap_or(1);
        let seen = status["observedGeneration"].as_i64() >= o.metadata.generation;
        let all = ["replicas", "updatedReplicas", "availableReplicas"].iter().all(|f| count(f) == wanted);
        Some(Rolled { hash, complete: seen && all && wanted > 0 })
    }
}

/// Control planes that a configuration leads names of their API to.
pub fn led_to(ways: &Ways) -> BTreeSet<String> {
    let api = |w: &&Way| w.name.ends_with(&format!("_name_{API}"));
    let plane = |w: &Way| w.name.split('_').next().unwrap_or_default().to_owned();
    ways.names.iter().filter(api).map(plane).collect()
}

impl Exposed {
    /// `led` is the hash of the newest configuration and whom it leads to.
    pub fn of(hc: &HostedCluster, led: &(String, BTreeSet<String>), rolled: Option<&Rolled>) -> Exposed {
        let azure = hc.spec.shared.platform.azure.as_ref();
        let public = azure.is_some_and(|a| a.topology() != Topology::Private);
        let there = rolled.is_some_and(|r| r.complete && r.hash == led.0);
        let has = led.1.contains(&crate::naming::namespace(hc));
        match (public, has) {
            (true, true) if there => Exposed::Open,
            // A router that does not run leads nowhere.
            (false, false) if there || rolled.is_none() => Exposed::Shut,
            _ => Exposed::Converging,
        }
    }
}
