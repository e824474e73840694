//! What exists and is ours is taken over; what exists and is not is left alone.

use crate::world::{NS, World, condition};
use azure::ops::{Disks, NetworkInterfaces, VirtualMachines};
use machines::kinds;
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// A machine without a set, with its AzureMachine, as a person or a backup would make them.
async fn alone(w: &World, name: &str, labels: Value) {
    let reference = json!({"apiVersion": "infrastructure.cluster.x-k8s.io/v1beta1", "kind": "AzureMachine", "name": name, "namespace": NS});
    let m = json!({"metadata": {"name": name, "namespace": NS, "labels": labels}, "spec": {"clusterName": "demo-x",
        "bootstrap": {"dataSecretName": "user-data"}, "infrastructureRef": reference}});
    let template = w.api(&kinds::AZURE_TEMPLATE, NS).get("t1").await.unwrap();
    w.create(&kinds::AZURE_MACHINE, json!({"metadata": {"name": name, "namespace": NS}, "spec": template.data["spec"]["template"]["spec"]})).await;
    w.create(&kinds::MACHINE, m).await;
}

async fn vm(w: &World, name: &str, tags: Value) {
    let read = |v: Value| serde_json::from_value(v).unwrap();
    let nic = w.group().provider("Microsoft.Network", "networkInterfaces", &format!("{name}-nic")).unwrap();
    let subnet = format!("{}/providers/Microsoft.Network/virtualNetworks/net/subnets/nodes", w.group());
    let body = json!({"location": "westus2", "tags": tags, "properties": {"ipConfigurations": [{"name": "c", "properties": {"subnet": {"id": subnet}}}]}});
    w.azure.arm::<NetworkInterfaces>().put(&nic, &read(body)).await.unwrap();
    let id = w.group().provider("Microsoft.Compute", "virtualMachines", name).unwrap();
    let body = json!({"location": "westus2", "tags": tags, "properties": {"hardwareProfile": {"vmSize": "Standard_D4s_v5"},
        "storageProfile": {"imageReference": {"publisher": "azureopenshift", "offer": "aro4", "sku": "420-v2", "version": "latest"},
            "osDisk": {"name": format!("{name}_OSDisk"), "createOption": "FromImage"}},
        "osProfile": {"computerName": name, "adminUsername": "core", "adminPassword": "Secret-1234"},
        "networkProfile": {"networkInterfaces": [{"id": nic}]}}});
    let body = serde_json::from_value(body).unwrap();
    w.azure.arm::<VirtualMachines>().put(&id, &body).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn machines_in_azure_are_adopted_by_their_tags_alone() {
    let w = World::start().await;
    vm(&w, "ours", json!({"sigs.k8s.io_cluster-api-provider-azure_cluster_demo-x": "owned"})).await;
    vm(&w, "theirs", json!({"sigs.k8s.io_cluster-api-provider-azure_cluster_other": "owned"})).await;
    let journal = w.sim.world().journal().last().map_or(0, |e| e.number);
    let _running = w.operate();
    alone(&w, "ours", json!({"pool": "pool"})).await;
    alone(&w, "theirs", json!({"pool": "pool"})).await;
    w.until(&kinds::MACHINE, NS, "one node", |all| {
        all.iter()
            .any(|m| m.metadata.name.as_deref() == Some("ours") && m.data["status"]["phase"] == "Running")
    })
    .await;
    let all = w
        .until(&kinds::AZURE_MACHINE, NS, "a refusal", |all| {
            all.iter().any(|m| condition(m, "Ready")["reason"] == "NameTaken")
        })
        .await;
    let said = condition(all.iter().find(|m| m.metadata.name.as_deref() == Some("theirs")).unwrap(), "Ready");
    assert!(said["message"].as_str().unwrap().contains("does not belong to this cluster"), "{said}");
    assert_eq!(w.writes(journal), Vec::<String>::new(), "adopting writes nothing in Azure");

    // A set of the same labels takes both machines in, and makes only what is missing.
    let mut pool = World::pool(NS, 2);
    (pool["metadata"]["name"], pool["metadata"]["labels"]) =
        (json!("set"), json!({"cluster.x-k8s.io/cluster-name": "demo-x"}));
    pool["spec"].as_object_mut().unwrap().remove("strategy");
    w.create(&kinds::SET, pool).await;
    let all = w
        .until(&kinds::MACHINE, NS, "an owner", |all| {
            all.iter().all(|m| m.metadata.owner_references.is_some())
        })
        .await;
    assert_eq!(all.len(), 2);
    w.patch(&kinds::SET, NS, "set", json!({"spec": {"replicas": 1}})).await;
    let all = w.until(&kinds::MACHINE, NS, "one", |all| all.len() == 1).await;
    assert_eq!(all[0].metadata.name.as_deref(), Some("ours"), "the broken one went first");
    let theirs = |l: &BTreeSet<String>| l.iter().filter(|l| l.contains("/theirs")).count();
    assert_eq!(theirs(&w.leaks()), 3, "machine, interface and disk of somebody else are untouched");
    w.api(&kinds::SET, NS).delete("set", &Default::default()).await.unwrap();
    w.until(&kinds::SET, NS, "its end", |all| all.is_empty()).await;
    let left = w.leaks();
    assert_eq!((left.len(), theirs(&left)), (3, 3), "{left:?}");
}

/// Somebody tidied tags away. What a machine was is written down in the management cluster, too.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn machines_that_lost_their_tags_go_all_the_same() {
    let w = World::start().await;
    let _running = w.operate();
    w.create(&kinds::DEPLOYMENT, World::pool(NS, 1)).await;
    w.settled(NS, 1).await;
    let name = w.all(&kinds::MACHINE, NS).await.remove(0).metadata.name.unwrap();
    let (group, bare) = (w.group(), json!({"tags": {}}));
    let part = |namespace: &str, kind: &str, name: String| group.provider(namespace, kind, &name).unwrap();
    let vm = part("Microsoft.Compute", "virtualMachines", name.clone());
    let nic = part("Microsoft.Network", "networkInterfaces", format!("{name}-nic"));
    let disk = part("Microsoft.Compute", "disks", format!("{name}_OSDisk"));
    w.azure.arm::<VirtualMachines>().patch(&vm, &bare).await.unwrap();
    w.azure.arm::<NetworkInterfaces>().patch(&nic, &bare).await.unwrap();
    w.azure.arm::<Disks>().patch(&disk, &bare).await.unwrap();
    let tags = w.azure.arm::<VirtualMachines>().get(&vm).await.unwrap().tags;
    assert!(tags.is_none_or(|t| t.0.is_empty()));
    w.api(&kinds::DEPLOYMENT, NS).delete("pool", &Default::default()).await.unwrap();
    w.until(&kinds::DEPLOYMENT, NS, "its end", |all| all.is_empty()).await;
    assert_eq!(w.leaks(), BTreeSet::new());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn regions_without_zones_get_a_set_that_goes_with_its_last_machine() {
    let w = World::start().await;
    let _running = w.operate();
    let plain = json!({"vmSize": "Standard_D4_v2", "failureDomain": null, "securityProfile": {}, "osDisk": {"osType": "Linux"}});
    w.template(NS, "plain", plain).await;
    let mut pool = World::pool(NS, 2);
    pool["spec"]["template"]["spec"]["infrastructureRef"]["name"] = json!("plain");
    w.create(&kinds::DEPLOYMENT, pool).await;
    w.settled(NS, 2).await;
    let set =
        |w: &World| w.leaks().into_iter().filter(|l| l.contains("availabilitySets")).collect::<Vec<_>>();
    assert_eq!(set(&w).len(), 1, "{:?}", w.leaks());
    assert!(set(&w)[0].ends_with("/demo-x_pool-as"));
    w.patch(&kinds::DEPLOYMENT, NS, "pool", json!({"spec": {"replicas": 1}})).await;
    w.settled(NS, 1).await;
    assert_eq!(set(&w).len(), 1);
    w.api(&kinds::DEPLOYMENT, NS).delete("pool", &Default::default()).await.unwrap();
    w.until(&kinds::DEPLOYMENT, NS, "its end", |all| all.is_empty()).await;
    assert_eq!(w.leaks(), BTreeSet::new());
}

/// Upstream's controllers hash templates otherwise. Whoever takes over from them takes their set for what it is.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sets_of_the_same_template_are_taken_over_from_others() {
    let w = World::start().await;
    let running = w.operate();
    w.create(&kinds::DEPLOYMENT, World::pool(NS, 2)).await;
    w.settled(NS, 2).await;
    drop(running);
    let set = w.all(&kinds::SET, NS).await.remove(0).metadata.name.unwrap();
    let theirs = json!({"machine-template-hash": "2953871470-x9k2q"});
    let patch = json!({"metadata": {"labels": theirs}, "spec": {"selector": {"matchLabels": theirs},
        "template": {"metadata": {"labels": theirs}}}});
    w.patch(&kinds::SET, NS, &set, patch).await;
    let names = |all: Vec<kube::core::DynamicObject>| -> BTreeSet<String> {
        all.into_iter().map(|m| m.metadata.name.unwrap()).collect()
    };
    let before = names(w.all(&kinds::MACHINE, NS).await);
    for name in &before {
        w.patch(&kinds::MACHINE, NS, name, json!({"metadata": {"labels": theirs}})).await;
    }
    let _running = w.operate();
    // It works on it: a size is followed, in the same set, by one more machine.
    w.patch(&kinds::DEPLOYMENT, NS, "pool", json!({"spec": {"replicas": 3}})).await;
    w.settled(NS, 3).await;
    let after = names(w.all(&kinds::MACHINE, NS).await);
    assert!(before.is_subset(&after) && after.len() == 3, "{before:?} {after:?}");
    let sets = w.all(&kinds::SET, NS).await;
    assert_eq!(names(sets.clone()), BTreeSet::from([set]));
    assert_eq!(sets[0].data["spec"]["selector"]["matchLabels"]["machine-template-hash"], "2953871470-x9k2q");
    // Another template is another set, as ever.
    w.template(NS, "t9", json!({"vmSize": "Standard_D8s_v5"})).await;
    w.patch(
        &kinds::DEPLOYMENT,
        NS,
        "pool",
        json!({"spec": {"template": {"spec": {"infrastructureRef": {"name": "t9"}}}}}),
    )
    .await;
    w.until(&kinds::SET, NS, "another set", |all| all.len() == 2).await;
}
