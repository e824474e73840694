//! `zaffre azure top`: a live view.

use super::admin::Admin;
use crate::cli::Format;
use crate::output;
use http::Method;
use serde_json::Value;
use std::io::IsTerminal;
use std::time::Duration;

const SHOWN: usize = 15;

pub async fn run(admin: &Admin, once: bool, every: u64, format: Format) -> anyhow::Result<()> {
    let live = !once && format == Format::Text && std::io::stdout().is_terminal();
    loop {
        let now = admin.send(Method::GET, "top", &[], None).await?;
        match format {
            Format::Text => {
                if live {
                    // Home, and clear what is below.
                    output::line("\x1b[H\x1b[2J");
                }
                lines(&now).iter().for_each(|l| output::line(l));
            }
            other => output::value(other, &now)?,
        }
        if !live {
            return Ok(());
        }
        tokio::time::sleep(Duration::from_secs(every)).await;
    }
}

fn counts(v: &Value) -> String {
    let all: Vec<String> = v.as_object().into_iter().flatten().map(|(k, n)| format!("{k}: {n}")).collect();
    if all.is_empty() { "-".to_owned() } else { all.join("  ") }
}

fn lines(top: &Value) -> Vec<String> {
    let text = |v: &Value| v.as_str().unwrap_or("-").to_owned();
    let mut out = vec![
        format!(
            "{}  profile {}  clock {} x{}",
            text(&top["now"]),
            text(&top["profile"]),
            text(&top["clock"]["mode"]),
            top["clock"]["scale"]
        ),
        format!(
            "requests {} ({}/s)  throttled {}  met a fault {}",
            top["requests"], top["requestsPerSecond"], top["throttled"], top["faulty"]
        ),
        format!("by status  {}", counts(&top["byStatus"])),
        format!("by error   {}", counts(&top["byError"])),
        format!("operations under way {}  next event {}", top["operationsInFlight"], text(&top["nextEvent"])),
    ];
    for o in top["operations"].as_array().into_iter().flatten().take(SHOWN) {
        let due = o["dueInSeconds"].as_f64().map_or_else(|| "when told".to_owned(), |s| format!("{s:.1} s"));
        out.push(format!("  {due:>10}  {}  {}", text(&o["name"]), text(&o["about"])));
    }
    let fired: Vec<&Value> = top["faults"].as_array().into_iter().flatten().collect();
    if !fired.is_empty() {
        out.push("faults (fired of met)".to_owned());
    }
    for f in fired.iter().take(SHOWN) {
        out.push(format!("  {:>5} of {:<6}  {}", f["fired"], f["met"], text(&f["name"])));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_view_of_all() {
        let top = json!({
            "now": "n", "profile": "bad-day", "clock": {"mode": "scaled", "scale": 50.0}, "requests": 3,
            "requestsPerSecond": 0.3, "throttled": 1, "faulty": 2, "byStatus": {"200": 2, "429": 1}, "byError": {},
            "operationsInFlight": 1, "nextEvent": null, "faults": [{"name": "x", "met": 3, "fired": 1}],
            "operations": [{"name": "PutX", "about": "/a", "dueInSeconds": 1.25}, {"name": "Y", "about": "/b"}],
        });
        let text = lines(&top).join("\n");
        for part in
            ["clock scaled x50.0", "200: 2  429: 1", "by error   -", "1.2 s  PutX", "when told", "1 of 3"]
        {
            assert!(text.contains(part), "{part} is not in\n{text}");
        }
    }
}
