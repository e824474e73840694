//! Payloads made by a program of yours (`--payload-command`).
//!
//! It is started once per payload, is given one JSON document on its standard input, and writes the Ignition config to
//! its standard output. Nothing secret is in its arguments or environment. It has five minutes; how it fails is told in
//! the NodePool by the last line that it wrote to standard error.
//!
//! ```json
//! {"release": "…", "releaseVersion": "4.19.3", "osStream": "", "configVersion": "1a2b3c4d", "config": "kind: MachineConfig…",
//!  "secrets": {"pull-secret": {".dockerconfigjson": "<base64>"}}, "configMaps": {"root-ca": {"ca.crt": "…"}},
//!  "hostedControlPlane": {…}}
//! ```

use crate::provider::{Ask, PayloadProvider, Refused};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::{Buf, Bytes, BytesMut};
use futures::future::BoxFuture;
use serde_json::{Map, Value, json};
use std::io;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::process::{Child, ChildStderr, Command};

/// No payload is larger.
const LARGEST: u64 = 16 << 20;
/// Kept of what it says about its trouble, and read of it at once.
const WORDS: usize = 64 << 10;
const AT_ONCE: usize = 8 << 10;

pub struct ByCommand {
    pub program: PathBuf,
    pub args: Vec<String>,
    pub patience: Duration,
}

impl ByCommand {
    pub fn new(program: impl Into<PathBuf>) -> ByCommand {
        ByCommand { program: program.into(), args: Vec::new(), patience: Duration::from_secs(300) }
    }
}

fn document(ask: &Ask<'_>) -> Vec<u8> {
    let secrets: Map<String, Value> = (ask.inputs.secrets.iter())
        .map(|(name, data)| {
            let data: Map<String, Value> =
                data.iter().map(|(k, v)| (k.clone(), STANDARD.encode(v.expose()).into())).collect();
            ((*name).to_owned(), data.into())
        })
        .collect();
    let t = ask.token;
    json!({"release": t.release, "releaseVersion": t.version, "osStream": t.os_stream,
        "configVersion": t.config_version(), "config": ask.config, "secrets": secrets,
        "configMaps": ask.inputs.config_maps, "hostedControlPlane": ask.inputs.plane})
    .to_string()
    .into_bytes()
}

impl PayloadProvider for ByCommand {
    fn payload<'a>(&'a self, ask: Ask<'a>) -> BoxFuture<'a, Result<Bytes, Refused>> {
        let input = document(&ask);
        Box::pin(async move {
            let name = self.program.display().to_string();
            let again = |why: String| Refused { again: true, ..Refused::invalid(format!("{name} {why}")) };
            let mut command = Command::new(&self.program);
            command.args(&self.args).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
            // Whoever is not waited for any more is ended.
            command.kill_on_drop(true);
            let child = command.spawn().map_err(|e| again(format!("does not start: {e}")))?;
            let ended = tokio::time::timeout(self.patience, talk(child, &input)).await;
            let ended = ended.map_err(|_| again(format!("has not ended within {:?}", self.patience)))?;
            let (good, out, words) = ended.map_err(|e| again(e.to_string()))?;
            if !good {
                let last = words.lines().rev().find(|l| !l.trim().is_empty()).unwrap_or("it said nothing");
                return Err(again(format!("failed: {}", last.chars().take(500).collect::<String>())));
            }
            checked(&out).map_err(|why| again(format!("wrote no payload: {why}")))?;
            Ok(out.into())
        })
    }
}

fn checked(out: &[u8]) -> Result<(), String> {
    if u64::try_from(out.len()).unwrap_or(u64::MAX) > LARGEST {
        return Err(format!("it has more than {LARGEST} bytes"));
    }
    let value: Value = serde_json::from_slice(out).map_err(|e| format!("it is not JSON: {e}"))?;
    let version = value["ignition"]["version"].as_str().unwrap_or_default();
    match version.starts_with("3.") {
        true => Ok(()),
        false => Err(format!("ignition.version is {version:?}, and nodes understand 3.x")),
    }
}

/// Feeds it and hears it out.
async fn talk(mut child: Child, input: &[u8]) -> io::Result<(bool, Vec<u8>, String)> {
    let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    let feed = async {
        if let Some(mut to) = stdin {
            // Whoever does not read its input has its reasons; the exit code tells.
            let _ = to.write_all(input).await;
        }
    };
    let read = async {
        let mut out = Vec::new();
        if let Some(from) = stdout {
            from.take(LARGEST + 1).read_to_end(&mut out).await?;
        }
        Ok::<_, io::Error>(out)
    };
    let ((), out, words) = tokio::join!(feed, read, end_of(stderr));
    let status = child.wait().await?;
    Ok((status.success(), out?, words))
}

/// The last of what it says. All of it is heard: a program that writes to a pipe that nobody reads is stopped by it.
async fn end_of(from: Option<ChildStderr>) -> String {
    let Some(mut from) = from else { return String::new() };
    let mut end = BytesMut::new();
    loop {
        end.reserve(AT_ONCE);
        match from.read_buf(&mut end).await {
            Ok(1..) => end.advance(end.len().saturating_sub(WORDS)),
            _ => return String::from_utf8_lossy(&end).into_owned(),
        }
    }
}
