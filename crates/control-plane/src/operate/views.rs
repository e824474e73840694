//! What the operator reads: everything it needs of a namespace, kept by watches.

use super::memo::{Pending, Sum, sum_of};
use super::progress::Rollout;
use super::trouble::{self, Trouble, Unready, Warning};
use crate::Materials;
use crate::certificates::BREAK_GLASS;
use crate::certificates::plan::{Data, Kept, Kind};
use crate::config::kube_apiserver::authorities;
use crate::etcd::recovery::Member;
use crate::publish::AGGREGATED;
use crate::scope::{AesKey, Encryption, Scope};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use clock::Random;
use jiff::SignedDuration;
use kube::core::{DynamicObject, ObjectMeta};
use pki::rotation::{Known, Phase};
use reconcile::View;
use serde_json::{Value, json};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

/// Views of a management cluster.
pub struct Views {
    pub planes: Arc<View<DynamicObject>>,
    pub components: Arc<View<Slim>>,
    pub secrets: Arc<View<Material>>,
    pub config_maps: Arc<View<Material>>,
    /// The bundle of break-glass authorities, with a watch of its own: it carries no label of ours.
    pub break_glass: Arc<View<Material>>,
    pub deployments: Arc<View<Rollout>>,
    pub stateful_sets: Arc<View<Rollout>>,
    pub jobs: Arc<View<Rollout>>,
    pub cron_jobs: Arc<View<Rollout>>,
    /// Deployments that components make beside themselves, each with a watch of its own: they carry no label of ours.
    pub operands: Vec<(&'static str, Arc<View<Rollout>>)>,
    /// Pods that are not ready, and warnings about pods.
    pub unready: Arc<View<Unready>>,
    pub warnings: Arc<View<Warning>>,
    /// Members of etcd.
    pub members: Arc<View<Member>>,
    pub backups: Arc<View<DynamicObject>>,
    /// Addresses that Services were given.
    pub services: Arc<View<ServedAt>>,
    /// Names that Routes were given.
    pub routes: Arc<View<String>>,
    /// `group/Kind` of what the management cluster serves beyond the built-in kinds.
    pub served: BTreeSet<String>,
    pub random: Random,
}

fn rollout_of(kind: &'static str) -> impl Fn(&DynamicObject) -> Option<Rollout> {
    // Objects of a list do not all say their kind.
    move |o| {
        let m = &o.metadata;
        let mut rollout = Rollout::of(kind, m.generation.unwrap_or(0), m.annotations.as_ref(), &o.data);
        rollout.seen = version(o);
        Some(rollout)
    }
}

/// The content of a Secret or ConfigMap.
pub struct Material {
    pub data: Arc<Data>,
    pub sum: Sum,
    /// The resourceVersion it is of.
    pub version: u64,
}

impl Material {
    pub fn new(data: Data, version: u64) -> Material {
        Material { sum: sum_of(&data), data: Arc::new(data), version }
    }

    fn of(o: &DynamicObject, read: impl Fn(&str) -> Vec<u8>) -> Option<Material> {
        let data = o.data.get("data").and_then(Value::as_object).into_iter().flatten();
        let data = data.map(|(k, v)| (k.clone(), read(v.as_str().unwrap_or_default()))).collect();
        Some(Material::new(data, version(o)))
    }
}

fn version(o: &DynamicObject) -> u64 {
    o.metadata.resource_version.as_deref().and_then(|v| v.parse().ok()).unwrap_or(0)
}

/// What is needed of a ControlPlaneComponent: forty times a control plane, so as a text and not as a tree.
pub struct Slim {
    uid: Option<String>,
    pub version: Option<String>,
    generation: Option<i64>,
    status: Box<str>,
}

impl Slim {
    fn of(o: &DynamicObject) -> Option<Slim> {
        let m = &o.metadata;
        Some(Slim {
            uid: m.uid.clone(),
            version: m.resource_version.clone(),
            generation: m.generation,
            status: o.data.get("status").map(Value::to_string).unwrap_or_default().into(),
        })
    }

    /// As an object with a status.
    pub fn object(&self) -> DynamicObject {
        let status = serde_json::from_str::<Value>(&self.status).unwrap_or_default();
        DynamicObject {
            types: None,
            metadata: ObjectMeta {
                uid: self.uid.clone(),
                resource_version: self.version.clone(),
                generation: self.generation,
                ..ObjectMeta::default()
            },
            data: json!({"status": status}),
        }
    }
}

/// Where a Service is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServedAt {
    /// The name or address its balancer was given.
    pub outside: Option<String>,
    /// Its own address in the management cluster.
    pub inside: Option<String>,
}

