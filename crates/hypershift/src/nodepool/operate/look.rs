//! Everything that decides, looked at.

use super::{Boot, Look, Pools, sooner};
use crate::around::Payload;
use crate::inputs::{self, Given, Purpose, Sort};
use crate::naming;
use crate::nodepool::capacity::Known;
use crate::nodepool::config::{self, Way};
use crate::nodepool::machines::{Has, Refs};
use crate::nodepool::rollout::{Rollout, Wish};
use crate::nodepool::room::Room;
use crate::nodepool::secrets::{self, Said};
use crate::nodepool::status::{Endpoint, Target};
use crate::nodepool::{home, name, template, tuning, validate};
use crate::validate::Problem;
use crate::validate::network;
use apis::conditions::{node_pool as c, reason};
use apis::hypershift::{HostedCluster, NodePool};
use apis::names::annotation;
use jiff::SignedDuration;
use kube::core::DynamicObject;
use reconcile::{Failure, Pause};
use serde_json::Value;
use std::sync::Arc;

/// A name that is not found yet is asked for again after this long.
const ASK_AGAIN: SignedDuration = SignedDuration::from_secs(10);

/// What nodes need of what users gave to the cluster, and of what its control plane wrote.
struct Needed {
    pull_secret: Option<Given>,
    ssh_key: Option<Given>,
    bundle: Option<Given>,
    /// What the control plane tells nodes of Azure.
    cloud: Option<Given>,
}

impl Needed {
    fn bytes<'a>(given: &'a Option<Given>, key: &str) -> Option<&'a [u8]> {
        given.as_ref()?.data.get(key).map(Vec::as_slice)
    }
}

impl Pools {
    pub(super) async fn look(
        &self,
        seen: Arc<DynamicObject>,
        np: NodePool,
        hc: Arc<HostedCluster>,
        cluster: &DynamicObject,
        pause: Result<Pause, String>,
    ) -> Result<Look, Failure> {
        let status = &cluster.data["status"];
        let problems = validate::problems(&np, &hc);
        let stops = [c::AUTOSCALING_ENABLED, c::UPDATE_MANAGEMENT_ENABLED, c::VALID_MACHINE_TEMPLATE];
        let mut look = Look {
            namespace: naming::namespace(&hc),
            stopped: problems.iter().any(|p| stops.contains(&p.condition)),
            seen,
            np,
            hc,
            problems,
            pause,
            release: None,
            endpoint: Endpoint::There,
            skew: None,
            target: None,
            objects: Vec::new(),
            tuning: None,
            has: Has::Nothing,
            unscalable: None,
            boot: None,
            waiting: None,
            conflict: None,
            room: Room::default(),
            again: None,
        };
        self.look_at_boot(&mut look, status).await?;
        let given = self.given(&look).await?;
        let Some(pull_secret) = Needed::bytes(&given.pull_secret, ".dockerconfigjson") else {
            look.waiting = Some(format!(
                "the pull secret {} of the HostedCluster is not there",
                look.hc.spec.shared.pull_secret.name
            ));
            return Ok(look);
        };
        let (release, again) = self
            .operator
            .releases
            .get(
                &*self.operator.around,
                &look.hc,
                &look.np.spec.release.image,
                pull_secret,
                self.operator.clock.now(),
            )
            .await;
        look.again = sooner(look.again, again);
        look.release = Some(release.clone());
        if let Ok(payload) = &*release {
            let running = look.seen.data["status"]["version"].as_str().and_then(|v| v.parse().ok());
            let cluster = validate::cluster_version(status);
            let version = &payload.release.version;
            look.problems.extend(validate::release(
                &look.np,
                &look.hc,
                version,
                running.as_ref(),
                cluster.as_ref(),
            ));
        }
        look.conflict = self.conflict(&look);
        let (manifests, tuned) = self.manifests(&mut look).await?;
        self.measure(&mut look).await;
        let way = Way::of(&look.hc, status, self.operator.around.shared_ingress().is_some());
        if look.waiting.is_none() && way.is_none() {
            look.waiting = Some("the control plane has not said where its API is yet".into());
        }
        if let (Ok(payload), Some(way)) = (&*release, &way) {
            let config = [manifests.as_slice(), tuned.as_slice()];
            self.aim(&mut look, payload, way, config, &given, status)?;
        }
        Ok(look)
    }

    async fn given(&self, look: &Look) -> Result<Needed, Failure> {
        let operator = &self.operator;
        let mut out = Needed { pull_secret: None, ssh_key: None, bundle: None, cloud: None };
        for input in inputs::of(&look.hc) {
            let slot = match input.purpose {
                Purpose::PullSecret => &mut out.pull_secret,
                Purpose::SshKey => &mut out.ssh_key,
                Purpose::TrustBundle => &mut out.bundle,
                _ => continue,
            };
            *slot =
                operator.fetch.one(&operator.views, input.sort, naming::home(&look.hc), &input.name).await?;
        }
        out.cloud = operator
            .fetch
            .one(&operator.views, Sort::ConfigMap, &look.namespace, "azure-cloud-config")
            .await?;
        Ok(out)
    }

