//! Machines become nodes: of NodePools, and, where something is to go wrong, machines that are made by hand.

use crate::kit::{DEADLINE, Kit, condition, is_true};
use arm::ResourceId;
use azure::ops::{NetworkInterfaces, VirtualMachines};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hypershift::kinds;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{Event, Node, Pod};
use kube::api::{Api, ListParams, Patch, PatchParams, PostParams};
use reconcile::Kind;
use serde_json::{Value, json};
use world::landing::{DOMAIN, LOCATION};
use world::sample::NAMESPACE;
use world::{Flavour, Options, World};

const MACHINE: Kind = Kind::new("cluster.x-k8s.io", "v1beta1", "Machine", "machines");
const PLANE: &str = "clusters-demo";

/// A token Secret as a NodePool's controller writes it.
async fn token(kit: &Kit, token: &str) {
    let release = kit.world.cloud().release("4.19.3").unwrap();
    let config = "kind: MachineConfig\nmetadata: {name: 99-x}\nspec: {config: {ignition: {version: 3.2.0}}}";
    let secret = json!({"apiVersion": "v1", "kind": "Secret",
        "metadata": {"name": "token-workers-1a2b3c4d", "namespace": PLANE, "annotations": {
            "hypershift.openshift.io/ignition-config": "true",
            "hypershift.openshift.io/node-pool-upgrade-type": "Replace",
            "hypershift.openshift.io/nodePool": "clusters/workers"}},
        "stringData": {"token": token, "release": release, "release-version": "4.19.3",
            "config": ignition::data::pack(config.as_bytes())}});
    let api = kit.api(&kinds::SECRET, PLANE);
    api.create(&PostParams::default(), &serde_json::from_value(secret).unwrap()).await.unwrap();
}

/// The user data of a machine.
async fn stub(kit: &Kit, token: &str) -> String {
    let ca = kit.api(&kinds::SECRET, PLANE).get("ignition-server-ca-cert").await.unwrap();
    let ca = ca.data["data"]["tls.crt"].as_str().unwrap();
    json!({"ignition": {"version": "3.2.0",
        "security": {"tls": {"certificateAuthorities": [{"source": format!("data:text/plain;base64,{ca}")}]}},
        "config": {"merge": [{"source": format!("https://ignition-demo.{DOMAIN}/ignition"), "httpHeaders": [
            {"name": "Authorization", "value": format!("Bearer {}", STANDARD.encode(token))},
            {"name": "NodePool", "value": "clusters/workers"},
            {"name": "TargetConfigVersionHash", "value": "1a2b3c4d"}]}]}}})
    .to_string()
}

fn group(kit: &Kit) -> ResourceId {
    kit.landing.layout.main.clone()
}

/// Makes a machine in Azure, without waiting for it to come up; its id.
async fn vm(kit: &Kit, name: &str, user_data: &str) -> (ResourceId, tokio::task::JoinHandle<()>) {
    let azure = kit.world.cloud().client.clone();
    let nics = azure.arm::<NetworkInterfaces>();
    let nic = nics.id(&group(kit), &format!("{name}-nic")).unwrap();
    let body = json!({"location": LOCATION, "properties": {"ipConfigurations": [{"name": "a", "properties": {
        "subnet": {"id": kit.landing.layout.subnet}, "privateIPAllocationMethod": "Dynamic"}}]}});
    nics.put(&nic, &serde_json::from_value(body).unwrap()).await.unwrap();
    let machines = azure.arm::<VirtualMachines>();
    let id = machines.id(&group(kit), name).unwrap();
    let body = json!({"location": LOCATION, "properties": {
        "hardwareProfile": {"vmSize": "Standard_D4s_v5"},
        "storageProfile": {"imageReference": {"publisher": "azureopenshift", "offer": "aro4", "sku": "419-v2", "version": "latest"},
            "osDisk": {"name": format!("{name}-disk"), "createOption": "FromImage", "osType": "Linux"}},
        "osProfile": {"computerName": name, "adminUsername": "capi", "customData": STANDARD.encode(user_data),
            "linuxConfiguration": {"disablePasswordAuthentication": true, "ssh": {"publicKeys": [
                {"path": "/home/capi/.ssh/authorized_keys", "keyData": "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIDemo demo"}]}}},
        "networkProfile": {"networkInterfaces": [{"id": nic, "properties": {"primary": true}}]}}});
    let body = serde_json::from_value(body).unwrap();
    let at = id.clone();
    let made = tokio::spawn(async move { _ = machines.put(&at, &body).await.unwrap() });
    (id, made)
}

