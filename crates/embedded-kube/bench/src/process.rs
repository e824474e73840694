//! Servers under test: started in an empty directory, ended by pid when dropped.

use crate::client::Access;
use anyhow::{Context, bail};
use ek_auth::pki::Authority;
use jiff::SignedDuration;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

pub struct Server {
    pub name: &'static str,
    pub access: Access,
    pub start: Duration,
    children: Vec<Child>,
    _dir: TempDir,
}

impl Drop for Server {
    fn drop(&mut self) {
        for c in self.children.iter_mut().rev() {
            let _ = c.kill();
            let _ = c.wait();
        }
    }
}

impl Server {
    /// CPU time of all processes, in seconds.
    pub fn cpu(&self) -> f64 {
        self.children.iter().map(|c| cpu(c.id())).sum()
    }

    /// Resident memory of all processes, in bytes.
    pub fn memory(&self) -> u64 {
        self.children.iter().map(|c| memory(c.id())).sum()
    }
}

/// Time on CPU of every thread of a process, from the scheduler's own nanosecond count.
fn cpu(pid: u32) -> f64 {
    let Ok(tasks) = std::fs::read_dir(format!("/proc/{pid}/task")) else { return 0.0 };
    let ns: u64 = tasks
        .filter_map(|t| std::fs::read_to_string(t.ok()?.path().join("schedstat")).ok())
        .filter_map(|s| s.split_whitespace().next()?.parse::<u64>().ok())
        .sum();
    ns as f64 / 1e9
}

fn memory(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status.lines().find(|l| l.starts_with("VmRSS:")).unwrap_or_default();
    line.split_whitespace().nth(1).and_then(|k| k.parse::<u64>().ok()).unwrap_or(0) * 1024
}

pub async fn zaffre(binary: &Path) -> anyhow::Result<Server> {
    let dir = tempfile::tempdir()?;
    let kubeconfig = dir.path().join("kubeconfig");
    let started = Instant::now();
    let mut child = Command::new(binary)
        .args(["serve", "kube", "--listen", "127.0.0.1:0", "--data-dir"])
        .arg(dir.path().join("data"))
        .arg("--kubeconfig-out")
        .arg(&kubeconfig)
        .stdout(Stdio::piped())
        .spawn()
        .with_context(|| format!("cannot start {}: build it with cargo build --release", binary.display()))?;
    let stdout = child.stdout.take().context("no stdout")?;
    let line = tokio::task::spawn_blocking(move || {
        use std::io::BufRead;
        let mut line = String::new();
        std::io::BufReader::new(stdout).read_line(&mut line).map(|_| line)
    })
    .await??;
    if !line.starts_with("ready ") {
        bail!("the server did not become ready: {line:?}");
    }
    let start = started.elapsed();
    let access = Access::from_kubeconfig(&kubeconfig)?;
    Ok(Server { name: "zaffre", access, start, children: vec![child], _dir: dir })
}

/// A real kube-apiserver and its etcd, with certificates made for the occasion.
pub async fn kubernetes(api: &Path, etcd: &Path) -> anyhow::Result<Server> {
    let dir = tempfile::tempdir()?;
    let at = |n: &str| dir.path().join(n);
    let free =
        || -> anyhow::Result<u16> { Ok(std::net::TcpListener::bind("127.0.0.1:0")?.local_addr()?.port()) };
    let (client_port, peer_port, api_port) = (free()?, free()?, free()?);
    let now = clock::system().now();
    let ca = Authority::generate("bench", now)?;
    let local = ["127.0.0.1".parse()?];
    let serving = ca.issue_server(&["localhost".into()], &local, now)?;
    let admin = ca.issue_client("admin", ek_auth::MASTERS, now, SignedDuration::from_hours(24))?;
    for (name, text) in
        [("ca.crt", ca.cert_pem()), ("tls.crt", &serving.cert_pem), ("tls.key", serving.key_pem.expose())]
    {
        std::fs::write(at(name), text)?;
    }
    let started = Instant::now();
    let etcd_child = Command::new(etcd)
        .arg("--data-dir")
        .arg(at("etcd"))
        .arg(format!("--listen-client-urls=http://127.0.0.1:{client_port}"))
        .arg(format!("--advertise-client-urls=http://127.0.0.1:{client_port}"))
        .arg(format!("--listen-peer-urls=http://127.0.0.1:{peer_port}"))
        .arg(format!("--initial-advertise-peer-urls=http://127.0.0.1:{peer_port}"))
        .arg(format!("--initial-cluster=default=http://127.0.0.1:{peer_port}"))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .with_context(|| format!("cannot start {}", etcd.display()))?;
    let flag = |name: &str, file: &str| format!("--{name}={}", at(file).display());
    let api_child = Command::new(api)
        .arg(format!("--etcd-servers=http://127.0.0.1:{client_port}"))
        .arg(format!("--secure-port={api_port}"))
        .args([
            "--bind-address=127.0.0.1",
            "--authorization-mode=RBAC",
            "--service-cluster-ip-range=10.96.0.0/16",
        ])
        .args([
            "--service-account-issuer=https://kubernetes.default.svc",
            "--enable-priority-and-fairness=false",
        ])
        .arg(flag("client-ca-file", "ca.crt"))
        .arg(flag("tls-cert-file", "tls.crt"))
        .arg(flag("tls-private-key-file", "tls.key"))
        // Any key pair will do for tokens nobody asks for; public keys are read from certificates.
        .arg(flag("service-account-key-file", "tls.crt"))
        .arg(flag("service-account-signing-key-file", "tls.key"))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .with_context(|| format!("cannot start {}", api.display()))?;
    let access = Access::new(
        ([127, 0, 0, 1], api_port).into(),
        ca.cert_pem(),
        &admin.cert_pem,
        admin.key_pem.expose(),
    )?;
    let mut server = Server {
        name: "kube-apiserver + etcd",
        access,
        start: Duration::ZERO,
        children: vec![etcd_child, api_child],
        _dir: dir,
    };
    // Readiness has no event on this side: ask until it says ok.
    let deadline = Instant::now() + Duration::from_secs(60);
    let mut tick = tokio::time::interval(Duration::from_millis(20));
    loop {
        tick.tick().await;
        if let Ok(mut c) = server.access.connect().await
            && c.get("/readyz").await.is_ok_and(|(code, _)| code == 200)
        {
            break;
        }
        for c in &mut server.children {
            if let Some(status) = c.try_wait()? {
                bail!("etcd or kube-apiserver ended with {status} before it was ready");
            }
        }
        if Instant::now() > deadline {
            bail!("kube-apiserver was not ready after 60 s");
        }
    }
    server.start = started.elapsed();
    Ok(server)
}
