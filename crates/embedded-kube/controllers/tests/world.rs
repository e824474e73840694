//! A cluster with controllers, a clock that stands, and a kubelet that does what annotations tell it.

use clock::{ManualClock, Random};
use ek_controllers::Options;
use ek_engine::{Controller, Delta, Engine, Keys, Outcome, split};
use ek_meta::{Status, object};
use ek_server::registry::table_name;
use ek_server::{Access, ApiServer, Config, Deletion};
use ek_store::TableName;
use futures::future::BoxFuture;
use jiff::SignedDuration;
use serde_json::{Value, json};
use std::sync::Arc;

pub struct World {
    /// Lives as long as the world.
    _server: ApiServer,
    pub clock: Arc<ManualClock>,
    pub engine: Engine,
    pub access: Access,
}

pub fn table(name: &str) -> TableName {
    let (group, plural) = name.split_once('/').unwrap_or(("", name));
    table_name(group, plural)
}

impl World {
    pub async fn new() -> World {
        World::with(1, Options::default()).await
    }

    pub async fn with(seed: u64, options: Options) -> World {
        let clock = ManualClock::new("2026-11-15T00:00:00Z".parse().unwrap());
        let config = Config { clock: clock.clone(), random: Random::seeded(seed), ..Config::memory() };
        let server = ApiServer::start(config).await.unwrap();
        let mut controllers = ek_controllers::all(options);
        controllers.push(Arc::new(Kubelet));
        controllers.push(Arc::new(Heart));
        let engine = Engine::new(server.host(), controllers);
        let access = server.access("test");
        let world = World { _server: server, clock, engine, access };
        world.settle().await;
        world
    }

    pub async fn settle(&self) {
        self.engine.settle().await;
    }

    /// Lets time pass in steps, with everything done that falls due on the way.
    pub async fn pass(&self, seconds: i64) {
        let end = self.access.now().checked_add(SignedDuration::from_secs(seconds)).unwrap();
        self.settle().await;
        while let Some(due) = self.engine.next_due().filter(|d| *d <= end) {
            self.clock.advance(due.duration_since(self.access.now()).max(SignedDuration::ZERO));
            self.settle().await;
        }
        self.clock.advance(end.duration_since(self.access.now()).max(SignedDuration::ZERO));
        self.settle().await;
    }

    pub async fn create(&self, table_of: &str, obj: Value) -> Value {
        self.access.create(&table(table_of), obj).await.unwrap()
    }

    pub async fn apply(&self, table_of: &str, name: &str, change: impl Fn(&mut Value) + Sync) {
        let change = |o: &mut Value| {
            change(o);
            true
        };
        let (ns, name) = split(name);
        self.access.update(&table(table_of), ns, name, "", change).await.unwrap();
    }

    pub async fn set_status(&self, table_of: &str, name: &str, change: impl Fn(&mut Value) + Sync) {
        let change = |o: &mut Value| {
            change(o);
            true
        };
        let (ns, name) = split(name);
        self.access.update(&table(table_of), ns, name, "status", change).await.unwrap();
    }

    pub async fn delete(&self, table_of: &str, name: &str, propagation: &str) {
        let (ns, name) = split(name);
        let how = Deletion { propagation: Some(propagation), ..Deletion::default() };
        self.access.delete(&table(table_of), ns, name, how).await.unwrap();
    }

    pub fn get(&self, table_of: &str, name: &str) -> Value {
        self.find(table_of, name).unwrap_or_else(|| panic!("{table_of} {name} is not there"))
    }

    pub fn find(&self, table_of: &str, name: &str) -> Option<Value> {
        let (ns, name) = split(name);
        self.access.get(&table(table_of), ns, name)
    }

    pub fn list(&self, table_of: &str) -> Vec<Value> {
        let view = self.access.table(&table(table_of));
        view.objects.values().filter_map(|e| ek_server::parse(e)).collect()
    }

    pub fn names(&self, table_of: &str) -> Vec<String> {
        self.list(table_of).iter().map(|o| object::name(o).to_owned()).collect()
    }

