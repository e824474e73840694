//! The operator's webhooks: every replica answers, whether it leads or not.

use super::ground;
use crate::cli::operators::HypershiftOperatorArgs;
use crate::road::releases::Shelf;
use admission::{Desk, Source};
use anyhow::Context;
use futures::future::BoxFuture;
use hypershift::Management;
use k8s_openapi::api::core::v1::Secret;
use kube::{Api, Client};
use reconcile::{Metrics, Runtime};
use self_managed::stream::Stream;
use std::sync::Arc;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

/// Releases that a cluster gets which names none.
const STREAM: &str = "4-stable-multi";

/// The newest of a stream, read with the operator's own pull secret.
struct Newest {
    client: Client,
    namespace: String,
    overrides: String,
    source: String,
}

impl Newest {
    async fn look(&self) -> anyhow::Result<String> {
        let secrets: Api<Secret> = Api::namespaced(self.client.clone(), &self.namespace);
        let secret =
            secrets.get_opt("pull-secret").await.context("cannot read the operator's pull secret")?;
        let logins = secret.and_then(|s| s.data?.remove(".dockerconfigjson"));
        let logins = logins.map_or_else(|| "{}".to_owned(), |l| String::from_utf8_lossy(&l.0).into_owned());
        let shelf = Shelf::new(&logins, ground::mirrors(&self.overrides)?).await?;
        shelf.newest(&Stream::parse(STREAM, "")?, &self.source).await
    }
}

impl Source for Newest {
    fn newest(&self) -> BoxFuture<'_, Result<String, String>> {
        Box::pin(async move { self.look().await.map_err(|e| format!("{e:#}")) })
    }
}

/// Begins to answer, if that is asked for. It goes on as long as the process.
pub async fn open(
    args: &HypershiftOperatorArgs,
    client: &Client,
    metrics: &Metrics,
    management: Management,
) -> anyhow::Result<Option<Arc<Desk>>> {
    let Some(at) = args.webhook_address else { return Ok(None) };
    let listener =
        TcpListener::bind(at).await.with_context(|| format!("cannot listen on {at} (--webhook-address)"))?;
    let source = Newest {
        client: client.clone(),
        namespace: args.namespace.clone(),
        overrides: args.operator.registry_overrides.clone(),
        source: args.release_source.clone(),
    };
    let desk = Desk::new(client.clone(), Arc::new(source), management);
    let mut runtime = Runtime::new(clock::system(), metrics);
    let setup = admission::Setup {
        client: client.clone(),
        namespace: args.namespace.clone(),
        clock: clock::system(),
        desk: desk.clone(),
    };
    admission::start(&mut runtime, setup);
    let stop = CancellationToken::new();
    tokio::spawn(runtime.run(stop.clone()));
    tokio::spawn(admission::serve(listener, desk.clone(), stop));
    Ok(Some(desk))
}