/// Waits until Azure says that a machine is up.
async fn up(kit: &Kit, id: &ResourceId, made: tokio::task::JoinHandle<()>) {
    match tokio::time::timeout(DEADLINE, made).await {
        Ok(made) => made.unwrap(),
        Err(_) => {
            panic!("{id} does not come up: {:?}", kit.world.cloud().sim.world().boot_log(&id.to_string()))
        }
    }
}

/// The Machine that a control plane knows it by.
async fn machine(kit: &Kit, name: &str, vm: &ResourceId) {
    let api = kit.api(&MACHINE, PLANE);
    let object = json!({"apiVersion": "cluster.x-k8s.io/v1beta1", "kind": "Machine",
        "metadata": {"name": name, "namespace": PLANE},
        "spec": {"clusterName": "demo-x7k2p", "providerID": format!("azure://{vm}"), "bootstrap": {"dataSecretName": "x"},
            "infrastructureRef": {"apiVersion": "infrastructure.cluster.x-k8s.io/v1beta1", "kind": "AzureMachine", "name": name}}});
    api.create(&PostParams::default(), &serde_json::from_value(object).unwrap()).await.unwrap();
    let there = kit.world.cloud().sim.world().machine(&vm.to_string());
    let ips = there.map(|m| m.interfaces.iter().flat_map(|i| i.addresses.clone()).collect::<Vec<_>>());
    let mut addresses = vec![json!({"type": "InternalDNS", "address": name})];
    addresses.extend(ips.into_iter().flatten().map(|ip| json!({"type": "InternalIP", "address": ip})));
    let status = json!({"status": {"addresses": addresses}});
    api.patch_status(name, &PatchParams::default(), &Patch::Merge(&status)).await.unwrap();
}

async fn node(guest: &kube::Client, name: &str, what: impl Fn(&Node) -> bool) -> Node {
    let api: Api<Node> = Api::all(guest.clone());
    let wait =
        kube::runtime::wait::await_condition(api.clone(), name, |n: Option<&Node>| n.is_some_and(&what));
    match tokio::time::timeout(DEADLINE, wait).await {
        Ok(found) => found.unwrap().unwrap(),
        Err(_) => panic!("node {name} is {:?}", api.get_opt(name).await.unwrap()),
    }
}

fn ready(n: &Node, is: &str) -> bool {
    let all = n.status.iter().flat_map(|s| s.conditions.iter().flatten());
    all.into_iter().any(|c| c.type_ == "Ready" && c.status == is)
}

/// A cluster that machines can join.
async fn demo(kit: &Kit) -> kube::Client {
    kit.sample("demo").create(&kit.world).await.unwrap();
    kit.available("demo").await;
    kit.admin("demo").await
}