fn served_at(o: &DynamicObject) -> Option<ServedAt> {
    let first = &o.data["status"]["loadBalancer"]["ingress"][0];
    let outside = first["hostname"].as_str().or_else(|| first["ip"].as_str()).map(str::to_owned);
    let inside = o.data["spec"]["clusterIP"].as_str().filter(|ip| ip.parse::<IpAddr>().is_ok());
    Some(ServedAt { outside, inside: inside.map(str::to_owned) })
}

/// The name of a Route: its own, or what the management cluster's router gave to one that asked for none.
fn host(o: &DynamicObject) -> Option<String> {
    let admitted = o.data["status"]["ingress"][0]["host"].as_str();
    o.data["spec"]["host"].as_str().or(admitted).filter(|h| !h.is_empty()).map(str::to_owned)
}

impl Views {
    pub fn new(served: BTreeSet<String>, random: Random) -> Views {
        Views {
            planes: View::whole(),
            components: View::new(Slim::of),
            secrets: View::new(|o| Material::of(o, |text| STANDARD.decode(text).unwrap_or_default())),
            config_maps: View::new(|o| Material::of(o, |text| text.as_bytes().to_vec())),
            break_glass: View::new(|o| Material::of(o, |text| text.as_bytes().to_vec())),
            deployments: View::new(rollout_of("Deployment")),
            stateful_sets: View::new(rollout_of("StatefulSet")),
            jobs: View::new(rollout_of("Job")),
            cron_jobs: View::new(rollout_of("CronJob")),
            operands: crate::table::OPERANDS.map(|o| (o, View::new(rollout_of("Deployment")))).into(),
            unready: View::new(Unready::of),
            warnings: View::new(Warning::of),
            members: View::new(Member::of),
            backups: View::whole(),
            services: View::new(served_at),
            routes: View::new(host),
            served,
            random,
        }
    }

    /// How a component's workload is.
    pub fn rollout(&self, namespace: &str, name: &str) -> Rollout {
        [&self.deployments, &self.stateful_sets, &self.jobs, &self.cron_jobs]
            .into_iter()
            .find_map(|v| v.get(namespace, name))
            .or_else(|| self.operands.iter().find(|(n, _)| *n == name)?.1.get(namespace, name))
            .map(|r| (*r).clone())
            .unwrap_or_default()
    }

    /// What ails components, in their own words.
    pub fn troubles(&self, namespace: &str) -> Vec<Trouble> {
        let unready = self.unready.within(namespace);
        if unready.is_empty() {
            return Vec::new();
        }
        trouble::troubles(&unready, &self.warnings.within(namespace))
    }

    /// The same encryption with the keys that lie in Secrets.
    pub fn keys(&self, namespace: &str, encryption: &Encryption) -> Result<Encryption, String> {
        let Encryption::Aescbc { active, backup } = encryption else { return Ok(encryption.clone()) };
        let read = |key: &AesKey, field: &str| {
            let secret = self.secrets.get(namespace, &key.name);
            let material = secret.and_then(|s| s.data.get("key").cloned()).filter(|m| m.len() == 32);
            let material = material.ok_or_else(|| {
                format!(
                    "secretEncryption.aescbc.{field} cannot be used: Secret {} has no 32 bytes under `key`; make it with `head -c 32 /dev/urandom`",
                    key.name
                )
            })?;
            Ok::<_, String>(AesKey::with(&key.name, material))
        };
        Ok(Encryption::Aescbc {
            active: read(active, "activeKey")?,
            backup: backup.as_ref().map(|b| read(b, "backupKey")).transpose()?,
        })
    }

    /// The authorities of issuers, as far as they are there; who needs one that is not says so.
    pub fn authorities(&self, scope: &Scope) -> BTreeMap<String, String> {
        let read = |name: String| {
            let map = self.config_maps.get(&scope.namespace, &name)?;
            let pem = String::from_utf8_lossy(map.data.get("ca-bundle.crt")?).into_owned();
            Some((name, pem))
        };
        authorities(&scope.configuration).into_iter().filter_map(read).collect()
    }

