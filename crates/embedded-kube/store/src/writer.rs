//! The one writer of a store that has a disk.
//!
//! A store with a thread of its own is written by it. One of hundreds has none: whoever hands in work looks whether
//! somebody is writing, and if not asks for a blocking task that writes until nothing waits. Either way there is one
//! writer, and what waits meanwhile shares its sync.

use crate::engine::{Inner, Overlay, Request, Work};
use crate::members::Logs;
use crate::record::{self, Record};
use crate::table::Entry;
use crate::{CommitError, snapshot};
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::JoinHandle;
use tokio::sync::{mpsc, oneshot};

/// Waiting requests beyond this make callers wait: overload is felt, not hidden.
const QUEUE: usize = 1024;
/// One sync serves at most this many commits, so that the first of a burst is not kept waiting.
const GROUP: usize = 256;

pub(crate) enum Writer {
    /// No disk: a commit is a critical section.
    Memory(Mutex<()>),
    Durable(Box<Durable>),
}

pub(crate) struct Durable {
    queue: Mutex<Option<mpsc::Sender<Request>>>,
    thread: Mutex<Option<JoinHandle<()>>>,
    /// Taken by a thread of its own for good, by others while they write.
    worker: Mutex<Option<Worker>>,
    /// Whether somebody writes who has no thread of its own.
    busy: AtomicBool,
    leaving: Mutex<Vec<String>>,
    up: AtomicUsize,
    size: usize,
    /// Which cluster the members' directories say they are of.
    pub(crate) cluster: Option<String>,
}

struct Worker {
    rx: mpsc::Receiver<Request>,
    logs: Logs,
    poisoned: bool,
    frames: Vec<u8>,
}

impl Durable {
    pub(crate) fn new(logs: Logs) -> Durable {
        let (tx, rx) = mpsc::channel(QUEUE);
        let (up, size) = (AtomicUsize::new(logs.members.len()), logs.size);
        let cluster = logs.group.as_ref().map(|(id, _)| id.clone());
        let worker = Worker { rx, logs, poisoned: false, frames: Vec::new() };
        Durable {
            queue: Mutex::new(Some(tx)),
            thread: Mutex::new(None),
            worker: Mutex::new(Some(worker)),
            busy: AtomicBool::new(false),
            leaving: Mutex::default(),
            up,
            size,
            cluster,
        }
    }

    pub(crate) fn members(&self) -> (usize, usize) {
        (self.up.load(Ordering::Acquire), self.size)
    }

    pub(crate) fn is_open(&self) -> bool {
        self.queue.lock().is_some()
    }

    pub(crate) async fn submit(
        &self,
        inner: &Arc<Inner>,
        work: Work,
    ) -> Result<Vec<Arc<Entry>>, CommitError> {
        let queue = self.queue.lock().clone().ok_or(CommitError::Closed)?;
        let (reply, answer) = oneshot::channel();
        queue.send(Request { work, reply }).await.map_err(|_| CommitError::Closed)?;
        drop(queue);
        self.kick(inner);
        answer.await.map_err(|_| CommitError::Closed)?
    }

    pub(crate) fn leave(&self, inner: &Arc<Inner>, member: &str) {
        self.leaving.lock().push(member.to_owned());
        if let Some(queue) = &*self.queue.lock() {
            // A full queue is looked at anyway.
            let (reply, _) = oneshot::channel();
            let _ = queue.try_send(Request { work: Work::Look, reply });
        }
        self.kick(inner);
    }

    /// Sees to it that somebody writes.
    fn kick(&self, inner: &Arc<Inner>) {
        if inner.options.own_thread || self.busy.swap(true, Ordering::AcqRel) {
            return;
        }
        let inner = inner.clone();
        let write = move || {
            if let Writer::Durable(d) = &inner.writer {
                d.write_all(&inner);
            }
        };
        match tokio::runtime::Handle::try_current() {
            Ok(h) => _ = h.spawn_blocking(write),
            Err(_) => write(),
        }
    }

    /// Writes until nothing waits.
    fn write_all(&self, inner: &Inner) {
        loop {
            let waits = {
                let mut worker = self.worker.lock();
                let Some(w) = &mut *worker else { return };
                while let Ok(first) = w.rx.try_recv() {
                    w.serve(self, inner, first);
                }
                // After this, whoever hands in work starts another writer.
                self.busy.store(false, Ordering::Release);
                !w.rx.is_empty()
            };
            if !waits || self.busy.swap(true, Ordering::AcqRel) {
                return;
            }
        }
    }

    pub(crate) fn close(&self, inner: &Inner) {
        self.queue.lock().take();
        if let Some(h) = self.thread.lock().take() {
            let _ = h.join();
            return;
        }
        self.write_all(inner);
        if let Some(w) = self.worker.lock().take() {
            w.end();
        }
        self.up.store(0, Ordering::Release);
    }
}

