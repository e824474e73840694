//! Probes of programs: real connections to their loopback ports.

use crate::program::{Port, Program, ProgramContext};
use bytes::Bytes;
use http_body_util::{BodyExt, Empty, Full, Limited};
use hyper::client::conn::http1::SendRequest;
use hyper_util::rt::{TokioExecutor, TokioIo};
use parking_lot::Mutex;
use serde_json::Value;
use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::task::AbortHandle;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    Startup,
    Readiness,
    Liveness,
}

impl Role {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Role::Startup => "Startup",
            Role::Readiness => "Readiness",
            Role::Liveness => "Liveness",
        }
    }
}

/// How soon a container that is not ready yet is looked at again, at first.
const EAGER: Duration = Duration::from_millis(25);

/// And at last: a container that takes long to get ready need not wait for long after.
const PATIENT: Duration = Duration::from_millis(400);

/// A container that is looked at over TLS at least as often a minute keeps one connection for all of its probes: of hundreds
/// of control planes that do nothing, handshakes of such probes were most of what is done. Files are dear, so others
/// begin anew each time, as kubelets do.
const FREQUENT: u64 = 8;

/// One probe of one container.
#[derive(Clone)]
pub(crate) struct Probe {
    pub role: Role,
    spec: Value,
    /// Names of the container's ports; a probe may live as long as its pod, and most name none.
    ports: Value,
    ctx: ProgramContext,
    program: Arc<dyn Program>,
    /// The container's connection is used.
    keeps: bool,
}

/// A probe's opinion changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Success,
    Failure(String),
}

impl Probe {
    pub(crate) fn of(
        role: Role,
        container: &Value,
        ctx: &ProgramContext,
        program: &Arc<dyn Program>,
    ) -> Option<Probe> {
        let field = match role {
            Role::Startup => "startupProbe",
            Role::Readiness => "readinessProbe",
            Role::Liveness => "livenessProbe",
        };
        let spec = container.get(field).filter(|p| p.is_object())?.clone();
        Some(Probe {
            role,
            keeps: is_tls(&spec["httpGet"]) && looks(container) >= FREQUENT,
            spec,
            ports: container["ports"].clone(),
            ctx: ctx.clone(),
            program: program.clone(),
        })
    }

    /// Something to be done once, at the start or before the end of a container.
    pub(crate) fn hook(
        name: &str,
        container: &Value,
        ctx: &ProgramContext,
        program: &Arc<dyn Program>,
    ) -> Option<Probe> {
        let spec = container["lifecycle"].get(name).filter(|p| p.is_object())?.clone();
        let role = Role::Startup;
        Some(Probe {
            role,
            spec,
            ports: container["ports"].clone(),
            ctx: ctx.clone(),
            program: program.clone(),
            keeps: false,
        })
    }

    fn seconds(&self, field: &str, or: u64) -> Duration {
        Duration::from_secs(self.spec[field].as_u64().unwrap_or(or))
    }

    /// Looks again and again; `tell` hears of each change of opinion and says whether to go on. Where nothing takes
    /// longer than it has to (`hurried`), the first looks do not wait for the initial delay; what they see counts only
    /// for the container.
    pub(crate) async fn watch(self, hurried: bool, tell: impl Fn(Role, Verdict) -> bool) {
        let period = self.seconds("periodSeconds", 10).max(Duration::from_millis(100));
        let mut delay = self.seconds("initialDelaySeconds", 0);
        if !hurried || self.role == Role::Liveness {
            tokio::time::sleep(std::mem::take(&mut delay)).await;
        }
        let enough = |field: &str, or: u64| self.spec[field].as_u64().unwrap_or(or).max(1);
        let (good, bad) = (enough("successThreshold", 1), enough("failureThreshold", 3));
        let (mut successes, mut failures) = (0u64, 0u64);
        let mut ticks = tokio::time::interval_at(tokio::time::Instant::now() + delay, period);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        // Until it has been well once, it is looked at between the ticks, too: a container that becomes ready right
        // after a look need not wait for the next one. Only what is seen at a tick counts against it.
        let mut stirred = self.ctx.stirred();
        let mut eager = (self.role != Role::Liveness).then_some(EAGER);
        loop {
            let between = async {
                match eager {
                    Some(wait) => tokio::time::sleep(wait).await,
                    None => std::future::pending().await,
                }
            };
            let counts = tokio::select! {
                biased;
                _ = ticks.tick() => true,
                () = between => false,
                Ok(()) = stirred.changed(), if eager.is_some() => false,
            };
            let timeout = self.seconds("timeoutSeconds", 1).max(Duration::from_millis(100));
            let seen = match tokio::time::timeout(timeout, self.look()).await {
                Ok(r) => r,
                Err(_) => Err("context deadline exceeded".to_owned()),
            };
            match (&seen, eager) {
                (Ok(()), _) => eager = None,
                (Err(_), Some(wait)) => eager = Some((wait * 2).min(period).min(PATIENT)),
                (Err(_), None) => {}
            }
            if seen.is_err() && !counts {
                continue;
            }
            let verdict = match seen {
                Ok(()) => {
                    (successes, failures) = (successes.saturating_add(1), 0);
                    (successes == good).then_some(Verdict::Success)
                }
                Err(why) => {
                    (successes, failures) = (0, failures.saturating_add(1));
                    (failures == bad).then_some(Verdict::Failure(why))
                }
            };
            if let Some(v) = verdict
                && !tell(self.role, v)
            {
                return;
            }
        }
    }

