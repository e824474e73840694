//! A server program, running until the test is done with it.
//!
//! Our servers print `ready <url>` on one line of standard output when they accept connections. That line is
//! the event to wait for; a program that ends or stays silent instead is an error that carries everything it
//! wrote to standard error, because that is where the reason is.
//!
//! The child stays in the test's process group, so Ctrl-C at a terminal reaches both.

use crate::process::{Output, Process};
use std::io;
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// How long a server may take to become ready. Generous: a loaded two-core machine, a debug build.
const READY: Duration = Duration::from_secs(60);
/// How long it may take to drain after SIGTERM before it is killed.
const GRACE: Duration = Duration::from_secs(10);

/// Why there is no server.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("cannot start {program}")]
    Start { program: String, source: io::Error },
    #[error("{program} ended before it was ready ({status}); its standard error:\n{stderr}")]
    Ended { program: String, status: ExitStatus, stderr: String },
    #[error("{program} was not ready after {after:?}; its standard error:\n{stderr}")]
    Slow { program: String, after: Duration, stderr: String },
    #[error(
        "{program} did not end within {after:?} of {signal} and was killed; its standard error:\n{stderr}"
    )]
    Stubborn { program: String, signal: &'static str, after: Duration, stderr: String },
    #[error("cannot wait for {program}")]
    Wait { program: String, source: io::Error },
}

/// A running server. Dropping it sends SIGTERM, then SIGKILL to what does not listen.
pub struct Server {
    process: Process,
    program: String,
    url: String,
    stdout: Output,
    stderr: Output,
}

impl Server {
    /// Starts the command and returns when it said it is ready.
    pub fn spawn(command: Command) -> Result<Server, Error> {
        Server::spawn_within(command, READY)
    }

    pub fn spawn_within(mut command: Command, after: Duration) -> Result<Server, Error> {
        let program = command.get_program().to_string_lossy().into_owned();
        let failed = |source| Error::Start { program: program.clone(), source };
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut process = Process::spawn(command, false).map_err(failed)?;
        let child = process.child_mut();
        let (Some(stdout), Some(stderr)) = (child.stdout.take(), child.stderr.take()) else {
            return Err(failed(io::Error::other("no pipes")));
        };
        let (stdout, stderr) = (Output::of(stdout), Output::of(stderr));

        let deadline = Instant::now() + after;
        let url = stdout.wait(deadline, |said, _| {
            let ready = |line: &str| {
                line.strip_suffix('\n')?.strip_prefix("ready ").map(str::trim).map(str::to_owned)
            };
            said.split_inclusive('\n').find_map(ready)
        });
        match url {
            Some(url) => Ok(Server { process, program, url, stdout, stderr }),
            None => match process.wait_until(deadline) {
                Ok(Some(status)) => Err(Error::Ended { program, status, stderr: stderr.drain(deadline) }),
                Ok(None) => {
                    let _ = process.kill();
                    Err(Error::Slow { program, after, stderr: stderr.drain(Instant::now() + GRACE) })
                }
                Err(source) => Err(Error::Wait { program, source }),
            },
        }
    }

    /// What followed `ready`.
    pub fn url(&self) -> &str {
        &self.url
    }

    pub fn pid(&self) -> u32 {
        self.process.id()
    }

    /// Everything on standard output so far.
    pub fn stdout(&self) -> String {
        self.stdout.text()
    }

    /// Everything on standard error so far.
    pub fn stderr(&self) -> String {
        self.stderr.text()
    }

    /// Waits until a line of standard error holds the text; `false` when the deadline passes first.
    pub fn wait_stderr(&self, text: &str, within: Duration) -> bool {
        self.stderr.wait(Instant::now() + within, |said, _| said.contains(text).then_some(())).is_some()
    }

    /// SIGTERM, then how it ended. Having to kill it is an error.
    pub fn stop(mut self) -> Result<ExitStatus, Error> {
        match self.process.end(GRACE) {
            Ok((status, false)) => Ok(status),
            Ok((_, true)) => Err(Error::Stubborn {
                program: self.program.clone(),
                signal: "SIGTERM",
                after: GRACE,
                stderr: self.stderr.drain(Instant::now() + GRACE),
            }),
            Err(source) => Err(Error::Wait { program: self.program.clone(), source }),
        }
    }

    /// SIGINT, as Ctrl-C sends it, then how it ended. Having to kill it after `grace` is an error.
    pub fn interrupt(mut self, grace: Duration) -> Result<ExitStatus, Error> {
        self.process.signal(rustix::process::Signal::INT);
        match self.process.wait_until(Instant::now() + grace) {
            Ok(Some(status)) => Ok(status),
            Ok(None) => Err(Error::Stubborn {
                program: self.program.clone(),
                signal: "SIGINT",
                after: grace,
                stderr: self.stderr.text(),
            }),
            Err(source) => Err(Error::Wait { program: self.program.clone(), source }),
        }
    }

    /// SIGKILL, for tests of what survives one.
    pub fn kill(mut self) -> Result<(), Error> {
        self.process.kill().map(drop).map_err(|source| Error::Wait { program: self.program.clone(), source })
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.end(GRACE);
        // The test that fails because of the server prints nothing about it; libtest shows this only then.
        if std::thread::panicking() {
            eprintln!(
                "--- standard error of {} ---\n{}",
                self.program,
                self.stderr.drain(Instant::now() + GRACE)
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bash(script: &str) -> Command {
        let mut command = Command::new("bash");
        command.args(["-c", script]);
        command
    }

    #[test]
    fn ready_gives_the_url_and_stop_asks_first() {
        // `wait` is the one thing bash does that a trapped signal interrupts at once.
        let script = "tail -f /dev/null & trap 'kill $!; exit 7' TERM; echo hello; echo ready https://127.0.0.1:1; wait $!";
        let server = Server::spawn(bash(script)).unwrap();
        assert_eq!(server.url(), "https://127.0.0.1:1");
        assert!(server.stdout().starts_with("hello\n"));
        assert_eq!(server.stop().unwrap().code(), Some(7));
    }

    #[test]
    fn an_early_end_carries_the_reason() {
        let error = Server::spawn(bash("echo 'port taken' >&2; exit 3")).err().unwrap().to_string();
        assert!(error.contains("port taken") && error.contains("exit status: 3"), "{error}");
    }

    #[test]
    fn silence_is_bounded_and_the_process_is_gone() {
        let before = Instant::now();
        let error =
            Server::spawn_within(bash("echo $$ >&2; exec tail -f /dev/null"), Duration::from_millis(1500));
        let Err(Error::Slow { stderr, .. }) = error else { panic!("it cannot have been ready") };
        assert!(before.elapsed() < Duration::from_secs(10));
        assert!(!std::path::Path::new("/proc").join(stderr.trim()).exists());
    }

    #[test]
    fn half_a_line_is_not_ready() {
        let error = Server::spawn_within(
            bash("printf 'ready http'; exec tail -f /dev/null"),
            Duration::from_millis(300),
        );
        assert!(matches!(error, Err(Error::Slow { .. })));
    }

    #[test]
    fn dropping_ends_it() {
        let server = Server::spawn(bash("echo ready x; exec tail -f /dev/null")).unwrap();
        let proc = std::path::PathBuf::from(format!("/proc/{}", server.pid()));
        assert!(proc.exists());
        drop(server);
        assert!(!proc.exists());
    }
}
