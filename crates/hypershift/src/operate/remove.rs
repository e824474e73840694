//! Taking a cluster away: what is left is looked at, the next step taken, and where it stands is said.

use super::{Operator, holders};
use crate::delete::{self, Act, Cleanup, FORCE, Layer, Left, Machine, Remains, Step};
use crate::plan::access;
use crate::preflight::Asked;
use crate::{kinds, naming};
use apis::conditions::{hosted_cluster as condition, private_link, reason};
use apis::hypershift::HostedCluster;
use apis::names::{annotation, finalizer};
use jiff::{SignedDuration, Timestamp};
use kube::api::{DeleteParams, ListParams, Patch, PatchParams};
use kube::core::{DynamicObject, ObjectMeta};
use reconcile::conditions::{Conditions, Finding, Status};
use reconcile::{Failure, Kind, Outcome, Waiting};
use serde_json::{Value, json};
use std::sync::Arc;

fn since(m: &ObjectMeta) -> Option<Timestamp> {
    m.deletion_timestamp.as_ref().map(|t| t.0)
}

fn left(kind: &str, o: &DynamicObject) -> Left {
    let m = &o.metadata;
    let name = m.name.clone().unwrap_or_default();
    Left {
        object: format!("{kind} {}/{name}", m.namespace.as_deref().unwrap_or_default()),
        since: since(m),
        finalizers: m.finalizers.clone().unwrap_or_default(),
        note: String::new(),
        name,
    }
}

/// Azure's refusal, as the machine reports it.
fn machine(o: &DynamicObject) -> Machine {
    let mut left = left("AzureMachine", o);
    let ready =
        o.data["status"]["conditions"].as_array().into_iter().flatten().find(|c| c["type"] == "Ready");
    let refused = ready.filter(|c| c["status"] == "False" && c["reason"] == "DeletionFailed");
    left.note = refused.and_then(|c| c["message"].as_str()).unwrap_or_default().to_owned();
    // The condition may be older than the deletion.
    let refused = refused.and_then(|c| c["lastTransitionTime"].as_str()?.parse::<Timestamp>().ok());
    Machine { refused: refused.map(|t| left.since.map_or(t, |s| s.max(t))), left }
}

/// A private link, with what Azure refuses about it.
fn link(o: &DynamicObject) -> Machine {
    let mut left = left("AzurePrivateLinkService", o);
    let all = Conditions::of(&o.data["status"]);
    let kinds = [private_link::PRIVATE_ENDPOINT_AVAILABLE, private_link::PLS_CREATED];
    let refused = kinds.iter().filter_map(|k| all.get(k));
    let refused = refused.into_iter().find(|c| c.status == Status::False && c.reason == reason::AZURE_ERROR);
    left.note = refused.map(|c| c.message.clone()).unwrap_or_default();
    // The condition may be older than the deletion.
    Machine { refused: refused.and_then(|c| left.since.map(|s| s.max(c.last_transition_time))), left }
}

/// A guest that never answered made nothing.
fn answered(plane: &DynamicObject) -> bool {
    plane.data["status"]["initialized"] == true
}

/// How far the guest is with cleaning up.
fn cleanup(plane: &DynamicObject) -> Cleanup {
    let annotations = plane.metadata.annotations.as_ref();
    let asked =
        annotations.and_then(|a| a.get(annotation::CLEANUP_CLOUD_RESOURCES)).is_some_and(|v| v == "true");
    if !asked || !answered(plane) {
        return Cleanup::No;
    }
    let all = Conditions::of(&plane.data["status"]);
    match all.get(condition::CLOUD_RESOURCES_DESTROYED) {
        Some(c) if c.status == Status::True || c.reason == reason::CLOUD_RESOURCES_CLEANUP_SKIPPED => {
            Cleanup::Over
        }
        _ => Cleanup::Running,
    }
}

