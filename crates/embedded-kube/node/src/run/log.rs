//! What a container wrote, as much of it as fits.

use bytes::Bytes;
use jiff::Timestamp;
use parking_lot::Mutex;
use std::collections::VecDeque;
use tokio::sync::watch;

/// Bytes kept per container and run; the oldest lines go first.
pub(crate) const CAPACITY: usize = 256 << 10;
/// A longer line is cut into several.
const LONGEST_LINE: usize = 16 << 10;

#[derive(Clone, Debug)]
pub(crate) struct Line {
    pub at: Timestamp,
    /// With its newline.
    pub text: Bytes,
}

/// A bounded log with readers that wait for more.
pub(crate) struct LogRing {
    lines: Mutex<Lines>,
    /// How many lines were ever written, and whether there will be more.
    end: watch::Sender<(u64, bool)>,
}

#[derive(Default)]
struct Lines {
    kept: VecDeque<Line>,
    size: usize,
    /// Number of the first line kept.
    first: u64,
}

impl Default for LogRing {
    fn default() -> LogRing {
        LogRing { lines: Mutex::default(), end: watch::channel((0, false)).0 }
    }
}

impl LogRing {
    /// Appends text, line by line.
    pub(crate) fn write(&self, at: Timestamp, text: &str) {
        let mut lines = self.lines.lock();
        for line in text.strip_suffix('\n').unwrap_or(text).split('\n') {
            let mut rest = line;
            loop {
                let mut cut = rest.len().min(LONGEST_LINE);
                while !rest.is_char_boundary(cut) {
                    cut -= 1;
                }
                let (head, tail) = rest.split_at(cut);
                let text = Bytes::from(format!("{head}\n"));
                lines.size += text.len();
                lines.kept.push_back(Line { at, text });
                rest = tail;
                if rest.is_empty() {
                    break;
                }
            }
        }
        while lines.size > CAPACITY {
            let Some(old) = lines.kept.pop_front() else { break };
            lines.size -= old.text.len();
            lines.first += 1;
        }
        let end = lines.first + lines.kept.len() as u64;
        drop(lines);
        self.end.send_modify(|e| e.0 = end);
    }

    /// The last lines, as many of them as fit.
    pub(crate) fn tail(&self, lines: usize, bytes: usize) -> String {
        let all = self.lines.lock();
        let mut size = 0;
        let fit = all.kept.iter().rev().take(lines).take_while(|l| {
            size += l.text.len();
            size <= bytes
        });
        let mut last: Vec<&Line> = fit.collect();
        // A single line that is too long is better cut than left out.
        if last.is_empty() {
            let line = all.kept.back().map(|l| String::from_utf8_lossy(&l.text).into_owned());
            return line.map(|l| l.chars().take(bytes / 4).collect()).unwrap_or_default();
        }
        last.reverse();
        last.iter().map(|l| String::from_utf8_lossy(&l.text)).collect()
    }

    /// Nothing more will be written.
    pub(crate) fn close(&self) {
        self.end.send_modify(|e| e.1 = true);
    }

    /// Lines from number `from` on, and the number to go on with.
    pub(crate) fn since(&self, from: u64) -> (Vec<Line>, u64) {
        let lines = self.lines.lock();
        let skip = usize::try_from(from.saturating_sub(lines.first)).unwrap_or(usize::MAX);
        (lines.kept.iter().skip(skip).cloned().collect(), lines.first + lines.kept.len() as u64)
    }

    pub(crate) fn subscribe(&self) -> watch::Receiver<(u64, bool)> {
        self.end.subscribe()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn old_lines_make_room_and_numbers_go_on() {
        let ring = LogRing::default();
        let line = "x".repeat(1023);
        for _ in 0..300 {
            ring.write(Timestamp::UNIX_EPOCH, &line);
        }
        let (kept, next) = ring.since(0);
        assert_eq!((kept.len(), next), (256, 300));
        assert_eq!(ring.since(298).0.len(), 2);
        ring.write(Timestamp::UNIX_EPOCH, &"é".repeat(20_000));
        assert!(ring.since(300).0.iter().all(|l| std::str::from_utf8(&l.text).is_ok()));
        ring.write(Timestamp::UNIX_EPOCH, "a\nb\n");
        assert_eq!(ring.since(ring.since(0).1 - 2).0[1].text, "b\n");
        assert_eq!(ring.tail(2, 100), "a\nb\n");
        assert_eq!(ring.tail(5, 3), "b\n");
        ring.write(Timestamp::UNIX_EPOCH, &"y".repeat(5000));
        assert_eq!(ring.tail(80, 2048), "y".repeat(512));
    }
}
