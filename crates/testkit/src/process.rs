//! Child processes that end when told to, and output that can be waited for.
//!
//! Two rules keep this honest. A process is signalled by the id we started it under and only while it has not
//! been reaped, so the id cannot have passed to a stranger: the waiter looks with `WNOWAIT` and leaves the
//! reaping to the owner. And nothing polls: a thread blocks in `waitid`, another in `read`, and whoever waits
//! sleeps on a condition variable with a deadline.

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions};
use std::io::{self, Read};
use std::process::{Child, Command, ExitStatus};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Output beyond this is read and thrown away: a runaway command must not take the machine's memory with it.
const OUTPUT_LIMIT: usize = 8 << 20;

/// A running child, alone or as leader of its own process group.
pub(crate) struct Process {
    child: Child,
    pid: Pid,
    group: bool,
    exited: Receiver<()>,
    status: Option<ExitStatus>,
}

impl Process {
    /// Starts the command. With `group`, signals go to everything it starts as well.
    pub(crate) fn spawn(mut command: Command, group: bool) -> io::Result<Process> {
        use std::os::unix::process::CommandExt;
        if group {
            command.process_group(0);
        }
        let child = command.spawn()?;
        let pid = Pid::from_child(&child);
        let (tell, exited) = sync_channel(1);
        std::thread::spawn(move || {
            // An error means there is nothing left to wait for, which is the same news.
            while let Err(rustix::io::Errno::INTR) =
                rustix::process::waitid(WaitId::Pid(pid), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT)
            {
            }
            let _ = tell.send(());
        });
        Ok(Process { child, pid, group, exited, status: None })
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn child_mut(&mut self) -> &mut Child {
        &mut self.child
    }

    /// The exit status, or `None` when the deadline comes first.
    ///
    /// A group leader that ended takes the rest of its group with it here, while the group's id is still ours.
    pub(crate) fn wait_until(&mut self, deadline: Instant) -> io::Result<Option<ExitStatus>> {
        if let Some(status) = self.status {
            return Ok(Some(status));
        }
        match self.exited.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
            Err(RecvTimeoutError::Timeout) => Ok(None),
            Ok(()) | Err(RecvTimeoutError::Disconnected) => {
                if self.group {
                    self.signal(Signal::KILL);
                }
                let status = self.child.wait()?;
                self.status = Some(status);
                Ok(Some(status))
            }
        }
    }

    /// Sends a signal unless the process has been reaped.
    pub(crate) fn signal(&self, signal: Signal) {
        if self.status.is_some() {
            return;
        }
        // It may have ended a moment ago; that is what the signal was for.
        let _ = if self.group {
            rustix::process::kill_process_group(self.pid, signal)
        } else {
            rustix::process::kill_process(self.pid, signal)
        };
    }

    /// Asks it to end, and makes it end when it has not after `grace`. The flag says whether force was needed.
    pub(crate) fn end(&mut self, grace: Duration) -> io::Result<(ExitStatus, bool)> {
        self.signal(Signal::TERM);
        if let Some(status) = self.wait_until(Instant::now() + grace)? {
            return Ok((status, false));
        }
        self.kill().map(|status| (status, true))
    }

    /// Ends it now.
    pub(crate) fn kill(&mut self) -> io::Result<ExitStatus> {
        self.signal(Signal::KILL);
        match self.status {
            Some(status) => Ok(status),
            None => {
                let status = self.child.wait()?;
                self.status = Some(status);
                Ok(status)
            }
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if self.status.is_none() {
            let _ = self.kill();
        }
    }
}

#[derive(Default)]
struct Seen {
    bytes: Vec<u8>,
    closed: bool,
}

/// What a child has written so far, filled by a thread.
#[derive(Clone)]
pub(crate) struct Output(Arc<(Mutex<Seen>, Condvar)>);

impl Output {
    pub(crate) fn of(mut reader: impl Read + Send + 'static) -> Output {
        let output = Output(Arc::default());
        let shared = output.clone();
        std::thread::spawn(move || {
            let mut buffer = [0; 8192];
            loop {
                match reader.read(&mut buffer) {
                    Ok(n) if n > 0 => {
                        let mut seen = shared.lock();
                        let room = OUTPUT_LIMIT.saturating_sub(seen.bytes.len());
                        seen.bytes.extend_from_slice(&buffer[..n.min(room)]);
                    }
                    Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
                    _ => break,
                }
                shared.0.1.notify_all();
            }
            shared.lock().closed = true;
            shared.0.1.notify_all();
        });
        output
    }

    // A reader thread that panicked has written whole bytes; what is there is still true.
    fn lock(&self) -> MutexGuard<'_, Seen> {
        self.0.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// All text so far.
    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.lock().bytes).into_owned()
    }

    /// Blocks until `find(text, closed)` gives something, or the deadline passes.
    pub(crate) fn wait<T>(
        &self,
        deadline: Instant,
        mut find: impl FnMut(&str, bool) -> Option<T>,
    ) -> Option<T> {
        let mut seen = self.lock();
        loop {
            if let Some(found) = find(&String::from_utf8_lossy(&seen.bytes), seen.closed) {
                return Some(found);
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if seen.closed || left.is_zero() {
                return None;
            }
            let (guard, _) = self.0.1.wait_timeout(seen, left).unwrap_or_else(PoisonError::into_inner);
            seen = guard;
        }
    }

    /// Blocks until the child closed its end, or the deadline passes, and gives what was written.
    pub(crate) fn drain(&self, deadline: Instant) -> String {
        self.wait(deadline, |_, closed| closed.then_some(()));
        self.text()
    }
}