impl Operator {
    /// Everything that is left of a cluster.
    fn remains(&self, hc: &HostedCluster, seen: &DynamicObject, group_gone: bool) -> Remains {
        let (home, name, namespace) = (naming::home(hc), naming::name(hc), naming::namespace(hc));
        let views = &self.views;
        let annotated = |key: &str| naming::annotation(hc, key);
        let space = views.spaces.get("", &namespace);
        let ours = self.ours(hc);
        let infra = hc.spec.infra_id.as_deref().unwrap_or_default();
        let pools = views.pools_of(home, name);
        let mut r = Remains {
            began: since(&seen.metadata).unwrap_or_default(),
            pools: pools
                .iter()
                .map(|p| Left {
                    object: format!("NodePool {home}/{}", p.name),
                    name: p.name.clone(),
                    since: p.deleting,
                    finalizers: p.finalizers.clone(),
                    note: String::new(),
                })
                .collect(),
            keep_namespace: annotated(annotation::SKIP_DELETE_CONTROL_PLANE_NAMESPACE)
                .is_some_and(|v| v == "true"),
            force: annotated(FORCE)
                .map(|f| f.split(',').map(|w| w.trim().to_owned()).collect())
                .unwrap_or_default(),
            grace: annotated(annotation::DESTROY_GRACE_PERIOD).and_then(delete::go_duration),
            destroyed: destroyed(seen),
            traces: self.traces(hc, &namespace, ours),
            group_gone,
            ..Remains::default()
        };
        if !ours {
            return r;
        }
        r.cluster = views.capi.get(&namespace, infra).map(|o| left("Cluster", &o));
        if r.cluster.is_some() {
            r.machines = views.machines.within(&namespace).iter().map(|o| machine(o)).collect();
        }
        r.operators = ["cluster-api", "capi-provider"]
            .into_iter()
            .filter_map(|n| Some(left("Deployment", &views.deployments.get(&namespace, n)?.object)))
            .filter(|l| l.finalizers.iter().any(|f| f == finalizer::COMPONENT))
            .collect();
        r.cleanup = views.planes.get(&namespace, name).map_or(Cleanup::No, |o| cleanup(&o));
        r.plane = views.planes.get(&namespace, name).map(|o| {
            let mut left = left("HostedControlPlane", &o);
            let cloud = Conditions::of(&o.data["status"]);
            let cloud = cloud.get(condition::CLOUD_RESOURCES_DESTROYED).filter(|c| c.status != Status::True);
            left.note = cloud.map(|c| c.message.clone()).unwrap_or_default();
            if left.note.is_empty() && r.cleanup == Cleanup::Running {
                left.note = "the guest removes what it made in Azure".to_owned();
            }
            left
        });
        let asked = annotated(annotation::CLEANUP_CLOUD_RESOURCES) == Some("true");
        let guest = views.planes.get(&namespace, name).is_some_and(|o| answered(&o));
        r.skipped = guest && !asked && r.cleanup == Cleanup::No && !group_gone;
        let links: Vec<Machine> = views.links.within(&namespace).iter().map(|o| link(o)).collect();
        let stuck = links.iter().filter(|l| !l.left.note.is_empty());
        let stuck: Vec<String> = stuck.map(|l| format!("{}: {}", l.left.object, l.left.note)).collect();
        let held = |l: &Machine| l.left.finalizers.iter().any(|f| f == finalizer::PRIVATE_ENDPOINT);
        r.links = links.into_iter().filter(held).collect();
        r.namespace = space.map(|s| Left {
            object: format!("Namespace {namespace}"),
            name: namespace.clone(),
            since: s.deleting,
            finalizers: Vec::new(),
            note: std::iter::once(s.left.clone())
                .filter(|n| !n.is_empty())
                .chain(stuck)
                .collect::<Vec<_>>()
                .join("; "),
        });
        r
    }

    /// A namespace of the same name that belongs to another cluster is none of ours, nor is what lies in it or is named
    /// after it.
    fn ours(&self, hc: &HostedCluster) -> bool {
        let space = self.views.spaces.get("", &naming::namespace(hc));
        space.is_none_or(|s| s.cluster.as_deref().is_none_or(|c| c == naming::key(hc)))
    }

    /// Whether anything of ours is left outside of the namespace.
    fn traces(&self, hc: &HostedCluster, namespace: &str, ours: bool) -> bool {
        let roles = ours && access::names(namespace).iter().any(|n| self.views.roles.get("", n).is_some());
        roles || !self.views.marked(naming::home(hc), naming::name(hc)).is_empty()
    }

