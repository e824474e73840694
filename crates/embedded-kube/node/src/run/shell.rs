//! `kubectl exec -it … -- sh`: lines are read and run as they come.

use super::command;
use crate::program::{Program, ProgramContext};
use bytes::Bytes;
use ek_server::Stdio;
use std::sync::Arc;

const PROMPT: &str = "/ $ ";
/// A longer line is no command.
const LONGEST: usize = 64 << 10;

/// Whether these words ask for a shell to type into.
pub(crate) fn wanted(words: &[String]) -> bool {
    matches!(words, [one] if matches!(one.rsplit('/').next(), Some("sh" | "bash")))
}

/// What a typed byte means.
enum Typed {
    Line(String),
    End,
    Nothing,
}

struct Terminal {
    io: Stdio,
    line: Vec<u8>,
}

impl Terminal {
    async fn show(&self, bytes: &[u8]) {
        // A terminal in raw mode needs to be told to go back to the left.
        let bytes = match self.io.tty {
            true => bytes
                .iter()
                .flat_map(|b| if *b == b'\n' { &b"\r\n"[..] } else { std::slice::from_ref(b) })
                .copied()
                .collect(),
            false => bytes.to_vec(),
        };
        if !bytes.is_empty() {
            let _ = self.io.stdout.send(Bytes::from(bytes)).await;
        }
    }

    async fn prompt(&self) {
        if self.io.tty {
            self.show(PROMPT.as_bytes()).await;
        }
    }

    async fn typed(&mut self, b: u8) -> Typed {
        match b {
            b'\n' | b'\r' => {
                if self.io.tty {
                    self.show(b"\n").await;
                }
                return Typed::Line(String::from_utf8_lossy(&std::mem::take(&mut self.line)).into_owned());
            }
            4 if self.line.is_empty() => return Typed::End,
            3 => {
                self.line.clear();
                self.show(b"^C\n").await;
                self.prompt().await;
            }
            8 | 0x7f if self.io.tty => {
                let erased: &[u8] = if self.line.pop().is_some() { b"\x08 \x08" } else { b"" };
                self.show(erased).await;
            }
            _ if self.line.len() < LONGEST => {
                self.line.push(b);
                if self.io.tty {
                    self.show(&[b]).await;
                }
            }
            _ => {}
        }
        Typed::Nothing
    }
}

/// Runs until the input or the patience of whoever types it ends; the answer is the last command's.
pub(crate) async fn run(program: Option<&Arc<dyn Program>>, ctx: Option<&ProgramContext>, io: Stdio) -> i32 {
    let mut t = Terminal { io, line: Vec::new() };
    let mut code = 0;
    t.prompt().await;
    loop {
        let Some(bytes) = t.io.stdin.recv().await else {
            let rest = String::from_utf8_lossy(&std::mem::take(&mut t.line)).into_owned();
            return if rest.trim().is_empty() { code } else { line(&t, program, ctx, &rest).await };
        };
        for b in bytes {
            match t.typed(b).await {
                Typed::Nothing => {}
                Typed::End => return code,
                Typed::Line(l) => {
                    if !l.trim().is_empty() {
                        code = line(&t, program, ctx, &l).await;
                    }
                    if l.split_whitespace().next() == Some("exit") {
                        return code;
                    }
                    t.prompt().await;
                }
            }
        }
    }
}

async fn line(
    t: &Terminal,
    program: Option<&Arc<dyn Program>>,
    ctx: Option<&ProgramContext>,
    line: &str,
) -> i32 {
    let words = vec!["sh".to_owned(), "-c".to_owned(), line.to_owned()];
    let out = command::run(program, ctx, words, Vec::new()).await;
    t.show(&out.stdout).await;
    match t.io.tty {
        true => t.show(&out.stderr).await,
        false if out.stderr.is_empty() => {}
        false => _ = t.io.stderr.send(Bytes::from(out.stderr)).await,
    }
    out.code
}
