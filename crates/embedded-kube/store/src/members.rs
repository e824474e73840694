//! Where a store's log lies: in one directory, or in one for each member of a group.
//!
//! A store with members writes every group of commits to all of them and acknowledges it when a majority has it on
//! disk. A member that fails or leaves does not stop the others; without a majority nothing is accepted. One that
//! comes back goes on where it was if it missed nothing, and is given the whole state otherwise. All members are
//! directories of this process, so there are no messages and no elections: what Raft decides by votes is decided here
//! by whoever opens the group, from what the directories say of themselves.
//!
//! Each directory therefore says which cluster it is of and in which *term* it last took part. A term is one opening
//! of the group, and is written to every participant after all of them hold the same state and before anything is
//! accepted. Of two directories the one with the later term, then with the higher revision, knows more: a write that
//! was never acknowledged can make a directory longer within its term, but cannot outlive the next one.

use crate::Options;
use crate::log::{Log, OpenError, io_err, sync_dir};
use crate::snapshot::{self, Frozen};
use crate::table::Clusters;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;
use std::sync::Arc;
use std::thread::JoinHandle;

const FILE: &str = "MEMBER";

/// Why directories cannot be one store.
#[derive(Debug, thiserror::Error)]
pub enum MemberError {
    #[error(
        "member {member} belongs to cluster {found}, the others to {expected}: remove its data to let it join"
    )]
    Foreign { member: String, found: String, expected: String },
    #[error(
        "only {with_data} of {size} members have their data and {need} are needed; bring the others' directories back, \
         or restore all members from a snapshot"
    )]
    Lost { with_data: usize, size: usize, need: usize },
    #[error("a new cluster of {size} members begins with all of them, and {present} are here")]
    Incomplete { present: usize, size: usize },
    #[error("a member without data can only join while a majority of the others is up")]
    NoSource,
    #[error("cannot {action} member {member}")]
    Io { action: &'static str, member: String, source: io::Error },
    #[error("the store is closed")]
    Closed,
}

/// The directory of one member, open and locked.
pub struct Directory {
    pub(crate) name: Arc<str>,
    pub(crate) log: Log,
    pub(crate) clusters: Clusters,
    cluster: Option<String>,
    term: u64,
}

impl Directory {
    /// Opens or creates it, recovering what is there.
    pub fn open(name: &str, dir: &Path, options: &Options) -> Result<Directory, OpenError> {
        let (log, clusters) = Log::open(dir, options)?;
        let path = dir.join(FILE);
        let (cluster, term) = match fs::read_to_string(&path) {
            Ok(text) => parse(&text).ok_or(OpenError::Damaged { path, offset: 0 })?,
            Err(e) if e.kind() == io::ErrorKind::NotFound => (None, 0),
            Err(e) => return Err(io_err("read", &path)(e)),
        };
        Ok(Directory { name: Arc::from(name), log, clusters, cluster, term })
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    /// The cluster its data is of; a directory without one is new, or has lost everything.
    pub fn cluster(&self) -> Option<&str> {
        self.cluster.as_deref()
    }

    pub fn is_new(&self) -> bool {
        self.cluster.is_none() && self.clusters.is_empty()
    }

    fn revision(&self) -> u64 {
        self.clusters.values().map(|c| c.read().revision).sum()
    }

    /// Of two directories of a cluster, the greater knows more.
    pub(crate) fn standing(&self) -> (u64, u64) {
        (self.term, self.revision())
    }
}

fn parse(text: &str) -> Option<(Option<String>, u64)> {
    let field = |name: &str| text.lines().find_map(|l| l.strip_prefix(name)?.strip_prefix('='));
    Some((Some(field("cluster")?.to_owned()), field("term")?.parse().ok()?))
}

/// Says on disk which cluster a directory is of.
pub(crate) fn mark(dir: &Path, cluster: &str, term: u64, sync: bool) -> io::Result<()> {
    let tmp = dir.join("MEMBER.tmp");
    let mut f = File::create(&tmp)?;
    f.write_all(format!("cluster={cluster}\nterm={term}\n").as_bytes())?;
    if sync {
        f.sync_all()?;
    }
    fs::rename(&tmp, dir.join(FILE))?;
    if sync { sync_dir(dir) } else { Ok(()) }
}

pub(crate) struct Member {
    pub(crate) name: Arc<str>,
    pub(crate) log: Log,
    pub(crate) snapshotting: Option<JoinHandle<()>>,
}

/// All logs of a store.
pub(crate) struct Logs {
    pub(crate) members: Vec<Member>,
    pub(crate) size: usize,
    /// Cluster and term; `None` for a store that is a directory and nothing more.
    pub(crate) group: Option<(String, u64)>,
}

impl Logs {
    /// The log of a store with one directory of its own.
    pub(crate) fn one(log: Log) -> Logs {
        Logs { members: vec![Member { name: Arc::from(""), log, snapshotting: None }], size: 1, group: None }
    }

    pub(crate) fn need(&self) -> usize {
        self.size / 2 + 1
    }

