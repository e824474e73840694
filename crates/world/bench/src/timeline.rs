//! What became of what, and when: to see where the time until a cluster is available goes.

use futures::{StreamExt, TryStreamExt};
use kube::api::{Api, DynamicObject};
use kube::runtime::{WatchStreamExt, watcher};
use serde_json::Value;
use std::collections::HashMap;
use std::time::Instant;
use world::World;

/// Says on standard error whenever the state of a pod, a component or a condition changes.
pub fn begin(world: &World) {
    let begun = Instant::now();
    let core = kube::core::ApiResource {
        group: String::new(),
        version: "v1".into(),
        api_version: "v1".into(),
        kind: "Pod".into(),
        plural: "pods".into(),
    };
    for (kind, state) in [
        (core, pod as fn(&Value) -> Vec<String>),
        (super::kind("HostedCluster", "hostedclusters"), conditions),
        (super::kind("HostedControlPlane", "hostedcontrolplanes"), conditions),
        (super::kind("ControlPlaneComponent", "controlplanecomponents"), conditions),
    ] {
        let api: Api<DynamicObject> = Api::all_with(world.client(), &kind);
        tokio::spawn(async move {
            let mut known: HashMap<String, Vec<String>> = HashMap::new();
            let mut events =
                watcher(api, watcher::Config::default()).default_backoff().applied_objects().boxed();
            while let Ok(Some(o)) = events.try_next().await {
                let ns = o.metadata.namespace.unwrap_or_default();
                let name = format!("{} {ns}/{}", kind.kind, o.metadata.name.unwrap_or_default());
                let now = state(&o.data);
                let before = known.get(&name).cloned().unwrap_or_default();
                for line in now.iter().filter(|l| !before.contains(l)) {
                    eprintln!("{:>7.0} {name}: {line}", begun.elapsed().as_secs_f64() * 1e3);
                }
                known.insert(name, now);
            }
        });
    }
}

fn pod(pod: &Value) -> Vec<String> {
    let mut all = conditions(pod);
    for c in [&pod["status"]["initContainerStatuses"], &pod["status"]["containerStatuses"]] {
        for c in c.as_array().into_iter().flatten() {
            all.push(format!("{} ready {} {}", c["name"], c["ready"], c["state"]));
        }
    }
    all
}

fn conditions(o: &Value) -> Vec<String> {
    let all = o["status"]["conditions"].as_array().into_iter().flatten();
    let text = |c: &Value, f: &str| c[f].as_str().unwrap_or_default().to_owned();
    all.map(|c| {
        format!("{}={} {} {}", text(c, "type"), text(c, "status"), text(c, "reason"), text(c, "message"))
    })
    .collect()
}
