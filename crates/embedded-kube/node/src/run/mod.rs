//! Programs that run: started, probed, stopped, and what is known of them.
//!
//! Each running container has one task that looks after its program and one per probe. They touch nothing but this
//! bookkeeping and then ask for a run of the pod's key; all writing is done there.

pub(crate) mod command;
pub(crate) mod env;
pub(crate) mod files;
pub(crate) mod listen;
pub(crate) mod log;
pub(crate) mod probe;
pub(crate) mod shelf;
pub(crate) mod shell;
mod sources;
mod supervise;
pub(crate) mod volumes;

use crate::pod::container::container_id;
use crate::pod::{Fact, Facts, Known, Note};
use crate::program::{ContextParts, Port, Program, ProgramContext};
use crate::{Inner, kubelet};
use ek_engine::{ClusterId, Engine};
use ek_meta::object;
use ek_server::Access;
use jiff::Timestamp;
use listen::listen;
use log::LogRing;
use parking_lot::Mutex;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::SocketAddr;
use std::os::unix::fs::DirBuilderExt;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use volumes::{PodVolumes, VolumeWorld};

/// Why a container cannot start.
#[derive(Debug)]
pub(crate) struct Blocked {
    pub reason: &'static str,
    pub message: String,
}

struct ContainerRun {
    round: i64,
    fact: Fact,
    before: Option<Fact>,
    /// Asks it to stop; its own token follows once its hook has run.
    stop: CancellationToken,
    /// Seconds it has once it is told to stop.
    grace: Arc<Mutex<i64>>,
    ctx: Option<ProgramContext>,
    program: Arc<dyn Program>,
    log: Arc<LogRing>,
    previous: Option<Arc<LogRing>>,
    ports: Arc<Mutex<HashMap<u16, Port>>>,
    /// Why it said that it is not ready.
    unready: Option<String>,
}

struct PodRun {
    cluster: ClusterId,
    key: Arc<str>,
    node: String,
    containers: HashMap<String, ContainerRun>,
    /// Taken out while it is being updated.
    volumes: Option<PodVolumes>,
    refs: BTreeSet<(bool, String)>,
    notes: Vec<Note>,
    files: watch::Sender<u64>,
    /// Something in the pod may be as a probe wants it now.
    stir: watch::Sender<u64>,
    /// Counts what is learnt of its programs.
    news: watch::Sender<u64>,
}

#[derive(Default)]
struct Runs {
    pods: HashMap<String, PodRun>,
    keys: HashMap<ClusterId, HashMap<Arc<str>, String>>,
    /// Who reads what: pods by the key of a Secret (or else ConfigMap).
    readers: HashMap<ClusterId, HashMap<(bool, String), BTreeSet<Arc<str>>>>,
}

impl Runs {
    /// Notes what a new pod's files and variables come from.
    fn note_reads(&mut self, cluster: &ClusterId, key: &Arc<str>, refs: &BTreeSet<(bool, String)>) {
        let ns = ek_engine::split(key).0;
        let of = self.readers.entry(cluster.clone()).or_default();
        for (secret, name) in refs {
            of.entry((*secret, format!("{ns}/{name}"))).or_default().insert(key.clone());
        }
    }

    fn forget_reads(&mut self, cluster: &ClusterId, key: &Arc<str>, refs: &BTreeSet<(bool, String)>) {
        let Some(of) = self.readers.get_mut(cluster) else { return };
        let ns = ek_engine::split(key).0;
        for (secret, name) in refs {
            let source = (*secret, format!("{ns}/{name}"));
            if let Some(pods) = of.get_mut(&source) {
                pods.remove(key);
                if pods.is_empty() {
                    of.remove(&source);
                }
            }
        }
        if of.is_empty() {
            self.readers.remove(cluster);
        }
    }
}

pub(crate) struct Runtime {
    runs: Mutex<Runs>,
    /// Counts how often the endpoints of a namespace have changed, for those who wait for some.
    moves: Mutex<HashMap<(ClusterId, String), watch::Sender<u64>>>,
    dir: PathBuf,
    engine: OnceLock<Engine>,
    clock: clock::SharedClock,
}

