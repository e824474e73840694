//! Gathering what the plan needs.

use super::{Error, Operator, asking};
use crate::facts::{Facts, Kubeadmin, Material, Serving, facts};
use crate::kinds;
use crate::plan::{BACKENDS, SOURCE};
use crate::probe::Answer;
use apis::common::Sensitive;
use apis::hypershift::HostedControlPlane;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{ConfigMap, Secret, Service};
use kube::Api;
use kube::core::DynamicObject;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fmt;

/// Secrets of the control plane's namespace that guests get something of.
const SECRETS: [&str; 4] = ["pull-secret", "konnectivity-agent", "ingress-crt", "kubeadmin-password"];

/// ConfigMaps, likewise.
const CONFIG_MAPS: [&str; 5] =
    ["root-ca", "kubelet-client-ca", "konnectivity-ca-bundle", "azure-cloud-config", "user-ca-bundle"];

/// As the OAuth server's own tools do it.
const BCRYPT_COST: u32 = 10;

/// A Secret that matters.
#[derive(Clone)]
pub struct Kept {
    pub data: BTreeMap<String, Vec<u8>>,
    /// Which one, and in which version.
    pub source: String,
}

impl fmt::Debug for Kept {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Kept({})", self.source)
    }
}

fn name(o: &DynamicObject) -> &str {
    o.metadata.name.as_deref().unwrap_or_default()
}

fn fields(o: &DynamicObject) -> impl Iterator<Item = (&String, &str)> {
    o.data["data"].as_object().into_iter().flatten().filter_map(|(k, v)| Some((k, v.as_str()?)))
}

pub(super) fn keep_secret(o: &DynamicObject) -> Option<Kept> {
    if !SECRETS.contains(&name(o)) {
        return None;
    }
    let data = fields(o).filter_map(|(k, v)| Some((k.clone(), STANDARD.decode(v).ok()?))).collect();
    let m = &o.metadata;
    let part = |p: &Option<String>| p.clone().unwrap_or_default();
    Some(Kept { data, source: format!("{}/{}", part(&m.uid), part(&m.resource_version)) })
}

pub(super) fn keep_config_map(o: &DynamicObject) -> Option<BTreeMap<String, String>> {
    CONFIG_MAPS.contains(&name(o)).then(|| fields(o).map(|(k, v)| (k.clone(), v.to_owned())).collect())
}

/// Whether an object of the control plane's namespace is worth a look.
pub(super) fn matters(o: &DynamicObject) -> bool {
    SECRETS.contains(&name(o)) || CONFIG_MAPS.contains(&name(o))
}

/// Whether a ConfigMap is, by what a control plane says as well.
pub(super) fn map_matters(plane: Option<&DynamicObject>, o: &DynamicObject) -> bool {
    matters(o) || plane.is_some_and(|p| named(&p.data["spec"]["configuration"]).any(|n| n == name(o)))
}

/// ConfigMaps that a configuration names.
fn named(configuration: &Value) -> impl Iterator<Item = &str> {
    let names = [
        &configuration["proxy"]["trustedCA"]["name"],
        &configuration["image"]["additionalTrustedCA"]["name"],
    ];
    names.into_iter().filter_map(Value::as_str).filter(|n| !n.is_empty())
}

/// Definitions are for ever, and one answer that did not come is not enough for that. Where a server is available and says
/// nothing for this long, there is none: what runs there only looks like one.
const SILENCE: jiff::SignedDuration = jiff::SignedDuration::from_secs(30);

fn told_by_silence(since: jiff::Timestamp, now: jiff::Timestamp) -> Serving {
    if now.duration_since(since) < SILENCE { Serving::Unknown } else { Serving::Definitions }
}

impl Operator {
    pub(super) async fn gather(&self, hcp: &HostedControlPlane) -> Result<Facts, Error> {
        let ns = &self.told.namespace;
        let mut material = Material::default();
        for name in SECRETS {
            if let Some(kept) = self.secrets.get(ns, name) {
                material.secrets.insert(name.to_owned(), kept.data.clone());
            }
        }
        for name in CONFIG_MAPS {
            if let Some(kept) = self.config_maps.get(ns, name) {
                material.config_maps.insert(name.to_owned(), (*kept).clone());
            }
        }
        self.named(hcp, &mut material).await?;
        let mut f = facts(hcp, &self.told, material).map_err(Error::Facts)?;
        f.serving = self.serving(&f).await?;
        if f.serving == Serving::Aggregated {
            let services: Api<Service> = Api::namespaced(self.management.clone(), ns);
            for (name, _) in BACKENDS {
                let found = services.get_opt(name).await.map_err(asking(format!("read Service {name}")))?;
                let address =
                    found.and_then(|s| s.spec?.cluster_ip).filter(|ip| ip != "None" && !ip.is_empty());
                f.backends.extend(address.map(|a| (name.to_owned(), a)));
            }
        }
        f.drawn = Sensitive(STANDARD.encode(self.random.bytes::<32>()));
        if f.scope.kubeadmin() {
            f.kubeadmin = self.kubeadmin().await?;
        }
        Ok(f)
    }

