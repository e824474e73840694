//! What a settled guest costs.

use crate::kit::{Hosted, Kit};

/// Resident memory of this process, in KiB.
fn resident() -> u64 {
    let text = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = text.lines().find_map(|l| l.strip_prefix("VmRSS:")).unwrap_or_default();
    line.trim().trim_end_matches("kB").trim().parse().unwrap_or(0)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn several_guests_settle_in_one_process() {
    settle(3).await;
}

/// `cargo test -p ek-guest fifty -- --ignored --nocapture`
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "a measurement"]
async fn fifty_guests() {
    // Debug builds and the system's allocator cost more than what is shipped; this is a bound, not the figure.
    let each = settle(50).await;
    assert!(each < 4096, "{each} KiB each");
}

#[allow(clippy::print_stdout, reason = "a measurement is there to be read")]
/// Brings up one guest, then more; says what each of those costs in memory, in KiB.
async fn settle(wanted: usize) -> u64 {
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
    kit.stop().await;
    each
}
