//! What a settled guest costs.

use crate::kit::{Hosted, Kit};

/// Resident memory of this process, in KiB.
fn resident() -> u64 {
    let text = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = text.lines().find_map(|l| l.strip_prefix("VmRSS:")).unwrap_or_default();
    line.trim().trim_end_matches("kB").trim().parse().unwrap_or(0)
}

/// `EK_GUESTS=50 cargo test -p ek-guest many -- --nocapture` measures; without it a few show that they fit together.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_guests_settle_in_one_process() {
    let wanted: usize = std::env::var("EK_GUESTS").ok().and_then(|n| n.parse().ok()).unwrap_or(4);
    let dir = tempfile::tempdir().unwrap();
    let kit = Kit::start(dir.path()).await;
    let first = Hosted::new("clusters-0");
    first.deploy(&kit).await;
    first.up(&kit).await;
    let before = resident();
    let began = std::time::Instant::now();
    for n in 1..=wanted {
        let hosted = Hosted::new(&format!("clusters-{n}"));
        hosted.deploy(&kit).await;
        hosted.up(&kit).await;
    }
    let took = began.elapsed();
    let each = resident().saturating_sub(before) / wanted as u64;
    println!("{wanted} guests in {took:?}, {each} KiB each");
    for n in 0..=wanted {
        let server = kit.guests.server(&Kit::id(), &format!("clusters-{n}")).expect("it is served");
        assert!(server.store().is_healthy());
    }
    // Debug builds and the system's allocator cost more than what is shipped; this is a bound, not the figure.
    assert!(wanted < 20 || each < 4096, "{each} KiB each");
    kit.stop().await;
}
