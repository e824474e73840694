//! A workflow with the classic bug, and the same one repaired.
//!
//! To create a machine: pick a name, create a disk and a machine in the cloud, write the name down. The buggy
//! order acts first and writes second. Every run that ends well looks the same, so ordinary tests pass; after a
//! crash in between, the new process picks another name and the first disk is paid for until someone notices.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use testkit::TestWorld;
use testkit::adversarial::{Interrupted, Probe, Workflow, assert_robust, check};

/// The cloud and the database: what outlives the process.
struct World {
    cloud: RefCell<BTreeSet<String>>,
    database: RefCell<BTreeMap<&'static str, String>>,
    chance: TestWorld,
}

#[derive(Debug, PartialEq)]
struct Observed {
    /// Kinds, sorted; names are chance.
    resources: Vec<String>,
    every_resource_is_known: bool,
}

#[derive(Clone, Copy, PartialEq)]
enum Order {
    ActThenPersist,
    PersistThenAct,
}

struct CreateMachine {
    order: Order,
    /// Creating what exists is an error, as in most clouds, unless handled.
    tolerates_existing: bool,
}

impl CreateMachine {
    fn create(&self, world: &World, kind: &str, name: &str) -> Result<(), String> {
        match world.cloud.borrow_mut().insert(format!("{kind}/{name}")) || self.tolerates_existing {
            true => Ok(()),
            false => Err(format!("{kind}/{name} already exists")),
        }
    }
}

/// The workflow's own error, which can hold an interruption like any other failure.
#[derive(Debug)]
#[allow(dead_code, reason = "read through Debug")]
struct Failed(String);

impl From<Interrupted> for Failed {
    fn from(e: Interrupted) -> Failed {
        Failed(e.to_string())
    }
}

impl Workflow for CreateMachine {
    type World = World;
    type Running = Option<String>;
    type Observed = Observed;
    type Error = Failed;

    fn steps(&self) -> Vec<String> {
        ["create disk", "create machine"].map(String::from).to_vec()
    }

    fn new_world(&self) -> World {
        World { cloud: RefCell::default(), database: RefCell::default(), chance: TestWorld::new(1) }
    }

    async fn start(&self, world: &World) -> Result<Option<String>, Failed> {
        Ok(world.database.borrow().get("name").cloned())
    }

    async fn run_step(
        &self,
        world: &World,
        name: &mut Option<String>,
        step: usize,
        probe: &Probe,
    ) -> Result<(), Failed> {
        let name = name.get_or_insert_with(|| format!("m-{}", world.chance.random.uuid())).clone();
        let persist = || world.database.borrow_mut().insert("name", name.clone());
        let kind = ["disk", "machine"][step];
        if self.order == Order::PersistThenAct {
            persist();
            probe.at("name written").await?;
        }
        self.create(world, kind, &name).map_err(Failed)?;
        probe.at("created in the cloud").await?;
        persist();
        Ok(())
    }

    async fn observe(&self, world: &World) -> Observed {
        let known = world.database.borrow().get("name").cloned().unwrap_or_default();
        let cloud = world.cloud.borrow();
        Observed {
            resources: cloud.iter().filter_map(|r| r.split('/').next()).map(String::from).collect(),
            every_resource_is_known: cloud.iter().all(|r| r.ends_with(&known)),
        }
    }

    fn can_abandon(&self) -> bool {
        true
    }

    async fn abandon(&self, world: &World, name: &mut Option<String>) -> Result<(), Failed> {
        if let Some(name) = name {
            world.cloud.borrow_mut().retain(|r| !r.ends_with(name.as_str()));
        }
        world.database.borrow_mut().clear();
        Ok(())
    }
}

#[tokio::test]
async fn writing_down_before_acting_survives_everything() {
    let good = CreateMachine { order: Order::PersistThenAct, tolerates_existing: true };
    let survived = assert_robust(&good).await;
    // Two edges and two named points per step; per point fail and crash, each going on and abandoning.
    assert_eq!(survived.points.len(), 8, "{:?}", survived.points);
    assert_eq!(survived.scenarios, 1 + 2 + 1 + 1 + 8 * 4);
    assert!(survived.points.contains(&"create machine: name written".to_owned()));
}

#[tokio::test]
async fn acting_before_writing_down_is_caught_as_a_leftover() {
    let bad = CreateMachine { order: Order::ActThenPersist, tolerates_existing: true };
    let broken = check(&bad).await.unwrap_err();
    let attacks: Vec<_> = broken.findings.iter().map(|f| f.attack.as_str()).collect();
    assert_eq!(
        attacks,
        [
            "crash at \"create disk: created in the cloud\", then go on",
            "crash at \"create disk: created in the cloud\", then abandon"
        ],
        "the bug and nothing but the bug"
    );
    assert!(broken.to_string().contains("+        \"disk\","), "the leftover is in the report: {broken}");
}

#[tokio::test]
async fn a_step_that_cannot_run_twice_is_caught() {
    let bad = CreateMachine { order: Order::PersistThenAct, tolerates_existing: false };
    let report = check(&bad).await.unwrap_err().to_string();
    assert!(report.contains("run step \"create disk\" twice"), "{report}");
    assert!(report.contains("keeps failing on retry") && report.contains("already exists"), "{report}");
}

/// Counts instead of setting: the end state drifts with every repetition.
struct Counter {
    swallows: bool,
    plain_run_fails: bool,
    runs: Cell<u32>,
}

impl Workflow for Counter {
    type World = Cell<u32>;
    type Running = ();
    type Observed = u32;
    type Error = Interrupted;

    fn steps(&self) -> Vec<String> {
        vec!["add".into()]
    }
    fn new_world(&self) -> Cell<u32> {
        Cell::new(0)
    }
    async fn start(&self, _: &Cell<u32>) -> Result<(), Interrupted> {
        Ok(())
    }
    async fn run_step(
        &self,
        world: &Cell<u32>,
        _: &mut (),
        _: usize,
        probe: &Probe,
    ) -> Result<(), Interrupted> {
        self.runs.set(self.runs.get() + 1);
        if self.plain_run_fails {
            return Err(Interrupted { point: "always".into() });
        }
        if !self.swallows {
            world.set(world.get() + 1);
        } else if probe.at("before").await.is_ok() {
            // A failure reported as success: the effect never happens and nobody retries.
            world.set(1);
        }
        Ok(())
    }
    async fn observe(&self, world: &Cell<u32>) -> u32 {
        world.get()
    }
}

#[tokio::test]
async fn drift_swallowed_failures_and_broken_workflows_are_caught() {
    let counter = |swallows, plain_run_fails| Counter { swallows, plain_run_fails, runs: Cell::new(0) };
    let drift = check(&counter(false, false)).await.unwrap_err().to_string();
    assert!(drift.contains("run step \"add\" twice") && drift.contains("-1\n    +2"), "{drift}");

    let swallowed = check(&counter(true, false)).await.unwrap_err();
    assert_eq!(swallowed.findings.len(), 1, "{swallowed}");
    assert_eq!(swallowed.findings[0].attack, "fail at \"add: before\", then go on");

    let never = counter(false, true);
    let broken = check(&never).await.unwrap_err();
    assert_eq!((broken.findings.len(), never.runs.get()), (1, 1), "{broken}");
}
