//! Programs: containers that are code of this process.
//!
//! A program is a future. It is given everything a container has: arguments, environment, files, an address to
//! listen on, somewhere to write its log, an account to speak to its cluster with, and word when it has to stop. It
//! cannot do harm by ending, by panicking or by never ending; what it must not do is block its thread.

use crate::Inner;
use crate::run::listen::listen;
use crate::run::log::LogRing;
use crate::run::probe::Line;
use crate::run::shelf::Shelf;
use crate::run::volumes::Mount;
use crate::services::Found;
use crate::stage::glob;
use ek_auth::User;
use ek_engine::ClusterId;
use ek_server::Access;
use futures::future::BoxFuture;
use parking_lot::Mutex;
use serde_json::Value;
use std::collections::{BTreeMap, HashMap};
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock, Weak};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

/// What a command that was executed in a container came to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExecOutput {
    pub stdout: Vec<u8>,
    pub stderr: Vec<u8>,
    pub code: i32,
}

/// Something that runs as a container.
pub trait Program: Send + Sync + 'static {
    /// Runs until it is done or told to stop; returns the exit code.
    fn run(&self, ctx: ProgramContext) -> BoxFuture<'static, i32>;

    /// Whether its container is not ready before the program says so ([`ProgramContext::ready`]). For programs that
    /// stand in for others which show their trouble in ways of their own; a readiness probe, where the container has
    /// one, decides alone.
    fn tells_when_ready(&self) -> bool {
        false
    }

    /// Executes a command as if in the container; `None` if it knows none of that name, then the built-in ones
    /// are tried.
    fn exec(&self, _: ProgramContext, _: Vec<String>, _: Vec<u8>) -> BoxFuture<'static, Option<ExecOutput>> {
        Box::pin(std::future::ready(None))
    }
}

/// A program made of a function.
pub struct FnProgram<F>(pub F);

impl<F, R> Program for FnProgram<F>
where
    F: Fn(ProgramContext) -> R + Send + Sync + 'static,
    R: Future<Output = i32> + Send + 'static,
{
    fn run(&self, ctx: ProgramContext) -> BoxFuture<'static, i32> {
        Box::pin((self.0)(ctx))
    }
}

/// Which images are programs.
#[derive(Clone, Default)]
pub struct Programs(Vec<Entry>);

#[derive(Clone)]
struct Entry {
    image: String,
    fits: Fits,
    program: Arc<dyn Program>,
}

/// Looks at a container, as its pod spells it.
type Fits = Arc<dyn Fn(&Value) -> bool + Send + Sync>;

impl Programs {
    pub fn new() -> Programs {
        Programs::default()
    }

    /// The small ones this crate comes with, under `zaffre.io/…`.
    pub fn builtin() -> Programs {
        crate::programs::builtin()
    }

    /// Containers whose image fits the glob run this. What is registered last is tried first.
    pub fn register(&mut self, image: &str, program: impl Program) -> &mut Programs {
        self.register_command(image, None, Arc::new(program))
    }

    /// As [`Programs::register`], but only where the first word of the command is this one.
    pub fn register_command(
        &mut self,
        image: &str,
        command: Option<&str>,
        program: Arc<dyn Program>,
    ) -> &mut Programs {
        let command = command.map(str::to_owned);
        let word = |c: &Value| c["command"][0].as_str().or_else(|| c["args"][0].as_str()).map(str::to_owned);
        self.register_where(image, move |c| command.is_none() || word(c) == command, program)
    }

    /// As [`Programs::register`], but only for containers that `fits` says yes to: many of an operating system's
    /// programs are in one image.
    pub fn register_where(
        &mut self,
        image: &str,
        fits: impl Fn(&Value) -> bool + Send + Sync + 'static,
        program: Arc<dyn Program>,
    ) -> &mut Programs {
        self.0.insert(0, Entry { image: image.to_owned(), fits: Arc::new(fits), program });
        self
    }

    pub fn with(mut self, image: &str, program: impl Program) -> Programs {
        self.register(image, program);
        self
    }

    pub(crate) fn find(&self, container: &Value) -> Option<&Arc<dyn Program>> {
        let image = container["image"].as_str().unwrap_or_default();
        (self.0.iter()).find(|e| glob(&e.image, image) && (e.fits)(container)).map(|e| &e.program)
    }
}

