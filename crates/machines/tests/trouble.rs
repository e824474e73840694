//! What goes wrong is said where people look, with the way out; nothing is left half made; what heals goes on.

use crate::world::{NS, World, condition};
use kube::core::DynamicObject;
use machines::kinds;
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// Waits for a reason on the machine and on what it stands on; the message.
async fn reason(w: &World, reason: &str) -> String {
    let is = |all: &[DynamicObject], kind: &str| all.iter().any(|m| condition(m, kind)["reason"] == reason);
    w.until(&kinds::AZURE_MACHINE, NS, reason, |all| is(all, "Ready")).await;
    let all =
        w.until(&kinds::MACHINE, NS, reason, |all| is(all, "InfrastructureReady") && is(all, "Ready")).await;
    let said = all.iter().find(|m| condition(m, "Ready")["reason"] == reason).unwrap();
    let v2 = said.data["status"]["v1beta2"]["conditions"].as_array().unwrap();
    assert!(v2.iter().any(|c| c["type"] == "Ready" && c["reason"] == reason), "{v2:?}");
    condition(said, "Ready")["message"].as_str().unwrap().to_owned()
}

fn fault(w: &World, rule: Value) {
    let rules = azure_sim::read_faults(rule.to_string().as_bytes()).unwrap();
    w.sim.world().add_faults(rules).unwrap();
}

async fn pool_with(more: Value) -> (World, crate::world::Running) {
    let w = World::start().await;
    let running = w.operate();
    w.template(NS, "bad", more).await;
    let mut pool = World::pool(NS, 1);
    pool["spec"]["template"]["spec"]["infrastructureRef"]["name"] = json!("bad");
    w.create(&kinds::DEPLOYMENT, pool).await;
    (w, running)
}

