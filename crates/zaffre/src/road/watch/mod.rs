//! `zaffre status --watch`: a live view.
//!
//! ```text
//! watches (clusters, pools; of the one chosen: components, machines, events) ─┐
//! Azure's list, every now and then (it has no watch) ────────────────────────┼─> Board ─> view::draw
//! keys ──────────────────────────────────────────────────────────────────────┘     └──> lines (no terminal)
//! ```
//!
//! All of it meets in one loop that owns the [`Board`]; drawing is a function of it, so it is tested as text. Whatever
//! ends the loop (a key, Ctrl-C, a panic) gives the terminal back as it was.

mod azure;
mod board;
mod lines;
mod view;

use super::reach;
use crate::cli::road::StatusArgs;
use board::{Board, Part};
use crossterm::event::{Event as Input, EventStream, KeyCode, KeyEventKind, KeyModifiers};
use futures::StreamExt;
use hypershift::kinds;
use kube::Client;
use kube::runtime::{WatchStreamExt, watcher};
use reconcile::Kind;
use serde_json::Value;
use std::io::IsTerminal;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

/// Changes that wait to be seen.
const WAITING: usize = 1024;
/// Changes that come together are drawn together.
const FRAME: Duration = Duration::from_millis(100);
/// Ages on the screen grow without anything happening.
const TICK: Duration = Duration::from_secs(1);

const EVENT: Kind = Kind::of::<k8s_openapi::api::core::v1::Event>();

/// What happened.
pub enum Change {
    /// A watch begins anew: what it said before is forgotten.
    Reset(Part, String),
    Is(Part, Value),
    Gone(Part, Value),
    /// A watch is not answered, and goes on trying.
    Trouble(String),
    Azure(azure::Seen),
}

fn follow(
    set: &mut JoinSet<()>,
    to: &mpsc::Sender<Change>,
    client: &Client,
    part: Part,
    kind: &Kind,
    namespace: &str,
) {
    let stream = watcher(kind.api(client, namespace), watcher::Config::default()).default_backoff();
    let (to, namespace, plural) = (to.clone(), namespace.to_owned(), kind.plural.to_string());
    set.spawn(async move {
        let mut stream = Box::pin(stream);
        while let Some(event) = stream.next().await {
            let value = |o| serde_json::to_value(o).unwrap_or_default();
            let change = match event {
                Ok(watcher::Event::Apply(o) | watcher::Event::InitApply(o)) => Change::Is(part, value(o)),
                Ok(watcher::Event::Delete(o)) => Change::Gone(part, value(o)),
                Ok(watcher::Event::Init) => Change::Reset(part, namespace.clone()),
                Ok(watcher::Event::InitDone) => continue,
                Err(e) => Change::Trouble(format!("{plural}: {e}")),
            };
            if to.send(change).await.is_err() {
                return;
            }
        }
    });
}

/// What belongs to the chosen cluster only.
fn chosen(to: &mpsc::Sender<Change>, client: &Client, board: &Board) -> JoinSet<()> {
    let mut set = JoinSet::new();
    let Some((namespace, name)) = board.chosen() else { return set };
    let plane = apis::naming::control_plane_namespace(&namespace, &name);
    follow(&mut set, to, client, Part::Component, &kinds::COMPONENT, &plane);
    follow(&mut set, to, client, Part::Machine, &kinds::MACHINE, &plane);
    follow(&mut set, to, client, Part::Event, &EVENT, &plane);
    follow(&mut set, to, client, Part::Event, &EVENT, &namespace);
    if let Some(group) = board.group() {
        let to = to.clone();
        set.spawn(async move { azure::follow(group, to).await });
    }
    set
}

/// Until somebody leaves.
pub async fn watch(args: StatusArgs) -> anyhow::Result<()> {
    let client = reach(&args.management).await?;
    let (to, mut changes) = mpsc::channel(WAITING);
    let namespace = args.namespace.clone().unwrap_or_default();
    let mut all = JoinSet::new();
    follow(&mut all, &to, &client, Part::Cluster, &kinds::CLUSTER, &namespace);
    follow(&mut all, &to, &client, Part::Pool, &kinds::POOL, &namespace);
    let mut board = Board::new(args.name.clone());
    if !std::io::stdout().is_terminal() {
        let mut of_chosen = JoinSet::new();
        let mut lines = lines::Lines::default();
        let mut at = None;
        let mut interrupt = std::pin::pin!(tokio::signal::ctrl_c());
        loop {
            tokio::select! {
                change = changes.recv() => {
                    let Some(change) = change else { return Ok(()) };
                    let said = lines.tell(&change, args.name.as_deref());
                    board.take(change);
                    // A reader that is gone is a reason to go.
                    if said.is_some_and(|line| !crate::output::try_line(&line)) {
                        return Ok(());
                    }
                }
                _ = &mut interrupt => return Ok(()),
            }
            if args.name.is_some() && board.chosen() != at {
                at = board.chosen();
                of_chosen = chosen(&to, &client, &board);
            }
            let _ = &of_chosen;
        }
    }
    let mut terminal = ratatui::try_init()?;
    let left = screen(&mut terminal, &mut board, &client, &to, &mut changes).await;
    ratatui::restore();
    left
}

async fn screen(
    terminal: &mut ratatui::DefaultTerminal,
    board: &mut Board,
    client: &Client,
    to: &mpsc::Sender<Change>,
    changes: &mut mpsc::Receiver<Change>,
) -> anyhow::Result<()> {
    let mut keys = EventStream::new();
    let mut tick = tokio::time::interval(TICK);
    let mut at = None;
    let mut of_chosen = JoinSet::new();
    loop {
        tokio::select! {
            change = changes.recv() => {
                let Some(change) = change else { return Ok(()) };
                board.take(change);
                // Whatever else is there by now is seen at once; a frame later at most.
                let until = tokio::time::Instant::now() + FRAME;
                while tokio::time::Instant::now() < until {
                    let Ok(more) = changes.try_recv() else { break };
                    board.take(more);
                }
            }
            input = keys.next() => match input {
                Some(Ok(Input::Key(key))) if key.kind == KeyEventKind::Press => match key.code {
                    KeyCode::Char('q') | KeyCode::Esc => return Ok(()),
                    KeyCode::Char('c') if key.modifiers.contains(KeyModifiers::CONTROL) => return Ok(()),
                    KeyCode::Down | KeyCode::Char('j' | 'n') => board.choose(1),
                    KeyCode::Up | KeyCode::Char('k' | 'p') => board.choose(-1),
                    _ => {}
                },
                Some(Ok(_)) => {}
                Some(Err(e)) => return Err(e.into()),
                None => return Ok(()),
            },
            _ = tick.tick() => {}
        }
        if board.chosen() != at {
            at = board.chosen();
            board.forget_chosen();
            of_chosen = chosen(to, client, board);
        }
        let _ = &of_chosen;
        let now = clock::system().now();
        terminal.draw(|frame| view::draw(frame, board, now))?;
    }
}
