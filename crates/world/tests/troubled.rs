//! What goes wrong with machines is told by one condition of their pool, with its cause, and is over once it is put right;
//! where nobody has to do anything, it is over by itself. Nothing is left in Azure.
//!
//! One cluster, one trouble after the other: what each needs is small, a cluster is not.

use crate::kit::{Between, Kit, condition, is_true, met};
use crate::remains::Remains;
use azure::ops::SecurityGroups;
use hypershift::kinds;
use kube::api::{DynamicObject, ListParams, Patch, PatchParams};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use world::sample::NAMESPACE;
use world::{Flavour, Operators};

const PLANE: &str = "clusters-land";
const VM: &str = "Microsoft.Compute/virtualMachines";

/// A client of a guest's API, the way to which somebody may cut.
fn cut(client: kube::Client, down: Arc<AtomicBool>) -> kube::Client {
    met(client, move |client, request| {
        let down = down.clone();
        async move {
            match down.load(Ordering::SeqCst) {
                true => Err(tower::BoxError::from("connection refused")),
                false => client.send(request).await.map_err(tower::BoxError::from),
            }
        }
    })
}

/// A reason among those of a condition, with these words in what it says.
async fn told(kit: &Kit, pool: &str, kind: &str, reason: &str, words: &[&str]) {
    kit.until_pool(pool, &format!("{kind} to say {reason} and {words:?}"), |s| {
        let c = condition(s, kind);
        let message = c["message"].as_str().unwrap_or_default();
        c["status"] == "False"
            && c["reason"].as_str().is_some_and(|r| r.split(',').any(|r| r == reason))
            && words.iter().all(|w| message.contains(w))
    })
    .await;
}

async fn well(kit: &Kit, pool: &str, nodes: usize) {
    kit.until_pool(pool, &format!("{nodes} nodes and no trouble"), |s| {
        is_true(s, "Ready")
            && is_true(s, "AllMachinesReady")
            && is_true(s, "AllNodesHealthy")
            && s["replicas"] == nodes
    })
    .await;
}

fn fault(kit: &Kit, rule: Value) {
    let rules = azure_sim::read_faults(rule.to_string().as_bytes()).unwrap();
    kit.world.cloud().sim.world().add_faults(rules).unwrap();
}

async fn scale(kit: &Kit, nodes: usize) {
    kit.change_pool("np", json!({"spec": {"replicas": nodes}})).await;
}

/// A clock that a test may put forward, and back.
struct Ahead(AtomicI64);

impl clock::Clock for Ahead {
    fn now(&self) -> jiff::Timestamp {
        clock::system().now() + jiff::SignedDuration::from_mins(self.0.load(Ordering::SeqCst))
    }
}

/// A pool whose machines nobody replaces.
async fn unrepaired(kit: &Kit, name: &str) {
    let mut pool = kit.pool(name, "4.20.1", 1);
    pool["spec"]["management"]["autoRepair"] = json!(false);
    kit.put(&kinds::POOL, pool).await;
}

/// Deletes a pool: of its machines nothing is left in Azure, nor of their objects.
async fn removed(kit: &Kit, name: &str) {
    kit.api(&kinds::POOL, NAMESPACE).delete(name, &Default::default()).await.unwrap();
    kit.pool_gone(name).await;
    let remains = Remains::of(kit).await;
    let of = |all: &BTreeSet<String>, at: &str| -> Vec<String> {
        all.iter().filter(|o| o.contains(&format!("{at}{name}"))).cloned().collect()
    };
    assert_eq!(of(&remains.azure, "/"), Vec::<String>::new());
    assert_eq!(of(&remains.objects, "Machine clusters-land/"), Vec::<String>::new());
}

