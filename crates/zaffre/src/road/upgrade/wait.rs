//! Waiting for an upgrade. Watches, and asks nobody twice.

use crate::cli::road::UpgradeArgs;
use crate::output;
use crate::road::shown::Shown;
use anyhow::{Context, bail};
use futures::StreamExt;
use hypershift::kinds;
use kube::Client;
use kube::api::DynamicObject;
use kube::runtime::{WatchStreamExt, watcher};
use self_managed::upgrade::{Facts, Plan, Roll, Target};
use serde_json::Value;
use std::collections::BTreeMap;
use std::time::Duration;

/// How far it is.
#[derive(Clone, Debug, PartialEq, Eq)]
enum State {
    Going(String),
    Done,
    /// The operators say no.
    Stuck(String),
}

fn text<'a>(o: &'a Value, path: &str) -> &'a str {
    o.pointer(path).and_then(Value::as_str).unwrap_or_default()
}

/// A condition that was written after the change.
fn fresh<'a>(object: &'a Value, kind: &str, since: i64) -> Option<&'a Value> {
    let all = object["status"]["conditions"].as_array().into_iter().flatten();
    all.into_iter().find(|c| c["type"] == kind && c["observedGeneration"].as_i64().is_none_or(|g| g >= since))
}

/// A control plane is through when it has completed the version; and if it has nodes, the version's own operators too.
fn cluster(object: &Value, version: &str, nodes: i64) -> State {
    let generation = object["metadata"]["generation"].as_i64().unwrap_or(0);
    for (kind, reason) in [("ValidReleaseImage", ""), ("ValidConfiguration", ""), ("Progressing", "Blocked")]
    {
        let found = fresh(object, kind, generation).filter(|c| c["status"] == "False");
        if let Some(c) = found.filter(|c| reason.is_empty() || c["reason"] == reason) {
            return State::Stuck(format!("{kind}: {}", text(c, "/message")));
        }
    }
    let reached = |history: &Value| {
        let newest = &history["history"][0];
        newest["version"] == version && newest["state"] == "Completed"
    };
    match (reached(&object["status"]["controlPlaneVersion"]), reached(&object["status"]["version"])) {
        (true, all) if all || nodes == 0 => State::Done,
        (true, _) => State::Going("control plane done; operators in the cluster".into()),
        (false, _) => State::Going("control plane".into()),
    }
}

fn pool(object: &Value, version: &str) -> (u64, State) {
    let generation = object["metadata"]["generation"].as_i64().unwrap_or(0);
    for kind in ["ValidReleaseImage", "SupportedVersionSkew"] {
        if let Some(c) = fresh(object, kind, generation).filter(|c| c["status"] == "False") {
            return (0, State::Stuck(format!("{kind}: {}", text(c, "/message"))));
        }
    }
    let versions = object["status"]["nodesInfo"]["nodeVersions"].as_array().into_iter().flatten();
    let new: i64 =
        versions.filter(|v| v["ocpVersion"] == version).filter_map(|v| v["readyNodeCount"].as_i64()).sum();
    let updates = fresh(object, "UpdatingVersion", 0).is_some_and(|c| c["status"] == "True");
    let state = match object["status"]["version"] == version && !updates {
        true => State::Done,
        false => {
            State::Going(fresh(object, "UpdatingVersion", 0).map_or("", |c| text(c, "/message")).to_owned())
        }
    };
    (new.unsigned_abs(), state)
}

/// Objects as they change.
fn watched(api: kube::Api<DynamicObject>, config: watcher::Config) -> impl futures::Stream<Item = Value> {
    let stream = watcher(api, config).default_backoff().applied_objects();
    stream.filter_map(|o| async { o.ok().and_then(|o| serde_json::to_value(o).ok()) })
}

pub async fn wait(client: &Client, args: &UpgradeArgs, facts: &Facts, plan: &Plan) -> anyhow::Result<()> {
    let limit = apis::duration::go_duration(&args.timeout).and_then(|d| Duration::try_from(d).ok());
    let shown = Shown::new(args.output == crate::cli::Format::Text);
    let waited = tokio::time::timeout(limit.unwrap_or(Duration::from_secs(3600)), async {
        match &facts.target {
            Target::Cluster => until_cluster(client, args, plan, &shown).await,
            Target::NodePool(_) => until_pool(client, args, plan, &shown).await,
        }
    })
    .await;
    drop(shown);
    let name = facts.cluster["metadata"]["name"].as_str().unwrap_or_default();
    match waited {
        Ok(done) => done?,
        Err(_) => bail!(
            "{} {} is not at {} after {} (--timeout): `zaffre explain hostedcluster {name} -n {}` says what it waits for",
            plan.kind,
            plan.name,
            plan.to,
            args.timeout,
            args.namespace
        ),
    }
    output::note(&format!("upgraded {} {} to {}", plan.kind, plan.name, plan.to));
    Ok(())
}

