//! Saying in a guest what the plan says.

use crate::Payload;
use crate::look::Look;
use crate::plan::{Observed, plan};
use clock::{Random, SharedClock};
use futures::future::BoxFuture;
use k8s_openapi::api::core::v1::Node;
use kube::Client;
use kube::api::{DynamicObject, Patch, PatchParams, PostParams};
use reconcile::{
    Applier, Controller, Drained, Failure, Handle, Kind, Kinds, Ledger, Metrics, Options, Outcome, Runtime,
    View, Waiting, Watch,
};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

pub const MANAGER: &str = "cluster-version-operator";
const KEY: &str = "version";

const VERSION: Kind =
    Kind::new("config.openshift.io", "v1", "ClusterVersion", "clusterversions").cluster_wide();
const OPERATOR: Kind =
    Kind::new("config.openshift.io", "v1", "ClusterOperator", "clusteroperators").cluster_wide();

/// Flags of the program whose place this takes, as control planes give them.
#[derive(Clone, Debug, clap::Parser)]
#[command(name = "cluster-version-operator")]
pub struct Args {
    /// `start`
    #[arg(value_parser = ["start"])]
    pub command: String,
    /// The payload
    #[arg(long)]
    pub release_image: String,
    /// The guest
    #[arg(long)]
    pub kubeconfig: PathBuf,
    #[arg(long, default_value_t = false, action = clap::ArgAction::Set)]
    pub enable_auto_update: bool,
    #[arg(long, default_value = "0.0.0.0:8443")]
    pub listen: String,
    #[arg(long)]
    pub serving_cert_file: Option<PathBuf>,
    #[arg(long)]
    pub serving_key_file: Option<PathBuf>,
    #[arg(long, default_value_t = false, action = clap::ArgAction::Set)]
    pub hypershift: bool,
    #[arg(long)]
    pub tls_min_version: Option<String>,
    #[arg(long)]
    pub tls_cipher_suites: Option<String>,
    #[arg(long, default_value_t = 2)]
    pub v: u8,
}

/// What an instance is given.
pub struct Around {
    pub guest: Client,
    pub payload: Payload,
    pub clock: SharedClock,
    pub random: Random,
    pub metrics: Metrics,
}

struct Operator {
    guest: Client,
    payload: Payload,
    applier: Applier,
    versions: Arc<View<DynamicObject>>,
    operators: Arc<View<(String, Look)>>,
    nodes: Arc<View<bool>>,
    clock: SharedClock,
}

/// Why something could not be said.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("cannot write the status of {what}")]
    Status { what: String, source: kube::Error },
    #[error("ClusterVersion version is no object")]
    Version(#[source] serde_json::Error),
}

impl Controller for Operator {
    fn name(&self) -> &'static str {
        "cluster-version"
    }

    fn reconcile<'a>(&'a self, _: &'a str) -> BoxFuture<'a, Result<Outcome, Failure>> {
        Box::pin(self.run())
    }
}

impl Operator {
    async fn run(&self) -> Result<Outcome, Failure> {
        let now = self.clock.now();
        let Some(seen) = self.versions.get("", "version") else {
            let on = Waiting::new("ClusterVersion version", "the config operator writes it", now);
            return Ok(Outcome::Waiting { on: vec![on], again: None });
        };
        let operators: BTreeMap<String, Look> = self.operators.all().iter().map(|o| (**o).clone()).collect();
        let ready_nodes = self.nodes.all().iter().filter(|r| ***r).count();
        let planned = plan(&Observed {
            payload: &self.payload,
            version: &seen.data,
            generation: seen.metadata.generation.unwrap_or(0),
            operators: &operators,
            ready_nodes,
            now,
        });
        for (name, status) in &planned.operators {
            self.operator(name, status, operators.get(*name)).await?;
        }
        self.version(&seen, &planned.version).await?;
        if planned.waiting.is_empty() {
            return Ok(Outcome::Done);
        }
        let hint = format!("see `kubectl get clusteroperators`; {ready_nodes} nodes are ready");
        let on = planned.waiting.iter().map(|n| Waiting::new(format!("ClusterOperator {n}"), &*hint, now));
        Ok(Outcome::Waiting { on: on.collect(), again: None })
    }

