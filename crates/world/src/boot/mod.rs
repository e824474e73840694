//! Machines that boot: what happens to virtual machines in this Azure happens to nodes of guests.
//!
//! ```text
//! azure-sim ──created, started, stopped, deleted──> [`Boots`] ── one task per running machine ([`life`])
//!                                                                │ customData ─> [`stub`]
//!                       ingress ── ignition endpoint <── GET ────┤ [`fetch`], again and again, as Ignition does
//!                       balancer, ingress ── guest API <── CSR ──┤ bootstrap kubeconfig of the payload
//!                                                     <── Node ──┘ lease, pods by stages (`ek_node::ExternalNode`)
//! ```
//!
//! A machine knows nothing but what was written into it and what it fetches. Whether it becomes a node is decided by the
//! same tokens, certificates and approvals as anywhere; where it fails is written to its console, which Azure shows as
//! boot diagnostics.
//!
//! Azure is told that a machine has come up when its Ignition config is there, as RHCOS does. A machine that never gets
//! that far fails as in Azure: `OSProvisioningTimedOut`, after twenty minutes.
//!
//! What it has on its disk is kept in a directory of the world ([`disk`]), so that after a restart of the world a running
//! machine is the node that it was, and asks for no second identity.

mod console;
mod disk;
mod fetch;
mod life;
mod payload;
mod stub;
mod update;

use azure_sim::{Happening, Machine, World as Azure};
use clock::SharedClock;
use ek_node::StageSet;
use life::Life;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// A reader that hears of nothing looks again after this long.
const QUIET: Duration = Duration::from_secs(60);

/// What machines are given by their world.
#[derive(Clone)]
pub(crate) struct Surroundings {
    pub azure: Arc<Azure>,
    /// How published names are reached.
    pub dial: Arc<dyn crate::health::Dial>,
    pub clock: SharedClock,
    pub stages: StageSet,
    pub seed: u64,
    /// Where disks are.
    pub dir: PathBuf,
    /// How long a machine that was refused waits before it boots anew, and the longest pause between attempts.
    pub patience: Duration,
}

/// All machines of a world that run.
pub(crate) struct Boots {
    around: Surroundings,
    running: Mutex<HashMap<String, (CancellationToken, JoinHandle<()>)>>,
}

impl Boots {
    /// Follows what happens to machines until stopped.
    pub(crate) async fn run(around: Surroundings, stop: CancellationToken) {
        if let Err(e) = around.azure.await_boots(true) {
            tracing::error!(error = %e, "machines do not wait for their boot");
        }
        let boots = Boots { around, running: Mutex::default() };
        let mut cursor = boots.all();
        loop {
            let news = tokio::select! {
                () = stop.cancelled() => break,
                news = boots.around.azure.next_machine_events(cursor, QUIET) => news,
            };
            if news.lost {
                cursor = boots.all();
                continue;
            }
            for event in news.value {
                cursor = event.number;
                boots.hear(event.what, &event.vm_id, event.machine);
            }
        }
        let all: Vec<_> = boots.running.lock().drain().map(|(_, running)| running).collect();
        for (token, task) in all {
            token.cancel();
            let _ = task.await;
        }
        // Nobody boots machines any more; whoever makes one is not to wait.
        let _ = boots.around.azure.await_boots(false);
    }

    /// Takes up everything that runs now; where to go on from.
    fn all(&self) -> u64 {
        let from = self.around.azure.machine_events(u64::MAX - 1).last;
        let machines = self.around.azure.machines();
        let there: Vec<String> = machines.iter().map(|m| m.vm_id.clone()).collect();
        for machine in machines.into_iter().filter(|m| m.power == "running") {
            self.start(machine);
        }
        self.running.lock().retain(|id, (token, _)| {
            let stays = there.contains(id);
            if !stays {
                token.cancel();
            }
            stays
        });
        disk::sweep(&self.around.dir, &there);
        from
    }

    fn hear(&self, what: Happening, id: &str, machine: Option<Machine>) {
        match what {
            Happening::Created | Happening::Started => {
                if let Some(machine) = machine {
                    self.start(machine);
                }
            }
            Happening::Restarted => {
                self.end(id);
                if let Some(machine) = machine {
                    self.start(machine);
                }
            }
            Happening::Stopped | Happening::Deallocated => self.end(id),
            Happening::Deleted => {
                self.end(id);
                disk::remove(&self.around.dir, id);
            }
            Happening::Ready | Happening::Updated | Happening::Failed => {}
        }
    }

    fn start(&self, machine: Machine) {
        let mut running = self.running.lock();
        running.retain(|_, (_, task)| !task.is_finished());
        if running.contains_key(&machine.vm_id) {
            return;
        }
        let (id, token) = (machine.vm_id.clone(), CancellationToken::new());
        let life = Life::new(self.around.clone(), machine, token.clone());
        running.insert(id, (token, tokio::spawn(life.run())));
    }

    /// As pulling a plug: nothing is said to anybody.
    fn end(&self, id: &str) {
        if let Some((token, _)) = self.running.lock().remove(id) {
            token.cancel();
        }
    }
}