impl Runtime {
    pub(crate) fn new(dir: PathBuf, clock: clock::SharedClock) -> Runtime {
        Runtime { runs: Mutex::default(), moves: Mutex::default(), dir, engine: OnceLock::new(), clock }
    }

    pub(crate) fn attach(&self, engine: &Engine) {
        let _ = self.engine.set(engine.clone());
    }

    pub(crate) fn poke(&self, cluster: &ClusterId, key: &str) {
        if let Some(engine) = self.engine.get() {
            engine.poke(cluster, kubelet::NAME, key);
        }
    }

    pub(crate) fn poke_node(&self, cluster: &ClusterId, node: &str) {
        if let Some(engine) = self.engine.get() {
            engine.poke(cluster, "node-heartbeat", node);
        }
    }

    pub(crate) fn facts(&self, uid: &str) -> Facts {
        let runs = self.runs.lock();
        let Some(pod) = runs.pods.get(uid) else { return Facts::new() };
        let known =
            |c: &ContainerRun| Known { round: c.round, fact: c.fact.clone(), before: c.before.clone() };
        pod.containers.iter().map(|(n, c)| (n.clone(), known(c))).collect()
    }

    /// Sees whenever something is learnt of a pod's programs.
    pub(crate) fn news(&self, uid: &str) -> Option<watch::Receiver<u64>> {
        Some(self.runs.lock().pods.get(uid)?.news.subscribe())
    }

    /// What was lacking may be there by now.
    pub(crate) fn clear_blocked(&self, uid: &str) {
        if let Some(pod) = self.runs.lock().pods.get_mut(uid) {
            for c in pod.containers.values_mut().filter(|c| matches!(c.fact, Fact::Blocked { .. })) {
                // A run that never began leaves what is known of the one before.
                c.round = -1;
            }
        }
    }

    /// Events that probes and programs left behind.
    pub(crate) fn take_notes(&self, uid: &str) -> Vec<Note> {
        self.runs.lock().pods.get_mut(uid).map(|p| std::mem::take(&mut p.notes)).unwrap_or_default()
    }

    /// A pod of the same name but another uid is another pod; the old one's programs end.
    pub(crate) fn replace_stale(&self, cluster: &ClusterId, key: &str, uid: &str) {
        let stale = {
            let runs = self.runs.lock();
            runs.keys.get(cluster).and_then(|k| k.get(key)).filter(|u| *u != uid).cloned()
        };
        if let Some(old) = stale {
            self.end(&old);
        }
    }

    /// Pods whose files come from this object, or which wait for it.
    pub(crate) fn readers(&self, cluster: &ClusterId, table: &str, key: &str) -> Vec<Arc<str>> {
        let secret = table == "/secrets";
        let runs = self.runs.lock();
        let pods = runs.readers.get(cluster).and_then(|of| of.get(&(secret, key.to_owned())));
        pods.into_iter().flatten().cloned().collect()
    }

    /// Sees whenever endpoints of a namespace change.
    pub(crate) fn endpoints(&self, cluster: &ClusterId, namespace: &str) -> watch::Receiver<u64> {
        let key = (cluster.clone(), namespace.to_owned());
        self.moves.lock().entry(key).or_insert_with(|| watch::Sender::new(0)).subscribe()
    }

    /// Endpoints of a namespace have changed.
    pub(crate) fn moved(&self, cluster: &ClusterId, namespace: &str) {
        let mut moves = self.moves.lock();
        let key = (cluster.clone(), namespace.to_owned());
        match moves.get(&key) {
            Some(waiting) if waiting.receiver_count() > 0 => waiting.send_modify(|n| *n += 1),
            Some(_) => _ = moves.remove(&key),
            None => {}
        }
    }

    /// A claim is gone, or with its cluster all of them.
    pub(crate) fn remove_claims(&self, cluster: &ClusterId, uid: Option<&str>) {
        let mut dir = self.claims(cluster);
        dir.extend(uid);
        if dir.exists() {
            remove_later(dir);
        }
    }

    fn claims(&self, cluster: &ClusterId) -> PathBuf {
        self.dir.join("claims").join(cluster.as_str())
    }

