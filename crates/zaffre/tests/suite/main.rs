//! The binary as its users meet it: command line, server, documentation, and real clients.

#![allow(clippy::unwrap_used, clippy::panic, clippy::large_futures, reason = "a test fails by panicking")]

mod azure;
mod azure_clients;
mod azure_trouble;
mod cli;
mod clusters;
mod destroy;
mod differential;
mod docs;
mod dump;
mod durability;
mod interop;
mod kube_rs;
mod kubectl;
mod living;
mod oidc;
mod operators;
mod prereqs;
mod restart;
mod road;
mod shared;
mod upgrade;

use std::path::{Path, PathBuf};
use std::process::Command;

fn zaffre() -> Command {
    Command::new(env!("CARGO_BIN_EXE_zaffre"))
}

/// A server on a free port, with its kubeconfig in `dir`.
fn serve(dir: &Path, storage: &[&str]) -> (testkit::Server, PathBuf) {
    let kubeconfig = dir.join("kubeconfig");
    let mut c = zaffre();
    c.current_dir(dir)
        .args(["serve", "kube", "--listen", "127.0.0.1:0", "--kubeconfig-out"])
        .arg(&kubeconfig);
    c.args(storage);
    (testkit::Server::spawn(c).unwrap(), kubeconfig)
}
