//! Waiting, shown: a bar on a terminal, a line per change elsewhere. On standard error, as all progress is.

use crate::output;
use indicatif::{ProgressBar, ProgressStyle};
use parking_lot::Mutex;
use std::io::IsTerminal;
use std::time::Duration;

pub struct Shown {
    bar: Option<ProgressBar>,
    last: Mutex<(u64, u64, String)>,
}

impl Shown {
    /// `text`: for people; programs get lines.
    pub fn new(text: bool) -> Shown {
        let bar = (text && std::io::stderr().is_terminal()).then(|| {
            let bar = ProgressBar::new(1);
            let style = ProgressStyle::with_template("[{elapsed}] {bar:30} {pos}/{len}  {msg}");
            bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
            bar.enable_steady_tick(Duration::from_millis(250));
            bar
        });
        Shown { bar, last: Mutex::default() }
    }

    /// So many of so many are there, and what is waited for.
    pub fn tell(&self, done: u64, of: u64, message: &str) {
        let now = (done, of, message.to_owned());
        let mut last = self.last.lock();
        if now == *last {
            return;
        }
        match &self.bar {
            Some(bar) => {
                bar.set_length(of.max(1));
                bar.set_position(done);
                bar.set_message(message.to_owned());
            }
            None => output::note(&format!("waiting  {done}/{of}  {message}")),
        }
        *last = now;
    }
}

impl Drop for Shown {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}
