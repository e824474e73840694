//! Random lives: whatever is done to workloads and nodes, in the end the numbers are right, nothing is left
//! over and nothing has two masters.

use crate::world::{World, deployment, template};
use clock::Random;
use ek_controllers::Options;
use serde_json::{Value, json};
use std::collections::HashSet;

const KINDS: [(&str, &str); 4] = [
    ("apps/deployments", "Deployment"),
    ("apps/replicasets", "ReplicaSet"),
    ("apps/statefulsets", "StatefulSet"),
    ("apps/daemonsets", "DaemonSet"),
];

struct Model {
    w: World,
    random: Random,
    log: Vec<String>,
}

impl Model {
    fn pick<T: Clone>(&self, all: &[T]) -> Option<T> {
        (!all.is_empty()).then(|| all[self.random.below(all.len())].clone())
    }

    async fn step(&mut self) {
        let (table, kind) = KINDS[self.random.below(KINDS.len())];
        let name = format!("{}-{}", kind.to_lowercase(), self.random.below(2));
        let full = format!("default/{name}");
        let there = self.w.find(table, &full).is_some_and(|o| o["metadata"]["deletionTimestamp"].is_null());
        let nodes = self.w.names("nodes");
        let what = self.random.below(10);
        self.log.push(format!("{what} {kind} {name}"));
        match what {
            0..=2 if self.w.find(table, &full).is_none() => {
                let mut o = deployment(&name, self.random.below(6) as i64, "v0");
                o["kind"] = json!(kind);
                o["spec"]["template"] = template(&name, "v0");
                let spec = o["spec"].as_object_mut().unwrap();
                if kind == "DaemonSet" {
                    spec.remove("replicas");
                }
                if kind == "StatefulSet" {
                    spec.insert("serviceName".into(), json!("x"));
                    let policy = ["OrderedReady", "Parallel"][self.random.below(2)];
                    spec.insert("podManagementPolicy".into(), json!(policy));
                }
                self.w.create(table, o).await;
            }
            3 if there && kind != "DaemonSet" => {
                let n = self.random.below(7);
                self.w.apply(table, &full, |o| o["spec"]["replicas"] = json!(n)).await;
            }
            4 if there && kind != "ReplicaSet" => {
                let v = format!("v{}", self.random.below(4));
                self.w
                    .apply(table, &full, |o| {
                        o["spec"]["template"]["spec"]["containers"][0]["image"] = json!(v);
                    })
                    .await;
            }
            5 if there => {
                let how = ["Background", "Foreground", "Orphan"][self.random.below(3)];
                self.w.delete(table, &full, how).await;
            }
            6 => {
                if let Some(pod) = self.pick(&self.w.names("pods")) {
                    self.w.delete("pods", &format!("default/{pod}"), "Background").await;
                }
            }
            7 if nodes.len() > 1 => {
                if let Some(n) = self.pick(&nodes) {
                    let dead = self.random.below(2) == 0;
                    self.w.set_dead(&n, dead).await;
                }
            }
            8 if nodes.len() > 2 => {
                if let Some(n) = self.pick(&nodes) {
                    self.w.delete("nodes", &n, "Background").await;
                }
            }
            9 if nodes.len() < 4 => {
                let name = format!("n{}", self.random.below(1000));
                if self.w.find("nodes", &name).is_none() {
                    self.w.node(&name).await;
                }
            }
            _ => {
                let seconds = self.random.below(60) as i64;
                self.w.pass(seconds).await;
            }
        }
        if self.random.below(3) > 0 {
            self.w.settle().await;
            self.check_owners();
        }
    }

    /// Nobody has two masters, and every master is there.
    fn check_owners(&self) {
        let uids: HashSet<Value> = (KINDS.iter().map(|(t, _)| *t).chain(["nodes"]))
            .flat_map(|t| self.w.list(t))
            .map(|o| o["metadata"]["uid"].clone())
            .collect();
        for pod in self.w.pods() {
            let owners = pod["metadata"]["ownerReferences"].as_array().cloned().unwrap_or_default();
            let masters = owners.iter().filter(|o| o["controller"] == true).count();
            assert!(masters <= 1, "{:?}\n{pod}", self.log);
            let going = !pod["metadata"]["deletionTimestamp"].is_null();
            assert!(
                going || owners.iter().all(|o| uids.contains(&o["uid"])),
                "{:?}\nan orphan: {pod}",
                self.log
            );
        }
    }

    fn check_numbers(&self) {
        let alive: Vec<Value> =
            self.w.pods().into_iter().filter(|p| p["metadata"]["deletionTimestamp"].is_null()).collect();
        let nodes = self.w.names("nodes").len() as i64;
        for (table, kind) in KINDS {
            for o in self.w.list(table) {
                if kind == "ReplicaSet" && !o["metadata"]["ownerReferences"].is_null() {
                    continue;
                }
                let wanted = o["spec"]["replicas"].as_i64().unwrap_or(nodes);
                let app = o["spec"]["selector"]["matchLabels"]["app"].clone();
                let pods: Vec<&Value> =
                    alive.iter().filter(|p| p["metadata"]["labels"]["app"] == app).collect();
                let hash = &o["spec"]["selector"]["matchLabels"]["pod-template-hash"];
                let same_app = self
                    .w
                    .list("apps/replicasets")
                    .iter()
                    .filter(|r| r["spec"]["selector"]["matchLabels"]["app"] == app)
                    .count();
                // Sets that were orphaned and not adopted again share the label.
                if !hash.is_null() || (kind == "Deployment" && same_app > 1 && pods.len() as i64 != wanted) {
                    continue;
                }
                let ready = pods
                    .iter()
                    .filter(|p| {
                        p["status"]["conditions"]
                            .as_array()
                            .is_some_and(|c| c.iter().any(|c| c["type"] == "Ready" && c["status"] == "True"))
                    })
                    .count();
                assert_eq!(ready as i64, wanted, "{:?}\n{kind} {o}\n{pods:?}", self.log);
                let field = if kind == "DaemonSet" { "numberReady" } else { "readyReplicas" };
                assert_eq!(o["status"][field].as_i64().unwrap_or(0), wanted, "{:?}\n{kind} {o}", self.log);
            }
        }
    }
}

#[tokio::test]
async fn random_lives_end_in_order() {
    for seed in 1..=8 {
        println!("seed {seed}");
        let w = World::with(seed, Options::default()).await;
        w.node("n1").await;
        let mut m = Model { w, random: Random::seeded(seed), log: Vec::new() };
        for _ in 0..50 {
            m.step().await;
        }
        for n in m.w.names("nodes") {
            m.w.set_dead(&n, false).await;
        }
        m.w.pass(400).await;
        m.check_owners();
        m.check_numbers();
    }
}
