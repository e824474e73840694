//! `zaffre serve ignition-server`: payloads for machines that boot, from inside a control plane's namespace.

use super::ground::mirrors;
use super::observe::{self, Seen};
use super::sidecar::until_told;
use crate::output;
use crate::reach::{self, Otherwise};
use ::ignition::command::ByCommand;
use ::ignition::render::{Rendered, feature_gates};
use ::ignition::{Args, Certificate, PayloadProvider, Release, Releases, Setup};
use anyhow::Context;
use azure::oci::{Images, Logins};
use azure::{Env, Http, HttpOptions, Timing};
use futures::future::BoxFuture;
use reconcile::{Metrics, Runtime, chain};
use std::sync::Arc;
use tokio::net::TcpListener;

pub async fn run(args: Args) -> anyhow::Result<()> {
    let stop = until_told()?;
    let namespace = args.namespace.clone();
    let namespace =
        namespace.context("say which control plane's: --namespace, or MY_NAMESPACE in the environment")?;
    let client = reach::cluster(args.kubeconfig.as_deref(), "--kubeconfig", Otherwise::Pod).await?;
    let certificate = Arc::new(Certificate::load(&args.cert_file, &args.key_file)?);
    let (metrics, random) = (Metrics::default(), clock::Random::from_os());
    let page = Box::new(String::new);
    let seen = Arc::new(Seen { metrics: metrics.clone(), page, ready: Box::new(|| true) });
    observe::serve(args.metrics_address, seen, stop.clone()).await?;
    let mut runtime = Runtime::new(clock::system(), &metrics);
    let provider = provider(&args)?;
    let setup = Setup { client, namespace, provider, clock: clock::system(), random, metrics };
    let door = ::ignition::start(&mut runtime, setup);
    let listener = TcpListener::bind(args.address).await;
    let listener = listener.with_context(|| format!("cannot listen on {} (--address)", args.address))?;
    output::line(&format!("ready https://{}", listener.local_addr()?));
    let serving = tokio::spawn(::ignition::serve(listener, certificate, door, stop.clone()));
    runtime.run(stop).await;
    serving.await.context("the server ended in disorder")
}

fn provider(args: &Args) -> anyhow::Result<Arc<dyn PayloadProvider>> {
    if let Some(program) = &args.payload_command {
        return Ok(Arc::new(ByCommand::new(program)));
    }
    let gates = match &args.feature_gate_manifest {
        None => Vec::new(),
        Some(path) => {
            let text = std::fs::read_to_string(path)
                .with_context(|| format!("cannot read {} (--feature-gate-manifest)", path.display()))?;
            feature_gates(&text).with_context(|| format!("{} (--feature-gate-manifest)", path.display()))?
        }
    };
    let http = Http::new(&HttpOptions::from_env(&Env::of_process()))?;
    let images = Images::new(http, Timing::system()).mirrors(mirrors(&args.registry_overrides)?);
    let releases = Arc::new(FromRegistry { images, releases: release::Releases::new() });
    Ok(Arc::new(Rendered { releases, gates }))
}

struct FromRegistry {
    images: Images,
    releases: release::Releases,
}

impl Releases for FromRegistry {
    fn release<'a>(
        &'a self,
        image: &'a str,
        pull_secret: &'a [u8],
    ) -> BoxFuture<'a, Result<Release, String>> {
        Box::pin(async move {
            let logins =
                Logins::parse(&String::from_utf8_lossy(pull_secret)).map_err(|e| chain(&e).to_string())?;
            let images = self.images.clone().logins(logins);
            let payload = self.releases.payload(&images, image).await.map_err(|e| chain(&e).to_string())?;
            Ok(Release {
                version: payload.version.clone(),
                kubernetes: payload.kubernetes.clone(),
                images: payload.images.clone(),
            })
        })
    }
}
