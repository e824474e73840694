//! Logs, commands and ports of our pods, as the API server asks for them.

use crate::pod::Fact;
use crate::run::log::{Line, LogRing};
use crate::run::{command, shell};
use crate::{Nodes, services};
use bytes::Bytes;
use ek_engine::ClusterId;
use ek_meta::{Status, object, time};
use ek_server::{ContainerAt, Log, LogLine, PodRuntime, Stdio};
use futures::future::BoxFuture;
use futures::stream::BoxStream;
use futures::{StreamExt, stream};
use serde_json::Value;
use std::net::SocketAddr;
use std::sync::Arc;

/// Input to a command is read whole, up to this.
const MAX_INPUT: usize = 1 << 20;

fn shown(l: Line) -> LogLine {
    LogLine { at: l.at, text: l.text }
}

fn spec(at: &ContainerAt) -> Option<&Value> {
    let lists = [&at.pod["spec"]["containers"], &at.pod["spec"]["initContainers"]];
    lists.into_iter().filter_map(Value::as_array).flatten().find(|c| c["name"] == at.container.as_str())
}

fn status(at: &ContainerAt) -> Option<&Value> {
    let lists = [&at.pod["status"]["containerStatuses"], &at.pod["status"]["initContainerStatuses"]];
    lists.into_iter().filter_map(Value::as_array).flatten().find(|c| c["name"] == at.container.as_str())
}

/// Lines from `from` on, as they are written, until nothing more will be.
fn follow(ring: Arc<LogRing>, from: u64) -> BoxStream<'static, LogLine> {
    let news = ring.subscribe();
    stream::unfold((ring, news, from), |(ring, mut news, from)| async move {
        loop {
            let (_, ended) = *news.borrow_and_update();
            let (lines, next) = ring.since(from);
            if !lines.is_empty() {
                return Some((stream::iter(lines.into_iter().map(shown)), (ring, news, next)));
            }
            if ended || news.changed().await.is_err() {
                return None;
            }
        }
    })
    .flatten()
    .boxed()
}

impl PodRuntime for Nodes {
    fn logs(&self, at: &ContainerAt, previous: bool, follow_it: bool) -> Result<Log, Status> {
        let uid = object::uid(&at.pod);
        if let Some(ring) = self.0.runtime.log(uid, &at.container, previous) {
            let (lines, next) = ring.since(0);
            let more = follow_it.then(|| follow(ring, next));
            return Ok(Log { lines: lines.into_iter().map(shown).collect(), more });
        }
        let real = spec(at).is_some_and(|c| self.0.options.programs.find(c).is_some());
        if real && previous {
            let (c, p) = (&at.container, object::name(&at.pod));
            return Err(Status::bad_request(format!(
                "previous terminated container {c:?} in pod {p:?} not found"
            )));
        }
        // Said in the log itself: a simulated container has nothing to tell but that.
        let started =
            status(at).and_then(|s| s["state"]["running"]["startedAt"].as_str()).and_then(time::parse);
        let image = spec(at).and_then(|c| c["image"].as_str()).unwrap_or_default();
        let text = match real {
            true => format!("the log of container {:?} ended with the process that ran it\n", at.container),
            false => format!(
                "container {:?} is simulated: no program of image {image:?} runs here\n",
                at.container
            ),
        };
        let line = LogLine { at: started.unwrap_or_else(|| self.0.host.clock().now()), text: text.into() };
        Ok(Log { lines: vec![line], more: None })
    }

    fn exec(
        &self,
        at: ContainerAt,
        words: Vec<String>,
        mut io: Stdio,
    ) -> BoxFuture<'static, Result<i32, Status>> {
        let inside = self.0.runtime.inside(object::uid(&at.pod), &at.container);
        let running = status(&at).is_some_and(|s| s["state"]["running"].is_object());
        Box::pin(async move {
            if !running {
                let text = format!("container not found ({:?})", at.container);
                return Err(Status::internal(format!("unable to upgrade connection: {text}")));
            }
            let (program, ctx) = inside.unzip();
            if shell::wanted(&words) {
                return Ok(shell::run(program.as_ref(), ctx.as_ref(), io).await);
            }
            let mut input = Vec::new();
            if command::reads_input(&words) {
                while let Some(b) = io.stdin.recv().await {
                    input.extend_from_slice(&b);
                    if input.len() > MAX_INPUT {
                        return Err(Status::too_large(format!("the input is larger than {MAX_INPUT} bytes")));
                    }
                }
            }
            let out = command::run(program.as_ref(), ctx.as_ref(), words, input).await;
            for (to, data) in [(&io.stdout, out.stdout), (&io.stderr, out.stderr)] {
                if !data.is_empty() {
                    let _ = to.send(Bytes::from(data)).await;
                }
            }
            Ok(out.code)
        })
    }

    fn attach(&self, at: ContainerAt, io: Stdio) -> BoxFuture<'static, Result<(), Status>> {
        let uid = object::uid(&at.pod);
        let running = self
            .0
            .runtime
            .facts(uid)
            .get(&at.container)
            .is_some_and(|k| matches!(k.fact, Fact::Running { .. }));
        let ring = self.0.runtime.log(uid, &at.container, false).filter(|_| running);
        Box::pin(async move {
            let Some(ring) = ring else {
                let text = format!("container {:?} has no program to attach to", at.container);
                return Err(Status::bad_request(text));
            };
            let (_, next) = ring.since(0);
            let mut lines = follow(ring, next);
            while let Some(l) = lines.next().await {
                if io.stdout.send(l.text).await.is_err() {
                    break;
                }
            }
            Ok(())
        })
    }

    fn port(&self, cluster: &ClusterId, namespace: &str, pod: &str, port: u16) -> Option<SocketAddr> {
        self.0.runtime.port(cluster, &ek_store::object_key(namespace, pod), port)
    }

    fn service(&self, cluster: &ClusterId, namespace: &str, name: &str, port: u16) -> Option<SocketAddr> {
        services::resolve(&self.0, cluster, namespace, name, port)
    }
}
