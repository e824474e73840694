//! The smaller steps of a pass: ids, pause, what is made once, what goes back.

use super::{Look, Operator, bound};
use crate::around::Machinery;
use crate::inputs::{self, Data, Purpose, Sort};
use crate::plan::{belong, copies, project};
use crate::{kinds, naming, signing};
use apis::conditions::hosted_cluster as condition;
use apis::hypershift::HostedCluster;
use apis::names::{annotation, finalizer};
use control_plane::Materials;
use jiff::SignedDuration;
use kube::api::{Patch, PatchParams};
use kube::core::DynamicObject;
use pki::{Authority, KeyKind, Leaf};
use reconcile::conditions::{Conditions, Status};
use reconcile::{Failure, Kind, ObjectRef, Outcome, Owner, Pause, Prune};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;

/// A certificate that nobody looks at and a webhook server insists on.
const WEBHOOK_LIFE: SignedDuration = SignedDuration::from_hours(24 * 3650);

/// What pods mount, as far as it was read.
pub(super) struct Mounted(pub(super) BTreeMap<String, std::sync::Arc<Data>>);

impl Materials for Mounted {
    fn data(&self, kind: &str, name: &str) -> Option<Data> {
        (kind == "Secret").then(|| self.0.get(name).map(|d| (**d).clone()))?
    }
}

/// Secrets that users get in by, as a status names them.
fn named(status: &Value) -> [bool; 3] {
    ["kubeconfig", "customKubeconfig", "kubeadminPassword"].map(|f| status[f]["name"].is_string())
}

/// Which of them are there now. Whoever could not look knows nothing new: pools go by these names, and stop without them.
pub(super) fn there(back: &Result<[bool; 3], Failure>, before: &Value) -> [bool; 3] {
    back.as_ref().map_or_else(|_| named(before), |there| *there)
}

impl Operator {
    /// Sends a merge patch that only holds for what was seen; who was quicker wakes us.
    pub(super) async fn patch(&self, kind: &Kind, seen: &DynamicObject, patch: Value) -> Result<(), Failure> {
        let namespace = seen.metadata.namespace.as_deref().unwrap_or_default();
        let name = seen.metadata.name.as_deref().unwrap_or_default();
        let params = PatchParams { field_manager: Some(super::MANAGER.to_owned()), ..PatchParams::default() };
        let patch = bound(seen, patch);
        match kind.api(self.applier.client(), namespace).patch(name, &params, &Patch::Merge(&patch)).await {
            Ok(_) => Ok(()),
            Err(kube::Error::Api(s)) if matches!(s.code, 404 | 409) => Ok(()),
            Err(e) => Err(e.into()),
        }
    }

    /// Finalizer and ids, before anything that depends on them. Says whether something was written.
    pub(super) async fn prepare(&self, seen: &DynamicObject, hc: &HostedCluster) -> Result<bool, Failure> {
        let mut change = json!({});
        let mut finalizers = seen.metadata.finalizers.clone().unwrap_or_default();
        if !finalizers.iter().any(|f| f == finalizer::HYPERSHIFT) {
            finalizers.push(finalizer::HYPERSHIFT.to_owned());
            change["metadata"]["finalizers"] = json!(finalizers);
        }
        if hc.spec.cluster_id.is_none() {
            change["spec"]["clusterID"] = json!(apis::naming::cluster_id(&self.random));
        }
        if hc.spec.infra_id.is_none() {
            change["spec"]["infraID"] = json!(apis::naming::infra_id(naming::name(hc), &self.random));
        }
        if change.as_object().is_none_or(serde_json::Map::is_empty) {
            return Ok(false);
        }
        self.patch(&kinds::CLUSTER, seen, change).await?;
        Ok(true)
    }

