//! Blows against operators, by the name of what they have just done.
//!
//! Two sorts: the answer to a request is lost after it was done, or everybody dies on the spot and others begin who know
//! only what is stored. Nothing is listed here: whatever they do is attacked, at one of two [grains](Grain).
//!
//! Requests to Kubernetes are met on their way; those to Azure are met by rules of the simulator and by its journal.

use crate::kit::{Between, Kit, met};
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, DeleteParams, ListParams};
use kube::client::Body;
use parking_lot::Mutex;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;
use tokio::sync::mpsc;
use world::{Ground, Operators};

type Failed = tower::BoxError;

/// What machines are made of in Azure. Disks come with their machine.
const PARTS: [(&str, &[&str]); 3] = [
    ("Microsoft.Compute/virtualMachines", &["PUT", "DELETE"]),
    ("Microsoft.Network/networkInterfaces", &["PUT", "DELETE"]),
    ("Microsoft.Compute/disks", &["DELETE"]),
];

/// What still changes once a cluster stands. The rest is only written again, as it is, by whoever begins anew: it is attacked
/// where it is made.
const MOVING: [&str; 9] =
    ["machine", "nodepool", "hosted", "deployments", "statefulsets", "secrets", "DELETE", "azure ", "guest "];

/// Machines of the attacked pool and their parts are named so; others have disks, too.
const POOL: &str = "np-";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Blow {
    Lose,
    Kill,
}

/// How closely they are watched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Grain {
    /// Each sort of request (`PATCH deployments`, `guest POST pods/eviction`, `azure PUT virtualMachines`) meets both
    /// blows once in each part of a life: as many as there is work of different sorts in it.
    Sorts,
    /// They die after each single write that changed something, by the path of what was written; a path that is written
    /// again and again is spared in the end, or nobody would ever be done.
    Writes,
}

/// How often one path is attacked in a part of a life: created and changed, or several created under one path.
const SPARED_AFTER: usize = 2;
const SPARED_AFTER_POSTS: usize = 6;

/// The config operator of a guest, which upgrades nodes in place, dies with every so many of the others.
const CONFIG_OPERATOR_DIES: usize = 3;

/// What is attacked, and what came of it.
pub struct Attacks {
    grain: Grain,
    part: Mutex<&'static str>,
    /// How often a sort of request was met in this part.
    met: Mutex<BTreeMap<String, usize>>,
    /// `create: PATCH deployments`.
    lost: Mutex<Vec<String>>,
    killed: Mutex<Vec<String>>,
    /// The parts in which it died.
    config_operators: Mutex<Vec<&'static str>>,
    deaths: mpsc::Sender<()>,
}

impl Attacks {
    pub fn new(grain: Grain) -> (Arc<Attacks>, mpsc::Receiver<()>) {
        let (deaths, died) = mpsc::channel(256);
        let attacks = Attacks {
            grain,
            part: Mutex::new(""),
            met: Mutex::default(),
            lost: Mutex::default(),
            killed: Mutex::default(),
            config_operators: Mutex::default(),
            deaths,
        };
        (Arc::new(attacks), died)
    }

    /// Another part of the life: every sort is new again.
    pub fn enter(&self, kit: &Kit, part: &'static str) {
        *self.part.lock() = part;
        self.met.lock().clear();
        let sim = kit.world.cloud().sim.world();
        sim.clear_faults();
        if self.grain == Grain::Writes {
            return;
        }
        let rule = |method: &str, part: &str| {
            json!({"name": format!("{method}-{}", part.rsplit('/').next().unwrap()),
                "match": {"method": method, "type": part, "id": format!("*/{POOL}*"), "nth": 1}, "then": {"drop": "after"}})
        };
        let rules = PARTS.iter().flat_map(|(part, methods)| methods.iter().map(move |m| rule(m, part)));
        let rules: Vec<_> = rules.collect();
        let rules = azure_sim::read_faults(json!(rules).to_string().as_bytes()).unwrap();
        sim.add_faults(rules).unwrap();
    }

    /// Nobody is attacked any more.
    pub fn cease(&self, kit: &Kit) {
        *self.part.lock() = "";
        kit.world.cloud().sim.world().clear_faults();
    }

    pub fn lost(&self) -> Vec<String> {
        self.lost.lock().clone()
    }

    pub fn killed(&self) -> Vec<String> {
        self.killed.lock().clone()
    }

