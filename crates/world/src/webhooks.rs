//! `zaffre serve hypershift-operator` as a program, where an installation asks for webhooks.
//!
//! The operator itself runs in this process, and pods of an installation are simulated. What must be in a pod is what a
//! Service leads to: the port at which the API server asks about objects before it stores them.

use crate::programs::{Means, failed};
use admission::{Desk, PORT, Source};
use ek_node::{Program, ProgramContext};
use futures::future::BoxFuture;
use hypershift::Management;
use reconcile::{Metrics, Runtime};
use std::sync::Arc;

/// The newest release of this world's registry.
struct Newest(Option<String>);

impl Source for Newest {
    fn newest(&self) -> BoxFuture<'_, Result<String, String>> {
        let found = self.0.clone().ok_or_else(|| "there is no release in this world".to_owned());
        Box::pin(async move { found })
    }
}

/// Whether a container is the operator with webhooks.
pub(crate) fn asked(container: &serde_json::Value) -> bool {
    let mut args = container["args"].as_array().into_iter().flatten().filter_map(|a| a.as_str());
    crate::gate::serves("hypershift-operator")(container) && args.any(|a| a.starts_with("--webhook-address="))
}

pub(crate) struct Webhooks(pub(crate) Means);

impl Program for Webhooks {
    fn run(&self, ctx: ProgramContext) -> BoxFuture<'static, i32> {
        let means = self.0.clone();
        Box::pin(async move {
            let listener = match ctx.listener(PORT).await {
                Ok(l) => l,
                Err(e) => return failed(&ctx, &e),
            };
            let management = Management { openshift: false, minor: 34, routes: true };
            let desk = Desk::new(ctx.client(), Arc::new(Newest(means.newest)), management);
            let mut runtime = Runtime::new(means.clock.clone(), &Metrics::default());
            let setup = admission::Setup {
                client: ctx.client(),
                namespace: ctx.namespace().to_owned(),
                clock: means.clock,
                desk: desk.clone(),
            };
            admission::start(&mut runtime, setup);
            ctx.log("reviews are answered here; clusters are kept by the operator of this process");
            let stop = ctx.stopping().clone();
            let healthy = async {
                desk.opened().await;
                match ctx.listener(crate::gate::health_port(&ctx)).await {
                    Ok(listener) => ek_guest::stand_ins::healthy(&ctx, listener).await,
                    Err(e) => failed(&ctx, &e),
                }
            };
            let serving = admission::serve(listener, desk.clone(), stop.clone());
            tokio::select! {
                code = healthy => code,
                _ = futures::future::join(serving, runtime.run(stop)) => 0,
            }
        })
    }
}
