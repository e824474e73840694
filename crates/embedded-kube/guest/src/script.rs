//! Shell scripts of control plane pods. There is no shell here; what others wait for is done, the rest is said not to
//! have been done.
//!
//! * a script that waits for etcd (`wait-for-etcd`, or one that names `etcd-client`) waits until its Service has a
//!   ready endpoint;
//! * a script that follows files or sleeps for ever (`audit-logs`) runs until it is stopped;
//! * every other script (rendering bootstrap manifests, pulling an image ahead, resolving names) ends well at once,
//!   and its log says that it was not run.

use ek_node::{Program, ProgramContext};
use futures::future::BoxFuture;
use std::time::Duration;

pub(crate) struct Script;

impl Program for Script {
    fn run(&self, ctx: ProgramContext) -> BoxFuture<'static, i32> {
        Box::pin(async move {
            let script = ctx.command().iter().chain(ctx.args()).cloned().collect::<Vec<_>>().join(" ");
            if ctx.container() == "wait-for-etcd" || script.contains("etcd-client") {
                return wait_for_etcd(&ctx).await;
            }
            let endless = ["tail -F", "tail -f", "tail -c+1 -F", "sleep infinity", "while true"];
            if ctx.container() == "audit-logs" || endless.iter().any(|e| script.contains(e)) {
                ctx.log("this world has no shell: the script is not run, and its container stays until it is stopped");
                ctx.stopping().cancelled().await;
                return 0;
            }
            ctx.log("this world has no shell: the script was not run, and is taken to have succeeded");
            0
        })
    }
}

async fn wait_for_etcd(ctx: &ProgramContext) -> i32 {
    let host = format!("etcd-client.{}.svc", ctx.namespace());
    let mut waited = false;
    loop {
        if ctx.resolve(&host, crate::etcd::PORT).is_some() {
            ctx.log(format!("{host} is there"));
            return 0;
        }
        if !std::mem::replace(&mut waited, true) {
            ctx.log(format!("waiting for {host} to resolve"));
        }
        // As the real script does; nothing tells a container of the readiness of others.
        tokio::select! {
            () = ctx.stopping().cancelled() => return 143,
            () = tokio::time::sleep(Duration::from_millis(100)) => {}
        }
    }
}
