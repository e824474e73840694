//! What Azure would refuse is not asked of it: with the identities that clusters usually have, of which that of machines
//! may not read quotas, nothing is made for a machine that could not be had.

use crate::kit::{Kit, is_true, says};
use hypershift::kinds;
use world::Flavour;

const FAMILY: &str = "standardDSv5Family";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_quota_of_nothing_costs_azure_no_write_and_is_over_once_it_is_raised() {
    let kit = Kit::start(Flavour::Workload).await;
    let sim = kit.world.cloud().sim.world();
    let quota = |cores| sim.set_quota(&kit.landing.subscription, "westus2", FAMILY, cores).unwrap();
    quota(0);
    kit.with_cluster("4.20.1").await;
    let begun = sim.journal().last().map_or(0, |e| e.number);
    kit.put(&kinds::POOL, kit.pool("np", "4.20.1", 2)).await;
    let words =
        ["QuotaExceeded", "0 of 2 machines", "limit is 0", "What to do", "spec.platform.azure.vmSize"];
    for kind in ["Ready", "AllMachinesReady", "ValidPlatformConfig"] {
        kit.until_pool("np", &format!("{kind} to tell of the quota"), |s| says(s, kind, "False", &words))
            .await;
    }
    // Nor is there anything that whoever keeps machines could begin with.
    let machines = kit.api(&kinds::MACHINE, "clusters-land").list(&Default::default()).await.unwrap().items;
    assert!(machines.is_empty(), "{machines:?}");
    let part =
        |path: &str| ["/networkInterfaces/", "/virtualMachines/", "/disks/"].iter().any(|k| path.contains(k));
    let entries = sim.journal();
    let writes: Vec<_> =
        entries.iter().filter(|e| e.number > begun && e.method != "GET" && part(&e.path)).collect();
    assert!(writes.is_empty(), "{writes:?}");
    quota(100);
    kit.until_pool("np", "both nodes", |s| {
        s["replicas"] == 2
            && ["Ready", "AllMachinesReady", "ValidPlatformConfig"].iter().all(|k| is_true(s, k))
    })
    .await;
    // Azure never had to refuse.
    let refused = sim.journal().into_iter().filter(|e| e.number > begun && e.status == 409 && part(&e.path));
    assert_eq!(refused.count(), 0);
    kit.world.stop().await;
}
