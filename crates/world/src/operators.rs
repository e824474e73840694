//! All operators, as one process would run them: stopped in order, killed, and started again.
//!
//! They are given a client of their own, so that whoever tests can stand between them and the API, and they can be run
//! against any cluster: nothing here knows an embedded one.

use crate::Around;
use clock::{Random, SharedClock};
use control_plane::operate::{self, Tenants};
use jiff::SignedDuration;
use kube::Client;
use reconcile::{Drained, Handle, Metrics, Options, Runtime};
use std::collections::BTreeSet;
use std::sync::Arc;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// How often machines that are ready are looked for in Azure: a world is watched by people who are not patient.
pub const LOOK: SignedDuration = SignedDuration::from_secs(10);

/// What operators stand on, and what outlives them.
#[derive(Clone)]
pub struct Ground {
    /// The `group/Kind`s that the management cluster serves beyond the built-in ones.
    pub served: BTreeSet<String>,
    pub around: Arc<Around>,
    /// Whose control planes are served.
    pub tenants: Arc<Tenants>,
    /// Nothing: somebody else keeps machines.
    pub machines: Option<Keeping>,
    /// Nothing: private links are not made.
    pub links: Option<crate::Linking>,
    pub clock: SharedClock,
    pub random: Random,
}

/// Whose machines are kept, and how guests and Azure are reached for it.
#[derive(Clone)]
pub struct Keeping {
    pub tenants: Arc<machines::operate::Tenants>,
    pub reach: Arc<dyn machines::Reach>,
    pub clouds: Arc<dyn machines::Clouds>,
}

/// Operators that run.
pub struct Operators {
    /// Of HostedClusters.
    pub clusters: Handle,
    /// Of control planes.
    pub planes: Handle,
    /// Of NodePools.
    pub pools: Option<Handle>,
    /// Of machines.
    pub machines: Option<machines::operate::Handles>,
    pub metrics: Metrics,
    stop: CancellationToken,
    running: Option<JoinHandle<Drained>>,
}

impl Operators {
    pub fn start(ground: &Ground, client: &Client) -> Operators {
        let (mut operators, runtime) = Operators::set_up(ground, client);
        operators.running = Some(tokio::spawn(runtime.run(operators.stop.clone())));
        operators
    }

    /// They never begin: somebody else does the work.
    pub fn resting(ground: &Ground, client: &Client) -> Operators {
        Operators::set_up(ground, client).0
    }

    fn set_up(ground: &Ground, client: &Client) -> (Operators, Runtime) {
        let metrics = Metrics::default();
        let mut runtime = Runtime::new(ground.clock.clone(), &metrics);
        let (clusters, operator) = hypershift::operate::start(
            &mut runtime,
            client,
            ground.served.clone(),
            ground.clock.clone(),
            &ground.random,
            ground.around.clone(),
            &metrics,
        );
        let setup = operate::Setup {
            served: ground.served.clone(),
            clock: ground.clock.clone(),
            random: &ground.random,
            around: ground.around.clone(),
            metrics: &metrics,
            tenants: ground.tenants.clone(),
            namespace: None,
            only: operate::Only::default(),
        };
        let planes = operate::start(&mut runtime, client, setup);
        let machines = ground.machines.clone().map(|keeping| {
            let setup = machines::operate::Setup {
                clock: ground.clock.clone(),
                random: &ground.random,
                metrics: &metrics,
                reach: keeping.reach,
                clouds: keeping.clouds,
                tenants: keeping.tenants,
                namespace: None,
                options: Options::default(),
                look: LOOK,
            };
            machines::operate::start(&mut runtime, client, setup)
        });
        if let Some(crate::Linking { management, clouds, tenants }) = ground.links.clone() {
            let (clock, random) = (ground.clock.clone(), &ground.random);
            let options = private_link::operate::options();
            let services =
                private_link::operate::Services { clock, random, metrics: &metrics, management, options };
            private_link::operate::start_services(&mut runtime, client, services);
            let (clock, namespace) = (ground.clock.clone(), None);
            let endpoints = private_link::operate::Endpoints {
                clock,
                random,
                metrics: &metrics,
                clouds,
                tenants,
                namespace,
                options,
            };
            private_link::operate::start_endpoints(&mut runtime, client, endpoints);
        }
        let stop = CancellationToken::new();
        let pools = operator.node_pools().cloned();
        (Operators { clusters, planes, pools, machines, metrics, stop, running: None }, runtime)
    }

    /// Ends what has begun, and begins nothing.
    pub async fn stop(self) {
        self.stop.cancel();
        if let Some(running) = self.running
            && running.await.is_err()
        {
            tracing::warn!("an operator did not stop in good order");
        }
    }

    /// As SIGKILL does: in the middle of whatever is done.
    pub fn kill(&self) {
        if let Some(running) = &self.running {
            running.abort();
        }
    }
}
