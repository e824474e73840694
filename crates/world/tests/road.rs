//! The whole road of node pools, in both flavours: machines become nodes, run what is deployed, are scaled, marked, repaired,
//! replaced and upgraded in place, and leave nothing.

use crate::kit::{DEADLINE, Kit, condition, is_true};
use crate::place::{Place, Reached};
use crate::pools::node_versions;
use crate::remains::Remains;
use azure::ops::VirtualMachines;
use hypershift::kinds;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::api::{Api, ListParams, PostParams};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use world::Flavour;
use world::sample::{NAMESPACE, Sample};

/// A pool of the older version, whose image the definition of that version does not name.
fn old<P: Place>(kit: &Kit<P>, name: &str, replicas: u32) -> Value {
    let mut pool = kit.pool(name, "4.19.4", replicas);
    pool["spec"]["platform"]["azure"]["image"] = json!({"type": "AzureMarketplace", "azureMarketplace": {
        "publisher": "azureopenshift", "offer": "aro4", "sku": "419-v2", "version": "419.6.20250523"}});
    pool
}

async fn nodes(guest: &kube::Client) -> Vec<Node> {
    Api::<Node>::all(guest.clone()).list(&ListParams::default()).await.unwrap().items
}

/// A deployment with a pod for each node, and where they run.
async fn deploy(guest: &kube::Client, replicas: i32) -> BTreeSet<String> {
    let deployments: Api<Deployment> = Api::namespaced(guest.clone(), "default");
    let spread = json!([{"maxSkew": 1, "topologyKey": "kubernetes.io/hostname", "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "web"}}}]);
    let web = json!({"metadata": {"name": "web"}, "spec": {"replicas": replicas, "selector": {"matchLabels": {"app": "web"}},
        "template": {"metadata": {"labels": {"app": "web"}}, "spec": {"topologySpreadConstraints": spread,
            "containers": [{"name": "c", "image": "web"}]}}}});
    deployments.create(&PostParams::default(), &serde_json::from_value(web).unwrap()).await.unwrap();
    let up = |d: Option<&Deployment>| {
        d.and_then(|d| d.status.as_ref()).is_some_and(|s| s.available_replicas == Some(replicas))
    };
    let wait = kube::runtime::wait::await_condition(deployments, "web", up);
    tokio::time::timeout(DEADLINE, wait).await.expect("what is deployed runs").unwrap();
    let pods: Api<Pod> = Api::namespaced(guest.clone(), "default");
    let list = pods.list(&ListParams::default().labels("app=web")).await.unwrap();
    list.items.iter().filter_map(|p| p.spec.as_ref()?.node_name.clone()).collect()
}

/// How many machines there were at the least and at the most since an entry of the journal, as it was asked for.
fn extremes<P: Place>(kit: &Kit<P>, since: u64, mut there: BTreeSet<String>) -> (usize, usize) {
    let (mut least, mut most) = (there.len(), there.len());
    for e in kit.cloud().sim.world().journal().into_iter().filter(|e| e.number > since && e.status < 300) {
        let path = e.path.split('?').next().unwrap_or_default();
        let Some((_, name)) = path.split_once("/virtualMachines/").filter(|(_, n)| !n.contains('/')) else {
            continue;
        };
        match e.method.as_str() {
            "PUT" => there.insert(name.to_owned()),
            "DELETE" => there.remove(name),
            _ => continue,
        };
        (least, most) = (least.min(there.len()), most.max(there.len()));
    }
    (least, most)
}

fn last<P: Place>(kit: &Kit<P>) -> u64 {
    kit.cloud().sim.world().journal().last().map_or(0, |e| e.number)
}

/// A pool of a cluster that cannot run is not ready, and says why. Whether machines are begun depends on how much of the
/// cluster is known by then; they go with it.
async fn no_nodes<P: Place>(kit: &Kit<P>, home: &Sample, pool: Value, why: String) -> Reached {
    let name = pool["metadata"]["name"].as_str().unwrap().to_owned();
    kit.put(&kinds::POOL, pool).await;
    kit.until_pool(&name, "what it waits for", |s| {
        let ready = condition(s, "Ready");
        ready["status"] == "False" && ready["message"].as_str().is_some_and(|m| !m.is_empty())
    })
    .await;
    let reached = kit.give_up(home, why).await;
    assert_eq!(kit.parts(), Vec::<String>::new(), "left in Azure");
    reached
}

/// Machines run in Azure, and nobody is at home in them: they could not reach the cluster.
async fn empty_machines<P: Place>(kit: &Kit<P>, home: &Sample, pool: &str) -> Reached {
    kit.until_pool(pool, "machines", |s| condition(s, "AllNodesHealthy")["reason"] == "NodeProvisioning")
        .await;
    assert!(kit.machines().iter().any(|m| m.starts_with(pool)), "{:?}", kit.machines());
    kit.delete(&home.name).await;
    kit.gone(&home.name).await;
    assert_eq!(kit.parts(), Vec::<String>::new(), "left in Azure");
    Reached::Machines
}

pub async fn walk<P: Place>(kit: &Kit<P>) -> Reached {
    let before = Remains::of(kit).await;
    let (np, fixed) = (kit.named("np"), kit.named("fixed"));
    let (np, fixed) = (np.as_str(), fixed.as_str());
    let home = kit.joinable("4.20.1");
    kit.create(&home).await;
    // Machines, and nodes of them.
    let mut pool = old(kit, np, 2);
    pool["metadata"]["annotations"] = json!({"hypershift.openshift.io/machine-health-check-timeout": "1s",
        "hypershift.openshift.io/machine-health-check-max-unhealthy": "2"});
    if let Some(why) = kit.hopeless(&home).await {
        return no_nodes(kit, &home, pool, why).await;
    }
    kit.available(&home.name).await;
    let guest = kit.admin(&home.name).await;
    kit.put(&kinds::POOL, pool).await;
    if !kit.world.reaches_azure() {
        return empty_machines(kit, &home, np).await;
    }
    let ready = |s: &Value, version: &str, count: i64| {
        is_true(s, "Ready") && s["version"] == version && node_versions(s) == [(version.to_owned(), count, 0)]
    };
    kit.until_pool(np, "two nodes", |s| ready(s, "4.19.4", 2)).await;
    for kind in [
        "AllMachinesReady",
        "AllNodesHealthy",
        "ValidGeneratedPayload",
        "ReachedIgnitionEndpoint",
        "AutorepairEnabled",
    ] {
        kit.until_pool(np, kind, |s| is_true(s, kind)).await;
    }
    assert_eq!(kit.machine_names().await, kit.machines(), "machines are named as Machines are");
    let all = nodes(&guest).await;
    let provider = |n: &Node| n.spec.as_ref().and_then(|s| s.provider_id.clone()).unwrap_or_default();
    assert!(
        all.len() == 2 && all.iter().all(|n| provider(n).starts_with("azure:///subscriptions/")),
        "{all:?}"
    );
    // The pod's own identity asked for them.
    let journal = kit.cloud().sim.world().journal();
    let by = |what: &str| {
        let asked = journal.iter().filter(|e| e.method == "PUT" && e.path.contains(what));
        asked.map(|e| e.principal.clone()).collect::<BTreeSet<_>>()
    };
    assert!(!by("/virtualMachines/").is_empty());
    if kit.inside("which identity asked for the machines").is_some() {
        assert!(by("/virtualMachines/").is_disjoint(&by("/registries/")));
    }

    // What people see and do.
    if let Some((worked, text)) = kit.kubectl(&home.name, &["get", "nodes"]).await {
        assert!(worked && text.matches(" Ready ").count() == 2, "{text}");
    }
    assert_eq!(deploy(&guest, 2).await.len(), 2, "a pod on each");

    // More, and fewer.
    kit.change_pool(np, json!({"spec": {"replicas": 3}})).await;
    kit.until_pool(np, "three nodes", |s| ready(s, "4.19.4", 3)).await;
    kit.change_pool(np, json!({"spec": {"replicas": 2}})).await;
    kit.until_pool(np, "two nodes again", |s| ready(s, "4.19.4", 2) && kit.machines().len() == 2).await;

    // A label and a taint, without a roll.
    let same = kit.machines();
    let taint = json!([{"key": "gpu", "value": "yes", "effect": "PreferNoSchedule"}]);
    kit.change_pool(np, json!({"spec": {"nodeLabels": {"example.com/team": "a"}, "taints": taint}})).await;
    let marked = |n: &Node| {
        let label = n.metadata.labels.as_ref().and_then(|l| l.get("example.com/team"));
        let taints = n.spec.as_ref().and_then(|s| s.taints.as_ref()).into_iter().flatten();
        label.is_some_and(|l| l == "a") && taints.filter(|t| t.key == "gpu").count() == 1
    };
    let api: Api<Node> = Api::all(guest.clone());
    for node in nodes(&guest).await {
        let name = node.metadata.name.unwrap();
        let wait = kube::runtime::wait::await_condition(api.clone(), &name, |n: Option<&Node>| {
            n.is_some_and(marked)
        });
        tokio::time::timeout(DEADLINE, wait).await.expect("label and taint").unwrap();
    }
    assert_eq!(kit.machines(), same);

    // One is lost in Azure, behind everybody's back.
    let lost = same.into_iter().next().unwrap();
    let id = kit.landing.layout.main.provider("Microsoft.Compute", "virtualMachines", &lost).unwrap();
    kit.cloud().client.arm::<VirtualMachines>().delete(&id).await.unwrap();
    kit.until_pool(np, "another machine", |s| {
        let now = kit.machines();
        ready(s, "4.19.4", 2) && now.len() == 2 && !now.contains(&lost)
    })
    .await;

    // Another version by replacement: one more at a time than there are, and never fewer.
    let (was, since) = (kit.machines(), last(kit));
    let image = kit.cloud().release("4.20.1").unwrap();
    let newer = json!({"spec": {"release": {"image": image}, "platform": {"azure": {"image": {"azureMarketplace": null}}}}});
    kit.change_pool(np, newer.clone()).await;
    kit.until_pool(np, "a roll", |s| is_true(s, "UpdatingVersion")).await;
    kit.until_pool(np, "its end", |s| ready(s, "4.20.1", 2) && !is_true(s, "UpdatingVersion")).await;
    assert!(kit.machines().is_disjoint(&was));
    // (One that is being drained counts no more, as in Cluster API.)
    let (least, most) = extremes(kit, since, was);
    assert!(least == 2 && (3..=4).contains(&most), "{least} to {most} machines");

    // And in place: the same machines.
    let mut pool = old(kit, fixed, 1);
    pool["spec"]["management"] = json!({"upgradeType": "InPlace"});
    kit.put(&kinds::POOL, pool).await;
    kit.until_pool(fixed, "a node", |s| ready(s, "4.19.4", 1)).await;
    let (was, since) = (kit.machines(), last(kit));
    kit.change_pool(fixed, json!({"spec": {"release": {"image": image}}})).await;
    kit.until_pool(fixed, "the newer version", |s| ready(s, "4.20.1", 1) && !is_true(s, "UpdatingVersion"))
        .await;
    assert_eq!((kit.machines(), extremes(kit, since, was.clone())), (was.clone(), (3, 3)));

    // The end of one pool, and of the cluster with the other.
    kit.api(&kinds::POOL, NAMESPACE).delete(np, &Default::default()).await.unwrap();
    kit.pool_gone(np).await;
    assert_eq!(kit.machines().len(), 1);
    kit.delete(&home.name).await;
    kit.gone(&home.name).await;
    Remains::of(kit).await.assert_clean_since(&before, &[&home.name]);
    Reached::End
}

async fn here(flavour: Flavour) {
    let kit = Kit::start(flavour).await;
    assert_eq!(walk(&kit).await, Reached::End);
    kit.world.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn self_managed() {
    here(Flavour::Workload).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn managed() {
    here(Flavour::Managed).await;
}