    async fn operator(&self, name: &str, status: &Value, look: Option<&Look>) -> Result<(), Failure> {
        let Some(look) = look else {
            let object = json!({"apiVersion": OPERATOR.api_version(), "kind": OPERATOR.kind, "metadata": {"name": name}, "spec": {}});
            self.applier.apply(&self.applier.desired(object)?).await?;
            return self.say(name, status).await;
        };
        let ours = reconcile::conditions::Conditions::of(status);
        let is_said = ours.iter().all(|c| look.conditions.get(&c.kind) == Some(c));
        let version = status["versions"][0]["version"].as_str();
        if is_said && (look.version_is_foreign || version == look.version.as_deref()) {
            return Ok(());
        }
        self.say(name, status).await
    }

    async fn say(&self, name: &str, status: &Value) -> Result<(), Failure> {
        let body = json!({"apiVersion": OPERATOR.api_version(), "kind": OPERATOR.kind, "metadata": {"name": name}, "status": status});
        let api = OPERATOR.api(&self.guest, "");
        // Not by force: what somebody else reports is theirs.
        let written = api.patch_status(name, &PatchParams::apply(MANAGER), &Patch::Apply(&body)).await;
        match written {
            Ok(_) => Ok(()),
            // Somebody began to report it in this moment; the watch tells.
            Err(kube::Error::Api(s)) if s.code == 409 || s.code == 404 => Ok(()),
            Err(source) => Err(Error::Status { what: format!("ClusterOperator {name}"), source }.into()),
        }
    }

    /// As a whole: a patch cannot say that updates are not known, which is a null.
    async fn version(&self, seen: &DynamicObject, status: &Value) -> Result<(), Failure> {
        let before = &seen.data["status"];
        let fields = status.as_object().into_iter().flatten();
        if fields.clone().all(|(k, v)| before[k] == *v) {
            return Ok(());
        }
        let mut object = seen.clone();
        object.data["status"] = status.clone();
        let params = PostParams { field_manager: Some(MANAGER.to_owned()), ..PostParams::default() };
        match VERSION.api(&self.guest, "").replace_status("version", &params, &object).await {
            Ok(_) => Ok(()),
            // Somebody was quicker; the watch tells.
            Err(kube::Error::Api(s)) if s.code == 409 || s.code == 404 => Ok(()),
            Err(source) => Err(Error::Status { what: "ClusterVersion version".into(), source }.into()),
        }
    }
}

fn is_ready(o: &DynamicObject) -> Option<bool> {
    let conditions = o.data["status"]["conditions"].as_array();
    Some(conditions.into_iter().flatten().any(|c| c["type"] == "Ready" && c["status"] == "True"))
}

/// Sets an instance up in a runtime.
pub fn start(runtime: &mut Runtime, around: Around) -> Handle {
    let Around { guest, payload, clock, random, metrics } = around;
    let ledger = Ledger::new(MANAGER, &random);
    let kinds = Kinds::builtin().with([VERSION, OPERATOR]);
    let applier = Applier::new(guest.clone(), Arc::new(kinds), ledger.clone()).with_metrics(&metrics);
    let (versions, nodes) = (View::whole(), View::new(is_ready));
    let operators = View::new(|o: &DynamicObject| Some((o.metadata.name.clone()?, Look::of(o, MANAGER))));
    let operator = Operator {
        guest: guest.clone(),
        payload,
        applier,
        versions: versions.clone(),
        operators: operators.clone(),
        nodes: nodes.clone(),
        clock,
    };
    let handle = runtime.controller(Arc::new(operator), Options { workers: 1, ..Options::default() });
    let wakes = || handle.keys(|_, keys| keys.push(KEY));
    // Optional: definitions come with the config operator.
    runtime
        .watch(Watch::whole(&guest, &VERSION).name("version").optional().into_sink(versions).wakes(wakes()));
    let parts = Watch::whole(&guest, &OPERATOR).optional().into_sink(ledger).into_sink(operators);
    runtime.watch(parts.wakes(wakes()));
    runtime.watch(Watch::whole(&guest, &Kind::of_cluster::<Node>()).into_sink(nodes).wakes(wakes()));
    handle
}

/// Drives one guest until stopped.
pub async fn run(around: Around, stop: CancellationToken) -> Drained {
    let mut runtime = Runtime::new(around.clock.clone(), &around.metrics);
    start(&mut runtime, around);
    runtime.run(stop).await
}
