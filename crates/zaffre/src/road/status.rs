//! `zaffre status`: clusters and their pools, one line each.

use super::reach;
use crate::cli::Format;
use crate::cli::road::StatusArgs;
use crate::output;
use anyhow::Context;
use apis::hypershift::{HostedCluster, NodePool};
use kube::Api;
use serde_json::{Value, json};

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
    if args.output != Format::Text {
        return output::value(args.output, &json!(all));
    }
    if all.is_empty() {
        output::line("no hosted clusters; `zaffre create cluster azure --help` says how to make one");
        return Ok(());
    }
    let mut rows = Vec::new();
    for one in &all {
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
            let (want, have) = (&pool["spec"]["replicas"], &pool["status"]["replicas"]);
            let ready = condition(pool, "Ready", "status") == "True";
            rows.push(vec![
                format!("  pool {}", text(pool, "/metadata/name")),
                text(pool, "/status/version").to_owned(),
                if ready { "ready" } else { "waiting" }.to_owned(),
                format!("{}/{}", have.as_i64().unwrap_or(0), want.as_i64().unwrap_or(0)),
                if ready { String::new() } else { condition(pool, "Ready", "message").to_owned() },
            ]);
        }
    }
    output::table(&["NAME", "VERSION", "STATE", "NODES", "WAITS FOR"], &rows);
    Ok(())
}
