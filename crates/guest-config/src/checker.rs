//! `kas-connection-checker`: a pod of the guest that says whether nodes reach the API server.
//!
//! It calls the API by the address that every pod of the guest uses, and notes when that last worked. If it cannot, the
//! note grows old, which is what [`crate::operate`] looks at: what cannot be reached cannot be told so.

use clock::SharedClock;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, Patch, PatchParams};
use serde_json::json;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

pub const NAMESPACE: &str = "kube-system";
pub const CONFIG_MAP: &str = "kas-connection-checker";
/// Key of the ConfigMap.
pub const LAST_SUCCESS: &str = "lastSuccess";

const EVERY: Duration = Duration::from_secs(60);

/// Flags of `zaffre serve kas-connection-checker`.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    /// Namespace of the ConfigMap that takes the result
    #[arg(long, default_value = NAMESPACE, value_name = "NAMESPACE")]
    pub namespace: String,
    /// ConfigMap that takes the result
    #[arg(long, default_value = CONFIG_MAP, value_name = "NAME")]
    pub config_map: String,
}

/// Checks once a minute until stopped. `client` goes the way pods of the guest go.
pub async fn run(args: &Args, client: &kube::Client, clock: &SharedClock, stop: &CancellationToken) {
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), &args.namespace);
    loop {
        if let Err(e) = check(args, &maps, clock).await {
            tracing::warn!(error = %e, "the API server was not reached");
        }
        tokio::select! {
            () = stop.cancelled() => return,
            () = tokio::time::sleep(EVERY) => {}
        }
    }
}

/// The note is the check: writing it takes a request that works from end to end.
async fn check(args: &Args, maps: &Api<ConfigMap>, clock: &SharedClock) -> Result<(), kube::Error> {
    let note = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": args.config_map, "namespace": args.namespace},
        "data": {LAST_SUCCESS: clock.now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string()}});
    maps.patch(&args.config_map, &PatchParams::apply("kas-connection-checker").force(), &Patch::Apply(&note))
        .await
        .map(drop)
}
