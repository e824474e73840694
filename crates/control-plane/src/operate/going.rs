//! A control plane that goes, while its guest removes what it made in Azure.
//!
//! The cluster-version operator would put back what is removed, so it ends first.

use super::{KINDS, Operator};
use apis::conditions::hosted_cluster::control_plane::CVO_SCALED_DOWN;
use apis::conditions::reason;
use apis::names::annotation;
use k8s_openapi::api::apps::v1::Deployment;
use kube::api::{Patch, PatchParams};
use kube::core::DynamicObject;
use reconcile::conditions::{Conditions, Finding};
use reconcile::{Failure, Kind};
use serde_json::{Value, json};

/// Who puts back what is removed.
const KEEPER: &str = "cluster-version-operator";

impl Operator {
    /// Nothing, unless somebody asked for the guest to clean up.
    pub(super) async fn let_go(&self, seen: &DynamicObject) -> Result<(), Failure> {
        let asked =
            seen.metadata.annotations.as_ref().and_then(|a| a.get(annotation::CLEANUP_CLOUD_RESOURCES));
        if asked.is_none_or(|v| v != "true") {
            return Ok(());
        }
        let namespace = seen.metadata.namespace.as_deref().unwrap_or_default();
        let keeper = self.views.rollout(namespace, KEEPER);
        if keeper.there && keeper.wanted > 0 {
            let api = Kind::of::<Deployment>().api(self.applier.client(), namespace);
            let none = json!({"spec": {"replicas": 0}});
            return match api.patch(KEEPER, &PatchParams::default(), &Patch::Merge(&none)).await {
                Ok(_) => Ok(()),
                Err(kube::Error::Api(s)) if s.code == 404 => Ok(()),
                Err(e) => Err(e.into()),
            };
        }
        let at = KINDS.plane().at(namespace, seen.metadata.name.clone().unwrap_or_default());
        let now = self.clock.now();
        let said = |o: &DynamicObject| {
            let mut status =
                o.data.get("status").cloned().filter(Value::is_object).unwrap_or_else(|| json!({}));
            let mut all = Conditions::of(&status);
            let message = "nobody puts back what the guest removes in Azure";
            all.set(
                Finding::new(CVO_SCALED_DOWN, true, reason::AS_EXPECTED, message),
                o.metadata.generation,
                now,
            );
            status["conditions"] = all.to_value();
            status
        };
        self.applier.status(&at, seen, said).await?;
        Ok(())
    }
}
