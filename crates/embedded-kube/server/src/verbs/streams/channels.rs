//! `kubectl exec` and `attach`: three streams and a verdict, over a WebSocket or SPDY.

use super::container;
use super::spdy::{self, Stream, Writer};
use super::upgrade::{self, Kind, Socket};
use crate::pods::{ContainerAt, PodRuntime, Stdio};
use crate::verbs::Call;
use crate::wire::respond::Reply;
use bytes::{BufMut, Bytes, BytesMut};
use ek_meta::Status;
use futures::{SinkExt, StreamExt};
use hyper::upgrade::Upgraded;
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio_tungstenite::tungstenite::Message;

const STDIN: u8 = 0;
const STDOUT: u8 = 1;
const STDERR: u8 = 2;
const ERROR: u8 = 3;
const CLOSE: u8 = 255;

const V5: &str = "v5.channel.k8s.io";
const V4: &str = "v4.channel.k8s.io";

/// A client that was told everything has this long to say so.
const GOODBYE: Duration = Duration::from_secs(10);

/// What is to be done with the streams.
struct Job {
    runtime: Arc<Box<dyn PodRuntime>>,
    at: ContainerAt,
    /// Without one it is an attach.
    command: Option<Vec<String>>,
    stdin: bool,
    stdout: bool,
    stderr: bool,
    tty: bool,
}

impl Job {
    /// Runs it to its end; the answer is what the error stream says.
    async fn run(self, io: Stdio) -> Value {
        let result = match self.command {
            Some(words) => self.runtime.exec(self.at, words, io).await,
            None => self.runtime.attach(self.at, io).await.map(|()| 0),
        };
        match result {
            Ok(0) => json!({"metadata": {}, "status": "Success"}),
            Ok(code) => json!({
                "metadata": {}, "status": "Failure", "reason": "NonZeroExitCode",
                "message": format!("command terminated with non-zero exit code: exit status {code}"),
                "details": {"causes": [{"reason": "ExitCode", "message": code.to_string()}]},
            }),
            Err(s) => serde_json::to_value(s).unwrap_or_default(),
        }
    }
}

pub(super) fn run(call: &Call, pod: Value) -> Result<Reply, Status> {
    let p = &call.params;
    let command = match call.info.subresource.as_str() {
        "exec" => {
            let words: Vec<String> = p.all("command").map(str::to_owned).collect();
            if words.is_empty() {
                return Err(Status::bad_request("you must specify at least 1 command for the container"));
            }
            Some(words)
        }
        _ => None,
    };
    let job = Job {
        runtime: call.cluster.pods.get(),
        at: container(call, pod)?,
        command,
        stdin: p.flag("stdin"),
        stdout: p.flag("stdout"),
        stderr: p.flag("stderr"),
        tty: p.flag("tty"),
    };
    if !(job.stdin || job.stdout || job.stderr) {
        return Err(Status::bad_request("you must specify at least one of stdin, stdout, stderr"));
    }
    let refused = || {
        Status::bad_request(format!(
            "unable to upgrade: no protocol in common, this server knows {V5} and {V4}"
        ))
    };
    match upgrade::kind(call)? {
        Kind::WebSocket => {
            let protocol = upgrade::choose(call, "sec-websocket-protocol", &[V5, V4]).ok_or_else(refused)?;
            upgrade::websocket(call, protocol, move |socket| websocket(socket, job))
        }
        Kind::Spdy => {
            let protocol = upgrade::choose(call, "x-stream-protocol-version", &[V4]).ok_or_else(refused)?;
            upgrade::spdy(call, protocol, move |io| spdy_session(io, job))
        }
    }
}

/// Channels in hand: what the command reads and where its output goes.
struct Pipes {
    io: Stdio,
    stdin: mpsc::Sender<Bytes>,
    stdout: mpsc::Receiver<Bytes>,
    stderr: mpsc::Receiver<Bytes>,
}

fn pipes(tty: bool) -> Pipes {
    let (stdin, input) = mpsc::channel(16);
    let (out, stdout) = mpsc::channel(16);
    let (err, stderr) = mpsc::channel(16);
    Pipes { io: Stdio { stdin: input, stdout: out, stderr: err, tty }, stdin, stdout, stderr }
}

fn message(channel: u8, data: &[u8]) -> Message {
    let mut b = BytesMut::with_capacity(data.len() + 1);
    b.put_u8(channel);
    b.extend_from_slice(data);
    Message::Binary(b.freeze())
}

/// Messages of a client that wait for a command to read them; more are not taken from the socket.
const WAITING: usize = 64;