    /// Nothing is changed but that everybody below pauses too. How things are is told as ever: a pause stops hands, not
    /// eyes.
    pub(super) async fn paused(
        &self,
        seen: Arc<DynamicObject>,
        hc: Arc<HostedCluster>,
        pause: Result<Pause, String>,
    ) -> Result<Outcome, Failure> {
        let rest = match &pause {
            Ok(Pause::Until(t)) => Some(t.duration_since(self.clock.now())),
            _ => None,
        };
        let look = Box::pin(self.look(seen, hc, pause)).await?;
        let (hc, namespace) = (&look.hc, &look.namespace);
        if let Some(plane) = &look.plane {
            self.pause_plane(hc, plane).await?;
            let infra = hc.spec.infra_id.as_deref().unwrap_or_default();
            if let Some(cluster) = self.views.capi.get(namespace, infra) {
                let spec = json!({"spec": {"paused": true}});
                self.reapply(hc, &cluster, "cluster.x-k8s.io/v1beta1", "Cluster", spec).await?;
            }
        }
        let back = named(&look.seen.data["status"]);
        // Whether what was last tried succeeded is as it was.
        let before = Conditions::of(&look.seen.data["status"]);
        let failed = before.get(condition::RECONCILIATION_SUCCEEDED).filter(|c| c.status == Status::False);
        self.report(&look, back, failed.map(|c| c.message.as_str())).await?;
        let again = [rest, look.again].into_iter().flatten().min();
        Ok(again.map_or(Outcome::Done, Outcome::After))
    }

    async fn pause_plane(&self, hc: &HostedCluster, plane: &DynamicObject) -> Result<(), Failure> {
        let change = json!({"spec": {"pausedUntil": hc.spec.paused_until}});
        self.reapply(hc, plane, "hypershift.openshift.io/v1beta1", "HostedControlPlane", change).await
    }

    /// Applies what is there with one change, so that we go on owning it.
    async fn reapply(
        &self,
        hc: &HostedCluster,
        live: &DynamicObject,
        api: &str,
        kind: &str,
        change: Value,
    ) -> Result<(), Failure> {
        let mut spec = live.data["spec"].clone();
        for (k, v) in change["spec"].as_object().into_iter().flatten() {
            spec[k] = v.clone();
        }
        let ours = |k: &&String| {
            let k = k.as_str();
            project::MIRRORED.contains(&k)
                || project::MIRRORED_PREFIXES.iter().any(|p| k.starts_with(p))
                || matches!(k, annotation::HOSTED_CLUSTER | annotation::DISABLE_CLUSTER_AUTOSCALER)
        };
        let annotations: BTreeMap<_, _> =
            live.metadata.annotations.iter().flatten().filter(|(k, _)| ours(k)).collect();
        let mut object = json!({"apiVersion": api, "kind": kind, "spec": spec, "metadata": {
            "name": live.metadata.name, "namespace": live.metadata.namespace,
            "annotations": annotations, "labels": live.metadata.labels.clone().unwrap_or_default()}});
        match kind {
            "HostedControlPlane" => object["metadata"]["finalizers"] = json!([finalizer::HYPERSHIFT]),
            _ => object = belong(hc, object),
        }
        self.applier.apply(&self.applier.desired(object)?).await?;
        Ok(())
    }

    /// What is drawn once and kept: the webhook's certificate, and the signing key if nobody gave one.
    pub(super) async fn once(&self, look: &Look) -> Result<(), Failure> {
        let hc = &look.hc;
        let webhook = kinds::SECRET.at(&look.namespace, "capi-webhooks-tls");
        let now = self.clock.now();
        self.applier
            .create_once(&webhook, || {
                let made = Authority::generate("capi-webhooks", "openshift", KeyKind::P256, now, WEBHOOK_LIFE)
                    .and_then(|ca| {
                        let names = [format!("*.{}.svc", look.namespace), "localhost".to_owned()];
                        let leaf = Leaf::server("capi-webhooks", names);
                        ca.issue(&leaf.living(WEBHOOK_LIFE, SignedDuration::from_hours(24 * 30)), now)
                    });
                // Nothing of this depends on input; if it fails, what is applied is refused and said.
                let (cert, key) = made.map(|p| (p.cert.clone(), p.key.expose().to_owned())).unwrap_or_default();
                self.applier.desired(belong(hc, json!({"apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/tls",
                    "metadata": {"name": "capi-webhooks-tls"}, "stringData": {"tls.crt": cert, "tls.key": key}})))
            })
            .await?;
        if look.inputs.iter().any(|i| i.purpose == Purpose::SigningKey) {
            return Ok(());
        }
        let key = kinds::SECRET.at(&look.namespace, "sa-signing-key");
        let mut failed = None;
        let made = self
            .applier
            .create_once(&key, || {
                let object = match signing::generate() {
                    Ok((private, public)) => belong(
                        hc,
                        json!({"apiVersion": "v1", "kind": "Secret", "type": "Opaque",
                        "metadata": {"name": "sa-signing-key"},
                        "stringData": {"service-account.key": private, "service-account.pub": public}}),
                    ),
                    // What is kept for good must not be empty: this is no object, and nothing is made.
                    Err(e) => {
                        failed = Some(e);
                        Value::Null
                    }
                };
                self.applier.desired(object)
            })
            .await;
        if let Some(e) = failed {
            return Err(e.into());
        }
        made?;
        Ok(())
    }

