//! A cluster, a directory, and a place between them that can be cut off.

use clock::ManualClock;
use ek_server::{ApiServer, Config, Listening};
use futures::future::BoxFuture;
use parking_lot::Mutex;
use sidecars::{Place, Timing};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use testkit::world::TestWorld;
use tokio_util::sync::CancellationToken;

/// Long enough for a loaded machine; no test waits for it to pass.
pub const DEADLINE: Duration = Duration::from_secs(60);

pub struct World {
    pub server: ApiServer,
    pub clock: Arc<ManualClock>,
    pub dir: tempfile::TempDir,
    pub place: Arc<Here>,
    pub timing: Timing,
    pub stop: CancellationToken,
    _listening: Listening,
}

/// Paths lie below a directory; the name `kube-apiserver` leads to the server, as long as it is not cut off.
pub struct Here {
    root: PathBuf,
    pub at: Mutex<Option<SocketAddr>>,
    client: kube::Client,
    pub lines: Mutex<Vec<String>>,
}

impl Place for Here {
    fn path(&self, path: &str) -> Option<PathBuf> {
        Some(self.root.join(path.trim_start_matches('/')))
    }

    fn route(&self, host: &str, port: u16) -> Result<Option<SocketAddr>, String> {
        assert_eq!((host, port), ("kube-apiserver", 6443));
        self.at.lock().map(Some).ok_or_else(|| "no ready endpoint".to_owned())
    }

    fn here(&self) -> BoxFuture<'_, Result<kube::Client, String>> {
        let client = self.client.clone();
        Box::pin(async move { Ok(client) })
    }

    fn say(&self, line: &str) {
        self.lines.lock().push(line.to_owned());
    }
}

impl World {
    pub async fn start() -> World {
        let test = TestWorld::new(5);
        let config = Config {
            clock: test.shared_clock(),
            random: test.random.clone(),
            names: vec!["kube-apiserver".into()],
            issuer_url: "https://issuer.example.test/demo".into(),
            ..Config::memory()
        };
        let server = ApiServer::start(config).await.unwrap();
        let listening = server.listen("127.0.0.1:0".parse().unwrap()).await.unwrap();
        let dir = tempfile::tempdir().unwrap();
        let kubeconfig = server.kubeconfig("https://kube-apiserver:6443").unwrap();
        let path = dir.path().join("etc/kubernetes");
        std::fs::create_dir_all(&path).unwrap();
        std::fs::write(path.join("kubeconfig"), kubeconfig.to_string()).unwrap();
        let place = Here {
            root: dir.path().to_owned(),
            at: Mutex::new(Some(listening.address)),
            client: server.client(),
            lines: Mutex::default(),
        };
        World {
            timing: Timing {
                clock: test.shared_clock(),
                random: test.random,
                look: Duration::from_millis(2),
            },
            clock: test.clock,
            server,
            dir,
            place: Arc::new(place),
            stop: CancellationToken::new(),
            _listening: listening,
        }
    }

    pub fn path(&self, path: &str) -> PathBuf {
        self.dir.path().join(path.trim_start_matches('/'))
    }

    pub fn advance(&self, seconds: i64) {
        self.clock.advance(jiff::SignedDuration::from_secs(seconds));
    }

    pub fn said(&self, words: &str) -> bool {
        self.place.lines.lock().iter().any(|l| l.contains(words))
    }

    pub async fn until(&self, what: &str, so: impl Fn() -> bool) {
        let wait = async {
            while !so() {
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        };
        if tokio::time::timeout(DEADLINE, wait).await.is_err() {
            panic!("never: {what}\n{:#?}", self.place.lines.lock());
        }
    }
}

pub fn words(list: &[&str]) -> Vec<String> {
    list.iter().map(|w| (*w).to_owned()).collect()
}
