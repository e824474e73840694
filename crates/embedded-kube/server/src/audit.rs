//! The audit log: one JSON line for each finished request, at level Metadata.
//!
//! Bodies are never written, so no secret can be. Lines go through a bounded queue to one writer thread; when
//! it cannot keep up, requests wait rather than leave the log with a hole.

use crate::wire::info::RequestInfo;
use ek_auth::User;
use jiff::Timestamp;
use serde_json::{Value, json};
use std::fs::OpenOptions;
use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::sync::Arc;
use tokio::sync::mpsc;

#[derive(Clone, Default)]
pub struct Audit(Option<Arc<Queue>>);

struct Queue {
    lines: parking_lot::Mutex<Option<mpsc::Sender<String>>>,
    writer: parking_lot::Mutex<Option<std::thread::JoinHandle<()>>>,
}

impl Audit {
    pub fn off() -> Audit {
        Audit(None)
    }

    /// Appends to `path`, created with mode 0600.
    pub fn to_file(path: &Path) -> io::Result<Audit> {
        use std::os::unix::fs::OpenOptionsExt;
        let file = OpenOptions::new().create(true).append(true).mode(0o600).open(path)?;
        let (tx, mut rx) = mpsc::channel::<String>(1024);
        let writer = std::thread::Builder::new().name("ek-audit".into()).spawn(move || {
            let mut out = BufWriter::new(file);
            while let Some(line) = rx.blocking_recv() {
                let mut write =
                    |line: &str| out.write_all(line.as_bytes()).and_then(|()| out.write_all(b"\n"));
                let mut result = write(&line);
                while let Ok(line) = rx.try_recv() {
                    result = result.and_then(|()| write(&line));
                }
                if let Err(e) = result.and_then(|()| out.flush()) {
                    tracing::error!(error = %e, "cannot write the audit log");
                }
            }
        })?;
        Ok(Audit(Some(Arc::new(Queue {
            lines: parking_lot::Mutex::new(Some(tx)),
            writer: parking_lot::Mutex::new(Some(writer)),
        }))))
    }

    pub fn is_on(&self) -> bool {
        self.0.is_some()
    }

    pub async fn record(&self, line: String) {
        let Some(q) = &self.0 else { return };
        let tx = q.lines.lock().clone();
        if let Some(tx) = tx {
            let _ = tx.send(line).await;
        }
    }

    /// Writes what was recorded and ends.
    pub fn close(&self) {
        let Some(q) = &self.0 else { return };
        q.lines.lock().take();
        let writer = q.writer.lock().take();
        if let Some(w) = writer {
            let _ = w.join();
        }
    }
}

/// What is known of a request when it ends.
pub struct Record<'a> {
    pub id: &'a str,
    pub uri: &'a str,
    pub info: &'a RequestInfo,
    pub user: &'a User,
    pub impersonated: Option<&'a User>,
    pub user_agent: &'a str,
    pub source: Option<std::net::IpAddr>,
    pub code: u16,
    pub message: Option<&'a str>,
    pub decision: Option<(&'a str, &'a str)>,
    pub annotations: &'a [(String, String)],
    pub received: Timestamp,
    pub finished: Timestamp,
}

fn user(u: &User) -> Value {
    let mut v = json!({"username": u.name, "groups": u.groups});
    if !u.uid.is_empty() {
        v["uid"] = json!(u.uid);
    }
    if !u.extra.is_empty() {
        v["extra"] = json!(u.extra);
    }
    v
}

impl Record<'_> {
    /// An `audit.k8s.io/v1` Event.
    pub fn line(&self) -> String {
        let i = self.info;
        let mut v = json!({
            "kind": "Event", "apiVersion": "audit.k8s.io/v1", "level": "Metadata", "auditID": self.id,
            "stage": "ResponseComplete", "requestURI": self.uri, "verb": i.verb, "user": user(self.user),
            "sourceIPs": self.source.iter().map(ToString::to_string).collect::<Vec<_>>(),
            "userAgent": self.user_agent,
            "responseStatus": {"metadata": {}, "code": self.code},
            "requestReceivedTimestamp": ek_meta::time::rfc3339_micro(self.received),
            "stageTimestamp": ek_meta::time::rfc3339_micro(self.finished),
        });
        if let Some(u) = self.impersonated {
            v["impersonatedUser"] = user(u);
        }
        if let Some(m) = self.message {
            v["responseStatus"]["status"] = json!("Failure");
            v["responseStatus"]["message"] = json!(m);
        }
        if i.is_resource {
            let mut r = json!({"resource": i.resource, "apiVersion": i.version});
            for (k, x) in [
                ("apiGroup", &i.group),
                ("namespace", &i.namespace),
                ("name", &i.name),
                ("subresource", &i.subresource),
            ] {
                if !x.is_empty() {
                    r[k] = json!(x);
                }
            }
            v["objectRef"] = r;
        }
        if let Some((decision, reason)) = self.decision {
            v["annotations"] = json!({
                "authorization.k8s.io/decision": decision, "authorization.k8s.io/reason": reason
            });
        }
        for (k, x) in self.annotations {
            v["annotations"][k] = json!(x);
        }
        v.to_string()
    }
}
