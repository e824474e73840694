//! `etcdctl` and `etcdutl`, as far as operators use them inside of the pod.

use crate::{Guests, etcd};
use ek_node::{ExecOutput, ProgramContext};
use ek_store::{Backup, BackupError};
use std::path::PathBuf;

fn said(text: impl Into<String>) -> ExecOutput {
    ExecOutput { stdout: text.into().into_bytes(), ..ExecOutput::default() }
}

fn failed(text: impl std::fmt::Display) -> ExecOutput {
    ExecOutput { stderr: format!("Error: {text}\n").into_bytes(), code: 1, ..ExecOutput::default() }
}

pub(crate) fn is_tool(words: &[String]) -> bool {
    words.first().is_some_and(|w| matches!(w.rsplit('/').next(), Some("etcdctl" | "etcdutl")))
}

/// A container that is one of the commands, as a Job has it. As the real one it asks a member, and must prove who it is;
/// the files with its certificate are looked for, what is in them is not sent anywhere.
pub(crate) async fn run(guests: &Guests, ctx: &ProgramContext) -> i32 {
    let words: Vec<String> = ctx.command().iter().chain(ctx.args()).cloned().collect();
    for flag in ["--cacert=", "--cert=", "--key="] {
        let Some(file) = words.iter().find_map(|w| w.strip_prefix(flag)) else { continue };
        if !ctx.path(file).is_some_and(|p| p.is_file()) {
            ctx.log(format!("Error: open {file}: no such file or directory"));
            return 1;
        }
    }
    let Some(done) = exec(guests, ctx, &words).await else { return 127 };
    for text in [&done.stdout, &done.stderr] {
        if !text.is_empty() {
            ctx.log(String::from_utf8_lossy(text).trim_end());
        }
    }
    done.code
}

/// Runs one of the commands; `None` for others.
pub(crate) async fn exec(guests: &Guests, ctx: &ProgramContext, words: &[String]) -> Option<ExecOutput> {
    let tool = words.first()?.rsplit('/').next()?;
    if !matches!(tool, "etcdctl" | "etcdutl") {
        return None;
    }
    let plain: Vec<&str> = words[1..].iter().map(String::as_str).filter(|w| !w.starts_with('-')).collect();
    let flag = |name: &str| {
        let mut after = words.iter().skip_while(|w| *w != name).skip(1);
        let inline = words.iter().find_map(|w| w.strip_prefix(name)?.strip_prefix('='));
        inline.map(str::to_owned).or_else(|| after.next().cloned())
    };
    let path = |p: &str| ctx.path(p).ok_or_else(|| failed(format!("{p} is under no mount")));
    let group = Guests::name(ctx.cluster(), ctx.namespace());
    let store = || guests.0.groups.store(&group).ok_or_else(|| failed("etcdserver: no leader"));
    let done = match plain.as_slice() {
        ["snapshot", "save", to, ..] => match (store(), path(to)) {
            (Ok(store), Ok(real)) => {
                let saved = blocking(move || store.backup(&real)).await;
                saved.map(|_| said(format!("Snapshot saved at {to}\n")))
            }
            (Err(e), _) | (_, Err(e)) => Err(e),
        },
        ["snapshot", "status", of, ..] => match path(of) {
            Ok(real) => blocking(move || ek_store::verify(&real)).await.map(|b| said(shown(&b))),
            Err(e) => Err(e),
        },
        ["snapshot", "restore", from, ..] => {
            let into = flag("--data-dir").unwrap_or_else(|| "default.etcd".into());
            match (path(from), path(&into)) {
                (Ok(real), Ok(dir)) => {
                    let made = blocking(move || ek_store::restore(&real, &dir)).await;
                    made.map(|b| said(format!("restored {} objects at revision {}\n", b.objects, b.revision)))
                }
                (Err(e), _) | (_, Err(e)) => Err(e),
            }
        }
        ["endpoint", "health", ..] => match guests.0.groups.find(&group).map(|g| etcd::health(&g)) {
            Some(Ok(())) => Ok(said("https://localhost:2379 is healthy\n")),
            Some(Err(why)) => Err(failed(format!("unhealthy cluster: {why}"))),
            None => Err(failed("unhealthy cluster")),
        },
        _ => Err(failed("known here: snapshot save|status|restore, endpoint health")),
    };
    Some(done.unwrap_or_else(|e| e))
}

fn shown(b: &Backup) -> String {
    format!("hash {}, revision {}, {} objects, {} bytes\n", b.sum, b.revision, b.objects, b.bytes)
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, BackupError> + Send + 'static,
) -> Result<T, ExecOutput> {
    match tokio::task::spawn_blocking(work).await {
        Ok(Ok(t)) => Ok(t),
        Ok(Err(e)) => Err(failed(crate::tls::chain(&e))),
        Err(e) => Err(failed(e)),
    }
}

/// The init container of a cluster that begins with a snapshot: where the data directory is empty, it is made from what
/// `RESTORE_URL_ETCD` names: a file of a mounted volume (`file://`), or whatever the world knows how to
/// [fetch](crate::Fetch).
pub(crate) async fn init(guests: &Guests, ctx: &ProgramContext) -> i32 {
    let url = ctx.env().get("RESTORE_URL_ETCD").cloned().unwrap_or_default();
    let Some(data) = etcd::data_dir(ctx) else {
        ctx.log("the data directory is under no mount");
        return 1;
    };
    let there = {
        let data = data.clone();
        let look = move || std::fs::read_dir(data).is_ok_and(|mut d| d.next().is_some());
        tokio::task::spawn_blocking(look).await.unwrap_or(true)
    };
    if there || url.is_empty() {
        ctx.log("nothing to restore");
        return 0;
    }
    // Signatures of URLs are secrets.
    let place = url.split('?').next().unwrap_or_default().to_owned();
    let mounted: Option<PathBuf> = url.strip_prefix("file://").and_then(|p| ctx.path(p));
    let fetched = mounted.is_none();
    let from = match (mounted, guests.fetch()) {
        (Some(from), _) => from,
        (None, Some(fetch)) => {
            // Beside the data directory, on the same volume, as the real script has it.
            let to = data.with_file_name("snapshot.db");
            if let Err(why) = fetch.fetch(&url, &to).await {
                ctx.log(format!("cannot fetch {place}: {why}"));
                return 1;
            }
            ctx.log(format!("fetched {place}"));
            to
        }
        (None, None) => {
            ctx.log(format!("cannot fetch {place}: only file:// of a mounted volume is known here"));
            return 1;
        }
    };
    let file = from;
    let restored = blocking(move || {
        let restored = ek_store::restore(&file, &data);
        if fetched {
            // What is left of it only takes room.
            let _ = std::fs::remove_file(&file);
        }
        restored
    });
    let restored = restored.await;
    match restored {
        Ok(b) => {
            ctx.log(format!("restored: {}", shown(&b)));
            0
        }
        Err(e) => {
            ctx.log(String::from_utf8_lossy(&e.stderr));
            1
        }
    }
}
