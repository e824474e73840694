//! What the operator reads: everything it needs of a namespace, kept by watches.

use super::progress::Rollout;
use crate::Materials;
use crate::certificates::plan::{Data, Kept, Kind};
use crate::scope::Scope;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use clock::Random;
use kube::core::DynamicObject;
use pki::rotation::{Known, Phase};
use reconcile::View;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Views of a management cluster.
pub struct Views {
    pub planes: Arc<View<DynamicObject>>,
    pub components: Arc<View<DynamicObject>>,
    pub secrets: Arc<View<Data>>,
    pub config_maps: Arc<View<Data>>,
    pub deployments: Arc<View<Rollout>>,
    pub stateful_sets: Arc<View<Rollout>>,
    pub jobs: Arc<View<Rollout>>,
    pub cron_jobs: Arc<View<Rollout>>,
    /// Addresses that Services and Routes were given.
    pub services: Arc<View<String>>,
    /// `group/Kind` of what the management cluster serves beyond the built-in kinds.
    pub served: BTreeSet<String>,
    pub random: Random,
}

fn rollout_of(kind: &'static str) -> impl Fn(&DynamicObject) -> Option<Rollout> {
    // Objects of a list do not all say their kind.
    move |o| {
        Some(Rollout::of(kind, o.metadata.generation.unwrap_or(0), o.metadata.annotations.as_ref(), &o.data))
    }
}

fn decoded(o: &DynamicObject) -> Option<Data> {
    let data = o.data.get("data").and_then(Value::as_object);
    Some(
        data.into_iter()
            .flatten()
            .map(|(k, v)| (k.clone(), STANDARD.decode(v.as_str().unwrap_or_default()).unwrap_or_default()))
            .collect(),
    )
}

fn plain(o: &DynamicObject) -> Option<Data> {
    let data = o.data.get("data").and_then(Value::as_object);
    Some(
        data.into_iter()
            .flatten()
            .map(|(k, v)| (k.clone(), v.as_str().unwrap_or_default().as_bytes().to_vec()))
            .collect(),
    )
}

/// The name or address a balancer was given.
fn address(o: &DynamicObject) -> Option<String> {
    let first = &o.data["status"]["loadBalancer"]["ingress"][0];
    first["hostname"].as_str().or_else(|| first["ip"].as_str()).map(str::to_owned)
}

impl Views {
    pub fn new(served: BTreeSet<String>, random: Random) -> Views {
        Views {
            planes: View::whole(),
            components: View::whole(),
            secrets: View::new(decoded),
            config_maps: View::new(plain),
            deployments: View::new(rollout_of("Deployment")),
            stateful_sets: View::new(rollout_of("StatefulSet")),
            jobs: View::new(rollout_of("Job")),
            cron_jobs: View::new(rollout_of("CronJob")),
            services: View::new(address),
            served,
            random,
        }
    }

    /// How a component's workload is.
    pub fn rollout(&self, namespace: &str, name: &str) -> Rollout {
        [&self.deployments, &self.stateful_sets, &self.jobs, &self.cron_jobs]
            .into_iter()
            .find_map(|v| v.get(namespace, name))
            .map(|r| (*r).clone())
            .unwrap_or_default()
    }

    /// Hosts that were given to what is published.
    pub fn given(&self, namespace: &str) -> BTreeMap<&'static str, String> {
        [("api", "kube-apiserverlb"), ("oauth", "oauth-openshift")]
            .into_iter()
            .filter_map(|(key, service)| Some((key, (*self.services.get(namespace, service)?).clone())))
            .collect()
    }

    /// Whether the management cluster knows an object's kind.
    pub fn serves(&self, object: &Value) -> bool {
        let version = object["apiVersion"].as_str().unwrap_or_default();
        let group = version.split_once('/').map_or("", |(g, _)| g);
        // Built-in groups have no dot, or end in `.k8s.io`.
        let builtin = !group.contains('.') || (group.ends_with(".k8s.io") && !group.contains(".x-k8s."));
        builtin || self.served.contains(&format!("{group}/{}", object["kind"].as_str().unwrap_or_default()))
    }

    pub fn components_served(&self) -> bool {
        self.served.contains("hypershift.openshift.io/ControlPlaneComponent")
    }

    pub fn kept(&self, namespace: &str) -> Namespace<'_> {
        Namespace { views: self, namespace: namespace.to_owned() }
    }

    /// What is known of an authority's rotation. The bundle counts as in use when everything that mounts it is rolled out
    /// in its present form, which the config hash of pods ensures; the same for leaves.
    pub fn rotation(&self, plane: &DynamicObject, namespace: &str, ca: &str) -> Known {
        let annotations = plane.metadata.annotations.as_ref();
        let asked = annotations.and_then(|a| a.get("hypershift.openshift.io/rotate-authorities"));
        let asked = asked.and_then(|text| {
            // `all@2026-11-16` or `root-ca,etcd-signer@word`.
            let (which, word) = text.split_once('@').unwrap_or((text, text));
            which.split(',').any(|w| w == "all" || w == ca).then(|| word.to_owned())
        });
        let settled = [&self.deployments, &self.stateful_sets]
            .into_iter()
            .all(|v| v.within(namespace).iter().all(|r| r.complete));
        Known { asked, bundle_in_use: settled, leaves_in_use: settled }
    }

    /// Where an authority's rotation stands.
    pub fn phase(&self, scope: &Scope, ca: &str) -> Option<Phase> {
        crate::certificates::plan::phase(&*self.secrets.get(&scope.namespace, ca)?).ok()
    }
}

/// Secrets and ConfigMaps of one namespace.
pub struct Namespace<'a> {
    views: &'a Views,
    namespace: String,
}

impl Namespace<'_> {
    pub fn has(&self, kind: Kind, name: &str) -> bool {
        self.find(kind, name).is_some()
    }

    fn find(&self, kind: Kind, name: &str) -> Option<Arc<Data>> {
        match kind {
            Kind::Secret => self.views.secrets.get(&self.namespace, name),
            Kind::ConfigMap => self.views.config_maps.get(&self.namespace, name),
        }
    }
}

impl Kept for Namespace<'_> {
    fn data(&self, kind: Kind, name: &str) -> Option<Arc<Data>> {
        self.find(kind, name)
    }
}

impl Materials for Namespace<'_> {
    fn data(&self, kind: &str, name: &str) -> Option<BTreeMap<String, Vec<u8>>> {
        let kind = if kind == "Secret" { Kind::Secret } else { Kind::ConfigMap };
        Some((*self.find(kind, name)?).clone())
    }
}
