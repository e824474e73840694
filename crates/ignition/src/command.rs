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
use bytes::Bytes;
use futures::future::BoxFuture;
use serde_json::{Map, Value, json};
use std::io::{Read, Write};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

/// No payload is larger.
const LARGEST: u64 = 16 << 20;
/// Of what it says about its trouble.
const WORDS: u64 = 64 << 10;

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
            let child = command.spawn().map_err(|e| again(format!("does not start: {e}")))?;
            let child = Arc::new(parking_lot::Mutex::new(child));
            let running = child.clone();
            let talk = tokio::task::spawn_blocking(move || talk(&running, &input));
            let ended = tokio::time::timeout(self.patience, talk).await;
            if ended.is_err() {
                let _ = child.lock().kill();
            }
            let ended = ended.map_err(|_| again(format!("has not ended within {:?}", self.patience)))?;
            let (good, out, words) =
                ended.map_err(|e| again(e.to_string()))?.map_err(|e| again(e.to_string()))?;
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

/// Feeds it and hears it out. Pipes are taken first, so that the lock is not held while it works.
fn talk(child: &parking_lot::Mutex<Child>, input: &[u8]) -> std::io::Result<(bool, Vec<u8>, String)> {
    let (stdin, stdout, stderr) = {
        let mut child = child.lock();
        (child.stdin.take(), child.stdout.take(), child.stderr.take())
    };
    let words = std::thread::scope(|scope| {
        let fed = scope.spawn(move || stdin.map(|mut to| to.write_all(input)));
        let heard = scope.spawn(move || {
            let mut words = String::new();
            if let Some(from) = stderr {
                let mut bytes = Vec::new();
                let _ = from.take(WORDS).read_to_end(&mut bytes);
                words = String::from_utf8_lossy(&bytes).into_owned();
            }
            words
        });
        let mut out = Vec::new();
        if let Some(from) = stdout {
            from.take(LARGEST + 1).read_to_end(&mut out)?;
        }
        // Whoever does not read its input has its reasons; the exit code tells.
        let _ = fed.join();
        Ok::<_, std::io::Error>((out, heard.join().unwrap_or_default()))
    })?;
    let status = child.lock().wait()?;
    Ok((status.success(), words.0, words.1))
}
