//! `cargo xtask bench prereqs`: how close making and destroying a landing zone comes to the longest chain of its graph.
//!
//! The simulator takes the times that Azure was measured to take, on a clock that runs faster; what is reported is
//! Azure's time. The critical path is computed from the times that the steps of the same run took, so it is what this
//! run could have reached with everything else for nothing: looking, checking rights, starting late. One by one is
//! another run in another simulator with the same seed: the calls that step-by-step tools make, in their order
//! (`one_by_one`).
//!
//! How much faster than one by one it can be at all is bounded by the graph: zone and link are the longest chain and
//! take more than a third of everything.

mod one_by_one;

use anyhow::{Context, ensure};
use arm::ResourceId;
use azure::plan::{Plan, Step};
use azure::{Client, ClientOptions, Env, connect};
use azure_sim::{AzureSim, Config, Profile};
use clap::Parser;
use landing_zone::destroy::{self, Destroy};
use landing_zone::iam::Iam;
use landing_zone::identities::Identities;
use landing_zone::infra::Infra;
use landing_zone::roles::Assign;
use landing_zone::run::{Options, Progress, create_iam, create_infra};
use landing_zone::{Cluster, MadeBy, times};
use parking_lot::Mutex;
use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;
use std::time::{Duration, Instant};
use testkit::bench::{Figure, report};

#[derive(Debug, Parser)]
#[command(about = "Measures how fast Azure prerequisites are made")]
struct Args {
    /// Write the figures as JSON here as well as to standard output
    #[arg(long)]
    json: Option<PathBuf>,
    /// How many times as fast as Azure the simulator's clock runs
    #[arg(long, default_value_t = 20.0)]
    clock: f64,
}

/// What each step of a run took.
#[derive(Default)]
struct Stopwatch {
    begun: Mutex<HashMap<ResourceId, Instant>>,
    took: Mutex<HashMap<ResourceId, Duration>>,
}

impl Stopwatch {
    fn tell(&self, p: &Progress<'_>) {
        match p {
            Progress::Started(s) => drop(self.begun.lock().insert(s.id.clone(), Instant::now())),
            Progress::Finished(s, _) => {
                if let Some(begun) = self.begun.lock().remove(&s.id) {
                    self.took.lock().insert(s.id.clone(), begun.elapsed());
                }
            }
            Progress::Planned(_) | Progress::Waiting { .. } | Progress::Extra(_) => {}
        }
    }

    fn of(&self, step: &Step) -> Duration {
        self.took.lock().get(&step.id).copied().unwrap_or_default()
    }

    /// The longest chain, and all of it one after the other.
    fn sums(&self, plan: &Plan) -> (Duration, Duration) {
        (times::critical_path(plan, |s| self.of(s)), plan.steps.iter().map(|s| self.of(s)).sum())
    }
}

#[derive(Default)]
struct Measured {
    took: Duration,
    critical: Duration,
    each: Duration,
}

impl Measured {
    fn add(&mut self, began: Instant, watch: &Stopwatch, plan: &Plan) {
        let (critical, each) = watch.sums(plan);
        self.took += began.elapsed();
        self.critical += critical;
        self.each += each;
    }

    fn say(&self, what: &str, clock: f64) {
        let s = |d: Duration| d.as_secs_f64() * clock;
        eprintln!(
            "{what}: {:.0} s of Azure's, critical path {:.0} s, its steps one after the other {:.0} s.",
            s(self.took),
            s(self.critical),
            s(self.each)
        );
    }

    fn ratio(&self) -> f64 {
        self.took.as_secs_f64() / self.critical.as_secs_f64()
    }
}

fn main() -> anyhow::Result<()> {
    let args = Args::parse();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let figures = runtime.block_on(measure(args.clock))?;
    Ok(report("prereqs", &figures, args.json.as_deref())?)
}

fn inputs(subscription: &ResourceId) -> anyhow::Result<(Iam, Infra)> {
    let cluster = Cluster::new("bench", "bench-x2b4c")?;
    let iam = Iam {
        cluster: cluster.clone(),
        subscription: subscription.clone(),
        group: "bench-identities".to_owned(),
        location: "westus2".to_owned(),
        issuer: "https://issuer.example.test/bench".to_owned(),
        kms: true,
        adopt: false,
    };
    let infra = Infra {
        cluster,
        subscription: subscription.clone(),
        location: "westus2".to_owned(),
        base_domain: "example.zaffre.test".to_owned(),
        group: None,
        tags: BTreeMap::new(),
        vnet: None,
        subnet: None,
        security_group: None,
        // Known when the identities are there.
        identities: Identities::Workload(landing_zone::identities::WorkloadIdentities::default()),
        assign: Some(Assign { custom: false, dns_group: "zaffre-dns".to_owned(), image_registry: true }),
        nat_subnet: None,
        adopt: false,
    };
    Ok((iam, infra))
}