    /// Removes the files of pods that are no more: an earlier process could not.
    pub(crate) fn sweep(&self, lives: impl Fn(&str) -> bool) {
        let Ok(dirs) = std::fs::read_dir(self.dir.join("pods")) else { return };
        for dir in dirs.flatten() {
            if !lives(&dir.file_name().to_string_lossy()) {
                remove_later(dir.path());
            }
        }
    }

    /// Starts a container's program; what stands in its way becomes a fact.
    pub(crate) async fn start(
        &self,
        inner: &Arc<Inner>,
        access: &Access,
        pod: &Value,
        ip: &str,
        container: &str,
        round: i64,
    ) {
        let uid = object::uid(pod);
        let lists = [&pod["spec"]["initContainers"], &pod["spec"]["containers"]];
        let spec = lists.into_iter().filter_map(Value::as_array).flatten().find(|c| c["name"] == container);
        let Some(spec) = spec else { return };
        let Some(program) = inner.options.programs.find(spec).cloned() else { return };
        let mut volumes = self.open(access, pod);
        let made = self.context(inner, access, pod, ip, spec, &mut volumes).await;
        let mut runs = self.runs.lock();
        let Some(run) = runs.pods.get_mut(uid) else { return };
        run.volumes = Some(volumes);
        let (previous, before) = match run.containers.remove(container) {
            // A run that never began hides nothing of the one before.
            Some(c) if matches!(c.fact, Fact::Blocked { .. }) => (c.previous, c.before),
            Some(c) => (Some(c.log), Some(c.fact)),
            None => (None, None),
        };
        let blocked = |b: Blocked| Fact::Blocked { reason: b.reason.to_owned(), message: b.message };
        let (ctx, fact) = match made {
            Ok(ctx) => {
                let id = container_id(uid, container, round).replace("containerd://", "zaffre://");
                (Some(ctx), Fact::Running { id, since: access.now(), started: true, ready: true })
            }
            Err(b) => (None, blocked(b)),
        };
        let entry = ContainerRun {
            round,
            fact,
            before,
            stop: CancellationToken::new(),
            grace: Arc::new(Mutex::new(pod["spec"]["terminationGracePeriodSeconds"].as_i64().unwrap_or(30))),
            log: ctx.as_ref().map_or_else(Default::default, |c| c.0.log.clone()),
            ports: ctx.as_ref().map_or_else(Default::default, |c| c.0.ports.clone()),
            previous,
            program: program.clone(),
            ctx,
            unready: None,
        };
        let Some(ctx) = entry.ctx.clone() else {
            run.containers.insert(container.to_owned(), entry);
            return;
        };
        let grace = entry.grace.clone();
        let stop = entry.stop.clone();
        run.containers.insert(container.to_owned(), entry);
        drop(runs);
        self.supervise(inner, uid, container, round, spec, ctx, program, (stop, grace));
    }

    /// The pod's bookkeeping, made if there is none, and its volumes in hand.
    fn open(&self, access: &Access, pod: &Value) -> PodVolumes {
        let uid = object::uid(pod).to_owned();
        let key: Arc<str> = format!("{}/{}", object::namespace(pod), object::name(pod)).into();
        let mut runs = self.runs.lock();
        runs.keys.entry(access.id().clone()).or_default().insert(key.clone(), uid.clone());
        let dir = self.dir.join("pods").join(&uid);
        for private in ["pods", "claims"] {
            // Secrets and tokens lie below; modes inside are the pod's to choose, the way in is ours alone. If this
            // fails, so does the first write, which says why.
            let _ = std::fs::DirBuilder::new().recursive(true).mode(0o700).create(self.dir.join(private));
        }
        if !runs.pods.contains_key(&uid) {
            // Before anything is read: what comes while we look is not missed.
            runs.note_reads(access.id(), &key, &sources::of(pod));
        }
        let run = runs.pods.entry(uid).or_insert_with(|| PodRun {
            cluster: access.id().clone(),
            key,
            node: pod["spec"]["nodeName"].as_str().unwrap_or_default().to_owned(),
            containers: HashMap::new(),
            volumes: None,
            refs: sources::of(pod),
            notes: Vec::new(),
            files: watch::Sender::new(0),
            stir: watch::Sender::new(0),
            news: watch::Sender::new(0),
        });
        run.volumes.take().unwrap_or_else(|| PodVolumes::new(dir, access, pod))
    }