    pub(super) async fn remove(
        &self,
        seen: &Arc<DynamicObject>,
        hc: &HostedCluster,
    ) -> Result<Outcome, Failure> {
        let now = self.clock.now();
        let held = seen.metadata.finalizers.iter().flatten().any(|f| f == finalizer::HYPERSHIFT);
        if !held {
            return Ok(Outcome::Done);
        }
        let group_gone = self.group_gone(hc, now).await;
        let remains = self.remains(hc, seen, group_gone);
        let step = delete::step(&remains, now);
        if step.layer < Layer::Plane || step.acts.contains(&Act::DeletePlane) {
            self.let_go(hc).await?;
        }
        let mut failed: Option<Failure> = None;
        for act in &step.acts {
            if *act == Act::Finish {
                continue;
            }
            if let Err(e) = self.act(hc, &remains, act).await {
                failed.get_or_insert(e);
            }
        }
        self.say(seen, hc, &step, remains.skipped, failed.as_deref(), now).await?;
        if let Some(e) = failed {
            return Err(e);
        }
        if step.layer == Layer::Gone {
            let at = kinds::CLUSTER.at(naming::home(hc), naming::name(hc));
            self.applier.remove_finalizer(&at, seen, finalizer::HYPERSHIFT).await?;
            self.uids.forget(&naming::namespace(hc));
            return Ok(Outcome::Done);
        }
        let finding = delete::finding(&step, naming::home(hc), naming::name(hc));
        let on = vec![Waiting::new(format!("deletion: {}", step.layer.word()), finding.message, now)];
        Ok(Outcome::Waiting { on, again: step.again })
    }

    /// Whether Azure says that the resource group is gone. Not knowing is no.
    async fn group_gone(&self, hc: &HostedCluster, now: Timestamp) -> bool {
        let (Some(azure), Some(asked)) = (self.around.preflight(), Asked::of(hc)) else { return false };
        self.groups.gone(&naming::key(hc), &asked, &*azure, now).await
    }

    /// Nobody below may be paused, and the guest is told to clean up if the user asked for it.
    async fn let_go(&self, hc: &HostedCluster) -> Result<(), Failure> {
        let namespace = naming::namespace(hc);
        if let Some(plane) = self.views.planes.get(&namespace, naming::name(hc))
            && self.ours(hc)
        {
            let cleanup = naming::annotation(hc, annotation::CLEANUP_CLOUD_RESOURCES);
            let has =
                plane.metadata.annotations.as_ref().and_then(|a| a.get(annotation::CLEANUP_CLOUD_RESOURCES));
            let mut patch = json!({});
            if cleanup.is_some() && cleanup != has.map(String::as_str) {
                patch["metadata"]["annotations"][annotation::CLEANUP_CLOUD_RESOURCES] = json!(cleanup);
            }
            if !plane.data["spec"]["pausedUntil"].is_null() {
                patch["spec"]["pausedUntil"] = Value::Null;
            }
            if patch != json!({}) {
                self.patch(&kinds::PLANE, &plane, patch).await?;
            }
        }
        let infra = hc.spec.infra_id.as_deref().unwrap_or_default();
        if let Some(cluster) = self.views.capi.get(&namespace, infra)
            && cluster.data["spec"]["paused"] == true
        {
            self.patch(&kinds::CAPI_CLUSTER, &cluster, json!({"spec": {"paused": false}})).await?;
        }
        Ok(())
    }

    async fn act(&self, hc: &HostedCluster, r: &Remains, act: &Act) -> Result<(), Failure> {
        let (home, name, namespace) = (naming::home(hc), naming::name(hc), naming::namespace(hc));
        let infra = hc.spec.infra_id.clone().unwrap_or_default();
        match act {
            Act::DeletePool(pool) => self.gone(&kinds::POOL, home, pool).await,
            Act::DropPool(pool) => self.strip(&kinds::POOL, home, pool).await,
            Act::DeleteCluster => self.gone(&kinds::CAPI_CLUSTER, &namespace, &infra).await,
            Act::DropCluster => self.strip(&kinds::CAPI_CLUSTER, &namespace, &infra).await,
            Act::DropMachine(m) => self.strip(&kinds::AZURE_MACHINE, &namespace, m).await,
            Act::ReleaseOperator(d) => {
                let Some(w) = self.views.deployments.get(&namespace, d) else { return Ok(()) };
                let at = kinds::DEPLOYMENT.at(&namespace, d.as_str());
                self.applier.remove_finalizer(&at, &w.object, finalizer::COMPONENT).await?;
                Ok(())
            }
            Act::DeletePlane => self.gone(&kinds::PLANE, &namespace, name).await,
            Act::ReleasePlane => {
                let Some(plane) = self.views.planes.get(&namespace, name) else { return Ok(()) };
                let at = kinds::PLANE.at(&namespace, name);
                self.applier.remove_finalizer(&at, &plane, finalizer::HYPERSHIFT).await?;
                Ok(())
            }
            Act::DropLinks(names) => self.drop_links(hc, r, names).await,
            Act::DropPlane => self.strip(&kinds::PLANE, &namespace, name).await,
            Act::DeleteNamespace => self.gone(&kinds::NAMESPACE, "", &namespace).await,
            Act::EmptyNamespace => self.empty(&namespace).await,
            Act::RemoveTraces => {
                if self.ours(hc) && (r.namespace.is_none() || r.keep_namespace) {
                    for role in access::names(&namespace) {
                        self.applier.delete(&kinds::CLUSTER_ROLE_BINDING.at("", role.as_str())).await?;
                        self.applier.delete(&kinds::CLUSTER_ROLE.at("", role)).await?;
                    }
                }
                for (sort, object) in self.views.marked(home, name) {
                    self.set_mark(sort, home, &object, name, None).await?;
                }
                Ok(())
            }
            Act::Finish => Ok(()),
        }
    }