    /// ConfigMaps that the configuration names. Rare, and therefore asked for when one changes, not kept.
    async fn named(&self, hcp: &HostedControlPlane, material: &mut Material) -> Result<(), Error> {
        let c = serde_json::to_value(&hcp.spec.shared.configuration).unwrap_or_default();
        let maps: Api<ConfigMap> = Api::namespaced(self.management.clone(), &self.told.namespace);
        for name in named(&c) {
            if material.config_maps.contains_key(name) {
                continue;
            }
            let found = maps.get_opt(name).await.map_err(asking(format!("read ConfigMap {name}")))?;
            material.config_maps.extend(found.map(|m| (name.to_owned(), m.data.unwrap_or_default())));
        }
        Ok(())
    }

    /// Who serves OpenShift's kinds. Decided once: data that lies in definitions must not be hidden by an API that
    /// appears later.
    async fn serving(&self, f: &Facts) -> Result<Serving, Error> {
        let known = *self.serving.lock();
        if known != Serving::Unknown {
            return Ok(known);
        }
        let found = self.look_who_serves(f).await?;
        *self.serving.lock() = found;
        Ok(found)
    }

    async fn look_who_serves(&self, f: &Facts) -> Result<Serving, Error> {
        let definition =
            kinds::DEFINITION.api(&self.guest, "").get_metadata_opt("routes.route.openshift.io").await;
        if definition.map_err(asking("read CustomResourceDefinition routes.route.openshift.io"))?.is_some() {
            return Ok(Serving::Definitions);
        }
        let (service, group) = ("openshift-apiserver", "route.openshift.io");
        let deployments: Api<Deployment> = Api::namespaced(self.management.clone(), &self.told.namespace);
        let backend =
            deployments.get_opt(service).await.map_err(asking(format!("read Deployment {service}")))?;
        let is_up = |d: Deployment| {
            let conditions = d.status.and_then(|s| s.conditions).unwrap_or_default();
            conditions.iter().any(|c| c.type_ == "Available" && c.status == "True")
        };
        let Some(roots) = f.material.text("root-ca", "ca.crt") else { return Ok(Serving::Unknown) };
        if !backend.is_some_and(is_up) {
            // Of who is not there, silence says nothing.
            *self.silent.lock() = None;
            return Ok(Serving::Unknown);
        }
        Ok(match self.backends.serves(service, group, roots).await {
            Answer::Serves => Serving::Aggregated,
            Answer::Lacks => Serving::Definitions,
            Answer::Silent(why) => {
                let now = self.clock.now();
                let since = *self.silent.lock().get_or_insert(now);
                let found = told_by_silence(since, now);
                tracing::info!(service, group, why, ?found, "nobody says who serves this group");
                found
            }
        })
    }

    /// The hash of kubeadmin's password: the one the guest has, if it is of the same password, otherwise a new one.
    async fn kubeadmin(&self) -> Result<Option<Kubeadmin>, Error> {
        let Some(kept) = self.secrets.get(&self.told.namespace, "kubeadmin-password") else {
            return Ok(None);
        };
        let Some(password) = kept.data.get("password").filter(|p| !p.is_empty()).cloned() else {
            return Ok(None);
        };
        let cached = self.kubeadmin.lock().clone();
        if let Some(k) = cached.filter(|k| k.source == kept.source) {
            return Ok(Some(k));
        }
        let secrets: Api<Secret> = Api::namespaced(self.guest.clone(), "kube-system");
        let there =
            secrets.get_opt("kubeadmin").await.map_err(asking("read Secret kube-system/kubeadmin"))?;
        let there = there.and_then(|s| {
            let source = s.metadata.annotations?.get(SOURCE)?.clone();
            let hash = String::from_utf8(s.data?.get("kubeadmin")?.0.clone()).ok()?;
            Some(Kubeadmin { hash, source })
        });
        let made = match there.filter(|k| k.source == kept.source) {
            Some(k) => k,
            None => Kubeadmin { hash: self.hash(password).await?, source: kept.source.clone() },
        };
        *self.kubeadmin.lock() = Some(made.clone());
        Ok(Some(made))
    }

    async fn hash(&self, password: Vec<u8>) -> Result<String, Error> {
        let salt: [u8; 16] = self.random.bytes();
        // Meant to be slow: off the threads that answer.
        let hashed =
            tokio::task::spawn_blocking(move || bcrypt::hash_with_salt(&password, BCRYPT_COST, salt)).await;
        let hashed = hashed.map_err(|e| Error::Hash { why: e.to_string() })?;
        let hashed = hashed.map_err(|e| Error::Hash { why: e.to_string() })?;
        Ok(hashed.format_for_version(bcrypt::Version::TwoA))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use serde_json::json;

    #[test]
    fn silence_says_nothing_for_a_while() {
        let since = jiff::Timestamp::UNIX_EPOCH;
        assert_eq!(told_by_silence(since, since + SILENCE / 2), Serving::Unknown);
        assert_eq!(told_by_silence(since, since + SILENCE), Serving::Definitions);
    }

    #[test]
    fn config_maps_that_the_configuration_names_matter() {
        let object = |v: Value| serde_json::from_value::<DynamicObject>(v).unwrap();
        let map = |name: &str| object(json!({"metadata": {"name": name}}));
        let plane = object(json!({"metadata": {}, "spec": {"configuration": {
            "proxy": {"trustedCA": {"name": "proxy-ca"}}, "image": {"additionalTrustedCA": {"name": "image-ca"}}}}}));
        for name in ["proxy-ca", "image-ca", "root-ca"] {
            assert!(map_matters(Some(&plane), &map(name)), "{name}");
        }
        assert!(!map_matters(Some(&plane), &map("another")) && !map_matters(None, &map("proxy-ca")));
    }
}