    async fn context(
        &self,
        inner: &Arc<Inner>,
        access: &Access,
        pod: &Value,
        ip: &str,
        spec: &Value,
        volumes: &mut PodVolumes,
    ) -> Result<ProgramContext, Blocked> {
        let host = pod["status"]["hostIP"].as_str().unwrap_or("127.0.0.1");
        let claims = self.claims(access.id());
        let world = VolumeWorld { access, pod, ips: (ip, host), csi: &inner.options.csi, claims: &claims };
        volumes.update(&world).await?;
        let env = env::build(access, pod, spec, ip, host)?;
        let mut ports = HashMap::new();
        for p in spec["ports"].as_array().into_iter().flatten() {
            let Some(number) = p["containerPort"].as_u64().and_then(|n| u16::try_from(n).ok()) else {
                continue;
            };
            if p["protocol"].as_str().unwrap_or("TCP") != "TCP" {
                continue;
            }
            let failed = |e: std::io::Error| Blocked {
                reason: "CreateContainerError",
                message: format!("port {number}: {e}"),
            };
            let bound = listen().await.map_err(failed)?;
            let address = bound.local_addr().map_err(failed)?;
            ports.insert(number, Port { address, listener: Some(bound) });
        }
        let labels = pod["metadata"]["labels"].as_object().into_iter().flatten();
        let ns = object::namespace(pod);
        let (files, stir) = match self.runs.lock().pods.get(object::uid(pod)) {
            Some(run) => {
                run.files.send_if_modified(|v| std::mem::replace(v, volumes.version()) != volumes.version());
                (run.files.subscribe(), run.stir.clone())
            }
            None => (watch::Sender::new(0).subscribe(), watch::Sender::new(0)),
        };
        Ok(ProgramContext(Arc::new(ContextParts {
            cluster: access.id().clone(),
            namespace: ns.to_owned(),
            pod: object::name(pod).to_owned(),
            pod_ip: ip.to_owned(),
            labels: labels.map(|(k, v)| (k.clone(), v.as_str().unwrap_or_default().to_owned())).collect(),
            container: spec["name"].as_str().unwrap_or_default().to_owned(),
            command: env::words(&spec["command"], &env),
            args: env::words(&spec["args"], &env),
            mounts: volumes.mounts(spec, &env)?,
            shelf: volumes.shelf().clone(),
            env,
            account: volumes::account(pod).to_owned(),
            client: OnceLock::new(),
            access: access.clone(),
            log: Arc::default(),
            stop: CancellationToken::new(),
            ports: Arc::new(Mutex::new(ports)),
            nodes: Arc::downgrade(inner),
            clock: self.clock.clone(),
            files,
            stir,
            found: Mutex::default(),
            line: Mutex::default(),
        })))
    }

    /// Asks programs to stop within `grace` seconds.
    pub(crate) fn stop(&self, uid: &str, containers: &[String], grace: i64) {
        let runs = self.runs.lock();
        let Some(pod) = runs.pods.get(uid) else { return };
        for c in containers.iter().filter_map(|n| pod.containers.get(n)) {
            *c.grace.lock() = grace;
            c.stop.cancel();
        }
    }

    pub(crate) fn stop_all(&self) {
        let runs = self.runs.lock();
        for c in runs.pods.values().flat_map(|p| p.containers.values()) {
            c.stop.cancel();
        }
    }

    /// Ends a pod's programs at once and removes its files.
    pub(crate) fn end(&self, uid: &str) {
        let mut runs = self.runs.lock();
        let Some(pod) = runs.pods.remove(uid) else { return };
        // A successor of the same name may have the key by now, and reads what this one did.
        if let Some(keys) = runs.keys.get_mut(&pod.cluster)
            && keys.get(&pod.key).is_some_and(|u| u == uid)
        {
            keys.remove(&pod.key);
            if keys.is_empty() {
                runs.keys.remove(&pod.cluster);
            }
            runs.forget_reads(&pod.cluster, &pod.key, &pod.refs);
        }
        drop(runs);
        for c in pod.containers.values() {
            *c.grace.lock() = 0;
            c.stop.cancel();
            c.log.close();
        }
        let dir = self.dir.join("pods").join(uid);
        if pod.volumes.is_some_and(|v| v.dir == dir) {
            remove_later(dir);
        }
    }