/// Azure that has no hosts, and somebody's policy: both told by the Machine, with the cause, and by its pool.
async fn unwilling(kit: &Kit) {
    let of = |pool: &str| json!({"method": "PUT", "type": VM, "id": format!("*/virtualMachines/{pool}-*")});
    for (pool, status, code, message) in [
        ("crowded", 409, "AllocationFailed", "no hosts of this size"),
        ("forbidden", 403, "RequestDisallowedByPolicy", "every resource needs tag owner"),
    ] {
        let answer = json!({"status": status, "code": code, "message": message});
        fault(kit, json!({"name": pool, "match": of(pool), "then": {"answer": answer}}));
    }
    for (pool, reason, words) in [
        ("crowded", "AllocationFailed", ["no hosts of this size", "another size or zone"]),
        ("forbidden", "DisallowedByPolicy", ["every resource needs tag owner", "exception"]),
    ] {
        unrepaired(kit, pool).await;
        told(kit, pool, "AllMachinesReady", reason, &words).await;
        let all = kit.api(&kinds::MACHINE, PLANE).list(&ListParams::default()).await.unwrap().items;
        let machine = all.iter().find(|m| m.metadata.name.as_deref().unwrap().starts_with(pool)).unwrap();
        let ready = condition(&machine.data["status"], "Ready");
        assert_eq!((ready["status"].as_str(), ready["reason"].as_str()), (Some("False"), Some(reason)));
        assert!(ready["message"].as_str().unwrap().contains(words[0]), "{ready}");
        removed(kit, pool).await;
        kit.world.cloud().sim.world().remove_fault(pool);
    }
}

/// A machine that Azure never finishes: after a while that is said to be unusual, with where to look.
async fn unfinished(kit: &Kit, clock: &Ahead) {
    let rule = json!({"name": "shut", "properties": {"priority": 200, "direction": "Outbound", "access": "Deny",
        "protocol": "Tcp", "sourceAddressPrefix": "*", "sourcePortRange": "*",
        "destinationAddressPrefix": "Internet", "destinationPortRange": "443"}});
    shut(kit, Some(rule)).await;
    unrepaired(kit, "stuck").await;
    told(kit, "stuck", "AllMachinesReady", "Creating", &["Azure is making", "boot-diagnostics"]).await;
    clock.0.store(26, Ordering::SeqCst);
    told(kit, "stuck", "AllMachinesReady", "Creating", &["which is unusual", "az monitor activity-log"])
        .await;
    clock.0.store(0, Ordering::SeqCst);
    removed(kit, "stuck").await;
    shut(kit, None).await;
}

/// What Azure would refuse: image, size, zone, quota.
async fn refused(kit: &Kit) {
    let azure = |o: &mut Value, field: &str, value: Value| o["spec"]["platform"]["azure"][field] = value;
    let mut imageless = kit.pool("imageless", "4.20.1", 1);
    let image = json!({"type": "AzureMarketplace", "azureMarketplace": {
        "publisher": "azureopenshift", "offer": "aro4", "sku": "nothing", "version": "1.2.3"}});
    azure(&mut imageless, "image", image);
    kit.put(&kinds::POOL, imageless).await;
    let mut unknown = kit.pool("unknown", "4.20.1", 1);
    azure(&mut unknown, "vmSize", json!("Standard_Z9s_v9"));
    kit.put(&kinds::POOL, unknown).await;
    let mut zoned = kit.pool("zoned", "4.20.1", 1);
    azure(&mut zoned, "vmSize", json!("Standard_D4_v2"));
    azure(&mut zoned, "availabilityZone", json!("2"));
    azure(&mut zoned, "encryptionAtHost", json!("Disabled"));
    azure(&mut zoned, "osDisk", json!({"sizeGiB": 120, "diskStorageAccountType": "StandardSSD_LRS"}));
    kit.put(&kinds::POOL, zoned).await;
    let machines = "AllMachinesReady";
    told(kit, "imageless", machines, "ImageNotFound", &["aro4:nothing", "What to do"]).await;
    told(kit, "unknown", machines, "SizeNotAvailable", &["Standard_Z9s_v9", "What to do"]).await;
    let change = async |pool: &str, patch: Value| {
        kit.change_pool(pool, json!({"spec": {"platform": {"azure": patch}}})).await;
    };
    // Of what generation an image of the user's is, nobody asks; what is left is that the size has no zones.
    let elder = "image.azureMarketplace.imageGeneration";
    told(kit, "zoned", machines, "SizeNotAvailable", &["generation V1", elder, "What to do"]).await;
    let image = json!({"azureMarketplace": {
        "publisher": "azureopenshift", "offer": "aro4", "sku": "420-v2", "version": "9.6.20251015"}});
    change("zoned", json!({"image": image})).await;
    let words = ["zone 2 was asked for", "availabilityZone", "What to do"];
    told(kit, "zoned", machines, "SizeNotInZone", &words).await;
    change("imageless", json!({"image": {"azureMarketplace": null}})).await;
    change("unknown", json!({"vmSize": "Standard_D4s_v5"})).await;
    change("zoned", json!({"vmSize": "Standard_D4s_v5"})).await;
    for pool in ["imageless", "unknown", "zoned"] {
        well(kit, pool, 1).await;
    }
}

