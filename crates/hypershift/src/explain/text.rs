//! The tree for people.

use super::{Node, State};
use jiff::Timestamp;
use std::fmt::Write;

fn mark(state: State) -> &'static str {
    match state {
        State::Ready => "✓",
        State::Unknown => "?",
        State::Waiting => "…",
        State::Blocked => "✗",
    }
}

/// `3m`, `2h`, `5d`.
fn age(since: &str, now: Timestamp) -> Option<String> {
    let since: Timestamp = since.parse().ok()?;
    let seconds = now.duration_since(since).as_secs().max(0);
    Some(match seconds {
        0..=119 => format!("{seconds}s"),
        120..=7199 => format!("{}m", seconds / 60),
        7200..=172_799 => format!("{}h", seconds / 3600),
        _ => format!("{}d", seconds / 86400),
    })
}

/// Draws a tree. What is ready is not taken apart, unless `all`.
pub fn text(node: &Node, now: Timestamp, all: bool) -> String {
    let mut out = String::new();
    draw(&mut out, node, "", "", now, all);
    out
}

fn draw(out: &mut String, node: &Node, lead: &str, below: &str, now: Timestamp, all: bool) {
    let _ = write!(out, "{lead}{} {}", mark(node.state), node.name);
    let quiet = node.state == State::Ready && !all && !below.is_empty();
    if !quiet && !node.reason.is_empty() {
        let _ = write!(out, " ({})", node.reason);
    }
    if let Some(age) = node.since.as_deref().and_then(|s| age(s, now)).filter(|_| !quiet) {
        let _ = write!(out, " for {age}");
    }
    let _ = writeln!(out);
    let parts: Vec<&Node> = match quiet {
        true => Vec::new(),
        false => node.parts.iter().collect(),
    };
    let bar = if parts.is_empty() { " " } else { "│" };
    if !quiet {
        if !node.message.is_empty() && (node.state != State::Ready || all) {
            let _ = writeln!(out, "{below}{bar}   {}", node.message);
        }
        if !node.waits_for.is_empty() {
            let _ = writeln!(out, "{below}{bar}   waits for {}", node.waits_for.join(", "));
        }
        if !node.hint.is_empty() {
            let _ = writeln!(out, "{below}{bar}   to do: {}", node.hint);
        }
    }
    for (i, part) in parts.iter().enumerate() {
        let (lead, next) = if i + 1 == parts.len() { ("└─ ", "   ") } else { ("├─ ", "│  ") };
        draw(out, part, &format!("{below}{lead}"), &format!("{below}{next}"), now, all);
    }
}