    /// In which parts config operators died.
    pub fn config_operators(&self) -> Vec<&'static str> {
        self.config_operators.lock().clone()
    }

    fn meet(&self, sort: &str, blows: &[Blow]) -> Option<Blow> {
        let part = *self.part.lock();
        let changes = self.grain == Grain::Writes || MOVING.iter().any(|m| sort.contains(m));
        if part.is_empty() || (part != "create" && !changes) {
            return None;
        }
        let mut all = self.met.lock();
        let met = all.entry(sort.to_owned()).or_default();
        let blow = blows.get(*met).copied();
        *met += 1;
        let list = match blow? {
            Blow::Lose => &self.lost,
            Blow::Kill => &self.killed,
        };
        list.lock().push(format!("{part}: {sort}"));
        blow
    }

    /// What happens to somebody who has just written here; `changed` says whether it made a difference.
    fn written(&self, sort: &str, path: &str, changed: bool) -> Option<Blow> {
        match self.grain {
            Grain::Sorts => self.meet(sort, &[Blow::Lose, Blow::Kill]),
            Grain::Writes if !changed => None,
            Grain::Writes => {
                let times = if sort.contains("POST ") { SPARED_AFTER_POSTS } else { SPARED_AFTER };
                let method = sort.rsplit_once(' ').map_or(sort, |(method, _)| method);
                self.meet(&format!("{method} {path}"), &vec![Blow::Kill; times])
            }
        }
    }

    /// The version of what a write is about to change, where that is asked.
    async fn version(&self, client: &kube::Client, sort: &str, path: &str) -> Option<String> {
        if self.grain == Grain::Sorts || !["PATCH ", "PUT "].iter().any(|m| sort.contains(m)) {
            return None;
        }
        let path = path.strip_suffix("/status").unwrap_or(path);
        let now: Value = client.request(http::Request::get(path).body(Vec::new()).unwrap()).await.ok()?;
        now["metadata"]["resourceVersion"].as_str().map(str::to_owned)
    }

    /// A client whose writes are attacked.
    pub fn on(self: &Arc<Attacks>, client: kube::Client, whose: &'static str) -> kube::Client {
        let attacks = self.clone();
        met(client, move |client, request| {
            let attacks = attacks.clone();
            async move {
                let Some(sort) = sort(&request).map(|s| format!("{whose}{s}")) else {
                    return client.send(request).await.map_err(Failed::from);
                };
                let path = request.uri().path().to_owned();
                let before = attacks.version(&client, &sort, &path).await;
                let answer = client.send(request).await.map_err(Failed::from)?;
                // A request that was refused changed nothing.
                if !answer.status().is_success() {
                    return Ok(answer);
                }
                let (head, body) = answer.into_parts();
                let body = body.collect_bytes().await?;
                let after = before.is_some().then(|| version_in(&body)).flatten();
                let answer = http::Response::from_parts(head, Body::from(body.to_vec()));
                match attacks.written(&sort, &path, before.is_none() || before != after) {
                    None => Ok(answer),
                    Some(Blow::Lose) => Err(Failed::from(format!("the answer to {sort} is lost"))),
                    Some(Blow::Kill) => {
                        let _ = attacks.deaths.send(()).await;
                        // Nobody is there any more to hear it.
                        std::future::pending().await
                    }
                }
            }
        })
    }

    /// Watches what is asked of Azure. Ends never.
    async fn at_azure(&self, kit: &Kit) {
        let sim = kit.world.cloud().sim.world().clone();
        let mut news = sim.journal_news();
        let mut last = *news.borrow_and_update();
        loop {
            let page = sim.journal_page(last, 4096, None);
            last = page["last"].as_u64().unwrap_or(last);
            for entry in page["value"].as_array().into_iter().flatten() {
                let (method, path) = (entry["method"].as_str().unwrap(), entry["path"].as_str().unwrap());
                let Some(sort) = azure_sort(method, path) else { continue };
                if entry["fault"].is_string() {
                    self.lost.lock().push(format!("{}: {sort}", self.part.lock()));
                    continue;
                }
                let what = match self.grain {
                    Grain::Sorts => sort,
                    // Questions change nothing.
                    Grain::Writes if method == "GET" => continue,
                    Grain::Writes => {
                        format!(
                            "{sort} {}",
                            path.split('?').next().and_then(|p| p.rsplit('/').next()).unwrap()
                        )
                    }
                };
                if self.meet(&what, &[Blow::Kill]).is_some() {
                    let _ = self.deaths.send(()).await;
                }
            }
            if news.changed().await.is_err() {
                return std::future::pending().await;
            }
        }
    }

    /// It is a pod of each control plane; its node sees the end of it at once, and its Deployment makes another.
    async fn kill_config_operator(&self, kit: &Kit) {
        let pods = Api::<Pod>::all(kit.world.client());
        let label = ListParams::default().labels("app=hosted-cluster-config-operator");
        for pod in pods.list_metadata(&label).await.unwrap().items {
            let (name, namespace) = (pod.metadata.name.unwrap(), pod.metadata.namespace.unwrap());
            let pods = Api::<Pod>::namespaced(kit.world.client(), &namespace);
            match pods.delete(&name, &DeleteParams::default().grace_period(0)).await {
                Ok(_) => self.config_operators.lock().push(*self.part.lock()),
                Err(kube::Error::Api(e)) if e.code == 404 => {}
                Err(e) => panic!("{namespace}/{name}: {e}"),
            }
        }
    }

    /// Runs operators under attack, and others after them, until `life` is over.
    pub async fn while_<T>(
        self: &Arc<Attacks>,
        kit: &Kit,
        mut died: mpsc::Receiver<()>,
        life: impl Future<Output = T>,
    ) -> T {
        kit.world.kill_operators();
        let mut ground: Ground = kit.world.ground().clone();
        if let Some(keeping) = ground.machines.as_mut() {
            let attacks = self.clone();
            let on = move |client| attacks.on(client, "guest ");
            keeping.reach = Between::new(keeping.reach.clone(), on);
        }
        let client = self.on(kit.world.client(), "");
        let operators = Mutex::new(Operators::start(&ground, &client));
        let mut config_operators = 0;
        let resurrection = async {
            while died.recv().await.is_some() {
                // Who dies twice at a time is dead.
                while died.try_recv().is_ok() {}
                {
                    let mut operators = operators.lock();
                    operators.kill();
                    *operators = Operators::start(&ground, &client);
                }
                let died = self.killed.lock().len();
                if died / CONFIG_OPERATOR_DIES > config_operators {
                    config_operators = died / CONFIG_OPERATOR_DIES;
                    self.kill_config_operator(kit).await;
                }
            }
        };
        let over = tokio::select! {
            over = life => over,
            () = resurrection => unreachable!("the attacks hold the sender"),
            () = self.at_azure(kit) => unreachable!("Azure is always watched"),
        };
        operators.into_inner().stop().await;
        over
    }
}

