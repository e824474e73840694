//! Three unfair questions for every multi-step workflow.
//!
//! A workflow here is an ordered list of steps against a world that outlives the process: rows, cloud
//! resources, objects in a cluster. Whoever writes one thinks of the run where every step works. [`check`]
//! thinks of the others, all of them, and compares where each ends up with where the clean run ended:
//!
//! 1. **twice**: every step alone, and then the whole workflow, runs a second time;
//! 2. **failure**: at every point in turn the workflow is told "that failed" and retries. A point *before* an
//!    effect is an ordinary failure; a point *after* it is a lost response, the kind people forget;
//! 3. **crash**: at every point in turn the process dies. What was in memory is gone, the workflow is
//!    [started](Workflow::start) again from the world alone and runs on. The future is dropped mid-step, so no
//!    line after the point executes; this is where "act, then write down that you acted" loses things.
//!
//! A workflow that can be [abandoned](Workflow::can_abandon) is also abandoned after each failure and each
//! crash, and must leave the world as it found it.
//!
//! Points are the edges of every step, and whatever a step names with [`Probe::at`] between two of its own
//! effects. Naming them is the only thing asked of the workflow under test, and costs one line each:
//! `probe.at("row written").await?`. The clean run discovers them, so a new point is attacked without anyone
//! listing it.
//!
//! What [`Workflow::observe`] returns must hold *everything* that could be left over, not only what the
//! workflow is proud of: a leaked disk that nobody looks for is never found. It must also be the same for two
//! clean runs, so random parts belong behind a [`crate::TestWorld`] seed or a [`crate::Normalizer`].
//!
//! Steps must not spawn tasks that outlive them: such a task survives the simulated crash, as it would not
//! survive a real one.
//!
//! ```
//! use testkit::adversarial::{check, Interrupted, Probe, Workflow};
//! use std::cell::RefCell;
//! use std::collections::BTreeSet;
//!
//! /// Puts two names into a set: idempotent by nature.
//! struct TwoNames;
//!
//! impl Workflow for TwoNames {
//!     type World = RefCell<BTreeSet<&'static str>>;
//!     type Running = ();
//!     type Observed = BTreeSet<&'static str>;
//!     type Error = Interrupted;
//!
//!     fn steps(&self) -> Vec<String> { vec!["disk".into(), "machine".into()] }
//!     fn new_world(&self) -> Self::World { RefCell::default() }
//!     async fn start(&self, _: &Self::World) -> Result<(), Interrupted> { Ok(()) }
//!     async fn run_step(&self, world: &Self::World, _: &mut (), step: usize, probe: &Probe) -> Result<(), Interrupted> {
//!         world.borrow_mut().insert(if step == 0 { "disk" } else { "machine" });
//!         probe.at("created").await
//!     }
//!     async fn observe(&self, world: &Self::World) -> Self::Observed { world.borrow().clone() }
//! }
//!
//! # let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
//! # runtime.block_on(async {
//! let survived = check(&TwoNames).await.unwrap();
//! assert!(survived.scenarios > 10);
//! # });
//! ```

mod probe;
mod scenario;

pub use probe::{Interrupted, Probe};

use std::fmt::Debug;

/// Something to be attacked. See the module for what each part must promise.
#[allow(
    async_fn_in_trait,
    reason = "scenarios run one after another in the test's own task; Send buys nothing"
)]
pub trait Workflow {
    /// What survives a crash.
    type World;
    /// What does not.
    type Running;
    /// The end state, leftovers included.
    type Observed: PartialEq + Debug;
    type Error: From<Interrupted> + Debug;

    /// Names of the steps, in order.
    fn steps(&self) -> Vec<String>;

    /// A fresh world; every scenario gets its own.
    fn new_world(&self) -> Self::World;

    /// Begins, or after a crash begins again, knowing only the world.
    async fn start(&self, world: &Self::World) -> Result<Self::Running, Self::Error>;

    /// Does one step.
    async fn run_step(
        &self,
        world: &Self::World,
        running: &mut Self::Running,
        step: usize,
        probe: &Probe,
    ) -> Result<(), Self::Error>;

    /// Everything there is to see in the world.
    async fn observe(&self, world: &Self::World) -> Self::Observed;

    /// Where to go on after a crash. The default is the beginning, which is what a reconciler does; a saga that
    /// writes down how far it got answers from what it read in [`Workflow::start`].
    fn resume_at(&self, _running: &Self::Running) -> usize {
        0
    }

    /// Whether every clean run meets the same points. One whose parts run side by side may say no: then an
    /// attack on a point that a run does not meet counts as [missed](Survived::missed), not as a finding.
    fn repeatable(&self) -> bool {
        true
    }

    /// Whether [`Workflow::abandon`] is implemented.
    fn can_abandon(&self) -> bool {
        false
    }

    /// Gives up and takes back what was done so far. Runs twice in every scenario that uses it.
    async fn abandon(&self, _world: &Self::World, _running: &mut Self::Running) -> Result<(), Self::Error> {
        Ok(())
    }
}

/// What was tried when nothing broke.
#[derive(Debug)]
pub struct Survived {
    pub scenarios: usize,
    /// The points of the clean run, in the order met.
    pub points: Vec<String>,
    /// Points that an attacked run did not meet, once per attack.
    pub missed: Vec<String>,
}

/// One way in which the workflow broke.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// What was done to it, such as `crash at "create machine: machine created"`.
    pub attack: String,
    /// What came of it.
    pub outcome: String,
}

/// Everything that was found.
#[derive(Debug, thiserror::Error)]
#[error("{} of {scenarios} attacks succeeded:\n{}", .findings.len(), report(.findings))]
pub struct Broken {
    pub scenarios: usize,
    pub findings: Vec<Finding>,
}

fn report(findings: &[Finding]) -> String {
    findings.iter().map(|f| format!("- {}\n    {}", f.attack, f.outcome)).collect::<Vec<_>>().join("\n")
}

/// Attacks the workflow in every way the module describes.
pub async fn check<W: Workflow>(workflow: &W) -> Result<Survived, Broken> {
    scenario::Campaign::new(workflow).run().await
}

/// [`check`] as an assertion.
pub async fn assert_robust<W: Workflow>(workflow: &W) -> Survived {
    match check(workflow).await {
        Ok(survived) => survived,
        Err(broken) => crate::fail(&broken.to_string()),
    }
}
