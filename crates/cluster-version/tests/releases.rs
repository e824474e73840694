//! The same on a guest's API server.

use crate::planning::payload;
use clock::Random;
use cluster_version::{Around, start};
use ek_server::{ApiServer, Config};
use kube::api::{Api, DynamicObject, Patch, PatchParams};
use reconcile::{Handle, Kind, Metrics, Runtime};
use serde_json::{Value, json};
use std::time::Duration;
use tokio_util::sync::CancellationToken;

const VERSION: Kind =
    Kind::new("config.openshift.io", "v1", "ClusterVersion", "clusterversions").cluster_wide();
const OPERATOR: Kind =
    Kind::new("config.openshift.io", "v1", "ClusterOperator", "clusteroperators").cluster_wide();
const NODE: Kind = Kind::new("", "v1", "Node", "nodes").cluster_wide();

struct Guest {
    server: ApiServer,
    metrics: Metrics,
}

impl Guest {
    async fn start() -> Guest {
        let server = ApiServer::start(Config::memory()).await.unwrap();
        let crds =
            Kind::new("apiextensions.k8s.io", "v1", "CustomResourceDefinition", "customresourcedefinitions")
                .cluster_wide();
        for crd in apis::openshift_crds() {
            let crd = serde_json::from_value(serde_json::to_value(crd).unwrap()).unwrap();
            crds.api(&server.client(), "").create(&Default::default(), &crd).await.unwrap();
        }
        let g = Guest { server, metrics: Metrics::default() };
        g.create(&VERSION, json!({"apiVersion": "config.openshift.io/v1", "kind": "ClusterVersion", "metadata": {"name": "version"}, "spec": {"clusterID": "x"}})).await;
        g
    }

    fn api(&self, kind: &Kind) -> Api<DynamicObject> {
        kind.api(&self.server.client(), "")
    }

    async fn create(&self, kind: &Kind, object: Value) {
        self.api(kind).create(&Default::default(), &serde_json::from_value(object).unwrap()).await.unwrap();
    }

    fn operator(&self, version: &str) -> (Handle, CancellationToken) {
        let mut runtime = Runtime::new(clock::system(), &self.metrics);
        let around = Around {
            guest: self.server.client(),
            payload: payload(version),
            clock: clock::system(),
            random: Random::seeded(3),
            metrics: self.metrics.clone(),
        };
        let handle = start(&mut runtime, around);
        let stop = CancellationToken::new();
        tokio::spawn(runtime.run(stop.clone()));
        (handle, stop)
    }

    async fn until(&self, kind: &Kind, name: &str, is: impl Fn(&Value) -> bool) -> DynamicObject {
        let there = |o: Option<&DynamicObject>| o.is_some_and(|o| is(&o.data));
        let wait = kube::runtime::wait::await_condition(self.api(kind), name, there);
        match tokio::time::timeout(Duration::from_secs(30), wait).await {
            Ok(o) => o.unwrap().unwrap(),
            Err(_) => panic!("never came: {:#}", self.api(kind).get(name).await.unwrap().data),
        }
    }

    fn runs(&self) -> i64 {
        let text = self.metrics.text();
        let lines = text.lines().filter(|l| l.starts_with("controller_runtime_reconcile_total"));
        lines.filter_map(|l| l.rsplit(' ').next()?.parse::<i64>().ok()).sum()
    }
}

fn condition<'a>(data: &'a Value, kind: &str) -> &'a Value {
    let all = data["status"]["conditions"].as_array().map(Vec::as_slice).unwrap_or_default();
    all.iter().find(|c| c["type"] == kind).unwrap_or(&Value::Null)
}

