//! `kubectl port-forward`: connections to a pod's ports, many of them through one.

use super::spdy::{self, Stream};
use super::upgrade::{self, Kind, Socket};
use crate::pods::PodRuntime;
use crate::verbs::Call;
use crate::wire::respond::Reply;
use bytes::{BufMut, Bytes, BytesMut};
use ek_meta::{Status, object};
use ek_store::ClusterId;
use futures::{SinkExt, StreamExt};
use serde_json::Value;
use std::collections::HashMap;
use std::sync::Arc;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio_tungstenite::tungstenite::Message;

/// SPDY inside of WebSocket messages: what kubectl speaks.
const TUNNEL: &str = "SPDY/3.1+portforward.k8s.io";
/// Two channels per port: what the Python client speaks.
const CHANNELS: &str = "v4.channel.k8s.io";
const SPDY: &str = "portforward.k8s.io";
const CHUNK: usize = 32 << 10;

#[derive(Clone)]
struct Target {
    runtime: Arc<Box<dyn PodRuntime>>,
    cluster: ClusterId,
    namespace: String,
    pod: String,
    uid: String,
}

impl Target {
    async fn connect(&self, port: u16) -> Result<TcpStream, String> {
        let failed = |why: String| format!("error forwarding port {port} to pod {}, uid : {why}", self.uid);
        let found = self.runtime.port(&self.cluster, &self.namespace, &self.pod, port);
        let address =
            found.ok_or_else(|| failed(format!("nothing listens on port {port} in pod {}", self.pod)))?;
        let tcp = TcpStream::connect(address).await.map_err(|e| failed(e.to_string()))?;
        let _ = tcp.set_nodelay(true);
        Ok(tcp)
    }
}

pub(super) fn run(call: &Call, pod: Value) -> Result<Reply, Status> {
    let phase = pod["status"]["phase"].as_str().unwrap_or("Pending");
    if phase != "Running" {
        let text = format!("unable to forward port because pod is not running. Current status={phase}");
        return Err(Status::bad_request(text));
    }
    let target = Target {
        runtime: call.cluster.pods.get(),
        cluster: call.cluster.id.clone(),
        namespace: object::namespace(&pod).to_owned(),
        pod: object::name(&pod).to_owned(),
        uid: object::uid(&pod).to_owned(),
    };
    let refused = || Status::bad_request("unable to upgrade: no protocol in common for port forwarding");
    match upgrade::kind(call)? {
        Kind::WebSocket => match upgrade::choose(call, "sec-websocket-protocol", &[TUNNEL, CHANNELS]) {
            Some(TUNNEL) => upgrade::websocket(call, TUNNEL, move |s| tunnel(s, target)),
            Some(_) => {
                let ports = call.params.all("ports").flat_map(|p| p.split(','));
                let ports: Option<Vec<u16>> =
                    ports.map(|p| p.trim().parse().ok().filter(|p| *p > 0)).collect();
                let ports = ports.filter(|p| !p.is_empty() && p.len() < 120);
                let ports =
                    ports.ok_or_else(|| Status::bad_request("query parameter \"port\" is required"))?;
                upgrade::websocket(call, CHANNELS, move |s| channels(s, target, ports))
            }
            None => Err(refused()),
        },
        Kind::Spdy => {
            upgrade::choose(call, "x-stream-protocol-version", &[SPDY]).ok_or_else(refused)?;
            upgrade::spdy(call, SPDY, move |io| session(io, target))
        }
    }
}

/// Unpacks SPDY from WebSocket messages.
async fn tunnel(socket: Socket, target: Target) {
    let (near, far) = tokio::io::duplex(4 * CHUNK);
    let (mut sink, mut source) = socket.split();
    let (mut from, mut to) = tokio::io::split(near);
    let inward = async {
        while let Some(Ok(m)) = source.next().await {
            let went = match m {
                Message::Binary(b) => to.write_all(&b).await.is_ok(),
                Message::Close(_) => false,
                _ => true,
            };
            if !went {
                break;
            }
        }
    };
    let outward = async {
        let mut buffer = BytesMut::with_capacity(CHUNK);
        while let Ok(n @ 1..) = from.read_buf(&mut buffer).await {
            if sink.send(Message::Binary(buffer.split_to(n).freeze())).await.is_err() {
                return;
            }
            buffer.reserve(CHUNK);
        }
        let _ = sink.send(upgrade::goodbye()).await;
    };
    tokio::select! {
        () = inward => {}
        () = outward => {}
        () = session(far, target) => {}
    }
}

