//! Runs a simulator: writes its environment to the file given, says that it is ready, and waits for Ctrl-C.
#![allow(clippy::print_stdout, reason = "an example talks to a person")]

use azure_sim::{AzureSim, Config};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let out = std::env::args().nth(1).ok_or("usage: serve ENV-FILE")?;
    let mut config = Config::local(1);
    config.ca_file = Some(format!("{out}.ca.pem").into());
    let sim = AzureSim::start(config).await?;
    std::fs::write(&out, sim.env())?;
    println!("ready {}", sim.arm_url());
    tokio::signal::ctrl_c().await?;
    Ok(())
}
