//! Several guests in one process; what each costs is measured by `cargo xtask bench hosted`.

use crate::kit::{Hosted, Kit};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn several_guests_settle_in_one_process() {
    let dir = tempfile::tempdir().unwrap();
    let kit = Kit::start(dir.path()).await;
    for n in 0..4 {
        let hosted = Hosted::new(&format!("clusters-{n}"));
        hosted.deploy(&kit).await;
        hosted.up(&kit).await;
    }
    for n in 0..4 {
        let server = kit.guests.server(&Kit::id(), &format!("clusters-{n}")).expect("it is served");
        assert!(server.store().is_healthy());
    }
    kit.stop().await;
}
