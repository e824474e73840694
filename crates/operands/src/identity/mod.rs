//! Identity probes: the part of a component that shows whether its identity works.
//!
//! Read the configuration, exchange, call; then rest until a file changes or some minutes have passed. Nothing is kept
//! between two looks, so a credential that was renewed, a role that was taken away or a file that was edited is seen at
//! the next.

mod calls;
mod config;

use crate::azure_side::{Azure, Trouble};
use crate::place::PodPlace;
use crate::rings::Rings;
use config::Act;
pub use config::{CloudConf, flag, from_env};
use ek_node::{Program, ProgramContext};
use futures::future::BoxFuture;
use http_body_util::Full;
use hyper_util::rt::TokioIo;
use jiff::SignedDuration;
use sidecars::Timing;
use std::convert::Infallible;
use std::time::Duration;

/// Between two looks when all is well, and nothing has changed.
const PERIOD: SignedDuration = SignedDuration::from_mins(10);
/// Between two looks while something is missing: first and longest.
const FIRST: Duration = Duration::from_millis(100);
const LONGEST: Duration = Duration::from_secs(15);
/// Where the provider of Cluster API says that it lives.
const HEALTH: u16 = 9440;
/// A probe that takes longer has gone away.
const PATIENCE: Duration = Duration::from_secs(5);

/// Components that act in Azure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Component {
    CloudController,
    DiskDriver,
    FileDriver,
    Ingress,
    ImageRegistry,
    /// The cloud network config controller.
    Network,
    /// The Azure provider of Cluster API.
    NodePools,
    /// The control plane operator, which makes private endpoints.
    ControlPlaneOperator,
}

impl Component {
    pub const ALL: [Component; 8] = [
        Component::CloudController,
        Component::DiskDriver,
        Component::FileDriver,
        Component::Ingress,
        Component::ImageRegistry,
        Component::Network,
        Component::NodePools,
        Component::ControlPlaneOperator,
    ];

    /// What the release calls its image; none for ours, whose program calls [`check`] itself.
    pub fn image(self) -> Option<&'static str> {
        Some(match self {
            Component::CloudController => "azure-cloud-controller-manager",
            Component::DiskDriver => "azure-disk-csi-driver",
            Component::FileDriver => "azure-file-csi-driver",
            Component::Ingress => "cluster-ingress-operator",
            Component::ImageRegistry => "cluster-image-registry-operator",
            Component::Network => "cloud-network-config-controller",
            Component::NodePools => "azure-cluster-api-controllers",
            Component::ControlPlaneOperator => return None,
        })
    }
}

/// Whether the identity of the component in this pod works now; what it did, or why it could not.
pub async fn check(component: Component, azure: &Azure, ctx: &ProgramContext) -> Result<String, String> {
    look(component, azure, ctx).await.map_err(|t| t.text().to_owned())
}

async fn look(component: Component, azure: &Azure, ctx: &ProgramContext) -> Result<String, Trouble> {
    let act = Act::read(component, &PodPlace::new(ctx), ctx).await?;
    let client = azure.client(&act.identity);
    calls::make(component, &client, &act, ctx.namespace()).await
}

/// The program.
pub struct Probe {
    component: Component,
    azure: Azure,
    timing: Timing,
    rings: Rings,
}

impl Probe {
    pub fn new(component: Component, azure: &Azure, timing: &Timing, rings: &Rings) -> Probe {
        Probe { component, azure: azure.clone(), timing: timing.clone(), rings: rings.clone() }
    }
}

impl Program for Probe {
    fn run(&self, ctx: ProgramContext) -> BoxFuture<'static, i32> {
        let (azure, timing, component) = (self.azure.clone(), self.timing.clone(), self.component);
        let rings = self.rings.clone();
        Box::pin(async move {
            let working = watch(component, &azure, &timing, &rings, &ctx);
            tokio::select! {
                code = Box::pin(working) => code,
                code = alive(component, &ctx) => code,
            }
        })
    }

    fn tells_when_ready(&self) -> bool {
        true
    }
}

/// Answers the liveness probe, of the one component that has one; whether it is ready is told another way.
async fn alive(component: Component, ctx: &ProgramContext) -> i32 {
    if component != Component::NodePools {
        return std::future::pending().await;
    }
    let listener = match ctx.listener(HEALTH).await {
        Ok(listener) => listener,
        Err(e) => {
            ctx.log(format!("port {HEALTH}: {e}"));
            return 1;
        }
    };
    loop {
        let Ok((tcp, _)) = listener.accept().await else { continue };
        let service = hyper::service::service_fn(async |_: http::Request<hyper::body::Incoming>| {
            Ok::<_, Infallible>(http::Response::new(Full::new(bytes::Bytes::from_static(b"ok"))))
        });
        let answered =
            hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(tcp), service);
        let _ = tokio::time::timeout(PATIENCE, answered).await;
    }
}

async fn watch(
    component: Component,
    azure: &Azure,
    timing: &Timing,
    rings: &Rings,
    ctx: &ProgramContext,
) -> i32 {
    ctx.log("a stand-in: of this component only its identity is put to use");
    let mut ring = rings.listen(ctx.cluster(), ctx.namespace(), ctx.pod());
    let mut files = ctx.files();
    let (mut said, mut wait, mut worked) = (String::new(), FIRST, false);
    loop {
        let looked = tokio::select! {
            () = ctx.stopping().cancelled() => return 0,
            l = Box::pin(look(component, azure, ctx)) => l,
        };
        let line = match &looked {
            Ok(done) => done.clone(),
            Err(t) => t.text().to_owned(),
        };
        if line != said {
            ctx.log(&line);
            said = line;
        }
        let rest = match looked {
            Ok(_) => {
                (wait, worked) = (FIRST, true);
                ctx.ready(Ok(()));
                // Control planes that were made together need not look together.
                let part = timing.random.below(100);
                PERIOD - PERIOD * i32::try_from(part).unwrap_or(0) / 500
            }
            Err(Trouble::Refused(_)) => return 1,
            Err(Trouble::NotYet(why)) => {
                // What has worked is not given up because Azure does not answer for a while.
                if !worked {
                    ctx.ready(Err(why));
                }
                let now = wait;
                wait = (wait * 2).min(LONGEST);
                SignedDuration::try_from(now).unwrap_or(PERIOD)
            }
        };
        let at = timing.clock.now().checked_add(rest).unwrap_or(jiff::Timestamp::MAX);
        tokio::select! {
            woken = timing.until(at, ctx.stopping()) => if !woken { return 0 },
            () = ring.heard() => {}
            Ok(()) = files.changed() => {}
        }
    }
}