    /// Endpoints that cannot be removed are left to whoever has the network; the control plane does not wait for them.
    async fn drop_links(&self, hc: &HostedCluster, r: &Remains, names: &[String]) -> Result<(), Failure> {
        let (namespace, name) = (naming::namespace(hc), naming::name(hc));
        for link in names {
            let Some(seen) = self.views.links.get(&namespace, link) else { continue };
            let endpoint = seen.data["status"]["privateEndpointID"].as_str().unwrap_or_default();
            tracing::warn!(%namespace, name = %link, endpoint, "a private endpoint is given up: look for it in Azure, with its zones");
            let at = kinds::LINK.at(&namespace, link.as_str());
            self.applier.remove_finalizer(&at, &seen, finalizer::PRIVATE_ENDPOINT).await?;
        }
        let Some(plane) = self.views.planes.get(&namespace, name).filter(|_| names.len() == r.links.len())
        else {
            return Ok(());
        };
        let at = kinds::PLANE.at(&namespace, name);
        self.applier.remove_finalizer(&at, &plane, finalizer::PRIVATE_ENDPOINT_CLEANUP).await?;
        Ok(())
    }

    /// Asks for an object's end; one that is gone, or whose kind is not served, is a success.
    async fn gone(&self, kind: &Kind, namespace: &str, name: &str) -> Result<(), Failure> {
        match kind.api(self.applier.client(), namespace).delete(name, &DeleteParams::background()).await {
            Ok(_) => Ok(()),
            Err(kube::Error::Api(s)) if matches!(s.code, 404 | 409) => Ok(()),
            Err(e) => Err(e.into()),
        }
    }

    /// Takes all finalizers off an object that is being deleted. One that is not, or not any more, is another of that name.
    async fn strip(&self, kind: &Kind, namespace: &str, name: &str) -> Result<(), Failure> {
        match kind.api(self.applier.client(), namespace).get_metadata_opt(name).await? {
            Some(o) if o.metadata.deletion_timestamp.is_some() => {
                self.strip_seen(kind, namespace, &o.metadata).await
            }
            _ => Ok(()),
        }
    }

    /// Holds only for the object as it was seen.
    async fn strip_seen(&self, kind: &Kind, namespace: &str, seen: &ObjectMeta) -> Result<(), Failure> {
        let name = seen.name.as_deref().unwrap_or_default();
        let patch = json!({"metadata": {"finalizers": null, "uid": seen.uid,
            "resourceVersion": seen.resource_version}});
        let params = PatchParams { field_manager: Some(super::MANAGER.to_owned()), ..PatchParams::default() };
        tracing::warn!(kind = %kind.kind, namespace, name, "finalizers are taken off");
        match kind.api(self.applier.client(), namespace).patch(name, &params, &Patch::Merge(&patch)).await {
            Ok(_) => Ok(()),
            Err(kube::Error::Api(s)) if s.code == 404 => Ok(()),
            Err(e) => Err(e.into()),
        }
    }

    /// Takes the finalizers off everything in a namespace that is being deleted, of whatever kind it is. What one kind
    /// refuses keeps nobody from the others, and what the operator may not look at is left to who may.
    async fn empty(&self, namespace: &str) -> Result<(), Failure> {
        let mut failed: Option<Failure> = None;
        for kind in holders::kinds(self.applier.client()).await? {
            let api = kind.api(self.applier.client(), namespace);
            let list = match api.list_metadata(&ListParams::default()).await {
                Ok(list) => list,
                Err(kube::Error::Api(s)) if matches!(s.code, 404 | 405) => continue,
                Err(kube::Error::Api(s)) if s.code == 403 => {
                    tracing::warn!(namespace, kind = %kind.kind, group = %kind.group, "objects of this kind may not be listed");
                    continue;
                }
                Err(e) => {
                    failed.get_or_insert_with(|| e.into());
                    continue;
                }
            };
            for o in list.items {
                let m = o.metadata;
                let held =
                    m.deletion_timestamp.is_some() && m.finalizers.as_ref().is_some_and(|f| !f.is_empty());
                if !held {
                    continue;
                }
                if let Err(e) = self.strip_seen(&kind, namespace, &m).await {
                    failed.get_or_insert(e);
                }
            }
        }
        failed.map_or(Ok(()), Err)
    }

