//! Sizes, where they are asked for: the configuration's own key, and each cluster's part of a pass.

use super::{Operator, sooner};
use crate::sizing::{self, Decision, Observed, Sizes};
use crate::{kinds, naming};
use apis::conditions::{hosted_cluster as c, reason};
use apis::hypershift::HostedCluster;
use apis::names::{annotation, label};
use apis::scheduling;
use jiff::{SignedDuration, Timestamp};
use kube::core::DynamicObject;
use reconcile::conditions::{Condition, Conditions, Finding, Status};
use reconcile::{Failure, Outcome};
use serde_json::{Value, json};
use std::sync::Arc;

/// The key of the configuration: no cluster has it, for want of a namespace.
pub(super) const KEY: &str = "cluster-sizing-configuration";

/// A cluster's size in this pass.
#[derive(Default)]
pub(super) struct Sized {
    /// Nothing: sizes are not asked for, or cannot be used.
    pub decision: Option<Decision>,
    /// When a change that waits is looked at again.
    pub again: Option<SignedDuration>,
}

/// A condition that holds, by its reason and time: how sizes are written down.
fn noted<'a>(all: &'a Conditions, kind: &str) -> Option<(&'a str, Timestamp)> {
    let held = all.get(kind).filter(|x: &&Condition| x.status == Status::True)?;
    Some((held.reason.as_str(), held.last_transition_time))
}

impl Operator {
    /// The configuration: made if it is absent, and told whether it can be used.
    pub(super) async fn sizing_configuration(&self) -> Result<Outcome, Failure> {
        if !self.around.sizing() {
            return Ok(Outcome::Done);
        }
        let at = kinds::SIZING.at("", scheduling::NAME);
        let Some(seen) = self.views.sizing.get("", scheduling::NAME) else {
            self.applier.create_once(&at, || self.applier.desired(sizing::default_configuration())).await?;
            return Ok(Outcome::Done);
        };
        let finding = match &seen.sizes {
            Ok(sizes) => {
                let names = sizes.names().collect::<Vec<_>>().join(", ");
                Finding::new(
                    scheduling::VALID,
                    true,
                    reason::AS_EXPECTED,
                    format!("clusters are {names} by their number of nodes"),
                )
            }
            Err(why) => Finding::new(
                scheduling::VALID,
                false,
                "SizeConfigurationInvalid",
                format!("{why}; until it is mended, clusters keep the sizes they have"),
            ),
        };
        let now = self.clock.now();
        self.applier
            .status(&at, &seen.object, |o| {
                let mut status = o.data.get("status").cloned().filter(Value::is_object).unwrap_or(json!({}));
                let mut all = Conditions::of(&status);
                all.set(finding.clone(), o.metadata.generation, now);
                status["conditions"] = all.to_value();
                status
            })
            .await?;
        Ok(Outcome::Done)
    }

    /// Nodes of a cluster. Who reports them is one source for the whole life of a cluster: two that disagree while it
    /// grows would send it back and forth. Our own config operator reports them; another operator's cluster is counted
    /// by its pools.
    fn nodes(&self, hc: &HostedCluster, all: &Conditions, sized: bool) -> Option<u32> {
        let plane = self.views.planes.get(&naming::namespace(hc), naming::name(hc));
        let reported = plane.as_ref().and_then(|p| p.data["status"]["nodeCount"].as_u64());
        if let Some(n) = reported {
            return Some(u32::try_from(n).unwrap_or(u32::MAX));
        }
        if naming::annotation(hc, annotation::CONTROL_PLANE_OPERATOR_IMAGE).is_none() {
            return Some(0);
        }
        let pools = self.views.pools_of(naming::home(hc), naming::name(hc));
        // Counters of pools that scale by themselves say zero while the guest cannot be asked.
        let blind = !all.is_true(c::KUBE_API_SERVER_AVAILABLE) && pools.iter().any(|p| p.autoscales);
        (!(blind && sized)).then(|| pools.iter().map(|p| p.replicas).fold(0, u32::saturating_add))
    }

    /// What the size of a cluster is to be.
    pub(super) fn size(&self, seen: &DynamicObject, hc: &HostedCluster) -> Sized {
        if !self.around.sizing() {
            return Sized::default();
        }
        let Some(configuration) = self.views.sizing.get("", scheduling::NAME) else {
            return Sized::default();
        };
        let Ok(sizes) = &configuration.sizes else { return Sized::default() };
        let all = Conditions::of(&seen.data["status"]);
        let size = noted(&all, c::CLUSTER_SIZE_COMPUTED);
        let labels = seen.metadata.labels.as_ref();
        let observed = Observed {
            size,
            label: labels.and_then(|l| l.get(label::HOSTED_CLUSTER_SIZE)).map(String::as_str),
            wanted: noted(&all, c::CLUSTER_SIZE_TRANSITION_REQUIRED),
            nodes: self.nodes(hc, &all, size.is_some()),
            forced: naming::annotation(hc, annotation::CLUSTER_SIZE_OVERRIDE),
        };
        let now = self.clock.now();
        let changes = || self.changes(sizes, now);
        let decision = self.grants.decide(&naming::key(hc), &observed, sizes, changes, now);
        let again = match &decision {
            Decision::Waits { why, .. } => {
                Some(why.until().duration_since(now).max(SignedDuration::from_secs(1)))
            }
            _ => None,
        };
        Sized { decision: Some(decision), again }
    }

    /// Clusters that changed lately, as statuses tell; read only when a cluster wants to.
    fn changes(&self, sizes: &Sizes, now: Timestamp) -> Vec<(String, Timestamp)> {
        let begin = now.saturating_sub(sizes.window).unwrap_or(Timestamp::MIN);
        let clusters: Vec<Arc<DynamicObject>> = self.views.clusters.all();
        let changed = |o: &Arc<DynamicObject>| {
            let all = Conditions::of(&o.data["status"]);
            let (_, at) = noted(&all, c::CLUSTER_SIZE_COMPUTED).filter(|(_, at)| *at > begin)?;
            let (namespace, name) = (o.metadata.namespace.as_deref()?, o.metadata.name.as_deref()?);
            Some((format!("{namespace}/{name}"), at))
        };
        clusters.iter().filter_map(changed).collect()
    }

    /// Label and annotations follow the size; says whether something was written. A cluster's first size is written here
    /// before its status, so that its control plane begins with it; a later one after, because the status decides.
    pub(super) async fn follow(&self, seen: &DynamicObject, sized: &Sized) -> Result<bool, Failure> {
        let name = match &sized.decision {
            Some(Decision::Stays { size, .. } | Decision::Waits { size, .. }) => size,
            Some(Decision::Becomes { size, first: true, .. }) => size,
            _ => return Ok(false),
        };
        let Some(configuration) = self.views.sizing.get("", scheduling::NAME) else { return Ok(false) };
        let Ok(sizes) = &configuration.sizes else { return Ok(false) };
        let Some(change) = sizes.get(name).and_then(|size| sizing::change(&seen.metadata, size)) else {
            return Ok(false);
        };
        self.patch(&kinds::CLUSTER, seen, change).await?;
        Ok(true)
    }
}

impl Sized {
    /// With what else is waited for.
    pub(super) fn sooner(&self, other: Option<SignedDuration>) -> Option<SignedDuration> {
        sooner(self.again, other)
    }
}
