//! Components that became unwanted: a capability was disabled, a setting changed. What they consisted of is taken away.
//!
//! Objects of a component are found by the label that says whose they are. Its ControlPlaneComponent goes last: as long as
//! it is there, something may be left, and the next pass looks again.

use super::memo::Memo;
use super::progress::Turn;
use super::{KINDS, Operator, Pass};
use crate::certificates::plan::Kind as Material;
use crate::{certificates, table};
use k8s_openapi::api as k8s;
use reconcile::{Failure, Kind, Owner, Prune};

/// Says which component an object belongs to.
pub const COMPONENT: &str = "hypershift.openshift.io/control-plane-component";
/// Its volumes are the cluster: it is never taken away by a change of mind.
const KEPT: &str = "etcd";

/// Kinds that components have objects of, workloads first.
fn kinds() -> Vec<Kind> {
    vec![
        Kind::of::<k8s::apps::v1::Deployment>(),
        Kind::of::<k8s::apps::v1::StatefulSet>(),
        Kind::of::<k8s::batch::v1::CronJob>(),
        Kind::of::<k8s::batch::v1::Job>(),
        Kind::of::<k8s::policy::v1::PodDisruptionBudget>(),
        Kind::of::<k8s::core::v1::Service>(),
        Kind::of::<k8s::core::v1::ConfigMap>(),
        Kind::of::<k8s::core::v1::Secret>(),
        Kind::of::<k8s::rbac::v1::RoleBinding>(),
        Kind::of::<k8s::rbac::v1::Role>(),
        Kind::of::<k8s::core::v1::ServiceAccount>(),
    ]
}

impl Operator {
    pub(super) async fn unwanted(&self, pass: &Pass<'_>, memo: &mut Memo) -> Result<(), Failure> {
        let namespace = &*pass.scope.namespace;
        let ways_in = [
            (certificates::CUSTOM, pass.scope.endpoints.custom_api.is_some()),
            (certificates::KUBEADMIN, pass.scope.kubeadmin()),
        ];
        for (secret, wanted) in ways_in {
            if !wanted && self.views.seen(namespace, Material::Secret, secret).is_some() {
                let secrets = Kind::of::<k8s::core::v1::Secret>();
                self.applier.delete(&secrets.at(namespace, secret)).await?;
            }
        }
        for component in table::all().iter().filter(|c| c.name != KEPT) {
            let name = component.name;
            if pass.progress.turn(name) != Turn::Unwanted {
                continue;
            }
            let there = pass.progress.rollout(name).is_some_and(|r| r.there);
            if !there && self.views.components.get(namespace, name).is_none() {
                continue;
            }
            tracing::info!(namespace, component = name, "it is not wanted any more");
            let all: Vec<Kind> = kinds().into_iter().chain(KINDS.others()).collect();
            let prune = Prune::new(Owner::label(COMPONENT, name), namespace, all).all();
            self.applier.prune(&prune, []).await?.into_result()?;
            self.applier.delete(&KINDS.component().at(namespace, name)).await?;
            memo.parts.remove(name);
        }
        Ok(())
    }
}
