//! `zaffre demo`: the main job on embedded defaults. Kubernetes (a cluster in memory, a custom resource, objects created,
//! patched and watched; then workloads that roll and serve, and many clusters), Azure (what a cluster needs there:
//! planned, made, used by a service account's token, taken away), and on both the self-managed road: a hosted cluster with
//! nodes that is made, scaled, upgraded and destroyed.

mod azure;
mod issuer;
mod living;
mod road;

use crate::cli::{DemoArgs, Format};
use crate::output;
use anyhow::{Context, bail};
use ek_server::{ApiServer, Config};
use futures::StreamExt;
use indicatif::ProgressBar;
use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Api, DynamicObject, ListParams, Patch, PatchParams, PostParams, WatchEvent, WatchParams};
use kube::core::{ApiResource, GroupVersionKind};
use serde_json::{Value, json};
use std::time::{Duration, Instant};

const STEP: Duration = Duration::from_secs(20);

fn crd() -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "berths.demo.zaffre.io"},
        "spec": {"group": "demo.zaffre.io", "scope": "Namespaced",
            "names": {"kind": "Berth", "plural": "berths", "shortNames": ["bt"]},
            "versions": [{"name": "v1", "served": true, "storage": true, "subresources": {"status": {}},
                "additionalPrinterColumns": [{"name": "Cores", "type": "integer", "jsonPath": ".spec.cores"}],
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {
                    "spec": {"type": "object", "properties": {
                        "cores": {"type": "integer", "default": 4, "minimum": 1},
                        "zone": {"type": "string"}},
                        "x-kubernetes-validations": [{"rule": "self.cores <= 64", "message": "a berth has at most 64 cores"}]},
                    "status": {"type": "object", "properties": {"phase": {"type": "string"}}}}}}}]}
    })
}

struct Report {
    text: bool,
    steps: Vec<Value>,
    started: Instant,
}

impl Report {
    /// Something turns while a person waits; nothing where nobody looks.
    fn working(&self, what: &str) -> ProgressBar {
        if !self.text {
            return ProgressBar::hidden();
        }
        let bar = ProgressBar::new_spinner().with_message(what.to_owned());
        bar.enable_steady_tick(Duration::from_millis(100));
        bar
    }

    fn step(&mut self, what: &str, detail: &str) {
        let ms = self.started.elapsed().as_secs_f64() * 1000.0;
        if self.text {
            output::line(&format!("  {ms:7.1} ms  {what:<42} {detail}"));
        }
        self.steps.push(json!({"step": what, "detail": detail, "milliseconds": (ms * 10.0).round() / 10.0}));
    }
}

pub async fn run(args: DemoArgs) -> anyhow::Result<()> {
    let mut r = Report { text: args.output == Format::Text, steps: Vec::new(), started: Instant::now() };
    if r.text {
        output::line(
            "zaffre demo: an embedded Kubernetes, an embedded Azure, and a hosted cluster on both, in this process\n",
        );
    }
    tokio::select! {
        result = work(&mut r) => result?,
        _ = tokio::signal::ctrl_c() => bail!("interrupted; nothing is left behind"),
    }
    if r.text {
        output::line(
            "\nNext: zaffre serve kube --kubeconfig-out kc, then KUBECONFIG=kc kubectl get namespaces\n      \
             zaffre serve azure --env-out env, then . ./env && az login, as `zaffre help serve azure` says\n      \
             zaffre up --env-out env, then docs/self-managed.md",
        );
        return Ok(());
    }
    output::value(args.output, &json!({"steps": r.steps}))
}

async fn work(r: &mut Report) -> anyhow::Result<()> {
    let server = ApiServer::start(Config::memory()).await?;
    let listening = server.listen(([127, 0, 0, 1], 0).into()).await?;
    r.step("API server ready", &format!("https://{}", listening.address));
    let client = server.client();

    let crds: Api<CustomResourceDefinition> = Api::all(client.clone());
    crds.create(&PostParams::default(), &serde_json::from_value(crd())?).await.context("install the CRD")?;
    r.step("CRD installed", "berths.demo.zaffre.io");

    let resource =
        ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk("demo.zaffre.io", "v1", "Berth"), "berths");
    let berths: Api<DynamicObject> = Api::namespaced_with(client.clone(), "default", &resource);
    let mut events = berths.watch(&WatchParams::default(), "0").await?.boxed();

    let apply = PatchParams::apply("demo").force();
    let berth = |name: &str, spec: Value| json!({"apiVersion": "demo.zaffre.io/v1", "kind": "Berth", "metadata": {"name": name}, "spec": spec});
    let made = berths.patch("north", &apply, &Patch::Apply(berth("north", json!({"zone": "1"})))).await?;
    r.step("object applied, defaults filled", &format!("north: {}", made.data["spec"]));
    berths.patch("north", &PatchParams::default(), &Patch::Merge(json!({"spec": {"cores": 8}}))).await?;
    r.step("object patched", "north: cores 4 → 8");
    let refused = berths.patch("south", &apply, &Patch::Apply(berth("south", json!({"cores": 100})))).await;
    match refused {
        Err(kube::Error::Api(s)) => r.step("bad object refused by its CEL rule", &s.message),
        other => bail!("a berth of 100 cores should have been refused: {other:?}"),
    }
    berths
        .patch_status(
            "north",
            &apply,
            &Patch::Apply(
                json!({"apiVersion": "demo.zaffre.io/v1", "kind": "Berth", "status": {"phase": "Free"}}),
            ),
        )
        .await?;
    r.step("status written by its own endpoint", "north: phase Free");

    let mut seen = Vec::new();
    while seen.len() < 3 {
        let next = tokio::time::timeout(STEP, events.next()).await.context("no watch event within 20 s")?;
        match next.context("the watch ended early")?? {
            WatchEvent::Added(o) => seen.push(format!("ADDED {}", o.metadata.name.unwrap_or_default())),
            WatchEvent::Modified(o) => seen.push(format!("MODIFIED {}", o.metadata.name.unwrap_or_default())),
            other => bail!("unexpected event {other:?}"),
        }
    }
    r.step("watch saw every change, in order", &seen.join(", "));

    let maps: Api<ConfigMap> = Api::namespaced(client, "default");
    for i in 0..1000 {
        let cm: ConfigMap = serde_json::from_value(
            json!({"metadata": {"name": format!("load-{i:04}")}, "data": {"i": i.to_string()}}),
        )?;
        maps.create(&PostParams::default(), &cm).await?;
    }
    let listed = maps.list(&ListParams::default()).await?.items.len();
    r.step("1000 objects created and listed", &format!("{listed} in namespace default"));

    living::work(r, &server).await?;
    listening.drain().await;
    server.stop().await;
    azure::work(r).await?;
    Box::pin(road::work(r)).await?;
    r.step("stopped", "nothing left behind");
    Ok(())
}