    pub fn pods(&self) -> Vec<Value> {
        self.list("pods")
    }

    pub fn reasons(&self, kind: &str) -> Vec<String> {
        let about = |e: &&Value| e["involvedObject"]["kind"] == kind;
        let mut all: Vec<String> = self
            .list("events")
            .iter()
            .filter(about)
            .map(|e| e["reason"].as_str().unwrap().to_owned())
            .collect();
        all.sort();
        all.dedup();
        all
    }

    pub async fn node(&self, name: &str) {
        self.node_with(name, json!({}), json!({"cpu": "8", "memory": "16Gi", "pods": "110"})).await;
    }

    pub async fn node_with(&self, name: &str, labels: Value, allocatable: Value) {
        let mut labels = labels;
        labels["kubernetes.io/hostname"] = json!(name);
        let now = self.access.timestamp();
        self.create(
            "nodes",
            json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels},
            "status": {"allocatable": allocatable, "capacity": allocatable, "conditions": [
                {"type": "Ready", "status": "True", "lastHeartbeatTime": now, "lastTransitionTime": now}]}}),
        )
        .await;
        self.settle().await;
    }

    /// A node whose kubelet answers nobody, or does again.
    pub async fn set_dead(&self, name: &str, dead: bool) {
        self.apply("nodes", name, |n| {
            n["metadata"]["labels"]["test/dead"] = if dead { json!("yes") } else { Value::Null }
        })
        .await;
    }
}

/// Renews the leases of nodes that live.
pub struct Heart;

impl Controller for Heart {
    fn name(&self) -> &'static str {
        "test-heart"
    }

    fn watches(&self) -> &'static [&'static str] {
        &["/nodes"]
    }

    fn concerns(&self, _: &Access, delta: &Delta, keys: &mut Keys) {
        keys.push(delta.key.clone());
    }

    fn reconcile<'a>(&'a self, access: &'a Access, key: &'a str) -> BoxFuture<'a, Result<Outcome, Status>> {
        Box::pin(async move {
            let alive = |n: &Value| n["metadata"]["labels"]["test/dead"].is_null();
            if !access.get(&table("nodes"), "", key).is_some_and(|n| alive(&n)) {
                return Ok(Outcome::Done);
            }
            let renew = ek_meta::time::rfc3339_micro(access.now());
            let leases = table("coordination.k8s.io/leases");
            if access.entry(&leases, "kube-node-lease", key).is_none() {
                let lease = json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": key, "namespace": "kube-node-lease"},
                    "spec": {"holderIdentity": key, "leaseDurationSeconds": 40, "renewTime": renew}});
                access.create(&leases, lease).await?;
            }
            let beat = |l: &mut Value| {
                let changed = l["spec"]["renewTime"] != renew.as_str();
                l["spec"]["renewTime"] = json!(renew);
                changed
            };
            access.update(&leases, "kube-node-lease", key, "", beat).await?;
            recover(access, key).await?;
            Ok(Outcome::After(SignedDuration::from_secs(10)))
        })
    }
}

/// A node that is back says that it is well, and so are its pods.
async fn recover(access: &Access, node: &str) -> Result<(), Status> {
    let now = access.timestamp();
    let well = |n: &mut Value| {
        let lost = |c: &&mut Value| c["status"] == "Unknown";
        let all = n["status"]["conditions"].as_array_mut().into_iter().flatten();
        let mut changed = false;
        for c in all.filter(lost) {
            c["status"] = json!(if c["type"] == "Ready" { "True" } else { "False" });
            c["lastHeartbeatTime"] = json!(now);
            c["lastTransitionTime"] = json!(now);
            changed = true;
        }
        changed
    };
    if access.update(&table("nodes"), "", node, "status", well).await?.is_none() {
        return Ok(());
    }
    let pods = table("pods");
    for (key, entry) in &access.table(&pods).objects {
        let (ns, name) = split(key);
        let pod = ek_server::parse(entry).unwrap();
        if pod["spec"]["nodeName"] != node {
            continue;
        }
        if entry.meta.deleting {
            let how = Deletion { grace_seconds: Some(0), ..Deletion::default() };
            access.delete(&pods, ns, name, how).await?;
            continue;
        }
        let up = |p: &mut Value| {
            let run = p["metadata"]["annotations"]["test/run"].is_null();
            let all = p["status"]["conditions"].as_array_mut().into_iter().flatten();
            let mut changed = false;
            for c in all.filter(|c| c["type"] == "Ready" && c["status"] == "False" && run) {
                c["status"] = json!("True");
                changed = true;
            }
            changed
        };
        access.update(&pods, ns, name, "status", up).await?;
        // What was bound while nobody listened runs now.
        Kubelet.reconcile(access, key).await?;
    }
    Ok(())
}