    /// Where nodes fetch the rest of themselves, and whom they trust there.
    async fn look_at_boot(&self, look: &mut Look, status: &Value) -> Result<(), Failure> {
        let operator = &self.operator;
        if operator.views.spaces.get("", &look.namespace).is_none_or(|s| s.deleting.is_some()) {
            look.waiting =
                Some(format!("the namespace {} of the control plane is not there yet", look.namespace));
        } else if status["kubeconfig"]["name"].as_str().is_none_or(str::is_empty) {
            look.waiting = Some("the HostedCluster has no kubeconfig yet (status.kubeconfig)".into());
        }
        let missing = |reason, text: &str| Endpoint::Missing(reason, text.to_owned());
        let Some(host) = status["ignitionEndpoint"].as_str().filter(|h| !h.is_empty()) else {
            look.endpoint = missing(
                reason::IGNITION_ENDPOINT_MISSING,
                "the HostedCluster does not say yet where ignition is served (status.ignitionEndpoint)",
            );
            return Ok(());
        };
        let secret = operator
            .fetch
            .one(&operator.views, Sort::Secret, &look.namespace, "ignition-server-ca-cert")
            .await?;
        // No other authority of the control plane would do: ignition is served with certificates of this one.
        let Some(ca) = secret.and_then(|s| s.data.get("tls.crt").cloned()) else {
            look.endpoint = missing(
                reason::IGNITION_CA_CERT_MISSING,
                "Secret ignition-server-ca-cert of the control plane does not say yet whom nodes are to trust (key tls.crt)",
            );
            return Ok(());
        };
        look.boot = Some(Boot { endpoint: host.to_owned(), ca });
        if !self.resolves(host).await {
            look.endpoint = Endpoint::Missing(
                reason::EXTERNAL_DNS_HOST_NOT_REACHABLE,
                format!(
                    "{host} is in no DNS yet: nodes would not find ignition; is external-dns at work, and is the zone delegated?"
                ),
            );
            look.again = sooner(look.again, Some(ASK_AGAIN));
        }
        Ok(())
    }

    async fn resolves(&self, host: &str) -> bool {
        if self.resolved.lock().contains(host) {
            return true;
        }
        let found = self.operator.around.resolves(host).await;
        if found {
            let mut known = self.resolved.lock();
            if known.len() > 4096 {
                known.clear();
            }
            known.insert(host.to_owned());
        }
        found
    }

    fn conflict(&self, look: &Look) -> Option<String> {
        let pods: Vec<&str> =
            look.hc.spec.networking.cluster_network.iter().map(|n| n.cidr.0.as_str()).collect();
        let machines = self.machines(&look.np, &look.namespace);
        let mut found: Vec<String> = Vec::new();
        for m in machines.iter() {
            for address in &m.addresses {
                if let Some(cidr) = pods.iter().find(|c| network::contains(c, address)) {
                    found.push(format!(
                        "machine {} has the address {address}, which is in the pods' network {cidr}",
                        m.name
                    ));
                }
            }
        }
        found.sort();
        (!found.is_empty()).then(|| {
            format!("{}: create another HostedCluster whose spec.networking.clusterNetwork is not that of machines", found.join("; "))
        })
    }

    async fn maps(
        &self,
        np: &NodePool,
        names: &Option<Vec<apis::common::LocalObjectReference>>,
    ) -> Result<Vec<(String, Option<Given>)>, Failure> {
        let operator = &self.operator;
        let mut out = Vec::new();
        for reference in names.iter().flatten() {
            let given =
                operator.fetch.one(&operator.views, Sort::ConfigMap, home(np), &reference.name).await?;
            out.push((reference.name.clone(), given));
        }
        Ok(out)
    }

    /// What users wrote for nodes, and what the node tuning operator made of their tuning; checked.
    async fn manifests(&self, look: &mut Look) -> Result<(Vec<Value>, Vec<Value>), Failure> {
        let np = &look.np;
        let (config, tuning) =
            (self.maps(np, &np.spec.config).await?, self.maps(np, &np.spec.tuning_config).await?);
        let (manifests, wrong) = config::of_user(config::Sort::Config, &config);
        let (profiles, mut untuned) = config::of_user(config::Sort::Tuning, &tuning);
        if untuned.is_empty() {
            look.tuning = Some(tuning::objects(&look.hc, np, &profiles));
        }
        let shared = self.tunings(np, &look.namespace);
        let made: Vec<(String, Option<Given>)> =
            shared.iter().filter_map(|s| Some((s.name.clone(), Some(s.made()?)))).collect();
        let (tuned, unmade) = config::of_user(config::Sort::Config, &made);
        untuned.extend(unmade);
        for (condition, errors) in [(c::VALID_MACHINE_CONFIG, wrong), (c::VALID_TUNING_CONFIG, untuned)] {
            look.problems.extend(errors.iter().map(|e| Problem {
                condition,
                reason: reason::VALIDATION_FAILED,
                message: e.to_string(),
            }));
        }
        Ok((manifests, tuned))
    }

