//! `zaffre down`, and the file by which it finds what runs.
//!
//! Whoever runs holds a lock on the file for as long as it lives, and has written in it who it is; so a lock that can be had
//! means that nobody runs, whatever the file says, and a process id is only believed while its owner holds the lock. The
//! lock is also how the end is waited for: it is free when the process is gone, however it went.

use crate::cli::{DownArgs, Format};
use crate::output;
use anyhow::{Context, bail};
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

#[derive(Debug, Default, Serialize, Deserialize)]
struct Record {
    pid: i32,
    /// The management cluster's address.
    url: String,
    /// It ended in order.
    #[serde(default)]
    stopped: bool,
}

/// The file's place: in the data directory, or beside the kubeconfig of a world that is kept nowhere.
pub fn place(data_dir: Option<&Path>, kubeconfig: &Path) -> PathBuf {
    match data_dir {
        Some(dir) => dir.join("up.lock"),
        None => {
            let mut name = kubeconfig.as_os_str().to_owned();
            name.push(".lock");
            name.into()
        }
    }
}

/// The right to run here. Held until it is dropped.
pub struct Held {
    file: File,
    path: PathBuf,
    record: Record,
}

impl Held {
    pub fn take(path: PathBuf) -> anyhow::Result<Held> {
        if let Some(parent) = path.parent() {
            std::fs::create_dir_all(parent).with_context(|| format!("cannot make {}", parent.display()))?;
        }
        let opened = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(&path);
        let mut file = opened.with_context(|| format!("cannot write {}", path.display()))?;
        match file.try_lock() {
            Ok(()) => {
                let pid = i32::try_from(std::process::id()).unwrap_or_default();
                let mut held = Held { file, path, record: Record { pid, ..Record::default() } };
                held.write()?;
                Ok(held)
            }
            Err(TryLockError::WouldBlock) => {
                let other = read(&mut file).unwrap_or_default();
                bail!(
                    "`zaffre up` runs here already (process {}, {}): `zaffre down` stops it, another --data-dir or --kubeconfig-out is another one",
                    other.pid,
                    if other.url.is_empty() { "starting" } else { &other.url }
                )
            }
            Err(TryLockError::Error(e)) => Err(e).with_context(|| format!("cannot lock {}", path.display())),
        }
    }

    fn write(&mut self) -> anyhow::Result<()> {
        let text = serde_json::to_string(&self.record)?;
        let written = self.file.set_len(0).and_then(|()| {
            self.file.seek(SeekFrom::Start(0))?;
            self.file.write_all(text.as_bytes())
        });
        written.with_context(|| format!("cannot write {}", self.path.display()))
    }

    /// Where it is served.
    pub fn serves(&mut self, url: &str) -> anyhow::Result<()> {
        url.clone_into(&mut self.record.url);
        self.write()
    }

    /// The last words.
    pub fn stopped(mut self) {
        self.record.stopped = true;
        let _ = self.write();
    }
}

fn read(file: &mut File) -> anyhow::Result<Record> {
    let mut text = String::new();
    file.seek(SeekFrom::Start(0))?;
    file.take(4096).read_to_string(&mut text)?;
    Ok(serde_json::from_str(&text)?)
}

pub async fn run(args: DownArgs) -> anyhow::Result<()> {
    let path = place(args.data_dir.as_deref(), &args.kubeconfig_out);
    let fix = match &args.data_dir {
        Some(dir) => {
            format!("start one with `zaffre up --data-dir {}`, or name the right --data-dir", dir.display())
        }
        None => "go to where its kubeconfig is, or name its --data-dir".to_owned(),
    };
    let opened = OpenOptions::new().read(true).write(true).open(&path);
    let mut file = match opened {
        Ok(file) => file,
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => {
            bail!("there is nothing to stop ({} is not there): {fix}", path.display())
        }
        Err(e) => return Err(e).with_context(|| format!("cannot read {}", path.display())),
    };
    match file.try_lock() {
        Ok(()) => bail!("there is nothing to stop (nobody holds {}): {fix}", path.display()),
        Err(TryLockError::WouldBlock) => {}
        Err(TryLockError::Error(e)) => {
            return Err(e).with_context(|| format!("cannot lock {}", path.display()));
        }
    }
    let record = read(&mut file).with_context(|| format!("{} says not who runs", path.display()))?;
    let pid = rustix::process::Pid::from_raw(record.pid)
        .with_context(|| format!("{} says not who runs", path.display()))?;
    let begun = Instant::now();
    rustix::process::kill_process(pid, rustix::process::Signal::TERM)
        .with_context(|| format!("cannot ask process {} to stop", record.pid))?;
    output::note(&format!("stopping process {} ({})", record.pid, record.url));
    let limit = apis::duration::go_duration(&args.timeout).and_then(|d| Duration::try_from(d).ok());
    let limit = limit.unwrap_or(Duration::from_secs(60));
    // The thread that waits for the lock is left behind if it takes too long; the process ends right after.
    let waiting = tokio::task::spawn_blocking(move || file.lock().map(|()| file));
    let Ok(ended) = tokio::time::timeout(limit, waiting).await else {
        bail!(
            "process {} has not stopped after {} (--timeout): wait, or end it with `kill -9 {}`; what it acknowledged is safe",
            record.pid,
            args.timeout,
            record.pid
        );
    };
    let mut file = ended?.with_context(|| format!("cannot lock {}", path.display()))?;
    let took = begun.elapsed().as_secs_f64();
    let orderly = read(&mut file).is_ok_and(|r| r.stopped);
    let kept = match &args.data_dir {
        Some(dir) => format!(
            "its state is in {}: `zaffre up --data-dir {}` goes on with it",
            dir.display(),
            dir.display()
        ),
        None => "nothing of it is kept".to_owned(),
    };
    match (args.output, orderly) {
        (Format::Text, true) => output::line(&format!("stopped after {took:.1} s; {kept}")),
        (Format::Text, false) => output::line(&format!(
            "ended after {took:.1} s, not in order; what it acknowledged is safe, and {kept}"
        )),
        (format, orderly) => {
            let said = json!({"pid": record.pid, "server": record.url, "orderly": orderly,
                "seconds": (took * 10.0).round() / 10.0, "dataDir": args.data_dir});
            output::value(format, &said)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_runs_at_a_time_and_says_who_it_is() {
        let dir = tempfile::tempdir().unwrap();
        let path = place(Some(dir.path()), Path::new("kubeconfig"));
        let mut first = Held::take(path.clone()).unwrap();
        first.serves("https://127.0.0.1:1").unwrap();
        let said = Held::take(path.clone()).err().unwrap().to_string();
        let me = std::process::id().to_string();
        assert!(
            said.contains(&me) && said.contains("https://127.0.0.1:1") && said.contains("zaffre down"),
            "{said}"
        );
        first.stopped();
        let record = read(&mut File::open(&path).unwrap()).unwrap();
        assert!(record.stopped);
        let again = Held::take(path).unwrap();
        assert!(!again.record.stopped && again.record.url.is_empty());
        assert_eq!(place(None, Path::new("a/kc")), Path::new("a/kc.lock"));
    }
}