/// Its own Azure, always the same one.
struct Lab {
    sim: AzureSim,
    client: Client,
    subscription: ResourceId,
    _dir: tempfile::TempDir,
}

async fn lab(clock: f64) -> anyhow::Result<Lab> {
    let dir = tempfile::tempdir()?;
    let ca_file = Some(dir.path().join("ca.pem"));
    let config = Config { profile: Profile::Real, scale: Some(clock), ca_file, ..Config::local(1) };
    let sim = AzureSim::start(config).await?;
    let connected = connect(&Env::parse(&sim.env()), ClientOptions::default()).await?;
    let subscription = ResourceId::subscription_scope(&connected.subscription.context("no subscription")?)?;
    Ok(Lab { sim, client: connected.client, subscription, _dir: dir })
}

async fn measure(clock: f64) -> anyhow::Result<Vec<Figure>> {
    let other = lab(clock).await?;
    let (iam, infra) = inputs(&other.subscription)?;
    let slow = one_by_one::run(&other.client, &iam, infra).await?;
    drop(other);
    let Lab { sim, client, subscription, _dir } = lab(clock).await?;
    let (iam, mut infra) = inputs(&subscription)?;
    let options = Options::default();

    let mut made = Measured::default();
    let (watch, began) = (Stopwatch::default(), Instant::now());
    let (outcome, ids) = create_iam(&client, &iam, options, &|p| watch.tell(&p)).await?;
    made.add(began, &watch, &outcome.plan);
    infra.identities = Identities::Workload(ids.context("not all identities were made")?);
    let mut resources = outcome.plan.steps.len();
    let (watch, began) = (Stopwatch::default(), Instant::now());
    let (outcome, _) = create_infra(&client, &infra, options, &|p| watch.tell(&p)).await?;
    made.add(began, &watch, &outcome.plan);
    ensure!(outcome.is_good(), "{:?}", outcome.report.failures().next());
    resources += outcome.plan.steps.len();

    let before = sim.world().journal().len();
    create_iam(&client, &iam, options, &|_| {}).await?;
    create_infra(&client, &infra, options, &|_| {}).await?;
    let again = sim.world().journal();
    let again = again.iter().skip(before).filter(|c| !c.path.contains("/oauth2/"));
    let (reads, writes): (Vec<_>, Vec<_>) = again.partition(|c| c.method == "GET");

    let mut gone = Measured::default();
    for by in [MadeBy::Infra, MadeBy::Iam] {
        let (cluster, subscription) = (iam.cluster.clone(), subscription.clone());
        let d = Destroy { cluster, subscription, by, group: None, preserve: false };
        let (watch, began) = (Stopwatch::default(), Instant::now());
        let outcome = destroy::destroy(&client, &d, options, &|p| watch.tell(&p)).await?.outcome;
        gone.add(began, &watch, &outcome.plan);
        ensure!(outcome.is_good(), "{:?}", outcome.report.failures().next());
    }
    let left = sim.world().leaks()["value"].as_array().map_or(0, Vec::len);
    let figure = |name: &str, unit, value, target| Figure { name: name.to_owned(), unit, value, target };
    // For orientation, without a target: it is the seed's draw of Azure's times.
    made.say("create iam and infra", clock);
    gone.say("destroy both", clock);
    let (slow, took) = (slow.as_secs_f64(), made.took.as_secs_f64());
    eprintln!(
        "created one by one: {:.0} s, so {:.1} times as long; the graph allows no more than {:.1} times.\n",
        slow * clock,
        slow / took,
        slow / made.critical.as_secs_f64()
    );
    Ok(vec![
        figure("create / critical path", "", made.ratio(), 1.15),
        figure("create / one by one", "", took / slow, 0.334),
        figure("second run: reads per resource", "", reads.len() as f64 / resources as f64, 1.0),
        figure("second run: writes", "", writes.len() as f64, 0.0),
        figure("destroy / critical path", "", gone.ratio(), 1.15),
        figure("resources left", "", left as f64, 0.0),
    ])
}