fn version_in(body: &[u8]) -> Option<String> {
    let object: Value = serde_json::from_slice(body).ok()?;
    object["metadata"]["resourceVersion"].as_str().map(str::to_owned)
}

/// `PATCH deployments`, `PATCH hostedclusters/status`; nothing for questions, and for what is nobody's state.
fn sort(request: &http::Request<Body>) -> Option<String> {
    if request.method() == http::Method::GET {
        return None;
    }
    let path = request.uri().path();
    let parts: Vec<&str> = path.trim_start_matches('/').split('/').collect();
    // After `api/v1` or `apis/group/version`.
    let mut rest = parts.get(if parts.first() == Some(&"api") { 2 } else { 3 }..)?;
    if rest.first() == Some(&"namespaces") && rest.len() > 2 {
        rest = &rest[2..];
    }
    let sub = rest.get(2).map(|s| format!("/{s}")).unwrap_or_default();
    let kind = rest.first().filter(|k| !["events", "leases"].contains(*k))?;
    Some(format!("{} {kind}{sub}", request.method()))
}

/// `azure PUT virtualMachines`, `azure GET usages`: what is asked about machines.
fn azure_sort(method: &str, path: &str) -> Option<String> {
    let path = path.split('?').next()?;
    let (_, own) = path.split_once("/providers/Microsoft.").map(|(a, b)| (a, b.to_owned()))?;
    let words: Vec<&str> = own.split('/').collect();
    let what = match words.as_slice() {
        ["Compute", "locations", _, what @ ("usages" | "operations"), ..] => *what,
        ["Compute", what @ ("skus" | "virtualMachines")] => *what,
        ["Compute", what @ ("virtualMachines" | "disks"), name, ..] if name.starts_with(POOL) => *what,
        ["Network", what @ "networkInterfaces", name, ..] if name.starts_with(POOL) => *what,
        _ => return None,
    };
    Some(format!("azure {method} {what}"))
}