    /// Makes directories one group; `fresh` names the cluster if they begin one.
    pub(crate) fn form(
        dirs: Vec<Directory>,
        size: usize,
        fresh: &str,
    ) -> Result<(Logs, Clusters), (Vec<Directory>, MemberError)> {
        let with_data = dirs.iter().filter(|d| !d.is_new()).count();
        let need = size / 2 + 1;
        let known = dirs.iter().find_map(|d| d.cluster.clone());
        let expected = known.unwrap_or_else(|| fresh.to_owned());
        let foreign = dirs.iter().find(|d| d.cluster.as_ref().is_some_and(|c| *c != expected));
        if let Some(d) = foreign {
            let found = d.cluster.clone().unwrap_or_default();
            let e = MemberError::Foreign { member: d.name.to_string(), found, expected };
            return Err((dirs, e));
        }
        if with_data == 0 && dirs.len() < size {
            let present = dirs.len();
            return Err((dirs, MemberError::Incomplete { present, size }));
        }
        if with_data > 0 && with_data < need {
            let present = dirs.len();
            // Those that are not here yet may have it.
            let e = match with_data + (size - present.min(size)) >= need {
                true => MemberError::Incomplete { present, size },
                false => MemberError::Lost { with_data, size, need },
            };
            return Err((dirs, e));
        }
        let term = dirs.iter().map(|d| d.term).max().unwrap_or(0) + 1;
        let Some(best) = (0..dirs.len()).max_by_key(|i| dirs[*i].standing()) else {
            return Err((dirs, MemberError::Incomplete { present: 0, size }));
        };
        let standing = dirs[best].standing();
        let frozen = snapshot::freeze(&dirs[best].clusters);
        let mut clusters = Clusters::default();
        let mut members = Vec::new();
        for (i, d) in dirs.into_iter().enumerate() {
            let same = d.standing() == standing;
            let mut member = Member { name: d.name, log: d.log, snapshotting: None };
            if i == best {
                clusters = d.clusters;
            } else if !same && let Err(e) = install(&mut member, &frozen) {
                return Err((Vec::new(), e));
            }
            members.push(member);
        }
        for m in &members {
            if let Err(source) = mark(&m.log.dir, &expected, term, m.log.sync) {
                let e =
                    MemberError::Io { action: "write down the term of", member: m.name.to_string(), source };
                return Err((Vec::new(), e));
            }
        }
        Ok((Logs { members, size, group: Some((expected, term)) }, clusters))
    }

    /// Lets a member in, brought to the present state first.
    pub(crate) fn join(&mut self, dir: Directory, frozen: &[Frozen]) -> Result<(), MemberError> {
        let Some((cluster, term)) = self.group.clone() else { return Err(MemberError::Closed) };
        let name = dir.name.to_string();
        if let Some(found) = dir.cluster.clone().filter(|c| *c != cluster) {
            return Err(MemberError::Foreign { member: name, found, expected: cluster });
        }
        if dir.is_new() && self.members.len() < self.need() {
            return Err(MemberError::NoSource);
        }
        let present = (term, frozen.iter().map(|f| f.revision).sum::<u64>());
        let same = dir.standing() == present;
        let mut member = Member { name: dir.name, log: dir.log, snapshotting: None };
        if !same {
            install(&mut member, frozen)?;
            mark(&member.log.dir, &cluster, term, member.log.sync).map_err(|source| MemberError::Io {
                action: "write down the term of",
                member: name,
                source,
            })?;
        }
        self.members.retain(|m| m.name != member.name);
        self.members.push(member);
        Ok(())
    }

    /// Writes to every member. `Ok(Err)`: nothing was changed anywhere; `Err`: nobody knows what is on disk.
    pub(crate) fn append(&mut self, frames: &[u8]) -> Result<Result<(), io::Error>, io::Error> {
        if let [only] = self.members.as_mut_slice()
            && self.size == 1
        {
            return only.log.append(frames);
        }
        let (mut good, mut last) = (0, None);
        let mut unsure = false;
        self.members.retain_mut(|m| {
            let e = match m.log.append(frames) {
                Ok(Ok(())) => {
                    good += 1;
                    return true;
                }
                Ok(Err(e)) => e,
                Err(e) => {
                    unsure = true;
                    e
                }
            };
            // It missed something: it comes back by its directory or not at all.
            tracing::error!(member = %m.name, error = %e, "a member cannot write and is out of the group");
            last = Some(e);
            false
        });
        let failure = last.unwrap_or_else(|| io::Error::other("no member is left"));
        match good {
            n if n >= self.need() => Ok(Ok(())),
            0 if !unsure => Ok(Err(failure)),
            _ => Err(failure),
        }
    }

    /// Starts a new segment, behind a snapshot, where the old one has become long.
    pub(crate) fn compact(&mut self, longer_than: u64, freeze: impl Fn() -> Vec<Frozen>) {
        for m in &mut self.members {
            let busy = m.snapshotting.as_ref().is_some_and(|t| !t.is_finished());
            if m.log.len < longer_than || busy {
                continue;
            }
            let n = match m.log.rotate() {
                Ok(n) => n,
                Err(e) => {
                    // The old segment is still open and good; try again after the next group.
                    tracing::warn!(error = %e, "cannot start a new log segment");
                    continue;
                }
            };
            let (dir, frozen) = (m.log.dir.clone(), freeze());
            let spawned = std::thread::Builder::new().name("ek-store-snapshot".into()).spawn(move || {
                if let Err(e) = snapshot::write(&dir, n, &frozen) {
                    // Nothing is lost: the older snapshot and all segments are still there.
                    tracing::warn!(error = %e, "cannot write a snapshot");
                }
            });
            m.snapshotting = spawned.ok();
        }
    }

    pub(crate) fn remove(&mut self, name: &str) {
        for m in self.members.extract_if(.., |m| &*m.name == name) {
            m.finish();
        }
    }
}

impl Member {
    /// Waits for its snapshot: the directory is not ours any more afterwards.
    pub(crate) fn finish(self) {
        if let Some(t) = self.snapshotting {
            let _ = t.join();
        }
    }
}

/// Gives a member the whole state. Until the last step its directory holds what it held before.
fn install(member: &mut Member, frozen: &[Frozen]) -> Result<(), MemberError> {
    let failed =
        |source| MemberError::Io { action: "bring up to date", member: member.name.to_string(), source };
    let n = member.log.rotate().map_err(failed)?;
    snapshot::write(&member.log.dir, n, frozen).map_err(failed)
}
