//! The part of a pass that makes things: plans from what was looked at, applies it in stages, and tidies up.

use super::{Look, Operator, going, memo};
use crate::inputs;
use crate::naming;
use crate::plan::{self, Objects, Plan, project};
use crate::validate::release::Gate;
use apis::conditions::hosted_cluster as condition;
use control_plane::facts::Around;
use control_plane::monitoring;
use control_plane::scope::{MetricsSet, Release};
use reconcile::{Failure, ObjectRef, Print};
use serde_json::Value;

impl Operator {
    /// Makes everything as it should be; says what could not be rendered.
    pub(super) async fn work(&self, look: &Look) -> Result<Vec<String>, Failure> {
        let hc = &look.hc;
        if look.plane.as_ref().is_some_and(|p| p.metadata.deletion_timestamp.is_some()) {
            return Ok(vec![going(look)]);
        }
        // A closed gate keeps the cluster at what it runs.
        let image = match (&look.gate, &look.plane) {
            (Gate::Closed(_), Some(p)) => p.data["spec"]["releaseImage"].as_str().unwrap_or_default(),
            _ => hc.spec.release.image.as_str(),
        };
        let pull_secret = self.pull_secret(look).unwrap_or_default();
        let own = hc.spec.control_plane_release.as_ref().map_or(image, |r| &r.image);
        let (answer, _) = self.releases.get(&*self.around, hc, own, pull_secret, self.clock.now()).await;
        let payload = (*answer).as_ref().map_err(|e| e.to_string())?;
        let pools = self.views.pools_of(naming::home(hc), naming::name(hc));
        let autoscaled = pools.iter().any(|p| p.autoscales);
        let management = self.around.management();
        let uid = match management.openshift {
            true => None,
            false => Some(self.uids.of(&self.views, &look.namespace)?),
        };
        let status = look.plane.as_ref().map_or(&Value::Null, |p| &p.data["status"]);
        let machines = self.machines(look, status);
        let materials = self.materials(look).await?;
        let (sort, home) = (inputs::Sort::ConfigMap, self.around.home());
        let trusted = self.fetch.one(&self.views, sort, &home, plan::copies::TRUSTED).await?;
        let settings = self.around.settings();
        let asked = hc.spec.shared.monitoring.as_ref().and_then(|m| m.metrics_set);
        let metrics = match asked.unwrap_or(settings.metrics) {
            MetricsSet::Sre => self.fetch.one(&self.views, sort, &home, monitoring::OWN_SET).await?,
            MetricsSet::Telemetry | MetricsSet::All => None,
        };
        let key = naming::key(hc);
        let basis = memo::Basis {
            uid: hc.metadata.uid.clone(),
            generation: hc.metadata.generation,
            annotations: hc.metadata.annotations.clone(),
            labels: hc.metadata.labels.clone(),
            image: image.to_owned(),
            release: answer.clone(),
            found: look.found.clone(),
            trusted: trusted.clone(),
            metrics: metrics.clone(),
            mounted: materials.0.clone(),
            endpoint: status["controlPlaneEndpoint"].clone(),
            flags: [autoscaled, machines],
            user: uid,
            vault_reader: self.around.vault_reader(),
            blocked: self.around.blocked(),
            settings,
        };
        if let Some(made) = self.memos.standing(&key, &basis, &self.applier) {
            self.once(look).await?;
            self.tidy(look, &made.kept).await?;
            return Ok(made.troubles.clone());
        }
        let projection = project::plane(hc, image, autoscaled)?;
        let around = Around {
            // As the control plane will name it, whatever it was resolved to.
            release: Release { image: own.to_owned(), ..payload.release.clone() },
            management: control_plane::scope::Management {
                openshift: management.openshift,
                uid,
                // Nothing that this operator renders itself follows a stream.
                image_streams: false,
                minor: management.minor,
                blocked: basis.blocked.clone(),
                settings: basis.settings.clone(),
            },
            given: Default::default(),
            vault_reader: basis.vault_reader.clone(),
        };
        let scope = plan::scope(hc, &projection, &around)?;
        let objects = Plan {
            hc,
            inputs: &look.inputs,
            found: &look.found,
            trusted: trusted.as_ref(),
            metrics: metrics.as_ref(),
            scope: &scope,
            plane: projection,
            endpoint: &status["controlPlaneEndpoint"],
            uid,
            monitored: self.around.monitored(),
            machines,
            machinery: self.around.machinery(),
            materials: &materials,
        }
        .objects();
        let (prints, kept, troubles) = self.apply(look, objects).await?;
        let prints = prints.into();
        self.memos.keep(&key, memo::Made { basis, prints, kept, troubles: troubles.clone() });
        Ok(troubles)
    }

    /// Machines are managed from when the guest's API first answers.
    fn machines(&self, look: &Look, status: &Value) -> bool {
        let answers =
            reconcile::conditions::Conditions::of(status).is_true(condition::KUBE_API_SERVER_AVAILABLE);
        answers || status["initialized"] == true || self.views.rollout(&look.namespace, "capi-provider").there
    }

    /// Applies it; what it was, what is not to be pruned, and what could not be rendered.
    async fn apply(
        &self,
        look: &Look,
        objects: Objects,
    ) -> Result<(Vec<Print>, Vec<ObjectRef>, Vec<String>), Failure> {
        let (mut prints, mut kept) = (Vec::new(), Vec::new());
        self.apply_stage(objects.namespace, &mut prints, &mut kept).await?;
        self.once(look).await?;
        self.apply_stage(objects.inputs, &mut prints, &mut kept).await?;
        self.apply_stage(objects.core, &mut prints, &mut Vec::new()).await?;
        self.apply_stage(objects.operators, &mut prints, &mut Vec::new()).await?;
        self.tidy(look, &kept).await?;
        Ok((prints, kept, objects.troubles))
    }

    async fn tidy(&self, look: &Look, kept: &[ObjectRef]) -> Result<(), Failure> {
        self.prune_copies(look, kept).await?;
        self.mark_originals(look).await?;
        self.hand_over(look).await?;
        self.azure_ready(look).await
    }

    async fn apply_stage(
        &self,
        objects: Vec<Value>,
        prints: &mut Vec<Print>,
        kept: &mut Vec<ObjectRef>,
    ) -> Result<(), Failure> {
        let mut desired = Vec::with_capacity(objects.len());
        for object in objects.into_iter().filter(|o| self.serves(o)) {
            let d = self.applier.desired(object)?;
            kept.push(d.at().clone());
            desired.push(d);
        }
        self.applier.apply_all(&desired).await.into_result()?;
        prints.extend(desired.iter().map(|d| self.applier.print(d)));
        Ok(())
    }

    fn serves(&self, object: &Value) -> bool {
        let group = object["apiVersion"].as_str().and_then(|v| v.split_once('/')).map_or("", |(g, _)| g);
        let builtin = !group.contains('.') || (group.ends_with(".k8s.io") && !group.contains(".x-k8s."));
        builtin || self.served.contains(&format!("{group}/{}", object["kind"].as_str().unwrap_or_default()))
    }
}
