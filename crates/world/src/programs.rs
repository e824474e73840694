//! Programs of control planes that work in the guest: the container of the API server that prepares it, the config
//! operator and the version operator. Each reads its words and files as the real one does and calls the library.

use crate::break_glass::PkiOperator;
use crate::dial;
use crate::ignition::{IgnitionProxy, IgnitionServer};
use crate::webhooks::Webhooks;
use azure::oci::Images;
use clock::{Random, SharedClock};
use ek_node::{Program, ProgramContext, Programs};
use futures::future::BoxFuture;
use reconcile::{Metrics, chain};
use release::Releases;
use std::sync::Arc;
use std::time::Duration;

/// What they have in common.
#[derive(Clone)]
pub(crate) struct Means {
    pub images: Images,
    pub releases: Releases,
    pub clock: SharedClock,
    pub random: Random,
    /// Whether operators do their work here.
    pub operators: bool,
    /// The newest release there is.
    pub newest: Option<String>,
}

impl Means {
    pub(crate) fn register(&self, programs: &mut Programs, image: impl Fn(&str) -> String, ours: &str) {
        let bootstrap = Arc::new(KasBootstrap(self.clone()));
        programs.register_where(&image("controlplane-operator"), |c| has(c, "kas-bootstrap"), bootstrap);
        let name = "hosted-cluster-config-operator";
        let config: Arc<dyn Program> = match self.operators {
            true => Arc::new(ConfigOperator(self.clone())),
            false => Arc::new(Healthy),
        };
        programs.register_where(ours, crate::gate::serves(name), config);
        programs.register_where(ours, crate::webhooks::asked, Arc::new(Webhooks(self.clone())));
        let ignition = Arc::new(IgnitionServer(self.clone()));
        programs.register_where(ours, crate::gate::serves("ignition-server"), ignition);
        programs.register_where(&image("haproxy-router"), crate::ignition::is_proxy, Arc::new(IgnitionProxy));
        programs.register(&image("cluster-machine-approver"), MachineApprover(self.clone()));
        // Several programs come in this image.
        let is_pki = |c: &serde_json::Value| has(c, "/usr/bin/control-plane-pki-operator");
        let pki = Arc::new(PkiOperator(self.clone()));
        programs.register_where(&image("controlplane-pki-operator"), is_pki, pki);
        programs.register(&image("cluster-version-operator"), VersionOperator(self.clone()));
    }
}

fn has(container: &serde_json::Value, word: &str) -> bool {
    let words =
        [&container["command"], &container["args"]].into_iter().filter_map(|w| w.as_array()).flatten();
    words.filter_map(|w| w.as_str()).take(4).any(|w| w == word)
}

/// Everything a container was started with, after `zaffre serve NAME` or its own name.
pub(crate) fn words(ctx: &ProgramContext, skip: usize) -> Vec<String> {
    ctx.command().iter().chain(ctx.args()).skip(skip).cloned().collect()
}

pub(crate) fn failed(ctx: &ProgramContext, why: &dyn std::fmt::Display) -> i32 {
    ctx.log(format!("error: {why}"));
    1
}

/// `control-plane-operator kas-bootstrap`: applies what a new guest needs, and then stays.
struct KasBootstrap(Means);

impl Program for KasBootstrap {
    fn run(&self, ctx: ProgramContext) -> BoxFuture<'static, i32> {
        let random = self.0.random.clone();
        Box::pin(async move {
            let path = ctx.env().get("KUBECONFIG_ADMIN").or_else(|| ctx.env().get("KUBECONFIG")).cloned();
            let Some(path) = path else { return failed(&ctx, &"KUBECONFIG is not set") };
            let mut said = String::new();
            let mut wait = Duration::from_millis(50);
            let mut stirred = ctx.stirred();
            loop {
                let why = match dial::client(&ctx, &path).await {
                    Ok(admin) => match guest_config::bootstrap(&admin, &random).await {
                        Ok(()) => break,
                        Err(e) => chain(&e).to_string(),
                    },
                    Err(e) => chain(&e).to_string(),
                };
                if why != said {
                    ctx.log(&why);
                    said = why;
                }
                tokio::select! {
                    () = ctx.stopping().cancelled() => return 0,
                    Ok(()) = stirred.changed() => {}
                    () = tokio::time::sleep(wait) => {}
                }
                wait = (wait * 2).min(Duration::from_secs(2));
            }
            ctx.log("the guest has its kinds and first rights");
            ctx.stopping().cancelled().await;
            0
        })
    }
}

/// `zaffre serve hosted-cluster-config-operator`.
struct ConfigOperator(Means);