/// Gives a store a thread that writes.
pub(crate) fn start(inner: &Arc<Inner>) -> std::io::Result<()> {
    let Writer::Durable(d) = &inner.writer else { return Ok(()) };
    let Some(mut w) = d.worker.lock().take() else { return Ok(()) };
    let weak = Arc::downgrade(inner);
    let handle = std::thread::Builder::new().name("ek-store-writer".into()).spawn(move || {
        while let Some(first) = w.rx.blocking_recv() {
            let Some(inner) = weak.upgrade() else { break };
            if let Writer::Durable(d) = &inner.writer {
                w.serve(d, &inner, first);
            }
        }
        w.end();
    })?;
    *d.thread.lock() = Some(handle);
    Ok(())
}

impl Worker {
    fn end(self) {
        for m in self.logs.members {
            m.finish();
        }
    }

    /// One request and those that wait behind it, as one group where they can be.
    fn serve(&mut self, d: &Durable, inner: &Inner, first: Request) {
        for member in std::mem::take(&mut *d.leaving.lock()) {
            self.logs.remove(&member);
        }
        d.up.store(self.logs.members.len(), Ordering::Release);
        let mut group = Vec::new();
        let mut next = Some(first);
        while let Some(Request { work, reply }) = next.take() {
            match work {
                Work::Commit(_) | Work::Found(..) | Work::DropCluster(_) => {
                    group.push(Request { work, reply });
                    if group.len() < GROUP {
                        next = self.rx.try_recv().ok();
                    }
                    continue;
                }
                // What is no write stands between groups.
                other => {
                    self.run_group(inner, std::mem::take(&mut group));
                    self.control(inner, other);
                    let _ = reply.send(Ok(Vec::new()));
                }
            }
        }
        self.run_group(inner, group);
        d.up.store(self.logs.members.len(), Ordering::Release);
    }

    fn control(&mut self, inner: &Inner, work: Work) {
        match work {
            Work::Seal(seal) => inner.reseal(seal),
            Work::Join(dir, tell) => {
                let frozen = snapshot::freeze(&inner.clusters.read());
                let _ = tell.send(self.logs.join(*dir, &frozen));
            }
            Work::Commit(_) | Work::Found(..) | Work::DropCluster(_) | Work::Look => {}
        }
    }

    /// One group: stage all, write once, sync once, publish all, answer all.
    fn run_group(&mut self, inner: &Inner, group: Vec<Request>) {
        let up = self.logs.members.len();
        let refused = match () {
            () if self.poisoned => Some(CommitError::Poisoned),
            () if up < self.logs.need() => Some(CommitError::NoQuorum { up, size: self.logs.size }),
            () => None,
        };
        if let Some(e) = refused {
            for r in group {
                let _ = r.reply.send(Err(e.clone()));
            }
            return;
        }
        let mut overlay = Overlay::default();
        let mut accepted = Vec::with_capacity(group.len());
        self.frames.clear();
        for Request { work, reply } in group {
            let mut founded = None;
            let record = match work {
                Work::Found(cluster, base) => {
                    // Nobody writes to a cluster before it is founded, so it may be visible before it is durable.
                    if inner.clusters.read().contains_key(&cluster) {
                        let _ = reply.send(Ok(Vec::new()));
                        continue;
                    }
                    inner.found_now(&cluster, &base);
                    founded = Some(cluster.clone());
                    Record::Commit { cluster, changes: base.changes() }
                }
                Work::Commit(batch) => {
                    let cluster = batch.cluster.clone();
                    match inner.stage(batch, &mut overlay) {
                        Ok(changes) => Record::Commit { cluster, changes },
                        Err(e) => {
                            let _ = reply.send(Err(e));
                            continue;
                        }
                    }
                }
                Work::DropCluster(cluster) => Record::DropCluster { cluster },
                Work::Seal(_) | Work::Join(..) | Work::Look => continue,
            };
            record::frame(&mut self.frames, &record);
            accepted.push((record, founded, reply));
        }
        if accepted.is_empty() {
            return;
        }
        let failure = match self.logs.append(&self.frames) {
            Ok(Ok(())) => None,
            Ok(Err(e)) => Some(e),
            Err(e) => {
                self.poisoned = true;
                inner.poisoned.store(true, Ordering::Relaxed);
                tracing::error!(error = %e, "the log could not be synced; refusing writes until restart");
                Some(e)
            }
        };
        if let Some(e) = failure {
            let e = Arc::new(e);
            for (_, founded, reply) in accepted {
                if let Some(id) = founded {
                    inner.drop_now(&id);
                }
                let _ = reply.send(Err(CommitError::Log(e.clone())));
            }
            return;
        }
        for (record, founded, reply) in accepted {
            let entries = match record {
                _ if founded.is_some() => Vec::new(),
                Record::Commit { cluster, changes } => {
                    let entries = changes.iter().map(|s| s.entry.clone()).collect();
                    inner.publish(&cluster, changes);
                    entries
                }
                Record::DropCluster { cluster } => {
                    inner.drop_now(&cluster);
                    Vec::new()
                }
                Record::ClusterHead { .. } | Record::End { .. } => Vec::new(),
            };
            let _ = reply.send(Ok(entries));
        }
        let keep = if inner.options.own_thread { 8 << 20 } else { 16 << 10 };
        if self.frames.capacity() > keep {
            self.frames = Vec::new();
        }
        self.logs.compact(inner.options.segment_bytes, || snapshot::freeze(&inner.clusters.read()));
    }
}