/// A port of a container: where it really is.
pub(crate) struct Port {
    pub address: SocketAddr,
    /// Bound before the program starts, so that nothing is refused while it gets ready; taken by it.
    pub listener: Option<TcpListener>,
}

pub(crate) struct ContextParts {
    pub cluster: ClusterId,
    pub namespace: String,
    pub pod: String,
    pub pod_ip: String,
    pub labels: BTreeMap<String, String>,
    pub container: String,
    /// Its service account.
    pub account: String,
    pub command: Vec<String>,
    pub args: Vec<String>,
    pub env: BTreeMap<String, String>,
    /// The longest mount path first.
    pub mounts: Vec<Mount>,
    pub shelf: Arc<Shelf>,
    /// Made when it is asked for: a client is a task, and most programs of a control plane need none.
    pub client: OnceLock<kube::Client>,
    pub access: Access,
    pub log: Arc<LogRing>,
    pub stop: CancellationToken,
    pub ports: Arc<Mutex<HashMap<u16, Port>>>,
    pub nodes: Weak<Inner>,
    pub clock: clock::SharedClock,
    /// Counts how often files of the pod have changed.
    pub files: watch::Receiver<u64>,
    /// Shared by the containers of a pod.
    pub stir: watch::Sender<u64>,
    /// The Service that was asked for last, and where it was found.
    pub found: Mutex<Option<Found>>,
    /// A connection to the container itself, for the next look of a probe.
    pub line: Mutex<Option<Line>>,
}

/// What a program is given; cheap to clone.
#[derive(Clone)]
pub struct ProgramContext(pub(crate) Arc<ContextParts>);

impl ProgramContext {
    pub fn cluster(&self) -> &ClusterId {
        &self.0.cluster
    }

    pub fn namespace(&self) -> &str {
        &self.0.namespace
    }

    pub fn pod(&self) -> &str {
        &self.0.pod
    }

    pub fn pod_ip(&self) -> &str {
        &self.0.pod_ip
    }

    pub fn container(&self) -> &str {
        &self.0.container
    }

    pub fn labels(&self) -> &BTreeMap<String, String> {
        &self.0.labels
    }

    pub fn command(&self) -> &[String] {
        &self.0.command
    }

    pub fn args(&self) -> &[String] {
        &self.0.args
    }

    pub fn env(&self) -> &BTreeMap<String, String> {
        &self.0.env
    }

    pub fn clock(&self) -> &clock::SharedClock {
        &self.0.clock
    }

    /// A client of the pod's cluster, as the pod's service account.
    pub fn client(&self) -> kube::Client {
        let make = || {
            let account = User::service_account(&self.0.namespace, &self.0.account).authenticated();
            self.0.access.client_as(account)
        };
        self.0.client.get_or_init(make).clone()
    }

    /// Where a path of the container really is. Paths under no mount do not exist.
    pub fn path(&self, path: impl AsRef<Path>) -> Option<PathBuf> {
        let path = path.as_ref();
        // A way back up would lead out of the volume.
        if path.components().any(|c| c == std::path::Component::ParentDir) {
            return None;
        }
        let mut below = self.0.mounts.iter().filter_map(|m| Some((m, path.strip_prefix(&m.at).ok()?)));
        let (mount, below) = below.next()?;
        if let Err(e) = self.0.shelf.open(&mount.volume) {
            // Whoever reads there says that nothing is.
            tracing::warn!(pod = self.0.pod, volume = mount.volume, error = %e, "a volume cannot be laid out");
        }
        Some(join(&mount.real, below))
    }

    pub fn mounts(&self) -> impl Iterator<Item = &str> {
        self.0.mounts.iter().map(|m| m.at.as_str())
    }

    /// Writes to the container's log.
    pub fn log(&self, text: impl AsRef<str>) {
        self.0.log.write(self.0.clock.now(), text.as_ref());
    }