impl Program for ConfigOperator {
    fn run(&self, ctx: ProgramContext) -> BoxFuture<'static, i32> {
        let means = self.0.clone();
        Box::pin(async move {
            let name = "hosted-cluster-config-operator";
            let args: guest_config::Args = match sidecars::parse(name, &words(&ctx, 3)) {
                Ok(a) => a,
                Err(e) => return failed(&ctx, &e),
            };
            let listener = match ctx.listener(6060).await {
                Ok(l) => l,
                Err(e) => return failed(&ctx, &e),
            };
            let guest = match dial::client(&ctx, &args.target_kubeconfig.to_string_lossy()).await {
                Ok(c) => c,
                Err(e) => return failed(&ctx, &chain(&e)),
            };
            let told = args.told(|variable| ctx.env().get(variable).cloned());
            let with = guest_config::Means {
                management: ctx.client(),
                guest,
                // OpenShift's API servers are simulated here: their kinds are definitions.
                backends: Arc::new(guest_config::probe::Nobody),
                clock: means.clock,
                random: means.random,
                metrics: Metrics::default(),
            };
            let stop = ctx.stopping().clone();
            tokio::select! {
                _ = guest_config::run(told, with, stop) => 0,
                code = ek_guest::stand_ins::healthy(&ctx, listener) => code,
            }
        })
    }
}

/// A pod whose work somebody else does.
struct Healthy;

impl Program for Healthy {
    fn run(&self, ctx: ProgramContext) -> BoxFuture<'static, i32> {
        Box::pin(async move {
            match ctx.listener(6060).await {
                Ok(listener) => ek_guest::stand_ins::healthy(&ctx, listener).await,
                Err(e) => failed(&ctx, &e),
            }
        })
    }
}

/// `cluster-version-operator start`.
struct VersionOperator(Means);

impl Program for VersionOperator {
    fn run(&self, ctx: ProgramContext) -> BoxFuture<'static, i32> {
        let means = self.0.clone();
        Box::pin(async move {
            use clap::Parser;
            let args = match cluster_version::Args::try_parse_from(words(&ctx, 0)) {
                Ok(a) => a,
                Err(e) => return failed(&ctx, &e),
            };
            let payload = match means.releases.payload(&means.images, &args.release_image).await {
                Ok(p) => cluster_version::Payload::new(&args.release_image, &p),
                Err(e) => return failed(&ctx, &chain(&e)),
            };
            let guest = match dial::client(&ctx, &args.kubeconfig.to_string_lossy()).await {
                Ok(c) => c,
                Err(e) => return failed(&ctx, &chain(&e)),
            };
            if let Err(e) = crate::payload::apply(&guest).await {
                return failed(&ctx, &chain(&e));
            }
            let around = cluster_version::Around {
                guest,
                payload,
                clock: means.clock,
                random: means.random,
                metrics: Metrics::default(),
            };
            let _ = cluster_version::run(around, ctx.stopping().clone()).await;
            0
        })
    }
}

/// `machine-approver`.
struct MachineApprover(Means);

/// The value of `--name=value`, as manifests write it. The real program has more flags than a stand-in has uses for.
fn flag(ctx: &ProgramContext, name: &str) -> Option<String> {
    let words = ctx.command().iter().chain(ctx.args());
    words
        .filter_map(|w| w.strip_prefix("--")?.strip_prefix(name)?.strip_prefix('='))
        .next()
        .map(str::to_owned)
}

impl Program for MachineApprover {
    fn run(&self, ctx: ProgramContext) -> BoxFuture<'static, i32> {
        let means = self.0.clone();
        Box::pin(async move {
            let named = (flag(&ctx, "machine-namespace"), flag(&ctx, "workload-cluster-kubeconfig"));
            let (Some(namespace), Some(kubeconfig)) = named else {
                return failed(&ctx, &"--machine-namespace=… and --workload-cluster-kubeconfig=… are needed");
            };
            let guest = match dial::client(&ctx, &kubeconfig).await {
                Ok(c) => c,
                Err(e) => return failed(&ctx, &chain(&e)),
            };
            ctx.log(format!("approving nodes of Machines in {namespace}"));
            let metrics = Metrics::default();
            let mut runtime = reconcile::Runtime::new(means.clock.clone(), &metrics);
            let log = ctx.clone();
            let setup = operands::approver::Setup {
                management: ctx.client(),
                namespace,
                guest,
                clock: means.clock,
                metrics,
                say: Arc::new(move |line| log.log(line)),
            };
            operands::approver::start(&mut runtime, setup);
            runtime.run(ctx.stopping().clone()).await;
            0
        })
    }
}
