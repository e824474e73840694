//! Clusters that are gone leave nothing behind, neither in the store nor in any controller.

use ek_engine::Engine;
use ek_server::{ClusterConfig, Host, HostConfig};

const CLUSTERS: usize = 2000;
/// Made, furnished by controllers, and deleted together.
const AT_ONCE: usize = 50;

fn resident_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|l| l.starts_with("VmRSS:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

/// Memory is the process's, so this wants one to itself: the test binary, asked for one test.
#[test]
fn two_thousand_clusters_come_and_go() {
    let out = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "leaks::in_a_process_of_its_own", "--ignored", "--nocapture"])
        .output()
        .unwrap();
    let said = format!("{}{}", String::from_utf8_lossy(&out.stdout), String::from_utf8_lossy(&out.stderr));
    assert!(out.status.success() && said.contains("1 passed"), "{said}");
}

#[tokio::test]
#[ignore = "run by two_thousand_clusters_come_and_go"]
async fn in_a_process_of_its_own() {
    let host = Host::start(HostConfig::memory()).await.unwrap();
    let engine = Engine::new(&host, ek_controllers::all(ek_controllers::Options::default()));
    let mut settled = 0;
    for round in 0..CLUSTERS / AT_ONCE {
        for i in 0..AT_ONCE {
            host.ensure(&format!("c{i}"), ClusterConfig::default()).await.unwrap();
        }
        assert!(engine.settle().await > 0, "controllers furnish a new cluster");
        for i in 0..AT_ONCE {
            assert!(host.delete(&format!("c{i}")).await.unwrap());
        }
        engine.settle().await;
        assert!(host.names().is_empty());
        assert_eq!(engine.next_due(), None, "no timer of a cluster outlives it");
        // The first quarter fills the allocator's own stores; from then on nothing may grow.
        if round == CLUSTERS / AT_ONCE / 4 {
            settled = resident_kib();
        }
    }
    let grown = resident_kib().saturating_sub(settled);
    let kept = grown / (CLUSTERS as u64 * 3 / 4);
    assert!(kept < 4, "each cluster left {kept} KiB behind ({grown} KiB in all)");
}