fn is_done(version: &'static str) -> impl Fn(&Value) -> bool {
    move |d| {
        d["status"]["history"][0]["version"] == version && d["status"]["history"][0]["state"] == "Completed"
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_guest_is_installed_upgraded_and_told_what_is_wrong() {
    let g = Guest::start().await;
    let (handle, stop) = g.operator("4.19.3");
    let o = g.until(&VERSION, "version", |d| condition(d, "Progressing")["status"] == "True").await;
    assert_eq!(o.data["status"]["availableUpdates"], Value::Null);
    assert!(o.data["status"].as_object().unwrap().contains_key("availableUpdates"), "required, and null");
    let dns = g.until(&OPERATOR, "dns", |d| condition(d, "Available")["reason"] == "NoReadyNodes").await;
    assert!(dns.data["status"]["versions"].is_null());
    g.until(&OPERATOR, "kube-apiserver", |d| condition(d, "Available")["status"] == "True").await;

    g.create(&NODE, json!({"metadata": {"name": "n1"}})).await;
    let ready = json!({"status": {"conditions": [{"type": "Ready", "status": "True"}]}});
    g.api(&NODE).patch_status("n1", &PatchParams::default(), &Patch::Merge(&ready)).await.unwrap();
    g.until(&VERSION, "version", is_done("4.19.3")).await;
    let dns = g.until(&OPERATOR, "dns", |d| d["status"]["versions"][0]["version"] == "4.19.3").await;
    assert_eq!(condition(&dns.data, "Progressing")["status"], "False");

    // Settled: more runs change nothing.
    let versions = || async {
        let mut all: Vec<_> = g.api(&OPERATOR).list(&Default::default()).await.unwrap().items;
        all.push(g.api(&VERSION).get("version").await.unwrap());
        all.into_iter().map(|o| o.metadata.resource_version).collect::<Vec<_>>()
    };
    let settle = async {
        loop {
            let (before, runs) = (versions().await, g.runs());
            handle.poke("version");
            while g.runs() == runs {
                tokio::task::yield_now().await;
            }
            if versions().await == before {
                return;
            }
        }
    };
    tokio::time::timeout(Duration::from_secs(30), settle).await.unwrap();
    let before = versions().await;
    for _ in 0..50 {
        let runs = g.runs();
        handle.poke("version");
        while g.runs() == runs {
            tokio::task::yield_now().await;
        }
    }
    assert_eq!(versions().await, before);

    // An operator that really runs reports for itself.
    let theirs = json!({"apiVersion": "config.openshift.io/v1", "kind": "ClusterOperator", "metadata": {"name": "storage"},
        "status": {"conditions": [{"type": "Degraded", "status": "True", "reason": "AzureDisk", "message": "AuthorizationFailed",
            "lastTransitionTime": "2026-03-01T12:00:00Z"}]}});
    let params = PatchParams::apply("cluster-storage-operator").force();
    g.api(&OPERATOR).patch_status("storage", &params, &Patch::Apply(&theirs)).await.unwrap();
    let o = g.until(&VERSION, "version", |d| condition(d, "Failing")["status"] == "True").await;
    assert!(condition(&o.data, "Failing")["message"].as_str().unwrap().contains("AuthorizationFailed"));
    let storage = g.api(&OPERATOR).get("storage").await.unwrap();
    assert_eq!(condition(&storage.data, "Degraded")["reason"], "AzureDisk", "nobody overwrites it");

    // Another payload: the old operator stops, the new one starts.
    stop.cancel();
    let (_, stop) = g.operator("4.19.4");
    let o = g.until(&VERSION, "version", |d| d["status"]["desired"]["version"] == "4.19.4").await;
    assert_eq!(o.data["status"]["history"][0]["state"], "Partial", "storage complains");
    let fine = json!({"apiVersion": "config.openshift.io/v1", "kind": "ClusterOperator", "metadata": {"name": "storage"},
        "status": {"conditions": [{"type": "Degraded", "status": "False", "reason": "AsExpected", "message": "",
            "lastTransitionTime": "2026-03-01T12:00:00Z"}]}});
    g.api(&OPERATOR).patch_status("storage", &params, &Patch::Apply(&fine)).await.unwrap();
    let o = g.until(&VERSION, "version", is_done("4.19.4")).await;
    assert_eq!(o.data["status"]["history"].as_array().unwrap().len(), 2);
    stop.cancel();
}
