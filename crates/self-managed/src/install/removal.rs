//! The way back: what any installation could have brought, whatever its flags were.

use super::args::Args;
use super::{Inputs, Objects, dns};
use crate::flags::Refused;
use serde_json::Value;

/// Flags that bring an object which is outside of the operators' namespace. What is inside goes with it.
const MOST: [&str; 11] = [
    "--managed-service=ARO-HCP",
    "--enable-admin-rbac-generation",
    "--enable-defaulting-webhook",
    "--enable-validating-webhook",
    "--external-dns-provider=azure",
    "--external-dns-secret=external-dns",
    "--external-dns-domain-filter=example.com",
    "--platform-monitoring=All",
    "--slos-alerts",
    "--enable-size-tagging",
    "--tech-preview-no-upgrade",
];

/// One object that goes.
#[derive(Clone, Debug)]
pub struct Removal {
    pub object: Value,
    /// Hosted clusters that stay cannot do without it.
    pub for_clusters: bool,
    /// Others call theirs the same: it goes only if it was applied by us ([`super::MANAGER`]).
    pub common_name: bool,
}

/// What is deleted, in this order, and the definitions, which may be. Webhooks are first: without anybody to answer them,
/// nobody could write a HostedCluster.
pub fn removal(namespace: &str) -> Result<(Vec<Removal>, Vec<Value>), Refused> {
    let bad = |e: clap::Error| Refused::value("--namespace", namespace, &e.to_string());
    let mut args = Args::of(&MOST).map_err(bad)?;
    args.namespace = namespace.to_owned();
    let Objects { definitions, resources, .. } = args.objects(&Inputs::default())?;
    let (first, rest): (Vec<Value>, Vec<Value>) = resources.into_iter().rev().partition(is_webhook);
    let all = first.into_iter().chain(rest).map(|object| Removal {
        for_clusters: is_for_clusters(&object),
        common_name: object["metadata"]["name"] == dns::NAME && object["metadata"]["namespace"].is_null(),
        object,
    });
    Ok((all.collect(), definitions))
}

fn is_webhook(object: &Value) -> bool {
    object["kind"].as_str().is_some_and(|k| k.ends_with("WebhookConfiguration"))
}

/// Their pods are not made without their priority classes, and the shared front leads to them.
fn is_for_clusters(object: &Value) -> bool {
    let name = object["metadata"]["name"].as_str().unwrap_or_default();
    object["kind"] == "PriorityClass" || name == super::SHARED_INGRESS || name == super::SHARED_ROLE
}