/// Has this rule, or none, in the network security group of the cluster, as an administrator of the network would.
async fn shut(kit: &Kit, rule: Option<Value>) {
    let groups = kit.world.cloud().client.arm::<SecurityGroups>();
    let id = &kit.landing.layout.security_group;
    let mut group = serde_json::to_value(groups.get(id).await.unwrap()).unwrap();
    let rules = group["properties"]["securityRules"].as_array_mut().unwrap();
    rules.retain(|r| r["name"] != "shut");
    rules.extend(rule);
    groups.put(id, &serde_json::from_value(group).unwrap()).await.unwrap();
}

/// Machines that the ignition endpoint cannot be reached from, and some that cannot reach the API.
async fn cut_off(kit: &Kit) {
    // Ignition is served under a name, somewhere in the Internet, at the port of TLS; the API has an address of its own.
    let rule = async |to: Option<&str>, port: &str| {
        let rules = to.map(|to| {
            json!({"name": "shut", "properties": {"priority": 200, "direction": "Outbound",
            "access": "Deny", "protocol": "Tcp", "sourceAddressPrefix": "*", "sourcePortRange": "*",
            "destinationAddressPrefix": to, "destinationPortRange": port}})
        });
        shut(kit, rules).await;
    };
    rule(Some("Internet"), "443").await;
    scale(kit, 2).await;
    told(kit, "np", "AllMachinesReady", "Creating", &["DNS, NSG", "token", "boot-diagnostics"]).await;
    let sim = kit.world.cloud().sim.world();
    let stuck = |m: &azure_sim::Machine| {
        let log = sim.boot_log(&m.id).unwrap_or_default();
        log.contains("does not answer") && log.contains("rule shut of network security group")
    };
    let says = async {
        while !sim.machines().iter().any(stuck) {
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(crate::kit::DEADLINE, says).await.expect("its console says why");
    rule(None, "").await;
    well(kit, "np", 2).await;

    let cluster = kit.api(&kinds::CLUSTER, NAMESPACE).get("land").await.unwrap();
    let api = &cluster.data["status"]["controlPlaneEndpoint"];
    rule(api["host"].as_str(), &api["port"].to_string()).await;
    scale(kit, 3).await;
    told(kit, "np", "AllNodesHealthy", "NodeProvisioning", &["DNS, NSG", "API endpoints"]).await;
    rule(None, "").await;
    well(kit, "np", 3).await;
}

/// A machine whose token is no more by the time it boots never comes up, and is replaced by one with a good token.
async fn bad_token(kit: &Kit) {
    let check = |timeout: &str| json!({"metadata": {"annotations": {"hypershift.openshift.io/machine-health-check-node-startup-timeout": timeout}}});
    let before = kit.machines();
    // What it boots with is on its way, and Azure takes its time.
    fault(kit, json!({"name": "slow", "match": {"method": "PUT", "type": VM}, "then": {"delay": 4000}}));
    let sim = kit.world.cloud().sim.world().clone();
    let interfaces = || {
        let all = sim.leaks()["value"].as_array().unwrap().clone();
        all.iter().filter(|l| l["id"].as_str().unwrap().contains("/networkInterfaces/np-")).count()
    };
    scale(kit, 4).await;
    let wait = async {
        while interfaces() < 4 {
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(crate::kit::DEADLINE, wait).await.unwrap();
    let secrets = kit.api(&kinds::SECRET, PLANE);
    let labelled = ListParams::default().labels("hypershift.openshift.io/nodepool-name=np");
    let all = secrets.list_metadata(&labelled).await.unwrap().items;
    let token = all.into_iter().filter_map(|s| s.metadata.name).find(|n| n.starts_with("token-")).unwrap();
    let other = json!({"stringData": {"token": "11111111-2222-4333-8444-555555555555"}});
    secrets.patch(&token, &PatchParams::default(), &Patch::Merge(&other)).await.unwrap();
    told(kit, "np", "AllMachinesReady", "Creating", &["is its token still good?"]).await;
    let wait = async {
        loop {
            let new = kit.machines().difference(&before).next().cloned();
            let log = new.and_then(|name| {
                let m = sim.machines().into_iter().find(|m| m.id.ends_with(&name))?;
                sim.boot_log(&m.id)
            });
            if log.is_some_and(|l| l.contains("511")) {
                return;
            }
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(crate::kit::DEADLINE, wait).await.expect("it is refused");
    let stuck: BTreeSet<String> = kit.machines().difference(&before).cloned().collect();
    sim.remove_fault("slow");
    kit.change_pool("np", check("3s")).await;
    kit.until_pool("np", "the stuck machine gone", |_| kit.machines().is_disjoint(&stuck)).await;
    kit.change_pool("np", check("20m")).await;
    well(kit, "np", 4).await;
    scale(kit, 2).await;
    kit.until_pool("np", "two machines", |s| s["replicas"] == 2 && kit.machines_of("np").len() == 2).await;
}

/// Azure has enough of us in the middle of a roll: nobody loses a node by it.
async fn throttled(kit: &Kit) {
    let old = kit.machines_of("np");
    fault(kit, json!({"name": "enough", "match": {"method": "PUT", "type": VM}, "then": {"throttle": 1}}));
    kit.change_pool("np", json!({"spec": {"platform": {"azure": {"osDisk": {"sizeGiB": 128}}}}})).await;
    told(kit, "np", "AllMachinesReady", "Throttled", &["tried again when Azure allows"]).await;
    assert!(kit.machines().is_superset(&old), "old machines stay until new ones are there");
    kit.world.cloud().sim.world().remove_fault("enough");
    kit.until_pool("np", "the end of the roll", |s| {
        is_true(s, "AllNodesHealthy")
            && is_true(s, "Ready")
            && !is_true(s, "UpdatingPlatformMachineTemplate")
            && kit.machines().is_disjoint(&old)
            && kit.machines_of("np").len() == 2
    })
    .await;
}

/// The guest's API is down while a node is drained: the machine stays, with whatever runs on it.
async fn undrained(kit: &Kit, down: &AtomicBool) {
    let before = kit.machines_of("np");
    down.store(true, Ordering::SeqCst);
    scale(kit, 1).await;
    told(kit, "np", "AllMachinesReady", "DrainingNode", &["cannot be cordoned", "connection refused"]).await;
    assert_eq!(kit.machines_of("np"), before);
    down.store(false, Ordering::SeqCst);
    kit.until_pool("np", "one machine", |s| s["replicas"] == 1 && kit.machines_of("np").len() == 1).await;
    well(kit, "np", 1).await;
}

/// A Route that asks for no name is given one, as OpenShift does; who has one keeps it.
async fn named(kit: &Kit) {
    let routes = kit.api(&kinds::ROUTE, "default");
    for (name, host) in [("nameless", Value::Null), ("named", json!("mine.example"))] {
        let mut route = json!({"apiVersion": "route.openshift.io/v1", "kind": "Route", "metadata": {"name": name},
            "spec": {"to": {"kind": "Service", "name": "web"}, "port": {"targetPort": 443}}});
        if !host.is_null() {
            route["spec"]["host"] = host;
        }
        routes.create(&Default::default(), &serde_json::from_value(route).unwrap()).await.unwrap();
    }
    for (name, host) in [("nameless", "nameless-default.apps.zaffre.test"), ("named", "mine.example")] {
        let so = |o: Option<&DynamicObject>| o.is_some_and(|o| o.data["spec"]["host"] == host);
        let wait = kube::runtime::wait::await_condition(routes.clone(), name, so);
        tokio::time::timeout(crate::kit::DEADLINE, wait).await.expect(host).unwrap();
        routes.delete(name, &Default::default()).await.unwrap();
    }
}

impl Kit {
    fn machines_of(&self, pool: &str) -> BTreeSet<String> {
        self.machines().into_iter().filter(|m| m.starts_with(&format!("{pool}-"))).collect()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn troubles_of_machines_are_told_and_pass() {
    let kit = Kit::start(Flavour::Workload).await;
    let before = Remains::of(&kit).await;
    kit.world.kill_operators();
    let down = Arc::new(AtomicBool::new(false));
    let mut ground = kit.world.ground().clone();
    let keeping = ground.machines.as_mut().unwrap();
    let cuts = down.clone();
    keeping.reach = Between::new(keeping.reach.clone(), move |client| cut(client, cuts.clone()));
    let clock = Arc::new(Ahead(AtomicI64::new(0)));
    ground.clock = clock.clone();
    let operators = Operators::start(&ground, &kit.world.client());
    named(&kit).await;
    let begun = std::time::Instant::now();
    let done = |what: &str| eprintln!("{what}: {:?}", begun.elapsed());
    kit.with_cluster("4.20.1").await;
    done("a cluster");
    // Two fit, the third does not. Once the quota is raised, it is looked at again within a minute: see the end.
    let sim = kit.world.cloud().sim.world();
    let quota =
        |cores| sim.set_quota(&kit.landing.subscription, "westus2", "standardESv5Family", cores).unwrap();
    quota(9);
    let mut large = kit.pool("large", "4.20.1", 3);
    large["spec"]["platform"]["azure"]["vmSize"] = json!("Standard_E4s_v5");
    kit.put(&kinds::POOL, large).await;
    told(
        &kit,
        "large",
        "AllMachinesReady",
        "QuotaExceeded",
        &["2 of 3 machines", "ESv5", "limit is 9", "What to do"],
    )
    .await;
    quota(100);
    done("quota");
    kit.put(&kinds::POOL, kit.pool("np", "4.20.1", 1)).await;
    Box::pin(refused(&kit)).await;
    done("refusals");
    well(&kit, "np", 1).await;
    Box::pin(unwilling(&kit)).await;
    done("no hosts, and a policy");
    Box::pin(unfinished(&kit, &clock)).await;
    done("a machine that is never made");
    Box::pin(cut_off(&kit)).await;
    done("no way out");
    Box::pin(bad_token(&kit)).await;
    done("a bad token");
    Box::pin(throttled(&kit)).await;
    done("throttled");
    Box::pin(undrained(&kit, &down)).await;
    done("no API to drain by");
    well(&kit, "large", 3).await;
    done("room in the quota");
    kit.delete("land").await;
    kit.gone("land").await;
    Remains::of(&kit).await.assert_clean_since(&before, &["land"]);
    operators.stop().await;
    kit.world.stop().await;
}