    /// Where connections to a port of this container arrive: a port of the loopback interface, at one of its addresses.
    pub async fn listener(&self, port: u16) -> io::Result<TcpListener> {
        if let Some(p) = self.0.ports.lock().get_mut(&port)
            && let Some(bound) = p.listener.take()
        {
            self.stir();
            return Ok(bound);
        }
        let bound = listen().await?;
        let address = bound.local_addr()?;
        self.0.ports.lock().insert(port, Port { address, listener: None });
        self.stir();
        Ok(bound)
    }

    /// Where `localhost:port` is: containers of a pod share their network. `None` until somebody listens.
    pub fn local(&self, port: u16) -> Option<SocketAddr> {
        let key = format!("{}/{}", self.0.namespace, self.0.pod);
        self.0.nodes.upgrade()?.runtime.listening(&self.0.cluster, &key, port)
    }

    /// Sees whenever files from Secrets, ConfigMaps and the like have been replaced.
    pub fn files(&self) -> watch::Receiver<u64> {
        self.0.files.clone()
    }

    /// Says that something in the pod may be as others of it, or its probes, wait for: who waits looks now.
    pub fn stir(&self) {
        self.0.stir.send_modify(|n| *n += 1);
    }

    /// Sees whenever something in the pod [stirs](Self::stir).
    pub fn stirred(&self) -> watch::Receiver<u64> {
        self.0.stir.subscribe()
    }

    /// Sees whenever endpoints of Services in the pod's namespace change: what [`Self::resolve`] says may be another
    /// thing then.
    pub fn endpoints(&self) -> watch::Receiver<u64> {
        match self.0.nodes.upgrade() {
            Some(nodes) => nodes.runtime.endpoints(&self.0.cluster, &self.0.namespace),
            None => watch::Sender::new(0).subscribe(),
        }
    }

    /// Says whether the container is ready, for programs that [tell](Program::tells_when_ready). Why it is not becomes
    /// an event of the pod, as a failed readiness probe would; said twice, it is one.
    pub fn ready(&self, so: Result<(), String>) {
        if let Some(nodes) = self.0.nodes.upgrade() {
            nodes.runtime.told(self, so);
        }
    }

    /// Done when the container has to stop. What goes on after its grace is aborted.
    pub fn stopping(&self) -> &CancellationToken {
        &self.0.stop
    }

    /// Where `name.namespace.svc:port` (or `name.namespace`, or `name`, or the address of a Service) really is.
    pub fn resolve(&self, host: &str, port: u16) -> Option<SocketAddr> {
        if host.parse::<std::net::IpAddr>().is_ok() {
            let nodes = self.0.nodes.upgrade()?;
            let (namespace, name) = crate::services::named(&nodes, &self.0.cluster, host)?;
            return crate::services::resolve(&nodes, &self.0.cluster, &namespace, &name, port);
        }
        let (name, rest) = host.split_once('.').unwrap_or((host, ""));
        let namespace = match rest.split('.').next().unwrap_or_default() {
            "" => self.0.namespace.as_str(),
            ns => ns,
        };
        let nodes = self.0.nodes.upgrade()?;
        crate::services::again(&nodes, &self.0.cluster, (namespace, name, port), &self.0.found)
    }

    /// Where all ready endpoints of a Service of the pod's namespace are, for who has to hear each of them.
    pub fn resolve_all(&self, name: &str, port: u16) -> Vec<SocketAddr> {
        let nodes = self.0.nodes.upgrade();
        let all =
            nodes.and_then(|n| crate::services::every(&n, &self.0.cluster, &self.0.namespace, name, port));
        all.unwrap_or_default()
    }

    /// Connects to a Service by its name.
    pub async fn dial(&self, host: &str, port: u16) -> io::Result<TcpStream> {
        let missing =
            || io::Error::new(io::ErrorKind::HostUnreachable, format!("no ready endpoint of {host}:{port}"));
        let tcp = TcpStream::connect(self.resolve(host, port).ok_or_else(missing)?).await?;
        // The first request must not wait until the end of the handshake is acknowledged, which takes 40 ms.
        tcp.set_nodelay(true)?;
        Ok(tcp)
    }
}

/// `real` itself when there is nothing below it; a mounted file has no children.
fn join(real: &Path, below: &Path) -> PathBuf {
    if below.as_os_str().is_empty() { real.to_owned() } else { real.join(below) }
}
