//! A host with one cluster, nodes, and an engine that is stepped.

use ek_engine::Engine;
use ek_node::{NodeSpec, Nodes, Options, StageSet};
use ek_server::registry::table_name;
use ek_server::{Access, ApiServer, ClusterConfig, Host, HostConfig};
use jiff::SignedDuration;
use serde_json::{Value, json};
use std::time::Duration;
use testkit::TestWorld;

/// Long enough for a loaded machine; no test waits for it to pass.
pub const DEADLINE: Duration = Duration::from_secs(30);

pub struct Kit {
    pub world: TestWorld,
    pub host: Host,
    pub server: ApiServer,
    pub access: Access,
    pub nodes: Nodes,
    pub engine: Engine,
    pub dir: tempfile::TempDir,
}

impl Kit {
    pub async fn new(stages: StageSet) -> Kit {
        Kit::with(|o| o.stages = stages).await
    }

    /// With the machine's clock and an engine that runs, for programs that do.
    pub async fn live(change: impl FnOnce(&mut Options)) -> Kit {
        let kit = Kit::at(clock::system(), |o| {
            o.stages = StageSet::instant();
            change(o);
        })
        .await;
        tokio::spawn(kit.engine.clone().run());
        kit
    }

    pub async fn with(change: impl FnOnce(&mut Options)) -> Kit {
        let world = TestWorld::new(1);
        let mut kit = Kit::at(world.shared_clock(), change).await;
        kit.world = world;
        kit
    }

    async fn at(clock: clock::SharedClock, change: impl FnOnce(&mut Options)) -> Kit {
        let world = TestWorld::new(1);
        let config = HostConfig { clock, random: world.random.clone(), ..HostConfig::memory() };
        let host = Host::start(config).await.unwrap();
        let server = host.ensure("main", ClusterConfig::default()).await.unwrap();
        let dir = tempfile::tempdir().unwrap();
        let mut options = Options::new(dir.path());
        change(&mut options);
        let nodes = Nodes::new(&host, options);
        let engine = Engine::new(&host, nodes.controllers());
        nodes.attach(&engine);
        nodes.add_node("main", "n1", NodeSpec::default()).await.unwrap();
        let access = server.access("test");
        access
            .create(&table_name("", "serviceaccounts"), json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default", "namespace": "default"}}))
            .await
            .unwrap();
        engine.settle().await;
        Kit { world, host, server, access, nodes, engine, dir }
    }

    pub async fn create(&self, plural: &str, object: Value) -> Value {
        self.access.create(&table_name("", plural), object).await.unwrap()
    }

    pub async fn pod(&self, name: &str, change: impl FnOnce(&mut Value)) -> Value {
        let mut pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "default"},
            "spec": {"nodeName": "n1", "containers": [{"name": "main", "image": "example/app:1"}]}});
        change(&mut pod);
        let pod = self.create("pods", pod).await;
        self.engine.settle().await;
        pod
    }

    pub fn get(&self, name: &str) -> Value {
        self.access.get(&table_name("", "pods"), "default", name).unwrap_or_default()
    }

    pub async fn pass(&self, seconds: i64) {
        // Time passes in steps, so that what is due in between happens when it is due.
        for _ in 0..seconds {
            self.world.clock.advance(SignedDuration::from_secs(1));
            self.engine.settle().await;
        }
    }

    pub fn reasons(&self) -> Vec<String> {
        let mut events: Vec<(String, String)> =
            (self.access.table(&table_name("", "events")).objects.values())
                .filter_map(|e| ek_server::parse(e))
                .map(|e| {
                    (
                        e["metadata"]["resourceVersion"].as_str().unwrap_or_default().to_owned(),
                        e["reason"].as_str().unwrap_or_default().to_owned(),
                    )
                })
                .collect();
        events.sort_by_key(|(rv, _)| rv.parse::<u64>().unwrap_or(0));
        events.into_iter().map(|(_, r)| r).collect()
    }

    /// Waits until something is so; for kits whose engine runs.
    pub async fn until(&self, what: &str, so: impl Fn(&Kit) -> bool) {
        let feed = self.host.feed();
        let run = async {
            while !so(self) {
                feed.changed().await;
                feed.take();
            }
        };
        assert!(tokio::time::timeout(DEADLINE, run).await.is_ok(), "never: {what}");
    }
}

pub fn condition<'a>(pod: &'a Value, kind: &str) -> &'a str {
    let all = pod["status"]["conditions"].as_array().into_iter().flatten();
    all.into_iter().find(|c| c["type"] == kind).and_then(|c| c["status"].as_str()).unwrap_or_default()
}
