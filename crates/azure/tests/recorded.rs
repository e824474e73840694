//! Real exchanges: the state machine must read each operation as it went.
//!
//! The recordings are not part of the repository. Without them the test says so and passes.

use azure::Answer;
use azure::lro::{Lro, Step, Verb};
use http::{HeaderMap, StatusCode};
use jiff::Timestamp;
use serde_json::Value;
use std::collections::BTreeMap;
use std::time::Duration;

const AT: &str = "azure/recorded";

fn answer(exchange: &Value) -> Answer {
    let headers: HeaderMap = exchange["headers"]
        .as_object()
        .into_iter()
        .flatten()
        .filter_map(|(k, v)| Some((k.parse().ok()?, v.as_str()?.parse().ok()?)))
        .collect();
    let body = match &exchange["response"] {
        Value::Null => String::new(),
        Value::String(s) => s.clone(),
        v => v.to_string(),
    };
    let status = StatusCode::from_u16(u16::try_from(exchange["status"].as_u64().unwrap()).unwrap()).unwrap();
    Answer { status, headers, body: body.into() }
}

/// Follows every operation of a file; returns how many began, ended well and failed, and what went wrong.
fn follow(text: &str, counts: &mut BTreeMap<&'static str, usize>) -> Vec<String> {
    let now = Timestamp::UNIX_EPOCH;
    let exchanges: Vec<Value> = text.lines().map(|l| serde_json::from_str(l).unwrap()).collect();
    let mut running: Vec<(Lro, Step)> = Vec::new();
    let mut wrong = Vec::new();
    for e in &exchanges {
        let (method, url) = (e["method"].as_str().unwrap(), e["url"].as_str().unwrap());
        let a = answer(e);
        if method == "GET" {
            // The recorder's client asked what our machine would have asked.
            let asked =
                running.iter_mut().find(|(_, s)| matches!(s, Step::Poll { url: u, .. } if same(u, url)));
            if let Some((lro, step)) = asked
                && !matches!(a.status.as_u16(), 429 | 500..)
            {
                *step = lro.step(&a, now);
                let key = match step {
                    Step::Poll { .. } => "polled",
                    Step::Done(_) => "done",
                    Step::Failed(_) => "failed",
                };
                *counts.entry(key).or_default() += 1;
            }
            continue;
        }
        let Some(verb) = Verb::of(&method.parse().unwrap()) else { continue };
        if !a.status.is_success() {
            continue;
        }
        match Lro::start(verb, url, &a, Duration::from_secs(30), now) {
            Ok((lro, step)) => {
                *counts
                    .entry(if matches!(step, Step::Poll { .. }) { "began" } else { "at once" })
                    .or_default() += 1;
                running.push((lro, step));
            }
            Err(e) => wrong.push(format!("{method} {url}: {e}")),
        }
    }
    for (lro, step) in &running {
        if let Step::Failed(d) = step {
            // Recorded operations that failed have an error of their own.
            if d.code.is_empty() || d.code.starts_with("Http") {
                wrong.push(format!("{}: {d:?}", lro.url()));
            }
        }
    }
    wrong
}

/// The recordings cut the signatures out of queries.
fn same(a: &str, b: &str) -> bool {
    a.split('?').next() == b.split('?').next()
}

#[test]
fn operations_are_read_as_they_went() {
    let Some(at) = testkit::specs(AT) else { return };
    let files = std::fs::read_dir(at).unwrap();
    let mut counts = BTreeMap::new();
    let mut wrong = Vec::new();
    for file in files {
        let path = file.unwrap().path();
        let found = follow(&std::fs::read_to_string(&path).unwrap(), &mut counts);
        wrong.extend(found.into_iter().map(|w| format!("{}: {w}", path.display())));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    println!("{counts:?}");
    let of = |k: &str| counts.get(k).copied().unwrap_or(0);
    assert!(of("began") > 50 && of("done") > 50 && of("polled") > 20 && of("at once") > 30, "{counts:?}");
}
