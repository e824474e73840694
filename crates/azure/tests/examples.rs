//! The example of the guide, run.

use crate::support::simulator;
use azure_sim::Profile;

#[path = "../examples/network.rs"]
mod network;

#[tokio::test]
async fn the_example_does_what_the_guide_says() {
    let (_sim, env, _dir) = simulator(Profile::Instant, Vec::new()).await;
    let said = network::run(&env, "zaffre-example").await.unwrap();
    let guide = include_str!("../../../docs/azure-client.md");
    assert!(guide.contains(&said), "the guide shows something else:\n{said}");
}
