//! `zaffre serve machines`: Cluster API's kinds and Azure's machines, built in.

use super::ground::{Ground, Post};
use crate::cli::operators::MachinesArgs;
use crate::reach::{Otherwise, cluster};
use anyhow::Context;
use azure::{ClientOptions, Cloud, Env, Http, HttpOptions};
use jiff::SignedDuration;
use machines::connect::{ByIdentity, BySecret};
use machines::operate;
use reconcile::{Metrics, Options, Runtime};
use std::sync::Arc;

/// Without these there is nothing to do.
const NEEDED: [&str; 2] = ["cluster.x-k8s.io/Machine", "infrastructure.cluster.x-k8s.io/AzureMachine"];

pub async fn run(args: MachinesArgs) -> anyhow::Result<()> {
    let client = cluster(args.operator.kubeconfig.as_deref(), "--kubeconfig", Otherwise::Pod).await?;
    Ground::look(&client, &NEEDED).await?;
    let env = Env::of_process();
    let http = Http::new(&HttpOptions::from_env(&env))?;
    let cloud = Cloud::from_env(&http, &env).await.context("cannot tell which Azure machines are made in")?;
    let clouds = Arc::new(ByIdentity {
        management: client.clone(),
        http,
        cloud,
        options: ClientOptions { retry: ByIdentity::patience(), ..ClientOptions::default() },
        token_file: args.token_file.clone(),
    });
    let (metrics, random) = (Metrics::default(), clock::Random::from_os());
    let post = Post {
        client: &client,
        namespace: args.namespace.as_deref().unwrap_or(&args.lease_namespace),
        lease: "zaffre-machines",
        args: &args.operator,
        metrics_address: args.metrics_address,
        metrics: &metrics,
        page: Box::new(String::new),
        ready: Box::new(|| true),
    };
    post.hold(|stop| {
        let mut runtime = Runtime::new(clock::system(), &metrics);
        let setup = operate::Setup {
            clock: clock::system(),
            random: &random,
            metrics: &metrics,
            reach: Arc::new(BySecret(client.clone())),
            clouds,
            tenants: operate::Tenants::all(),
            namespace: args.namespace.clone(),
            options: Options::default(),
            look: SignedDuration::from_secs(args.look),
        };
        operate::start(&mut runtime, &client, setup);
        runtime.run(stop)
    })
    .await
}