async fn console(kit: &Kit, vm: &ResourceId, word: &str) -> String {
    let wait = async {
        loop {
            let log = kit.world.cloud().sim.world().boot_log(&vm.to_string()).unwrap_or_default();
            if log.contains(word) {
                return log;
            }
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        }
    };
    match tokio::time::timeout(DEADLINE, wait).await {
        Ok(log) => log,
        Err(_) => panic!("{:?}", kit.world.cloud().sim.world().boot_log(&vm.to_string())),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn machines_fetch_their_config_join_run_pods_and_are_missed_when_they_die() {
    let kit = Kit::start(Flavour::Workload).await;
    let guest = demo(&kit).await;
    token(&kit, "t1").await;
    let user_data = stub(&kit, "t1").await;
    let mut vms = Vec::new();
    for name in ["workers-a", "workers-b"] {
        let (id, made) = vm(&kit, name, &user_data).await;
        up(&kit, &id, made).await;
        machine(&kit, name, &id).await;
        vms.push(id);
    }
    for (name, id) in ["workers-a", "workers-b"].iter().zip(&vms) {
        let n = node(&guest, name, |n| ready(n, "True")).await;
        assert_eq!(n.spec.unwrap().provider_id, Some(format!("azure://{id}")));
        let info = n.status.unwrap().node_info.unwrap();
        assert_eq!(info.kubelet_version, "v1.32.6", "as the release says");
        assert!(info.os_image.contains("4.19.3"), "{}", info.os_image);
        let marks = n.metadata.annotations.unwrap();
        assert_eq!(marks["machineconfiguration.openshift.io/currentConfig"], "1a2b3c4d");
    }
    // The Secret knows that its config was fetched.
    let secret = kit.api(&kinds::SECRET, PLANE).get("token-workers-1a2b3c4d").await.unwrap();
    assert_eq!(secret.metadata.annotations.unwrap()["hypershift.openshift.io/ignition-reached"], "True");

    // What is deployed runs there.
    let deployments: Api<Deployment> = Api::namespaced(guest.clone(), "default");
    let web = json!({"metadata": {"name": "web"}, "spec": {"replicas": 4, "selector": {"matchLabels": {"app": "web"}},
        "template": {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "c", "image": "web"}]}}}});
    deployments.create(&PostParams::default(), &serde_json::from_value(web).unwrap()).await.unwrap();
    let up = |d: Option<&Deployment>| {
        d.and_then(|d| d.status.as_ref()).is_some_and(|s| s.available_replicas == Some(4))
    };
    let wait = kube::runtime::wait::await_condition(deployments, "web", up);
    tokio::time::timeout(DEADLINE, wait).await.unwrap().unwrap();
    let pods: Api<Pod> = Api::namespaced(guest.clone(), "default");
    let list = pods.list(&ListParams::default().labels("app=web")).await.unwrap();
    let on: std::collections::BTreeSet<_> =
        list.items.iter().filter_map(|p| p.spec.as_ref()?.node_name.clone()).collect();
    assert_eq!(on, ["workers-a".to_owned(), "workers-b".to_owned()].into());

    // With nodes the cluster's version is complete, and the control plane reaches them.
    let done = |s: &Value| {
        s["version"]["history"][0]["state"] == "Completed" && is_true(s, "DataPlaneConnectionAvailable")
    };
    let cluster = kit.until("demo", "version complete and nodes reached", done).await;
    assert_eq!(cluster.data["status"]["version"]["history"][0]["version"], "4.19.3");

    // One is switched off without a word.
    let machines = kit.world.cloud().client.arm::<VirtualMachines>();
    machines.deallocate(&vms[1]).await.unwrap();
    let lost = node(&guest, "workers-b", |n| !ready(n, "True")).await;
    assert!(ready(&lost, "Unknown"));
    node(&guest, "workers-a", |n| ready(n, "True")).await;
    // And on again.
    machines.start(&vms[1]).await.unwrap();
    node(&guest, "workers-b", |n| ready(n, "True")).await;
    kit.world.stop().await;
}

/// A pool of the cluster that the landing is made for.
fn pool(kit: &Kit, replicas: i64, upgrade: &str) -> Value {
    json!({"apiVersion": "hypershift.openshift.io/v1beta1", "kind": "NodePool",
        "metadata": {"name": "workers", "namespace": NAMESPACE},
        "spec": {"clusterName": "land", "replicas": replicas, "arch": "amd64",
            "release": {"image": kit.world.cloud().release("4.19.3").unwrap()},
            "management": {"autoRepair": false, "upgradeType": upgrade},
            "platform": {"type": "Azure", "azure": {"vmSize": "Standard_D4s_v5", "subnetID": kit.landing.layout.subnet,
                "osDisk": {"sizeGiB": 120, "diskStorageAccountType": "Premium_LRS"},
                "image": {"type": "AzureMarketplace", "azureMarketplace": {
                    "publisher": "azureopenshift", "offer": "aro4", "sku": "419-v2", "version": "419.6.20250523"}}}}}})
}

