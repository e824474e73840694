//! What benchmarks have in common: figures with a target, and what the kernel says of the process.

use serde_json::{Value, json};
use std::io::Write as _;
use std::path::Path;

/// Something measured. Less is better.
pub struct Figure {
    pub name: String,
    pub unit: &'static str,
    pub value: f64,
    pub target: f64,
}

/// A table for people on standard error, JSON for machines on standard output and, if given, in `file`.
pub fn report(bench: &str, figures: &[Figure], file: Option<&Path>) -> std::io::Result<()> {
    let mut table = String::from("| | measured | target | |\n|---|---|---|---|\n");
    let mut rows: Vec<Value> = Vec::new();
    for Figure { name, unit, value, target } in figures {
        let met = value <= target;
        let verdict = if met { "met" } else { "**missed**" };
        table.push_str(&format!("| {name} | {value:.3} {unit} | ≤ {target} {unit} | {verdict} |\n"));
        let value = (value * 1000.0).round() / 1000.0;
        rows.push(json!({"name": name, "unit": unit, "value": value, "target": target, "met": met}));
    }
    std::io::stderr().write_all(table.as_bytes())?;
    let text = format!("{:#}\n", json!({"bench": bench, "figures": rows}));
    if let Some(file) = file {
        std::fs::write(file, &text)?;
    }
    std::io::stdout().write_all(text.as_bytes())
}

/// Gives up huge pages, as servers do that stay small (`zaffre::pages`).
pub fn small_pages() {
    let _ = rustix::thread::disable_transparent_huge_pages(true);
}

/// Resident memory of this process.
pub fn resident_kib() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|l| l.starts_with("VmRSS:")).unwrap_or_default();
    line.split_whitespace().nth(1).and_then(|n| n.parse().ok()).unwrap_or(0.0)
}

/// CPU time of all threads of this process.
pub fn cpu_seconds() -> f64 {
    let spent = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    spent.tv_sec as f64 + spent.tv_nsec as f64 / 1e9
}