/// Runs what is bound to a node: ready at once, or as the annotation `test/run` says (`hold`, `Succeeded`,
/// `Failed`). Deletes what is being deleted.
pub struct Kubelet;

impl Controller for Kubelet {
    fn name(&self) -> &'static str {
        "test-kubelet"
    }

    fn watches(&self) -> &'static [&'static str] {
        &["/pods"]
    }

    fn concerns(&self, _: &Access, delta: &Delta, keys: &mut Keys) {
        if delta.current.is_some() {
            keys.push(delta.key.clone());
        }
    }

    fn reconcile<'a>(&'a self, access: &'a Access, key: &'a str) -> BoxFuture<'a, Result<Outcome, Status>> {
        Box::pin(async move {
            let (ns, name) = split(key);
            let pods = table("pods");
            let Some(pod) = access.get(&pods, ns, name) else { return Ok(Outcome::Done) };
            let node = pod["spec"]["nodeName"].as_str().unwrap_or_default();
            let alive = access
                .get(&table("nodes"), "", node)
                .is_some_and(|n| n["metadata"]["labels"]["test/dead"].is_null());
            if node.is_empty() || !alive {
                return Ok(Outcome::Done);
            }
            if !pod["metadata"]["deletionTimestamp"].is_null() {
                let how =
                    Deletion { grace_seconds: Some(0), uid: Some(object::uid(&pod)), ..Deletion::default() };
                access.delete(&pods, ns, name, how).await?;
                return Ok(Outcome::Done);
            }
            let run = pod["metadata"]["annotations"]["test/run"].as_str().unwrap_or("Running");
            if run == "hold" || pod["status"]["phase"] != "Pending" {
                return Ok(Outcome::Done);
            }
            let now = access.timestamp();
            let code = i64::from(run == "Failed");
            let ip = format!("10.1.{}.{}", access.random().below(250), access.random().below(250));
            let up = |p: &mut Value| {
                if p["status"]["phase"] != "Pending" {
                    return false;
                }
                p["status"]["phase"] = json!(run);
                p["status"]["podIP"] = json!(ip);
                p["status"]["podIPs"] = json!([{"ip": ip}]);
                p["status"]["startTime"] = json!(now);
                let ready = if run == "Running" { "True" } else { "False" };
                let conditions = p["status"]["conditions"].as_array_mut().unwrap();
                for kind in ["Initialized", "Ready", "ContainersReady"] {
                    conditions.push(json!({"type": kind, "status": ready, "lastTransitionTime": now}));
                }
                if run != "Running" {
                    p["status"]["containerStatuses"] = json!([{"name": "c", "image": "x", "imageID": "", "ready": false, "restartCount": 0,
                        "state": {"terminated": {"exitCode": code, "finishedAt": now}}}]);
                }
                true
            };
            access.update(&pods, ns, name, "status", up).await?;
            Ok(Outcome::Done)
        })
    }
}

pub fn template(app: &str, image: &str) -> Value {
    json!({"metadata": {"labels": {"app": app}}, "spec": {"containers": [{"name": "c", "image": image}]}})
}

pub fn deployment(name: &str, replicas: i64, image: &str) -> Value {
    json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name, "namespace": "default"},
        "spec": {"replicas": replicas, "selector": {"matchLabels": {"app": name}}, "template": template(name, image)}})
}