/// One SPDY connection; each forwarded connection is a pair of its streams.
async fn session<I: AsyncRead + AsyncWrite + Send + Unpin + 'static>(io: I, target: Target) {
    let mut pairs: HashMap<String, (Option<Stream>, Option<Stream>)> = HashMap::new();
    // All of them end with the connection they came by.
    let mut connections = JoinSet::new();
    let opened = |s: Stream| {
        let id = s.header("requestid").to_owned();
        let pair = pairs.entry(id.clone()).or_default();
        match s.header("streamtype") {
            "error" => pair.0 = Some(s),
            "data" => pair.1 = Some(s),
            _ => return,
        }
        if pair.0.is_some()
            && pair.1.is_some()
            && let Some((Some(error), Some(data))) = pairs.remove(&id)
        {
            while connections.try_join_next().is_some() {}
            connections.spawn(forward(target.clone(), error, data));
        }
        // Halves without their other half do not pile up.
        if pairs.len() > 256 {
            pairs.clear();
        }
    };
    if let Err(e) = spdy::serve(io, opened).await {
        tracing::debug!(error = %e, "a port-forward connection ended");
    }
}

async fn forward(target: Target, error: Stream, mut data: Stream) {
    let port = data.header("port").parse().unwrap_or(0);
    match target.connect(port).await {
        Err(why) => _ = error.writer.send(Bytes::from(why)).await,
        Ok(tcp) => {
            let (mut from, mut to) = tcp.into_split();
            let writer = data.writer.clone();
            let outward = async {
                let mut buffer = BytesMut::with_capacity(CHUNK);
                while let Ok(n @ 1..) = from.read_buf(&mut buffer).await {
                    if !writer.send(buffer.split_to(n).freeze()).await {
                        break;
                    }
                    buffer.reserve(CHUNK);
                }
            };
            let inward = async {
                while let Some(b) = data.data.recv().await {
                    if to.write_all(&b).await.is_err() {
                        break;
                    }
                }
                // The client has said everything; the answer may still be under way.
                let _ = to.shutdown().await;
                std::future::pending::<()>().await;
            };
            tokio::select! {
                () = outward => {}
                () = inward => {}
            }
        }
    }
    data.writer.finish().await;
    error.writer.finish().await;
}

fn framed(channel: usize, data: &[u8]) -> Message {
    let mut b = BytesMut::with_capacity(data.len() + 1);
    b.put_u8(u8::try_from(channel).unwrap_or(u8::MAX));
    b.extend_from_slice(data);
    Message::Binary(b.freeze())
}

/// Channel 2n is the nth port's data, 2n+1 its errors; both begin with the port's number.
async fn channels(socket: Socket, target: Target, ports: Vec<u16>) {
    let (mut sink, mut source) = socket.split();
    let (out, mut frames) = mpsc::channel::<Message>(64);
    let mut inputs = Vec::new();
    let mut connections = JoinSet::new();
    for (i, port) in ports.into_iter().enumerate() {
        let (to, mut from) = mpsc::channel::<Bytes>(16);
        inputs.push(to);
        let (out, target) = (out.clone(), target.clone());
        connections.spawn(async move {
            for channel in [2 * i, 2 * i + 1] {
                let _ = out.send(framed(channel, &port.to_le_bytes())).await;
            }
            let tcp = match target.connect(port).await {
                Ok(t) => t,
                Err(why) => {
                    let _ = out.send(framed(2 * i + 1, why.as_bytes())).await;
                    return;
                }
            };
            let (mut read, mut write) = tcp.into_split();
            let outward = async {
                let mut buffer = BytesMut::with_capacity(CHUNK);
                while let Ok(n @ 1..) = read.read_buf(&mut buffer).await {
                    if out.send(framed(2 * i, &buffer.split_to(n))).await.is_err() {
                        break;
                    }
                    buffer.reserve(CHUNK);
                }
            };
            let inward = async {
                while let Some(b) = from.recv().await {
                    if write.write_all(&b).await.is_err() {
                        break;
                    }
                }
            };
            tokio::select! {
                () = outward => {}
                () = inward => {}
            }
        });
    }
    drop(out);
    let reading = async {
        while let Some(Ok(m)) = source.next().await {
            match m {
                Message::Binary(b) => {
                    let Some((channel, _)) = b.split_first() else { continue };
                    let Some(to) = inputs.get(usize::from(channel / 2)).filter(|_| channel % 2 == 0) else {
                        continue;
                    };
                    let _ = to.send(b.slice(1..)).await;
                }
                Message::Close(_) => break,
                _ => {}
            }
        }
    };
    let writing = async {
        while let Some(m) = frames.recv().await {
            if sink.send(m).await.is_err() {
                return;
            }
        }
        let _ = sink.send(upgrade::goodbye()).await;
    };
    tokio::select! {
        () = reading => {}
        () = writing => {}
    }
}