async fn change(kit: &Kit, patch: Value) {
    let api = kit.api(&kinds::POOL, NAMESPACE);
    api.patch("workers", &PatchParams::default(), &Patch::Merge(&patch)).await.unwrap();
}

/// Waits until all nodes are so, and there are so many.
async fn nodes(kit: &Kit, guest: &kube::Client, count: usize, what: impl Fn(&Node) -> bool) -> Vec<Node> {
    let api: Api<Node> = Api::all(guest.clone());
    let wait = async {
        loop {
            let all = api.list(&ListParams::default()).await.unwrap().items;
            if all.len() == count && all.iter().all(&what) {
                return all;
            }
            tokio::time::sleep(std::time::Duration::from_millis(100)).await;
        }
    };
    match tokio::time::timeout(DEADLINE, wait).await {
        Ok(all) => all,
        Err(_) => {
            let pool = kit.api(&kinds::POOL, NAMESPACE).get("workers").await.unwrap();
            let machines = kit.api(&MACHINE, "clusters-land").list(&ListParams::default()).await.unwrap();
            let said: Vec<_> = machines.iter().map(|m| m.data["status"]["conditions"].clone()).collect();
            let logs: Vec<_> = (kit.world.cloud().sim.world().machines().iter())
                .map(|m| kit.world.cloud().sim.world().boot_log(&m.id))
                .collect();
            let there = api.list(&ListParams::default()).await.unwrap();
            panic!("{:#}\n{said:#?}\n{logs:#?}\n{there:#?}", pool.data["status"]["conditions"]);
        }
    }
}

fn label<'a>(n: &'a Node, key: &str) -> Option<&'a str> {
    n.metadata.labels.as_ref()?.get(key).map(String::as_str)
}

fn mark<'a>(n: &'a Node, key: &str) -> Option<&'a str> {
    n.metadata.annotations.as_ref()?.get(key).map(String::as_str)
}

