//! Keeping a Kubernetes as it should be: the ground on which all our controllers stand.
//!
//! ```text
//!   cluster ──watch──> ledger, views ──> keys ──> queue ──> reconcile(key)
//!      ▲                                                      │ observe (views) → plan (pure) → apply
//!      └──────────── server-side apply, prune, status ────────┘
//! ```
//!
//! * [`runtime`](Runtime) runs controllers: a key and nothing else, once at a time, again when something happens.
//! * [`Applier`] makes objects be as desired with one field manager, and sends **nothing** when they are: the
//!   [`Ledger`] remembers, in some ninety bytes per object, what was applied and whether it still looks so.
//! * [`View`]s hold what watches saw, for reading without asking; an [`Index`] finds objects by words in place of their names.
//! * [`conditions`] computes status: set, mirror, aggregate, summarise.
//! * [`Elector`] sees to it that only one of us works.
//! * [`metrics`], [`Pause`], [`Waiting`] for those who look on.
//!
//! It may touch any Kubernetes, through a [`kube::Client`], and nothing else; it knows no kind of ours. Time comes from
//! a [`clock::Clock`], pauses from tokio.
//!
//! Rejected: kube's own `Controller` (it stores every object it watches, reconciles objects in place of keys, and has
//! no idea of what was applied), a cache of everything as in controller-runtime (gigabytes at 500 hosted clusters), and
//! periodic resync (what is not trusted should be fixed or said, not polled).
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use futures::future::BoxFuture;
//! use k8s_openapi::api::core::v1::ConfigMap;
//! use reconcile::*;
//! use serde_json::json;
//! use std::sync::Arc;
//!
//! const MAPS: Kind = Kind::of::<ConfigMap>();
//!
//! /// Every ConfigMap labelled `twin` has a twin with the same data.
//! struct Twins {
//!     maps: Arc<View<kube::core::DynamicObject>>,
//!     applier: Applier,
//! }
//!
//! impl Controller for Twins {
//!     fn name(&self) -> &'static str {
//!         "twins"
//!     }
//!
//!     fn reconcile<'a>(&'a self, key: &'a str) -> BoxFuture<'a, Result<Outcome, Failure>> {
//!         Box::pin(async move {
//!             let (namespace, name) = split(key);
//!             let Some(map) = self.maps.get(namespace, name) else { return Ok(Outcome::Done) };
//!             let mut twin = json!({"apiVersion": "v1", "kind": "ConfigMap", "data": map.data["data"],
//!                 "metadata": {"name": format!("{name}-twin"), "namespace": namespace}});
//!             own(&mut twin, &MAPS, &map);
//!             self.applier.apply(&self.applier.desired(twin)?).await?;
//!             Ok(Outcome::Done)
//!         })
//!     }
//! }
//!
//! let server = ek_server::ApiServer::start(ek_server::Config::memory()).await?;
//! let client = server.client();
//! let (ledger, maps) = (Ledger::new("twins", &clock::Random::from_os()), View::whole());
//! let applier = Applier::new(client.clone(), Arc::new(Kinds::builtin()), ledger.clone());
//!
//! let metrics = Metrics::default();
//! let mut runtime = Runtime::new(clock::system(), &metrics);
//! let twins = runtime.controller(Arc::new(Twins { maps: maps.clone(), applier }), Options::default());
//! runtime.watch(Watch::whole(&client, &MAPS).into_sink(ledger).into_sink(maps).wakes(twins.keys(|map, keys| {
//!     if map.metadata.labels.as_ref().is_some_and(|l| l.contains_key("twin")) {
//!         keys.itself(map);
//!     }
//!     keys.controller(map, "ConfigMap");
//! })));
//! let stop = tokio_util::sync::CancellationToken::new();
//! let running = tokio::spawn(runtime.run(stop.clone()));
//!
//! let api = MAPS.api(&client, "default");
//! let map = json!({"metadata": {"name": "a", "labels": {"twin": ""}}, "data": {"k": "v"}});
//! api.create(&Default::default(), &serde_json::from_value(map)?).await?;
//! let twin = kube::runtime::wait::await_condition(api, "a-twin", |m: Option<&kube::core::DynamicObject>| m.is_some());
//! assert_eq!(twin.await?.unwrap().data["data"]["k"], "v");
//! stop.cancel();
//! running.await?;
//! # server.stop().await;
//! # Ok(()) }
//! ```

mod apply;
pub mod conditions;
mod fingerprint;
mod index;
mod kind;
mod lease;
mod ledger;
pub mod metrics;
mod pause;
mod runtime;
mod tenants;
mod view;
mod wait;
mod watch;

pub use apply::{
    Applied, Applier, Cause, Desired, Error as ApplyError, Immutable, Owner, Prune, Report,
    Status as StatusWrite, merge_patch, own,
};
pub use index::Index;
pub use kind::{Error as KindError, Kind, Kinds, ObjectRef};
pub use lease::{Elector, Led, Timing};
pub use ledger::{Ledger, Print};
pub use metrics::Metrics;
pub use pause::Pause;
pub use runtime::{
    Controller, Drained, Explanation, Failure, Handle, Keys, Options, Outcome, Runtime, split,
};
pub use tenants::Tenants;
pub use view::{Place, View, place};
pub use wait::{Backoff, Waiting};
pub use watch::{Depth, News, Sink, Source, Watch};

/// An error and its causes as one sentence, for logs and conditions.
pub fn chain<'a>(e: &'a (dyn std::error::Error + 'static)) -> impl std::fmt::Display + use<'a> {
    struct Chain<'a>(&'a (dyn std::error::Error + 'static));
    impl std::fmt::Display for Chain<'_> {
        fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            write!(f, "{}", self.0)?;
            let mut cause = self.0.source();
            while let Some(e) = cause {
                write!(f, ": {e}")?;
                cause = e.source();
            }
            Ok(())
        }
    }
    Chain(e)
}
