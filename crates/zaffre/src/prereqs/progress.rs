//! What is going on: bars on a terminal, lines elsewhere, events for scripts.

use crate::cli::prereqs::{How, Shown};
use crate::output;
use azure::plan::{Action, Plan, Step, StepResult};
use indicatif::{MultiProgress, ProgressBar, ProgressStyle};
use landing_zone::run::Progress as Event;
use landing_zone::times;
use serde_json::json;
use std::collections::HashMap;
use std::io::IsTerminal;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

#[derive(Clone, Copy, PartialEq, Eq)]
enum Mode {
    Silent,
    Lines,
    Bars,
    /// For programs.
    Events(Shown),
}

struct Bars {
    all: MultiProgress,
    overall: ProgressBar,
    running: HashMap<String, ProgressBar>,
}

struct State {
    begun: Instant,
    started: HashMap<String, Instant>,
    total: usize,
    done: usize,
    expected: Duration,
    bars: Option<Bars>,
}

pub struct Progress {
    mode: Mode,
    state: Mutex<State>,
}

fn style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar())
}

/// The end of an id: enough to know what is meant.
fn short(step: &Step) -> String {
    let kind = step.id.resource_type();
    let word = kind.as_str().rsplit('/').next().unwrap_or_default().to_owned();
    format!("{word} {}", step.id.name())
}

fn verb(a: &Action) -> &'static str {
    match a {
        Action::Create { .. } => "create",
        Action::Change { .. } => "change",
        Action::Delete => "delete",
        Action::Keep | Action::Await => "await",
    }
}

fn result(r: &StepResult) -> &'static str {
    match r {
        StepResult::Created => "created",
        StepResult::Kept => "kept",
        StepResult::Changed => "changed",
        StepResult::Deleted => "deleted",
        StepResult::Failed(_) => "failed",
        StepResult::Skipped { .. } => "skipped",
    }
}

impl Progress {
    pub fn new(how: &How) -> Progress {
        let mode = match (how.output, how.quiet) {
            (shown @ (Shown::Json | Shown::Yaml), _) => Mode::Events(shown),
            (_, true) => Mode::Silent,
            _ if std::io::stderr().is_terminal() => Mode::Bars,
            _ => Mode::Lines,
        };
        let state = State {
            begun: Instant::now(),
            started: HashMap::new(),
            total: 0,
            done: 0,
            expected: Duration::ZERO,
            bars: None,
        };
        Progress { mode, state: Mutex::new(state) }
    }

    pub fn tell(&self, e: &Event<'_>) {
        let mut s = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        match e {
            Event::Planned(plan) => self.planned(&mut s, plan),
            Event::Started(step) if step.action != Action::Keep => self.started(&mut s, step),
            Event::Finished(step, r) if step.action != Action::Keep => self.finished(&mut s, step, r),
            Event::Waiting { id, why, pause } => match self.mode {
                Mode::Events(shown) => output::event(
                    shown,
                    &json!({"event": "waiting", "id": id, "why": why, "seconds": pause.as_secs_f64()}),
                ),
                Mode::Lines => output::note(&format!("waiting  {id}  ({why})")),
                Mode::Bars => {
                    if let Some(bar) = s.bars.as_ref().and_then(|b| b.running.get(id.as_str())) {
                        bar.set_message(format!("{}  ({why})", id.name()));
                    }
                }
                Mode::Silent => {}
            },
            Event::Extra(e) => match self.mode {
                Mode::Events(shown) => {
                    let event =
                        json!({"event": "finished", "do": e.act, "what": e.what, "result": e.act.done()});
                    output::event(shown, &event);
                }
                Mode::Lines => output::note(&format!("{:<8} {}", e.act.done(), e.what)),
                Mode::Bars => {
                    if let Some(b) = &s.bars {
                        b.overall.set_message(format!("{} {}", e.act.done(), e.what));
                    }
                }
                Mode::Silent => {}
            },
            Event::Started(_) | Event::Finished(..) => {}
        }
    }

    fn planned(&self, s: &mut State, plan: &Plan) {
        s.total = plan.steps.iter().filter(|p| p.action != Action::Keep).count();
        s.done = 0;
        s.begun = Instant::now();
        s.expected = times::expected(plan);
        match self.mode {
            Mode::Events(shown) => output::event(
                shown,
                &json!({"event": "planned", "steps": s.total, "kept": plan.steps.len() - s.total,
                    "expectedSeconds": s.expected.as_secs_f64()}),
            ),
            Mode::Lines if s.total == 0 => output::note("nothing to do: all is as wanted"),
            Mode::Lines => {
                output::note(&format!("{} steps, about {}", s.total, times::words(s.expected)));
            }
            Mode::Bars if s.total > 0 => {
                let all = MultiProgress::new();
                let overall = all.add(ProgressBar::new(s.total as u64));
                overall.set_style(style("[{elapsed}] {bar:30} {pos}/{len}  {msg}"));
                overall.set_message(format!("about {}", times::words(s.expected)));
                overall.enable_steady_tick(Duration::from_millis(250));
                s.bars = Some(Bars { all, overall, running: HashMap::new() });
            }
            Mode::Bars | Mode::Silent => {}
        }
    }

    fn started(&self, s: &mut State, step: &Step) {
        s.started.insert(step.id.to_string(), Instant::now());
        match self.mode {
            Mode::Events(shown) => {
                output::event(shown, &json!({"event": "started", "do": verb(&step.action), "id": step.id}))
            }
            Mode::Bars => {
                if let Some(b) = &mut s.bars {
                    let bar = b.all.insert_before(&b.overall, ProgressBar::new_spinner());
                    bar.set_style(style("  {spinner} {elapsed:>4} {prefix} {msg}"));
                    bar.set_prefix(verb(&step.action));
                    bar.set_message(short(step));
                    bar.enable_steady_tick(Duration::from_millis(250));
                    b.running.insert(step.id.to_string(), bar);
                }
            }
            Mode::Lines | Mode::Silent => {}
        }
    }

    fn finished(&self, s: &mut State, step: &Step, r: &StepResult) {
        s.done += 1;
        let took = s.started.remove(step.id.as_str()).map(|t| t.elapsed()).unwrap_or_default();
        match self.mode {
            Mode::Events(shown) => {
                let mut event = json!({"event": "finished", "do": verb(&step.action), "id": step.id,
                    "result": result(r), "seconds": took.as_secs_f64()});
                if let StepResult::Failed(e) = r {
                    event["code"] = e.code().into();
                    event["message"] = e.to_string().into();
                }
                output::event(shown, &event);
            }
            Mode::Lines => {
                output::note(&format!(
                    "{:<8} {}  ({}/{}, {:.1}s)",
                    result(r),
                    step.id,
                    s.done,
                    s.total,
                    took.as_secs_f64()
                ));
            }
            Mode::Bars => {
                let left = s.expected.saturating_sub(s.begun.elapsed());
                if let Some(b) = &mut s.bars {
                    if let Some(bar) = b.running.remove(step.id.as_str()) {
                        bar.finish_and_clear();
                    }
                    b.overall.set_position(s.done as u64);
                    b.overall.set_message(format!("{} left", times::words(left)));
                }
            }
            Mode::Silent => {}
        }
    }

    /// Clears the bars: what comes now is the result.
    pub fn end(&self) {
        let mut s = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(b) = s.bars.take() {
            b.running.values().for_each(ProgressBar::finish_and_clear);
            b.overall.finish_and_clear();
        }
    }
}
