//! A machine's console: what Azure shows as boot diagnostics.

use azure_sim::{Boot, World as Azure};
use clock::SharedClock;
use std::sync::Arc;

/// Lines that are kept; the first ones and the last ones say most.
const LINES: usize = 200;

pub(super) struct Console {
    azure: Arc<Azure>,
    machine: String,
    clock: SharedClock,
    lines: Vec<String>,
    last: String,
}

impl Console {
    pub(super) fn new(azure: Arc<Azure>, machine: &str, clock: SharedClock) -> Console {
        Console { azure, machine: machine.to_owned(), clock, lines: Vec::new(), last: String::new() }
    }

    /// A line; said twice in a row, it is one.
    pub(super) fn say(&mut self, text: impl Into<String>) {
        let text = text.into();
        if text == self.last {
            return;
        }
        self.write(&text);
        self.last = text;
        self.report(&Boot::Running);
    }

    /// Collected, and shown with the next report.
    pub(super) fn note(&mut self, text: &str) {
        self.write(text);
        text.clone_into(&mut self.last);
    }

    fn write(&mut self, text: &str) {
        if self.lines.len() >= LINES {
            self.lines.remove(LINES / 2);
        }
        self.lines.push(format!("[{}] {text}", self.clock.now().strftime("%H:%M:%S%.3f")));
    }

    pub(super) fn report(&self, boot: &Boot) {
        let log = self.lines.join("\n") + "\n";
        // A machine that is gone has no console.
        let _ = self.azure.report_boot(&self.machine, boot, Some(&log));
    }
}