    /// Where the deletion stands, in the status.
    async fn say(
        &self,
        seen: &DynamicObject,
        hc: &HostedCluster,
        step: &Step,
        skipped: bool,
        failed: Option<&(dyn std::error::Error + Send + Sync + 'static)>,
        now: Timestamp,
    ) -> Result<(), Failure> {
        let at = kinds::CLUSTER.at(naming::home(hc), naming::name(hc));
        let plane = self.views.planes.get(&naming::namespace(hc), naming::name(hc));
        let deletion = delete::finding(step, naming::home(hc), naming::name(hc));
        // What `kubectl get` shows of a cluster is this condition's message.
        let told = format!("being deleted: {}", deletion.message);
        let group = hc.spec.shared.platform.azure.as_ref().map_or("", |a| a.resource_group.as_str());
        let skip = skipped.then(|| delete::skipped(naming::home(hc), naming::name(hc), group));
        let mut findings = vec![deletion];
        findings.push(match failed {
            Some(e) => Finding::new(
                condition::RECONCILIATION_SUCCEEDED,
                Status::False,
                reason::RECONCILIATION_ERROR,
                format!("deletion, {}: {}", step.layer.word(), reconcile::chain(e)),
            ),
            None => Finding::new(
                condition::RECONCILIATION_SUCCEEDED,
                Status::True,
                reason::RECONCILIATION_SUCCEEDED,
                format!("deletion is at {}", step.layer.word()),
            ),
        });
        if step.layer == Layer::Grace {
            let wait = naming::annotation(hc, annotation::DESTROY_GRACE_PERIOD).unwrap_or_default();
            let message = format!("everything is destroyed; the object stays for the grace period of {wait}");
            findings.push(Finding::new(
                condition::HOSTED_CLUSTER_DESTROYED,
                Status::True,
                reason::WAITING_FOR_GRACE_PERIOD,
                message,
            ));
        }
        self.applier
            .status(&at, seen, |o| {
                let mut status = o.data.get("status").cloned().filter(Value::is_object).unwrap_or(json!({}));
                let generation = o.metadata.generation;
                let mut all = Conditions::of(&status);
                let theirs = plane.as_ref().map(|p| Conditions::of(&p.data["status"])).unwrap_or_default();
                let kind = condition::CLOUD_RESOURCES_DESTROYED;
                match (theirs.get(kind), &skip) {
                    (Some(found), _) => _ = all.mirror(kind, Some(found), generation, now),
                    (None, Some(skip)) => _ = all.set(skip.clone(), generation, now),
                    // It is asked after all. What was said of a control plane that is gone stays said.
                    (None, None) if plane.is_some() => _ = all.remove(kind),
                    (None, None) => {}
                }
                let (available, why) = theirs
                    .get(condition::AVAILABLE)
                    .map_or((Status::False, reason::NOT_FOUND), |f| (f.status, f.reason.as_str()));
                all.set(Finding::new(condition::AVAILABLE, available, why, told.clone()), generation, now);
                for f in &findings {
                    all.set(f.clone(), generation, now);
                }
                status["conditions"] = all.to_value();
                status
            })
            .await?;
        Ok(())
    }
}

/// When the last of it was seen to be gone.
fn destroyed(seen: &DynamicObject) -> Option<Timestamp> {
    let all = Conditions::of(&seen.data["status"]);
    all.get(condition::HOSTED_CLUSTER_DESTROYED)
        .filter(|c| c.status == Status::True)
        .map(|c| c.last_transition_time)
}

/// Whether resource groups are there, asked now and then.
#[derive(Default)]
pub struct Groups(parking_lot::Mutex<std::collections::BTreeMap<String, (bool, Timestamp)>>);

impl Groups {
    const AGAIN: SignedDuration = SignedDuration::from_secs(60);

    async fn gone(
        &self,
        key: &str,
        asked: &Asked,
        azure: &dyn crate::preflight::Preflight,
        now: Timestamp,
    ) -> bool {
        if let Some((gone, until)) = self.0.lock().get(key)
            && now < *until
        {
            return *gone;
        }
        let gone = azure.group_gone(asked).await;
        let until = now.checked_add(Groups::AGAIN).unwrap_or(Timestamp::MAX);
        self.0.lock().insert(key.to_owned(), (gone, until));
        gone
    }

    pub fn forget(&self, key: &str) {
        self.0.lock().remove(key);
    }
}
