//! An API server takes what is rendered: definitions, schemas and rules.

use crate::installs;
use crate::samples::{self, cluster, inputs, install};
use ek_server::{ApiServer, Config};
use kube::api::{Api, DynamicObject, Patch, PatchParams};
use kube::core::GroupVersionKind;
use kube::discovery::{Discovery, Scope};
use serde_json::Value;

async fn apply(client: &kube::Client, known: &Discovery, object: &Value, dry: bool) -> Result<(), String> {
    let text = |v: &Value| v.as_str().unwrap_or_default().to_owned();
    let (api_version, kind) = (text(&object["apiVersion"]), text(&object["kind"]));
    let (group, version) = api_version.rsplit_once('/').unwrap_or(("", &api_version));
    let name = text(&object["metadata"]["name"]);
    let Some((resource, caps)) = known.resolve_gvk(&GroupVersionKind::gvk(group, version, &kind)) else {
        // Prometheus' kinds are served where it is.
        return if group == "monitoring.coreos.com" { Ok(()) } else { Err(format!("{kind} is not served")) };
    };
    let api: Api<DynamicObject> = match caps.scope {
        Scope::Cluster => Api::all_with(client.clone(), &resource),
        Scope::Namespaced => {
            Api::namespaced_with(client.clone(), &text(&object["metadata"]["namespace"]), &resource)
        }
    };
    let params = PatchParams { dry_run: dry, ..PatchParams::apply("test").force() }.validation_strict();
    api.patch(&name, &params, &Patch::Apply(object))
        .await
        .map(drop)
        .map_err(|e| format!("{kind} {name}: {e}"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn everything_rendered_is_accepted() {
    let server = ApiServer::start(Config::memory()).await.unwrap();
    let client = server.client();
    let (line, files) = installs::full();
    let objects = install(line).objects(&files).unwrap();
    let known = Discovery::new(client.clone()).run().await.unwrap();
    for definition in &objects.definitions {
        apply(&client, &known, definition, false).await.unwrap();
    }
    let known = Discovery::new(client.clone()).run().await.unwrap();
    for object in &objects.resources {
        // Nobody would answer these here, and what follows would wait for an answer.
        let only_tried = object["kind"].as_str().is_some_and(|k| k.ends_with("WebhookConfiguration"));
        apply(&client, &known, object, only_tried).await.unwrap();
    }
    for (name, line, infra) in samples::lines() {
        let objects = cluster(line).objects(&inputs(&infra)).unwrap();
        apply(&client, &known, &objects[0], false).await.unwrap();
        for object in &objects[1..] {
            apply(&client, &known, object, true).await.unwrap_or_else(|e| panic!("{name}: {e}"));
        }
    }
    apply(&client, &known, &samples::extra_pool().1, true).await.unwrap();
}
