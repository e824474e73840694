//! The board as a picture. Nothing but the board and the time goes in.

use super::azure::Seen;
use super::board::{Board, Part, condition, seen, text};
use crate::road::status::{version, wanted_nodes};
use jiff::Timestamp;
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Borders, Paragraph, Row, Table};
use serde_json::Value;
use std::collections::BTreeMap;

pub fn state(cluster: &Value) -> &'static str {
    match (condition(cluster, "Available", "status"), cluster["metadata"]["deletionTimestamp"].is_string()) {
        (_, true) => "deleting",
        ("True", _) => "available",
        _ => "waiting",
    }
}

pub fn pool_words(pool: &Value) -> String {
    let have = pool["status"]["replicas"].as_i64().unwrap_or(0);
    let updates = condition(pool, "UpdatingVersion", "status") == "True";
    let ready = condition(pool, "Ready", "status") == "True";
    let state = match (updates, ready) {
        (true, _) => "updating",
        (false, true) => "ready",
        (false, false) => "waiting",
    };
    format!("{have}/{} {state}", wanted_nodes(pool))
}

/// Ready, or why not.
pub fn component_words(component: &Value) -> String {
    let (available, rolled) =
        (condition(component, "Available", "status"), condition(component, "RolloutComplete", "status"));
    match (available, rolled) {
        ("True", "True") => "✓".to_owned(),
        ("True", _) => {
            format!("… {}", condition(component, "RolloutComplete", "message")).trim_end().to_owned()
        }
        _ => format!("✗ {}", condition(component, "Available", "message")).trim_end().to_owned(),
    }
}

fn colour(words: &str) -> Style {
    let colour = match words.chars().next() {
        Some('✓') => Color::Green,
        Some('…') => Color::Yellow,
        Some('✗') => Color::Red,
        _ => match words.rsplit(' ').next() {
            Some("available" | "ready" | "Running") => Color::Green,
            Some("deleting" | "Failed") => Color::Red,
            Some("waiting" | "updating" | "Provisioning" | "Pending") => Color::Yellow,
            _ => return Style::default(),
        },
    };
    Style::default().fg(colour)
}

/// A time, in the largest unit.
fn age(then: &str, now: Timestamp) -> String {
    let Ok(then) = then.parse::<Timestamp>() else { return String::new() };
    match now.duration_since(then).as_secs().max(0) {
        s if s < 120 => format!("{s}s"),
        s if s < 7200 => format!("{}m", s / 60),
        s if s < 172_800 => format!("{}h", s / 3600),
        s => format!("{}d", s / 86_400),
    }
}

fn block(title: String) -> Block<'static> {
    Block::default()
        .borders(Borders::TOP)
        .title(Span::styled(title, Style::default().add_modifier(Modifier::BOLD)))
}

pub fn draw(frame: &mut Frame<'_>, board: &Board, now: Timestamp) {
    let [head, middle, events, foot] = Layout::vertical([
        Constraint::Length(2),
        Constraint::Min(6),
        Constraint::Length((frame.area().height / 4).max(3)),
        Constraint::Length(1),
    ])
    .areas(frame.area());
    heading(frame, head, board);
    let [left, right] =
        Layout::horizontal([Constraint::Percentage(50), Constraint::Percentage(50)]).areas(middle);
    components(frame, left, board);
    let pools = board.pools().len() + board.all(Part::Machine).count();
    let [above, below] = Layout::vertical([
        Constraint::Length(
            u16::try_from(pools + 1).unwrap_or(u16::MAX).clamp(2, right.height.saturating_sub(4).max(2)),
        ),
        Constraint::Min(2),
    ])
    .areas(right);
    nodes(frame, above, board, now);
    azure(frame, below, board);
    happened(frame, events, board, now);
    let help = "q leaves   ↑↓ another cluster";
    let foot_text = match &board.trouble {
        Some(why) => Line::styled(format!("{help}   not answered: {why}"), Style::default().fg(Color::Red)),
        None => Line::styled(help, Style::default().add_modifier(Modifier::DIM)),
    };
    frame.render_widget(Paragraph::new(foot_text), foot);
}

