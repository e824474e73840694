//! Figures for people (a table on standard error) and for machines (JSON on standard output).

use crate::load::Figures;
use serde_json::{Value, json};
use std::path::Path;

pub fn print(ours: &Figures, peer: Option<&Figures>, file: Option<&Path>) -> anyhow::Result<()> {
    eprintln!(
        "| {} | measured | target | |{}",
        ours.server,
        peer.map(|p| format!(" {} | ratio |", p.server)).unwrap_or_default()
    );
    eprintln!("|---|---|---|---|{}", if peer.is_some() { "---|---|" } else { "" });
    let mut rows = Vec::new();
    for (i, f) in ours.all.iter().enumerate() {
        let met = f.value <= f.target;
        let other = peer.and_then(|p| p.all.get(i));
        let more =
            other.map(|o| format!(" {:.2} {} | {:.1}× |", o.value, o.unit, o.value / f.value.max(1e-9)));
        eprintln!(
            "| {} | {:.3} {} | ≤ {} {} | {} |{}",
            f.name,
            f.value,
            f.unit,
            f.target,
            f.unit,
            if met { "met" } else { "**missed**" },
            more.unwrap_or_default()
        );
        let mut row =
            json!({"name": f.name, "unit": f.unit, "value": round(f.value), "target": f.target, "met": met});
        if let Some(o) = other {
            row["peer"] = json!(round(o.value));
            row["ratio"] = json!(round(o.value / f.value.max(1e-9)));
        }
        rows.push(row);
    }
    let all =
        json!({"bench": "kube", "server": ours.server, "peer": peer.map(|p| p.server), "figures": rows});
    let text = serde_json::to_string_pretty(&all)?;
    if let Some(p) = file {
        std::fs::write(p, &text)?;
    }
    #[allow(clippy::print_stdout, reason = "the result of the command")]
    {
        println!("{text}");
    }
    Ok(())
}

fn round(v: f64) -> Value {
    json!((v * 1000.0).round() / 1000.0)
}