    /// Copies that nobody names any more are taken away.
    pub(super) async fn prune_copies(&self, look: &Look, kept: &[ObjectRef]) -> Result<(), Failure> {
        let owner =
            Owner::label(copies::COPY, "true").annotation(annotation::HOSTED_CLUSTER, naming::key(&look.hc));
        let prune = Prune::new(owner, look.namespace.clone(), [kinds::SECRET, kinds::CONFIG_MAP]);
        // Whose original is gone stays: pods pull their images with it. It is still named.
        let mut kept = kept.to_vec();
        let named = look.inputs.iter().filter(|i| i.purpose == Purpose::PullSecret);
        kept.extend(named.map(|i| kinds::SECRET.at(&look.namespace, i.target.clone())));
        self.applier.prune(&prune, &kept).await?.into_result()?;
        Ok(())
    }

    /// Originals say which clusters use them.
    pub(super) async fn mark_originals(&self, look: &Look) -> Result<(), Failure> {
        let (home, name) = (naming::home(&look.hc), naming::name(&look.hc));
        for input in &look.inputs {
            let mark = self.views.mark(input.sort, home, &input.name);
            if mark.is_none_or(|m| m.clusters.iter().any(|c| c == name)) {
                continue;
            }
            self.set_mark(input.sort, home, &input.name, name, Some("true")).await?;
        }
        for (sort, object) in self.views.marked(home, name) {
            if !look.inputs.iter().any(|i| i.sort == sort && i.name == object) {
                self.set_mark(sort, home, &object, name, None).await?;
            }
        }
        Ok(())
    }

    /// Sets or removes the mark; an original that is gone needs none.
    pub(super) async fn set_mark(
        &self,
        sort: Sort,
        home: &str,
        object: &str,
        cluster: &str,
        value: Option<&str>,
    ) -> Result<(), Failure> {
        let kind = match sort {
            Sort::Secret => kinds::SECRET,
            Sort::ConfigMap => kinds::CONFIG_MAP,
        };
        let patch = json!({"metadata": {"annotations": {inputs::mark(cluster): value}}});
        let params = PatchParams { field_manager: Some(super::MANAGER.to_owned()), ..PatchParams::default() };
        match kind
            .api(self.applier.client(), home)
            .patch_metadata(object, &params, &Patch::Merge(&patch))
            .await
        {
            Ok(_) => Ok(()),
            Err(kube::Error::Api(s)) if s.code == 404 => Ok(()),
            Err(e) => Err(e.into()),
        }
    }

    /// Two must not keep the same machines: where ours do, Cluster API's manager goes, with its rights.
    pub(super) async fn hand_over(&self, look: &Look) -> Result<(), Failure> {
        const OTHER: &str = "cluster-api";
        let Some(w) = self.views.deployments.get(&look.namespace, OTHER) else { return Ok(()) };
        if self.around.machinery() == Machinery::External {
            return Ok(());
        }
        let at = kinds::DEPLOYMENT.at(&look.namespace, OTHER);
        self.applier.remove_finalizer(&at, &w.object, finalizer::COMPONENT).await?;
        for kind in [kinds::DEPLOYMENT].into_iter().chain(kinds::ACCESS) {
            self.applier.delete(&kind.at(&look.namespace, OTHER)).await?;
        }
        Ok(())
    }