fn heading(frame: &mut Frame<'_>, at: Rect, board: &Board) {
    let Some(cluster) = board.cluster() else {
        let none = "no hosted clusters; `zaffre create cluster azure --help` says how to make one";
        frame.render_widget(Paragraph::new(none), at);
        return;
    };
    let state = state(cluster);
    let name = format!("{}/{}", text(cluster, "/metadata/namespace"), text(cluster, "/metadata/name"));
    let count = board.clusters().len();
    let others = if count > 1 { format!("   ({count} clusters)") } else { String::new() };
    let first = Line::from(vec![
        Span::styled(name, Style::default().add_modifier(Modifier::BOLD)),
        Span::raw(format!("   {}   ", version(cluster))),
        Span::styled(state, colour(state)),
        Span::raw(others),
    ]);
    let why = match state {
        "available" => condition(cluster, "Progressing", "message"),
        _ => condition(cluster, "Available", "message"),
    };
    frame.render_widget(Paragraph::new(vec![first, Line::raw(why.to_owned())]), at);
}

fn components(frame: &mut Frame<'_>, at: Rect, board: &Board) {
    let mut all: Vec<(String, String, String)> = board
        .all(Part::Component)
        .map(|c| {
            let words = component_words(c);
            (text(c, "/metadata/name").to_owned(), text(c, "/status/version").to_owned(), words)
        })
        .collect();
    let ready = all.iter().filter(|c| c.2 == "✓").count();
    let title = format!("control plane {ready}/{} ", all.len());
    // What is not ready comes first: it is what somebody looks for.
    all.sort_by_key(|c| (c.2 == "✓", c.0.clone()));
    let rows = all.into_iter().map(|(name, version, words)| {
        let style = colour(&words);
        Row::new([name, version, words]).style(style)
    });
    let widths = [Constraint::Length(34), Constraint::Length(10), Constraint::Min(1)];
    frame.render_widget(Table::new(rows, widths).block(block(title)), at);
}

fn nodes(frame: &mut Frame<'_>, at: Rect, board: &Board, now: Timestamp) {
    const OF: &str = "/metadata/annotations/hypershift.openshift.io~1nodePool";
    let mut machines: Vec<&Value> = board.all(Part::Machine).collect();
    let mut rows = Vec::new();
    let machine = |m: &Value| {
        let phase = text(m, "/status/phase").to_owned();
        let node = text(m, "/status/nodeRef/name").to_owned();
        let style = colour(&phase);
        let age = age(text(m, "/metadata/creationTimestamp"), now);
        Row::new([format!("  {}", text(m, "/metadata/name")), phase, format!("{age} {node}")]).style(style)
    };
    for pool in board.pools() {
        let words = pool_words(pool);
        let style = colour(&words).add_modifier(Modifier::BOLD);
        let name = text(pool, "/metadata/name");
        rows.push(Row::new([name.to_owned(), text(pool, "/status/version").to_owned(), words]).style(style));
        let home = format!("{}/{name}", text(pool, "/metadata/namespace"));
        let (mine, others): (Vec<&Value>, Vec<&Value>) = machines.iter().partition(|m| text(m, OF) == home);
        rows.extend(mine.into_iter().map(machine));
        machines = others;
    }
    rows.extend(machines.into_iter().map(machine));
    let widths = [Constraint::Length(24), Constraint::Length(12), Constraint::Min(1)];
    frame.render_widget(Table::new(rows, widths).block(block("node pools and machines ".into())), at);
}

fn azure(frame: &mut Frame<'_>, at: Rect, board: &Board) {
    let lines: Vec<Line<'_>> = match &board.azure {
        Seen::NotYet => vec![Line::raw("…")],
        Seen::No(why) => vec![Line::raw(why.clone())],
        Seen::All(all) => {
            let mut kinds: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
            for (kind, name) in all {
                kinds.entry(kind).or_default().push(name);
            }
            kinds
                .iter()
                .map(|(kind, names)| Line::raw(format!("{:>3} {kind}  {}", names.len(), names.join(" "))))
                .collect()
        }
    };
    let count = if let Seen::All(all) = &board.azure { format!("{} ", all.len()) } else { String::new() };
    frame.render_widget(Paragraph::new(lines).block(block(format!("Azure {count}"))), at);
}

fn happened(frame: &mut Frame<'_>, at: Rect, board: &Board, now: Timestamp) {
    let rows = board.events().into_iter().map(|e| {
        let object = format!("{} {}", text(e, "/involvedObject/kind"), text(e, "/involvedObject/name"));
        let style =
            if text(e, "/type") == "Warning" { Style::default().fg(Color::Yellow) } else { Style::default() };
        let message = text(e, "/message").lines().next().unwrap_or_default().to_owned();
        Row::new([age(seen(e), now), text(e, "/reason").to_owned(), object, message]).style(style)
    });
    let widths = [Constraint::Length(5), Constraint::Length(20), Constraint::Length(34), Constraint::Min(1)];
    frame.render_widget(Table::new(rows, widths).block(block("events ".into())), at);
}