    /// Hosts that were given to what is published, and addresses of Services inside.
    pub fn given(&self, namespace: &str) -> BTreeMap<&'static str, String> {
        let routes =
            [("oauth", "oauth"), ("konnectivity", "konnectivity-server"), ("ignition", "ignition-server")];
        let routes = routes.into_iter().filter_map(|(key, r)| Some((key, self.routes.get(namespace, r)?)));
        let services = [("api", "kube-apiserverlb"), ("oauth", "oauth-openshift")];
        let services = services
            .into_iter()
            .filter_map(|(key, s)| Some((key, self.services.get(namespace, s)?.outside.clone()?)));
        let router = self.services.get(namespace, "private-router").and_then(|s| s.inside.clone());
        let router = router.map(|ip| ("private-router", ip));
        let aggregated = AGGREGATED.into_iter().filter_map(|(service, _)| {
            Some((service, self.services.get(namespace, service)?.inside.clone()?))
        });
        let routes = routes.map(|(key, host)| (key, (*host).clone()));
        routes.chain(services).chain(router).chain(aggregated).collect()
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

    /// What is in a namespace, and what was written there and not seen yet.
    pub fn kept<'a>(&'a self, namespace: &'a str, pending: &'a Pending) -> Namespace<'a> {
        Namespace { views: self, namespace, pending }
    }

    /// What a watch last told.
    pub fn seen(&self, namespace: &str, kind: Kind, name: &str) -> Option<Arc<Material>> {
        match kind {
            Kind::Secret => self.secrets.get(namespace, name),
            Kind::ConfigMap if name == BREAK_GLASS.0 => self.break_glass.get(namespace, name),
            Kind::ConfigMap => self.config_maps.get(namespace, name),
        }
    }

    /// What is known of an authority's rotation. `converged`: everything is rolled out with what is stored now, which the
    /// config hash of pods ensures; then bundles and leaves are in use.
    pub fn rotation(
        &self,
        plane: &DynamicObject,
        ca: &str,
        converged: bool,
        propagation: SignedDuration,
    ) -> Known {
        let annotations = plane.metadata.annotations.as_ref();
        let asked = annotations.and_then(|a| a.get("hypershift.openshift.io/rotate-authorities"));
        let asked = asked.and_then(|text| {
            // `all@2026-11-16` or `root-ca,etcd-signer@word`.
            let (which, word) = text.split_once('@').unwrap_or((text, text));
            which.split(',').any(|w| w == "all" || w == ca).then(|| word.to_owned())
        });
        let overlap = annotations.and_then(|a| a.get("hypershift.openshift.io/rotate-authorities-overlap"));
        let overlap = overlap.and_then(|t| t.parse::<SignedDuration>().ok()).unwrap_or(propagation);
        Known { asked, bundle_in_use: converged, leaves_in_use: converged, overlap: overlap.max(propagation) }
    }

    /// Where an authority's rotation stands.
    pub fn phase(&self, scope: &Scope, ca: &str) -> Option<Phase> {
        crate::certificates::plan::phase(&self.secrets.get(&scope.namespace, ca)?.data).ok()
    }
}

/// Secrets and ConfigMaps of one namespace.
#[derive(Clone, Copy)]
pub struct Namespace<'a> {
    views: &'a Views,
    namespace: &'a str,
    pending: &'a Pending,
}

impl Namespace<'_> {
    pub fn has(&self, kind: Kind, name: &str) -> bool {
        self.find(kind, name).is_some()
    }

    pub fn find(&self, kind: Kind, name: &str) -> Option<Arc<Material>> {
        self.pending.get(kind, name).or_else(|| self.views.seen(self.namespace, kind, name))
    }

    /// What it holds, as a number; 0 if there is none.
    pub fn sum(&self, kind: Kind, name: &str) -> Sum {
        self.find(kind, name).map_or(0, |m| m.sum)
    }
}

/// The kind of a mount.
pub fn kind(word: &str) -> Kind {
    if word == "Secret" { Kind::Secret } else { Kind::ConfigMap }
}

impl Materials for Namespace<'_> {
    fn data(&self, word: &str, name: &str) -> Option<BTreeMap<String, Vec<u8>>> {
        Some((*self.find(kind(word), name)?.data).clone())
    }
}

/// A namespace that remembers what was read of it.
pub struct Reading<'a> {
    pub from: Namespace<'a>,
    pub read: RefCell<BTreeMap<(Kind, String), Sum>>,
}

impl Kept for Reading<'_> {
    fn data(&self, kind: Kind, name: &str) -> Option<Arc<Data>> {
        let found = self.from.find(kind, name);
        self.read.borrow_mut().insert((kind, name.to_owned()), found.as_ref().map_or(0, |m| m.sum));
        found.map(|m| m.data.clone())
    }
}