    pub(crate) async fn look(&self) -> Result<(), String> {
        let s = &self.spec;
        if s["httpGet"].is_object() {
            let port = self.address(&s["httpGet"]["port"])?;
            return http(port, &s["httpGet"], self.keeps.then_some(&self.ctx.0.line)).await;
        }
        if s["tcpSocket"].is_object() {
            let port = self.address(&s["tcpSocket"]["port"])?;
            return TcpStream::connect(port).await.map(|_| ()).map_err(|e| format!("dial tcp: {e}"));
        }
        if s["grpc"].is_object() {
            let port = self.address(&s["grpc"]["port"])?;
            return grpc(port, s["grpc"]["service"].as_str().unwrap_or_default()).await;
        }
        if let Some(seconds) = s["sleep"]["seconds"].as_u64() {
            tokio::time::sleep(Duration::from_secs(seconds)).await;
            return Ok(());
        }
        if let Some(words) = s["exec"]["command"].as_array() {
            let words: Vec<String> = words.iter().filter_map(Value::as_str).map(str::to_owned).collect();
            let out = super::command::run(Some(&self.program), Some(&self.ctx), words, Vec::new()).await;
            return match out.code {
                0 => Ok(()),
                _ => Err(String::from_utf8_lossy(&out.stderr).trim_end().to_owned()),
            };
        }
        Ok(())
    }

    /// The loopback address of a port that the program has taken.
    fn address(&self, port: &Value) -> Result<SocketAddr, String> {
        let number = port_number(&self.ports, port).ok_or_else(|| format!("port {port} is not known"))?;
        // Another container of the pod may answer for this one.
        taken(&self.ctx.0.ports, number)
            .or_else(|| self.ctx.local(number))
            .ok_or_else(|| format!("dial tcp {}:{number}: connect: connection refused", self.ctx.pod_ip()))
    }
}

pub(crate) fn taken(ports: &Mutex<HashMap<u16, Port>>, number: u16) -> Option<SocketAddr> {
    ports.lock().get(&number).filter(|p| p.listener.is_none()).map(|p| p.address)
}

/// A port by number, or by the name that one of a container's ports has.
pub(crate) fn port_number(ports: &Value, port: &Value) -> Option<u16> {
    match port {
        Value::Number(n) => n.as_u64().and_then(|n| u16::try_from(n).ok()),
        Value::String(s) => s.parse().ok().or_else(|| {
            let named = ports.as_array().into_iter().flatten().find(|p| p["name"] == s.as_str())?;
            named["containerPort"].as_u64().and_then(|n| u16::try_from(n).ok())
        }),
        _ => None,
    }
}

/// Asks the standard health service whether it serves.
async fn grpc(address: SocketAddr, service: &str) -> Result<(), String> {
    let tcp = TcpStream::connect(address).await.map_err(|e| format!("dial tcp: {e}"))?;
    let _ = tcp.set_nodelay(true);
    let (mut sender, connection) =
        hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(tcp))
            .await
            .map_err(|e| e.to_string())?;
    let driver = tokio::spawn(connection);
    // HealthCheckRequest{service}, with the prefix of every gRPC message: not compressed, and its length.
    let mut message = Vec::new();
    if let Some(n) = u8::try_from(service.len()).ok().filter(|n| (1..128).contains(n)) {
        message.extend([0x0a, n]);
        message.extend(service.bytes());
    }
    let mut framed = vec![0];
    framed.extend(u32::try_from(message.len()).unwrap_or(0).to_be_bytes());
    framed.extend(message);
    let answer = async {
        let request = http::Request::post(format!("http://{address}/grpc.health.v1.Health/Check"))
            .header(http::header::CONTENT_TYPE, "application/grpc")
            .header(http::header::TE, "trailers")
            .body(Full::new(Bytes::from(framed)))
            .map_err(|e| e.to_string())?;
        let answer = sender.send_request(request).await.map_err(|e| e.to_string())?;
        let early = answer.headers().get("grpc-status").cloned();
        let body = Limited::new(answer.into_body(), 4096).collect().await.map_err(|e| e.to_string())?;
        let status = early.or_else(|| body.trailers().and_then(|t| t.get("grpc-status").cloned()));
        let serving = body.to_bytes().get(5..).is_some_and(|b| b.starts_with(&[0x08, 0x01]));
        match status {
            Some(s) if s == "0" && serving => Ok(()),
            Some(s) if s == "0" => Err("service unhealthy (responded with \"NOT_SERVING\")".to_owned()),
            s => Err(format!("the health service answered with status {s:?}")),
        }
    }
    .await;
    driver.abort();
    answer
}