    /// Nobody else keeps this infrastructure: it is ready when it is described.
    pub(super) async fn azure_ready(&self, look: &Look) -> Result<(), Failure> {
        let name = naming::name(&look.hc);
        let Some(seen) = self.views.azure.get(&look.namespace, name) else { return Ok(()) };
        let at = kinds::AZURE_CLUSTER.at(&look.namespace, name);
        self.applier
            .status(&at, &seen, |o| {
                let mut status = o.data.get("status").cloned().filter(Value::is_object).unwrap_or(json!({}));
                status["ready"] = json!(true);
                status
            })
            .await?;
        Ok(())
    }

    /// What pods of ours mount that others write.
    pub(super) async fn materials(&self, look: &Look) -> Result<Mounted, Failure> {
        let mut all = BTreeMap::new();
        for name in ["service-network-admin-kubeconfig"] {
            if let Some(given) = self.fetch.one(&self.views, Sort::Secret, &look.namespace, name).await? {
                all.insert(name.to_owned(), given.data);
            }
        }
        Ok(Mounted(all))
    }

    /// Copies back what users need to get in. Says which are there.
    pub(super) async fn back(&self, look: &Look) -> Result<[bool; 3], Failure> {
        let Some(plane) = &look.plane else { return Ok([false; 3]) };
        let (hc, status) = (&look.hc, &plane.data["status"]);
        let name = naming::name(hc);
        let list = [
            ("kubeConfig", "kubeconfig", apis::naming::admin_kubeconfig_secret(name)),
            ("customKubeconfig", "kubeconfig", apis::naming::custom_kubeconfig_secret(name)),
            ("kubeadminPassword", "password", apis::naming::kubeadmin_password_secret(name)),
        ];
        let mut there = [false; 3];
        for (i, (field, key, target)) in list.into_iter().enumerate() {
            let Some(source) = status[field]["name"].as_str() else {
                // A name that the API has no longer, or a password: nobody gets in by it.
                if look.seen.data["status"][field]["name"].is_string() && field != "kubeConfig" {
                    self.applier.delete(&kinds::SECRET.at(naming::home(hc), target)).await?;
                }
                continue;
            };
            let key = status[field]["key"].as_str().unwrap_or(key);
            let given = self.fetch.one(&self.views, Sort::Secret, &look.namespace, source).await?;
            let Some(mut object) = given.and_then(|g| copies::back(hc, &target, key, &g.data)) else {
                continue;
            };
            reconcile::own(&mut object, &kinds::CLUSTER, &look.seen);
            self.applier.apply(&self.applier.desired(object)?).await?;
            there[i] = true;
        }
        Ok(there)
    }

    /// The mark of a cluster that was available once; and that of one that came back from a backup goes when it has recovered.
    pub(super) async fn marks(&self, look: &Look, status: &Value) -> Result<(), Failure> {
        let has = |name: &str| naming::annotation(&look.hc, name).is_some();
        let conditions = Conditions::of(status);
        let mut marks = Map::new();
        if !has(annotation::HAS_BEEN_AVAILABLE) && conditions.is_true(condition::AVAILABLE) {
            marks.insert(annotation::HAS_BEEN_AVAILABLE.into(), json!("true"));
        }
        let recovered = conditions.is_true(condition::HOSTED_CLUSTER_RESTORED_FROM_BACKUP);
        if has(annotation::RESTORED_FROM_BACKUP) && recovered {
            marks.insert(annotation::RESTORED_FROM_BACKUP.into(), Value::Null);
        }
        if marks.is_empty() {
            return Ok(());
        }
        let at = kinds::CLUSTER.api(self.applier.client(), naming::home(&look.hc));
        let patch = json!({"metadata": {"uid": look.seen.metadata.uid, "annotations": marks}});
        let params = PatchParams { field_manager: Some(super::MANAGER.to_owned()), ..PatchParams::default() };
        match at.patch(naming::name(&look.hc), &params, &Patch::Merge(&patch)).await {
            Ok(_) => Ok(()),
            Err(kube::Error::Api(s)) if matches!(s.code, 404 | 409) => Ok(()),
            Err(e) => Err(e.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_could_not_look_takes_nothing_back() {
        let before = json!({"kubeconfig": {"name": "a"}, "kubeadminPassword": {"name": "b"}});
        assert_eq!(there(&Err("the API does not answer".into()), &before), [true, false, true]);
        assert_eq!(there(&Ok([true, false, false]), &before), [true, false, false], "who looked is right");
    }
}
