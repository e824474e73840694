//! Nobody writes about what is settled: everybody who keeps a cluster with a node pool looks at it a hundred times.
//!
//! Operators of this process speak through clients that write down what is not a question, to the management cluster, to
//! the guest and (by its journal) to Azure. The two that work in pods of the control plane are run here once more, told
//! what their pods are told and with their pods' own kubeconfigs. What anybody else writes is found by the versions of
//! all objects in both clusters, before and after. In every round a node is touched, so that those who cannot be asked
//! have something to look at, too.

use crate::kit::{Between, DEADLINE, Kit, is_true, says};
use crate::lasting::listening;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hypershift::kinds;
use k8s_openapi::api::core::v1::Node;
use kube::api::{Api, DynamicObject, ListParams, Patch, PatchParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::discovery::{Discovery, verbs};
use parking_lot::Mutex;
use reconcile::{Handle, Kind, Metrics, Runtime};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use tokio_util::sync::CancellationToken;
use world::sample::{NAMESPACE, Sample};
use world::{Flavour, Operators};

const ROUNDS: usize = 100;

type Writes = Arc<Mutex<Vec<String>>>;

/// Somebody who can be asked to look.
struct Eyes {
    controller: &'static str,
    metrics: Metrics,
    handle: Handle,
    keys: Vec<String>,
}

/// How often a controller ran.
fn runs(metrics: &Metrics, controller: &str) -> usize {
    let ours = format!("controller=\"{controller}\"");
    let text = metrics.text();
    let lines =
        text.lines().filter(|l| l.starts_with("controller_runtime_reconcile_total{") && l.contains(&ours));
    lines.filter_map(|l| l.rsplit(' ').next()?.parse::<usize>().ok()).sum()
}

impl Eyes {
    fn runs(&self) -> usize {
        runs(&self.metrics, self.controller)
    }
}

async fn keys(kit: &Kit, kind: &Kind, namespace: &str) -> Vec<String> {
    let all = kit.api(kind, namespace).list_metadata(&ListParams::default()).await.unwrap().items;
    let keys: Vec<String> =
        all.into_iter().map(|o| format!("{namespace}/{}", o.metadata.name.unwrap())).collect();
    assert!(!keys.is_empty(), "{} in {namespace}", kind.kind);
    keys
}

/// Those of the management cluster.
async fn operators(kit: &Kit, home: &Sample, operators: &Operators) -> Vec<Eyes> {
    let (plane, machines) = (home.plane(), operators.machines.as_ref().unwrap());
    let mut all = Vec::new();
    for (controller, handle, kind, namespace) in [
        ("hosted-cluster", &operators.clusters, kinds::CLUSTER, NAMESPACE),
        ("hosted-control-plane", &operators.planes, kinds::PLANE, &plane),
        ("node-pool", operators.pools.as_ref().unwrap(), kinds::POOL, NAMESPACE),
        ("capi-cluster", &machines.clusters, kinds::CAPI_CLUSTER, &plane),
        ("machine-deployment", &machines.deployments, kinds::MACHINE_DEPLOYMENT, &plane),
        ("machine-set", &machines.sets, kinds::MACHINE_SET, &plane),
        ("machine", &machines.machines, kinds::MACHINE, &plane),
        ("machine-health-check", &machines.checks, kinds::MACHINE_CHECK, &plane),
        ("azure-machine", &machines.azure_machines, kinds::AZURE_MACHINE, &plane),
    ] {
        let (metrics, handle) = (operators.metrics.clone(), handle.clone());
        all.push(Eyes { controller, metrics, handle, keys: keys(kit, &kind, namespace).await });
    }
    all
}

/// The guest, by a kubeconfig that pods have: they know it by a name, and we by the administrator's address.
async fn guest(kit: &Kit, home: &Sample, secret: &str) -> kube::Client {
    let secret = kit.api(&kinds::SECRET, &home.plane()).get(secret).await.unwrap();
    let text = STANDARD.decode(secret.data["data"]["kubeconfig"].as_str().unwrap()).unwrap();
    let mut config = Kubeconfig::from_yaml(&String::from_utf8(text).unwrap()).unwrap();
    let admin = Kubeconfig::from_yaml(&kit.kubeconfig(&home.name).await).unwrap();
    let at = |c: &Kubeconfig| c.clusters[0].cluster.clone().unwrap();
    config.clusters[0].cluster.as_mut().unwrap().server = at(&admin).server;
    let config = kube::Config::from_custom_kubeconfig(config, &KubeConfigOptions::default()).await.unwrap();
    kube::Client::try_from(config).unwrap()
}

/// What the pod of the config operator is told.
async fn told(kit: &Kit, home: &Sample) -> guest_config::Told {
    let name = "hosted-cluster-config-operator";
    let deployment = kit.api(&kinds::DEPLOYMENT, &home.plane()).get(name).await.unwrap();
    let containers = deployment.data["spec"]["template"]["spec"]["containers"].as_array().unwrap().clone();
    let container = containers.into_iter().find(|c| c["name"] == name).unwrap();
    let words = [&container["command"], &container["args"]].into_iter().filter_map(Value::as_array).flatten();
    let words = words.map(|w| w.as_str().unwrap().replace("$(POD_NAMESPACE)", &home.plane()));
    let words: Vec<String> = words.skip(3).collect();
    let args: guest_config::Args = sidecars::parse(name, &words).unwrap();
    let env = container["env"].as_array().cloned().unwrap_or_default();
    args.told(|v| env.iter().find(|e| e["name"] == v)?["value"].as_str().map(str::to_owned))
}

/// Those that work in pods, and the metrics by which it is seen that they do.
async fn in_pods(
    kit: &Kit,
    home: &Sample,
    runtime: &mut Runtime,
    metrics: &Metrics,
    w: &Writes,
) -> Vec<Eyes> {
    let ground = kit.world.ground();
    let config = guest_config::start(
        runtime,
        guest_config::Around {
            management: listening(kit.client(), w.clone()),
            guest: listening(guest(kit, home, "hcco-kubeconfig").await, w.clone()),
            told: told(kit, home).await,
            backends: Arc::new(guest_config::probe::Nobody),
            clock: ground.clock.clone(),
            random: ground.random.clone(),
            metrics: metrics.clone(),
        },
    );
    let image = home.cluster["spec"]["release"]["image"].as_str().unwrap();
    let payload = release::Releases::new().payload(&kit.cloud().images, image).await.unwrap();
    let version = cluster_version::start(
        runtime,
        cluster_version::Around {
            guest: listening(guest(kit, home, "service-network-admin-kubeconfig").await, w.clone()),
            payload: cluster_version::Payload::new(image, &payload),
            clock: ground.clock.clone(),
            random: ground.random.clone(),
            metrics: metrics.clone(),
        },
    );
    use guest_config::operate::{CLEANUP, CONNECTION, REENCRYPTION, REPORT, RESOURCES, WEBHOOKS};
    let parts = [RESOURCES, REPORT, CONNECTION, WEBHOOKS, REENCRYPTION, CLEANUP].map(str::to_owned).into();
    let eyes = |controller, handle, keys| Eyes { controller, metrics: metrics.clone(), handle, keys };
    vec![eyes("guest-config", config, parts), eyes("cluster-version", version, vec!["version".into()])]
}

/// What is in a cluster, with its versions. What beats like a heart, and what time brings, is left out.
async fn versions(client: &kube::Client) -> BTreeMap<String, String> {
    let mut all = BTreeMap::new();
    let known = Discovery::new(client.clone()).run().await.unwrap();
    for (resource, able) in known.groups().flat_map(|g| g.recommended_resources()) {
        let beats = ["Event", "Lease", "Node", "CronJob", "Job"].contains(&resource.kind.as_str());
        if beats || !able.supports_operation(verbs::LIST) {
            continue;
        }
        let api: Api<DynamicObject> = Api::all_with(client.clone(), &resource);
        for o in api.list_metadata(&ListParams::default()).await.unwrap().items {
            let m = o.metadata;
            let owners = m.owner_references.iter().flatten();
            if !owners.into_iter().any(|o| o.kind == "Job") {
                let (space, name) = (m.namespace.unwrap_or_default(), m.name.unwrap_or_default());
                // Kinds of two groups may have one name.
                let at = format!("{} {} {space}/{name}", resource.group, resource.kind);
                all.insert(at, m.resource_version.unwrap_or_default());
            }
        }
    }
    all
}

/// Writes in Azure since an entry of the journal.
fn in_azure(kit: &Kit, since: u64) -> Vec<String> {
    let journal = kit.cloud().sim.world().journal().into_iter().filter(|e| e.number > since);
    let writes = journal.filter(|e| ["PUT", "PATCH", "DELETE"].contains(&e.method.as_str()));
    writes.map(|e| format!("{} {}", e.method, e.path)).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn everybody_looks_a_hundred_times_and_nobody_writes() {
    let kit = Kit::start(Flavour::Workload).await;
    let home = kit.with_cluster("4.20.1").await;
    kit.put(&kinds::POOL, kit.pool("np", "4.20.1", 1)).await;
    kit.until_pool("np", "a node", |s| is_true(s, "Ready") && is_true(s, "AllNodesHealthy")).await;
    kit.until(&home.name, "all of it", |s| {
        let newest = &s["controlPlaneVersion"]["history"][0];
        newest["state"] == "Completed" && is_true(s, "Available") && says(s, "Degraded", "False", &[])
    })
    .await;

    kit.world.kill_operators();
    let writes = Writes::default();
    let mut ground = kit.world.ground().clone();
    let (keeping, written) = (ground.machines.as_mut().unwrap(), writes.clone());
    keeping.reach = Between::new(keeping.reach.clone(), move |c| listening(c, written.clone()));
    let ours = Operators::start(&ground, &listening(kit.client(), writes.clone()));
    let metrics = Metrics::default();
    let mut runtime = Runtime::new(ground.clock.clone(), &metrics);
    let mut eyes = operators(&kit, &home, &ours).await;
    eyes.extend(in_pods(&kit, &home, &mut runtime, &metrics, &writes).await);
    let stop = CancellationToken::new();
    let running = tokio::spawn(runtime.run(stop.clone()));

    let admin = kit.admin(&home.name).await;
    let nodes: Api<Node> = Api::all(admin.clone());
    let node = nodes.list(&ListParams::default()).await.unwrap().items.remove(0).metadata.name.unwrap();
    let round = async |n: usize| {
        let before: Vec<usize> = eyes.iter().map(Eyes::runs).collect();
        let nodes_before = runs(&metrics, "guest-nodes");
        let touch = json!({"metadata": {"annotations": {"example.com/round": n.to_string()}}});
        nodes.patch(&node, &PatchParams::default(), &Patch::Merge(&touch)).await.unwrap();
        for e in &eyes {
            e.keys.iter().for_each(|k| e.handle.poke(k));
        }
        let missing = || {
            let asked = eyes.iter().zip(&before).filter(|(e, b)| e.runs() < **b + e.keys.len());
            let mut all: BTreeSet<&str> = asked.map(|(e, _)| e.controller).collect();
            if runs(&metrics, "guest-nodes") == nodes_before {
                all.insert("guest-nodes");
            }
            all
        };
        let looked = async {
            while !missing().is_empty() {
                tokio::time::sleep(std::time::Duration::from_millis(2)).await;
            }
        };
        let looked = tokio::time::timeout(DEADLINE, looked).await;
        assert!(looked.is_ok(), "who does not look: {:?}", missing());
    };
    let journal = || kit.cloud().sim.world().journal().last().map_or(0, |e| e.number);
    // Settled is when a look writes nothing, several times in a row.
    let (mut quiet, mut n) = (0, 0);
    while quiet < 10 {
        let (before, since) = (writes.lock().len(), journal());
        round(n).await;
        n += 1;
        let same = writes.lock().len() == before && in_azure(&kit, since).is_empty();
        quiet = if same { quiet + 1 } else { 0 };
        assert!(n < 300, "it never settles: {:#?}", writes.lock());
    }
    // Whoever begins makes sure of everything once: that was heard, from both clusters.
    let heard = std::mem::take(&mut *writes.lock());
    for part in [format!("/namespaces/{}/", home.plane()), "/apis/config.openshift.io/".to_owned()] {
        assert!(heard.iter().any(|w| w.contains(&part)), "nobody is heard: {part} {heard:#?}");
    }
    assert!(!in_azure(&kit, 0).is_empty(), "machines were made");
    let since = journal();
    let before = [versions(&kit.client()).await, versions(&admin).await];
    for n in n..n + ROUNDS {
        round(n).await;
    }
    assert!(writes.lock().is_empty(), "settled, and still written: {:#?}", writes.lock());
    assert!(in_azure(&kit, since).is_empty(), "settled, and written in Azure: {:#?}", in_azure(&kit, since));
    let after = [versions(&kit.client()).await, versions(&admin).await];
    for (before, after) in before.iter().zip(&after) {
        assert!(before.len() > 100, "little is seen: {}", before.len());
        let all: BTreeSet<_> = before.keys().chain(after.keys()).collect();
        let other: Vec<_> = all.into_iter().filter(|k| before.get(*k) != after.get(*k)).collect();
        assert!(other.is_empty(), "somebody else wrote: {other:#?}");
    }
    stop.cancel();
    running.await.unwrap();
    ours.stop().await;
    kit.world.stop().await;
}