async fn room(stdin: Option<&mpsc::Sender<Bytes>>) -> Option<mpsc::Permit<'_, Bytes>> {
    stdin?.reserve().await.ok()
}

async fn websocket(socket: Socket, job: Job) {
    let (mut sink, mut source) = socket.split();
    let Pipes { io, stdin, mut stdout, mut stderr } = pipes(job.tty);
    let mut stdin = job.stdin.then_some(stdin);
    let mut input: VecDeque<Bytes> = VecDeque::new();
    let mut input_ended = false;
    let mut work = Box::pin(job.run(io));
    let mut verdict = None;
    let (mut out_open, mut err_open) = (true, true);
    while verdict.is_none() || out_open || err_open {
        if input_ended && input.is_empty() {
            stdin = None;
        }
        let sent = tokio::select! {
            v = &mut work, if verdict.is_none() => {
                verdict = Some(v);
                continue;
            }
            b = stdout.recv(), if out_open => match b {
                Some(b) => message(STDOUT, &b),
                None => {
                    out_open = false;
                    continue;
                }
            },
            b = stderr.recv(), if err_open => match b {
                Some(b) => message(STDERR, &b),
                None => {
                    err_open = false;
                    continue;
                }
            },
            permit = room(stdin.as_ref()), if !input.is_empty() => {
                match (permit, input.pop_front()) {
                    (Some(p), Some(b)) => p.send(b),
                    // Nobody will read it.
                    _ => input.clear(),
                }
                continue;
            }
            m = source.next(), if input.len() < WAITING => {
                match m {
                    Some(Ok(Message::Binary(b))) => match (b.first(), b.get(1..)) {
                        (Some(&STDIN), Some([_, ..])) if stdin.is_some() => input.push_back(b.slice(1..)),
                        (Some(&CLOSE), Some([STDIN])) => input_ended = true,
                        _ => {}
                    },
                    Some(Ok(Message::Ping(_) | Message::Pong(_) | Message::Text(_) | Message::Frame(_))) => {}
                    // The client left: so does the command.
                    Some(Ok(Message::Close(_)) | Err(_)) | None => return,
                }
                continue;
            }
        };
        if sink.send(sent).await.is_err() {
            return;
        }
    }
    let verdict = verdict.unwrap_or_default().to_string();
    let _ = sink.send(message(ERROR, verdict.as_bytes())).await;
    let _ = sink.send(upgrade::goodbye()).await;
    // Until the client has answered, closing the connection could lose what was sent.
    let goodbye = async { while let Some(Ok(_)) = source.next().await {} };
    let _ = tokio::time::timeout(GOODBYE, goodbye).await;
}

async fn spdy_session(io: TokioIo<Upgraded>, job: Job) {
    let (found, mut streams) = mpsc::channel::<Stream>(8);
    let opened = move |s: Stream| _ = found.try_send(s);
    let work = async move {
        let wanted = 1 + [job.stdin, job.stdout, job.stderr && !job.tty].iter().filter(|w| **w).count();
        let mut by_type: HashMap<String, Stream> = HashMap::new();
        while by_type.keys().filter(|k| *k != "resize").count() < wanted {
            let Some(s) = streams.recv().await else { return };
            by_type.insert(s.header("streamtype").to_owned(), s);
        }
        let Pipes { io, stdin, stdout, stderr } = pipes(job.tty);
        let input = by_type.remove("stdin");
        let read = async move {
            let Some(mut s) = input else { return };
            while let Some(b) = s.data.recv().await {
                if stdin.send(b).await.is_err() {
                    break;
                }
            }
        };
        let writer = |name: &str| by_type.get(name).map(|s| s.writer.clone());
        let (out, err, error) = (writer("stdout"), writer("stderr"), writer("error"));
        let run = async {
            let (verdict, (), ()) = tokio::join!(job.run(io), copy(stdout, out), copy(stderr, err));
            if let Some(e) = error {
                e.send(verdict.to_string().into()).await;
                e.finish().await;
            }
        };
        tokio::select! {
            () = run => {}
            () = async { read.await; std::future::pending().await } => {}
        }
        // The client closes when it has read everything.
        std::future::pending::<()>().await;
    };
    tokio::select! {
        _ = spdy::serve(io, opened) => {}
        () = work => {}
    }
}

async fn copy(mut from: mpsc::Receiver<Bytes>, to: Option<Writer>) {
    while let Some(b) = from.recv().await {
        if let Some(w) = &to {
            w.send(b).await;
        }
    }
    if let Some(w) = &to {
        w.finish().await;
    }
}