#[cfg(test)]
mod tests {
    use super::super::Change;
    use super::*;
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;
    use serde_json::json;

    fn shown(board: &Board, width: u16, height: u16) -> String {
        let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
        let now: Timestamp = "2026-11-16T12:05:00Z".parse().unwrap();
        terminal.draw(|frame| draw(frame, board, now)).unwrap();
        let buffer = terminal.backend().buffer();
        let cells: Vec<&str> = buffer.content().iter().map(ratatui::buffer::Cell::symbol).collect();
        let lines = cells.chunks(usize::from(width)).map(|l| l.concat().trim_end().to_owned());
        lines.collect::<Vec<_>>().join("\n") + "\n"
    }

    fn meta(namespace: &str, name: &str) -> Value {
        json!({"name": name, "namespace": namespace, "creationTimestamp": "2026-11-16T12:00:00Z"})
    }

    fn board() -> Board {
        let mut board = Board::new(None);
        let conditions = |list: &[(&str, &str, &str)]| -> Value {
            list.iter().map(|(t, s, m)| json!({"type": t, "status": s, "message": m})).collect()
        };
        let component = |name: &str, list: &[(&str, &str, &str)]| json!({"metadata": meta("clusters-road", name), "status": {"version": "4.20.1", "conditions": conditions(list)}});
        let ok = [("Available", "True", ""), ("RolloutComplete", "True", "")];
        let hc = json!({"metadata": meta("clusters", "road"), "status": {
            "version": {"history": [{"state": "Partial", "version": "4.21.0"}, {"state": "Completed", "version": "4.20.1"}]},
            "conditions": conditions(&[("Available", "True", ""), ("Progressing", "True", "to 4.21.0")])}});
        let pool = json!({"metadata": meta("clusters", "blue"), "spec": {"clusterName": "road", "replicas": 3},
            "status": {"replicas": 2, "version": "4.20.1", "conditions": conditions(&[("UpdatingVersion", "True", "")])}});
        let machine = json!({"metadata": {"name": "blue-x1", "namespace": "clusters-road", "creationTimestamp": "2026-11-16T12:00:00Z",
            "annotations": {"hypershift.openshift.io/nodePool": "clusters/blue"}}, "status": {"phase": "Provisioning"}});
        let event = |name: &str, time: &str, kind: &str| {
            json!({"metadata": meta("clusters-road", name), "lastTimestamp": time, "type": kind, "reason": "Pulled",
                "message": "image is there\nmore", "involvedObject": {"kind": "Pod", "name": name}})
        };
        for (part, object) in [
            (Part::Cluster, hc),
            (Part::Pool, pool),
            (Part::Component, component("etcd", &ok)),
            (
                Part::Component,
                component(
                    "kube-apiserver",
                    &[("Available", "True", ""), ("RolloutComplete", "False", "1 of 2 pods")],
                ),
            ),
            (
                Part::Component,
                component("oauth-openshift", &[("Available", "False", "waits for kube-apiserver")]),
            ),
            (Part::Machine, machine),
            (Part::Event, event("etcd-0", "2026-11-16T12:04:30Z", "Normal")),
            (Part::Event, event("etcd-1", "2026-11-16T12:04:58Z", "Warning")),
        ] {
            board.take(Change::Is(part, object));
        }
        let found = [("loadBalancers", "road"), ("disks", "a"), ("disks", "b")];
        board.take(Change::Azure(Seen::All(found.map(|(k, n)| (k.to_owned(), n.to_owned())).into())));
        board
    }

    #[test]
    fn the_view_shows_what_is_not_ready_first() {
        testkit::golden!("status-watch.txt", &shown(&board(), 110, 24));
    }

    #[test]
    fn any_size_is_drawn_and_nothing_to_see_is_said() {
        let full = board();
        for (width, height) in [(1, 1), (3, 200), (200, 3), (40, 10)] {
            shown(&full, width, height);
        }
        assert!(shown(&Board::new(None), 90, 12).starts_with("no hosted clusters"));
        // What a watch that begins anew does not mention is gone.
        let mut again = board();
        again.take(Change::Reset(Part::Machine, "clusters-road".into()));
        assert!(!shown(&again, 110, 24).contains("blue-x1"));
        again.take(Change::Trouble("pods: refused".into()));
        assert!(shown(&again, 110, 24).contains("not answered: pods: refused"));
    }
}
