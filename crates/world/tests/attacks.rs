//! Blows against operators, by the name of what they have just done.
//!
//! Two sorts: the answer to a request is lost after it was done, or everybody dies on the spot and others begin who know
//! only what is stored. Each sort of request (`PATCH deployments`, `guest POST pods/eviction`, `azure PUT
//! virtualMachines`) meets both once in each part of a life, so a life has as many blows as there is work of different
//! sorts in it. Nothing is listed here: whatever they do is attacked.
//!
//! Requests to Kubernetes are met on their way; those to Azure are met by rules of the simulator and by its journal.

use crate::kit::{Between, Kit, met};
use kube::client::Body;
use parking_lot::Mutex;
use serde_json::json;
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

/// What is attacked, and what came of it.
pub struct Attacks {
    part: Mutex<&'static str>,
    /// How often a sort of request was met in this part.
    met: Mutex<BTreeMap<String, usize>>,
    /// `create: PATCH deployments`.
    lost: Mutex<Vec<String>>,
    killed: Mutex<Vec<String>>,
    deaths: mpsc::Sender<()>,
}

impl Attacks {
    pub fn new() -> (Arc<Attacks>, mpsc::Receiver<()>) {
        let (deaths, died) = mpsc::channel(256);
        let attacks = Attacks {
            part: Mutex::new(""),
            met: Mutex::default(),
            lost: Mutex::default(),
            killed: Mutex::default(),
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

    fn meet(&self, sort: &str, blows: &[Blow]) -> Option<Blow> {
        let part = *self.part.lock();
        let changes = MOVING.iter().any(|m| sort.contains(m));
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

    /// A client whose writes are attacked.
    pub fn on(self: &Arc<Attacks>, client: kube::Client, whose: &'static str) -> kube::Client {
        let attacks = self.clone();
        met(client, move |client, request| {
            let attacks = attacks.clone();
            async move {
                let sort = sort(&request);
                let answer = client.send(request).await.map_err(Failed::from);
                let Some(sort) = sort.map(|s| format!("{whose}{s}")) else { return answer };
                // A request that was refused changed nothing.
                if !answer.as_ref().is_ok_and(|a| a.status().is_success()) {
                    return answer;
                }
                match attacks.meet(&sort, &[Blow::Lose, Blow::Kill]) {
                    None => answer,
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
                if self.meet(&sort, &[Blow::Kill]).is_some() {
                    let _ = self.deaths.send(()).await;
                }
            }
            if news.changed().await.is_err() {
                return std::future::pending().await;
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
        let resurrection = async {
            while died.recv().await.is_some() {
                // Who dies twice at a time is dead.
                while died.try_recv().is_ok() {}
                let mut operators = operators.lock();
                operators.kill();
                *operators = Operators::start(&ground, &client);
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