/// Deleted while it was in trouble, it leaves nothing.
async fn remove(w: &World) {
    w.api(&kinds::DEPLOYMENT, NS).delete("pool", &Default::default()).await.unwrap();
    w.until(&kinds::MACHINE, NS, "their end", |all| all.is_empty()).await;
    w.until(&kinds::DEPLOYMENT, NS, "its end", |all| all.is_empty()).await;
    assert_eq!(w.leaks(), BTreeSet::new());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_quota_is_seen_before_the_first_call_and_its_end_too() {
    let w = World::start().await;
    let running = w.operate();
    w.sim.world().set_quota(&w.subscription, "westus2", "standardDSv5Family", 9).unwrap();
    w.create(&kinds::DEPLOYMENT, World::pool(NS, 3)).await;
    let said = reason(&w, "QuotaExceeded").await;
    assert!(said.contains("limit is 9") && said.contains("az vm list-usage"), "{said}");
    // Two of three fit; the third has touched nothing.
    w.until(&kinds::DEPLOYMENT, NS, "two", |all| all[0].data["status"]["availableReplicas"] == 2).await;
    assert_eq!(w.sim.world().machines().len(), 2);
    assert_eq!(w.leaks().iter().filter(|l| l.contains("networkInterfaces")).count(), 2, "{:?}", w.leaks());
    let d = w
        .until(&kinds::DEPLOYMENT, NS, "why", |all| {
            condition(&all[0], "Available")["message"].as_str().is_some_and(|m| m.contains("limit is 9"))
        })
        .await;
    assert_eq!(condition(&d[0], "Available")["status"], "False");
    w.sim.world().set_quota(&w.subscription, "westus2", "standardDSv5Family", 100).unwrap();
    // It would look again within a minute; usages are kept for twenty seconds.
    let late = w.all(&kinds::AZURE_MACHINE, NS).await;
    let late = late.iter().find(|m| condition(m, "Ready")["reason"] == "QuotaExceeded").unwrap();
    let key = format!("{NS}/{}", late.metadata.name.as_deref().unwrap());
    assert!(!running.handles.azure_machines.explain(&key).waiting.is_empty());
    drop(running);
    let _running = w.operate();
    w.settled(NS, 3).await;
    remove(&w).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sizes_zones_and_images_that_do_not_exist_are_named() {
    let (w, _running) = pool_with(json!({"vmSize": "Standard_D4_v2"})).await;
    let said = reason(&w, "SizeNotAvailable").await;
    assert!(
        said.contains("Standard_D4_v2 cannot encrypt at host") || said.contains("cannot have disks"),
        "{said}"
    );
    assert_eq!(w.leaks(), BTreeSet::new(), "nothing was asked for");
    w.template(NS, "zone", json!({"vmSize": "Standard_D4_v2", "failureDomain": "2", "securityProfile": {}, "osDisk": {"osType": "Linux"}})).await;
    let to = |name: &str| json!({"spec": {"template": {"spec": {"infrastructureRef": {"name": name}}}}});
    w.patch(&kinds::DEPLOYMENT, NS, "pool", to("zone")).await;
    let said = reason(&w, "SizeNotInZone").await;
    assert!(said.contains("zone 2 was asked for") && said.contains("availabilityZone"), "{said}");
    assert_eq!(w.leaks(), BTreeSet::new());
    let image = json!({"image": {"marketplace": {"publisher": "azureopenshift", "offer": "aro4", "sku": "999-v2", "version": "latest"}}});
    w.template(NS, "image", image).await;
    w.patch(&kinds::DEPLOYMENT, NS, "pool", to("image")).await;
    let said = reason(&w, "ImageNotFound").await;
    assert!(said.contains("azureopenshift:aro4:999-v2") && said.contains("az vm image terms"), "{said}");
    assert!(w.sim.world().machines().is_empty());
    // A right one heals the pool: the broken ones go first and leave nothing.
    w.patch(&kinds::DEPLOYMENT, NS, "pool", to("t1")).await;
    w.settled(NS, 1).await;
    remove(&w).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn azure_that_fails_late_refuses_or_throttles_is_told_apart() {
    let w = World::start().await;
    let _running = w.operate();
    let vm = "Microsoft.Compute/virtualMachines";
    fault(
        &w,
        json!({"name": "late", "match": {"method": "PUT", "type": vm, "nth": 1}, "then": {"failLate": {"code": "AllocationFailed", "message": "no hosts"}}}),
    );
    w.create(&kinds::DEPLOYMENT, World::pool(NS, 1)).await;
    let said = reason(&w, "AllocationFailed").await;
    assert!(said.contains("no hosts") && said.contains("autoRepair"), "{said}");
    let machine = w
        .until(&kinds::MACHINE, NS, "failure", |all| {
            all.iter().any(|m| m.data["status"]["phase"] == "Failed")
        })
        .await;
    // What failed for good is replaced by deleting it, and leaves nothing.
    w.api(&kinds::MACHINE, NS)
        .delete(machine[0].metadata.name.as_deref().unwrap(), &Default::default())
        .await
        .unwrap();
    w.settled(NS, 1).await;

    fault(
        &w,
        json!({"name": "policy", "match": {"method": "PUT", "type": vm}, "then": {"answer": {"status": 403, "code": "RequestDisallowedByPolicy", "message": "tag it"}}}),
    );
    w.patch(&kinds::DEPLOYMENT, NS, "pool", json!({"spec": {"replicas": 2}})).await;
    let said = reason(&w, "DisallowedByPolicy").await;
    assert!(said.contains("tag it") && said.contains("exception"), "{said}");
    w.sim.world().clear_faults();
    fault(&w, json!({"name": "throttle", "match": {"method": "PUT"}, "then": {"throttle": 1}}));
    w.patch(&kinds::DEPLOYMENT, NS, "pool", json!({"spec": {"replicas": 3}})).await;
    let said = reason(&w, "Throttled").await;
    assert!(said.contains("tried again when Azure allows"), "{said}");
    w.sim.world().clear_faults();
    // The throttled one comes back by itself; the one that a policy refused is asked for again.
    w.until(&kinds::DEPLOYMENT, NS, "two", |all| all[0].data["status"]["availableReplicas"] == 2).await;
    remove(&w).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_machine_that_azure_never_finishes_can_be_deleted() {
    let w = World::start().await;
    let running = w.operate();
    w.sim.world().await_boots(true).unwrap();
    w.create(&kinds::DEPLOYMENT, World::pool(NS, 1)).await;
    let all = w
        .until(&kinds::AZURE_MACHINE, NS, "making", |all| {
            all.iter().any(|m| m.data["status"]["vmState"] == "Creating")
        })
        .await;
    let op = &all[0].data["status"]["longRunningOperationStates"][0];
    assert_eq!((op["type"].as_str(), op["serviceName"].as_str()), (Some("PUT"), Some("virtualmachine")));
    let m =
        w.until(&kinds::MACHINE, NS, "why", |all| condition(&all[0], "Ready")["reason"] == "Creating").await;
    assert!(condition(&m[0], "Ready")["message"].as_str().unwrap().contains("Azure is making"));
    assert_eq!(m[0].data["status"]["phase"], "Provisioning");
    // A restart picks the operation up.
    drop(running);
    let _running = w.operate();
    remove(&w).await;
}

/// Who may not ask about an operation for a moment, or is sent to a server that has not heard of it, knows nothing of its
/// end.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_operation_that_cannot_be_asked_about_has_not_failed() {
    let w = World::start().await;
    let _running = w.operate();
    let sim = w.sim.world();
    sim.await_boots(true).unwrap();
    for (nth, status, code) in [(1, 403, "AuthorizationFailed"), (2, 404, "NotFound")] {
        let poll = json!({"method": "GET", "type": "Microsoft.Compute/locations/operations", "nth": nth});
        let answer = json!({"status": status, "code": code});
        fault(&w, json!({"name": code, "match": poll, "then": {"answer": answer}}));
    }
    w.create(&kinds::DEPLOYMENT, World::pool(NS, 1)).await;
    let met = || sim.journal().iter().filter(|e| e.fault.is_some()).count();
    let all = async {
        while met() < 2 {
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(std::time::Duration::from_secs(30), all).await.unwrap();
    let machine = sim.machines()[0].id.clone();
    sim.report_boot(&machine, &azure_sim::Boot::Ready, None).unwrap();
    w.settled(NS, 1).await;
    remove(&w).await;
}

/// A disk that Azure could not attach leaves the machine in state Failed, and running.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_change_that_fails_does_not_end_a_machine_that_runs() {
    let w = World::start().await;
    let _running = w.operate();
    w.create(&kinds::DEPLOYMENT, World::pool(NS, 1)).await;
    w.settled(NS, 1).await;
    let kind = "Microsoft.Compute/virtualMachines";
    fault(
        &w,
        json!({"name": "attach", "match": {"method": "PUT", "type": kind, "nth": 1}, "then": {"failLate": {"code": "AttachDiskFailed"}}}),
    );
    let id = arm::ResourceId::parse(&w.sim.world().machines()[0].id).unwrap();
    let vms = w.azure.arm::<azure::ops::VirtualMachines>();
    let vm = vms.get(&id).await.unwrap();
    vms.put(&id, &vm).await.unwrap_err();
    let said = |all: &[DynamicObject], reason: &str| condition(&all[0], "VMRunning")["reason"] == reason;
    let all = w.until(&kinds::AZURE_MACHINE, NS, "a word", |all| said(all, "VMStateFailed")).await;
    assert_eq!(
        (all[0].data["status"]["ready"].as_bool(), condition(&all[0], "Ready")["status"].as_str()),
        (Some(true), Some("True"))
    );
    assert_eq!(w.all(&kinds::MACHINE, NS).await[0].data["status"]["phase"], "Running");
    vms.put(&id, &vm).await.unwrap();
    w.until(&kinds::AZURE_MACHINE, NS, "its end", |all| condition(&all[0], "VMRunning")["status"] == "True")
        .await;
    remove(&w).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_it_boots_with_is_waited_for_and_names_of_others_are_left_alone() {
    let w = World::start().await;
    let _running = w.operate();
    let mut pool = World::pool(NS, 1);
    pool["spec"]["template"]["spec"]["bootstrap"]["dataSecretName"] = json!("later");
    w.create(&kinds::DEPLOYMENT, pool).await;
    let said = reason(&w, "WaitingForBootstrapData").await;
    assert!(said.contains(&format!("there is no Secret {NS}/later")), "{said}");
    assert_eq!(w.leaks(), BTreeSet::new());
    w.create(
        &kinds::SECRET,
        json!({"metadata": {"name": "later", "namespace": NS}, "stringData": {"value": "x"}}),
    )
    .await;
    w.settled(NS, 1).await;
    remove(&w).await;
    // Too much of it.
    w.create(
        &kinds::SECRET,
        json!({"metadata": {"name": "huge", "namespace": NS}, "stringData": {"value": "x".repeat(70_000)}}),
    )
    .await;
    let mut pool = World::pool(NS, 1);
    pool["spec"]["template"]["spec"]["bootstrap"]["dataSecretName"] = json!("huge");
    w.create(&kinds::DEPLOYMENT, pool).await;
    let said = reason(&w, "BootstrapDataInvalid").await;
    assert!(said.contains("70000 bytes") && said.contains("64 KiB"), "{said}");
    remove(&w).await;
}

/// Rights that were given a moment ago do not count everywhere yet. A machine that is denied says so, and does not wait for
/// a minute with the next try while it is young.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rights_that_have_not_spread_are_asked_for_again_soon() {
    let nics = "Microsoft.Network/networkInterfaces";
    let w = World::start().await;
    let _running = w.operate();
    fault(
        &w,
        json!({"name": "early", "match": {"method": "PUT", "type": nics},
            "then": {"answer": {"status": 403, "code": "AuthorizationFailed"}}}),
    );
    w.create(&kinds::DEPLOYMENT, World::pool(NS, 1)).await;
    let said = reason(&w, "AuthorizationFailed").await;
    assert!(said.contains("missing role") && said.contains("wait a few minutes"), "{said}");
    let sim = w.sim.world();
    let apart = || -> Vec<i64> {
        let journal = sim.journal();
        let tries = journal.iter().filter(|e| e.method == "PUT" && e.path.contains("/networkInterfaces/"));
        let tries: Vec<jiff::Timestamp> = tries.map(|e| e.at.parse().unwrap()).collect();
        tries.windows(2).map(|t| t[1].duration_since(t[0]).as_secs()).collect()
    };
    // The first ones follow at once, since its status was written; then it is a matter of time.
    let wait = async {
        while !apart().iter().any(|s| *s >= 10) {
            tokio::time::sleep(std::time::Duration::from_millis(100)).await;
        }
    };
    tokio::time::timeout(std::time::Duration::from_secs(120), wait).await.unwrap();
    assert!(apart().iter().all(|s| *s < 50), "{:?} s between tries", apart());
    sim.remove_fault("early");
    w.settled(NS, 1).await;
    remove(&w).await;
}