/// A connection to a program, and who drives it.
pub(crate) struct Line {
    address: SocketAddr,
    sender: SendRequest<Empty<Bytes>>,
    driver: AbortHandle,
}

impl Drop for Line {
    fn drop(&mut self) {
        self.driver.abort();
    }
}

impl Line {
    /// Certificates of pods are not checked by probes.
    async fn to(address: SocketAddr, tls: bool) -> Result<Line, String> {
        let stream = ek_server::connect_loopback(address, tls).await.map_err(|e| format!("dial tcp: {e}"))?;
        let (sender, connection) =
            hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.map_err(|e| e.to_string())?;
        Ok(Line { address, sender, driver: tokio::spawn(connection).abort_handle() })
    }

    /// The status of the answer, and whether another can follow it.
    async fn ask(&mut self, get: &Value) -> Result<(u16, bool), String> {
        let path = format!("/{}", get["path"].as_str().unwrap_or_default().trim_start_matches('/'));
        let mut request = http::Request::get(path)
            .header(http::header::HOST, self.address.to_string())
            .header(http::header::USER_AGENT, "kube-probe/1.34");
        for h in get["httpHeaders"].as_array().into_iter().flatten() {
            if let (Some(k), Some(v)) = (h["name"].as_str(), h["value"].as_str()) {
                request = request.header(k, v);
            }
        }
        let request = request.body(Empty::new()).map_err(|e| e.to_string())?;
        self.sender.ready().await.map_err(|e| e.to_string())?;
        let answer = self.sender.send_request(request).await.map_err(|e| e.to_string())?;
        let code = answer.status().as_u16();
        let read = Limited::new(answer.into_body(), 64 << 10).collect().await;
        Ok((code, read.is_ok()))
    }
}

fn is_tls(get: &Value) -> bool {
    get["scheme"].as_str().is_some_and(|s| s.eq_ignore_ascii_case("HTTPS"))
}

/// How often a container is looked at over TLS in a minute, once it has started.
fn looks(container: &Value) -> u64 {
    let probes = ["readinessProbe", "livenessProbe"].map(|role| &container[role]);
    let frequent = probes.iter().filter(|p| is_tls(&p["httpGet"]));
    frequent.map(|p| 60 / p["periodSeconds"].as_u64().unwrap_or(10).max(1)).sum()
}

/// `kept` is where a connection is kept for the next look. Who finds it in use makes another, and one of both is kept.
async fn http(address: SocketAddr, get: &Value, kept: Option<&Mutex<Option<Line>>>) -> Result<(), String> {
    let before = kept.and_then(|k| k.lock().take()).filter(|l| l.address == address);
    let mut asked = None;
    if let Some(mut line) = before {
        // One that was closed meanwhile says nothing of the program.
        asked = line.ask(get).await.ok().map(|said| (line, said));
    }
    let (line, (code, whole)) = match asked {
        Some(asked) => asked,
        None => {
            let mut line = Line::to(address, is_tls(get)).await?;
            let said = line.ask(get).await?;
            (line, said)
        }
    };
    if let Some(kept) = kept.filter(|_| whole) {
        *kept.lock() = Some(line);
    }
    if (200..400).contains(&code) {
        Ok(())
    } else {
        Err(format!("HTTP probe failed with statuscode: {code}"))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use serde_json::json;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    /// A connection that was closed in between is not the program's fault, and one that was not is used again.
    #[tokio::test]
    async fn frequent_looks_share_a_connection() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let accepted = Arc::new(AtomicUsize::new(0));
        let count = accepted.clone();
        let server = tokio::spawn(async move {
            loop {
                let (mut tcp, _) = listener.accept().await.unwrap();
                count.fetch_add(1, Ordering::SeqCst);
                // Three answers each, and then it hangs up.
                for code in [200, 503, 200] {
                    let mut request = [0; 1024];
                    if tcp.read(&mut request).await.unwrap_or(0) == 0 {
                        break;
                    }
                    let answer = format!("HTTP/1.1 {code} X\r\ncontent-length: 2\r\n\r\nok");
                    tcp.write_all(answer.as_bytes()).await.unwrap();
                }
            }
        });
        let (get, line) = (json!({"path": "healthz"}), Mutex::new(None));
        let mut seen = Vec::new();
        for _ in 0..6 {
            seen.push(http(address, &get, Some(&line)).await.is_ok());
        }
        assert_eq!(seen, [true, false, true, true, false, true]);
        assert_eq!(accepted.load(Ordering::SeqCst), 2);
        let looks = |liveness: u64| {
            let every = |s: u64| json!({"httpGet": {"scheme": "HTTPS"}, "periodSeconds": s});
            looks(&json!({"readinessProbe": every(10), "livenessProbe": every(liveness)})) >= FREQUENT
        };
        assert!(looks(10) && !looks(60), "two probes make a frequent one");
        // Without a place to keep it, each look has its own.
        for _ in 0..2 {
            http(address, &get, None).await.unwrap();
        }
        assert_eq!(accepted.load(Ordering::SeqCst), 4);
        server.abort();
    }
}
