//! Numbers for dashboards, in the Prometheus text format.
//!
//! A registry of a page: families are constants, labels are classes (a controller, a kind, a result), never names of
//! objects. Names are those that dashboards for controllers already know. `ek-server` has counters of its own; it is a
//! world below this crate, so neither can use the other's, and both are a few lines.

use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::Arc;

/// A family of series: name, meaning, labels.
#[derive(Debug)]
pub struct Family {
    pub name: &'static str,
    pub help: &'static str,
    pub labels: &'static [&'static str],
    pub sort: Sort,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sort {
    Counter,
    Gauge,
    /// Of seconds.
    Histogram,
}

const fn family(
    name: &'static str,
    help: &'static str,
    labels: &'static [&'static str],
    sort: Sort,
) -> Family {
    Family { name, help, labels, sort }
}

pub static RECONCILES: Family = family(
    "controller_runtime_reconcile_total",
    "Reconciles by controller and result (success, requeue_after, waiting, error, panic, timeout).",
    &["controller", "result"],
    Sort::Counter,
);
pub static RECONCILE_SECONDS: Family = family(
    "controller_runtime_reconcile_time_seconds",
    "How long reconciles take.",
    &["controller"],
    Sort::Histogram,
);
pub static ACTIVE: Family =
    family("controller_runtime_active_workers", "Reconciles under way.", &["controller"], Sort::Gauge);
pub static DEPTH: Family =
    family("workqueue_depth", "Keys that wait to be reconciled now.", &["name"], Sort::Gauge);
pub static APPLIES: Family = family(
    "reconcile_applies_total",
    "Desired objects by field manager and what it took (skipped: no request).",
    &["manager", "result"],
    Sort::Counter,
);
pub static WATCH_RESTARTS: Family = family(
    "reconcile_watch_restarts_total",
    "Watches that had to begin anew, by kind.",
    &["kind"],
    Sort::Counter,
);
pub static LEADER: Family =
    family("leader_election_master_status", "Whether this process leads.", &["name"], Sort::Gauge);

const BOUNDS: [f64; 12] = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.5, 1.0, 5.0, 30.0, 120.0];

#[derive(Clone, Debug)]
enum Series {
    Number(i64),
    Histogram { buckets: [u64; BOUNDS.len()], count: u64, sum: f64 },
}

#[derive(Default)]
struct Known {
    help: &'static str,
    sort: Option<Sort>,
    labels: &'static [&'static str],
    series: BTreeMap<Vec<String>, Series>,
}

/// A registry; clones are the same.
#[derive(Clone, Default)]
pub struct Metrics(Arc<Mutex<BTreeMap<&'static str, Known>>>);

impl Metrics {
    pub fn count(&self, family: &'static Family, labels: &[&str]) {
        self.with(family, labels, |s| {
            if let Series::Number(n) = s {
                *n = n.saturating_add(1);
            }
        });
    }

    pub fn set(&self, family: &'static Family, labels: &[&str], value: i64) {
        self.with(family, labels, |s| *s = Series::Number(value));
    }

    pub fn observe(&self, family: &'static Family, labels: &[&str], seconds: f64) {
        self.with(family, labels, |s| {
            if let Series::Histogram { buckets, count, sum } = s {
                *count += 1;
                *sum += seconds;
                for (bucket, bound) in buckets.iter_mut().zip(BOUNDS) {
                    *bucket += u64::from(seconds <= bound);
                }
            }
        });
    }

    fn with(&self, family: &'static Family, labels: &[&str], change: impl FnOnce(&mut Series)) {
        let mut all = self.0.lock();
        let known = all.entry(family.name).or_insert_with(|| Known {
            help: family.help,
            sort: Some(family.sort),
            labels: family.labels,
            series: BTreeMap::new(),
        });
        let key: Vec<String> = labels.iter().map(|l| (*l).to_owned()).collect();
        change(known.series.entry(key).or_insert_with(|| match family.sort {
            Sort::Histogram => Series::Histogram { buckets: [0; BOUNDS.len()], count: 0, sum: 0.0 },
            Sort::Counter | Sort::Gauge => Series::Number(0),
        }));
    }

    /// The number of a counter or gauge, or how often a histogram was told; 0 if never.
    pub fn value(&self, family: &'static Family, labels: &[&str]) -> i64 {
        let all = self.0.lock();
        let key: Vec<String> = labels.iter().map(|l| (*l).to_owned()).collect();
        match all.get(family.name).and_then(|k| k.series.get(&key)) {
            Some(Series::Number(n)) => *n,
            Some(Series::Histogram { count, .. }) => i64::try_from(*count).unwrap_or(i64::MAX),
            None => 0,
        }
    }

    /// Everything, in the text format, in order of name and labels.
    pub fn text(&self) -> String {
        let mut out = String::new();
        for (name, known) in self.0.lock().iter() {
            let sort = match known.sort {
                Some(Sort::Histogram) => "histogram",
                Some(Sort::Gauge) => "gauge",
                Some(Sort::Counter) | None => "counter",
            };
            let _ = writeln!(out, "# HELP {name} {}\n# TYPE {name} {sort}", known.help);
            for (values, series) in &known.series {
                let labels: Vec<String> =
                    known.labels.iter().zip(values).map(|(k, v)| format!("{k}=\"{}\"", escaped(v))).collect();
                let labels = labels.join(",");
                match series {
                    Series::Number(n) => {
                        let _ = writeln!(out, "{name}{{{labels}}} {n}");
                    }
                    Series::Histogram { buckets, count, sum } => {
                        for (bucket, bound) in buckets.iter().zip(BOUNDS) {
                            let _ = writeln!(out, "{name}_bucket{{{labels},le=\"{bound}\"}} {bucket}");
                        }
                        let _ = writeln!(out, "{name}_bucket{{{labels},le=\"+Inf\"}} {count}");
                        let _ =
                            writeln!(out, "{name}_sum{{{labels}}} {sum}\n{name}_count{{{labels}}} {count}");
                    }
                }
            }
        }
        out
    }
}

fn escaped(v: &str) -> String {
    v.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_is_what_prometheus_reads() {
        let m = Metrics::default();
        m.count(&RECONCILES, &["b", "error"]);
        m.count(&RECONCILES, &["a\"", "success"]);
        m.count(&RECONCILES, &["a\"", "success"]);
        m.set(&DEPTH, &["a"], 3);
        m.observe(&RECONCILE_SECONDS, &["a"], 0.004);
        m.observe(&RECONCILE_SECONDS, &["a"], 500.0);
        let text = m.text();
        assert!(
            text.contains("controller_runtime_reconcile_total{controller=\"a\\\"\",result=\"success\"} 2\n")
        );
        assert!(text.contains("# TYPE workqueue_depth gauge\nworkqueue_depth{name=\"a\"} 3\n"));
        assert!(text.contains("_bucket{controller=\"a\",le=\"0.0025\"} 0\n"));
        assert!(text.contains("_bucket{controller=\"a\",le=\"0.005\"} 1\n"));
        assert!(text.contains("_bucket{controller=\"a\",le=\"+Inf\"} 2\n"));
        assert!(text.contains("_count{controller=\"a\"} 2\n"));
    }
}