    pub(crate) fn end_key(&self, cluster: &ClusterId, key: &str) {
        let uid = self.runs.lock().keys.get(cluster).and_then(|k| k.get(key)).cloned();
        if let Some(uid) = uid {
            self.end(&uid);
        }
    }

    pub(crate) fn end_node(&self, cluster: &ClusterId, node: Option<&str>) {
        let uids: Vec<String> = {
            let runs = self.runs.lock();
            let on = |p: &PodRun| p.cluster == *cluster && node.is_none_or(|n| p.node == n);
            runs.pods.iter().filter(|(_, p)| on(p)).map(|(u, _)| u.clone()).collect()
        };
        for uid in uids {
            self.end(&uid);
        }
    }

    /// Keeps a running pod's files as they should be; says when to look again.
    pub(crate) async fn refresh(
        &self,
        inner: &Arc<Inner>,
        access: &Access,
        pod: &Value,
        ip: &str,
    ) -> Option<Timestamp> {
        let uid = object::uid(pod);
        let mut volumes = self.runs.lock().pods.get_mut(uid)?.volumes.take()?;
        let host = pod["status"]["hostIP"].as_str().unwrap_or("127.0.0.1");
        let claims = self.claims(access.id());
        let world = VolumeWorld { access, pod, ips: (ip, host), csi: &inner.options.csi, claims: &claims };
        let result = volumes.update(&world).await;
        if let Err(b) = &result {
            tracing::debug!(pod = object::name(pod), why = b.message, "files are not up to date");
        }
        let next = volumes.refresh;
        let mut runs = self.runs.lock();
        let run = runs.pods.get_mut(uid)?;
        run.files.send_if_modified(|v| std::mem::replace(v, volumes.version()) != volumes.version());
        run.volumes = Some(volumes);
        next
    }

    /// Where a port of a pod really is.
    pub(crate) fn port(&self, cluster: &ClusterId, key: &str, port: u16) -> Option<SocketAddr> {
        let runs = self.runs.lock();
        let uid = runs.keys.get(cluster)?.get(key)?;
        let pod = runs.pods.get(uid)?;
        pod.containers.values().find_map(|c| c.ports.lock().get(&port).map(|p| p.address))
    }

    /// The same, if somebody listens there already.
    pub(crate) fn listening(&self, cluster: &ClusterId, key: &str, port: u16) -> Option<SocketAddr> {
        let runs = self.runs.lock();
        let pod = runs.pods.get(runs.keys.get(cluster)?.get(key)?)?;
        pod.containers.values().find_map(|c| probe::taken(&c.ports, port))
    }

    /// A container's log: of this run or of the one before.
    pub(crate) fn log(&self, uid: &str, container: &str, previous: bool) -> Option<Arc<LogRing>> {
        let runs = self.runs.lock();
        let c = runs.pods.get(uid)?.containers.get(container)?;
        if previous { c.previous.clone() } else { Some(c.log.clone()) }
    }

    /// A running container, to execute something in.
    pub(crate) fn inside(&self, uid: &str, container: &str) -> Option<(Arc<dyn Program>, ProgramContext)> {
        let runs = self.runs.lock();
        let c = runs.pods.get(uid)?.containers.get(container)?;
        matches!(c.fact, Fact::Running { .. }).then(|| Some((c.program.clone(), c.ctx.clone()?)))?
    }
}

/// Whoever asks need not wait for the disk; without a runtime there is nobody to do it later.
fn remove_later(dir: PathBuf) {
    let remove = move || _ = std::fs::remove_dir_all(dir);
    match tokio::runtime::Handle::try_current() {
        Ok(h) => _ = h.spawn_blocking(remove),
        Err(_) => remove(),
    }
}

/// Labels of a pod, for selectors.
pub(crate) fn labels(pod: &Value) -> BTreeMap<&str, &str> {
    let map = pod["metadata"]["labels"].as_object().into_iter().flatten();
    map.filter_map(|(k, v)| Some((k.as_str(), v.as_str()?))).collect()
}
