//! The scenarios, and what is said when one ends elsewhere than the clean run.

use super::probe::{Attack, Interrupted, Point, Probe};
use super::{Broken, Finding, Survived, Workflow};

/// How often one step may fail in a row. The attack fails once, so needing more means it does not recover.
const ATTEMPTS: usize = 3;

/// How a run of the steps went.
enum Ran<E> {
    Done,
    Failed { step: usize, error: E },
    Died,
}

pub(super) struct Campaign<'a, W: Workflow> {
    workflow: &'a W,
    steps: Vec<String>,
    scenarios: usize,
    findings: Vec<Finding>,
    missed: Vec<String>,
}

impl<'a, W: Workflow> Campaign<'a, W> {
    pub(super) fn new(workflow: &'a W) -> Campaign<'a, W> {
        Campaign { workflow, steps: workflow.steps(), scenarios: 0, findings: Vec::new(), missed: Vec::new() }
    }

    pub(super) async fn run(mut self) -> Result<Survived, Broken> {
        let pristine = self.workflow.observe(&self.workflow.new_world()).await;
        let probe = Probe::default();
        let clean = match self.repeat(&probe, |_| 1, 1).await {
            Ok(clean) => clean,
            Err(outcome) => {
                // Nothing else means anything when the plain run does not work.
                self.judge("run it plainly".into(), Err(outcome), &pristine);
                return Err(Broken { scenarios: self.scenarios, findings: self.findings });
            }
        };
        let points = probe.met();

        let again = self.repeat(&Probe::default(), |_| 1, 1).await;
        self.judge("run it plainly in a second world (is `observe` free of chance?)".into(), again, &clean);
        for (i, step) in self.steps.clone().into_iter().enumerate() {
            let twice = self.repeat(&Probe::default(), |step| if step == i { 2 } else { 1 }, 1).await;
            self.judge(format!("run step {step:?} twice"), twice, &clean);
        }
        let twice = self.repeat(&Probe::default(), |_| 2, 1).await;
        self.judge("run every step twice".into(), twice, &clean);
        let twice = self.repeat(&Probe::default(), |_| 1, 2).await;
        self.judge("run the whole workflow twice".into(), twice, &clean);

        for at in &points {
            let point = &at.name;
            for (attack, verb) in [(Attack::Fail, "fail"), (Attack::Crash, "crash")] {
                let outcome = self.interrupted(at, attack).await;
                self.judge(format!("{verb} at {point:?}, then go on"), outcome, &clean);
                if self.workflow.can_abandon() {
                    let outcome = self.abandoned(at, attack).await;
                    self.judge(format!("{verb} at {point:?}, then abandon"), outcome, &pristine);
                }
            }
        }
        match self.findings.is_empty() {
            true => Ok(Survived {
                scenarios: self.scenarios,
                points: points.into_iter().map(|p| p.name).collect(),
                missed: self.missed,
            }),
            false => Err(Broken { scenarios: self.scenarios, findings: self.findings }),
        }
    }

    fn judge(&mut self, attack: String, outcome: Result<W::Observed, String>, want: &W::Observed) {
        self.scenarios += 1;
        let outcome = match outcome {
            Ok(got) if got == *want => return,
            Ok(got) => difference(want, &got),
            Err(outcome) => outcome,
        };
        self.findings.push(Finding { attack, outcome });
    }

    /// Runs the whole workflow `rounds` times in one world, each step as often as asked.
    async fn repeat(
        &self,
        probe: &Probe,
        times: impl Fn(usize) -> usize,
        rounds: usize,
    ) -> Result<W::Observed, String> {
        let world = self.workflow.new_world();
        let mut running = self.start(&world).await?;
        for _ in 0..rounds {
            for step in 0..self.steps.len() {
                for time in 0..times(step) {
                    self.step(&world, &mut running, step, probe).await.unwrap_or(Ok(())).map_err(|e| {
                        let ordinal = ["first", "second"].get(time).copied().unwrap_or("later");
                        format!("step {:?} failed the {ordinal} time: {e:?}", self.steps[step])
                    })?;
                }
            }
        }
        Ok(self.workflow.observe(&world).await)
    }

    /// Interrupts once, then retries (after a failure) or starts anew (after a crash) until done.
    async fn interrupted(&mut self, at: &Point, attack: Attack) -> Result<W::Observed, String> {
        let world = self.workflow.new_world();
        let mut running = self.start(&world).await?;
        let probe = Probe::armed(at.clone(), attack);
        let (mut from, mut attempts) = (0, 0);
        loop {
            match self.steps_from(&world, &mut running, from, &probe).await {
                Ran::Done if probe.is_armed() && !self.workflow.repeatable() => {
                    self.missed.push(at.name.clone());
                    return Ok(self.workflow.observe(&world).await);
                }
                Ran::Done if probe.is_armed() => {
                    return Err("the point was not met again: the clean run is not repeatable".into());
                }
                Ran::Done => return Ok(self.workflow.observe(&world).await),
                Ran::Failed { step, error } => {
                    attempts += 1;
                    if attempts > ATTEMPTS {
                        return Err(format!("step {:?} keeps failing on retry: {error:?}", self.steps[step]));
                    }
                    from = step;
                }
                Ran::Died => {
                    running = self.start(&world).await?;
                    from = self.workflow.resume_at(&running);
                }
            }
        }
    }

    /// Interrupts once, then abandons, twice.
    async fn abandoned(&self, at: &Point, attack: Attack) -> Result<W::Observed, String> {
        let world = self.workflow.new_world();
        let mut running = self.start(&world).await?;
        let probe = Probe::armed(at.clone(), attack);
        if let Ran::Died = self.steps_from(&world, &mut running, 0, &probe).await {
            running = self.start(&world).await?;
        }
        for time in ["first", "second"] {
            let abandoned = self.workflow.abandon(&world, &mut running).await;
            abandoned.map_err(|e| format!("abandoning failed the {time} time: {e:?}"))?;
        }
        Ok(self.workflow.observe(&world).await)
    }

    async fn start(&self, world: &W::World) -> Result<W::Running, String> {
        self.workflow.start(world).await.map_err(|e| format!("it does not start from this world: {e:?}"))
    }

    async fn steps_from(
        &self,
        world: &W::World,
        running: &mut W::Running,
        from: usize,
        probe: &Probe,
    ) -> Ran<W::Error> {
        for step in from..self.steps.len() {
            match self.step(world, running, step, probe).await {
                Some(Ok(())) => {}
                Some(Err(error)) => return Ran::Failed { step, error },
                None => return Ran::Died,
            }
        }
        Ran::Done
    }

    /// One step between its two edges; `None` when the process died in it.
    async fn step(
        &self,
        world: &W::World,
        running: &mut W::Running,
        step: usize,
        probe: &Probe,
    ) -> Option<Result<(), W::Error>> {
        probe.enter(&self.steps[step]);
        let edges = async {
            probe.at("begin").await.map_err(|e: Interrupted| W::Error::from(e))?;
            self.workflow.run_step(world, running, step, probe).await?;
            probe.at("end").await.map_err(W::Error::from)
        };
        probe.alive(edges).await
    }
}

/// The two end states as a diff of their pretty debug form, where a leftover is one line.
fn difference<T: std::fmt::Debug>(want: &T, got: &T) -> String {
    let diff = crate::golden::diff(&format!("{want:#?}\n"), &format!("{got:#?}\n"));
    let body = diff.lines().skip(2).collect::<Vec<_>>().join("\n    ");
    format!("ends elsewhere (- clean run, + this run):\n    {body}")
}
