//! What runs behind pods, as the API server needs it: logs, commands, ports.
//!
//! The server knows the protocols (`kubectl logs`, `exec`, `attach`, `port-forward`, `proxy`); a [`PodRuntime`] knows the
//! containers. Without one, pods have none to reach.

use arc_swap::ArcSwap;
use bytes::Bytes;
use ek_meta::{Reason, Status};
use ek_store::ClusterId;
use futures::future::BoxFuture;
use futures::stream::BoxStream;
use jiff::Timestamp;
use serde_json::Value;
use std::net::SocketAddr;
use std::sync::Arc;
use tokio::sync::mpsc;

/// A container of a pod that exists.
#[derive(Clone, Debug)]
pub struct ContainerAt {
    pub cluster: ClusterId,
    pub pod: Arc<Value>,
    pub container: String,
}

#[derive(Clone, Debug)]
pub struct LogLine {
    pub at: Timestamp,
    /// With its newline.
    pub text: Bytes,
}

/// A container's log: what is there, and what will be.
pub struct Log {
    pub lines: Vec<LogLine>,
    /// Ends when the container does. Only if it was asked for.
    pub more: Option<BoxStream<'static, LogLine>>,
}

/// The three streams of a command; each ends when the other side drops it.
pub struct Stdio {
    pub stdin: mpsc::Receiver<Bytes>,
    pub stdout: mpsc::Sender<Bytes>,
    pub stderr: mpsc::Sender<Bytes>,
    /// A person types.
    pub tty: bool,
}

/// Whoever runs pods.
pub trait PodRuntime: Send + Sync + 'static {
    fn logs(&self, at: &ContainerAt, previous: bool, follow: bool) -> Result<Log, Status>;

    /// Runs a command in a container; returns its exit code.
    fn exec(
        &self,
        at: ContainerAt,
        command: Vec<String>,
        io: Stdio,
    ) -> BoxFuture<'static, Result<i32, Status>>;

    /// Shows what a container writes from now on, until it ends.
    fn attach(&self, at: ContainerAt, io: Stdio) -> BoxFuture<'static, Result<(), Status>>;

    /// Where a port of a pod really is.
    fn port(&self, cluster: &ClusterId, namespace: &str, pod: &str, port: u16) -> Option<SocketAddr>;

    /// Where a port of a Service really is.
    fn service(&self, cluster: &ClusterId, namespace: &str, name: &str, port: u16) -> Option<SocketAddr>;
}

/// Nothing runs.
pub struct NoPods;

fn nothing() -> Status {
    let text =
        "pods here have no containers to reach: this needs a node runtime, which this server runs without";
    Status::failure(501, Reason::ServiceUnavailable, text)
}

impl PodRuntime for NoPods {
    fn logs(&self, _: &ContainerAt, _: bool, _: bool) -> Result<Log, Status> {
        Err(nothing())
    }

    fn exec(&self, _: ContainerAt, _: Vec<String>, _: Stdio) -> BoxFuture<'static, Result<i32, Status>> {
        Box::pin(std::future::ready(Err(nothing())))
    }

    fn attach(&self, _: ContainerAt, _: Stdio) -> BoxFuture<'static, Result<(), Status>> {
        Box::pin(std::future::ready(Err(nothing())))
    }

    fn port(&self, _: &ClusterId, _: &str, _: &str, _: u16) -> Option<SocketAddr> {
        None
    }

    fn service(&self, _: &ClusterId, _: &str, _: &str, _: u16) -> Option<SocketAddr> {
        None
    }
}

/// The runtime of a host; set once there is one.
#[derive(Clone)]
pub struct Pods {
    runtime: Arc<ArcSwap<Box<dyn PodRuntime>>>,
}

impl Default for Pods {
    fn default() -> Pods {
        Pods { runtime: Arc::new(ArcSwap::from_pointee(Box::new(NoPods))) }
    }
}

impl Pods {
    pub(crate) fn set(&self, runtime: impl PodRuntime) {
        self.runtime.store(Arc::new(Box::new(runtime)));
    }

    pub(crate) fn get(&self) -> Arc<Box<dyn PodRuntime>> {
        self.runtime.load_full()
    }
}
