//! `zaffre status`: clusters and their pools, one line each.

use super::reach;
use crate::cli::Format;
use crate::cli::road::StatusArgs;
use crate::output;
use anyhow::{Context, bail};
use apis::hypershift::{HostedCluster, NodePool};
use kube::Api;
use serde_json::{Value, json};

const HEAD: [&str; 5] = ["NAME", "VERSION", "STATE", "NODES", "WAITS FOR"];

fn condition<'a>(object: &'a Value, kind: &str, part: &str) -> &'a str {
    let all = object["status"]["conditions"].as_array().into_iter().flatten();
    all.filter(|c| c["type"] == kind).find_map(|c| c[part].as_str()).unwrap_or("")
}

fn text<'a>(object: &'a Value, path: &str) -> &'a str {
    object.pointer(path).and_then(Value::as_str).unwrap_or("")
}

/// The newest version that is complete, or what is on its way.
pub(super) fn version(object: &Value) -> String {
    let history = object["status"]["version"]["history"].as_array().cloned().unwrap_or_default();
    let done = history.iter().find(|h| h["state"] == "Completed").map(|h| text(h, "/version").to_owned());
    let going = history.first().filter(|h| h["state"] != "Completed").map(|h| text(h, "/version").to_owned());
    match (done, going) {
        (Some(d), Some(g)) if !g.is_empty() => format!("{d} → {g}"),
        (Some(d), _) => d,
        (None, Some(g)) => format!("→ {g}"),
        (None, None) => String::new(),
    }
}

pub async fn status(args: StatusArgs) -> anyhow::Result<()> {
    if args.watch {
        return Box::pin(super::watch::watch(args)).await;
    }
    let client = reach(&args.management).await?;
    let (clusters, pools): (Api<HostedCluster>, Api<NodePool>) = match &args.namespace {
        Some(n) => (Api::namespaced(client.clone(), n), Api::namespaced(client, n)),
        None => (Api::all(client.clone()), Api::all(client)),
    };
    let hint = "cannot list hosted clusters: is this a management cluster (`zaffre install`)?";
    let (clusters, pools) =
        tokio::try_join!(async { clusters.list(&Default::default()).await.context(hint) }, async {
            pools.list(&Default::default()).await.context(hint)
        },)?;
    let wanted = |name: Option<&String>| args.name.is_none() || name == args.name.as_ref();
    let mut all = Vec::new();
    for hc in clusters.items.iter().filter(|h| wanted(h.metadata.name.as_ref())) {
        let mine = pools.items.iter().filter(|p| {
            p.metadata.namespace == hc.metadata.namespace
                && Some(&p.spec.cluster_name) == hc.metadata.name.as_ref()
        });
        let mine: Result<Vec<Value>, _> = mine.map(serde_json::to_value).collect();
        all.push(json!({"cluster": serde_json::to_value(hc)?, "nodePools": mine?}));
    }
    if let (Some(name), true) = (&args.name, all.is_empty()) {
        let there = clusters.items.iter().map(|h| {
            let meta = &h.metadata;
            let [namespace, name] = [&meta.namespace, &meta.name].map(|v| v.as_deref().unwrap_or_default());
            format!("{namespace}/{name}")
        });
        let there: Vec<String> = there.collect();
        let place = args
            .namespace
            .as_deref()
            .map_or_else(|| "in any namespace".to_owned(), |n| format!("in namespace {n}"));
        bail!(
            "there is no hosted cluster {name} {place}: {}",
            if there.is_empty() {
                "there is none at all".to_owned()
            } else {
                format!("there are {}", there.join(", "))
            }
        );
    }
    if args.output != Format::Text {
        return output::value(args.output, &json!(all));
    }
    if all.is_empty() {
        output::line("no hosted clusters; `zaffre create cluster azure --help` says how to make one");
        return Ok(());
    }
    output::table(&HEAD, &rows(&all));
    Ok(())
}

/// How many nodes a pool is to have: a number, or the bounds of the autoscaler.
pub(super) fn wanted_nodes(pool: &Value) -> String {
    let (bounds, fixed) = (&pool["spec"]["autoScaling"], &pool["spec"]["replicas"]);
    match (bounds["min"].as_i64(), bounds["max"].as_i64()) {
        (min, Some(max)) => format!("{}-{max}", min.unwrap_or(0)),
        _ => fixed.as_i64().unwrap_or(0).to_string(),
    }
}

fn rows(all: &[Value]) -> Vec<Vec<String>> {
    let mut rows = Vec::new();
    for one in all {
        let hc = &one["cluster"];
        let state =
            match (condition(hc, "Available", "status"), hc["metadata"]["deletionTimestamp"].is_string()) {
                (_, true) => "deleting",
                ("True", _) => "available",
                _ => "waiting",
            };
        rows.push(vec![
            format!("{}/{}", text(hc, "/metadata/namespace"), text(hc, "/metadata/name")),
            version(hc),
            state.to_owned(),
            String::new(),
            if state == "available" {
                String::new()
            } else {
                condition(hc, "Available", "message").to_owned()
            },
        ]);
        for pool in one["nodePools"].as_array().into_iter().flatten() {
            let have = pool["status"]["replicas"].as_i64().unwrap_or(0);
            let ready = condition(pool, "Ready", "status") == "True";
            rows.push(vec![
                format!("  pool {}", text(pool, "/metadata/name")),
                text(pool, "/status/version").to_owned(),
                if ready { "ready" } else { "waiting" }.to_owned(),
                format!("{have}/{}", wanted_nodes(pool)),
                if ready { String::new() } else { condition(pool, "Ready", "message").to_owned() },
            ]);
        }
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clusters_and_their_pools_one_line_each() {
        let conditions = |kind: &str, status: &str, message: &str| json!([{"type": kind, "status": status, "message": message}]);
        let all = [
            json!({"cluster": {"metadata": {"namespace": "clusters", "name": "road"}, "status": {
                    "version": {"history": [{"state": "Partial", "version": "4.21.0"}, {"state": "Completed", "version": "4.20.1"}]},
                    "conditions": conditions("Available", "True", "")}},
                "nodePools": [
                    {"metadata": {"name": "blue"}, "spec": {"replicas": 3}, "status": {"replicas": 2, "version": "4.20.1",
                        "conditions": conditions("Ready", "False", "1 of 3 machines is being made")}},
                    {"metadata": {"name": "grows"}, "spec": {"autoScaling": {"min": 1, "max": 5}},
                        "status": {"replicas": 2, "version": "4.20.1", "conditions": conditions("Ready", "True", "")}}]}),
            json!({"cluster": {"metadata": {"namespace": "clusters", "name": "new"}, "status": {
                "conditions": conditions("Available", "False", "etcd is not ready")}}, "nodePools": []}),
            json!({"cluster": {"metadata": {"namespace": "other", "name": "old", "deletionTimestamp": "2030-01-01T00:00:00Z"}},
                "nodePools": []}),
        ];
        testkit::golden!("status.txt", &(output::columns(&HEAD, &rows(&all)).join("\n") + "\n"));
    }
}