    /// What machines of the pool's size have, if an autoscaler wants to know.
    async fn measure(&self, look: &mut Look) {
        let (np, hc) = (&look.np, &look.hc);
        let (Some(bounds), Some(azure)) = (&np.spec.auto_scaling, np.spec.platform.azure.as_ref()) else {
            return;
        };
        let known = match (self.operator.around.catalogue(), hc.spec.shared.platform.azure.as_ref()) {
            (Some(asks), Some(at)) => {
                let now = self.operator.clock.now();
                let sizes = &self.operator.sizes;
                let (known, again) =
                    sizes.get(&*asks, &at.subscription_id, &at.location, &azure.vm_size, now).await;
                look.again = sooner(look.again, again);
                known
            }
            _ => Known::Unknown("Azure is not asked".into()),
        };
        let live = self.workload(np, &look.namespace).map(|(_, w)| w.has.clone()).unwrap_or_default();
        let why = match &known {
            Known::Has(_) => None,
            Known::Nothing => Some(format!("{} is not sold there", azure.vm_size)),
            Known::Unknown(_) if !live.size.is_empty() => None,
            Known::Unknown(why) => Some(why.clone()),
        };
        look.unscalable = why.filter(|_| bounds.min == 0).map(|why| {
            format!("it does not grow from zero while nobody knows what a machine of it has: {why}")
        });
        look.has = match known {
            Known::Has(sold) => sold.capacity.map_or(Has::Nothing, Has::Of),
            Known::Nothing => Has::Nothing,
            Known::Unknown(_) => Has::Still(live),
        };
    }

    /// What machines are to be, if that can be said and may be rolled.
    fn aim(
        &self,
        look: &mut Look,
        payload: &Payload,
        way: &Way,
        [manifests, tuned]: [&[Value]; 2],
        given: &Needed,
        status: &Value,
    ) -> Result<(), Failure> {
        let (np, hc) = (&look.np, &look.hc);
        let version = payload.release.version.as_str();
        let cluster = validate::cluster_version(status);
        look.skew = validate::skew(version, cluster.as_ref()).err().map(|e| e.to_string());
        look.problems.extend(validate::arch(np, hc, payload));
        let Some(azure) = np.spec.platform.azure.as_ref() else { return Ok(()) };
        let image = match template::image(azure, np.spec.arch, payload) {
            Ok(image) => image,
            Err(e) => {
                look.problems.push(Problem {
                    condition: c::VALID_PLATFORM_IMAGE,
                    reason: reason::VALIDATION_FAILED,
                    message: e.to_string(),
                });
                return Ok(());
            }
        };
        let reachable = look.endpoint == Endpoint::There;
        if !look.problems.is_empty() || look.skew.is_some() || !reachable || look.waiting.is_some() {
            return Ok(());
        }
        let ssh = Needed::bytes(&given.ssh_key, "id_rsa.pub").map(String::from_utf8_lossy);
        let images = &payload.release.images;
        let rollout = Rollout::of(&Wish {
            hc,
            way,
            manifests,
            tuned,
            ssh_key: ssh.as_deref(),
            version,
            proxy_image: images.get(way.image()).map(String::as_str).unwrap_or_default(),
        });
        let machine = template::object(hc, np, template::machine(hc, azure, image));
        let token = secrets::token(
            hc,
            np,
            &rollout,
            &Said {
                release: &np.spec.release.image,
                version,
                pull_secret: Needed::bytes(&given.pull_secret, ".dockerconfigjson").unwrap_or_default(),
                trust_bundle: Needed::bytes(&given.bundle, "ca-bundle.crt"),
                cloud_config: Needed::bytes(&given.cloud, "cloud.conf"),
                daemon_image: images.get("machine-config-operator").map(String::as_str).unwrap_or_default(),
            },
        )?;
        let refs = Refs {
            data_secret: secrets::user_data_name(name(np), &rollout.hash),
            template: machine["metadata"]["name"].as_str().unwrap_or_default().to_owned(),
            version: version.to_owned(),
        };
        look.objects = vec![token, machine];
        look.target = Some(Target { rollout, refs, kubernetes: payload.release.kubernetes.clone() });
        Ok(())
    }
}

/// Whether machine management is switched off for a cluster.
pub(super) fn unmanaged(hc: &HostedCluster) -> bool {
    naming::annotation(hc, annotation::DISABLE_MACHINE_MANAGEMENT).is_some()
}
