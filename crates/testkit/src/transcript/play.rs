//! Running what a transcript says.

use super::parse::{self, Item};
use super::{Error, Transcript};
use crate::normalize::Normalizer;
use crate::process::{Output, Process};
use std::collections::BTreeMap;
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// How long `$stop` waits after asking politely.
const GRACE: Duration = Duration::from_secs(5);

/// Something started with `$&`, and how much of its output has been shown.
struct Background {
    process: Process,
    output: Output,
    shown: usize,
}

struct Player<'a> {
    transcript: &'a Transcript,
    cwd: &'a Path,
    scratch: &'a Path,
    normalizer: Normalizer,
    background: BTreeMap<String, Background>,
}

/// The transcript as it happened. Stops at the first command that cannot be answered at all.
pub(super) fn play(transcript: &Transcript, items: Vec<Item>, scratch: &Path) -> Result<String, Error> {
    let cwd = transcript.cwd.as_deref().unwrap_or(scratch);
    let normalizer = transcript.normalizer.clone().dir(cwd, "<cwd>").dir(scratch, "<scratch>");
    link(transcript, scratch).map_err(|source| Error::Scratch { path: transcript.path.clone(), source })?;
    let mut player = Player { transcript, cwd, scratch, normalizer, background: BTreeMap::new() };
    let mut happened = String::new();
    for item in items {
        let (raw, answer) = player.item(item)?;
        happened.push_str(&raw);
        happened.push('\n');
        happened.push_str(&answer);
    }
    Ok(happened)
}

/// Makes the transcript's own programs the first on `PATH`.
fn link(transcript: &Transcript, scratch: &Path) -> io::Result<()> {
    let bin = scratch.join("bin");
    std::fs::create_dir_all(&bin)?;
    for (name, path) in &transcript.programs {
        std::os::unix::fs::symlink(std::path::absolute(path)?, bin.join(name))?;
    }
    Ok(())
}

impl Player<'_> {
    fn item(&mut self, item: Item) -> Result<(String, String), Error> {
        Ok(match item {
            Item::Text(raw) => (raw, String::new()),
            Item::Run { line, raw, command } => {
                let answer = self.run(line, &command)?;
                (raw, answer)
            }
            Item::Start { line, raw, name, command } => {
                if self.background.contains_key(&name) {
                    return Err(Error::Duplicate { path: self.path(), line, name });
                }
                let (process, output) = self.spawn(line, &command)?;
                self.background.insert(name, Background { process, output, shown: 0 });
                (raw, String::new())
            }
            Item::Until { line, raw, name, text } => {
                let answer = self.until(line, name, text)?;
                (raw, answer)
            }
            Item::Exit { line, raw, name } => {
                let Some(b) = self.background.remove(&name) else {
                    return Err(Error::Unknown { path: self.path(), line, name });
                };
                let (status, text) = self.finish(line, &name, b.process, &b.output)?;
                let answer = self.answer(text.get(b.shown..).unwrap_or_default(), Some(status));
                (raw, answer)
            }
            Item::Stop { line, raw, name } => {
                let Some(mut b) = self.background.remove(&name) else {
                    return Err(Error::Unknown { path: self.path(), line, name });
                };
                b.process.end(GRACE).map_err(|source| Error::Run {
                    path: self.path(),
                    line,
                    command: name,
                    source,
                })?;
                (raw, String::new())
            }
        })
    }

    fn path(&self) -> std::path::PathBuf {
        self.transcript.path.clone()
    }

    fn spawn(&self, line: usize, command: &str) -> Result<(Process, Output), Error> {
        let start = || -> io::Result<(Process, Output)> {
            // One pipe for both outputs: two would lose the order in which things were said.
            let (reader, writer) = io::pipe()?;
            let mut path = self.scratch.join("bin").into_os_string();
            path.push(":");
            path.push(std::env::var_os("PATH").unwrap_or_default());
            let mut bash = Command::new("bash");
            bash.args(["--norc", "-o", "pipefail", "-c", command])
                .current_dir(self.cwd)
                // kubectl remembers discovery per host and port on disk; ports are reused, servers are not.
                .env("KUBECACHEDIR", self.scratch.join("kube-cache"))
                .env("PATH", path)
                .env("TZ", "UTC")
                .env("LC_ALL", "C.UTF-8")
                .envs(self.transcript.env.iter().map(|(k, v)| (k, v)))
                .stdin(Stdio::null())
                .stdout(writer.try_clone()?)
                .stderr(writer);
            Ok((Process::spawn(bash, true)?, Output::of(reader)))
        };
        start().map_err(|source| Error::Run { path: self.path(), line, command: command.to_owned(), source })
    }

    fn run(&mut self, line: usize, command: &str) -> Result<String, Error> {
        let (process, output) = self.spawn(line, command)?;
        let (status, text) = self.finish(line, command, process, &output)?;
        Ok(self.answer(&text, Some(status)))
    }

    /// Waits for the end of a process, and ends it when it does not come.
    fn finish(
        &self,
        line: usize,
        command: &str,
        mut process: Process,
        output: &Output,
    ) -> Result<(ExitStatus, String), Error> {
        let deadline = Instant::now() + self.transcript.deadline;
        let status = process.wait_until(deadline).map_err(|source| Error::Run {
            path: self.path(),
            line,
            command: command.to_owned(),
            source,
        })?;
        match status {
            Some(status) => Ok((status, output.drain(deadline))),
            None => {
                // What it said is evidence; failing to end it would only hide that.
                let _ = process.kill();
                let said = output.drain(Instant::now() + GRACE);
                let after = self.transcript.deadline;
                Err(Error::Timeout { path: self.path(), line, command: command.to_owned(), after, said })
            }
        }
    }

    fn until(&mut self, line: usize, name: String, text: String) -> Result<String, Error> {
        let Some(b) = self.background.get_mut(&name) else {
            return Err(Error::Unknown { path: self.path(), line, name });
        };
        let shown = b.shown;
        let deadline = Instant::now() + self.transcript.deadline;
        let end = b.output.wait(deadline, |said, closed| {
            let mut at = shown;
            for said_line in said.get(shown..)?.split_inclusive('\n') {
                // Half a line is not yet an answer, unless nothing can follow it.
                at += said_line.len();
                if said_line.contains(&text) && (closed || said_line.ends_with('\n')) {
                    return Some(at);
                }
            }
            None
        });
        let said = b.output.text();
        match end {
            Some(end) => {
                b.shown = end;
                Ok(self.answer(said.get(shown..end).unwrap_or_default(), None))
            }
            None => {
                let how = if Instant::now() < deadline {
                    "before it ended".to_owned()
                } else {
                    format!("within {:?}", self.transcript.deadline)
                };
                let said = said.get(shown..).unwrap_or_default().to_owned();
                Err(Error::Unsaid { path: self.path(), line, name, text, how, said })
            }
        }
    }

    fn answer(&mut self, output: &str, status: Option<ExitStatus>) -> String {
        let mut answer = parse::quote(&self.normalizer.apply(output));
        match status.map(|s| (s.code(), s.signal())) {
            None | Some((Some(0), _)) => {}
            Some((Some(code), _)) => answer.push_str(&format!("! exit {code}\n")),
            Some((None, signal)) => answer.push_str(&format!("! signal {}\n", signal.unwrap_or(0))),
        }
        answer
    }
}
