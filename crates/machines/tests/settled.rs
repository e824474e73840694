//! What is settled costs nothing; what is made costs as much as there is to make.

use crate::world::{NS, World};
use kube::client::Body;
use machines::kinds;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

type Request = http::Request<Body>;

/// Counts writes.
fn counting(client: kube::Client, writes: Arc<AtomicUsize>) -> kube::Client {
    let service = tower::service_fn(move |request: Request| {
        if request.method() != http::Method::GET {
            writes.fetch_add(1, Ordering::SeqCst);
        }
        let client = client.clone();
        async move { client.send(request).await.map_err(tower::BoxError::from) }
    });
    kube::Client::new(service, "default")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_settled_pool_is_reconciled_without_a_write_and_with_one_list_of_azure() {
    let w = World::start().await;
    let writes = Arc::new(AtomicUsize::new(0));
    let running = w.operate_as(&counting(w.server.client(), writes.clone()));
    let n = 6;
    w.create(&kinds::DEPLOYMENT, World::pool(NS, n)).await;
    w.settled(NS, n.into()).await;
    let made = writes.load(Ordering::SeqCst);
    // Per machine: Machine, AzureMachine, its id twice, and a handful of statuses.
    assert!(made <= 14 * n as usize + 60, "{made} writes for {n} machines");
    let journal = w.sim.world().journal();
    let lists = |what: &str| journal.iter().filter(|e| e.method == "GET" && e.path.ends_with(what)).count();
    assert!(
        lists("/Microsoft.Compute/skus") <= 1 && lists("/usages") <= 2,
        "sizes and usages are asked for once"
    );

    let runs = || -> i64 {
        let text = running.metrics.text();
        let lines = text.lines().filter(|l| l.starts_with("controller_runtime_reconcile_total"));
        lines.filter_map(|l| l.rsplit(' ').next()?.parse::<i64>().ok()).sum()
    };
    let poke = async || {
        let before = runs();
        let h = &running.handles;
        h.clusters.poke(&format!("{NS}/demo-x"));
        h.deployments.poke(&format!("{NS}/pool"));
        let mut keys = 2;
        for (handle, kind) in
            [(&h.sets, kinds::SET), (&h.machines, kinds::MACHINE), (&h.azure_machines, kinds::AZURE_MACHINE)]
        {
            for o in w.all(&kind, NS).await {
                handle.poke(&format!("{NS}/{}", o.metadata.name.unwrap()));
                keys += 1;
            }
        }
        let ran = async {
            while runs() < before + keys {
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(30), ran).await.unwrap();
    };
    let mut quiet = 0;
    for _ in 0..50 {
        let before = writes.load(Ordering::SeqCst);
        poke().await;
        quiet = if writes.load(Ordering::SeqCst) == before { quiet + 1 } else { 0 };
        if quiet == 3 {
            break;
        }
    }
    assert_eq!(quiet, 3, "it never settles");
    let (before, azure) = (writes.load(Ordering::SeqCst), w.sim.world().journal().len());
    for _ in 0..20 {
        poke().await;
    }
    assert_eq!(writes.load(Ordering::SeqCst), before, "writes of settled runs");
    // Twenty rounds over six machines: lists of the group by age, and nothing per machine.
    let journal = w.sim.world().journal();
    let calls: Vec<String> = journal[azure..].iter().map(|e| format!("{} {}", e.method, e.path)).collect();
    assert!(calls.iter().all(|c| c.starts_with("GET") && c.ends_with("/virtualMachines")), "{calls:#?}");
    assert!(calls.len() <= 20, "{} lists", calls.len());
}