fn tainted(n: &Node, key: &str) -> usize {
    let taints = n.spec.as_ref().and_then(|s| s.taints.as_ref());
    taints.into_iter().flatten().filter(|t| t.key == key).count()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pools_labels_taints_and_configuration_reach_nodes_that_stay() {
    let kit = Kit::start(Flavour::Workload).await;
    kit.with_cluster("4.19.3").await;
    let guest = kit.admin("land").await;
    let api = kit.api(&kinds::POOL, NAMESPACE);
    let object = serde_json::from_value(pool(&kit, 2, "InPlace")).unwrap();
    api.create(&PostParams::default(), &object).await.unwrap();
    let before = nodes(&kit, &guest, 2, |n| ready(n, "True")).await;
    let uids = |all: &[Node]| {
        all.iter().map(|n| n.metadata.uid.clone().unwrap()).collect::<std::collections::BTreeSet<_>>()
    };
    assert!(before.iter().all(|n| n.spec.as_ref().unwrap().provider_id.is_some()));

    // A label and a taint come; the label changes and the taint goes.
    let taint = json!([{"key": "gpu", "value": "yes", "effect": "NoSchedule"}]);
    change(&kit, json!({"spec": {"nodeLabels": {"example.com/team": "a"}, "taints": taint}})).await;
    nodes(&kit, &guest, 2, |n| label(n, "example.com/team") == Some("a") && tainted(n, "gpu") == 1).await;
    change(&kit, json!({"spec": {"nodeLabels": {"example.com/team": "b"}, "taints": null}})).await;
    nodes(&kit, &guest, 2, |n| label(n, "example.com/team") == Some("b") && tainted(n, "gpu") == 0).await;

    // Another configuration: the same nodes take it, one after the other.
    let was = mark(&before[0], "machineconfiguration.openshift.io/currentConfig").unwrap().to_owned();
    let config = "apiVersion: machineconfiguration.openshift.io/v1\nkind: MachineConfig\nmetadata: {name: 99-mine}\nspec: {config: {ignition: {version: 3.2.0}, storage: {files: [{path: /etc/mine, contents: {source: \"data:,x\"}}]}}}\n";
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "mine", "namespace": NAMESPACE}, "data": {"config": config}});
    let maps = kit.api(&kinds::CONFIG_MAP, NAMESPACE);
    maps.create(&PostParams::default(), &serde_json::from_value(map).unwrap()).await.unwrap();
    change(&kit, json!({"spec": {"config": [{"name": "mine"}]}})).await;
    let taken = |n: &Node| {
        let now = mark(n, "machineconfiguration.openshift.io/currentConfig");
        now.is_some_and(|now| now != was)
            && mark(n, "machineconfiguration.openshift.io/state") == Some("Done")
            && n.spec.as_ref().and_then(|s| s.unschedulable) != Some(true)
    };
    let after = nodes(&kit, &guest, 2, taken).await;
    assert_eq!(uids(&before), uids(&after), "no machine was replaced");
    kit.world.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_cannot_join_says_why_where_a_person_looks() {
    let kit = Kit::start(Flavour::Workload).await;
    let guest = demo(&kit).await;
    token(&kit, "t1").await;
    // A token that nobody knows: it asks again and again, as Ignition does.
    let bad = stub(&kit, "stolen").await;
    let (stranger, _making) = vm(&kit, "stranger", &bad).await;
    let log = console(&kit, &stranger, "511").await;
    assert!(log.contains("trying again") && !log.contains("stolen"), "{log}");
    // A good token, and no Machine that is expected under its name.
    let (nobody, made) = vm(&kit, "nobody", &stub(&kit, "t1").await).await;
    up(&kit, &nobody, made).await;
    let events: Api<Event> = Api::namespaced(guest.clone(), "default");
    let wait = async {
        loop {
            let list = events.list(&ListParams::default().fields("reason=NotApproved")).await.unwrap();
            if let Some(e) = list.items.into_iter().find_map(|e| e.message) {
                return e;
            }
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        }
    };
    let why = tokio::time::timeout(DEADLINE, wait).await.unwrap();
    assert!(why.contains("no Machine is expected as nobody"), "{why}");
    let nodes: Api<Node> = Api::all(guest.clone());
    assert!(nodes.list(&ListParams::default()).await.unwrap().items.is_empty());
    // The Machine comes late; the request was left undecided and is approved then.
    machine(&kit, "nobody", &nobody).await;
    node(&guest, "nobody", |n| ready(n, "True")).await;
    kit.world.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn machines_are_the_same_nodes_after_a_restart_of_the_world() {
    let dir = tempfile::tempdir().unwrap();
    let options = || Options { dir: Some(dir.path().to_owned()), ..Options::default() };
    let world = World::start(options()).await.unwrap();
    let landing = world::Landing::make(world.cloud(), world.dir(), "land", Flavour::Workload).await.unwrap();
    let kit = Kit { world, landing: landing.clone() };
    let guest = demo(&kit).await;
    token(&kit, "t1").await;
    let (id, made) = vm(&kit, "workers-a", &stub(&kit, "t1").await).await;
    up(&kit, &id, made).await;
    machine(&kit, "workers-a", &id).await;
    let before = node(&guest, "workers-a", |n| ready(n, "True")).await;
    kit.world.stop().await;

    let kit = Kit { world: World::start(options()).await.unwrap(), landing };
    kit.available("demo").await;
    let log = console(&kit, &id, "is registered").await;
    assert!(log.contains("has been set up before"), "{log}");
    let guest = kit.admin("demo").await;
    let after = node(&guest, "workers-a", |n| ready(n, "True")).await;
    assert_eq!(before.metadata.uid, after.metadata.uid);
    let cluster = kit.api(&kinds::CLUSTER, NAMESPACE).get("demo").await.unwrap();
    assert_eq!(condition(&cluster.data["status"], "Available")["status"], "True");
    kit.world.stop().await;
}