async fn until_cluster(
    client: &Client,
    args: &UpgradeArgs,
    plan: &Plan,
    shown: &Shown,
) -> anyhow::Result<()> {
    let nodes = plan.rolls.iter().map(|r| if let Roll::Stays { nodes, .. } = r { *nodes } else { 0 }).sum();
    let plane = apis::naming::control_plane_namespace(&args.namespace, &args.name);
    let only = watcher::Config::default().fields(&format!("metadata.name={}", args.name));
    let mut clusters = Box::pin(watched(kinds::CLUSTER.api(client, &args.namespace), only));
    let mut parts = Box::pin(watched(kinds::COMPONENT.api(client, &plane), watcher::Config::default()));
    let mut versions: BTreeMap<String, bool> = BTreeMap::new();
    let mut state = State::Going("control plane".into());
    loop {
        tokio::select! {
            object = clusters.next() => {
                let object = object.context("the watch ended")?;
                state = cluster(&object, &plan.to, nodes);
            }
            part = parts.next() => {
                let part = part.context("the watch ended")?;
                let name = text(&part, "/metadata/name").to_owned();
                versions.insert(name, part["status"]["version"] == plan.to.as_str());
            }
        }
        let done = versions.values().filter(|v| **v).count();
        match &state {
            State::Done => return Ok(()),
            State::Stuck(why) => bail!("the operators refuse it: {why}"),
            State::Going(what) => shown.tell(done as u64, versions.len() as u64, what),
        }
    }
}

async fn until_pool(client: &Client, args: &UpgradeArgs, plan: &Plan, shown: &Shown) -> anyhow::Result<()> {
    let only = watcher::Config::default().fields(&format!("metadata.name={}", args.name));
    let mut pools = Box::pin(watched(kinds::POOL.api(client, &args.namespace), only));
    while let Some(object) = pools.next().await {
        let all = object["status"]["replicas"].as_u64().unwrap_or(0);
        match pool(&object, &plan.to) {
            (_, State::Done) => return Ok(()),
            (_, State::Stuck(why)) => bail!("the operators refuse it: {why}"),
            (new, State::Going(what)) => shown.tell(new, all, &what),
        }
    }
    bail!("the watch ended")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_cluster_is_through_when_its_control_plane_is_and_its_operators_if_it_has_nodes() {
        let version = |state: &str| json!({"history": [{"version": "4.21.0", "state": state}]});
        let of = |plane: Value, all: Value, conditions: Value| json!({"metadata": {"generation": 3}, "status": {"controlPlaneVersion": plane, "version": all, "conditions": conditions}});
        let half = of(version("Completed"), version("Partial"), json!([]));
        assert_eq!(cluster(&half, "4.21.0", 0), State::Done);
        assert!(matches!(cluster(&half, "4.21.0", 2), State::Going(w) if w.contains("operators")));
        assert!(matches!(cluster(&half, "4.21.1", 0), State::Going(_)));
        // What was said of an older object does not count.
        let says = |generation: i64| json!([{"type": "Progressing", "status": "False", "reason": "Blocked", "message": "no", "observedGeneration": generation}]);
        assert!(matches!(cluster(&of(json!(null), json!(null), says(2)), "4.21.0", 0), State::Going(_)));
        assert_eq!(
            cluster(&of(json!(null), json!(null), says(3)), "4.21.0", 0),
            State::Stuck("Progressing: no".into())
        );
    }

    #[test]
    fn a_pool_is_through_when_its_version_is_and_nothing_updates() {
        let of = |version: &str, updates: &str| {
            json!({"metadata": {"generation": 2}, "status": {"version": version, "replicas": 3,
                "nodesInfo": {"nodeVersions": [{"ocpVersion": "4.21.0", "readyNodeCount": 2}, {"ocpVersion": "4.20.1", "readyNodeCount": 1}]},
                "conditions": [{"type": "UpdatingVersion", "status": updates, "message": "m"}]}})
        };
        assert_eq!(pool(&of("4.21.0", "False"), "4.21.0"), (2, State::Done));
        assert_eq!(pool(&of("4.20.1", "True"), "4.21.0"), (2, State::Going("m".into())));
        assert_eq!(pool(&of("4.21.0", "True"), "4.21.0").1, State::Going("m".into()));
    }
}
